use std::collections::BTreeMap;
use std::io;
use std::sync::mpsc::channel;

use super::fault::{Fault, Faulty};
use super::recover::Role;
use super::*;

pub(super) fn small() -> SpoolOptions {
    SpoolOptions {
        segment_bytes_max: 4_096,
        free_bytes_min: 0,
        compact_after: Duration::from_millis(2),
        ..SpoolOptions::default()
    }
}

fn open_at(medium: &Faulty, clock: &Clock) -> (Spool, Recovery) {
    Spool::open_with_clock(Arc::new(medium.clone()), small(), clock.clone()).unwrap()
}

/// What the commit thread does by itself when it is idle.
pub(super) fn wait_until(mut is_so: impl FnMut() -> bool) -> bool {
    let deadline = Instant::now() + Duration::from_secs(20);
    while !is_so() && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(1));
    }
    is_so()
}

fn open(medium: &Faulty) -> (Spool, Recovery) {
    Spool::open(Arc::new(medium.clone()), small()).unwrap()
}

pub(super) fn put(spool: &Spool, id: u64, body: &[u8]) -> Result<(), SpoolError> {
    let (sender, durable) = channel();
    let done = Box::new(move |result| sender.send(result).unwrap());
    spool.put(
        id,
        id.cast_signed(),
        format!("meta {id}").into_bytes(),
        Bytes::copy_from_slice(body),
        done,
    );
    durable.recv().unwrap()
}

#[test]
fn an_id_is_taken_until_its_message_is_done() {
    let medium = Faulty::default();
    let (spool, _) = open(&medium);
    put(&spool, 7, b"first").unwrap();
    assert!(matches!(put(&spool, 7, b"second"), Err(SpoolError::Taken(7))));
    assert!(spool.contains(7) && !spool.contains(8));
    assert_eq!(spool.read(7).unwrap().body, b"first");
    spool.done(7);
    put(&spool, 7, b"third").unwrap();
    assert_eq!(spool.read(7).unwrap().body, b"third");
}

#[test]
fn states_that_must_be_durable_are_or_it_is_said() {
    let medium = Faulty::default();
    let (spool, _) = open(&medium);
    put(&spool, 7, b"body").unwrap();
    spool.set_states_durably(&[(7, 99, b"leaving".to_vec())]).unwrap();
    let gone = spool.set_states_durably(&[(8, 99, Vec::new())]);
    assert!(matches!(gone, Err(SpoolError::Unknown(8))));
    let (spool, recovery) = open(&medium.power_cut(|_| 0));
    assert_eq!(recovery.messages, [(7, 99)]);
    assert_eq!(spool.read(7).unwrap().state.unwrap(), b"leaving");
}

#[test]
fn a_look_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    {
        let disk = Disk::open(folder.path()).unwrap();
        let (spool, _) = Spool::open(Arc::new(disk), small()).unwrap();
        put(&spool, 7, b"body").unwrap();
        spool.set_state(7, 5, b"state");
    }
    let content = || {
        let entries = std::fs::read_dir(folder.path()).unwrap().map(|e| e.unwrap().path());
        let all: BTreeMap<_, _> = entries.map(|p| (p.clone(), std::fs::read(p).unwrap())).collect();
        all
    };
    let last = content().into_keys().find(|p| p.extension().unwrap() == "seg").unwrap();
    let whole = std::fs::read(&last).unwrap();
    std::fs::write(&last, [&whole[..], b"torn"].concat()).unwrap();
    let before = content();
    let disk = ReadOnlyDisk::open(folder.path()).unwrap();
    let (spool, recovery) = Spool::open(Arc::new(disk), small()).unwrap();
    assert_eq!((recovery.messages, recovery.torn_bytes), (vec![(7, 5)], 4));
    assert_eq!(spool.read(7).unwrap().state.unwrap(), b"state");
    assert!(put(&spool, 8, b"new").is_err());
    drop(spool);
    assert!(content() == before);
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
    file.append(&[b"GNTSPOOL", &3u32.to_le_bytes(), &[0; 4]]).unwrap();
    let error = Spool::open(Arc::new(medium), small()).unwrap_err();
    assert!(matches!(error, SpoolError::Newer { found: 3, .. }), "{error}");
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
fn damage_in_the_middle_costs_one_message_and_is_reported() {
    let medium = Faulty::default();
    let (spool, _) = open(&medium);
    for id in 1..=3 {
        put(&spool, id, b"a body").unwrap();
    }
    drop(spool);
    let record = HEAD_BYTES + 6 + 6;
    let second = record::FILE_HEAD_BYTES as usize + record;
    for offset in [second + 4, second + 20, second + HEAD_BYTES, second + record - 1] {
        let bad = medium.power_cut(|_| 0);
        bad.damage(&file_name(1, MESSAGES), offset);
        let (spool, recovery) = open(&bad);
        assert_eq!(recovery.messages, [(1, 1), (3, 3)], "offset {offset}");
        assert_eq!((recovery.damaged, recovery.torn_bytes), (1, 0));
        assert_eq!(spool.read(3).unwrap().body, b"a body");
    }
    // The tag is for searching: where a record is known to begin, its checksum suffices.
    let bad = medium.power_cut(|_| 0);
    bad.damage(&file_name(1, MESSAGES), second);
    let (spool, recovery) = open(&bad);
    assert_eq!((recovery.messages, recovery.damaged), (vec![(1, 1), (2, 2), (3, 3)], 0));
    assert_eq!(spool.read(2).unwrap().body, b"a body");
}

#[test]
fn faults_refuse_messages_and_pass() {
    for fault in [Fault::NoSpace, Fault::ShortWrite, Fault::SyncFails] {
        let medium = Faulty::default();
        let clock = Clock::manual(0);
        let (spool, _) = open_at(&medium, &clock);
        put(&spool, 1, b"before").unwrap();
        medium.set_fault(fault);
        let error = put(&spool, 2, b"during").unwrap_err();
        assert!(matches!(error, SpoolError::NotWritten(_)), "{fault:?}: {error}");
        put(&spool, 3, b"still").unwrap_err();
        if fault == Fault::NoSpace {
            clock.advance(2 * FREE_MEASURED_FOR);
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

/// A delivery that cannot be written down must not be made again and again.
#[test]
fn a_state_that_cannot_be_written_holds_and_is_written_later() {
    for fault in [Fault::NoSpace, Fault::ShortWrite] {
        let medium = Faulty::default();
        let (spool, _) = open(&medium);
        for id in 1..=3 {
            put(&spool, id, b"body").unwrap();
        }
        spool.set_state(1, 10, b"before");
        medium.set_fault(fault);
        spool.set_state(1, 20, b"delivered to one");
        spool.set_state(2, 30, b"tried");
        spool.set_state(3, 30, b"tried");
        spool.set_due(2, 31);
        spool.done(3);
        let state = |spool: &Spool, id| {
            let stored = spool.read(id).unwrap();
            (stored.due, stored.state.unwrap())
        };
        assert_eq!(state(&spool, 1), (20, b"delivered to one".to_vec()), "{fault:?}");
        assert_eq!(state(&spool, 2), (31, b"tried".to_vec()), "{fault:?}");
        medium.set_fault(Fault::None);
        spool.set_state(1, 40, b"tried again");
        assert_eq!(state(&spool, 1), (40, b"tried again".to_vec()), "{fault:?}");
        let (spool, _) = open(&medium.killed());
        assert_eq!(state(&spool, 1), (40, b"tried again".to_vec()), "{fault:?}");
        assert_eq!(state(&spool, 2), (31, b"tried".to_vec()), "{fault:?}: written with the next");
    }
}

/// Without anything else to write, too.
#[test]
fn a_state_that_could_not_be_written_is_written_by_itself() {
    let medium = Faulty::default();
    let (spool, _) = open(&medium);
    put(&spool, 1, b"body").unwrap();
    medium.set_fault(Fault::NoSpace);
    spool.set_state(1, 20, b"tried");
    medium.set_fault(Fault::None);
    spool.flush();
    let (spool, _) = open(&medium.killed());
    assert_eq!(spool.read(1).unwrap().state.as_deref(), Some(&b"tried"[..]));
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
    assert!(wait_until(|| spool.usage().bytes <= 3_000), "{:?}", spool.usage());
    assert_eq!(spool.read(0).unwrap().state.as_deref(), Some(&b"deferred"[..]));
    drop(spool);
    let (spool, recovery) = open(&medium.power_cut(|_| 0));
    assert_eq!(recovery.messages, [(0, 77), (39, 39)]);
    assert_eq!(spool.read(0).unwrap().body, [b'x'; 900]);
}

/// Random operations, power failures at random points: whatever was reported durable and is not
/// done is recovered intact; what is recovered was put.
#[test]
fn power_cuts_lose_nothing_that_was_acknowledged() {
    for seed in 1..=60 {
        let mut random = Random(0x9E37_79B9_7F4A_7C15u64.wrapping_mul(seed));
        let mut medium = Faulty::default();
        let mut acknowledged: BTreeMap<u64, Vec<u8>> = BTreeMap::new();
        let mut attempted: BTreeMap<u64, Vec<u8>> = BTreeMap::new();
        let mut next = 1;
        // Half of the messages of every other seed are large.
        let large_bytes_min = if seed % 2 == 0 { 450 } else { usize::MAX };
        let options = SpoolOptions { large_bytes_min, ..small() };
        let open = |medium: &Faulty| Spool::open(Arc::new(medium.clone()), options).unwrap();
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

/// A record of the old format, as any sender can write it into a mail.
fn forged(id: u64) -> Vec<u8> {
    let (meta, body) = (b"forged envelope", b"forged body");
    let head = Head::new(record::Kind::Message, id, 0, meta.len() as u32, &[meta, body]);
    [&head.encode(&Format::Plain, 0)[..], meta, body].concat()
}

/// The attack: a body that contains a record, and damage to the record that the body belongs to.
#[test]
fn a_record_forged_in_a_body_never_comes_back() {
    let medium = Faulty::default();
    let (spool, _) = open(&medium);
    let body = [&forged(666)[..], &forged(667), b"end"].concat();
    put(&spool, 1, b"first").unwrap();
    put(&spool, 2, &body).unwrap();
    put(&spool, 3, b"third").unwrap();
    drop(spool);
    let name = file_name(1, MESSAGES);
    let second = record::FILE_HEAD_BYTES as usize + HEAD_BYTES + 6 + 5;
    let whole = usize::try_from(medium.open(&name).unwrap().size().unwrap()).unwrap();
    // Every byte of the second record is damaged once: of its header (but the tag), its metadata,
    // its body.
    for offset in second + 4..second + HEAD_BYTES + 6 + body.len() {
        let bad = medium.power_cut(|_| 0);
        bad.damage(&name, offset);
        let (spool, recovery) = open(&bad);
        assert_eq!(recovery.messages, [(1, 1), (3, 3)], "offset {offset}");
        assert_eq!((recovery.damaged, recovery.torn_bytes), (1, 0), "offset {offset}");
        assert!(recovery.unverified.is_empty());
        assert_eq!(spool.read(3).unwrap().body, b"third");
    }
    // A power failure anywhere in the attacker's record, and in the next.
    for length in second..whole {
        let torn = medium.power_cut(|_| 0);
        torn.open(&name).unwrap().truncate(length as u64).unwrap();
        let (_, recovery) = open(&torn);
        let ids: Vec<u64> = recovery.messages.iter().map(|(id, _)| *id).collect();
        assert!(ids == [1] || ids == [1, 2], "{length}: {ids:?}");
    }
    // The key itself is damaged: valid records are read, nothing is searched for, nothing is
    // truncated.
    let bad = medium.power_cut(|_| 0);
    bad.damage(&name, 20);
    assert_eq!(open(&bad).1.messages, [(1, 1), (2, 2), (3, 3)]);
    bad.damage(&name, second + 4);
    let (_, recovery) = open(&bad);
    assert_eq!((recovery.messages, recovery.damaged), (vec![(1, 1)], 1));
    assert_eq!(bad.open(&name).unwrap().size().unwrap(), whole as u64);
}

/// A file of the previous format with these records.
fn old_file(records: &[(u64, &[u8])]) -> Vec<u8> {
    let mut bytes = Format::Plain.file_head();
    for (id, body) in records {
        let meta = format!("meta {id}").into_bytes();
        let length = u32::try_from(meta.len()).unwrap();
        let head = Head::new(record::Kind::Message, *id, id.cast_signed(), length, &[&meta, body]);
        let encoded = head.encode(&Format::Plain, 0);
        bytes.extend([&encoded[..], &meta, body].concat());
    }
    bytes
}

#[test]
fn files_of_the_old_format_are_read_and_what_may_be_forged_is_marked() {
    let body = [&forged(3)[..], &forged(666), b"end"].concat();
    let bytes = old_file(&[(1, b"first"), (2, &body), (3, b"third")]);
    let name = file_name(1, MESSAGES);
    let made = |bytes: &[u8]| {
        let medium = Faulty::default();
        medium.create(&name).unwrap().append(&[bytes]).unwrap();
        medium.open(&name).unwrap().sync().unwrap();
        medium
    };
    let medium = made(&bytes);
    let (spool, recovery) = open(&medium);
    assert_eq!(recovery.messages, [(1, 1), (2, 2), (3, 3)]);
    assert!(recovery.unverified.is_empty());
    // States beside it and new messages are of the new format; all is read again.
    spool.set_state(2, 9, b"tried");
    spool.done(1);
    put(&spool, 4, b"new").unwrap();
    spool.flush();
    drop(spool);
    let (spool, recovery) = open(&medium);
    assert_eq!(recovery.messages, [(2, 9), (3, 3), (4, 4)]);
    assert_eq!(spool.read(2).unwrap().state.as_deref(), Some(&b"tried"[..]));
    drop(spool);
    // Damage in the body: its length is known, so its content is skipped.
    let second = record::FILE_HEAD_BYTES_1 as usize + HEAD_BYTES + 6 + 5;
    let mut bad = bytes.clone();
    bad[second + HEAD_BYTES + 6 + body.len() - 1] ^= 1;
    let (_, recovery) = open(&made(&bad));
    assert_eq!((recovery.messages, recovery.damaged), (vec![(1, 1), (3, 3)], 1));
    assert!(recovery.unverified.is_empty());
    // Damage in the header: what is found behind it may be forged, and is marked. Nothing is
    // truncated.
    let mut bad = bytes.clone();
    bad[second + 20] ^= 1;
    let medium = made(&bad);
    let (_, recovery) = open(&medium);
    assert_eq!(recovery.messages.first(), Some(&(1, 1)));
    let behind: Vec<u64> = recovery.messages.iter().skip(1).map(|(id, _)| *id).collect();
    assert_eq!(recovery.unverified, behind);
    assert_eq!(medium.open(&name).unwrap().size().unwrap(), bytes.len() as u64);
}

/// A file that counts the bytes read from it.
#[derive(Debug)]
struct Counted {
    bytes: Vec<u8>,
    read: AtomicU64,
}

impl MediumFile for Counted {
    fn append(&self, _: &[&[u8]]) -> io::Result<()> {
        Ok(())
    }
    fn sync(&self) -> io::Result<()> {
        Ok(())
    }
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        self.read.fetch_add(buffer.len() as u64, Ordering::Relaxed);
        medium::copy_at(&self.bytes, buffer, offset)
    }
    fn size(&self) -> io::Result<u64> {
        Ok(self.bytes.len() as u64)
    }
    fn truncate(&self, _: u64) -> io::Result<()> {
        Ok(())
    }
}

/// A body of valid headers, each of which claims all that follows it, behind a damaged header:
/// verifying each of them would read the file thousands of times.
#[test]
fn a_search_reads_a_file_a_few_times_however_many_heads_are_forged() {
    for format in [Format::Plain, Format::new().unwrap()] {
        let total = 400_000;
        let mut body = Vec::with_capacity(total);
        while body.len() + HEAD_BYTES < total {
            let payload = u32::try_from(total - body.len() - HEAD_BYTES).unwrap();
            let mut head = Head::new(record::Kind::Message, 9, 0, 0, &[b"never"]);
            head.payload = payload;
            body.extend(head.encode(&Format::Plain, 0));
        }
        let mut bytes = format.file_head();
        // The damaged record.
        bytes.extend([0xff; HEAD_BYTES]);
        bytes.extend(&body);
        let size = bytes.len() as u64;
        let file = Counted { bytes, read: AtomicU64::new(0) };
        let found = recover::scan("x", &file, Role::NewestMessages).unwrap();
        assert!(found.records.is_empty());
        let read = file.read.load(Ordering::Relaxed);
        assert!(read <= 4 * size, "{format:?}: {read} bytes of {size} read");
    }
}

/// A segment that could not be synced while messages were moved into it is not written to any more.
#[test]
fn a_failed_sync_closes_the_segment_also_while_messages_are_moved() {
    let medium = Faulty::default();
    let (spool, _) = open(&medium);
    for id in 0..8 {
        put(&spool, id, &[b'x'; 900]).unwrap();
    }
    put(&spool, 40, b"in the open segment").unwrap();
    medium.set_fault(Fault::SyncFails);
    for id in [0, 1, 2, 4, 5, 6, 7] {
        spool.done(id);
    }
    let open_now = || spool.shared.index().open[Lane::Small.number()];
    let open_before = open_now();
    assert!(open_before.is_some());
    assert!(wait_until(|| open_now().is_none()), "it is closed");
    medium.set_fault(Fault::None);
    put(&spool, 41, b"in a new one").unwrap();
    assert_ne!(open_now(), open_before);
    drop(spool);
    let (_, recovery) = open(&medium.power_cut(|_| 0));
    let ids: Vec<u64> = recovery.messages.iter().map(|(id, _)| *id).collect();
    assert!([3, 40, 41].iter().all(|id| ids.contains(id)), "{ids:?}");
}

/// A node that gets no mail while it is unhealthy must find out by itself that it is healthy again.
#[test]
fn a_failed_write_is_reported_until_one_works() {
    for fault in [Fault::NoSpace, Fault::ShortWrite, Fault::SyncFails] {
        let medium = Faulty::default();
        let clock = Clock::manual(0);
        let (spool, _) = open_at(&medium, &clock);
        put(&spool, 1, b"one").unwrap();
        assert_eq!(spool.last_failure(), None);
        medium.set_fault(fault);
        put(&spool, 2, b"two").unwrap_err();
        let created = medium.created();
        clock.advance(Duration::from_secs(2));
        assert!(wait_until(|| medium.created() > created), "{fault:?}: it is tried");
        spool.flush();
        assert!(spool.last_failure().is_some(), "{fault:?}: and fails again");
        medium.set_fault(Fault::None);
        clock.advance(Duration::from_secs(2));
        assert!(wait_until(|| spool.last_failure().is_none()), "{fault:?}");
        put(&spool, 3, b"three").unwrap();
        drop(spool);
        let (_, recovery) = open(&medium.power_cut(|_| 0));
        assert_eq!(recovery.messages, [(1, 1), (3, 3)], "{fault:?}");
    }
}
