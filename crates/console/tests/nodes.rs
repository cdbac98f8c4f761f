//! The page of the array's nodes.

use gauntlet_console::{ArrayNode, ArrayView};

use crate::common::{now_ms, start};

/// An array of three nodes: one as it should be, one that is behind, one that says nothing.
pub(crate) fn array() -> ArrayView {
    let node = |name: &str, state: &str| ArrayNode {
        name: name.to_owned(),
        state: state.to_owned(),
        seen_ms: now_ms(),
        program: "0.1.0".to_owned(),
        policy: 12,
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
        ..node("10.0.0.2", "draining")
    };
    let silent = ArrayNode { clock_ahead_ms: -3_600_000, ..node("10.0.0.3", "silent") };
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
    ] {
        assert!(page.contains(shown), "{shown}: {page}");
    }
    let rita = console.sign_in("rita");
    assert_eq!(console.request("GET", "/nodes", &rita, "").status, 403);
}
