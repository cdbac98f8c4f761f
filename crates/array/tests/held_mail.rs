//! Held mail of many nodes: what a manager reads is what the nodes hold.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use gauntlet_array::{
    ArrayError, HeldShipped, Objects, ObjectsAddress, ObjectsOptions, held_sweep,
};
use gauntlet_array::{DatabaseTls, SharedQuarantine, schema};
use gauntlet_store::quarantine::{
    Begin, FolderSummary, HeldMail, HeldQuery, ReleaseOrder, ReleaseRight, State,
};
use gauntlet_store::{BodyKeys, Quarantine, QuarantineItem, StoreError};
use gauntlet_verdict::Class;

use crate::held::{Array, HeldNode, all, ask, bare, body, item};
use crate::logs::{DAY, database, tls};
use crate::postgres::Server;

fn release(quarantine: &Quarantine, id: &str, now_ms: i64) {
    let order =
        ReleaseOrder { who: "ada".into(), right: ReleaseRight::Admin, ..ReleaseOrder::default() };
    let Begin::Started(begun) = quarantine.begin_release(id, &order, now_ms).unwrap() else {
        panic!("not held")
    };
    assert!(quarantine.finish_release(&begun.token, now_ms + 1).unwrap());
}

fn queries() -> Vec<HeldQuery> {
    let with = |set: fn(&mut HeldQuery)| {
        let mut query = HeldQuery { limit: 7, ..HeldQuery::default() };
        set(&mut query);
        query
    };
    vec![
        with(|_| {}),
        with(|q| q.folder = "suspect".to_owned()),
        with(|q| q.folders = vec!["spam".to_owned(), "virus".to_owned()]),
        with(|q| q.state = Some(State::Held)),
        with(|q| q.state = Some(State::Released)),
        with(|q| q.state = Some(State::Deleted)),
        with(|q| q.recipient = "user3@EXAMPLE.com".to_owned()),
        with(|q| q.recipient = "nobody@example.com".to_owned()),
        with(|q| q.message = "one-17".to_owned()),
        with(|q| q.text = "gewinn nr. 1".to_owned()),
        with(|q| q.text = "GRÖẞE 2".to_owned()),
        with(|q| q.text = "größe 2".to_owned()),
        with(|q| q.text = "EVE7@".to_owned()),
        with(|q| q.text = "user5@example.com".to_owned()),
        with(|q| q.text = "nul\0in it".to_owned()),
        with(|q| (q.text, q.hide_recipients) = ("user5@example.com".to_owned(), true)),
        with(|q| q.classes = vec![Class::Phishing, Class::Ham]),
        with(|q| (q.since_ms, q.until_ms) = (Some(DAY + 5_000), Some(DAY + 20_000))),
        with(|q| (q.limit, q.state) = (500, Some(State::Held))),
    ]
}

#[derive(Debug, PartialEq)]
struct Answers {
    found: Vec<Vec<gauntlet_store::quarantine::Held>>,
    each: Vec<(Option<gauntlet_store::quarantine::Held>, Option<Vec<u8>>)>,
    together: Vec<Option<gauntlet_store::quarantine::Held>>,
    folders: Vec<FolderSummary>,
    recipients: Vec<String>,
    after: Vec<String>,
}

/// What held mail answers, without what differs between a node and an array.
fn answers(held: &dyn HeldMail, ids: &[String]) -> Answers {
    let found = queries().into_iter().map(|query| all(held, query));
    let each = ids.iter().map(|id| (held.get(id).unwrap().map(bare), held.body(id).unwrap()));
    // In another order, and some twice.
    let named: Vec<&str> = ids.iter().rev().chain(ids.iter().take(3)).map(String::as_str).collect();
    let together = held.get_all(&named).unwrap().into_iter().map(|held| held.map(bare)).collect();
    Answers {
        together,
        found: found.map(|items| items.into_iter().map(bare).collect()).collect(),
        each: each.collect(),
        folders: held.folders().unwrap(),
        recipients: held.recipients_with_held("", 1000).unwrap(),
        after: held.recipients_with_held("user2@example.com", 3).unwrap(),
    }
}

/// The same questions to a node and to the array that has the same mail, in clear and encrypted.
#[tokio::test(flavor = "multi_thread")]
async fn an_array_answers_as_a_node_does() {
    let Some(array) = Array::start(&["fsync=off"]) else { return };
    for seals in [false, true] {
        let session = schema::session(&array.database).await.unwrap();
        array.server.sql("TRUNCATE gauntlet.held, gauntlet.held_object, gauntlet.node CASCADE");
        let node = HeldNode::join("one", &session, seals).await;
        node.hold(0..60);
        let q = &node.quarantine;
        let odd = QuarantineItem {
            id: "odd".to_owned(),
            recipients: Vec::new(),
            received_ms: DAY + 60_500,
            subject: "\\x \"quoted\", {braced}".to_owned(),
            ..item("one", 1)
        };
        q.put(&odd, b"").unwrap();
        let shipped = node.ship(&session, &array.objects).await.unwrap();
        assert_eq!((shipped.items, shipped.bodies), (61, 61));
        // Some change after they were shipped, some are forgotten.
        for n in [3, 30] {
            q.delete(&format!("one-{n}-q"), "ada", DAY + 100_000 + n).unwrap();
            release(q, &format!("one-{}-q", n + 1), DAY + 100_000 + n);
        }
        assert_eq!(q.retain(DAY + 2_000, None, DAY).unwrap(), 2);
        let shipped = node.ship(&session, &array.objects).await.unwrap();
        assert_eq!(shipped, HeldShipped { items: 6, ..HeldShipped::default() });
        assert_eq!(node.ship(&session, &array.objects).await.unwrap(), HeldShipped::default());

        let ids: Vec<String> = (0..60).map(|n| format!("one-{n}-q")).collect();
        let ids = [ids, vec!["odd".to_owned(), "unknown".to_owned()]].concat();
        let own = answers(&**q, &ids);
        assert_eq!(own.found[0].len(), 59);
        let keys = seals.then(|| BodyKeys::open(&node.key_file(), false).unwrap());
        let shared = ask(&array.reader(keys), move |held| answers(held, &ids)).await;
        for (at, (one, other)) in own.found.iter().zip(&shared.found).enumerate() {
            assert_eq!(one, other, "query {at}");
        }
        assert_eq!(own, shared);
        let files = array.s3.files();
        let stored: Vec<u8> = files.iter().flat_map(|f| std::fs::read(f).unwrap()).collect();
        if seals {
            assert!(!stored.windows(6).any(|w| w == b"Gewinn"), "nothing is in clear");
        }
        assert!(stored.starts_with(b"GNTLHELD\x01"));
        files.iter().for_each(|file| std::fs::remove_file(file).unwrap());
    }
}

/// Pages of several nodes are one list, newest first, also of what comes late.
#[tokio::test(flavor = "multi_thread")]
async fn nodes_share_one_list() {
    let Some(array) = Array::start(&["fsync=off"]) else { return };
    let session = schema::session(&array.database).await.unwrap();
    let names = ["one", "two", "three"];
    let mut nodes = Vec::new();
    for name in names {
        nodes.push(HeldNode::join(name, &session, false).await);
    }
    for (node, first) in nodes.iter().zip([0, 1, 2]) {
        node.hold((first..90).step_by(3));
    }
    // The last one was cut off for a while.
    for node in [&nodes[1], &nodes[2], &nodes[0]] {
        node.ship(&session, &array.objects).await.unwrap();
    }
    let shared = array.reader(None);
    let found = ask(&shared, |held| all(held, HeldQuery { limit: 4, ..<_>::default() })).await;
    let seen: Vec<(i64, &str)> =
        found.iter().map(|h| (h.item.received_ms, h.node.as_str())).collect();
    let expected: Vec<(i64, &str)> =
        (0..90).rev().map(|n| (DAY + 1000 * n, names[usize::try_from(n % 3).unwrap()])).collect();
    assert_eq!(seen, expected);
    assert!(found.iter().all(|h| h.seq < 1 << 53), "a number that JSON's readers hold");
    let folders = ask(&shared, |held| held.folders().unwrap()).await;
    let counted: BTreeMap<&str, u64> = folders.iter().map(|f| (f.name.as_str(), f.items)).collect();
    assert_eq!(counted, [("spam", 30), ("suspect", 30), ("virus", 30)].into());
    // Each node's objects have its own names.
    let files = array.s3.files();
    let owners = nodes.iter().map(|node| {
        files.iter().filter(|f| f.display().to_string().contains(&node.identity.identity)).count()
    });
    assert_eq!((files.len(), owners.collect::<Vec<_>>()), (3, vec![1, 1, 1]));
    let bodies =
        ask(&shared, |held| ["one-0-q", "two-88-q", "three-50-q"].map(|id| held.body(id).unwrap()));
    let [first, ..] = bodies.await;
    assert_eq!(first, Some(body("one", 0)));
}

/// A node that was alone brings what it held.
#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_was_alone_loses_nothing_when_it_joins() {
    let Some(array) = Array::start(&["fsync=off"]) else { return };
    let session = schema::session(&array.database).await.unwrap();
    let node = HeldNode::join("one", &session, false).await;
    node.hold(0..2_500);
    node.quarantine.delete("one-7-q", "ada", DAY).unwrap();
    assert_eq!(node.quarantine.backlog().unwrap().changes, 0);
    let mut shipper = node.shipper();
    let mut steps = Vec::new();
    while let Some(step) = shipper.step(node.id, &session, &array.objects).await.unwrap() {
        steps.push((step.items, step.is_full));
    }
    assert_eq!(steps, [(1_000, true), (1_000, true), (500, false)]);
    let query = || HeldQuery { limit: 500, ..HeldQuery::default() };
    let found = ask(&array.reader(None), move |held| all(held, query())).await;
    let own = all(&*node.quarantine, query());
    let bare_of = |items: Vec<_>| items.into_iter().map(bare).collect::<Vec<_>>();
    assert!(bare_of(found) == bare_of(own));
    // It leaves, and comes back: nothing is sent that is there.
    node.quarantine.end_feed().unwrap();
    node.quarantine.delete("one-8-q", "ada", DAY).unwrap();
    let again = node.ship(&session, &array.objects).await.unwrap();
    assert_eq!((again.items, again.bodies), (2_500, 0));
    let state = ask(&array.reader(None), |held| held.get("one-8-q").unwrap().unwrap().state).await;
    assert_eq!(state, State::Deleted);
}

/// Objects go when their last message has, and not before.
#[tokio::test(flavor = "multi_thread")]
async fn objects_that_nobody_needs_are_removed() {
    let Some(array) = Array::start(&["fsync=off"]) else { return };
    let session = schema::session(&array.database).await.unwrap();
    let node = HeldNode::join("one", &session, false).await;
    for first in [0, 10, 20] {
        node.hold(first..first + 10);
        node.ship(&session, &array.objects).await.unwrap();
    }
    assert_eq!(array.s3.files().len(), 3);
    let sweep = |limit| held_sweep::sweep(&session, &array.objects, limit);
    assert_eq!(sweep(100).await.unwrap().objects, 0);
    // All of the first object, all but one of the second.
    for n in 0..19 {
        node.quarantine.delete(&format!("one-{n}-q"), "ada", DAY).unwrap();
    }
    assert_eq!(sweep(100).await.unwrap().objects, 0, "before the array knows");
    node.ship(&session, &array.objects).await.unwrap();
    let swept = sweep(100).await.unwrap();
    assert!(swept.objects == 1 && swept.bytes > 500 && !swept.is_full, "{swept:?}");
    assert_eq!(array.s3.files().len(), 2);
    let shared = array.reader(None);
    let left = ask(&shared, |held| [0, 19].map(|n| held.body(&format!("one-{n}-q")).unwrap()));
    assert_eq!(left.await, [None, Some(body("one", 19))]);
    // A node that does not come back.
    let forget = |limit| held_sweep::forget_before(&session, DAY + 25_000, limit);
    assert_eq!((forget(20).await.unwrap(), forget(20).await.unwrap()), (20, 5));
    let swept = sweep(1).await.unwrap();
    assert!(swept.objects == 1 && swept.is_full);
    let ids = ask(&shared, |held| all(held, HeldQuery::default())).await;
    assert_eq!(ids.len(), 5);
    assert_eq!(sweep(100).await.unwrap().objects, 0);
    assert_eq!(array.server.sql("SELECT count(*) FROM gauntlet.held_object"), "1");
    assert_eq!(array.s3.files().len(), 1);
}

/// What a node encrypted needs its key; the error says which file to look at.
#[tokio::test(flavor = "multi_thread")]
async fn an_encrypted_body_needs_its_nodes_key() {
    let Some(array) = Array::start(&["fsync=off"]) else { return };
    let session = schema::session(&array.database).await.unwrap();
    let node = HeldNode::join("one", &session, true).await;
    node.hold(0..2);
    node.ship(&session, &array.objects).await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let others = BodyKeys::open(&folder.path().join("keys"), true).unwrap();
    for keys in [None, Some(others)] {
        let read = ask(&array.reader(keys), |held| held.body("one-1-q")).await;
        let error = read.unwrap_err();
        assert!(error.to_string().contains("quarantine.key_file"), "{error}");
        assert!(!error.may_retry());
    }
    let keys = BodyKeys::open(&node.key_file(), false).unwrap();
    let read = ask(&array.reader(Some(keys)), |held| held.body("one-1-q").unwrap()).await;
    assert_eq!(read, Some(body("one", 1)));
}

/// A body that the node itself cannot read does not hold up the rest.
#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_body_goes_without_it_and_says_so() {
    let Some(array) = Array::start(&["fsync=off"]) else { return };
    let session = schema::session(&array.database).await.unwrap();
    let node = HeldNode::join("one", &session, false).await;
    node.hold(0..5);
    let packs = std::fs::read_dir(node.folder.path().join("quarantine/packs")).unwrap();
    let pack = packs.flatten().map(|e| e.path()).find(|p| p.extension().is_some()).unwrap();
    let mut bytes = std::fs::read(&pack).unwrap();
    let at = bytes.windows(20).position(|w| w == b"message 2 that one h").unwrap();
    bytes[at] ^= 1;
    std::fs::write(&pack, bytes).unwrap();
    let shipped = node.ship(&session, &array.objects).await.unwrap();
    assert_eq!((shipped.items, shipped.bodies), (5, 4));
    let shared = array.reader(None);
    let error = ask(&shared, |held| held.body("one-2-q")).await.unwrap_err();
    assert!(matches!(error, StoreError::Remote { retry: false, .. }));
    assert!(error.to_string().contains("node one could not read it"), "{error}");
    assert_eq!(ask(&shared, |held| held.body("one-3-q").unwrap()).await, Some(body("one", 3)));
}

/// A folder instead of an S3 server.
#[tokio::test(flavor = "multi_thread")]
async fn a_folder_takes_objects_too() {
    let Some(server) = Server::start(&["fsync=off"]) else { return };
    let database = database(&server.uri());
    let session = schema::session(&database).await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let address = ObjectsAddress::parse(&format!("file://{}", folder.path().display())).unwrap();
    let tls = DatabaseTls { any: tls(), verified: None };
    let objects = Objects::new(&address, &tls, ObjectsOptions::default()).unwrap();
    let node = HeldNode::join("one", &session, false).await;
    node.hold(0..3);
    node.ship(&session, &objects).await.unwrap();
    let runtime = tokio::runtime::Handle::current();
    let shared = Arc::new(SharedQuarantine::new(database, objects.clone(), None, runtime));
    assert_eq!(ask(&shared, |held| held.body("one-2-q").unwrap()).await, Some(body("one", 2)));
    for n in 0..3 {
        node.quarantine.delete(&format!("one-{n}-q"), "ada", DAY).unwrap();
    }
    node.ship(&session, &objects).await.unwrap();
    assert_eq!(held_sweep::sweep(&session, &objects, 10).await.unwrap().objects, 1);
    let strict = ObjectsAddress::parse("s3://k:s@127.0.0.1/mail").unwrap();
    let error = Objects::new(&strict, &tls, ObjectsOptions::default()).unwrap_err();
    assert!(matches!(error, ArrayError::ObjectsAddress(_)), "{error}");
}

/// One message is several items, and a campaign one body: it is stored once an object.
#[tokio::test(flavor = "multi_thread")]
async fn equal_bodies_of_a_batch_are_stored_once() {
    let Some(array) = Array::start(&["fsync=off"]) else { return };
    let session = schema::session(&array.database).await.unwrap();
    let node = HeldNode::join("one", &session, false).await;
    for n in 0..50 {
        node.quarantine.put(&item("one", n), b"the same for all").unwrap();
    }
    let shipped = node.ship(&session, &array.objects).await.unwrap();
    assert_eq!((shipped.items, shipped.bodies), (50, 1));
    let shared = array.reader(None);
    let bodies = ask(&shared, |held| {
        (0..50).map(|n| held.body(&format!("one-{n}-q")).unwrap()).collect::<BTreeSet<_>>()
    });
    assert_eq!(bodies.await, [Some(b"the same for all".to_vec())].into());
}
