//! Which records are written, and what is in them: `outputs.N.eve-log` of suricata.yaml.

use std::collections::BTreeMap;

use super::store::Settings as StoreSettings;
use crate::config::{Settings as Table, parse_flag, parse_size};
use crate::pipeline::Wishes;

/// Bytes of a payload or of a stream that a record has at most, unless set.
const PAYLOAD_BYTES_MAX: u64 = 4_096;

/// The types of records that this program knows, with the names of their settings.
const TYPES: &[&str] = &[
    "alert",
    "anomaly",
    "http",
    "dns",
    "mdns",
    "tls",
    "files",
    "drop",
    "smtp",
    "websocket",
    "ftp",
    "rdp",
    "smb",
    "tftp",
    "ike",
    "dcerpc",
    "krb5",
    "snmp",
    "rfb",
    "sip",
    "quic",
    "ldap",
    "pop3",
    "arp",
    "dhcp",
    "ssh",
    "mqtt",
    "http2",
    "doh2",
    "modbus",
    "nfs",
    "enip",
    "ntp",
    "stats",
    "flow",
    "netflow",
];

/// Settings of one type of records, by their names.
#[derive(Debug, Clone, Default)]
pub(super) struct Options(BTreeMap<String, String>);

impl Options {
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    pub(super) fn flag(&self, name: &str, default: bool) -> bool {
        self.get(name).and_then(parse_flag).unwrap_or(default)
    }

    /// The values of a list; none if it is not set.
    pub(super) fn list(&self, name: &str) -> Option<Vec<String>> {
        let below = format!("{name}.");
        let items = self.0.iter().filter(|(key, _)| key.starts_with(&below));
        let items: Vec<String> = items.map(|(_, value)| value.clone()).collect();
        (!items.is_empty()).then_some(items)
    }

    fn has(&self, name: &str) -> bool {
        let below = format!("{name}.");
        self.0.keys().any(|key| key == name || key.starts_with(&below))
    }
}

/// Where the address of a client behind a proxy is taken from (`xff`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Forwarded {
    /// It replaces the address of the packet; otherwise it is a field of its own.
    pub(super) overwrites: bool,
    /// The first address of the list counts, not the last.
    pub(super) takes_first: bool,
    /// The header field.
    pub(super) header: String,
}

impl Forwarded {
    fn read(options: &Options) -> Option<Self> {
        if !options.flag("xff.enabled", false) {
            return None;
        }
        let is = |name, value| options.get(name).is_some_and(|it| it.eq_ignore_ascii_case(value));
        Some(Self {
            overwrites: is("xff.mode", "overwrite"),
            takes_first: is("xff.deployment", "forward"),
            header: options.get("xff.header").unwrap_or("X-Forwarded-For").to_ascii_lowercase(),
        })
    }
}

/// What alerts say beside the rule.
#[derive(Debug, Clone)]
pub(super) struct Alerts {
    pub(super) app_layer: bool,
    pub(super) flow: bool,
    pub(super) metadata: bool,
    pub(super) references: bool,
    pub(super) rule: bool,
    pub(super) payload: bool,
    pub(super) payload_printable: bool,
    pub(super) payload_length: bool,
    pub(super) payload_bytes_max: usize,
    pub(super) packet: bool,
    pub(super) http_body: bool,
    pub(super) http_body_printable: bool,
    pub(super) verdict: bool,
    pub(super) tagged_packets: bool,
    pub(super) forwarded: Option<Forwarded>,
}

/// Which anomalies are told.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Anomalies {
    pub(super) decode: bool,
    pub(super) stream: bool,
    pub(super) app_layer: bool,
    pub(super) packet_header: bool,
}

/// What is written.
#[derive(Debug, Clone)]
pub struct Settings {
    types: BTreeMap<&'static str, Options>,
    pub(super) metadata: bool,
    pub(super) version: bool,
    pub(super) ethernet: bool,
    pub(super) community_seed: Option<u16>,
    pub(super) sensor: Option<String>,
    pub(super) prefix: String,
    pub(super) pcap_file: bool,
    pub(super) alerts: Option<Alerts>,
    pub(super) anomalies: Anomalies,
    pub(super) forwarded: Option<Forwarded>,
}

impl Settings {
    /// The first `eve-log` of `outputs` that is enabled; without one, that of the stock file.
    pub fn read(table: &Table) -> Self {
        let stock = Table::stock();
        let found = own(table).or_else(|| own(&stock)).unwrap_or_default();
        let mut types: BTreeMap<&'static str, Options> = BTreeMap::new();
        for (key, value) in &found.0 {
            let Some(rest) = key.strip_prefix("types.") else { continue };
            let Some((_, rest)) = rest.split_once('.') else {
                // A name alone.
                if let Some(name) = known(value) {
                    types.entry(name).or_default();
                }
                continue;
            };
            let (name, option) = rest.split_once('.').unwrap_or((rest, ""));
            if let Some(name) = known(name) {
                let options = types.entry(name).or_default();
                if !option.is_empty() {
                    options.0.insert(option.to_owned(), value.clone());
                }
            }
        }
        types.retain(|_, options| options.flag("enabled", true));
        let forwarded = Forwarded::read(&found);
        let alerts = types.get("alert").map(|options| alerts(options, forwarded.as_ref()));
        let anomalies = types.get("anomaly").map(anomalies).unwrap_or_default();
        let seed = found.get("community-id-seed").and_then(|seed| seed.parse().ok());
        Self {
            metadata: found.flag("metadata", true),
            version: found.flag("suricata-version", false),
            ethernet: found.flag("ethernet", false),
            community_seed: found.flag("community-id", false).then(|| seed.unwrap_or(0)),
            sensor: found.get("sensor-name").or(table.get("sensor-name")).map(str::to_owned),
            prefix: found.get("prefix").unwrap_or_default().to_owned(),
            pcap_file: found.flag("pcap-file", false),
            alerts,
            anomalies,
            forwarded,
            types,
        }
    }

    /// The same without other records than alerts.
    #[must_use]
    pub fn alerts_only(mut self) -> Self {
        self.types.retain(|name, _| *name == "alert");
        self.anomalies = Anomalies::default();
        if let Some(alerts) = &mut self.alerts {
            alerts.tagged_packets = false;
        }
        self
    }

    /// The same with all that shows why rules alerted: payload, packet, text of the rule.
    #[must_use]
    pub fn with_evidence(mut self) -> Self {
        self.types.entry("alert").or_default();
        let alerts = self.alerts.get_or_insert_with(|| alerts(&Options::default(), None));
        alerts.app_layer = true;
        alerts.flow = true;
        alerts.rule = true;
        alerts.payload = true;
        alerts.packet = true;
        alerts.metadata = true;
        self
    }

    /// What is to be told. `store`: files are stored, too.
    pub fn wishes(&self, store: Option<&StoreSettings>) -> Wishes {
        let anomalies = self.anomalies;
        let others = ["alert", "anomaly", "files", "drop", "stats", "flow", "netflow"];
        Wishes {
            transactions: self.types.keys().any(|name| !others.contains(name)),
            files: store.is_some() || self.of("files").is_some(),
            flows: store.is_some() || self.of("flow").is_some() || self.of("netflow").is_some(),
            anomalies: anomalies.decode || anomalies.stream || anomalies.app_layer,
            drops: self.of("drop").is_some(),
            all_files: store.is_some_and(|store| store.force),
            file_depth: store.and_then(|store| store.stream_depth),
            ..Wishes::default()
        }
    }

    /// The settings of a type of records, if such are written.
    pub(super) fn of(&self, name: &str) -> Option<&Options> {
        self.types.get(name)
    }

    /// Where addresses are taken from in records of this type.
    pub(super) fn forwarded_of(&self, name: &str) -> Option<Forwarded> {
        match self.of(name) {
            Some(options) if options.has("xff") => Forwarded::read(options),
            _ => self.forwarded.clone(),
        }
    }

    /// Whether hashes of files are asked for (`force-hash`): MD5, SHA-1, SHA-256.
    pub fn hashes(&self) -> [bool; 3] {
        let list = self.of("files").and_then(|options| options.list("force-hash"));
        let list = list.unwrap_or_default();
        ["md5", "sha1", "sha256"].map(|name| list.iter().any(|item| item == name))
    }

    /// Whether records of files say what they are, whatever rules ask for (`force-magic`).
    pub fn forces_magic(&self) -> bool {
        self.of("files").is_some_and(|options| options.flag("force-magic", false))
    }

    /// Whether alerts are told with bodies of HTTP (`http-body`, `http-body-printable`).
    pub fn has_bodies(&self) -> bool {
        self.alerts.as_ref().is_some_and(|of| of.http_body || of.http_body_printable)
    }

    /// Whether a key of the settings is one of these.
    pub fn knows(key: &str) -> bool {
        let Some(rest) = key.strip_prefix("outputs.") else { return key == "sensor-name" };
        let Some((_, rest)) = rest.split_once('.') else { return false };
        let Some(rest) = rest.strip_prefix("eve-log.") else { return false };
        match rest.strip_prefix("types.") {
            Some(of_type) => of_type.split('.').nth(1).is_none_or(|name| known(name).is_some()),
            None => true,
        }
    }
}

fn known(name: &str) -> Option<&'static str> {
    TYPES.iter().find(|known| **known == name).copied()
}

/// All below the first `outputs.N.eve-log` that is enabled.
fn own(table: &Table) -> Option<Options> {
    let mut outputs: BTreeMap<u32, Options> = BTreeMap::new();
    for (key, value) in table.below("outputs") {
        let Some((number, rest)) = key.split_once('.') else { continue };
        if let (Ok(number), Some(rest)) = (number.parse(), rest.strip_prefix("eve-log.")) {
            let options = outputs.entry(number).or_default();
            options.0.insert(rest.to_owned(), value.to_owned());
        }
    }
    outputs.into_values().find(|options| options.flag("enabled", false))
}

fn alerts(options: &Options, parent: Option<&Forwarded>) -> Alerts {
    let all = options.flag("metadata", true);
    let size = options.get("payload-buffer-size").and_then(parse_size).filter(|size| *size > 0);
    let app_layer = options.flag("metadata.app-layer", all);
    let forwarded = if options.has("xff") { Forwarded::read(options) } else { parent.cloned() };
    Alerts {
        app_layer,
        flow: options.flag("metadata.flow", all),
        metadata: options.flag("metadata.rule.metadata", all),
        references: options.flag("metadata.rule.reference", false),
        rule: options.flag("metadata.rule.raw", false),
        payload: options.flag("payload", false),
        payload_printable: options.flag("payload-printable", false),
        payload_length: options.flag("payload-length", false),
        payload_bytes_max: usize::try_from(size.unwrap_or(PAYLOAD_BYTES_MAX)).unwrap_or(usize::MAX),
        packet: options.flag("packet", false),
        http_body: app_layer && options.flag("http-body", false),
        http_body_printable: app_layer && options.flag("http-body-printable", false),
        verdict: options.flag("verdict", false),
        tagged_packets: options.flag("tagged-packets", false),
        forwarded,
    }
}

fn anomalies(options: &Options) -> Anomalies {
    let decode = options.flag("types.decode", false);
    Anomalies {
        decode,
        stream: options.flag("types.stream", false),
        app_layer: options.flag("types.applayer", true),
        packet_header: decode && options.flag("packethdr", false),
    }
}
