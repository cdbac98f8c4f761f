//! The console over HTTP: who may do what, and what a hostile message or site cannot.

use crate::common::{PASSWORD, Running, Sample, hit, start};
use gauntlet_console::{Access, Method, routes};
use gauntlet_store::Role;
use gauntlet_verdict::Class;

const HOSTILE: &str = "<script>alert('x')</script>\"><img src=x onerror=alert(1)>";

fn hostile_mail() -> Vec<u8> {
    format!(
        "From: \"{0}\" <eve@example.net>\r\nTo: a@example.com\r\nSubject: {1}\r\n\
         X-Odd: {1}\r\nContent-Type: multipart/mixed; boundary=b\r\n\r\n--b\r\n\
         Content-Type: text/plain\r\n\r\nText {1}\r\n--b\r\nContent-Type: text/html\r\n\r\n\
         <html><body onload=alert(1)><p>Hello {1}</p><form action=//evil.example>\
         <iframe src=//evil.example></iframe></body></html>\r\n--b\r\n\
         Content-Type: application/pdf; name=\"{1}\"\r\n\r\nx\r\n--b--\r\n",
        HOSTILE.replace('"', "\\\""),
        HOSTILE
    )
    .into_bytes()
}

fn put(console: &Running, id: &str, folder: Option<&str>, to: &str, raw: &[u8]) {
    let hits = vec![hit(HOSTILE, 5.0, HOSTILE, Vec::new())];
    let (class, score, age_ms) = (Class::Spam, 9.5, 1000);
    console.put(&Sample { id, class, score, folder, to, raw, age_ms, hits });
}

#[test]
fn every_endpoint_is_for_those_it_is_for() {
    let console = start();
    put(&console, "one", Some("suspect"), "ursula@example.com", b"Subject: x\r\n\r\ny");
    console.state.node.policy().unwrap();
    let link = console.way_in();
    let roles = [
        (None, String::new(), String::new()),
        (Some(Role::User), console.sign_in("ursula"), String::new()),
        (Some(Role::Reviewer), console.sign_in("rita"), String::new()),
        (Some(Role::Administrator), console.sign_in("admin"), String::new()),
    ];
    for route in routes() {
        let path = route.path.replace("{file}", "style.css").replace("{number}", "1");
        let person = if route.method == Method::Get { "ursula" } else { "nobody" };
        let path = path.replace("{login}", person).replace("{token}", &link);
        let path = path.replace("{name}", "one");
        let held = path.contains("quarantine/{id}");
        let path = path.replace("{id}", if held { "held-one" } else { "one" });
        let signs = ["/sign-in", "/sign-out", "/link/{token}"].contains(&route.path);
        // No provider is set here: there is no such page.
        let signs = signs || path.starts_with("/sign-in/oidc");
        for (role, cookie, _) in roles.iter().filter(|_| !signs) {
            let csrf = if role.is_some() { console.csrf(cookie) } else { String::new() };
            // No item and no `sure`: the POSTs that may, do nothing.
            let (method, writes) = (route.method.name(), route.method.changes());
            let form = if writes { format!("csrf={csrf}&x=1") } else { String::new() };
            let skip = route.method == Method::Post && (held || route.path.contains("password"));
            if skip && role.is_some_and(|r| route.access.allows(r)) {
                continue;
            }
            let headers = format!("Cookie: {cookie}\r\nX-CSRF-Token: {csrf}\r\n");
            let answer = console.request_with(method, &path, &headers, &form);
            let what = format!("{method} {path} as {role:?}: {}", answer.status);
            match role {
                None if route.access == Access::Public => assert_eq!(answer.status, 200, "{what}"),
                None if path.starts_with("/api/") => assert_eq!(answer.status, 401, "{what}"),
                None => assert!(
                    answer.status == 303 && answer.header("location").unwrap().contains("/sign-in"),
                    "{what}"
                ),
                // An empty form is let in, and then found wanting.
                Some(role) if route.access.allows(*role) => {
                    let let_in = [200, 303].contains(&answer.status);
                    // No replay yet; no mail of one's own.
                    let may_lack = path.ends_with("/policy/replay") || path.contains("/v1/own");
                    let none_yet = may_lack && answer.status == 404;
                    let let_in =
                        let_in || none_yet || (writes && [400, 404].contains(&answer.status));
                    assert!(let_in, "{what}: {}", answer.body);
                }
                Some(_) => assert_eq!(answer.status, 403, "{what}"),
            }
        }
    }
}

#[test]
fn a_form_needs_the_sessions_token_and_our_own_page() {
    let console = start();
    put(&console, "one", Some("suspect"), "a@example.com", b"Subject: x\r\n\r\ny");
    let cookie = console.sign_in("admin");
    let csrf = console.csrf(&cookie);
    let path = "/api/v1/quarantine/held-one/release";
    assert_eq!(console.request("POST", path, &cookie, "x=1").status, 403);
    assert_eq!(console.request("POST", path, &cookie, "csrf=wrong").status, 403);
    let form = format!("csrf={csrf}");
    for foreign in ["Origin: https://evil.example", "Sec-Fetch-Site: cross-site"] {
        let headers = format!("Cookie: {cookie}\r\n{foreign}\r\n");
        assert_eq!(console.request_with("POST", path, &headers, &form).status, 403);
        let sign_in = format!("login=admin&password={}", PASSWORD.replace(' ', "+"));
        let headers = format!("{foreign}\r\n");
        assert_eq!(console.request_with("POST", "/sign-in", &headers, &sign_in).status, 403);
    }
    assert!(console.node.queued.lock().unwrap().is_empty());
    let in_header = format!("Cookie: {cookie}\r\nX-CSRF-Token: {csrf}\r\n");
    assert_eq!(console.request_with("POST", path, &in_header, "").status, 200);
    assert_eq!(console.node.queued.lock().unwrap().len(), 1);
    // Releasing twice delivers once, and the second answer says so.
    let again = console.request_with("POST", path, &in_header, "");
    assert_eq!((again.status, again.body.contains("released")), (409, true));
    let delete = "/api/v1/quarantine/held-one/delete";
    assert_eq!(console.request_with("POST", delete, &in_header, "").status, 409);
    assert_eq!(console.node.queued.lock().unwrap().len(), 1);
}

#[test]
fn deleting_teaches_what_is_unwanted_but_not_for_users() {
    let console = start();
    for (login, id) in [("admin", "one"), ("ursula", "two"), ("admin", "three")] {
        put(&console, id, Some("suspect"), "ursula@example.com", b"Subject: x\r\n\r\ny");
        let cookie = console.sign_in(login);
        let headers = format!("Cookie: {cookie}\r\nX-CSRF-Token: {}\r\n", console.csrf(&cookie));
        let path = format!("/api/v1/quarantine/held-{id}/delete");
        let form = if id == "three" { "" } else { "learn=yes" };
        let answer = console.request_with("POST", &path, &headers, form);
        assert_eq!(answer.status, 200, "{id}: {}", answer.body);
    }
    let taught = console.node.taught.lock().unwrap().clone();
    assert_eq!(taught, [("held-one".to_owned(), true, "admin".to_owned())]);
}

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
    assert_eq!(post("do=on&code=000000x").status, 400);
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
fn people_see_only_what_is_theirs() {
    let console = start();
    put(&console, "one", Some("suspect"), "ursula@example.com", b"Subject: mine\r\n\r\ny");
    put(&console, "two", Some("explicit"), "other@example.com", b"Subject: other\r\n\r\ny");
    for (login, allowed) in
        [("ursula", [true, false]), ("rita", [true, false]), ("admin", [true; 2])]
    {
        let cookie = console.sign_in(login);
        let csrf = console.csrf(&cookie);
        let list = console.request("GET", "/quarantine?recipient=other@example.com", &cookie, "");
        assert_eq!(list.body.contains("/quarantine/held-two"), allowed[1], "{login}");
        for (id, allowed) in ["held-one", "held-two"].into_iter().zip(allowed) {
            for path in [format!("/quarantine/{id}"), format!("/api/v1/quarantine/{id}")] {
                let status = console.request("GET", &path, &cookie, "").status;
                assert_eq!(status == 200, allowed, "{login} {path}: {status}");
            }
            if !allowed {
                let form = format!("csrf={csrf}&item={id}&decision=release");
                let status = console.request("POST", "/quarantine/decide", &cookie, &form).status;
                assert_eq!(status, 404, "{login} {id}");
            }
        }
    }
    assert!(console.node.queued.lock().unwrap().is_empty());
}

#[test]
fn users_do_not_release_what_is_dangerous() {
    let console = start();
    let (id, class, hits) = ("one", Class::Malware, Vec::new());
    let (folder, raw) = (Some("suspect"), b"Subject: invoice\r\n\r\ny");
    let to = "ursula@example.com";
    console.put(&Sample { id, class, score: 20.0, folder, to, raw, age_ms: 1000, hits });
    for (login, allowed) in [("ursula", false), ("rita", true)] {
        let cookie = console.sign_in(login);
        let csrf = console.csrf(&cookie);
        let page = console.request("GET", "/quarantine/held-one", &cookie, "");
        assert_eq!(page.body.contains("value=\"release\""), allowed, "{login}");
        let form = format!("csrf={csrf}&item=held-one&decision=release");
        let answer = console.request("POST", "/quarantine/decide", &cookie, &form);
        assert_eq!(answer.status, if allowed { 303 } else { 403 }, "{login}");
        assert_eq!(answer.body.contains("ask one"), !allowed, "{login}: {}", answer.body);
        let path = "/api/v1/quarantine/held-one/release";
        let headers = format!("Cookie: {cookie}\r\nX-CSRF-Token: {csrf}\r\n");
        let answer = console.request_with("POST", path, &headers, "");
        assert_eq!(answer.status == 403, !allowed, "{login} by the API: {}", answer.status);
    }
}

#[test]
fn hostile_mail_is_text_everywhere() {
    let console = start();
    let raw = hostile_mail();
    put(&console, "one", Some("suspect"), "a@example.com", &raw);
    let cookie = console.sign_in("admin");
    let pages = [
        "/",
        "/messages",
        "/messages/one",
        "/quarantine",
        "/quarantine/held-one",
        "/quarantine/held-one/html",
        "/activity",
        "/messages?subject=%3Cscript%3Ealert(1)%3C/script%3E&rule=%22%3E%3Cimg%20src=x%3E",
        "/quarantine?text=%22%3E%3Cscript%3Ealert(1)%3C/script%3E",
        "/sign-in?next=javascript:alert(1)",
    ];
    for path in pages {
        let answer = console.request("GET", path, &cookie, "");
        assert!([200, 303].contains(&answer.status), "{path}: {}", answer.status);
        let body = answer.body.to_lowercase();
        let ours = body.replace("<script src=\"/static/script.js\" defer></script>", "");
        for wrong in ["<script", "<img", "<form action=//", "<iframe src=//", "<body onload"] {
            assert!(!ours.contains(wrong), "{path} has {wrong}:\n{ours}");
        }
        assert!(!body.contains("style="), "{path}: inline style");
        let policy = answer.header("content-security-policy").unwrap();
        let frame = path.ends_with("/html");
        assert!(policy.contains("default-src 'none'"), "{path}");
        assert_eq!(policy.contains("unsafe-inline"), frame, "{path}");
        assert_eq!(policy.contains("sandbox"), frame, "{path}");
        assert!(policy.contains(if frame {
            "frame-ancestors 'self'"
        } else {
            "frame-ancestors 'none'"
        }));
        assert_eq!(answer.header("x-content-type-options"), Some("nosniff"));
        assert_eq!(answer.header("referrer-policy"), Some("no-referrer"));
        assert_eq!(answer.header("cache-control"), Some("no-store"));
    }
    let download = console.request("GET", "/quarantine/held-one/download", &cookie, "");
    assert!(download.header("content-disposition").unwrap().starts_with("attachment"));
    assert_eq!(download.body.as_bytes(), raw);
    let no_way_out = console.request("GET", "/sign-in?next=//evil.example", &cookie, "");
    assert_eq!(no_way_out.header("location"), Some("/"));
}

#[test]
fn filters_find_and_refuse_nonsense() {
    let console = start();
    put(&console, "one", None, "a@example.com", b"Subject: Invoice 4711\r\n\r\ny");
    put(&console, "two", None, "b@example.com", b"Subject: Lunch\r\n\r\ny");
    let cookie = console.sign_in("rita");
    let found = |query: &str| {
        let answer = console.request("GET", &format!("/api/v1/messages?{query}"), &cookie, "");
        assert_eq!(answer.status, 200, "{query}: {}", answer.body);
        let page: serde_json::Value = serde_json::from_str(&answer.body).unwrap();
        page["messages"].as_array().unwrap().len()
    };
    assert_eq!(found(""), 2);
    assert_eq!(found("subject=invoice"), 1);
    assert_eq!(found("recipient=B@example.com&class=spam&class=ham"), 1);
    assert_eq!(found("domain=example.com&action=deliver&outcome=delivered&limit=1"), 1);
    assert_eq!(found("since=2001-01-01&until=2001-01-02"), 0);
    for wrong in ["class=junk", "since=yesterday", "after=x", "score_min=many", "limit=-1"] {
        let answer = console.request("GET", &format!("/api/v1/messages?{wrong}"), &cookie, "");
        let field = wrong.split('=').next().unwrap();
        assert_eq!(answer.status, 400, "{wrong}");
        assert!(answer.body.contains(field), "{}", answer.body);
    }
    for path in ["/messages/none", "/quarantine/none", "/static/none", "/none", "/messages/%00"] {
        assert_eq!(console.request("GET", path, &cookie, "").status, 404, "{path}");
    }
    let large = format!("csrf={}", "x".repeat(300_000));
    assert!(console.request("POST", "/sign-in", "", &large).status >= 400);
}

#[test]
fn what_the_filter_finds_comes_as_csv() {
    let console = start();
    put(
        &console,
        "one",
        None,
        "ursula@example.com",
        b"From: a@b.example\r\nSubject: =1+1\r\n\r\ny",
    );
    put(&console, "two", None, "rita@example.com", b"From: a@b.example\r\nSubject: two\r\n\r\ny");
    let cookie = console.sign_in("rita");
    let all = console.request("GET", "/messages.csv", &cookie, "");
    assert_eq!(all.status, 200);
    assert!(all.header("content-disposition").unwrap().contains("messages.csv"));
    assert_eq!(all.body.lines().count(), 3, "{}", all.body);
    assert!(all.body.contains("\"'=1+1\""), "{}", all.body);
    let one = console.request("GET", "/messages.csv?recipient=rita@example.com", &cookie, "");
    assert_eq!(one.body.lines().count(), 2, "{}", one.body);
    // Where a comma stands in numbers, spreadsheets split at semicolons, quotes or not.
    let raw = b"From: \"a;=b\" <a@b.example>\r\nSubject: hello;=HYPERLINK(A1)\r\n\r\ny";
    put(&console, "three", None, "ann@example.com", raw);
    let one = console.request("GET", "/messages.csv?recipient=ann@example.com", &cookie, "");
    assert!(one.body.contains("\"hello;'=HYPERLINK(A1)\""), "{}", one.body);
    assert!(one.body.contains("a;'=b"), "{}", one.body);
    let wrong = console.request("GET", "/messages.csv?since=soon", &cookie, "");
    assert_eq!(wrong.status, 400, "{}", wrong.body);
}

/// A form's field, encoded.
fn encoded(text: &str) -> String {
    text.bytes().map(|b| format!("%{b:02X}")).collect()
}

#[test]
fn a_policy_is_checked_before_it_is_in_force() {
    let console = start();
    let cookie = console.sign_in("admin");
    let csrf = console.csrf(&cookie);
    let first = console.state.node.policy().unwrap();
    let base = first.version.number;
    let post = |path: &str, text: &str, base: i64| {
        let form = format!("csrf={csrf}&base={base}&note=why&text={}", encoded(text));
        console.request("POST", path, &cookie, &form)
    };
    // Every kind of mistake has its line; nothing is put into force.
    for (text, line, why) in [
        ("[[rule]\n", 1, "expected"),
        ("[[rule]]\nname = \"a\"\nwhen.clas = \"spam\"\ndo = \"deliver\"\n", 3, "did you mean"),
        ("[[rule]]\nname = \"a\"\ndo = [\"deliver\", \"discard\"]\n", 1, "ends one way"),
        (
            "\n[[rule]]\nname = \"a\"\ndo = \"deliver\"\n[[rule]]\nname = \"a\"\ndo = \"discard\"\n",
            5,
            "name is taken",
        ),
        ("[[rule]]\nname = \"<script>\"\nwhen = { all = [] }\ndo = \"deliver\"\n", 1, "empty list"),
    ] {
        for path in ["/policy/check", "/policy"] {
            let answer = post(path, text, base);
            assert_eq!(answer.status, 400, "{path} {text}");
            assert!(
                answer.body.contains(&format!("<h2>Line {line}</h2>")),
                "{text}: {}",
                answer.body
            );
            assert!(answer.body.contains(why), "{text}: {}", answer.body);
            assert!(!answer.body.contains("<script>"), "{text}");
        }
    }
    assert_eq!(console.state.policies.newest().unwrap().unwrap(), first);
    // A rule that is never tried is told before, and does not keep the policy out.
    let dead =
        "[[rule]]\nname = \"all\"\ndo = \"deliver\"\n[[rule]]\nname = \"late\"\ndo = \"discard\"\n";
    let answer = post("/policy/check", &dead.replace('\n', "\r\n"), base);
    assert_eq!(answer.status, 200, "{}", answer.body);
    assert!(answer.body.contains("never tried") && answer.body.contains("class=\"added\""));
    assert_eq!(post("/policy", dead, base).status, 303);
    let second = console.state.policies.newest().unwrap().unwrap();
    assert_eq!((second.text.as_str(), second.version.who.as_str()), (dead, "admin"));
    assert_eq!((second.version.number, second.version.note.as_str()), (base + 1, "why"));
    // Who edited the version before does not undo this one unseen.
    let stale = post("/policy", crate::common::SMALL_POLICY, base);
    assert_eq!(stale.status, 409);
    assert!(stale.body.contains("changed meanwhile"), "{}", stale.body);
    let page = console.request("GET", "/policy", &cookie, "").body;
    assert!(page.contains("Undo the last change"), "{page}");
    let form = format!("csrf={csrf}&number={base}");
    assert_eq!(console.request("POST", "/policy/rollback", &cookie, &form).status, 303);
    let third = console.state.policies.newest().unwrap().unwrap();
    assert_eq!((third.text, third.version.number), (first.text, base + 2));
    for (number, status) in [(base + 1, 200), (99, 404), (-1, 404)] {
        let path = format!("/policy/versions/{number}");
        assert_eq!(console.request("GET", &path, &cookie, "").status, status, "{number}");
    }
    let form = format!("csrf={csrf}&number=99");
    assert_eq!(console.request("POST", "/policy/rollback", &cookie, &form).status, 404);
}

#[test]
fn rules_are_changed_one_by_one_with_a_form() {
    let console = start();
    let cookie = console.sign_in("admin");
    let csrf = console.csrf(&cookie);
    let base = console.state.node.policy().unwrap().version.number;
    let text = encoded(&format!("# Ours.\n{}", crate::common::SMALL_POLICY));
    let post = |op: &str, more: &str| {
        let form = format!("csrf={csrf}&base={base}&text={text}&op={op}&{more}");
        console.request("POST", "/policy/form", &cookie, &form)
    };
    let page = console.request("GET", "/policy", &cookie, "").body;
    assert!(page.contains("aria-label=\"Edit: Spam to quarantine\""), "{page}");
    let edit = post("edit-0", "").body;
    assert!(edit.contains("value=\"suspect, spam, phishing, malware\""), "{edit}");
    let fields = "name=Spam+to+quarantine&direction=both&enabled=yes&when_class=spam&score_min=7\
        &size_min=&attachment=&more_when=time+%3D+%7B+from+%3D+%2222%3A00%22%2C+to+%3D+%2206%3A00%22+%7D\
        &end=quarantine&end_text=night&tag_subject=&more_do=&stop=";
    let changed = post("apply-0", fields);
    assert_eq!(changed.status, 200, "{}", changed.body);
    for line in ["when.class = &quot;spam&quot;", "when.score_min = 7.0", "# Ours."] {
        assert!(changed.body.contains(line), "{line}: {}", changed.body);
    }
    assert!(changed.body.contains("It is a policy of 2 rules"), "{}", changed.body);
    let added = post("insert-end", "name=Last&direction=inbound&enabled=yes&end=discard");
    assert!(added.body.contains("It is a policy of 3 rules"), "{}", added.body);
    for (fields, why) in [
        ("name=Last&enabled=yes&end=hold", "a folder, address or text is missing"),
        ("name=Last&enabled=yes", "does nothing"),
        ("name=Last&enabled=yes&end=deliver&score_min=x", "no number"),
        ("name=Last&enabled=yes&end=deliver&more_when=%5B", "further conditions"),
    ] {
        let wrong = post("insert-0", fields);
        assert!(wrong.status == 400 && wrong.body.contains(why), "{fields}: {}", wrong.body);
    }
    // Well formed, but no policy: the check says so.
    let wrong = post("insert-0", "name=Last&enabled=yes&end=deliver&when_class=junk");
    assert!(wrong.status == 400 && wrong.body.contains("Not a policy yet"), "{}", wrong.body);
    assert!(post("down-0", "").body.contains("It is a policy of 2 rules"));
    assert!(post("delete-1", "").body.contains("It is a policy of 1 rules"));
    assert!(post("switch-1", "").body.contains("enabled = false"));
    for op in ["up-0", "down-1", "edit-7", "fly-0", "", "edit-x"] {
        assert_eq!(post(op, "").status, 400, "{op}");
    }
    assert_eq!(console.state.policies.list(None, 9).unwrap().len(), 1, "nothing is in force");
}

#[test]
fn a_replay_tells_what_would_change() {
    let console = start();
    put(&console, "one", Some("suspect"), "a@example.com", b"Subject: x\r\n\r\ny");
    put(&console, "two", None, "b@example.com", b"Subject: x\r\n\r\ny");
    let cookie = console.sign_in("admin");
    let csrf = console.csrf(&cookie);
    let base = console.state.node.policy().unwrap().version.number;
    let strict = "[[rule]]\nname = \"Nobody\"\ndo = { quarantine = \"all\" }\n";
    let form = format!("csrf={csrf}&base={base}&days=3&text={}", encoded(strict));
    assert_eq!(console.request("POST", "/policy/replay", &cookie, &form).status, 303);
    let report = loop {
        let page = console.request("GET", "/policy/replay", &cookie, "");
        assert_eq!(page.status, 200);
        if page.header("refresh").is_none() {
            break page.body;
        }
        std::thread::sleep(std::time::Duration::from_millis(2));
    };
    assert!(report.contains("deliver → quarantine:all"), "{report}");
    let order = [report.find("/messages/two"), report.find("/messages/one")];
    assert!(order[0].unwrap() < order[1].unwrap(), "likely false positives come first");
    assert!(console.state.policies.list(None, 9).unwrap().len() == 1, "nothing is in force");
    let form = format!("csrf={csrf}");
    assert_eq!(console.request("POST", "/policy/replay/stop", &cookie, &form).status, 303);
}

#[test]
fn rules_tell_hits_costs_and_which_are_dead() {
    let console = start();
    put(&console, "one", Some("suspect"), "a@example.com", b"Subject: x\r\n\r\ny");
    let cookie = console.sign_in("admin");
    let csrf = console.csrf(&cookie);
    let page = console.request("GET", "/rules", &cookie, "");
    assert!(page.body.contains("3 of those that give points did not hit once"), "{}", page.body);
    assert!(page.body.contains("gone"), "a rule that hit and is no more is shown");
    let dead = console.request("GET", "/rules?show=dead&name=never", &cookie, "").body;
    assert!(dead.contains("NEVER_HITS") && !dead.contains("ASKS_FOR_PAYMENT"), "{dead}");
    let form = format!("csrf={csrf}");
    assert_eq!(console.request("POST", "/rules/measure", &cookie, &form).status, 303);
    let page = console.request("GET", "/rules?show=costly", &cookie, "").body;
    assert!(page.contains("12.3 µs") && page.contains("on 1 messages"), "{page}");
    for wrong in ["days=0", "days=101", "days=x"] {
        let answer = console.request("GET", &format!("/rules?{wrong}"), &cookie, "");
        assert_eq!(answer.status, 400, "{wrong}");
    }
}

#[test]
fn reports_count_what_passed_and_what_people_said() {
    let console = start();
    put(&console, "one", Some("suspect"), "ursula@example.com", b"Subject: x\r\n\r\ny");
    put(&console, "two", Some("suspect"), "b@example.org", b"Subject: x\r\n\r\ny");
    let logged = console.state.log.get("one").unwrap().unwrap().record;
    let event = |kind: &str| gauntlet_store::Event {
        id: "one".to_owned(),
        received_ms: logged.received_ms,
        at_ms: crate::common::now_ms(),
        kind: kind.to_owned(),
        recipient: String::new(),
        detail: "by rita".to_owned(),
    };
    console.state.log.append_events(vec![event("released"), event("corrected_ham")]).unwrap();
    let cookie = console.sign_in("rita");
    let page = console.request("GET", "/reports?days=2", &cookie, "").body;
    assert!(page.contains("1 of 2") && page.contains("50.00 %"), "said twice, counts once: {page}");
    assert!(page.contains("domain=example.org") && page.contains("domain=example.net"), "{page}");
    let csv = console.request("GET", "/reports.csv?days=2", &cookie, "");
    assert!(csv.header("content-disposition").unwrap().contains(".csv"));
    assert!(csv.body.contains("our domain,example.com,spam,1,\r\n"), "{}", csv.body);
    assert!(csv.body.contains("accuracy,of them wanted by people,,1,\r\n"), "{}", csv.body);
    let pdf = console.request("GET", "/reports.pdf?days=2", &cookie, "");
    assert_eq!(pdf.header("content-type"), Some("application/pdf"));
    assert!(pdf.body.starts_with("%PDF-1.7") && pdf.body.trim_end().ends_with("%%EOF"));
    for wrong in ["days=0", "days=1000", "until=soon"] {
        for path in ["/reports", "/reports.csv", "/reports.pdf"] {
            let answer = console.request("GET", &format!("{path}?{wrong}"), &cookie, "");
            assert_eq!(answer.status, 400, "{path} {wrong}");
        }
    }
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

#[test]
fn searches_are_kept_and_harmless() {
    let console = start();
    let cookie = console.sign_in("rita");
    let csrf = console.csrf(&cookie);
    let post = |fields: &str| {
        let form = format!("csrf={csrf}&{fields}");
        console.request("POST", "/messages/searches", &cookie, &form)
    };
    let query = encoded("class=spam&sender=%40b.example\r\nSet-Cookie: x");
    let saved = post(&format!("do=save&name=<b>Spam&shared=yes&query={query}"));
    let place = "/messages?class=spam&sender=%40b.exampleSet-Cookiex";
    assert_eq!((saved.status, saved.header("location")), (303, Some(place)));
    let other = console.sign_in("admin");
    let page = console.request("GET", "/messages", &other, "").body;
    assert!(page.contains("&lt;b&gt;Spam") && !page.contains("<b>Spam"), "{page}");
    assert_eq!(post("do=remove&name=other").status, 404);
    assert_eq!(post("do=remove&name=<b>Spam").status, 303);
    assert!(!console.request("GET", "/messages", &other, "").body.contains("Saved searches"));
}

#[test]
fn settings_and_health_say_where_from_and_what_to_do() {
    let console = start();
    let cookie = console.sign_in("admin");
    let all = console.request("GET", "/settings", &cookie, "").body;
    assert!(all.contains("gauntlet.toml:12") && all.contains("console.address"), "{all}");
    let some = console.request("GET", "/settings?only=changed", &cookie, "").body;
    assert!(some.contains("scan.threads") && !some.contains("console.address</code>"), "{some}");
    let health = console.request("GET", "/health", &cookie, "").body;
    assert!(health.contains("1 thing is wrong") && health.contains("PTR"), "{health}");
    let queue = console.request("GET", "/queue", &cookie, "").body;
    assert!(queue.contains("10.0.0.1:25 (share 3)"), "{queue}");
    let overview = console.request("GET", "/", &cookie, "").body;
    assert!(
        overview.contains("7.0 GB free of 100.0 GB") && overview.contains("low:"),
        "{overview}"
    );
}

#[test]
fn machines_get_metrics_and_health() {
    let console = start();
    put(&console, "one", Some("a\"b"), "a@example.com", b"Subject: x\r\n\r\ny");
    let metrics = console.request("GET", "/metrics", "", "");
    assert_eq!(metrics.status, 200);
    assert!(metrics.body.contains("gauntlet_test 1\n"));
    assert!(metrics.body.contains("gauntlet_quarantine_items{folder=\"a\\\"b\"} 1\n"));
    let health = console.request("GET", "/healthz", "", "");
    assert_eq!((health.status, health.body.as_str()), (200, "ok\n"));
}
