//! The pages of alerts.

use std::path::Path;

use base64_simd::STANDARD;
use gauntlet_console::PacketRule;
use gauntlet_store::AlertLog;
use gauntlet_store::alert_log::{AlertQuery, AlertRecord};
use serde_json::json;

use crate::common::browser::Browser;
use crate::common::{Running, now_ms, start};
use crate::policies::encoded;

/// Raw IPv4, as capture files number it.
const LINK_RAW: u64 = 101;

fn timestamp() -> String {
    let now = now_ms();
    let day = gauntlet_mail::date::day_name(now.div_euclid(gauntlet_mail::date::DAY_MS));
    let clock = gauntlet_mail::date::time_of_day(now);
    format!("{day}T{clock}.000000+0000")
}

/// An alert on a stream; `number` tells several apart.
pub(crate) fn alert(number: u64) -> String {
    let rule = "alert http any any -> any any (msg:\"ω <b>\"; content:\"Secret\"; nocase; \
                content:\"|0d 0a|Host\"; sid:9; rev:2;)";
    let payload = b"GET /secret HTTP/1.1\r\nHost: a.example\r\n\r\n\x00<script>";
    json!({
        "timestamp": timestamp(), "flow_id": 7, "event_type": "alert",
        "src_ip": "192.0.2.1", "src_port": 4_000 + number, "dest_ip": "192.0.2.2", "dest_port": 80,
        "proto": "TCP", "app_proto": "http",
        "alert": {
            "action": "blocked", "gid": 1, "signature_id": 9, "rev": 2, "signature": "ω <b>",
            "category": "Misc <activity>", "severity": 1, "rule": rule,
        },
        "payload": STANDARD.encode_to_string(payload), "stream": 1,
        "packet": STANDARD.encode_to_string([number as u8; 40]),
        "packet_info": { "linktype": LINK_RAW },
    })
    .to_string()
}

fn finding() -> String {
    json!({
        "timestamp": timestamp(), "flow_id": 8, "event_type": "gauntlet",
        "src_ip": "192.0.2.3", "src_port": 4_001, "dest_ip": "192.0.2.25", "dest_port": 25,
        "proto": "TCP", "app_proto": "smtp",
        "gauntlet": {
            "kind": "mail", "class": "phishing", "score": 12.5, "action": "allowed",
            "envelope": { "mail_from": "eve@example.net", "rcpt_to": ["bob@example.com"] },
            "hits": [{
                "rule": "ASKS_FOR_PAYMENT", "score": 3.1, "description": "Asks to pay",
                "evidence": [{ "text": "pay <now>" }],
            }],
        },
    })
    .to_string()
}

/// Rules of the test's node: one that alerts, and one that does not.
pub(crate) fn rules() -> Vec<PacketRule> {
    let rule = |rule: &str, title: &str, cost_ppm| PacketRule {
        rule: rule.into(),
        title: title.into(),
        cost_ppm,
    };
    vec![rule("1:9:2", "ω 1", Some(1_600)), rule("1:10:1", "Ω 2", Some(123_456))]
}

/// Rules for packets of the test's node.
pub(crate) const POLICY: &str = r#"
[ips.zones]
"Ε1" = { networks = ["192.0.2.0/24"] }
[[ips.rule]]
name = "Τ23"
service = "tcp/23"
do = "reject"
[[ips.rule]]
name = "Ρ80"
from_zone = "Ε1"
service = "tcp/80"
do = "inspect"
"#;

/// The log of the test's node.
pub(crate) fn log(folder: &Path) -> AlertLog {
    AlertLog::open(&folder.join("alerts")).unwrap()
}

pub(crate) fn put(console: &Running, lines: &[String]) -> Vec<i64> {
    let log = console.state.alerts.as_ref().unwrap();
    lines.iter().for_each(|line| log.append(AlertRecord::of_eve(line).unwrap()));
    log.flush();
    let page = log.search(&AlertQuery::default()).unwrap();
    page.alerts.iter().map(|row| row.cursor.0).collect()
}

#[test]
fn alerts_are_listed_searched_and_shown_with_what_the_rule_saw() {
    let console = start();
    let ids = put(&console, &[alert(1), alert(2), finding()]);
    let admin = console.sign_in("admin");
    let get = |path: &str| console.request("GET", path, &admin, "");
    let page = get("/alerts").body;
    for part in [
        "ω &lt;b&gt;",
        "Misc &lt;activity&gt;",
        "&lt;eve@example.net&gt; → bob@example.com",
        "href=\"/alerts?rule=1%3A9%3A2\"",
        "href=\"/alerts?address=192.0.2.25\"",
        "In 24 hours 3 alerts, 2 blocked.",
    ] {
        assert!(page.contains(part), "{part}: {page}");
    }
    for (query, count) in [
        ("kind=mail", 1),
        ("rule=9", 2),
        ("text=%3Cb%3E", 2),
        ("address=192.0.2.3", 1),
        ("action=blocked", 2),
        ("category=phishing", 1),
        ("protocol=dns", 0),
    ] {
        let page = get(&format!("/alerts?{query}")).body;
        assert_eq!(page.matches("class=\"subject\"").count(), count, "{query}: {page}");
    }
    let one = get(&format!("/alerts/{}", ids[1])).body;
    for part in [
        "<mark>secret</mark>",
        "<mark>\nHost</mark>",
        "&lt;script&gt;",
        "content:&quot;Secret&quot;; nocase;",
        "/packets.pcap",
    ] {
        assert!(one.contains(part), "{part}: {one}");
    }
    assert!(!one.contains("<script>"), "{one}");
    let pcap = get(&format!("/alerts/{}/packets.pcap", ids[1]));
    assert_eq!(pcap.header("content-type"), Some("application/vnd.tcpdump.pcap"));
    let mail = get(&format!("/alerts/{}", ids[0])).body;
    assert!(mail.contains("ASKS_FOR_PAYMENT") && mail.contains("pay &lt;now&gt;"), "{mail}");
    for path in ["/alerts/1", "/alerts/x", "/alerts/1/packets.pcap"] {
        assert_eq!(get(path).status, 404, "{path}");
    }
    let rita = console.sign_in("rita");
    for path in ["/alerts", "/alerts/rules"] {
        assert_eq!(console.request("GET", path, &rita, "").status, 403, "{path}");
    }
}

#[test]
fn rules_and_programs_have_counts_and_costs() {
    let console = start();
    let ids = put(&console, &[alert(1), alert(2), finding()]);
    let admin = console.sign_in("admin");
    let get = |path: &str| console.request("GET", path, &admin, "");
    let rules = get("/alerts/rules").body;
    assert!(rules.contains("1:9:2") && rules.contains("66 %"), "{rules}");
    // A rule that is loaded and has not alerted.
    assert!(rules.contains("2 rules are loaded, 1 of them gave none."), "{rules}");
    assert!(rules.contains("Ω 2"), "{rules}");
    // What is tried in vain costs, too, and comes first.
    let [costly, cheap] = ["12.3 %", "0.2 %"].map(|share| rules.find(share).unwrap());
    assert!(costly < cheap, "{rules}");
    // The same for programs.
    let json = |path: &str| -> serde_json::Value {
        serde_json::from_str(&get(&format!("/api/v1/alerts{path}")).body).unwrap()
    };
    let list = json("?rule=9");
    assert_eq!(list["alerts"].as_array().unwrap().len(), 2, "{list}");
    assert_eq!((&list["alerts"][0]["id"], &list["next"]), (&ids[1].into(), &json!(null)));
    assert!(list["alerts"][0].get("record").is_none(), "{list}");
    let one = json(&format!("/{}", ids[1]));
    assert_eq!((&one["rule"], &one["source"]), (&"1:9:2".into(), &"192.0.2.1".into()));
    assert_eq!(one["record"]["alert"]["signature"], "ω <b>");
    assert_eq!(json("/summary")["blocked"], 2);
    let rules = json("/rules")["rules"].take();
    assert_eq!((&rules[0]["alerts"], &rules[1]["alerts"]), (&2.into(), &0.into()), "{rules}");
}

#[test]
fn the_packet_policy_is_explained_and_tried_on_alerts() {
    let console = start();
    // The second is about an answer, and says who began.
    let mut answer: serde_json::Value = serde_json::from_str(&alert(2)).unwrap();
    answer["flow"] = json!({
        "src_ip": "192.0.2.2", "src_port": 4_002, "dest_ip": "198.51.100.1", "dest_port": 443,
    });
    put(&console, &[alert(1), answer.to_string(), finding()]);
    let admin = console.sign_in("admin");
    let page = console.request("GET", "/alerts/policy", &admin, "").body;
    for part in ["Τ23", "from_zone = Ε1", "no rule fits", "[[ips.rule]]", "service = [&quot;tcp/23"]
    {
        assert!(page.contains(part), "{part}: {page}");
    }
    let ask =
        |fields: &str| console.request("GET", &format!("/alerts/policy?{fields}"), &admin, "");
    let page = ask("from=192.0.2.1&to=198.51.100.1:25").body;
    let why = "is <code>tcp/25</code>, not <code>tcp/80</code>";
    assert!(page.contains(why) && page.contains("state-drop"), "{page}");
    for (fields, message) in [
        ("from=x&to=192.0.2.1:25", "from &quot;x&quot;: an address is missing or wrong"),
        ("from=192.0.2.1&to=192.0.2.2", "tcp needs a port"),
        ("from=192.0.2.1&to=192.0.2.2:1&zone=none", "there is no zone"),
        ("from=192.0.2.1&to=192.0.2.2:1&protocol=what", "is no protocol"),
    ] {
        let answer = ask(fields);
        assert!(answer.status == 400 && answer.body.contains(message), "{}", answer.body);
    }
    let try_out = |text: &str| {
        let form = format!("csrf={}&days=7&text={}", console.csrf(&admin), encoded(text));
        console.request("POST", "/alerts/policy", &admin, &form)
    };
    // As it is, the answer's flow is dropped; with one rule more it passes.
    let more = "[[ips.rule]]\nname = \"Τ443\"\nservice = \"tcp/443\"\ndo = \"allow\"\n";
    let page = try_out(&format!("{POLICY}{more}")).body;
    for part in ["<b>3</b><span>alerts looked at", "<b>1</b><span>of flows that", "198.51.100.1"] {
        assert!(page.contains(part), "{part}: {page}");
    }
    assert!(page.contains("by Τ443") && !page.contains("by Ρ80"), "{page}");
    assert!(try_out(POLICY).body.contains("Nothing would have changed."));
    for (text, message) in [
        ("[[ips.rule]]\nnam = 1", "unknown field"),
        ("[[ips.rule]]\nname = \"a\"\nto_zone = \"b\"\ndo = \"drop\"", "no zone"),
    ] {
        let answer = try_out(text);
        assert!(answer.status == 400 && answer.body.contains(message), "{}", answer.body);
    }
    let rita = console.sign_in("rita");
    assert_eq!(console.request("GET", "/alerts/policy", &rita, "").status, 403);
}

#[test]
fn alerts_are_seen_with_a_browser() {
    let Some(browser) = Browser::start() else { return };
    let console = start();
    put(&console, &(0..12).map(alert).chain([finding()]).collect::<Vec<_>>());
    browser.look(1280, 900, false);
    crate::browser::sign_in(&browser, &console);
    browser.follow("nav a[href='/alerts']", "Alerts");
    browser.look_at("alerts");
    browser.follow("tbody tr:nth-child(2) a.subject", "ω <b>");
    browser.look_at("alert");
    browser.follow("p.crumbs a", "Alerts");
    browser.follow("a[href='/alerts/rules']", "Rules that alert");
    browser.look_at("alert-rules");
    browser.follow("p.crumbs a", "Alerts");
    browser.follow("a[href='/alerts/policy']", "Packet policy");
    browser.look_at("packet-policy");
    browser.open(&format!(
        "http://{}/alerts/policy?from=192.0.2.1&to=198.51.100.1:25",
        console.address
    ));
    browser.look_at("packet-policy-explained");
    browser.look(400, 800, true);
    browser.open(&format!("http://{}/alerts", console.address));
    browser.look_at("alerts-narrow");
}
