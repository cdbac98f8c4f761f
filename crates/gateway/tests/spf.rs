//! SPF against a real DNS server: limits, strange records, and the shared vectors.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use crate::zone::{Zone, txt};
use gauntlet_gateway::config::DnsSettings;
use gauntlet_gateway::facts::lookup_context::LookupContext;
use gauntlet_gateway::facts::spf::{Checked, Subject, check};
use gauntlet_gateway::net::resolver::Resolver;
use gauntlet_mail::facts::AuthResult;

fn resolver(zone: &Zone) -> Resolver {
    let servers = vec![zone.address().to_string()];
    Resolver::new(&DnsSettings { servers, ..DnsSettings::default() }).unwrap()
}

async fn ask(resolver: &Resolver, client: &str, helo: &str, mail_from: &str) -> (Checked, usize) {
    let lookups = LookupContext::new(resolver, 200, Duration::from_secs(10));
    let client = client.parse::<IpAddr>().unwrap();
    let subject = Subject { client, helo, mail_from, host: "here.example", now: 0 };
    let checked = check(&lookups, &subject).await;
    (checked, lookups.finish().0.len())
}

fn result(word: &str) -> AuthResult {
    serde_json::from_value(serde_json::Value::from(word)).unwrap()
}

/// Records at the limits, beyond them, and malformed ones.
fn strange_records() -> String {
    let mut records = String::new();
    // Ten terms that ask are fine, the eleventh is not.
    for (name, count) in [("ten", 10), ("eleven", 11)] {
        let terms: Vec<String> = (0..count).map(|n| format!("a:h{n}.example")).collect();
        records.push_str(&txt(
            &format!("{name}.example"),
            &format!("v=spf1 {} -all", terms.join(" ")),
        ));
    }
    for n in 0..11 {
        records.push_str(&format!("h{n}.example A 198.51.100.{n}\n"));
        let next = format!("v=spf1 include:i{}.example -all", n + 1);
        records.push_str(&txt(&format!("i{n}.example"), &next));
    }
    records.push_str(&txt("loop.example", "v=spf1 include:loop.example -all"));
    records.push_str(&txt("round.example", "v=spf1 redirect=about.example"));
    records.push_str(&txt("about.example", "v=spf1 redirect=round.example"));
    records.push_str(&txt(
        "void.example",
        "v=spf1 a:n1.example a:n2.example a:n3.example ip4:192.0.2.1 -all",
    ));
    records.push_str(&txt("twice.example", "v=spf1 -all"));
    records.push_str(&txt("twice.example", "v=spf1 +all"));
    records.push_str(&txt("bad.example", "v=spf1 ip4:1.2.3 -all"));
    records.push_str(&txt("other.example", "v=spf10 -all"));
    records.push_str(&txt("fails.example", "v=spf1 include:x.broken.example -all"));
    records.push_str(&txt("gone.example", "v=spf1 include:nowhere.example -all"));
    records.push_str(&txt("to.example", "v=spf1 redirect=nowhere.example"));
    records.push_str(&txt("mx.example", "v=spf1 mx -all"));
    for n in 0..11 {
        records.push_str(&format!("mx.example MX {n} h{n}.example.\n"));
    }
    for n in 0..200 {
        records.push_str(&txt("huge.example", &format!("{n}{}", "x".repeat(200))));
    }
    records.push_str(&txt("xn--mller-kva.example", "v=spf1 ip4:192.0.2.0/24 -all"));
    records.push_str(&txt("why.example", "v=spf1 -all exp=x.why.example"));
    records.push_str(&txt("x.why.example", "%{i} is not of %{d}%_(%{c}, %{r})"));
    records
}

#[tokio::test]
async fn limits_and_strange_records() {
    let Some(zone) = Zone::serve(&strange_records()) else { return };
    let resolver = resolver(&zone);
    for (domain, word, reason, questions_max) in [
        ("ten.example", "fail", "", 11),
        ("eleven.example", "permerror", "more than 10 terms", 11),
        ("i0.example", "permerror", "more than 10 terms", 11),
        ("loop.example", "permerror", "more than 10 terms", 1),
        ("round.example", "permerror", "more than 10 terms", 2),
        ("void.example", "permerror", "have nothing", 4),
        ("twice.example", "permerror", "several", 1),
        ("bad.example", "permerror", "ip4:1.2.3", 1),
        ("other.example", "none", "", 1),
        ("fails.example", "temperror", "x.broken.example: failed", 2),
        ("gone.example", "permerror", "nowhere.example has no SPF record", 2),
        ("to.example", "permerror", "nowhere.example has no SPF record", 2),
        ("mx.example", "permerror", "more than 10 mail exchangers", 12),
        ("huge.example", "permerror", "too many", 1),
        ("nowhere.example", "none", "", 1),
        ("m\u{fc}ller.example", "pass", "", 1),
        ("", "none", "", 0),
        ("[192.0.2.1]", "none", "", 0),
        ("localhost", "none", "", 0),
        (&"a.".repeat(200), "none", "", 0),
    ] {
        let (checked, questions) =
            ask(&resolver, "192.0.2.1", "mail.example", &format!("a@{domain}")).await;
        assert_eq!(checked.result, result(word), "{domain}: {checked:?}");
        let said = checked.reason.unwrap_or_default();
        assert!(said.contains(reason), "{domain}: {said}");
        assert!(questions <= questions_max, "{domain}: {questions} questions");
    }
    let (checked, _) = ask(&resolver, "192.0.2.1", "x", "a@why.example").await;
    let expected = "192.0.2.1 is not of why.example (192.0.2.1, here.example)";
    assert_eq!(checked.explanation.as_deref(), Some(expected));
    // A message may not ask more than it may, and without an answer there is no result.
    let lookups = LookupContext::new(&resolver, 3, Duration::from_secs(10));
    let subject = Subject {
        client: "2001:db8::1".parse().unwrap(),
        helo: "x",
        mail_from: "a@ten.example",
        host: "here.example",
        now: 0,
    };
    assert_eq!(check(&lookups, &subject).await.result, AuthResult::TempError);
}

#[tokio::test]
async fn nobody_answers_is_a_passing_error() {
    let (_silent, address) = crate::zone::silent();
    let settings = DnsSettings {
        servers: vec![address.to_string()],
        timeout_ms: 100,
        wait_ms_max: 10_000,
        ..DnsSettings::default()
    };
    let resolver = Resolver::new(&settings).unwrap();
    let lookups = LookupContext::new(&resolver, 10, Duration::from_millis(150));
    let client = "192.0.2.1".parse().unwrap();
    let subject = Subject { client, helo: "x", mail_from: "a@b.example", host: "h", now: 0 };
    let start = std::time::Instant::now();
    assert_eq!(check(&lookups, &subject).await.result, AuthResult::TempError);
    assert!(start.elapsed() < Duration::from_secs(2));
}

/// Records of a file of vectors so far: (name, kind) to lines of the zone.
#[derive(Default)]
struct Records {
    lines: BTreeMap<(String, &'static str), Vec<String>>,
    zone: Option<(Zone, Resolver)>,
}

impl Records {
    fn set(&mut self, name: &str, kind: &'static str, lines: Vec<String>) {
        let name = name.trim().trim_end_matches('.').to_lowercase();
        // Names that no zone can hold cannot be found in one either.
        if name.len() <= 253 && name.split('.').all(|label| (1..=63).contains(&label.len())) {
            self.lines.insert((name, kind), lines);
            self.zone = None;
        }
    }

    fn resolver(&mut self) -> Option<&Resolver> {
        if self.zone.is_none() {
            let zone = Zone::serve(&self.lines.values().flatten().cloned().collect::<String>())?;
            let resolver = resolver(&zone);
            self.zone = Some((zone, resolver));
        }
        self.zone.as_ref().map(|(_, resolver)| resolver)
    }

    /// A line of the vectors that defines records.
    fn read(&mut self, kind: &str, value: &str) {
        let Some((name, data)) = value.split_once(' ') else { return };
        let items = || data.split(',').map(str::trim).filter(|i| !i.is_empty());
        match kind {
            "spf" => self.set(name, "spf", vec![txt(name, data.trim())]),
            "exp" => self.set(name, "spf", vec![txt(name, data.trim())]),
            "a" => self.set(name, "a", items().map(|ip| format!("{name} A {ip}\n")).collect()),
            "aaaa" => {
                self.set(name, "aaaa", items().map(|ip| format!("{name} AAAA {ip}\n")).collect());
            }
            "ptr" => {
                let Ok(ip) = name.parse() else { return };
                let at = gauntlet_gateway::net::resolver::reverse_name(ip);
                let lines = items().map(|n| format!("{at} PTR {}.\n", n.trim_end_matches('.')));
                self.set(&at, "ptr", lines.collect());
            }
            "mx" => {
                let mut lines = Vec::new();
                for (n, ip) in items().enumerate() {
                    let host = format!("mx-{n}-{}.{name}", ip.replace([':', '.'], "-"));
                    let kind = if ip.contains(':') { "AAAA" } else { "A" };
                    lines.push(format!("{name} MX {n} {host}.\n{host} {kind} {ip}\n"));
                }
                self.set(name, "mx", lines);
            }
            _ => {}
        }
    }
}

/// Vectors that contradict the RFC: file, sender, and what the RFC asks for. `exists` looks for A
/// records only, whatever the client's address is (RFC 7208 section 5.7); more than two names that
/// have nothing are too many (section 4.6.4); which of eleven names are the first ten is the
/// server's choice, and this one's right name is among ours.
const AGAINST_THE_RFC: [(&str, &str, &str); 4] = [
    ("macro.yml", "2001:db8::cb01 strong-bad@email.example.com", "fail"),
    ("exists.yml", "167.1.2.3 sender@ip6.test.org", "fail"),
    ("basic.yml", "172.168.0.1 sender@ok.test.org", "permerror"),
    ("basic.yml", "10.0.0.11 sender@ptr.test.org", "pass"),
];

/// Runs one file; returns the number of checks.
async fn run_vectors(path: &std::path::Path, failed: &mut Vec<String>) -> usize {
    let text = std::fs::read_to_string(path).unwrap();
    let (mut records, mut checks) = (Records::default(), 0);
    for document in text.split("---\n") {
        let (mut name, mut helo, mut sender, mut client) = ("", "", "", "127.0.0.1");
        for line in document.lines() {
            let line = line.trim().trim_start_matches('-').trim();
            let Some((key, value)) = line.split_once(':') else { continue };
            let value = value.trim();
            match key {
                "name" => name = value,
                "domain" => helo = value,
                "sender" => sender = value,
                "ip" => client = value,
                "expect" => {
                    let (word, explanation) = value.split_once(' ').unwrap_or((value, ""));
                    let Some(resolver) = records.resolver() else { return 0 };
                    let (of_helo, _) = ask(resolver, client, helo, "").await;
                    let (mut checked, _) = ask(resolver, client, helo, sender).await;
                    if of_helo.result == AuthResult::Fail {
                        checked = of_helo;
                    }
                    let contradicts = |(file, from, _): &&(&str, &str, &str)| {
                        path.ends_with(file) && format!("{client} {sender}") == *from
                    };
                    let rfc = AGAINST_THE_RFC.iter().find(contradicts);
                    let word = rfc.map_or(word, |(_, _, word)| word);
                    let what = format!("{}, {name}: {client} {helo} {sender}", path.display());
                    if checked.result != result(word) {
                        failed.push(format!("{what}: not {word} but {checked:?}"));
                    }
                    if !explanation.is_empty() {
                        assert_eq!(checked.explanation.as_deref(), Some(explanation), "{what}");
                    }
                    checks += 1;
                }
                kind => records.read(kind, value),
            }
        }
    }
    checks
}

#[tokio::test]
async fn shared_vectors() {
    let Some(corpus) = std::env::var_os("GAUNTLET_CORPUS") else {
        eprintln!("skipped: GAUNTLET_CORPUS is not set");
        return;
    };
    let folder = std::path::Path::new(&corpus).join("fixtures/mail-auth/resources/spf");
    let (mut checks, mut failed) = (0, Vec::new());
    for entry in std::fs::read_dir(folder).unwrap().flatten() {
        if entry.path().extension().is_some_and(|e| e == "yml") {
            checks += run_vectors(&entry.path(), &mut failed).await;
        }
    }
    assert!(failed.is_empty(), "{} of {checks}:\n{}", failed.len(), failed.join("\n"));
    eprintln!("{checks} checks");
}
