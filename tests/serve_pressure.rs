//! A scan pool that is full: every protocol defers its clients in its own words, and what they
//! bring again is judged. Nothing is lost, and nothing passes unjudged.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::common::{Node, PATIENCE, Smtp, message};

/// Messages brought at once to each protocol.
const AT_ONCE: usize = 12;

/// What a protocol said of a message.
#[derive(Debug, PartialEq, Eq)]
enum Said {
    Verdict,
    Later,
}

/// Where each protocol is.
type Places = BTreeMap<&'static str, String>;

/// One scan thread, room for one more, and nobody waits.
fn node() -> Node {
    let mut config = "[facts]\nenabled = false\n[receiver]\nmemory_bytes_max = 1_000_000_000\n\
                      [scan]\nthreads = 1\nqueue_max = 1\nwait_seconds_max = 0\n"
        .to_owned();
    for protocol in ["spamd", "rspamd", "http", "milter"] {
        config += &format!("[[service]]\nprotocol = \"{protocol}\"\naddress = \"127.0.0.1:0\"\n");
    }
    Node::start(&config)
}

/// A message that takes a while to judge: half a megabyte of different words, and as many links as
/// are all read (with more it would be held for that).
fn heavy(token: &str) -> Vec<u8> {
    let mut mail = message(token, 0);
    for i in 0..9_000 {
        let link =
            if i % 5 == 0 { format!("https://host{i}.example/{token}/{i}") } else { String::new() };
        let line = format!("word{i} {link} free offer number {i} of {} this week!\r\n", i * 7_919);
        mail.extend_from_slice(line.as_bytes());
    }
    mail
}

fn talk(place: &str, bytes: &[u8]) -> Vec<u8> {
    let mut stream = TcpStream::connect(place).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    // Every request ends by itself: who closes his side early gives up on HTTP.
    stream.write_all(bytes).unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    answer
}

fn spamd(places: &Places, mail: &[u8]) -> Said {
    let head = format!("SYMBOLS SPAMC/1.5\r\nContent-length: {}\r\n\r\n", mail.len());
    let answer = talk(&places["spamd"], &[head.as_bytes(), mail].concat());
    let text = String::from_utf8_lossy(&answer).into_owned();
    match text.split_whitespace().nth(1) {
        Some("0") => Said::Verdict,
        Some("75") => Said::Later,
        _ => panic!("{text}"),
    }
}

fn http(
    places: &Places,
    service: &str,
    path: &str,
    mail: &[u8],
) -> (u16, serde_json::Value, String) {
    let head = format!(
        "POST {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: {}\r\n\r\n",
        mail.len()
    );
    let answer = talk(&places[service], &[head.as_bytes(), mail].concat());
    let text = String::from_utf8_lossy(&answer).into_owned();
    let (head, body) = text.split_once("\r\n\r\n").expect("a head and a body");
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    (status, serde_json::from_str(body).unwrap_or_default(), head.to_lowercase())
}

fn rspamd(places: &Places, mail: &[u8]) -> Said {
    let (status, value, _) = http(places, "rspamd", "/checkv2", mail);
    assert_eq!(status, 200, "{value}");
    match value["action"].as_str() {
        Some("soft reject") => Said::Later,
        Some(_) => Said::Verdict,
        None => panic!("{value}"),
    }
}

fn own(places: &Places, mail: &[u8]) -> Said {
    let (status, value, head) = http(places, "http", "/v1/scan?rcpt=bob@example.net", mail);
    match status {
        200 => Said::Verdict,
        503 => {
            assert!(head.contains("retry-after: "), "{head}");
            Said::Later
        }
        _ => panic!("{status} {value}"),
    }
}

fn milter(places: &Places, mail: &[u8]) -> Said {
    let packet = |command: u8, data: &[u8]| {
        let length = u32::try_from(data.len() + 1).unwrap().to_be_bytes();
        [&length[..], &[command], data].concat()
    };
    let end = mail.windows(4).position(|w| w == b"\r\n\r\n").unwrap();
    let mut bytes = packet(b'O', &[0, 0, 0, 6, 0, 0, 1, 0xff, 0, 0x0f, 0xf0, 0x80]);
    bytes.extend(packet(b'M', b"<ann@example.org>\0"));
    bytes.extend(packet(b'R', b"<bob@example.net>\0"));
    for line in String::from_utf8_lossy(&mail[..end]).split("\r\n") {
        let (name, value) = line.split_once(": ").unwrap();
        bytes.extend(packet(b'L', format!("{name}\0{value}\0").as_bytes()));
    }
    bytes.extend(mail[end + 4..].chunks(60_000).flat_map(|piece| packet(b'B', piece)));
    bytes.extend(packet(b'E', b""));
    bytes.extend(packet(b'Q', b""));
    let mut answer = talk(&places["milter"], &bytes);
    let mut last = Vec::new();
    while let Some(length) = answer.first_chunk::<4>().map(|l| u32::from_be_bytes(*l) as usize) {
        last = answer.drain(..4 + length).skip(4).collect();
    }
    match last.first() {
        Some(b'a' | b'c') => Said::Verdict,
        Some(b'y') if last[1..].starts_with(b"451") => Said::Later,
        Some(b't') => Said::Later,
        _ => panic!("{:?}", String::from_utf8_lossy(&last)),
    }
}

fn smtp(places: &Places, mail: &[u8]) -> Said {
    let mut client = Smtp::connect(places["smtp"].parse().unwrap()).unwrap();
    let reply = client.send("ann@example.org", &["bob@example.net"], mail).unwrap();
    match reply.get(..3) {
        Some("250") => Said::Verdict,
        Some("451") => Said::Later,
        _ => panic!("{reply}"),
    }
}

/// Brings the same kind of message often and at once, and again until each was judged. How many
/// were deferred.
fn bring(places: &Places, protocol: &str, ask: fn(&Places, &[u8]) -> Said) -> usize {
    let deferred = AtomicUsize::new(0);
    let begin = std::sync::Barrier::new(AT_ONCE);
    std::thread::scope(|scope| {
        for i in 0..AT_ONCE {
            let (deferred, begin) = (&deferred, &begin);
            scope.spawn(move || {
                let mail = heavy(&format!("{protocol}{i}"));
                begin.wait();
                while ask(places, &mail) == Said::Later {
                    deferred.fetch_add(1, Ordering::Relaxed);
                    std::thread::sleep(Duration::from_millis(30));
                }
            });
        }
    });
    deferred.into_inner()
}

#[test]
fn a_full_scan_pool_defers_by_every_protocol_and_loses_nothing() {
    type Ask = fn(&Places, &[u8]) -> Said;
    let mut node = node();
    let protocols: [(&str, Ask); 5] =
        [("spamd", spamd), ("rspamd", rspamd), ("http", own), ("milter", milter), ("smtp", smtp)];
    let services = ["spamd", "rspamd", "http", "milter"];
    let mut places: Places = services.map(|name| (name, node.place(name).to_owned())).into();
    places.insert("smtp", node.smtp.to_string());
    for (protocol, ask) in protocols {
        let deferred = bring(&places, protocol, ask);
        assert!(deferred > 0, "{protocol}: twelve at once are more than two");
    }
    node.wait_for_empty_queue();
    assert_eq!(node.maildir().len(), AT_ONCE, "those that came by SMTP");
    node.stop();
    // A line for each that was judged, none for those deferred; each names its protocol.
    let log = gauntlet_store::Log::open(&node.data().join("log")).unwrap();
    let query = gauntlet_store::Query { limit: 500, ..Default::default() };
    let all = log.search(&query).unwrap().messages;
    assert_eq!(all.len(), protocols.len() * AT_ONCE);
    let mut lines = BTreeMap::<String, usize>::new();
    for summary in &all {
        let record = log.get(&summary.id).unwrap().unwrap().record;
        let answered = record.stages.iter().find(|stage| stage.name == "answered");
        let protocol = answered.map_or("", |stage| stage.detail.split(':').next().unwrap());
        *lines.entry(protocol.to_owned()).or_default() += 1;
    }
    for protocol in ["spamd", "rspamd", "http"] {
        assert_eq!(lines.get(protocol), Some(&AT_ONCE), "{lines:?}");
    }
}
