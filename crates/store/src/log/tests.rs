use super::*;
use crate::record::{Delivery, Outcome};
use gauntlet_mail::{Evidence, Hit, View};
use gauntlet_verdict::{Class, Disposition, Final, Verdict};

pub(super) const DAY: i64 = 20_778 * DAY_MS;

pub(super) fn record(n: i64, at_ms: i64) -> LogRecord {
    let to = |name: &str, end| Disposition {
        recipient: format!("{name}{n}@example.com"),
        end,
        changes: Vec::new(),
        rules: vec!["spam to quarantine".to_owned()],
        release: None,
    };
    let class = if n % 2 == 0 { Class::Spam } else { Class::Ham };
    let hit = Hit {
        rule: format!("RULE_{}", n % 3).into(),
        score: 2.5,
        count: 1,
        description: "".into(),
        evidence: vec![Evidence::new(View::Header, 0, 3, b"win").named("Subject")],
    };
    let mut envelope = gauntlet_mail::Envelope {
        mail_from: format!("bounce{n}@sender.example"),
        ..Default::default()
    };
    envelope.rcpt_to = vec![format!("a{n}@example.com"), format!("b{n}@example.com")];
    LogRecord {
        id: format!("id-{n}"),
        received_ms: at_ms,
        envelope,
        size: 1000,
        from: format!("Eve <eve{n}@mail.example>"),
        subject: format!("Größe der Rechnung Nr. {n}"),
        message_id: format!("m{n}@mail.example"),
        verdict: Verdict { class, score: 2.5, hits: vec![hit], ..Verdict::default() },
        dispositions: vec![
            to("a", Final::Deliver),
            to("b", Final::Quarantine { folder: "suspect".to_owned() }),
        ],
        latency_ms: 12,
        ..LogRecord::default()
    }
}

pub(super) fn ids(log: &Log, query: &Query) -> Vec<String> {
    log.search(query).unwrap().messages.into_iter().map(|m| m.id).collect()
}

#[test]
fn what_is_logged_is_read_back_and_logged_once() {
    let folder = tempfile::tempdir().unwrap();
    let log = Log::open(folder.path()).unwrap();
    let one = record(1, DAY + 5);
    assert_eq!(log.append(vec![one.clone()]).unwrap(), Appended { new: 2, known: 0 });
    let mut again = one.clone();
    again.dispositions[0].end = Final::Discard;
    again
        .dispositions
        .push(Disposition { recipient: "c@x".to_owned(), ..again.dispositions[0].clone() });
    assert_eq!(log.append(vec![again.clone()]).unwrap(), Appended { new: 1, known: 2 });
    drop(log);
    let log = Log::open(folder.path()).unwrap();
    let read = log.get("id-1").unwrap().unwrap();
    let mut expected = one;
    expected.dispositions.push(again.dispositions[2].clone());
    assert_eq!(read.record, expected);
    assert_eq!(log.get("id-2").unwrap(), None);
}

#[test]
fn every_field_finds() {
    let folder = tempfile::tempdir().unwrap();
    let log = Log::open(folder.path()).unwrap();
    // Across midnight, so that a search reads two files.
    let records = (0..20).map(|n| record(n, DAY - 10 + n)).collect();
    log.append(records).unwrap();
    let q = Query::default;
    let one = ["id-7"];
    assert_eq!(ids(&log, &Query { sender: "BOUNCE7@sender.example".into(), ..q() }), one);
    assert_eq!(ids(&log, &Query { sender: "eve7@mail.example".into(), ..q() }), one);
    assert_eq!(ids(&log, &Query { recipient: "b7@example.com".into(), ..q() }), one);
    assert_eq!(ids(&log, &Query { message_id: "<m7@mail.example>".into(), ..q() }), one);
    assert_eq!(ids(&log, &Query { id: "id-7".into(), ..q() }), one);
    assert_eq!(ids(&log, &Query { subject: "rechnung GRÖSSE".into(), ..q() }), [""; 0]);
    assert_eq!(ids(&log, &Query { subject: "7 rechnung größe".into(), ..q() }), one);
    assert_eq!(ids(&log, &Query { subject: "rechn*".into(), ..q() }).len(), 20);
    for nothing in ["*", "!!! *", "-"] {
        let found = ids(&log, &Query { subject: nothing.into(), ..q() });
        assert_eq!(found, Vec::<String>::new(), "{nothing:?} has no word");
    }
    assert_eq!(ids(&log, &Query { domain: "mail.example".into(), ..q() }).len(), 20);
    assert_eq!(ids(&log, &Query { domain: "example.com".into(), ..q() }).len(), 20);
    assert_eq!(ids(&log, &Query { sender: "@example.com".into(), ..q() }).len(), 0);
    assert_eq!(ids(&log, &Query { action: "quarantine".into(), ..q() }).len(), 20);
    assert_eq!(ids(&log, &Query { action: "reject".into(), ..q() }).len(), 0);
    assert_eq!(ids(&log, &Query { policy_rule: "Spam to quarantine".into(), ..q() }).len(), 20);
    let spam = Query { classes: vec![Class::Spam, Class::Malware], rule: "RULE_0".into(), ..q() };
    assert_eq!(ids(&log, &spam), ["id-18", "id-12", "id-6", "id-0"]);
    let both = |class, action: &str| Query { classes: vec![class], action: action.into(), ..q() };
    assert_eq!(ids(&log, &both(Class::Spam, "quarantine")).len(), 10);
    assert_eq!(ids(&log, &both(Class::Spam, "reject")).len(), 0);
    assert_eq!(ids(&log, &both(Class::Ham, "quarantine")).len(), 10);
    let range = Query { since_ms: Some(DAY - 1), until_ms: Some(DAY + 2), ..q() };
    assert_eq!(ids(&log, &range), ["id-11", "id-10", "id-9"]);
    assert_eq!(ids(&log, &Query { score_min: Some(3.0), ..q() }).len(), 0);
    assert_eq!(ids(&log, &Query { subject: "\" OR *:( NEAR".into(), ..q() }).len(), 0);
}

#[test]
fn pages_follow_each_other() {
    let folder = tempfile::tempdir().unwrap();
    let log = Log::open(folder.path()).unwrap();
    log.append((0..20).map(|n| record(n, DAY - 10 + n)).collect()).unwrap();
    let mut query = Query { limit: 7, action: "deliver".to_owned(), ..Query::default() };
    let mut seen = Vec::new();
    loop {
        let page = log.search(&query).unwrap();
        seen.extend(page.messages.into_iter().map(|m| m.id));
        query.after = page.next;
        if query.after.is_none() {
            break;
        }
    }
    let expected: Vec<String> = (0..20).rev().map(|n| format!("id-{n}")).collect();
    assert_eq!(seen, expected);
}

#[test]
fn many_days_are_searched_as_one() {
    let folder = tempfile::tempdir().unwrap();
    let log = Log::open(folder.path()).unwrap();
    // Some days have two messages, some many, some none of a kind; more days than are searched at
    // once.
    let times = (0..60_i64).flat_map(|day| {
        let of_day = if day % 7 == 3 { 9 } else { 2 };
        (0..of_day).map(move |n| DAY + day * DAY_MS + n * 1_000)
    });
    let records: Vec<LogRecord> = (0..).zip(times).map(|(n, at)| record(n, at)).collect();
    let newest_first: Vec<String> = records.iter().rev().map(|r| r.id.clone()).collect();
    log.append(records.clone()).unwrap();
    assert_eq!(log.days().len(), 60);
    let of_class = |class| {
        let of_class = records.iter().rev().filter(move |r| r.verdict.class == class);
        of_class.map(|r| r.id.clone()).collect::<Vec<_>>()
    };
    let q = Query::default;
    let (from, to) = (DAY + 10 * DAY_MS + 500, DAY + 50 * DAY_MS + 500);
    let within = |r: &&LogRecord| (from..to).contains(&r.received_ms);
    let some_days = records.iter().rev().filter(within).map(|r| r.id.clone()).collect();
    let kinds = [
        (q(), newest_first.clone()),
        (Query { classes: vec![Class::Spam], ..q() }, of_class(Class::Spam)),
        (Query { since_ms: Some(from), until_ms: Some(to), ..q() }, some_days),
        (Query { sender: "eve3@mail.example".into(), ..q() }, vec!["id-3".to_owned()]),
        (Query { subject: "nothing of the kind".into(), ..q() }, Vec::new()),
    ];
    for (query, expected) in kinds {
        for limit in [1, 2, 3, 50, 500] {
            let mut query = Query { limit, ..query.clone() };
            let mut seen = Vec::new();
            loop {
                let page = log.search(&query).unwrap();
                let is_last = page.next.is_none();
                assert!(is_last || page.messages.len() == limit, "{query:?}");
                seen.extend(page.messages.into_iter().map(|m| m.id));
                query.after = page.next;
                if is_last {
                    break;
                }
            }
            assert_eq!(seen, expected, "{query:?}");
        }
    }
}

#[test]
fn later_deliveries_replace_earlier() {
    let folder = tempfile::tempdir().unwrap();
    let log = Log::open(folder.path()).unwrap();
    let queued =
        Delivery { address: "a1@example.com".to_owned(), at_ms: DAY, ..Delivery::default() };
    let mut one = record(1, DAY);
    one.deliveries = vec![queued.clone()];
    log.append(vec![one.clone()]).unwrap();
    let done = Delivery { outcome: Outcome::Delivered, at_ms: DAY + 9, attempts: 2, ..queued };
    one.deliveries = vec![done.clone()];
    log.append(vec![one.clone()]).unwrap();
    assert_eq!(log.get("id-1").unwrap().unwrap().record, one);
    one.deliveries[0].outcome = Outcome::Queued;
    one.deliveries[0].at_ms = DAY + 1;
    log.append(vec![one]).unwrap();
    assert_eq!(log.get("id-1").unwrap().unwrap().record.deliveries, [done]);
    let found = log.search(&Query { outcome: "delivered".into(), ..Query::default() }).unwrap();
    assert_eq!(found.messages[0].recipients[0].outcome, Some(Outcome::Delivered));
}

#[test]
fn events_record_the_later_life_once() {
    let folder = tempfile::tempdir().unwrap();
    let log = Log::open(folder.path()).unwrap();
    log.append(vec![record(1, DAY)]).unwrap();
    let event = Event {
        id: "id-1".to_owned(),
        received_ms: DAY,
        at_ms: DAY + 60_000,
        kind: "released".to_owned(),
        recipient: "b1@example.com".to_owned(),
        detail: "by admin".to_owned(),
    };
    let unknown = Event { id: "id-9".to_owned(), ..event.clone() };
    log.append_events(vec![event.clone(), event.clone(), unknown]).unwrap();
    assert_eq!(log.get("id-1").unwrap().unwrap().events, [event]);
    assert_eq!(ids(&log, &Query { event: "released".into(), ..Query::default() }), ["id-1"]);
}

#[test]
fn many_threads_append_and_counts_add_up() {
    let folder = tempfile::tempdir().unwrap();
    let log = Log::open(folder.path()).unwrap();
    std::thread::scope(|threads| {
        for t in 0..8 {
            let log = &log;
            threads.spawn(move || {
                for n in 0..25 {
                    log.append(vec![record(t * 25 + n, DAY + n)]).unwrap();
                }
            });
        }
    });
    let counts = log.counts(DAY, DAY + DAY_MS, 60).unwrap();
    assert_eq!(counts.buckets.iter().map(|b| b.messages).sum::<u64>(), 200);
    assert_eq!(counts.buckets.iter().map(|b| b.bytes).sum::<u64>(), 200_000);
    assert_eq!(counts.top_rules.len(), 3);
    assert_eq!(counts.top_senders[0], Top { name: "sender.example".to_owned(), messages: 200 });
}

#[test]
fn days_are_forgotten_as_files() {
    let folder = tempfile::tempdir().unwrap();
    let log = Log::open(folder.path()).unwrap();
    log.append((0..5).map(|n| record(n, DAY + n * DAY_MS)).collect()).unwrap();
    assert_eq!(log.get("id-0").unwrap().map(|l| l.record.id), Some("id-0".to_owned()));
    assert_eq!(log.retain(DAY + 4 * DAY_MS, 2).unwrap(), 2);
    assert_eq!(ids(&log, &Query::default()), ["id-4", "id-3", "id-2"]);
    assert_eq!(log.get("id-0").unwrap(), None);
    assert_eq!(log.retain(DAY + 4 * DAY_MS, 2).unwrap(), 0);
}

#[test]
fn one_record_that_cannot_be_written_does_not_hold_up_others() {
    let folder = tempfile::tempdir().unwrap();
    let log = Log::open(folder.path()).unwrap();
    let mut wrong = record(1, DAY);
    wrong.received_ms = -1;
    assert!(matches!(log.append(vec![wrong]), Err(StoreError::Invalid { .. })));
    log.append(vec![record(2, DAY)]).unwrap();
    assert_eq!(ids(&log, &Query::default()), ["id-2"]);
}

#[test]
fn a_day_gets_a_dictionary_that_the_next_begins_with() {
    let folder = tempfile::tempdir().unwrap();
    let log = Log::open(folder.path()).unwrap();
    // Many at once are compressed without a dictionary: none is trained on them.
    let of_day = |from: i64, upto: i64| (from..upto).map(|n| record(n, DAY + n)).collect();
    log.append(of_day(100_000, 100_700)).unwrap();
    log.append(of_day(0, 1)).unwrap();
    for from in (1..601).step_by(4) {
        log.append(of_day(from, from + 4)).unwrap();
    }
    let words = |day: i64| {
        let read = |c: &Connection| {
            c.query_row("SELECT count(*), max(length(words)) FROM dictionary", [], |row| {
                Ok((row.get::<_, i64>(0)?, row.get::<_, Option<i64>>(1)?.unwrap_or(0)))
            })
        };
        log.read_day(day / DAY_MS, read).unwrap().unwrap()
    };
    // It is trained in the background; later records are compressed with it.
    let mut n = 601;
    while words(DAY).0 == 0 {
        log.append(vec![record(n, DAY + n)]).unwrap();
        n += 1;
        assert!(n < 100_000, "no dictionary is made");
    }
    assert!((256..=16 << 10).contains(&words(DAY).1), "{:?}", words(DAY));
    let expected = record(n, DAY + n);
    log.append(vec![expected.clone()]).unwrap();
    for id in [0, 599, n, 100_000, 100_063, 100_064, 100_699] {
        let logged = log.get(&format!("id-{id}")).unwrap().unwrap();
        assert_eq!(logged.record, record(id, DAY + id), "{id}");
    }
    let packed = |id: &str, day: i64| {
        let read = |c: &Connection| {
            let sql = "SELECT rest FROM message WHERE id = ?1";
            let rest: Vec<u8> = c.query_row(sql, [id], |row| row.get(0))?;
            let sql = "SELECT records FROM pack WHERE number = ?1";
            c.query_row(sql, [pack::pack_of(&rest)], |row| row.get::<_, Vec<u8>>(0))
        };
        log.read_day(day / DAY_MS, read).unwrap().unwrap()
    };
    let (first, last) = (packed("id-0", DAY), packed(&format!("id-{n}"), DAY));
    assert!(last.len() < first.len() / 2, "{} and {} bytes", first.len(), last.len());
    // The next day's first record is compressed as well; a restart continues with the same.
    let tomorrow = DAY + DAY_MS;
    log.append(vec![record(1_000_000, tomorrow)]).unwrap();
    assert_eq!(words(tomorrow).0, 1);
    assert!(packed("id-1000000", tomorrow).len() < first.len() / 2);
    drop(log);
    let log = Log::open(folder.path()).unwrap();
    log.append(vec![record(1_000_001, tomorrow + 1)]).unwrap();
    assert_eq!(log.get("id-1000001").unwrap().unwrap().record, record(1_000_001, tomorrow + 1));
}

#[test]
fn the_index_of_a_day_that_is_over_is_put_together() {
    let folder = tempfile::tempdir().unwrap();
    let log = Log::open(folder.path()).unwrap();
    for n in 0..9 {
        log.append(vec![record(n, DAY + n)]).unwrap();
    }
    let in_parts = |log: &Log| log.read_day(DAY / DAY_MS, day::is_in_parts).unwrap().unwrap();
    assert!(in_parts(&log));
    // The last day still grows, until there is a later one.
    drop(log);
    let log = Log::open(folder.path()).unwrap();
    assert!(in_parts(&log));
    log.append(vec![record(1, DAY + 1), record(100, DAY + DAY_MS)]).unwrap();
    let tops = |log: &Log| log.tops(TopKind::Recipient, DAY, DAY + 1).unwrap();
    for _ in 0..10_000 {
        if !tops(&log).is_empty() {
            break;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    assert!(!in_parts(&log));
    assert_eq!(ids(&log, &Query { subject: "nr 7".to_owned(), ..Query::default() }), ["id-7"]);
    // Recipients are counted then, and those of the other day on demand.
    assert_eq!(tops(&log).len(), 18);
    let all = log.top_recipients(DAY, DAY + 2 * DAY_MS).unwrap();
    assert_eq!((all.len(), all["a7@example.com"], all["b100@example.com"]), (20, 1, 1));
}

/// The total counts what came; so does the list of who got most of it.
#[test]
fn a_release_is_no_further_message_for_its_recipient() {
    let folder = tempfile::tempdir().unwrap();
    let log = Log::open(folder.path()).unwrap();
    let mut released = record(1, DAY + 5);
    released.id = "release-of-1".to_owned();
    let stage =
        |name: &str| crate::Stage { name: name.to_owned(), at_us: 0, detail: String::new() };
    released.stages = vec![stage(crate::record::RELEASED)];
    let mut report = record(2, DAY + 6);
    report.stages = vec![stage(crate::record::MADE_HERE)];
    log.append(vec![record(1, DAY), released, report]).unwrap();
    let counted = |until| {
        let all = log.top_recipients(DAY, until).unwrap();
        all.into_iter().filter(|(name, _)| !name.contains("100")).collect::<Vec<_>>()
    };
    let once = [("a1@example.com".to_owned(), 1), ("b1@example.com".to_owned(), 1)];
    assert_eq!(counted(DAY + DAY_MS), once, "while the day grows");
    log.append(vec![record(100, DAY + DAY_MS)]).unwrap();
    let stored = || log.tops(TopKind::Recipient, DAY, DAY + 1).unwrap();
    for _ in 0..10_000 {
        if !stored().is_empty() {
            break;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(stored().into_iter().collect::<Vec<_>>(), once, "and when it is over");
    assert_eq!(
        ids(&log, &Query { recipient: "a1@example.com".into(), ..Query::default() }).len(),
        2
    );
}

#[test]
fn names_are_counted_before_and_after_they_are_added_up() {
    let folder = tempfile::tempdir().unwrap();
    let log = Log::open(folder.path()).unwrap();
    for n in 0..150 {
        log.append(vec![record(n, DAY + n)]).unwrap();
        if [0, 62, 63, 64, 149].contains(&n) {
            let rules = log.tops(TopKind::Rule, DAY, DAY + DAY_MS).unwrap();
            assert_eq!(rules.values().sum::<u64>(), n as u64 + 1, "{n}");
            let ours = log.tops(TopKind::Ours(Class::Spam), DAY, DAY + DAY_MS).unwrap();
            assert_eq!(ours["example.com"], n as u64 / 2 + 1, "{n}");
            let counts = log.counts(DAY, DAY + DAY_MS, 60).unwrap();
            assert_eq!(counts.top_senders[0].messages, n as u64 + 1, "{n}");
        }
    }
}

#[test]
fn what_is_learned_later_is_added_to_what_the_message_was_logged_with() {
    let folder = tempfile::tempdir().unwrap();
    let log = Log::open(folder.path()).unwrap();
    let to = |address: &str, outcome, after_ms, attempts| Delivery {
        address: address.to_owned(),
        outcome,
        at_ms: DAY + after_ms,
        attempts,
        ..Delivery::default()
    };
    let mut one = record(1, DAY);
    one.dispositions.push(one.dispositions[0].clone());
    one.deliveries = vec![
        to("z@elsewhere.example", Outcome::Queued, 5, 0),
        to("a1@example.com", Outcome::Queued, 5, 0),
        to("a1@example.com", Outcome::Delivered, 9, 1),
    ];
    assert_eq!(log.append(vec![one.clone()]).unwrap(), Appended { new: 2, known: 1 });
    let found = |log: &Log| {
        let found = log.search(&Query::default()).unwrap().messages.remove(0);
        let outcomes: Vec<_> = found.recipients.iter().map(|r| r.outcome).collect();
        (found.recipients_count, outcomes)
    };
    assert_eq!(found(&log), (2, vec![Some(Outcome::Delivered), None]));
    // An older state of the one, a newer of the others, and one more recipient.
    let mut later = one.clone();
    let third = Disposition { recipient: "c@x".to_owned(), ..one.dispositions[0].clone() };
    later.dispositions.push(third.clone());
    let failed = to("z@elsewhere.example", Outcome::Failed, 50, 3);
    let kept = to("b1@example.com", Outcome::Quarantined, 9, 0);
    later.deliveries =
        vec![to("a1@example.com", Outcome::Queued, 5, 0), failed.clone(), kept.clone()];
    assert_eq!(log.append(vec![later]).unwrap(), Appended { new: 1, known: 3 });
    let expected = vec![Some(Outcome::Delivered), Some(Outcome::Quarantined), None];
    assert_eq!(found(&log), (3, expected));
    let read = log.get("id-1").unwrap().unwrap().record;
    let delivered = to("a1@example.com", Outcome::Delivered, 9, 1);
    assert_eq!(read.deliveries, [delivered, kept, failed]);
    let [a, b] = [0, 1].map(|n| one.dispositions[n].clone());
    assert_eq!(read.dispositions, [a, b, third]);
    let of = |outcome: &str| ids(&log, &Query { outcome: outcome.to_owned(), ..Query::default() });
    assert_eq!([of("failed").len(), of("quarantined").len(), of("deleted").len()], [1, 1, 0]);
    let tops = log.top_recipients(DAY, DAY + DAY_MS).unwrap();
    assert_eq!(tops.keys().collect::<Vec<_>>(), ["a1@example.com", "b1@example.com", "c@x"]);
}

#[test]
fn recipients_that_are_asked_for_come_first() {
    let folder = tempfile::tempdir().unwrap();
    let log = Log::open(folder.path()).unwrap();
    let mut one = record(1, DAY);
    let end = |folder: &str| Final::Quarantine { folder: folder.to_owned() };
    let disposition = one.dispositions[0].clone();
    one.dispositions = (0..6)
        .map(|n| Disposition {
            recipient: format!("r{n}@example.com"),
            end: if n == 4 { end("spam") } else { Final::Deliver },
            ..disposition.clone()
        })
        .collect();
    one.deliveries = Vec::new();
    log.append(vec![one.clone()]).unwrap();
    let first = |query: Query| {
        let found = log.search(&query).unwrap().messages.remove(0);
        let matcher = Matcher::new(&query);
        let message = log.get("id-1").unwrap().unwrap();
        assert_eq!(matcher.summary(&message).recipients, found.recipients, "{query:?}");
        assert_eq!((found.recipients.len(), found.recipients_count), (3, 6));
        found.recipients[0].clone()
    };
    assert_eq!(first(Query::default()).recipient, "r0@example.com");
    let asked = Query { recipient: "R5@Example.com".to_owned(), ..Query::default() };
    assert_eq!(first(asked).recipient, "r5@example.com");
    let held = first(Query { action: "quarantine".to_owned(), ..Query::default() });
    assert_eq!((held.recipient.as_str(), held.action.as_str()), ("r4@example.com", "quarantine"));
}
