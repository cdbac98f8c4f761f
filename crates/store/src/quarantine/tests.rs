use gauntlet_mail::Envelope;
use gauntlet_verdict::Class;

use super::*;
use crate::content::ContentHash;
use crate::packs::index::find_body;

pub(super) fn item(n: i64) -> QuarantineItem {
    QuarantineItem {
        id: format!("q{n}"),
        message: format!("m{n}"),
        folder: if n % 2 == 0 { "suspect" } else { "explicit" }.to_owned(),
        recipients: vec![format!("User{n}@example.com"), "all@example.com".to_owned()],
        envelope: Envelope { mail_from: "eve@example.net".to_owned(), ..Envelope::default() },
        received_ms: 1000 * n,
        class: Class::Spam,
        score: 7.5,
        subject: format!("Win {n} prizes"),
        from: "Eve <eve@example.net>".to_owned(),
        release: None,
    }
}

/// Whether the index knows a body.
fn is_stored(q: &Quarantine, bytes: &[u8]) -> bool {
    q.read(|c| find_body(c, ContentHash::of(bytes))).unwrap().is_some()
}

pub(super) fn order() -> ReleaseOrder {
    let right = ReleaseRight::Admin;
    ReleaseOrder { who: "ada".to_owned(), right, ..ReleaseOrder::default() }
}

pub(super) fn begin(q: &Quarantine, id: &str, now_ms: i64) -> Release {
    match q.begin_release(id, &order(), now_ms).unwrap() {
        Begin::Started(release) => *release,
        other => panic!("{other:?}"),
    }
}

#[test]
fn holds_lists_and_reads() {
    let folder = tempfile::tempdir().unwrap();
    let q = Quarantine::open(folder.path()).unwrap();
    for n in 0..10 {
        let mut one = item(n);
        if n == 4 {
            one.envelope.mail_from = "bounce4@list.example".to_owned();
        }
        assert!(q.put(&one, format!("body {n}").as_bytes()).unwrap());
    }
    assert!(!q.put(&item(3), b"another body").unwrap());
    assert_eq!(q.body("q3").unwrap().as_deref(), Some(&b"body 3"[..]));
    assert_eq!(q.get("q3").unwrap().unwrap().item, item(3));
    assert_eq!(q.get("q11").unwrap(), None);
    let ids = |query: HeldQuery| -> Vec<String> {
        q.search(&query).unwrap().items.into_iter().map(|h| h.item.id).collect()
    };
    let all = HeldQuery::default;
    assert_eq!(ids(HeldQuery { recipient: "user4@EXAMPLE.com".into(), ..all() }), ["q4"]);
    assert_eq!(ids(HeldQuery { text: "win 4".into(), ..all() }), ["q4"]);
    // The sender of the envelope is found, too: by users, and by those who see all recipients.
    for hide_recipients in [false, true] {
        let text = "BOUNCE4@list.example".to_owned();
        assert_eq!(ids(HeldQuery { text, hide_recipients, ..all() }), ["q4"]);
    }
    assert_eq!(ids(HeldQuery { message: "m4".into(), ..all() }), ["q4"]);
    assert_eq!(ids(HeldQuery { folder: "suspect".into(), limit: 2, ..all() }), ["q8", "q6"]);
    let since = HeldQuery { since_ms: Some(8000), until_ms: Some(9000), ..all() };
    assert_eq!(ids(since), ["q8"]);
    assert_eq!(ids(HeldQuery { classes: vec![Class::Ham], ..all() }), [""; 0]);
    let page = q.search(&HeldQuery { limit: 4, ..all() }).unwrap();
    assert_eq!(ids(HeldQuery { after: page.next, limit: 1, ..all() }), ["q5"]);
    assert_eq!(q.folders().unwrap().iter().map(|f| f.items).collect::<Vec<_>>(), [5, 5]);
}

#[test]
fn releasing_twice_delivers_once() {
    let folder = tempfile::tempdir().unwrap();
    let q = Quarantine::open(folder.path()).unwrap();
    q.put(&item(1), b"body").unwrap();
    let release = begin(&q, "q1", 10);
    assert_eq!(release.recipients, item(1).recipients);
    assert_eq!(q.begin_release("q1", &order(), 11).unwrap(), Begin::NotHeld(State::Releasing));
    assert_eq!(q.delete("q1", "ada", 12).unwrap(), Deletion::NotHeld(State::Releasing));
    // A crash here: the next start resumes the same release.
    drop(q);
    let q = Quarantine::open(folder.path()).unwrap();
    assert_eq!(q.unfinished_releases().unwrap(), std::slice::from_ref(&release));
    assert!(q.finish_release(&release.token, 20).unwrap());
    assert!(!q.finish_release(&release.token, 21).unwrap());
    assert_eq!(q.begin_release("q1", &order(), 22).unwrap(), Begin::NotHeld(State::Released));
    assert_eq!(q.unfinished_releases().unwrap(), []);
    let log: Vec<String> = q
        .audit_log("q1", 10)
        .unwrap()
        .into_iter()
        .map(|l| format!("{} {}", l.who, l.action))
        .collect();
    assert_eq!(log, ["gauntlet released", "ada release"]);
    assert_eq!(q.body("q1").unwrap().as_deref(), Some(&b"body"[..]));
}

#[test]
fn a_release_that_failed_can_be_begun_again() {
    let folder = tempfile::tempdir().unwrap();
    let q = Quarantine::open(folder.path()).unwrap();
    q.put(&item(1), b"body").unwrap();
    let first = begin(&q, "q1", 10);
    assert!(q.abandon_release(&first.token, "disk full", 11).unwrap());
    let second = begin(&q, "q1", 12);
    assert_ne!(first.token, second.token);
    assert!(!q.finish_release(&first.token, 13).unwrap());
    assert!(q.finish_release(&second.token, 13).unwrap());
}

#[test]
fn what_was_released_and_reached_nobody_is_held_again() {
    let folder = tempfile::tempdir().unwrap();
    let q = Quarantine::open(folder.path()).unwrap();
    q.put(&item(1), b"body").unwrap();
    let first = begin(&q, "q1", 10);
    // The next hop is faster than the disk.
    let held = q.release_failed(&first.token, "550 no", true, 11).unwrap().unwrap();
    assert_eq!(held.item.id, "q1");
    assert!(!q.finish_release(&first.token, 12).unwrap(), "it is held");
    let second = begin(&q, "q1", 13);
    assert!(q.finish_release(&second.token, 14).unwrap());
    assert_eq!(q.release_failed(&first.token, "550 no", true, 15).unwrap(), None, "another one");
    // Some have it.
    assert!(q.release_failed(&second.token, "550 no", false, 16).unwrap().is_some());
    assert_eq!(q.get("q1").unwrap().unwrap().state, State::Released);
    assert!(q.release_failed(&second.token, "550 no", true, 17).unwrap().is_some());
    drop(q);
    let q = Quarantine::open(folder.path()).unwrap();
    assert_eq!(q.get("q1").unwrap().unwrap().state, State::Held);
    assert_eq!(q.body("q1").unwrap().as_deref(), Some(&b"body"[..]));
    let log = q.audit_log("q1", 10).unwrap();
    assert_eq!((log[0].action.as_str(), log[0].detail.as_str()), ("release failed", "550 no"));
}

#[test]
fn of_many_who_release_at_once_one_begins() {
    let folder = tempfile::tempdir().unwrap();
    let q = Quarantine::open(folder.path()).unwrap();
    q.put(&item(1), b"body").unwrap();
    let started = std::thread::scope(|threads| {
        let tries: Vec<_> = (0..8)
            .map(|n| {
                let q = &q;
                threads.spawn(move || q.begin_release("q1", &order(), n).unwrap())
            })
            .collect();
        let begun = tries.into_iter().map(|t| t.join().unwrap());
        begun.filter(|b| matches!(b, Begin::Started(_))).count()
    });
    assert_eq!(started, 1);
}

#[test]
fn deleted_bodies_go_unless_another_item_has_them() {
    let folder = tempfile::tempdir().unwrap();
    let q = Quarantine::open(folder.path()).unwrap();
    q.put(&item(1), b"same").unwrap();
    q.put(&item(2), b"same").unwrap();
    let is_there = || is_stored(&q, b"same");
    assert_eq!(q.delete("q1", "ada", 5).unwrap(), Deletion::Done);
    assert!(is_there());
    assert_eq!(q.body("q1").unwrap(), None);
    assert_eq!(q.delete("q2", "ada", 6).unwrap(), Deletion::Done);
    assert!(!is_there());
    assert_eq!(q.delete("q2", "ada", 7).unwrap(), Deletion::NotHeld(State::Deleted));
    assert_eq!(q.delete("q3", "ada", 7).unwrap(), Deletion::Unknown);
    assert_eq!(q.begin_release("q2", &order(), 8).unwrap(), Begin::NotHeld(State::Deleted));
}

#[test]
fn retention_forgets_by_age_and_by_size() {
    let folder = tempfile::tempdir().unwrap();
    let q = Quarantine::open(folder.path()).unwrap();
    for n in 0..10 {
        q.put(&item(n), format!("body {n}").as_bytes()).unwrap();
    }
    begin(&q, "q0", 1);
    assert_eq!(q.retain(4000, None, 9).unwrap(), 3);
    assert!(q.get("q0").unwrap().is_some());
    // 4 to 9 remain in two folders, 6 bytes each; together they may have 24.
    assert_eq!(q.retain(0, Some(24), 9).unwrap(), 2);
    let left = |id: &str| q.get(id).unwrap().is_some();
    assert!(!left("q4") && !left("q5") && left("q6") && left("q7"));
    assert!(!is_stored(&q, b"body 4") && is_stored(&q, b"body 6"));
}

#[test]
fn folders_have_limits_of_their_own() {
    let folder = tempfile::tempdir().unwrap();
    let q = Quarantine::open(folder.path()).unwrap();
    // Even numbers are in `suspect`, odd ones in `explicit`; a day apart.
    for n in 0..10 {
        let item = QuarantineItem { received_ms: n * 86_400_000, ..item(n) };
        q.put(&item, format!("body {n}").as_bytes()).unwrap();
    }
    let limit = |days, bytes_max| FolderLimit {
        folder: "explicit".to_owned(),
        retention_days: days,
        bytes_max,
    };
    let (now, left) = (10 * 86_400_000, |id: &str| q.get(id).unwrap().is_some());
    assert_eq!(q.retain_folders(&[limit(4, None)], now).unwrap(), 3);
    assert!(!left("q5") && left("q7") && left("q0"), "only of its folder");
    // Folders with limits of their own are not subject to the general age.
    assert_eq!(q.retain_except(9 * 86_400_000, None, &[limit(4, None)], now).unwrap(), 5);
    assert!(left("q7") && !left("q8"));
    assert_eq!(q.retain_folders(&[limit(99, Some(7))], now).unwrap(), 1);
    assert!(!left("q7") && left("q9"), "the oldest goes first");
    let why = q.audit_log("q7", 9).unwrap();
    assert_eq!(why[0].detail, "folder over its cap");
}

#[test]
fn held_mail_is_sealed_and_sealed_anew() {
    let folder = tempfile::tempdir().unwrap();
    let key_file = folder.path().join("keys");
    let open = |seal| {
        let keys = crate::BodyKeys::open(&key_file, seal).unwrap();
        Quarantine::open_with(&folder.path().join("q"), Some(keys)).unwrap()
    };
    open(false).put(&item(1), b"before it was switched on").unwrap();
    let q = open(true);
    q.put(&item(2), b"a secret").unwrap();
    assert_eq!(q.body("q1").unwrap().as_deref(), Some(&b"before it was switched on"[..]));
    assert_eq!(q.body("q2").unwrap().as_deref(), Some(&b"a secret"[..]));
    assert_eq!(q.reencrypt().unwrap(), 1, "the one from before");
    q.keys().unwrap().rotate().unwrap();
    assert_eq!(q.reencrypt().unwrap(), 2);
    assert_eq!(q.keys().unwrap().drop_old().unwrap(), 1);
    drop(q);
    let again = open(true);
    assert_eq!(again.body("q2").unwrap().as_deref(), Some(&b"a secret"[..]));
    assert_eq!(again.reencrypt().unwrap(), 0);
    let on_disk = || {
        let packs = std::fs::read_dir(folder.path().join("q/packs")).unwrap().flatten();
        let all = packs.map(|e| std::fs::read(e.path()).unwrap());
        all.flatten().collect::<Vec<u8>>()
    };
    let has = |text: &[u8]| on_disk().windows(text.len()).any(|w| w == text);
    assert!(!has(b"switched on") && !has(b"eve@example.net"), "nothing is in clear, also in holes");
    // Also what became of a message outlives a new key, for a list that is made again.
    again.put(&item(3), b"another").unwrap();
    again.put(&item(5), b"one more").unwrap();
    again.delete("q3", "ada", 9).unwrap();
    again.keys().unwrap().rotate().unwrap();
    assert_eq!(again.reencrypt().unwrap(), 3);
    assert_eq!(again.keys().unwrap().drop_old().unwrap(), 1);
    drop(again);
    let keys = || Some(crate::BodyKeys::open(&key_file, true).unwrap());
    let made = Quarantine::rebuild(&folder.path().join("q"), keys(), 1).unwrap();
    assert_eq!((made.items, made.damaged), (3, Vec::new()));
    std::fs::remove_file(&key_file).unwrap();
    let lost = Quarantine::open(&folder.path().join("q")).unwrap();
    let error = lost.body("q2").unwrap_err().to_string();
    assert!(error.contains("encrypted") && error.contains("quarantine.key_file"), "{error}");
}

#[test]
fn deleted_bodies_are_not_sealed_anew() {
    let folder = tempfile::tempdir().unwrap();
    let key_file = folder.path().join("keys");
    let keys = || Some(crate::BodyKeys::open(&key_file, true).unwrap());
    let node = Quarantine::open_with(&folder.path().join("q"), keys()).unwrap();
    for (n, body) in [(1, "deleted"), (2, "kept"), (3, "in two"), (4, "in two")] {
        node.put(&item(n), body.as_bytes()).unwrap();
    }
    // `gauntlet quarantine delete` beside the node leaves the bodies to the node's next round.
    let beside = Quarantine::open_shared_with(&folder.path().join("q"), keys()).unwrap();
    for id in ["q1", "q3"] {
        assert_eq!(beside.delete(id, "ada", 5).unwrap(), Deletion::Done);
    }
    assert!(!is_stored(&node, b"deleted"));
    beside.keys().unwrap().rotate().unwrap();
    let error = beside.reencrypt().unwrap_err().to_string();
    assert!(error.contains("have the running node do it"), "{error}");
    assert_eq!(node.reencrypt().unwrap(), 2, "what is held, nothing else");
    assert_eq!(beside.reencrypt().unwrap(), 0);
    assert_eq!(beside.keys().unwrap().drop_old().unwrap(), 1);
    assert_eq!(node.reencrypt().unwrap(), 0);
    assert_eq!(node.body("q2").unwrap().as_deref(), Some(&b"kept"[..]));
    assert_eq!(node.body("q4").unwrap().as_deref(), Some(&b"in two"[..]));
}

#[test]
fn folders_totals_follow_every_change() {
    let folder = tempfile::tempdir().unwrap();
    let q = Quarantine::open(folder.path()).unwrap();
    let counted = || {
        let found = q.search(&HeldQuery { limit: 99, ..HeldQuery::default() }).unwrap().items;
        let held: Vec<Held> = found.into_iter().filter(|h| h.state == State::Held).collect();
        let of = |name: &'static str| held.iter().filter(move |h| h.item.folder == name);
        let summary = |name: &'static str| FolderSummary {
            name: name.to_owned(),
            items: of(name).count() as u64,
            bytes: of(name).map(|h| h.size).sum(),
            oldest_ms: of(name).map(|h| h.item.received_ms).min().unwrap_or(0),
        };
        let both = ["explicit", "suspect"].map(summary);
        assert_eq!(
            q.folders().unwrap(),
            both.into_iter().filter(|f| f.items > 0).collect::<Vec<_>>()
        );
        held.len()
    };
    for n in 0..10 {
        q.put(&item(n), format!("body {n}").as_bytes()).unwrap();
    }
    assert!(!q.put(&item(3), b"known already, and longer").unwrap());
    assert_eq!(counted(), 10);
    q.delete("q1", "ada", 9).unwrap();
    let (kept, given) = (begin(&q, "q2", 9), begin(&q, "q4", 9));
    assert_eq!(counted(), 7);
    q.abandon_release(&kept.token, "no room", 10).unwrap();
    q.finish_release(&given.token, 10).unwrap();
    assert_eq!(counted(), 8);
    // q0, which is held, and q1, which is not.
    assert_eq!(q.retain(2_000, None, 11).unwrap(), 2);
    assert_eq!(counted(), 7);
    let limit = FolderLimit { folder: "suspect".into(), retention_days: 9, bytes_max: Some(6) };
    assert_eq!(q.retain_folders(&[limit], 12).unwrap(), 2);
    assert_eq!(q.folders().unwrap()[1].bytes, 6);
    assert_eq!(counted(), 5);
}
