use gauntlet_policy::Groups;
use gauntlet_web::WebListed;

use super::*;
use crate::WebLog;

const AT: i64 = 1_795_000_000_000;

const BEFORE: &str = "[[web_rule]]\nname = \"games\"\nwhen.url.category = \"games\"\n\
    do = { block = \"Not here.\" }\n";

/// On the list `bad`: whatever has `game` in its host.
struct Games;

impl UrlLookUp for Games {
    fn listed<'a>(&'a self, url: &CanonicalUrl) -> Vec<Listed<'a>> {
        let entry = Listed { list: "bad", category: "games", pattern: "domain".to_owned() };
        url.host().contains("game").then_some(entry).into_iter().collect()
    }

    fn listed_at<'a>(&'a self, url: &CanonicalUrl, address: SocketAddr) -> Vec<Listed<'a>> {
        let is_bad = address.to_string() == "192.0.2.66:80" && url.host() != "allowed.example";
        let entry = Listed { list: "bad", category: "games", pattern: "host".to_owned() };
        is_bad.then_some(entry).into_iter().collect()
    }
}

fn passed(url: &str) -> WebRecord {
    WebRecord {
        at_ms: AT,
        client: "10.0.0.1".into(),
        method: "GET".into(),
        host: canonical(url).unwrap().host().to_owned(),
        url: url.to_owned(),
        status: 200,
        content_type: "text/html; charset=utf-8".into(),
        action: Some("allow".into()),
        listed: Some(Vec::new()),
        ..WebRecord::default()
    }
}

fn blocked(url: &str, rule: &str) -> WebRecord {
    WebRecord {
        status: 403,
        outcome: WebOutcome::Blocked,
        rule: rule.to_owned(),
        reference: "ref1".into(),
        action: Some("block".into()),
        listed: Some(vec![WebListed { list: "bad".into(), category: "games".into() }]),
        ..passed(url)
    }
}

fn replayed(text: &str, records: Vec<WebRecord>) -> WebReplayReport {
    let folder = tempfile::tempdir().unwrap();
    let log = WebLog::open(folder.path()).unwrap();
    records.into_iter().for_each(|record| log.append(record));
    log.flush();
    let parse = |text: &str| Policy::parse(text, &Groups::default()).unwrap();
    let (policy, before) = (parse(text), parse(BEFORE));
    let request =
        WebReplayRequest { policy: &policy, before: &before, lists: &Games, since_ms: AT - 1 };
    replay(folder.path(), &request, |_| true).unwrap()
}

fn rule(when: &str, end: &str) -> String {
    format!("[[web_rule]]\nname = \"new\"\nwhen = {{ {when} }}\ndo = {end}\n")
}

/// `was by rule -> would be by rule` of all changes.
fn changes(report: &WebReplayReport) -> Vec<String> {
    let line = |c: &WebChanged| {
        format!("{} {} -> {} {}: {}", c.was, c.was_rule, c.would_be, c.rule, c.requests)
    };
    report.changes.iter().map(line).collect()
}

#[test]
fn changes_are_counted_by_what_decided_with_hosts_clients_and_examples() {
    let records = vec![
        passed("http://a.example/"),
        passed("http://a.example/2"),
        passed("http://b.example/"),
        blocked("http://game.example/", "games"),
        WebRecord { at_ms: AT - 5, ..passed("http://a.example/old") },
    ];
    let report = replayed(&rule("url.host = \"a.example\"", "{ block = \"x\" }"), records);
    assert_eq!((report.requests, report.same, report.different), (4, 1, 3));
    assert_eq!(changes(&report), ["allow  -> block new: 2", "block games -> allow : 1"]);
    let first = &report.changes[0];
    assert_eq!((first.hosts[0].name.as_str(), first.hosts[0].requests), ("a.example", 2));
    assert_eq!((first.clients[0].name.as_str(), first.examples.len()), ("10.0.0.1", 2));
    assert_eq!(report.changes[1].examples[0].reference, "ref1");
}

#[test]
fn an_unchanged_policy_changes_nothing() {
    let failed = WebRecord {
        outcome: WebOutcome::Failed,
        rule: "name_not_found".into(),
        ..passed("http://a.example/")
    };
    let by_content = WebRecord {
        outcome: WebOutcome::Blocked,
        rule: "phrases".into(),
        ..passed("http://a.example/")
    };
    let records = vec![
        passed("http://a.example/"),
        blocked("http://game.example/", "games"),
        failed,
        by_content,
    ];
    let report = replayed(BEFORE, records);
    assert_eq!((report.same, report.different, report.unknown_requests()), (4, 0, 0));
}

#[test]
fn lists_are_asked_for_the_address_that_was_looked_up() {
    let at =
        |address: &str, record: WebRecord| WebRecord { server_address: address.into(), ..record };
    let records = vec![
        at("192.0.2.66", blocked("http://a.example/", "games")),
        at("192.0.2.66", passed("http://b.example/")),
        at("192.0.2.66", passed("http://allowed.example/")),
        at("192.0.2.1", passed("http://c.example/")),
        passed("http://d.example/"),
    ];
    let report = replayed(BEFORE, records);
    assert_eq!((report.same, changes(&report)), (4, vec!["allow  -> block games: 1".to_owned()]));
    assert_eq!(report.changes[0].hosts[0].name, "b.example");
}

#[test]
fn what_the_log_does_not_have_is_unknown_and_named() {
    let text = rule("client.program = \"curl*\"", "{ block = \"x\" }")
        + &rule("url.path = \"/a*\"", "{ block = \"x\" }").replace("new", "path");
    let masked = WebRecord {
        url: "http://a.example".into(),
        client: "10.0.0.0/24".into(),
        ..passed("http://a.example/")
    };
    let report = replayed(&text, vec![masked.clone(), passed("http://b.example/")]);
    assert_eq!((report.unknown_requests(), report.different), (2, 0));
    assert_eq!(report.unknown["new"]["client.program"], 2);
    assert_eq!(report.not_replayable["new"], "client.program");
    let report = replayed(&rule("url.path = \"/a*\"", "{ block = \"x\" }"), vec![masked]);
    assert_eq!(report.unknown["new"]["url.path"], 1);
}

#[test]
fn what_lists_said_of_a_path_that_is_not_kept_is_in_the_log() {
    let text = rule("url.list = \"bad\"", "{ block = \"x\" }");
    let masked = |listed| WebRecord {
        url: "http://a.example".into(),
        listed,
        ..passed("http://a.example/")
    };
    let on = masked(Some(vec![WebListed { list: "bad".into(), category: "games".into() }]));
    let report = replayed(&text, vec![on, masked(Some(vec![])), masked(None)]);
    assert_eq!((report.different, report.same), (1, 1));
    assert_eq!(report.unknown["new"]["url.list"], 1, "a day of an older version");
}

#[test]
fn tunnels_own_pages_and_requests_that_no_policy_saw() {
    let tunnel = WebRecord {
        method: "CONNECT".into(),
        url: "a.example:443".into(),
        outcome: WebOutcome::Tunnel,
        ..passed("http://a.example/")
    };
    let port = WebRecord {
        action: Some(String::new()),
        listed: None,
        outcome: WebOutcome::Blocked,
        rule: "port".into(),
        ..passed("http://a.example:25/")
    };
    let own = passed("http://a.example/.well-known/gauntlet/continue?token=1");
    let text = rule("tunnel = true, url.port = 443", "{ block = \"x\" }");
    let report = replayed(&text, vec![tunnel, port, own]);
    assert_eq!((report.different, report.not_asked), (1, 2));
}

#[test]
fn rules_about_responses_are_tried_on_what_the_log_has_of_them() {
    let big = WebRecord { bytes_declared: Some(9 << 20), ..passed("http://a.example/") };
    let text = rule("content = { type = \"text/html\", size_min = \"8 MB\" }", "{ block = \"x\" }");
    let report = replayed(&text, vec![big, passed("http://b.example/")]);
    assert_eq!((report.different, report.same), (1, 1));
    let games = blocked("http://game.example/", "games");
    let report = replayed(&text, vec![games]);
    assert_eq!(report.unknown["new"]["content"], 1, "the server was never asked");
}

#[test]
fn other_changes_and_answered_warnings_are_seen() {
    let text = rule("url.host = \"a.example\"", "{ limit_rate = \"64 KB\" }");
    let report = replayed(&text, vec![passed("http://a.example/")]);
    assert_eq!(changes(&report), ["allow  -> allow with other changes : 1"]);
}

#[test]
fn a_replay_that_is_stopped_says_how_far_it_came() {
    let folder = tempfile::tempdir().unwrap();
    let log = WebLog::open(folder.path()).unwrap();
    (0..1_200).for_each(|_| log.append(passed("http://a.example/")));
    log.flush();
    let policy = Policy::parse(BEFORE, &Groups::default()).unwrap();
    let request =
        WebReplayRequest { policy: &policy, before: &policy, lists: &NoLists, since_ms: 0 };
    let report = replay(folder.path(), &request, |progress| progress.items < 600).unwrap();
    assert_eq!((report.requests, report.reached_ms), (1_000, Some(AT)));
}
