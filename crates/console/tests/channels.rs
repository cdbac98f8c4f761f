//! The page of channels: what is followed, what is tried, and what is decided about it.

use gauntlet_console::{ChangedVerdict, ChannelState, ChannelTrial, RejectedVersion};
use gauntlet_verdict::Class;

use crate::common::{now_ms, start};

/// Channels of the tests: one with a trial that waits, one that fails, one that is pinned.
pub(crate) fn followed() -> Vec<ChannelState> {
    let changed = |id: &str, was, is, good_sign| ChangedVerdict {
        id: id.to_owned(),
        from: "Αλφα <a@1.2>".to_owned(),
        subject: if good_sign { "Θέμα \"1\" <b>".to_owned() } else { String::new() },
        was,
        is,
        good_sign,
        rules: vec!["PARCEL_1".to_owned(), "PARCEL_2".to_owned()],
    };
    let trial = ChannelTrial {
        version: 13,
        is_open: true,
        until_ms: now_ms() + 300_000,
        held: Some("Θέμα".to_owned()),
        messages: 412,
        worse: 2,
        good_sign_worse: 1,
        milder: 1,
        failures: 1,
        us: [310.0, 403.0],
        transitions: vec![("ham -> spam".to_owned(), 2), ("spam -> ham".to_owned(), 1)],
        changes: vec![
            changed("1", Class::Ham, Class::Spam, true),
            changed("2", Class::Spam, Class::Ham, false),
        ],
        pages: 37,
        pages_blocked: 3,
        pages_passing: 2,
    };
    let main = ChannelState {
        name: "c1".to_owned(),
        url: "https://mirror.example/c1".to_owned(),
        version: Some(12),
        versions: vec![10, 12, 13],
        rejected: vec![RejectedVersion { version: 11, reason: "Λόγος".to_owned() }],
        asked_ms: now_ms() - 60_000,
        next_ms: now_ms() + 240_000,
        watched_until_ms: Some(now_ms() + 3_600_000),
        trial: Some(trial),
        ..ChannelState::default()
    };
    let failing = ChannelState {
        name: "c2".to_owned(),
        url: "http://192.0.2.1/c2".to_owned(),
        failures: 4,
        error: "timestamp 5".to_owned(),
        ..ChannelState::default()
    };
    let pinned = ChannelState {
        name: "c3".to_owned(),
        url: "file:///srv/c3".to_owned(),
        version: Some(4),
        versions: vec![4, 5],
        pinned: Some(4),
        ..ChannelState::default()
    };
    vec![main, failing, pinned]
}

#[test]
fn channels_are_shown_with_the_messages_that_a_trial_would_change() {
    let console = start();
    let cookie = console.sign_in("admin");
    let page = console.request("GET", "/channels", &cookie, "").body;
    for shown in [
        "Version 13 on trial",
        "It waits for you",
        "never taken",
        "href=\"/messages/1\"",
        "Θέμα &quot;1&quot; &lt;b&gt;",
        "(no subject)",
        "PARCEL_2",
        "1.3 ×",
        "web pages scored by both",
        "4 failures in a row",
        "timestamp 5",
        "to version 4",
        "what is in the program",
    ] {
        assert!(page.contains(shown), "{shown}: {page}");
    }
    let rita = console.sign_in("rita");
    assert_eq!(console.request("GET", "/channels", &rita, "").status, 403);
}

#[test]
fn what_is_decided_is_done_once_and_in_the_activity_log() {
    let console = start();
    let (cookie, rita) = (console.sign_in("admin"), console.sign_in("rita"));
    let csrf = console.csrf(&cookie);
    let post = |form: &str| {
        let form = format!("csrf={csrf}&channel=c1&{form}");
        console.request("POST", "/channels", &cookie, &form).status
    };
    for form in [
        "do=promote&version=13",
        "do=reject&version=13&reason=calls+our+news+spam",
        "do=rollback&version=10",
        "do=rollback",
        "do=pin&version=12",
        "do=unpin",
    ] {
        assert_eq!(post(form), 303, "{form}");
    }
    let done = console.node.of_channels.lock().unwrap().clone();
    let expected = [
        "c1: Promote(13)",
        "c1: Reject(13, \"calls our news spam\")",
        "c1: RollBack(Some(10), \"\")",
        "c1: RollBack(None, \"\")",
        "c1: Pin(12)",
        "c1: Unpin",
    ];
    assert_eq!(done, expected);
    let long = format!("do=reject&version=13&reason={}", "x".repeat(201));
    for wrong in
        ["", "do=delete", "do=promote", "do=promote&version=0", "do=promote&version=99", &long]
    {
        assert_eq!(post(wrong), 400, "{wrong}");
    }
    let form = format!("csrf={}&channel=c1&do=unpin", console.csrf(&rita));
    assert_eq!(console.request("POST", "/channels", &rita, &form).status, 403);
    let forged = console.request("POST", "/channels", &cookie, "channel=c1&do=unpin");
    assert_eq!(forged.status, 403, "without the form's token");
    assert_eq!(console.node.of_channels.lock().unwrap().len(), expected.len());
    let activity = console.request("GET", "/activity", &cookie, "").body;
    for action in ["promote channel", "reject channel", "roll back channel", "pin channel"] {
        assert!(activity.contains(action), "{activity}");
    }
}
