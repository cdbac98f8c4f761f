//! Pages of the shared log: what is read in parts is what is there.

use std::sync::Arc;

use gauntlet_array::pack::{Decoder, Unpacked, start_bytes};
use gauntlet_array::{Session, SharedLog, schema};
use gauntlet_mail::date::HOUR_MS;
use gauntlet_store::log::{Query, Summary};
use gauntlet_verdict::Class;

use crate::logs::{DAY, Node, database, delivered, record};
use crate::postgres::Server;
use crate::shared_log::{all, ask};

/// Messages of each node, two packs an hour.
const MESSAGES: i64 = 2_000;

/// Text that compresses badly: the body of a pack is longer than what is read of it at first.
fn noise(n: i64) -> String {
    (0..6).map(|k| blake3::hash(format!("{n} {k}").as_bytes()).to_hex().to_string()).collect()
}

/// Two nodes with large packs, some messages of which changed after they were shipped.
async fn two_nodes(session: &Session) -> [Node; 2] {
    let nodes = [Node::join("one", session).await, Node::join("two", session).await];
    for node in &nodes {
        let name = node.identity.name.clone();
        let mut records: Vec<_> = (0..MESSAGES)
            .map(|n| {
                let mut record = record(&name, n, DAY + n * 60_000);
                let (some, rare) = (n % 5, n % 97);
                record.subject = format!("often{some} rarely{rare} number{n}");
                record.verdict.score = (n % 11) as f64;
                record.stages = vec![gauntlet_store::record::Stage {
                    name: "received".to_owned(),
                    at_us: 1,
                    detail: noise(n),
                }];
                record
            })
            .collect();
        node.log.append(records.clone()).unwrap();
        node.ship(session).await.unwrap();
        let late = records.drain(..).step_by(40).map(|r| delivered(r, DAY + 9_000_000));
        node.log.append(late.collect()).unwrap();
        node.ship(session).await.unwrap();
    }
    nodes
}

fn queries() -> Vec<Query> {
    let query = |set: fn(&mut Query)| {
        let mut query = Query { limit: 30, ..Query::default() };
        set(&mut query);
        query
    };
    vec![
        query(|_| {}),
        query(|q| q.subject = "often3".to_owned()),
        query(|q| q.subject = "often3 rarely17".to_owned()),
        query(|q| q.subject = "rarely17".to_owned()),
        query(|q| q.subject = "number1777".to_owned()),
        query(|q| (q.subject, q.score_min) = ("often1".to_owned(), Some(9.0))),
        query(|q| (q.subject, q.score_min) = ("rarely5".to_owned(), Some(7.0))),
        query(|q| q.subject = "often2 rare*".to_owned()),
        query(|q| q.outcome = "delivered".to_owned()),
        query(|q| (q.domain, q.classes) = ("two.example".to_owned(), vec![Class::Spam])),
        query(|q| {
            (q.subject, q.since_ms) = ("often4".to_owned(), Some(DAY + 3 * HOUR_MS));
            q.until_ms = Some(DAY + 5 * HOUR_MS);
        }),
    ]
}

/// What all nodes have by themselves, newest first.
fn expected(nodes: &[Node], query: &Query) -> Vec<Summary> {
    let mut expected = Vec::new();
    for node in nodes {
        for mut message in all(&*node.log, query.clone()) {
            message.node = node.identity.name.clone();
            expected.push(message);
        }
    }
    expected.sort_by_key(|m| std::cmp::Reverse((m.cursor, m.node.clone())));
    expected
}

/// The body as programs made it before directories had a block of their own.
fn in_one_piece(body: &[u8]) -> Vec<u8> {
    let length = zstd_safe::get_frame_content_size(&body[1..]).unwrap().unwrap();
    let mut plain = Vec::with_capacity(length as usize);
    zstd_safe::decompress(&mut plain, &body[1..]).unwrap();
    let mut older = Vec::with_capacity(zstd_safe::compress_bound(plain.len()));
    zstd_safe::compress(&mut older, &plain, 9).unwrap();
    older.insert(0, body[0]);
    older
}

#[tokio::test(flavor = "multi_thread")]
async fn packs_that_are_read_in_parts_give_all_that_is_in_them() {
    let Some(server) = Server::start(&["fsync=off"]) else { return };
    let database = database(&server.uri());
    let session = schema::session(&database).await.unwrap();
    let nodes = two_nodes(&session).await;
    let shared = Arc::new(SharedLog::new(database, tokio::runtime::Handle::current()));
    for is_older in [false, true] {
        let rows = session.rows("reading", "SELECT number, body FROM log_pack", &[]).await.unwrap();
        let mut cut = 0;
        for row in &rows {
            let (number, body): (i64, Vec<u8>) = (row.get(0), row.get(1));
            cut += usize::from(body.len() > 16_384);
            if is_older {
                let sql = "UPDATE log_pack SET body = $2 WHERE number = $1";
                session.execute("writing", sql, &[&number, &in_one_piece(&body)]).await.unwrap();
                continue;
            }
            let start = &body[..start_bytes(&body[..20]).unwrap()];
            let of_start = |start| Unpacked::of_start(start, Decoder::default()).unwrap();
            let (read, whole) = (of_start(start), Unpacked::new(&body).unwrap());
            assert_eq!(read.unwrap().find(&[], &[]), whole.find(&[], &[]));
            assert!(of_start(&start[..start.len() - 1]).is_none());
        }
        assert!(cut >= 8, "{cut} large packs of {}", rows.len());
        for query in queries() {
            let asked = query.clone();
            let found = ask(&shared, move |log| all(log, asked)).await;
            assert_eq!(found, expected(&nodes, &query), "{query:?}, older packs: {is_older}");
        }
    }
}
