//! Malware engines, each with the real program.

use std::io::Write;
use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use crate::common::clamav::{CIcap, Clamd, MARKER, SIGNATURE};
use crate::common::{Node, Smtp, yesterday};

fn gauntlet(args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_gauntlet"));
    command.args(args).env_remove("GAUNTLET_CONFIG").output().expect("gauntlet runs")
}

/// A zip with one stored file.
fn zip(name: &str, bytes: &[u8]) -> Vec<u8> {
    let crc = crc32fast::hash(bytes).to_le_bytes();
    let length = u32::try_from(bytes.len()).unwrap().to_le_bytes();
    let name_length = u16::try_from(name.len()).unwrap().to_le_bytes();
    let mut common = vec![20, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    common.extend([&crc[..], &length, &length, &name_length, &[0, 0]].concat());
    let local = [b"PK\x03\x04", &common[..], name.as_bytes(), bytes].concat();
    let central = [b"PK\x01\x02\x14\0", &common[..], &[0; 14], name.as_bytes()].concat();
    let end = [
        b"PK\x05\x06\0\0\0\0\x01\0\x01\0".as_slice(),
        &u32::try_from(central.len()).unwrap().to_le_bytes(),
        &u32::try_from(local.len()).unwrap().to_le_bytes(),
        &[0, 0],
    ];
    [local, central, end.concat()].concat()
}

/// A message with this file.
pub(crate) fn mail(name: &str, bytes: &[u8]) -> Vec<u8> {
    let body = base64_simd::STANDARD.encode_to_string(bytes);
    let lines: Vec<&str> =
        body.as_bytes().chunks(76).map(|l| std::str::from_utf8(l).unwrap()).collect();
    format!(
        "From: Ann <ann@partner.example>\r\nTo: bob@example.net\r\nSubject: Minutes {name}\r\n\
         Date: {} 09:00:00 +0000\r\nMessage-ID: <1@partner.example>\r\n\
         MIME-Version: 1.0\r\nContent-Type: multipart/mixed; boundary=b\r\n\r\n\
         --b\r\nContent-Type: text/plain\r\n\r\nThe minutes are attached.\r\n\
         --b\r\nContent-Type: application/octet-stream; name=\"{name}\"\r\n\
         Content-Transfer-Encoding: base64\r\n\r\n{}\r\n--b--\r\n",
        yesterday(),
        lines.join("\r\n")
    )
    .into_bytes()
}

/// The verdict of `gauntlet scan` with these engines.
fn verdict(config: &str, message: &[u8]) -> serde_json::Value {
    let (code, out, error) = scan(config, message);
    assert_eq!(code, Some(0), "{error}");
    serde_json::from_str(&out).unwrap()
}

fn scan(config: &str, message: &[u8]) -> (Option<i32>, String, String) {
    let folder = tempfile::tempdir().unwrap();
    let (settings, mail) = (folder.path().join("g.toml"), folder.path().join("m.eml"));
    std::fs::write(&settings, config).unwrap();
    std::fs::write(&mail, message).unwrap();
    let path = |path: &Path| path.to_str().unwrap().to_owned();
    let printed = gauntlet(&["scan", "--json", "--config", &path(&settings), &path(&mail)]);
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (printed.status.code(), text(&printed.stdout), text(&printed.stderr))
}

/// Rule, path and text of the finding of malware.
fn finding(verdict: &serde_json::Value) -> (String, String) {
    assert_eq!(verdict["class"], "malware", "{verdict}");
    let hits = verdict["hits"].as_array().unwrap();
    let hit = hits.iter().find(|hit| hit["rule"] == "OBJECT_MALWARE").expect("OBJECT_MALWARE");
    let evidence = &hit["evidence"][0];
    let text = |key: &str| evidence[key].as_str().unwrap_or_default().to_owned();
    (text("name"), text("text"))
}

fn clamd_settings(clamd: &Clamd, more: &str) -> String {
    format!(
        "[[engine]]\nname = \"clamav\"\nkind = \"clamd\"\naddress = {:?}\n{more}",
        clamd.socket()
    )
}

#[test]
fn clamd_sees_what_is_in_archives_and_messages() {
    let Some(clamd) = Clamd::start() else { return };
    let config = clamd_settings(&clamd, "scans = [\"objects\"]\n");
    let minutes = zip("minutes.txt", format!("notes {MARKER} notes").as_bytes());
    let (path, text) = finding(&verdict(&config, &mail("minutes.zip", &minutes)));
    assert!(path.starts_with("minutes.zip"), "{path}");
    assert_eq!(text, format!("clamav: {SIGNATURE}.UNOFFICIAL"));
    let clean = verdict(&config, &mail("minutes.zip", &zip("minutes.txt", b"notes")));
    assert_ne!(clean["class"], "malware");
    // In the text of the message itself, which is no object.
    let text = format!("From: a@b.example\r\nSubject: x\r\n\r\n{MARKER}\r\n");
    let both = clamd_settings(&clamd, "");
    assert_eq!(finding(&verdict(&both, text.as_bytes())).0, "message");
    assert_ne!(verdict(&config, text.as_bytes())["class"], "malware");
    // As a descriptor: too large for a stream of this clamd's limit is not tried.
    let mut large = vec![b'x'; 200_000];
    large.extend_from_slice(MARKER.as_bytes());
    assert_eq!(finding(&verdict(&config, &mail("large.bin", &large))).0, "large.bin");
    let streamed = clamd_settings(&clamd, "transfer = \"stream\"\n");
    assert_eq!(finding(&verdict(&streamed, &mail("large.bin", &large))).0, "large.bin");
    let too_large = verdict(&streamed, &mail("huge.bin", &vec![b'x'; 1_200_000]));
    assert_eq!(too_large["class"], "unscannable", "{too_large}");
    let suspicious = clamd_settings(&clamd, "suspicious = [\"*UNOFFICIAL\"]\n");
    let verdict = verdict(&suspicious, &mail("minutes.zip", &minutes));
    assert_ne!(verdict["class"], "malware");
    assert!(verdict.to_string().contains("OBJECT_SUSPICIOUS"), "{verdict}");
}

#[test]
fn mail_waits_while_clamd_is_down_or_hangs() {
    let Some(mut clamd) = Clamd::start() else { return };
    let limits = "seconds_max = 2\npause_seconds = 1\nfailures_max = 2\n";
    let node = Node::start(&clamd_settings(&clamd, limits));
    let send = |name: &str, content: &str| {
        let mut client = Smtp::connect(node.smtp).unwrap();
        let message = mail(name, &zip("a.txt", content.as_bytes()));
        client.send("ann@partner.example", &["bob@example.net"], &message).unwrap()
    };
    assert!(send("one.zip", "one").starts_with("250 "));
    clamd.kill();
    // What was asked before is not asked again, but signatures may be new: it waits, too.
    for name in ["two.zip", "three.zip", "four.zip"] {
        let reply = send(name, name);
        assert!(reply.starts_with("451 "), "{reply}");
    }
    assert!(node.metric("gauntlet_engine_deferred_total") >= 3);
    let metrics = crate::common::http_get(node.console, "/metrics");
    assert!(metrics.contains("gauntlet_engine_up{engine=\"clamav\"} 0"), "{metrics}");
    assert!(node.log().contains("a malware engine gives no answer"), "{}", node.log());
    clamd.run();
    node.wait_until("clamd is asked again", || send("two.zip", "two").starts_with("250 "));
    let infected = send("bad.zip", MARKER);
    clamd.signal("STOP");
    let start = Instant::now();
    let reply = send("five.zip", "five");
    assert!(reply.starts_with("451 "), "{reply}");
    assert!(start.elapsed() < Duration::from_secs(30), "{:?}", start.elapsed());
    clamd.signal("CONT");
    node.wait_until("clamd answers again", || send("five.zip", "five").starts_with("250 "));
    node.wait_for_empty_queue();
    let delivered = node.maildir();
    let bad = delivered.iter().filter(|m| String::from_utf8_lossy(m).contains("bad.zip")).count();
    assert_eq!(bad, 0, "{infected}");
    assert_eq!(delivered.len(), 3);
}

#[test]
fn servers_that_answer_rubbish() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let _closed_early = stream.unwrap().write_all(b"220 mail.example ESMTP\r\n\0");
        }
    });
    for kind in ["clamd", "icap"] {
        let config = |on_failure: &str| {
            format!(
                "[[engine]]\nname = \"av\"\nkind = {kind:?}\naddress = \"{address}\"\nservice = \"avscan\"\n\
                 seconds_max = 5\non_failure = {on_failure:?}\n"
            )
        };
        let message = mail("a.bin", b"content");
        let (code, out, error) = scan(&config("tempfail"), &message);
        assert_eq!(code, Some(1), "{kind}: {out}{error}");
        assert!(
            format!("{out}{error}").contains("engine \\\"av\\\"") || out.contains("engine"),
            "{out}{error}"
        );
        assert_eq!(verdict(&config("unscannable"), &message)["class"], "unscannable");
        assert_ne!(verdict(&config("accept"), &message)["class"], "unscannable");
    }
}

#[test]
fn a_service_behind_icap() {
    let Some(clamd) = Clamd::start() else { return };
    let Some(server) = CIcap::start(&clamd) else { return };
    let config = |service: &str| {
        format!(
            "[[engine]]\nname = \"icap\"\nkind = \"icap\"\naddress = \"{}\"\nservice = {service:?}\n",
            server.address
        )
    };
    let message = mail("minutes.zip", &zip("minutes.txt", format!("x {MARKER}").as_bytes()));
    let (path, text) = finding(&verdict(&config("avscan"), &message));
    assert!(path.starts_with("minutes.zip"), "{path}");
    assert_eq!(text, format!("icap: {SIGNATURE}.UNOFFICIAL"));
    let clean = mail("minutes.zip", &zip("minutes.txt", &[b'x'; 100_000]));
    assert_ne!(verdict(&config("avscan"), &clean)["class"], "malware");
    assert_ne!(verdict(&config("echo"), &message)["class"], "malware", "sends all back");
    let (code, _, error) = scan(&config("nonesuch"), &message);
    assert_eq!(code, Some(1), "{error}");
}

#[test]
fn commands_rules_and_lists() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    std::fs::write(
        path("rules.yar"),
        format!("rule marker {{ strings: $m = \"{MARKER}\" condition: $m }}\nrule bad {{ condition: x }}"),
    )
    .unwrap();
    let content = format!("x {MARKER} y");
    let hash = ring::digest::digest(&ring::digest::SHA256, content.as_bytes());
    let hash: String = hash.as_ref().iter().map(|b| format!("{b:02x}")).collect();
    std::fs::write(path("known.txt"), format!("{hash}  Known.Marker\n")).unwrap();
    let script =
        format!("if grep -q {MARKER} \"$1\"; then echo \"found: Grep.Marker\"; exit 3; fi");
    let config = format!(
        "[[engine]]\nname = \"rules\"\nkind = \"yara\"\npaths = [{:?}]\n\
         [[engine]]\nname = \"known\"\nkind = \"hash_list\"\npaths = [{:?}]\n\
         [[engine]]\nname = \"grep\"\nkind = \"command\"\ncommand = [\"sh\", \"-c\", {script:?}, \"sh\", \"{{}}\"]\n\
         infected_codes = [3]\nname_pattern = \"found: (.*)\"\n",
        path("rules.yar"),
        path("known.txt")
    );
    let message = mail("minutes.zip", &zip("minutes.txt", content.as_bytes()));
    let verdict = verdict(&config, &message);
    assert_eq!(verdict["class"], "malware");
    let text = verdict.to_string();
    for found in ["rules: marker", "known: Known.Marker", "grep: Grep.Marker"] {
        assert!(text.contains(found), "{found}: {text}");
    }
    let settings = path("g.toml");
    std::fs::write(&settings, &config).unwrap();
    let doctor =
        gauntlet(&["doctor", "--dns", "127.0.0.1:9", "--config", settings.to_str().unwrap()]);
    let said = String::from_utf8_lossy(&doctor.stdout).into_owned();
    let left_out = "warning engine       engine \"rules\": YARA: ";
    for line in ["rules: 1 YARA rules", "known: 1 hashes", "grep: starts /", left_out] {
        assert!(said.contains(line), "{line}: {said}");
    }
    let check = gauntlet(&["config", "check", "--config", settings.to_str().unwrap()]);
    let said = String::from_utf8_lossy(&check.stderr).into_owned();
    assert!(said.contains("warning: engine \"rules\": YARA: ") && said.contains("rules.yar:2: "));
    let mut node = Node::start(&config);
    let mut client = Smtp::connect(node.smtp).unwrap();
    let reply = client.send("a@b.example", &["bob@example.net"], &message).unwrap();
    node.wait_for_empty_queue();
    assert!(node.maildir().is_empty(), "{reply}");
    let metrics = crate::common::http_get(node.console, "/metrics");
    for engine in ["rules", "known", "grep"] {
        let line = format!("gauntlet_engine_found_total{{engine={engine:?}}} ");
        let count = metrics.lines().find_map(|l| l.strip_prefix(line.as_str()));
        assert!(count.is_some_and(|n| n != "0"), "{line}: {metrics}");
    }
    node.stop();
}

#[test]
fn any_file_is_judged_by_itself() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let sample = std::fs::read("samples/attachments/zip-in-zip.eml").unwrap();
    std::fs::write(path("sample.eml"), sample).unwrap();
    std::fs::write(path("tools.zip"), zip("invoice.pdf.exe", b"MZ\x90\0 a program")).unwrap();
    std::fs::write(path("notes.txt"), "Minutes of the 3rd meet.").unwrap();
    let printed = gauntlet(&["scan", "--as", "file", "--json", "--fail-on", "malware", &path("")]);
    assert_eq!(printed.status.code(), Some(3), "{printed:?}");
    let text = String::from_utf8(printed.stdout).unwrap();
    let lines: Vec<serde_json::Value> =
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let rules = |number: usize| -> Vec<&str> {
        let hits = lines[number]["hits"].as_array().unwrap();
        hits.iter().map(|hit| hit["rule"].as_str().unwrap()).collect()
    };
    assert_eq!((lines.len(), lines[0]["class"].as_str()), (3, Some("ham")), "{text}");
    assert_eq!((rules(0).len(), lines[0]["bytes"].as_u64()), (0, Some(24)));
    assert_eq!(lines[1]["class"], "malware");
    let evidence = &lines[1]["hits"][0]["evidence"][0]["name"];
    assert_eq!(evidence, "documents.zip/invoice.zip/invoice.com");
    assert!(rules(2).contains(&"OBJECT_DOUBLE_EXTENSION"), "{text}");
}
