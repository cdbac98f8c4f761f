//! Rules for packets: `gauntlet ips policy`, in replays, and before nginx, curl and ping in network
//! namespaces of this test.

use std::fs;
use std::net::SocketAddrV4;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Output};

use serde_json::Value;

use crate::common::capture::{By, Capture};
use crate::common::namespaces::{LARGE, Middle, Namespaces, program};
use crate::common::running::{GAUNTLET, Running, queue_rule, until};

const POLICY: &str = r#"
[ips]
records_per_second_max = 1000
[ips.zones]
inside = { interface = "c0", networks = ["10.78.0.0/16", "192.0.2.0/24"] }
outside = { interface = "s0" }
[ips.networks]
servers = ["10.78.1.3", "10.78.2.2", "198.51.100.0/24"]
[ips.services]
web = ["tcp/80", "tcp/443"]
[[ips.rule]]
name = "not this port"
service = "tcp/81"
do = "reject"
[[ips.rule]]
name = "web"
from_zone = "inside"
to = "servers"
service = "web"
do = "inspect"
functions = ["rules"]
[[ips.rule]]
name = "pings go out"
from_zone = "inside"
service = "icmp/echo-request"
do = "allow"
log = true
"#;

fn gauntlet(args: &[&str], folder: &Path) -> Output {
    Command::new(GAUNTLET).args(args).current_dir(folder).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A folder with a policy and a capture: a page, a question of DNS, a connection to port 81.
fn folder(policy: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("policy.toml"), policy).unwrap();
    let mut capture = Capture::new();
    let client = |port| SocketAddrV4::new([192, 0, 2, 1].into(), port);
    let server = |port| SocketAddrV4::new([198, 51, 100, 1].into(), port);
    let request = b"GET /seen HTTP/1.1\r\nHost: a.example\r\n\r\n";
    let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi";
    let talk = [(By::Client, &request[..]), (By::Server, &answer[..])];
    capture.tcp([client(4000), server(80)], &talk);
    capture.udp([client(4001), server(53)], b"question");
    capture.tcp([client(4002), server(81)], &talk);
    capture.write(&folder.path().join("a.pcap"));
    fs::write(folder.path().join("a.rules"), crate::common::running::RULES).unwrap();
    folder
}

#[test]
fn a_replay_takes_flows_as_rules_say() {
    let folder = folder(POLICY);
    let all = ["ips", "replay", "a.pcap", "--rules", "a.rules", "--json"];
    for threads in ["1", "2"] {
        let args = ["--inline", "--packet-policy", "policy.toml", "--threads", threads];
        let out = gauntlet(&[&all[..], &args].concat(), folder.path());
        assert!(out.status.success(), "{}", text(&out.stderr));
        let lines = text(&out.stdout);
        let lines: Vec<Value> = lines.lines().map(|l| serde_json::from_str(l).unwrap()).collect();
        let of = |kind: &str| lines.iter().filter(|l| l["event_type"] == kind).collect::<Vec<_>>();
        let alerts: Vec<_> = of("alert").iter().map(|l| &l["alert"]["signature_id"]).collect();
        assert_eq!(alerts, [1], "rules see the page, and not what is refused");
        let told = of("gauntlet");
        assert_eq!(told[0]["dest_port"], 53);
        assert_eq!(told[0]["gauntlet"]["rule"], "default");
        assert_eq!(told[0]["gauntlet"]["verdict"], "drop");
        assert_eq!(told[0]["gauntlet"]["reason"], "packet policy");
        assert_eq!(told[1]["gauntlet"]["rule"], "not this port");
        assert_eq!(told[1]["gauntlet"]["action"], "blocked");
        assert!(of("drop").iter().all(|l| l["drop"]["reason"] == "packet policy"));
        let summary = &lines.last().unwrap()["summary"];
        let count = |rule: &str, key: &str| {
            let rules = summary["policy"].as_array().unwrap();
            rules.iter().find(|it| it["rule"] == rule).unwrap()[key].as_u64().unwrap()
        };
        assert_eq!((count("web", "decisions"), count("web", "refused")), (1, 0));
        // The question, and what the server says to a connection that was refused.
        assert_eq!((count("default", "decisions"), count("default", "refused")), (5, 5));
        assert_eq!(count("not this port", "refused"), 6, "{summary}");
    }
    // Without --inline nothing is dropped, so everything is looked at.
    let out = gauntlet(&[&all[..], &["--packet-policy", "policy.toml"]].concat(), folder.path());
    let lines = text(&out.stdout);
    assert_eq!(lines.matches("\"signature_id\":1,").count(), 2, "{lines}");
    let decided: Vec<&str> = lines.lines().filter(|line| line.contains("\"policy\"")).collect();
    assert!(decided.len() > 1 && decided.iter().all(|line| !line.contains("\"blocked\"")));
    let without = gauntlet(&[&all[..], &["--inline"]].concat(), folder.path());
    assert!(text(&without.stdout).contains("\"policy\":[]"));
}

#[test]
fn a_policy_is_checked_and_explained() {
    let folder = folder(POLICY);
    let run = |args: &[&str]| {
        let out = gauntlet(&[&["ips", "policy"], args].concat(), folder.path());
        (out.status.code(), text(&out.stdout), text(&out.stderr))
    };
    let (code, said, _) = run(&["check", "policy.toml"]);
    assert_eq!(code, Some(0));
    assert!(said.starts_with("3 rules; what none fits: drop\n"), "{said}");
    assert!(said.contains("interface \"c0\" is not on this machine"), "{said}");
    let flow = ["explain", "policy.toml", "--from", "10.78.1.2", "--to", "10.78.1.3:443"];
    let (code, said, _) = run(&flow);
    assert_eq!(code, Some(0));
    assert!(said.starts_with("inspect: rule \"web\"\n  tcp/443 from inside to inside"), "{said}");
    assert!(said.contains("looked at by rules\n"), "{said}");
    assert!(said.contains("not \"not this port\" (reject): service is tcp/443, not tcp/81"));
    let (_, said, _) = run(&[&flow[..], &["--zone", "outside"]].concat());
    assert!(said.starts_with("drop: no rule fits\n"), "{said}");
    assert!(said.contains("inspect by \"web\" if from_zone were inside\n"), "{said}");
    let (_, said, _) = run(&[&flow[..], &["--json"]].concat());
    let json: Value = serde_json::from_str(&said).unwrap();
    assert_eq!((&json["rule"], &json["do"]), (&"web".into(), &"inspect".into()));
    for (args, wrong) in [
        (&["--from", "10.78.1.2", "--to", "10.78.1.3"][..], "needs a port"),
        (&["--from", "x", "--to", "10.78.1.3"], "is no address"),
        (&["--from", "10.0.0.1", "--to", "10.0.0.2:1", "--zone", "insid"], "no zone"),
        (&["--from", "10.0.0.1", "--to", "10.0.0.2", "--protocol", "http"], "is no protocol"),
        (&["--from", "10.0.0.1", "--to", "10.0.0.2:1", "--time", "noon"], "is no time"),
    ] {
        let (code, _, said) = run(&[&["explain", "policy.toml"], args].concat());
        assert!(code == Some(2) && said.contains(wrong), "{args:?}: {said}");
    }
    for (policy, wrong) in [
        ("", "has no [[ips.rule]]"),
        ("[[ips.rule]]\nname = \"a\"\ndo = \"drop\"\nto = \"serverz\"\n", "is no network"),
        ("[[ips.rule]]\nname = \"a\"\ndo = \"drop\"\nport = 1\n", "port"),
        ("[[ips.rule]]\nname = \"a\"\ndo = \"drop\"\nto_country = \"SE\"\n", "geoip-database"),
    ] {
        fs::write(folder.path().join("bad.toml"), policy).unwrap();
        let (code, _, said) = run(&["check", "bad.toml"]);
        assert!(code == Some(2) && said.contains(wrong), "{policy}: {said}");
    }
}

/// The policy file of a running program.
fn write_policy(net: &Namespaces, policy: &str) -> String {
    let file = net.folder.path().join("policy.toml");
    fs::write(&file, policy).unwrap();
    file.display().to_string()
}

/// Whether an address answers to one ping.
fn pings(net: &Namespaces, from: &str, to: &str) -> bool {
    net.run(from, "ping", &["-c", "1", "-W", "1", to]).status.success()
}

#[test]
fn a_bridge_lets_in_what_rules_let_in() {
    let Some(net) = Namespaces::new(Middle::Bridge) else { return };
    if program("ping").is_none() {
        return;
    }
    let policy = write_policy(&net, POLICY);
    let running = Running::bridge(&net, &["--packet-policy", &policy]);
    assert_eq!(net.get("/seen", 10).as_deref(), Ok("answer to /seen"));
    assert_eq!(running.alert(1), "allowed");
    assert_eq!(net.get("/dropped", 2), Err(28), "rules look at it");
    let url = format!("http://{}:81/", net.server);
    let refused = net.run("client", "curl", &["-sS", "--max-time", "10", &url]);
    assert_eq!(refused.status.code(), Some(7), "rejected by a reset");
    assert!(pings(&net, "client", net.server));
    assert!(!pings(&net, "server", "10.78.1.2"), "the other way no rule fits");
    let back = ["-sS", "--max-time", "1", "http://10.78.1.2/"];
    assert_eq!(net.run("server", "curl", &back).status.code(), Some(28));
    assert_eq!(net.get("/large", 60).map(|body| body.len()), Ok(LARGE));
    let decided = |rule: &str| {
        let records = running.records("gauntlet");
        records.into_iter().find(|record| record["gauntlet"]["rule"] == rule)
    };
    until("records", || decided("default").is_some() && decided("not this port").is_some());
    assert_eq!(decided("not this port").unwrap()["gauntlet"]["verdict"], "reject");
    assert_eq!(decided("pings go out").unwrap()["gauntlet"]["action"], "allowed");

    // Now nothing looks at pages, and a connection that is under way is asked about once more.
    let free = POLICY.replace("do = \"inspect\"\nfunctions = [\"rules\"]", "do = \"allow\"");
    write_policy(&net, &free);
    running.signal("-HUP", running.child.id());
    until("the new policy", || net.get("/dropped", 2).is_ok());
    let url = format!("http://{}/large", net.server);
    // Slow, since what buffers hold has passed; and given up when nothing comes for four seconds.
    let slowly = ["-sS", "-o", "/dev/null", "--limit-rate", "512K", "--max-time", "60"];
    let stalled = ["--speed-limit", "1000", "--speed-time", "4", &url];
    let mut slow = net.command("client", "curl").args(slowly).args(stalled).spawn().unwrap();
    std::thread::sleep(std::time::Duration::from_millis(500));
    write_policy(&net, &free.replace("name = \"web\"", "name = \"web\"\nto_zone = \"inside\""));
    running.signal("-HUP", running.child.id());
    assert_eq!(slow.wait().unwrap().code(), Some(28), "it is refused from here on");
    assert_eq!(net.get("/", 1), Err(28));
    // One that cannot be used changes nothing.
    write_policy(&net, "[[ips.rule]]\n");
    running.signal("-HUP", running.child.id());
    running.wait("the old packet policy stays");
    assert_eq!(net.get("/", 1), Err(28));
    let (status, stats) = running.stop();
    assert!(status.success());
    let rules = stats["policy"]["rules"].as_array().unwrap();
    let count = |rule: &str| rules.iter().find(|it| it["rule"] == rule).unwrap();
    assert!(count("web")["decisions"].as_u64() >= Some(4), "{stats}");
    assert!(count("default")["refused"].as_u64() >= Some(3), "{stats}");
    assert_eq!(
        stats["ips"]["drop_reason"]["packet_policy"].as_u64(),
        Some(rules.iter().map(|it| it["refused"].as_u64().unwrap()).sum()),
        "{stats}"
    );
}

/// A server of FTP, which ends with this.
struct Ftp(Child);

impl Drop for Ftp {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Without a network namespace for each session, which the kernel makes one after the other: beside
/// tests that make and remove many, a session waited for minutes.
fn serve_ftp(net: &Namespaces, vsftpd: &Path) -> Ftp {
    let folder = net.folder.path();
    fs::set_permissions(folder, fs::Permissions::from_mode(0o755)).unwrap();
    for name in ["ftp", "empty"] {
        fs::create_dir(folder.join(name)).unwrap();
    }
    fs::write(folder.join("ftp/file"), "by FTP").unwrap();
    let shown = folder.display();
    let config = folder.join("vsftpd.conf");
    let text = format!(
        "listen=YES\nbackground=NO\nanonymous_enable=YES\nlocal_enable=NO\nwrite_enable=NO\n\
         anon_root={shown}/ftp\nsecure_chroot_dir={shown}/empty\nftp_username=ftp\n\
         no_anon_password=YES\nseccomp_sandbox=NO\nxferlog_enable=NO\nisolate_network=NO\n"
    );
    fs::write(&config, text).unwrap();
    let server = Ftp(net.command("server", vsftpd).arg(&config).spawn().unwrap());
    let own = ["-sS", "--max-time", "2", "ftp://127.0.0.1/file"];
    until("the server of FTP", || net.run("server", "curl", &own).status.success());
    server
}

#[test]
fn data_of_ftp_passes_with_its_connection() {
    let Some(net) = Namespaces::new(Middle::Bridge) else { return };
    let Some(vsftpd) = program("vsftpd") else { return };
    let rule = "[[ips.rule]]\nname = \"open\"\nto = \"10.78.1.3\"\n\
                service = [\"tcp/21\", \"tcp/80\"]\ndo = \"inspect\"\n";
    let policy = write_policy(&net, rule);
    let _server = serve_ftp(&net, &vsftpd);
    let running = Running::bridge(&net, &["--packet-policy", &policy]);
    let url = format!("ftp://{}/file", net.server);
    for more in [&[][..], &["--disable-epsv"], &["--ftp-port", "-", "--disable-eprt"]] {
        let args = [&["-sS", "--max-time", "20"], more, &[url.as_str()]].concat();
        let out = net.run("client", "curl", &args);
        let said = String::from_utf8_lossy(&out.stderr).into_owned();
        assert_eq!(text(&out.stdout), "by FTP", "{more:?}: {said}");
    }
    let (status, stats) = running.stop();
    assert!(status.success());
    let rules = stats["policy"]["rules"].as_array().unwrap();
    let open = rules.iter().find(|it| it["rule"] == "open").unwrap();
    // A page, and three times a connection with its data.
    assert!(open["decisions"].as_u64() >= Some(7), "{stats}");
}

#[test]
fn a_queue_lets_in_what_rules_let_in() {
    let Some(net) = Namespaces::new(Middle::Router) else { return };
    let Some(()) = queue_rule(&net) else { return };
    fs::set_permissions(net.folder.path(), fs::Permissions::from_mode(0o777)).unwrap();
    let policy = write_policy(&net, POLICY);
    let metrics = ["--metrics", "127.0.0.1:9600"];
    let args = [&["--queue", "0", "--packet-policy", &policy, "--user", "nobody"], &metrics[..]];
    let running = Running::start(&net, &args.concat());
    until("a page", || net.get("/seen", 2).is_ok());
    assert_eq!(running.alert(1), "allowed");
    assert_eq!(net.get("/dropped", 2), Err(28));
    let url = format!("http://{}:81/", net.server);
    let refused = net.run("client", "curl", &["-sS", "--max-time", "10", &url]);
    assert_eq!(refused.status.code(), Some(7), "rejected by a reset");
    // By the interface by which it comes, it is not from inside.
    let back = ["-sS", "--max-time", "1", "http://10.78.1.2/"];
    assert_eq!(net.run("server", "curl", &back).status.code(), Some(28));
    let mut text = String::new();
    until("counters", || {
        let out = net.run("middle", "curl", &["-sS", "http://127.0.0.1:9600/metrics"]);
        text = String::from_utf8_lossy(&out.stdout).into_owned();
        let refused =
            "gauntlet_ips_policy_refused_total{rule=\"not this port\",action=\"reject\"} 1";
        text.contains(refused)
    });
    let web = "gauntlet_ips_policy_decisions_total{rule=\"web\",action=\"inspect\"}";
    assert!(text.contains(web), "{text}");
    assert!(running.stop().0.success());
}
