use std::path::Path;

use gauntlet_mail::date::DAY_MS;
use gauntlet_web::{WebListed, WebOutcome, WebRecord};

use super::{WebLog, WebQuery};

const DAY: i64 = 20_783 * DAY_MS;

fn record(n: i64) -> WebRecord {
    let is_blocked = n % 3 == 0;
    WebRecord {
        at_ms: DAY + n * 1_000,
        took_ms: 5,
        reference: format!("ref{n}"),
        client: format!("10.0.0.{}", n % 2),
        method: "GET".into(),
        host: if is_blocked { "bad.example" } else { "www.example.org" }.into(),
        url: format!("http://www.example.org/page_{n}?100%"),
        status: if is_blocked { 403 } else { 200 },
        outcome: if is_blocked { WebOutcome::Blocked } else { WebOutcome::Passed },
        rule: if is_blocked { "lists\nslow" } else { "" }.into(),
        category: if is_blocked { "games" } else { "" }.into(),
        bytes_out: 100,
        ..WebRecord::default()
    }
}

fn log_of(folder: &Path, count: i64) -> WebLog {
    let log = WebLog::open(folder).unwrap();
    (0..count).for_each(|n| log.append(record(n)));
    log.flush();
    log
}

#[test]
fn what_is_appended_is_found_newest_first() {
    let folder = tempfile::tempdir().unwrap();
    let log = log_of(folder.path(), 30);
    assert_eq!((log.written(), log.dropped()), (30, 0));
    let mut query = WebQuery { limit: 12, ..WebQuery::default() };
    let mut seen = Vec::new();
    loop {
        let page = log.search(&query).unwrap();
        seen.extend(page.requests.into_iter().map(|row| row.record));
        query.after = page.next;
        if query.after.is_none() {
            break;
        }
    }
    let expected: Vec<_> = (0..30).rev().map(record).collect();
    assert_eq!(seen, expected);
}

#[test]
fn every_field_of_a_query_selects() {
    let folder = tempfile::tempdir().unwrap();
    let log = log_of(folder.path(), 30);
    let count = |query: WebQuery| log.search(&query).unwrap().requests.len();
    let all = WebQuery { limit: 100, ..WebQuery::default() };
    let text = |s: &str| s.to_owned();
    assert_eq!(count(all.clone()), 30);
    assert_eq!(count(WebQuery { client: text("10.0.0.1"), ..all.clone() }), 15);
    assert_eq!(count(WebQuery { host: text("bad.example"), ..all.clone() }), 10);
    assert_eq!(count(WebQuery { host: text(".EXAMPLE.org"), ..all.clone() }), 20);
    assert_eq!(count(WebQuery { host: text(".xample.org"), ..all.clone() }), 0);
    assert_eq!(count(WebQuery { text: text("page_1"), ..all.clone() }), 11);
    assert_eq!(count(WebQuery { text: text("pageX1"), ..all.clone() }), 0);
    assert_eq!(count(WebQuery { text: text("%"), ..all.clone() }), 30);
    assert_eq!(count(WebQuery { outcome: text("blocked"), ..all.clone() }), 10);
    assert_eq!(count(WebQuery { rule: text("slow"), ..all.clone() }), 10);
    assert_eq!(count(WebQuery { rule: text("low"), ..all.clone() }), 0);
    assert_eq!(count(WebQuery { category: text("games"), ..all.clone() }), 10);
    assert_eq!(count(WebQuery { reference: text("ref7"), ..all.clone() }), 1);
    assert_eq!(count(WebQuery { since_ms: Some(DAY + 20_000), ..all.clone() }), 10);
    assert_eq!(count(WebQuery { until_ms: Some(DAY + 20_000), ..all }), 20);
}

#[test]
fn summaries_count() {
    let folder = tempfile::tempdir().unwrap();
    let log = log_of(folder.path(), 30);
    let all = log.summary(DAY, DAY + DAY_MS).unwrap();
    assert_eq!((all.requests, all.blocked, all.bytes_out), (30, 10, 3_000));
    assert_eq!((all.hosts[0].name.as_str(), all.hosts[0].requests), ("www.example.org", 20));
    let blocked = &all.blocked_hosts;
    assert_eq!(
        (blocked.len(), blocked[0].name.as_str(), blocked[0].blocked),
        (1, "bad.example", 10)
    );
    assert_eq!((all.categories[0].name.as_str(), all.categories[0].blocked), ("games", 10));
    assert_eq!((all.clients.len(), all.rules.len(), all.hours.len()), (2, 1, 1));
}

#[test]
fn old_days_are_deleted_and_a_stop_writes_what_is_queued() {
    let folder = tempfile::tempdir().unwrap();
    let log = log_of(folder.path(), 3);
    log.append(WebRecord { at_ms: DAY + DAY_MS, ..record(0) });
    log.retain(DAY + DAY_MS);
    drop(log);
    let found = WebLog::read(folder.path(), &WebQuery::default()).unwrap();
    assert_eq!(found.requests.len(), 1);
    let names = std::fs::read_dir(folder.path()).unwrap().count();
    assert_eq!(names, 1, "one day, without its write-ahead log");
}

#[test]
fn a_folder_that_cannot_be_written_costs_lines_and_no_more() {
    let folder = tempfile::tempdir().unwrap();
    let log = log_of(folder.path(), 1);
    // A folder where the next day's file would be.
    std::fs::create_dir(folder.path().join("2026-11-27.db")).unwrap();
    log.append(WebRecord { at_ms: DAY + DAY_MS, ..record(0) });
    log.append(record(1));
    log.flush();
    assert_eq!((log.written(), log.dropped()), (2, 1));
}

#[test]
fn days_of_older_versions_are_read_and_written_on() {
    let versions = super::schema::MIGRATIONS.len();
    for version in 1..versions {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("2026-11-26.db");
        let first = &super::schema::MIGRATIONS[..version];
        let old = crate::database::open_write(&path, first).unwrap();
        let insert = "INSERT INTO request (at_ms, took_ms, reference, client, user, method, host, \
                      url, status, outcome, rule, category, evidence, content_type, bytes_in, \
                      bytes_out) VALUES (?1, 5, '', '10.0.0.1', '', 'GET', 'a.example', \
                      'http://a.example/', 200, 'passed', '', '', '', '', 0, 7)";
        old.execute(insert, [DAY]).unwrap();
        drop(old);
        let found = WebLog::read(folder.path(), &WebQuery::default()).unwrap().requests;
        assert_eq!((found[0].record.bytes_out, &found[0].record.action), (7, &None));
        let log = WebLog::open(folder.path()).unwrap();
        let listed = vec![WebListed { list: "bad".into(), category: "a\tb".into() }];
        let new = WebRecord {
            action: Some("block".into()),
            listed: Some(listed),
            bytes_declared: Some(3),
            server_address: "192.0.2.9".into(),
            ..record(0)
        };
        log.append(new);
        log.flush();
        let found = log.search(&WebQuery::default()).unwrap().requests;
        assert_eq!((found.len(), found[0].record.bytes_declared), (2, Some(3)), "{version}");
        let addresses = [0, 1].map(|n: usize| found[n].record.server_address.as_str());
        assert_eq!(addresses, ["192.0.2.9", ""], "{version}");
        assert_eq!(found[0].record.listed.as_ref().unwrap()[0].category, "a b");
        assert_eq!(found[1].record.listed, None);
    }
}
