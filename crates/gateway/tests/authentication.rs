//! DKIM, ARC, DMARC, reverse names and their record, against a real DNS server, with messages that
//! the tests sign themselves and the shared vectors.

use std::sync::Arc;

use crate::zone::{Zone, txt};
use gauntlet_gateway::config::{DnsSettings, FactSettings};
use gauntlet_gateway::facts::FactCollector;
use gauntlet_gateway::net::resolver::Resolver;
use gauntlet_mail::Envelope;
use gauntlet_mail::facts::{AuthResult, DmarcPolicy, Facts};
use mail_auth::common::crypto::{Ed25519Key, RsaKey, Sha256};
use mail_auth::common::headers::HeaderWriter;
use mail_auth::dkim::DkimSigner;

/// 2048 bits, made for these tests.
const RSA_KEY: &str = include_str!("keys/rsa2048.pem");

fn collector(server: std::net::SocketAddr) -> FactCollector {
    let dns = DnsSettings { servers: vec![server.to_string()], ..DnsSettings::default() };
    let resolver = Arc::new(Resolver::new(&dns).unwrap());
    let settings = FactSettings { bimi: true, ..FactSettings::default() };
    FactCollector::new(resolver, &settings, &[], "gw.example").unwrap()
}

fn envelope(client: &str, mail_from: &str) -> Envelope {
    Envelope {
        client_ip: client.parse().ok(),
        helo: "mail.sender.example".into(),
        mail_from: mail_from.into(),
        received_at: 1_667_843_664,
        ..Envelope::default()
    }
}

fn rsa() -> (RsaKey<Sha256>, String) {
    use rustls_pki_types::{PrivateKeyDer, pem::PemObject};
    let der = PrivateKeyDer::from_pem_slice(RSA_KEY.as_bytes()).unwrap();
    let key = RsaKey::<Sha256>::from_key_der(der).unwrap();
    let public = base64_simd::STANDARD.encode_to_string(key.public_key());
    (key, format!("v=DKIM1; k=rsa; p={public}"))
}

fn ed25519() -> (Ed25519Key, String) {
    let der = Ed25519Key::generate_pkcs8().unwrap();
    let key = Ed25519Key::from_pkcs8_der(&der).unwrap();
    let public = base64_simd::STANDARD.encode_to_string(key.public_key());
    (key, format!("v=DKIM1; k=ed25519; p={public}"))
}

const MAIL: &str = "From: Ann <ann@sender.example>\r\nTo: bob@home.example\r\nSubject: hi\r\n\r\nhello\r\nworld\r\n";

fn sign_rsa(mail: &str, domain: &str, selector: &str, partial: bool) -> String {
    let signer = DkimSigner::from_key(rsa().0)
        .domain(domain)
        .selector(selector)
        .headers(["From", "To", "Subject"])
        .body_length(partial);
    signer.sign(mail.as_bytes()).unwrap().to_header() + mail
}

fn zone_for_mail(extra: &str) -> Option<(Zone, Ed25519Key)> {
    let (key, ed_record) = ed25519();
    let mut records = String::new();
    records.push_str(&txt("r1._domainkey.sender.example", &rsa().1));
    records.push_str(&txt("e1._domainkey.sender.example", &ed_record));
    records.push_str(&txt("r1._domainkey.other.example", &rsa().1));
    records.push_str(&txt("r1._domainkey.mail.sender.example", &rsa().1));
    records.push_str(&txt("revoked._domainkey.sender.example", "v=DKIM1; p="));
    records.push_str(&txt(
        "absurd._domainkey.sender.example",
        &format!("v=DKIM1; p={}", "A".repeat(20_000)),
    ));
    records.push_str(&txt("sender.example", "v=spf1 ip4:192.0.2.1 -all"));
    records.push_str(&txt(
        "_dmarc.sender.example",
        "v=DMARC1; p=reject; sp=quarantine; rua=mailto:d@sender.example",
    ));
    records.push_str(&txt(
        "default._bimi.sender.example",
        "v=BIMI1; l=https://sender.example/logo.svg; a=",
    ));
    records.push_str(
        "1.2.0.192.in-addr.arpa PTR mail.sender.example.\nmail.sender.example A 192.0.2.1\n",
    );
    records.push_str(
        "2.2.0.192.in-addr.arpa PTR forged.bank.example.\nforged.bank.example A 198.51.100.1\n",
    );
    records.push_str(extra);
    Zone::serve(&records).map(|zone| (zone, key))
}

fn dkim_results(facts: &Facts) -> Vec<AuthResult> {
    facts.dkim.iter().map(|s| s.result).collect()
}

#[tokio::test]
async fn good_mail_passes_and_is_written_down() {
    let Some((zone, ed_key)) = zone_for_mail("") else { return };
    let collector = collector(zone.address());
    let once = sign_rsa(MAIL, "sender.example", "r1", false);
    let signer =
        DkimSigner::from_key(ed_key).domain("sender.example").selector("e1").headers(["From"]);
    let mail = signer.sign(once.as_bytes()).unwrap().to_header() + &once;
    let facts =
        collector.gather(&envelope("192.0.2.1", "ann@sender.example"), mail.as_bytes()).await;
    assert_eq!(facts.spf, AuthResult::Pass);
    assert_eq!(dkim_results(&facts), [AuthResult::Pass, AuthResult::Pass], "{facts:?}");
    let bits: Vec<u16> = facts.dkim.iter().map(|s| s.key_bits).collect();
    assert_eq!(bits, [256, 2048]);
    assert_eq!((facts.dmarc, facts.dmarc_policy), (AuthResult::Pass, DmarcPolicy::Reject));
    assert_eq!(facts.dmarc_domain.as_deref(), Some("sender.example"));
    assert_eq!(facts.bimi.as_deref(), Some("https://sender.example/logo.svg"));
    assert_eq!(facts.reverse_name.as_deref(), Some("mail.sender.example"));
    assert_eq!(facts.reverse_confirmed, Some(true));
    assert_eq!(facts.arc, AuthResult::None);
    assert_eq!(facts.notes, [""; 0]);
    let spf = facts.lookups.iter().find(|l| l.name == "sender.example").unwrap();
    assert_eq!(
        (spf.effect.as_str(), spf.kind.as_str(), spf.outcome.as_str()),
        ("spf", "TXT", "answered")
    );
    assert_eq!(spf.answers, ["v=spf1 ip4:192.0.2.1 -all"]);
    // The same once more, from the cache: the same facts.
    let mut again =
        collector.gather(&envelope("192.0.2.1", "ann@sender.example"), mail.as_bytes()).await;
    assert!(again.lookups.iter().all(|l| l.cached), "{:?}", again.lookups);
    again.lookups.clone_from(&facts.lookups);
    assert_eq!(again, facts);
}

#[tokio::test]
async fn forged_and_changed_mail_fails() {
    let Some((zone, _)) = zone_for_mail("") else { return };
    let collector = collector(zone.address());
    let signed = sign_rsa(MAIL, "sender.example", "r1", false);
    let from = envelope("192.0.2.2", "ann@sender.example");
    let facts = collector.gather(&from, signed.replace("world", "w0rld").as_bytes()).await;
    assert_eq!((facts.spf, facts.dmarc), (AuthResult::Fail, AuthResult::Fail));
    assert_eq!(dkim_results(&facts), [AuthResult::Fail]);
    assert_eq!(facts.dmarc_policy, DmarcPolicy::Reject);
    assert_eq!(facts.reverse_name.as_deref(), Some("forged.bank.example"));
    assert_eq!(facts.reverse_confirmed, Some(false));
    let facts =
        collector.gather(&from, signed.replace("Subject: hi", "Subject: ho").as_bytes()).await;
    assert_eq!(dkim_results(&facts), [AuthResult::Fail]);
    // A good signature of somebody else proves nothing about the From domain.
    let other = sign_rsa(MAIL, "other.example", "r1", false);
    let facts = collector.gather(&from, other.as_bytes()).await;
    assert_eq!((dkim_results(&facts)[0], facts.dmarc), (AuthResult::Pass, AuthResult::Fail));
    // One of a subdomain does, unless the domain is strict.
    let below = sign_rsa(MAIL, "mail.sender.example", "r1", false);
    assert_eq!(collector.gather(&from, below.as_bytes()).await.dmarc, AuthResult::Pass);
    // A subdomain in From has the policy for subdomains.
    let sub = MAIL.replace("@sender.example", "@sub.sender.example");
    let facts = collector.gather(&from, sub.as_bytes()).await;
    assert_eq!((facts.dmarc, facts.dmarc_policy), (AuthResult::Fail, DmarcPolicy::Quarantine));
    // A signature over a part of the body is weak: it passes, but DMARC does not count it.
    let partial = sign_rsa(MAIL, "sender.example", "r1", true) + "and an advertisement\r\n";
    let facts = collector.gather(&from, partial.as_bytes()).await;
    assert_eq!((facts.dkim[0].result, facts.dkim[0].partial_body), (AuthResult::Pass, true));
    assert_eq!(facts.dmarc, AuthResult::Fail);
    assert!(facts.notes.iter().any(|n| n.contains("l=")), "{:?}", facts.notes);
}

#[tokio::test]
async fn keys_that_are_none() {
    let Some((zone, _)) = zone_for_mail("") else { return };
    let collector = collector(zone.address());
    let from = envelope("192.0.2.1", "ann@sender.example");
    for (selector, expected) in [
        ("gone", AuthResult::PermError),
        ("revoked", AuthResult::PermError),
        ("absurd", AuthResult::Fail),
        ("x.broken.example", AuthResult::PermError),
    ] {
        let mail = sign_rsa(MAIL, "sender.example", selector, false);
        let facts = collector.gather(&from, mail.as_bytes()).await;
        assert_eq!(dkim_results(&facts), [expected], "{selector}: {:?}", facts.notes);
    }
    let mail = sign_rsa(MAIL, "broken.example", "s", false);
    assert_eq!(
        dkim_results(&collector.gather(&from, mail.as_bytes()).await),
        [AuthResult::TempError]
    );
    // Expired by the time the message came, not by ours.
    let signer =
        DkimSigner::from_key(rsa().0).domain("sender.example").selector("r1").headers(["From"]);
    let mail = signer.expiration(60).sign(MAIL.as_bytes()).unwrap().to_header() + MAIL;
    let mut late = envelope("192.0.2.1", "ann@sender.example");
    late.received_at = 4_000_000_000;
    assert_eq!(
        dkim_results(&collector.gather(&late, mail.as_bytes()).await),
        [AuthResult::Neutral]
    );
}

#[tokio::test]
async fn too_many_signatures_and_strange_headers() {
    let Some((zone, _)) = zone_for_mail(&txt("_dmarc.odd.example", "v=DMARC1; p=perhaps; rua="))
    else {
        return;
    };
    let collector = collector(zone.address());
    let from = envelope("192.0.2.1", "ann@sender.example");
    let one = sign_rsa(MAIL, "sender.example", "r1", false);
    let field = one.strip_suffix(MAIL).unwrap();
    let mail = field.repeat(10_000) + MAIL;
    let facts = collector.gather(&from, mail.as_bytes()).await;
    assert_eq!(dkim_results(&facts), [AuthResult::Pass; 10]);
    assert!(
        facts.notes.iter().any(|n| n == "dkim: 10 of 10000 signatures tried"),
        "{:?}",
        facts.notes
    );
    // A hundred sets are no chain.
    let set: String = (1..=100)
        .map(|i| {
            format!(
                "ARC-Seal: i={i}; a=rsa-sha256; d=x.example; s=s; cv=pass; b=AAAA\r\n\
                 ARC-Message-Signature: i={i}; a=rsa-sha256; d=x.example; s=s; h=from; bh=AAAA; b=AAAA\r\n\
                 ARC-Authentication-Results: i={i}; x.example; none\r\n"
            )
        })
        .collect();
    let facts = collector.gather(&from, (set + MAIL).as_bytes()).await;
    assert!(facts.notes.iter().any(|n| n.contains("100 sets")), "{:?}", facts.notes);
    for mail in [
        "",
        "\r\n",
        "From: \r\n\r\n",
        "DKIM-Signature\r\n\r\n",
        "DKIM-Signature: \r\n\r\n",
        "DKIM-Signature: v=1; a=rsa-sha256; b=; bh=; d=; s=; h=\r\nFrom: a@b.c\r\n\r\n",
        "DKIM-Signature: v=1;;;=;a;b\r\n\r\nx",
        "ARC-Seal: i=1\r\n\r\n",
        "From: a@b.example, c@d.example\r\n\r\n",
    ] {
        let facts = collector.gather(&from, mail.as_bytes()).await;
        assert!(facts.dkim.iter().all(|s| s.result != AuthResult::Pass), "{mail:?}");
    }
    let odd = MAIL.replace("sender.example", "odd.example");
    let facts = collector.gather(&from, odd.as_bytes()).await;
    assert_eq!(facts.dmarc, AuthResult::PermError);
    assert!(facts.notes.iter().any(|n| n.contains("malformed")), "{:?}", facts.notes);
}

/// Every kind of bad input that the DNS or a message can bring is bounded, and named in the facts.
#[tokio::test]
async fn bad_input_is_named() {
    let mut records = String::new();
    for n in 0..400 {
        records.push_str(&format!("huge.example TXT \"v=spf1 {n}{}\"\n", "x".repeat(90)));
    }
    records.push_str("loop.example CNAME round.example.\nround.example CNAME loop.example.\n");
    for n in 0..11 {
        records.push_str(&format!("h{n}.example A 198.51.100.{n}\n"));
    }
    let terms: Vec<String> = (0..11).map(|n| format!("a:h{n}.example")).collect();
    records.push_str(&txt("eleven.example", &format!("v=spf1 {} -all", terms.join(" "))));
    records.push_str(&txt("around.example", "v=spf1 include:around.example -all"));
    records.push_str(&txt("_dmarc.perhaps.example", "v=DMARC1; p=perhaps"));
    records.push_str(&txt("_dmarc.glued.example", "v=DMARC1 p=reject"));
    records.push_str(&txt("_dmarc.two.example", "v=DMARC1; p=reject"));
    records.push_str(&txt("_dmarc.two.example", "v=DMARC1; p=none"));
    let Some((zone, _)) = zone_for_mail(&records) else { return };
    let collector = collector(zone.address());
    let plain = |from: &str| format!("From: a@{from}\r\n\r\nx\r\n");
    let signed = |selector: &str| sign_rsa(MAIL, "sender.example", selector, false);
    let many = {
        let one = signed("r1");
        one.strip_suffix(MAIL).unwrap().repeat(10_000) + MAIL
    };
    let forged = "Authentication-Results: gw.example; dmarc=pass\r\n".to_owned() + MAIL;
    for (sender, mail, named) in [
        ("huge.example", plain("x.example"), "huge.example TXT: the answer is too large"),
        ("loop.example", plain("x.example"), "loop.example TXT: aliases (CNAME) without end"),
        ("eleven.example", plain("x.example"), "terms ask the DNS"),
        ("around.example", plain("x.example"), "spf: "),
        (
            "x.example",
            plain("perhaps.example"),
            "dmarc: the record of perhaps.example is malformed",
        ),
        ("x.example", plain("glued.example"), "dmarc: the record of glued.example is malformed"),
        ("x.example", plain("two.example"), "dmarc: two.example has several records"),
        ("x.example", many, "dkim: 10 of 10000 signatures tried"),
        ("x.example", signed("absurd"), "dkim: absurd of sender.example: "),
        ("x.example", signed("revoked"), "dkim: revoked of sender.example: "),
        ("x.example", forged, "authentication-results: 1 in the message"),
    ] {
        let envelope = envelope("192.0.2.1", &format!("a@{sender}"));
        let facts = collector.gather(&envelope, mail.as_bytes()).await;
        assert!(facts.notes.iter().any(|n| n.contains(named)), "{named}: {:?}", facts.notes);
        let proven = dkim_results(&facts).contains(&AuthResult::Pass);
        assert_eq!(facts.dmarc == AuthResult::Pass, proven, "{named}");
    }
}

#[tokio::test]
async fn nobody_answers() {
    let (_silent, address) = crate::zone::silent();
    let dns = DnsSettings { servers: vec![address.to_string()], ..DnsSettings::default() };
    let resolver = Arc::new(Resolver::new(&dns).unwrap());
    let settings = FactSettings { wait_ms_max: 200, ..FactSettings::default() };
    let collector = FactCollector::new(resolver, &settings, &[], "gw.example").unwrap();
    let mail = sign_rsa(MAIL, "sender.example", "r1", false);
    let start = std::time::Instant::now();
    let facts =
        collector.gather(&envelope("192.0.2.1", "ann@sender.example"), mail.as_bytes()).await;
    assert!(start.elapsed().as_secs() < 2);
    assert_eq!((facts.spf, facts.dmarc), (AuthResult::TempError, AuthResult::TempError));
    assert_eq!(dkim_results(&facts), [AuthResult::Unknown]);
    assert_eq!((facts.reverse_name, facts.reverse_confirmed), (None, None));
    // Clients of ours are not asked about.
    let facts =
        collector.gather(&envelope("10.0.0.1", "ann@sender.example"), MAIL.as_bytes()).await;
    assert_eq!(facts.lookups.len(), 0);
}

/// Files of the shared vectors: records, an empty line, the message.
#[tokio::test]
async fn shared_vectors() {
    let Some(corpus) = std::env::var_os("GAUNTLET_CORPUS") else {
        eprintln!("skipped: GAUNTLET_CORPUS is not set");
        return;
    };
    let folder = std::path::Path::new(&corpus).join("fixtures/mail-auth/resources");
    let mut checked = 0;
    for kind in ["dkim", "arc"] {
        for entry in std::fs::read_dir(folder.join(kind)).unwrap().flatten() {
            let text = std::fs::read_to_string(entry.path()).unwrap();
            let (records, mail) = text.split_once("\n\n").unwrap();
            let lines = records.lines().filter_map(|line| line.split_once(' '));
            let Some(zone) = Zone::serve(&lines.map(|(n, t)| txt(n, t)).collect::<String>()) else {
                return;
            };
            let mail = mail.replace('\n', "\r\n");
            let facts =
                collector(zone.address()).gather(&envelope("10.0.0.1", ""), mail.as_bytes()).await;
            let what = format!("{}: {:?}", entry.path().display(), facts.notes);
            // A key of 768 bits verifies in one of them; RFC 8301 wants 1024.
            let passes = |result| result == AuthResult::Pass || result == AuthResult::Policy;
            match kind {
                "dkim" => assert!(facts.dkim.last().is_some_and(|s| passes(s.result)), "{what}"),
                _ => {
                    assert_eq!(facts.arc, AuthResult::Pass, "{what}");
                    assert!(facts.dkim.iter().any(|s| passes(s.result)), "{what}");
                }
            }
            checked += 1;
        }
    }
    eprintln!("{checked} files pass");
    assert!(checked >= 8, "{checked}");
}
