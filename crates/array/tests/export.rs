//! Days of the shared log as Parquet files, read by others.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use gauntlet_array::export::{ExportOptions, Exported, days, export_day};
use gauntlet_array::{
    Database, DatabaseAddress, DatabaseOptions, DatabaseTls, Objects, ObjectsAddress,
    ObjectsOptions, Session, SharedLog, schema,
};
use gauntlet_mail::date::DAY_MS;
use gauntlet_store::log::{MessageLog, Query};
use gauntlet_store::record::Event;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::RowAccessor;

use crate::duckdb;
use crate::logs::{DAY, Node, database, delivered, record, tls};
use crate::postgres::Server;

/// Files of a few rows in groups of fewer.
const SMALL: ExportOptions = ExportOptions { rows_per_file: 300, rows_per_group: 70 };

fn objects(folder: &Path) -> Objects {
    let address = ObjectsAddress::parse(&format!("file://{}", folder.display())).unwrap();
    let tls = DatabaseTls { any: tls(), verified: None };
    Objects::new(&address, &tls, ObjectsOptions::default()).unwrap()
}

/// Two nodes with 400 messages of one day each, one of which is delivered after all were shipped.
async fn two_nodes(session: &Session) -> [Node; 2] {
    let nodes = [Node::join("one", session).await, Node::join("two", session).await];
    for (at, node) in nodes.iter().enumerate() {
        let name = node.identity.name.clone();
        let at = at as i64;
        let records = (0..400).map(|n| record(&name, n, DAY + n * 100_000 + at * (n % 2)));
        node.log.append(records.collect()).unwrap();
        node.ship(session).await.unwrap();
    }
    let late = delivered(record("one", 7, DAY + 700_000), DAY + 5_000_000);
    let id = late.id.clone();
    nodes[0].log.append(vec![late]).unwrap();
    let event = Event {
        id,
        received_ms: DAY + 700_000,
        at_ms: DAY + 6_000_000,
        kind: "released".to_owned(),
        recipient: "Grüße@one.example".to_owned(),
        detail: "by ann".to_owned(),
    };
    nodes[0].log.append_events(vec![event]).unwrap();
    nodes[0].ship(session).await.unwrap();
    nodes
}

/// The files of the day, in order.
fn files(folder: &Path) -> Vec<PathBuf> {
    let days = std::fs::read_dir(folder.join("messages")).unwrap();
    let files = days.flat_map(|day| std::fs::read_dir(day.unwrap().path()).unwrap());
    let mut files: Vec<PathBuf> = files.map(|file| file.unwrap().path()).collect();
    files.sort();
    files
}

/// Time, node and id of each row of the files.
fn rows(files: &[PathBuf]) -> Vec<(i64, String, String)> {
    let mut found = Vec::new();
    for path in files {
        let reader = SerializedFileReader::new(std::fs::File::open(path).unwrap()).unwrap();
        assert!(reader.metadata().num_row_groups() >= 1);
        for row in reader.get_row_iter(None).unwrap() {
            let row = row.unwrap();
            let text = |at: usize| row.get_string(at).unwrap().clone();
            found.push((row.get_timestamp_millis(2).unwrap(), text(1), text(0)));
        }
    }
    found
}

#[tokio::test(flavor = "multi_thread")]
async fn a_day_is_exported_each_message_once_as_it_is_now() {
    let Some(server) = Server::start(&["fsync=off"]) else { return };
    let session = schema::session(&database(&server.uri())).await.unwrap();
    let _nodes = two_nodes(&session).await;
    let folder = tempfile::tempdir().unwrap();
    let store = objects(folder.path());
    let day = DAY / DAY_MS;
    assert_eq!(days(&session).await.unwrap(), [day]);
    let done = export_day(&session, &store, day, SMALL, |_| {}).await.unwrap();
    assert_eq!((done.messages, done.files), (800, 3));
    let found = files(folder.path());
    assert_eq!(found.len(), 3);
    assert!(found[0].ends_with("messages/day=2026-11-21/part-00000.parquet"), "{found:?}");
    let bytes: u64 = found.iter().map(|path| path.metadata().unwrap().len()).sum();
    assert_eq!(done.bytes, bytes);
    let rows_found = rows(&found);
    assert!(rows_found.is_sorted_by_key(|(at, ..)| *at), "in the order of reception");
    let ids: BTreeSet<_> = rows_found.iter().map(|(_, node, id)| (node, id)).collect();
    assert_eq!(ids.len(), 800, "each once");

    // Fewer files the next time: none of the earlier ones is left. A day without messages is none.
    let done = export_day(&session, &store, day, ExportOptions::default(), |_| {}).await.unwrap();
    assert_eq!((done.messages, done.files), (800, 1));
    let again = files(folder.path());
    assert_eq!((again.len(), rows(&again)), (1, rows_found));
    let nothing = export_day(&session, &store, day + 1, SMALL, |_| {}).await.unwrap();
    assert_eq!(nothing, Exported::default());
}

#[tokio::test(flavor = "multi_thread")]
async fn duckdb_reads_what_was_exported() {
    let (Some(server), Some(python)) = (Server::start(&["fsync=off"]), duckdb::python()) else {
        return;
    };
    let session = schema::session(&database(&server.uri())).await.unwrap();
    let _nodes = two_nodes(&session).await;
    let folder = tempfile::tempdir().unwrap();
    let store = objects(folder.path());
    export_day(&session, &store, DAY / DAY_MS, SMALL, |_| {}).await.unwrap();
    let ask = |sql: &str| duckdb::ask(&python, folder.path(), sql);
    let by_node =
        ask("SELECT day::VARCHAR, node, count(*) FROM messages GROUP BY ALL ORDER BY ALL");
    assert_eq!(by_node, r#"[["2026-11-21", "one", 400], ["2026-11-21", "two", 400]]"#);
    let changed =
        ask("SELECT deliveries[1].outcome, epoch_ms(deliveries[1].at), events[1].recipient, \
         len(hits), decisions[1].action FROM messages WHERE len(events) > 0");
    let at = DAY + 5_000_000;
    let expected = format!(r#"[["delivered", {at}, "Gr\u00fc\u00dfe@one.example", "#);
    assert!(changed.starts_with(&expected), "{changed}");
    let waiting =
        ask("SELECT count(*) FROM messages WHERE len(deliveries) = 0 OR deliveries[1].at IS NULL");
    assert_eq!(waiting, "[[799]]");
}

#[tokio::test(flavor = "multi_thread")]
async fn searches_ask_a_replica_first_and_the_database_when_it_is_away() {
    let Some(server) = Server::start(&["fsync=off"]) else { return };
    let session = schema::session(&database(&server.uri())).await.unwrap();
    let _nodes = two_nodes(&session).await;
    let at = |uri: &str| {
        let tls = DatabaseTls { any: tls(), verified: None };
        Database::to_read(DatabaseAddress::parse(uri).unwrap(), tls, DatabaseOptions::default())
    };
    // As a replica says it.
    let read_only = format!("{}&options=-c%20default_transaction_read_only%3Don", server.uri());
    let writes = database(&read_only).connect().await.err().map(|error| error.to_string());
    assert!(writes.is_some(), "who writes looks for another server");
    let away = "postgres://keeper@127.0.0.1:1/postgres?sslmode=disable";
    for replica in [read_only.as_str(), away] {
        let shared = SharedLog::new(database(&server.uri()), tokio::runtime::Handle::current());
        let shared = Arc::new(shared.with_replica(at(replica)));
        let asked = shared.clone();
        let page = tokio::task::spawn_blocking(move || asked.search(&Query::default()));
        assert!(!page.await.unwrap().unwrap().messages.is_empty(), "{replica}");
    }
}
