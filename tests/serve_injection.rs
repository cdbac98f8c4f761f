//! Header and log injection: whatever clients, balancers and next hops put into a name, an address,
//! a parameter or a reply, no new header field and no new line of a log comes of it.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::Command;

use crate::common::{Node, PATIENCE, Sink, Smtp, files_below, program};

/// What all the tries would like to see on a line of its own.
const MARK: &str = "X-Injected";

/// Everything that ends a line for somebody, or moves a terminal's cursor.
const BREAKS: [&str; 15] = [
    "\r\n",
    "\r",
    "\n",
    "\0",
    "\u{b}",
    "\u{c}",
    "\u{1b}[2K\u{1b}[1G",
    "\u{1c}",
    "\u{1d}",
    "\u{1e}",
    "\u{7f}",
    "\u{85}",
    "\u{9b}2K",
    "\u{2028}",
    "\u{2029}",
];

fn is_break(c: char) -> bool {
    c.is_control() || matches!(c, '\u{2028}' | '\u{2029}')
}

/// The text's lines, however anybody counts them.
fn lines(text: &str) -> impl Iterator<Item = &str> {
    text.split(is_break)
}

/// xtext (RFC 3461 section 4) with every byte of `text` in hexadecimal digits.
fn xtext(text: &str) -> String {
    text.bytes().map(|b| format!("+{b:02X}")).collect()
}

/// A line and its replies: one for each line that the node sees in it, or as many as come before it
/// closes the connection.
fn say(client: &mut Smtp, line: &str) -> Option<String> {
    client.write(format!("{line}\r\n").as_bytes()).ok()?;
    (0..=line.matches("\r\n").count()).map(|_| client.reply().ok()).collect()
}

/// A conversation with such a text at one of the places that take some, and then a message; what
/// was said to that, if the conversation got so far.
fn converse(node: &Node, place: usize, evil: &str, token: &str) -> Option<String> {
    let or = |n: usize, evil: String, good: &str| if n == place { evil } else { good.to_owned() };
    let encoded = xtext(evil);
    let lines = [
        or(0, format!("EHLO a{evil}b.example"), "NOOP"),
        or(1, format!("XCLIENT HELO=a{encoded}b ADDR=127.0.0.9"), "NOOP"),
        or(2, format!("XCLIENT HELO=a{evil}b ADDR=127.0.0.9"), "NOOP"),
        or(3, format!("XCLIENT NAME=a{encoded}b ADDR=127.0.0.9"), "NOOP"),
        or(0, format!("HELO a{evil}b.example"), "EHLO client.example"),
        or(4, format!("MAIL FROM:<\"a{evil}b\"@example.org> SMTPUTF8"), "NOOP"),
        or(5, format!("MAIL FROM:<a{evil}b@example.org> SMTPUTF8"), "NOOP"),
        or(6, format!("MAIL FROM:<ann@example.org> ENVID={evil}"), "NOOP"),
        or(7, format!("MAIL FROM:<ann@example.org> RET=HDRS ENVID={encoded}"), "NOOP"),
        or(8, format!("MAIL FROM:<ann@example.org> AUTH={encoded}"), "NOOP"),
        "MAIL FROM:<ann@example.org> SMTPUTF8".to_owned(),
        or(9, format!("RCPT TO:<\"a{evil}b\"@example.net>"), "NOOP"),
        or(10, format!("RCPT TO:<a{evil}b@example.net>"), "NOOP"),
        or(11, format!("RCPT TO:<a@example.net> ORCPT=rfc822;a{evil}b"), "NOOP"),
        or(12, format!("RCPT TO:<a@example.net> ORCPT=rfc822;a{encoded}b"), "NOOP"),
        or(13, format!("NOOP {evil}"), "NOOP"),
        or(14, evil.to_owned(), "NOOP"),
        "RCPT TO:<bob@example.net>".to_owned(),
        "RCPT TO:<gone@example.net>".to_owned(),
        "DATA".to_owned(),
    ];
    let mut client = Smtp::connect(node.smtp).unwrap();
    let mut heard = String::new();
    for line in lines {
        heard = say(&mut client, &line)?;
        no_line_is_injected("replies", &heard);
    }
    assert!(heard.starts_with("354"), "{heard}");
    // Decoded, these fields' texts break their lines: that is for our logs to mind.
    let hidden: String = evil.bytes().map(|b| format!("={b:02X}")).collect();
    let fields = format!(
        "Subject: =?utf-8?Q?minutes{hidden}?=\r\nFrom: =?utf-8?Q?Ann{hidden}?= <ann@example.org>\r\n\
         Message-ID: <{token}@example.org>\r\nX-Token: {token}\r\n\r\nHello Bob.\r\n"
    );
    client.write(fields.as_bytes()).unwrap();
    say(&mut client, ".")
}

/// How many places of a session [`converse`] puts text into.
const PLACES: usize = 15;

/// The part of a message that the node wrote: all before the fields of its sender, or the whole
/// report up to the header that it quotes.
fn ours(message: &str) -> &str {
    let end = match message.find("text/rfc822-headers") {
        Some(quoted) => quoted,
        None => message.find("Subject: =?utf-8?Q?minutes").expect("the sender's own fields"),
    };
    &message[..end]
}

fn no_line_is_injected(what: &str, text: &str) {
    for line in lines(text) {
        assert!(!line.trim_start().starts_with(MARK), "{what}: {line:?} in {text:?}");
    }
}

/// Everything that was logged is made of whole lines that the node began.
fn logs_are_whole(node: &Node) {
    let mut checked = 0;
    let log = node.folder.path().join("node.log");
    for path in files_below(&node.data().join("logs")).into_iter().chain([log]) {
        let text = std::fs::read_to_string(&path).unwrap();
        for line in text.lines() {
            let broken = line.contains(is_break);
            assert!(!broken && line.starts_with("20"), "{}: {line:?}", path.display());
            checked += 1;
        }
    }
    assert!(checked > 2 * BREAKS.len(), "{checked} lines: the logs were written");
}

fn gauntlet(node: &Node, args: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_gauntlet"));
    let output = command.args(args).arg("--data").arg(node.data()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// What the commands show of each message: lines of ours, with nothing in them that breaks one.
fn shown_lines_are_whole(node: &Node) {
    let listed = gauntlet(node, &["messages", "--limit", "1000"]);
    assert!(listed.lines().count() >= BREAKS.len(), "{listed}");
    for (n, line) in listed.lines().enumerate() {
        assert!(!line.contains(is_break) && line.starts_with("20"), "{line:?}");
        // Of each kind some: a command takes its time.
        if n % 11 != 0 {
            continue;
        }
        let id = line.split(' ').nth(1).unwrap();
        let json = gauntlet(node, &["trace", id, "--json"]);
        assert_eq!(json.lines().count(), 1);
        let traced = gauntlet(node, &["trace", id]);
        for line in traced.lines().skip(1) {
            assert!(!line.contains(is_break) && line.starts_with("  "), "{line:?}");
        }
    }
    for line in gauntlet(node, &["queue", "list"]).lines() {
        assert!(!line.contains(is_break), "{line:?}");
    }
}

#[test]
fn nothing_from_outside_makes_a_header_field_or_a_line_of_a_log() {
    let sink = Sink::start();
    let config = format!(
        "[scan]\nenabled = false\n[log]\nformat = \"text\"\nlevel = \"info,gauntlet_gateway=debug\"\n[route]\nnext_hop = \"{}\"\ncut_through = false\n\
         [sender]\nretry_seconds = [600]\n[receiver]\nerrors_max = 100\n",
        sink.address
    );
    let node = Node::start_listening("xclient_from = [\"127.0.0.1\"]", &config);
    let mut taken = 0;
    for (n, breaks) in BREAKS.iter().enumerate() {
        let evil = format!("{breaks}{MARK}: {n}{breaks}");
        // A reply cannot hold a line feed: what follows one is the next reply.
        let said = evil.replace('\n', "");
        let mut replies = sink.recipients.lock().unwrap();
        replies.insert("gone".into(), format!("550-5.1.1 no{said}such\r\n550 5.1.1 user{said}"));
        drop(replies);
        *sink.answer.lock().unwrap() = format!("250 2.0.0 taken{said}");
        for place in 0..PLACES {
            let heard = converse(&node, place, &evil, &format!("t{n}-{place}"));
            taken += usize::from(heard.is_some_and(|heard| heard.starts_with("250 2.0.0 Ok: ")));
        }
        node.wait_for_empty_queue();
    }
    let kept = sink.taken();
    assert!(taken >= BREAKS.len() * PLACES / 2, "{taken} were taken");
    let reports = kept.iter().filter(|m| String::from_utf8_lossy(m).contains("DAEMON")).count();
    assert_eq!(kept.len(), taken + reports);
    assert_eq!(reports, taken, "a report each");
    for message in &kept {
        let text = String::from_utf8_lossy(message);
        let ours = ours(&text);
        no_line_is_injected("a message", ours);
        let whole =
            ours.split("\r\n").all(|line| !line.trim_start_matches('\t').contains(is_break));
        assert!(whole, "{ours:?}");
    }
    // What the queue lists is the next hop's text, too.
    for breaks in BREAKS {
        let said = format!("{breaks}{MARK}").replace('\n', "");
        *sink.answer.lock().unwrap() = format!("451 4.3.0 later{said}");
        converse(&node, PLACES, "", "later").unwrap();
    }
    node.wait_until("they wait", || {
        gauntlet(&node, &["queue", "list"]).matches("4.3.0 later").count() >= BREAKS.len()
    });
    shown_lines_are_whole(&node);
    logs_are_whole(&node);
}

#[test]
fn a_login_name_makes_no_line_of_a_log() {
    let Some(python) = program("python3") else { return };
    let node = Node::start_listening(
        "role = \"submission\"\nimplicit_tls = true",
        "[log]\nformat = \"text\"\nlevel = \"info,gauntlet_gateway=debug\"\n[receiver]\nerrors_max = 100\n",
    );
    // A plain name is refused after it was looked up, and logged; the others are no names.
    let script = "import smtplib, ssl, sys, base64\n\
        context = ssl._create_unverified_context()\n\
        b = lambda text: base64.b64encode(text.encode()).decode()\n\
        for name in sys.argv[2:]:\n\
        \x20   name = bytes.fromhex(name).decode()\n\
        \x20   s = smtplib.SMTP_SSL('127.0.0.1', int(sys.argv[1]), context=context)\n\
        \x20   s.ehlo()\n\
        \x20   print(s.docmd('AUTH PLAIN ' + b('\\0' + name + '\\0secret'))[0])\n\
        \x20   s.docmd('AUTH LOGIN ' + b(name))\n\
        \x20   print(s.docmd(b('secret'))[0])\n\
        \x20   print(s.docmd('AUTH SCRAM-SHA-256 ' + b('n,,n=' + name + ',r=nonce'))[0])\n\
        \x20   s.close()\n";
    let hex = |text: &str| text.bytes().map(|b| format!("{b:02x}")).collect::<String>();
    let evil = BREAKS.map(|breaks| hex(&format!("ann{breaks}20 {MARK}: 1{breaks}")));
    let output = Command::new(python)
        .args(["-c", script, &node.smtp.port().to_string(), &hex("nobody")])
        .args(&evil)
        .output()
        .unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    let codes: Vec<&str> = said.lines().collect();
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert_eq!(codes.len(), 3 * (BREAKS.len() + 1), "{said}{complaint}");
    assert_eq!(codes[..3], ["535", "535", "334"], "{complaint}");
    assert!(codes[3..].iter().all(|code| *code == "501"), "{codes:?}");
    node.wait_until("it is logged", || node.log().contains("login refused"));
    for line in node.log().lines() {
        assert!(!line.contains(is_break) && line.starts_with("20"), "{line:?}");
    }
}

#[test]
fn a_balancer_and_its_header_make_no_line_of_a_log() {
    let node = Node::start_listening(
        "proxy_from = [\"127.0.0.0/8\"]",
        "[log]\nformat = \"text\"\nlevel = \"info,gauntlet_gateway=debug\"\n",
    );
    for breaks in BREAKS {
        let evil = format!("{breaks}{MARK}: 1{breaks}");
        // An extension (PP2_TYPE_AUTHORITY) behind the addresses.
        let mut header = b"\r\n\r\n\0\r\nQUIT\n\x21\x11".to_vec();
        let addresses = [192, 0, 2, 1, 127, 0, 0, 1, 0x10, 0, 0, 25];
        let bytes = u16::try_from(addresses.len() + 3 + evil.len()).unwrap();
        header.extend(bytes.to_be_bytes());
        header.extend(addresses);
        header.extend([2, 0, u8::try_from(evil.len()).unwrap()]);
        header.extend(evil.bytes());
        let mut stream = TcpStream::connect(node.smtp).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.write_all(&header).unwrap();
        let mut line = String::new();
        BufReader::new(stream).read_line(&mut line).unwrap();
        assert!(line.starts_with("220 "), "{line}");
        // Version 1 is text, and no header here.
        let mut stream = TcpStream::connect(node.smtp).unwrap();
        let said = format!("PROXY TCP4 {evil} 127.0.0.1 1 25\r\n");
        let _it_may_close_first = stream.write_all(said.as_bytes());
        let mut heard = Vec::new();
        let _reset_is_an_end_too = stream.read_to_end(&mut heard);
        assert_eq!(heard, b"");
    }
    node.wait_until("it is logged", || node.log().matches("no PROXY header").count() >= 15);
    for line in node.log().lines() {
        assert!(!line.contains(is_break) && line.starts_with("20"), "{line:?}");
    }
}
