//! Any bytes as a message with ARC sets: they are read and verified without a panic, a set of ours
//! is three whole fields with the next number, and only sealers that are trusted vouch for a
//! domain.

use std::net::{SocketAddr, UdpSocket};
use std::sync::{Arc, OnceLock};

use gauntlet_gateway::config::{DnsSettings, FactSettings};
use gauntlet_gateway::facts::FactCollector;
use gauntlet_gateway::facts::sealers;
use gauntlet_gateway::net::resolver::Resolver;
use gauntlet_gateway::outbound::arc::{Chain, Sealing, seal};
use gauntlet_mail::facts::AuthResult;
use gauntlet_mail::{Direction, Envelope};

/// A key record for every name that is requested; none of the seeds is signed by it.
const KEY: &str = "v=DKIM1; k=ed25519; p=11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=";

/// Seals and verifies the input.
pub(crate) fn ask(raw: &[u8]) {
    let mut instances = Vec::new();
    for chain in [Chain::None, Chain::Pass, Chain::Fail] {
        instances.push(seal_once(raw, chain));
    }
    assert!(instances.windows(2).all(|two| two[0] == two[1]), "the number does not depend on cv=");
    verify(raw);
    let text = String::from_utf8_lossy(raw);
    let (sealers, results) = text.split_once('|').unwrap_or(("lists.example", &text));
    let chain = sealers::Chain {
        sealers: sealers.split(',').map(str::to_owned).collect(),
        first_results: results.to_owned(),
    };
    let trusted = ["lists.example".to_owned()];
    if chain.vouches_for("bank.example", &trusted) {
        let is_below = |s: &String| s == "lists.example" || s.ends_with(".lists.example");
        assert!(chain.sealers.iter().all(is_below), "{:?}", chain.sealers);
        assert!(results.to_ascii_lowercase().contains("dmarc=pass"), "{results}");
    }
    assert!(
        !chain.vouches_for("bank.example", &[])
            && !chain.vouches_for("bank.example", &[String::new()])
    );
}

/// Our set: its number, or none if the chain is over.
fn seal_once(raw: &[u8], chain: Chain) -> Option<u32> {
    let sealing = Sealing {
        host: "gw.example",
        domain: "hop.example",
        selector: "s1",
        algorithm: "ed25519-sha256",
        chain,
        otherwise: "arc=none",
        now: 1_800_000_000,
    };
    let sign =
        |bytes: &[u8]| Ok(ring::digest::digest(&ring::digest::SHA256, bytes).as_ref().to_vec());
    let fields = seal(&raw.into(), &sealing, sign).expect("signing works")?;
    assert!(fields.ends_with("\r\n"), "{fields:?}");
    let bare = fields.replace("\r\n", "");
    assert!(!bare.contains(['\r', '\n']), "{fields:?}");
    let names: Vec<&str> = fields
        .split("\r\n")
        .filter(|line| !line.starts_with(['\t', ' ']))
        .map(|line| line.split(':').next().unwrap_or_default())
        .collect();
    let expected = ["ARC-Seal", "ARC-Message-Signature", "ARC-Authentication-Results", ""];
    assert_eq!(names, expected, "{fields:?}");
    let number = fields.split("ARC-Authentication-Results: i=").nth(1).expect("a number");
    let number = number.split(';').next().and_then(|i| i.parse().ok()).expect("a number");
    assert!((1..=50).contains(&number), "{number}");
    // Sealed again, the number is the next one, unless our seal says that the chain failed.
    let again = [fields.as_bytes(), raw].concat();
    let next = seal(&again[..].into(), &sealing, sign).expect("signing works");
    let next_number = format!("ARC-Authentication-Results: i={};", number + 1);
    match next {
        Some(next) => assert!(chain != Chain::Fail && next.contains(&next_number), "{next}"),
        None => assert!(chain == Chain::Fail || number == 50, "{number}"),
    }
    Some(number)
}

/// The facts of the message, with keys from a resolver of the test.
fn verify(raw: &[u8]) {
    static COLLECTOR: OnceLock<(tokio::runtime::Runtime, FactCollector)> = OnceLock::new();
    let (runtime, collector) = COLLECTOR.get_or_init(|| {
        let dns = DnsSettings { servers: vec![serve_keys().to_string()], ..DnsSettings::default() };
        let resolver = Arc::new(Resolver::new(&dns).expect("a resolver"));
        let mut runtime = tokio::runtime::Builder::new_multi_thread();
        let runtime = runtime.worker_threads(1).enable_all().build().expect("a runtime");
        let collector = FactCollector::new(resolver, &FactSettings::default(), &[], "gw.example");
        (runtime, collector.expect("a collector"))
    });
    // Mail of our own users: only signatures are looked at, not where it comes from.
    let envelope = Envelope {
        direction: Direction::Inbound,
        received_at: 1_800_000_000,
        ..Envelope::default()
    };
    let facts = runtime.block_on(collector.gather(&envelope, raw));
    assert!(facts.arc != AuthResult::Pass, "nobody has the key");
    assert!(facts.dkim.iter().all(|one| one.result != AuthResult::Pass), "nobody has the key");
}

/// A DNS server that answers every question for TXT with [`KEY`], and every other with nothing.
fn serve_keys() -> SocketAddr {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a port");
    let address = socket.local_addr().expect("an address");
    std::thread::spawn(move || {
        let mut packet = [0; 4_096];
        while let Ok((length, from)) = socket.recv_from(&mut packet) {
            let _a_lost_answer_is_asked_for_again =
                answer(&packet[..length]).and_then(|answer| socket.send_to(&answer, from).ok());
        }
    });
    address
}

/// Header (RFC 1035 section 4.1.1), the question as it came, and at most one record.
fn answer(question: &[u8]) -> Option<Vec<u8>> {
    let mut end = 12;
    while *question.get(end)? != 0 {
        end += 1 + usize::from(*question.get(end)?);
    }
    let kind = question.get(end + 1..end + 3)?;
    let is_txt = kind == [0, 16];
    let mut out = question.get(..2)?.to_vec();
    out.extend([0x81, 0x80, 0, 1, 0, u8::from(is_txt), 0, 0, 0, 0]);
    out.extend_from_slice(question.get(12..end + 5)?);
    if is_txt {
        let length = u8::try_from(KEY.len()).ok()?;
        out.extend([0xc0, 12, 0, 16, 0, 1, 0, 0, 0x0e, 0x10, 0, length + 1, length]);
        out.extend_from_slice(KEY.as_bytes());
    }
    Some(out)
}
