//! ARC sets that we make: the shared signing suite, and chains that the tests seal and verify.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::zone::{Zone, txt};
use gauntlet_gateway::config::{DnsSettings, FactSettings};
use gauntlet_gateway::facts::FactCollector;
use gauntlet_gateway::facts::auth_results::stamp;
use gauntlet_gateway::net::resolver::Resolver;
use gauntlet_gateway::outbound::arc::{Chain, Sealing, seal_fields};
use gauntlet_gateway::outbound::signing::{Algorithm, KeyRing};
use gauntlet_mail::facts::{AuthResult, Facts};
use gauntlet_mail::{Direction, Envelope};
use rsa::pkcs1::DecodeRsaPrivateKey;

fn collector(zone: &Zone) -> FactCollector {
    let dns = DnsSettings { servers: vec![zone.address().to_string()], ..DnsSettings::default() };
    let resolver = Arc::new(Resolver::new(&dns).unwrap());
    FactCollector::new(resolver, &FactSettings::default(), &[], "gw.example").unwrap()
}

fn envelope() -> Envelope {
    Envelope {
        client_ip: "192.0.2.1".parse().ok(),
        helo: "mail.sender.example".into(),
        mail_from: "ann@sender.example".into(),
        received_at: 1_800_000_000,
        ..Envelope::default()
    }
}

/// One test of the suite.
#[derive(Debug, Default)]
struct Case {
    name: String,
    values: BTreeMap<String, String>,
}

/// What the suite's YAML holds: settings of each document, and its tests. Only the forms that it
/// uses are read: `key: value`, and blocks (`key: |`) by their indentation.
fn read_suite(text: &str) -> Vec<(BTreeMap<String, String>, Vec<Case>)> {
    let mut documents = Vec::new();
    for document in text.split("\n---\n") {
        let (mut settings, mut cases) = (BTreeMap::new(), Vec::<Case>::new());
        let mut lines = document.lines().peekable();
        while let Some(line) = lines.next() {
            let indent = line.len() - line.trim_start().len();
            let Some((key, value)) = line.trim().split_once(':') else { continue };
            let mut value = value.trim().to_owned();
            if indent == 2 && value.is_empty() {
                cases.push(Case { name: key.to_owned(), ..Case::default() });
                continue;
            }
            if value.starts_with('|') || value.starts_with('>') {
                value.clear();
                let deep =
                    |l: &&str| l.trim().is_empty() || l.len() - l.trim_start().len() > indent;
                let depth = lines.peek().map_or(0, |l| l.len() - l.trim_start().len());
                while let Some(line) = lines.next_if(deep) {
                    value.push_str(line.get(depth..).unwrap_or_default());
                    value.push('\n');
                }
                value.truncate(value.trim_end_matches('\n').len());
                value.push('\n');
            }
            match cases.last_mut() {
                Some(case) if indent == 4 => case.values.insert(key.to_owned(), value),
                _ => settings.insert(key.to_owned(), value),
            };
        }
        documents.push((settings, cases));
    }
    documents
}

/// Tags of a field by name, without white space.
fn tags(field: &str) -> BTreeMap<String, String> {
    let tight = |text: &str| text.split_whitespace().collect::<String>();
    let pairs = field.split(';').filter_map(|pair| pair.split_once('='));
    pairs.map(|(name, value)| (tight(name), tight(value))).collect()
}

/// A field's value, with single spaces.
fn value<'f>(fields: &'f str, name: &str) -> &'f str {
    let at = fields.find(&format!("{name}: ")).unwrap() + name.len() + 2;
    let rest = &fields[at..];
    let end = rest.match_indices("\r\n").find(|(i, _)| !rest[i + 2..].starts_with(['\t', ' ']));
    &rest[..end.map_or(rest.len(), |(i, _)| i)]
}

fn spaced(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The suite's keys have 1,024 bits, which our own key ring refuses: signed here.
fn sign_short(pem: &str, bytes: &[u8]) -> anyhow::Result<Vec<u8>> {
    const SHA256_INFO: [u8; 19] =
        [48, 49, 48, 13, 6, 9, 96, 134, 72, 1, 101, 3, 4, 2, 1, 5, 0, 4, 32];
    let key = rsa::RsaPrivateKey::from_pkcs1_pem(pem)?;
    let scheme = rsa::Pkcs1v15Sign { hash_len: Some(32), prefix: SHA256_INFO.as_slice().into() };
    let digest = ring::digest::digest(&ring::digest::SHA256, bytes);
    Ok(key.sign(scheme, digest.as_ref())?)
}

#[tokio::test]
async fn the_signing_suite() {
    let Some(corpus) = std::env::var_os("GAUNTLET_CORPUS") else {
        eprintln!("skipped: GAUNTLET_CORPUS is not set");
        return;
    };
    let path = "fixtures/arc_test_suite/tests/arc-draft-sign-tests.yml";
    let text = std::fs::read_to_string(std::path::Path::new(&corpus).join(path)).unwrap();
    let mut checked = 0;
    for (settings, cases) in read_suite(&text) {
        let (domain, selector) = (settings["domain"].trim(), settings["sel"].trim());
        let name = format!("{selector}._domainkey.{domain}");
        // The suite's record stands in a block under its name, folded.
        let record: String = settings[&name].split_whitespace().collect::<Vec<_>>().join("");
        let record = record.trim_matches('"').replace(';', "; ");
        let Some(zone) = Zone::serve(&txt(&name, &record)) else { return };
        let collector = collector(&zone);
        for case in &cases {
            let of = |key: &str| case.values.get(key).map_or("", String::as_str);
            let mail = of("message").replace('\n', "\r\n");
            let facts = collector.gather(&envelope(), mail.as_bytes()).await;
            let chain = match facts.arc {
                AuthResult::None => Chain::None,
                AuthResult::Pass => Chain::Pass,
                _ => Chain::Fail,
            };
            let sealing = Sealing {
                host: of("srv-id"),
                domain,
                selector,
                algorithm: "rsa-sha256",
                chain,
                otherwise: "arc=none",
                now: of("t").parse().unwrap(),
            };
            let signed: Vec<&str> = of("sig-headers").split(':').collect();
            let sign = |bytes: &[u8]| sign_short(&settings["privatekey"], bytes);
            let fields = seal_fields(&mail.as_bytes().into(), &sealing, &signed, sign).unwrap();
            let what = format!("{}: {chain:?} {:?} {fields:?}", case.name, facts.notes);
            checked += 1;
            if of("AS").trim().is_empty() {
                assert_eq!(fields, None, "{what}");
                continue;
            }
            let fields = fields.expect(&what);
            let results = value(&fields, "ARC-Authentication-Results");
            assert_eq!(spaced(results), spaced(of("AAR")), "{what}");
            assert_eq!(tags(value(&fields, "ARC-Message-Signature")), tags(of("AMS")), "{what}");
            assert_eq!(tags(value(&fields, "ARC-Seal")), tags(of("AS")), "{what}");
        }
    }
    eprintln!("{checked} cases pass");
    assert_eq!(checked, 17);
}

const MAIL: &str = "From: Ann <ann@sender.example>\r\nTo: bob@home.example\r\nSubject: hi\r\n\
    DKIM-Signature: v=1; a=rsa-sha256; d=gone.example; s=x; h=from; bh=; b=\r\n\r\nhello  world \r\n\r\n";

/// A hop: gathers facts about a message, and passes it on with results and seal.
async fn pass_on(
    collector: &FactCollector,
    ring: &KeyRing,
    mail: &[u8],
) -> (Facts, String, Vec<u8>) {
    let envelope = Envelope { direction: Direction::Inbound, ..envelope() };
    let facts = collector.gather(&envelope, mail).await;
    let stamped = stamp(mail, "gw.example", &facts, &envelope).unwrap_or_else(|| mail.to_owned());
    let fields = ring.seal(&stamped[..].into(), "gw.example", facts.arc, 1_800_000_000).unwrap();
    let sealed = [fields.as_bytes(), &stamped].concat();
    (facts, fields, sealed)
}

#[tokio::test]
async fn chains_that_we_seal() {
    let folder = tempfile::tempdir().unwrap();
    let mut ring = KeyRing::load(folder.path()).unwrap();
    let key = ring.create("hop.example", "s1", Algorithm::Rsa, 2_048).unwrap();
    let record = txt(&key.record_name(), &key.record())
        + &txt("sender.example", "v=spf1 ip4:192.0.2.1 -all")
        + &txt("_dmarc.sender.example", "v=DMARC1; p=reject");
    let Some(zone) = Zone::serve(&record) else { return };
    let collector = collector(&zone);
    assert!(
        ring.seal(&MAIL.as_bytes().into(), "gw.example", AuthResult::None, 1).unwrap().is_empty()
    );
    let ring = ring.with_seal("hop.example").unwrap();

    let mut mail = MAIL.as_bytes().to_vec();
    for hop in 1..=6 {
        let (facts, fields, sealed) = pass_on(&collector, &ring, &mail).await;
        let expected = if hop == 1 { AuthResult::None } else { AuthResult::Pass };
        assert_eq!(facts.arc, expected, "hop {hop}: {:?}", facts.notes);
        let cv = if hop == 1 { "cv=none" } else { "cv=pass" };
        assert!(fields.contains(&format!("i={hop}; gw.example;")), "{fields}");
        assert!(value(&fields, "ARC-Seal").contains(cv), "{fields}");
        // Each hop changes the subject before it seals; the one before vouched for the old one.
        mail = sealed;
        mail.splice(0..0, *b"Received: from x by y; Sat, 21 Nov 2026 10:00:00 +0000\r\n");
    }
    let facts = collector.gather(&envelope(), &mail).await;
    assert_eq!(facts.arc_domain.as_deref(), Some("hop.example"));
    assert_eq!(facts.arc_dmarc, AuthResult::Unknown, "anybody can seal");

    // Behind the last hop the sender is a stranger, for whom only the sealer vouches.
    let dns = DnsSettings { servers: vec![zone.address().to_string()], ..DnsSettings::default() };
    let settings =
        FactSettings { arc_sealers_trusted: vec!["hop.example".into()], ..FactSettings::default() };
    let resolver = Arc::new(Resolver::new(&dns).unwrap());
    let trusting = FactCollector::new(resolver, &settings, &[], "gw.example").unwrap();
    let last = Envelope { client_ip: "192.0.2.9".parse().ok(), ..envelope() };
    let facts = trusting.gather(&last, &mail).await;
    assert_eq!((facts.dmarc, facts.arc_dmarc), (AuthResult::Fail, AuthResult::Pass));
    let forged = String::from_utf8(mail.clone()).unwrap().replace("ann@sender", "ann@other.sender");
    let facts = trusting.gather(&last, forged.as_bytes()).await;
    assert_eq!(facts.arc_dmarc, AuthResult::Unknown, "{:?}", facts.notes);

    // Somebody changes what was sealed: the next seal says so, and then the chain is over.
    let text = String::from_utf8(mail).unwrap().replace("hello", "jello");
    let (facts, fields, sealed) = pass_on(&collector, &ring, text.as_bytes()).await;
    assert_eq!(facts.arc, AuthResult::Fail, "{:?}", facts.notes);
    assert!(value(&fields, "ARC-Seal").contains("cv=fail"), "{fields}");
    let (facts, fields, _) = pass_on(&collector, &ring, &sealed).await;
    assert_eq!((facts.arc, fields.as_str()), (AuthResult::Fail, ""), "{:?}", facts.notes);

    // The keys could not be queried: then nobody can vouch for the chain.
    let nothing = ring.seal(&text.as_bytes().into(), "gw.example", AuthResult::Unknown, 1).unwrap();
    assert_eq!(nothing, "");
    let error = KeyRing::load(folder.path()).unwrap().with_seal("none.example").unwrap_err();
    assert!(error.to_string().contains("gauntlet dkim new none.example"), "{error}");
}
