//! Settings of packets: what `gauntlet serve` inspects beside mail and web.

use std::collections::BTreeMap;
use std::path::PathBuf;

use gauntlet_mail::Network;
use gauntlet_policy::condition::TimeCondition;
use gauntlet_policy::packets::{
    Action, Carry, LinkProtocol, PacketPolicy, PacketRule, PacketSettings, Problem, ZoneSettings,
};
use gauntlet_verdict::Class;
use serde::{Deserialize, Serialize};

use super::error::ConfigError;

/// Queues of one process, at most.
const QUEUES_MAX: u16 = 256;
/// What can be looked at of what packets carry.
const KINDS: [&str; 4] = ["mail", "files", "urls", "words"];

/// Inspection of packets.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct IpsSettings {
    /// The interface whose packets are inspected; empty without one.
    pub interface: String,
    /// The other side of a bridge; empty: packets are only listened to.
    pub copy_interface: String,
    /// Queues of the firewall, `N` or `N-M`; empty without.
    pub queues: String,
    /// Files of rules.
    pub rules: Vec<PathBuf>,
    /// A configuration of Suricata; empty: its stock settings.
    pub suricata_yaml: PathBuf,
    /// Single settings of it, `KEY=VALUE`.
    pub set: Vec<String>,
    /// Threads that share the packets of an interface.
    pub threads: u16,
    /// CPUs of these threads, one each (`0-3,8`); empty: any.
    pub cpus: String,
    /// What each rule costs is counted on every so manieth packet; 0: on none.
    pub profile_every: u32,
    /// Packets pass if a queue is full, or while nothing inspects them.
    pub fail_open: bool,
    /// The inspecting process is started anew if it makes no progress for so long.
    pub watchdog_seconds: u16,
    /// All records are appended to this file; empty: alerts go into the node's log alone.
    pub eve: PathBuf,
    /// What packets carry that is judged: mail, files, urls, words.
    pub scan: Vec<String>,
    /// Inline: flows with an item of this class or a more severe one are dropped; empty: none.
    pub drop_on: String,
    /// Inline: TCP connections that are dropped for what they carry are reset on both sides.
    pub reset: bool,
    /// Bytes of a message on the wire that are kept.
    pub message_bytes_max: u64,
    /// Bytes of all messages on the wire that are kept at a time.
    pub messages_held_bytes_max: u64,
    /// Bytes of a file on the wire that are kept.
    pub file_bytes_max: u64,
    /// Bytes of all files that a thread keeps at a time.
    pub files_held_bytes_max: u64,
    /// Files and responses that a thread follows at a time.
    pub files_max: usize,
    /// Days that alerts are kept.
    pub log_retention_days: u32,
    /// File of a WireGuard tunnel whose end this is; empty without.
    pub wireguard: PathBuf,
    /// Set of nftables that senders of drops go into, `FAMILY TABLE NAME`; empty: none.
    pub nft_set: String,
    /// The same for IPv6.
    pub nft_set_v6: String,
    /// Rules whose drops count, `SID`, `GID:SID` or `*`.
    pub nft_on: Vec<String>,
    /// How long they stay there.
    pub nft_seconds: u32,
    /// How many are added in a second.
    pub nft_per_second_max: u32,
    /// How many of ours are in both sets at a time.
    pub nft_elements_max: u32,
    /// Networks of which no address is added.
    pub nft_never: Vec<String>,
    /// What becomes of a flow that no rule for packets fits; no effect without such rules.
    pub default: Action,
    /// What passes whatever those rules say.
    pub link_protocols: Vec<LinkProtocol>,
    /// What becomes of fragments where there are rules.
    pub fragments: Carry,
    /// What becomes of packets whose headers contradict themselves.
    pub malformed: Carry,
    /// For how long after the start either side of a connection may speak first.
    pub pick_up_seconds: u32,
    /// Records of decisions in a second.
    pub records_per_second_max: u32,
    /// Zones by name.
    pub zones: BTreeMap<String, ZoneSettings>,
    /// Networks by name.
    pub networks: BTreeMap<String, Vec<String>>,
    /// Services by name.
    pub services: BTreeMap<String, Vec<String>>,
    /// Times by name.
    pub times: BTreeMap<String, Vec<TimeCondition>>,
    /// Rules for packets, in order.
    pub rule: Vec<PacketRule>,
}

impl Default for IpsSettings {
    fn default() -> Self {
        let packets = PacketSettings::default();
        IpsSettings {
            interface: String::new(),
            copy_interface: String::new(),
            queues: String::new(),
            rules: Vec::new(),
            suricata_yaml: PathBuf::new(),
            set: Vec::new(),
            threads: 1,
            cpus: String::new(),
            profile_every: 1_000,
            fail_open: false,
            watchdog_seconds: 10,
            eve: PathBuf::new(),
            scan: Vec::new(),
            drop_on: String::new(),
            reset: false,
            message_bytes_max: 64 << 20,
            messages_held_bytes_max: 256 << 20,
            file_bytes_max: 64 << 20,
            files_held_bytes_max: 256 << 20,
            files_max: 10_000,
            log_retention_days: 30,
            wireguard: PathBuf::new(),
            nft_set: String::new(),
            nft_set_v6: String::new(),
            nft_on: Vec::new(),
            nft_seconds: 600,
            nft_per_second_max: 100,
            nft_elements_max: 10_000,
            nft_never: Vec::new(),
            default: packets.default,
            link_protocols: packets.link_protocols,
            fragments: packets.fragments,
            malformed: packets.malformed,
            pick_up_seconds: packets.pick_up_seconds,
            records_per_second_max: packets.records_per_second_max,
            zones: packets.zones,
            networks: packets.networks,
            services: packets.services,
            times: packets.times,
            rule: packets.rule,
        }
    }
}

impl IpsSettings {
    /// Whether packets are inspected.
    pub fn is_on(&self) -> bool {
        !self.interface.is_empty() || !self.queues.is_empty() || self.has_tunnel()
    }

    fn has_tunnel(&self) -> bool {
        !self.wireguard.as_os_str().is_empty()
    }

    /// Whether senders of drops go into a set of nftables.
    pub fn has_nft_set(&self) -> bool {
        !self.nft_set.is_empty() || !self.nft_set_v6.is_empty()
    }

    /// Sets are checked when they are opened; what is wrong beside them is said here.
    fn check_sets(&self) -> Result<(), ConfigError> {
        let wrong = |key: &str, message: String| Err(ConfigError::invalid(key, message));
        if self.has_tunnel() && (!self.interface.is_empty() || !self.queues.is_empty()) {
            let message = "and ips.interface or ips.queues exclude each other";
            return wrong("ips.wireguard", message.into());
        }
        let drops = !self.copy_interface.is_empty() || !self.queues.is_empty() || self.has_tunnel();
        if self.has_nft_set() && !drops {
            let message = "needs ips.copy_interface or ips.queues: nothing is dropped without";
            return wrong("ips.nft_set", message.into());
        }
        if let Some(bad) = self.nft_never.iter().find(|text| text.parse::<Network>().is_err()) {
            return wrong("ips.nft_never", format!("{bad:?} is no network"));
        }
        let is_rule = |text: &String| {
            text == "*" || text.split(':').all(|number| number.parse::<u32>().is_ok())
        };
        if let Some(bad) = self.nft_on.iter().find(|text| !is_rule(text)) {
            return wrong("ips.nft_on", format!("{bad:?} is no rule; write SID, GID:SID or *"));
        }
        for (key, value, most) in [
            ("ips.nft_seconds", self.nft_seconds, 2_592_000),
            ("ips.nft_per_second_max", self.nft_per_second_max, 10_000),
            ("ips.nft_elements_max", self.nft_elements_max, 1_000_000),
        ] {
            if !(1..=most).contains(&value) {
                return wrong(key, format!("must be 1 to {most}"));
            }
        }
        Ok(())
    }

    /// The class from which flows are dropped.
    pub fn drop_class(&self) -> Option<Class> {
        self.drop_on.parse().ok()
    }

    /// The rules for packets, and what belongs to them.
    pub fn packet_settings(&self) -> PacketSettings {
        PacketSettings {
            default: self.default,
            link_protocols: self.link_protocols.clone(),
            fragments: self.fragments,
            malformed: self.malformed,
            pick_up_seconds: self.pick_up_seconds,
            records_per_second_max: self.records_per_second_max,
            zones: self.zones.clone(),
            networks: self.networks.clone(),
            services: self.services.clone(),
            times: self.times.clone(),
            rule: self.rule.clone(),
        }
    }

    /// Those rules, ready to be asked; none without any.
    ///
    /// # Errors
    /// All that is wrong with them.
    pub fn packet_policy(&self) -> Result<Option<PacketPolicy>, Vec<Problem>> {
        PacketPolicy::compile(&self.packet_settings())
    }

    fn check_packets(&self) -> Result<(), ConfigError> {
        let Err(problems) = self.packet_policy() else { return Ok(()) };
        // The place of the first one is the setting; of others it is part of the text.
        let Some(first) = problems.first() else { return Ok(()) };
        let (key, about) = first.place.split_once(' ').unwrap_or((&first.place, ""));
        let about = if about.is_empty() { String::new() } else { format!("{about}: ") };
        let rest: String = problems.iter().skip(1).map(|problem| format!("; {problem}")).collect();
        Err(ConfigError::invalid(key, format!("{about}{}{rest}", first.message)))
    }

    pub(super) fn check(&self) -> Result<(), ConfigError> {
        let wrong = |key: &str, message: String| Err(ConfigError::invalid(key, message));
        if !self.interface.is_empty() && !self.queues.is_empty() {
            return wrong("ips.queues", "and ips.interface exclude each other".into());
        }
        if !self.copy_interface.is_empty() && self.interface.is_empty() {
            return wrong("ips.copy_interface", "needs ips.interface, its other side".into());
        }
        if !self.queues.is_empty() && !are_queues(&self.queues) {
            let message = format!("{:?} is no number of a queue, and no range", self.queues);
            return wrong("ips.queues", message);
        }
        self.check_packets()?;
        self.check_sets()?;
        if self.is_on() && self.rules.is_empty() && self.scan.is_empty() && self.rule.is_empty() {
            let message = "ips.scan and ips.rule are empty: nothing would be inspected";
            return wrong("ips.rules", message.into());
        }
        if let Some(kind) = self.scan.iter().find(|kind| !KINDS.contains(&kind.as_str())) {
            let message = format!("{kind:?} is none of {}", KINDS.join(", "));
            return wrong("ips.scan", message);
        }
        if let Some(wrong_one) = self.set.iter().find(|text| !text.contains('=')) {
            return wrong("ips.set", format!("{wrong_one:?} is no KEY=VALUE"));
        }
        if !self.drop_on.is_empty()
            && let Err(message) = self.drop_on.parse::<Class>()
        {
            return wrong("ips.drop_on", message);
        }
        if !(1..=256).contains(&self.threads) {
            return wrong("ips.threads", "must be 1 to 256".into());
        }
        if !(1..=3_600).contains(&self.watchdog_seconds) {
            return wrong("ips.watchdog_seconds", "must be 1 to 3600".into());
        }
        let limits = [
            ("ips.message_bytes_max", self.message_bytes_max),
            ("ips.messages_held_bytes_max", self.messages_held_bytes_max),
            ("ips.file_bytes_max", self.file_bytes_max),
            ("ips.files_held_bytes_max", self.files_held_bytes_max),
            ("ips.files_max", self.files_max as u64),
        ];
        match limits.iter().find(|(_, limit)| *limit == 0) {
            Some((key, _)) => wrong(key, "must be at least 1".into()),
            None => Ok(()),
        }
    }
}

fn are_queues(text: &str) -> bool {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    match (first.parse::<u16>(), last.parse::<u16>()) {
        (Ok(first), Ok(last)) => last.checked_sub(first).is_some_and(|count| count < QUEUES_MAX),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A change, and what is wrong with it.
    type Case = (fn(&mut IpsSettings), &'static str);

    #[test]
    fn what_does_not_go_together_is_named() {
        let on =
            IpsSettings { interface: "eth0".into(), rules: vec!["a".into()], ..Default::default() };
        assert!(IpsSettings::default().check().is_ok() && on.check().is_ok());
        let cases: [Case; 13] = [
            (|s| s.queues = "0".into(), "ips.queues"),
            (|s| (s.interface, s.copy_interface) = (String::new(), "b".into()), "copy_interface"),
            (|s| (s.interface, s.queues) = (String::new(), "5-2".into()), "ips.queues"),
            (|s| s.rules.clear(), "ips.rules"),
            (|s| s.scan = vec!["post".into()], "ips.scan"),
            (|s| s.set = vec!["vars".into()], "ips.set"),
            (|s| s.drop_on = "bad".into(), "ips.drop_on"),
            (|s| s.threads = 0, "ips.threads"),
            (|s| s.files_max = 0, "ips.files_max"),
            (|s| s.wireguard = "wg0.conf".into(), "ips.wireguard"),
            (|s| s.nft_set = "inet filter a".into(), "ips.nft_set"),
            (|s| s.nft_on = vec!["x".into()], "ips.nft_on"),
            (|s| s.rule = vec![PacketRule::default()], "ips.rule"),
        ];
        for (change, key) in cases {
            let mut settings = on.clone();
            change(&mut settings);
            let error = settings.check().unwrap_err().to_string();
            assert!(error.contains(key), "{error}");
        }
    }
}
