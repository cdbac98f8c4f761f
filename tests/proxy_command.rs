//! `gauntlet proxy`, from its start to its stop.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};

use crate::common::program;

fn compile(folder: &Path, lines: &str, list: &Path) {
    let source = folder.join("bad.txt");
    fs::write(&source, lines).unwrap();
    let made = Command::new(env!("CARGO_BIN_EXE_gauntlet"))
        .args(["urls", "compile", "--out"])
        .args([list, &source])
        .stdout(Stdio::null())
        .status()
        .unwrap();
    assert!(made.success());
}

#[test]
fn a_proxy_blocks_writes_its_log_and_stops() {
    let Some(curl) = program("curl") else { return };
    let folder = tempfile::tempdir().unwrap();
    let (list, log) = (folder.path().join("bad.urls"), folder.path().join("access.log"));
    compile(folder.path(), "blocked.example # a comment\n", &list);
    let mut proxy = Command::new(env!("CARGO_BIN_EXE_gauntlet"))
        .args(["proxy", "--listen", "127.0.0.1:0", "--block"])
        .arg(&list)
        .arg("--access-log")
        .arg(&log)
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut errors = BufReader::new(proxy.stderr.take().unwrap());
    let mut line = String::new();
    errors.read_line(&mut line).unwrap();
    let address = line.trim().strip_prefix("gauntlet: proxy on ").unwrap().to_owned();
    let ask = |url: &str| {
        let out = Command::new(&curl)
            .args(["-s", "--max-time", "20", "--noproxy", "", "-w", "%{http_code}", "-x"])
            .args([&address, url])
            .output()
            .unwrap();
        String::from_utf8_lossy(&out.stdout).into_owned()
    };
    let page = ask("http://www.blocked.example/");
    assert!(page.contains("blocked.example") && page.ends_with("403"), "{page}");
    // Addresses of this machine are not for clients.
    let page = ask("http://127.0.0.1:8080/");
    assert!(page.contains("may not be reached") && page.ends_with("403"), "{page}");

    compile(folder.path(), "other.example\nanother.example\n", &list);
    let told = Command::new("kill").args(["-HUP", &proxy.id().to_string()]).status().unwrap();
    assert!(told.success());
    line.clear();
    errors.read_line(&mut line).unwrap();
    assert_eq!(line, "gauntlet: proxy has new lists: 2 entries\n");
    let page = ask("http://another.example/");
    assert!(page.contains("another.example") && page.ends_with("403"), "{page}");
    fs::write(&list, "no list").unwrap();
    Command::new("kill").args(["-HUP", &proxy.id().to_string()]).status().unwrap();
    line.clear();
    errors.read_line(&mut line).unwrap();
    assert!(line.starts_with("gauntlet: proxy keeps its lists: "), "{line}");
    assert!(line.contains("is no compiled list; compile again"), "{line}");

    let stopped = Command::new("kill").arg(proxy.id().to_string()).status().unwrap();
    assert!(stopped.success());
    assert!(proxy.wait().unwrap().success());
    let mut rest = String::new();
    errors.read_to_string(&mut rest).unwrap();
    assert!(rest.contains("refused_blocked=2 refused_destination=1"), "{rest}");
    let log = fs::read_to_string(&log).unwrap();
    let denied = " TCP_DENIED/403 ";
    assert_eq!(log.lines().filter(|line| line.contains(denied)).count(), 3, "{log}");
    assert!(log.contains(" GET http://www.blocked.example/ - HIER_NONE/- text/plain\n"), "{log}");
}

/// One ICAP request about a GET, and its answer.
fn ask_icap(address: &str, url: &str) -> String {
    let head = format!("GET {url} HTTP/1.1\r\nHost: x\r\n\r\n");
    let mut stream = TcpStream::connect(address).unwrap();
    write!(
        stream,
        "REQMOD icap://{address}/reqmod ICAP/1.0\r\nHost: {address}\r\nAllow: 204\r\n\
         Connection: close\r\nX-Client-IP: 192.0.2.7\r\nX-Client-Username: ann\r\n\
         Encapsulated: req-hdr=0, null-body={}\r\n\r\n{head}",
        head.len()
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn icap_runs_alone_and_its_tag_follows_the_lists() {
    let folder = tempfile::tempdir().unwrap();
    let (list, log) = (folder.path().join("bad.urls"), folder.path().join("access.log"));
    compile(folder.path(), "blocked.example\n", &list);
    let mut proxy = Command::new(env!("CARGO_BIN_EXE_gauntlet"))
        .args(["proxy", "--icap", "127.0.0.1:0", "--block"])
        .arg(&list)
        .arg("--access-log")
        .arg(&log)
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut errors = BufReader::new(proxy.stderr.take().unwrap());
    let mut line = String::new();
    errors.read_line(&mut line).unwrap();
    let address = line.trim().strip_prefix("gauntlet: ICAP on ").unwrap().to_owned();
    let istag = |answer: &str| answer.lines().nth(1).unwrap().to_owned();
    let page = ask_icap(&address, "http://www.blocked.example/");
    assert!(page.contains("\r\n\r\nHTTP/1.1 403 Forbidden\r\n"), "{page}");
    assert!(ask_icap(&address, "http://other.example/").starts_with("ICAP/1.0 204 "));

    compile(folder.path(), "other.example\n", &list);
    Command::new("kill").args(["-HUP", &proxy.id().to_string()]).status().unwrap();
    line.clear();
    errors.read_line(&mut line).unwrap();
    assert_eq!(line, "gauntlet: proxy has new lists: 1 entries\n");
    let other = ask_icap(&address, "http://other.example/");
    assert!(other.contains("\r\n\r\nHTTP/1.1 403 Forbidden\r\n"), "{other}");
    assert_ne!(istag(&page), istag(&other));

    Command::new("kill").arg(proxy.id().to_string()).status().unwrap();
    assert!(proxy.wait().unwrap().success());
    let mut rest = String::new();
    errors.read_to_string(&mut rest).unwrap();
    assert!(
        rest.contains("icap_reqmod=3 icap_unmodified=1 icap_satisfied=2 icap_blocked=2"),
        "{rest}"
    );
    let log = fs::read_to_string(&log).unwrap();
    let line = "192.0.2.7 ICAP_ECHO/000 0 GET http://other.example/ ann HIER_NONE/- -\n";
    assert!(log.contains(line), "{log}");
}

#[test]
fn a_policy_is_read_anew_and_json_has_what_was_found() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    compile(folder.path(), "blocked.example\n", &path("bad.urls"));
    let rule = |action: &str| {
        let rule = format!("[[web_rule]]\nname = \"r\"\nwhen.url.list = \"bad\"\ndo = {action}\n");
        fs::write(path("web.toml"), rule).unwrap();
    };
    rule("{ block = \"No.\" }");
    let mut proxy = Command::new(env!("CARGO_BIN_EXE_gauntlet"))
        .args(["proxy", "--icap", "127.0.0.1:0", "--log-format", "json", "--block"])
        .arg(path("bad.urls"))
        .arg("--policy")
        .arg(path("web.toml"))
        .arg("--access-log")
        .arg(path("access.log"))
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut errors = BufReader::new(proxy.stderr.take().unwrap());
    let mut line = String::new();
    errors.read_line(&mut line).unwrap();
    let address = line.trim().strip_prefix("gauntlet: ICAP on ").unwrap().to_owned();
    let url = "http://blocked.example/";
    assert!(ask_icap(&address, url).contains("HTTP/1.1 403 Forbidden\r\n"));
    rule("\"allow\"");
    Command::new("kill").args(["-HUP", &proxy.id().to_string()]).status().unwrap();
    line.clear();
    errors.read_line(&mut line).unwrap();
    assert_eq!(line, "gauntlet: proxy has new lists: 1 entries, 1 web rules\n");
    assert!(ask_icap(&address, url).starts_with("ICAP/1.0 204 "));
    // A policy that is none leaves the one in force.
    fs::write(path("web.toml"), "[[web_rule").unwrap();
    Command::new("kill").args(["-HUP", &proxy.id().to_string()]).status().unwrap();
    line.clear();
    errors.read_line(&mut line).unwrap();
    assert!(line.starts_with("gauntlet: proxy keeps its lists: "), "{line}");
    assert!(ask_icap(&address, url).starts_with("ICAP/1.0 204 "));
    Command::new("kill").arg(proxy.id().to_string()).status().unwrap();
    assert!(proxy.wait().unwrap().success());
    let log = fs::read_to_string(path("access.log")).unwrap();
    let first: serde_json::Value = serde_json::from_str(log.lines().next().unwrap()).unwrap();
    assert_eq!(first["action"], "block");
    assert_eq!(first["rule"], "r");
    assert_eq!(first["evidence"], "bad: domain blocked.example");
    assert_eq!(first["listed"][0]["list"], "bad");
}

#[test]
fn a_transparent_proxy_takes_what_a_router_hands_over_alone() {
    let mut proxy = Command::new(env!("CARGO_BIN_EXE_gauntlet"))
        .args(["proxy", "--listen", "127.0.0.1:0", "--transparent", "127.0.0.1:0"])
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut errors = BufReader::new(proxy.stderr.take().unwrap());
    let (mut explicit, mut transparent) = (String::new(), String::new());
    errors.read_line(&mut explicit).unwrap();
    errors.read_line(&mut transparent).unwrap();
    let address = transparent.trim().strip_prefix("gauntlet: transparent proxy on ").unwrap();
    let mut stream = std::net::TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(std::time::Duration::from_secs(20))).unwrap();
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    assert!(answer.is_empty(), "{}", answer.escape_ascii());
    assert!(Command::new("kill").arg(proxy.id().to_string()).status().unwrap().success());
    assert!(proxy.wait().unwrap().success());
    let mut rest = String::new();
    errors.read_to_string(&mut rest).unwrap();
    assert!(rest.contains(" not_redirected=1"), "{rest}");

    let out = Command::new(env!("CARGO_BIN_EXE_gauntlet")).args(["proxy", "--tproxy"]).output();
    let errors = String::from_utf8(out.unwrap().stderr).unwrap();
    assert!(errors.contains("--transparent <ADDRESS:PORT>"), "{errors}");
}

/// A server that answers a path of the form `/TYPE/SUBTYPE/NAME` with this body, as that type.
fn serve(body: String) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut line = String::new();
            BufReader::new(&stream).read_line(&mut line).unwrap();
            let path = line.split(' ').nth(1).unwrap_or_default();
            let media_type = path.rsplit_once('/').unwrap_or_default().0.trim_start_matches('/');
            let head = format!(
                "HTTP/1.1 200 OK\r\nContent-Type: {media_type}\r\nContent-Length: {}\r\n\
                 Connection: close\r\n\r\n",
                body.len()
            );
            // A proxy that stops may be gone before.
            let _ = stream.write_all((head + &body).as_bytes());
        }
    });
    port
}

#[test]
fn the_test_file_is_found_without_an_engine_and_whatever_it_is_called() {
    let Some(curl) = program("curl") else { return };
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("gauntlet.toml");
    fs::write(&config, "# No engine.\n").unwrap();
    // In parts: no scanner is to take this file for it.
    let eicar = ["X5O!P%@AP[4\\PZX54(P^)7CC)7}", "$EICAR-STANDARD-ANTIVIRUS-TEST-FILE!", "$H+H*"];
    let bad = serve(eicar.concat());
    let good = serve("body { color: black }".to_owned());
    let mut proxy = Command::new(env!("CARGO_BIN_EXE_gauntlet"))
        .args(["proxy", "--listen", "127.0.0.1:0", "--allow-network", "127.0.0.0/8"])
        .args(["--client-network", "127.0.0.0/8", "--scan-config"])
        .arg(&config)
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut errors = BufReader::new(proxy.stderr.take().unwrap());
    let mut line = String::new();
    errors.read_line(&mut line).unwrap();
    let address = line.trim().strip_prefix("gauntlet: proxy on ").expect(&line).to_owned();
    let ask = |port: u16, path: &str| {
        let out = Command::new(&curl)
            .args(["-s", "--max-time", "20", "--noproxy", "", "-o", "/dev/null", "-w"])
            .args(["%{http_code}", "-x", &address, &format!("http://127.0.0.1:{port}/{path}")])
            .output()
            .unwrap();
        String::from_utf8(out.stdout).unwrap()
    };
    for path in [
        "application/octet-stream/a",
        "text/plain/a",
        "text/html/eicar.com.txt",
        "text/javascript/eicar.com",
        "image/png/a.png",
        "video/mp4/a.mp4",
        "font/woff2/a.woff2",
    ] {
        assert_eq!(ask(bad, path), "403", "{path}");
        assert_eq!(ask(good, path), "200", "{path}");
    }
    // What browsers run within their own walls passes as it comes (docs/proxy.md says so).
    assert_eq!(ask(bad, "text/css/a.css"), "200");
    assert!(Command::new("kill").arg(proxy.id().to_string()).status().unwrap().success());
    assert!(proxy.wait().unwrap().success());
}

#[test]
fn options_that_would_do_nothing_stop_the_start() {
    for (args, said) in [
        (["--bypass", "banks.urls"], "--bypass names hosts that are not decrypted"),
        (["--phrase-limit", "50"], "--phrase-limit limits the points of phrases"),
    ] {
        let out = Command::new(env!("CARGO_BIN_EXE_gauntlet"))
            .args(["proxy", "--listen", "127.0.0.1:0"])
            .args(args)
            .output()
            .unwrap();
        assert_eq!(out.status.code(), Some(2));
        let errors = String::from_utf8_lossy(&out.stderr);
        assert!(errors.contains(said), "{said}: {errors}");
    }
}

#[test]
fn what_is_no_url_is_no_answer_of_a_look_up() {
    let folder = tempfile::tempdir().unwrap();
    let list = folder.path().join("bad.urls");
    compile(folder.path(), "blocked.example\n", &list);
    for (urls, code) in [
        (&["http://good.example/"][..], 0),
        (&["http://blocked.example/"], 1),
        (&["::::"], 2),
        (&["http://blocked.example/", "::::"], 2),
    ] {
        let out = Command::new(env!("CARGO_BIN_EXE_gauntlet"))
            .args(["urls", "look-up", "--list"])
            .arg(&list)
            .args(urls)
            .output()
            .unwrap();
        assert_eq!(out.status.code(), Some(code), "{urls:?}");
    }
}

#[test]
fn settings_that_cannot_be_stop_the_start() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("proxy.toml");
    let none = folder.path().join("none.crl");
    let key = folder.path().join("none.key");
    for (settings, said) in [
        (
            "[limits]\nstreams_max = 0\n".to_owned(),
            "limits.streams_max = 0 is out of its bounds: from 1 to 10000",
        ),
        (format!("[tls]\ncrls = [{none:?}]\n"), "none.crl: No such file"),
        ("[tls]\nunknown_revocation = \"block\"\n".to_owned(), "tls.crls names no list"),
        (format!("[tls]\nca_certificate = {key:?}\nca_key = {key:?}\n"), "cannot be read"),
        ("[tls]\nca_certificate = \"ca.pem\"\n".to_owned(), "ca_key"),
    ] {
        fs::write(&file, settings).unwrap();
        let out = Command::new(env!("CARGO_BIN_EXE_gauntlet"))
            .args(["proxy", "--listen", "127.0.0.1:0", "--settings"])
            .arg(&file)
            .output()
            .unwrap();
        assert_eq!(out.status.code(), Some(2));
        let errors = String::from_utf8_lossy(&out.stderr);
        assert!(errors.contains(said), "{said}: {errors}");
    }
}

#[test]
fn explain_says_what_the_proxy_refuses_by_its_settings() {
    let explain = |args: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_gauntlet"));
        let out = command.args(["policy", "explain"]).args(args).output().unwrap();
        String::from_utf8_lossy(&out.stdout).into_owned()
    };
    for (args, why) in [
        (&["http://a.example:25/"][..], "refuses it: port 25 is not one of proxy.plain_ports"),
        (&["https://a.example:8443/", "--method", "CONNECT"], "8443 is not one of proxy.connect"),
        (&["http://[fd00::1]/"], "refuses it: fd00::1 is private"),
    ] {
        let told = explain(args);
        assert!(told.contains(why), "{args:?}: {told}");
    }
    let told = explain(&["http://a.example/"]);
    assert!(!told.contains("refuses it"), "{told}");
    // What was meant as a request, and is no file.
    for (text, url) in
        [("evil.example:443", "evil.example:443"), ("dns:evil.example", "evil.example")]
    {
        let mut command = Command::new(env!("CARGO_BIN_EXE_gauntlet"));
        let out = command.args(["policy", "explain", text]).output().unwrap();
        let errors = String::from_utf8_lossy(&out.stderr);
        assert!(errors.contains(&format!("write https://{url}/ ")), "{errors}");
    }
}
