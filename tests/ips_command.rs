//! `gauntlet ips`: captures are replayed, rules are checked; what it prints and how it ends.

use std::fs;
use std::net::Ipv4Addr;
use std::path::Path;
use std::process::{Command, Output};

const RULES: &str = "\
alert udp any any -> any 5000 (msg:\"a word\"; content:\"secret\"; classtype:bad-unknown; sid:1;)
drop udp any any -> any 5000 (msg:\"another\"; content:\"worse\"; sid:2; rev:3;)
";

fn gauntlet(args: &[&str], folder: &Path) -> Output {
    let gauntlet = env!("CARGO_BIN_EXE_gauntlet");
    Command::new(gauntlet).args(args).current_dir(folder).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A pcap of raw IPv4 with a UDP datagram for each of these, a second apart (RFC 768, 791).
fn capture(payloads: &[&str]) -> Vec<u8> {
    let mut out = Vec::new();
    for word in [0xa1b2_c3d4_u32, 0x0004_0002, 0, 0, 65_535, 101] {
        out.extend(word.to_le_bytes());
    }
    for (second, payload) in (0u32..).zip(payloads) {
        let packet = datagram(payload.as_bytes());
        let len = u32::try_from(packet.len()).unwrap();
        for word in [1_700_000_000 + second, 0, len, len] {
            out.extend(word.to_le_bytes());
        }
        out.extend(packet);
    }
    out
}

fn datagram(payload: &[u8]) -> Vec<u8> {
    let udp_len = u16::try_from(8 + payload.len()).unwrap();
    let mut ip = vec![0x45, 0];
    ip.extend((20 + udp_len).to_be_bytes());
    ip.extend([0, 1, 0, 0, 64, 17, 0, 0]);
    ip.extend(Ipv4Addr::new(192, 0, 2, 1).octets());
    ip.extend(Ipv4Addr::new(192, 0, 2, 2).octets());
    let words = ip.chunks(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]])));
    let sum: u32 = words.sum();
    let sum = !((sum & 0xffff) + (sum >> 16)) as u16;
    ip[10..12].copy_from_slice(&sum.to_be_bytes());
    for word in [40_000, 5_000, udp_len, 0] {
        ip.extend(u16::to_be_bytes(word));
    }
    ip.extend(payload);
    ip
}

#[test]
fn a_capture_is_replayed_through_rules() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    fs::write(path.join("a.pcap"), capture(&["a secret", "fine", "worse", "a secret"])).unwrap();
    fs::write(path.join("a.rules"), RULES).unwrap();
    let replay = ["ips", "replay", "a.pcap", "--rules", "a.rules"];

    let out = gauntlet(&[&replay[..], &["--eve", "eve.json"]].concat(), path);
    assert!(out.status.success(), "{}", text(&out.stderr));
    let printed = text(&out.stdout);
    assert!(printed.contains("allowed  1:1:0  a word  UDP 192.0.2.1:40000 -> 192.0.2.2:5000"));
    assert!(printed.contains("2 rules, 0 left out"), "{printed}");
    assert!(printed.contains("4 frames, 3 alerts"), "{printed}");
    let eve = fs::read_to_string(path.join("eve.json")).unwrap();
    let records: Vec<serde_json::Value> =
        eve.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let types: Vec<_> = records.iter().filter_map(|it| it["event_type"].as_str()).collect();
    assert_eq!(types, ["alert", "alert", "alert", "flow", "stats"]);
    assert_eq!(records[3]["flow"]["pkts_toserver"], 4);
    assert_eq!(records[4]["stats"]["decoder"]["pkts"], 4);
    assert_eq!(records[0]["event_type"], "alert");
    assert_eq!(records[0]["pcap_cnt"], 1);
    assert_eq!(records[0]["alert"]["category"], "Potentially Bad Traffic");
    assert_eq!(records[0]["alert"]["severity"], 2);
    assert_eq!(records[1]["alert"]["rev"], 3);

    // A dropped packet is told as blocked.
    let out = gauntlet(&[&replay[..], &["--inline", "--json"]].concat(), path);
    let lines = text(&out.stdout);
    let last: serde_json::Value = serde_json::from_str(lines.lines().last().unwrap()).unwrap();
    let summary = &last["summary"];
    assert_eq!((&summary["alerts"], &summary["dropped"]), (&3.into(), &1.into()), "{lines}");
    assert!(lines.contains("\"action\":\"blocked\""), "{lines}");
}

#[test]
fn records_are_written_without_rules() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    fs::write(path.join("a.pcap"), capture(&["a secret", "fine"])).unwrap();
    let out = gauntlet(&["ips", "replay", "a.pcap", "--eve", "-"], path);
    assert!(out.status.success(), "{}", text(&out.stderr));
    let printed = text(&out.stdout);
    let mut records = printed.lines().map(|line| {
        let record: serde_json::Value = serde_json::from_str(line).unwrap();
        record["event_type"].as_str().unwrap().to_owned()
    });
    assert_eq!(records.next().as_deref(), Some("flow"));
    assert!(text(&out.stderr).contains("2 frames, 0 alerts"), "{}", text(&out.stderr));
    let nothing = gauntlet(&["ips", "replay", "a.pcap"], path);
    assert_eq!(nothing.status.code(), Some(2));
}

#[test]
fn damage_and_missing_files_are_told() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    fs::write(path.join("a.rules"), RULES).unwrap();
    let whole = capture(&["a secret", "a secret"]);
    fs::write(path.join("cut.pcap"), &whole[..whole.len() - 3]).unwrap();
    fs::write(path.join("none.pcap"), "this is no capture at all, but text").unwrap();

    let replay = |file: &str| gauntlet(&["ips", "replay", file, "--rules", "a.rules"], path);
    let cut = replay("cut.pcap");
    assert_eq!(cut.status.code(), Some(1));
    assert!(text(&cut.stdout).contains("1 alerts"), "{}", text(&cut.stdout));
    assert!(text(&cut.stderr).contains("cut.pcap"), "{}", text(&cut.stderr));
    for (file, said) in [("none.pcap", "none.pcap"), ("absent.pcap", "No such file")] {
        let out = replay(file);
        assert_eq!(out.status.code(), Some(2), "{file}");
        assert!(text(&out.stderr).contains(said), "{}", text(&out.stderr));
    }
    let out = gauntlet(&["ips", "replay", "cut.pcap", "--rules", "absent.rules"], path);
    assert_eq!(out.status.code(), Some(2));
    assert!(text(&out.stderr).contains("absent.rules"), "{}", text(&out.stderr));
}

#[test]
fn rules_are_checked_with_place_and_reason() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let bad = "\nalert udp any any -> any 5000 (msg:\"x\"; nonsense:1; sid:9;)\n";
    fs::write(path.join("good.rules"), RULES).unwrap();
    fs::write(path.join("bad.rules"), format!("{RULES}{bad}").replace("sid:1;", "sid:7;")).unwrap();

    let good = gauntlet(&["ips", "rules", "check", "good.rules"], path);
    assert!(good.status.success());
    assert_eq!(text(&good.stdout), "2 rules can be used, 0 cannot\n");
    let bad = gauntlet(&["ips", "rules", "check", "bad.rules", "--json"], path);
    assert_eq!(bad.status.code(), Some(1));
    let json: serde_json::Value = serde_json::from_slice(&bad.stdout).unwrap();
    assert_eq!(json["loaded"], 2);
    let problem = &json["left_out"][0];
    assert_eq!((&problem["line"], &problem["keyword"]), (&4.into(), &"nonsense".into()), "{json}");
}

#[test]
fn costs_of_rules_are_told() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let always = "alert udp any any -> any 5000 (msg:\"any\"; dsize:>100; sid:3; rev:1;)\n\
                  alert tcp any any -> any any (msg:\"idle\"; content:\"secret\"; sid:4; rev:1;)\n";
    fs::write(path.join("a.pcap"), capture(&["a secret", "fine", "worse", "a secret"])).unwrap();
    fs::write(path.join("a.rules"), format!("{RULES}{always}")).unwrap();
    let profile = ["ips", "rules", "profile", "a.pcap", "--rules", "a.rules"];

    let out = gauntlet(&[&profile[..], &["--sort", "misses"]].concat(), path);
    assert!(out.status.success(), "{}", text(&out.stderr));
    let printed = text(&out.stdout);
    assert!(
        printed.starts_with("4 frames, 3 alerts; 4 rules, 1 of them never tried, 0 left out\n")
    );
    let first = printed.lines().find(|line| line.contains("1:")).unwrap();
    assert!(first.ends_with("1:3:1 any (no fast pattern)"), "{printed}");
    assert!(printed.contains("1:1:0 a word (packet \"secret\")"), "{printed}");

    let out = gauntlet(&[&profile[..], &["--json"]].concat(), path);
    let json: serde_json::Value = serde_json::from_slice(&out.stdout).unwrap();
    assert_eq!(json["never_tried"], 1);
    let tried = json["tried"].as_array().unwrap();
    let of = |rule: &str| tried.iter().find(|it| it["rule"] == rule).unwrap();
    assert_eq!((&of("1:1:0")["checks"], &of("1:1:0")["matches"]), (&2.into(), &2.into()));
    assert_eq!((&of("1:3:1")["checks"], &of("1:3:1")["matches"]), (&4.into(), &0.into()));
    assert_eq!(of("1:2:3")["place"], "a.rules:2");
    assert_eq!(json["searches"][0]["buffer"], "packet");

    let out = gauntlet(&["ips", "rules", "profile", "no.pcap", "--rules", "a.rules"], path);
    assert_eq!(out.status.code(), Some(2));
    assert!(text(&out.stderr).contains("no.pcap"), "{}", text(&out.stderr));
}

#[test]
fn alerts_are_compared_with_those_of_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    fs::write(path.join("a.pcap"), capture(&["a secret", "fine", "worse", "a secret"])).unwrap();
    fs::write(path.join("a.rules"), RULES).unwrap();
    let replay = ["ips", "replay", "a.pcap", "--rules", "a.rules", "--eve", "eve.json"];
    assert!(gauntlet(&replay, path).status.success());
    let parity = |eve: &str| {
        gauntlet(&["ips", "rules", "parity", "a.pcap", "--rules", "a.rules", "--eve", eve], path)
    };

    let same = parity("eve.json");
    assert_eq!(same.status.code(), Some(0), "{}", text(&same.stderr));
    let said = "3 alerts of Suricata, 3 of ours, 3 are the same (compared by packet)";
    assert!(text(&same.stdout).contains(said), "{}", text(&same.stdout));

    // One is missing there, another has a rule that we do not have.
    let eve = fs::read_to_string(path.join("eve.json")).unwrap();
    let mut lines: Vec<String> = eve.lines().map(str::to_owned).collect();
    let other = lines.remove(2).replace("\"signature_id\":1", "\"signature_id\":77");
    lines.push(other);
    fs::write(path.join("other.json"), lines.join("\n")).unwrap();
    let differ = parity("other.json");
    assert_eq!(differ.status.code(), Some(1));
    let printed = text(&differ.stdout);
    assert!(printed.contains("3 alerts of Suricata, 3 of ours, 2 are the same"), "{printed}");
    assert!(printed.contains("       0          1  1:1 a word"), "{printed}");
    assert!(printed.contains("       1          0  1:77 a word"), "{printed}");

    // Live traffic has no packet numbers.
    let live = eve.replace("\"pcap_cnt\"", "\"was\"");
    fs::write(path.join("live.json"), live).unwrap();
    assert!(text(&parity("live.json").stdout).contains("3 are the same (compared by time)"));

    for (content, said) in [
        ("", "bad.json has no events"),
        ("{\"a\":1}\n{\"event_type\":\"al", "bad.json:2: EOF while parsing"),
        ("alert udp any any", "bad.json:1: expected value"),
    ] {
        fs::write(path.join("bad.json"), content).unwrap();
        let out = parity("bad.json");
        assert_eq!(out.status.code(), Some(2), "{content}");
        assert!(text(&out.stderr).contains(said), "{}", text(&out.stderr));
    }
}

/// What the README and the handbook show.
#[test]
fn the_capture_of_the_handbook_prints_what_stands_there() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let page = fs::read_to_string(root.join("docs/ips.md")).unwrap();
    let rules = "tests/captures/words.rules";
    let out = gauntlet(&["ips", "replay", "tests/captures/words.pcap", "--rules", rules], root);
    let checked = gauntlet(&["ips", "rules", "check", rules], root);
    for printed in [text(&out.stdout), text(&checked.stdout)] {
        assert!(page.contains(&printed), "{printed}");
    }
    let page = fs::read_to_string(root.join("docs/ips-content.md")).unwrap();
    let out = gauntlet(&["ips", "replay", "tests/captures/mail.pcap", "--scan", "mail"], root);
    assert!(page.contains(&text(&out.stdout)), "{}", text(&out.stdout));
}
