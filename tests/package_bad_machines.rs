//! The package on machines that lack something: each says what it lacks in words of its own, and
//! the next installation on the same machine succeeds.

use crate::common::debian_machine::{Machine, run_without_systemd};
use crate::package_deb::{INSTALL, SERVE, packages, send};

/// `full FOLDER MEBIBYTES` puts a disk without a free byte below what is in a folder; `free FOLDER`
/// makes room on it.
const FULL: &str = "full() {\n\
      mkdir -p /mnt$1; mount -t tmpfs -o size=$2m full /mnt$1; cp -a $1/. /mnt$1\n\
      mount --bind /mnt$1 $1; dd if=/dev/zero of=$1/fill bs=4k 2>/dev/null\n\
      echo \"the disk of $1 is full\"\n\
    }\n\
    free() { rm $1/fill; }\n";

/// What a machine without systemd printed between two of its own lines.
fn between<'a>(said: &'a str, from: &str, to: &str) -> &'a str {
    let (_, rest) = said.split_once(from).unwrap_or_else(|| panic!("no {from:?} in:\n{said}"));
    rest.split_once(to).unwrap_or_else(|| panic!("no {to:?} in:\n{said}")).0
}

fn has(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "{part:?} is not in:\n{text}");
    }
}

#[test]
fn a_full_disk_is_named_by_dpkg_the_package_and_the_node() {
    let Some(packages) = packages() else { return };
    let script = format!(
        "{FULL}full /var/lib/dpkg 64; {INSTALL} && exit 1; free /var/lib/dpkg\n\
         echo; echo unpacked; dpkg --unpack /packages/gauntlet_*.deb || exit 1; full /etc 16\n\
         dpkg --configure gauntlet && exit 1; free /etc; dpkg --configure gauntlet || exit 1\n\
         echo configured now; full /var/lib/gauntlet 1\n\
         runuser -u gauntlet -- timeout 60 gauntlet serve; echo ended with $?\n\
         umount /var/lib/gauntlet; echo there is room\n{SERVE}{send}",
        send = send("ham-lunch", 1),
    );
    let Some(said) = run_without_systemd(packages, &script) else { return };
    let of_dpkg = between(&said, "the disk of /var/lib/dpkg is full", "unpacked");
    has(of_dpkg, &["No space left on device"]);
    let of_package = between(&said, "the disk of /etc is full", "configured now");
    let words = "gauntlet: the user gauntlet was not made (see above). When that is mended:  \
                 dpkg --configure gauntlet";
    has(of_package, &[words, "post-installation script", "no systemd runs here"]);
    let of_node = between(&said, "the disk of /var/lib/gauntlet is full", "there is room");
    has(of_node, &["/var/lib/gauntlet", "No space left on device"]);
    has(said.split_once("there is room").unwrap().1, &["deliver"]);
}

#[test]
fn a_read_only_etc_is_named() {
    let Some(packages) = packages() else { return };
    let script = format!(
        "mount --bind /etc /etc; mount -o remount,ro,bind /etc; {INSTALL} && exit 1; umount /etc\n\
         {INSTALL}"
    );
    let Some(said) = run_without_systemd(packages, &script) else { return };
    has(&said, &["Read-only file system", "no systemd runs here"]);
}

#[test]
fn without_ipv6_the_node_runs_and_an_address_of_it_is_named() {
    let Some(packages) = packages() else { return };
    let script = format!(
        "sysctl -qw net.ipv6.conf.all.disable_ipv6=1 net.ipv6.conf.lo.disable_ipv6=1 ||\n\
           for of in all lo; do echo 1 > /proc/sys/net/ipv6/conf/$of/disable_ipv6; done\n\
         echo \"IPv6 addresses: $(cat /proc/net/if_inet6)\"; {INSTALL} || exit 1\n\
         cp /etc/gauntlet/gauntlet.toml /tmp/before\n\
         echo '[[listener]]\naddress = \"[::1]:2526\"' >> /etc/gauntlet/gauntlet.toml\n\
         runuser -u gauntlet -- timeout 60 gauntlet serve; echo ended with $?\n\
         cp /tmp/before /etc/gauntlet/gauntlet.toml\n\
         printf '[[listener]]\naddress = \"%s\"\n' 127.0.0.1:2525 [::]:2526 \\\n\
           >> /etc/gauntlet/gauntlet.toml\n\
         printf '[domains]\nlocal = [\"example.org\"]\n' >> /etc/gauntlet/gauntlet.toml\n\
         {SERVE}cat /tmp/node.log; curl -sS smtp://127.0.0.1:2526 -X NOOP || exit 1\n{send}",
        send = send("ham-lunch", 1),
    );
    let Some(said) = run_without_systemd(packages, &script) else { return };
    has(
        &said,
        &[
            "IPv6 addresses: \n",
            "listener.address [::1]:2526: Cannot assign requested address",
            "deliver",
        ],
    );
}

#[test]
fn a_clock_in_1970_installs_and_judges() {
    let Some(packages) = packages() else { return };
    let then = "faketime -f '@1970-01-02 03:04:05'";
    let script = format!(
        "export FAKETIME_DONT_FAKE_MONOTONIC=1; echo in $({then} date +%Y)\n\
         {then} {INSTALL} || exit 1\n{serve}{send}",
        serve = SERVE.replace("gauntlet serve", &format!("{then} gauntlet serve")),
        send = send("attachments/zip-in-zip", 1),
    );
    let Some(said) = run_without_systemd(packages, &script) else { return };
    has(&said, &["in 1970", "1970-01-02T", "malware"]);
}

#[test]
fn a_port_25_that_postfix_has_is_named_and_stays_its_own() {
    let Some(machine) = packages().and_then(Machine::boot) else { return };
    let who = "curl -sv smtp://127.0.0.1:25 -X NOOP 2>&1 | grep '< 220 '";
    machine.run(&format!(
        "{INSTALL}; dpkg -r gauntlet; systemctl start postfix\n\
         for i in $(seq 600); do {who} && break; sleep 0.1; done\n\
         printf '[[listener]]\naddress = \"%s\"\n' 127.0.0.1:2525 127.0.0.1:25 \\\n\
           >> /etc/gauntlet/gauntlet.toml"
    ));
    let said = machine.run(&format!("{INSTALL}; echo installed with $?; {who}"));
    has(&said, &["the node was not started", "installed with 0", "ESMTP Postfix"]);
    let log = machine.run("journalctl -u gauntlet -o cat --no-pager");
    has(
        &log,
        &["listener.address 127.0.0.1:25: Address already in use", "; stop what listens there"],
    );
    let said = machine.run(&format!("systemctl stop postfix; systemctl restart gauntlet; {who}"));
    has(&said, &["ESMTP Gauntlet"]);
}
