//! The web path of a node: one policy and one console for mail and web.

use std::io::Write;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::common::{Node, program};

/// Settings of a node with a proxy; `rest` are further tables.
fn config(folder: &Path, rest: &str) -> String {
    let list = folder.join("urls/bad.urls");
    format!(
        "[[listener]]\nrole = \"proxy\"\naddress = \"127.0.0.1:0\"\n\
         [proxy]\nprivate_networks = [\"127.0.0.0/8\"]\n\
         [[url_list]]\nname = \"bad\"\nfile = {list:?}\n{rest}"
    )
}

fn compile(folder: &Path, lines: &str) {
    std::fs::create_dir_all(folder.join("urls")).unwrap();
    std::fs::write(folder.join("bad.txt"), lines).unwrap();
    let made = Command::new(env!("CARGO_BIN_EXE_gauntlet"))
        .args(["urls", "compile", "--out"])
        .args([folder.join("urls/bad.urls"), folder.join("bad.txt")])
        .stdout(Stdio::null())
        .status()
        .unwrap();
    assert!(made.success());
}

/// A web server that answers everything with a page.
pub(crate) fn page_server() -> String {
    server("Content-Type: text/html", b"a page".to_vec())
}

/// A web server that answers everything with a file.
pub(crate) fn file_server(bytes: Vec<u8>) -> String {
    server("Content-Type: application/octet-stream\r\nContent-Disposition: attachment", bytes)
}

/// A web server that answers everything with these bytes.
fn server(fields: &'static str, bytes: Vec<u8>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let bytes = bytes.clone();
            std::thread::spawn(move || {
                let mut header = [0; 4096];
                // A client that left needs no page.
                let _ = std::io::Read::read(&mut stream, &mut header);
                let head = format!(
                    "HTTP/1.1 200 OK\r\n{fields}\r\nContent-Length: {}\r\n\
                     Connection: close\r\n\r\n",
                    bytes.len()
                );
                let _ = stream.write_all(&[head.as_bytes(), &bytes].concat());
            });
        }
    });
    address.to_string()
}

pub(crate) struct Site {
    pub(crate) node: Node,
    curl: PathBuf,
}

impl Site {
    pub(crate) fn ask(&self, args: &[&str]) -> String {
        let out = Command::new(&self.curl)
            .args(["-s", "--max-time", "20", "--noproxy", "", "-w", " %{http_code}", "-x"])
            .arg(self.node.place("proxy"))
            .args(args)
            .output()
            .unwrap();
        String::from_utf8_lossy(&out.stdout).into_owned()
    }
}

pub(crate) fn start(lines: &str, rest: &str) -> Option<Site> {
    let curl = program("curl")?;
    let folder = tempfile::tempdir().unwrap();
    compile(folder.path(), lines);
    let config = config(folder.path(), rest);
    Some(Site { node: Node::start_in(folder, &config), curl })
}

#[test]
fn one_policy_decides_about_mail_and_web() {
    let policy = "[[web_rule]]\nname = \"no uploads\"\nwhen.method = \"POST\"\n\
                  do = { block = \"Uploads are not allowed.\" }\n\
                  [[web_rule]]\nname = \"bad addresses\"\nwhen.url.list = \"bad\"\n\
                  do = { block = \"This address is dangerous.\" }\n";
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("policy.toml");
    std::fs::write(&file, policy).unwrap();
    let Some(mut site) = start("blocked.example\n", &format!("[policy]\npath = {file:?}\n")) else {
        return;
    };
    let origin = page_server();
    assert_eq!(site.ask(&[&format!("http://{origin}/a?b")]), "a page 200");
    let page = site.ask(&["http://www.blocked.example/"]);
    assert!(page.contains("This address is dangerous.") && page.ends_with(" 403"), "{page}");
    let page = site.ask(&["-d", "x", &format!("http://{origin}/")]);
    assert!(page.contains("Uploads are not allowed."), "{page}");

    let rows = site.node.web_log(3);
    let of = |n: usize| {
        let r = &rows[n].record;
        (r.status, r.outcome.name(), r.rule.as_str(), r.evidence.as_str())
    };
    assert_eq!(of(2), (200, "passed", "", ""));
    assert_eq!(of(1), (403, "blocked", "bad addresses", "bad: domain blocked.example"));
    assert_eq!(of(0), (403, "blocked", "no uploads", ""));
    assert_eq!(rows[2].record.url, format!("http://{origin}/a?b"));
    assert_eq!((rows[2].record.client.as_str(), rows[2].record.bytes_out), ("127.0.0.1", 6));
    assert!(!rows[1].record.reference.is_empty());

    assert_eq!(site.node.metric("gauntlet_proxy_requests_total"), 3);
    assert_eq!(site.node.metric("gauntlet_proxy_refused_blocked_total"), 2);
    site.node.wait_until("the log is written", || {
        site.node.metric("gauntlet_proxy_log_records_written_total") == 3
    });
    site.node.stop();
    assert_eq!(site.node.web_log(3).len(), 3, "it is there after a stop");
}

#[test]
fn a_reload_takes_new_lists_and_rules_or_none() {
    let Some(site) = start("blocked.example\n", "") else { return };
    let origin = page_server();
    let host = origin.split(':').next().unwrap();
    let url = format!("http://{origin}/");
    assert_eq!(site.ask(&[&url]), "a page 200");
    compile(site.node.folder.path(), &format!("{host}\n"));
    let reload = |what: &str| {
        let before = site.node.log().matches(what).count();
        site.node.signal("-HUP");
        site.node.wait_until("the node reloads", || site.node.log().matches(what).count() > before);
    };
    reload("configuration reloaded");
    assert!(site.ask(&[&url]).ends_with(" 403"));
    // Renamed into its place: a file in use is mapped, and must not be written into.
    let (other, list) = ("urls/other", "urls/bad.urls");
    std::fs::write(site.node.folder.path().join(other), "no list").unwrap();
    let path = |name: &str| site.node.folder.path().join(name);
    std::fs::rename(path(other), path(list)).unwrap();
    reload("configuration not reloaded");
    assert!(site.node.log().contains("gauntlet urls compile --out"), "{}", site.node.log());
    assert!(site.ask(&[&url]).ends_with(" 403"), "the lists in use stay");
}

#[test]
fn what_is_not_to_be_kept_of_requests_is_not() {
    let web = "[web]\nlog_clients = \"none\"\nlog_urls = false\n";
    let Some(site) = start("blocked.example\n", web) else { return };
    site.ask(&["http://blocked.example/secret?token=1"]);
    let record = &site.node.web_log(1)[0].record;
    assert_eq!((record.client.as_str(), record.url.as_str()), ("", "http://blocked.example"));
}

#[test]
fn a_page_is_judged_by_its_words_and_a_listener_is_asked_by_icap() {
    let folder = tempfile::tempdir().unwrap();
    let words = folder.path().join("words.txt");
    std::fs::write(&words, "page 200\n").unwrap();
    let icap = "[[listener]]\nrole = \"icap\"\naddress = \"127.0.0.1:0\"\n";
    let content = format!("[proxy.content]\nphrases = [{words:?}]\n{icap}");
    let Some(site) = start("blocked.example\n", &content) else { return };
    let page = site.ask(&[&format!("http://{}/", page_server())]);
    assert!(page.contains("200 points") && page.ends_with(" 403"), "{page}");
    let record = &site.node.web_log(1)[0].record;
    assert!(record.evidence.contains("page"), "{record:?}");

    let mut stream = std::net::TcpStream::connect(site.node.place("icap")).unwrap();
    let http = "GET http://blocked.example/ HTTP/1.1\r\nHost: blocked.example\r\n\r\n";
    write!(
        stream,
        "REQMOD icap://x/reqmod ICAP/1.0\r\nHost: x\r\nAllow: 204\r\nConnection: close\r\n\
         Encapsulated: req-hdr=0, null-body={}\r\n\r\n{http}",
        http.len()
    )
    .unwrap();
    let mut answer = String::new();
    std::io::Read::read_to_string(&mut stream, &mut answer).unwrap();
    assert!(answer.starts_with("ICAP/1.0 200 OK\r\n"), "{answer}");
    assert!(answer.contains("HTTP/1.1 403 Forbidden\r\n"), "{answer}");
    assert!(answer.contains("bad: domain blocked.example"), "{answer}");
    assert_eq!(site.node.metric("gauntlet_proxy_icap_reqmod_total"), 1);
}

#[test]
fn a_list_that_is_none_stops_the_start_and_says_what_makes_one() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let settings = config(folder.path(), "");
    let text = format!("[node]\ndata = {data:?}\n[console]\naddress = \"\"\n{settings}");
    std::fs::write(folder.path().join("gauntlet.toml"), text).unwrap();
    let out = Command::new(env!("CARGO_BIN_EXE_gauntlet"))
        .args(["serve", "--config"])
        .arg(folder.path().join("gauntlet.toml"))
        .output()
        .unwrap();
    assert!(!out.status.success());
    let errors = String::from_utf8_lossy(&out.stderr);
    assert!(errors.contains("url_list \"bad\"; `gauntlet urls compile --out"), "{errors}");
}

/// Runs `gauntlet user`, with this on its standard input.
fn user(data: &Path, args: &[&str], input: &str) {
    let mut child = Command::new(env!("CARGO_BIN_EXE_gauntlet"))
        .arg("user")
        .args(args)
        .arg("--data")
        .arg(data)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    assert!(child.wait().unwrap().success());
}

#[test]
fn the_nodes_users_log_in_and_their_quotas_survive_a_stop() {
    let folder = tempfile::tempdir().unwrap();
    let policy = folder.path().join("policy.toml");
    let quota = "[[web_quota]]\nname = \"Q\"\nbytes = 10\nperiod = \"week\"\n\
                 [[web_rule]]\nname = \"used up\"\nwhen = { quota = \"Q\" }\n\
                 do = { block = \"Enough.\" }\n";
    std::fs::write(&policy, quota).unwrap();
    let rest = format!("[policy]\npath = {policy:?}\n[proxy.login]\nmethods = [\"basic\"]\n");
    let Some(mut site) = start("blocked.example\n", &rest) else { return };
    user(&site.node.data(), &["add", "ann", "--password-stdin"], "a long password\n");
    let url = format!("http://{}/", page_server());
    let ask = |user: &str| site.ask(&["--proxy-user", user, &url]);
    assert!(site.ask(&[&url]).ends_with(" 407"));
    assert!(ask("ann:another password").ends_with(" 407"));
    assert_eq!(ask("ANN:a long password"), "a page 200");
    assert_eq!(ask("ann:a long password"), "a page 200");
    let rows = site.node.web_log(4);
    let users: Vec<&str> = rows.iter().map(|row| row.record.user.as_str()).collect();
    assert_eq!(users, ["ann", "ann", "", ""]);
    let page = ask("ann:a long password");
    assert!(
        page.contains("Enough. Q: 12 bytes of 10 bytes this week") && page.ends_with(" 403"),
        "{page}"
    );
    assert_eq!(site.node.metric("gauntlet_proxy_logins_total"), 3);
    assert_eq!(site.node.metric("gauntlet_proxy_quota_requests_refused_total"), 1);
    site.node.stop();
    let kept = std::fs::read_to_string(site.node.data().join("web/quotas.json")).unwrap();
    assert!(kept.contains("\"person\":\"ann\"") && kept.contains("\"bytes\":12"), "{kept}");
    let explained = Command::new(env!("CARGO_BIN_EXE_gauntlet"))
        .args(["policy", "explain", &url, "--user", "ann", "--policy"])
        .arg(&policy)
        .arg("--config")
        .arg(site.node.folder.path().join("gauntlet.toml"))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&explained.stdout).into_owned();
    assert!(said.contains("block: Enough.") && said.contains("quota Q: "), "{said}");
}

#[test]
fn clients_speak_tls_with_the_proxy_of_a_node() {
    let folder = tempfile::tempdir().unwrap();
    compile(folder.path(), "blocked.example\n");
    let Some(curl) = program("curl") else { return };
    let config = config(folder.path(), "").replacen(
        "\"\n[proxy]\n",
        "\"\nimplicit_tls = true\n[proxy]\nconnect_ports = [\"1025-65535\"]\n",
        1,
    );
    let node = Node::start_in(folder, &config);
    let at = format!("https://{}", node.place("proxy"));
    let url = format!("http://{}/", page_server());
    let ask = |args: &[&str]| {
        let mut command = Command::new(&curl);
        command.args(["-s", "--max-time", "20", "--noproxy", "", "-x", &at, &url]).args(args);
        String::from_utf8_lossy(&command.output().unwrap().stdout).into_owned()
    };
    assert_eq!(ask(&["--proxy-insecure"]), "a page");
    assert_eq!(ask(&["--proxy-insecure", "-p"]), "a page");
    assert_eq!(ask(&[]), "", "the node's own certificate is known to nobody");
    // The client has gone before the proxy knows why.
    node.wait_until("the failure is counted", || {
        node.metric("gauntlet_proxy_client_tls_failures_total") == 1
    });
}

/// Runs the program on a node's data; its output.
fn gauntlet(site: &Site, args: &[&str]) -> String {
    let config = site.node.folder.path().join("gauntlet.toml");
    let mut command = Command::new(env!("CARGO_BIN_EXE_gauntlet"));
    let out = command.args(args).arg("--config").arg(config).output().unwrap();
    assert!(out.status.success(), "{args:?}: {}", String::from_utf8_lossy(&out.stderr));
    String::from_utf8_lossy(&out.stdout).into_owned()
}

#[test]
fn a_replay_asks_lists_for_the_address_that_a_name_led_to() {
    let Some(site) = start("127.0.0.1\n", "") else { return };
    let origin = page_server();
    let (_, port) = origin.rsplit_once(':').unwrap();
    let page = site.ask(&[&format!("http://localhost:{port}/a")]);
    assert!(page.contains("127.0.0.1 is an address of localhost"), "{page}");
    assert_eq!(site.node.web_log(1)[0].record.server_address, "127.0.0.1");
    let policy = concat!(env!("CARGO_MANIFEST_DIR"), "/rules/policy.toml");
    let out = gauntlet(&site, &["policy", "replay", policy, "--only", "web"]);
    assert!(out.contains("1 web requests: 1 the same (0 by another rule), 0 different"), "{out}");
}

/// Who asks for release is known by network, and gets an answer.
const ASKING: &str = "[web]\nlog_clients = \"network\"\nanswer_requests = true\n";

#[test]
fn who_is_blocked_asks_and_a_release_passes_at_once_and_a_replay_tells_of_it() {
    let Some(site) = start("127.0.0.1\n", ASKING) else { return };
    let origin = page_server();
    let (url, html) = (format!("http://{origin}/a"), "Accept: text/html");
    let page = site.ask(&["-H", html, &url]);
    assert!(page.contains("Ask for release"), "{page}");
    let mut form: Vec<String> = Vec::new();
    for input in page.split("<input type=\"hidden\" name=\"").skip(1) {
        let (name, rest) = input.split_once("\" value=\"").unwrap();
        let value = rest.split('"').next().unwrap();
        form.extend(["--data-urlencode".to_owned(), format!("{name}={value}")]);
    }
    let to = format!("http://{origin}/.well-known/gauntlet/release");
    form.extend(["-d".to_owned(), "reason=work&mail=ann%40example.org".to_owned(), to]);
    let form: Vec<&str> = form.iter().map(String::as_str).collect();
    assert!(site.ask(&form).contains("Your request was passed on"));

    let scopes = ["--scope", "quarantine:read", "--scope", "quarantine:write"];
    let token = gauntlet(&site, &[&["token", "new", "web"], &scopes[..]].concat());
    let token = token.split_whitespace().find(|w| w.starts_with("gauntlet_")).unwrap().to_owned();
    let api = |method: &str, path: &str, form: &str| {
        let mut command = Command::new(&site.curl);
        command.args(["-s", "-X", method, "-H", &format!("Authorization: Bearer {token}")]);
        if !form.is_empty() {
            command.args(["-d", form]);
        }
        let url = format!("http://{}/api/v1/web/{path}", site.node.console);
        let out = command.arg(url).output().unwrap();
        serde_json::from_slice::<serde_json::Value>(&out.stdout).unwrap()
    };
    let asked = &api("GET", "release-requests", "")["requests"][0];
    assert_eq!((&asked["url"], &asked["reason"]), (&url.clone().into(), &"work".into()));
    assert_eq!(asked["client"], "127.0.0.0/24", "as the settings keep it");
    let made = api("POST", "release-requests/1/approve", "target=127.0.0.1&hours=1");
    assert_eq!(made["exception"]["by"], "token web", "{made}");
    site.node.wait_until("who asked gets a mail", || {
        let mails = site.node.maildir();
        let mut mails = mails.iter().map(|mail| String::from_utf8_lossy(mail));
        mails.any(|m| m.contains("To: ann@example.org") && m.contains("it is released"))
    });
    assert_eq!(site.ask(&[&url]), "a page 200");
    assert!(gauntlet(&site, &["policy", "explain", &url]).contains("passes by release 1"));
    assert_eq!(api("DELETE", "exceptions/1", "")["removed"], true);
    assert!(site.ask(&[&url]).ends_with(" 403"));
    let rows = site.node.web_log(4);
    assert_eq!(rows[1].record.rule.lines().next(), Some("release 1"), "{:?}", rows[1]);

    let policy = site.node.folder.path().join("new.toml");
    std::fs::write(&policy, "[[web_rule]]\nname = \"open\"\ndo = \"allow\"\n").unwrap();
    let policy = policy.to_str().unwrap();
    let out = gauntlet(&site, &["policy", "replay", policy, "--only", "web"]);
    assert!(out.contains("4 web requests: 0 the same"), "{out}");
    assert!(out.contains("-> allow by \"open\": 2 requests\n  hosts: 127.0.0.1 (2)"), "{out}");
    let json = gauntlet(&site, &["policy", "replay", policy, "--json"]);
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!((&json["web"]["different"], &json["web"]["not_asked"]), (&2.into(), &2.into()));
    let report = gauntlet(&site, &["report", "--days", "1"]);
    assert!(report.contains("Web: 4 requests, 2 blocked"), "{report}");
}
