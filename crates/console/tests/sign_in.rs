//! Sessions and attempts to sign in: when they end, how they are limited, and what a refusal says.

use std::sync::Arc;

use crate::common::{Answer, PASSWORD, Running, now_ms, start};
use gauntlet_console::{Access, Method, Proxies, routes};
use gauntlet_store::users::{AttemptLimits, totp_code};

fn api(console: &Running, cookie: &str, method: &str, path: &str, form: &str) -> Answer {
    let csrf = console.csrf(cookie);
    let headers = format!("Cookie: {cookie}\r\nX-CSRF-Token: {csrf}\r\n");
    console.request_with(method, path, &headers, form)
}

#[test]
fn a_session_ends_some_time_after_it_began_however_busy_it_is() {
    let console = crate::common::start_with(|state, _| {
        state.options.session_seconds = 3_600;
        state.options.session_age_seconds_max = 7_200;
    });
    let users = &console.state.users;
    let is_in = |age_seconds: i64| {
        let begun = now_ms() - age_seconds * 1_000;
        let started = users.start_session("rita", begun).unwrap();
        // Used all the time.
        for at in (0..age_seconds).step_by(600) {
            users.session(&started.token, begun + at * 1_000, i64::MAX, i64::MAX).unwrap().unwrap();
        }
        let cookie = format!("gauntlet_session={}", started.token);
        console.request("GET", "/account", &cookie, "").status == 200
    };
    assert!(is_in(7_100));
    assert!(!is_in(7_210));
}

#[test]
fn a_form_that_is_sent_after_the_session_leads_back_to_its_page() {
    let console = crate::common::start();
    console.state.node.policy().unwrap();
    let sent = |route: &gauntlet_console::Route| {
        let path = route.path.replace("{id}", "none").replace("{login}", "rita");
        let answer = console.request("POST", &path, "gauntlet_session=over", "x=1");
        let to = answer.header("location").unwrap().to_owned();
        assert!(answer.status == 303 && to.starts_with("/sign-in?next="), "{path}: {to}");
        let next = to.split_once("next=").unwrap().1;
        let form = format!("login=admin&password={}&next={next}", PASSWORD.replace(' ', "+"));
        let signed_in = console.request("POST", "/sign-in", "", &form);
        let place = signed_in.header("location").unwrap().to_owned();
        let cookie = signed_in.header("set-cookie").unwrap().split(';').next().unwrap();
        let shown = console.request("GET", &place, cookie, "");
        assert_ne!(shown.status, 405, "{path} leads to {place}");
        (path, place)
    };
    let forms = routes().filter(|r| {
        let is_page = !r.path.starts_with("/api/") && r.access != Access::Public;
        is_page && r.method == Method::Post
    });
    let led: Vec<(String, String)> = forms.map(sent).collect();
    let place = |path: &str| led.iter().find(|(from, _)| from == path).map(|(_, to)| to.as_str());
    assert_eq!(place("/quarantine/decide"), Some("/quarantine"));
    assert_eq!(place("/messages/searches"), Some("/messages"));
    assert_eq!(place("/policy/check"), Some("/policy"));
    assert_eq!(place("/policy/replay/stop"), Some("/policy/replay"));
    assert_eq!(place("/account/password"), Some("/account"));
    assert_eq!(place("/quarantine/none/object"), Some("/quarantine/none"));
    assert_eq!(place("/users/rita"), Some("/users/rita"));
    assert_eq!(place("/sign-out"), Some("/"));
}

/// A list that is left open renews itself every few seconds.
#[test]
fn a_page_that_is_left_open_keeps_nobody_signed_in() {
    let console = crate::common::start_with(|state, _| state.options.session_seconds = 3_600);
    let users = &console.state.users;
    let seen = |minutes: i64| {
        let at = now_ms() - minutes * 60_000;
        let started = users.start_session("rita", at).unwrap();
        format!("gauntlet_session={}", started.token)
    };
    let renew = |cookie: &str| {
        let headers =
            format!("Cookie: {cookie}\r\nSec-Fetch-Dest: empty\r\nSec-Fetch-Site: same-origin\r\n");
        console.request_with("GET", "/messages", &headers, "").status
    };
    let in_half_an_hour = |cookie: &str| {
        let token = cookie.split_once('=').unwrap().1;
        let later = now_ms() + 30 * 60_000;
        users.peek_session(token, later, 3_600_000, i64::MAX).unwrap().is_some()
    };
    let cookie = seen(45);
    assert_eq!(renew(&cookie), 200, "it is shown");
    assert!(!in_half_an_hour(&cookie), "and nobody used it");
    let cookie = seen(45);
    assert_eq!(console.request("GET", "/messages", &cookie, "").status, 200);
    assert!(in_half_an_hour(&cookie), "somebody did");
    assert_eq!(renew(&seen(61)), 303);
}

#[test]
fn other_sessions_end_with_a_second_factor_and_with_other_rights() {
    let console = start();
    let word = crate::common::PASSWORD.replace(' ', "+");
    let is_in = |cookie: &str| console.request("GET", "/quarantine", cookie, "").status == 200;
    let renewed = |answer: &Answer| {
        let set = answer.header("set-cookie").unwrap_or_else(|| panic!("{}", answer.body));
        set.split(';').next().unwrap().to_owned()
    };
    let (stolen, own) = (console.sign_in("ursula"), console.sign_in("ursula"));
    let post = |cookie: &str, fields: &str| {
        let form = format!("csrf={}&{fields}", console.csrf(cookie));
        console.request("POST", "/account/second-factor", cookie, &form)
    };
    let page = post(&own, &format!("do=begin&password={word}")).body;
    let key = page.split_once("<code class=\"big\">").unwrap().1;
    let key = key.split('<').next().unwrap().replace(' ', "");
    assert!(is_in(&stolen));
    let on = post(&own, &format!("do=on&code={}", totp_code(&key, now_ms()).unwrap()));
    assert_eq!(on.status, 200);
    assert!(!is_in(&stolen) && !is_in(&own), "all end");
    let own = renewed(&on);
    assert!(is_in(&own), "but who did it goes on");
    // Off, by the API.
    let recovery = on.body.split_once("<li><code>").unwrap().1.split('<').next().unwrap();
    let started = console.state.users.start_session("ursula", now_ms()).unwrap();
    let stolen = format!("gauntlet_session={}", started.token);
    let form = format!("do=off&code={recovery}");
    let off = api(&console, &own, "POST", "/api/v1/own/second-factor", &form);
    assert_eq!(off.status, 200, "{}", off.body);
    assert!(!is_in(&stolen) && !is_in(&own) && is_in(&renewed(&off)));
    // Another role or other addresses, given by an administrator, and by the command line.
    for (role, addresses) in [("user", "a@example.com"), ("reviewer", ""), ("user", "")] {
        let (person, admin) = (console.sign_in("ursula"), console.sign_in("admin"));
        let csrf = console.csrf(&admin);
        let form = format!("csrf={csrf}&do=rights&role={role}&addresses={addresses}");
        assert_eq!(console.request("POST", "/users/ursula", &admin, &form).status, 303);
        assert_eq!(console.request("GET", "/account", &person, "").status, 303, "{role}");
        assert!(is_in(&admin), "not whoever did it");
    }
    // One's own.
    let admin = console.sign_in("admin");
    let csrf = console.csrf(&admin);
    let form = format!("csrf={csrf}&do=rights&role=administrator&addresses=root@example.com");
    let done = console.request("POST", "/users/admin", &admin, &form);
    assert!(!is_in(&admin) && is_in(&renewed(&done)));
}

/// A console that gives up soon, behind a proxy.
fn strict() -> Running {
    crate::common::start_with(|state, _| {
        state.proxies = Arc::new(Proxies::parse(&["127.0.0.1".to_owned()]).unwrap());
        state.users.attempts().set_limits(AttemptLimits {
            failures_per_login_max: 2,
            failures_per_known_login_max: 4,
            failures_per_address_max: 3,
            failures_per_network_max: 6,
            account_failures_free: 8,
            code_failures_free: 2,
            ..AttemptLimits::default()
        });
    })
}

/// Passwords and codes that were refused; `/metrics` has these numbers.
fn refused(console: &Running) -> (u64, u64) {
    console.state.users.attempts().refused()
}

/// It is a refusal that says how long to wait, at most so many seconds.
fn is_refusal(answer: &Answer, at_most: u64, what: &str) {
    assert_eq!(answer.status, 429, "{what}: {}", answer.body);
    let wait: u64 = answer.header("retry-after").expect(what).parse().unwrap();
    assert!((1..=at_most).contains(&wait), "{what}: {wait}");
}

fn sign_in_from(console: &Running, client: &str, login: &str, word: &str) -> Answer {
    let headers = format!("X-Forwarded-For: {client}\r\n");
    let form = format!("login={login}&password={}", word.replace(' ', "+"));
    console.request_with("POST", "/sign-in", &headers, &form)
}

#[test]
fn too_many_attempts_are_answered_429_with_the_time_to_wait_and_counted() {
    let console = strict();
    let mut expected = 0;
    assert_eq!(refused(&console).0, 0);
    let mut refused = |answer: Answer, what: &str| {
        is_refusal(&answer, 601, what);
        expected += 1;
        assert_eq!(refused(&console).0, expected, "{what}");
    };
    let from = |client: &str, login: &str, word: &str| sign_in_from(&console, client, login, word);
    let wrong = |client: &str, login: &str| {
        assert_eq!(from(client, login, "not this").status, 401, "{client} {login}");
    };
    (0..2).for_each(|_| wrong("192.0.2.1", "a"));
    refused(from("192.0.2.1", "a", "x"), "a login from one address");
    wrong("192.0.2.1", "b");
    refused(from("192.0.2.1", "c", "x"), "an address");
    (2..5).for_each(|n| wrong(&format!("192.0.2.{n}"), "d"));
    refused(from("192.0.2.9", "e", "x"), "a network");
    (0..8).for_each(|n| wrong(&format!("11.{n}.0.1"), "f"));
    // The first pauses are short; checking may take longer on a busy machine.
    let one = |n: i32| from(&format!("12.{n}.1.1"), "f", "x");
    let paused = (0..10).map(one).find(|answer| answer.status == 429).expect("a pause");
    refused(paused, "a login from everywhere");
    let home = "203.0.113.5";
    assert_eq!(from(home, "ursula", crate::common::PASSWORD).status, 303);
    (0..4).for_each(|_| wrong(home, "ursula"));
    refused(from(home, "ursula", crate::common::PASSWORD), "a known address");
    // What was refused changed nothing, and nobody else is kept out.
    assert_eq!(from("198.51.100.1", "rita", crate::common::PASSWORD).status, 303);
    assert_eq!(console.request("GET", "/healthz", "", "").status, 200);
}

#[test]
fn the_present_password_is_limited_by_pages_and_by_the_api() {
    let console = strict();
    let cookie = console.sign_in("rita");
    let csrf = console.csrf(&cookie);
    let old = format!("csrf={csrf}&old=wrong&new=another+word+now&again=another+word+now");
    for _ in 0..4 {
        assert_eq!(console.request("POST", "/account/password", &cookie, &old).status, 400);
    }
    let answer = console.request("POST", "/account/password", &cookie, &old);
    is_refusal(&answer, 601, "password");
    for (page, form) in [
        ("app-passwords", "do=make&name=x&password=wrong"),
        ("second-factor", "do=begin&password=wrong"),
    ] {
        let by_page = format!("csrf={csrf}&{form}");
        let answer = console.request("POST", &format!("/account/{page}"), &cookie, &by_page);
        is_refusal(&answer, 601, page);
        let form = form.trim_start_matches("do=make&");
        let answer = api(&console, &cookie, "POST", &format!("/api/v1/own/{page}"), form);
        is_refusal(&answer, 601, page);
        assert!(answer.body.starts_with("{\"error\":"), "{}", answer.body);
    }
    assert_eq!(refused(&console).0, 5);
    assert!(console.state.users.verify("rita", crate::common::PASSWORD).unwrap().is_some());
}

#[test]
fn codes_are_limited_at_the_sign_in_by_pages_and_by_the_api() {
    let console = strict();
    let users = &console.state.users;
    let secret = users.begin_totp("admin").unwrap();
    let code = totp_code(&secret, now_ms()).unwrap();
    users.enable_totp("admin", &code, now_ms()).unwrap().unwrap();
    let cookie =
        format!("gauntlet_session={}", users.start_session("admin", now_ms()).unwrap().token);
    let off = format!("csrf={}&do=off&code=000000", console.csrf(&cookie));
    for _ in 0..2 {
        let answer = console.request("POST", "/account/second-factor", &cookie, &off);
        assert_eq!(answer.status, 400);
    }
    let with_code = format!("{}&code=000000", crate::common::PASSWORD);
    let by_api = |form: &str| api(&console, &cookie, "POST", "/api/v1/own/second-factor", form);
    for (n, answer) in [
        console.request("POST", "/account/second-factor", &cookie, &off),
        by_api("do=off&code=000000"),
        by_api("do=on&code=000000"),
        sign_in_from(&console, "198.51.100.77", "admin", &with_code),
    ]
    .iter()
    .enumerate()
    {
        is_refusal(answer, 31, &n.to_string());
    }
    assert_eq!(refused(&console), (0, 4));
}

#[test]
fn a_node_that_takes_no_mail_says_503_to_whoever_asks_for_its_health() {
    let console = start();
    assert_eq!(console.request("GET", "/healthz", "", "").status, 200);
    let why = ["the last write to the spool failed".to_owned(), "no room".to_owned()];
    *console.node.problems.lock().unwrap() = why.to_vec();
    for method in ["GET", "HEAD"] {
        let answer = console.request(method, "/healthz", "", "");
        assert_eq!(answer.status, 503, "{method}");
        let shown = "the last write to the spool failed\nno room\n";
        assert_eq!(answer.body, if method == "GET" { shown } else { "" });
        assert_eq!(answer.header("cache-control"), Some("no-store"));
    }
    console.node.problems.lock().unwrap().clear();
    assert_eq!(console.request("GET", "/healthz", "", "").status, 200, "and back");
    // What is wrong with the array is no reason to take a node out that takes mail; whoever asks
    // for its health does not learn where its database is.
    let away = "array: cannot connect to db.example.net";
    console.node.warnings.lock().unwrap().push(away.to_owned());
    let answer = console.request("GET", "/health/ready", "", "");
    assert_eq!((answer.status, answer.body.as_str()), (200, "ok\n"));
    let cookies = console.sign_in("admin");
    for page in ["/", "/messages", "/quarantine", "/queue", "/reports"] {
        assert!(console.request("GET", page, &cookies, "").body.contains(away), "{page}");
    }
    // A user learns that something may be missing, not what.
    let own = console.request("GET", "/quarantine", &console.sign_in("ursula"), "").body;
    assert!(own.contains("Some of your mail may be missing") && !own.contains(away), "{own}");
}
