//! Crashes at each step of taking a message in, on a simulated disk.

use gauntlet_store::spool::fault::{Fault, Faulty};
use gauntlet_store::{Delivery, Outcome, SpoolOptions};
use gauntlet_verdict::{Disposition, Final};

use super::*;
use crate::outbound::queue::LEAVING;
use crate::outbound::queue::departures::Departure;

const ID: u64 = 1_795_000_000_000 << 20;

/// What a node keeps on its disks.
struct Disks {
    folder: tempfile::TempDir,
    medium: Faulty,
}

impl Disks {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("queue")).unwrap();
        Disks { folder, medium: Faulty::default() }
    }

    fn spool(&self) -> Arc<Spool> {
        let options = SpoolOptions { free_bytes_min: 0, ..SpoolOptions::default() };
        Arc::new(Spool::open(Arc::new(self.medium.clone()), options).unwrap().0)
    }

    /// A node that begins to make ids at this time.
    fn start(&self, now_ms: i64) -> Arrivals {
        let path = |name: &str| self.folder.path().join(name);
        let parts = ArrivalParts {
            spool: self.spool(),
            log: Arc::new(Log::open(&path("log")).unwrap()),
            quarantine: Arc::new(Quarantine::open(&path("quarantine")).unwrap()),
            ids: Arc::default(),
            clock: Clock::manual(now_ms),
            body_ms_max: Some(60_000),
            is_durable: true,
        };
        Arrivals::open(&path("queue"), parts).unwrap()
    }
}

fn bundle(id: u64, to: &str) -> Bundle {
    let name = ids::to_text(id);
    let disposition = |end| Disposition {
        recipient: to.to_owned(),
        end,
        changes: Vec::new(),
        rules: Vec::new(),
        release: None,
    };
    let record = LogRecord {
        id: name.clone(),
        received_ms: ids::time_of(id),
        dispositions: vec![disposition(Final::Deliver), disposition(Final::Deliver)],
        ..LogRecord::default()
    };
    let message = QueuedMessage::new(record, &Default::default(), &[]);
    let mut tried = message.record.clone();
    tried.deliveries[0] =
        Delivery { outcome: Outcome::Delivered, attempts: 1, ..tried.deliveries[0].clone() };
    Bundle {
        id,
        from: "mx1.example".to_owned(),
        due_ms: 77,
        meta: serde_json::to_vec(&message).unwrap(),
        state: Some(saved_progress::encode(&tried)),
        body: Bytes::from(format!("Subject: {to}\r\n\r\n{name}")),
    }
}

fn now() -> i64 {
    ids::time_of(ID) + 3_600_000
}

fn taken(id: u64) -> Arrival {
    Arrival::Taken { id: ids::to_text(id) }
}

#[test]
fn a_message_comes_with_its_progress_and_only_once() {
    let disks = Disks::new();
    let node = disks.start(now());
    let (answers, new) = node.take_in(vec![bundle(ID, "bob"), bundle(ID + 1, "eve")]);
    assert_eq!((answers, new), (vec![taken(ID), taken(ID + 1)], vec![(ID, 77), (ID + 1, 77)]));
    let stored = node.parts.spool.read(ID).unwrap();
    let message: QueuedMessage = serde_json::from_slice(&stored.meta).unwrap();
    assert_eq!(message.record.deliveries[0].outcome, Outcome::Delivered);
    assert_eq!(message.record.deliveries[1].outcome, Outcome::Queued);
    assert_eq!(message.moved.unwrap().from, "mx1.example");
    // Also when it is delivered and forgotten, and by the next process.
    node.parts.spool.done(ID);
    let known = vec![Arrival::Known { id: ids::to_text(ID) }];
    assert_eq!(node.take_in(vec![bundle(ID, "bob")]), (known.clone(), Vec::new()));
    drop(node);
    assert_eq!(disks.start(now()).take_in(vec![bundle(ID, "bob")]), (known, Vec::new()));
}

#[test]
fn a_message_that_comes_back_is_another_move() {
    let (here, there) = (Disks::new(), Disks::new());
    let (first, second) = (here.start(now()), there.start(now()));
    let mut bundle = bundle(ID, "bob");
    let mut tokens = Vec::new();
    for node in [&first, &second, &first, &second] {
        tokens.push(bundle.token());
        let (answers, _) = node.take_in(vec![bundle]);
        assert_eq!(answers, [taken(ID)]);
        let spool = &node.parts.spool;
        let departure = Departure::prepare(spool, ID, ("a", "b")).unwrap();
        spool.set_states_durably(&[departure.mark()]).unwrap();
        assert_eq!(spool.read(ID).unwrap().due, LEAVING);
        bundle = Departure::prepare(spool, ID, ("a", "b")).unwrap().bundle;
        assert_eq!((bundle.due_ms, bundle.token()), (77, departure.bundle.token()));
        spool.done(ID);
    }
    tokens.sort_unstable();
    tokens.dedup();
    assert_eq!(tokens.len(), 4);
}

#[test]
fn an_id_that_is_used_or_may_be_in_hand_is_replaced() {
    let disks = Disks::new();
    let node = disks.start(now());
    let ids_of = |node: &Arrivals, bundle| match node.take_in(vec![bundle]).0.remove(0) {
        Arrival::Taken { id } => ids::parse(&id).unwrap(),
        other => panic!("{other:?}"),
    };
    assert_eq!(ids_of(&node, bundle(ID, "bob")), ID);
    let other = ids_of(&node, bundle(ID, "eve"));
    assert_ne!(other, ID, "the spool has it");
    let message: QueuedMessage =
        serde_json::from_slice(&node.parts.spool.read(other).unwrap().meta).unwrap();
    assert_eq!(message.record.id, ids::to_text(other));
    assert_eq!(message.moved.unwrap().id, ids::to_text(ID));
    // Made after this process began, and not long ago; or by a clock that is ahead.
    for ms in [now(), now() + 10 * AHEAD_MS_MAX] {
        let id = ms.cast_unsigned() << 20;
        let got = ids_of(&node, bundle(id, "ann"));
        assert!(got != id && ids::time_of(got) <= now(), "{ms}");
    }
}

#[test]
fn a_crash_before_the_spool_has_it_loses_nothing() {
    let disks = Disks::new();
    let node = disks.start(now());
    disks.medium.set_fault(Fault::NoSpace);
    let (answers, new) = node.take_in(vec![bundle(ID, "bob")]);
    assert!(matches!(&answers[..], [Arrival::Later { .. }]) && new.is_empty(), "{answers:?}");
    drop(node);
    let after = Disks { medium: disks.medium.killed(), ..disks };
    assert_eq!(after.start(now()).take_in(vec![bundle(ID, "bob")]).0, [taken(ID)]);
}

#[test]
fn a_crash_behind_the_spool_doubles_nothing() {
    let disks = Disks::new();
    let node = disks.start(now());
    node.take_in(vec![bundle(ID, "bob")]);
    drop(node);
    // The last of the two records of arrivals is lost.
    let path = disks.folder.path().join("queue/arrivals");
    let bytes = std::fs::read(&path).unwrap();
    std::fs::write(&path, &bytes[..bytes.len() / 2]).unwrap();
    let node = disks.start(now());
    assert!(node.parts.spool.contains(ID), "the queue finds it there");
    node.parts.spool.done(ID);
    let known = Arrival::Known { id: ids::to_text(ID) };
    assert_eq!(node.take_in(vec![bundle(ID, "bob")]), (vec![known], Vec::new()));
}

#[test]
fn what_cannot_be_understood_is_refused_alone() {
    let disks = Disks::new();
    let node = disks.start(now());
    let bad = |meta: &[u8]| Bundle { meta: meta.to_vec(), ..bundle(ID + 9, "x") };
    let all = vec![bad(b"\xff"), bad(b"{}"), bundle(ID, "bob")];
    let (answers, new) = node.take_in(all);
    assert!(matches!(answers[0], Arrival::Refused { .. }));
    assert!(matches!(answers[1], Arrival::Refused { .. }));
    assert_eq!((&answers[2], new.len()), (&taken(ID), 1));
}
