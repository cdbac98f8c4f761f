use std::collections::BTreeMap;
use std::sync::mpsc::channel;

use super::fault::{Fault, Faulty};
use super::*;

fn small() -> SpoolOptions {
    SpoolOptions { segment_bytes_max: 4_096, free_bytes_min: 0, ..SpoolOptions::default() }
}

fn open(medium: &Faulty) -> (Spool, Recovery) {
    Spool::open(Arc::new(medium.clone()), small()).unwrap()
}

fn put(spool: &Spool, id: u64, body: &[u8]) -> Result<(), SpoolError> {
    let (sender, durable) = channel();
    let done = Box::new(move |result| sender.send(result).unwrap());
    spool.put(id, id.cast_signed(), format!("meta {id}").into_bytes(), Arc::new(body.into()), done);
    durable.recv().unwrap()
}

/// xorshift64*: small, and the same everywhere.
struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) % n
    }
}

#[test]
fn what_is_put_can_be_read_also_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let disk = || Arc::new(Disk::open(folder.path()).unwrap());
    let (spool, recovery) = Spool::open(disk(), small()).unwrap();
    assert_eq!(recovery, Recovery::default());
    put(&spool, 1, b"one").unwrap();
    put(&spool, 2, b"two").unwrap();
    put(&spool, 3, &[b'x'; 5_000]).unwrap();
    spool.set_state(1, 99, b"tried once");
    spool.done(2);
    spool.flush();
    drop(spool);
    let (spool, recovery) = Spool::open(disk(), small()).unwrap();
    assert_eq!(recovery.messages, [(1, 99), (3, 3)]);
    let stored = spool.read(1).unwrap();
    assert_eq!((stored.meta.as_slice(), stored.body.as_slice()), (&b"meta 1"[..], &b"one"[..]));
    assert_eq!((stored.state.as_deref(), stored.due), (Some(&b"tried once"[..]), 99));
    assert!(matches!(spool.read(2), Err(SpoolError::Unknown(2))));
    spool.done(1);
    spool.done(3);
    spool.flush();
    drop(spool);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "all segments are removed");
}

#[test]
fn a_newer_format_is_refused_and_a_strange_file_too() {
    let medium = Faulty::default();
    let file = medium.create(&file_name(1, MESSAGES)).unwrap();
    file.append(&[b"GNTSPOOL", &2u32.to_le_bytes(), &[0; 4]]).unwrap();
    let error = Spool::open(Arc::new(medium), small()).unwrap_err();
    assert!(matches!(error, SpoolError::Newer { found: 2, .. }), "{error}");
    let medium = Faulty::default();
    let file = medium.create(&file_name(1, MESSAGES)).unwrap();
    file.append(&[b"hello, this is no spool file"]).unwrap();
    let error = Spool::open(Arc::new(medium), small()).unwrap_err();
    assert!(matches!(error, SpoolError::NoSpoolFile { .. }), "{error}");
}

#[test]
fn a_torn_tail_is_dropped_and_nothing_else() {
    let medium = Faulty::default();
    let (spool, _) = open(&medium);
    put(&spool, 1, b"first").unwrap();
    put(&spool, 2, b"second").unwrap();
    drop(spool);
    let name = file_name(1, MESSAGES);
    let whole = medium.open(&name).unwrap().size().unwrap();
    let record = HEAD_BYTES as u64 + 6 + 6;
    for cut in 1..=record {
        let torn = medium.power_cut(|_| 0);
        torn.open(&name).unwrap().truncate(whole - cut).unwrap();
        let (spool, recovery) = open(&torn);
        assert_eq!(recovery.messages, [(1, 1)], "cut {cut}");
        assert_eq!(recovery.torn_bytes, record - cut, "cut {cut}");
        put(&spool, 3, b"third").unwrap();
        drop(spool);
        let (spool, recovery) = open(&torn);
        assert_eq!(recovery.messages, [(1, 1), (3, 3)], "cut {cut}");
        assert_eq!(spool.read(3).unwrap().body, b"third");
    }
}

#[test]
fn damage_in_the_middle_costs_one_message_and_is_told() {
    let medium = Faulty::default();
    let (spool, _) = open(&medium);
    for id in 1..=3 {
        put(&spool, id, b"a body").unwrap();
    }
    drop(spool);
    let record = HEAD_BYTES + 6 + 6;
    let second = record::FILE_HEAD_BYTES as usize + record;
    for offset in [second, second + 20, second + HEAD_BYTES, second + record - 1] {
        let bad = medium.power_cut(|_| 0);
        bad.damage(&file_name(1, MESSAGES), offset);
        let (spool, recovery) = open(&bad);
        assert_eq!(recovery.messages, [(1, 1), (3, 3)], "offset {offset}");
        assert_eq!((recovery.damaged, recovery.torn_bytes), (1, 0));
        assert_eq!(spool.read(3).unwrap().body, b"a body");
    }
}

#[test]
fn faults_refuse_messages_and_pass() {
    for fault in [Fault::NoSpace, Fault::ShortWrite, Fault::SyncFails] {
        let medium = Faulty::default();
        let (spool, _) = open(&medium);
        put(&spool, 1, b"before").unwrap();
        medium.set_fault(fault);
        let error = put(&spool, 2, b"during").unwrap_err();
        assert!(matches!(error, SpoolError::NotWritten(_)), "{fault:?}: {error}");
        put(&spool, 3, b"still").unwrap_err();
        if fault == Fault::NoSpace {
            std::thread::sleep(2 * FREE_MEASURED_FOR);
            assert!(matches!(spool.reserve(1), Err(SpoolError::Full { .. })));
        }
        medium.set_fault(Fault::None);
        put(&spool, 4, b"after").unwrap();
        assert_eq!(spool.read(1).unwrap().body, b"before");
        drop(spool);
        let (spool, recovery) = open(&medium.power_cut(|_| 0));
        let ids: Vec<u64> = recovery.messages.iter().map(|m| m.0).collect();
        assert_eq!(ids, [1, 4], "{fault:?}");
        assert_eq!(spool.read(4).unwrap().body, b"after");
    }
}

#[test]
fn nearly_finished_segments_are_emptied() {
    let medium = Faulty::default();
    let (spool, _) = open(&medium);
    for id in 0..40 {
        put(&spool, id, &[b'x'; 900]).unwrap();
    }
    spool.set_state(0, 77, b"deferred");
    for id in 1..39 {
        spool.done(id);
    }
    spool.flush();
    let deadline = Instant::now() + Duration::from_secs(20);
    while spool.usage().bytes > 3_000 && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(50));
    }
    assert!(spool.usage().bytes <= 3_000, "{:?}", spool.usage());
    assert_eq!(spool.read(0).unwrap().state.as_deref(), Some(&b"deferred"[..]));
    drop(spool);
    let (spool, recovery) = open(&medium.power_cut(|_| 0));
    assert_eq!(recovery.messages, [(0, 77), (39, 39)]);
    assert_eq!(spool.read(0).unwrap().body, [b'x'; 900]);
}

/// Random work, power cuts at random moments: whatever was reported durable and is not done comes
/// back whole; what comes back was put.
#[test]
fn power_cuts_lose_nothing_that_was_acknowledged() {
    for seed in 1..=60 {
        let mut random = Random(0x9E37_79B9_7F4A_7C15u64.wrapping_mul(seed));
        let mut medium = Faulty::default();
        let mut acknowledged: BTreeMap<u64, Vec<u8>> = BTreeMap::new();
        let mut attempted: BTreeMap<u64, Vec<u8>> = BTreeMap::new();
        let mut next = 1;
        for _ in 0..4 {
            let (spool, _) = open(&medium);
            for _ in 0..random.below(40) {
                if random.below(12) == 0 {
                    let faults = [Fault::None, Fault::NoSpace, Fault::ShortWrite, Fault::SyncFails];
                    medium.set_fault(faults[usize::try_from(random.below(4)).unwrap()]);
                }
                match random.below(4) {
                    0 | 1 => {
                        let body = vec![b'a'; usize::try_from(random.below(900)).unwrap()];
                        attempted.insert(next, body.clone());
                        if put(&spool, next, &body).is_ok() {
                            acknowledged.insert(next, body);
                        }
                        next += 1;
                    }
                    2 => spool.set_state(1 + random.below(next), 5, b"state"),
                    _ => {
                        let id = 1 + random.below(next);
                        spool.done(id);
                        acknowledged.remove(&id);
                    }
                }
            }
            let after = medium
                .power_cut(|unsynced| usize::try_from(random.below(unsynced as u64 + 1)).unwrap());
            drop(spool);
            medium = after;
            let (spool, recovery) = open(&medium);
            let found: Vec<u64> = recovery.messages.iter().map(|m| m.0).collect();
            for (id, body) in &acknowledged {
                assert!(found.contains(id), "seed {seed}: message {id} is lost");
                assert_eq!(&spool.read(*id).unwrap().body, body, "seed {seed}: message {id}");
            }
            for id in found {
                assert_eq!(spool.read(id).ok().map(|s| s.body).as_ref(), attempted.get(&id));
            }
        }
    }
}
