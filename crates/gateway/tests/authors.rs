//! Whom a message is from is judged for every author that some mail program may show, whatever else
//! the sender makes us ask: against a real DNS server, and one in front of it that leaves questions
//! open.

use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::Duration;

use gauntlet_gateway::config::{DnsSettings, FactSettings};
use gauntlet_gateway::facts::FactCollector;
use gauntlet_gateway::net::resolver::Resolver;
use gauntlet_mail::Envelope;
use gauntlet_mail::facts::{AuthResult, DmarcPolicy, Facts};

use crate::zone::{Zone, txt};

/// The attacker's domain passes SPF from here.
const CLIENT: &str = "203.0.113.5";

fn zone() -> Option<Zone> {
    let mut records = String::new();
    for (name, text) in [
        ("bank.example", "v=spf1 -all"),
        ("_dmarc.bank.example", "v=DMARC1; p=reject; aspf=s"),
        ("evil.example", "v=spf1 ip4:203.0.113.0/24 -all"),
        ("_dmarc.evil.example", "v=DMARC1; p=none"),
        ("many.evil.example", "v=spf1 mx:a.evil.example mx:b.evil.example mx:c.evil.example -all"),
        ("slow.evil.example", "v=spf1 ip4:203.0.113.0/24 -all"),
    ] {
        records.push_str(&txt(name, text));
    }
    for name in ["a", "b", "c"] {
        for i in 0..10 {
            records.push_str(&format!("{name}.evil.example MX 10 h{i}.{name}.evil.example.\n"));
            records.push_str(&format!("h{i}.{name}.evil.example A 192.0.2.77\n"));
        }
    }
    Zone::serve(&records)
}

fn collector(server: SocketAddr, settings: &FactSettings) -> FactCollector {
    let dns = DnsSettings { servers: vec![server.to_string()], ..DnsSettings::default() };
    FactCollector::new(Arc::new(Resolver::new(&dns).unwrap()), settings, &[], "gw.example").unwrap()
}

async fn facts(collector: &FactCollector, helo: &str, sender: &str, mail: &str) -> Facts {
    let envelope = Envelope {
        client_ip: CLIENT.parse().ok(),
        helo: helo.into(),
        mail_from: sender.into(),
        received_at: 1_800_000_000,
        ..Envelope::default()
    };
    collector.gather(&envelope, mail.as_bytes()).await
}

fn is_rejected(facts: &Facts) -> bool {
    (facts.dmarc, facts.dmarc_policy) == (AuthResult::Fail, DmarcPolicy::Reject)
        && facts.dmarc_from.as_deref() == Some("bank.example")
}

#[tokio::test]
async fn the_worst_of_all_authors_counts() {
    let Some(zone) = zone() else { return };
    let collector = collector(zone.address(), &FactSettings::default());
    let from = |from: &str| format!("From: {from}\r\nSubject: statement\r\n\r\nhello\r\n");
    let plain =
        facts(&collector, "m.evil.example", "x@evil.example", &from("x@evil.example")).await;
    assert_eq!(plain.dmarc, AuthResult::Pass, "{:?}", plain.notes);
    for value in [
        "service@bank.example",
        "service@bank.example, x@evil.example",
        "x@evil.example, service@bank.example",
        "service@bank.example (<x@evil.example>)",
        "service@bank.example (\r\n <x@evil.example>)",
        "service@bank.example (<x@evil.example>",
        "<service@bank.example> <x@evil.example>",
        "service@bank.example \"<x@evil.example>\"",
        "\"<x@evil.example>\" service@bank.example",
        "\" <service@bank.example>, <x@evil.example>",
        "\"service@bank.example\"",
        "=?utf-8?q?service=40bank.example?=",
        "<service@=?utf-8?q?bank.example?=>",
        "<service@bank .example>",
        "<service@bank.(c)example>",
        "<@evil.example:service@bank.example>",
        "<service@bank.example@evil.example>",
        "<service@bank.example,x@evil.example>",
        "<x@evil.example,service@bank.example>",
        "<service@bank.example x@evil.example>",
        "<service@bank.example\u{1}>",
        "<service@bank.example:25>",
        "<service@[bank.example]>",
        "<service@bank.example..>",
        "<service@bank.ex\u{ad}ample>",
        "service@bank\u{3002}example",
        "Bank <service@bank.example",
        "service@bank.example <>",
        "<mailto:service@bank.example>",
        "x@evil.example\r\nFrom: x@evil.example\r\nFrom: x@evil.example\r\nFROM : x@evil.example\r\n\
         From: service@bank.example",
    ] {
        let found = facts(&collector, "m.evil.example", "x@evil.example", &from(value)).await;
        assert!(is_rejected(&found), "{value:?}: {} {:?}", shown(&found), found.notes);
    }
    // What cannot be read at all is no pass.
    let crowd = "x@evil.example, ".repeat(100) + "service@bank.example";
    for value in ["service@", crowd.as_str(), "service@!"] {
        let found = facts(&collector, "m.evil.example", "x@evil.example", &from(value)).await;
        assert_eq!(found.dmarc, AuthResult::PermError, "{value:.40}: {:?}", found.notes);
    }
}

fn shown(facts: &Facts) -> String {
    format!("{:?} {:?} {:?}", facts.dmarc, facts.dmarc_policy, facts.dmarc_from)
}

/// A resolver that never answers questions with `slow` in the name, in front of the zone's server.
fn slow_server(zone: SocketAddr) -> SocketAddr {
    let front = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = front.local_addr().unwrap();
    let back = UdpSocket::bind("127.0.0.1:0").unwrap();
    back.set_read_timeout(Some(Duration::from_secs(2))).unwrap();
    // Ends with the test's process.
    std::thread::spawn(move || {
        let (mut question, mut answer) = ([0; 4096], [0; 4096]);
        while let Ok((bytes, client)) = front.recv_from(&mut question) {
            let question = &question[..bytes];
            if question.windows(4).any(|w| w.eq_ignore_ascii_case(b"slow")) {
                continue;
            }
            if back.send_to(question, zone).is_err() {
                continue;
            }
            if let Ok(bytes) = back.recv(&mut answer) {
                // A client that went away asks again.
                let _ = front.send_to(&answer[..bytes], client);
            }
        }
    });
    address
}

#[tokio::test]
async fn what_a_sender_makes_us_ask_hides_no_policy() {
    let Some(zone) = zone() else { return };
    let front = slow_server(zone.address());
    let mail = "From: service@bank.example\r\n\r\nhello\r\n";
    let signed = format!(
        "DKIM-Signature: v=1; a=rsa-sha256; c=relaxed/relaxed; d=slow.evil.example; s=s1; h=from; \
         bh=47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=; b=AAAA\r\n{mail}"
    );
    let short = FactSettings { wait_ms_max: 800, ..FactSettings::default() };
    // Answers that never come, for SPF and for the key of a signature.
    for (sender, mail) in [("x@slow.evil.example", mail), ("x@evil.example", &signed)] {
        let collector = collector(front, &short);
        let found = facts(&collector, "m.evil.example", sender, mail).await;
        assert!(is_rejected(&found), "{sender}: {}", shown(&found));
    }
    // More questions for SPF than a message may ask.
    let few = FactSettings { questions_max: 12, ..FactSettings::default() };
    let collector = collector(zone.address(), &few);
    let found = facts(&collector, "many.evil.example", "x@many.evil.example", mail).await;
    assert!(found.notes.iter().any(|n| n.contains("not all questions")), "{:?}", found.notes);
    assert!(is_rejected(&found), "{}", shown(&found));
    assert_eq!(found.spf, AuthResult::TempError, "unanswered is nothing to rely on");
}

#[tokio::test]
async fn a_policy_that_nobody_answers_for_is_doubted() {
    let Some(zone) = zone() else { return };
    let short = FactSettings { wait_ms_max: 500, ..FactSettings::default() };
    let collector = collector(slow_server(zone.address()), &short);
    let mail = "From: ann@slow.bank.example\r\n\r\nhello\r\n";
    let found = facts(&collector, "m.evil.example", "x@evil.example", mail).await;
    assert_eq!(found.dmarc, AuthResult::TempError, "{:?}", found.notes);
    assert!(found.doubts_authors());
}
