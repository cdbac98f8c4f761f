//! DMARC aggregate reports: a node receives authenticated and forged mail, makes the day's reports,
//! asks who may get them, and sends them to a sink.

use std::io::Read;
use std::process::{Command, Output};

use crate::common::zone::{Zone, txt};
use crate::common::{Node, Sink, Smtp};
use gauntlet_gateway::clock::Day;
use gauntlet_gateway::clock::now_ms;
use gauntlet_gateway::outbound::signing::{Algorithm, KeyRing};
use gauntlet_mail::Message;

fn gauntlet(args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_gauntlet"));
    command.args(args).env_remove("GAUNTLET_CONFIG").output().expect("gauntlet runs")
}

fn records() -> String {
    let rua = "rua=mailto:own@sender.example,mailto:d@agrees.example!10m,mailto:d@silent.example,\
        mailto:d@small.example!10,https://sender.example/";
    [
        txt("sender.example", "v=spf1 ip4:127.0.0.1 -all"),
        txt("_dmarc.sender.example", &format!("v=DMARC1; p=reject; aspf=s; {rua}")),
        txt("sender.example._report._dmarc.agrees.example", "v=DMARC1"),
        txt("sender.example._report._dmarc.small.example", "v=DMARC1;"),
        txt("quiet.example", "v=spf1 ip4:127.0.0.1 -all"),
        txt("_dmarc.quiet.example", "v=DMARC1; p=none"),
        txt("other.example", "v=spf1 ip4:127.0.0.1 -all"),
        "x.news.sender.example A 192.0.2.1\n".to_owned(),
    ]
    .concat()
}

fn json_lines(output: &Output) -> Vec<serde_json::Value> {
    let text = String::from_utf8_lossy(&output.stdout);
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The report of a message, out of its attachment.
fn report_of(raw: &[u8]) -> (String, String) {
    let message = Message::parse(raw);
    let part = message.parts().iter().find(|p| p.file_name().is_some()).unwrap();
    let mut xml = String::new();
    flate2::read::GzDecoder::new(part.body()).read_to_string(&mut xml).unwrap();
    (part.file_name().unwrap().to_owned(), xml)
}

#[test]
fn reports_are_made_checked_and_sent() {
    let keys = tempfile::tempdir().unwrap();
    let mut ring = KeyRing::load(keys.path()).unwrap();
    let key = ring.create("sender.example", "s1", Algorithm::Ed25519, 0).unwrap();
    let record = txt(&key.record_name(), &key.record());
    let gw = ring.create("gw.test", "g1", Algorithm::Ed25519, 0).unwrap().record_name();
    let Some(zone) = Zone::serve(&(record + &records())) else { return };
    let sink = Sink::start();
    let node = Node::start(&format!(
        "[dns]\nservers = [\"{}\"]\n[facts]\nour_networks = []\nwait_ms_max = 20000\n\
         [dkim]\nkeys = {:?}\n[dmarc_reports]\norganisation = \"A & B\"\n\
         [[next_hop]]\nfor = [\"sender.example\", \"agrees.example\", \"silent.example\"]\n\
         hosts = [\"{}\"]\n",
        zone.address(),
        keys.path(),
        sink.address
    ));
    let mut client = Smtp::connect(node.smtp).unwrap();
    let mut send = |from: &str, author: &str, sign: bool| {
        let mail =
            format!("From: Ann <{author}>\r\nTo: bob@home.example\r\nSubject: hi\r\n\r\nx\r\n");
        let fields = if sign {
            ring.sign(&mail.as_bytes().into(), now_ms() / 1_000).unwrap()
        } else {
            String::new()
        };
        let reply = client.send(from, &["bob@home.example"], (fields + &mail).as_bytes()).unwrap();
        assert!(reply.starts_with("250") || reply.starts_with("550"), "{reply}");
    };
    // Two that pass by SPF, one by its signature alone, one forged, one of a subdomain that is not
    // strictly the same.
    send("ann@sender.example", "ann@sender.example", false);
    send("ann@sender.example", "ann@sender.example", false);
    send("bounce@other.example", "ann@sender.example", true);
    send("eve@other.example", "ann@sender.example", false);
    send("ann@sender.example", "ann@x.news.sender.example", false);
    send("joe@quiet.example", "joe@quiet.example", false);
    send("joe@other.example", "joe@other.example", false);
    node.wait_for_empty_queue();

    check_reports(&node, &zone, &sink, &gw);
}

/// What is made of that mail, where it would go, and what is sent.
fn check_reports(node: &Node, zone: &Zone, sink: &Sink, gw: &str) {
    let day = Day::of(now_ms()).name();
    let (data, server) = (node.data(), zone.address().to_string());
    let report = ["dmarc", "report", "--day", &day, "--dns", &server];
    let report = [&report[..], &["--data", data.to_str().unwrap()]].concat();
    let made = json_lines(&gauntlet(&[&report[..], &["--json"]].concat()));
    assert_eq!(made.len(), 2, "{made:?}");
    assert_eq!(made[0]["domain"], "quiet.example");
    assert_eq!(made[0]["none"], "the domain asks for no reports (rua)");
    let of = &made[1];
    assert_eq!((of["messages"].as_u64(), of["rows"].as_u64()), (Some(5), Some(4)), "{of}");
    assert_eq!(of["to"], serde_json::json!(["own@sender.example", "d@agrees.example"]), "{of}");
    let why = of["refused"].to_string();
    for part in
        ["silent.example does not say that it takes", "bytes, 10 are allowed", "by mail only"]
    {
        assert!(why.contains(part), "{part}: {why}");
    }
    let text = String::from_utf8(gauntlet(&report).stdout).unwrap();
    assert!(text.contains("would go to d@agrees.example"), "{text}");
    assert!(sink.taken().is_empty());

    let send = ["dmarc", "send", "--day", &day, "--json", "--data", data.to_str().unwrap()];
    let output = gauntlet(&send);
    assert_eq!(output.status.code(), Some(1), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(json_lines(&output)[1]["to"], of["to"]);
    node.wait_for_empty_queue();
    check_mails(&sink.taken(), gw);
    // Nothing to report of another day.
    let none =
        gauntlet(&["dmarc", "send", "--day", "2001-01-01", "--data", data.to_str().unwrap()]);
    assert!(String::from_utf8_lossy(&none.stdout).contains("no mail of 2001-01-01"));
    let bad = gauntlet(&["dmarc", "send", "--day", "soon", "--data", data.to_str().unwrap()]);
    assert_eq!(bad.status.code(), Some(2));
}

fn check_mails(mails: &[Vec<u8>], gw: &str) {
    assert_eq!(mails.len(), 2);
    let raw = String::from_utf8_lossy(&mails[0]).into_owned();
    for part in [
        "Subject: Report Domain: sender.example Submitter: gw.test Report-ID: <sender.example-",
        "Auto-Submitted: auto-generated",
        "From: postmaster@gw.test",
        "DKIM-Signature: v=1; a=ed25519-sha256; s=g1; d=gw.test;",
    ] {
        assert!(raw.contains(part), "{part} ({gw}):\n{raw}");
    }
    let (name, xml) = report_of(&mails[0]);
    assert!(name.starts_with("gw.test!sender.example!") && name.ends_with(".xml.gz"), "{name}");
    let tight: String = xml.split_whitespace().collect::<Vec<_>>().join("");
    for part in [
        "<org_name>A&amp;B</org_name>",
        "<domain>sender.example</domain><adkim>r</adkim><aspf>s</aspf><p>reject</p><sp>reject</sp>",
        "<count>2</count><policy_evaluated><disposition>none</disposition><dkim>fail</dkim><spf>pass</spf>",
        "<dkim>pass</dkim><spf>fail</spf></policy_evaluated></row><identifiers>\
         <envelope_from>other.example</envelope_from><header_from>sender.example</header_from>",
        "<dkim><domain>sender.example</domain><selector>s1</selector><result>pass</result></dkim>",
        "<header_from>x.news.sender.example</header_from>",
        "<spf><domain>other.example</domain><scope>mfrom</scope><result>pass</result></spf>",
    ] {
        assert!(tight.contains(part), "{part}:\n{xml}");
    }
    assert_eq!(tight.matches("<record>").count(), 4);
}

#[test]
fn reports_of_yesterday_are_sent_once() {
    let Some(zone) = Zone::serve(&records()) else { return };
    let config = format!(
        "[dns]\nservers = [\"{}\"]\n[dmarc_reports]\nenabled = true\nhour = 0\n",
        zone.address()
    );
    let node = Node::start(&config);
    let file = node.data().join("reports/dmarc-reports-sent");
    node.wait_at_most(std::time::Duration::from_secs(90), "reports were due", || file.exists());
    let day = Day::of(now_ms()).before().name();
    assert_eq!(std::fs::read_to_string(&file).unwrap(), day);
    node.wait_until("it is said", || node.log().contains("dmarc-reports-sent"));
}
