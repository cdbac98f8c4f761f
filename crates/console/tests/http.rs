//! The console over HTTP: who may do what, and what a hostile message or site cannot.

use crate::common::{PASSWORD, Running, Sample, hit, start};
use crate::policies::encoded;
use crate::security::api;
use gauntlet_console::{Access, Method, routes};
use gauntlet_store::Role;
use gauntlet_store::users::{SavedSearch, Scope};
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

pub(crate) fn put(console: &Running, id: &str, folder: Option<&str>, to: &str, raw: &[u8]) {
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
                    // No replay yet; no mail of one's own; no such alert.
                    let may_lack = path.ends_with("/policy/replay")
                        || path.contains("/v1/own")
                        || path.starts_with("/alerts/one")
                        || path.starts_with("/api/v1/alerts/");
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
fn deleting_trains_as_unwanted_but_not_for_users() {
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
    let trained = console.node.trained.lock().unwrap().clone();
    assert_eq!(trained, [("held-one".to_owned(), true, "admin".to_owned())]);
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
        // Who may not read the log gets no link into it.
        let page = console.request("GET", "/quarantine/held-one", &cookie, "").body;
        assert_eq!(page.contains("href=\"/messages"), login != "ursula", "{login}: {page}");
        assert!(page.contains("<code>&lt;script&gt;"), "the rule is named: {page}");
        for (id, allowed) in ["held-one", "held-two"].into_iter().zip(allowed) {
            for path in [format!("/quarantine/{id}"), format!("/api/v1/quarantine/{id}")] {
                let status = console.request("GET", &path, &cookie, "").status;
                assert_eq!(status == 200, allowed, "{login} {path}: {status}");
            }
            if !allowed {
                let form = format!("csrf={csrf}&item={id}&decision=release");
                let status = console.request("POST", "/quarantine/decide", &cookie, &form).status;
                // The log, which she sees all of, names it.
                let refused = if login == "rita" { 403 } else { 404 };
                assert_eq!(status, refused, "{login} {id}");
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
fn an_administrator_fetches_one_file_and_the_audit_log_says_so() {
    let console = start();
    let raw = b"Subject: x\r\n\r\ny";
    put(&console, "two", Some("spam"), "a@example.com", raw);
    let (path, hash) = ("/quarantine/held-two/object", "ab".repeat(32));
    // Both pages of the message offer it, to administrators; that of one that is not held has
    // nothing.
    put(&console, "three", None, "a@example.com", raw);
    for (login, page, offers) in [
        ("admin", "/quarantine/held-two", true),
        ("admin", "/messages/two", true),
        ("admin", "/messages/three", false),
        ("rita", "/messages/two", false),
    ] {
        let shown = console.request("GET", page, &console.sign_in(login), "");
        assert_eq!(shown.status, 200, "{login} {page}");
        assert!(shown.body.contains("invoice.zip/invoice.pdf.exe"), "{login} {page}");
        assert_eq!(shown.body.contains(&format!("action=\"{path}\"")), offers, "{login} {page}");
    }
    let ask = |login: &str, hash: &str, password: &str| {
        let cookie = console.sign_in(login);
        let form = format!("csrf={}&sha256={hash}&password={password}", console.csrf(&cookie));
        console.request("POST", path, &cookie, &form)
    };
    assert_eq!(ask("rita", &hash, "infected").status, 403, "reviewers may not");
    assert_eq!(ask("admin", "zz", "infected").status, 400);
    assert_eq!(ask("admin", &hash, "").status, 400);
    assert_eq!(ask("admin", &"00".repeat(32), "infected").status, 400);
    let fetched = ask("admin", &hash, "infected");
    assert_eq!(fetched.status, 200, "{}", fetched.body);
    assert_eq!(fetched.header("content-type"), Some("application/zip"));
    assert!(fetched.header("content-disposition").unwrap().starts_with("attachment"));
    assert_eq!(fetched.body, format!("{} {hash} infected", raw.len()));
    let noted = console.state.quarantine.audit_log("held-two", 10).unwrap();
    let lines: Vec<_> = noted.iter().filter(|l| l.action == "fetch object").collect();
    assert_eq!((lines.len(), lines[0].who.as_str()), (1, "admin"));
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
    // Names alone are not in the index: who asks for one is told so, instead of finding nothing.
    for (field, text) in [("sender", "bounce@"), ("recipient", "a@"), ("recipient", "b")] {
        for path in ["/api/v1/messages", "/messages", "/messages.csv"] {
            let answer = console.request("GET", &format!("{path}?{field}={text}"), &cookie, "");
            assert_eq!(answer.status, 400, "{path} {field}={text}");
            let understood = answer.body.contains("@example.com for all of a domain");
            assert!(understood && answer.body.contains(field), "{}", answer.body);
        }
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
    assert!(csv.body.contains("accuracy,of them wanted by users,,1,\r\n"), "{}", csv.body);
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
    assert_eq!(saved.status, 400, "{}", saved.body);
    assert!(saved.body.contains("sender has control characters"), "{}", saved.body);
    let query = encoded("class=spam&sender=@b.example");
    let saved = post(&format!("do=save&name=<b>Spam&shared=yes&query={query}"));
    let place = "/messages?class=spam&sender=%40b.example";
    assert_eq!((saved.status, saved.header("location")), (303, Some(place)));
    let other = console.sign_in("admin");
    let page = console.request("GET", "/messages", &other, "").body;
    assert!(page.contains("&lt;b&gt;Spam") && !page.contains("<b>Spam"), "{page}");
    assert_eq!(post("do=remove&name=other").status, 404);
    assert_eq!(post("do=remove&name=<b>Spam").status, 303);
    assert!(!console.request("GET", "/messages", &other, "").body.contains("Saved searches"));
}

#[test]
fn programs_keep_searches_as_they_write_them() {
    let console = start();
    let cookie = console.sign_in("rita");
    let keep = |query: &str| {
        let form = format!("query={}", encoded(query));
        api(&console, &cookie, "PUT", "/api/v1/searches/mine", &form)
    };
    for (query, kept) in [
        ("sender=@ext.example", "sender=%40ext.example"),
        ("?subject=pay*&class=spam&class=ham&rule=", "subject=pay%2A&class=spam&class=ham"),
        (
            "subject=gr%C3%B6%C3%9Fe+7&since=2026-11-01",
            "subject=gr%C3%B6%C3%9Fe%207&since=2026-11-01",
        ),
        ("recipient=ann%40example.com&limit=100", "recipient=ann%40example.com&limit=100"),
    ] {
        let answer = keep(query);
        let said: serde_json::Value = serde_json::from_str(&answer.body).unwrap();
        assert_eq!((answer.status, said["query"].as_str()), (200, Some(kept)), "{query}");
        let shown = console.request("GET", &format!("/messages?{kept}"), &cookie, "");
        assert!(shown.status == 200 && shown.body.contains("aria-current=\"true\""), "{kept}");
    }
    for (query, named) in [
        ("colour=red", "colour"),
        ("sender=a@b.example&after=7", "after"),
        ("class=junk", "junk"),
        ("sender=x@", "sender"),
        ("since=soon", "since"),
        ("subject=%0d%0aSet-Cookie:", "subject"),
        ("subject=%ff", "UTF-8"),
        ("rule=", "fill in a field"),
    ] {
        let answer = keep(query);
        assert_eq!(answer.status, 400, "{query}: {}", answer.body);
        assert!(answer.body.contains(named), "{query}: {}", answer.body);
    }
}

#[test]
fn shared_searches_of_who_left_are_forgotten_by_administrators() {
    let console = start();
    let users = &console.state.users;
    let keep = |name: &str, shared| {
        let (login, name) = ("ann".to_owned(), name.to_owned());
        let search = SavedSearch { login, name, query: "class=spam".to_owned(), shared };
        users.save_search(&search, 1).unwrap();
    };
    keep("hers", false);
    keep("ours", true);
    keep("again", true);
    let (rita, admin) = (console.sign_in("rita"), console.sign_in("admin"));
    let path = "/api/v1/searches/ours?owner=ann";
    assert_eq!(api(&console, &rita, "DELETE", path, "").status, 403);
    let page = console.request("GET", "/messages?class=spam", &rita, "").body;
    assert!(page.contains("ours") && !page.contains("Forget for everybody"), "{page}");
    let private = "/api/v1/searches/hers?owner=ann";
    assert_eq!(api(&console, &admin, "DELETE", private, "").status, 404, "not to be found out");
    assert_eq!(api(&console, &admin, "DELETE", path, "").status, 200);
    let page = console.request("GET", "/messages?class=spam", &admin, "").body;
    assert!(page.contains("Forget for everybody") && !page.contains("ours"), "{page}");
    let form = format!("csrf={}&do=remove&owner=ann&name=again", console.csrf(&admin));
    assert_eq!(console.request("POST", "/messages/searches", &admin, &form).status, 303);
    assert_eq!(users.searches("admin").unwrap(), []);
    let noted = users.audit_log(50).unwrap();
    assert_eq!(noted.iter().filter(|line| line.action == "remove search").count(), 2);
    // A token that reads messages forgets its own only.
    keep("ours", true);
    let scopes = [Scope::MessagesRead];
    let token = users.add_token("reader", &scopes, 1, "admin", crate::common::now_ms()).unwrap();
    let headers = format!("Authorization: Bearer {token}\r\n");
    assert_eq!(console.request_with("DELETE", path, &headers, "").status, 403);
}

#[test]
fn settings_and_health_say_where_from_and_what_to_do() {
    let console = start();
    let cookie = console.sign_in("admin");
    let all = console.request("GET", "/settings", &cookie, "").body;
    assert!(all.contains("gauntlet.toml:12") && all.contains("console.address"), "{all}");
    let some = console.request("GET", "/settings?only=changed", &cookie, "").body;
    assert!(some.contains("scan.threads") && !some.contains("console.address</code>"), "{some}");
    let learning = console.request("GET", "/learning", &cookie, "").body;
    let of_good_mail = [
        "corrections of good mail (80), messages that were released without a correction (7)",
        "messages of known authors that DMARC proves (640)",
        "count as 50.0 corrections together",
    ];
    let shown =
        ["Corrections that stand: 200", "1.25 times", "0.9120", "0.7100 to 0.9800", "5.7 %"];
    for said in shown.into_iter().chain(of_good_mail) {
        assert!(learning.contains(said), "{said}: {learning}");
    }
    let health = console.request("GET", "/health", &cookie, "").body;
    assert!(health.contains("1 check failed") && health.contains("PTR"), "{health}");
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
    let metrics = console.request("GET", "/metrics", "", "");
    assert_eq!(metrics.status, 200);
    assert_eq!(metrics.body, console.state.node.metrics(), "the node's numbers, and no others");
    let health = console.request("GET", "/healthz", "", "");
    assert_eq!((health.status, health.body.as_str()), (200, "ok\n"));
}

#[test]
fn a_reviewer_is_told_that_another_folder_is_not_theirs() {
    let console = start();
    let raw = b"From: a@b.example\r\nSubject: x\r\n\r\nfor few";
    put(&console, "one", Some("suspect"), "bob@example.com", raw);
    put(&console, "two", Some("malware"), "bob@example.com", raw);
    let (rita, ursula) = (console.sign_in("rita"), console.sign_in("ursula"));
    // The log has both, with a link to what is held where that may be opened.
    for (id, is_hers) in [("one", true), ("two", false)] {
        let logged = console.request("GET", &format!("/messages/{id}"), &rita, "");
        let link = format!("href=\"/quarantine/held-{id}\"");
        assert_eq!((logged.status, logged.body.contains(&link)), (200, is_hers), "{id}");
        assert!(logged.body.contains("In folder "), "{}", logged.body);
        assert_eq!(logged.body.contains("for few"), is_hers, "{}", logged.body);
    }
    assert_eq!(console.request("GET", "/quarantine/held-one", &rita, "").status, 200);
    for path in ["/quarantine/held-two", "/api/v1/quarantine/held-two"] {
        let refused = console.request("GET", path, &rita, "");
        assert_eq!(refused.status, 403, "{path}");
        assert!(refused.body.contains("folder that is not yours"), "{}", refused.body);
        assert!(!refused.body.contains("for few"), "{}", refused.body);
        // Users must not learn what is held for others.
        assert_eq!(console.request("GET", path, &ursula, "").status, 404, "{path}");
    }
    assert_eq!(console.request("GET", "/quarantine/held-three", &rita, "").status, 404);
}
