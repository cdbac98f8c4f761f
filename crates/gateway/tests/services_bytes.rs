//! Any bytes as a session with a service of a real node: milter, spamd, rspamd, HTTP, by a socket
//! of the file system, from the first byte to the close. Whatever comes, the session ends in time,
//! what is answered is of the protocol, and the next client is served.

use std::io::{ErrorKind, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock, mpsc};
use std::time::Duration;

use gauntlet_engine::Snapshot;
use gauntlet_gateway::config::{Config, Loaded};
use gauntlet_gateway::{Judge, Listeners, Node};
use gauntlet_policy::{Groups, Policy};
use gauntlet_smtp::spamd::{Limits, Response};
use gauntlet_store::Users;

const PROTOCOLS: [&str; 4] = ["milter", "spamd", "rspamd", "http"];
/// Longest wait for an answer, more than the services wait for a client: longer means that a
/// session hangs.
const PATIENCE: Duration = Duration::from_secs(20);
/// Bytes of an answer at most.
const ANSWER_BYTES_MAX: u64 = 16 << 20;
/// What the services take of a message, in bytes: little, so that the limit is met.
const MESSAGE_BYTES_MAX: usize = 20_000;
/// What an MTA offers: version 6, all actions, all steps.
const NEGOTIATION: &[u8] = b"\0\0\0\x0dO\0\0\0\x06\0\0\x01\xff\0\x1f\xff\xff";

fn config(folder: &Path) -> String {
    let mut text = format!(
        "[node]\nname = \"gw.test\"\ndata = {:?}\n[facts]\nenabled = false\n\
         [console]\naddress = \"\"\n[[listener]]\naddress = \"127.0.0.1:0\"\n\
         [receiver]\nmessage_bytes_max = {MESSAGE_BYTES_MAX}\nrecipients_max = 5\n",
        folder.join("data")
    );
    for protocol in PROTOCOLS {
        text += &format!(
            "[[service]]\nprotocol = \"{protocol}\"\naddress = \"unix:{}\"\nlearn = true\n\
             seconds_max = 3\nidle_seconds_max = 3\nlog = false\n",
            folder.join(protocol).display()
        );
    }
    text
}

fn judge(config: &Config) -> anyhow::Result<Judge> {
    let policy = Policy::parse(Policy::DEFAULT, &Groups::default())?;
    let snapshot = Snapshot::default_rules();
    Ok(Judge {
        snapshot,
        policy,
        limits: config.limits,
        probes: None,
        scans: true,
        unpacking: None,
        data_loss: Default::default(),
        shadow: Default::default(),
    })
}

/// The folder with the sockets of a node that runs as long as the process.
pub(crate) fn folder() -> &'static PathBuf {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| {
        let folder = std::env::temp_dir().join(format!("gauntlet-services-{}", std::process::id()));
        std::fs::create_dir_all(folder.join("users")).expect("a temporary folder");
        let file = folder.join("gauntlet.toml");
        std::fs::write(&file, config(&folder)).expect("a configuration file");
        let (ready, wait) = mpsc::channel();
        let users = folder.join("users");
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Runtime::new().expect("a runtime");
            runtime.block_on(async {
                let config = Loaded::load(Some(&file), []).expect("it is understood").config;
                let users = Arc::new(Users::open(&users).expect("users"));
                let listeners = Listeners::open(&config).expect("free places");
                let node = Node::start(config, listeners, Box::new(judge), users).expect("a node");
                ready.send(()).expect("somebody waits");
                std::future::pending::<()>().await;
                drop(node);
            });
        });
        wait.recv().expect("the node starts");
        folder
    })
}

/// Says this and reads until the service closes.
fn talk(protocol: &str, bytes: &[u8], ends_by_itself: bool) -> Vec<u8> {
    let mut stream = UnixStream::connect(folder().join(protocol)).expect("the service listens");
    stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    stream.set_write_timeout(Some(PATIENCE)).expect("a timeout");
    // A service may close before it has read all: that is its right.
    let _ = stream.write_all(bytes);
    if !ends_by_itself {
        let _ = stream.shutdown(Shutdown::Write);
    }
    let mut answer = Vec::new();
    match stream.take(ANSWER_BYTES_MAX).read_to_end(&mut answer) {
        Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
            panic!("{protocol}: no end of the session within {PATIENCE:?}")
        }
        // Reset, for bytes that it did not read.
        _ => answer,
    }
}

/// Lines as packets of an MTA behind a negotiation: a command and its data, in which `|` is the end
/// of a word and `~` the end of a line.
fn packets(lines: &[u8]) -> Vec<u8> {
    let mut wire = NEGOTIATION.to_vec();
    for line in lines.split(|b| *b == b'\n').filter(|line| !line.is_empty()) {
        let mut packet = Vec::with_capacity(line.len() + 8);
        for byte in line {
            match byte {
                b'|' => packet.push(0),
                b'~' => packet.extend_from_slice(b"\r\n"),
                _ => packet.push(*byte),
            }
        }
        wire.extend_from_slice(&u32::try_from(packet.len()).unwrap_or(0).to_be_bytes());
        wire.extend_from_slice(&packet);
    }
    wire
}

/// A request around the bytes, so that they get past its head. Other bits of the choice say which.
fn framed(protocol: &str, choice: u8, rest: &[u8]) -> Vec<u8> {
    let (length, number) = (rest.len(), usize::from(choice >> 2 & 7));
    let head = match protocol {
        "milter" => return packets(rest),
        "spamd" => {
            let words =
                ["CHECK", "SYMBOLS", "REPORT", "PROCESS", "HEADERS", "REPORT_IFSPAM", "TELL"];
            let word = words.get(number).unwrap_or(&"CHECK");
            let fields = if *word == "TELL" { "Message-class: spam\r\nSet: local\r\n" } else { "" };
            format!(
                "{word} SPAMC/1.{number}\r\nUser: ann\r\n{fields}Content-length: {length}\r\n\r\n"
            )
        }
        _ => {
            let path = match (protocol, number) {
                ("http", 1) => "/v1/learn?class=spam&user=ann",
                ("http", _) => "/v1/scan?rcpt=bob@example.net&ip=192.0.2.1",
                (_, 1) => "/learnham",
                (_, 2) => "/symbols",
                _ => "/checkv2",
            };
            let fields =
                "Host: x\r\nConnection: close\r\nFrom: ann@example.org\r\nRcpt: b@c, d@e\r\n";
            format!("POST {path} HTTP/1.1\r\n{fields}Content-Length: {length}\r\n\r\n")
        }
    };
    [head.as_bytes(), rest].concat()
}

/// Holds an answer to the rules of its protocol.
fn check(protocol: &str, answer: &[u8]) {
    let text = || String::from_utf8_lossy(answer.get(..400).unwrap_or(answer)).into_owned();
    match protocol {
        "milter" => {
            let mut rest = answer;
            while let Some((length, after)) = rest.split_first_chunk::<4>() {
                let length = u32::from_be_bytes(*length) as usize;
                assert!(length > 0 && length <= after.len(), "whole packets: {}", text());
                rest = after.get(length..).unwrap_or_default();
            }
            assert!(rest.is_empty(), "whole packets: {}", text());
        }
        // Clients of version 1.2 and before get a body without its length.
        "spamd" => {
            let read = Response::read(answer, &Limits::default());
            assert!(answer.is_empty() || read.is_ok(), "{read:?}: {}", text());
        }
        _ => {
            let good = answer.is_empty() || answer.starts_with(b"HTTP/1.");
            assert!(good && answer.get(9..12) != Some(b"500"), "{protocol}: {}", text());
        }
    }
}

/// A session: the first byte chooses the service (`0` milter, `1` spamd, `2` rspamd, `3` HTTP, as
/// it comes; from `@` on with a frame around it), the others are what the client says.
///
/// # Panics
/// If a session does not end, an answer is none, or the node does not answer afterwards.
pub(crate) fn ask(input: &[u8]) {
    let Some((&choice, rest)) = input.split_first() else { return };
    let protocol = PROTOCOLS.get(usize::from(choice % 4)).copied().unwrap_or("http");
    let bytes = if choice < b'@' { rest.to_vec() } else { framed(protocol, choice, rest) };
    check(protocol, &talk(protocol, &bytes, false));
    let pong = talk("spamd", b"PING SPAMC/1.2\r\n\r\n", true);
    assert!(pong.starts_with(b"SPAMD/1.1 0 PONG\r\n"), "{}", String::from_utf8_lossy(&pong));
    let get = b"GET /ping HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
    let pong = talk("rspamd", get, true);
    assert!(pong.ends_with(b"pong\r\n"), "{}", String::from_utf8_lossy(&pong));
}
