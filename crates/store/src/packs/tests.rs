use super::*;
use crate::spool::fault::{Fault, Faulty, Removals};

fn small() -> PackOptions {
    PackOptions { bytes_max: 4_096 }
}

fn on(medium: &Faulty) -> Packs {
    Packs::on(Arc::new(medium.clone()), small())
}

fn body(bytes: &[u8]) -> NewRecord<'_> {
    let hash = ContentHash::of(bytes);
    NewRecord { kind: Kind::Body, is_sealed: false, hash, payload: bytes }
}

fn content(packs: &Packs, at: Location) -> Vec<u8> {
    packs.read(at).unwrap().unwrap().1
}

/// xorshift64*: small, and the same everywhere.
struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        usize::try_from(self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) % n.max(1) as u64).unwrap()
    }
}

#[test]
fn what_is_appended_is_read_also_by_another_process_and_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let packs = Packs::open(folder.path(), small()).unwrap();
    let large = vec![b'x'; 5_000];
    let first = packs.append("a", &[body(b"one"), body(b"two")]).unwrap();
    let second = packs.append("b", &[body(&large)]).unwrap();
    let third = packs.append("b", &[body(b"three")]).unwrap();
    assert_eq!(first.iter().map(|at| at.pack).collect::<Vec<_>>(), [1, 1]);
    assert_eq!((second[0].pack, third[0].pack), (2, 3), "a full pack is followed by a new one");
    let beside = Packs::open_shared(folder.path(), small()).unwrap();
    for packs in [&packs, &beside] {
        assert_eq!(content(packs, first[1]), b"two");
        assert_eq!(content(packs, second[0]), large);
    }
    drop(packs);
    let packs = Packs::open(folder.path(), small()).unwrap();
    assert_eq!(packs.list().unwrap(), [1, 2, 3]);
    let found = packs.scan(1, 0).unwrap().unwrap();
    assert_eq!(found.group.as_deref(), Some("a"));
    assert_eq!(found.records.iter().map(|(_, at)| *at).collect::<Vec<_>>(), first);
    assert_eq!((found.torn_bytes, found.damaged.len()), (0, 0));
    // It goes on where it ended, or elsewhere without a place to resume from.
    packs.resume(1, "a", found.valid_bytes).unwrap();
    assert_eq!(packs.append("a", &[body(b"four")]).unwrap()[0].pack, 1);
    assert_eq!(packs.append("b", &[body(b"five")]).unwrap()[0].pack, 4);
    packs.take_numbers(9);
    packs.close(4);
    assert_eq!(packs.append("b", &[body(b"six")]).unwrap()[0].pack, 10);
    assert_eq!(packs.read(Location { pack: 7, offset: 512, bytes: 64 }).unwrap(), None);
}

#[test]
fn a_second_process_may_read_and_not_write() {
    let folder = tempfile::tempdir().unwrap();
    let packs = Packs::open(folder.path(), small()).unwrap();
    let at = packs.append("a", &[body(b"one")]).unwrap()[0];
    let error = Packs::open(folder.path(), small()).unwrap_err().to_string();
    assert!(error.contains("another process writes here"), "{error}");
    let beside = Packs::open_shared(folder.path(), small()).unwrap();
    assert_eq!(content(&beside, at), b"one");
    assert!(beside.append("a", &[body(b"two")]).is_err() && beside.remove(&[1]).is_err());
    drop(packs);
    assert!(beside.append("a", &[body(b"two")]).is_ok(), "nobody else writes any more");
}

#[test]
fn packs_are_not_removed_while_a_backup_reads_them() {
    let folder = tempfile::tempdir().unwrap();
    let packs = Packs::open(folder.path(), small()).unwrap();
    let at = packs.append("a", &[body(b"one")]).unwrap()[0];
    let keep = Keep::packs(folder.path()).unwrap();
    assert!(!packs.remove(&[at.pack]).unwrap());
    assert_eq!(content(&packs, at), b"one");
    drop(keep);
    assert!(packs.remove(&[at.pack]).unwrap());
    assert_eq!(packs.read(at).unwrap(), None);
}

#[test]
fn a_torn_tail_is_found_at_every_length_and_nothing_else_is() {
    let medium = Faulty::default();
    let packs = on(&medium);
    let first = packs.append("a", &[body(b"first")]).unwrap()[0];
    let second = packs.append("a", &[body(b"second")]).unwrap()[0];
    for cut in 1..=second.bytes {
        let torn = medium.killed();
        let file = torn.open(&name_of(1)).unwrap();
        file.truncate(file.size().unwrap() - cut).unwrap();
        let found = on(&torn).scan(1, 0).unwrap().unwrap();
        assert_eq!(found.records.len(), 1, "{cut}");
        assert_eq!(found.records[0].1, first);
        assert_eq!(found.valid_bytes, first.offset + first.bytes);
        assert_eq!(found.torn_bytes, second.bytes - cut);
        assert!(found.damaged.is_empty());
    }
    // Its creation was torn.
    for size in [0, 1, 511] {
        let torn = medium.killed();
        torn.open(&name_of(1)).unwrap().truncate(size).unwrap();
        let found = on(&torn).scan(1, 0).unwrap().unwrap();
        assert_eq!((found.records.len(), found.valid_bytes, found.torn_bytes), (0, 0, size));
    }
}

#[test]
fn any_flipped_byte_costs_one_record_and_is_named() {
    let medium = Faulty::default();
    let packs = on(&medium);
    let records = [body(b"first"), body(b"second"), body(b"third")];
    let at = packs.append("a", &records).unwrap();
    let size = usize::try_from(packs.size(1).unwrap().unwrap()).unwrap();
    for offset in 512..size {
        let damaged = medium.killed();
        damaged.damage(&name_of(1), offset);
        let packs = on(&damaged);
        let hit = at.iter().position(|l| (offset as u64) < l.offset + l.bytes).unwrap();
        for (n, location) in at.iter().enumerate() {
            let read = packs.read(*location);
            if n == hit {
                let error = read.unwrap_err();
                assert!(!error.may_retry(), "{error}");
                let text = error.to_string();
                assert!(
                    text.contains("0000000000000001.pack") && text.contains("backup"),
                    "{text}"
                );
            } else {
                assert_eq!(read.unwrap().unwrap().1, records[n].payload, "{offset}");
            }
        }
        let found = packs.scan(1, 0).unwrap().unwrap();
        assert_eq!(found.records.len(), 2, "{offset}");
        let torn = found.torn_bytes > 0;
        assert!(torn || found.damaged == [at[hit].offset], "{offset}: {found:?}");
        assert!(!torn || hit == 2, "only the last can be taken for a torn one");
    }
    // The head of the file: what is known to begin somewhere is still read.
    for offset in 0..512 {
        let damaged = medium.killed();
        damaged.damage(&name_of(1), offset);
        let packs = on(&damaged);
        assert_eq!(content(&packs, at[2]), b"third");
        let found = packs.scan(1, 0).unwrap().unwrap();
        assert_eq!((found.group, found.records.len(), found.torn_bytes), (None, 3, 0));
    }
}

#[test]
fn a_body_that_looks_like_records_is_no_record() {
    let medium = Faulty::default();
    let packs = on(&medium);
    packs.append("a", &[body(b"a record that is read by its sender")]).unwrap();
    let file = medium.open(&name_of(1)).unwrap();
    let mut forged = vec![0; usize::try_from(file.size().unwrap()).unwrap() - 512];
    file.read_at(&mut forged, 512).unwrap();
    // Another pack, with another key and at other offsets; damage makes the reader search.
    let at = packs.append("b", &[body(&forged), body(b"next")]).unwrap();
    medium.damage(&name_of(2), 512 + 30);
    let found = on(&medium).scan(2, 0).unwrap().unwrap();
    assert_eq!(found.records.iter().map(|r| r.1).collect::<Vec<_>>(), [at[1]]);
}

#[test]
fn what_was_promised_survives_a_power_cut_at_any_moment() {
    let mut random = Random(0x7061_636b);
    for round in 0..60 {
        let medium = Faulty::default();
        let packs = on(&medium);
        // Promised, and the medium after each change.
        let promised = Arc::new(Mutex::new(Vec::new()));
        type Moment = (Faulty, Vec<(Location, Vec<u8>)>);
        let moments: Arc<Mutex<Vec<Moment>>> = Arc::default();
        {
            let (medium, promised, moments) = (medium.clone(), promised.clone(), moments.clone());
            let seed = Mutex::new(Random(round + 1));
            let watched = medium.clone();
            medium.observe(move || {
                let keep = |n: usize| seed.lock().unwrap().below(n + 1);
                let cut = watched.power_cut_with(keep, Removals::Undone);
                moments.lock().unwrap().push((cut, promised.lock().unwrap().clone()));
            });
        }
        for n in 0..8 {
            let bytes = vec![b'a' + n; random.below(2_500)];
            let more = [n; 10];
            let at =
                packs.append(["a", "b"][random.below(2)], &[body(&bytes), body(&more)]).unwrap();
            promised.lock().unwrap().extend([(at[0], bytes), (at[1], more.to_vec())]);
        }
        for (medium, promised) in moments.lock().unwrap().iter() {
            let packs = on(medium);
            for (at, bytes) in promised {
                assert_eq!(&content(&packs, *at), bytes);
            }
            for number in packs.list().unwrap() {
                let found = packs.scan(number, 0).unwrap().unwrap();
                assert!(found.damaged.is_empty());
                packs.truncate(number, found.valid_bytes).unwrap();
            }
            let at = packs.append("a", &[body(b"it goes on")]).unwrap()[0];
            assert_eq!(content(&packs, at), b"it goes on");
        }
    }
}

#[test]
fn a_full_disk_or_a_failed_sync_costs_what_was_not_promised_and_no_more() {
    for fault in [Fault::NoSpace, Fault::ShortWrite, Fault::SyncFails] {
        for calls in 0..4 {
            let medium = Faulty::default();
            let packs = on(&medium);
            let kept = packs.append("a", &[body(b"kept")]).unwrap()[0];
            medium.set_fault_after(calls, fault);
            let mut failed = 0;
            for _ in 0..4 {
                failed += u32::from(packs.append("a", &[body(b"lost")]).is_err());
                failed += u32::from(packs.append("b", &[body(b"lost")]).is_err());
            }
            assert!(failed > 0, "{fault:?}");
            medium.set_fault(Fault::None);
            let at = packs.append("a", &[body(b"after")]).unwrap()[0];
            let packs = on(&medium.power_cut(|n| n));
            assert_eq!(content(&packs, kept), b"kept");
            assert_eq!(content(&packs, at), b"after");
            for number in packs.list().unwrap() {
                assert!(packs.scan(number, 0).unwrap().unwrap().damaged.is_empty(), "{fault:?}");
            }
        }
    }
}

#[test]
fn a_retracted_batch_is_gone_and_one_that_something_follows_is_not() {
    let medium = Faulty::default();
    let packs = on(&medium);
    let kept = packs.append("a", &[body(b"kept")]).unwrap();
    let batch = packs.append("a", &[body(b"x"), body(b"y")]).unwrap();
    packs.retract(&batch);
    assert_eq!(packs.size(1).unwrap(), Some(kept[0].offset + kept[0].bytes));
    let again = packs.append("a", &[body(b"z")]).unwrap();
    assert_eq!(again[0].offset, batch[0].offset);
    packs.retract(&kept);
    assert_eq!(content(&packs, kept[0]), b"kept");
}

/// Another room than the quarantine: its own database with the same tables, content shared and
/// dropped as its rows say.
#[test]
fn any_room_keeps_its_content_in_packs_with_a_database_of_its_own() {
    let (medium, room) = (Faulty::default(), rusqlite::Connection::open_in_memory().unwrap());
    room.execute_batch(index::pack_tables!()).unwrap();
    let packs = on(&medium);
    let keep = |group: &str, bytes: &[u8]| {
        let batch = room.unchecked_transaction().unwrap();
        let hash = ContentHash::of(bytes);
        let known = index::find_body(&batch, hash).unwrap();
        let at = known.unwrap_or_else(|| {
            let at = packs.append(group, &[body(bytes)]).unwrap()[0];
            index::note_appended(&batch, group, &[at]).unwrap();
            index::set_body(&batch, hash, at).unwrap();
            at
        });
        batch.commit().unwrap();
        at
    };
    let object = keep("objects of monday", b"an attachment");
    assert_eq!(keep("objects of monday", b"an attachment"), object, "stored once");
    let page = keep("pages", b"a page");
    assert_ne!(page.pack, object.pack);
    let batch = room.unchecked_transaction().unwrap();
    assert!(index::forget_body(&batch, ContentHash::of(b"an attachment")).unwrap());
    batch.commit().unwrap();
    let unused = index::packs(&room).unwrap().into_iter().filter(|row| row.live == 0);
    let unused: Vec<u64> = unused.map(|row| row.number).collect();
    assert_eq!(unused, [object.pack]);
    assert!(packs.remove(&unused).unwrap());
    assert_eq!(packs.read(object).unwrap(), None);
    assert_eq!(content(&packs, page), b"a page");
}
