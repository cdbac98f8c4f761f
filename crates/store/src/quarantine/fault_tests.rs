//! Power cuts and kills at every moment of everything that changes the packs, with the database as
//! it was at that moment; and the same with the database lost.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;

use super::tests::{begin, item, order};
use super::*;
use crate::spool::fault::{Fault, Faulty, Removals};

const DAY: i64 = 86_400_000;

/// A folder in memory where there is one: the database itself is not what is tested.
fn memory_folder() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap()
}

/// What callers were promised, and what a spool would know.
#[derive(Debug, Clone, Default)]
struct Promises {
    /// Held items and their messages.
    held: BTreeMap<String, Vec<u8>>,
    /// Items that were deleted.
    deleted: BTreeSet<String>,
    /// Tokens of releases that are in the spool.
    spool: BTreeSet<String>,
    /// Items that were handed to the spool.
    sent: BTreeSet<String>,
}

/// The world at one moment.
struct Moment {
    mediums: Vec<Faulty>,
    database: PathBuf,
    promises: Promises,
}

#[derive(Default)]
struct Recorder {
    moments: Mutex<Vec<Moment>>,
    promises: Mutex<Promises>,
}

impl Recorder {
    fn promise(&self, change: impl FnOnce(&mut Promises)) {
        change(&mut self.promises.lock().unwrap());
    }

    fn record(&self, medium: &Faulty, folder: &Path) {
        let mut moments = self.moments.lock().unwrap();
        let database = folder.join(format!("moment-{}", moments.len()));
        std::fs::create_dir(&database).unwrap();
        for name in ["quarantine.db", "quarantine.db-wal"] {
            std::fs::copy(folder.join(name), database.join(name)).unwrap();
        }
        let mediums = vec![
            medium.killed(),
            medium.power_cut_with(|_| 0, Removals::Undone),
            medium.power_cut_with(|n| n / 2, Removals::Kept),
        ];
        let promises = self.promises.lock().unwrap().clone();
        moments.push(Moment { mediums, database, promises });
    }
}

fn packs_on(medium: &Faulty) -> Packs {
    Packs::on(Arc::new(medium.clone()), PackOptions { bytes_max: 3_000 })
}

fn message(n: i64) -> Vec<u8> {
    // Two have the same.
    format!("message {}", if n == 5 { 1 } else { n }).repeat(40).into_bytes()
}

fn of_day(n: i64, day: i64) -> QuarantineItem {
    QuarantineItem { received_ms: day * DAY + n, ..item(n) }
}

fn put(q: &Quarantine, recorder: &Recorder, items: &[(i64, i64)]) {
    let items: Vec<_> = items.iter().map(|(n, day)| (of_day(*n, *day), message(*n))).collect();
    let batch: Vec<_> = items.iter().map(|(item, raw)| (item, &raw[..])).collect();
    q.put_many(&batch).unwrap();
    recorder.promise(|p| p.held.extend(items.into_iter().map(|(item, raw)| (item.id, raw))));
}

fn delete(q: &Quarantine, recorder: &Recorder, id: &str) {
    recorder.promise(|p| {
        p.held.remove(id);
    });
    assert_eq!(q.delete(id, "ada", 20 * DAY).unwrap(), Deletion::Done);
    recorder.promise(|p| {
        p.deleted.insert(id.to_owned());
    });
}

fn release(q: &Quarantine, recorder: &Recorder, id: &str, is_spooled: bool) {
    let raw = q.body(id).unwrap().unwrap();
    recorder.promise(|p| {
        p.held.remove(id);
    });
    let begun = begin(q, id, 20 * DAY);
    if !is_spooled {
        assert!(q.abandon_release(&begun.token, "no room", 20 * DAY).unwrap());
        return recorder.promise(|p| {
            p.held.insert(id.to_owned(), raw);
        });
    }
    recorder.promise(|p| {
        p.spool.insert(begun.token.clone());
        p.sent.insert(id.to_owned());
    });
    assert!(q.finish_release(&begun.token, 20 * DAY).unwrap());
    // It is delivered, and the spool forgets it.
    recorder.promise(|p| {
        p.spool.remove(&begun.token);
    });
}

/// Everything that changes packs, once.
fn scenario(q: &Quarantine, recorder: &Recorder) {
    put(q, recorder, &[(1, 1), (2, 1), (3, 1), (4, 1)]);
    put(q, recorder, &[(5, 2), (6, 2), (7, 3), (8, 3)]);
    delete(q, recorder, "q2");
    delete(q, recorder, "q6");
    release(q, recorder, "q3", true);
    release(q, recorder, "q4", false);
    q.maintain().unwrap();
    put(q, recorder, &[(9, 3), (10, 3)]);
    release(q, recorder, "q7", true);
    // Day 1 is too old.
    recorder.promise(|p| p.held.retain(|id, _| id != "q1" && id != "q4"));
    q.retain(2 * DAY, None, 20 * DAY).unwrap();
    q.maintain().unwrap();
    delete(q, recorder, "q8");
    q.maintain().unwrap();
    put(q, recorder, &[(11, 3)]);
}

/// The node starts again at this moment: every promise is kept.
fn check(q: &Quarantine, promises: &Promises, what: &str) {
    for (id, raw) in &promises.held {
        let held = q.get(id).unwrap().unwrap_or_else(|| panic!("{what}: {id} is lost"));
        assert_eq!(held.state, State::Held, "{what}: {id}");
        assert_eq!(q.body(id).unwrap().as_ref(), Some(raw), "{what}: {id}");
    }
    for id in &promises.deleted {
        let state = q.get(id).unwrap().map(|held| held.state);
        assert!(matches!(state, None | Some(State::Deleted)), "{what}: {id} is {state:?}");
    }
    let mut sent = promises.sent.clone();
    for release in q.unfinished_releases().unwrap() {
        let id = release.held.item.id.clone();
        if !promises.spool.contains(&release.token) {
            assert!(sent.insert(id.clone()), "{what}: {id} would be sent twice");
            assert!(q.body(&id).unwrap().is_some(), "{what}: {id}");
        }
        assert!(q.finish_release(&release.token, 21 * DAY).unwrap());
    }
    for id in &sent {
        let again = q.begin_release(id, &order(), 22 * DAY).unwrap();
        assert!(matches!(again, Begin::NotHeld(_) | Begin::Unknown), "{what}: {id}: {again:?}");
    }
    q.verify(|damaged| panic!("{what}: {damaged:?}")).unwrap();
    assert!(q.put(&of_day(99, 3), b"it goes on").unwrap(), "{what}");
    assert_eq!(q.body("q99").unwrap().as_deref(), Some(&b"it goes on"[..]));
    q.maintain().unwrap();
    for (id, raw) in &promises.held {
        assert_eq!(q.body(id).unwrap().as_ref(), Some(raw), "{what}: {id}");
    }
}

#[test]
fn no_moment_of_a_power_cut_or_kill_loses_or_repeats_a_message() {
    let folder = memory_folder();
    let medium = Faulty::default();
    let q = Quarantine::open_on(folder.path(), packs_on(&medium), None).unwrap();
    let recorder = Arc::new(Recorder::default());
    {
        let (recorder, watched, path) =
            (recorder.clone(), medium.clone(), folder.path().to_owned());
        medium.observe(move || recorder.record(&watched, &path));
    }
    scenario(&q, &recorder);
    let moments = std::mem::take(&mut *recorder.moments.lock().unwrap());
    assert!(moments.len() > 80, "{}", moments.len());
    for (n, moment) in moments.iter().enumerate() {
        for (way, medium) in moment.mediums.iter().enumerate() {
            let again = memory_folder();
            let copy = || {
                for name in ["quarantine.db", "quarantine.db-wal"] {
                    std::fs::copy(moment.database.join(name), again.path().join(name)).unwrap();
                }
            };
            copy();
            let packs = packs_on(&medium.killed());
            let q = Quarantine::open_on(again.path(), packs, None).unwrap();
            check(&q, &moment.promises, &format!("moment {n}, way {way}"));
            drop(q);
            if (n + way) % 3 > 0 {
                continue;
            }
            // The database is lost, too: all is made again from the packs.
            let packs = packs_on(&medium.killed());
            Quarantine::rebuild_on(again.path(), packs, None, 1).unwrap();
            let medium = medium.killed();
            std::fs::remove_file(again.path().join("quarantine.db")).unwrap();
            Quarantine::rebuild_on(again.path(), packs_on(&medium), None, 2).unwrap();
            let q = Quarantine::open_on(again.path(), packs_on(&medium), None).unwrap();
            check(&q, &moment.promises, &format!("moment {n}, way {way}, without the database"));
        }
    }
}

#[test]
fn a_disk_that_is_full_at_any_moment_costs_nothing_that_was_promised() {
    for fault in [Fault::NoSpace, Fault::ShortWrite, Fault::SyncFails] {
        for calls in 0..24 {
            let folder = memory_folder();
            let medium = Faulty::default();
            let q = Quarantine::open_on(folder.path(), packs_on(&medium), None).unwrap();
            let recorder = Recorder::default();
            put(&q, &recorder, &[(1, 1), (2, 1), (3, 1), (4, 1), (5, 2), (6, 2)]);
            medium.set_fault_after(calls, fault);
            // Deleting needs no room but for the note of it, which is made later.
            for id in ["q2", "q3"] {
                recorder.promise(|p| {
                    p.held.remove(id);
                });
                if q.delete(id, "ada", 9).is_ok()
                    || q.get(id).unwrap().unwrap().state == State::Deleted
                {
                    recorder.promise(|p| {
                        p.deleted.insert(id.to_owned());
                    });
                }
            }
            let _may_fail = q.compact();
            if q.put(&of_day(7, 2), &message(7)).is_ok() {
                recorder.promise(|p| {
                    p.held.insert("q7".to_owned(), message(7));
                });
            }
            let _may_fail = q.compact();
            let promises = recorder.promises.lock().unwrap().clone();
            for (id, raw) in &promises.held {
                assert_eq!(
                    q.body(id).unwrap().as_ref(),
                    Some(raw),
                    "{fault:?} after {calls}: {id}"
                );
            }
            medium.set_fault(Fault::None);
            q.maintain().unwrap();
            check(&q, &promises, &format!("{fault:?} after {calls}"));
            drop(q);
            let cut = medium.power_cut_with(|_| 0, Removals::Undone);
            let q = Quarantine::open_on(folder.path(), packs_on(&cut), None).unwrap();
            for (id, raw) in &promises.held {
                assert_eq!(
                    q.body(id).unwrap().as_ref(),
                    Some(raw),
                    "{fault:?} after {calls}: {id}"
                );
            }
        }
    }
}
