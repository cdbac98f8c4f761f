//! Records of conversations that are composed here: what is written, with which fields, and which
//! files are kept.

use std::fs;
use std::path::Path;

use gauntlet_ids::config::Settings;
use gauntlet_ids::replay::{Options, Output, Replayer};
use serde_json::Value;

const CLIENT: [u8; 4] = [128, 232, 110, 120];
const SERVER: [u8; 4] = [66, 35, 250, 204];
const SYN: u8 = 0x02;
const ACK: u8 = 0x10;
const FIN: u8 = 0x01;

/// A capture of raw IPv4 (LINKTYPE_RAW), a packet a second.
struct Capture {
    bytes: Vec<u8>,
    seconds: u32,
    /// Next sequence numbers of client and server.
    next: [u32; 2],
}

impl Capture {
    fn new() -> Self {
        let mut bytes = Vec::new();
        for word in [0xa1b2_c3d4_u32, 0x0004_0002, 0, 0, 65_535, 101] {
            bytes.extend(word.to_le_bytes());
        }
        Self { bytes, seconds: 0, next: [1_000, 9_000] }
    }

    fn packet(&mut self, protocol: u8, from_client: bool, transport: &[u8]) {
        let mut ip = vec![0x45, 0];
        ip.extend(u16::try_from(20 + transport.len()).expect("short").to_be_bytes());
        ip.extend([0, 1, 0, 0, 64, protocol, 0, 0]);
        let ends = if from_client { [CLIENT, SERVER] } else { [SERVER, CLIENT] };
        ip.extend(ends.concat());
        let words = ip.chunks(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]])));
        let sum: u32 = words.sum();
        let sum = !((sum & 0xffff) + (sum >> 16)) as u16;
        ip[10..12].copy_from_slice(&sum.to_be_bytes());
        ip.extend(transport);
        let len = u32::try_from(ip.len()).expect("short");
        for word in [1_700_000_000 + self.seconds, 0, len, len] {
            self.bytes.extend(word.to_le_bytes());
        }
        self.bytes.extend(ip);
        self.seconds += 1;
    }

    fn tcp(&mut self, from_client: bool, flags: u8, payload: &[u8]) {
        let (own, other) = if from_client { (0, 1) } else { (1, 0) };
        let ports: [u16; 2] = if from_client { [34_855, 80] } else { [80, 34_855] };
        let mut segment: Vec<u8> = ports.iter().flat_map(|port| port.to_be_bytes()).collect();
        segment.extend(self.next[own].to_be_bytes());
        segment.extend(self.next[other].to_be_bytes());
        segment.extend([0x50, flags, 0x20, 0, 0, 0, 0, 0]);
        segment.extend(payload);
        let begins_or_ends = flags & (SYN | FIN) != 0;
        let len = u32::try_from(payload.len()).expect("short") + u32::from(begins_or_ends);
        self.next[own] += len;
        self.packet(6, from_client, &segment);
    }

    fn udp(&mut self, from_client: bool, payload: &[u8]) {
        let ports: [u16; 2] = if from_client { [40_000, 53] } else { [53, 40_000] };
        let mut datagram: Vec<u8> = ports.iter().flat_map(|port| port.to_be_bytes()).collect();
        datagram.extend(u16::try_from(8 + payload.len()).expect("short").to_be_bytes());
        datagram.extend([0, 0]);
        datagram.extend(payload);
        self.packet(17, from_client, &datagram);
    }
}

/// A page that is fetched.
fn page() -> Capture {
    let mut capture = Capture::new();
    capture.tcp(true, SYN, b"");
    capture.tcp(false, SYN | ACK, b"");
    capture.tcp(true, ACK, b"");
    let request = b"GET /a/page.txt?x=1 HTTP/1.1\r\nHost: www.example\r\nUser-Agent: t\xfe\r\n\
        X-Forwarded-For: 192.0.2.9\r\n\r\n";
    capture.tcp(true, ACK, request);
    let response =
        b"HTTP/1.1 200 OK\r\nContent-Type: text/plain; a=b\r\nContent-Length: 4\r\n\r\nword";
    capture.tcp(false, ACK, response);
    capture.tcp(true, ACK, b"");
    capture.tcp(true, ACK | FIN, b"");
    capture.tcp(false, ACK | FIN, b"");
    capture.tcp(true, ACK, b"");
    capture
}

fn run(capture: &Capture, rules: &str, settings: &[&str], store: Option<&Path>) -> Vec<Value> {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path();
    fs::write(path.join("a.pcap"), &capture.bytes).expect("a capture");
    fs::write(path.join("a.rules"), rules).expect("rules");
    let mut table = Settings::stock();
    for setting in settings {
        table.assign(setting).expect("a setting");
    }
    let options = Options {
        settings: table,
        directory: path.to_owned(),
        rules: vec![path.join("a.rules")],
        inline: false,
        checksums: Some(false),
    };
    let mut output = Output::read(&options);
    if let (Some(folder), Some(settings)) = (store, &mut output.store) {
        settings.directory = folder.to_owned();
    }
    let replayer = Replayer::with_output(&options, output).expect("rules");
    let mut lines = Vec::new();
    let summary = replayer.run(&path.join("a.pcap"), &mut |line| {
        lines.push(serde_json::from_str(line).expect("a line of JSON"));
    });
    assert_eq!(summary.expect("a capture").store_problem, None);
    lines
}

fn of<'l>(lines: &'l [Value], kind: &str) -> Vec<&'l Value> {
    lines.iter().filter(|line| line["event_type"] == kind).collect()
}

#[test]
fn a_page_is_told_with_its_file_and_flow() {
    let rule = "alert http any any -> any any (msg:\"m\"; http.uri; content:\"/a/\"; \
        flowbits:set,seen; sid:7; metadata:kind page;)";
    let lines = run(&page(), rule, &["outputs.1.eve-log.community-id=yes"], None);
    let [http] = of(&lines, "http")[..] else { panic!("{lines:?}") };
    assert_eq!(http["src_ip"], "128.232.110.120");
    assert_eq!(http["tx_id"], 0);
    assert_eq!(http["http"]["url"], "/a/page.txt?x=1");
    assert_eq!(http["http"]["http_user_agent"], "t\\xfe", "not UTF-8");
    assert_eq!(http["http"]["http_content_type"], "text/plain");
    assert_eq!((&http["http"]["status"], &http["http"]["length"]), (&200.into(), &4.into()));
    assert_eq!(http["metadata"]["flowbits"][0], "seen");
    // The first example of the definition of the Community ID.
    assert_eq!(http["community_id"], "1:LQU9qZlK+B5F3KDmev6m5PMibrg=");

    let [file] = of(&lines, "fileinfo")[..] else { panic!("{lines:?}") };
    assert_eq!(file["src_ip"], "66.35.250.204", "it comes from the server");
    assert_eq!(file["fileinfo"]["filename"], "/a/page.txt");
    assert_eq!(file["fileinfo"]["state"], "CLOSED");
    assert_eq!(file["fileinfo"]["stored"], false);
    assert_eq!(file["fileinfo"]["md5"], Value::Null, "nobody asks for it");
    assert_eq!(file["http"]["hostname"], "www.example");

    let [alert] = of(&lines, "alert")[..] else { panic!("{lines:?}") };
    assert_eq!(alert["alert"]["metadata"]["kind"][0], "page");
    assert_eq!(alert["http"]["http_method"], "GET");
    assert_eq!(alert["flow"]["pkts_toserver"], 4);

    let [flow] = of(&lines, "flow")[..] else { panic!("{lines:?}") };
    assert_eq!(flow["app_proto"], "http");
    assert_eq!(
        (&flow["flow"]["state"], &flow["tcp"]["state"]),
        (&"closed".into(), &"closed".into())
    );
    assert_eq!(flow["flow"]["alerted"], true);
    assert_eq!(flow["tcp"]["tcp_flags"], "13");
    assert_eq!(of(&lines, "stats")[0]["stats"]["app_layer"]["flow"]["http"], 1);
}

#[test]
fn settings_decide_what_is_written() {
    let rule = "alert tcp any any -> any any (msg:\"m\"; content:\"page\"; sid:7;)";
    let types = "outputs.1.eve-log.types";
    let settings = [
        &format!("{types}.0.alert.payload-printable=yes"),
        &format!("{types}.0.alert.metadata=no"),
        &format!("{types}.3.http.extended=no"),
        &format!("{types}.3.http.dump-all-headers=response"),
        &format!("{types}.7.files.force-hash.0=md5"),
        &format!("{types}.33=ftp"),
        "outputs.1.eve-log.xff.enabled=yes",
    ];
    let lines = run(&page(), rule, &settings.map(|setting| setting as &str), None);
    let [alert] = of(&lines, "alert")[..] else { panic!("{lines:?}") };
    let payload = alert["payload_printable"].as_str().expect("a payload");
    assert!(payload.starts_with("GET /a/page.txt") && payload.contains("t.\r\n"), "{payload}");
    assert_eq!((&alert["stream"], &alert["flow"]), (&1.into(), &Value::Null));
    assert_eq!(alert["alert"]["xff"], "192.0.2.9");
    let [http] = of(&lines, "http")[..] else { panic!("{lines:?}") };
    assert_eq!(http["http"]["status"], Value::Null);
    assert_eq!(http["http"]["response_headers"][0]["name"], "Content-Type");
    assert_eq!(http["http"]["request_headers"], Value::Null);
    let md5 = of(&lines, "fileinfo")[0]["fileinfo"]["md5"].as_str().expect("a hash").len();
    assert_eq!(md5, 32);
    assert!(of(&lines, "flow").is_empty());
}

#[test]
fn questions_and_answers_are_told() {
    let mut capture = Capture::new();
    let name = b"\x03www\x07example\x00\x00\x01\x00\x01";
    capture.udp(true, &[b"\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00", &name[..]].concat());
    let answer = b"\xc0\x0c\x00\x01\x00\x01\x00\x00\x00\x3c\x00\x04\xc0\x00\x02\x01";
    let header = b"\x12\x34\x81\x80\x00\x01\x00\x01\x00\x00\x00\x00";
    capture.udp(false, &[&header[..], name, answer].concat());
    let lines = run(&capture, "", &[], None);
    let dns = of(&lines, "dns");
    assert_eq!(dns.len(), 2, "{lines:?}");
    assert_eq!(dns[0]["dns"]["type"], "request");
    assert_eq!(dns[0]["dns"]["queries"][0]["rrname"], "www.example");
    assert_eq!(dns[1]["src_ip"], "66.35.250.204");
    assert_eq!(dns[1]["dns"]["answers"][0]["rdata"], "192.0.2.1");
    assert_eq!(dns[1]["dns"]["grouped"]["A"][0], "192.0.2.1");
    let only = run(&capture, "", &["outputs.1.eve-log.types.4.dns.requests=no"], None);
    assert_eq!(of(&only, "dns").len(), 1);
}

#[test]
fn files_that_rules_name_are_kept() {
    let store = tempfile::tempdir().expect("a folder");
    let sha256 = "98c1eb4ee93476743763878fcb96a25fbc9a175074d64004779ecb5242f645e6";
    let target = store.path().join("98").join(sha256);
    let enabled = "outputs.7.file-store.enabled=yes";
    let other = "alert http any any -> any any (msg:\"m\"; fileext:\"exe\"; filestore; sid:7;)";
    let lines = run(&page(), other, &[enabled], Some(store.path()));
    assert_eq!(of(&lines, "fileinfo")[0]["fileinfo"]["stored"], false);
    assert!(!target.exists());

    let rule = other.replace("exe", "txt");
    let info = "outputs.7.file-store.write-fileinfo=yes";
    let lines = run(&page(), &rule, &[enabled, info], Some(store.path()));
    let file = &of(&lines, "fileinfo")[0]["fileinfo"];
    assert_eq!((&file["stored"], &file["file_id"]), (&true.into(), &1.into()));
    assert_eq!(file["sha256"], sha256);
    assert_eq!(fs::read(&target).expect("the file"), b"word");
    let records = fs::read_dir(store.path().join("98")).expect("a folder").count();
    assert_eq!(records, 2, "the file and its record");
    assert_eq!(fs::read_dir(store.path().join("tmp")).expect("a folder").count(), 0);
}

#[test]
fn packets_behind_a_tag_are_told() {
    let rule = "alert tcp any any -> any any (msg:\"m\"; content:\"GET\"; tag:session,2,packets; \
        sid:7;)";
    let lines = run(&page(), rule, &[], None);
    let packets = of(&lines, "packet");
    assert_eq!(packets.len(), 1, "{lines:?}");
    assert_eq!(packets[0]["packet_info"]["linktype_name"], "RAW");
    assert!(packets[0]["packet"].is_string());
}

#[test]
fn files_are_told_with_what_they_are_if_a_rule_asks() {
    let magic = |rule: &str, settings: &[&str]| {
        let lines = run(&page(), rule, settings, None);
        let [file] = of(&lines, "fileinfo")[..] else { panic!("{lines:?}") };
        file["fileinfo"]["magic"].clone()
    };
    let asks = "alert http any any -> any any (filemagic:\"pdf\"; sid:1;)";
    let text = "ASCII text, with no line terminators";
    assert_eq!(magic(asks, &[]), text);
    let other = "alert http any any -> any any (filesize:>1; sid:1;)";
    assert_eq!(magic(other, &[]), Value::Null);
    assert_eq!(magic(other, &["outputs.1.eve-log.types.7.files.force-magic=yes"]), text);
}
