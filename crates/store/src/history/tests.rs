use super::*;

const DAY: i64 = 86_400;

#[test]
fn sightings_decay_and_survive() {
    let folder = tempfile::tempdir().unwrap();
    let history = History::open(folder.path()).unwrap();
    let keys = [network_key("192.0.2.77".parse().unwrap()), "d example.org".to_owned()];
    assert_eq!(keys[0], "n 192.0.2.0/24");
    for n in 0..10 {
        history.record(&keys, n < 8, 1_000_000);
    }
    let known = history.lookup("d example.org", 1_000_000).unwrap();
    assert_eq!((known.ham, known.spam, known.first_s), (2.0, 8.0, 1_000_000));
    assert!((known.spam_share() - 0.8).abs() < 1e-9);
    history.write(1_000_000).unwrap();
    drop(history);
    let history = History::open(folder.path()).unwrap();
    let later = 1_000_000 + 30 * DAY;
    let known = history.lookup(&keys[0], later).unwrap();
    assert!((known.volume() - 5.0).abs() < 1e-9, "{known:?}");
    assert_eq!(history.lookup("d other.org", later), None);
    history.record(&keys[1..], false, later);
    let known = history.lookup("d example.org", later).unwrap();
    assert!((known.ham - 2.0).abs() < 1e-9 && known.first_s == 1_000_000, "{known:?}");
    // A sender without mail for a year is removed.
    history.write(later).unwrap();
    history.write(later + 400 * DAY).unwrap();
    assert_eq!(history.lookup("d example.org", later), None);
}

#[test]
fn many_senders_are_written_by_and_by() {
    let folder = tempfile::tempdir().unwrap();
    let history = History::open(folder.path()).unwrap();
    for n in 0..2_000 {
        history.record(&[format!("d {n}.example")], false, 5);
    }
    assert!(history.unwritten().len() < UNWRITTEN_MAX);
    assert!(history.lookup("d 3.example", 5).is_some());
    history.record(&["d ".repeat(400)], true, 5);
    assert_eq!(history.lookup(&"d ".repeat(400), 5), None);
}

#[test]
fn strangers_wait_once() {
    let folder = tempfile::tempdir().unwrap();
    let history = History::open(folder.path()).unwrap();
    let rules = GreylistRules::default();
    let ask = |client: &str, sender: &str, now_s: i64| {
        history.greylist(&rules, client.parse().unwrap(), sender, "bob@b.example", now_s)
    };
    assert_eq!(ask("192.0.2.1", "a@a.example", 0), GreylistDecision::Wait { seconds: 300 });
    assert_eq!(ask("192.0.2.9", "A@a.example", 100), GreylistDecision::Wait { seconds: 200 });
    assert_eq!(ask("192.0.2.1", "a@a.example", 300), GreylistDecision::Pass);
    assert_eq!(ask("192.0.2.1", "a@a.example", 301), GreylistDecision::Pass);
    assert_eq!(ask("192.0.3.1", "a@a.example", 301), GreylistDecision::Wait { seconds: 300 });
    assert_eq!(ask("192.0.2.1", "c@a.example", 301), GreylistDecision::Wait { seconds: 300 });
    // A late retry starts again; regular senders never wait again.
    assert_eq!(ask("192.0.2.1", "c@a.example", 3 * DAY), GreylistDecision::Wait { seconds: 300 });
    assert_eq!(ask("192.0.2.1", "a@a.example", 30 * DAY), GreylistDecision::Pass);
    assert_eq!(ask("192.0.2.1", "a@a.example", 60 * DAY), GreylistDecision::Pass);
    assert_eq!(ask("192.0.2.1", "a@a.example", 100 * DAY), GreylistDecision::Wait { seconds: 300 });
    assert_eq!(history.forget_waiting(&rules, 103 * DAY).unwrap(), 3);
}

#[test]
fn a_flood_of_invented_senders_neither_fills_the_table_nor_pushes_others_out() {
    let folder = tempfile::tempdir().unwrap();
    let history = History::open(folder.path()).unwrap();
    let rules = GreylistRules {
        rows_max: 500,
        rows_per_network_per_hour_max: 100,
        ..GreylistRules::default()
    };
    let ask = |client: IpAddr, sender: &str, now_s: i64| {
        history.greylist(&rules, client, sender, "bob@b.example", now_s)
    };
    let rows = |history: &History| count_waiting(&history.database()).unwrap();
    let honest: IpAddr = "198.51.100.7".parse().unwrap();
    assert_eq!(ask(honest, "ann@a.example", 0), GreylistDecision::Wait { seconds: 300 });
    for n in 0..2_000 {
        let asked = ask("192.0.2.1".parse().unwrap(), &format!("{n}@x.example"), 1);
        assert_eq!(asked, GreylistDecision::Wait { seconds: 300 });
    }
    assert_eq!(rows(&history), 101, "one network adds its share and no more");
    assert_eq!(ask(honest, "ann@a.example", 300), GreylistDecision::Pass);
    // Many networks: rows that passed stay, those that wait longest go.
    for n in 0..2_000_u16 {
        let [a, b] = n.to_be_bytes();
        let stranger = IpAddr::from([10, a, b, 1]);
        ask(stranger, &format!("{n}@x.example"), 301 + i64::from(n));
        assert!(rows(&history) <= 500);
    }
    assert_eq!(ask(honest, "ann@a.example", 3_000), GreylistDecision::Pass);
    drop(history);
    let history = History::open(folder.path()).unwrap();
    assert!(history.waiting.lock().unwrap().count <= 500);
}

#[test]
fn who_was_written_to_is_known_with_the_age() {
    let folder = tempfile::tempdir().unwrap();
    let history = History::open(folder.path()).unwrap();
    let day = DAY_SECONDS;
    history.know(&["Ann@Example.org".to_owned()], 100 * day);
    assert_eq!(history.known_days("ann@example.org", 103 * day), Some(3));
    assert_eq!(history.known_days("bob@example.org", 103 * day), None);
    history.write(100 * day).unwrap();
    drop(history);
    let history = History::open(folder.path()).unwrap();
    assert_eq!(history.known_days("ANN@example.org", 101 * day), Some(1));
    history.know(&["ann@example.org".to_owned()], 200 * day);
    assert_eq!(history.known_days("ann@example.org", 200 * day), Some(0));
}
