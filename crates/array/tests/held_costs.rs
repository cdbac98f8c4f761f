//! What a held message costs on the wire and in both stores. Run with `--nocapture` for the
//! figures; the limits are far above them.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use gauntlet_array::schema;
use gauntlet_store::QuarantineItem;

use crate::held::{Array, HeldNode, item};
use crate::logs::database;
use crate::s3::{objects, relay};

/// Passes connections on to a port. Returns the port of it, and the bytes passed, both ways.
pub(crate) fn counter(to: u16) -> (u16, Arc<AtomicU64>) {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    let passed = Arc::new(AtomicU64::new(0));
    let shared = passed.clone();
    std::thread::spawn(move || {
        for client in listener.incoming().flatten() {
            let server = TcpStream::connect(("127.0.0.1", to)).unwrap();
            let ways = [(client.try_clone(), server.try_clone()), (Ok(server), Ok(client))];
            for (from, to) in ways {
                let passed = shared.clone();
                std::thread::spawn(move || copy(from.unwrap(), to.unwrap(), &passed));
            }
        }
    });
    (port, passed)
}

fn copy(mut from: TcpStream, mut to: TcpStream, passed: &AtomicU64) {
    let mut buffer = [0; 65536];
    while let Ok(count) = from.read(&mut buffer)
        && count > 0
        && to.write_all(&buffer[..count]).is_ok()
    {
        passed.fetch_add(count as u64, Ordering::Relaxed);
    }
    let _it_may_be_closed = to.shutdown(std::net::Shutdown::Write);
}

/// Messages as they come: the samples, each a little different each time.
fn samples() -> Vec<Vec<u8>> {
    let mut found = Vec::new();
    let mut folders = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("../../samples")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap().flatten() {
            match entry.path() {
                path if path.is_dir() => folders.push(path),
                path if path.extension().is_some_and(|e| e == "eml") => found.push(path),
                _ => {}
            }
        }
    }
    found.sort();
    found.iter().map(|path| std::fs::read(path).unwrap()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_held_message_costs_little() {
    let Some(array) = Array::start(&["fsync=off"]) else { return };
    let (port, wire) = counter(array.server.port);
    let uri = format!("postgres://keeper@127.0.0.1:{port}/postgres?sslmode=disable");
    let session = schema::session(&database(&uri)).await.unwrap();
    let (s3_port, faults) = relay(array.s3.port);
    let behind = objects(s3_port);
    let node = HeldNode::join("one", &session, false).await;
    let samples = samples();
    let mut received = 0;
    let before = wire.load(Ordering::Relaxed);
    for (batch, first) in (0..5).zip((0..).step_by(200)) {
        for n in first..first + 200 {
            let mut bytes = samples[usize::try_from(n).unwrap() % samples.len()].clone();
            bytes.extend_from_slice(format!("\r\n{n}\r\n").as_bytes());
            received += bytes.len();
            let recipients = vec![format!("someone.{n}@department.example.com")];
            let held = QuarantineItem { recipients, ..item("one", n) };
            node.quarantine.put(&held, &bytes).unwrap();
        }
        let shipped = node.ship(&session, &behind).await.unwrap();
        assert_eq!(shipped.items, 200, "batch {batch}");
    }
    let wire_new = (wire.load(Ordering::Relaxed) - before) / 1000;
    let requests = faults.seen.lock().unwrap().len();
    assert_eq!(requests, 5, "one request an object");
    let before = wire.load(Ordering::Relaxed);
    for n in 0..1000 {
        node.quarantine.delete(&format!("one-{n}-q"), "ada", 5).unwrap();
    }
    array.server.sql("VACUUM FULL gauntlet.held");
    let table = "SELECT pg_total_relation_size('gauntlet.held') / 1000";
    let disk: u64 = array.server.sql(table).parse().unwrap();
    node.ship(&session, &behind).await.unwrap();
    let wire_changed = (wire.load(Ordering::Relaxed) - before) / 1000;
    let stored: u64 =
        array.s3.files().iter().map(|file| std::fs::metadata(file).unwrap().len()).sum();
    eprintln!(
        "a held message: {wire_new} bytes to and from the database, {disk} bytes in it with \
         indexes, {wire_changed} bytes of wire for a later change; {} bytes as received, {} in the \
         object store; {requests} requests for 1000 messages in 5 batches",
        received / 1000,
        stored / 1000
    );
    assert!(wire_new < 1_500 && wire_changed < 400 && disk < 3_000);
}
