//! Scripted conversations: raw bytes in, expected replies out. Each file of `tests/sessions` is
//! one.
//!
//! | Line | Means |
//! |---|---|
//! | `C: text` | the client sends `text` and CR LF; neighbouring `C` lines go out in one piece |
//! | `R: text` | the client sends `text` alone, with `\r`, `\n`, `\0`, `\\` and `\xNN` |
//! | `S: text` | the next reply line is `text`; a trailing `*` stands for any rest |
//! | `M: from=F to=T,T body=B` | a message was taken (body with the same escapes) |
//! | `X: reason` | the server closes |
//! | `option: name` | before all else: a name of the function `option` below |
//!
//! The host refuses recipients `unknown@*` (550) and `later@*` (450), senders `blocked@*` (550) and
//! accepts the password `secret`. Every file is also run with one byte at a time, where only the
//! replies that depend on pieces (improper pipelining) may differ; such files say `option: whole`.

use std::sync::Arc;

use gauntlet_smtp::{Event, Features, Reply, Session, SessionConfig, SessionLimits};

struct Script {
    config: SessionConfig,
    tls: bool,
    whole: bool,
    xclient: bool,
    steps: Vec<Step>,
}

#[derive(Debug)]
enum Step {
    Send(Vec<u8>),
    Expect(String),
    Message(String),
    Close(String),
}

fn unescape(text: &str) -> Vec<u8> {
    let mut out = Vec::new();
    let mut bytes = text.bytes();
    while let Some(b) = bytes.next() {
        if b != b'\\' {
            out.push(b);
            continue;
        }
        match bytes.next() {
            Some(b'r') => out.push(b'\r'),
            Some(b'n') => out.push(b'\n'),
            Some(b'0') => out.push(0),
            Some(b'x') => {
                let digits = [bytes.next().unwrap(), bytes.next().unwrap()];
                let digits = std::str::from_utf8(&digits).unwrap();
                out.push(u8::from_str_radix(digits, 16).unwrap());
            }
            Some(other) => out.push(other),
            None => panic!("a backslash ends the line"),
        }
    }
    out
}

fn escape(bytes: &[u8]) -> String {
    bytes.iter().flat_map(|&b| std::ascii::escape_default(b)).map(char::from).collect()
}

fn parse(name: &str, text: &str) -> Script {
    let mut script = Script {
        config: SessionConfig {
            host: "mx.test".into(),
            limits: SessionLimits::default(),
            features: Features::default(),
        },
        tls: false,
        whole: false,
        xclient: false,
        steps: Vec::new(),
    };
    let mut joined = false;
    for line in text.lines().filter(|l| !l.is_empty() && !l.starts_with('#')) {
        let (kind, rest) = line.split_once(':').unwrap_or_else(|| panic!("{name}: {line:?}"));
        let rest = rest.strip_prefix(' ').unwrap_or(rest);
        let sends = matches!(kind, "C" | "R");
        if sends {
            let mut bytes = if kind == "R" { unescape(rest) } else { rest.as_bytes().to_vec() };
            if kind == "C" {
                bytes.extend_from_slice(b"\r\n");
            }
            match script.steps.last_mut() {
                Some(Step::Send(last)) if joined => last.extend(bytes),
                _ => script.steps.push(Step::Send(bytes)),
            }
        } else {
            match kind {
                "S" => script.steps.push(Step::Expect(rest.into())),
                "M" => script.steps.push(Step::Message(rest.into())),
                "X" => script.steps.push(Step::Close(rest.into())),
                "option" => option(&mut script, rest),
                other => panic!("{name}: no line {other:?}"),
            }
        }
        joined = sends;
    }
    script
}

fn option(script: &mut Script, text: &str) {
    let (name, value) = text.split_once('=').unwrap_or((text, "0"));
    let value: u16 = value.parse().unwrap();
    let (features, limits) = (&mut script.config.features, &mut script.config.limits);
    match name {
        "lmtp" => features.lmtp = true,
        "auth" => features.auth = true,
        "auth_required" => features.auth_required = true,
        "scram" => features.scram = true,
        "xclient" => script.xclient = true,
        "starttls" => features.starttls = true,
        "tls" => script.tls = true,
        "whole" => script.whole = true,
        "size" => limits.message_bytes_max = value.into(),
        "errors" => limits.errors_max = value,
        "recipients" => limits.recipients_max = value.into(),
        "commands" => limits.commands_max = value,
        other => panic!("no option {other:?}"),
    }
}

/// A host with the decisions above, as the gateway would make them.
struct Host {
    session: Session,
    out: Vec<u8>,
    messages: Vec<String>,
    closed: Option<String>,
}

impl Host {
    fn send(&mut self, bytes: &[u8]) {
        let mut input = bytes;
        while self.closed.is_none() {
            let event = self.session.next(&mut input, &mut self.out);
            if event == Event::More {
                break;
            }
            let mut event = Some(event);
            while let Some(e) = event {
                event = self.react(e);
            }
        }
    }

    fn react(&mut self, event: Event) -> Option<Event> {
        let (session, out) = (&mut self.session, &mut self.out);
        match event {
            Event::More => None,
            Event::Mail(mail) if mail.from.starts_with("blocked@") => {
                session.answer(&Reply::new(550, (5, 7, 1), "blocked"), out)
            }
            Event::Mail(_) => session.answer(&Reply::new(250, (2, 1, 0), "Ok"), out),
            Event::Rcpt(rcpt) if rcpt.to.starts_with("unknown@") => {
                session.answer(&Reply::new(550, (5, 1, 1), "unknown"), out)
            }
            Event::Rcpt(rcpt) if rcpt.to.starts_with("later@") => {
                session.answer(&Reply::new(450, (4, 2, 1), "later"), out)
            }
            Event::Rcpt(_) => session.answer(&Reply::new(250, (2, 1, 5), "Ok"), out),
            Event::Data => session.start_body(Vec::new(), out),
            Event::Message => {
                let message = session.take_message().expect("a message");
                let to: Vec<&str> = message.recipients.iter().map(|r| r.to.as_str()).collect();
                self.messages.push(format!(
                    "from={} to={} body={}",
                    message.mail.from,
                    to.join(","),
                    escape(&message.body)
                ));
                let replies = if session.is_lmtp() { message.recipients.len() } else { 1 };
                session.answer_message(&vec![Reply::new(250, (2, 0, 0), "taken"); replies], out);
                None
            }
            Event::Auth { password, .. } => session.answer_auth(password == "secret", out),
            Event::Credentials(user) => {
                // The example of RFC 7677 section 3.
                assert_eq!(user, "user");
                let salt = b"[m\x99h\x9d\x125\x8e\xec\xa0K\x14\x126\xfa\x81";
                let kept = gauntlet_smtp::scram::Credentials::derive("pencil", salt, 4_096);
                session.challenge(kept, "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0", out);
                None
            }
            Event::LoggedIn(_) | Event::LoginFailed(_) | Event::Client(_) => None,
            Event::StartTls => {
                session.tls_started();
                None
            }
            Event::Close(reason) => {
                self.closed = Some(format!("{reason:?}"));
                None
            }
        }
    }

    fn line(&mut self) -> String {
        let end = self.out.windows(2).position(|w| w == b"\r\n").map_or(0, |n| n + 2);
        let line: Vec<u8> = self.out.drain(..end).collect();
        String::from_utf8_lossy(&line).trim_end_matches(['\r', '\n']).to_owned()
    }
}

fn run(name: &str, script: &Script, by_the_byte: bool) {
    let session = Session::new(Arc::new(script.config.clone()), script.tls);
    let mut host = Host { session, out: Vec::new(), messages: Vec::new(), closed: None };
    if script.xclient {
        host.session.trust_xclient();
    }
    host.session.greet(&mut host.out);
    for (number, step) in script.steps.iter().enumerate() {
        let at = format!("{name}, step {number}, by the byte: {by_the_byte}");
        match step {
            Step::Send(bytes) => {
                assert!(host.out.is_empty(), "{at}: not expected: {}", escape(&host.out));
                if by_the_byte {
                    bytes.iter().for_each(|b| host.send(&[*b]));
                } else {
                    host.send(bytes);
                }
            }
            Step::Expect(expected) => {
                let line = host.line();
                match expected.strip_suffix('*') {
                    Some(start) => assert!(line.starts_with(start), "{at}: {line:?}, not {start}"),
                    None => assert_eq!(&line, expected, "{at}"),
                }
            }
            Step::Message(expected) => {
                assert!(!host.messages.is_empty(), "{at}: no message");
                assert_eq!(&host.messages.remove(0), expected, "{at}");
            }
            Step::Close(reason) => assert_eq!(host.closed.as_ref(), Some(reason), "{at}"),
        }
    }
    assert!(host.out.is_empty(), "{name}: left over: {}", escape(&host.out));
    assert!(host.messages.is_empty(), "{name}: left over: {:?}", host.messages);
}

#[test]
fn every_scripted_session() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/sessions");
    let mut files: Vec<_> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    assert!(files.len() >= 20, "the scripts are missing");
    for file in files {
        let name = file.file_name().unwrap().to_string_lossy().into_owned();
        let script = parse(&name, &std::fs::read_to_string(&file).unwrap());
        run(&name, &script, false);
        if !script.whole {
            run(&name, &script, true);
        }
    }
}

/// Every wrong end of data that some server accepts must end the session instead.
#[test]
fn every_smuggling_variant_of_the_corpus_is_refused() {
    let Some(corpus) = std::env::var_os("GAUNTLET_CORPUS") else {
        eprintln!("skipped: GAUNTLET_CORPUS is not set");
        return;
    };
    let folder = std::path::Path::new(&corpus).join("fixtures/synth-nasty");
    let mut seen = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|e| e != "smtpdata") {
            continue;
        }
        seen += 1;
        let script = parse("smuggle", "");
        let session = Session::new(Arc::new(script.config), false);
        let mut host = Host { session, out: Vec::new(), messages: Vec::new(), closed: None };
        host.send(b"EHLO x\r\n");
        host.send(b"MAIL FROM:<a@b>\r\nRCPT TO:<c@d>\r\nDATA\r\n");
        host.send(&std::fs::read(&path).unwrap());
        let closed = host.closed.unwrap_or_default();
        assert!(closed.starts_with("Smuggling"), "{}: {closed:?}", path.display());
        assert_eq!(host.messages.len(), 0, "{}", path.display());
    }
    assert!(seen >= 9, "only {seen} variants found");
}
