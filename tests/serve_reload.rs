//! A reload changes everything or nothing: each part of it fails in turn.

use std::path::{Path, PathBuf};

use crate::common::{Node, Smtp, message};

/// Files and settings of one generation, and what a client sees of it.
struct Site {
    folder: tempfile::TempDir,
}

impl Site {
    fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.file(name), text).unwrap();
    }

    /// Writes the files of a generation; its number shows in all that it changes.
    fn make(&self, generation: u32) {
        let made = rcgen::generate_simple_self_signed(vec!["gw.test".to_owned()]).unwrap();
        self.write("chain.pem", &made.cert.pem());
        self.write("key.pem", &made.signing_key.serialize_pem());
        self.write("recipients", &format!("known{generation}@example.net\n"));
        self.write("list", "192.0.2.1\n");
        let rule = format!(
            "[[rule]]\nname = \"mark\"\n[rule.do]\nadd_header = {{ name = \"X-Generation\", value = \"{generation}\" }}\n"
        );
        self.write("policy.toml", &rule);
        self.write("rules.cf", "header SITE_RULE Subject =~ /never/\n");
    }

    fn settings(&self, generation: u32) -> String {
        let file = |name: &str| format!("{:?}", self.file(name).display().to_string());
        format!(
            "[receiver]\nmessage_bytes_max = {}\n[recipients]\nfile = {}\n[policy]\npath = {}\n\
             [rules]\npaths = [{}]\n[[local_list]]\nname = \"mine\"\npath = {}\nof = [\"client\"]\npoints = 1.0\n",
            1_000_000 + generation,
            file("recipients"),
            file("policy.toml"),
            file("rules.cf"),
            file("list"),
        )
    }
}

/// Which generation a client meets: by the size it is offered, a recipient, a field of the policy,
/// the certificate. All must be of one.
fn met(node: &Node, site: &Site, shown: &str) -> (u32, bool) {
    let mut client = Smtp::connect(node.smtp).unwrap();
    let greeting = client.say("EHLO client.example").unwrap();
    let size = greeting.lines().find_map(|line| line.get(4..)?.strip_prefix("SIZE "));
    let generation = size.unwrap().trim().parse::<u32>().unwrap() - 1_000_000;
    let known = format!("known{generation}@example.net");
    let token = format!("t{generation}-{}", node.maildir().len());
    let reply = client.send("a@example.org", &[&known], &message(&token, 100)).unwrap();
    assert!(reply.starts_with("250"), "{known}: {reply}");
    node.wait_for_empty_queue();
    let mark = format!("X-Generation: {generation}");
    let has_mark = |mail: &Vec<u8>| {
        let text = String::from_utf8_lossy(mail);
        text.contains(&token) && text.contains(&mark)
    };
    assert!(node.maildir().iter().any(has_mark), "{mark}");
    (generation, certificate(node, &site.file("seen.pem")).is_none_or(|seen| seen == shown))
}

/// The certificate that the node shows, in PEM; none without openssl.
fn certificate(node: &Node, out: &Path) -> Option<String> {
    let openssl = crate::common::program("openssl")?;
    let script = format!(
        "{} s_client -starttls smtp -connect {} </dev/null 2>/dev/null | {} x509 -out {}",
        openssl.display(),
        node.smtp,
        openssl.display(),
        out.display()
    );
    assert!(std::process::Command::new("sh").arg("-c").arg(script).status().unwrap().success());
    Some(plain(&std::fs::read_to_string(out).unwrap()))
}

fn plain(pem: &str) -> String {
    pem.replace(['\r', '\n'], "")
}

/// Breaks one part of a generation; gives further settings.
type Break = fn(&Site) -> String;

/// The parts by name. All the others are new, and good.
const BREAKS: [(&str, Break); 14] = [
    ("the file itself", |_| "[scan\n".into()),
    ("a setting", |_| "[scan]\nthreds = 1\n".into()),
    ("policy", |site| {
        site.write("policy.toml", "[[rule]]\nname = 1\n");
        String::new()
    }),
    ("model", |_| "[learning]\nmodel = \"/nowhere/model\"\n".into()),
    ("recipients", |site| {
        // In place: the node may read the files alone that it was started with.
        std::fs::write(site.file("recipients"), b"\xff\n").unwrap();
        String::new()
    }),
    ("certificate", |site| {
        site.write("chain.pem", "no certificate");
        String::new()
    }),
    ("key", |site| {
        let other = rcgen::generate_simple_self_signed(vec!["x.test".to_owned()]).unwrap();
        site.write("key.pem", &other.signing_key.serialize_pem());
        String::new()
    }),
    ("trusted roots", |_| "[sender]\nroots = \"/nowhere/roots.pem\"\n".into()),
    ("sealing key", |_| "[dkim]\nseal_as = \"no-key.example\"\n".into()),
    ("DKIM keys", |site| {
        let keys = site.file("dkim/example.org");
        std::fs::create_dir_all(&keys).unwrap();
        std::fs::write(keys.join("s.pem"), "no key").unwrap();
        format!("[dkim]\nkeys = {:?}\n", site.file("dkim").display().to_string())
    }),
    ("resolver", |_| "[dns]\ndnssec = true\ntrust_anchor = \"/nowhere/anchor\"\n".into()),
    ("DNS list", |_| {
        "[[dns_list]]\nzone = \"l.example\"\nof = [\"nonsense\"]\npoints = 1.0\n".into()
    }),
    ("countries", |_| "[facts]\ncountries = \"/nowhere/countries\"\n".into()),
    ("networks", |_| "[facts]\nour_networks = [\"nonsense\"]\n".into()),
];
/// A configuration with its key and its data folder below its folder, replaced by a new file as
/// editors and configuration management do; named by a relative and by an absolute path.
#[test]
fn a_replaced_configuration_beside_keys_and_data_is_read_again() {
    for relative in [true, false] {
        let site = Site { folder: tempfile::tempdir().unwrap() };
        site.make(1);
        let config = |bytes| beside_keys(&site, bytes);
        std::fs::create_dir(site.file("tls")).unwrap();
        for name in ["chain.pem", "key.pem"] {
            std::fs::rename(site.file(name), site.file(&format!("tls/{name}"))).unwrap();
        }
        site.write("gauntlet.toml", &config(1_000_001));
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_gauntlet"));
        command.current_dir(site.folder.path()).args(["serve", "--config"]);
        match relative {
            true => command.arg("gauntlet.toml"),
            false => command.arg(site.file("gauntlet.toml")),
        };
        let log = site.file("node.log");
        command.env_remove("GAUNTLET_CONFIG").stdout(std::fs::File::create(&log).unwrap());
        command.stderr(std::fs::File::options().append(true).open(&log).unwrap());
        let child = Ended(command.spawn().unwrap());
        let said = |what: &str, count: usize| {
            let begun = std::time::Instant::now();
            loop {
                let text = std::fs::read_to_string(&log).unwrap();
                if text.matches(what).count() >= count {
                    return text;
                }
                assert!(begun.elapsed() < crate::common::PATIENCE, "no {what}:\n{text}");
                std::thread::sleep(std::time::Duration::from_millis(20));
            }
        };
        let replace = |name: &str, text: &str| {
            site.write("beside", text);
            std::fs::rename(site.file("beside"), site.file(name)).unwrap();
        };
        let hang_up = || {
            let pid = child.0.id().to_string();
            assert!(
                std::process::Command::new("kill").args(["-HUP", &pid]).status().unwrap().success()
            );
        };
        let welcome = said("ready", 1);
        replace("gauntlet.toml", &config(1_000_002));
        hang_up();
        said("configuration reloaded", 1);
        let words = welcome.lines().find(|l| l.trim_start().starts_with("smtp,")).unwrap();
        let address = words.split_whitespace().nth(2).unwrap().parse().unwrap();
        let mut client = Smtp::connect(address).unwrap();
        let greeting = client.say("EHLO client.example").unwrap();
        assert!(greeting.contains("SIZE 1000002"), "{greeting}");
        // Of other files that were replaced the log says why they cannot be read, and what to do.
        if welcome.contains("Landlock (version") {
            replace("policy.toml", "[[rule]]\nname = \"x\"\ndo = \"deliver\"\n");
            hang_up();
            let text = said("not reloaded", 1);
            for hint in
                ["policy.toml", "the sandbox (node.sandbox)", "write into the file", "restart"]
            {
                assert!(text.contains(hint), "{hint}:\n{text}");
            }
        }
    }
}

/// Settings with this limit: keys and data below the configuration's folder.
fn beside_keys(site: &Site, bytes: u32) -> String {
    let (chain, key) = (site.file("tls/chain.pem"), site.file("tls/key.pem"));
    format!(
        "[node]\nname = \"gw.test\"\ndata = {:?}\n[console]\naddress = \"\"\n\
         [receiver]\nmessage_bytes_max = {bytes}\n[policy]\npath = {:?}\n\
         [[listener]]\naddress = \"127.0.0.1:0\"\ncertificate = [{chain:?}]\nkey = [{key:?}]\n",
        site.file("data"),
        site.file("policy.toml"),
    )
}

/// A process that ends with the test.
struct Ended(std::process::Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _it_may_have_ended = self.0.kill();
        let _reaped = self.0.wait();
    }
}

#[test]
fn a_reload_of_which_any_part_fails_changes_nothing() {
    let site = Site { folder: tempfile::tempdir().unwrap() };
    site.make(1);
    let (chain, key) = (site.file("chain.pem"), site.file("key.pem"));
    let listener = format!("certificate = [{chain:?}]\nkey = [{key:?}]");
    let mut node = Node::start_listening(&listener, &site.settings(1));
    let head = node.config.strip_suffix(&format!("{}\n", site.settings(1))).unwrap().to_owned();
    let first = plain(&std::fs::read_to_string(&chain).unwrap());
    assert_eq!(met(&node, &site, &first), (1, true));

    for (generation, (part, broken)) in (2..).zip(BREAKS) {
        site.make(generation);
        let settings = site.settings(generation) + &broken(&site);
        node.config = format!("{head}{settings}");
        node.write_config();
        let said = || node.log().matches("not reloaded").count();
        let before = said();
        node.signal("-HUP");
        node.wait_until(part, || said() > before);
        assert_eq!(met(&node, &site, &first), (1, true), "{part}");
    }

    site.make(99);
    node.config = format!("{head}{}", site.settings(99));
    node.write_config();
    node.signal("-HUP");
    node.wait_until("it is reloaded", || node.log().contains("configuration reloaded"));
    let last = plain(&std::fs::read_to_string(&chain).unwrap());
    assert_ne!(last, first);
    assert_eq!(met(&node, &site, &last), (99, true));
    // What only a start takes is named, and nothing else.
    assert!(!node.log().contains("need a restart"));
    node.config.push_str("[sender]\nconnections_max = 499\nretry_seconds = [9]\n");
    node.write_config();
    node.signal("-HUP");
    node.wait_until("it is told", || node.log().contains("settings changed that need a restart"));
    assert!(node.log().contains("sender.connections_max"), "{}", node.log());
    assert!(!node.log().contains("sender.retry_seconds"), "{}", node.log());
    node.stop();
}
