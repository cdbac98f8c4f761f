//! A digest of a running node: previewed, sent, followed; and what people want counts from then on.

use std::io::{Read, Write};
use std::process::{Command, Output};

use crate::common::{Node, Smtp};

fn digest(node: &Node, args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_gauntlet"))
        .arg("digest")
        .args(args)
        .args(["--config", node.folder.path().join("gauntlet.toml").to_str().unwrap()])
        .env_remove("GAUNTLET_CONFIG")
        .output()
        .unwrap()
}

fn post(node: &Node, path: &str) -> String {
    let mut stream = std::net::TcpStream::connect(node.console).unwrap();
    stream.set_read_timeout(Some(crate::common::PATIENCE)).unwrap();
    let host = node.console;
    let head = "Connection: close\r\nContent-Length: 0\r\n\r\n";
    write!(stream, "POST {path} HTTP/1.1\r\nHost: {host}\r\n{head}").unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text
}

/// Sends the sample that is spam.
fn spam(node: &Node) {
    let sample = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("samples/spam-pills.eml");
    let body = std::fs::read(sample).unwrap();
    let mut client = Smtp::connect(node.smtp).unwrap();
    let reply = client.send("shop@pills.example", &["ann@example.org"], &body).unwrap();
    assert!(reply.starts_with("250"), "{reply}");
    node.wait_for_empty_queue();
}

#[test]
fn a_digest_is_sent_once_and_its_links_are_obeyed() {
    let policy = "[[rule]]\nname = \"Spam\"\nwhen.class = \"spam\"\n\
        do = { quarantine = \"spam\" }\n";
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("policy.toml");
    std::fs::write(&file, policy).unwrap();
    let node =
        Node::start(&format!("[policy]\npath = {file:?}\n[digest]\nfrom = \"gw@example.org\"\n"));
    let nothing = digest(&node, &["preview", "ann@example.org"]);
    assert!(String::from_utf8_lossy(&nothing.stderr).contains("nothing new is held"));
    spam(&node);
    assert_eq!(node.maildir().len(), 0, "it is held");
    let preview = digest(&node, &["preview", "ann@example.org"]);
    let text = String::from_utf8(preview.stdout).unwrap();
    assert!(text.starts_with("From: gw@example.org\r\nTo: ann@example.org\r\n"), "{text}");
    // Nobody is written to where digests are off, unless it is forced.
    let off = digest(&node, &["send", "--now"]);
    assert_eq!(off.status.code(), Some(2), "{off:?}");
    assert!(String::from_utf8_lossy(&off.stderr).contains("digest.enabled is false"));
    let sent = digest(&node, &["send", "--now", "--force"]);
    let said = String::from_utf8_lossy(&sent.stdout).into_owned();
    assert_eq!(said, "1 digests sent, 0 failed\n", "{}", String::from_utf8_lossy(&sent.stderr));
    node.wait_for_empty_queue();
    assert_eq!(node.maildir().len(), 1, "the digest is delivered");
    assert_eq!(digest(&node, &["send", "--now", "--force"]).stdout, b"0 digests sent, 0 failed\n");
    // Release, and allow the sender: the held message comes, and the next is not held.
    let raw = node.maildir().remove(0);
    let message = gauntlet_mail::Message::parse(&raw);
    let part = message.parts().iter().find(|p| p.content_type.is("text", "plain")).unwrap();
    let link = part.text().unwrap().lines().filter_map(|l| l.trim().split_once("/link/")).nth(1);
    let answer = post(&node, &format!("/link/{}", link.unwrap().1));
    assert!(answer.starts_with("HTTP/1.1 200") && answer.contains("on its way"), "{answer}");
    node.wait_for_empty_queue();
    assert_eq!(node.maildir().len(), 2);
    spam(&node);
    assert_eq!(node.maildir().len(), 3, "her own list counts from the next message on");
}

#[test]
fn a_probe_account_gets_no_digest() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("policy.toml");
    let policy =
        "[[rule]]\nname = \"Spam\"\nwhen.class = \"spam\"\ndo = { quarantine = \"spam\" }\n";
    std::fs::write(&file, policy).unwrap();
    let node = Node::start(&format!(
        "[policy]\npath = {file:?}\n[digest]\nenabled = true\n[learning]\nprobes = [\"Ann@example.org\"]\n"
    ));
    spam(&node);
    let sent = digest(&node, &["send", "--now"]);
    assert_eq!(String::from_utf8_lossy(&sent.stdout), "0 digests sent, 0 failed\n");
    node.wait_for_empty_queue();
    assert_eq!(node.maildir().len(), 0);
}

/// The hour that it is, in UTC. Not in the last two minutes of a day: then the schedule's day could
/// end meanwhile.
fn this_hour() -> u64 {
    loop {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
        let second = now.as_secs() % 86_400;
        if second < 86_400 - 120 {
            return second / 3600;
        }
        std::thread::sleep(std::time::Duration::from_secs(1));
    }
}

/// A message's part of this type, decoded.
fn part(raw: &[u8], kind: (&str, &str)) -> Vec<u8> {
    let message = gauntlet_mail::Message::parse(raw);
    let part = message.parts().iter().find(|p| p.content_type.is(kind.0, kind.1));
    part.unwrap_or_else(|| panic!("no {kind:?} in {}", String::from_utf8_lossy(raw)))
        .body()
        .to_vec()
}

#[test]
fn the_clock_sends_digests_at_their_hour_and_once_a_day() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("policy.toml");
    let policy = "[[rule]]\nname = \"Spam\"\nwhen.class = \"spam\"\n\
        do = { quarantine = \"spam\" }\n";
    std::fs::write(&file, policy).unwrap();
    let mut node = Node::start(&format!("[policy]\npath = {file:?}\n[digest]\nenabled = false\n"));
    spam(&node);
    let off = std::mem::take(&mut node.config);
    let on = format!("enabled = true\nhour = {}", this_hour());
    node.config = off.replace("enabled = false", &on);
    node.write_config();
    node.signal("-HUP");
    node.wait_until("the digest is there", || node.maildir().len() == 1);
    let raw = node.maildir().remove(0);
    let text = String::from_utf8(part(&raw, ("text", "plain"))).unwrap();
    assert!(text.contains("/link/") && text.contains("MEDICINE"), "{text}");
    // The next message waits for tomorrow's, and a restart makes no second round; by hand it goes
    // at once.
    spam(&node);
    node.stop();
    node.run();
    std::thread::sleep(std::time::Duration::from_secs(7));
    assert_eq!(node.maildir().len(), 1);
    assert_eq!(digest(&node, &["send", "--now"]).stdout, b"1 digests sent, 0 failed\n");
    node.wait_until("it is there", || node.maildir().len() == 2);
}

#[test]
fn the_clock_mails_the_report_with_csv_and_pdf() {
    let mut node = Node::start("[report]\nto = []\n");
    spam(&node);
    node.stop();
    let (today, yesterday) = log_as_of_yesterday(&node.data().join("log"));
    let schedule = format!("to = [\"boss@example.org\"]\nevery = \"day\"\nhour = {}", this_hour());
    node.config = node.config.replace("to = []", &schedule);
    node.run();
    let reports = |node: &Node| {
        let is_report = |raw: &Vec<u8>| raw.windows(9).any(|w| w == b"Mail of g");
        node.maildir().into_iter().filter(is_report).collect::<Vec<_>>()
    };
    node.wait_until("the report is there", || !reports(&node).is_empty());
    let raw = reports(&node).remove(0);
    let text = String::from_utf8_lossy(&raw).into_owned();
    assert!(text.contains("To: boss@example.org") && text.contains(&yesterday), "{text}");
    let csv = String::from_utf8(part(&raw, ("text", "csv"))).unwrap();
    assert!(csv.contains(&format!("day,{yesterday},spam,1,")), "{csv}");
    assert!(csv.contains("sender domain,pills.example,,1,"), "{csv}");
    assert!(!csv.contains(&today), "{csv}");
    let pdf = part(&raw, ("application", "pdf"));
    assert!(pdf.starts_with(b"%PDF-") && pdf.windows(5).any(|w| w == b"%%EOF"));
    // It is sent once, also after a restart.
    node.stop();
    node.run();
    std::thread::sleep(std::time::Duration::from_secs(2));
    assert_eq!(reports(&node).len(), 1);
}

/// Logs today's one message as one of yesterday, too. Returns both days.
fn log_as_of_yesterday(log: &std::path::Path) -> (String, String) {
    const DAY_MS: i64 = 86_400_000;
    let log = gauntlet_store::Log::open(log).unwrap();
    let found = log.search(&gauntlet_store::Query::default()).unwrap().messages;
    let mut record = log.get(&found[0].id).unwrap().unwrap().record;
    let today = record.received_ms.div_euclid(DAY_MS);
    record.received_ms -= DAY_MS;
    log.append(vec![record]).unwrap();
    let name = gauntlet_mail::date::day_name;
    (name(today), name(today - 1))
}
