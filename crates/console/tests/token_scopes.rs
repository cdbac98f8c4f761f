//! API tokens grow no rights: what an attack tried with a token of few scopes.

use crate::common::{Answer, Running, now_ms, start};
use crate::security::{URSULA, put_program};
use gauntlet_store::users::Scope;

pub(crate) fn program(
    console: &Running,
    token: &str,
    method: &str,
    path: &str,
    body: &str,
) -> Answer {
    let headers = format!("Authorization: Bearer {token}\r\nContent-Type: application/json\r\n");
    console.request_plain(method, path, &headers, body.as_bytes())
}

#[test]
fn a_token_makes_nothing_stronger_than_itself() {
    let console = start();
    let users = &console.state.users;
    let scopes = [Scope::UsersRead, Scope::UsersWrite, Scope::SubmissionWrite];
    let token = users.add_token("hr", &scopes, 2, "admin", now_ms()).unwrap();
    let own_end = users.tokens().unwrap()[0].expires_ms;
    let ask = |method, path: &str, body: &str| program(&console, &token, method, path, body);
    // Scopes that it has not, and a longer life.
    let all: Vec<String> = Scope::ALL.iter().map(|s| format!("\"{}\"", s.name())).collect();
    let all = format!("{{\"name\":\"strong\",\"scopes\":[{}],\"days\":3650}}", all.join(","));
    let wider = "{\"name\":\"strong\",\"scopes\":[\"users:write\",\"policy:write\"]}";
    for body in [all.as_str(), wider] {
        assert_eq!(ask("POST", "/api/v1/tokens", body).status, 403, "{body}");
    }
    let same = "{\"name\":\"child\",\"scopes\":[\"users:write\",\"users:read\"],\"days\":3650}";
    let made = ask("POST", "/api/v1/tokens", same);
    assert_eq!(made.status, 200, "{}", made.body);
    let made: serde_json::Value = serde_json::from_str(&made.body).unwrap();
    assert_eq!(made["expires_ms"], own_end, "it ends with the token that made it");
    let child = made["secret"].as_str().unwrap();
    let grandchild = "{\"name\":\"grandchild\",\"scopes\":[\"users:read\"]}";
    assert_eq!(program(&console, child, "POST", "/api/v1/tokens", grandchild).status, 200);
    // Users who may do more than it.
    for body in [
        "{\"login\":\"mallory\",\"role\":\"administrator\"}",
        "{\"login\":\"mallory\",\"role\":\"reviewer\"}",
        "{\"login\":\"mallory\",\"role\":\"reviewer\",\"folders\":[\"suspect\"]}",
        "{\"login\":\"mallory\",\"role\":\"user\",\"addresses\":[\"boss@example.com\"]}",
    ] {
        assert_eq!(ask("POST", "/api/v1/users", body).status, 403, "{body}");
    }
    // Passwords and second factors of users who may.
    for login in ["admin", "rita", "ursula"] {
        for (method, path, body) in
            [("POST", "password", "{}"), ("DELETE", "second-factor", ""), ("DELETE", "", "")]
        {
            let path = format!("/api/v1/users/{login}/{path}");
            let answer = ask(method, path.trim_end_matches('/'), body);
            assert_eq!(answer.status, 403, "{method} {path}: {}", answer.body);
        }
        let rights = "{\"role\":\"user\",\"addresses\":[]}";
        let path = format!("/api/v1/users/{login}");
        assert_eq!(ask("PUT", &path, rights).status, 403, "{login}");
        assert!(users.verify(login, crate::common::PASSWORD).unwrap().is_some(), "{login}");
    }
    // What is within it works, and stays within it afterwards.
    assert_eq!(ask("POST", "/api/v1/users", "{\"login\":\"bob\",\"role\":\"user\"}").status, 200);
    for rights in [
        "{\"role\":\"administrator\"}",
        "{\"role\":\"reviewer\"}",
        "{\"role\":\"user\",\"addresses\":[\"boss@example.com\"]}",
    ] {
        assert_eq!(ask("PUT", "/api/v1/users/bob", rights).status, 403, "{rights}");
    }
    assert_eq!(ask("DELETE", "/api/v1/users/bob", "").status, 200);
    let all = users.add_token("all", &Scope::ALL, 1, "admin", now_ms()).unwrap();
    let made = "{\"login\":\"mallory\",\"role\":\"administrator\"}";
    assert_eq!(program(&console, &all, "POST", "/api/v1/users", made).status, 403, "never");
    // Revoking takes what it made with it.
    assert!(users.revoke_token("hr", "admin", now_ms()).unwrap());
    let left: Vec<String> = users.tokens().unwrap().into_iter().map(|t| t.name).collect();
    assert_eq!(left, ["all"]);
    assert_eq!(program(&console, child, "GET", "/api/v1/users", "").status, 401);
}

#[test]
fn a_token_that_may_not_read_held_mail_does_not_send_it_to_itself() {
    let console = start();
    put_program(&console, "one", "programs");
    let path = "/api/v1/quarantine/held-one/release";
    let users = &console.state.users;
    let writes = users.add_token("w", &[Scope::QuarantineWrite], 1, "admin", now_ms()).unwrap();
    let elsewhere = "{\"to\":[\"mallory@example.net\"]}";
    assert_eq!(program(&console, &writes, "POST", path, elsewhere).status, 403);
    assert!(console.node.queued.lock().unwrap().is_empty());
    assert_eq!(program(&console, &writes, "POST", path, "{}").status, 200);
}

#[test]
fn a_token_lets_nobody_send_mail_unless_it_says_so() {
    let console = start();
    let users = &console.state.users;
    let scopes = [
        Scope::UsersRead,
        Scope::UsersWrite,
        Scope::StatusRead,
        Scope::MessagesRead,
        Scope::QuarantineRead,
        Scope::QuarantineWrite,
    ];
    let token =
        |name: &str, scopes: &[Scope]| users.add_token(name, scopes, 2, "admin", now_ms()).unwrap();
    let hr = token("hr", &scopes);
    // Everybody may log in by SMTP AUTH: as anybody without addresses, as these with some.
    for body in [
        "{\"login\":\"mallory\",\"role\":\"user\"}",
        "{\"login\":\"mallory\",\"role\":\"user\",\"addresses\":[\"boss@example.com\"]}",
        "{\"login\":\"mallory\",\"role\":\"reviewer\"}",
    ] {
        let answer = program(&console, &hr, "POST", "/api/v1/users", body);
        assert_eq!(answer.status, 403, "{body}");
        assert!(answer.body.contains("submission:write"), "{}", answer.body);
    }
    // Nor by somebody who is there: their password, their addresses, the factor that bars their
    // password.
    for (method, path, body) in [
        ("POST", "ursula/password", "{}"),
        ("PUT", "ursula", "{\"role\":\"user\",\"addresses\":[]}"),
        ("PUT", "ursula", "{\"role\":\"user\",\"addresses\":[\"boss@example.com\"]}"),
        ("DELETE", "ursula/second-factor", ""),
    ] {
        let answer = program(&console, &hr, method, &format!("/api/v1/users/{path}"), body);
        assert_eq!(answer.status, 403, "{method} {path}: {}", answer.body);
    }
    let wider = "{\"name\":\"x\",\"scopes\":[\"users:write\",\"submission:write\"]}";
    assert_eq!(program(&console, &hr, "POST", "/api/v1/tokens", wider).status, 403);
    assert_eq!(users.list().unwrap().len(), 3);
    assert!(users.mail_login("ursula", crate::common::PASSWORD, now_ms()).unwrap().is_some());
    // With it, what the other scopes contain.
    let whole = token("whole", &[&scopes[..], &[Scope::SubmissionWrite]].concat());
    let body = "{\"login\":\"bob\",\"role\":\"user\",\"addresses\":[\"bob@example.com\"]}";
    assert_eq!(program(&console, &whole, "POST", "/api/v1/users", body).status, 200);
    // What takes rights away is no gift.
    assert_eq!(program(&console, &hr, "DELETE", "/api/v1/users/bob", "").status, 200);
}

#[test]
fn a_token_that_may_not_read_the_log_does_not_read_it_through_a_policy() {
    let console = start();
    put_program(&console, "one", "programs");
    console.state.node.policy().unwrap();
    let users = &console.state.users;
    let token =
        |name: &str, scopes: &[Scope]| users.add_token(name, scopes, 1, "admin", now_ms()).unwrap();
    let policy = token("policy", &[Scope::PolicyRead, Scope::PolicyWrite]);
    let both = token("both", &[Scope::PolicyRead, Scope::MessagesRead]);
    // What it would change names the message and its users.
    let text = "[[rule]]\nname = \"guess\"\nwhen.class = \"suspect\"\ndo = \"discard\"\n\
                [[rule]]\nname = \"rest\"\ndo = \"deliver\"\n";
    let body = serde_json::json!({ "text": text, "days": 1 }).to_string();
    let path = "/api/v1/policy/replay";
    let answer = program(&console, &policy, "POST", path, &body);
    assert_eq!(answer.status, 403, "{}", answer.body);
    assert!(answer.body.contains("messages:read"), "{}", answer.body);
    let begun = program(&console, &both, "POST", path, &body);
    assert_eq!(begun.status, 200, "{}", begun.body);
    // Nor what somebody else's replay found.
    let answer = program(&console, &policy, "GET", path, "");
    assert_eq!(answer.status, 403);
    assert!(!answer.body.contains(URSULA), "{}", answer.body);
    assert_eq!(program(&console, &both, "GET", path, "").status, 200);
}
