//! Messages that nobody should send, through a real node: each gets an answer that is defined, a
//! verdict that names the anomaly, and costs bounded memory; the node goes on.
//!
//! Clients that misbehave in the protocol are in `serve_limits.rs` and in the scripted sessions of
//! `crates/smtp/tests/sessions`.

use crate::common::{Node, Smtp, message};

/// What is expected of a message: the beginning of the answer, and a defect of the verdict.
struct Case {
    name: &'static str,
    raw: Vec<u8>,
    answer: &'static str,
    defect: Option<&'static str>,
}

const HEAD: &str = "From: ann@example.org\r\nTo: bob@example.net\r\nSubject: odd\r\n\
    Date: Sat, 21 Nov 2026 04:05:06 +0000\r\nMessage-ID: <odd@example.org>\r\n";

const MEGABYTE: usize = 1 << 20;

fn ok(name: &'static str, raw: Vec<u8>, defect: &'static str) -> Case {
    Case { name, raw, answer: "250 2.0.0", defect: Some(defect) }
}

fn with_head(text: &str) -> Vec<u8> {
    format!("{HEAD}{text}").into_bytes()
}

fn many_parts() -> Vec<u8> {
    let parts: String = (0..10_000).map(|i| format!("--b\r\n\r\npart {i}\r\n")).collect();
    with_head(&format!("Content-Type: multipart/mixed; boundary=b\r\n\r\n{parts}--b--\r\n"))
}

fn nested(deep: usize) -> Vec<u8> {
    let open = |i| format!("Content-Type: multipart/mixed; boundary=b{i}\r\n\r\n--b{i}\r\n");
    let all: String = (0..deep).map(open).collect();
    with_head(&format!("{all}\r\nthe end\r\n"))
}

fn cases() -> Vec<Case> {
    let base64 = "Content-Transfer-Encoding: base64\r\n\r\n";
    let attached = "Content-Type: message/rfc822\r\n\r\n".repeat(5_000);
    let encoded = format!(
        "Content-Type: message/rfc822\r\nContent-Transfer-Encoding: quoted-printable\r\n\r\n{}",
        "Content-Type: message/rfc822\r\nContent-Transfer-Encoding: quoted-printable\r\n\r\n"
            .repeat(5_000)
    );
    let long = |n: usize| "word ".repeat(n / 5);
    vec![
        ok("ten thousand parts", many_parts(), "too_many_parts"),
        ok("nested 5,000 deep", nested(5_000), "too_deep"),
        ok("attached 5,000 deep", with_head(&attached), "too_deep"),
        ok("encoded 5,000 deep", with_head(&encoded), "decoded_too_large"),
        ok("no blank line", b"Subject: x\r\nTo: y@example.net\r\n".to_vec(), "no_body_separator"),
        ok(
            "base64 cut short",
            with_head(&format!("{base64}aGVsbG8gd29ybGQ\r\nab\r\nQ")),
            "bad_base64",
        ),
        ok(
            "an endless line of text",
            with_head(&format!("\r\n{}", long(8 * MEGABYTE))),
            "text_too_large",
        ),
        ok(
            "an endless field",
            with_head(&format!("X-Long: {}\r\n\r\nx\r\n", long(8 * MEGABYTE))),
            "header_block_too_large",
        ),
        ok("100,000 fields", with_head(&"A: b\r\n".repeat(100_000)), "too_many_headers"),
        ok(
            "100,000 URLs",
            with_head(&format!("\r\n{}", "http://a.example/ x\r\n".repeat(50_000))),
            "too_many_urls",
        ),
        ok(
            "a header that is not text",
            b"\x01\x02\xff: \xfe\r\n\r\nx\r\n".to_vec(),
            "header_without_colon",
        ),
        Case { name: "nothing", raw: Vec::new(), answer: "250 2.0.0", defect: None },
        Case { name: "NUL", raw: with_head("\r\na\0b\r\n"), answer: "521 5.5.2", defect: None },
        Case { name: "bare LF", raw: with_head("\r\na\nb\r\n"), answer: "521 5.5.2", defect: None },
        Case { name: "bare CR", raw: with_head("\r\na\rb\r\n"), answer: "521 5.5.2", defect: None },
        Case {
            name: "over the limit",
            raw: with_head(&format!("\r\n{}", "0123456789\r\n".repeat(2 * MEGABYTE))),
            answer: "552 5.3.4",
            defect: None,
        },
    ]
}

/// Most memory that the process has had, in bytes (Linux).
fn memory_most(pid: u32) -> Option<u64> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = text.lines().find_map(|l| l.strip_prefix("VmHWM:"))?;
    line.trim().strip_suffix(" kB")?.parse::<u64>().ok().map(|kb| kb * 1024)
}

/// Memory of a node that has judged all of it; the messages have up to 20 MB.
const MEMORY_BYTES_MAX: u64 = 256 << 20;

#[test]
fn bad_messages_are_answered_and_cost_bounded_memory() {
    let mut node = Node::start("[receiver]\nmessage_bytes_max = 20000000\n");
    let mut taken = Vec::new();
    for case in cases() {
        let mut client = Smtp::connect(node.smtp).unwrap();
        let reply = client.send_as_it_is("ann@example.org", &["bob@example.net"], &case.raw);
        let reply = reply.unwrap_or_else(|e| panic!("{}: {e}", case.name));
        assert!(reply.starts_with(case.answer), "{}: {reply}", case.name);
        if let Some(defect) = case.defect {
            let id = reply.trim().rsplit(' ').next().unwrap_or_default().to_owned();
            taken.push((case.name, id, defect));
        }
    }
    let mut client = Smtp::connect(node.smtp).unwrap();
    let reply = client.send("a@b.example", &["c@d.example"], &message("after", 900)).unwrap();
    assert!(reply.starts_with("250"), "the node goes on: {reply}");
    node.wait_for_empty_queue();
    if let Some(most) = memory_most(node.pid()) {
        assert!(most < MEMORY_BYTES_MAX, "{most} bytes");
    }
    node.stop();
    let log = gauntlet_store::Log::open(&node.data().join("log")).unwrap();
    for (name, id, defect) in taken {
        let logged = log.get(&id).unwrap().unwrap_or_else(|| panic!("{name}: {id} is not logged"));
        let kinds: Vec<String> =
            logged.record.verdict.defects.iter().map(|d| d.kind.name()).collect();
        assert!(kinds.iter().any(|k| k == defect), "{name}: {kinds:?}");
        let ends = &logged.record.deliveries;
        assert!(!ends.is_empty() && ends.iter().all(|d| d.outcome.is_final()), "{name}: {ends:?}");
    }
}

/// A file over the limit is reported, and the run goes on.
#[test]
fn a_file_over_the_limit_does_not_stop_a_scan() {
    let folder = tempfile::tempdir().unwrap();
    let big = std::fs::File::create(folder.path().join("a-big.eml")).unwrap();
    big.set_len(5 << 30).unwrap();
    std::fs::write(folder.path().join("b.eml"), message("b", 900)).unwrap();
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_gauntlet"))
        .args(["scan", "--json"])
        .arg(folder.path())
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1), "one could not be read");
    let text = String::from_utf8(output.stdout).unwrap();
    let lines: Vec<serde_json::Value> =
        text.lines().map(|l| serde_json::from_str(l).unwrap()).collect();
    assert_eq!(lines.len(), 2, "{text}");
    assert!(lines[0]["error"].is_string(), "{text}");
    assert_eq!(lines[1]["class"], "ham");
}

#[test]
fn a_client_that_writes_on_still_reads_why_it_was_refused() {
    let node = Node::start("");
    let mut client = Smtp::connect(node.smtp).unwrap();
    for line in ["MAIL FROM:<ann@example.org>", "RCPT TO:<bob@example.net>"] {
        assert!(client.say(line).unwrap().starts_with("250"), "{line}");
    }
    assert!(client.say("DATA").unwrap().starts_with("354"));
    // Most clients write the whole message before they read; a reset would take the reply away.
    let mut raw = with_head("\r\na\nb\r\n");
    raw.extend(b"a line of text\r\n".repeat(MEGABYTE / 2));
    raw.extend_from_slice(b".\r\n");
    client.write(&raw).unwrap();
    let reply = client.reply().unwrap();
    assert!(reply.starts_with("521 5.5.2"), "{reply}");
}
