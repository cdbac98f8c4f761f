//! The page of web requests, and the API behind it.

use gauntlet_web::{WebOutcome, WebRecord};
use serde_json::Value;

use crate::common::browser::Browser;
use crate::common::{now_ms, start};
use crate::policies::encoded;

fn record(n: i64) -> WebRecord {
    let is_blocked = n == 2;
    WebRecord {
        at_ms: now_ms() - n,
        reference: if is_blocked { "abc123".into() } else { String::new() },
        client: "10.0.0.7".into(),
        method: "GET".into(),
        host: format!("h{n}.example"),
        url: format!("http://h{n}.example/<b>?q"),
        status: if is_blocked { 403 } else { 200 },
        outcome: if is_blocked { WebOutcome::Blocked } else { WebOutcome::Passed },
        rule: if is_blocked { "lists\nslow".into() } else { String::new() },
        category: if is_blocked { "phishing".into() } else { String::new() },
        evidence: if is_blocked { "bad: domain h2.example".into() } else { String::new() },
        bytes_out: 2_048,
        ..WebRecord::default()
    }
}

#[test]
fn a_replay_tells_what_would_change_of_the_web() {
    let console = start();
    let log = console.state.web_log.as_ref().unwrap();
    (1..=3).for_each(|n| log.append(WebRecord { action: Some("allow".into()), ..record(n * 3) }));
    log.flush();
    let cookie = console.sign_in("admin");
    let csrf = console.csrf(&cookie);
    let base = console.state.node.policy().unwrap().version.number;
    let strict = "[[web_rule]]\nname = \"No <h3>\"\nwhen.url.host = \"h3.example\"\n\
                  do = { block = \"No.\" }\n\
                  [[web_rule]]\nname = \"Robots\"\nwhen.client.program = \"curl*\"\n\
                  do = { block = \"No.\" }\n";
    let form = format!("csrf={csrf}&base={base}&days=3&text={}", encoded(strict));
    assert_eq!(console.request("POST", "/policy/replay", &cookie, &form).status, 303);
    let report = loop {
        let page = console.request("GET", "/policy/replay", &cookie, "");
        if page.header("refresh").is_none() {
            break page.body;
        }
        std::thread::sleep(std::time::Duration::from_millis(2));
    };
    for part in [
        "<div class=\"tile\"><b>3</b><span>web requests looked at",
        "No &lt;h3&gt;",
        "h3.example (1)",
        "10.0.0.7 (1)",
        "Rule <b>Robots</b> cannot be replayed: it asks for <code>client.program</code>",
    ] {
        assert!(report.contains(part), "{part}: {report}");
    }
    let json = console.request("GET", "/api/v1/policy/replay", &cookie, "").body;
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["report"]["web"]["changes"][0]["requests"], 1, "{json}");
    assert_eq!(json["requests"], 3);
}

#[test]
fn replay_and_reports_of_the_web_are_seen_with_a_browser() {
    let Some(browser) = Browser::start() else { return };
    let console = start();
    let log = console.state.web_log.as_ref().unwrap();
    (1..=20).for_each(|n| log.append(WebRecord { action: Some("allow".into()), ..record(n) }));
    log.flush();
    browser.look(1280, 900, false);
    crate::browser::sign_in(&browser, &console);
    browser.follow("nav a[href='/web']", "Web");
    browser.look_at("web");
    browser.follow("nav a[href='/reports']", "Reports");
    browser.look_at("reports-web");
    browser.follow("nav a[href='/policy']", "Policy");
    let strict = "[[web_rule]]\nname = \"Nothing\"\nwhen.url.host = \"h1*.example\"\n\
                  do = { block = \"No.\" }\n\
                  [[web_rule]]\nname = \"Robots\"\nwhen.client.program = \"curl*\"\n\
                  do = { block = \"No.\" }\n";
    browser.run(&format!("document.querySelector('textarea').value = {strict:?}"));
    browser.follow("button[formaction='/policy/replay']", "Replay over 7 days");
    browser.expect("h2:first-of-type", "Web requests");
    browser.click("section.card details summary");
    browser.look_at("replay-web");
}

#[test]
fn reports_have_a_part_about_the_web_for_administrators() {
    let console = start();
    let log = console.state.web_log.as_ref().unwrap();
    (1..=3).for_each(|n| log.append(record(n)));
    log.flush();
    let admin = console.sign_in("admin");
    let page = console.request("GET", "/reports?days=2", &admin, "").body;
    assert!(page.contains("<b>3</b> requests, 1 blocked, 6.1 KB to clients."), "{page}");
    assert!(page.contains("href=\"/web?client=10.0.0.7\""), "{page}");
    let csv = console.request("GET", "/reports.csv?days=2", &admin, "").body;
    for line in [
        "web site,h1.example,,1,2048",
        "web blocked site,h2.example,blocked,1,",
        "web client,10.0.0.7,,3,6144",
        "web rule,lists,,1,2048",
        "web category,phishing,blocked,1,",
    ] {
        assert!(csv.contains(&format!("{line}\r\n")), "{line}: {csv}");
    }
    let pdf = console.request("GET", "/reports.pdf?days=2", &admin, "").body;
    assert!(pdf.contains("(Web requests)") && pdf.contains("(h2.example)"), "{pdf}");
    let json = console.request("GET", "/api/v1/report?days=2", &admin, "").body;
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["web"]["days"][0]["requests"], 3, "{json}");
    let rita = console.sign_in("rita");
    for path in ["/reports", "/reports.csv", "/api/v1/report"] {
        let body = console.request("GET", path, &rita, "").body;
        assert!(!body.contains("h1.example") && !body.contains("\"web\""), "{path}: {body}");
    }
}

#[test]
fn a_mailed_report_says_what_passed_of_the_web() {
    use gauntlet_console::report::web::{ClientsShown, WebReport};
    use gauntlet_console::report::{mail, report, span};
    let console = start();
    let log = console.state.web_log.as_ref().unwrap();
    (1..=3).for_each(|n| log.append(record(n)));
    log.flush();
    let mut made = report(&*console.state.log, 2, now_ms()).unwrap();
    let text = mail::summary(&made, &console.state.texts);
    assert!(!text.contains("Web:"), "only if there is a log: {text}");
    let (since_ms, end_ms) = span(2, now_ms());
    let summary = log.summary(since_ms, end_ms).unwrap();
    made.web = Some(WebReport::new(summary, ClientsShown::None));
    let text = mail::summary(&made, &console.state.texts);
    for part in
        ["Web: 3 requests, 1 blocked, 6.1 KB to clients.", "Top blocked sites:", "  h2.example"]
    {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(!text.contains("10.0.0.7"), "the settings keep no clients: {text}");
}

#[test]
fn browsers_are_told_about_the_proxy_without_a_sign_in() {
    let console = start();
    for path in ["/proxy.pac", "/wpad.dat"] {
        let answer = console.request("GET", path, "", "");
        assert_eq!(answer.header("content-type"), Some("application/x-ns-proxy-autoconfig"));
        assert!(answer.body.starts_with("function FindProxyForURL"), "{}", answer.body);
    }
}

#[test]
fn requests_are_listed_searched_and_counted() {
    let console = start();
    let log = console.state.web_log.as_ref().unwrap();
    (1..=3).for_each(|n| log.append(record(n)));
    log.flush();
    let admin = console.sign_in("admin");
    let page = console.request("GET", "/web", &admin, "").body;
    for part in [
        "In 24 hours 3 requests, 1 blocked, 6.1 KB to clients.",
        "http://h1.example/&lt;b&gt;?q",
        "<div>lists</div><div>slow</div>",
        "bad: domain h2.example",
        "abc123",
        "href=\"/web?category=phishing\"",
    ] {
        assert!(page.contains(part), "{part}: {page}");
    }
    let page = console.request("GET", "/web?outcome=blocked&rule=slow", &admin, "").body;
    assert!(page.contains("http://h2.example/") && !page.contains("http://h1.example/"), "{page}");
    let json = |path: &str| {
        serde_json::from_str::<Value>(&console.request("GET", path, &admin, "").body)
            .unwrap_or_default()
    };
    let found = json("/api/v1/web/requests?host=h3.example");
    assert_eq!(found["requests"][0]["url"], "http://h3.example/<b>?q");
    let summary = json("/api/v1/web/summary?hours=1");
    assert_eq!((&summary["requests"], &summary["blocked"]), (&3.into(), &1.into()));
    assert_eq!(console.request("GET", "/web?since=never", &admin, "").status, 400);
    for login in ["rita", "ursula"] {
        assert_eq!(
            console.request("GET", "/web", &console.sign_in(login), "").status,
            403,
            "{login}"
        );
    }
}
