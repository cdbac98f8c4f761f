//! A node that answers DNS queries: lists and policy of the web path, a real resolver behind it
//! (Knot), and a real client (kdig).

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::common::zone::Zone;
use crate::common::{Node, compile_urls, http_get, program};

const RECORDS: &str = "www.good.example A 192.0.2.10\nwww.good.example AAAA 2001:db8::10\n\
                       www.evil.example A 192.0.2.66\nstats.good.example CNAME www.evil.example.\n\
                       many.good.example TXT \"";
const POLICY: &str = "\
[[web_rule]]\nname = \"no games at all\"\nwhen.method = \"DNS\"\nwhen.url.host = \"games.example\"\n\
do = { warn = { text = \"Games are not for work.\" } }\n\
[[web_rule]]\nname = \"bad addresses\"\nwhen.url.list = \"bad\"\n\
do = { block = \"This address is dangerous.\" }\n";

struct Site {
    node: Node,
    kdig: PathBuf,
    _zone: Zone,
}

impl Site {
    /// A node whose DNS listener has these further settings.
    fn start(listener: &str) -> Option<Self> {
        let kdig = program("kdig")?;
        let many = "x".repeat(250);
        let strings = format!("{RECORDS}{many}\" \"{many}\" \"{many}\" \"{many}\" \"{many}\"\n");
        let zone = Zone::serve(&strings)?;
        let folder = tempfile::tempdir().unwrap();
        let list = compile_urls(folder.path(), "bad", "evil.example\n", &[]);
        let policy = folder.path().join("policy.toml");
        std::fs::write(&policy, POLICY).unwrap();
        let upstream = zone.address();
        let config = format!(
            "[[listener]]\nrole = \"dns\"\naddress = \"127.0.0.1:0\"\n{listener}\
             [proxy.dns]\nupstream = [\"{upstream}\"]\nlog = \"all\"\n\
             [[url_list]]\nname = \"bad\"\nfile = {list:?}\n[policy]\npath = {policy:?}\n"
        );
        Some(Site { node: Node::start_in(folder, &config), kdig, _zone: zone })
    }

    fn ask(&self, args: &[&str]) -> String {
        let place = self.node.place("dns");
        let (address, port) = place.rsplit_once(':').unwrap();
        let out = Command::new(&self.kdig)
            .args([&format!("@{address}"), "-p", port, "+time=10", "+retry=0"])
            .args(args)
            .output()
            .unwrap();
        assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
        String::from_utf8_lossy(&out.stdout).into_owned()
    }
}

#[test]
fn names_on_a_list_do_not_exist_and_others_are_resolved() {
    let Some(site) = Site::start("") else { return };
    assert_eq!(site.ask(&["+short", "www.good.example"]).trim(), "192.0.2.10");
    assert_eq!(site.ask(&["+short", "+tcp", "www.good.example", "AAAA"]).trim(), "2001:db8::10");
    let blocked = site.ask(&["+edns", "www.evil.example"]);
    assert!(blocked.contains("status: NXDOMAIN"), "{blocked}");
    assert!(blocked.contains("rule bad addresses: This address is dangerous."), "{blocked}");
    let alias = site.ask(&["stats.good.example"]);
    assert!(alias.contains("status: NXDOMAIN"), "{alias}");
    let warned = site.ask(&["+edns", "games.example"]);
    assert!(warned.contains("status: NXDOMAIN") && warned.contains("Games are not"), "{warned}");
    // Too long for 512 bytes: the client comes again by TCP.
    let long = site.ask(&["+bufsize=512", "many.good.example", "TXT"]);
    assert!(long.contains("status: NOERROR") && long.contains("xxxx"), "{long}");

    let rows = site.node.web_log(7);
    let of = |n: usize| {
        let r = &rows[rows.len() - 1 - n].record;
        (r.url.as_str(), r.host.as_str(), r.outcome.name(), r.rule.as_str(), r.evidence.as_str())
    };
    let url = "dns:www.good.example?type=A";
    assert_eq!(of(0), (url, "www.good.example", "passed", "", ""));
    let (url, listed) = ("dns:www.evil.example?type=A", "bad: domain evil.example");
    assert_eq!(of(2), (url, "www.evil.example", "blocked", "bad addresses", listed));
    let (url, host) = ("dns:stats.good.example?type=A", "stats.good.example");
    let evidence = "bad: domain evil.example; it is an alias of www.evil.example";
    assert_eq!(of(3), (url, host, "blocked", "bad addresses", evidence));
    let metrics = http_get(site.node.console, "/metrics");
    assert!(metrics.contains("gauntlet_proxy_dns_blocked_total 3\n"), "{metrics}");
}

#[test]
fn clients_can_speak_tls() {
    let Some(site) = Site::start("implicit_tls = true\n") else { return };
    let answer = site.ask(&["+tls", "+short", "www.good.example"]);
    assert_eq!(answer.trim(), "192.0.2.10");
}

#[test]
fn the_log_of_queries_is_replayed_under_another_policy() {
    let Some(mut site) = Site::start("") else { return };
    site.ask(&["www.good.example"]);
    site.ask(&["www.evil.example"]);
    site.node.web_log(2);
    let data = site.node.data().to_owned();
    let folder = tempfile::tempdir().unwrap();
    let policy = folder.path().join("stricter.toml");
    let stricter = "[[web_rule]]\nname = \"nothing\"\nwhen.method = \"DNS\"\n\
                    do = { block = \"No names today.\" }\n";
    std::fs::write(&policy, stricter).unwrap();
    site.node.stop();
    let out = Command::new(env!("CARGO_BIN_EXE_gauntlet"))
        .args([Path::new("policy"), Path::new("replay"), &policy])
        .args([Path::new("--data"), &data, Path::new("--json")])
        .env_remove("GAUNTLET_CONFIG")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&out.stdout);
    let error = String::from_utf8_lossy(&out.stderr);
    assert!(text.contains("\"nothing\"") && text.contains("www.good.example"), "{text}{error}");
}
