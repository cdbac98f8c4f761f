//! Digests: who is notified of what, and what their links do, to friends and to others.

use std::sync::Arc;

use crate::common::browser::Browser;
use crate::common::{Answer, Running, Sample, now_ms, start};
use gauntlet_console::ConsoleState;
use gauntlet_console::digest::{Digest, DigestOptions, DigestRights, OwnMail, digest, round};
use gauntlet_mail::Message;
use gauntlet_store::Role;
use gauntlet_store::users::{Link, LinkKind};
use gauntlet_verdict::Class;

const ANN: &str = "ann@example.com";
const HOSTILE: &[u8] = b"From: \"<script>x()</script>\" <eve@example.net>\r\n\
    Subject: \"><img src=x> \r\n\r\ny";

fn put(console: &Running, id: &str, to: &str, class: Class) {
    let (folder, score, age_ms) = (Some("suspect"), 6.0, 60_000);
    let hits = Vec::new();
    console.put(&Sample { id, class, score, folder, to, raw: HOSTILE, age_ms, hits });
}

fn options(console: &Running) -> DigestOptions {
    let url = format!("http://{}", console.address);
    let from = "postmaster@gw.example".to_owned();
    DigestOptions { url, from, link_days: 7, texts: Arc::default(), no_digest: Default::default() }
}

fn own(state: &ConsoleState) -> OwnMail<'_> {
    OwnMail { quarantine: &state.quarantine, users: &state.users, since_ms: None }
}

fn rights(state: &ConsoleState) -> DigestRights<'_> {
    DigestRights { quarantine: &state.quarantine, users: &state.users }
}

fn digests(console: &Running) -> Vec<Digest> {
    let mut sent = Vec::new();
    let state = &console.state;
    let mut send = |d: &Digest| {
        sent.push(d.clone());
        Ok(())
    };
    let options = options(console);
    let done = round(&own(state), rights(state), &options, now_ms(), &mut send).unwrap();
    assert_eq!((done.sent, done.failed), (sent.len() as u64, 0));
    sent
}

/// The paths of the links in the text of a digest, in order.
fn links(digest: &Digest) -> Vec<String> {
    let message = Message::parse(digest.raw.as_bytes());
    let part = message.parts().iter().find(|p| p.content_type.is("text", "plain")).unwrap();
    let text = part.text().unwrap();
    let links = text.lines().filter_map(|l| l.trim().split_once("/link/"));
    links.map(|(_, rest)| format!("/link/{rest}")).collect()
}

fn cookie(answer: &Answer) -> String {
    answer.header("set-cookie").unwrap().split(';').next().unwrap().to_owned()
}

#[test]
fn everybody_is_notified_once_of_what_is_theirs() {
    let console = start();
    put(&console, "one", ANN, Class::Spam);
    put(&console, "two", ANN, Class::Phishing);
    put(&console, "three", "bob@example.com", Class::Suspect);
    put(&console, "four", "b c@example.com", Class::Suspect);
    let sent = digests(&console);
    let to: Vec<&str> = sent.iter().map(|d| d.address.as_str()).collect();
    assert_eq!(to, [ANN, "bob@example.com"], "in order; what cannot stand in a header is left out");
    let raw = &sent[0].raw;
    assert!(raw.is_ascii() && raw.lines().all(|l| l.len() < 998));
    let message = Message::parse(raw.as_bytes());
    assert_eq!(message.subject(), "2 messages are held for you");
    assert_eq!(message.header("Auto-Submitted").unwrap().decoded(), "auto-generated");
    let html = message.parts().iter().find(|p| p.content_type.is("text", "html")).unwrap();
    let html = html.text().unwrap();
    assert!(!html.contains("<script") && !html.contains("<img"), "{html}");
    // Spam: release, allow; phishing: nothing; and the way in.
    assert_eq!(links(&sent[0]).len(), 3);
    assert!(digests(&console).is_empty(), "nothing is new");
    put(&console, "five", ANN, Class::Spam);
    let again = digests(&console);
    assert_eq!((again.len(), again[0].address.as_str()), (1, ANN));
    assert!(again[0].raw.contains("1 message is held"));
    // What could not be sent comes with the next.
    put(&console, "six", ANN, Class::Spam);
    let state = &console.state;
    let mut fails = |_: &Digest| Err("spool full".to_owned());
    let done = round(&own(state), rights(state), &options(&console), now_ms(), &mut fails);
    assert_eq!(done.unwrap().failed, 1);
    assert_eq!(digests(&console).len(), 1);
}

#[test]
fn a_link_does_one_thing_once_and_only_when_asked() {
    let console = start();
    put(&console, "one", ANN, Class::Spam);
    let sent = digests(&console);
    let [release, allow, enter] = links(&sent[0]).try_into().unwrap();
    // A scanner opens every link, again and again: nothing happens.
    for link in [&release, &allow, &enter].repeat(2) {
        let page = console.request("GET", link, "", "");
        assert_eq!(page.status, 200, "{}", page.body);
        assert!(page.header("set-cookie").is_none());
        assert!(!page.body.contains("<script>x"), "{}", page.body);
    }
    assert!(console.node.queued.lock().unwrap().is_empty());
    let done = console.request("POST", &allow, "", "");
    assert!(done.status == 200 && done.body.contains("on its way"), "{}", done.body);
    let queued = console.node.queued.lock().unwrap().clone();
    assert_eq!(queued, [("held-one".to_owned(), vec![ANN.to_owned()])]);
    let wishes = console.state.users.wishes(ANN).unwrap();
    assert!(wishes.allow.contains("bounce@example.net"));
    assert_eq!(*console.node.users_changes.lock().unwrap(), 1, "the node applies it");
    // Used up, and overtaken.
    for (link, status, says) in [(&allow, 410, "used before"), (&release, 409, "released before")] {
        for method in ["GET", "POST"] {
            let answer = console.request(method, link, "", "");
            assert_eq!(answer.status, status, "{method}: {}", answer.body);
            assert!(answer.body.contains(says), "{}", answer.body);
        }
    }
    assert_eq!(console.node.queued.lock().unwrap().len(), 1);
    // The way in: one's own mail, no password, and nothing else.
    put(&console, "two", ANN, Class::Spam);
    put(&console, "three", "bob@example.com", Class::Spam);
    let inside = console.request("POST", &enter, "", "");
    assert_eq!(inside.status, 303);
    let session = cookie(&inside);
    let list = console.request("GET", "/quarantine?recipient=bob@example.com", &session, "");
    assert!(list.body.contains("held-two") && !list.body.contains("held-three"), "{}", list.body);
    for (path, status) in [
        ("/quarantine/held-two", 200),
        ("/quarantine/held-three", 404),
        ("/messages", 403),
        ("/own", 200),
        ("/own?address=bob@example.com", 403),
        ("/policy", 403),
    ] {
        assert_eq!(console.request("GET", path, &session, "").status, status, "{path}");
    }
    assert_eq!(console.request("POST", &enter, "", "").status, 410);
}

#[test]
fn hostile_links_get_clear_answers() {
    let console = start();
    for (id, class) in [("one", Class::Spam), ("two", Class::Malware)] {
        put(&console, id, ANN, class);
    }
    put(&console, "bobs", "bob@example.com", Class::Spam);
    let users = &console.state.users;
    let link = |kind, address: &str, item: &str, until_ms| {
        let link =
            Link { kind, address: address.to_owned(), item: item.to_owned(), until_ms, made_ms: 1 };
        format!("/link/{}", users.sign_link(&link).unwrap())
    };
    let later = now_ms() + 60_000;
    let good = link(LinkKind::Release, ANN, "held-one", later);
    let (payload, mac) = good.split_once('.').unwrap();
    let boss = link(LinkKind::Enter, "admin@example.com", "", later);
    let admin = gauntlet_store::User {
        login: "admin@example.com".to_owned(),
        role: Role::Administrator,
        folders: Vec::new(),
        addresses: vec!["admin@example.com".to_owned()],
        must_change: false,
        created_ms: 1,
    };
    users.add(&admin, crate::common::PASSWORD, "test", 1).unwrap();
    let other = link(LinkKind::Enter, ANN, "", later);
    let cases = [
        ("/link/x".to_owned(), 404, "invalid or incomplete"),
        (format!("{payload}."), 404, "invalid or incomplete"),
        (format!("{payload}.{}", "0".repeat(64)), 404, "invalid or incomplete"),
        (format!("{}.{mac}", other.split_once('.').unwrap().0), 404, "invalid or incomplete"),
        (format!("{payload}%00.{mac}"), 404, "invalid or incomplete"),
        (format!("/link/{}", "a".repeat(6_000)), 404, "invalid or incomplete"),
        (link(LinkKind::Release, ANN, "held-one", now_ms() - 1), 410, "has expired"),
        (link(LinkKind::Release, ANN, "held-none", later), 410, "not kept"),
        (
            link(LinkKind::Release, ANN, "held-two", later),
            403,
            "Only a reviewer or an administrator",
        ),
        (
            link(LinkKind::Allow, ANN, "held-bobs", later),
            403,
            "Only a reviewer or an administrator",
        ),
    ];
    for (path, status, says) in &cases {
        for method in ["GET", "POST"] {
            let answer = console.request(method, path, "", "");
            assert_eq!(answer.status, *status, "{method} {path}: {}", answer.body);
            assert!(answer.body.contains(says), "{method} {path}: {}", answer.body);
            assert!(answer.header("set-cookie").is_none());
        }
    }
    let answer = console.request("POST", &boss, "", "");
    assert_eq!(answer.status, 403, "a link does not make an administrator");
    assert!(answer.header("set-cookie").is_none());
    // Another site cannot follow it for somebody.
    let foreign = "Origin: https://evil.example\r\n";
    assert_eq!(console.request_with("POST", &good, foreign, "").status, 403);
    console.state.quarantine.delete("held-one", "admin", now_ms()).unwrap();
    let answer = console.request("POST", &good, "", "");
    assert!(answer.status == 409 && answer.body.contains("deleted"), "{}", answer.body);
    assert!(console.node.queued.lock().unwrap().is_empty());
    // The digest itself does not leak into what it shows.
    let state = &console.state;
    let none = digest(&own(state), rights(state), &options(&console), "nobody@x.example", now_ms());
    assert_eq!(none.unwrap(), None);
}

#[test]
fn a_person_comes_by_the_digest_and_decides() {
    let Some(browser) = Browser::start() else { return };
    let console = start();
    put(&console, "one", ANN, Class::Spam);
    put(&console, "two", ANN, Class::Suspect);
    let sent = digests(&console);
    let all = links(&sent[0]);
    let open = |path: &str| browser.open(&format!("http://{}{path}", console.address));
    browser.look(1280, 900, false);
    open(&all[0]);
    browser.expect("h1", "Release this message?");
    browser.look_at("link");
    browser.click("button.main");
    browser.expect("h1", "Released");
    browser.look_at("link-done");
    assert_eq!(console.node.queued.lock().unwrap().len(), 1);
    open(all.last().unwrap());
    browser.expect("h1", "Your held mail");
    browser.click("button.main");
    browser.expect("h1", "Quarantine");
    browser.look_at("own-quarantine");
    assert_eq!(browser.text("nav"), "Quarantine\nMy mail\nAccount");
    browser.click("nav a[href='/own']");
    browser.expect("h1", "My mail");
    browser.click("input[value=lax]");
    browser.click("button[value=strictness]");
    browser.expect(".notice", "It counts from the next message on.");
    browser.type_into("input[name=entry]", "shop.example");
    browser.click("button[value=block]");
    browser.expect("table td:nth-child(2)", "blocked");
    browser.look_at("own");
    let wishes = console.state.users.wishes(ANN).unwrap();
    assert!(wishes.block.contains("shop.example") && wishes.strictness.name() == "lax");
}
