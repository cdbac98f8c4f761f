//! `gauntlet setup`: each path from an empty folder and from an empty Debian, with real peers; and
//! back again.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Instant;

use serde_json::Value;

use crate::common::debian::Debian;
use crate::common::exim::Exim;
use crate::common::postfix::{Postfix, free_address};
use crate::common::served::Served;
use crate::common::zone::Zone;
use crate::common::{Node, PATIENCE, Sink, Smtp, files_below, message};
use crate::serve_array_join::Site;

const GTUBE: &str = "From: a@example.org\r\nSubject: x\r\n\r\n\
                     XJS*C4JDBQADN1.NSBN3*2IDNEN*GTUBE-STANDARD-ANTI-UBE-TEST-EMAIL*C.34X\r\n";
/// Where nothing answers.
const NOWHERE: &str = "127.0.0.1:9";

/// What a command said, and its exit code.
struct Said {
    out: String,
    err: String,
    code: i32,
}

impl Said {
    fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|e| panic!("{e}: {}{}", self.out, self.err))
    }
}

/// A folder that setup works in.
struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Self {
        Place(tempfile::tempdir().unwrap())
    }

    fn at(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn config(&self) -> PathBuf {
        self.at("gauntlet.toml")
    }

    /// `gauntlet setup` with these words, in the folder; `input` are a person's lines.
    fn setup_with(&self, words: &str, input: &str) -> Said {
        // Not the folder and the user that root would have.
        let own: &[&str] = match words.starts_with("undo") || words.contains("--data ") {
            true => &[],
            false => &["--user", "", "--data", "gauntlet-data"],
        };
        let mut child = Command::new(env!("CARGO_BIN_EXE_gauntlet"))
            .arg("setup")
            .args(words.split_whitespace())
            .args(own)
            .arg("--config")
            .arg(self.config())
            .current_dir(self.0.path())
            .env_remove("GAUNTLET_CONFIG")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        // One that asks nothing may have ended already.
        let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
        let output = child.wait_with_output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        Said {
            out: text(output.stdout),
            err: text(output.stderr),
            code: output.status.code().unwrap(),
        }
    }

    fn setup(&self, words: &str) -> Said {
        self.setup_with(words, "")
    }

    /// The same, which must succeed.
    fn done(&self, words: &str) -> String {
        let said = self.setup(words);
        assert_eq!(said.code, 0, "setup {words}: {}{}", said.out, said.err);
        said.out
    }

    fn text(&self) -> String {
        fs::read_to_string(self.config()).unwrap()
    }

    /// Names of everything in the folder.
    fn names(&self) -> Vec<String> {
        let folder = self.0.path();
        let relative = |path: PathBuf| path.strip_prefix(folder).unwrap().display().to_string();
        files_below(folder).into_iter().map(relative).collect()
    }
}

#[test]
fn a_trial_runs_as_it_was_written_and_is_taken_back() {
    let place = Place::new();
    let words = "trial --listen 127.0.0.1:0 --console 127.0.0.1:0 --resolver 127.0.0.1:9";
    // Doctor finds no resolver, and the exit code says that it found something.
    let said = place.setup(words);
    assert_eq!(said.code, 1, "{}{}", said.out, said.err);
    let error = format!("error   resolver     {NOWHERE}");
    assert!(said.out.contains(&error), "{}", said.out);
    assert!(said.out.contains("gauntlet serve --config"), "{}", said.out);
    let node = Served::start(&place.config());
    assert!(node.welcome.contains("one-time password"), "{}", node.welcome);
    let reply = Smtp::connect(node.smtp)
        .unwrap()
        .send("ann@example.org", &["bob@example.net"], &message("trial", 200))
        .unwrap();
    assert!(reply.starts_with("250"), "{reply}");
    drop(node);
    let undone = place.setup("undo");
    assert_eq!(undone.code, 1, "mail stays: {}{}", undone.out, undone.err);
    assert!(undone.out.contains("gauntlet-data: kept, it is not empty"), "{}", undone.out);
    assert!(!place.config().exists());
    assert!(place.names().iter().all(|name| name.starts_with("gauntlet-data/")));
    let again = place.setup("undo");
    assert!(again.code == 2 && again.err.contains("nothing was set up"), "{}", again.err);
}

#[test]
fn a_dry_run_shows_everything_and_changes_nothing() {
    let place = Place::new();
    let words = "front --name mx.example.org --domain example.org --next-hop 10.0.0.5 \
                 --address 192.0.2.10 --dry-run";
    let said = place.done(words);
    for line in [
        "+local = [\"example.org\"]",
        "+next_hop = \"10.0.0.5:25\"",
        "example.org. 3600 IN MX 10 mx.example.org.",
        "10.2.0.192.in-addr.arpa. 3600 IN PTR mx.example.org.",
        "a DKIM key of example.org: would be made",
    ] {
        assert!(said.contains(line), "{line}: {said}");
    }
    let json = place.setup(&format!("{words} --json")).json();
    assert_eq!((&json["written"], &json["for"]), (&Value::Bool(false), &"front".into()));
    assert!(json["text"].as_str().unwrap().contains("mx.example.org"));
    assert!(place.names().is_empty());
}

#[test]
fn what_is_missing_is_named_and_lines_of_input_are_answers() {
    let place = Place::new();
    let said = place.setup("front --name mx.example.org");
    assert_eq!(said.code, 2);
    for part in ["no terminal", "--domain, --next-hop", "GAUNTLET_SETUP_NEXT_HOP", "--ask"] {
        assert!(said.err.contains(part), "{part}: {}", said.err);
    }
    let said = place.setup("");
    assert!(said.code == 2 && said.err.contains("what is the node for?"), "{}", said.err);
    let lines = "front\nexample.org\n127.0.0.1:0\n127.0.0.1:26\nno\nall\n\n\n\n\nyes\n";
    let words = "--ask --name mx.example.org --no-dkim --no-doctor";
    let said = place.setup_with(words, lines);
    assert_eq!(said.code, 0, "{}{}", said.out, said.err);
    assert!(said.err.contains("host:port"), "questions: {}", said.err);
    let text = place.text();
    assert!(text.contains("next_hop = \"127.0.0.1:26\"") && !text.contains("probe"), "{text}");
    // Nobody agreed.
    let other = Place::new();
    let said = other.setup_with("trial --ask --no-doctor", "no\n");
    assert!(said.code == 2 && said.err.contains("nothing is done"), "{}", said.err);
    assert!(other.names().is_empty());
    // The environment answers as flags do.
    let output = Command::new(env!("CARGO_BIN_EXE_gauntlet"))
        .args(["setup", "--no-doctor", "--json"])
        .current_dir(other.0.path())
        .env("GAUNTLET_CONFIG", other.config())
        .env("GAUNTLET_SETUP_FOR", "front")
        .env("GAUNTLET_SETUP_NAME", "mx.example.org")
        .env("GAUNTLET_SETUP_DOMAIN", "example.org,example.net")
        .env("GAUNTLET_SETUP_NEXT_HOP", "10.0.0.5")
        .env("GAUNTLET_SETUP_NO_DKIM", "1")
        .env("GAUNTLET_SETUP_DATA", "gauntlet-data")
        .env("GAUNTLET_SETUP_USER", "")
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(other.text().contains("local = [\"example.org\", \"example.net\"]"));
}

#[test]
fn files_of_others_stay_and_undo_goes_back_step_by_step() {
    let place = Place::new();
    fs::write(place.config(), "# mine\n").unwrap();
    fs::set_permissions(place.config(), PermissionsExt::from_mode(0o640)).unwrap();
    let words = "trial --listen 127.0.0.1:2599 --no-doctor";
    let said = place.setup(words);
    assert!(said.code == 2 && said.err.contains("--force replaces it"), "{}", said.err);
    assert_eq!(place.text(), "# mine\n");
    place.done(&format!("{words} --force"));
    assert_eq!(fs::read_to_string(place.at("gauntlet.toml.before-setup-1")).unwrap(), "# mine\n");
    // The same again has nothing to do, and is nothing to take back.
    let said = place.done(words);
    assert!(said.contains("gauntlet.toml: unchanged"), "{said}");
    place.done("trial --listen 127.0.0.1:2598 --no-doctor --force");
    assert!(place.done("undo --dry-run").contains("gauntlet.toml: replace by"));
    let said = place.done("undo");
    assert!(said.contains("is still there: undo again"), "{said}");
    assert!(place.text().contains("127.0.0.1:2599"));
    // What a person changed since is theirs.
    let mut by_hand = place.text();
    by_hand.push_str("# by hand\n");
    fs::write(place.config(), &by_hand).unwrap();
    let said = place.setup("undo");
    assert_eq!(said.code, 1, "{}", said.out);
    assert!(said.out.contains("gauntlet.toml: kept, it was changed since"), "{}", said.out);
    assert_eq!(place.text(), by_hand);
    let before = place.at("gauntlet.toml.before-setup-1");
    let mode = |path: PathBuf| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!([mode(before), mode(place.config())], [0o640; 2]);
}

#[test]
fn the_configuration_of_the_package_is_replaced_unless_somebody_changed_it() {
    let place = Place::new();
    let of_package = include_str!("../packaging/debian/gauntlet.toml");
    fs::write(place.config(), of_package).unwrap();
    let words = "milter --name mx.example.org --no-doctor";
    let said = place.done(&format!("{words} --dry-run"));
    assert!(said.contains("would be replaced; nobody changed the package's"), "{said}");
    let said = place.done(words);
    assert!(said.contains("before-setup-1: the file that was there before"), "{said}");
    assert!(place.text().contains("protocol = \"milter\""), "{}", place.text());
    let said = place.done("undo");
    assert!(said.contains("gauntlet.toml: as it was before"), "{said}");
    assert_eq!(place.text(), of_package);
    fs::write(place.config(), format!("{of_package}[scan]\nthreads = 2\n")).unwrap();
    let said = place.setup(words);
    assert!(said.code == 2 && said.err.contains("--force replaces it"), "{}", said.err);
}

#[test]
fn mistakes_are_found_before_anything_is_written() {
    let place = Place::new();
    let front = "front --name mx.example.org --domain example.org --next-hop 10.0.0.5";
    let array = front.replacen("front", "array", 1);
    for (words, said) in [
        (format!("{front} --certificate none.pem --key none.key"), "none.pem: No such file"),
        (format!("{front} --recipients nowhere.txt"), "(probe, all, or a file)"),
        (format!("{front} --network 0.0.0.0/0 --outbound 10.0.0.1:25"), "holds strangers"),
        (format!("{front} --token x"), "--token is for array"),
        (format!("{array} --token foo"), "--token: "),
        (format!("{array} --token foo --dry-run"), "--token: "),
        (format!("{front} --selector a/../b --dry-run"), "--selector \"a/../b\""),
        (format!("{front} --data /"), "name a folder of its own"),
        (
            "milter --name mx.example.org --apply-postfix --postfix-config /nowhere".to_owned(),
            "postconf",
        ),
    ] {
        let found = place.setup(&words);
        assert!(found.code == 2 && found.err.contains(said), "{words}: {}", found.err);
        assert!(place.names().is_empty(), "{words}");
    }
}

#[test]
fn a_key_of_another_certificate_is_refused_before_anything_is_written() {
    let place = Place::new();
    for name in ["one", "other"] {
        let made = rcgen::generate_simple_self_signed(vec!["mx.example.org".to_owned()]).unwrap();
        fs::write(place.at(&format!("{name}.pem")), made.cert.pem()).unwrap();
        fs::write(place.at(&format!("{name}.key")), made.signing_key.serialize_pem()).unwrap();
    }
    let names = place.names();
    let front = "front --name mx.example.org --domain example.org --next-hop 10.0.0.5 --no-doctor";
    let mismatch = "one.pem does not go with its key: KeyMismatch";
    for (pair, said) in [
        ("--certificate one.pem --key other.key", mismatch),
        ("--certificate one.key --key one.pem", "one.key has no certificate in it"),
    ] {
        for more in ["", " --dry-run"] {
            let found = place.setup(&format!("{front} {pair}{more}"));
            assert!(found.code == 2 && found.err.contains(said), "{pair}: {}", found.err);
            assert_eq!(place.names(), names, "{pair}");
        }
    }
    // What came to be wrong later is found by doctor, in the words of `config check`.
    place.done(&format!("{front} --certificate one.pem --key one.key"));
    fs::copy(place.at("other.key"), place.at("one.key")).unwrap();
    for command in [&["doctor", "--dns", "127.0.0.1:9"][..], &["config", "check"]] {
        let mut child = Command::new(env!("CARGO_BIN_EXE_gauntlet"));
        child.args(command).arg("--config").arg(place.config());
        let output = child.current_dir(place.0.path()).output().unwrap();
        let text = [output.stdout, output.stderr].concat();
        let text = String::from_utf8_lossy(&text);
        assert!(!output.status.success() && text.contains(mismatch), "{command:?}: {text}");
    }
}

/// Waits until something holds.
fn until(what: &str, holds: impl Fn() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < PATIENCE, "{what}");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
}

#[test]
fn postfix_asks_the_node_that_was_set_up_and_undo_gives_it_back() {
    let Some(postfix) = Postfix::start_with("smtpd_milters =\nmilter_protocol = 2", "") else {
        return;
    };
    let place = Place::new();
    let (service, release) = (free_address(), free_address());
    let etc = postfix.folder.path().join("etc");
    let files = || ["main.cf", "master.cf"].map(|name| fs::read_to_string(etc.join(name)).unwrap());
    let before = files();
    let words = format!(
        "milter --name mx.example.org --domain example.net --service {service} --held-by node \
         --release-to {release} --listen 127.0.0.1:0 --console 127.0.0.1:0 --no-doctor \
         --network 192.0.2.0/24 --postfix-config {}",
        etc.display()
    );
    // Without leave, the lines are shown alone.
    let shown = place.done(&format!("{words} --dry-run"));
    assert!(shown.contains(&format!("smtpd_milters = inet:{service}")), "{shown}");
    let said = place.done(&format!("{words} --apply-postfix"));
    assert!(said.contains("settings of Postfix set"), "{said}");
    let now = files();
    assert!(now[0].contains(&format!("non_smtpd_milters = inet:{service}")), "{}", now[0]);
    assert!(now[1].contains(&release.to_string()), "{}", now[1]);
    let node = Served::start(&place.config());
    postfix.reload();
    let mut client = Smtp::connect(postfix.address).unwrap();
    let mut send =
        |body: &[u8]| client.send("ann@example.org", &["bob@example.net"], body).unwrap();
    let reply = send(&message("first", 300));
    assert!(reply.starts_with("250"), "{reply}\n{}", postfix.log());
    until("Postfix delivered", || postfix.delivered().len() == 1);
    let text = String::from_utf8_lossy(&postfix.delivered()[0]).into_owned();
    assert!(text.contains("\nX-Gauntlet-Class: ham\n"), "{text}");
    // Our quarantine holds, and what it releases comes by the port that asks nobody.
    let reply = send(GTUBE.as_bytes());
    assert!(reply.starts_with("250"), "{reply}");
    let gauntlet = |args: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_gauntlet"));
        command.args(args).arg("--config").arg(place.config());
        let output = command.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    let held = gauntlet(&["quarantine", "list"]);
    let id = held.split_whitespace().nth(1).unwrap_or_else(|| panic!("nothing is held: {held}"));
    gauntlet(&["quarantine", "release", id]);
    until("it is released", || postfix.delivered().len() == 2);
    // The same once more changes nothing.
    let said = place.done(&format!("{words} --apply-postfix"));
    assert!(said.contains("Postfix is set already"), "{said}");
    drop(node);
    let undone = place.setup("undo");
    assert!(undone.out.contains("Postfix's settings are as they were"), "{}", undone.out);
    assert_eq!(files(), before);
    drop(client);
    postfix.reload();
    let mut client = Smtp::connect(postfix.address).unwrap();
    let reply = client.send("ann@example.org", &["bob@example.net"], &message("alone", 300));
    assert!(reply.as_ref().is_ok_and(|reply| reply.starts_with("250")), "{reply:?}");
    until("Postfix delivered alone", || postfix.delivered().len() == 3);
}

#[test]
fn settings_of_postfix_that_somebody_changed_since_stay() {
    let Some(postfix) = Postfix::start_with("smtpd_milters = unix:other\n", "") else { return };
    let place = Place::new();
    let main = postfix.folder.path().join("etc/main.cf");
    let words = "milter --name mx.example.org --no-doctor --apply-postfix --postfix-config";
    place.done(&format!("{words} {}", main.parent().unwrap().display()));
    let text = fs::read_to_string(&main).unwrap();
    assert!(text.contains("smtpd_milters = unix:other, inet:127.0.0.1:8891\n"), "{text}");
    let changed = text.replace("milter_content_timeout = 60s", "milter_content_timeout = 70s");
    fs::write(&main, changed + "bounce_size_limit = 1000\n").unwrap();
    let undone = place.setup("undo");
    assert_eq!(undone.code, 1, "{}", undone.out);
    assert!(undone.out.contains("milter_content_timeout changed since"), "{}", undone.out);
    let text = fs::read_to_string(&main).unwrap();
    for line in ["smtpd_milters = unix:other\n", "milter_content_timeout = 70s", "bounce_size"] {
        assert!(text.contains(line), "{line}: {text}");
    }
    assert!(!text.contains("non_smtpd_milters") && !text.contains("8891"), "{text}");
}

#[test]
fn a_node_in_front_passes_doctor_once_its_records_are_published() {
    let place = Place::new();
    let hop = Sink::start();
    hop.recipients.lock().unwrap().insert("nobody".into(), "550 5.1.1 unknown".into());
    let words = format!(
        "front --name mx.example.org --domain example.org --next-hop {} --address 192.0.2.10 \
         --listen 127.0.0.1:0 --submission=127.0.0.1:0 --console 127.0.0.1:0 --no-doctor --json",
        hop.address
    );
    let json = place.setup(&words).json();
    let lines = json["dns"].as_array().unwrap().iter().map(|r| r["line"].as_str().unwrap());
    let lines: Vec<&str> = lines.collect();
    for (name, part) in [
        ("example.org. ", "MX 10 mx.example.org."),
        ("example.org. ", "v=spf1 mx ip4:192.0.2.10 ~all"),
        ("g1._domainkey.example.org. ", "v=DKIM1; k=rsa; p="),
        ("_dmarc.example.org. ", "v=DMARC1; p=none; rua=mailto:postmaster@example.org"),
        ("_smtp._tls.example.org. ", "v=TLSRPTv1"),
    ] {
        let is_it = |line: &&&str| line.starts_with(name) && line.contains(part);
        assert_eq!(lines.iter().filter(is_it).count(), 1, "{name} {part}: {lines:#?}");
    }
    // The lines are a zone file, and doctor has nothing against what it finds there.
    let Some(zone) = Zone::serve(&lines.join("\n")) else { return };
    let doctor = Command::new(env!("CARGO_BIN_EXE_gauntlet"))
        .args(["doctor", "--dns", &zone.address().to_string(), "--config"])
        .arg(place.config())
        .output()
        .unwrap();
    let said = String::from_utf8(doctor.stdout).unwrap();
    for line in [
        "ok      our name     mx.example.org has [192.0.2.10]",
        "ok      reverse name 192.0.2.10 is mx.example.org",
        "ok      dkim         g1._domainkey.example.org is published",
    ] {
        assert!(said.contains(line), "{line}: {said}");
    }
    let node = Served::start(&place.config());
    let mut client = Smtp::connect(node.smtp).unwrap();
    let refused = client.send("ann@example.com", &["nobody@example.org"], b"x").unwrap();
    assert!(refused.starts_with("550 5.1.1"), "the next hop knows who exists: {refused}");
    let refused = client.send("ann@example.com", &["bob@elsewhere.example"], b"x").unwrap();
    assert!(refused.starts_with("550"), "no relay: {refused}");
    let reply = client.send("ann@example.com", &["bob@example.org"], &message("in", 300)).unwrap();
    assert!(reply.starts_with("250"), "{reply}");
    until("the next hop has it", || hop.taken().len() == 1);
}

#[test]
fn a_node_joins_an_array_as_it_is_set_up() {
    let Some(site) = Site::start() else { return };
    let manager = site.manager();
    let init = Command::new(env!("CARGO_BIN_EXE_gauntlet"))
        .args(["array", "init", "--config"])
        .arg(&manager)
        .output()
        .unwrap();
    assert!(init.status.success(), "{}", String::from_utf8_lossy(&init.stderr));
    let mut giving = Command::new(env!("CARGO_BIN_EXE_gauntlet"))
        .args(["array", "token", "--name", "mx1.example.org", "--minutes", "10", "--ca"])
        .arg(site.at("ca"))
        .arg("--config")
        .arg(&manager)
        .env_remove("GAUNTLET_CONFIG")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut token = String::new();
    BufReader::new(giving.stdout.take().unwrap()).read_line(&mut token).unwrap();
    let place = Place::new();
    let words = "array --name mx1.example.org --domain example.org --next-hop 127.0.0.1:26 \
                 --listen 127.0.0.1:0 --console 127.0.0.1:0 --no-doctor";
    let said = place.setup_with(&format!("{words} --token -"), &token);
    assert_eq!(said.code, 0, "{}{}", said.out, said.err);
    assert!(said.out.contains("signed in as mx1.example.org"), "{}", said.out);
    assert!(said.out.contains("mx1._domainkey.example.org."), "{}", said.out);
    assert!(giving.wait().unwrap().success());
    assert!(place.text().contains("[array]\ndatabase = "), "{}", place.text());
    drop(Served::start(&place.config()));
    // What it kept there meanwhile is not ours to remove.
    let undone = place.setup("undo");
    assert!(undone.out.contains("array leave"), "{}", undone.out);
    assert!(!place.config().exists() && !place.at("gauntlet-data/array/node.key").exists());
    let said = place.setup(&format!("{words} --token gauntlet1.AAAA"));
    assert_eq!(said.code, 2, "{}{}", said.out, said.err);
    assert!(said.err.contains("the token cannot be used") && !place.config().exists());
}

#[test]
fn exim_asks_by_the_lines_that_setup_prints() {
    let Some(exim) = Exim::program() else { return };
    let (service, address) = (free_address(), free_address());
    let words =
        format!("milter --mta exim --name mx.example.org --service {service} --dry-run --json");
    let json = Place::new().setup(&words).json();
    let text = json["lines"][0]["text"].as_str().unwrap();
    let (main, acl) = text.split_once("# behind `begin acl`\n").unwrap();
    let settings = format!(
        "{main}acl_smtp_rcpt = check_rcpt\nbegin acl\ncheck_rcpt:\n  accept domains = \
         +local_domains\n  deny\n{acl}begin routers\nlocal:\n  driver = accept\n  transport = \
         maildir\n"
    );
    let node = Node::start(&format!(
        "[facts]\nenabled = false\n[[service]]\nprotocol = \"spamd\"\naddress = \"{service}\"\n"
    ));
    let exim = Exim::start(&exim, address, &node, &settings, "");
    let mut client = Smtp::connect(address).unwrap();
    let ham = message("exim", 300);
    let reply = client.send("ann@example.org", &["bob@example.net"], &ham).unwrap();
    assert!(reply.starts_with("250"), "{reply}\n{}", exim.log());
    let reply = client.send("ann@example.org", &["bob@example.net"], GTUBE.as_bytes()).unwrap();
    assert!(reply.starts_with("550 This message looks like spam"), "{reply}\n{}", exim.log());
}

/// Each path in an empty Debian, as root with a user of the node's own.
#[test]
fn every_path_from_an_empty_debian() {
    let Some(debian) = Debian::new() else { return };
    let (said, code) = debian.run(
        "useradd --system --home-dir /var/lib/gauntlet --shell /usr/sbin/nologin gauntlet
         gauntlet setup trial --listen 127.0.0.1:0 --console 127.0.0.1:0 --no-doctor
         gauntlet config check gauntlet.toml
         gauntlet setup undo
         ls -A /root | grep -v '^\\.' && exit 9 || true",
    );
    assert_eq!(code, 0, "trial: {said}");
    for words in [
        "milter --name mx.example.org --domain example.org",
        "milter --name mx.example.org --mta exim",
        "front --name mx.example.org --domain example.org --next-hop 10.0.0.5",
        "front --name mx.example.org --domain example.org --next-hop 127.0.0.1 --lmtp \
         --acme postmaster@example.org",
        "array --name mx1.example.org --domain example.org --next-hop 10.0.0.5 \
         --database postgres://g:secret@127.0.0.1:9/g",
    ] {
        let (said, code) = debian.run(&format!(
            "gauntlet setup {words} --no-doctor --address 192.0.2.10
             gauntlet config check /etc/gauntlet/gauntlet.toml
             stat -c '%U:%G %a %n' /etc/gauntlet /etc/gauntlet/* /var/lib/gauntlet
             find /var/lib/gauntlet -not -user gauntlet | grep . && exit 9
             gauntlet setup undo
             test ! -e /etc/gauntlet && test ! -e /var/lib/gauntlet"
        ));
        assert_eq!(code, 0, "{words}: {said}");
        assert!(said.contains("root:root 755 /etc/gauntlet\n"), "{said}");
        assert!(said.contains("gauntlet:gauntlet 700 /var/lib/gauntlet\n"), "{said}");
        let mode = if words.contains("database") { "root:gauntlet 640" } else { "root:root 644" };
        assert!(said.contains(&format!("{mode} /etc/gauntlet/gauntlet.toml\n")), "{said}");
    }
    // One of them runs, as that user.
    let words = "front --name mx.example.org --domain example.org --next-hop 127.0.0.1:9 \
                 --recipients all --listen 127.0.0.1:0 --console 127.0.0.1:0 \
                 --resolver 127.0.0.1:9";
    let (said, code) = debian.run(&format!("gauntlet setup {words}"));
    assert_eq!(code, 1, "doctor found no resolver: {said}");
    for line in [
        "ok      privacy      /var/lib/gauntlet is for its owner only",
        "error   resolver     127.0.0.1:9",
    ] {
        assert!(said.contains(line), "{line}: {said}");
    }
    assert!(debian.written("/etc/gauntlet/gauntlet.toml").unwrap().contains("user = \"gauntlet\""));
    let serve = "exec gauntlet serve --config /etc/gauntlet/gauntlet.toml";
    let node = Served::of(debian.sh(serve));
    let mut client = Smtp::connect(node.smtp).unwrap();
    let reply = client.send("ann@example.com", &["bob@example.org"], &message("in", 300)).unwrap();
    assert!(reply.starts_with("250 2.0.0 Ok: queued"), "{reply}");
    let refused = client.send("ann@example.com", &["bob@example.net"], b"x").unwrap();
    assert!(refused.starts_with("550"), "{refused}");
}
