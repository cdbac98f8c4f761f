//! The API: its document, its tokens, and that nothing a program sends makes it fall over.

use crate::common::{Answer, Running, Sample, start};
use gauntlet_console::api::{Kind, OPERATIONS, Operation, document};
use gauntlet_console::{Access, routes};
use gauntlet_store::users::Scope;
use gauntlet_verdict::Class;
use serde_json::{Value, json};

/// Where the document is kept, for those who read it without a node.
const GOLDEN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/openapi.json");

fn with_token(console: &Running, method: &str, path: &str, token: &str, body: &str) -> Answer {
    let kind = if body.is_empty() { "" } else { "Content-Type: application/json\r\n" };
    let headers = format!("Authorization: Bearer {token}\r\n{kind}");
    console.request_plain(method, path, &headers, body.as_bytes())
}

fn token_for(console: &Running, name: &str, scopes: &[Scope]) -> String {
    console.state.users.add_token(name, scopes, 1, "test", crate::common::now_ms()).unwrap()
}

fn put(console: &Running, id: &str) {
    console.put(&Sample {
        id,
        class: Class::Spam,
        score: 9.0,
        folder: Some("suspect"),
        to: "ursula@example.com",
        raw: b"From: a@b.example\r\nSubject: pills\r\n\r\nBuy <b>now</b>.\r\n",
        age_ms: 1_000,
        hits: Vec::new(),
    });
    crate::alerts::put(console, &[crate::alerts::alert(1)]);
}

/// The number of the first alert of today.
fn newest_alert() -> i64 {
    let day = crate::common::now_ms().div_euclid(gauntlet_mail::date::DAY_MS);
    (day << 40) | 1
}

/// A path with its names filled in by what is there.
fn filled(path: &str) -> String {
    let id = if path.contains("quarantine") { "held-one" } else { "one" };
    path.replace("{id}", id)
        .replace("{number}", "1")
        .replace("{login}", "ursula")
        .replace("{name}", "one")
        .replace("{alert}", &newest_alert().to_string())
}

#[test]
fn the_document_is_the_one_that_is_kept_and_names_every_route() {
    let made = serde_json::to_string_pretty(&document()).unwrap() + "\n";
    if std::env::var_os("GAUNTLET_GOLDEN").is_some() {
        std::fs::write(GOLDEN, &made).unwrap();
    }
    let kept = std::fs::read_to_string(GOLDEN).expect("docs/openapi.json");
    assert_eq!(made, kept, "run this test with GAUNTLET_GOLDEN=1, and look at what changed");
    let document: Value = serde_json::from_str(&kept).unwrap();
    let mut count = 0;
    for route in routes().filter(|r| r.path.starts_with("/api/")) {
        let method = route.method.name().to_lowercase();
        let described = &document["paths"][route.path][&method];
        assert!(described.is_object(), "{method} {} is not in the document", route.path);
        let named: Vec<&str> = described["parameters"]
            .as_array()
            .into_iter()
            .flatten()
            .filter(|p| p["in"] == "path")
            .filter_map(|p| p["name"].as_str())
            .collect();
        for name in &named {
            assert!(route.path.contains(&format!("{{{name}}}")));
        }
        assert_eq!(named.len(), route.path.matches('{').count(), "{}", route.path);
        assert!(route.access == Access::Public || described["security"].is_array());
        count += 1;
    }
    let paths = document["paths"].as_object().unwrap();
    assert_eq!(count, paths.values().map(|p| p.as_object().unwrap().len()).sum::<usize>());
    let mut ids: Vec<&Value> = paths
        .values()
        .flat_map(|p| p.as_object().unwrap().values())
        .map(|o| &o["operationId"])
        .collect();
    ids.sort_by_key(|id| id.to_string());
    ids.dedup();
    assert_eq!(ids.len(), count, "operation ids are unique");
    let console = start();
    let served = console.request("GET", "/api/openapi.json", "", "");
    assert_eq!(serde_json::from_str::<Value>(&served.body).unwrap(), document);
}

#[test]
fn a_token_opens_what_its_scopes_say_and_nothing_else() {
    let console = start();
    put(&console, "one");
    console.state.node.policy().unwrap();
    for operation in OPERATIONS.iter().filter(|o| o.scope.is_some()) {
        let scope = operation.scope.unwrap();
        let name = format!("t{}", operation.route.path.replace(['/', '{', '}'], "-"));
        let name = format!("{}{}", name, operation.route.method.name());
        let without: Vec<Scope> = Scope::ALL.into_iter().filter(|s| *s != scope).collect();
        let all_others = token_for(&console, &format!("{name}-not"), &without);
        let method = operation.route.method.name();
        let path = filled(operation.route.path);
        let answer = with_token(&console, method, &path, &all_others, "");
        assert_eq!(answer.status, 403, "{method} {path} without {}: {}", scope.name(), answer.body);
        assert!(answer.body.contains(scope.name()), "{}", answer.body);
        for none in ["", "gauntlet_nosuchtoken", "x y", "\u{e4}"] {
            let answer = with_token(&console, method, &path, none, "");
            assert_eq!(answer.status, 401, "{method} {path} with {none:?}: {}", answer.body);
            assert_eq!(answer.header("www-authenticate"), Some("Bearer"));
        }
        // What is of a user, no program has.
        let of_people = path.starts_with("/api/v1/own");
        if operation.route.method.name() == "GET" && !path.ends_with("/policy/replay") && !of_people
        {
            let fitting = token_for(&console, &name, &[scope]);
            let answer = with_token(&console, method, &path, &fitting, "");
            assert_eq!(answer.status, 200, "{method} {path}: {}", answer.body);
        }
    }
    // Pages are for users.
    let all = token_for(&console, "all", &Scope::ALL);
    assert_eq!(with_token(&console, "GET", "/messages", &all, "").status, 303);
    // A token that is over or revoked is refused.
    let yesterday = crate::common::now_ms() - 2 * 86_400_000;
    let over = console.state.users.add_token("over", &Scope::ALL, 1, "test", yesterday).unwrap();
    assert_eq!(with_token(&console, "GET", "/api/v1/status", &over, "").status, 401);
    assert_eq!(with_token(&console, "GET", "/api/v1/status", &all, "").status, 200);
    console.state.users.revoke_token("all", "test", crate::common::now_ms()).unwrap();
    assert_eq!(with_token(&console, "GET", "/api/v1/status", &all, "").status, 401);
}

/// What does not fit into a field, as JSON.
fn misfits(kind: Kind) -> Vec<Value> {
    let mut all = vec![json!(null), json!({ "a": 1 }), json!([["x"]]), json!("a\u{0}b")];
    match kind {
        Kind::Text | Kind::Texts => all.push(json!("x".repeat(1_001))),
        Kind::Lines => all[3] = json!("x".repeat(600_000)),
        Kind::Integer(min, max) => all.extend([
            json!("many"),
            json!(1.5),
            json!(true),
            json!(i128::from(max) as f64 * 4.0),
            json!(min.saturating_sub(1).saturating_sub(i64::from(min == i64::MIN))),
        ]),
        Kind::Number => all.extend([json!("many"), json!("NaN"), json!("1e999")]),
        Kind::Day => all.extend([json!("yesterday"), json!("2026-02-31"), json!("2026-1-1x")]),
        Kind::Choice(_) | Kind::Choices(_) => all.extend([json!("none of these"), json!(7)]),
    }
    if matches!(kind, Kind::Integer(i64::MIN, _)) {
        all.pop();
    }
    all
}

fn is_clear(answer: &Answer, what: &str) {
    assert!((200..500).contains(&answer.status), "{what}: {} {}", answer.status, answer.body);
    let kind = answer.header("content-type").unwrap_or_default();
    assert_eq!(kind, "application/json", "{what}: {}", answer.head);
    let value: Value = serde_json::from_str(&answer.body)
        .unwrap_or_else(|e| panic!("{what}: {e}: {}", answer.body));
    if answer.status >= 400 {
        let cause = value["error"].as_str().unwrap_or_default();
        assert!(cause.len() > 5, "{what}: no cause in {value}");
    }
}

/// Every operation of the document, with all that does not belong there.
#[test]
fn no_request_makes_it_fall_over() {
    let console = start();
    put(&console, "one");
    console.state.node.policy().unwrap();
    let token = token_for(&console, "all", &Scope::ALL);
    for operation in OPERATIONS {
        let (method, path) = (operation.route.method.name(), filled(operation.route.path));
        if operation.scope.is_some() {
            let answer = console.request_plain(method, &path, "", b"");
            is_clear(&answer, &path);
            assert_eq!(answer.status, 401, "{method} {path} without a token");
        }
        other_methods(&console, operation, &token);
        misfitting_fields(&console, operation, &token);
        misfitting_names(&console, operation, &token);
    }
    let unknown = with_token(&console, "GET", "/api/v1/nothing", &token, "");
    is_clear(&unknown, "no such path");
    assert_eq!(unknown.status, 404);
    assert!(console.node.queued.lock().unwrap().is_empty());
}

fn other_methods(console: &Running, operation: &Operation, token: &str) {
    let path = filled(operation.route.path);
    for other in ["GET", "POST", "PUT", "DELETE", "PATCH", "TRACE", "QUERY"] {
        if routes().any(|r| r.method.name() == other && r.path == operation.route.path) {
            continue;
        }
        let answer = with_token(console, other, &path, token, "");
        is_clear(&answer, &format!("{other} {path}"));
        assert_eq!(answer.status, 405, "{other} {path}");
    }
}

fn misfitting_fields(console: &Running, operation: &Operation, token: &str) {
    let (method, path) = (operation.route.method.name(), filled(operation.route.path));
    let body = operation.route.method.writes_body();
    let send = |body: &str, what: &str| {
        let answer = with_token(console, method, &path, token, body);
        is_clear(&answer, &format!("{method} {path} with {what}"));
        answer
    };
    for wrong in ["{", "[]", "7", "null", "\"x\"", "{\"no_such_field\": 1}", "{\"a\":{\"b\":[]}}"] {
        if body {
            assert_eq!(send(wrong, wrong).status, 400, "{method} {path} {wrong}");
        }
    }
    for field in operation.fields {
        for misfit in misfits(field.kind) {
            let what = format!("{}: {:.60}", field.name, misfit.to_string());
            let answer = if body {
                send(&json!({ field.name: misfit }).to_string(), &what)
            } else {
                let text = misfit.as_str().map_or(misfit.to_string(), str::to_owned);
                let text: String = text.bytes().take(3_000).map(|b| format!("%{b:02X}")).collect();
                let path = format!("{path}?{}={text}", field.name);
                let answer = with_token(console, method, &path, token, "");
                is_clear(&answer, &format!("{method} {path:.200}"));
                answer
            };
            let open = !body && matches!(field.kind, Kind::Text | Kind::Texts | Kind::Lines);
            assert!(open || answer.status >= 400, "{method} {path}: {what}: {}", answer.body);
        }
    }
}

fn misfitting_names(console: &Running, operation: &Operation, token: &str) {
    let method = operation.route.method.name();
    if operation.route.path.contains('{') {
        for id in
            ["none", "%00", "..%2f..%2fetc", "%ff%fe", "-1", "99999999999999999999", "%F0%9F%92%A9"]
        {
            let path = operation.route.path;
            let (head, rest) = path.split_once('{').unwrap();
            let tail = rest.split_once('}').unwrap().1;
            let path = format!("{head}{id}{tail}");
            let answer = with_token(console, method, &path, token, "");
            is_clear(&answer, &format!("{method} {path}"));
            assert!([400, 404].contains(&answer.status), "{method} {path}: {}", answer.status);
        }
    }
}

#[test]
fn what_the_pages_do_programs_can_do() {
    let console = start();
    put(&console, "one");
    put(&console, "two");
    let token = token_for(&console, "all", &Scope::ALL);
    let ask = |method: &str, path: &str, body: Value| ask(&console, &token, method, path, &body);
    let nothing = || Value::Null;
    assert_eq!(ask("GET", "/api/v1/status", nothing()).1["metrics"]["gauntlet_test"], 1.0);
    assert_eq!(
        ask("GET", "/api/v1/messages?class=spam&limit=1", nothing()).1["messages"]
            .as_array()
            .unwrap()
            .len(),
        1
    );
    assert_eq!(ask("GET", "/api/v1/messages/one", nothing()).0, 200);
    assert_eq!(ask("GET", "/api/v1/counts?hours=2", nothing()).0, 200);
    assert_eq!(
        ask("GET", "/api/v1/quarantine?folder=suspect", nothing()).1["items"]
            .as_array()
            .unwrap()
            .len(),
        2
    );
    let (_, preview) = ask("GET", "/api/v1/quarantine/held-one/preview", nothing());
    assert_eq!((&preview["subject"], &preview["html"]), (&json!("pills"), &Value::Null));
    let to = json!({ "to": ["other@example.com"] });
    assert_eq!(
        ask("POST", "/api/v1/quarantine/held-one/release", to).1["released_to"],
        json!(["other@example.com"])
    );
    assert_eq!(ask("POST", "/api/v1/quarantine/held-one/release", nothing()).0, 409);
    assert_eq!(ask("POST", "/api/v1/quarantine/held-two/delete", json!({ "learn": "yes" })).0, 200);
}

#[test]
fn programs_change_the_policy_and_change_it_back() {
    let console = start();
    put(&console, "one");
    put(&console, "two");
    let token = token_for(&console, "all", &Scope::ALL);
    let ask = |method: &str, path: &str, body: Value| ask(&console, &token, method, path, &body);
    let nothing = || Value::Null;
    let (_, policy) = ask("GET", "/api/v1/policy", nothing());
    let base = policy["number"].as_i64().unwrap();
    let text = "[[rule]]\nname = \"all\"\ndo = \"deliver\"\n";
    let (_, checked) =
        ask("POST", "/api/v1/policy/check", json!({ "text": "[[rule]]\nnam = 1\n" }));
    assert_eq!(
        (&checked["valid"], &checked["findings"][0]["line"]),
        (&json!(false), &json!(2)),
        "{checked}"
    );
    let (_, checked) = ask("POST", "/api/v1/policy/check", json!({ "text": text }));
    assert!(checked["diff"].as_str().unwrap().contains("+name = \"all\""), "{checked}");
    assert_eq!(ask("POST", "/api/v1/policy/replay", json!({ "text": text, "days": 2 })).0, 200);
    while ask("GET", "/api/v1/policy/replay", nothing()).1["done"] != true {
        std::thread::sleep(std::time::Duration::from_millis(2));
    }
    assert_eq!(ask("GET", "/api/v1/policy/replay", nothing()).1["report"]["different"], 2);
    let saved =
        ask("PUT", "/api/v1/policy", json!({ "text": text, "base": base, "note": "open" })).1;
    assert_eq!(
        (&saved["number"], &saved["who"]),
        (&json!(base + 1), &json!("token all")),
        "{saved}"
    );
    assert_eq!(
        ask("PUT", "/api/v1/policy", json!({ "text": crate::common::SMALL_POLICY, "base": base }))
            .0,
        409
    );
    assert_eq!(ask("POST", "/api/v1/policy/rollback", nothing()).1["number"], base + 2);
    assert_eq!(ask("GET", "/api/v1/policy", nothing()).1["text"], policy["text"]);
    assert_eq!(
        ask("GET", "/api/v1/policy/versions", nothing()).1["versions"].as_array().unwrap().len(),
        3
    );
    assert_eq!(
        ask("GET", &format!("/api/v1/policy/versions/{}", base + 1), nothing()).1["text"],
        text
    );
    // Who did it is known.
    let lines = console.state.users.audit_log(50).unwrap();
    assert!(lines.iter().any(|l| l.who == "token all" && l.action == "change policy"));
}

#[test]
fn programs_keep_lists_people_and_the_queue() {
    let console = start();
    let token = token_for(&console, "all", &Scope::ALL);
    let ask = |method: &str, path: &str, body: Value| ask(&console, &token, method, path, &body);
    let nothing = || Value::Null;
    let entry = json!({ "entry": "News@Example.com", "list": "block" });
    assert_eq!(ask("PUT", "/api/v1/senders", entry).0, 200);
    for strangers in ["@com", "@", "@example", "0.0.0.0/0", ""] {
        let entry = json!({ "entry": strangers, "list": "allow" });
        assert_eq!(ask("PUT", "/api/v1/senders", entry).0, 400, "{strangers}");
    }
    assert_eq!(
        ask("GET", "/api/v1/senders", nothing()).1["senders"][0]["entry"],
        "news@example.com"
    );
    assert_eq!(
        ask("DELETE", "/api/v1/senders?entry=news@example.com", nothing()).1["removed"],
        true
    );
    let person = json!({ "login": "bob", "role": "user", "addresses": ["bob@example.com"] });
    let (_, added) = ask("POST", "/api/v1/users", person.clone());
    let password = added["one_time_password"].as_str().unwrap();
    assert!(console.state.users.verify("bob", password).unwrap().unwrap().must_change);
    assert_eq!(ask("POST", "/api/v1/users", person).0, 400);
    assert_eq!(ask("POST", "/api/v1/users/bob/password", nothing()).0, 200);
    assert_eq!(ask("DELETE", "/api/v1/users/bob", nothing()).0, 200);
    assert_eq!(ask("DELETE", "/api/v1/users/bob", nothing()).0, 404);
    assert_eq!(ask("GET", "/api/v1/users", nothing()).1["users"].as_array().unwrap().len(), 3);
    assert_eq!(ask("GET", "/api/v1/queue", nothing()).1["messages"][0]["id"], "Q1");
    assert_eq!(ask("POST", "/api/v1/queue/hold", json!({ "id": ["Q1"] })).1["messages"], 1);
    assert_eq!(ask("POST", "/api/v1/queue/retry", nothing()).1["messages"], 0);
    assert_eq!(ask("POST", "/api/v1/queue/delete", json!({ "id": "nonsense" })).0, 400);
    // Those of another node.
    let there = &ask("GET", "/api/v1/queue", nothing()).1["elsewhere"][0];
    assert_eq!((&there["node"], &there["messages"][0]["id"]), (&"10.0.0.2".into(), &"FAR1".into()));
    let order = |id: &str, node: &str| json!({ "id": [id], "node": node });
    let (status, given) = ask("POST", "/api/v1/queue/hold", order("FAR1", "10.0.0.2"));
    assert_eq!((status, &given["outcome"]), (202, &"Hold of FAR1 by token all".into()), "{given}");
    assert_eq!(ask("POST", "/api/v1/queue/hold", order("gone", "10.0.0.2")).0, 400);
    assert_ne!(ask("POST", "/api/v1/queue/hold", order("FAR1", "10.0.0.9")).0, 202);
}

#[test]
fn programs_see_what_the_node_stands_on_and_what_passed() {
    let console = start();
    put(&console, "one");
    put(&console, "two");
    let token = token_for(&console, "all", &Scope::ALL);
    let ask = |method: &str, path: &str, body: Value| ask(&console, &token, method, path, &body);
    let nothing = || Value::Null;
    assert_eq!(ask("GET", "/api/v1/health", nothing()).1["ok"], false);
    assert_eq!(ask("GET", "/api/v1/settings", nothing()).1["settings"][1]["value"], "4");
    assert_eq!(ask("GET", "/api/v1/disks", nothing()).1["disks"][0]["what"], "data");
    assert_eq!(ask("GET", "/api/v1/routes", nothing()).1["routes"][0]["tls"], "required");
    let (_, rules) = ask("GET", "/api/v1/rules?days=3", nothing());
    let dead: Vec<&Value> =
        rules["rules"].as_array().unwrap().iter().filter(|r| r["dead"] == true).collect();
    assert_eq!(dead.len(), 3, "no hits in the samples: {rules}");
    assert_eq!(ask("POST", "/api/v1/rules/measure", nothing()).1["messages"], 2);
    let (_, rules) = ask("GET", "/api/v1/rules", nothing());
    let cost = rules["rules"].as_array().unwrap().iter().find(|r| r["name"] == "EXAMPLE");
    assert_eq!(cost.unwrap()["cost_us"], 12.3, "{rules}");
    let (_, report) = ask("GET", "/api/v1/report?days=2", nothing());
    assert_eq!(
        (&report["classes"]["spam"], &report["accuracy"]["unwanted"]),
        (&json!(2), &json!(2))
    );
    assert_eq!(report["domains"][0]["domain"], "example.com", "{report}");
    assert_eq!(ask("GET", "/api/v1/report?until=yesterday", nothing()).0, 400);
    let search = json!({ "query": "class=spam&sender=%40b.example\"><script>", "shared": "yes" });
    let (_, saved) = ask("PUT", "/api/v1/searches/spam", search);
    assert_eq!(saved["query"], "class=spam&sender=%40b.example%22%3E%3Cscript%3E");
    assert_eq!(ask("GET", "/api/v1/searches", nothing()).1["searches"][0]["name"], "spam");
    assert_eq!(ask("DELETE", "/api/v1/searches/spam", nothing()).1["removed"], true);
    assert_eq!(ask("DELETE", "/api/v1/searches/spam", nothing()).0, 404);
    let lines = ask("GET", "/api/v1/activity", nothing()).1;
    assert!(lines["lines"].as_array().unwrap().iter().any(|l| l["action"] == "save search"));
}

#[test]
fn programs_change_rights_and_make_tokens() {
    let console = start();
    let token = token_for(&console, "all", &Scope::ALL);
    let ask = |method: &str, path: &str, body: Value| ask(&console, &token, method, path, &body);
    let nothing = || Value::Null;
    let rights = json!({ "role": "reviewer", "folders": ["suspect", "bulk"] });
    assert_eq!(ask("PUT", "/api/v1/users/ursula", rights.clone()).1["role"], "reviewer");
    let users = console.state.users.list().unwrap();
    assert_eq!(users.iter().find(|u| u.login == "ursula").unwrap().folders, ["suspect", "bulk"]);
    assert_eq!(ask("PUT", "/api/v1/users/nobody", rights.clone()).0, 404);
    assert_eq!(ask("PUT", "/api/v1/users/admin", rights).0, 403, "no token changes administrators");
    assert_eq!(ask("DELETE", "/api/v1/users/ursula/second-factor", nothing()).1["removed"], false);
    let wanted = json!({ "name": "ci", "scopes": ["queue:read"], "days": 2 });
    let (_, made) = ask("POST", "/api/v1/tokens", wanted.clone());
    let secret = made["secret"].as_str().unwrap().to_owned();
    assert_eq!(with_token(&console, "GET", "/api/v1/queue", &secret, "").status, 200);
    assert_eq!(with_token(&console, "GET", "/api/v1/users", &secret, "").status, 403);
    assert_eq!(ask("POST", "/api/v1/tokens", wanted).0, 400);
    let (_, listed) = ask("GET", "/api/v1/tokens", nothing());
    assert!(!listed.to_string().contains(&secret), "{listed}");
    assert_eq!(ask("DELETE", "/api/v1/tokens/ci", nothing()).1["removed"], true);
    assert_eq!(with_token(&console, "GET", "/api/v1/queue", &secret, "").status, 401);
    assert_eq!(ask("GET", "/api/v1/own", nothing()).0, 404, "a token has no mail");
}

#[test]
fn people_keep_their_own_wishes_by_the_api() {
    let console = start();
    let cookie = std::cell::RefCell::new(console.sign_in("ursula"));
    let ask = |method: &str, path: &str, body: Value| {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let headers = format!(
            "Cookie: {}\r\nX-CSRF-Token: {}\r\nContent-Type: application/json\r\n",
            cookie.borrow(),
            console.csrf(&cookie.borrow())
        );
        let answer = console.request_plain(method, path, &headers, body.as_bytes());
        // A second factor that goes on or off ends all sessions, and begins another.
        if let Some(set) = answer.header("set-cookie") {
            *cookie.borrow_mut() = set.split(';').next().unwrap().to_owned();
        }
        (answer.status, serde_json::from_str::<Value>(&answer.body).unwrap())
    };
    let nothing = || Value::Null;
    let wish = json!({ "strictness": "lax", "points": 4.5 });
    assert_eq!(ask("PUT", "/api/v1/own", wish).0, 200);
    let entry = json!({ "entry": "News@Shop.example", "list": "allow" });
    assert_eq!(ask("PUT", "/api/v1/own/senders", entry).0, 200);
    let (_, own) = ask("GET", "/api/v1/own", nothing());
    assert_eq!((&own["strictness"], &own["spam_points"]), (&json!("lax"), &json!(4.5)));
    assert_eq!(own["allow"], json!(["news@shop.example"]));
    let gone = "/api/v1/own/senders?entry=news@shop.example";
    assert_eq!(ask("DELETE", gone, nothing()).1["removed"], true);
    assert_eq!(*console.node.users_changes.lock().unwrap(), 3, "the node heard of each");
    assert_eq!(ask("GET", "/api/v1/own?address=boss@example.com", nothing()).0, 403);
    let factor = "/api/v1/own/second-factor";
    assert_eq!(ask("POST", factor, json!({ "do": "begin" })).0, 400, "a session alone");
    let begin = json!({ "do": "begin", "password": crate::common::PASSWORD });
    let (_, begun) = ask("POST", factor, begin);
    let secret = begun["secret"].as_str().unwrap();
    assert_eq!(ask("POST", factor, json!({ "do": "on", "code": "000000x" })).0, 400);
    let code = gauntlet_store::users::totp_code(secret, crate::common::now_ms()).unwrap();
    let (_, on) = ask("POST", factor, json!({ "do": "on", "code": code }));
    let recovery = on["recovery_codes"][0].as_str().unwrap();
    assert_eq!(ask("GET", factor, nothing()).1["on"], true);
    assert_eq!(ask("POST", factor, json!({ "do": "off", "code": code })).0, 400, "it was used");
    assert_eq!(ask("POST", factor, json!({ "do": "off", "code": recovery })).1["on"], false);
}

#[test]
fn what_would_not_be_read_is_refused() {
    let console = start();
    let token = token_for(&console, "t", &[Scope::SendersWrite]);
    let authorization = format!("Authorization: Bearer {token}\r\n");
    let body = b"entry=shop.example&list=block";
    let form = "Content-Type: application/x-www-form-urlencoded\r\n";
    let ask = |path: &str, headers: &str| {
        let headers = format!("{authorization}{headers}");
        console.request_plain("PUT", path, &headers, body)
    };
    let queried = ask("/api/v1/senders?entry=other.example", form);
    assert_eq!(queried.status, 400, "{}", queried.body);
    assert!(queried.body.contains("in the body, not in the query"), "{}", queried.body);
    let untyped = ask("/api/v1/senders", "");
    assert_eq!(untyped.status, 400, "{}", untyped.body);
    assert!(untyped.body.contains("no Content-Type"), "{}", untyped.body);
    assert_eq!(ask("/api/v1/senders", form).status, 200);
}

/// Asks as a program does; a good answer has what the document says.
fn ask(console: &Running, token: &str, method: &str, path: &str, body: &Value) -> (u16, Value) {
    let body = if body.is_null() { String::new() } else { body.to_string() };
    let answer = with_token(console, method, path, token, &body);
    let value: Value = serde_json::from_str(&answer.body).unwrap();
    if answer.status == 200 {
        let operation = OPERATIONS
            .iter()
            .find(|o| o.route.method.name() == method && fits(o.route.path, path))
            .unwrap_or_else(|| panic!("{method} {path}"));
        for (name, kind) in operation.answer {
            let found = kind_of(&value[*name]);
            assert!(kind.split('|').any(|k| k == found), "{path}: {name}: {value}");
        }
    }
    (answer.status, value)
}

fn fits(pattern: &str, path: &str) -> bool {
    let path = path.split('?').next().unwrap();
    let (a, b): (Vec<&str>, Vec<&str>) = (pattern.split('/').collect(), path.split('/').collect());
    a.len() == b.len() && a.iter().zip(&b).all(|(x, y)| x.starts_with('{') || x == y)
}

fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(n) if n.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}
