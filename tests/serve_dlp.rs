//! Data loss prevention through a running node: what is held, and that no value is left in log,
//! console and databases.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::Command;

use crate::common::{Node, Smtp, add_user, files_below};

/// A number for tests that the schemes give, written here in pieces as nowhere else.
const CARD: [&str; 4] = ["4012", "8888", "8888", "1881"];
const PLAN: &str = "In the third quarter the board will sell the northern branch to the bidder that offers \
    to keep the staff for two years, unless the price falls below the amount which the auditors named in \
    their letter of last spring and the bank agrees to wait";
const WORD: &str = "correct+horse+battery";

const POLICY: &str = "\
[[rule]]\nname = \"cards\"\n\
when.dlp = { detector = \"payment_card\", not_to_domain = \"example.org\" }\ndo = { hold = \"data\" }\n\
[[rule]]\nname = \"plans\"\nwhen.dlp = { dictionary = \"plans\", points_min = 7 }\ndo = { hold = \"plans\" }\n\
[[rule]]\nname = \"papers\"\nwhen.dlp = { document = \"*\" }\ndo = { reject = \"Confidential\" }\n";

fn gauntlet(args: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_gauntlet"));
    let output = command.args(args).env_remove("GAUNTLET_CONFIG").output().unwrap();
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

/// A folder with policy, dictionary and documents, and the settings that name them.
fn settings(folder: &Path) -> String {
    std::fs::write(folder.join("policy.toml"), POLICY).unwrap();
    std::fs::write(folder.join("words.txt"), "# codes\nproject heron = 5\ndue diligence = 3\n")
        .unwrap();
    std::fs::create_dir_all(folder.join("papers")).unwrap();
    std::fs::write(folder.join("papers/plan.txt"), PLAN).unwrap();
    let path = |name: &str| folder.join(name).display().to_string();
    format!(
        "[policy]\npath = {:?}\n[[dlp.dictionary]]\nname = \"plans\"\nfile = {:?}\nthreshold = 5.0\n\
         within_words = 20\n[dlp.fingerprints]\nfolder = {:?}\n",
        path("policy.toml"),
        path("words.txt"),
        path("papers")
    )
}

fn mail(subject: &str, text: &str) -> Vec<u8> {
    format!("From: ann@example.org\r\nSubject: {subject}\r\nMessage-ID: <1@example.org>\r\n\r\n{text}\r\n")
        .into_bytes()
}

/// A message with this text in a file inside a tar archive.
fn with_archive(text: &str) -> Vec<u8> {
    let mut builder = tar::Builder::new(Vec::new());
    let mut header = tar::Header::new_old();
    header.set_path("customers.csv").unwrap();
    header.set_size(text.len() as u64);
    header.set_entry_type(tar::EntryType::Regular);
    header.set_cksum();
    builder.append(&header, text.as_bytes()).unwrap();
    let bytes = builder.into_inner().unwrap();
    let line = |bytes: &[u8]| bytes.iter().map(|b| format!("={b:02X}")).collect::<String>();
    let lines: Vec<String> = bytes.chunks(24).map(line).collect();
    format!(
        "From: ann@example.org\r\nSubject: list\r\nMIME-Version: 1.0\r\nContent-Type: application/x-tar; \
         name=list.tar\r\nContent-Disposition: attachment; filename=list.tar\r\n\
         Content-Transfer-Encoding: quoted-printable\r\n\r\n{}\r\n",
        lines.join("=\r\n")
    )
    .into_bytes()
}

fn log_of(node: &Node, reply: &str) -> String {
    let id = reply.split(|c: char| !c.is_ascii_alphanumeric()).find(|w| w.len() == 13);
    let id = id.unwrap_or_else(|| panic!("no reference in {reply}"));
    let data = node.data().display().to_string();
    let mut shown = String::new();
    node.wait_until("the message is in the log", || {
        shown = gauntlet(&["trace", id, "--json", "--data", &data]);
        // `trace` knows what is in the queue, too; pages and files of the log do not.
        shown.contains("\"dispositions\"") && gauntlet(&["messages", "--data", &data]).contains(id)
    });
    shown
}

#[test]
fn data_is_held_by_domain_and_found_inside_files() {
    let folder = tempfile::tempdir().unwrap();
    let node = Node::start(&settings(folder.path()));
    let mut client = Smtp::connect(node.smtp).unwrap();
    let mut send = |to: &str, raw: &[u8]| client.send("ann@example.org", &[to], raw).unwrap();
    let card = CARD.join(" ");
    let outside = send("bob@partner.example.net", &mail("hello", &format!("pay with {card}")));
    assert!(log_of(&node, &outside).contains("\"folder\":\"data\""), "{}", log_of(&node, &outside));
    let inside = send("bob@example.org", &mail("hello", &format!("pay with {card}")));
    assert!(!log_of(&node, &inside).contains("\"folder\":\"data\""));
    let in_file = send("bob@example.net", &with_archive(&format!("name;card\nann;{card}\n")));
    let shown = log_of(&node, &in_file);
    assert!(shown.contains("\"folder\":\"data\""), "{shown}");
    assert!(shown.contains("list.tar/customers.csv"), "{shown}");
    let plans = send("bob@example.org", &mail("x", "Project HERON: due\r\ndiligence begins"));
    assert!(log_of(&node, &plans).contains("\"folder\":\"plans\""));
    let far = format!("Project Heron {} due diligence", "and so on ".repeat(20));
    let far = send("bob@example.org", &mail("x", &far));
    assert!(!log_of(&node, &far).contains("\"folder\":\"plans\""), "too far from each other");
    let copied = send("bob@example.org", &mail("x", &format!("> {}", PLAN.replace(' ', "\r\n> "))));
    assert!(copied.starts_with("550 5.7.1 Confidential"), "{copied}");
}

#[test]
fn no_value_is_left_in_log_console_and_databases() {
    let folder = tempfile::tempdir().unwrap();
    let node = Node::start(&settings(folder.path()));
    let (spaced, plain) = (CARD.join(" "), CARD.concat());
    let raw = mail(
        &format!("card {spaced}"),
        &format!("{}\r\nhttp://192.0.2.7/ {plain}", CARD.join("-")),
    );
    let mut client = Smtp::connect(node.smtp).unwrap();
    let reply = client.send("ann@example.org", &["bob@partner.example"], &raw).unwrap();
    let shown = log_of(&node, &reply);
    let masked = format!("{} **** **** {}", CARD[0], CARD[3]);
    assert!(shown.contains(&masked), "{shown}");
    assert!(!shown.contains(&spaced) && !shown.contains(&plain), "{shown}");
    add_user(&node.data(), &[]);
    let data = node.data().display().to_string();
    gauntlet(&["user", "change", "ann", "--role", "administrator", "--data", &data]);
    let id = reply.split(|c: char| !c.is_ascii_alphanumeric()).find(|w| w.len() == 13).unwrap();
    let page = console(&node, &format!("/messages/{id}"));
    assert!(page.contains(&masked) && page.contains("payment_card"), "{page}");
    let list = console(&node, "/messages");
    for text in [&page, &list, &node.log()] {
        assert!(
            !text.contains(&spaced) && !text.contains(&plain) && !text.contains(&CARD.join("-"))
        );
    }
    // Spool and quarantine keep the message itself, to be passed on.
    let mut read = 0;
    for path in files_below(&node.data()) {
        let name = path.strip_prefix(node.data()).unwrap().display().to_string();
        if name.starts_with("queue")
            || name.starts_with("spool")
            || name.starts_with("quarantine/packs")
        {
            continue;
        }
        let Ok(bytes) = std::fs::read(&path) else { continue };
        read += 1;
        for value in [&spaced, &plain, &CARD.join("-")] {
            let found = bytes.windows(value.len()).any(|window| window == value.as_bytes());
            assert!(!found, "a card's number in {name}");
        }
    }
    assert!(read > 3, "the log and the index of the quarantine are among them");
}

/// A page of the console, as an administrator sees it.
fn console(node: &Node, path: &str) -> String {
    let ask = |request: String| {
        let mut stream = TcpStream::connect(node.console).unwrap();
        stream.set_read_timeout(Some(crate::common::PATIENCE)).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    };
    let form = format!("login=ann&password={WORD}");
    let answer = ask(format!(
        "POST /sign-in HTTP/1.1\r\nHost: {}\r\nConnection: close\r\nContent-Type: \
         application/x-www-form-urlencoded\r\nContent-Length: {}\r\n\r\n{form}",
        node.console,
        form.len()
    ));
    let cookie = answer.lines().find_map(|l| l.strip_prefix("set-cookie: ")).expect("a session");
    let cookie = cookie.split(';').next().unwrap();
    ask(format!(
        "GET {path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\nCookie: {cookie}\r\n\r\n",
        node.console
    ))
}

#[test]
fn a_reload_takes_new_words_and_keeps_the_old_where_they_are_wrong() {
    let folder = tempfile::tempdir().unwrap();
    let node = Node::start(&settings(folder.path()));
    let words = folder.path().join("words.txt");
    std::fs::write(&words, "osprey = heavy\n").unwrap();
    node.signal("-HUP");
    node.wait_until("the mistake is reported", || {
        let log = node.log();
        log.contains("words.txt: line 1") && log.contains("everything stays as it was")
    });
    std::fs::write(&words, "osprey = 9\n").unwrap();
    node.signal("-HUP");
    node.wait_until("it is reloaded", || node.log().contains("configuration reloaded"));
    let mut client = Smtp::connect(node.smtp).unwrap();
    let reply =
        client.send("a@b.example", &["bob@example.org"], &mail("x", "the Osprey flies")).unwrap();
    assert!(log_of(&node, &reply).contains("\"folder\":\"plans\""));
}

#[test]
fn commands_say_what_is_found_masked() {
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("gauntlet.toml");
    std::fs::write(&config, settings(folder.path())).unwrap();
    let message = folder.path().join("m.eml");
    let card = CARD.join(" ");
    std::fs::write(&message, mail("x", &format!("{card}\r\nproject heron"))).unwrap();
    let path = |path: &Path| path.display().to_string();
    let (config, message) = (path(&config), path(&message));
    let policy = path(&folder.path().join("policy.toml"));
    let explained = gauntlet(&[
        "policy",
        "explain",
        &message,
        "--policy",
        &policy,
        "--config",
        &config,
        "--to",
        "a@b.example",
    ]);
    let masked = format!("{} **** **** {}", CARD[0], CARD[3]);
    assert!(explained.contains(&format!("1 payment_card ({masked} in part 0)")), "{explained}");
    assert!(explained.contains("dictionary plans, 5 points"), "{explained}");
    let tested = gauntlet(&["dlp", "test", "--json", "--config", &config, &message]);
    let json: serde_json::Value = serde_json::from_str(&tested).unwrap();
    assert_eq!(json["findings"][0]["evidence"][0]["masked"], masked);
    let scanned = gauntlet(&["scan", "--dlp", "--json", &message]);
    assert!(
        scanned.contains("\"data_loss\":{\"findings\":[{\"detector\":\"payment_card\""),
        "{scanned}"
    );
    for text in [&explained, &tested, &scanned] {
        assert!(!text.contains(&card), "{text}");
    }
    let papers = path(&folder.path().join("papers"));
    assert!(gauntlet(&["dlp", "fingerprint", &papers]).contains("plan.txt"));
    assert!(gauntlet(&["dlp", "detectors"]).lines().count() > 40);
    let misspelt = POLICY.replace("payment_card", "payment_crad");
    std::fs::write(&policy, misspelt).unwrap();
    let explained = gauntlet(&["policy", "explain", &message, "--policy", &policy]);
    assert!(explained.contains("\"payment_crad\" fits nothing"), "{explained}");
}

#[test]
fn the_documentation_names_every_detector() {
    let page = include_str!("../docs/dlp.md");
    let listed = gauntlet(&["dlp", "detectors", "--json"]);
    for line in listed.lines() {
        let detector: serde_json::Value = serde_json::from_str(line).unwrap();
        let row = format!(
            "| `{}` | {} | {} | {} | {} |",
            detector["name"].as_str().unwrap(),
            detector["family"].as_str().unwrap(),
            detector["title"].as_str().unwrap(),
            detector["needs_context"].as_str().unwrap(),
            detector["source"].as_str().unwrap()
        );
        assert!(page.contains(&row), "docs/dlp.md lacks: {row}");
    }
}

#[test]
fn names_that_no_detector_has_are_reported_before_they_are_needed() {
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("gauntlet.toml");
    let data = folder.path().join("data");
    let settings = settings(folder.path());
    let write = |policy: &str| {
        std::fs::write(folder.path().join("policy.toml"), policy).unwrap();
        let text = format!("[node]\nname = \"gw.test\"\ndata = {data:?}\n{settings}");
        std::fs::write(&config, text).unwrap();
    };
    let policy = folder.path().join("policy.toml").display().to_string();
    let config = config.display().to_string();
    write(
        &POLICY
            .replace("payment_card", "payment_crad")
            .replace("\"plans\", points", "\"plnas\", points"),
    );
    let said = gauntlet(&["policy", "check", &policy]);
    assert!(said.contains("dlp.detector \"payment_crad\" fits nothing"), "{said}");
    assert!(said.contains("did you mean \"payment_card\"?"), "{said}");
    assert!(said.contains(":1: rule \"cards\"") && said.contains("3 rules, 1 warnings"), "{said}");
    let said = gauntlet(&["policy", "check", &policy, "--config", &config]);
    assert!(said.contains("dlp.dictionary \"plnas\"") && said.contains("2 warnings"), "{said}");
    let doctor = || gauntlet(&["doctor", "--config", &config, "--dns", "127.0.0.1:9", "--json"]);
    let said = doctor();
    assert!(said.contains("payment_crad") && said.contains("plnas"), "{said}");
    write(POLICY);
    let said = doctor();
    assert!(said.contains("all names of 3 conditions of the policy are known"), "{said}");
    assert!(gauntlet(&["policy", "check", &policy, "--config", &config]).contains("0 warnings"));
}
