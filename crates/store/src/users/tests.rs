use super::audit::{FAILED, FAILURES_PRUNED_EVERY};
use super::*;

fn user_named(login: &str, role: Role) -> User {
    User {
        login: login.to_owned(),
        role,
        folders: vec!["suspect".to_owned()],
        addresses: Vec::new(),
        must_change: false,
        created_ms: 7,
    }
}

#[test]
fn first_start_makes_an_administrator_once() {
    let folder = tempfile::tempdir().unwrap();
    let users = UserDatabase::open(folder.path()).unwrap();
    let password = users.create_first_administrator(1).unwrap().unwrap();
    assert_eq!(users.create_first_administrator(2).unwrap(), None);
    let admin = users.verify("Admin", &password).unwrap().unwrap();
    assert!(admin.must_change && admin.role == Role::Administrator);
    assert_eq!(users.verify("admin", "wrong").unwrap(), None);
    assert_eq!(users.verify("nobody", &password).unwrap(), None);
    assert!(users.set_password("admin", "short", false, "admin", 3).is_err());
    assert!(users.set_password("admin", "long enough now", false, "admin", 3).unwrap());
    assert!(!users.verify("admin", "long enough now").unwrap().unwrap().must_change);
    assert_eq!(users.verify("admin", &password).unwrap(), None);
    assert_eq!(users.audit_log(9).unwrap().len(), 2);
}

#[test]
fn users_are_added_and_removed() {
    let folder = tempfile::tempdir().unwrap();
    let users = UserDatabase::open(folder.path()).unwrap();
    let ada = user_named("ada", Role::Administrator);
    users.add(&ada, "a long password", "gauntlet", 7).unwrap();
    users.add(&user_named("eve", Role::Reviewer), "a long password", "ada", 7).unwrap();
    assert!(users.add(&user_named("EVE", Role::User), "a long password", "ada", 7).is_err());
    assert!(users.add(&user_named("a b", Role::User), "a long password", "ada", 7).is_err());
    for wrong in ["ann", "@example.org", "ann@", "a b@example.org", "a@b\r\nRCPT TO:<c@d>", "<a@b>"]
    {
        let addresses = vec!["ann@example.org".to_owned(), wrong.to_owned()];
        let odd = User { addresses: addresses.clone(), ..user_named("odd", Role::User) };
        let why = users.add(&odd, "a long password", "ada", 7).unwrap_err().to_string();
        assert!(why.contains("is no address"), "{why}");
        let (role, none) = (Role::Reviewer, Vec::new());
        assert!(users.change_rights("eve", role, &none, &addresses, "ada", 7).is_err(), "{wrong}");
    }
    let other = vec!["j\u{f6}rg@b\u{fc}cher.example".to_owned()];
    assert!(users.change_rights("eve", Role::Reviewer, &Vec::new(), &other, "ada", 7).unwrap());
    assert_eq!(users.list().unwrap()[0], ada);
    assert!(users.remove("ada", "ada", 8).is_err());
    assert!(users.remove("eve", "ada", 8).unwrap());
    assert!(!users.remove("eve", "ada", 9).unwrap());
}

/// The node and a command write at the same time: `database is locked` when both had read first.
#[test]
fn two_programs_change_users_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let [node, command] = [(); 2].map(|()| UserDatabase::open(folder.path()).unwrap());
    node.add(&user_named("ada", Role::Reviewer), "a long password", "x", 1).unwrap();
    std::thread::scope(|scope| {
        for users in [&node, &command] {
            scope.spawn(move || (0..100).for_each(|_| drop(users.begin_totp("ada").unwrap())));
        }
    });
}

#[test]
fn sessions_last_while_used_and_end_with_the_password() {
    let folder = tempfile::tempdir().unwrap();
    let users = UserDatabase::open(folder.path()).unwrap();
    users.add(&user_named("ada", Role::Reviewer), "a long password", "x", 1).unwrap();
    let started = users.start_session("ada", 1000).unwrap();
    let again = users.start_session("ada", 1000).unwrap();
    assert_ne!(started.token, again.token);
    let idle = 100_000;
    let age = 250_000;
    let session_of = |token: &str, now| users.session(token, now, idle, age).unwrap();
    let session = session_of(&started.token, 90_000).unwrap();
    assert_eq!((session.user.login.as_str(), &session.csrf), ("ada", &started.csrf));
    assert!(session_of(&started.token, 180_000).is_some());
    assert!(session_of(&again.token, 180_000).is_none());
    assert!(session_of("no such token", 1).is_none());
    // Requests that a page makes by itself are no use.
    let left = users.start_session("ada", 1000).unwrap();
    assert!(users.peek_session(&left.token, 90_000, idle, age).unwrap().is_some());
    assert!(users.peek_session(&left.token, 180_000, idle, age).unwrap().is_none());
    // However active it is, it expires some time after it began.
    assert!(session_of(&started.token, 1000 + age).is_some());
    assert!(session_of(&started.token, 1000 + age + 1).is_none());
    assert!(session_of(&started.token, 2000).is_none(), "for good");
    let ended = users.start_session("ada", 1000).unwrap();
    users.end_session(&ended.token).unwrap();
    assert!(session_of(&ended.token, 1001).is_none());
    let last = users.start_session("ada", 1000).unwrap();
    users.set_password("ada", "another password", false, "ada", 2000).unwrap();
    assert!(session_of(&last.token, 2000).is_none());
}

#[test]
fn sessions_end_with_what_proved_them_and_with_what_they_allowed() {
    let folder = tempfile::tempdir().unwrap();
    let users = UserDatabase::open(folder.path()).unwrap();
    users.add(&user_named("ada", Role::Administrator), "a long password", "x", 1).unwrap();
    users.add(&user_named("eve", Role::Administrator), "a long password", "x", 1).unwrap();
    let now = 1_795_235_000_000;
    let begun = |login: &str| users.start_session(login, now).unwrap().token;
    let lives = |token: &str| users.session(token, now, i64::MAX, i64::MAX).unwrap().is_some();
    let (other, stays) = (begun("ada"), begun("eve"));
    let secret = users.begin_totp("ada").unwrap();
    assert!(lives(&other), "nothing has changed yet");
    let code = totp_code(&secret, now).unwrap();
    users.enable_totp("ada", &code, now).unwrap().unwrap();
    assert!(!lives(&other), "a second factor");
    let other = begun("ada");
    users.remove_totp("ada", "eve", now).unwrap();
    assert!(!lives(&other), "no second factor");
    let other = begun("ada");
    let folders = ["suspect".to_owned()];
    users.change_rights("ada", Role::Administrator, &folders, &[], "eve", now).unwrap();
    assert!(lives(&other), "nothing was changed");
    users.change_rights("ada", Role::Reviewer, &folders, &[], "eve", now).unwrap();
    assert!(!lives(&other), "a role");
    assert!(lives(&stays), "nobody else's");
}

#[test]
fn a_session_by_a_link_is_for_the_mail_of_one_address() {
    let folder = tempfile::tempdir().unwrap();
    let users = UserDatabase::open(folder.path()).unwrap();
    let ada = User {
        addresses: vec!["ada@example.org".to_owned(), "sales@example.org".to_owned()],
        created_ms: 1,
        ..user_named("ada", Role::Administrator)
    };
    users.add(&ada, "a long password", "x", 1).unwrap();
    let by = |proof| {
        let started = users.start_session_with("ada", proof, "Ada@example.org", 5).unwrap();
        users.session(&started.token, 6, 9, 9).unwrap().unwrap()
    };
    let session = by(Proof::Link);
    assert_eq!((session.proof, session.user.role), (Proof::Link, Role::User));
    assert_eq!(session.user.addresses, ["ada@example.org"]);
    assert!(session.user.folders.is_empty());
    let session = by(Proof::FreshSingleSignOn);
    assert_eq!((session.proof, &session.user), (Proof::FreshSingleSignOn, &ada));
}

#[test]
fn a_flood_of_guesses_does_not_fill_the_audit_log() {
    let folder = tempfile::tempdir().unwrap();
    let users = UserDatabase::open(folder.path()).unwrap();
    users.add(&user_named("ada", Role::Administrator), "a long password", "x", 1).unwrap();
    users
        .change(|batch| {
            for n in 0..30_000 {
                let action = if n % 2 == 0 { FAILED } else { "sign-in failed: code" };
                audit(batch, n, "invented", action, "", "192.0.2.1")?;
            }
            audit(batch, 1, "ada", "sign-in", "", "")
        })
        .unwrap();
    for n in 0..2 * FAILURES_PRUNED_EVERY {
        users.note(n, "invented", FAILED, "192.0.2.1").unwrap();
    }
    let all = users.full_audit_log(u64::MAX).unwrap();
    let failed = all.iter().filter(|line| line.action.starts_with(FAILED)).count() as i64;
    assert!((FAILURES_KEPT_MAX..=FAILURES_KEPT_MAX + FAILURES_PRUNED_EVERY).contains(&failed));
    let others: Vec<&str> =
        all.iter().map(|l| l.action.as_str()).filter(|a| !a.starts_with(FAILED)).collect();
    assert_eq!(others, ["sign-in", "add user"], "nothing else goes");
    // Nor are they hidden.
    let shown: Vec<String> = users.audit_log(200).unwrap().into_iter().map(|l| l.action).collect();
    assert_eq!(
        (shown.len(), &shown[49..]),
        (52, &[FAILED, "sign-in", "add user"].map(String::from)[..])
    );
}

#[test]
fn tokens_go_with_the_administrator_who_made_them() {
    let folder = tempfile::tempdir().unwrap();
    let users = UserDatabase::open(folder.path()).unwrap();
    for login in ["ada", "bob", "eve"] {
        users.add(&user_named(login, Role::Administrator), "a long password", "x", 1).unwrap();
    }
    let token = |name: &str, who: &str| {
        users.add_token(name, &[Scope::QueueRead], 1, who, 1).unwrap();
    };
    token("of-bob", "Bob");
    token("of-eve", "eve");
    token("of-the-token", "token of-eve");
    token("of-ada", "ada");
    token("of-the-machine", "command line");
    let left =
        || -> Vec<String> { users.tokens().unwrap().into_iter().map(|token| token.name).collect() };
    users.change_rights("bob", Role::Administrator, &[], &[], "ada", 2).unwrap();
    assert_eq!(left().len(), 5, "still an administrator");
    users.change_rights("bob", Role::Reviewer, &[], &[], "ada", 2).unwrap();
    assert_eq!(left(), ["of-ada", "of-eve", "of-the-machine", "of-the-token"]);
    users.remove("eve", "ada", 3).unwrap();
    assert_eq!(left(), ["of-ada", "of-the-machine"]);
}

#[test]
fn of_two_administrators_who_go_at_once_one_stays() {
    for _ in 0..20 {
        let folder = tempfile::tempdir().unwrap();
        let users = UserDatabase::open(folder.path()).unwrap();
        for login in ["ada", "eve"] {
            let user = user_named(login, Role::Administrator);
            users.add(&user, "a long password", "x", 1).unwrap();
        }
        let start = std::sync::Barrier::new(2);
        std::thread::scope(|scope| {
            let (users, start) = (&users, &start);
            scope.spawn(move || {
                start.wait();
                let _one_of_them_fails = users.remove("ada", "eve", 2);
            });
            scope.spawn(move || {
                start.wait();
                let _one_of_them_fails = users.change_rights("eve", Role::User, &[], &[], "ada", 2);
            });
        });
        let all = users.list().unwrap();
        assert!(all.iter().any(|u| u.role == Role::Administrator), "{all:?}");
    }
}
