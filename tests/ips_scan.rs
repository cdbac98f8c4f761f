//! What packets carry, judged as mail and web are: a message, a file, a URL or a page on the wire
//! gets the verdict that the gateway and the proxy give it.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddrV4, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, Stdio};

use gauntlet_store::Log;
use serde_json::Value;

use crate::common::capture::{By, Capture};
use crate::common::{Node, Smtp, compile_urls, program};
use crate::same_verdict::messages;

/// What the engine of these tests calls malware.
const MARKER: &str = "marker-7391-of-a-test";

fn ends(client: u16, server: u16) -> [SocketAddrV4; 2] {
    let host = std::net::Ipv4Addr::LOCALHOST;
    [SocketAddrV4::new(host, client), SocketAddrV4::new(host, server)]
}

/// A session that brings a message, as [`Smtp`] does it.
fn smtp(capture: &mut Capture, client: u16, from: &str, raw: &[u8]) {
    let mut body = Vec::new();
    for line in raw.split_inclusive(|byte| *byte == b'\n') {
        if line.starts_with(b".") {
            body.push(b'.');
        }
        body.extend_from_slice(line);
    }
    body.extend_from_slice(b".\r\n");
    let from = format!("MAIL FROM:<{from}>\r\n");
    let talk: [(By, &[u8]); 12] = [
        (By::Server, b"220 mx.test ESMTP\r\n"),
        (By::Client, b"EHLO client.test\r\n"),
        (By::Server, b"250-mx.test\r\n250 8BITMIME\r\n"),
        (By::Client, from.as_bytes()),
        (By::Server, b"250 ok\r\n"),
        (By::Client, b"RCPT TO:<bob@example.net>\r\n"),
        (By::Server, b"250 ok\r\n"),
        (By::Client, b"DATA\r\n"),
        (By::Server, b"354 go on\r\n"),
        (By::Client, &body),
        (By::Server, b"250 queued\r\n"),
        (By::Client, b"QUIT\r\n"),
    ];
    capture.tcp(ends(client, 25), &talk);
}

/// A response to a GET for this path.
fn http(capture: &mut Capture, ends: [SocketAddrV4; 2], path: &str, head: &str, body: &[u8]) {
    let port = ends[1].port();
    let request = format!("GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n");
    let response = response(head, body);
    capture.tcp(ends, &[(By::Client, request.as_bytes()), (By::Server, &response)]);
}

fn response(head: &str, body: &[u8]) -> Vec<u8> {
    let head = format!(
        "HTTP/1.1 200 OK\r\n{head}Content-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    [head.as_bytes(), body].concat()
}

/// What a replay finds of these kinds, and what it prints beside records.
fn findings(folder: &Path, capture: &Capture, args: &[&str]) -> Vec<Value> {
    let file = folder.join("wire.pcap");
    capture.write(&file);
    let out = Command::new(env!("CARGO_BIN_EXE_gauntlet"))
        .args(["ips", "replay"])
        .arg(&file)
        .args(["--json"])
        .args(args)
        .output()
        .unwrap();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let text = String::from_utf8(out.stdout).unwrap();
    let records = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    records
        .filter(|record| record["event_type"] == "gauntlet")
        .map(|record| record["gauntlet"].clone())
        .collect()
}

/// Class, score to a thousandth, rules.
fn verdict(value: &Value) -> (String, i64, Vec<String>) {
    let score = (value["score"].as_f64().unwrap() * 1e3).round() as i64;
    let hits = value["hits"].as_array().unwrap().iter();
    let rules = hits.map(|hit| hit["rule"].as_str().unwrap().to_owned()).collect();
    (value["class"].as_str().unwrap().to_owned(), score, rules)
}

#[test]
fn a_message_on_the_wire_gets_the_verdict_of_the_gateway() {
    let folder = tempfile::tempdir().unwrap();
    let policy = folder.path().join("policy.toml");
    let rule =
        "[[rule]]\nname = \"all\"\ndo = { add_header = { name = \"X-Id\", value = \"{id}\" } }\n";
    std::fs::write(&policy, rule).unwrap();
    let config = format!("[facts]\nenabled = false\n[policy]\npath = {policy:?}\n");
    let mut node = Node::start(&config);
    let (mut capture, mut sent) = (Capture::new(), Vec::new());
    for (number, (name, raw)) in (10_000..).zip(messages()) {
        let mut client = Smtp::connect(node.smtp).unwrap();
        let reply = client.send_as_it_is("ann@example.org", &["bob@example.net"], &raw).unwrap();
        // Malformed mail is refused while it comes.
        let Some(id) = reply.strip_prefix("250 ").and_then(|text| text.split_whitespace().last())
        else {
            continue;
        };
        sent.push((name, id.to_owned()));
        smtp(&mut capture, number, "ann@example.org", &raw);
    }
    node.wait_for_empty_queue();
    node.stop();
    let log = Log::open(&node.data().join("log")).unwrap();
    let found = findings(folder.path(), &capture, &["--scan", "mail"]);
    assert_eq!(found.len(), sent.len());
    let mut different = Vec::new();
    for ((name, id), found) in sent.iter().zip(&found) {
        let record = log.get(id).unwrap().unwrap_or_else(|| panic!("{id}")).record;
        let by_smtp = verdict(&serde_json::to_value(&record.verdict).unwrap());
        let on_wire = verdict(found);
        assert_eq!(found["end"], "whole", "{}", name.display());
        assert_eq!(found["envelope"]["rcpt_to"][0], "bob@example.net");
        if by_smtp != on_wire {
            different.push(format!("{}\n  {by_smtp:?}\n  {on_wire:?}", name.display()));
        }
    }
    eprintln!("{} messages, {} different", sent.len(), different.len());
    assert!(sent.len() >= 40 && different.is_empty(), "{}", different.join("\n"));
}

/// A message with a file.
fn with_file(content: &str) -> Vec<u8> {
    let body = base64_simd::STANDARD.encode_to_string(content);
    format!(
        "From: Ann <ann@partner.example>\r\nTo: bob@example.net\r\nSubject: Minutes\r\n\
         Date: {} 09:00:00 +0000\r\nMessage-ID: <1@partner.example>\r\nMIME-Version: 1.0\r\n\
         Content-Type: multipart/mixed; boundary=b\r\n\r\n--b\r\nContent-Type: text/plain\r\n\r\n\
         The minutes are attached.\r\n--b\r\nContent-Type: application/octet-stream; \
         name=\"a.bin\"\r\nContent-Disposition: attachment; filename=\"a.bin\"\r\n\
         Content-Transfer-Encoding: base64\r\n\r\n{body}\r\n--b--\r\n",
        crate::common::yesterday(),
    )
    .into_bytes()
}

/// An engine that finds [`MARKER`].
fn engine(folder: &Path) -> String {
    let rules = folder.join("rules.yar");
    let rule = format!("rule marker {{ strings: $m = \"{MARKER}\" condition: $m }}");
    std::fs::write(&rules, rule).unwrap();
    format!("[[engine]]\nname = \"rules\"\nkind = \"yara\"\npaths = [{rules:?}]\n")
}

/// Answers one request after the other with this response.
fn serve(response: Vec<u8>) -> SocketAddrV4 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let std::net::SocketAddr::V4(address) = listener.local_addr().unwrap() else { panic!() };
    std::thread::spawn(move || {
        for mut client in listener.incoming().flatten() {
            let mut reader = BufReader::new(client.try_clone().unwrap());
            let mut line = String::new();
            while reader.read_line(&mut line).is_ok_and(|n| n > 2) {
                line.clear();
            }
            let _ = client.write_all(&response);
        }
    });
    address
}

/// A proxy of the command, until it is dropped.
struct Proxy {
    child: Child,
    address: String,
    log: PathBuf,
    /// What it says when it ends needs a reader.
    errors: BufReader<ChildStderr>,
}

impl Proxy {
    fn start(folder: &Path, args: &[&str]) -> Self {
        let log = folder.join("access.log");
        let mut child = Command::new(env!("CARGO_BIN_EXE_gauntlet"))
            .args(["proxy", "--listen", "127.0.0.1:0", "--allow-network", "127.0.0.0/8"])
            .args(["--client-network", "127.0.0.0/8", "--log-format", "json", "--access-log"])
            .arg(&log)
            .args(args)
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let mut errors = BufReader::new(child.stderr.take().unwrap());
        errors.read_line(&mut line).unwrap();
        let address = line.trim().strip_prefix("gauntlet: proxy on ").expect(&line).to_owned();
        Proxy { child, address, log, errors }
    }

    /// The status of a page.
    fn get(&self, url: &str) -> String {
        let out = Command::new("curl")
            .args(["-s", "--max-time", "20", "--noproxy", "", "-o", "/dev/null", "-w"])
            .args(["%{http_code}", "-x", &self.address, url])
            .output()
            .unwrap();
        String::from_utf8(out.stdout).unwrap()
    }

    /// Ends it; the record of the last request.
    fn stop(mut self) -> Value {
        let told = Command::new("kill").arg(self.child.id().to_string()).status().unwrap();
        assert!(told.success() && self.child.wait().unwrap().success());
        let mut said = String::new();
        self.errors.read_to_string(&mut said).unwrap();
        assert!(said.contains("proxy stopped"), "{said}");
        let log = std::fs::read_to_string(&self.log).unwrap();
        serde_json::from_str(log.lines().last().unwrap()).unwrap()
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn malware_is_the_same_by_smtp_as_a_download_and_on_the_wire() {
    if program("curl").is_none() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("gauntlet.toml");
    let text = format!("[facts]\nenabled = false\n{}", engine(folder.path()));
    std::fs::write(&config, &text).unwrap();
    let config = config.to_str().unwrap();
    let mut node = Node::start(&text);
    let (bad, good) = (with_file(&format!("x {MARKER} y")), with_file("nothing of the kind"));
    let mut capture = Capture::new();
    let head = "Content-Type: application/octet-stream\r\n\
                Content-Disposition: attachment; filename=\"mail.eml\"\r\n";
    let mut ids = Vec::new();
    for (number, raw) in (20_000_u16..).step_by(2).zip([&bad, &good]) {
        let mut client = Smtp::connect(node.smtp).unwrap();
        let reply = client.send_as_it_is("ann@partner.example", &["bob@example.net"], raw).unwrap();
        ids.push(reply.split_whitespace().last().unwrap().trim_end_matches(')').to_owned());
        smtp(&mut capture, number, "ann@partner.example", raw);
        let server = serve(response(head, raw));
        let proxy = Proxy::start(folder.path(), &["--scan-config", config]);
        let status = proxy.get(&format!("http://{server}/mail.eml"));
        let record = proxy.stop();
        let is_bad = std::ptr::eq(raw, &bad);
        assert_eq!(status, if is_bad { "403" } else { "200" }, "{record}");
        let ends = [SocketAddrV4::new(*server.ip(), number + 1), server];
        http(&mut capture, ends, "/mail.eml", head, raw);
    }
    node.wait_for_empty_queue();
    node.stop();
    let log = Log::open(&node.data().join("log")).unwrap();
    let args = ["--scan", "mail,files", "--scan-config", config];
    let found = findings(folder.path(), &capture, &args);
    let kinds: Vec<_> = found.iter().map(|it| it["kind"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["mail", "content", "mail", "content"], "{found:?}");
    for (id, found) in ids.iter().zip([&found[0], &found[2]]) {
        let record = log.get(id).unwrap().unwrap_or_else(|| panic!("{id}")).record;
        let by_smtp = verdict(&serde_json::to_value(&record.verdict).unwrap());
        assert_eq!(by_smtp, verdict(found));
    }
    assert_eq!((&found[0]["class"], &found[1]["verdict"]), (&"malware".into(), &"block".into()));
    assert_eq!(found[1]["rule"], "content: scan: rules: marker");
    assert_ne!(found[2]["class"], "malware");
    assert_eq!(found[3]["verdict"], "allow");
    let notes = found[3]["notes"].to_string();
    assert!(notes.contains("scan: clean"), "{notes}");
}

#[test]
fn a_dropped_message_ends_its_connection() {
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("gauntlet.toml");
    std::fs::write(&config, engine(folder.path())).unwrap();
    let mut capture = Capture::new();
    smtp(&mut capture, 20_000, "ann@partner.example", &with_file(&format!("x {MARKER} y")));
    let args = ["--scan", "mail", "--scan-config", config.to_str().unwrap(), "--inline"];
    let found = findings(folder.path(), &capture, &args);
    assert_eq!(found[0]["action"], "allowed", "nothing is dropped unless it is wished");
    let file = folder.path().join("wire.pcap");
    let out = Command::new(env!("CARGO_BIN_EXE_gauntlet"))
        .args(["ips", "replay"])
        .arg(&file)
        .args(["--json", "--drop-on", "phishing"])
        .args(args)
        .output()
        .unwrap();
    let text = String::from_utf8(out.stdout).unwrap();
    let records: Vec<Value> =
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let find = |kind: &str| records.iter().find(|record| record["event_type"] == kind).unwrap();
    assert_eq!(find("gauntlet")["gauntlet"]["action"], "blocked", "{text}");
    assert_eq!(find("stats")["stats"]["ips"]["drop_reason"]["content"], 1, "{text}");
}

#[test]
fn files_of_ftp_are_scanned() {
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("gauntlet.toml");
    std::fs::write(&config, engine(folder.path())).unwrap();
    let mut capture = Capture::new();
    for (number, content) in [(0_u16, format!("x {MARKER} y")), (1, "harmless".to_owned())] {
        // The data connection is announced, and comes within the other one.
        let (control, port) = (ends(30_000 + number, 21), 40_000 + number);
        let passive = format!("227 ok (127,0,0,1,{},{})\r\n", port >> 8, port & 0xff);
        let name = format!("RETR file{number}.bin\r\n");
        let talk: [(By, &[u8]); 9] = [
            (By::Server, b"220 ready\r\n"),
            (By::Client, b"USER anonymous\r\n"),
            (By::Server, b"331 password\r\n"),
            (By::Client, b"PASS x\r\n"),
            (By::Server, b"230 in\r\n"),
            (By::Client, b"PASV\r\n"),
            (By::Server, passive.as_bytes()),
            (By::Client, name.as_bytes()),
            (By::Server, b"150 begins\r\n"),
        ];
        capture.tcp(control, &talk);
        let data = ends(31_000 + number, port);
        capture.tcp(data, &[(By::Server, content.as_bytes())]);
    }
    let args = ["--scan", "files", "--scan-config", config.to_str().unwrap()];
    let found = findings(folder.path(), &capture, &args);
    let of = |n: usize| {
        let text = |name: &str| found[n][name].as_str().unwrap_or_default().to_owned();
        [text("filename"), text("verdict"), text("detail")]
    };
    assert_eq!(found.len(), 2, "{found:?}");
    assert_eq!(of(0), ["file0.bin", "found", "rules: marker"], "{found:?}");
    assert_eq!(of(1), ["file1.bin", "clean", ""], "{found:?}");
    assert_eq!(found[1]["bytes"], 8);
}

#[test]
fn pages_have_the_points_that_the_proxy_gives_them() {
    if program("curl").is_none() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let words = folder.path().join("weightedphraselist");
    std::fs::write(&words, "#listcategory: \"Games\"\n<dragon><60>\n<castle><30>\n").unwrap();
    let phrases = ["--phrases", words.to_str().unwrap(), "--phrase-limit", "80"];
    let head = "Content-Type: text/html\r\n";
    let mut capture = Capture::new();
    let mut by_proxy = Vec::new();
    let pages = ["<p>The dragon in its castle", "<p>The castle alone", "<p>Nothing"];
    for (number, page) in (20_000..).zip(pages) {
        let server = serve(response(head, page.as_bytes()));
        let proxy = Proxy::start(folder.path(), &phrases);
        let status = proxy.get(&format!("http://{server}/page"));
        by_proxy.push((status, proxy.stop()));
        let ends = [SocketAddrV4::new(*server.ip(), number), server];
        http(&mut capture, ends, "/page", head, page.as_bytes());
    }
    let found = findings(folder.path(), &capture, &[&["--scan", "words"], &phrases[..]].concat());
    assert_eq!(found.len(), pages.len(), "{found:?}");
    for ((status, record), found) in by_proxy.iter().zip(&found) {
        let verdict = if status == "403" { "block" } else { "allow" };
        assert_eq!(found["verdict"], verdict, "{record} {found}");
        let points = |notes: &Value| {
            let notes = notes.as_array().unwrap().iter().filter_map(Value::as_str);
            notes.filter(|note| note.starts_with("phrases ")).map(str::to_owned).next()
        };
        assert_eq!(points(&record["notes"]), points(&found["notes"]), "{record} {found}");
    }
    assert_eq!(found[0]["rule"], "content: phrases: 90 points, 80 allowed");
}

/// A query for the address of a name (RFC 1035).
fn query(name: &str) -> Vec<u8> {
    let mut message = vec![0, 7, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    for label in name.split('.') {
        message.push(u8::try_from(label.len()).unwrap());
        message.extend(label.bytes());
    }
    message.extend([0, 0, 1, 0, 1]);
    message
}

/// The hello of a client that names this host (RFC 8446, RFC 6066).
fn hello(host: &str) -> Vec<u8> {
    let two =
        |bytes: &[u8]| [&u16::try_from(bytes.len()).unwrap().to_be_bytes()[..], bytes].concat();
    let name = [&[0][..], &two(host.as_bytes())].concat();
    let extension = [&[0, 0][..], &two(&two(&name))].concat();
    let mut hello = vec![3, 3];
    hello.extend([7; 32]);
    hello.extend([0, 0, 2, 0x13, 1, 1, 0]);
    hello.extend(two(&extension));
    let length = u32::try_from(hello.len()).unwrap().to_be_bytes();
    let handshake = [&[1][..], &length[1..], &hello].concat();
    [&[22, 3, 1][..], &two(&handshake)].concat()
}

#[test]
fn urls_and_names_on_a_list_are_blocked_as_by_the_proxy() {
    let folder = tempfile::tempdir().unwrap();
    let list = compile_urls(folder.path(), "bad", "blocked.example\nhalf.example/bad\n", &[]);
    let list = list.to_str().unwrap();
    let mut capture = Capture::new();
    let get = |host: &str, path: &str| format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n");
    let requests = [
        get("www.blocked.example", "/a"),
        get("fine.example", "/a"),
        get("half.example", "/bad/x?y"),
        get("half.example", "/good"),
        get("x", "http://proxied.blocked.example/b"),
        "CONNECT blocked.example:443 HTTP/1.1\r\nHost: blocked.example\r\n\r\n".to_owned(),
    ];
    let answer = response("", b"");
    for (number, request) in (20_000..).zip(&requests) {
        let talk = [(By::Client, request.as_bytes()), (By::Server, answer.as_slice())];
        capture.tcp(ends(number, 80), &talk);
    }
    for (number, name) in (21_000..).zip(["mail.blocked.example", "fine.example"]) {
        capture.udp(ends(number, 53), &query(name));
        capture.tcp(ends(number, 443), &[(By::Client, &hello(name))]);
    }
    let found = findings(folder.path(), &capture, &["--scan", "urls", "--block", list]);
    let told = |it: &Value| {
        let text = |name: &str| it[name].as_str().unwrap_or_default().to_owned();
        (text("method"), text("url"), text("verdict"), text("evidence"))
    };
    let told: Vec<_> = found.iter().map(told).collect();
    let expected = [
        ("GET", "http://www.blocked.example/a", "domain blocked.example"),
        ("GET", "http://half.example/bad/x?y", "prefix half.example/bad"),
        ("GET", "http://proxied.blocked.example/b", "domain blocked.example"),
        ("CONNECT", "https://blocked.example/", "domain blocked.example"),
        ("DNS", "https://mail.blocked.example/", "domain blocked.example"),
        ("CONNECT", "https://mail.blocked.example/", "domain blocked.example"),
    ]
    .map(|(method, url, pattern)| {
        (method.to_owned(), url.to_owned(), "block".to_owned(), format!("bad: {pattern}"))
    });
    assert_eq!(told, expected);
}

#[test]
fn options_that_do_not_go_together_are_refused() {
    let gauntlet = |args: &[&str]| {
        let out = Command::new(env!("CARGO_BIN_EXE_gauntlet")).args(args).output().unwrap();
        (out.status.code(), String::from_utf8_lossy(&out.stderr).into_owned())
    };
    let replay = ["ips", "replay", "none.pcap"];
    for (args, said) in [
        (&["--block", "x"][..], "--scan"),
        (&["--scan", "post"], "invalid value 'post'"),
        (&["--scan", "urls", "--block", "none.urls"], "none.urls"),
        (&["--scan", "words", "--phrases", "none"], "cannot read none"),
        (&["--scan", "mail", "--scan-config", "none.toml"], "none.toml"),
        (&["--scan", "mail", "--drop-on", "bad"], "no class \"bad\""),
    ] {
        let (code, error) = gauntlet(&[&replay[..], args].concat());
        assert_eq!(code, Some(2), "{args:?}: {error}");
        assert!(error.contains(said), "{args:?}: {error}");
    }
}
