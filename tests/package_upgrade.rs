//! The package is upgraded, and taken back, while mail comes: what was answered 250 is delivered.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::common::debian_machine::Machine;
use crate::package_deb::{INSTALL, NODE, packages, succeeds};

/// Clients that send at once.
const SENDERS: usize = 4;

/// Sends messages, each with a token of its own, until it is told to stop; each until the node took
/// it. What was taken is in `/tmp/sent`.
const SENDER: &str = "n=0\n\
    while ! [ -e /tmp/stop ]; do\n\
      n=$((n + 1)); token=$1-$n\n\
      until { echo \"X-Token: $token\"; cat /samples/ham-lunch.eml; } |\n\
        curl -s --crlf smtp://127.0.0.1:2525 --mail-from me@example.com \
          --mail-rcpt you@example.org --upload-file - ; do\n\
        echo $token >> /tmp/again; sleep 0.05\n\
      done\n\
      echo $token >> /tmp/sent\n\
    done\n\
    echo $1 >> /tmp/ended\n";

/// The package as its next version: the same files, another number.
fn next_version(packages: &Path) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("packages-next");
    let script = format!(
        "rm -rf {0}; mkdir -p {0}/control; cd {0}\n\
         cp {1}/gauntlet_*.deb next.deb; ar x next.deb control.tar\n\
         tar -C control -xf control.tar; sed -i 's/^Version: .*/&.1/' control/control\n\
         tar -C control --owner=0 --group=0 -cf control.tar .; ar r next.deb control.tar",
        folder.display(),
        packages.display()
    );
    succeeds(Command::new("sh").args(["-ec", &script]));
    folder.join("next.deb")
}

/// Waits until so many lines are in a file of the machine.
fn wait_for_lines(machine: &Machine, file: &str, count: usize) {
    machine.run(&format!(
        "for i in $(seq 300); do [ $(wc -l < {file}) -ge {count} ] && exit; sleep 0.1; done\n\
         echo too few in {file}; exit 1"
    ));
}

fn lines(text: &str) -> BTreeMap<&str, usize> {
    let mut counts = BTreeMap::new();
    for line in text.lines() {
        *counts.entry(line.trim()).or_default() += 1;
    }
    counts
}

#[test]
fn an_upgrade_while_mail_comes_loses_none() {
    let Some(packages) = packages() else { return };
    let Some(machine) = Machine::boot(packages) else { return };
    let next = next_version(packages);
    machine.run(INSTALL);
    machine.copy(&next, "/tmp/next.deb");
    machine.run(&format!(
        "cat > /tmp/send <<'END'\n{SENDER}END\ntouch /tmp/sent /tmp/again /tmp/ended"
    ));
    machine.run(&format!(
        "for sender in $(seq {SENDERS}); do\n\
           setsid sh /tmp/send $sender </dev/null >/dev/null 2>&1 &\n\
         done"
    ));
    let version = "dpkg-query -W -f '${Version}' gauntlet";
    let (first, mut node) = (machine.run(version), machine.run(NODE));
    let mut sent = 0;
    let upgrades = ["dpkg -i /tmp/next.deb", INSTALL];
    for upgrade in upgrades {
        wait_for_lines(&machine, "/tmp/sent", sent + 20);
        machine.run(upgrade);
        let newer = machine.run(NODE);
        assert_ne!(newer, node, "the node is the old one");
        node = newer;
        let now = machine.run("cat /tmp/sent").lines().count();
        assert!(now > sent + 20, "mail came during the upgrade");
        sent = now;
    }
    assert_eq!(machine.run(version), first, "forward, and back");
    wait_for_lines(&machine, "/tmp/sent", sent + 20);
    machine.run("touch /tmp/stop");
    wait_for_lines(&machine, "/tmp/ended", SENDERS);
    let sent = machine.run("cat /tmp/sent");
    let sent = lines(&sent);
    let empty = "for i in $(seq 300); do gauntlet queue list | grep -q '^0 messages' && break\n\
                 sleep 0.1; done; gauntlet queue list";
    machine.run(empty);
    let taken = machine.run("grep -rhi '^X-Token: ' /var/lib/gauntlet/maildir/new");
    let taken = taken.replace("X-Token: ", "");
    let taken = lines(&taken);
    let lost: Vec<_> = sent.keys().filter(|token| !taken.contains_key(*token)).collect();
    assert!(lost.is_empty(), "{lost:?} of {} are lost", sent.len());
    let doubled: Vec<_> = taken.iter().filter(|(_, count)| **count > 1).collect();
    let again = machine.run("cat /tmp/again").lines().count();
    eprintln!(
        "{} messages taken in {} upgrades, {again} attempts failed, doubled: {doubled:?}",
        sent.len(),
        upgrades.len()
    );
    // Twice comes only what was in a client's hand as the node stopped.
    assert!(doubled.len() <= SENDERS * upgrades.len(), "{doubled:?}");
    assert!(doubled.iter().all(|(_, count)| **count == 2), "{doubled:?}");
}
