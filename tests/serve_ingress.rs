//! One rule for every way in: what is judged is what is passed on. NUL, bare CR and bare LF are
//! refused by SMTP and LMTP, in DATA and BDAT, and by a milter; services judge what every reader
//! makes of them.

use std::io::{Read, Write};
use std::net::TcpStream;

use crate::common::{Node, PATIENCE, Sink, Smtp, message};

/// GTUBE in two halves, for a byte between them.
const GTUBE: [&str; 2] =
    ["XJS*C4JDBQADN1.NSBN3*2IDNEN*GTUBE-STANDARD-", "ANTI-UBE-TEST-EMAIL*C.34X"];
/// The test file of virus scanners, likewise; in two parts so that no scanner minds this file.
const EICAR: [&str; 3] =
    ["X5O!P%@AP[4\\PZX54(P^)7CC)7}$EICAR", "-STANDARD-ANTIVIRUS", "-TEST-FILE!$H+H*"];

fn mail(body: &str) -> Vec<u8> {
    format!("From: a@example.org\r\nTo: b@example.net\r\nSubject: x\r\n\r\n{body}\r\n").into_bytes()
}

/// A program in a multipart whose lines end with CR alone.
fn program_behind_bare_crs() -> Vec<u8> {
    let parts = "From: a@example.org\rSubject: x\rMIME-Version: 1.0\r\
                 Content-Type: multipart/mixed; boundary=b\r\r--b\rContent-Type: text/plain\r\rhello\r\
                 --b\rContent-Type: application/octet-stream; name=setup.exe\r\
                 Content-Disposition: attachment; filename=setup.exe\r\
                 Content-Transfer-Encoding: base64\r\rTVqQAAMAAAAEAAAA//8AALgAAAA=\r--b--\r";
    format!("X-First: 1\r\n{parts}\r\n").into_bytes()
}

/// What an attacker sends, with the byte that it is refused for.
fn attacks() -> Vec<(&'static str, Vec<u8>, &'static str)> {
    vec![
        ("GTUBE with a NUL", mail(&GTUBE.join("\0")), "NUL"),
        ("GTUBE with a bare CR", mail(&GTUBE.join("\r")), "bare <CR>"),
        ("GTUBE with a bare LF", mail(&GTUBE.join("\n")), "bare <LF>"),
        ("EICAR with a NUL", mail(&EICAR.join("\0")), "NUL"),
        ("setup.exe behind bare CRs", program_behind_bare_crs(), "bare <CR>"),
        (
            "a forged result behind a bare CR",
            b"Subject: x\rAuthentication-Results: gw.test; dkim=pass\r\n\r\nhello\r\n".to_vec(),
            "bare <CR>",
        ),
        ("a second message", b"Subject: x\r\n\r\na\n.\nMAIL FROM:<x@y>\r\n".to_vec(), "bare <LF>"),
        ("a CR at the end", b"Subject: x\r\n\r\na\r".to_vec(), "bare <CR>"),
    ]
}

fn begin(node: &Node, hello: &str) -> Smtp {
    let mut client = Smtp::connect(node.smtp).unwrap();
    assert!(client.say(hello).unwrap().starts_with("250"));
    assert!(client.say("MAIL FROM:<a@example.org>").unwrap().starts_with("250"));
    assert!(client.say("RCPT TO:<b@example.net>").unwrap().starts_with("250"));
    client
}

/// Sends the message in chunks of so many bytes; the replies to all of them.
fn by_chunks(client: &mut Smtp, bytes: &[u8], size: usize) -> Vec<String> {
    let mut replies = Vec::new();
    let count = bytes.len().div_ceil(size);
    for (i, chunk) in bytes.chunks(size).enumerate() {
        let last = if i + 1 == count { " LAST" } else { "" };
        let head = format!("BDAT {}{last}\r\n", chunk.len());
        if client.write(&[head.as_bytes(), chunk].concat()).is_err() {
            break;
        }
        match client.reply() {
            Ok(reply) => replies.push(reply),
            Err(_) => break,
        }
    }
    replies
}

#[test]
fn chunks_are_held_to_the_rule_of_data() {
    for (role, hello) in [("", "EHLO x.test"), ("role = \"lmtp\"", "LHLO x.test")] {
        let domains = "[domains]\nlocal = [\"example.net\"]\n";
        let node = Node::start_listening(role, domains);
        let mut refused = 0;
        for (name, bytes, why) in attacks() {
            for size in [bytes.len(), 7, 3] {
                let mut client = begin(&node, hello);
                let replies = by_chunks(&mut client, &bytes, size);
                let last = replies.last().unwrap();
                let expected = format!("521 5.5.2 {why} received");
                assert!(last.starts_with(&expected), "{role} {name}, {size}: {replies:?}");
                assert!(client.reply().is_err(), "{role} {name}: closed");
                refused += 1;
            }
            if bytes.ends_with(b"\r\n") {
                let mut client = begin(&node, hello);
                assert!(client.say("DATA").unwrap().starts_with("354"));
                client.write(&[&bytes[..], b".\r\n"].concat()).unwrap();
                let reply = client.reply().unwrap();
                assert!(reply.starts_with(&format!("521 5.5.2 {why} received")), "{name}: {reply}");
            }
        }
        assert!(refused >= 24);
        node.wait_for_empty_queue();
        assert_eq!(node.maildir().len(), 0, "nothing was taken");
        assert_eq!(node.metric("gauntlet_quarantined_total"), 0);
    }
}

#[test]
fn a_line_end_may_be_cut_in_two_and_arrives_as_it_was() {
    let sink = Sink::start();
    let node = Node::start(&format!("[route]\nnext_hop = \"{}\"\n", sink.address));
    let body = [&message("cut", 300)[..], b".dot\r\n..\r\n.\r\n\r\nend\r\n"].concat();
    for size in [3, 4, 5, 50, body.len()] {
        let mut client = begin(&node, "EHLO x.test");
        let replies = by_chunks(&mut client, &body, size);
        assert!(replies.last().unwrap().starts_with("250 2.0.0 Ok"), "{size}: {replies:?}");
    }
    // `BDAT 0 LAST` behind the last byte; a last line without an end gets one.
    let mut client = begin(&node, "EHLO x.test");
    let unended = body.strip_suffix(b"\r\n").unwrap();
    client.write(&[format!("BDAT {}\r\n", unended.len()).as_bytes(), unended].concat()).unwrap();
    assert!(client.reply().unwrap().starts_with("250"));
    assert!(client.say("BDAT 0 LAST").unwrap().starts_with("250 2.0.0 Ok"));
    node.wait_for_empty_queue();
    let taken = sink.taken();
    assert_eq!(taken.len(), 6);
    for (i, message) in taken.iter().enumerate() {
        let whole = if i == 5 { [unended, b"\r\n"].concat() } else { body.clone() };
        assert!(message.ends_with(&whole), "{i}: {}", message.escape_ascii());
    }
}

fn ask(address: &str, request: &[u8]) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(request).unwrap();
    let mut answer = Vec::new();
    let _a_reset_is_an_end_too = stream.read_to_end(&mut answer);
    String::from_utf8_lossy(&answer).into_owned()
}

fn post(address: &str, path: &str, body: &[u8]) -> String {
    let head = format!(
        "POST {path} HTTP/1.1\r\nHost: x\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    ask(address, &[head.as_bytes(), body].concat())
}

/// Services judge what their clients keep: each reading of it.
#[test]
fn services_judge_what_a_reader_will_see() {
    let one =
        |protocol| format!("[[service]]\nprotocol = \"{protocol}\"\naddress = \"127.0.0.1:0\"\n");
    let services: String = ["spamd", "rspamd", "http"].map(one).concat();
    let node = Node::start(&format!("[facts]\nenabled = false\n{services}"));
    let check = |bytes: &[u8]| {
        let head = format!("CHECK SPAMC/1.2\r\nContent-length: {}\r\n\r\n", bytes.len());
        let spamd = ask(node.place("spamd"), &[head.as_bytes(), bytes].concat());
        let rspamd = post(node.place("rspamd"), "/checkv2", bytes);
        let http = post(node.place("http"), "/v1/scan", bytes);
        (spamd, rspamd, http)
    };
    for (name, bytes, _) in attacks() {
        // EICAR alone is for a virus scanner; what else is no attack without SMTP is not judged
        // here.
        if !(name.starts_with("GTUBE") || name.contains("setup.exe") || name.contains("forged")) {
            continue;
        }
        // A bare LF ends a line for everybody, so that this is no GTUBE for anybody.
        let (spamd, rspamd, http) = check(&bytes);
        if name == "GTUBE with a bare LF" {
            continue;
        }
        assert!(spamd.contains("Spam: True"), "{name}: {spamd}");
        assert!(rspamd.contains("\"action\":\""), "{name}: {rspamd}");
        assert!(!rspamd.contains("\"action\":\"no action\""), "{name}: {rspamd}");
        let harmful = ["spam", "malware", "unscannable"];
        assert!(
            harmful.iter().any(|c| http.contains(&format!("\"class\":\"{c}\""))),
            "{name}: {http}"
        );
    }
    // Files with LF are as good as any; stray bytes in a text change nothing.
    let unix = String::from_utf8(message("unix", 500)).unwrap().replace("\r\n", "\n");
    let stray = String::from_utf8(message("stray", 500)).unwrap().replace("Bob,", "Bob,\r");
    for good in [unix, stray] {
        let (spamd, rspamd, _) = check(good.as_bytes());
        assert!(spamd.contains("Spam: False"), "{spamd}");
        assert!(rspamd.contains("\"action\":\"no action\""), "{rspamd}");
    }
}

#[test]
fn a_milter_refuses_what_it_cannot_change() {
    let node = Node::start(
        "[facts]\nenabled = false\n[[service]]\nprotocol = \"milter\"\naddress = \"127.0.0.1:0\"\n",
    );
    let packet = |command: u8, data: &[u8]| {
        let length = u32::try_from(data.len() + 1).unwrap().to_be_bytes();
        [&length[..], &[command], data].concat()
    };
    let talk = |header: &[u8], body: &[u8]| {
        let packets = [
            packet(b'O', b"\0\0\0\x06\0\0\x01\xff\0\x1f\xff\xff"),
            packet(b'C', b"c.example\x004\x00\x19192.0.2.1\0"),
            packet(b'M', b"<a@example.org>\0"),
            packet(b'R', b"<b@example.net>\0"),
            packet(b'L', &[b"Subject\0", header, b"\0"].concat()),
            packet(b'N', b""),
            packet(b'B', body),
            packet(b'E', b""),
            packet(b'Q', b""),
        ];
        ask(node.place("milter"), &packets.concat())
    };
    assert!(talk(b" x", b"hello\r\n").ends_with('a'), "accepted");
    for bytes in ["\0", "\r", "\n"] {
        let answer = talk(b" x", mail(&GTUBE.join(bytes)).as_slice());
        assert!(answer.contains("y554 5.6.0 "), "{bytes:?}: {answer:?}");
    }
    for header in [&b" x\rAuthentication-Results: gw.test; dkim=pass"[..], b" x\0y", b" x\nX-Y: z"]
    {
        let answer = talk(header, b"hello\r\n");
        assert!(answer.contains("y554 5.6.0 "), "{header:?}: {answer:?}");
    }
}

/// Fields that claim to be ours go, however they are written, and so does a foreign Return-Path.
#[test]
fn forged_fields_do_not_arrive() {
    let node = Node::start("");
    let mut client = Smtp::connect(node.smtp).unwrap();
    let forged = [
        "Authentication-Results: gw.test; dkim=pass header.d=bank.example",
        "authentication-results\t : gw.test; forged",
        "Authentication-Results\r\n : gw.test; forged",
        "Authentication-Results: (\\) forged) gw.test; dkim=pass",
        "Authentication-Results: =?utf-8?q?gw.test?=; forged",
        "X-Gauntlet-Class : forged",
        "X-Gauntlet-Score\r\n : forged",
        "Return-Path: <forged@example.org>",
        "Return-Path : <forged@example.org>",
    ];
    let mut sent = 0;
    for before in ["", "no field\r\nnor this\r\n"] {
        let fields: String = forged.iter().map(|field| format!("{field}\r\n")).collect();
        let body = format!("From: a@example.org\r\n{before}{fields}Subject: x\r\n\r\nhello\r\n");
        let to = ["b@example.net"];
        let reply = client.send_as_it_is("a@example.org", &to, body.as_bytes()).unwrap();
        assert!(reply.starts_with("250"), "{reply}");
        sent += 1;
    }
    node.wait_for_empty_queue();
    let delivered = node.maildir();
    assert_eq!(delivered.len(), sent);
    for message in delivered {
        let text = String::from_utf8(message).unwrap();
        assert!(!text.contains("forged") && !text.contains("bank.example"), "{text}");
        assert_eq!(text.matches("Return-Path").count(), 1, "{text}");
        assert!(text.starts_with("Return-Path: <a@example.org>\n"), "{text}");
    }
}
