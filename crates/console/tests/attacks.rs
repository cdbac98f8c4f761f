//! What a browser can be made to send by others, and what a client sends that is no browser.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use crate::common::{Running, Sample, now_ms, start};
use gauntlet_console::{Method, routes};
use gauntlet_store::quarantine::State;
use gauntlet_store::users::{Link, LinkKind};
use gauntlet_verdict::Class;

fn put(console: &Running, id: &str, raw: &[u8]) {
    console.put(&Sample {
        id,
        class: Class::Spam,
        score: 9.5,
        folder: Some("suspect"),
        to: "ursula@example.com",
        raw,
        age_ms: 1_000,
        hits: Vec::new(),
    });
}

/// What could be changed, as text: users, tokens, held mail, policy, senders.
fn state(console: &Running) -> String {
    let users = &console.state.users;
    format!(
        "{:?} {:?} {:?} {:?} {:?} {:?} {:?} {:?}",
        users.list().unwrap(),
        users.tokens().unwrap(),
        users.listed_senders().unwrap(),
        users.app_passwords("admin").unwrap(),
        users.second_factor("admin").unwrap(),
        console.state.policies.newest().unwrap().map(|p| p.version.number),
        console.state.quarantine.get("held-one").unwrap().map(|h| h.state),
        (console.node.ordered.lock().unwrap().len(), console.node.queued.lock().unwrap().len()),
    )
}

/// Fields that would make each address do something.
const EVERYTHING: &str = "do=make&name=evil&scope=users:write&scopes=users:write&role=administrator&\
    login=mallory&addresses=a@b.example&item=held-one&decision=release&sure=yes&id=Q1&text=x&entry=\
    evil.example&list=allow&days=1&password=correct+horse+battery&old=correct+horse+battery&\
    new=another+long+word&again=another+long+word&strictness=lax&query=a%3Db&number=1";

#[test]
fn nothing_is_changed_by_a_page_of_somebody_else() {
    let console = start();
    put(&console, "one", b"Subject: x\r\n\r\ny");
    console.state.node.policy().unwrap();
    let cookie = console.sign_in("admin");
    let csrf = console.csrf(&cookie);
    let before = state(&console);
    let public = ["/sign-in", "/link/{token}"];
    for route in routes().filter(|r| r.method.changes() && !public.contains(&r.path)) {
        let path = route
            .path
            .replace("{id}", if route.path.contains("tine") { "held-one" } else { "one" });
        let path = path.replace("{login}", "rita").replace("{name}", "one");
        let method = route.method.name();
        let other: String = csrf.chars().rev().collect();
        for (what, headers, token) in [
            ("no token", "", ""),
            ("an empty one", "X-CSRF-Token: \r\n", ""),
            ("a wrong one", "", other.as_str()),
            ("another site", "Origin: https://evil.example\r\n", csrf.as_str()),
            ("a site without a name", "Origin: null\r\n", csrf.as_str()),
            ("a neighbouring site", "Sec-Fetch-Site: same-site\r\n", csrf.as_str()),
            ("another site, as browsers say", "Sec-Fetch-Site: cross-site\r\n", csrf.as_str()),
        ] {
            let headers = format!("Cookie: {cookie}\r\n{headers}");
            let fields = format!("{EVERYTHING}&csrf={token}");
            let (path, form) = match route.method {
                Method::Delete => (format!("{path}?csrf={token}&entry=x"), String::new()),
                _ => (path.clone(), fields),
            };
            let answer = console.request_with(method, &path, &headers, &form);
            assert_eq!(answer.status, 403, "{method} {path}, {what}: {}", answer.body);
        }
        // What a form of another site can send without asking first: no JSON, whatever it says.
        let json =
            format!("{{\"csrf\":\"{csrf}\",\"do\":\"make\",\"name\":\"evil\",\"role\":\"user\"}}");
        for kind in
            ["text/plain", "multipart/form-data; boundary=x", "text/plain; application/json"]
        {
            let headers = format!("Cookie: {cookie}\r\nContent-Type: {kind}\r\n");
            let answer = console.request_plain(method, &path, &headers, json.as_bytes());
            assert!([400, 403, 415].contains(&answer.status), "{method} {path}: {}", answer.status);
        }
        // Other methods do not become this one.
        for override_by in ["X-HTTP-Method-Override", "X-HTTP-Method", "X-Method-Override"] {
            let headers = format!("Cookie: {cookie}\r\n{override_by}: {method}\r\n");
            let path = format!("{path}?_method={method}&csrf={csrf}&{EVERYTHING}");
            let _page_or_refusal = console.request_with("GET", &path, &headers, "");
            let _page_or_refusal = console.request_with("HEAD", &path, &headers, "");
        }
        assert_eq!(state(&console), before, "{method} {path}");
    }
    let login = "login=admin&password=correct+horse+battery";
    for foreign in ["Origin: https://evil.example", "Origin: null", "Sec-Fetch-Site: same-site"] {
        let answer = console.request_with("POST", "/sign-in", &format!("{foreign}\r\n"), login);
        assert_eq!((answer.status, answer.header("set-cookie")), (403, None), "{foreign}");
    }
}

#[test]
fn programs_that_only_look_at_a_link_release_nothing() {
    let console = start();
    put(&console, "one", b"Subject: x\r\n\r\ny");
    let link = |kind, item: &str| {
        let address = "ursula@example.com".to_owned();
        let item = item.to_owned();
        let link = Link { kind, address, item, until_ms: now_ms() + 60_000, made_ms: 1 };
        format!("/link/{}", console.state.users.sign_link(&link).unwrap())
    };
    let all = [
        link(LinkKind::Release, "held-one"),
        link(LinkKind::Allow, "held-one"),
        link(LinkKind::Enter, ""),
    ];
    let sessions = || console.state.users.list().unwrap().len();
    for path in &all {
        for (method, headers) in [
            ("HEAD", ""),
            ("GET", "Sec-Purpose: prefetch;prerender\r\n"),
            ("GET", "X-HTTP-Method-Override: POST\r\n"),
            ("OPTIONS", ""),
            ("PROPFIND", ""),
            ("PUT", ""),
        ] {
            let answer = console.request_with(method, path, headers, "");
            assert!(answer.header("set-cookie").is_none(), "{method} {path}");
            assert!([200, 405].contains(&answer.status), "{method}: {}", answer.status);
        }
        let answer = console.request("GET", &format!("{path}?_method=POST"), "", "");
        assert_eq!(answer.status, 200);
        assert_eq!(answer.header("cache-control"), Some("no-store"));
        assert_eq!(answer.header("referrer-policy"), Some("no-referrer"), "the link is a secret");
    }
    assert!(console.node.queued.lock().unwrap().is_empty());
    assert_eq!(console.state.quarantine.get("held-one").unwrap().unwrap().state, State::Held);
    assert_eq!(sessions(), 3, "nobody was added");
    assert_eq!(console.request("POST", &all[0], "", "").status, 200, "and the button does it");
}

/// Says this, and returns all that is answered.
fn raw(console: &Running, said: &[u8]) -> String {
    let mut stream = TcpStream::connect(console.address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(3))).unwrap();
    // It may be closed before all is said.
    let _all_or_a_part = stream.write_all(said);
    let mut answer = Vec::new();
    let mut piece = [0; 4096];
    while let Ok(n @ 1..) = stream.read(&mut piece) {
        answer.extend_from_slice(&piece[..n]);
    }
    String::from_utf8_lossy(&answer).into_owned()
}

/// A proxy before us may see one request where we see two, or the other way round.
#[test]
fn no_request_hides_in_another() {
    let console = start();
    let hidden = "GET /healthz?hidden HTTP/1.1\r\nHost: x\r\n\r\n";
    for (what, head, body) in [
        ("both lengths", "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n", "0\r\n\r\n"),
        ("both, the other way", "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n", "0\r\n\r\n"),
        ("two lengths", "Content-Length: 0\r\nContent-Length: 5\r\n", "x=abc"),
        ("a list of lengths", "Content-Length: 0, 5\r\n", "x=abc"),
        ("a signed length", "Content-Length: +0\r\n", ""),
        ("a length in hexadecimal", "Content-Length: 0x0\r\n", ""),
        ("an unknown coding", "Transfer-Encoding: xchunked\r\n", "0\r\n\r\n"),
        ("chunked, not last", "Transfer-Encoding: chunked, identity\r\n", "0\r\n\r\n"),
        (
            "chunked twice",
            "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
            "0\r\n\r\n",
        ),
        ("a space before the colon", "Content-Length : 36\r\n", ""),
        ("a folded coding", "Transfer-Encoding:\r\n chunked\r\n", "0\r\n\r\n"),
        ("a bare carriage return", "X: y\rTransfer-Encoding: chunked\r\n", ""),
        ("a NUL", "X: y\0z\r\n", ""),
        (
            "a chunk of too many digits",
            "Transfer-Encoding: chunked\r\n",
            "FFFFFFFFFFFFFFFFF\r\n\r\n",
        ),
        ("a chunk with a sign", "Transfer-Encoding: chunked\r\n", "+0\r\n\r\n"),
    ] {
        let said = format!("POST /sign-in HTTP/1.1\r\nHost: x\r\n{head}\r\n{body}{hidden}");
        let answer = raw(&console, said.as_bytes());
        assert!(!answer.contains("\r\n\r\nok\n"), "{what}: what is hidden is answered: {answer}");
        let is_refused = answer.starts_with("HTTP/1.1 4");
        assert!(is_refused || answer.is_empty(), "{what}: {answer}");
    }
    let two = format!("{hidden}{hidden}");
    assert_eq!(raw(&console, two.as_bytes()).matches("HTTP/1.1 200").count(), 2, "honest ones");
}

#[test]
fn deep_and_large_bodies_are_refused() {
    let console = start();
    let token = console
        .state
        .users
        .add_token("all", &gauntlet_store::users::Scope::ALL, 1, "admin", now_ms())
        .unwrap();
    let ask = |body: &[u8]| {
        let headers =
            format!("Authorization: Bearer {token}\r\nContent-Type: application/json\r\n");
        console.request_plain("PUT", "/api/v1/senders", &headers, body).status
    };
    let deep = |open: &str, close: &str, n: usize| {
        format!("{{\"entry\":{}1{}}}", open.repeat(n), close.repeat(n))
    };
    for n in [1, 100, 127, 128, 1_000, 100_000] {
        assert_eq!(ask(deep("[", "]", n).as_bytes()), 400, "{n}");
        assert_eq!(ask(deep("{\"a\":", "}", n).as_bytes()), 400, "{n}");
    }
    let many: String = (0..60_000).map(|n| format!("\"f{n}\":1,")).collect();
    assert_eq!(ask(format!("{{{many}\"entry\":\"x\"}}").as_bytes()), 400);
    let large = format!("{{\"entry\":\"{}\"}}", "x".repeat(2 << 20));
    assert_eq!(ask(large.as_bytes()), 413);
    let said = |method: &str, path: &str| {
        let headers = "Content-Type: application/json\r\n";
        let answer = console.request_plain(method, path, headers, large.as_bytes());
        assert!(answer.status == 413 && answer.body.contains("1,048,576 bytes"), "{}", answer.body);
        assert!(answer.header("content-security-policy").is_some(), "{path}");
        answer.header("content-type").unwrap().to_owned()
    };
    assert_eq!(said("PUT", "/api/v1/senders"), "application/json");
    assert_eq!(said("POST", "/policy/check"), "text/html; charset=utf-8");
    for malformed in [
        "{\"entry\":1e999,\"list\":\"allow\"}",
        "{\"entry\":\"\\ud800\"}",
        "\u{feff}{}",
        "[]",
        "null",
        "{\"entry\":\"a\0\",\"list\":\"allow\"}",
    ] {
        assert_eq!(ask(malformed.as_bytes()), 400, "{malformed}");
    }
    assert_eq!(console.request("GET", "/healthz", "", "").status, 200);
}

#[test]
fn searches_take_what_is_asked_for_literally_and_are_bounded() {
    let console = start();
    for (id, subject) in [("one", "100% off_now"), ("two", "100 off now"), ("three", "1000")] {
        put(&console, id, format!("Subject: {subject}\r\n\r\ny").as_bytes());
    }
    let cookie = console.sign_in("admin");
    let found = |query: &str| {
        let answer = console.request("GET", &format!("/quarantine?{query}"), &cookie, "");
        assert_eq!(answer.status, 200, "{query}: {}", answer.body);
        answer.body.matches("name=\"item\"").count()
    };
    assert_eq!((found("text=100"), found("text=%25"), found("text=_")), (3, 1, 1));
    assert_eq!((found("text=100%25+o"), found("text=1__%25"), found("text=*")), (1, 0, 0));
    assert_eq!(
        (found("text=%5C"), found("text=%27%20OR%201=1%20--"), found("recipient=%25")),
        (0, 0, 0)
    );
    for malformed in
        ["limit=18446744073709551615", "limit=-1", "after=99999999999999999999", "limit=1000000"]
    {
        let answer = console.request("GET", &format!("/quarantine?{malformed}"), &cookie, "");
        assert!([200, 400].contains(&answer.status), "{malformed}: {}", answer.status);
    }
    for field in ["subject", "sender", "recipient", "domain", "rule", "message_id", "client"] {
        for text in
            ["*", "%25", "a*+".repeat(2_000).as_str(), "%22%22+OR+NOT", "*+*+*", "%00", "%ff"]
        {
            let path = format!("/messages?{field}={text}");
            let answer = console.request("GET", &path, &cookie, "");
            assert!([200, 400].contains(&answer.status), "{field}={text}: {}", answer.status);
        }
    }
}

#[test]
fn what_is_private_is_kept_by_nobody_on_the_way() {
    let console = start();
    put(&console, "one", b"Subject: x\r\n\r\ny");
    console.state.node.policy().unwrap();
    let cookie = console.sign_in("admin");
    for route in routes().filter(|r| r.method == Method::Get) {
        let path = route
            .path
            .replace("{id}", if route.path.contains("tine") { "held-one" } else { "one" });
        let path = path.replace("{login}", "rita").replace("{number}", "1").replace("{token}", "x");
        let path = path.replace("{file}", "style.css").replace("{name}", "one");
        for cookie in [cookie.as_str(), ""] {
            let answer = console.request("GET", &path, cookie, "");
            let caching = answer.header("cache-control").unwrap_or("").to_owned();
            let is_file = path.starts_with("/static/");
            assert!(is_file || caching == "no-store", "{path}: {caching}");
            assert_eq!(answer.header("x-content-type-options"), Some("nosniff"), "{path}");
            assert!(answer.header("content-security-policy").is_some(), "{path}");
            assert!(answer.header("access-control-allow-origin").is_none(), "{path}");
        }
    }
    // Whatever host a request names, no answer leads there.
    for path in ["/", "/messages", "/sign-in", "/quarantine/held-one"] {
        let said = format!(
            "GET {path} HTTP/1.1\r\nHost: evil.example\r\nX-Forwarded-Host: evil.example\r\nForwarded: host=evil.example\r\nCookie: {cookie}\r\nConnection: close\r\n\r\n"
        );
        let answer = raw(&console, said.as_bytes());
        assert!(!answer.contains("evil.example"), "{answer}");
        let said = format!(
            "GET http://evil.example{path} HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n"
        );
        assert!(!raw(&console, said.as_bytes()).contains("evil.example"));
    }
    for path in [
        "//evil.example/",
        "/%2fevil.example",
        "/messages/..%2f..%2fetc%2fpasswd",
        "/static/..%2fCargo.toml",
        "/static/%2e%2e/x",
        "/quarantine/%2e%2e%2fusers/html",
    ] {
        let answer = console.request("GET", path, &cookie, "");
        assert!([303, 404].contains(&answer.status), "{path}: {}", answer.status);
        let to = answer.header("location").unwrap_or("/");
        assert!(to.starts_with('/') && !to.starts_with("//"), "{path}: {to}");
    }
}
