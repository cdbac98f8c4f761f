//! Sessions, passwords and second factors over HTTP, and accounts as administrators change them.

use crate::common::{PASSWORD, start};
use gauntlet_store::Role;

#[test]
fn sessions_rotate_and_end() {
    let console = start();
    let first = console.sign_in("admin");
    let form = format!("login=admin&password={}", PASSWORD.replace(' ', "+"));
    let answer = console.request("POST", "/sign-in", &first, &form);
    let cookie = answer.header("set-cookie").unwrap();
    assert!(cookie.contains("HttpOnly") && cookie.contains("SameSite=Strict"), "{cookie}");
    let second = cookie.split(';').next().unwrap();
    assert_ne!(first, second);
    assert_eq!(console.request("GET", "/account", &first, "").status, 303);
    let csrf = console.csrf(second);
    assert_eq!(console.request("POST", "/sign-out", second, &format!("csrf={csrf}")).status, 303);
    assert_eq!(console.request("GET", "/account", second, "").status, 303);
    // A session that somebody else chose is not taken up.
    let fixed = "gauntlet_session=abcdefghijkmnpqrstuvwxyz23456789abcdefgh";
    let answer = console.request("POST", "/sign-in", fixed, &form);
    assert!(!answer.header("set-cookie").unwrap().starts_with(fixed));
    assert_eq!(console.request("GET", "/account", fixed, "").status, 303);
}

#[test]
fn guessing_is_slowed_down() {
    let console = start();
    let wrong = "login=admin&password=not+the+password";
    for _ in 0..5 {
        assert_eq!(console.request("POST", "/sign-in", "", wrong).status, 401);
    }
    assert_eq!(console.request("POST", "/sign-in", "", wrong).status, 429);
    let right = format!("login=admin&password={}", PASSWORD.replace(' ', "+"));
    assert_eq!(console.request("POST", "/sign-in", "", &right).status, 429);
    console.sign_in("rita");
}

#[test]
fn a_second_factor_is_asked_for_and_codes_count_once() {
    let console = start();
    let cookie = console.sign_in("rita");
    let csrf = console.csrf(&cookie);
    let post = |fields: &str| {
        let form = format!("csrf={csrf}&{fields}");
        console.request("POST", "/account/second-factor", &cookie, &form)
    };
    let word = PASSWORD.replace(' ', "+");
    assert_eq!(post("do=begin").status, 400, "a session alone is not enough");
    let page = post(&format!("do=begin&password={word}")).body;
    let key = page.split_once("<code class=\"big\">").unwrap().1;
    let key = key.split('<').next().unwrap().replace(' ', "");
    let wrong = post("do=on&code=000000x");
    assert_eq!(wrong.status, 400);
    assert!(wrong.body.contains("The code was wrong: enter the one"), "{}", wrong.body);
    assert!(wrong.body.contains("value=\"on\"") && !wrong.body.contains("Begin again"));
    let code = gauntlet_store::users::totp_code(&key, crate::common::now_ms()).unwrap();
    let on = post(&format!("do=on&code={code}"));
    assert!(on.status == 200 && on.body.contains("recovery codes"), "{}", on.body);
    let recovery =
        on.body.split_once("<li><code>").unwrap().1.split('<').next().unwrap().to_owned();
    let sign_in = |code: &str| {
        let form = format!("login=rita&password={word}&code={code}");
        console.request("POST", "/sign-in", "", &form).status
    };
    assert_eq!(sign_in(""), 401);
    assert_eq!(sign_in(&code), 401, "it was used");
    assert_eq!(sign_in(&recovery), 303);
    assert_eq!(sign_in(&recovery), 401, "it was used");
    for _ in 0..6 {
        sign_in("123456");
    }
    assert_eq!(sign_in("123456"), 429, "guessing codes is slowed down, too");
}

#[test]
fn a_one_time_password_opens_nothing_but_the_account() {
    let console = start();
    let users = &console.state.users;
    users.set_password("rita", PASSWORD, true, "admin", crate::common::now_ms()).unwrap();
    let cookie = console.sign_in("rita");
    assert_eq!(console.request("GET", "/messages", &cookie, "").status, 403);
    let csrf = console.csrf(&cookie);
    let form = format!(
        "csrf={csrf}&old={}&new=a+new+password&again=a+new+password",
        PASSWORD.replace(' ', "+")
    );
    let answer = console.request("POST", "/account/password", &cookie, &form);
    assert_eq!(answer.status, 303);
    let cookie = answer.header("set-cookie").unwrap().split(';').next().unwrap();
    assert_eq!(console.request("GET", "/messages", cookie, "").status, 200);
}

#[test]
fn people_are_added_changed_and_removed() {
    let console = start();
    let cookie = console.sign_in("admin");
    let csrf = console.csrf(&cookie);
    let post = |path: &str, fields: &str| {
        console.request("POST", path, &cookie, &format!("csrf={csrf}&{fields}"))
    };
    let added = post("/users", "login=bob&role=user&addresses=bob@example.com,+b@example.com");
    assert!(added.status == 200 && added.body.contains("One-time password"), "{}", added.body);
    let bob = || console.state.users.list().unwrap().into_iter().find(|u| u.login == "bob");
    assert_eq!(bob().unwrap().addresses, ["bob@example.com", "b@example.com"]);
    assert_eq!(post("/users", "login=bob&role=user").status, 400, "the login is taken");
    assert_eq!(post("/users/bob", "do=rights&role=reviewer&folders=suspect").status, 303);
    assert_eq!(bob().unwrap().role, Role::Reviewer);
    let own = console.sign_in("rita");
    assert_eq!(post("/users/rita", "do=sign_out").status, 303);
    assert_eq!(console.request("GET", "/messages", &own, "").status, 303, "she is out");
    assert!(post("/users/bob", "do=password").body.contains("One-time password"));
    assert!(post("/users/bob", "do=remove").body.contains("Remove bob?"));
    assert!(bob().is_some(), "asked first");
    assert_eq!(post("/users/bob", "do=remove&sure=yes").status, 303);
    assert!(bob().is_none());
    assert_eq!(post("/users/admin", "do=remove&sure=yes").status, 400, "the last one stays");
    assert_eq!(post("/users/admin", "do=rights&role=user").status, 400);
    let made = post("/tokens", "do=make&name=ci&days=2&scope=queue:read");
    assert!(made.body.contains("gauntlet_"), "{}", made.body);
    assert_eq!(post("/tokens", "do=make&name=none").status, 400, "no scope");
    assert_eq!(post("/tokens", "do=revoke&name=ci").status, 303);
    assert_eq!(post("/tokens", "do=revoke&name=ci").status, 404);
}
