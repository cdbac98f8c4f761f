//! `gauntlet facts`, `gauntlet dkim`, `gauntlet doctor` and a node that gathers facts, against a
//! real DNS server.

use std::process::{Command, Output};

use crate::common::zone::{Zone, txt};
use crate::common::{Node, Smtp};

fn gauntlet(args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_gauntlet"));
    command.args(args).env_remove("GAUNTLET_CONFIG").output().expect("gauntlet runs")
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

const MAIL: &str = "From: ann@sender.example\nTo: bob@home.example\nSubject: hi\n\nhello\n";

fn records() -> String {
    [
        txt("sender.example", "v=spf1 ip4:192.0.2.1 -all"),
        txt("_dmarc.sender.example", "v=DMARC1; p=reject"),
        "2.2.0.192.in-addr.arpa PTR bad.example.\nbad.example A 192.0.2.2\n\
         2.2.0.192.bl.example A 127.0.0.4\n2.0.0.127.bl.example A 127.0.0.2\n\
         *.refuses.example A 127.255.255.254\n*.all.example A 127.0.0.2\n\
         gw.example A 192.0.2.9\n9.2.0.192.in-addr.arpa PTR gw.example.\n"
            .to_owned(),
    ]
    .concat()
}

const LISTS: &str = "[[dns_list]]\nzone = \"bl.example\"\nanswers = { \"127.0.0.4\" = 4.5 }\n\
    [[dns_list]]\nzone = \"refuses.example\"\n";

#[test]
fn facts_of_a_file() {
    let Some(zone) = Zone::serve(&records()) else { return };
    let folder = tempfile::tempdir().unwrap();
    let (mail, conf) = (folder.path().join("m.eml"), folder.path().join("c.toml"));
    std::fs::write(&mail, MAIL).unwrap();
    std::fs::write(&conf, LISTS).unwrap();
    let server = zone.address().to_string();
    let args = |json: bool| {
        let mut args =
            vec!["facts", "--dns", &server, "--client", "192.0.2.2", "--helo", "bad.example"];
        args.extend(["--mail-from", "ann@sender.example", "--config", conf.to_str().unwrap()]);
        args.push(mail.to_str().unwrap());
        if json {
            args.push("--json");
        }
        gauntlet(&args)
    };
    let json: serde_json::Value = serde_json::from_str(&text(&args(true))).unwrap();
    let facts = &json["facts"];
    assert_eq!((facts["spf"].as_str(), facts["dmarc"].as_str()), (Some("fail"), Some("fail")));
    assert_eq!(facts["reverse_name"], "bad.example");
    assert_eq!(facts["listings"].as_array().unwrap().len(), 1, "{facts}");
    assert_eq!(facts["listings"][0]["points"], 4.5);
    assert!(facts["notes"][0].as_str().unwrap().contains("refuses to answer us"), "{facts}");
    let table = text(&args(false));
    for line in
        ["spf        fail", "dmarc      fail", "sender.example asks for reject", "listed     +4.5"]
    {
        assert!(table.contains(line), "{line}:\n{table}");
    }
    assert!(table.contains("v=spf1 ip4:192.0.2.1 -all"), "{table}");
    assert!(!gauntlet(&["facts", "/nowhere.eml"]).status.success());
}

#[test]
fn keys_are_made_published_and_used() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().to_str().unwrap();
    let made = gauntlet(&["dkim", "new", "sender.example", "--data", data]);
    let line = text(&made);
    assert!(
        line.starts_with("g1._domainkey.sender.example. 3600 IN TXT ( \"v=DKIM1; k=rsa;"),
        "{line}"
    );
    let made = gauntlet(&["dkim", "rotate", "sender.example", "--data", data]);
    let next = text(&made);
    assert!(next.starts_with("g2._domainkey"), "{next}");
    let Some(zone) = Zone::serve(&line) else { return };
    let conf = folder.path().join("c.toml");
    std::fs::write(&conf, format!("[dns]\nservers = [\"{}\"]\n", zone.address())).unwrap();
    let rotate =
        ["dkim", "rotate", "sender.example", "--data", data, "--config", conf.to_str().unwrap()];
    let refused = gauntlet(&rotate);
    assert!(!refused.status.success());
    assert!(String::from_utf8_lossy(&refused.stderr).contains("is not published"));
    drop(zone);
    let zone = Zone::serve(&format!("{line}{next}")).unwrap();
    std::fs::write(&conf, format!("[dns]\nservers = [\"{}\"]\n", zone.address())).unwrap();
    assert!(text(&gauntlet(&rotate)).contains("g2 signs"));
    let list = text(&gauntlet(&["dkim", "list", "--data", data, "--json"]));
    let states: Vec<String> = list
        .lines()
        .map(|l| serde_json::from_str::<serde_json::Value>(l).unwrap())
        .map(|k| format!("{} {}", k["selector"], k["state"]))
        .collect();
    assert_eq!(states, ["\"g1\" \"old\"", "\"g2\" \"active\""]);
}

#[test]
fn doctor_finds_what_is_wrong() {
    let Some(zone) = Zone::serve(&records()) else { return };
    let folder = tempfile::tempdir().unwrap();
    let conf = folder.path().join("c.toml");
    let node = "[node]\nname = \"gw.example\"\n[[listener]]\naddress = \"127.0.0.1:1\"\n";
    let all = "[[dns_list]]\nzone = \"all.example\"\n";
    std::fs::write(&conf, format!("{node}{LISTS}{all}")).unwrap();
    let (server, conf) = (zone.address().to_string(), conf.to_str().unwrap());
    let output = gauntlet(&["doctor", "--config", conf, "--dns", &server]);
    let said = text(&output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    for line in [
        "ok      resolver",
        "ok      lists        bl.example answers",
        "error   lists        refuses.example refuses to answer us: probably because",
        "is an open public resolver; run a resolver of your own",
        "error   lists        all.example lists everything",
        "ok      our name     gw.example",
        "ok      reverse name 192.0.2.9 is gw.example",
        "warning relaying     127.0.0.1:1 cannot be asked",
    ] {
        assert!(said.contains(line), "{line}:\n{said}");
    }
    // As the kernel has it, on whichever machine this runs.
    let clock = match gauntlet_gateway::clock::error_ms() {
        Some(_) => "ok      clock        synchronised, wrong by",
        None => "warning clock        the clock is not synchronised",
    };
    assert!(said.starts_with(clock), "{clock}:\n{said}");
    let output =
        gauntlet(&["doctor", "--config", conf, "--dns", &server, "--address", "192.0.2.2"]);
    assert!(text(&output).contains("192.0.2.2 is not gw.example but: bad.example"));
    let (_silent, nobody) = crate::common::zone::silent();
    let output = gauntlet(&["doctor", "--config", conf, "--dns", &nobody.to_string()]);
    assert!(text(&output).contains("error   resolver"), "{}", text(&output));
}

#[test]
fn a_node_gathers_facts_and_stamps_them() {
    let mut records = txt("sender.example", "v=spf1 ip4:192.0.2.1 -all");
    records += &txt("_dmarc.sender.example", "v=DMARC1; p=reject");
    records += "1.0.0.127.bl.example A 127.0.0.4\n";
    let Some(zone) = Zone::serve(&records) else { return };
    let config = format!(
        "[dns]\nservers = [\"{}\"]\n[facts]\nour_networks = []\n\
         [[dns_list]]\nzone = \"bl.example\"\npoints = 1.5\n",
        zone.address()
    );
    let mut node = Node::start(&config);
    let mut client = Smtp::connect(node.smtp).unwrap();
    let mail = MAIL.replace("sender.example", "other.example");
    let forged = format!("Authentication-Results: gw.test; spf=pass\n{mail}");
    let reply =
        client.send("ann@sender.example", &["bob@home.example"], forged.as_bytes()).unwrap();
    assert!(reply.starts_with("250"), "{reply}");
    node.wait_for_empty_queue();
    node.stop();
    let log = gauntlet_store::Log::open(&node.data().join("log")).unwrap();
    let logged = log.search(&gauntlet_store::Query::default()).unwrap().messages;
    let record = log.get(&logged[0].id).unwrap().unwrap().record;
    assert_eq!(record.facts.spf, gauntlet_mail::facts::AuthResult::Fail);
    assert_eq!(record.facts.listings.len(), 1);
    let hits: Vec<&str> = record.verdict.hits.iter().map(|h| &*h.rule).collect();
    assert!(hits.contains(&"SPF_FAILED") && hits.contains(&"DNS_LISTED"), "{hits:?}");
    // The facts that were logged give the same verdict again.
    let mut again = serde_json::to_value(&record.facts).unwrap();
    again["lookups"] = serde_json::json!([]);
    let facts: gauntlet_mail::Facts = serde_json::from_value(again).unwrap();
    assert_eq!(facts.spf, record.facts.spf);
    let delivered = node.maildir();
    let Some(stamped) = delivered.first() else { return };
    let stamped = String::from_utf8_lossy(stamped);
    assert!(stamped.contains("\nAuthentication-Results: gw.test;\n\tspf=fail"), "{stamped}");
    assert!(!stamped.contains("gw.test; spf=pass"), "{stamped}");
}

#[test]
fn dns_settings_are_taken_over_by_a_reload() {
    let records = txt("sender.example", "v=spf1 ip4:192.0.2.1 -all");
    let Some(zone) = Zone::serve(&records) else { return };
    let (_silent, nobody) = crate::common::zone::silent();
    let config = |server: &str| {
        format!("[dns]\nservers = [\"{server}\"]\nwait_ms_max = 200\n[facts]\nour_networks = []\n")
    };
    let mut node = Node::start(&config(&nobody.to_string()));
    let send = |node: &Node| {
        let mut client = Smtp::connect(node.smtp).unwrap();
        let reply = client.send("ann@sender.example", &["bob@home.example"], MAIL.as_bytes());
        assert!(reply.unwrap().starts_with("250"));
        node.wait_for_empty_queue();
    };
    send(&node);
    let right = zone.address().to_string();
    for (server, said) in [("nowhere", "not reloaded"), (&*right, "configuration reloaded")] {
        node.config = node.config.replace(&nobody.to_string(), server);
        node.write_config();
        node.signal("-HUP");
        node.wait_until("it has read them", || node.log().contains(said));
        node.config = node.config.replace("\"nowhere\"", &format!("\"{nobody}\""));
    }
    send(&node);
    node.stop();
    let log = gauntlet_store::Log::open(&node.data().join("log")).unwrap();
    let logged = log.search(&gauntlet_store::Query::default()).unwrap().messages;
    let spf = logged.iter().rev().map(|m| log.get(&m.id).unwrap().unwrap().record.facts.spf);
    use gauntlet_mail::facts::AuthResult;
    assert_eq!(spf.collect::<Vec<_>>(), [AuthResult::TempError, AuthResult::Fail]);
}

#[test]
fn outbound_mail_is_signed() {
    let folder = tempfile::tempdir().unwrap();
    let keys = folder.path().join("data");
    let made = gauntlet(&["dkim", "new", "sender.example", "--data", keys.to_str().unwrap()]);
    let Some(zone) = Zone::serve(&text(&made)) else { return };
    let config = format!(
        "[dns]\nservers = [\"{}\"]\n[dkim]\nkeys = {:?}\n",
        zone.address(),
        keys.join("dkim")
    );
    let node = Node::start_listening("role = \"outbound\"", &config);
    let mut client = Smtp::connect(node.smtp).unwrap();
    let reply = client.send("ann@sender.example", &["bob@home.example"], MAIL.as_bytes()).unwrap();
    assert!(reply.starts_with("250"), "{reply}");
    node.wait_for_empty_queue();
    let delivered = node.maildir().remove(0);
    let path = folder.path().join("out.eml");
    std::fs::write(&path, &delivered).unwrap();
    let server = zone.address().to_string();
    let args =
        ["facts", "--json", "--client", "192.0.2.1", "--dns", &server, path.to_str().unwrap()];
    let output = gauntlet(&args);
    let json: serde_json::Value = serde_json::from_str(&text(&output)).unwrap();
    let said = String::from_utf8_lossy(&delivered);
    assert_eq!(json["facts"]["dkim"][0]["result"], "pass", "{said}\n{json}");
    assert_eq!(json["facts"]["dkim"][0]["domain"], "sender.example");
}
