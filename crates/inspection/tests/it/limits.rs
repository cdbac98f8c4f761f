//! What is not seen whole, and what no judge could judge.

use std::net::SocketAddrV4;
use std::path::Path;
use std::sync::{Arc, Mutex};

use futures_util::future::BoxFuture;
use gauntlet_ids::config::Settings as Suricata;
use gauntlet_ids::eve::Finder;
use gauntlet_ids::replay::{Options, Replayer};
use gauntlet_inspection::{Inspector, JudgeMail, Kinds, Parts, Settings};
use gauntlet_mail::Envelope;
use gauntlet_proxy::content::{Download, ScanDownload, ScanVerdict};
use gauntlet_verdict::{Class, Verdict};
use serde_json::Value;

use crate::capture::{By, Capture};

/// Messages that were judged, with who sent them.
type Seen = Arc<Mutex<Vec<(Vec<u8>, Envelope)>>>;

/// Finds what it is told to, and fails where a message says so.
struct Judge(Class, Seen);

impl JudgeMail for Judge {
    fn judge(&mut self, raw: &[u8], envelope: &Envelope) -> Result<Verdict, String> {
        self.1.lock().unwrap().push((raw.to_vec(), envelope.clone()));
        if raw.starts_with(b"X-Fail") {
            return Err("the engine is down".to_owned());
        }
        Ok(Verdict { class: self.0, ..Verdict::default() })
    }
}

struct Scanner;

impl ScanDownload for Scanner {
    fn scan(&self, download: Download) -> BoxFuture<'static, ScanVerdict> {
        Box::pin(async move {
            match download.bytes.windows(3).any(|part| part == b"bad") {
                true => ScanVerdict::Found { name: "Bad".to_owned() },
                false => ScanVerdict::Clean,
            }
        })
    }
}

fn settings() -> Settings {
    Settings {
        kinds: Kinds { mail: true, files: true, ..Kinds::default() },
        message_bytes_max: 1_000,
        messages_held_bytes_max: 10_000,
        file_bytes_max: 1_000,
        files_held_bytes_max: 1_500,
        files_max: 2,
        drop_on: None,
    }
}

/// What is found in a capture.
fn find(capture: &Capture, class: Class, settings: &Settings) -> (Vec<Value>, Seen) {
    find_on(1, capture, class, settings)
}

fn find_on(
    threads: usize,
    capture: &Capture,
    class: Class,
    settings: &Settings,
) -> (Vec<Value>, Seen) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a.pcap");
    capture.write(&file);
    let options = Options {
        settings: Suricata::stock(),
        directory: Path::new("").to_owned(),
        rules: Vec::new(),
        inline: false,
        checksums: None,
    };
    let seen = Seen::default();
    let finders = || {
        let mail = Some(Box::new(Judge(class, Arc::clone(&seen))) as Box<dyn JudgeMail>);
        let parts = Parts { mail, web: None, scanner: Some(Arc::new(Scanner)) };
        let inspector = Inspector::new(settings.clone(), parts, false)?;
        Ok(Box::new(inspector) as Box<dyn Finder + Send>)
    };
    let replayer = Replayer::new(&options).unwrap().on_threads(threads.try_into().unwrap());
    let replayer =
        replayer.telling(Inspector::wishes_of(settings), Inspector::mail_settings(settings));
    let mut found = Vec::new();
    let mut line = |line: &str| {
        let record: Value = serde_json::from_str(line).unwrap();
        if record["event_type"] == "gauntlet" {
            found.push(record);
        }
    };
    replayer.run_beside(&file, &mut line, Some(&finders)).unwrap();
    (found, seen)
}

fn ends(client: u16, server: u16) -> [SocketAddrV4; 2] {
    [
        SocketAddrV4::new([192, 0, 2, 1].into(), client),
        SocketAddrV4::new([192, 0, 2, 2].into(), server),
    ]
}

/// A session with a message, which ends behind it or within it.
fn smtp(client: u16, message: &str) -> Capture {
    let mut capture = Capture::new();
    session(&mut capture, ends(client, 25), message);
    capture
}

fn session(capture: &mut Capture, ends: [SocketAddrV4; 2], message: &str) {
    let talk: [(By, &[u8]); 5] = [
        (By::Server, b"220 x\r\n"),
        (By::Client, b"EHLO c.example\r\nMAIL FROM:<a@b.example>\r\n"),
        (By::Client, b"RCPT TO:<c@d.example>\r\nRCPT TO:<no@d.example>\r\nDATA\r\n"),
        (By::Server, b"250 ok\r\n250 ok\r\n250 ok\r\n550 no\r\n354 go on\r\n"),
        (By::Client, message.as_bytes()),
    ];
    capture.tcp(ends, &talk);
}

/// Each thread judges what its own flows carry.
#[test]
fn several_threads_find_what_one_finds() {
    let mut capture = Capture::new();
    for host in 1..=40 {
        let client = SocketAddrV4::new([192, 0, 2, host].into(), 4_000);
        let server = SocketAddrV4::new([198, 51, 100, host].into(), 25);
        let message = format!("A: {host}\r\n\r\nc\r\n.\r\n");
        session(&mut capture, [client, server], &message);
    }
    let (one, _) = find_on(1, &capture, Class::Spam, &settings());
    let (three, seen) = find_on(3, &capture, Class::Spam, &settings());
    assert_eq!((one.len(), seen.lock().unwrap().len()), (40, 40));
    let ends = |found: &[Value]| {
        let end = |record: &Value| (record["timestamp"].clone(), record["src_ip"].clone());
        found.iter().map(end).collect::<Vec<_>>()
    };
    assert_eq!(ends(&one), ends(&three));
}

#[test]
fn a_message_comes_with_its_envelope() {
    let (found, seen) = find(&smtp(4_000, "A: b\r\n\r\nc\r\n.\r\n"), Class::Ham, &settings());
    let (raw, envelope) = seen.lock().unwrap().remove(0);
    assert_eq!(raw, b"A: b\r\n\r\nc\r\n");
    assert_eq!(envelope.client_ip, Some([192, 0, 2, 1].into()));
    let said = (&*envelope.helo, &*envelope.mail_from, &envelope.rcpt_to[..]);
    assert_eq!(said, ("c.example", "a@b.example", &["c@d.example".to_owned()][..]));
    let record = &found[0];
    assert_eq!((&record["src_port"], &record["app_proto"]), (&4_000.into(), &"smtp".into()));
    let found = &record["gauntlet"];
    assert_eq!((&found["class"], &found["end"]), (&"ham".into(), &"whole".into()));
    assert_eq!(found["envelope"]["rcpt_to"], serde_json::json!(["c@d.example"]));
}

#[test]
fn what_is_not_seen_whole_is_unscannable_unless_it_is_worse() {
    let long = format!("A: b\r\n\r\n{}\r\n.\r\n", "x".repeat(2_000));
    for (message, judged, class, end) in [
        ("A: b\r\n\r\nc", Class::Spam, "unscannable", "cut"),
        ("A: b\r\n\r\nc", Class::Malware, "malware", "cut"),
        (long.as_str(), Class::Ham, "unscannable", "too_large"),
        ("A: b\r\n\r\nc\n.\r\nd\r\n.\r\n", Class::Ham, "unscannable", "whole"),
        ("X-Fail: b\r\n\r\nc\r\n.\r\n", Class::Ham, "unscannable", "whole"),
    ] {
        let (found, _) = find(&smtp(4_000, message), judged, &settings());
        let found = &found[0]["gauntlet"];
        assert_eq!((&found["class"], &found["end"]), (&class.into(), &end.into()), "{found}");
    }
}

/// Files by FTP, over one control connection.
fn ftp(files: &[&str]) -> Capture {
    let mut capture = Capture::new();
    for (number, content) in (0_u16..).zip(files) {
        let port = 40_000 + number;
        let passive = format!("227 ok (192,0,2,2,{},{})\r\n", port >> 8, port & 0xff);
        let talk: [(By, &[u8]); 7] = [
            (By::Server, b"220 ready\r\n"),
            (By::Client, b"USER anonymous\r\n"),
            (By::Server, b"230 in\r\n"),
            (By::Client, b"PASV\r\n"),
            (By::Server, passive.as_bytes()),
            (By::Client, b"RETR a/f.bin\r\n"),
            (By::Server, b"150 begins\r\n"),
        ];
        capture.tcp(ends(30_000 + number, 21), &talk);
        capture.tcp(ends(31_000 + number, port), &[(By::Server, content.as_bytes())]);
    }
    capture
}

#[test]
fn a_file_is_found_clean_or_not_judged_whole() {
    let long = "x".repeat(1_001);
    let long_and_bad = format!("bad{}", "x".repeat(400)).repeat(3);
    let files = ["this is bad", "this is fine", &long, &long_and_bad];
    let (found, _) = find(&ftp(&files), Class::Ham, &settings());
    let told: Vec<_> = found
        .iter()
        .map(|record| {
            let found = &record["gauntlet"];
            let text = |name: &str| found[name].as_str().unwrap_or_default().to_owned();
            [text("verdict"), text("class"), text("detail")]
        })
        .collect();
    let expected = [
        ["found", "malware", "Bad"],
        ["clean", "ham", ""],
        ["failed", "unscannable", "file_bytes_max"],
    ];
    assert_eq!(told[..3], expected, "{found:?}");
    assert_ne!(told[3][1], "ham", "{found:?}");
}
