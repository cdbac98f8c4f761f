//! A node seals mail that goes on (ARC), and the next one verifies the seal though the mail was
//! changed.

use crate::common::zone::{Zone, txt};
use crate::common::{Node, Sink, Smtp};
use gauntlet_gateway::clock::now_ms;
use gauntlet_gateway::outbound::signing::{Algorithm, KeyRing};

const POLICY: &str = "[[rule]]\nname = \"mark\"\ndirection = \"inbound\"\n\
    do = [{ tag_subject = \"[EXT]\" }, \"deliver\"]\n";

fn facts_of(mail: &[u8], zone: &Zone) -> serde_json::Value {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("m.eml");
    std::fs::write(&path, mail).unwrap();
    let server = zone.address().to_string();
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_gauntlet"))
        .env_remove("GAUNTLET_CONFIG")
        .args(["facts", "--json", "--client", "192.0.2.1", "--dns", &server])
        .arg(path)
        .output()
        .unwrap();
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn mail_that_goes_on_is_sealed() {
    let keys = tempfile::tempdir().unwrap();
    let mut ring = KeyRing::load(keys.path()).unwrap();
    let mut record = |domain: &str| {
        let key = ring.create(domain, "s1", Algorithm::Rsa, 2_048).unwrap();
        txt(&key.record_name(), &key.record())
    };
    let records = record("sender.example") + &record("hop.example");
    let Some(zone) = Zone::serve(&records) else { return };
    let sink = Sink::start();
    let folder = tempfile::tempdir().unwrap();
    let policy = folder.path().join("policy.toml");
    std::fs::write(&policy, POLICY).unwrap();
    let config = |seal_as: &str| {
        format!(
            "[dns]\nservers = [\"{}\"]\n[facts]\nour_networks = []\n[policy]\npath = {policy:?}\n\
             [dkim]\nkeys = {:?}\nseal_as = \"{seal_as}\"\n\
             [[next_hop]]\nfor = [\"home.example\"]\nhosts = [\"{}\"]\n",
            zone.address(),
            keys.path(),
            sink.address
        )
    };
    let mail =
        "From: Ann <ann@sender.example>\r\nTo: bob@home.example\r\nSubject: hi\r\n\r\nhello\r\n";
    let signed = ring.sign(&mail.as_bytes().into(), now_ms() / 1_000).unwrap() + mail;
    let pass_on = |seal_as: &str, mail: &[u8]| {
        let node = Node::start(&config(seal_as));
        let mut client = Smtp::connect(node.smtp).unwrap();
        let reply = client.send("ann@sender.example", &["bob@home.example"], mail).unwrap();
        assert!(reply.starts_with("250"), "{reply}\n{}", node.log());
        node.wait_for_empty_queue();
        sink.taken().pop().unwrap()
    };
    // Without a domain that seals, the changed subject leaves nothing that proves the sender.
    let plain = facts_of(&pass_on("", signed.as_bytes()), &zone);
    assert_eq!(
        (&plain["facts"]["dkim"][0]["result"], &plain["facts"]["arc"]),
        (&"fail".into(), &"none".into()),
        "{plain}"
    );
    let sealed = pass_on("hop.example", signed.as_bytes());
    let text = String::from_utf8_lossy(&sealed).into_owned();
    assert!(text.contains("ARC-Authentication-Results: i=1; gw.test;"), "{text}");
    assert!(text.contains("dkim=pass header.d=sender.example"), "{text}");
    assert!(text.contains("Subject: [EXT] hi"), "{text}");
    let once = facts_of(&sealed, &zone);
    assert_eq!(
        (&once["facts"]["dkim"][0]["result"], &once["facts"]["arc"]),
        (&"fail".into(), &"pass".into()),
        "{once}"
    );
    // A second hop changes it again, and seals again.
    let twice = pass_on("hop.example", &sealed);
    let text = String::from_utf8_lossy(&twice).into_owned();
    assert!(text.contains("cv=pass; d=hop.example; i=2;"), "{text}");
    assert_eq!(facts_of(&twice, &zone)["facts"]["arc"], "pass", "{text}");
}
