//! Merging of users, whatever the order, repetition and loss.

use super::super::{Link, LinkKind, LinkStatus, Role, Scope, SecondFactor, User, totp_code};
use super::*;
use crate::clock::Clock;
use crate::sharing::seeded::Seeded;
use gauntlet_policy::people::Strictness;

/// A node of an array, which can be started anew.
struct Node {
    folder: tempfile::TempDir,
    users: UserDatabase,
    cursors: Cursors,
    number: i16,
}

fn unix_ms() -> i64 {
    Clock::system().unix_ms()
}

/// The keys of the array, in a file of this folder.
fn keys(folder: &std::path::Path, digits: &str) -> BodyKeys {
    let path = folder.join("users.key");
    std::fs::write(&path, digits.repeat(32)).unwrap();
    BodyKeys::open(&path, false).unwrap()
}

impl Node {
    fn new(number: i16) -> Node {
        let folder = tempfile::tempdir().unwrap();
        let users = UserDatabase::open(folder.path()).unwrap();
        Node { folder, users, cursors: Cursors::new(), number }.joined()
    }

    fn joined(mut self) -> Node {
        self.users.set_sharing_keys(Some(keys(self.folder.path(), "7b")));
        self.cursors = self.users.begin_sharing(&format!("array/{}", self.number)).unwrap();
        self
    }

    fn restarted(self) -> Node {
        let Node { folder, users, number, .. } = self;
        drop(users);
        let users = UserDatabase::open(folder.path()).unwrap();
        Node { folder, users, cursors: Cursors::new(), number }.joined()
    }

    fn send(&self, log: &mut Vec<Incoming>, is_cut: bool) {
        while let Some(out) = self.users.shared_changes().unwrap() {
            let number = log.len() as i64 + 1;
            log.push(Incoming { node: self.number, number, body: out.body });
            if is_cut {
                return;
            }
            self.users.shared_sent(out.mark).unwrap();
        }
    }

    /// Takes what others sent after its cursors; `back` steps back for duplicates.
    fn take(&mut self, log: &[Incoming], back: i64) {
        for batch in crate::sharing::relay::news(&self.cursors, self.number, log, back) {
            self.users.take_shared(&batch, unix_ms()).unwrap();
            let last = self.cursors.entry(batch.node).or_default();
            *last = batch.number.max(*last);
        }
    }

    /// All that is shared, as one text.
    fn contents(&self) -> String {
        let rows = |table: &Table| {
            let columns: Vec<&str> = table.all_columns().collect();
            let (all, name) = (columns.join(", "), table.name);
            let sql = format!("SELECT {all} FROM {name} ORDER BY {}", table.key_sql());
            self.users.read(|c| {
                let mut find = c.prepare(&sql)?;
                let row = |row: &rusqlite::Row<'_>| {
                    let cells = (0..columns.len()).map(|n| row.get::<_, Value>(n));
                    Ok(format!("{name} {:?}\n", cells.collect::<rusqlite::Result<Vec<_>>>()?))
                };
                find.query_map([], row)?.collect::<rusqlite::Result<String>>()
            })
        };
        TABLES.iter().map(|table| rows(table).unwrap()).collect()
    }
}

/// Everybody sends and takes until nothing is left.
fn settle(nodes: &mut [Node], log: &mut Vec<Incoming>) {
    for _ in 0..2 {
        nodes.iter().for_each(|node| node.send(log, false));
        nodes.iter_mut().for_each(|node| node.take(log, 0));
    }
}

fn person(login: &str) -> User {
    User {
        login: login.to_owned(),
        role: Role::User,
        folders: Vec::new(),
        addresses: vec![format!("{login}@example.org")],
        must_change: false,
        created_ms: 1,
    }
}

/// Something that a console does, without a password: hashing one takes long.
fn act(users: &UserDatabase, random: &mut Seeded) {
    let now = unix_ms();
    let login = format!("p{}@example.org", random.below(4));
    let entry = format!("s{}.example", random.below(4));
    let allow = random.below(2) == 0;
    let done = match random.below(11) {
        0 => users.user_for_address(&login, now).map(drop),
        1 => users.remove(&login, "test", now).map(drop),
        2 => users.change_rights(&login, Role::Reviewer, &[entry], &[], "t", now).map(drop),
        3 => users.list_sender(&entry, allow, "test", now),
        4 => users.unlist_sender(&entry, "test", now).map(drop),
        5 => users.list_personal_sender(&login, &entry, allow, now),
        6 => users.unlist_personal_sender(&login, &entry).map(drop),
        7 => users.set_strictness(&login, Strictness::Strict, Some(4.0), now),
        8 => users.begin_totp(&login).map(drop),
        9 => users.add_token(&entry, &[Scope::QueueRead], 5, "test", now).map(drop),
        _ => users.revoke_token(&entry, "test", now).map(drop),
    };
    // What cannot be done here and now changes nothing.
    let _such_as_a_factor_of_nobody = done;
}

#[test]
fn all_nodes_end_with_the_same_users_whatever_is_killed_repeated_or_late() {
    for seed in 0..12 {
        let mut random = Seeded(seed);
        let mut nodes: Vec<Node> = (1..=3).map(Node::new).collect();
        let mut log = Vec::new();
        for _ in 0..120 {
            let n = random.below(3) as usize;
            match random.below(8) {
                0 => nodes[n].send(&mut log, random.below(3) == 0),
                1 => nodes[n].take(&log, random.below(3) as i64),
                2 => {
                    let node = nodes.remove(n).restarted();
                    nodes.insert(n, node);
                }
                _ => act(&nodes[n].users, &mut random),
            }
        }
        settle(&mut nodes, &mut log);
        let all: Vec<String> = nodes.iter().map(Node::contents).collect();
        assert!(all[0] == all[1] && all[1] == all[2], "seed {seed}:\n{}", all.join("---\n"));
    }
}

#[test]
fn who_is_added_at_one_node_signs_in_at_another_and_a_code_is_used_once() {
    let mut nodes: Vec<Node> = (1..=2).map(Node::new).collect();
    let mut log = Vec::new();
    let now = unix_ms();
    let password = "correct horse battery";
    nodes[0].users.add(&person("ada"), password, "test", now).unwrap();
    let secret = nodes[0].users.begin_totp("ada").unwrap();
    let code = totp_code(&secret, now).unwrap();
    let recovery = nodes[0].users.enable_totp("ada", &code, now).unwrap().unwrap();
    let app = nodes[0].users.add_app_password("ada", "phone", "ada", now).unwrap().unwrap();
    settle(&mut nodes, &mut log);
    let there = &nodes[1].users;
    assert!(there.verify("ADA", password).unwrap().is_some());
    assert!(there.mail_login("ada", &app, now).unwrap().is_some());
    assert_eq!(there.second_factor("ada").unwrap(), SecondFactor::On { recovery_codes: 10 });
    assert!(!there.verify_second_factor("ada", &code, now).unwrap(), "it was used at the other");
    assert!(there.verify_second_factor("ada", &recovery[0], now).unwrap());
    let session = there.start_session("ada", now).unwrap();
    settle(&mut nodes, &mut log);
    assert!(!nodes[0].users.verify_second_factor("ada", &recovery[0], now).unwrap());
    // Another password at the one ends the sessions at the other, and app passwords.
    nodes[0].users.set_password("ada", "another horse battery", false, "ada", now).unwrap();
    settle(&mut nodes, &mut log);
    let there = &nodes[1].users;
    assert!(there.verify("ada", password).unwrap().is_none());
    assert!(there.mail_login("ada", &app, now).unwrap().is_none());
    assert_eq!(there.session(&session.token, now, 1_000_000, 1_000_000).unwrap(), None);
    let audited = there.audit_log(99).unwrap();
    assert!(audited.iter().any(|l| l.who == "node 1" && l.item == "user ada"), "{audited:?}");
    // Who is removed is gone with all that was theirs.
    nodes[1].users.remove("ada", "test", now).unwrap();
    settle(&mut nodes, &mut log);
    assert!(nodes[0].users.list().unwrap().is_empty());
    assert_eq!(nodes[0].users.second_factor("ada").unwrap(), SecondFactor::Off);
}

#[test]
fn a_new_node_takes_the_arrays_people_and_its_first_administrator_stays_unknown() {
    let mut log = Vec::new();
    let now = unix_ms();
    let first = Node::new(1);
    let password = first.users.create_first_administrator(now).unwrap().unwrap();
    assert_eq!(first.users.shared_changes().unwrap(), None, "nobody has signed in yet");
    assert!(first.users.set_password("admin", "a password of mine", false, "admin", now).unwrap());
    let link = Link {
        kind: LinkKind::Enter,
        address: "ann@example.org".to_owned(),
        item: String::new(),
        until_ms: now + 1_000_000,
        made_ms: now,
    };
    let sent = first.users.sign_link(&link).unwrap();
    // A node that was alone for years, with an administrator and links of its own.
    let folder = tempfile::tempdir().unwrap();
    let alone = UserDatabase::open(folder.path()).unwrap();
    alone.create_first_administrator(now).unwrap();
    alone.set_password("admin", "another password", false, "admin", now).unwrap();
    alone.list_sender("old.example", true, "admin", now).unwrap();
    let old = alone.sign_link(&link).unwrap();
    let second = Node { folder, users: alone, cursors: Cursors::new(), number: 2 }.joined();
    let third = Node::new(3);
    third.users.create_first_administrator(now).unwrap();
    let mut nodes = vec![first, second, third];
    settle(&mut nodes, &mut log);
    for node in &nodes {
        let users = &node.users;
        assert!(users.verify("admin", &password).unwrap().is_none());
        assert!(users.verify("admin", "a password of mine").unwrap().is_some(), "{}", node.number);
        assert_eq!(users.listed_senders().unwrap().len(), 1, "both nodes' lists");
        assert_eq!(users.check_link(&sent, now).unwrap(), LinkStatus::Valid(link.clone()));
        let known = users.check_link(&old, now).unwrap();
        assert_eq!(known, LinkStatus::Valid(link.clone()), "a link of before, {}", node.number);
    }
    assert_eq!(nodes[1].users.use_link(&old, now).unwrap(), LinkStatus::Valid(link.clone()));
    assert_eq!(nodes[2].users.use_link(&sent, now).unwrap(), LinkStatus::Valid(link.clone()));
    settle(&mut nodes, &mut log);
    assert_eq!(nodes[0].users.use_link(&sent, now).unwrap(), LinkStatus::Used(link));
}

#[test]
fn batches_of_another_key_or_another_version_change_nothing_and_say_why() {
    let nodes: Vec<Node> = (1..=2).map(Node::new).collect();
    let mut log = Vec::new();
    nodes[0].users.list_sender("a.example", true, "test", 1).unwrap();
    nodes[0].send(&mut log, false);
    let own = |node: &Node, digits| keys(node.folder.path(), digits);
    nodes[1].users.set_sharing_keys(Some(own(&nodes[1], "11")));
    let error = nodes[1].users.take_shared(&log[0], 1).unwrap_err().to_string();
    assert!(error.contains("the same file belongs on every node"), "{error}");
    nodes[1].users.set_sharing_keys(None);
    let error = nodes[1].users.take_shared(&log[0], 1).unwrap_err().to_string();
    assert!(error.contains("array.users_key"), "{error}");
    nodes[1].users.set_sharing_keys(Some(own(&nodes[1], "7b")));
    for bytes in [&b""[..], &[9, 1, 2], &[VERSION], &[VERSION, 0xc1]] {
        let body = own(&nodes[0], "7b").seal_as(CONTEXT, bytes).unwrap();
        let odd = Incoming { node: 1, number: 1, body };
        assert_eq!(nodes[1].users.take_shared(&odd, 1).unwrap(), Taken::default());
    }
    // Places and columns that this program does not know.
    let change = |place: &str, key: &str, columns: &[(&str, Cell)]| Change {
        place: place.to_owned(),
        key: key.to_owned(),
        version: 7,
        row: Some(columns.iter().map(|(n, c)| ((*n).to_owned(), c.clone())).collect()),
    };
    let text = |text: &str| Cell::Text(text.to_owned());
    let odd = [
        change("session", "x", &[]),
        change("used_link", "zz", &[]),
        change("sender", "nothing.example", &[]),
        change("recovery", "without a second part", &[]),
        change("token", "t", &[("name", text("t"))]),
        change(
            "wish",
            "a@b.example",
            &[("address", text("a@b.example")), ("strictness", text("?"))],
        ),
        change(
            "sender",
            "b.example",
            &[
                ("entry", text("b.example")),
                ("allow", Cell::Integer(1)),
                ("who", text("w")),
                ("at_ms", Cell::Integer(1)),
                ("later", Cell::Null),
            ],
        ),
    ];
    let mut bytes = vec![VERSION];
    bytes.extend(rmp_serde::to_vec_named(&odd.to_vec()).unwrap());
    let body = own(&nodes[0], "7b").seal_as(CONTEXT, &bytes).unwrap();
    let batch = Incoming { node: 1, number: 2, body };
    let taken = nodes[1].users.take_shared(&batch, 1).unwrap();
    assert_eq!(taken, Taken { people: true, senders: true });
    assert_eq!(nodes[1].users.listed_senders().unwrap()[0].entry, "b.example");
}
