//! A Debian of a test: the cached root folder, which stays as it is, below a layer in memory.
//!
//! `tests/make-debian-root` makes the folder, `./check` runs it. The machine has a network of its
//! own with nothing but loopback, so that ports of the package are free.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use super::PATIENCE;

/// What systemd-nspawn keeps from a container although the node's sandbox needs it.
const CALLS: &str = "landlock_create_ruleset landlock_add_rule landlock_restrict_self";

fn here() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// What is in every machine's root folder, by a word of its list of packages.
const NEEDED: [&str; 2] = ["postfix", "postgresql"];

/// The command that has such a machine, with a folder as `/packages`. None, with a note, where
/// there is no root folder.
fn machine(packages: &Path) -> Option<Command> {
    let nspawn = super::program("systemd-nspawn")?;
    let root = here().join("target/peers/debian-root");
    // The packages that are in it.
    let made = std::fs::read_to_string(root.join("made")).unwrap_or_default();
    if !NEEDED.iter().all(|package| made.contains(package)) {
        let why = "no Debian with Postfix and PostgreSQL in target/peers/debian-root; \
                   `tests/make-debian-root target/peers/debian-root` makes it, or makes it anew";
        assert!(std::env::var_os("CI").is_none(), "{why}");
        eprintln!("skipped: {why}");
        return None;
    }
    let mut command = Command::new(nspawn);
    // No service manager of this machine has to know of it.
    command.args(["--quiet", "--register=no", "--keep-unit"]);
    command.args(["--volatile=overlay", "--system-call-filter", CALLS, "-D"]);
    command.arg(root.join("root"));
    command.arg(format!("--bind-ro={}:/packages", packages.display()));
    command.arg(format!("--bind-ro={}:/samples", here().join("samples").display()));
    Some(command)
}

/// Runs a shell script in a machine without systemd; what it printed on both outputs.
pub(crate) fn run_without_systemd(packages: &Path, script: &str) -> Option<String> {
    let mut command = machine(packages)?;
    command.args(["--private-network", "--pipe", "--capability=CAP_NET_ADMIN", "sh", "-c"]);
    let output = command.arg(format!("exec 2>&1\n{script}")).stdin(Stdio::null()).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let why = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{text}\n{why}");
    Some(text)
}

/// A control group of a machine's own. In one for several, each systemd would look for processes
/// of its services among those of the others, and wait for their end.
struct ControlGroup {
    folders: Vec<PathBuf>,
}

impl ControlGroup {
    fn new() -> Self {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("gauntlet-test-{}-{count}", std::process::id());
        let own = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        // The one of systemd in version 1, and version 2 beside it or alone.
        let hierarchies = [("/systemd", ":name=systemd:/"), ("/unified", "0::/"), ("", "0::/")];
        let mut folders = Vec::new();
        for (mount, before) in hierarchies {
            let mount = PathBuf::from(format!("/sys/fs/cgroup{mount}"));
            let path = own.lines().find_map(|line| line.split_once(before));
            let Some((_, path)) = path.filter(|_| mount.join("cgroup.procs").exists()) else {
                continue;
            };
            let folder = mount.join(path).join(&name);
            // Where none can be made, the machines share what there is.
            if std::fs::create_dir(&folder).is_ok() {
                folders.push(folder);
            }
        }
        ControlGroup { folders }
    }

    /// The command, run in it.
    fn enter(&self, command: &Command) -> Command {
        let folders =
            self.folders.iter().map(|folder| format!("{}/cgroup.procs", folder.display()));
        let script = format!(
            "for list in {}; do echo $$ >\"$list\" || exit; done; exec \"$@\"",
            folders.collect::<Vec<_>>().join(" ")
        );
        let mut shell = Command::new("sh");
        shell.args(["-c", &script, "sh"]).arg(command.get_program()).args(command.get_args());
        shell
    }
}

impl Drop for ControlGroup {
    fn drop(&mut self) {
        fn remove(folder: &Path) {
            for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
                if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                    remove(&entry.path());
                }
            }
            let _has_processes = std::fs::remove_dir(folder);
        }
        for folder in &self.folders {
            remove(folder);
        }
    }
}

/// A machine that systemd runs. It is gone when this is dropped.
pub(crate) struct Machine {
    nspawn: Child,
    /// Removed after the machine has ended.
    _group: ControlGroup,
    /// The number, here, of its systemd.
    leader: String,
    enter: PathBuf,
}

impl Machine {
    /// None, with a note, where it cannot be.
    pub(crate) fn boot(packages: &Path) -> Option<Self> {
        Self::boot_with(packages, &["--private-network".to_owned()])
    }

    /// The same, with further arguments of systemd-nspawn.
    pub(crate) fn boot_with(packages: &Path, arguments: &[String]) -> Option<Self> {
        let enter = super::program("nsenter")?;
        let mut command = machine(packages)?;
        command.args(arguments);
        command.args(["--console=pipe", "--boot"]);
        let group = ControlGroup::new();
        let mut command = group.enter(&command);
        let nspawn = command.stdin(Stdio::null()).stdout(Stdio::null()).spawn().unwrap();
        let mut machine = Machine { nspawn, _group: group, leader: String::new(), enter };
        let begun = Instant::now();
        loop {
            machine.leader = machine.find_leader();
            let up = !machine.leader.is_empty()
                && machine.output("systemctl is-system-running").stdout.starts_with(b"running");
            if up {
                return Some(machine);
            }
            assert!(begun.elapsed() < PATIENCE, "the machine does not boot");
            std::thread::sleep(std::time::Duration::from_millis(100));
        }
    }

    fn find_leader(&self) -> String {
        let id = self.nspawn.id();
        let children = std::fs::read_to_string(format!("/proc/{id}/task/{id}/children"));
        children.unwrap_or_default().split_whitespace().next().unwrap_or_default().to_owned()
    }

    /// Runs a shell script in it.
    pub(crate) fn output(&self, script: &str) -> Output {
        let mut command = Command::new(&self.enter);
        command.args(["-t", &self.leader, "-m", "-u", "-i", "-n", "-p", "-C", "--"]);
        command.args(["timeout", "60", "sh", "-c", script]).stdin(Stdio::null());
        // Of the machine that the test runs on: nothing.
        command.env_clear().env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin").output().unwrap()
    }

    /// Puts a file into it.
    pub(crate) fn copy(&self, file: &Path, to: &str) {
        let to = format!("/proc/{}/root{to}", self.leader);
        std::fs::copy(file, to).unwrap();
    }

    /// The same: what it printed on both outputs. It has to succeed.
    pub(crate) fn run(&self, script: &str) -> String {
        let output = self.output(&format!("exec 2>&1\n{script}"));
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        if !output.status.success() {
            let log = self.output("journalctl -u gauntlet -o cat --no-pager | tail -n 20").stdout;
            panic!("{script}:\n{text}\n{}", String::from_utf8_lossy(&log));
        }
        text
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        // All its processes end with its first one.
        let _ended = Command::new("kill").args(["-KILL", &self.leader]).status();
        let _reaped = self.nspawn.wait();
    }
}
