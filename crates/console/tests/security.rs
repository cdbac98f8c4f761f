//! What an attack from outside tried against the console, with what it sent: releasing programs to
//! oneself, seeing blind copies, growing a token's rights, guessing passwords and codes.

use std::sync::Arc;

use crate::common::{Answer, Running, Sample, now_ms, start};
use gauntlet_console::Proxies;
use gauntlet_console::digest::{DigestOptions, digest};
use gauntlet_mail::{Direction, Envelope};
use gauntlet_store::quarantine::{FolderRelease, QuarantineItem, State};
use gauntlet_store::users::{Link, LinkKind, Scope, totp_code};
use gauntlet_verdict::{Class, ReleasedBy};

const URSULA: &str = "ursula@example.com";
const SETUP_EXE: &[u8] = b"From: eve@example.net\r\nTo: ursula@example.com\r\nSubject: update\r\n\
    Content-Type: application/octet-stream; name=setup.exe\r\n\
    Content-Disposition: attachment; filename=setup.exe\r\n\
    Content-Transfer-Encoding: base64\r\n\r\nTVqQAAMAAAAEAAAA\r\n";

/// Holds `setup.exe` for Ursula in this folder, as class suspect.
fn put_program(console: &Running, id: &str, folder: &str) {
    console.put(&Sample {
        id,
        class: Class::Suspect,
        score: 4.0,
        folder: Some(folder),
        to: URSULA,
        raw: SETUP_EXE,
        age_ms: 1_000,
        hits: Vec::new(),
    });
}

fn link(console: &Running, kind: LinkKind, item: &str) -> String {
    let address = URSULA.to_owned();
    let link = Link { kind, address, item: item.to_owned(), until_ms: i64::MAX, made_ms: 1 };
    format!("/link/{}", console.state.users.sign_link(&link).unwrap())
}

fn decide(console: &Running, cookie: &str, what: &str, items: &[&str]) -> Answer {
    let items: String = items.iter().map(|i| format!("&item={i}")).collect();
    let form = format!("csrf={}&decision={what}{items}", console.csrf(cookie));
    console.request("POST", "/quarantine/decide", cookie, &form)
}

fn api(console: &Running, cookie: &str, method: &str, path: &str, form: &str) -> Answer {
    let csrf = console.csrf(cookie);
    let headers = format!("Cookie: {cookie}\r\nX-CSRF-Token: {csrf}\r\n");
    console.request_with(method, path, &headers, form)
}

fn state_of(console: &Running, id: &str) -> State {
    console.state.quarantine.get(id).unwrap().unwrap().state
}

#[test]
fn users_do_not_release_programs_to_themselves_by_any_way() {
    let console = start();
    put_program(&console, "one", "programs");
    put_program(&console, "two", "programs");
    let user = console.sign_in("ursula");
    let page = console.request("GET", "/quarantine/held-one", &user, "");
    assert_eq!(page.status, 200);
    assert!(!page.body.contains("value=\"release\""), "no button");
    assert_eq!(decide(&console, &user, "release", &["held-one"]).status, 403);
    let several = decide(&console, &user, "release", &["held-one", "held-two"]);
    assert_eq!(several.header("location"), Some("/quarantine?notice=failed-2"));
    let path = "/api/v1/quarantine/held-one/release";
    for form in ["x=", "", "to=ursula@example.com", "learn=yes"] {
        let status = api(&console, &user, "POST", path, form).status;
        assert!([400, 403].contains(&status), "{form}: {status}");
    }
    assert_eq!(api(&console, &user, "POST", path, "").status, 403);
    // Links of digests that were sent before: checked when they are used.
    for kind in [LinkKind::Release, LinkKind::Allow] {
        let link = link(&console, kind, "held-one");
        for method in ["GET", "POST"] {
            let answer = console.request(method, &link, "", "");
            assert_eq!(answer.status, 403, "{method} {kind:?}: {}", answer.body);
        }
    }
    assert!(console.state.users.wishes(URSULA).unwrap().allow.is_empty());
    // A new digest has no link for it.
    let options = DigestOptions {
        url: format!("http://{}", console.address),
        from: "postmaster@gw.example".to_owned(),
        link_days: 7,
        texts: Arc::default(),
        no_digest: Default::default(),
    };
    let (quarantine, users) = (&console.state.quarantine, &console.state.users);
    let made = digest(quarantine, users, &options, URSULA, now_ms()).unwrap().unwrap();
    let message = gauntlet_mail::Message::parse(made.raw.as_bytes());
    let text = message.parts().iter().find_map(|p| p.text()).unwrap();
    assert_eq!(text.matches("/link/").count(), 1, "the way in, nothing else: {text}");
    // The message itself is not for downloading.
    for path in ["/quarantine/held-one/download", "/api/v1/quarantine/held-one/download"] {
        let answer = console.request("GET", path, &user, "");
        assert!([403, 404].contains(&answer.status), "{path}: {}", answer.status);
        assert!(!answer.body.contains("TVqQ"));
    }
    assert!(console.node.queued.lock().unwrap().is_empty());
    assert_eq!(state_of(&console, "held-one"), State::Held);
    // An administrator can, by page and API.
    let admin = console.sign_in("admin");
    assert_eq!(decide(&console, &admin, "release", &["held-one"]).status, 303);
    let path = "/api/v1/quarantine/held-two/release";
    assert_eq!(api(&console, &admin, "POST", path, "").status, 200);
    assert_eq!(console.node.queued.lock().unwrap().len(), 2);
}

#[test]
fn a_folders_setting_and_a_rule_say_who_releases() {
    let console = start();
    let quarantine = &console.state.quarantine;
    let may = |folder: &str, class, release| {
        let item = QuarantineItem {
            id: "x".to_owned(),
            message: "x".to_owned(),
            folder: folder.to_owned(),
            recipients: vec![URSULA.to_owned()],
            envelope: Envelope { direction: Direction::Inbound, ..Envelope::default() },
            received_ms: 1,
            class,
            score: 1.0,
            subject: String::new(),
            from: String::new(),
            release,
        };
        quarantine.released_by(&item) == ReleasedBy::User
    };
    let (user, admin) = (Some(ReleasedBy::User), Some(ReleasedBy::Admin));
    for folder in ["spam", "suspect", "bulk"] {
        assert!(may(folder, Class::Spam, None) && !may(folder, Class::Spam, admin), "{folder}");
    }
    for folder in [
        "programs",
        "macros",
        "encrypted",
        "disk-images",
        "forged",
        "large",
        "explicit",
        "outbound-abuse",
        "outbound-data",
        "unscannable",
        "malware",
        "phishing",
        "anything-else",
        "",
    ] {
        assert!(!may(folder, Class::Suspect, None), "{folder}");
    }
    assert!(may("large", Class::Ham, user), "the rule says so");
    for class in [Class::Malware, Class::Phishing, Class::Unscannable] {
        assert!(!may("suspect", class, user), "{class:?}");
    }
    for folder in ["malware", "phishing", "unscannable"] {
        assert!(!may(folder, Class::Ham, user), "{folder}");
    }
    let said = [("suspect", ReleasedBy::Admin), ("forged", ReleasedBy::User)];
    let said: FolderRelease = said.into_iter().map(|(f, r)| (f.to_owned(), r)).collect();
    quarantine.set_folder_release(said);
    assert!(!may("suspect", Class::Spam, None) && !may("suspect", Class::Spam, user));
    assert!(may("forged", Class::Spam, None) && !may("forged", Class::Spam, admin));
    // Where it is allowed, it works from page to queue.
    put_program(&console, "one", "forged");
    let cookie = console.sign_in("ursula");
    let page = console.request("GET", "/quarantine/held-one", &cookie, "");
    assert!(page.body.contains("value=\"release\""), "{}", page.body);
    // Taken back between page and button: what is set when the button is pressed counts.
    quarantine.set_folder_release(FolderRelease::new());
    assert_eq!(decide(&console, &cookie, "release", &["held-one"]).status, 403);
    let said = FolderRelease::from([("forged".to_owned(), ReleasedBy::User)]);
    quarantine.set_folder_release(said);
    assert_eq!(decide(&console, &cookie, "release", &["held-one"]).status, 303);
    assert_eq!(state_of(&console, "held-one"), State::Released);
}

/// Holds a message for Ursula and, as a blind copy, for somebody else.
fn put_with_blind_copy(console: &Running, id: &str) {
    let raw = b"From: eve@example.net\r\nTo: ursula@example.com\r\nBcc: boss@example.com\r\n\
        Delivered-To: boss@example.com\r\nX-Original-To: boss@example.com\r\n\
        Subject: to both\r\n\r\nhello\r\n";
    let recipients = vec![URSULA.to_owned(), "boss@example.com".to_owned()];
    let item = QuarantineItem {
        id: id.to_owned(),
        message: "one".to_owned(),
        folder: "suspect".to_owned(),
        envelope: Envelope { rcpt_to: recipients.clone(), ..Envelope::default() },
        recipients,
        received_ms: now_ms(),
        class: Class::Suspect,
        score: 4.0,
        subject: "to both".to_owned(),
        from: "eve@example.net".to_owned(),
        release: None,
    };
    console.state.quarantine.put(&item, raw).unwrap();
}

#[test]
fn users_see_no_recipient_but_themselves() {
    let console = start();
    put_with_blind_copy(&console, "both");
    // Held for Ursula alone, of an envelope with others.
    let mut alone = console.state.quarantine.get("both").unwrap().unwrap().item;
    (alone.id, alone.recipients) = ("alone".to_owned(), vec![URSULA.to_owned()]);
    console.state.quarantine.put(&alone, b"Subject: x\r\n\r\ny").unwrap();
    let quarantine = &console.state.quarantine;
    quarantine.note(now_ms(), "admin", "release", "alone", "boss@example.com").unwrap();
    let user = console.sign_in("ursula");
    for path in [
        "/quarantine",
        "/quarantine?state=any",
        "/quarantine?text=both",
        "/quarantine/both",
        "/quarantine/alone",
        "/quarantine/both/html",
        "/api/v1/quarantine",
        "/api/v1/quarantine?state=any",
        "/api/v1/quarantine?recipient=boss@example.com",
        "/api/v1/quarantine/both",
        "/api/v1/quarantine/alone",
        "/api/v1/quarantine/both/preview",
        "/messages.csv",
        "/api/v1/messages/one",
    ] {
        let answer = console.request("GET", path, &user, "");
        assert!(!answer.body.contains("boss@"), "{path}: {}", answer.body);
    }
    let list = console.request("GET", "/quarantine", &user, "").body;
    assert!(list.contains("to both") && list.contains(URSULA) && !list.contains("+1"), "{list}");
    // A search tells nothing about others either.
    let found = |text: &str| {
        let path = format!("/api/v1/quarantine?text={text}");
        let answer = console.request("GET", &path, &user, "");
        serde_json::from_str::<serde_json::Value>(&answer.body).unwrap()["items"]
            .as_array()
            .unwrap()
            .len()
    };
    assert_eq!((found("to+both"), found("boss"), found("boss%40example.com")), (2, 0, 0));
    // One of several does not decide for the others.
    assert_eq!(decide(&console, &user, "release", &["both"]).status, 403);
    assert_eq!(decide(&console, &user, "delete", &["both"]).status, 403);
    assert_eq!(api(&console, &user, "POST", "/api/v1/quarantine/both/release", "").status, 403);
    assert_eq!(api(&console, &user, "POST", "/api/v1/quarantine/both/delete", "").status, 403);
    assert_eq!(state_of(&console, "both"), State::Held);
    // Who may see all sees all.
    let admin = console.sign_in("admin");
    let all = console.request("GET", "/api/v1/quarantine/both", &admin, "").body;
    assert!(all.contains("boss@example.com"), "{all}");
}

fn program(console: &Running, token: &str, method: &str, path: &str, body: &str) -> Answer {
    let headers = format!("Authorization: Bearer {token}\r\nContent-Type: application/json\r\n");
    console.request_plain(method, path, &headers, body.as_bytes())
}

#[test]
fn a_token_makes_nothing_stronger_than_itself() {
    let console = start();
    let users = &console.state.users;
    let scopes = [Scope::UsersRead, Scope::UsersWrite, Scope::SubmissionWrite];
    let token = users.add_token("hr", &scopes, 2, "admin", now_ms()).unwrap();
    let own_end = users.tokens().unwrap()[0].expires_ms;
    let ask = |method, path: &str, body: &str| program(&console, &token, method, path, body);
    // Scopes that it has not, and a longer life.
    let all: Vec<String> = Scope::ALL.iter().map(|s| format!("\"{}\"", s.name())).collect();
    let all = format!("{{\"name\":\"strong\",\"scopes\":[{}],\"days\":3650}}", all.join(","));
    let wider = "{\"name\":\"strong\",\"scopes\":[\"users:write\",\"policy:write\"]}";
    for body in [all.as_str(), wider] {
        assert_eq!(ask("POST", "/api/v1/tokens", body).status, 403, "{body}");
    }
    let same = "{\"name\":\"child\",\"scopes\":[\"users:write\",\"users:read\"],\"days\":3650}";
    let made = ask("POST", "/api/v1/tokens", same);
    assert_eq!(made.status, 200, "{}", made.body);
    let made: serde_json::Value = serde_json::from_str(&made.body).unwrap();
    assert_eq!(made["expires_ms"], own_end, "it ends with the token that made it");
    let child = made["secret"].as_str().unwrap();
    let grandchild = "{\"name\":\"grandchild\",\"scopes\":[\"users:read\"]}";
    assert_eq!(program(&console, child, "POST", "/api/v1/tokens", grandchild).status, 200);
    // People who may do more than it.
    for body in [
        "{\"login\":\"mallory\",\"role\":\"administrator\"}",
        "{\"login\":\"mallory\",\"role\":\"reviewer\"}",
        "{\"login\":\"mallory\",\"role\":\"reviewer\",\"folders\":[\"suspect\"]}",
        "{\"login\":\"mallory\",\"role\":\"user\",\"addresses\":[\"boss@example.com\"]}",
    ] {
        assert_eq!(ask("POST", "/api/v1/users", body).status, 403, "{body}");
    }
    // Passwords and second factors of people who may.
    for login in ["admin", "rita", "ursula"] {
        for (method, path, body) in
            [("POST", "password", "{}"), ("DELETE", "second-factor", ""), ("DELETE", "", "")]
        {
            let path = format!("/api/v1/users/{login}/{path}");
            let answer = ask(method, path.trim_end_matches('/'), body);
            assert_eq!(answer.status, 403, "{method} {path}: {}", answer.body);
        }
        let rights = "{\"role\":\"user\",\"addresses\":[]}";
        let path = format!("/api/v1/users/{login}");
        assert_eq!(ask("PUT", &path, rights).status, 403, "{login}");
        assert!(users.verify(login, crate::common::PASSWORD).unwrap().is_some(), "{login}");
    }
    // What is within it works, and stays within it afterwards.
    assert_eq!(ask("POST", "/api/v1/users", "{\"login\":\"bob\",\"role\":\"user\"}").status, 200);
    for rights in [
        "{\"role\":\"administrator\"}",
        "{\"role\":\"reviewer\"}",
        "{\"role\":\"user\",\"addresses\":[\"boss@example.com\"]}",
    ] {
        assert_eq!(ask("PUT", "/api/v1/users/bob", rights).status, 403, "{rights}");
    }
    assert_eq!(ask("DELETE", "/api/v1/users/bob", "").status, 200);
    let all = users.add_token("all", &Scope::ALL, 1, "admin", now_ms()).unwrap();
    let made = "{\"login\":\"mallory\",\"role\":\"administrator\"}";
    assert_eq!(program(&console, &all, "POST", "/api/v1/users", made).status, 403, "never");
    // Revoking takes what it made with it.
    assert!(users.revoke_token("hr", "admin", now_ms()).unwrap());
    let left: Vec<String> = users.tokens().unwrap().into_iter().map(|t| t.name).collect();
    assert_eq!(left, ["all"]);
    assert_eq!(program(&console, child, "GET", "/api/v1/users", "").status, 401);
}

#[test]
fn a_token_that_may_not_read_held_mail_does_not_send_it_to_itself() {
    let console = start();
    put_program(&console, "one", "programs");
    let path = "/api/v1/quarantine/held-one/release";
    let users = &console.state.users;
    let writes = users.add_token("w", &[Scope::QuarantineWrite], 1, "admin", now_ms()).unwrap();
    let elsewhere = "{\"to\":[\"mallory@example.net\"]}";
    assert_eq!(program(&console, &writes, "POST", path, elsewhere).status, 403);
    assert!(console.node.queued.lock().unwrap().is_empty());
    assert_eq!(program(&console, &writes, "POST", path, "{}").status, 200);
}

#[test]
fn a_session_does_not_take_the_proofs_from_its_own_account() {
    let console = start();
    let admin = console.sign_in("admin");
    let csrf = console.csrf(&admin);
    for what in ["password", "factor_off"] {
        let form = format!("csrf={csrf}&do={what}");
        assert_eq!(console.request("POST", "/users/admin", &admin, &form).status, 403, "{what}");
    }
    let path = "/api/v1/users/Admin/";
    assert_eq!(api(&console, &admin, "POST", &format!("{path}password"), "").status, 403);
    assert_eq!(api(&console, &admin, "DELETE", &format!("{path}second-factor"), "").status, 403);
    assert!(console.state.users.verify("admin", crate::common::PASSWORD).unwrap().is_some());
}

#[test]
fn a_digests_way_in_does_not_go_round_the_second_factor() {
    let console = start();
    let users = &console.state.users;
    let secret = users.begin_totp("ursula").unwrap();
    let code = totp_code(&secret, now_ms()).unwrap();
    assert!(users.enable_totp("ursula", &code, now_ms()).unwrap().is_some());
    let way_in = format!("/link/{}", console.way_in());
    let answer = console.request("POST", &way_in, "", "");
    assert_eq!((answer.status, answer.header("set-cookie")), (403, None), "{}", answer.body);
    assert!(answer.body.contains("second factor"), "{}", answer.body);
}

#[test]
fn a_digests_way_in_leaves_nothing_behind() {
    // Of somebody with a password, and of somebody without.
    for address in ["ursula@example.com", "nobody-yet@example.com"] {
        let console = start();
        let users = &console.state.users;
        let phone = users.add_app_password("ursula", "phone", "ursula", now_ms()).unwrap().unwrap();
        let link = Link {
            kind: LinkKind::Enter,
            address: address.to_owned(),
            item: String::new(),
            until_ms: now_ms() + 60_000,
            made_ms: now_ms(),
        };
        let text = users.sign_link(&link).unwrap();
        let answer = console.request("POST", &format!("/link/{text}"), "", "");
        let cookie = answer.header("set-cookie").map(|c| c.split(';').next().unwrap().to_owned());
        let cookie =
            cookie.unwrap_or_else(|| panic!("{address}: {} {}", answer.status, answer.body));
        let csrf = console.csrf(&cookie);
        let word = crate::common::PASSWORD.replace(' ', "+");
        // Not even with the password, which the link does not prove.
        for (path, form) in [
            ("/account/app-passwords", "do=make&name=x".to_owned()),
            ("/account/app-passwords", format!("do=make&name=x&password={word}")),
            ("/account/app-passwords", "do=revoke&name=phone".to_owned()),
            ("/account/second-factor", "do=begin".to_owned()),
            ("/account/second-factor", format!("do=begin&password={word}")),
            (
                "/account/password",
                format!("old={word}&new=another+word+now&again=another+word+now"),
            ),
        ] {
            let form = format!("csrf={csrf}&{form}");
            let answer = console.request("POST", path, &cookie, &form);
            assert_eq!(answer.status, 403, "{address} {path}: {}", answer.body);
        }
        for (method, path, form) in [
            ("POST", "own/app-passwords", format!("name=x&password={word}")),
            ("DELETE", "own/app-passwords/phone", String::new()),
            ("POST", "own/second-factor", format!("do=begin&password={word}")),
            ("GET", "own/second-factor", String::new()),
            ("GET", "own/app-passwords", String::new()),
        ] {
            let answer = api(&console, &cookie, method, &format!("/api/v1/{path}"), &form);
            assert_eq!(answer.status, 403, "{address} {path}: {}", answer.body);
        }
        let page = console.request("GET", "/account", &cookie, "");
        assert!(page.body.contains("came by a link"), "{}", page.body);
        assert!(!page.body.contains("password\""), "no form: {}", page.body);
        assert_eq!(console.request("GET", "/quarantine", &cookie, "").status, 200);
        for person in users.list().unwrap() {
            let all = users.app_passwords(&person.login).unwrap();
            assert_eq!(all.len(), usize::from(person.login == "ursula"), "{}", person.login);
        }
        assert!(users.mail_login("ursula", &phone, now_ms()).unwrap().is_some());
    }
}

fn guess(console: &Running, login: &str, password: &str, forwarded: &str) -> u16 {
    let headers = match forwarded {
        "" => String::new(),
        from => format!("X-Forwarded-For: {from}\r\n"),
    };
    let form = format!("login={login}&password={}", password.replace(' ', "+"));
    console.request_with("POST", "/sign-in", &headers, &form).status
}

#[test]
fn forwarded_addresses_count_only_from_named_proxies() {
    let console = start();
    // Nobody named us a proxy: another address in the header is no new client.
    for n in 0..5 {
        let from = format!("198.51.100.{n}");
        assert_eq!(guess(&console, "admin", "not the password", &from), 401, "{n}");
    }
    assert_eq!(guess(&console, "admin", "not the password", "203.0.113.9"), 429);
    let console = crate::common::start_with(|state, _| {
        state.proxies = Arc::new(Proxies::parse(&["127.0.0.1".to_owned()]).unwrap());
    });
    for _ in 0..5 {
        assert_eq!(guess(&console, "admin", "not the password", "198.51.100.7"), 401);
    }
    assert_eq!(guess(&console, "admin", "not the password", "198.51.100.7"), 429);
    let invented = "10.1.1.1, 198.51.100.7";
    assert_eq!(guess(&console, "admin", "not the password", invented), 429, "the last one counts");
    assert_eq!(
        guess(&console, "admin", crate::common::PASSWORD, "203.0.113.9"),
        303,
        "somebody else"
    );
}

#[test]
fn many_addresses_slow_a_login_down_but_do_not_lock_its_owner_out() {
    let console = crate::common::start_with(|state, _| {
        state.proxies = Arc::new(Proxies::parse(&["127.0.0.1".to_owned()]).unwrap());
    });
    let home = "203.0.113.5";
    assert_eq!(guess(&console, "ursula", crate::common::PASSWORD, home), 303);
    let codes: Vec<u16> = (1..40)
        .map(|n| guess(&console, "ursula", "not the password", &format!("11.{n}.0.1")))
        .collect();
    let made = codes.iter().filter(|c| **c == 401).count();
    assert!((10..20).contains(&made), "{made} of 39 guesses were looked at: {codes:?}");
    // Not even the right password is looked at from elsewhere now; from home it works.
    assert_eq!(guess(&console, "ursula", crate::common::PASSWORD, "12.1.1.1"), 429);
    assert_eq!(guess(&console, "ursula", crate::common::PASSWORD, home), 303);
    assert_eq!(
        guess(&console, "rita", crate::common::PASSWORD, "12.1.1.1"),
        303,
        "nobody else is slowed"
    );
}

#[test]
fn codes_of_a_second_factor_cannot_be_tried_out() {
    let console = crate::common::start_with(|state, _| {
        state.proxies = Arc::new(Proxies::parse(&["127.0.0.1".to_owned()]).unwrap());
    });
    let users = &console.state.users;
    // She is known here; this session ends with the second factor.
    console.sign_in("rita");
    let secret = users.begin_totp("rita").unwrap();
    let code = totp_code(&secret, now_ms()).unwrap();
    users.enable_totp("rita", &code, now_ms()).unwrap().unwrap();
    let started = users.start_session("rita", now_ms()).unwrap();
    let cookie = format!("gauntlet_session={}", started.token);
    // By a stolen session: each try was forgotten by asking to begin anew.
    let csrf = console.csrf(&cookie);
    let path = "/account/second-factor";
    let statuses: Vec<u16> = (0..12)
        .map(|n| {
            let begin = format!("csrf={csrf}&do=begin");
            console.request("POST", path, &cookie, &begin);
            let off = format!("csrf={csrf}&do=off&code={n:06}");
            console.request("POST", path, &cookie, &off).status
        })
        .collect();
    assert_eq!(statuses.iter().filter(|s| **s == 400).count(), 5, "{statuses:?}");
    let by_api = api(&console, &cookie, "POST", "/api/v1/own/second-factor", "do=off&code=1");
    assert_eq!(by_api.status, 429);
    assert!(by_api.header("retry-after").is_some());
    // By the password, from many addresses; recovery codes are counted the same way.
    let form = format!("login=rita&password={}&code=", crate::common::PASSWORD.replace(' ', "+"));
    for (n, code) in ["000001", "abcdabcdabcdabcd"].into_iter().enumerate() {
        let headers = format!("X-Forwarded-For: 11.{n}.0.1\r\n");
        let answer = console.request_with("POST", "/sign-in", &headers, &format!("{form}{code}"));
        assert_eq!(answer.status, 429, "{code}");
    }
    // Without a code the answer tells nothing about the password.
    let right = console.request("POST", "/sign-in", "", &form);
    let wrong = console.request("POST", "/sign-in", "", "login=rita&password=nonsense&code=");
    assert_eq!((right.status, wrong.status), (401, 401));
    assert_eq!(right.body, wrong.body);
}

#[test]
fn app_passwords_are_made_with_the_present_password_and_never_open_the_console() {
    let console = start();
    let cookie = console.sign_in("ursula");
    let own = crate::common::PASSWORD.replace(' ', "+");
    let path = "/api/v1/own/app-passwords";
    // A session that was stolen does not become a password that stays.
    for form in ["name=phone", "name=phone&password=not+the+password"] {
        assert_eq!(api(&console, &cookie, "POST", path, form).status, 400, "{form}");
        let form = format!("csrf={}&do=make&{form}", console.csrf(&cookie));
        assert_eq!(console.request("POST", "/account/app-passwords", &cookie, &form).status, 400);
    }
    let made = api(&console, &cookie, "POST", path, &format!("name=phone&password={own}"));
    assert_eq!(made.status, 200, "{}", made.body);
    let made: serde_json::Value = serde_json::from_str(&made.body).unwrap();
    let secret = made["secret"].as_str().unwrap().to_owned();
    let users = &console.state.users;
    assert!(users.mail_login("ursula", &secret, now_ms()).unwrap().is_some());
    assert_eq!(guess(&console, "ursula", &secret, ""), 401, "not for the console");
    let form = format!("csrf={}&do=make&name=desk&password={own}", console.csrf(&cookie));
    let page = console.request("POST", "/account/app-passwords", &cookie, &form);
    assert!(page.status == 200 && page.body.contains("not shown again"), "{}", page.body);
    let listed = console.request("GET", path, &cookie, "").body;
    assert!(listed.contains("phone") && listed.contains("desk"), "{listed}");
    assert!(!listed.contains(&secret));
    let account = console.request("GET", "/account", &cookie, "").body;
    assert!(account.contains("phone") && !account.contains(&secret));
    assert_eq!(api(&console, &cookie, "DELETE", &format!("{path}/phone"), "").status, 200);
    assert_eq!(api(&console, &cookie, "DELETE", &format!("{path}/phone"), "").status, 404);
    assert!(users.mail_login("ursula", &secret, now_ms()).unwrap().is_none());
    let form = format!("csrf={}&do=revoke&name=desk", console.csrf(&cookie));
    assert_eq!(console.request("POST", "/account/app-passwords", &cookie, &form).status, 303);
    assert!(users.app_passwords("ursula").unwrap().is_empty());
    // Programs have none, whatever their scopes.
    let token = users.add_token("all", &Scope::ALL, 1, "admin", now_ms()).unwrap();
    assert_eq!(program(&console, &token, "GET", path, "").status, 404);
    let body = "{\"name\":\"x\",\"password\":\"x\"}";
    assert_eq!(program(&console, &token, "POST", path, body).status, 404);
}

#[test]
fn a_token_lets_nobody_send_mail_unless_it_says_so() {
    let console = start();
    let users = &console.state.users;
    let scopes = [
        Scope::UsersRead,
        Scope::UsersWrite,
        Scope::StatusRead,
        Scope::MessagesRead,
        Scope::QuarantineRead,
        Scope::QuarantineWrite,
    ];
    let token =
        |name: &str, scopes: &[Scope]| users.add_token(name, scopes, 2, "admin", now_ms()).unwrap();
    let hr = token("hr", &scopes);
    // Everybody may log in by SMTP AUTH: as anybody without addresses, as these with some.
    for body in [
        "{\"login\":\"mallory\",\"role\":\"user\"}",
        "{\"login\":\"mallory\",\"role\":\"user\",\"addresses\":[\"boss@example.com\"]}",
        "{\"login\":\"mallory\",\"role\":\"reviewer\"}",
    ] {
        let answer = program(&console, &hr, "POST", "/api/v1/users", body);
        assert_eq!(answer.status, 403, "{body}");
        assert!(answer.body.contains("submission:write"), "{}", answer.body);
    }
    // Nor by somebody who is there: their password, their addresses, the factor that bars their password.
    for (method, path, body) in [
        ("POST", "ursula/password", "{}"),
        ("PUT", "ursula", "{\"role\":\"user\",\"addresses\":[]}"),
        ("PUT", "ursula", "{\"role\":\"user\",\"addresses\":[\"boss@example.com\"]}"),
        ("DELETE", "ursula/second-factor", ""),
    ] {
        let answer = program(&console, &hr, method, &format!("/api/v1/users/{path}"), body);
        assert_eq!(answer.status, 403, "{method} {path}: {}", answer.body);
    }
    let wider = "{\"name\":\"x\",\"scopes\":[\"users:write\",\"submission:write\"]}";
    assert_eq!(program(&console, &hr, "POST", "/api/v1/tokens", wider).status, 403);
    assert_eq!(users.list().unwrap().len(), 3);
    assert!(users.mail_login("ursula", crate::common::PASSWORD, now_ms()).unwrap().is_some());
    // With it, what the other scopes contain.
    let whole = token("whole", &[&scopes[..], &[Scope::SubmissionWrite]].concat());
    let body = "{\"login\":\"bob\",\"role\":\"user\",\"addresses\":[\"bob@example.com\"]}";
    assert_eq!(program(&console, &whole, "POST", "/api/v1/users", body).status, 200);
    // What takes rights away is no gift.
    assert_eq!(program(&console, &hr, "DELETE", "/api/v1/users/bob", "").status, 200);
}

#[test]
fn a_token_that_may_not_read_the_log_does_not_read_it_through_a_policy() {
    let console = start();
    put_program(&console, "one", "programs");
    console.state.node.policy().unwrap();
    let users = &console.state.users;
    let token =
        |name: &str, scopes: &[Scope]| users.add_token(name, scopes, 1, "admin", now_ms()).unwrap();
    let policy = token("policy", &[Scope::PolicyRead, Scope::PolicyWrite]);
    let both = token("both", &[Scope::PolicyRead, Scope::MessagesRead]);
    // What it would change names the message and its people.
    let text = "[[rule]]\nname = \"guess\"\nwhen.class = \"suspect\"\ndo = \"discard\"\n\
                [[rule]]\nname = \"rest\"\ndo = \"deliver\"\n";
    let body = serde_json::json!({ "text": text, "days": 1 }).to_string();
    let path = "/api/v1/policy/replay";
    let answer = program(&console, &policy, "POST", path, &body);
    assert_eq!(answer.status, 403, "{}", answer.body);
    assert!(answer.body.contains("messages:read"), "{}", answer.body);
    let begun = program(&console, &both, "POST", path, &body);
    assert_eq!(begun.status, 200, "{}", begun.body);
    // Nor what somebody else's replay found.
    let answer = program(&console, &policy, "GET", path, "");
    assert_eq!(answer.status, 403);
    assert!(!answer.body.contains(URSULA), "{}", answer.body);
    assert_eq!(program(&console, &both, "GET", path, "").status, 200);
}
