//! The page of the array's nodes.

use gauntlet_console::{ArrayNode, ArrayView, QueuedMail};

use crate::common::{now_ms, start};

/// An array of three nodes: one as it should be, one that is behind, one that says nothing.
pub(crate) fn array() -> ArrayView {
    let node = |name: &str, state: &str| ArrayNode {
        name: name.to_owned(),
        state: state.to_owned(),
        seen_ms: now_ms(),
        program: "0.1.0".to_owned(),
        policy: 12,
        policy_since_ms: 86_400_000,
        settings: 13,
        settings_since_ms: 2 * 86_400_000,
        lists_ms: Some(3 * 86_400_000),
        ..ArrayNode::default()
    };
    let behind = ArrayNode {
        group: "<1.0>".to_owned(),
        queued: 1_234,
        sessions: 56,
        behind: 4_096,
        behind_since_ms: Some(now_ms() - 60_000),
        policy: 0,
        policy_error: "άγνωστη \"1.0\"".to_owned(),
        waiting: vec![QueuedMail {
            id: "FAR1".to_owned(),
            due_ms: None,
            active: false,
            from: "ann@example.org".to_owned(),
            to: vec!["elsewhere@example.net".to_owned()],
            more: 3,
            size: 1_000,
            attempts: 4,
            reply: "451 4.7.1 <1.0>".to_owned(),
            leaving_to: String::new(),
        }],
        ..node("10.0.0.2", "draining")
    };
    let silent = ArrayNode {
        clock_ahead_ms: -3_600_000,
        settings: 0,
        lists_ms: Some(0),
        ..node("10.0.0.3", "silent")
    };
    ArrayView {
        server: "10.0.0.9:5432/1".to_owned(),
        connected: true,
        since_ms: now_ms() - 1_000,
        error: String::new(),
        nodes: vec![node("10.0.0.1", "active"), behind, silent],
    }
}

#[test]
fn nodes_are_shown_with_what_is_wrong_with_them() {
    let console = start();
    let cookie = console.sign_in("admin");
    let page = console.request("GET", "/nodes", &cookie, "").body;
    for shown in [
        "10.0.0.9:5432/1",
        "10.0.0.1",
        "complete",
        "takes no new mail",
        "&lt;1.0&gt;",
        "changes wait, since",
        "a newer one is refused",
        "silent",
        "its clock is off by -3600 s",
        "12, since",
        "settings 13, since",
        "users and lists as of",
        "no users and lists of other nodes since its start",
    ] {
        assert!(page.contains(shown), "{shown}: {page}");
    }
    let rita = console.sign_in("rita");
    assert_eq!(console.request("GET", "/nodes", &rita, "").status, 403);
}

#[test]
fn what_waits_at_other_nodes_is_shown_and_ordered_there() {
    let console = start();
    let cookie = console.sign_in("admin");
    let page = console.request("GET", "/queue", &cookie, "").body;
    for shown in ["Queue of 10.0.0.2", "1,234 messages as of", "FAR1", "elsewhere@example.net"] {
        assert!(page.contains(shown), "{shown}: {page}");
    }
    assert!(page.contains("451 4.7.1 &lt;1.0&gt;") && page.contains("+3"), "{page}");
    // Addresses are where the queue is, not where any token with `status:read` looks.
    let nodes = console.request("GET", "/api/v1/nodes", &cookie, "").body;
    assert!(nodes.contains("10.0.0.2") && !nodes.contains("FAR1"), "{nodes}");
    let csrf = console.csrf(&cookie);
    let post = |fields: &str| {
        let form = format!("csrf={csrf}&node=10.0.0.2&{fields}");
        console.request("POST", "/queue", &cookie, &form)
    };
    let done = post("order=retry&id=FAR1");
    assert_eq!(done.header("location"), Some("/queue?notice=queue_ordered-1"));
    let sure = post("order=delete&id=FAR1").body;
    assert!(sure.contains("name=\"node\" value=\"10.0.0.2\""), "{sure}");
    assert_eq!(post("order=delete&sure=yes&id=FAR1").status, 303);
    let refused = post("order=hold&id=gone");
    assert!(refused.status == 400 && refused.body.contains("10.0.0.2: Hold of gone"));
    assert!(console.node.ordered.lock().unwrap().is_empty(), "nothing is done here");
    let page = console.request("GET", "/activity", &cookie, "").body;
    for shown in ["rita", "FAR1 &lt;1.0&gt;", "10.0.0.2", "mx1.example.com"] {
        assert!(page.contains(shown), "{shown}: {page}");
    }
    let lines = console.request("GET", "/api/v1/activity", &cookie, "").body;
    assert!(lines.contains("\"node\":\"10.0.0.2\""), "{lines}");
    let log = console.state.users.audit_log(10).unwrap();
    assert!(log.iter().any(|l| l.action == "queue: delete" && l.detail == "10.0.0.2: FAR1"));
}
