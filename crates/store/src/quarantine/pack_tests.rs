//! Packs of held mail: what drops, moves and rebuilds them, and what is said of damage.

use std::os::unix::fs::FileExt;

use super::tests::{begin, item, order};
use super::*;

const DAY: i64 = 86_400_000;

fn of_day(n: i64, day: i64) -> QuarantineItem {
    QuarantineItem { received_ms: day * DAY + n, ..item(n) }
}

fn message(n: i64) -> Vec<u8> {
    format!("message {n} ").repeat(100).into_bytes()
}

fn hold(q: &Quarantine, n: i64, day: i64) {
    assert!(q.put(&of_day(n, day), &message(n)).unwrap());
}

fn packs_of(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder.join(PACKS)).unwrap().flatten().map(|e| e.path());
    let mut packs: Vec<_> =
        entries.filter(|p| p.extension().is_some_and(|e| e == "pack")).collect();
    packs.sort();
    packs
}

/// The index agrees with itself: live bytes of packs are those of bodies and items.
fn check_totals(q: &Quarantine) {
    let differ = "SELECT number FROM pack WHERE name <> 'changes' AND (live <> \
                  (SELECT count(*) FROM body WHERE pack = number) + \
                  (SELECT count(*) FROM item WHERE item.pack = number) OR live_bytes <> \
                  (SELECT coalesce(sum(bytes), 0) FROM body WHERE pack = number) + \
                  (SELECT coalesce(sum(entry_bytes), 0) FROM item WHERE item.pack = number))";
    assert!(!q.read(|c| c.prepare(differ)?.exists([])).unwrap(), "{:?}", q.read(index::packs));
}

#[test]
fn retention_drops_whole_packs_by_day_and_folder() {
    let folder = tempfile::tempdir().unwrap();
    let q = Quarantine::open(folder.path()).unwrap();
    q.set_own_packs(["explicit".to_owned()]);
    // Odd ones are in `explicit`.
    for n in 0..9 {
        hold(&q, n, n / 3);
    }
    assert_eq!(packs_of(folder.path()).len(), 6, "three days of two kinds of folders");
    let limit = FolderLimit { folder: "explicit".into(), retention_days: 9, bytes_max: None };
    assert_eq!(q.retain_except(2 * DAY, None, std::slice::from_ref(&limit), 9 * DAY).unwrap(), 3);
    assert_eq!(packs_of(folder.path()).len(), 4, "the folder keeps its own for longer");
    let limit = FolderLimit { retention_days: 7, ..limit };
    assert_eq!(q.retain_folders(&[limit], 9 * DAY).unwrap(), 3);
    assert_eq!(packs_of(folder.path()).len(), 2);
    check_totals(&q);
    assert_eq!(q.body("q8").unwrap(), Some(message(8)));
}

#[test]
fn single_deletions_leave_holes_that_compaction_reclaims() {
    let folder = tempfile::tempdir().unwrap();
    let q = Quarantine::open(folder.path()).unwrap();
    for n in 0..20 {
        hold(&q, n, 1);
    }
    let full = q.pack_totals().unwrap();
    q.delete("q1", "ada", 5).unwrap();
    assert_eq!(q.compact().unwrap(), 0, "one hole is no reason");
    for n in 2..12 {
        q.delete(&format!("q{n}"), "ada", 5).unwrap();
    }
    check_totals(&q);
    assert_eq!(q.compact().unwrap(), 1);
    let less = q.pack_totals().unwrap();
    assert!(less.bytes < full.bytes * 2 / 3, "{less:?} {full:?}");
    check_totals(&q);
    for n in [0, 12, 19] {
        assert_eq!(q.body(&format!("q{n}")).unwrap(), Some(message(n)));
    }
    let raw: Vec<u8> =
        packs_of(folder.path()).iter().flat_map(|p| std::fs::read(p).unwrap()).collect();
    let has = |text: &[u8]| raw.windows(text.len()).any(|w| w == text);
    assert!(has(b"message 12 ") && !has(b"message 3 "), "what was deleted is gone from the disk");
    drop(q);
    let again = Quarantine::open(folder.path()).unwrap();
    assert_eq!(again.body("q12").unwrap(), Some(message(12)));
    assert_eq!(again.get("q3").unwrap().unwrap().state, State::Deleted);
}

#[test]
fn a_second_process_is_refused_and_one_beside_reads() {
    let folder = tempfile::tempdir().unwrap();
    let q = Quarantine::open(folder.path()).unwrap();
    hold(&q, 1, 1);
    let error = Quarantine::open(folder.path()).unwrap_err().to_string();
    assert!(error.contains("another process writes here"), "{error}");
    let beside = Quarantine::open_shared(folder.path()).unwrap();
    assert_eq!(beside.body("q1").unwrap(), Some(message(1)));
    assert!(beside.put(&of_day(2, 1), b"x").is_err());
    assert_eq!(beside.delete("q1", "ada", 5).unwrap(), Deletion::Done);
    assert_eq!(q.body("q1").unwrap(), None);
    // The node notes it in the packs, and drops the pack.
    q.maintain().unwrap();
    let noted = "SELECT 1 FROM item WHERE state <> noted";
    assert!(!q.read(|c| c.prepare(noted)?.exists([])).unwrap());
    assert_eq!(packs_of(folder.path()).len(), 1, "that of changes");
    drop(q);
    assert!(beside.put(&of_day(2, 1), b"x").unwrap(), "nobody else writes any more");
}

#[test]
fn a_flipped_byte_and_a_missing_day_cost_their_messages_and_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let q = Quarantine::open(folder.path()).unwrap();
    for n in 1..=4 {
        hold(&q, n, (n - 1) / 2);
    }
    hold(&q, 5, 5);
    drop(q);
    let packs = packs_of(folder.path());
    std::fs::remove_file(&packs[1]).unwrap();
    let file = std::fs::File::options().read(true).write(true).open(&packs[0]).unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, 700).unwrap();
    file.write_all_at(&[byte[0] ^ 4], 700).unwrap();
    let q = Quarantine::open(folder.path()).unwrap();
    let mut found = Vec::new();
    assert_eq!(q.verify(|damaged| found.push(damaged)).unwrap(), 5);
    let found: Vec<_> = found.iter().map(|d| (d.id.as_str(), d.error.to_string())).collect();
    assert_eq!(found.iter().map(|f| f.0).collect::<Vec<_>>(), ["q1", "q3", "q4"]);
    assert!(found[0].1.contains("0000000000000001.pack") && found[0].1.contains("backup"));
    assert!(found[1].1.contains("is missing") && found[1].1.contains("0000000000000002.pack"));
    let damaged = q.damaged_packs().unwrap();
    assert!(damaged.len() == 1 && damaged[0].contains("is missing"), "{damaged:?}");
    assert!(q.body("q1").is_err() && q.body("q3").is_err());
    assert_eq!(q.body("q2").unwrap(), Some(message(2)));
    assert_eq!(q.body("q5").unwrap(), Some(message(5)));
    // The same message again is stored again, which repairs the first.
    q.put(&of_day(7, 5), &message(3)).unwrap();
    assert_eq!(q.body("q7").unwrap(), Some(message(3)));
    assert_eq!(q.body("q3").unwrap(), Some(message(3)));
    assert_eq!(q.delete("q7", "ada", 9).unwrap(), Deletion::Done);
    // The damaged one is kept when its pack would be compacted; the others are moved.
    q.delete("q2", "ada", 9).unwrap();
    q.maintain().unwrap();
    assert!(packs[0].exists());
    let error = q.reencrypt().unwrap_err().to_string();
    assert!(error.contains("0000000000000001.pack"), "{error}");
    for id in ["q1", "q3", "q4"] {
        assert_eq!(q.delete(id, "ada", 9).unwrap(), Deletion::Done);
    }
    assert!(!packs[0].exists() && q.damaged_packs().unwrap().is_empty());
    // A new pack has none of the numbers that were taken.
    hold(&q, 6, 6);
    assert_eq!(q.verify(|damaged| panic!("{damaged:?}")).unwrap(), 2);
}

#[test]
fn a_list_that_is_lost_is_made_again_from_the_packs() {
    let folder = tempfile::tempdir().unwrap();
    let q = Quarantine::open(folder.path()).unwrap();
    for n in 1..=8 {
        hold(&q, n, n);
    }
    q.put(&of_day(9, 9), &message(1)).unwrap();
    q.delete("q2", "ada", 5).unwrap();
    let done = begin(&q, "q3", 6 * DAY);
    q.finish_release(&done.token, 7 * DAY).unwrap();
    let open = begin(&q, "q4", 8 * DAY);
    let before = q.search(&HeldQuery { limit: 99, ..HeldQuery::default() }).unwrap().items;
    drop(q);
    let database = folder.path().join("quarantine.db");
    let lose = || {
        ["", "-wal", "-shm"].map(|suffix| {
            let _may_be_gone = std::fs::remove_file(format!("{}{suffix}", database.display()));
        })
    };
    lose();
    let error = Quarantine::open(folder.path()).unwrap_err().to_string();
    assert!(error.contains("gauntlet quarantine rebuild"), "{error}");
    std::fs::write(&database, vec![0x5a; 20_000]).unwrap();
    let made = Quarantine::rebuild(folder.path(), None, 77).unwrap();
    // The deleted one went with its pack.
    assert_eq!((made.items, made.torn_bytes, made.damaged.len()), (8, 0, 0));
    let aside = made.aside.unwrap();
    assert!(aside.to_string_lossy().ends_with("quarantine.db.before-rebuild-77"));
    assert_eq!(std::fs::metadata(aside).unwrap().len(), 20_000);
    let q = Quarantine::open(folder.path()).unwrap();
    let after = q.search(&HeldQuery { limit: 99, ..HeldQuery::default() }).unwrap().items;
    let shown = |held: &Held| (held.item.clone(), held.state, held.changed_ms, held.size);
    let [mut before, mut after] =
        [before, after].map(|all| all.iter().map(shown).collect::<Vec<_>>());
    before.retain(|(item, ..)| item.id != "q2");
    before.sort_by(|a, b| a.0.id.cmp(&b.0.id));
    after.sort_by(|a, b| a.0.id.cmp(&b.0.id));
    assert_eq!(before, after);
    assert_eq!(q.body("q9").unwrap(), Some(message(1)));
    assert_eq!(q.body("q2").unwrap(), None);
    let unfinished = q.unfinished_releases().unwrap();
    assert_eq!(unfinished.len(), 1);
    assert_eq!(
        (&unfinished[0].token, &unfinished[0].order),
        (&open.token, &ReleaseOrder { right: ReleaseRight::default(), ..open.order })
    );
    assert_eq!(q.begin_release("q3", &order(), 9).unwrap(), Begin::NotHeld(State::Released));
    check_totals(&q);
    assert_eq!(q.folders().unwrap().iter().map(|f| f.items).sum::<u64>(), 6);
}

#[test]
fn a_database_older_than_the_packs_catches_up() {
    let folder = tempfile::tempdir().unwrap();
    let (database, copy) = (folder.path().join("quarantine.db"), folder.path().join("copy.db"));
    let q = Quarantine::open(folder.path()).unwrap();
    (1..=6).for_each(|n| hold(&q, n, 1));
    drop(q);
    std::fs::copy(&database, &copy).unwrap();
    let q = Quarantine::open(folder.path()).unwrap();
    (7..=9).for_each(|n| hold(&q, n, 1));
    let done = begin(&q, "q1", 3 * DAY);
    q.finish_release(&done.token, 3 * DAY).unwrap();
    for n in 2..=5 {
        q.delete(&format!("q{n}"), "ada", 3 * DAY).unwrap();
    }
    assert_eq!(q.compact().unwrap(), 1);
    drop(q);
    std::fs::copy(&copy, &database).unwrap();
    let q = Quarantine::open(folder.path()).unwrap();
    for n in [1, 6, 7, 8, 9] {
        assert_eq!(q.body(&format!("q{n}")).unwrap(), Some(message(n)), "{n}");
    }
    assert_eq!(q.begin_release("q1", &order(), 9 * DAY).unwrap(), Begin::NotHeld(State::Released));
    for n in 2..=5 {
        assert_eq!(q.get(&format!("q{n}")).unwrap().unwrap().state, State::Deleted, "{n}");
    }
    check_totals(&q);
    assert_eq!(q.verify(|damaged| panic!("{damaged:?}")).unwrap(), 5);
}

#[test]
fn changes_are_written_anew_when_most_of_them_do_not_matter_any_more() {
    let folder = tempfile::tempdir().unwrap();
    let q = Quarantine::open(folder.path()).unwrap();
    (1..=12).for_each(|n| hold(&q, n, 1));
    q.delete("q2", "ada", 5).unwrap();
    q.delete("q3", "ada", 5).unwrap();
    // Forgotten by the database, but its record is still in the pack.
    q.change(|batch| batch.execute("DELETE FROM item WHERE id = 'q3'", [])).unwrap();
    for n in 0..20 {
        let again = begin(&q, "q1", 10 * n);
        q.abandon_release(&again.token, "no room", 10 * n + 5).unwrap();
    }
    let changes = || {
        let rows = q.read(index::packs).unwrap();
        rows.iter().filter(|row| row.group == CHANGES).map(|row| row.live).sum::<u64>()
    };
    assert_eq!(changes(), 42);
    q.maintain().unwrap();
    assert_eq!(changes(), 2);
    drop(q);
    Quarantine::rebuild(folder.path(), None, 1).unwrap();
    let q = Quarantine::open(folder.path()).unwrap();
    let states = ["q1", "q2", "q3", "q4"].map(|id| q.get(id).unwrap().unwrap().state);
    assert_eq!(states, [State::Held, State::Deleted, State::Deleted, State::Held]);
}

#[test]
fn compaction_and_a_backup_do_not_disturb_each_other() {
    let folder = tempfile::tempdir().unwrap();
    let q = Quarantine::open(folder.path()).unwrap();
    (1..=4).for_each(|n| hold(&q, n, 1));
    let keep = crate::packs::Keep::packs(&folder.path().join(PACKS)).unwrap();
    let copied = packs_of(folder.path());
    for n in 1..=3 {
        q.delete(&format!("q{n}"), "ada", 5).unwrap();
    }
    assert_eq!(q.compact().unwrap(), 1);
    assert!(copied[0].exists(), "it is being copied");
    assert_eq!(q.body("q4").unwrap(), Some(message(4)));
    drop(keep);
    q.maintain().unwrap();
    assert!(!copied[0].exists());
    assert_eq!(q.body("q4").unwrap(), Some(message(4)));
}

#[test]
fn a_note_that_is_left_of_a_failed_write_undoes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let q = Quarantine::open(folder.path()).unwrap();
    hold(&q, 1, 1);
    let release = begin(&q, "q1", 3 * DAY);
    q.finish_release(&release.token, 4 * DAY).unwrap();
    // As a write leaves it that was reported as failed, and could not be cut off.
    let left = entry::Change {
        id: "q1".to_owned(),
        state: State::Releasing,
        changed_ms: 3 * DAY,
        token: Some(release.token.clone()),
        release: Some(serde_json::to_string(&release.order).unwrap()),
    };
    let left = entry::change_record(&q.content, &left).unwrap();
    q.packs.append(CHANGES, &[left.as_new()]).unwrap();
    drop(q);
    let q = Quarantine::open(folder.path()).unwrap();
    assert_eq!(q.get("q1").unwrap().unwrap().state, State::Released);
    assert_eq!(q.unfinished_releases().unwrap(), []);
}

#[test]
fn a_message_whose_commit_failed_and_was_there_after_a_crash_is_stored_again() {
    let folder = tempfile::tempdir().unwrap();
    let q = Quarantine::open(folder.path()).unwrap();
    hold(&q, 1, 1);
    hold(&q, 2, 1);
    let (_, entry) = q.read(|c| rows::entry_of(c, "q2")).unwrap().unwrap();
    let hash = crate::content::ContentHash::of(&message(2));
    let body = q.read(|c| index::find_body(c, hash)).unwrap().unwrap();
    // The rows are there, and the records were taken back; others lie in their place.
    q.packs.retract(&[body, entry]);
    hold(&q, 3, 1);
    assert!(q.body("q2").is_err());
    // The spool was told that it failed, and comes again.
    assert!(!q.put(&of_day(2, 1), &message(2)).unwrap(), "it is no new item");
    for n in 1..=3 {
        assert_eq!(q.body(&format!("q{n}")).unwrap(), Some(message(n)));
    }
    check_totals(&q);
    assert_eq!(q.verify(|damaged| panic!("{damaged:?}")).unwrap(), 3);
    // What is held, and can be read, is not stored again.
    let before = q.pack_totals().unwrap();
    assert!(!q.put(&of_day(2, 1), &message(2)).unwrap());
    assert_eq!(q.pack_totals().unwrap(), before);
    drop(q);
    assert_eq!(Quarantine::rebuild(folder.path(), None, 1).unwrap().items, 3);
}
