//! What happens to the object store, and to the database in the middle of a batch: held mail waits
//! on its node, and is neither lost nor doubled.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use gauntlet_array::{
    ArrayError, DatabaseTls, Objects, ObjectsAddress, ObjectsOptions, Session, held_sweep, schema,
};
use gauntlet_store::StoreError;
use gauntlet_store::quarantine::{HeldBacklog, HeldQuery};
use tokio_rustls::rustls;

use crate::held::{Array, HeldNode, all, ask, bare, body};
use crate::logs::{DAY, tls, tls_trusting};
use crate::s3::{S3, SECRET, objects, objects_with, relay};

const LONG: Duration = Duration::from_secs(60);

/// The array has each item of the node once, as the node has it, and its body.
async fn nothing_is_lost_or_doubled(array: &Array, node: &HeldNode) {
    let query = || HeldQuery { limit: 500, ..HeldQuery::default() };
    let shared = array.reader(None);
    let found = ask(&shared, move |held| {
        let items = all(held, query());
        items.into_iter().map(|h| (held.body(&h.item.id).unwrap(), bare(h))).collect::<Vec<_>>()
    });
    let own = all(&*node.quarantine, query());
    let body = |id: &str| node.quarantine.body(id).unwrap();
    let own: Vec<_> = own.into_iter().map(|h| (body(&h.item.id), bare(h))).collect();
    assert!(found.await == own);
    assert_eq!(node.quarantine.backlog().unwrap(), HeldBacklog::default());
}

async fn start(held: std::ops::Range<i64>) -> Option<(Array, Session, HeldNode)> {
    let array = Array::start(&["fsync=off"])?;
    let session = schema::session(&array.database).await.unwrap();
    let node = HeldNode::join("one", &session, false).await;
    node.quarantine.begin_feed().unwrap();
    node.hold(held);
    Some((array, session, node))
}

#[tokio::test(flavor = "multi_thread")]
async fn while_the_object_store_is_away_held_mail_waits_and_is_counted() {
    let Some((mut array, session, node)) = start(0..5).await else { return };
    array.s3.kill();
    for round in 1..=3 {
        let error = node.ship(&session, &array.objects).await.unwrap_err();
        assert!(matches!(error, ArrayError::Objects { .. }), "{error}");
        assert!(error.to_string().contains("127.0.0.1"), "{error}");
        assert!(!error.to_string().contains("s3cr"), "{error}");
        node.hold(round * 5..(round + 1) * 5);
        let waiting = node.quarantine.backlog().unwrap();
        let changes = 5 * (round.unsigned_abs() + 1);
        assert_eq!(waiting, HeldBacklog { changes, oldest_ms: Some(DAY) });
    }
    assert_eq!(array.server.sql("SELECT count(*) FROM gauntlet.held"), "0");
    array.s3.restart();
    node.ship(&session, &array.objects).await.unwrap();
    nothing_is_lost_or_doubled(&array, &node).await;
    // What was announced in vain goes a day later.
    let sweep = || held_sweep::sweep(&session, &array.objects, 100);
    assert_eq!(sweep().await.unwrap().objects, 0);
    array.server.sql("UPDATE gauntlet.held_object SET made = made - interval '2 days'");
    assert_eq!(sweep().await.unwrap().objects, 3);
    // A manager without the object store lists, and says why it does not read.
    array.s3.kill();
    let shared = array.reader(None);
    assert_eq!(ask(&shared, |held| all(held, HeldQuery::default())).await.len(), 20);
    let error = ask(&shared, |held| held.body("one-3-q")).await.unwrap_err();
    assert!(matches!(error, StoreError::Remote { retry: true, .. }), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_object_store_that_answers_503_is_asked_again() {
    let Some((array, session, node)) = start(0..5).await else { return };
    let (port, faults) = relay(array.s3.port);
    let behind = objects(port);
    faults.unavailable.store(2, Ordering::Relaxed);
    node.ship(&session, &behind).await.unwrap();
    assert_eq!(faults.seen.lock().unwrap().len(), 3, "one request, and twice again");
    nothing_is_lost_or_doubled(&array, &node).await;
    // It goes on: an error in time, and the mail waits.
    node.hold(5..10);
    faults.unavailable.store(usize::MAX, Ordering::Relaxed);
    let error = node.ship(&session, &behind).await.unwrap_err();
    assert!(matches!(error, ArrayError::Objects { .. }), "{error}");
    assert!(error.to_string().contains("SlowDown: Please reduce"), "{error}");
    faults.unavailable.store(0, Ordering::Relaxed);
    node.ship(&session, &behind).await.unwrap();
    nothing_is_lost_or_doubled(&array, &node).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slow_object_store_is_an_error_in_time() {
    let Some((array, session, node)) = start(0..5).await else { return };
    let (port, faults) = relay(array.s3.port);
    let impatient = objects_with(port, "mail", SECRET, Duration::from_millis(200));
    faults.delay_ms.store(3_600_000, Ordering::Relaxed);
    let error = node.ship(&session, &impatient).await.unwrap_err();
    assert!(matches!(error, ArrayError::Objects { .. }), "{error}");
    assert!(error.to_string().contains("no answer in"), "{error}");
    assert_eq!(node.quarantine.backlog().unwrap().changes, 5);
    // Slow, but within its time.
    faults.delay_ms.store(300, Ordering::Relaxed);
    node.ship(&session, &objects(port)).await.unwrap();
    nothing_is_lost_or_doubled(&array, &node).await;
    // Connections that end at once.
    node.hold(5..6);
    faults.closed.store(true, Ordering::Relaxed);
    let error = node.ship(&session, &objects(port)).await.unwrap_err();
    assert!(matches!(error, ArrayError::Objects { .. }), "{error}");
    faults.closed.store(false, Ordering::Relaxed);
    node.ship(&session, &objects(port)).await.unwrap();
    nothing_is_lost_or_doubled(&array, &node).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_credentials_and_buckets_are_told_apart() {
    let Some((array, session, node)) = start(0..1).await else { return };
    let port = array.s3.port;
    let with = |objects: Objects| {
        let (node, session) = (&node, &session);
        async move { node.ship(session, &objects).await.unwrap_err() }
    };
    let error = with(objects_with(port, "mail", "geheim", LONG)).await;
    assert!(matches!(error, ArrayError::ObjectsLogin { .. }), "{error}");
    let text = error.to_string();
    assert!(text.contains("SignatureDoesNotMatch") && text.contains("array.objects"), "{text}");
    assert!(!text.contains("geheim"), "{text}");
    let error = with(objects_with(port, "nosuch", SECRET, LONG)).await;
    assert!(matches!(error, ArrayError::NoBucket { .. }), "{error}");
    node.ship(&session, &array.objects).await.unwrap();
    nothing_is_lost_or_doubled(&array, &node).await;
    // A read in a bucket that went is no message that went.
    let elsewhere = objects_with(port, "nosuch", SECRET, LONG);
    let error = elsewhere.get("held/x", 0, 5).await.unwrap_err();
    assert!(matches!(error, ArrayError::NoBucket { .. }), "{error}");
    assert_eq!(array.objects.get("held/x", 0, 5).await.unwrap(), None);
    array.objects.delete("held/x").await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_store_changed_is_not_taken_for_the_message() {
    let Some((mut array, session, node)) = start(0..3).await else { return };
    node.ship(&session, &array.objects).await.unwrap();
    let shared = array.reader(None);
    let file = array.s3.files().remove(0);
    let whole = std::fs::read(&file).unwrap();
    let mut wrong = whole.clone();
    let last = wrong.len() - 1;
    wrong[last] ^= 1;
    std::fs::write(&file, &wrong).unwrap();
    array.s3.restart();
    let error = ask(&shared, |held| held.body("one-2-q")).await.unwrap_err();
    assert!(matches!(error, StoreError::Remote { retry: false, .. }), "{error}");
    assert!(error.to_string().contains("other bytes than were stored"), "{error}");
    let read = ask(&shared, |held| held.body("one-1-q").unwrap()).await;
    assert_eq!(read, Some(body("one", 1)), "the others are whole");
    std::fs::write(&file, &whole[..whole.len() - 10]).unwrap();
    array.s3.restart();
    assert!(ask(&shared, |held| held.body("one-2-q")).await.is_err(), "cut short");
    std::fs::remove_file(&file).unwrap();
    array.s3.restart();
    let error = ask(&shared, |held| held.body("one-2-q")).await.unwrap_err();
    assert!(error.to_string().contains("the object is gone"), "{error}");
}

/// The object store behind TLS: its certificate is verified, and one of somebody else refused.
#[tokio::test(flavor = "multi_thread")]
async fn an_encrypted_object_store_is_verified() {
    let folder = tempfile::tempdir().unwrap();
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let (cert, key) = (folder.path().join("cert"), folder.path().join("key"));
    std::fs::write(&cert, made.cert.pem()).unwrap();
    std::fs::write(&key, made.signing_key.serialize_pem()).unwrap();
    let Some(s3) = S3::start_encrypted(&cert, &key) else { return };
    let mut roots = rustls::RootCertStore::empty();
    roots.add(made.cert.der().clone()).unwrap();
    let verified = tls_trusting(roots);
    let with = |any: &Arc<rustls::ClientConfig>, verified: &Arc<rustls::ClientConfig>, option| {
        let uri = format!("s3://KEYID:{SECRET}@localhost:{}/mail{option}", s3.port);
        let tls = DatabaseTls { any: any.clone(), verified: Some(verified.clone()) };
        let options = ObjectsOptions { retries_max: 0, ..ObjectsOptions::default() };
        Objects::new(&ObjectsAddress::parse(&uri).unwrap(), &tls, options).unwrap()
    };
    let trusted = with(&tls(), &verified, "");
    for n in 0..3 {
        trusted.put(&format!("a/{n}"), bytes::Bytes::from(vec![7; 300_000])).await.unwrap();
        let part = trusted.get(&format!("a/{n}"), 299_990, 10).await.unwrap().unwrap();
        assert_eq!(part, vec![7; 10]);
    }
    // `tls=require` goes by the other settings.
    let required = with(&verified, &tls(), "?tls=require");
    assert!(required.get("a/1", 0, 9).await.unwrap().is_some());
    let error = with(&verified, &tls(), "").get("a/1", 0, 9).await.unwrap_err().to_string();
    assert!(error.contains("certificate"), "{error}");
    let clear = with(&verified, &verified, "?tls=off").get("a/1", 0, 9).await.unwrap_err();
    assert!(matches!(clear, ArrayError::Objects { .. }), "{clear}");
}

/// The object is stored, the rows are not: the batch is sent again, and the first object removed.
#[tokio::test(flavor = "multi_thread")]
async fn a_database_that_is_killed_between_object_and_rows_loses_nothing() {
    let Some((mut array, session, node)) = start(0..5).await else { return };
    let (port, faults) = relay(array.s3.port);
    let behind = objects(port);
    faults.delay_ms.store(1_500, Ordering::Relaxed);
    let mut shipper = node.shipper();
    let id = node.id;
    let step = async move {
        let done = shipper.step(id, &session, &behind).await;
        drop(session);
        done
    };
    let step = tokio::spawn(step);
    // The object is on its way, so the database knows of it; now it goes.
    while faults.seen.lock().unwrap().is_empty() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    array.server.kill();
    let error = step.await.unwrap().unwrap_err();
    assert!(matches!(error, ArrayError::Unreachable { .. }), "{error}");
    assert_eq!(array.s3.files().len(), 1);
    assert_eq!(node.quarantine.backlog().unwrap().changes, 5);
    array.server.restart();
    let session = schema::session(&array.database).await.unwrap();
    assert_eq!(node.ship(&session, &array.objects).await.unwrap().bodies, 5);
    nothing_is_lost_or_doubled(&array, &node).await;
    assert_eq!(array.s3.files().len(), 2);
    array.server.sql("UPDATE gauntlet.held_object SET made = made - interval '2 days'");
    let swept = held_sweep::sweep(&session, &array.objects, 100).await.unwrap();
    assert_eq!(swept.objects, 1);
    assert_eq!(array.s3.files().len(), 1);
    nothing_is_lost_or_doubled(&array, &node).await;
}

/// Steps that end anywhere, and two that ship the same at once.
#[tokio::test(flavor = "multi_thread")]
async fn steps_that_are_cut_short_or_doubled_change_nothing() {
    let Some((array, session, node)) = start(0..5).await else { return };
    for round in 0..12_u32 {
        let first = 5 + 5 * i64::from(round);
        node.hold(first..first + 5);
        node.quarantine.delete(&format!("one-{first}-q"), "ada", DAY).unwrap();
        let session = schema::session(&array.database).await.unwrap();
        let part = Duration::from_millis(u64::from(round) * 3);
        let _cut_short = tokio::time::timeout(part, node.ship(&session, &array.objects)).await;
    }
    let other = schema::session(&array.database).await.unwrap();
    let (one, two) =
        tokio::join!(node.ship(&session, &array.objects), node.ship(&other, &array.objects));
    one.unwrap();
    two.unwrap();
    nothing_is_lost_or_doubled(&array, &node).await;
    // Once more as if nothing had been forgotten.
    node.quarantine.end_feed().unwrap();
    assert_eq!(node.ship(&session, &array.objects).await.unwrap().bodies, 0);
    nothing_is_lost_or_doubled(&array, &node).await;
    array.server.sql("UPDATE gauntlet.held_object SET made = made - interval '2 days'");
    held_sweep::sweep(&session, &array.objects, 1000).await.unwrap();
    nothing_is_lost_or_doubled(&array, &node).await;
    let named = "SELECT count(DISTINCT object) FROM gauntlet.held WHERE object IS NOT NULL";
    assert_eq!(array.server.sql(named), array.s3.files().len().to_string());
}

/// An object that was taken for an orphan while its node was still storing it.
#[tokio::test(flavor = "multi_thread")]
async fn rows_do_not_name_an_object_that_was_swept() {
    let Some((array, session, node)) = start(0..5).await else { return };
    let (port, faults) = relay(array.s3.port);
    let behind = objects(port);
    faults.delay_ms.store(1_500, Ordering::Relaxed);
    let other = schema::session(&array.database).await.unwrap();
    let shipping = node.ship(&session, &behind);
    let sweeping = async {
        while faults.seen.lock().unwrap().is_empty() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        faults.delay_ms.store(0, Ordering::Relaxed);
        other
            .execute("test", "UPDATE held_object SET made = made - interval '2 days'", &[])
            .await
            .unwrap();
        held_sweep::sweep(&other, &array.objects, 100).await.unwrap()
    };
    let (shipped, swept) = tokio::join!(shipping, sweeping);
    let error = shipped.unwrap_err().to_string();
    assert!(error.contains("sent again") && swept.objects == 1, "{error}");
    assert_eq!(array.server.sql("SELECT count(*) FROM gauntlet.held"), "0");
    node.ship(&session, &array.objects).await.unwrap();
    nothing_is_lost_or_doubled(&array, &node).await;
}
