//! The Debian package of the program under test: clean by Debian's own checks, installed in a
//! Debian that systemd boots and in one without, removed, installed again and upgraded.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use crate::common::blocks::pages;
use crate::common::debian_machine::{Machine, run_without_systemd};
use crate::common::program;

fn here() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// A program ends well; what it printed.
pub(crate) fn succeeds(command: &mut Command) -> String {
    let output = command.current_dir(here()).output().unwrap();
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&text).into_owned();
    assert!(output.status.success(), "{command:?}:\n{text}");
    text
}

/// Folder with the package, made once for all tests; none where Debian's tools are missing.
pub(crate) fn packages() -> Option<&'static Path> {
    static MADE: OnceLock<Option<PathBuf>> = OnceLock::new();
    let make = || {
        program("dpkg-deb").and_then(|_| program("objcopy"))?;
        let out = Path::new(env!("CARGO_TARGET_TMPDIR")).join("packages");
        let _none_before = std::fs::remove_dir_all(&out);
        let mut build = Command::new(here().join("packaging/build-deb"));
        build.args(["--fast", "--binary", env!("CARGO_BIN_EXE_gauntlet"), "--out"]).arg(&out);
        succeeds(&mut build);
        Some(out)
    };
    MADE.get_or_init(make).as_deref()
}

/// The one whose file name begins so.
fn named(start: &str) -> Option<PathBuf> {
    let entries = std::fs::read_dir(packages()?).unwrap().flatten().map(|e| e.path());
    let is_it = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        name.starts_with(start)
    };
    entries.into_iter().find(is_it)
}

fn package() -> Option<PathBuf> {
    named("gauntlet_")
}

#[test]
fn lintian_finds_nothing_in_the_package() {
    let (Some(package), Some(lintian)) = (package(), program("lintian")) else { return };
    let mut command = Command::new(lintian);
    command.args(["--allow-root", "--fail-on", "error,warning"]);
    // For this test nothing is compressed.
    command.arg("--suppress-tags");
    command.arg("uses-no-compression-for-control-tarball,uses-no-compression-for-data-tarball");
    if std::env::var_os("GAUNTLET_TEST_ALL").is_none() {
        // A minute, for each manual page and for words in the program.
        command.args(["-X", "binaries/spelling,documentation/manual,files/contents"]);
    }
    succeeds(command.arg(package));
}

/// Samples that pages of the handbook name.
fn named_samples() -> BTreeSet<String> {
    let pages = pages("docs/handbook");
    let texts = pages.iter().map(|page| std::fs::read_to_string(here().join(page)).unwrap());
    let is_sign = |c: char| c.is_ascii_alphanumeric() || "/-.$*".contains(c);
    let mut found = BTreeSet::new();
    for text in texts {
        for (at, _) in text.match_indices("samples/") {
            let rest = &text[at..];
            let end = rest.find(|c| !is_sign(c)).unwrap_or(rest.len());
            found.insert(rest[..end].to_owned());
        }
    }
    found.retain(|name| name.ends_with(".eml") && !name.contains(['$', '*']));
    found
}

#[test]
fn the_package_holds_pages_completions_and_the_samples_of_the_handbook() {
    let Some(package) = package() else { return };
    let listed = succeeds(Command::new("dpkg-deb").arg("--contents").arg(package));
    let share = |name: &str| format!(" ./usr/share/{name}\n");
    for name in [
        "man/man1/gauntlet.1.gz",
        "man/man1/gauntlet-setup.1.gz",
        "man/man5/gauntlet.toml.5.gz",
        "bash-completion/completions/gauntlet",
        "zsh/vendor-completions/_gauntlet",
        "fish/vendor_completions.d/gauntlet.fish",
        "doc/gauntlet/licences-of-crates",
    ] {
        assert!(listed.contains(&share(name)), "{name}:\n{listed}");
    }
    let samples = named_samples();
    assert!(samples.len() > 5, "{samples:?}");
    for name in samples {
        let name = share(&format!("doc/gauntlet/examples/{name}"));
        assert!(listed.contains(&name), "{name}:\n{listed}");
    }
}

#[test]
fn the_symbols_are_those_of_the_program() {
    let (Some(package), Some(symbols)) = (package(), named("gauntlet-dbgsym_")) else { return };
    let folder = tempfile::tempdir().unwrap();
    let unpacked = |name: &str, package: &Path| {
        let path = folder.path().join(name);
        succeeds(Command::new("dpkg-deb").arg("--extract").arg(package).arg(&path));
        path
    };
    let readelf = |flags: &[&str], file: &Path| {
        succeeds(Command::new("readelf").env("LC_ALL", "C").args(flags).arg(file))
    };
    let program = unpacked("program", &package).join("usr/bin/gauntlet");
    let notes = readelf(&["-n"], &program);
    let id = notes.lines().find_map(|line| line.trim().strip_prefix("Build ID: ")).unwrap();
    let field = succeeds(Command::new("dpkg-deb").arg("-f").arg(&symbols).arg("Build-Ids"));
    assert_eq!(field.trim(), id);
    let (first, rest) = id.split_at(2);
    let file = format!("usr/lib/debug/.build-id/{first}/{rest}.debug");
    let file = unpacked("symbols", &symbols).join(file);
    assert!(readelf(&["-n"], &file).contains(id));
    assert!(!readelf(&["-SW"], &program).contains(" .symtab "), "the program is stripped");
    let names = succeeds(Command::new("nm").arg("--demangle").arg(&file));
    assert!(names.lines().any(|line| line.ends_with("gauntlet::main")), "no function has its name");
}

#[test]
fn the_unit_keeps_its_sandbox_and_the_profile_is_read() {
    let folder = here().join("packaging/debian");
    if let Some(analyze) = program("systemd-analyze") {
        // Exposure in tenths: 2.0 of 10.
        let args = ["security", "--offline=true", "--threshold=20", "--no-pager"];
        succeeds(Command::new(analyze).args(args).arg(folder.join("gauntlet.service")));
    }
    if let Some(parser) = program("apparmor_parser") {
        succeeds(Command::new(parser).args(["-Q", "-K"]).arg(folder.join("gauntlet.apparmor")));
    }
}

#[test]
fn a_program_that_needs_libraries_is_no_static_one() {
    if program("readelf").is_none() {
        return;
    }
    let mut build = Command::new(here().join("packaging/build-static"));
    build.args(["--binary", env!("CARGO_BIN_EXE_gauntlet")]);
    let output = build.current_dir(here()).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("needs libraries of the system"), "{said}");
}

/// Sends a sample.
fn hand_over(sample: &str) -> String {
    format!(
        "curl -sS --crlf smtp://127.0.0.1:2525 --mail-from me@example.com \
           --mail-rcpt you@example.org --upload-file /samples/{sample}.eml\n"
    )
}

/// The same, and waits until the log has so many messages.
pub(crate) fn send(sample: &str, logged: usize) -> String {
    format!(
        "{hand_over}for i in $(seq 600); do [ $(gauntlet messages | wc -l) -ge {logged} ] && break\n\
           sleep 0.1; done\n\
         gauntlet messages\n",
        hand_over = hand_over(sample)
    )
}

pub(crate) const INSTALL: &str = "dpkg -i /packages/gauntlet_*.deb";
pub(crate) const NODE: &str = "systemctl show -p MainPID --value gauntlet";

#[test]
fn a_package_on_debian_starts_a_node_and_upgrades_lose_none() {
    let Some(machine) = packages().and_then(Machine::boot) else { return };
    // Whoever has the port already keeps it: the node says so, the installation does not fail.
    let said = machine.run(&format!(
        "systemd-socket-activate -l 127.0.0.1:8025 /bin/cat & foreign=$!\n\
         sleep 0.3; {INSTALL}; systemctl stop gauntlet; kill $foreign\n\
         journalctl -u gauntlet -o cat --no-pager"
    ));
    assert!(said.contains("the node was not started"), "{said}");
    assert!(said.contains("console.address 127.0.0.1:8025: Address already in use"), "{said}");
    let said = machine.run(&format!("dpkg -r gauntlet; {INSTALL}"));
    assert!(said.contains("the node runs again"), "{said}");
    let judged = machine.run(&send("spam-pills", 1));
    assert!(judged.contains("spam") && judged.contains("quarantine"), "{judged}");
    let status = machine.run("systemctl status --no-pager gauntlet");
    assert!(status.contains("Status: \"takes mail\""), "{status}");
    let log = machine.run("journalctl -u gauntlet -o cat --no-pager");
    let whole = "sandbox        node: Landlock";
    assert!(log.contains(whole) && !log.contains("the sandbox is not whole"), "{log}");

    // A reload that changes nothing says why, to whoever asked and in the status.
    machine.run("systemctl reload gauntlet");
    machine.run("echo '[nod' >> /etc/gauntlet/gauntlet.toml; ! systemctl reload gauntlet");
    let hang_up = format!("kill -HUP $({NODE})");
    let wait = "for i in $(seq 600); do systemctl status --no-pager gauntlet | grep 'not reloaded' \
                && break; sleep 0.1; done";
    let status = machine.run(&format!("{hang_up}; {wait}"));
    assert!(status.contains("takes mail; configuration not reloaded"), "{status}");

    // An upgrade to a program that does not read the configuration leaves the old node.
    let node = machine.run(NODE);
    let said = machine.run(INSTALL);
    assert!(said.contains("unclosed table") && said.contains("the old one, and goes on"), "{said}");
    assert_eq!(machine.run(NODE), node);
    machine.run(&hand_over("ham-lunch"));
    machine.run(&format!("sed -i '$d' /etc/gauntlet/gauntlet.toml; {INSTALL}"));
    let newer = machine.run(NODE);
    assert_ne!(newer, node);
    assert_eq!(machine.run(&send("ham-lunch", 3)).lines().count(), 3);

    // Port 25 without root, and a node that is killed comes back.
    machine.run(
        "printf '[[listener]]\\naddress = \"127.0.0.1:25\"\\n' >> /etc/gauntlet/gauntlet.toml\n\
         systemctl restart gauntlet; curl -sS smtp://127.0.0.1:25 -X NOOP",
    );
    let back = format!(
        "old=$({NODE}); kill -KILL $old; for i in $(seq 600); do new=$({NODE})\n\
           [ $new != 0 ] && [ $new != $old ] && systemctl is-active -q gauntlet && break\n\
           sleep 0.1; done; curl -sS smtp://127.0.0.1:25 -X NOOP"
    );
    machine.run(&back);

    // Purged, it leaves the mail.
    let said = machine.run("dpkg -P gauntlet");
    assert!(said.contains("/var/lib/gauntlet stays"), "{said}");
    machine.run("[ -d /var/lib/gauntlet/quarantine ] && ! [ -e /etc/gauntlet/gauntlet.toml ]");
    machine.run(&format!("{INSTALL}; [ $(gauntlet messages | wc -l) = 3 ]"));

    // A node that was stopped stays so; data of a newer version are named and left alone.
    let newer = "rm -f /var/lib/gauntlet/history/history.db-*; printf '\\000\\000\\003\\347' |\n\
                 dd of=/var/lib/gauntlet/history/history.db bs=1 seek=60 conv=notrunc status=none\n";
    let said = machine.run(&format!(
        "systemctl stop gauntlet; {INSTALL}; systemctl is-active gauntlet\n{newer}\
         dpkg -r gauntlet; {INSTALL}; journalctl -u gauntlet -o cat --no-pager | tail -n 20"
    ));
    assert!(said.contains("inactive"), "{said}");
    assert!(said.contains("its format is version 999"), "{said}");
    assert!(said.contains("the node was not started"), "{said}");
}

/// Starts the node of the package as its user, as a container would.
pub(crate) const SERVE: &str = "(runuser -u gauntlet -- gauntlet serve >/tmp/node.log 2>&1 &)\n\
     for i in $(seq 600); do grep -q 'to stop' /tmp/node.log && break; sleep 0.1; done\n";

#[test]
fn the_package_works_without_systemd() {
    let Some(packages) = packages() else { return };
    let send = send("attachments/zip-in-zip", 1);
    let script = format!(
        "set -e\n{INSTALL}\n\
         stat -c '%n %U %G %a' /etc/gauntlet/gauntlet.toml /etc/gauntlet-tls /var/lib/gauntlet\n\
         {SERVE}{send}gauntlet status\n\
         echo as nobody; runuser -u nobody -- gauntlet config show | grep node.data\n"
    );
    let Some(said) = run_without_systemd(packages, &script) else { return };
    for line in [
        "no systemd runs here",
        "/etc/gauntlet/gauntlet.toml root gauntlet 640",
        "/etc/gauntlet-tls root gauntlet 750",
        "/var/lib/gauntlet gauntlet gauntlet 700",
        "malware",
        "takes mail   yes",
    ] {
        assert!(said.contains(line), "{line:?} is not in:\n{said}");
    }
    // Who may not read the package's configuration has a program as from anywhere.
    let (_, of_nobody) = said.split_once("as nobody").unwrap();
    assert!(!of_nobody.contains("/var/lib/gauntlet"), "{said}");
}
