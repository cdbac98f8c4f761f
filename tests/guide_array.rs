//! The guide of an array (`docs/guides/array.md`) as somebody follows it: three Debian machines,
//! each command of the page run as it stands there, with the package, PostgreSQL, HAProxy and an S3
//! server. What it took is printed.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::common::blocks::{Block, blocks};
use crate::common::debian_machine::Machine;
use crate::common::namespaces::program;
use crate::common::{PATIENCE, program as found};
use crate::package_deb::{INSTALL, packages};

/// The page's machines, and their addresses in its network.
const MACHINES: [(&str, &str); 3] =
    [("db", "192.0.2.10"), ("mx1", "192.0.2.11"), ("mx2", "192.0.2.12")];

/// A network of the test's own, with the page's addresses. Outside of the machines are somebody who
/// sends mail and the mail server behind the nodes.
struct Network {
    name: String,
    ip: PathBuf,
    sink: Option<Child>,
}

impl Network {
    fn new() -> Option<Self> {
        let name = format!("gauntlet-guide-{}", std::process::id());
        let network = Network { name, ip: program("ip")?, sink: None };
        let outside = network.namespace("outside");
        let mut commands = vec![
            format!("netns add {outside}"),
            format!("-n {outside} link add br0 type bridge"),
            format!("-n {outside} addr add 192.0.2.20/24 dev br0"),
            format!("-n {outside} link set br0 up"),
            format!("-n {outside} link set lo up"),
        ];
        for (machine, address) in MACHINES {
            let namespace = network.namespace(machine);
            commands.extend([
                format!("netns add {namespace}"),
                format!("-n {outside} link add {machine} type veth peer name e0 netns {namespace}"),
                format!("-n {outside} link set {machine} master br0"),
                format!("-n {outside} link set {machine} up"),
                format!("-n {namespace} addr add {address}/24 dev e0"),
                format!("-n {namespace} link set e0 up"),
                format!("-n {namespace} link set lo up"),
            ]);
        }
        for command in commands {
            if !network.ip(&command) {
                assert!(std::env::var_os("CI").is_none(), "ip {command}: not possible here");
                eprintln!("SKIPPED: network namespaces are root's to make");
                return None;
            }
        }
        Some(network)
    }

    fn namespace(&self, machine: &str) -> String {
        format!("{}-{machine}", self.name)
    }

    fn ip(&self, arguments: &str) -> bool {
        Command::new(&self.ip).args(arguments.split(' ')).status().unwrap().success()
    }

    fn outside(&self, program: &str) -> Command {
        let mut command = Command::new(&self.ip);
        command.args(["netns", "exec", &self.namespace("outside"), program]);
        command
    }

    /// The mail server that the nodes pass mail on to.
    fn start_sink(&mut self) {
        let mut sink = self.outside(env!("CARGO_BIN_EXE_gauntlet"));
        sink.args(["bench", "sink", "--listen", "192.0.2.20:25"]);
        self.sink = Some(sink.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
    }

    /// Runs a command that the page has for any machine.
    fn send(&self, command: &str) -> bool {
        let mut shell = self.outside("sh");
        shell.args(["-c", command]).stdout(Stdio::null()).stderr(Stdio::null());
        shell.status().unwrap().success()
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        if let Some(mut sink) = self.sink.take() {
            let _ended = sink.kill();
            let _reaped = sink.wait();
        }
        for (machine, _) in MACHINES {
            self.ip(&format!("netns del {}", self.namespace(machine)));
        }
        self.ip(&format!("netns del {}", self.namespace("outside")));
    }
}

/// The program of an S3 server that the test command installed.
fn rclone() -> Option<PathBuf> {
    let usual = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/peers/s3/bin/rclone");
    let named = std::env::var_os("GAUNTLET_RCLONE").map_or(usual, PathBuf::from);
    if !named.is_file() {
        assert!(std::env::var_os("CI").is_none(), "rclone is not installed (./check does it)");
        eprintln!("SKIPPED: rclone is not installed (./check does it)");
        return None;
    }
    Some(named)
}

/// Somebody with three machines and the page.
struct Reader {
    // Machines end before their network does.
    db: Machine,
    mx1: Machine,
    mx2: Machine,
    network: Network,
    page: std::vec::IntoIter<Block>,
}

impl Reader {
    fn new() -> Option<Self> {
        let (packages, rclone, _) = (packages()?, rclone()?, found("swaks")?);
        let mut network = Network::new()?;
        network.start_sink();
        let boot = |name: &str| {
            let namespace = network.namespace(name);
            let arguments = [
                format!("--network-namespace-path=/run/netns/{namespace}"),
                format!("--machine={namespace}"),
                format!("--hostname={name}"),
                format!("--bind-ro={}:/usr/bin/rclone", rclone.display()),
            ];
            Machine::boot_with(packages, &arguments)
        };
        let (db, mx1, mx2) = (boot("db")?, boot("mx1")?, boot("mx2")?);
        let page = blocks(Path::new("docs/guides/array.md")).into_iter();
        Some(Reader { db, mx1, mx2, network, page })
    }

    /// The next block of the page, which has these words.
    fn next(&mut self, words: &str) -> Block {
        let block = self.page.next().expect("a further block");
        assert!(block.text.contains(words), "{words:?} is not in {}", block.place());
        block
    }

    /// Follows a block: mail is sent from outside, the rest typed on this machine.
    fn follow(&self, machine: &Machine, text: &str) -> String {
        let (mut said, mut typed) = (String::new(), String::new());
        for line in text.lines() {
            if line.starts_with("swaks ") {
                said += &machine.run(&std::mem::take(&mut typed));
                assert!(self.network.send(line), "{line}");
            } else {
                typed += &format!("{line}\n");
            }
        }
        said + &machine.run(&typed)
    }

    /// What a command prints as soon as it prints so many lines with a word.
    fn until(&self, machine: &Machine, command: &str, count: usize, word: &str) -> String {
        let begun = Instant::now();
        loop {
            // A search that finds nothing ends with 1.
            let said = String::from_utf8_lossy(&machine.output(command).stdout).into_owned();
            if said.lines().filter(|line| line.contains(word)).count() >= count {
                return said;
            }
            assert!(begun.elapsed() < PATIENCE, "{command}: not {count} times {word:?}:\n{said}");
            std::thread::sleep(Duration::from_millis(300));
        }
    }

    fn database_and_objects(&mut self) {
        // It is installed here, and does not start by itself as it does where apt installs it.
        let block = self.next("apt install postgresql haproxy");
        let install = "apt install postgresql haproxy";
        let typed =
            block.text.replacen(install, &format!("{install}\nsystemctl start postgresql"), 1);
        self.follow(&self.db, &typed);
        let block = self.next("rclone serve s3");
        self.db.run("rclone version");
        let serve = block.text.replace("rclone serve", "systemd-run --quiet rclone serve");
        self.follow(&self.db, &serve);
    }

    fn nodes(&mut self) {
        let config = self.next("[array]").text;
        let other = config.replace("mx1.", "mx2.").replace("192.0.2.11", "192.0.2.12");
        let check = self.next("systemctl restart gauntlet").text;
        for (machine, config) in [(&self.mx1, config), (&self.mx2, other)] {
            machine.run(INSTALL);
            machine.run(&format!("cat >/etc/gauntlet/gauntlet.toml <<'END'\n{config}END\n{check}"));
        }
        let nodes = self.next("gauntlet array nodes").text;
        let said = self.until(&self.mx2, &nodes, 2, "log complete");
        assert_eq!(said.matches("active").count(), 2, "{said}");
    }

    fn balancer_and_mail(&mut self) {
        let config = self.next("send-proxy-v2").text;
        let restart = self.next("systemctl restart haproxy").text;
        self.db.run(&format!("cat >/etc/haproxy/haproxy.cfg <<'END'\n{config}END\n{restart}"));
        let swaks = self.next("swaks --server").text;
        let begun = Instant::now();
        // HAProxy looks at the nodes first.
        while !self.network.send(&swaks) {
            assert!(begun.elapsed() < PATIENCE, "no node answers behind HAProxy");
            std::thread::sleep(Duration::from_millis(300));
        }
        for _ in 0..3 {
            assert!(self.network.send(&swaks));
        }
        let messages = self.next("gauntlet messages --array").text;
        let said = self.until(&self.mx1, &messages, 4, "ann@example.com");
        assert!(said.contains("mx1.example.org") && said.contains("mx2.example.org"), "{said}");
        self.policy_held_mail_and_outage(&messages);
    }

    /// A policy, what it holds, and last a database that is away: the rest of the page.
    fn policy_held_mail_and_outage(&mut self, messages: &str) {
        let policy = self.next("eve@example.com").text;
        self.mx1.run(&format!("cat >policy.toml <<'END'\n{policy}END"));
        let held = self.next("policy publish").text;
        let lines: Vec<&str> = held.lines().collect();
        let [publish, swaks, list] = lines[..] else { panic!("three lines: {held}") };
        self.mx1.run(publish);
        let begun = Instant::now();
        let said = loop {
            assert!(self.network.send(swaks));
            std::thread::sleep(Duration::from_secs(1));
            let said = String::from_utf8_lossy(&self.mx2.output(list).stdout).into_owned();
            if said.contains("eve@example.com") {
                break said;
            }
            assert!(begun.elapsed() < PATIENCE, "the policy is not in force:\n{said}");
        };
        let line = said.lines().find(|line| line.contains("eve@example.com")).unwrap_or_default();
        let node = if line.contains("mx1.example.org") { "mx1" } else { "mx2" };
        let id =
            line.split_whitespace().find(|word| word.len() > 10 && !word.contains(['-', '@', '.']));
        let id = id.unwrap_or_else(|| panic!("no id: {said}"));
        let block = self.next("quarantine show --array ID").text;
        let other = if node == "mx1" { &self.mx2 } else { &self.mx1 };
        let typed =
            block.replace("NODE", &format!("{node}.example.org")).replace(" ID", &format!(" {id}"));
        let said = self.follow(other, &typed);
        assert!(said.contains("From: eve@example.com") && said.contains("released"), "{said}");
        let outage = self.next("pg_ctlcluster 15 main stop").text;
        self.follow(&self.db, &outage);
        self.until(&self.mx1, messages, 5, "ann@example.com");
    }
}

#[test]
fn three_machines_become_an_array_as_the_guide_says() {
    let begun = Instant::now();
    let Some(mut reader) = Reader::new() else { return };
    let booted = begun.elapsed();
    reader.database_and_objects();
    reader.nodes();
    reader.balancer_and_mail();
    assert!(reader.page.next().is_none(), "the page has a block that was not followed");
    let followed = begun.elapsed() - booted;
    eprintln!("three machines in {booted:.0?}, every block of the guide in {followed:.0?}");
}
