//! `gauntlet phrases`, and the proxy that judges pages by them.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use crate::common::program;

const LIST: &str = "#listcategory: \"Gambling\"\n< casino ><60>\n<bet>,<poker><40>\n<bad\n";

fn phrases(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_gauntlet")).arg("phrases").args(args).output().unwrap()
}

fn out(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn lists_are_checked_and_pages_explained() {
    let folder = tempfile::tempdir().unwrap();
    let (list, page) = (folder.path().join("list"), folder.path().join("page.html"));
    fs::write(&list, LIST).unwrap();
    fs::write(&page, "<p>Poker and bets at the <b>Casino</b>").unwrap();
    let (list, page) = (list.to_str().unwrap(), page.to_str().unwrap());

    let checked = phrases(&["check", list]);
    assert_eq!(checked.status.code(), Some(1));
    let text = out(&checked);
    let broken =
        format!("NOT READ: {list}:4: a '<' is not closed, or stands inside a phrase: <bad");
    assert!(text.contains(&broken), "{text}");
    assert!(text.contains("in 1 categories; 2 of 3 lines understood; automaton of "), "{text}");
    let checked = phrases(&["check", "--json", list]);
    let json: serde_json::Value = serde_json::from_slice(&checked.stdout).unwrap();
    assert_eq!((&json["phrases"], &json["not_read"]), (&2.into(), &1.into()), "{json}");
    assert_eq!(json["problems"][0]["line"], 4);

    let scored = phrases(&["score", list, "--page", page, "--limit", "90"]);
    assert_eq!(scored.status.code(), Some(1));
    let text = out(&scored);
    assert!(text.starts_with("blocked: over limit: 100 points, limit 90\n"), "{text}");
    assert!(text.contains("10 points less, or a limit of 100, would let it pass"), "{text}");
    assert!(text.contains(&format!("+40     1 x  \"bet + poker\"  Gambling  {list}:3")), "{text}");
    let scored = phrases(&["score", list, "--page", page, "--json"]);
    assert_eq!(scored.status.code(), Some(0));
    let json: serde_json::Value = serde_json::from_slice(&scored.stdout).unwrap();
    assert_eq!((&json["blocked"], &json["points"]), (&false.into(), &100.into()), "{json}");

    let missing = phrases(&["check", list, "no-such-list"]);
    assert_eq!(missing.status.code(), Some(2));
    let text = out(&missing);
    assert!(text.contains("NOT READ: no-such-list: cannot be read: No such file"), "{text}");
    let missing = phrases(&["score", "no-such-list", "--page", page]);
    assert_eq!(missing.status.code(), Some(2));
}

/// Serves one page to everybody, until the test ends.
fn serve(page: &'static str) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut reader = BufReader::new(stream.try_clone().unwrap());
            let mut line = String::new();
            while reader.read_line(&mut line).unwrap_or(0) > 2 {
                line.clear();
            }
            let length = page.len();
            let head = format!(
                "HTTP/1.1 200 OK\r\ncontent-type: text/html\r\n\
                content-length: {length}\r\nconnection: close\r\n\r\n"
            );
            let _ = stream.write_all(format!("{head}{page}").as_bytes());
        }
    });
    port
}

fn start(list: &Path, log: &Path) -> (std::process::Child, String) {
    let mut proxy = Command::new(env!("CARGO_BIN_EXE_gauntlet"))
        .args(["proxy", "--listen", "127.0.0.1:0", "--allow-network", "127.0.0.0/8"])
        .args(["--log-format", "json", "--phrase-limit", "50", "--phrases"])
        .arg(list)
        .arg("--access-log")
        .arg(log)
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut errors = BufReader::new(proxy.stderr.take().unwrap());
    let mut address = String::new();
    while !address.starts_with("gauntlet: proxy on ") {
        address.clear();
        assert!(errors.read_line(&mut address).unwrap() > 0, "it starts");
    }
    // What it says later must not stop it.
    std::thread::spawn(move || errors.read_to_string(&mut String::new()));
    (proxy, address.trim().trim_start_matches("gauntlet: proxy on ").to_owned())
}

#[test]
fn a_proxy_with_phrases_blocks_a_page_and_says_why_in_its_log() {
    let Some(curl) = program("curl") else { return };
    let folder = tempfile::tempdir().unwrap();
    let (list, log) = (folder.path().join("list"), folder.path().join("access.log"));
    fs::write(&list, LIST).unwrap();
    let port = serve("<html><p>The casino is open</html>");
    let (mut proxy, address) = start(&list, &log);
    let page = Command::new(curl)
        .args(["-s", "--max-time", "20", "--noproxy", "", "-x", &address])
        .arg(format!("http://127.0.0.1:{port}/"))
        .output()
        .unwrap();
    let page = out(&page);
    assert!(page.contains("It seems to be about: Gambling."), "{page}");
    Command::new("kill").arg(proxy.id().to_string()).status().unwrap();
    assert!(proxy.wait().unwrap().success());
    let log = fs::read_to_string(&log).unwrap();
    let json: serde_json::Value = serde_json::from_str(log.trim()).unwrap();
    assert_eq!(json["rule"], "content: phrases: 60 points, 50 allowed");
    assert_eq!(json["notes"][1], "phrases 60 of 50, over limit (\"casino\" +60)");
}
