//! What people ask to have released of the web: the page, the API, and who may.

use gauntlet_console::release_answer::ReleaseOutcome;
use gauntlet_store::WebReleases;
use gauntlet_web::release::ReleaseRequest;
use serde_json::{Value, json};

use crate::common::browser::Browser;
use crate::common::{Running, now_ms, start};

fn ask(console: &Running, n: i64) {
    let asked = ReleaseRequest {
        reference: format!("abc{n}"),
        at_ms: now_ms() - 60_000 * n,
        client: format!("10.0.0.{n}"),
        user: if n == 1 { "ann".into() } else { String::new() },
        url: format!("http://www{n}.example:8080/shop/<b>?q={n}"),
        rule: "No games".into(),
        reason: "I buy paper for <the> office there.".into(),
        mail: "ann@example.org".into(),
    };
    store(console).ask(&asked).unwrap();
}

fn store(console: &Running) -> &WebReleases {
    console.state.web_releases.as_ref().unwrap()
}

/// What the audit log has of releases, newest first.
fn activity(console: &Running) -> Vec<(String, String)> {
    let lines = console.state.users.audit_log(50).unwrap();
    let of_web = lines.into_iter().filter(|line| line.action.contains("web"));
    of_web.map(|line| (line.who, format!("{}: {}", line.action, line.detail))).collect()
}

#[test]
fn requests_are_approved_and_declined_on_the_page() {
    let console = start();
    (1..=3).for_each(|n| ask(&console, n));
    let cookie = console.sign_in("admin");
    let csrf = console.csrf(&cookie);
    let page = console.request("GET", "/web", &cookie, "").body;
    assert!(page.contains("Release requests (3)"), "{page}");
    let page = console.request("GET", "/web/releases", &cookie, "").body;
    for part in ["/shop/&lt;b&gt;?q=1", "for &lt;the&gt; office", "value=\"www2.example\"", "abc3"]
    {
        assert!(page.contains(part), "{part}: {page}");
    }
    let post = |fields: &str| {
        let form = format!("csrf={csrf}&{fields}");
        console.request("POST", "/web/releases", &cookie, &form)
    };
    let done = post("do=approve&number=1&target=.www1.example&for=user&hours=8&note=paper");
    assert_eq!(
        (done.status, done.header("location")),
        (303, Some("/web/releases?notice=web_released-1"))
    );
    assert_eq!(post("do=decline&number=2&note=no").status, 303);
    for (fields, why) in [
        ("do=approve&number=2&target=a.example", "decided already"),
        ("do=approve&number=3&target=not+a+host", "no host"),
        ("do=approve&number=3&target=a.example&hours=0", "hours"),
        ("do=approve&number=3&target=a.example&for=user", "nobody is named"),
        ("do=approve&number=3&target=a.example&for=all", "everybody, client or user"),
        ("do=fly", "approve, decline, add or revoke"),
    ] {
        let answer = post(fields);
        assert!(answer.status >= 400 && answer.body.contains(why), "{fields}: {}", answer.body);
    }
    let made = &store(&console).list(None, None, 10).unwrap()[0];
    assert_eq!(
        (made.user.as_str(), made.by.as_str(), made.note.as_str()),
        ("ann", "admin", "paper")
    );
    let page = console.request("GET", "/web/releases", &cookie, "").body;
    for part in ["user ann", "release 1", "approved", "declined"] {
        assert!(page.contains(part), "{part}: {page}");
    }
    assert_eq!(post("do=revoke&number=1").status, 303);
    assert!(store(&console).list(Some(now_ms()), None, 10).unwrap().is_empty());
    let by_admin = |text: &str| ("admin".to_owned(), text.to_owned());
    let expected = [
        by_admin("revoke web release: .www1.example, release 1"),
        by_admin("decline web release: request 2 no"),
        by_admin("release web: .www1.example for user ann, release 1"),
    ];
    assert_eq!(activity(&console), expected);
    let answered = console.node.answered.lock().unwrap();
    let mut answered = answered.iter();
    let (reference, outcome) = answered.next().unwrap();
    assert!(matches!(outcome, ReleaseOutcome::Released(Some(_))), "{outcome:?}");
    assert_eq!(reference, "abc1");
    assert_eq!(answered.next(), Some(&("abc2".to_owned(), ReleaseOutcome::Declined)));
    assert_eq!(answered.next(), None, "what was refused is not answered");
}

#[test]
fn programs_decide_and_only_administrators_may() {
    let console = start();
    (1..=2).for_each(|n| ask(&console, n));
    let cookie = console.sign_in("admin");
    let csrf = console.csrf(&cookie);
    let api = |method: &str, path: &str, fields: &str| {
        let form = match method {
            "GET" => String::new(),
            _ => format!("csrf={csrf}&{fields}"),
        };
        let path = format!("/api/v1/web/{path}");
        let answer = console.request(method, &path, &cookie, &form);
        (answer.status, serde_json::from_str::<Value>(&answer.body).unwrap_or_default())
    };
    let (_, listed) = api("GET", "release-requests", "");
    assert_eq!(listed["requests"][0]["reference"], "abc2", "{listed}");
    let fields = "target=http%3A%2F%2Fwww1.example%2Fshop&for=client&hours=1";
    let (status, made) = api("POST", "release-requests/1/approve", fields);
    assert_eq!((status, &made["exception"]["client"]), (200, &json!("10.0.0.1")), "{made}");
    assert_eq!(api("POST", "release-requests/1/approve", fields).0, 404);
    assert_eq!(api("POST", "release-requests/2/decline", "note=x").0, 200);
    assert_eq!(api("POST", "exceptions", "target=a.example&for=user&user=bob").0, 200);
    assert_eq!(api("POST", "exceptions", "target=a.example&hours=9000").0, 400);
    let (_, all) = api("GET", "exceptions", "");
    assert_eq!(all["exceptions"].as_array().unwrap().len(), 2, "{all}");
    assert_eq!(console.request("DELETE", "/api/v1/web/exceptions/2", &cookie, "").status, 403);
    let headers = format!("Cookie: {cookie}\r\nX-CSRF-Token: {csrf}\r\n");
    let revoke = || console.request_with("DELETE", "/api/v1/web/exceptions/2", &headers, "");
    assert_eq!((revoke().status, revoke().status), (200, 404));
    for login in ["rita", "ursula"] {
        let cookie = console.sign_in(login);
        let csrf = console.csrf(&cookie);
        let form = format!("csrf={csrf}&do=add&target=a.example");
        assert_eq!(console.request("GET", "/web/releases", &cookie, "").status, 403);
        assert_eq!(console.request("POST", "/web/releases", &cookie, &form).status, 403);
        let path = "/api/v1/web/exceptions";
        assert_eq!(console.request("POST", path, &cookie, &form).status, 403, "{login}");
    }
}

#[test]
fn an_administrator_releases_with_a_browser() {
    let Some(browser) = Browser::start() else { return };
    let console = start();
    (1..=2).for_each(|n| ask(&console, n));
    browser.look(1280, 900, false);
    crate::browser::sign_in(&browser, &console);
    browser.follow("nav a[href='/web']", "Web");
    browser.follow("a[href='/web/releases']", "Release requests");
    browser.look_at("releases");
    browser.click("section.release:first-of-type button[value=approve]");
    browser.expect(".notice", "It is released, and passes from now on.");
    browser.click("section.release button[value=decline]");
    browser.expect(".notice", "It stays blocked.");
    browser.look_at("releases-decided");
    browser.click("button[value=revoke]");
    browser.expect(".notice", "It is blocked again, where a rule blocks it.");
}
