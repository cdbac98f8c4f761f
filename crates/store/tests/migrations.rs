//! Files of every earlier schema are read: `schemas/STORE-VERSION.sql` has the statements that make
//! such a file. A new migration needs a new fixture of the version before.

use std::path::{Path, PathBuf};

use gauntlet_store::quarantine::{HeldQuery, State};
use gauntlet_store::users::Scope;
use gauntlet_store::{ContentHash, History, Log, Policies, Quarantine, Query, Users};
use gauntlet_verdict::Class;
use rusqlite::Connection;

fn schemas() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/schemas")
}

/// Makes a file as that version of the program left it.
fn make(name: &str, path: &Path) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    let text = std::fs::read_to_string(schemas().join(format!("{name}.sql"))).unwrap();
    Connection::open(path).unwrap().execute_batch(&text).unwrap();
}

fn version(path: &Path) -> i64 {
    let read = |c: Connection| c.query_row("PRAGMA user_version", [], |row| row.get(0));
    read(Connection::open(path).unwrap()).unwrap()
}

/// Versions of a store that there are fixtures of, ascending.
fn versions(store: &str) -> Vec<i64> {
    let names = std::fs::read_dir(schemas()).unwrap().flatten();
    let mut found: Vec<i64> = names
        .filter_map(|e| e.file_name().into_string().ok())
        .filter_map(|n| n.strip_prefix(&format!("{store}-"))?.strip_suffix(".sql")?.parse().ok())
        .collect();
    found.sort_unstable();
    found
}

#[test]
fn users_of_every_version_are_known() {
    let all = versions("users");
    let newest = {
        let folder = tempfile::tempdir().unwrap();
        Users::open(folder.path()).unwrap();
        version(&folder.path().join("users.db"))
    };
    assert_eq!(all, (1..=newest).collect::<Vec<i64>>(), "a fixture for every version");
    for n in all {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("users.db");
        make(&format!("users-{n}"), &path);
        let users = Users::open(folder.path()).unwrap();
        assert_eq!(version(&path), newest, "{n}");
        let logins: Vec<String> = users.list().unwrap().into_iter().map(|u| u.login).collect();
        assert_eq!(logins, ["ada", "Bob@example.org"], "{n}");
        assert!(users.verify("ada", "correct horse battery").unwrap().is_some(), "{n}");
        assert_eq!(users.audit_log(9).unwrap()[0].action, "add user", "{n}");
        assert_eq!(users.listed_senders().unwrap().len(), usize::from(n >= 3), "{n}");
        let tokens = users.tokens().unwrap();
        let scopes: Vec<Scope> = tokens.iter().flat_map(|t| t.scopes.clone()).collect();
        let expected = [Scope::QueueRead, Scope::PolicyWrite];
        assert_eq!(scopes, expected[..if n >= 4 { 2 } else { 0 }], "{n}");
        let wishes = users.wishes("bob@example.org").unwrap();
        assert_eq!(wishes.spam_points, (n >= 5).then_some(4.5), "{n}");
        assert_eq!(users.digest_mark("bob@example.org").unwrap(), if n >= 5 { 7 } else { 0 });
        assert_eq!(users.searches("ada").unwrap().len(), usize::from(n >= 6), "{n}");
        assert_eq!(users.app_passwords("ada").unwrap().len(), usize::from(n >= 7), "{n}");
        // And they can be changed.
        users.set_password("ada", "another password", false, "ada", 9).unwrap();
        users.start_session("ada", 9).unwrap();
    }
}

#[test]
fn held_mail_of_every_version_is_known() {
    assert_eq!(versions("quarantine"), [1, 2, 3, 4]);
    for n in 1..=4 {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("quarantine.db");
        make(&format!("quarantine-{n}"), &path);
        let quarantine = Quarantine::open(folder.path()).unwrap();
        assert_eq!(version(&path), 5);
        let held = quarantine.search(&HeldQuery::default()).unwrap().items;
        let found: Vec<_> = held.iter().map(|h| (h.item.id.as_str(), h.state)).collect();
        let expected = [("q3", State::Deleted), ("q2", State::Released), ("q1", State::Held)];
        assert_eq!(found, expected);
        assert_eq!(held[2].item.envelope.mail_from, "eve@example.net");
        let folders = quarantine.folders().unwrap();
        assert_eq!(folders.len(), 1, "{n}");
        assert_eq!((folders[0].name.as_str(), folders[0].items), ("suspect", 1));
        assert_eq!((folders[0].bytes, folders[0].oldest_ms), (6, 1_000));
        assert_eq!(quarantine.audit_log("q2", 9).unwrap()[0].who, "ada");
        assert_eq!(quarantine.retain(1_500, None, 9).unwrap(), 1);
        assert!(quarantine.folders().unwrap().is_empty(), "{n}");
    }
}

/// Bodies as versions before the packs kept them: a file each, named by its hash.
fn old_body(folder: &Path, bytes: &[u8]) -> PathBuf {
    let name = ContentHash::of(bytes).to_string();
    let path = folder.join("bodies").join(&name[..2]).join(&name[2..4]).join(&name);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(&path, bytes).unwrap();
    path
}

#[test]
fn bodies_in_files_of_their_own_are_read_and_moved_into_packs() {
    for n in 1..=3 {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("quarantine.db");
        make(&format!("quarantine-{n}"), &path);
        let (kept, gone) =
            (old_body(folder.path(), b"body 1"), old_body(folder.path(), b"deleted"));
        std::fs::create_dir_all(folder.path().join("bodies/incoming")).unwrap();
        std::fs::write(folder.path().join("bodies/incoming/0-1"), b"half").unwrap();
        let old = Connection::open(&path).unwrap();
        let hash = |bytes: &[u8]| ContentHash::of(bytes).to_string();
        old.execute("UPDATE item SET content = ?1 WHERE id IN ('q1', 'q2')", [hash(b"body 1")])
            .unwrap();
        old.execute("INSERT INTO garbage VALUES (?1)", [hash(b"deleted")]).unwrap();
        drop(old);
        let beside = || Quarantine::open_shared(folder.path()).unwrap();
        assert_eq!(beside().body("q1").unwrap().as_deref(), Some(&b"body 1"[..]), "in place");
        let quarantine = Quarantine::open(folder.path()).unwrap();
        assert!(!gone.exists() && kept.exists());
        assert_eq!(quarantine.body("q1").unwrap().as_deref(), Some(&b"body 1"[..]));
        assert_eq!(quarantine.move_old(|| false).unwrap(), 0, "it is interrupted");
        assert_eq!(quarantine.move_old(|| true).unwrap(), 2);
        assert!(!folder.path().join("bodies").exists(), "{n}");
        assert_eq!(quarantine.move_old(|| true).unwrap(), 0);
        for id in ["q1", "q2"] {
            assert_eq!(quarantine.body(id).unwrap().as_deref(), Some(&b"body 1"[..]));
            assert_eq!(beside().body(id).unwrap().as_deref(), Some(&b"body 1"[..]));
        }
        drop(quarantine);
        // And what was moved is in the packs with all that is known of it.
        let made = Quarantine::rebuild(folder.path(), None, 1).unwrap();
        assert_eq!(made.items, 2);
        let quarantine = Quarantine::open(folder.path()).unwrap();
        let states = ["q1", "q2"].map(|id| quarantine.get(id).unwrap().unwrap().state);
        assert_eq!(states, [State::Held, State::Released]);
    }
}

#[test]
fn a_damaged_old_body_stays_where_it_is_and_stops_no_other() {
    let folder = tempfile::tempdir().unwrap();
    make("quarantine-3", &folder.path().join("quarantine.db"));
    let (bad, good) = (old_body(folder.path(), b"body 1"), old_body(folder.path(), b"body 2"));
    std::fs::write(&bad, b"body l").unwrap();
    let old = Connection::open(folder.path().join("quarantine.db")).unwrap();
    for (id, bytes) in [("q1", b"body 1"), ("q2", b"body 2")] {
        let hash = ContentHash::of(bytes).to_string();
        old.execute("UPDATE item SET content = ?1 WHERE id = ?2", [hash.as_str(), id]).unwrap();
    }
    drop(old);
    let quarantine = Quarantine::open(folder.path()).unwrap();
    assert_eq!(quarantine.move_old(|| true).unwrap(), 1);
    assert!(bad.exists() && !good.exists());
    assert!(quarantine.body("q1").is_err());
    assert_eq!(quarantine.body("q2").unwrap().as_deref(), Some(&b"body 2"[..]));
    assert_eq!(
        quarantine.delete("q1", "ada", 9).unwrap(),
        gauntlet_store::quarantine::Deletion::Done
    );
    quarantine.maintain().unwrap();
    assert!(!bad.exists());
}

#[test]
fn policies_of_every_version_are_known() {
    assert_eq!(versions("policies"), [1]);
    let folder = tempfile::tempdir().unwrap();
    make("policies-1", &folder.path().join("policies.db"));
    let policies = Policies::open(folder.path()).unwrap();
    let newest = policies.newest().unwrap().unwrap();
    assert_eq!((newest.version.number, newest.text.as_str()), (2, "two"));
    assert_eq!(policies.before(2).unwrap().unwrap().text, "one");
}

/// The packed record, as LZ4 (block format) of literals only.
fn packed(json: &str) -> Vec<u8> {
    let length = json.len();
    let mut out = vec![1];
    out.extend_from_slice(&u32::try_from(length).unwrap().to_le_bytes());
    out.push(0xf0);
    let mut rest = length - 15;
    while rest >= 255 {
        out.push(255);
        rest -= 255;
    }
    out.push(u8::try_from(rest).unwrap());
    out.extend_from_slice(json.as_bytes());
    out
}

#[test]
fn days_of_the_log_of_every_version_are_searched_and_written_on() {
    assert_eq!(versions("log"), [1, 2, 3, 4]);
    for n in versions("log") {
        a_day_of_the_log_is_searched_and_written_on(n);
    }
}

fn a_day_of_the_log_is_searched_and_written_on(n: i64) {
    let folder = tempfile::tempdir().unwrap();
    let day = folder.path().join("2026-10-18.db");
    make(&format!("log-{n}"), &day);
    let json = r#"{"envelope":{"direction":"inbound","client_ip":"192.0.2.1","client_name":null,
        "helo":"mail.example.net","mail_from":"eve@example.net","rcpt_to":["bob@example.org"],
        "auth_user":null,"tls":null,"received_at":1792319825},"facts":{"spf":"pass"},
        "verdict":{"class":"spam","score":9.5,"probability":null,"hits":[],"defects":[],
        "counterfactuals":[],"costs":[],"ruleset":"1"}}"#;
    let connection = Connection::open(&day).unwrap();
    connection.execute("UPDATE message SET rest = ?1", [packed(json)]).unwrap();
    drop(connection);
    let log = Log::open(folder.path()).unwrap();
    assert_eq!(version(&day), 5, "brought forward");
    let ids = |query: Query| -> Vec<String> {
        log.search(&query).unwrap().messages.into_iter().map(|m| m.id).collect()
    };
    let all = Query::default;
    assert_eq!(ids(all()), ["M2", "M1"]);
    assert_eq!(ids(Query { subject: "lunch friday".to_owned(), ..all() }), ["M1"]);
    assert_eq!(ids(Query { classes: vec![Class::Spam], ..all() }), ["M2"]);
    assert_eq!(ids(Query { event: "released".to_owned(), ..all() }), ["M2"]);
    let logged = log.get("M2").unwrap().unwrap();
    assert_eq!(logged.record.envelope.mail_from, "eve@example.net");
    assert_eq!(logged.record.dispositions[0].rules, ["Hold"]);
    assert_eq!((logged.record.verdict.score, logged.events.len()), (9.5, 1));
    let (since, until) = (1_792_281_600_000, 1_792_368_000_000);
    assert_eq!(log.counts(since, until, 60).unwrap().buckets.len(), 2);
    assert_eq!(log.feedback(since, until).unwrap()[0].kind, "released");
    // The message is written again, and more of the same day.
    let mut record = logged.record.clone();
    record.dispositions.clear();
    record.deliveries.clear();
    let again = gauntlet_store::LogRecord { id: "M3".to_owned(), ..record.clone() };
    log.append(vec![record, again]).unwrap();
    assert_eq!(ids(all()).len(), 3);
    assert_eq!(ids(Query { classes: vec![Class::Spam], ..all() }).len(), 2);
    assert_eq!(ids(Query { event: "released".to_owned(), ..all() }), ["M2"]);
    assert_eq!(log.get("M3").unwrap().unwrap().record.verdict.score, 9.5);
}

#[test]
fn histories_of_every_version_are_known() {
    let newest = {
        let folder = tempfile::tempdir().unwrap();
        History::open(folder.path()).unwrap();
        version(&folder.path().join("history.db"))
    };
    let all = versions("history");
    assert_eq!(all, (1..newest).collect::<Vec<i64>>(), "a fixture for every earlier version");
    for n in all {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("history.db");
        make(&format!("history-{n}"), &path);
        let history = History::open(folder.path()).unwrap();
        assert_eq!(version(&path), newest, "{n}");
        let known = history.lookup("d example.org", 2_000).unwrap();
        assert_eq!((known.first_s, known.ham, known.spam), (1_000, 3.0, 1.0), "{n}");
        history.record(&["d example.org".to_owned()], false, 2_000);
        history.write(2_000).unwrap();
    }
}
