//! The page of web requests, and the API behind it.

use gauntlet_web::{WebOutcome, WebRecord};
use serde_json::Value;

use crate::common::{now_ms, start};

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
