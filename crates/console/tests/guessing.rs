//! Guessing passwords and codes: limits by address, by account, and for second factors.

use std::sync::Arc;

use crate::common::{Running, now_ms, start};
use crate::security::api;
use crate::token_scopes::program;
use gauntlet_console::Proxies;
use gauntlet_store::users::{Scope, totp_code};

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
    // Without a code the answer reveals nothing about the password.
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
