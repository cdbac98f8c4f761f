//! One list of URLs for mail and web: the same URL has the same list, category and entry in a
//! message, for the proxy and by ICAP.

use std::cell::Cell;
use std::io::{Read, Write};
use std::net::{SocketAddrV4, TcpStream};
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use gauntlet_store::{Log, LogRecord, Query};
use gauntlet_verdict::Class;
use serde_json::Value;

use crate::common::capture::{By, Capture};
use crate::common::{Node, Smtp, compile_urls, program};

const FEED: &str = "evil.example/login\n";
const ADS: &str = "||ads.example^\n@@||ads.example/terms^\n";
const POLICY: &str = "\
[[rule]]\nname = \"advertisements\"\nwhen.url = { list = \"ads\", category = \"advert*\" }\n\
do = { quarantine = \"advertisements\" }\n\
[[rule]]\nname = \"phishing\"\nwhen.class = \"phishing\"\ndo = { reject = \"no phishing\" }\n\
[[web_rule]]\nname = \"on a list\"\nwhen.url.list = \"*\"\ndo = { block = \"Not here.\" }\n";

struct Site {
    node: Node,
    curl: PathBuf,
    lists: [PathBuf; 2],
    /// Messages so far.
    sent: Cell<usize>,
}

impl Site {
    fn start() -> Option<Self> {
        let curl = program("curl")?;
        let folder = tempfile::tempdir().unwrap();
        let feed = compile_urls(folder.path(), "feed", FEED, &["--category", "phishing"]);
        let ads = compile_urls(folder.path(), "ads", ADS, &["--category", "advertisements"]);
        let policy = folder.path().join("policy.toml");
        std::fs::write(&policy, POLICY).unwrap();
        let config = format!(
            "[[listener]]\nrole = \"proxy\"\naddress = \"127.0.0.1:0\"\n\
             [[listener]]\nrole = \"icap\"\naddress = \"127.0.0.1:0\"\n\
             [[url_list]]\nname = \"feed\"\nfile = {feed:?}\nmail = \"phishing\"\n\
             [[url_list]]\nname = \"ads\"\nfile = {ads:?}\n[policy]\npath = {policy:?}\n"
        );
        let node = Node::start_in(folder, &config);
        Some(Site { node, curl, lists: [feed, ads], sent: Cell::new(0) })
    }

    /// Sends a message with this URL; its record in the log.
    fn mail(&self, url: &str) -> LogRecord {
        let mut client = Smtp::connect(self.node.smtp).unwrap();
        let body = format!("From: a@example.org\r\nSubject: x\r\n\r\nsee {url} please\r\n");
        client.send("a@example.org", &["b@example.net"], body.as_bytes()).unwrap();
        self.sent.set(self.sent.get() + 1);
        self.node.wait_until("the message is in the log", || {
            // Opening the log takes it for writing: not while the node makes the day's file.
            std::thread::sleep(Duration::from_millis(300));
            self.records().len() >= self.sent.get()
        });
        self.records().remove(0)
    }

    /// The message log; newest first.
    fn records(&self) -> Vec<LogRecord> {
        let log = Log::open(&self.node.data().join("log")).unwrap();
        let page = log.search(&Query { limit: 100, ..Query::default() }).unwrap();
        let whole = |id: &str| log.get(id).unwrap().unwrap().record;
        page.messages.iter().map(|message| whole(&message.id)).collect()
    }

    fn by_proxy(&self, url: &str) -> String {
        let out = Command::new(&self.curl)
            .args(["-s", "--max-time", "20", "--noproxy", "", "-w", " %{http_code}", "-x"])
            .arg(self.node.place("proxy"))
            .arg(url)
            .output()
            .unwrap();
        String::from_utf8_lossy(&out.stdout).into_owned()
    }

    fn by_icap(&self, url: &str) -> String {
        let mut stream = TcpStream::connect(self.node.place("icap")).unwrap();
        let host = url.split('/').nth(2).unwrap();
        let http = format!("GET {url} HTTP/1.1\r\nHost: {host}\r\n\r\n");
        write!(
            stream,
            "REQMOD icap://x/reqmod ICAP/1.0\r\nHost: x\r\nAllow: 204\r\nConnection: close\r\n\
             Encapsulated: req-hdr=0, null-body={}\r\n\r\n{http}",
            http.len()
        )
        .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }
}

#[test]
fn the_same_url_is_the_same_in_a_mail_by_the_proxy_and_by_icap() {
    let Some(site) = Site::start() else { return };
    let urls = [
        ("http://EVIL.example:80/login/x?y", "feed", "phishing", "prefix evil.example/login"),
        ("http://www.ads.example/banner", "ads", "advertisements", "domain ads.example"),
    ];
    for (n, (url, list, category, pattern)) in urls.into_iter().enumerate() {
        let listed = &site.mail(url).verdict.url_lists;
        let found: Vec<[&str; 3]> =
            listed.iter().map(|l| [&*l.list, &*l.category, &*l.pattern]).collect();
        assert_eq!(found, [[list, category, pattern]], "{url}");
        assert!(site.by_proxy(url).ends_with(" 403"));
        let answer = site.by_icap(url);
        assert!(answer.contains("HTTP/1.1 403 Forbidden\r\n"), "{answer}");
        let rows = site.node.web_log(2 * n + 2);
        for row in &rows[..2] {
            let of_web = (row.record.category.as_str(), row.record.evidence.as_str());
            assert_eq!(of_web, (category, format!("{list}: {pattern}").as_str()), "{url}");
        }
    }
    // The exception undoes the entry for all three.
    let url = "http://ads.example/terms";
    assert!(site.mail(url).verdict.url_lists.is_empty());
    assert!(site.by_icap(url).starts_with("ICAP/1.0 204 "));
}

#[test]
fn the_same_url_is_the_same_in_packets() {
    let Some(site) = Site::start() else { return };
    let mut capture = Capture::new();
    let urls = ["http://evil.example/login/x?y", "http://www.ads.example/banner"];
    for (number, url) in (20_000..).zip(urls) {
        let (host, path) = url.strip_prefix("http://").unwrap().split_once('/').unwrap();
        let request = format!("GET /{path} HTTP/1.1\r\nHost: {host}\r\n\r\n");
        let answer = b"HTTP/1.1 204 No Content\r\n\r\n";
        let talk = [(By::Client, request.as_bytes()), (By::Server, &answer[..])];
        capture.tcp(ends(number, 80), &talk);
        let mail = format!("From: a@example.org\r\nSubject: x\r\n\r\nsee {url} please\r\n.\r\n");
        let talk: [(By, &[u8]); 5] = [
            (By::Server, b"220 x\r\n"),
            (By::Client, b"HELO client.test\r\nMAIL FROM:<a@example.org>\r\n"),
            (By::Client, b"RCPT TO:<b@example.net>\r\nDATA\r\n"),
            (By::Server, b"250 ok\r\n250 ok\r\n250 ok\r\n354 go on\r\n"),
            (By::Client, mail.as_bytes()),
        ];
        capture.tcp(ends(number, 25), &talk);
    }
    let file = site.node.folder.path().join("wire.pcap");
    capture.write(&file);
    let out = Command::new(env!("CARGO_BIN_EXE_gauntlet"))
        .args(["ips", "replay", "--json", "--scan", "mail,urls", "--scan-config"])
        .args([site.node.folder.path().join("gauntlet.toml"), file])
        .output()
        .unwrap();
    let text = String::from_utf8(out.stdout).unwrap();
    let found: Vec<Value> = text
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap())
        .filter(|record| record["event_type"] == "gauntlet")
        .map(|record| record["gauntlet"].clone())
        .collect();
    assert_eq!(found.len(), 4, "{text}");
    for (n, (url, found)) in urls.into_iter().zip(found.chunks(2)).enumerate() {
        let by_mail = serde_json::to_value(&site.mail(url).verdict).unwrap();
        assert_eq!(found[1]["url_lists"], by_mail["url_lists"], "{url}");
        assert_eq!(found[1]["class"], by_mail["class"], "{url}");
        assert!(site.by_proxy(url).ends_with(" 403"));
        let by_proxy = &site.node.web_log(n + 1)[0].record;
        assert_eq!(found[0]["category"], by_proxy.category.as_str());
        assert_eq!(found[0]["evidence"], by_proxy.evidence.as_str());
        assert_eq!(found[0]["rules"][0], by_proxy.rule.as_str());
        assert_eq!((&found[0]["verdict"], &found[0]["url"]), (&"block".into(), &url.into()));
    }
}

fn ends(client: u16, server: u16) -> [SocketAddrV4; 2] {
    [client, server].map(|port| SocketAddrV4::new([192, 0, 2, 1].into(), port))
}

#[test]
fn a_list_says_what_a_hit_means_for_mail_and_the_policy_may_ask() {
    let Some(site) = Site::start() else { return };
    let phishing = site.mail("http://evil.example/login");
    assert_eq!(phishing.verdict.class, Class::Phishing);
    let hit = phishing.verdict.hit("URL_LIST_PHISHING").unwrap();
    let name = "url_list: feed, phishing, prefix evil.example/login";
    assert_eq!(hit.evidence[0].name.as_deref(), Some(name));
    assert_eq!(hit.evidence[0].text, "http://evil.example/login");
    assert_eq!(phishing.dispositions[0].rules, ["phishing"]);
    // Advertisements are no spam, but the policy asks for them.
    let ads = site.mail("http://ads.example/");
    assert_eq!(ads.verdict.hit("URL_LISTED").unwrap().score, 0.0);
    assert_eq!(ads.dispositions[0].rules, ["advertisements"]);
    assert!(site.mail("http://evil.example/").dispositions[0].rules.is_empty());
}

#[test]
fn a_reload_gives_mail_and_web_the_new_list_at_once_or_neither() {
    let Some(site) = Site::start() else { return };
    let url = "http://new.example/";
    assert!(site.mail(url).verdict.url_lists.is_empty());
    let reload = |what: &str| {
        let before = site.node.log().matches(what).count();
        site.node.signal("-HUP");
        site.node.wait_until("the node reloads", || site.node.log().matches(what).count() > before);
    };
    let folder = site.node.folder.path();
    let before = site.mail(url).verdict.ruleset;
    compile_urls(folder, "feed", "new.example\n", &["--category", "phishing"]);
    assert!(site.mail(url).verdict.url_lists.is_empty(), "nobody said that there is a new list");
    reload("configuration reloaded");
    let now = site.mail(url).verdict;
    assert_eq!((now.url_lists.len(), now.class), (1, Class::Phishing));
    assert_ne!(now.ruleset, before, "the version of what judges has the list in it");
    assert!(site.by_proxy(url).ends_with(" 403"));
    std::fs::write(folder.join("urls/none"), "no list").unwrap();
    std::fs::rename(folder.join("urls/none"), folder.join("urls/feed")).unwrap();
    reload("configuration not reloaded");
    assert_eq!(site.mail(url).verdict.url_lists.len(), 1, "the lists in use stay");
    assert!(site.by_proxy(url).ends_with(" 403"));
}

#[test]
fn a_scan_looks_urls_up_as_a_node_does() {
    let folder = tempfile::tempdir().unwrap();
    let feed = compile_urls(folder.path(), "feed", FEED, &["--category", "phishing"]);
    let mail = folder.path().join("mail.eml");
    std::fs::write(&mail, "From: a@example.org\n\nsee http://evil.example/login/x\n").unwrap();
    let scan = |argument: &str| {
        let out = Command::new(env!("CARGO_BIN_EXE_gauntlet"))
            .args(["scan", "--json", "--url-list", argument])
            .arg(&mail)
            .output()
            .unwrap();
        String::from_utf8(out.stdout).unwrap()
    };
    let of_feed = scan(&format!("phishing={}", feed.display()));
    let listed = "\"url_lists\":[{\"list\":\"feed\",\"category\":\"phishing\",\
                  \"pattern\":\"prefix evil.example/login\",\"url\":\"http://evil.example/login/x\"}]";
    assert!(of_feed.contains("\"class\":\"phishing\"") && of_feed.contains(listed), "{of_feed}");
    let silent = scan(&feed.display().to_string());
    assert!(silent.contains(listed) && !silent.contains("\"class\":\"phishing\""), "{silent}");
}

#[test]
fn a_list_that_is_cut_in_place_goes_on_blocking() {
    let Some(site) = Site::start() else { return };
    // As `cp` does it. A node that had mapped the files would be ended by its next look into them.
    for list in &site.lists {
        std::fs::File::create(list).unwrap();
    }
    for url in ["http://evil.example/login", "http://www.ads.example/banner"] {
        assert!(site.by_proxy(url).ends_with(" 403"), "{url}");
        assert!(site.by_icap(url).contains("HTTP/1.1 403 Forbidden\r\n"), "{url}");
    }
    let log = site.node.log();
    assert!(!log.contains("it is in memory"), "the sandbox leaves room for a copy: {log}");
}
