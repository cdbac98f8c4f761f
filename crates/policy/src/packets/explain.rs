//! Why a flow is decided as it is.

use serde::Serialize;

use super::compile::{PacketPolicy, Rule};
use super::service;
use super::{Carried, Countries, Decision, Opening};

/// A condition that does not hold.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Failed {
    /// Key of the setting: `to`, `service`.
    pub condition: &'static str,
    /// What the flow has.
    pub found: String,
    /// What the rule asks for.
    pub wanted: String,
}

/// What came of a rule.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RuleReport {
    /// Its name.
    pub rule: String,
    /// What it does.
    #[serde(rename = "do")]
    pub action: &'static str,
    /// Conditions that do not hold; empty: the rule decides.
    pub failed: Vec<Failed>,
}

/// Why a flow is decided as it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Explanation {
    /// The rule that decides, or `default`.
    pub rule: String,
    /// What is done.
    #[serde(rename = "do")]
    pub action: &'static str,
    /// What looks at the flow; empty if nothing does.
    pub functions: Vec<&'static str>,
    /// Zones of the sender.
    pub from_zones: Vec<String>,
    /// Zones of the receiver.
    pub to_zones: Vec<String>,
    /// What is asked for, as a service is written.
    pub service: String,
    /// Rules in order, up to the one that decides.
    pub rules: Vec<RuleReport>,
    /// Rules before it that do something else and lack one condition alone.
    pub near: Vec<RuleReport>,
}

impl PacketPolicy {
    /// Decides as [`PacketPolicy::decide`] does, and says why.
    pub fn explain(&self, opening: &Opening<'_>, countries: Countries<'_>) -> Explanation {
        let Decision { rule, action, functions } = self.decide(opening, countries);
        let count = rule.map_or(self.rules.len(), |rule| usize::from(rule) + 1);
        let looked = self.rules.iter().take(count);
        let rules: Vec<RuleReport> =
            looked.map(|rule| self.report(rule, opening, countries)).collect();
        let near = rules
            .iter()
            .filter(|report| report.failed.len() == 1 && report.action != action.name());
        let zones = |address, interface| {
            let of = self.zones.iter().filter(|zone| zone.contains(address, interface));
            of.map(|zone| zone.name.clone()).collect()
        };
        Explanation {
            rule: self.name(rule).to_owned(),
            action: action.name(),
            functions: match action {
                super::Action::Inspect => functions.names(),
                _ => Vec::new(),
            },
            from_zones: zones(opening.source, opening.incoming),
            to_zones: zones(opening.destination, opening.outgoing),
            service: service::shown(opening),
            near: near.cloned().collect(),
            rules,
        }
    }

    fn report(&self, rule: &Rule, opening: &Opening<'_>, countries: Countries<'_>) -> RuleReport {
        let failed = rule.conditions.iter().filter(|it| !it.holds(opening, countries));
        let failed = failed.map(|condition| Failed {
            condition: condition.key(),
            found: condition.found(opening, countries, &self.zones),
            wanted: condition.written.clone(),
        });
        RuleReport {
            rule: rule.name.to_string(),
            action: rule.action.name(),
            failed: failed.collect(),
        }
    }
}

/// Protocol and what stands in the place of ports, from what a person asks about.
impl Carried {
    /// Reads the name or number of a protocol and, behind a `/`, a type of ICMP and its code:
    /// `tcp`, `icmp/8`, `icmp/3.4`, `47`. `port`: that of the receiver.
    ///
    /// # Errors
    /// What it should be.
    pub fn read(protocol: &str, ports: (u16, u16)) -> Result<(u8, Carried), String> {
        let (name, rest) = protocol.split_once('/').unwrap_or((protocol, ""));
        let number = service::protocol_number(name)
            .ok_or_else(|| format!("{name:?} is no protocol; write tcp, udp, icmp or a number"))?;
        let carried = match number {
            6 | 17 | 132 => Carried::Ports { source: ports.0, destination: ports.1 },
            1 | 58 => {
                let usual = if number == 1 { "8" } else { "128" };
                let (kind, code) = match rest {
                    "" => (usual, "0"),
                    rest => rest.split_once('.').unwrap_or((rest, "0")),
                };
                match (kind.parse(), code.parse()) {
                    (Ok(kind), Ok(code)) => Carried::Icmp { kind, code },
                    _ => return Err(format!("{rest:?} is no type of ICMP; write e.g. icmp/8")),
                }
            }
            _ => Carried::Nothing,
        };
        Ok((number, carried))
    }
}
