//! The policy, its replay and the rules over HTTP.

use crate::common::start;
use crate::http::put;

/// A form's field, encoded.
pub(crate) fn encoded(text: &str) -> String {
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
    // A rule that is never tried is reported before, and does not keep the policy out.
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
    assert!(wrong.status == 400 && wrong.body.contains("Invalid policy"), "{}", wrong.body);
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
