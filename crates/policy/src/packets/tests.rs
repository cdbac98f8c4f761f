//! Rules for packets: what decides, what is wrong, and what is said about it.

use super::*;

const RULES: &str = r#"
default = "reject"
[zones]
inside = { interface = "c0", networks = ["10.0.0.0/8", "2001:db8::/32"] }
outside = { interface = ["s0"] }
[networks]
servers = ["10.2.0.0/16", "!10.2.9.0/24"]
guests = ["10.9.0.0/16"]
local = ["servers", "guests"]
[services]
web = ["tcp/80", "tcp/443"]
ping = ["icmp/echo-request", "icmpv6/echo-request"]
all = ["web", "ping", "udp/5000-5999"]
[times]
office = [{ from = "08:00", to = "18:00", days = ["thu"] }]
[[rule]]
name = "guests stay outside"
from = "guests"
to = "servers"
do = "drop"
[[rule]]
name = "web"
from_zone = "inside"
service = "web"
to_country = ["SE", "NO"]
do = "inspect"
functions = ["rules", "urls"]
[[rule]]
name = "ping"
service = "ping"
time = "office"
do = "allow"
[[rule]]
name = "not within"
to = "!guests"
service = "!web"
from_zone = "!outside"
do = "drop"
block_source = true
"#;

fn policy(text: &str) -> PacketPolicy {
    let settings: PacketSettings = toml::from_str(text).unwrap();
    PacketPolicy::compile(&settings).unwrap().unwrap()
}

fn problems(text: &str) -> String {
    let settings: PacketSettings = match toml::from_str(text) {
        Ok(settings) => settings,
        Err(error) => return error.to_string(),
    };
    let problems = PacketPolicy::compile(&settings).unwrap_err();
    problems.iter().map(|problem| format!("{problem}\n")).collect()
}

fn tcp(source: &str, destination: &str, port: u16) -> Opening<'static> {
    Opening {
        source: source.parse().unwrap(),
        destination: destination.parse().unwrap(),
        protocol: 6,
        carried: Carried::Ports { source: 40_000, destination: port },
        incoming: Some("c0"),
        outgoing: Some("s0"),
        unix: 9 * 3_600,
    }
}

fn swedish(address: IpAddr) -> Option<Country> {
    address.to_string().starts_with("192.0.2.").then_some(*b"SE")
}

fn decided(policy: &PacketPolicy, opening: &Opening<'_>) -> String {
    let decision = policy.decide(opening, &swedish);
    assert_eq!(policy.explain(opening, &swedish).rule, policy.name(decision.rule));
    format!("{} {}", policy.name(decision.rule), decision.action.name())
}

#[test]
fn the_first_rule_that_fits_decides() {
    let policy = policy(RULES);
    assert_eq!(policy.len(), 4);
    let of = |opening: &Opening<'_>| decided(&policy, opening);
    assert_eq!(of(&tcp("10.9.1.1", "10.2.1.1", 80)), "guests stay outside drop");
    assert_eq!(of(&tcp("10.9.1.1", "10.2.9.1", 80)), "default reject", "it is excluded");
    let web = tcp("10.1.1.1", "192.0.2.1", 443);
    assert_eq!(of(&web), "web inspect");
    assert_eq!(policy.decide(&web, &swedish).functions.names(), ["rules", "urls"]);
    assert_eq!(policy.decide(&web, &|_| None).rule, None, "no country, no rule");
    // From within by its address, but it came in from outside.
    assert_eq!(of(&Opening { incoming: Some("s0"), ..web }), "default reject");
    // Where interfaces are not known, networks tell zones.
    assert_eq!(of(&Opening { incoming: None, outgoing: None, ..web }), "web inspect");
    let icmp = |kind| Opening { protocol: 1, carried: Carried::Icmp { kind, code: 0 }, ..web };
    assert_eq!(of(&icmp(8)), "ping allow");
    assert_eq!(of(&Opening { unix: 19 * 3_600, ..icmp(8) }), "not within drop");
    assert_eq!(of(&Opening { unix: 33 * 3_600, ..icmp(8) }), "not within drop", "a Friday");
    assert_eq!(of(&icmp(0)), "not within drop");
    assert!(policy.blocks(Some(3)) && !policy.blocks(None) && policy.logs(None));
    assert!(!policy.logs(Some(1)) && policy.asks_countries());
    assert_eq!(policy.interfaces(), ["c0", "s0"]);
    let v6 = tcp("2001:db8::1", "2001:db8:1::1", 81);
    assert_eq!(of(&v6), "not within drop");
    // Mapped addresses are no addresses of IPv4.
    assert_eq!(of(&tcp("::ffff:10.9.1.1", "10.2.1.1", 80)), "default reject");
}

#[test]
fn without_rules_there_is_no_policy() {
    let empty = PacketSettings { default: Action::Drop, ..PacketSettings::default() };
    assert!(PacketPolicy::compile(&empty).unwrap().is_none());
}

#[test]
fn what_is_wrong_is_named_with_its_mend() {
    for (text, said) in [
        ("[[rule]]\nname = \"a\"\n", "has no `do`; write allow"),
        ("[[rule]]\ndo = \"drop\"\n", "ips.rule 1: has no `name`"),
        ("[[rule]]\nname = \"default\"\ndo = \"drop\"\n", "choose another name"),
        ("[[rule]]\nname = \"a\"\ndo = \"pass\"\n", "unknown variant `pass`"),
        ("[[rule]]\nname = \"a\"\ndo = \"drop\"\nport = 1\n", "unknown field `port`"),
        ("[[rule]]\nname = \"a\"\ndo = \"drop\"\nservice = \"tcp/0x1\"\n", "no port"),
        ("[[rule]]\nname = \"a\"\ndo = \"drop\"\nservice = \"tcp/9-2\"\n", "no port"),
        ("[[rule]]\nname = \"a\"\ndo = \"drop\"\nservice = \"web\"\n", "[ips.services]"),
        ("[[rule]]\nname = \"a\"\ndo = \"drop\"\nservice = \"icmp/odd\"\n", "no type of ICMP"),
        ("[[rule]]\nname = \"a\"\ndo = \"drop\"\nservice = \"gre/1\"\n", "has no ports"),
        ("[[rule]]\nname = \"a\"\ndo = \"drop\"\nto = \"10.0.0/8\"\n", "is no network"),
        ("[[rule]]\nname = \"a\"\ndo = \"drop\"\nto_zone = \"x\"\n", "[ips.zones] has none"),
        ("[[rule]]\nname = \"a\"\ndo = \"drop\"\ntime = \"x\"\n", "[ips.times] has none"),
        ("[[rule]]\nname = \"a\"\ndo = \"drop\"\nto_country = \"se\"\n", "two letters"),
        ("[[rule]]\nname = \"a\"\ndo = \"drop\"\nfunctions = \"urls\"\n", "do = \"inspect\""),
        ("[[rule]]\nname = \"a\"\ndo = \"allow\"\nblock_source = true\n", "`block_source`"),
        ("[zones]\nx = {}\n", "ips.zones.x: has neither"),
        ("[networks]\na = [\"b\"]\nb = [\"a\"]\n", "more than 8 deep"),
        ("[networks]\nservers = [\"10.0.0.0/8\"]\na = [\"server\"]\n", "did you mean \"servers\""),
        ("[networks]\na = [\"!10.0.0.1\"]\nb = [\"!a\"]\n", "cannot be excluded"),
        ("[times]\na = []\n", "is empty"),
        ("[times]\na = [{ from = \"25:00\", to = \"1:00\" }]\n", "no time of day"),
    ] {
        let found = problems(text);
        assert!(found.contains(said), "{text}: {found}");
    }
    let twice = "[[rule]]\nname = \"a\"\ndo = \"drop\"\n".repeat(2);
    assert!(problems(&twice).contains("another rule has this name"));
    // All that is wrong is said at once.
    let both = "[[rule]]\nname = \"a\"\ndo = \"drop\"\nto = \"x\"\nservice = \"y\"\n";
    assert_eq!(problems(both).lines().count(), 2);
}

#[test]
fn groups_that_double_at_each_level_are_bounded() {
    let mut text = String::from("[networks]\ng0 = [\"10.0.0.1\"]\n");
    for level in 1..=7 {
        let names: Vec<String> = (0..64).map(|_| format!("\"g{}\"", level - 1)).collect();
        text.push_str(&format!("g{level} = [{}]\n", names.join(", ")));
    }
    assert!(problems(&text).contains("more than 100000 entries"));
}

#[test]
fn an_explanation_says_what_is_missing() {
    let policy = policy(RULES);
    let explained = policy.explain(&tcp("10.1.1.1", "198.51.100.1", 443), &swedish);
    assert_eq!((explained.rule.as_str(), explained.action), ("default", "reject"));
    assert_eq!(explained.from_zones, ["inside"]);
    assert_eq!(explained.to_zones, ["outside"]);
    assert_eq!(explained.rules.len(), 4);
    let near: Vec<&str> = explained.near.iter().map(|report| report.rule.as_str()).collect();
    assert_eq!(near, ["web", "ping", "not within"]);
    let failed = &explained.near[0].failed[0];
    assert_eq!((failed.condition, failed.found.as_str()), ("to_country", "unknown"));
    assert_eq!(failed.wanted, "SE, NO");
    let explained = policy.explain(&tcp("10.9.1.1", "10.2.1.1", 80), &swedish);
    assert_eq!((explained.rules.len(), explained.near.len()), (1, 0));
}

#[test]
fn rules_read_back_as_they_are_written() {
    let settings: PacketSettings = toml::from_str(RULES).unwrap();
    let again: PacketSettings = toml::from_str(&toml::to_string(&settings).unwrap()).unwrap();
    assert_eq!(settings, again);
    assert_eq!(Carried::read("icmp/3.4", (0, 0)), Ok((1, Carried::Icmp { kind: 3, code: 4 })));
    assert_eq!(Carried::read("47", (0, 0)), Ok((47, Carried::Nothing)));
    assert!(Carried::read("http", (0, 0)).is_err() && Carried::read("icmp/x", (0, 0)).is_err());
}

#[test]
fn settings_are_written_as_a_configuration_has_them() {
    let text = "[ips]\nmalformed = \"inspect\"\n[ips.zones]\na = { networks = [\"10.0.0.0/8\"] }\n\
                [[ips.rule]]\nname = \"x\"\nfrom_zone = \"a\"\ndo = \"drop\"\nlog = false\n";
    let settings = PacketSettings::of_configuration(text).unwrap();
    let written = settings.to_configuration();
    assert_eq!(PacketSettings::of_configuration(&written).unwrap(), settings);
    for absent in ["to_zone", "block_source", "default", "pick_up_seconds", "interface"] {
        assert!(!written.contains(absent), "{absent}: {written}");
    }
    assert!(written.contains("log = false"), "{written}");
    assert!(PacketSettings::of_configuration("[ips]\ninterface = \"eth0\"").is_err());
}
