//! The resolver against a real DNS server.

use std::time::{Duration, Instant};

use crate::zone::Zone;
use gauntlet_gateway::config::DnsSettings;
use gauntlet_gateway::net::resolver::{Data, Kind, Outcome, Resolver};

fn settings(server: std::net::SocketAddr) -> DnsSettings {
    DnsSettings {
        servers: vec![server.to_string()],
        timeout_ms: 2_000,
        wait_ms_max: 5_000,
        ..DnsSettings::default()
    }
}

#[tokio::test]
async fn answers_are_sorted_and_kept() {
    let Some(zone) = Zone::serve(
        "a.example A 192.0.2.2\na.example A 192.0.2.1\na.example AAAA 2001:db8::1\n\
         a.example MX 20 B.example.\na.example MX 10 c.example.\n\
         a.example TXT \"v=spf1 \" \"-all\"\n1.2.0.192.in-addr.arpa PTR A.example.\n\
         _25._tcp.a.example TLSA 3 1 1 00ff\nalias.example CNAME a.example.\n",
    ) else {
        return;
    };
    let resolver = Resolver::new(&settings(zone.address())).unwrap();
    let text = async |name: &str, kind: Kind| {
        let asked = resolver.ask(name, kind).await;
        let data: Vec<String> = asked.answer.data.iter().map(ToString::to_string).collect();
        (asked.answer.outcome.name(), data.join(" | "))
    };
    for _ in 0..2 {
        assert_eq!(text("A.Example.", Kind::A).await, ("answered", "192.0.2.1 | 192.0.2.2".into()));
        assert_eq!(text("alias.example", Kind::A).await.1, "192.0.2.1 | 192.0.2.2");
        assert_eq!(text("a.example", Kind::Aaaa).await.1, "2001:db8::1");
        assert_eq!(text("a.example", Kind::Mx).await.1, "10 c.example | 20 b.example");
        assert_eq!(text("a.example", Kind::Txt).await.1, "v=spf1 -all");
        assert_eq!(text("_25._tcp.a.example", Kind::Tlsa).await.1, "3 1 1 00ff");
        assert_eq!(text("gone.example", Kind::A).await, ("no such name", String::new()));
        assert_eq!(text("a.example", Kind::Ns).await, ("no such record", String::new()));
        let names = resolver.ask_names("192.0.2.1".parse().unwrap()).await;
        assert_eq!(names.answer.names().collect::<Vec<_>>(), ["a.example"]);
    }
    // Whatever was said is kept: nobody answers any more, and all is known.
    drop(zone);
    let asked = resolver.ask("a.example", Kind::Mx).await;
    assert!(asked.cached && asked.answer.outcome == Outcome::Answered);
    let asked = resolver.ask("gone.example", Kind::A).await;
    assert!(asked.cached && asked.answer.outcome == Outcome::NoName);
}

#[tokio::test]
async fn strange_answers_are_bounded() {
    let mut records = String::from(
        "loop1.example CNAME loop2.example.\nloop2.example CNAME loop1.example.\n\
         dangling.example CNAME gone.example.\n",
    );
    for n in 0..40 {
        records.push_str(&format!("chain{n}.example CNAME chain{}.example.\n", n + 1));
    }
    records.push_str("chain40.example A 192.0.2.1\n");
    for n in 0..600 {
        records.push_str(&format!("many.example A 10.0.{}.{}\n", n / 250, n % 250));
        records.push_str(&format!("huge.example TXT \"{n}{}\"\n", "x".repeat(90)));
    }
    let Some(zone) = Zone::serve(&records) else { return };
    let resolver = Resolver::new(&settings(zone.address())).unwrap();
    let outcome = async |name: &str, kind: Kind| resolver.ask(name, kind).await.answer.outcome;
    assert_eq!(outcome("loop1.example", Kind::A).await, Outcome::Looping);
    assert!(outcome("dangling.example", Kind::A).await.is_nothing());
    assert_eq!(outcome("chain0.example", Kind::A).await, Outcome::Looping);
    assert_eq!(outcome("many.example", Kind::A).await, Outcome::TooLarge);
    assert_eq!(outcome("huge.example", Kind::Txt).await, Outcome::TooLarge);
    for no_name in ["", ".", "a..b", "x y", &"a".repeat(64), &"a.".repeat(200), "\u{e9}.example"] {
        let outcome = outcome(no_name, Kind::A).await;
        assert_ne!(outcome, Outcome::Answered, "{no_name:?}");
        assert_ne!(outcome, Outcome::Timeout, "{no_name:?}");
    }
}

#[tokio::test]
async fn nobody_answers() {
    let (_silent, address) = crate::zone::silent();
    let settings = DnsSettings {
        timeout_ms: 200,
        wait_ms_max: 400,
        questions_max: 8,
        failure_seconds: 60,
        ..settings(address)
    };
    let resolver = std::sync::Arc::new(Resolver::new(&settings).unwrap());
    let start = Instant::now();
    let mut asked = tokio::task::JoinSet::new();
    for n in 0..40 {
        let resolver = resolver.clone();
        asked.spawn(async move {
            resolver.ask(&format!("name{}.example", n % 20), Kind::A).await.answer.outcome
        });
    }
    let outcomes = asked.join_all().await;
    let count = |outcome: Outcome| outcomes.iter().filter(|o| **o == outcome).count();
    assert_eq!(count(Outcome::Timeout) + count(Outcome::NotAsked), 40);
    assert!(count(Outcome::NotAsked) >= 24, "{outcomes:?}");
    assert!(start.elapsed() < Duration::from_secs(3), "the wait is bounded");
    // That nobody answered is known for a while. Whoever asks stops waiting as early as the
    // question ends: one more asker may still join it, the one after it cannot.
    assert_eq!(resolver.ask("name0.example", Kind::A).await.answer.outcome, Outcome::Timeout);
    let again = resolver.ask("name0.example", Kind::A).await;
    assert!(again.cached && again.answer.outcome == Outcome::Timeout);
}

#[tokio::test]
async fn signed_answers_are_distinguished_from_others() {
    let records = "mail.example A 192.0.2.1\n_25._tcp.mail.example TLSA 3 1 1 abcd\n";
    let (Some(signed), Some(plain)) = (Zone::serve_signed(records), Zone::serve(records)) else {
        return;
    };
    let with_key = DnsSettings {
        dnssec: true,
        trust_anchor: signed.trust_anchor(),
        ..settings(signed.address())
    };
    let resolver = Resolver::new(&with_key).unwrap();
    let tlsa = resolver.ask_secure("_25._tcp.mail.example", Kind::Tlsa).await.answer;
    assert!(tlsa.secure, "{tlsa:?}");
    let expected = Data::Tlsa { usage: 3, selector: 1, matching: 1, data: vec![0xab, 0xcd] };
    assert_eq!(tlsa.data, [expected]);
    assert!(!resolver.ask("_25._tcp.mail.example", Kind::Tlsa).await.answer.secure);
    assert_eq!(resolver.ask_secure("gone.example", Kind::A).await.answer.outcome, Outcome::NoName);
    // The same records without signatures are not what the key promises.
    let forged = DnsSettings { servers: vec![plain.address().to_string()], ..with_key };
    let resolver = Resolver::new(&forged).unwrap();
    let answer = resolver.ask_secure("_25._tcp.mail.example", Kind::Tlsa).await.answer;
    assert!(!answer.secure && answer.data.is_empty(), "{answer:?}");
}
