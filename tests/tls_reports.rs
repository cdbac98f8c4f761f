//! TLS reports (RFC 8460): a node sends mail to exchangers without TLS, counts that, and reports it
//! to the domain that asks for it: by order of the command line, and by itself the day after.

use std::io::Read;
use std::process::{Command, Output};
use std::time::Duration;

use crate::common::zone::{Zone, txt};
use crate::common::{Node, Sink, Smtp, message};
use gauntlet_gateway::clock::Day;
use gauntlet_gateway::clock::now_ms;
use gauntlet_mail::Message;

fn tlsrpt(node: &Node, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_gauntlet"));
    command.arg("tlsrpt").args(args).arg("--config").arg(node.folder.path().join("gauntlet.toml"));
    command.env_remove("GAUNTLET_CONFIG").output().unwrap()
}

fn json_lines(output: &Output) -> Vec<serde_json::Value> {
    let text = String::from_utf8_lossy(&output.stdout);
    let read = |line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {output:?}"));
    text.lines().map(read).collect()
}

/// The reports that came by mail: domain and document.
fn mailed(sink: &Sink) -> Vec<(String, serde_json::Value)> {
    let taken = sink.taken();
    let reports = taken.iter().filter(|raw| {
        let text = String::from_utf8_lossy(raw);
        text.contains("TLS-Report-Domain: ")
    });
    reports
        .map(|raw| {
            let text = String::from_utf8_lossy(raw).into_owned();
            let domain = text.lines().find_map(|l| l.strip_prefix("TLS-Report-Domain: ")).unwrap();
            assert!(text.contains("report-type=\"tlsrpt\""), "{text}");
            assert!(text.contains("TLS-Required: No"), "{text}");
            let message = Message::parse(raw);
            let part = message.parts().iter().find(|p| p.file_name().is_some()).unwrap();
            assert!(part.file_name().unwrap().ends_with("!tls.json.gz"), "{:?}", part.file_name());
            let mut json = String::new();
            flate2::read::GzDecoder::new(part.body()).read_to_string(&mut json).unwrap();
            (domain.trim().to_owned(), serde_json::from_str(&json).unwrap())
        })
        .collect()
}

fn check_document(document: &serde_json::Value, organisation: &str) {
    assert_eq!(document["organization-name"], organisation, "{document}");
    let policy = &document["policies"][0];
    assert_eq!(policy["policy"]["policy-type"], "no-policy-found", "{document}");
    assert_eq!(policy["policy"]["policy-domain"], "asks.example", "{document}");
    assert_eq!(policy["summary"]["total-failure-session-count"], 1, "{document}");
    let failed = &policy["failure-details"][0];
    assert_eq!(failed["result-type"], "starttls-not-supported", "{document}");
    assert_eq!(failed["receiving-mx-hostname"], "mx.asks.example", "{document}");
    assert_eq!(failed["receiving-ip"], "127.0.0.31", "{document}");
}

#[test]
fn domains_that_ask_are_told_by_order_and_the_day_after() {
    let records = "asks.example MX 10 mx.asks.example.\nmx.asks.example A 127.0.0.31\n\
                   quiet.example MX 10 mx.asks.example.\n"
        .to_owned()
        + &txt("_smtp._tls.asks.example", "v=TLSRPTv1; rua=mailto:tls@asks.example");
    let Some(zone) = Zone::serve(&records) else { return };
    let sink = Sink::start_at(([127, 0, 0, 31], 0).into());
    let mut node = Node::start_listening(
        "role = \"outbound\"",
        &format!(
            "[domains]\nlocal = [\"ours.example\"]\n[dns]\nservers = [\"{}\"]\n\
             [sender]\nexchanger_networks_allowed = [\"127.0.0.0/8\"]\nexchanger_port = {}\n\
             [tls_reports]\nenabled = true\nhour = 23\norganisation = \"A & B\"\n",
            zone.address(),
            sink.address.port()
        ),
    );
    // Its hour has not come yet, or all of it is over before the test is: nothing goes by itself.
    let nothing = tlsrpt(&node, &["send", "--day", "2001-01-01"]);
    assert!(String::from_utf8_lossy(&nothing.stdout).contains("no connection of 2001-01-01"));
    assert_eq!(tlsrpt(&node, &["send", "--day", "soon"]).status.code(), Some(2));

    let mut client = Smtp::connect(node.smtp).unwrap();
    for to in ["bob@asks.example", "bob@quiet.example"] {
        let reply = client.send("ann@ours.example", &[to], &message(to, 200)).unwrap();
        assert!(reply.starts_with("250"), "{reply}");
    }
    node.wait_until("it is delivered", || sink.taken().len() == 2);
    let day = Day::of(now_ms());
    let sent = tlsrpt(&node, &["send", "--day", &day.name(), "--json"]);
    assert_eq!(sent.status.code(), Some(0), "{sent:?}");
    let lines = json_lines(&sent);
    assert_eq!(lines.len(), 2, "{lines:?}");
    assert_eq!(lines[0]["to"], serde_json::json!(["tls@asks.example"]), "{lines:?}");
    assert_eq!(lines[1]["none"], "the domain asks for no reports (_smtp._tls)", "{lines:?}");
    node.wait_until("the report is there", || mailed(&sink).len() == 1);
    let (domain, document) = mailed(&sink).remove(0);
    assert_eq!(domain, "asks.example");
    check_document(&document, "A & B");

    // What was counted is kept, and can be read without a node.
    node.stop();
    let printed = json_lines(&tlsrpt(&node, &["report", "--day", &day.name()]));
    let of = |domain: &str| {
        let is = |d: &&serde_json::Value| d["policies"][0]["policy"]["policy-domain"] == domain;
        printed.iter().find(is).unwrap_or_else(|| panic!("{printed:?}"))
    };
    check_document(of("asks.example"), "A & B");
    of("quiet.example");

    // The day after: what was counted today was counted yesterday.
    let file = node.data().join("tls-outcomes.json");
    let text = std::fs::read_to_string(&file).unwrap();
    let (today, before) = (format!("\"{}\"", day.0), format!("\"{}\"", day.before().0));
    assert!(text.contains(&today), "{text}");
    std::fs::write(&file, text.replace(&today, &before)).unwrap();
    node.config = node.config.replace("hour = 23", "hour = 0");
    let _sent_earlier = std::fs::remove_file(node.data().join("reports/tls-reports-sent"));
    node.run();
    let before = mailed(&sink).len();
    node.wait_at_most(Duration::from_secs(100), "it came by itself", || {
        mailed(&sink).len() > before
    });
    check_document(&mailed(&sink).pop().unwrap().1, "A & B");
    let kept = std::fs::read_to_string(node.data().join("reports/tls-reports-sent")).unwrap();
    assert_eq!(Day::parse(&kept), Some(Day::of(now_ms()).before()));
}
