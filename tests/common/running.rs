//! `gauntlet ips run` in the namespace in the middle of a test.

use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::PATIENCE;
use super::namespaces::{Namespaces, program};

/// Rules that a test begins with.
pub(crate) const RULES: &str = "\
alert http any any -> any any (msg:\"seen\"; http.uri; content:\"/seen\"; sid:1;)
drop http any any -> any any (msg:\"dropped\"; http.uri; content:\"/dropped\"; sid:2;)
reject tcp any any -> any 81 (msg:\"rejected\"; flags:S; sid:3;)
";
pub(crate) const GAUNTLET: &str = env!("CARGO_BIN_EXE_gauntlet");

/// The program in the namespace in the middle.
pub(crate) struct Running {
    pub(crate) child: Child,
    pub(crate) rules: PathBuf,
    pub(crate) eve: PathBuf,
    pub(crate) errors: PathBuf,
}

impl Running {
    /// Starts it, and waits until packets are inspected.
    pub(crate) fn start(net: &Namespaces, args: &[&str]) -> Self {
        let folder = net.folder.path();
        let [rules, eve, errors] = ["a.rules", "eve.json", "errors"].map(|name| folder.join(name));
        fs::write(&rules, RULES).unwrap();
        let log = fs::File::create(&errors).unwrap();
        let mut command = net.command("middle", GAUNTLET);
        command.args(["ips", "run"]).arg("--rules").arg(&rules).arg("--eve").arg(&eve).args(args);
        let child = command.stdout(Stdio::null()).stderr(log).spawn().unwrap();
        let running = Self { child, rules, eve, errors };
        running.wait("rules, ");
        running
    }

    pub(crate) fn bridge(net: &Namespaces, more: &[&str]) -> Self {
        let bridge = ["--interface", "c0", "--copy-interface", "s0"];
        let running = Self::start(net, &[&bridge[..], more].concat());
        until("the bridge forwards", || net.get("/ready", 1).is_ok());
        running
    }

    pub(crate) fn said(&self) -> String {
        fs::read_to_string(&self.errors).unwrap()
    }

    /// Waits until it has said this.
    pub(crate) fn wait(&self, text: &str) {
        until(text, || self.said().contains(text));
    }

    pub(crate) fn records(&self, kind: &str) -> Vec<Value> {
        let text = fs::read_to_string(&self.eve).unwrap_or_default();
        // The last line may be half written.
        let records = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        records.filter(|record| record["event_type"] == kind).collect()
    }

    /// Waits for the alert of a rule; its action.
    pub(crate) fn alert(&self, sid: u64) -> String {
        let find = || {
            let alerts = self.records("alert");
            alerts.into_iter().find(|record| record["alert"]["signature_id"] == sid)
        };
        until("an alert", || find().is_some());
        find().unwrap()["alert"]["action"].as_str().unwrap().to_owned()
    }

    pub(crate) fn signal(&self, name: &str, pid: u32) {
        let sent = Command::new("kill").args([name, &pid.to_string()]).status().unwrap();
        assert!(sent.success(), "kill {name} {pid}");
    }

    /// The process that inspects.
    pub(crate) fn worker(&self) -> u32 {
        let pid = self.child.id();
        let mut found = None;
        until("a worker", || {
            let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"));
            found = children.unwrap().split_whitespace().next().map(|word| word.parse().unwrap());
            found.is_some()
        });
        found.unwrap()
    }

    /// Ends it by a signal; how it ended, and its statistics.
    pub(crate) fn stop(mut self) -> (ExitStatus, Value) {
        self.signal("-TERM", self.child.id());
        let status = self.child.wait().unwrap();
        let stats = self.records("stats").pop().unwrap_or_else(|| panic!("{}", self.said()));
        (status, stats["stats"].clone())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Waits until something holds.
pub(crate) fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < PATIENCE, "{what}: nothing within {PATIENCE:?}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Hands packets that the router forwards to queue 0, by nftables or, where the kernel's nftables
/// knows no queues, by iptables; none, with a note, if neither can.
pub(crate) fn queue_rule(net: &Namespaces) -> Option<()> {
    let (nft, iptables) = (program("nft")?, program("iptables"));
    let rules =
        "table inet t { chain f { type filter hook forward priority 0; queue num 0 bypass; }; }";
    let done = net.command("middle", nft).arg(rules).stderr(Stdio::null()).status().unwrap();
    if done.success() {
        return Some(());
    }
    let args = ["-A", "FORWARD", "-j", "NFQUEUE", "--queue-num", "0", "--queue-bypass"];
    let by_iptables = |path| net.command("middle", path).args(args).status().unwrap().success();
    if iptables.is_some_and(by_iptables) {
        return Some(());
    }
    eprintln!("SKIPPED: this kernel has no queues for packets");
    None
}
