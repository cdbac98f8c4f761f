//! Senders of drops in a set of the kernel's nftables, in network namespaces of this test.

use std::process::Command;

use crate::common::namespaces::{Middle, Namespaces, program};
use crate::common::running::{GAUNTLET, Running, queue_rule, until};

/// What `nft` says in the namespace in the middle.
fn nft(net: &Namespaces, command: &str) -> String {
    let path = program("nft").expect("nft");
    let out = net.command("middle", path).arg(command).output().unwrap();
    let said = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success(), "nft {command}: {said}");
    String::from_utf8_lossy(&out.stdout).into_owned()
}

const SETS: &str = "add table inet filter; \
    add set inet filter blocked { type ipv4_addr; flags timeout; }; \
    add set inet filter ends { type ipv4_addr . ipv4_addr; flags timeout; }; \
    add set inet filter blocked6 { type ipv6_addr; flags timeout; }; \
    add set inet filter ever { type ipv4_addr; }; \
    add element inet filter blocked { 192.0.2.9 timeout 1h }";

#[test]
fn the_kernel_drops_what_chosen_rules_dropped() {
    let Some(net) = Namespaces::new(Middle::Router) else { return };
    if program("nft").is_none() {
        return;
    }
    nft(&net, SETS);
    nft(&net, "add chain inet filter first { type filter hook forward priority -10; }");
    nft(&net, "add rule inet filter first ip saddr @blocked counter drop");
    let Some(()) = queue_rule(&net) else { return };
    let blocked = || nft(&net, "list set inet filter blocked");
    let sets = ["--nft-set", "inet filter blocked", "--nft-set-v6", "inet filter blocked6"];
    let more = ["--nft-on", "2", "--nft-timeout", "4"];
    let running = Running::start(&net, &[&["--queue", "0"], &sets[..], &more].concat());
    until("a page", || net.get("/fine", 2).is_ok());
    let url = format!("http://{}:81/", net.server);
    let refused = net.run("client", "curl", &["-sS", "--max-time", "5", &url]);
    assert_eq!(refused.status.code(), Some(7), "that rule is not chosen");
    assert!(!blocked().contains("10.78.1.2"), "{}", blocked());
    assert_eq!(net.get("/dropped", 1), Err(28));
    until("the set", || blocked().contains("10.78.1.2"));
    assert_eq!(net.get("/fine", 1), Err(28));
    let counter = nft(&net, "list chain inet filter first");
    assert!(!counter.contains("packets 0 "), "{counter}");
    // It is let in again by time, and what others put there stays.
    until("its time is over", || net.get("/fine", 1).is_ok());
    let left = blocked();
    assert!(left.contains("192.0.2.9") && !left.contains("10.78.1.2"), "{left}");
    let (status, stats) = running.stop();
    assert!(status.success());
    assert!(stats["nft"]["handed"].as_u64() >= Some(1), "{stats}");
    assert_eq!(stats["nft"]["lost"], 0, "{stats}");
}

#[test]
fn rules_for_packets_fill_a_set_too() {
    let Some(net) = Namespaces::new(Middle::Bridge) else { return };
    if program("nft").is_none() {
        return;
    }
    nft(&net, SETS);
    let policy = net.folder.path().join("policy.toml");
    let rule = "[[ips.rule]]\nname = \"scan\"\nservice = \"tcp/83\"\ndo = \"drop\"\n\
                block_source = true\n[[ips.rule]]\nname = \"rest\"\ndo = \"inspect\"\n";
    std::fs::write(&policy, rule).unwrap();
    let policy = policy.display().to_string();
    let args = ["--nft-set", "inet filter ends", "--packet-policy", &policy];
    let running = Running::bridge(&net, &args);
    assert_eq!(net.get("/dropped", 1), Err(28), "no rule of Suricata's language is chosen");
    let url = format!("http://{}:83/", net.server);
    net.run("client", "curl", &["-sS", "--max-time", "1", &url]);
    let set = || nft(&net, "list set inet filter ends");
    until("the set", || set().contains("10.78.1.2 . 10.78.1.3"));
    // One that is never to be blocked.
    assert!(running.stop().0.success());
    nft(&net, "flush set inet filter ends");
    let never = [&args[..], &["--nft-never", "10.78.0.0/16"]].concat();
    let running = Running::bridge(&net, &never);
    net.run("client", "curl", &["-sS", "--max-time", "1", &url]);
    let (_, stats) = running.stop();
    assert_eq!(stats["nft"]["handed"], 0, "{stats}");
    assert!(!set().contains("10.78.1.2"));
}

#[test]
fn sets_that_cannot_be_used_are_named_with_the_command_that_makes_them() {
    let Some(net) = Namespaces::new(Middle::Bridge) else { return };
    if program("nft").is_none() {
        return;
    }
    let rules = net.folder.path().join("a.rules");
    std::fs::write(&rules, crate::common::running::RULES).unwrap();
    let rules = rules.display().to_string();
    let run = |args: &[&str]| {
        let bridge = ["ips", "run", "--interface", "c0", "--copy-interface", "s0"];
        let all = [&bridge[..], &["--rules", &rules], args].concat();
        let out = net.run("middle", GAUNTLET, &all);
        (out.status.code(), String::from_utf8_lossy(&out.stderr).into_owned())
    };
    let (code, said) = run(&["--nft-set", "inet filter gone"]);
    assert_eq!(code, Some(2), "{said}");
    let made = "nft add table inet filter; \
                nft add set inet filter gone '{ type ipv4_addr; flags timeout; }'";
    assert!(said.contains("is not there") && said.contains(made), "{said}");
    let sh = net.run("middle", "sh", &["-c", made]);
    assert!(sh.status.success(), "the command works: {sh:?}");
    nft(&net, SETS);
    for (args, wrong) in [
        (&["--nft-set", "inet filter ever"][..], "keeps elements for ever"),
        (&["--nft-set", "inet filter blocked6"], "elements of another type"),
        (&["--nft-set-v6", "inet filter blocked"], "elements of another type"),
        (&["--nft-set", "inet filter"], "FAMILY TABLE NAME"),
        (&["--nft-on", "2"], "no effect without --nft-set"),
        (&["--nft-on", "x", "--nft-set", "inet filter blocked"], "is no rule"),
    ] {
        let (code, said) = run(args);
        assert!(code == Some(2) && said.contains(wrong), "{args:?}: {said}");
    }
    let mut passive = Command::new(GAUNTLET);
    passive.args(["ips", "run", "--interface", "lo", "--rules", &rules]);
    let out = passive.args(["--nft-set", "inet filter blocked"]).output().unwrap();
    let said = String::from_utf8_lossy(&out.stderr).into_owned();
    assert!(said.contains("nothing is dropped"), "{said}");
}
