//! What a mail server in front of this node found counts if the site names it, for mail that it
//! passes on, and for no other.

use std::sync::Arc;

use gauntlet_gateway::config::{DnsSettings, FactSettings};
use gauntlet_gateway::facts::FactCollector;
use gauntlet_gateway::net::resolver::Resolver;
use gauntlet_mail::facts::{AuthResult, DmarcPolicy};
use gauntlet_mail::{Direction, Envelope};

const MAIL: &str = "Received: from gw by gw.example; Tue, 24 Nov 2026 10:00:00 +0000\r\n\
    Authentication-Results: mx.front.example; spf=fail smtp.mailfrom=a@evil.example;\r\n\
    \tdmarc=fail (p=REJECT) header.from=bank.example\r\n\
    Received: from evil.example (evil.example [203.0.113.5]) by mx.front.example\r\n\
    From: Bank <info@bank.example>\r\n\r\nhello\r\n";

#[tokio::test]
async fn results_of_a_front_server_count_for_what_it_passes_on() {
    let dns = DnsSettings { servers: vec!["127.0.0.1:9".to_owned()], ..DnsSettings::default() };
    let resolver = Arc::new(Resolver::new(&dns).unwrap());
    let collector = |trusted: &[&str]| {
        let settings = FactSettings {
            questions_max: 0,
            wait_ms_max: 100,
            trust_authserv_id: trusted.iter().map(|name| (*name).to_owned()).collect(),
            ..FactSettings::default()
        };
        FactCollector::new(resolver.clone(), &settings, &[], "gw.example").unwrap()
    };
    let from = |client: &str, direction, user: Option<&str>| Envelope {
        client_ip: client.parse().ok(),
        mail_from: "a@evil.example".into(),
        auth_user: user.map(Into::into),
        direction,
        ..Envelope::default()
    };
    let front = from("10.0.0.7", Direction::Inbound, None);
    let found = collector(&["MX.front.example."]).gather(&front, MAIL.as_bytes()).await;
    assert_eq!((found.spf, found.dmarc), (AuthResult::Fail, AuthResult::Fail));
    assert_eq!(found.dmarc_policy, DmarcPolicy::Reject);
    assert!(found.notes.iter().any(|note| note.contains("mx.front.example")), "{found:?}");
    for (envelope, trusted) in [
        (front, "mx.other.example"),
        // A stranger who writes the field himself, mail of ours, and of a user.
        (from("203.0.113.5", Direction::Inbound, None), "mx.front.example"),
        (from("10.0.0.7", Direction::Outbound, None), "mx.front.example"),
        (from("10.0.0.7", Direction::Inbound, Some("ann")), "mx.front.example"),
    ] {
        let found = collector(&[trusted]).gather(&envelope, MAIL.as_bytes()).await;
        assert!(found.dmarc != AuthResult::Fail && found.spf != AuthResult::Fail, "{envelope:?}");
    }
}
