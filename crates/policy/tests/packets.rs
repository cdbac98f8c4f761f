//! Any text as a packet policy: read, then decide about flows; for this test and the fuzz target.

use std::net::IpAddr;

use gauntlet_policy::packets::{Carried, Opening, PacketPolicy, PacketSettings};

/// # Panics
/// If a promise is broken: errors say something, and an explanation is about the decision.
pub(crate) fn ask(text: &str) {
    let settings = match PacketSettings::parse(text) {
        Ok(settings) => settings,
        Err(error) => {
            assert!(!error.is_empty());
            return;
        }
    };
    let policy = match PacketPolicy::compile(&settings) {
        Ok(Some(policy)) => policy,
        Ok(None) => return,
        Err(problems) => {
            assert!(problems.iter().all(|problem| !problem.to_string().is_empty()));
            assert!(!problems.is_empty());
            return;
        }
    };
    let country = |address: IpAddr| address.is_ipv4().then_some(*b"SE");
    let addresses = ["10.0.0.1", "192.0.2.1", "2001:db8::1", "0.0.0.0", "255.255.255.255"];
    let all = addresses.map(|text| text.parse::<IpAddr>().unwrap());
    let carried = [
        (6, Carried::Ports { source: 1, destination: 80 }),
        (1, Carried::Icmp { kind: 8, code: 0 }),
        (47, Carried::Nothing),
    ];
    for (source, destination) in all.iter().zip(all.iter().rev()) {
        for ((protocol, carried), unix) in carried.into_iter().zip([0, i64::MAX / 2, -1]) {
            let opening = Opening {
                source: *source,
                destination: *destination,
                protocol,
                carried,
                incoming: Some("eth0"),
                outgoing: None,
                unix,
            };
            let decision = policy.decide(&opening, &country);
            let explanation = policy.explain(&opening, &country);
            assert_eq!(explanation.rule, policy.name(decision.rule));
            assert_eq!(explanation.action, decision.action.name());
        }
    }
}

const RULES: &str = "default = \"inspect\"\n[zones]\na = { interface = \"eth0\" }\n\
    [networks]\nn = [\"10.0.0.0/8\", \"!10.0.0.1\", \"2001:db8::/32\"]\n\
    [services]\ns = [\"tcp/80-81\", \"icmp/8\", \"gre\"]\n\
    [times]\nt = [{ from = \"22:00\", to = \"06:00\", days = [\"mon\"] }]\n\
    [[rule]]\nname = \"one\"\nfrom_zone = \"a\"\nfrom = \"n\"\nservice = \"s\"\n\
    from_country = \"!SE\"\ntime = \"t\"\ndo = \"drop\"\n";

#[test]
fn every_prefix_and_every_changed_byte_is_read_or_refused() {
    ask(RULES);
    for at in 0..RULES.len() {
        ask(&RULES[..at]);
        for byte in ["0", "\"", "[", "!", "9", "\n"] {
            ask(&format!("{}{byte}{}", &RULES[..at], &RULES[at + 1..]));
        }
    }
}
