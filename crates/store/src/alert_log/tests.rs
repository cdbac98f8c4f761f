use super::*;

const ALERT: &str = r#"{"timestamp":"2026-11-26T10:00:00.500000+0000","flow_id":7,
"event_type":"alert","src_ip":"192.0.2.1","src_port":4000,"dest_ip":"192.0.2.2","dest_port":80,
"proto":"TCP","app_proto":"http","alert":{"action":"blocked","gid":1,"signature_id":9,"rev":2,
"signature":"a 100% bad word","category":"Misc","severity":1}}"#;

fn finding(found: &str) -> String {
    format!(
        r#"{{"timestamp":"2026-11-27T10:00:00.000000+0000","flow_id":8,"event_type":"gauntlet",
        "src_ip":"192.0.2.3","src_port":4001,"dest_ip":"192.0.2.2","dest_port":25,"proto":"TCP",
        "app_proto":"smtp","gauntlet":{found}}}"#
    )
}

#[test]
fn alerts_and_bad_findings_are_kept() {
    let alert = AlertRecord::of_eve(ALERT).unwrap();
    assert_eq!((alert.at_ms, alert.flow, alert.severity), (1_795_687_200_500, 7, 1));
    assert_eq!((alert.rule.as_str(), alert.protocol.as_str()), ("1:9:2", "http"));
    let mail = |class: &str| {
        let envelope = r#"{"mail_from":"a@b","rcpt_to":["c@d","e@f"]}"#;
        let class = format!(r#""class":"{class}","action":"allowed""#);
        AlertRecord::of_eve(&finding(&format!(
            r#"{{"kind":"mail",{class},"envelope":{envelope}}}"#
        )))
    };
    assert_eq!(mail("ham"), None);
    let spam = mail("spam").unwrap();
    assert_eq!((spam.title.as_str(), spam.severity), ("<a@b> → c@d, e@f", 2));
    let url = |verdict: &str| {
        AlertRecord::of_eve(&finding(&format!(
            r#"{{"kind":"url","verdict":"{verdict}","url":"http://x/"}}"#
        )))
    };
    assert_eq!(url("allow"), None);
    assert_eq!(url("block").unwrap().title, "http://x/");
    let policy = r#"{"kind":"policy","verdict":"drop","rule":"a rule","reason":"packet policy"}"#;
    let policy = AlertRecord::of_eve(&finding(policy)).unwrap();
    assert_eq!((policy.title.as_str(), policy.severity), ("packet policy a rule", 3));
    for line in ["", "{}", "[1]", r#"{"event_type":"alert"}"#, r#"{"event_type":"flow"}"#] {
        assert_eq!(AlertRecord::of_eve(line), None, "{line}");
    }
}

#[test]
fn what_is_appended_is_found_and_counted() {
    let folder = tempfile::tempdir().unwrap();
    let log = AlertLog::open(folder.path()).unwrap();
    let spam = finding(r#"{"kind":"mail","class":"spam","action":"allowed"}"#);
    for line in [ALERT, ALERT, &spam] {
        log.append(AlertRecord::of_eve(line).unwrap());
    }
    log.flush();
    assert_eq!((log.written(), log.dropped()), (3, 0));
    let find = |query: AlertQuery| {
        let page = log.search(&query).unwrap();
        page.alerts.iter().map(|row| row.record.flow).collect::<Vec<_>>()
    };
    assert_eq!(find(AlertQuery::default()), [8, 7, 7]);
    let text = |text: &str| AlertQuery { text: text.to_owned(), ..AlertQuery::default() };
    assert_eq!(find(text("100% BAD")), [7, 7]);
    assert!(find(text("100_ bad")).is_empty());
    for (rule, count) in [("9", 2), ("1:9", 2), ("1:9:2", 2), ("2:9", 0), ("%", 0)] {
        let query = AlertQuery { rule: rule.to_owned(), ..AlertQuery::default() };
        assert_eq!(find(query).len(), count, "{rule}");
    }
    let address = |address: &str| AlertQuery { address: address.into(), ..AlertQuery::default() };
    assert_eq!(find(address("192.0.2.2")), [8, 7, 7]);
    assert_eq!(find(address("192.0.2.3")), [8]);
    let first = log.search(&AlertQuery { limit: 2, ..AlertQuery::default() }).unwrap();
    let rest = AlertQuery { after: first.next, limit: 2, ..AlertQuery::default() };
    assert_eq!(find(rest), [7]);
    let row = &first.alerts[1];
    assert_eq!(log.get(row.cursor).unwrap().as_ref(), Some(row));
    assert_eq!(log.get(AlertCursor(1)).unwrap(), None);
    assert_eq!(log.of_flow(row, 10).unwrap().len(), 2);
    let summary = log.summary(0, i64::MAX / 2).unwrap();
    assert_eq!((summary.alerts, summary.blocked), (3, 2));
    let rules: Vec<_> = summary.rules.iter().map(|c| (c.rule.as_str(), c.alerts)).collect();
    assert_eq!(rules, [("1:9:2", 2), ("mail spam", 1)]);
    assert_eq!(summary.destinations[0].alerts, 3);
    log.retain(row.record.at_ms + gauntlet_mail::date::DAY_MS);
    log.flush();
    assert_eq!(find(AlertQuery::default()), [8]);
}
