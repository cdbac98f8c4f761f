//! Rules for packets as they are written.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize};

use crate::condition::TimeCondition;
use crate::pattern::OneOrMany;

/// The list of rules, its groups, and what holds for packets that no rule can speak of.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PacketSettings {
    /// What becomes of a flow that no rule fits. Without rules it has no effect.
    pub default: Action,
    /// What passes whatever rules say, because links do not work without it.
    pub link_protocols: Vec<LinkProtocol>,
    /// Fragments of IP packets.
    pub fragments: Carry,
    /// Packets whose headers contradict themselves.
    pub malformed: Carry,
    /// Whether a TCP connection that was under way when the process started may be taken up by
    /// either side: for so many seconds.
    pub pick_up_seconds: u32,
    /// Records of refused flows in a second; more are counted, and not written.
    pub records_per_second_max: u32,
    /// Zones: where packets come from and go to.
    pub zones: BTreeMap<String, ZoneSettings>,
    /// Networks by name.
    pub networks: BTreeMap<String, Vec<String>>,
    /// Services by name.
    pub services: BTreeMap<String, Vec<String>>,
    /// Times by name.
    pub times: BTreeMap<String, Vec<TimeCondition>>,
    /// The rules, in order.
    pub rule: Vec<PacketRule>,
}

impl Default for PacketSettings {
    fn default() -> Self {
        PacketSettings {
            default: Action::Drop,
            link_protocols: LinkProtocol::ALL.to_vec(),
            fragments: Carry::Inspect,
            malformed: Carry::Drop,
            pick_up_seconds: 60,
            records_per_second_max: 100,
            zones: BTreeMap::new(),
            networks: BTreeMap::new(),
            services: BTreeMap::new(),
            times: BTreeMap::new(),
            rule: Vec::new(),
        }
    }
}

impl PacketSettings {
    /// Reads the settings by themselves, as they stand below `[ips]`.
    ///
    /// # Errors
    /// What is wrong with the text.
    pub fn parse(text: &str) -> Result<Self, String> {
        toml::from_str(text).map_err(|error| error.to_string())
    }

    /// Reads them as they stand in a configuration (`[ips.zones]`, `[[ips.rule]]`), without its
    /// other settings.
    ///
    /// # Errors
    /// What is wrong with the text.
    pub fn of_configuration(text: &str) -> Result<Self, String> {
        let read: Configuration = toml::from_str(text).map_err(|error| error.to_string())?;
        Ok(read.ips)
    }

    /// The text that [`PacketSettings::of_configuration`] reads: what differs from the defaults.
    pub fn to_configuration(&self) -> String {
        let all = toml::Table::try_from(Configuration { ips: self.clone() });
        let defaults = toml::Table::try_from(Configuration::default());
        let (Ok(mut all), Ok(defaults)) = (all, defaults) else { return String::new() };
        if let (Some(toml::Value::Table(ips)), Some(toml::Value::Table(usual))) =
            (all.get_mut("ips"), defaults.get("ips"))
        {
            ips.retain(|key, value| usual.get(key) != Some(value));
            ips.iter_mut().for_each(|(_, value)| drop_absent(value));
        }
        toml::to_string(&all).unwrap_or_default()
    }
}

/// The part of a configuration that these settings are.
#[derive(Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Configuration {
    ips: PacketSettings,
}

/// Takes out keys that are as good as absent: empty lists and texts, and `false`.
fn drop_absent(value: &mut toml::Value) {
    use toml::Value;
    let is_absent = |value: &Value| match value {
        Value::Array(list) => list.is_empty(),
        Value::String(text) => text.is_empty(),
        Value::Boolean(is_on) => !is_on,
        _ => false,
    };
    match value {
        Value::Table(table) => {
            table.retain(|key, value| key == "log" || !is_absent(value));
            table.iter_mut().for_each(|(_, value)| drop_absent(value));
        }
        Value::Array(list) => list.iter_mut().for_each(drop_absent),
        _ => {}
    }
}

/// A rule. A condition that is absent does not constrain; of a list, one entry has to hold, and
/// none of those with `!` before them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PacketRule {
    /// Its name, in records and counters.
    pub name: String,
    /// Zones from which the flow begins.
    #[serde(deserialize_with = "list")]
    pub from_zone: Vec<String>,
    /// Zones into which it goes.
    #[serde(deserialize_with = "list")]
    pub to_zone: Vec<String>,
    /// Networks, or groups of them, of the sender.
    #[serde(deserialize_with = "list")]
    pub from: Vec<String>,
    /// Those of the receiver.
    #[serde(deserialize_with = "list")]
    pub to: Vec<String>,
    /// Services, or groups of them.
    #[serde(deserialize_with = "list")]
    pub service: Vec<String>,
    /// Countries of the sender (ISO 3166-1).
    #[serde(deserialize_with = "list")]
    pub from_country: Vec<String>,
    /// Countries of the receiver.
    #[serde(deserialize_with = "list")]
    pub to_country: Vec<String>,
    /// Times by name, at which the flow begins.
    #[serde(deserialize_with = "list")]
    pub time: Vec<String>,
    /// What is done.
    #[serde(rename = "do")]
    pub action: Option<Action>,
    /// What looks at the flow, if it is inspected; all if absent.
    #[serde(deserialize_with = "list")]
    pub functions: Vec<Function>,
    /// Whether a record of the decision is written; of refused flows unless it says otherwise.
    pub log: Option<bool>,
    /// The sender goes into the set of the kernel's firewall.
    pub block_source: bool,
}

/// A zone: by the interface, by networks, or by both, which then both have to hold.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ZoneSettings {
    /// Interfaces (a side of the bridge).
    #[serde(deserialize_with = "list")]
    pub interface: Vec<String>,
    /// Networks, or groups of them.
    #[serde(deserialize_with = "list")]
    pub networks: Vec<String>,
}

/// What is done with a flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    /// It passes, and nothing looks at it.
    Allow,
    /// It passes if nothing that looks at it objects.
    Inspect,
    /// It does not pass.
    Drop,
    /// It does not pass, and its sender is told.
    Reject,
}

impl Action {
    /// As it is written.
    pub fn name(self) -> &'static str {
        match self {
            Action::Allow => "allow",
            Action::Inspect => "inspect",
            Action::Drop => "drop",
            Action::Reject => "reject",
        }
    }

    /// Whether the flow passes.
    pub fn passes(self) -> bool {
        matches!(self, Action::Allow | Action::Inspect)
    }
}

/// What can look at a flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Function {
    /// Rules of Suricata's language.
    Rules,
    /// Lists of URLs and web rules.
    Urls,
    /// Judging of messages.
    Mail,
    /// Judging of files.
    Files,
    /// Weighted words of pages.
    Words,
}

impl Function {
    /// All there are.
    pub const ALL: [Function; 5] =
        [Function::Rules, Function::Urls, Function::Mail, Function::Files, Function::Words];

    /// Its place in a set.
    pub fn bit(self) -> u8 {
        match self {
            Function::Rules => 1,
            Function::Urls => 2,
            Function::Mail => 4,
            Function::Files => 8,
            Function::Words => 16,
        }
    }

    /// As it is written.
    pub fn name(self) -> &'static str {
        match self {
            Function::Rules => "rules",
            Function::Urls => "urls",
            Function::Mail => "mail",
            Function::Files => "files",
            Function::Words => "words",
        }
    }
}

/// What a link needs to work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LinkProtocol {
    /// Address resolution of IPv4 (RFC 826).
    Arp,
    /// Neighbour discovery of IPv6 (RFC 4861), and which groups a host listens to (RFC 3810).
    Ndp,
    /// Spanning tree (IEEE 802.1D).
    Stp,
    /// Link layer discovery (IEEE 802.1AB).
    Lldp,
    /// Frames of any other kind that is not IP.
    Other,
}

impl LinkProtocol {
    /// All there are.
    pub const ALL: [LinkProtocol; 5] = [
        LinkProtocol::Arp,
        LinkProtocol::Ndp,
        LinkProtocol::Stp,
        LinkProtocol::Lldp,
        LinkProtocol::Other,
    ];

    /// As it is written.
    pub fn name(self) -> &'static str {
        match self {
            LinkProtocol::Arp => "arp",
            LinkProtocol::Ndp => "ndp",
            LinkProtocol::Stp => "stp",
            LinkProtocol::Lldp => "lldp",
            LinkProtocol::Other => "other",
        }
    }
}

/// What becomes of packets about which rules can say nothing, or not all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Carry {
    /// They pass as far as rules let them, and are inspected.
    Inspect,
    /// They are dropped.
    Drop,
}

/// One value or a list of them.
fn list<'de, D, T>(deserializer: D) -> Result<Vec<T>, D::Error>
where
    D: Deserializer<'de>,
    T: serde::de::DeserializeOwned + Clone,
{
    OneOrMany::<T>::deserialize(deserializer).map(|values| values.as_slice().to_vec())
}
