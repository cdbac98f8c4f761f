//! What an attack from outside tried against the console, with what it sent: releasing programs to
//! oneself, seeing blind copies, growing a token's rights, guessing passwords and codes.

use std::sync::Arc;

use crate::common::{Answer, Running, Sample, now_ms, start};
use gauntlet_console::digest::{DigestOptions, DigestRights, OwnMail, digest};
use gauntlet_mail::{Direction, Envelope};
use gauntlet_store::quarantine::{FolderRelease, QuarantineItem, State};
use gauntlet_store::users::{Link, LinkKind, totp_code};
use gauntlet_verdict::{Class, ReleasedBy};

pub(crate) const URSULA: &str = "ursula@example.com";
const SETUP_EXE: &[u8] = b"From: eve@example.net\r\nTo: ursula@example.com\r\nSubject: update\r\n\
    Content-Type: application/octet-stream; name=setup.exe\r\n\
    Content-Disposition: attachment; filename=setup.exe\r\n\
    Content-Transfer-Encoding: base64\r\n\r\nTVqQAAMAAAAEAAAA\r\n";

/// Holds `setup.exe` for Ursula in this folder, as class suspect.
pub(crate) fn put_program(console: &Running, id: &str, folder: &str) {
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

pub(crate) fn api(console: &Running, cookie: &str, method: &str, path: &str, form: &str) -> Answer {
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
    assert!(several.body.contains("2 messages were not released"), "{}", several.body);
    assert!(several.body.contains("Only a reviewer or an administrator"), "{}", several.body);
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
    let mail = OwnMail { quarantine, users, since_ms: None };
    let rights = DigestRights { quarantine, users };
    let made = digest(&mail, rights, &options, URSULA, now_ms()).unwrap().unwrap();
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
fn a_user_who_names_other_recipients_is_refused() {
    let console = start();
    console.put(&Sample {
        id: "one",
        class: Class::Suspect,
        score: 4.0,
        folder: Some("spam"),
        to: URSULA,
        raw: b"From: shop@example.net\r\nSubject: An offer\r\n\r\nCheap.\r\n",
        age_ms: 1_000,
        hits: Vec::new(),
    });
    let user = console.sign_in("ursula");
    let path = "/api/v1/quarantine/held-one/release";
    let refused =
        api(&console, &user, "POST", path, "to=ursula%40example.com&to=eve%40evil.example");
    assert_eq!(refused.status, 403, "{}", refused.body);
    assert!(refused.body.contains("their own addresses only"), "{}", refused.body);
    assert_eq!(state_of(&console, "held-one"), State::Held);
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
fn a_selection_is_decided_as_far_as_it_may_be_and_the_rest_is_named() {
    let console = start();
    let put = |id: &str, folder: &str| {
        console.put(&Sample {
            id,
            class: Class::Spam,
            score: 9.0,
            folder: Some(folder),
            to: URSULA,
            raw: b"Subject: Tulips <b>\r\n\r\ny",
            age_ms: 1_000,
            hits: Vec::new(),
        });
    };
    for (id, folder) in [("one", "spam"), ("two", "spam"), ("bad", "malware"), ("own", "suspect")] {
        put(id, folder);
    }
    put_with_blind_copy(&console, "both");
    let user = console.sign_in("ursula");
    let is_named = |answer: &Answer, id: &str| {
        answer.body.contains(&format!("href=\"/quarantine/{id}\">Tulips &lt;b&gt;"))
    };
    // Three of five are hers to release; the others are named, with whom to ask.
    let some = ["held-one", "held-bad", "both", "held-two", "held-none"];
    let answer = decide(&console, &user, "release", &some);
    assert_eq!(answer.status, 200, "{}", answer.body);
    for said in
        ["2 messages released.", "3 messages were not released", "Only a reviewer or", "held-none"]
    {
        assert!(answer.body.contains(said), "{said}: {}", answer.body);
    }
    assert!(is_named(&answer, "held-bad") && answer.body.contains("\"/quarantine/both\""));
    assert!(!answer.body.contains("\"/quarantine/held-none\"") && !is_named(&answer, "held-one"));
    assert_eq!(state_of(&console, "held-bad"), State::Held);
    // To delete is the same: what is for others, too, stays.
    let answer = decide(&console, &user, "delete", &["held-bad", "both", "held-own"]);
    assert!(answer.body.contains("Delete 2 messages?"), "{}", answer.body);
    assert!(answer.body.contains("1 message is not deleted"), "{}", answer.body);
    let sure = ["held-bad", "both", "held-own&sure=yes"];
    let answer = decide(&console, &user, "delete", &sure);
    assert!(answer.body.contains("2 messages deleted."), "{}", answer.body);
    assert!(answer.body.contains("can delete this message"), "{}", answer.body);
    assert_eq!(state_of(&console, "both"), State::Held);
    assert_eq!(state_of(&console, "held-own"), State::Deleted);
    // Alone it is refused, and so is one of a folder that is not a reviewer's.
    let alone = decide(&console, &user, "delete", &["both&sure=yes"]);
    assert_eq!(alone.status, 403, "{}", alone.body);
    put("far", "malware");
    let rita = console.sign_in("rita");
    let answer = decide(&console, &rita, "release", &["held-far", "both"]);
    assert!(answer.body.contains("1 message released."), "{}", answer.body);
    assert!(answer.body.contains("folder that is not yours"), "{}", answer.body);
    assert!(!answer.body.contains("\"/quarantine/held-far\""), "no link that is forbidden");
    // A long selection names some.
    let many: Vec<String> = (0..70).map(|n| format!("held-none-{n}")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    let answer = decide(&console, &user, "release", &many);
    assert_eq!(answer.body.matches("held-none-").count(), 50, "{}", answer.body);
    assert!(answer.body.contains("And 20 more."), "{}", answer.body);
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
    // A search reveals nothing about others either.
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
        assert!(page.body.contains("signed in by a link"), "{}", page.body);
        assert!(!page.body.contains("password\""), "no form: {}", page.body);
        assert_eq!(console.request("GET", "/quarantine", &cookie, "").status, 200);
        for person in users.list().unwrap() {
            let all = users.app_passwords(&person.login).unwrap();
            assert_eq!(all.len(), usize::from(person.login == "ursula"), "{}", person.login);
        }
        assert!(users.mail_login("ursula", &phone, now_ms()).unwrap().is_some());
    }
}
