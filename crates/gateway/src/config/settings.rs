//! The settings, one struct a table of the file. Units are last in the names.

use std::path::{Path, PathBuf};

use gauntlet_engine::Thresholds;
use gauntlet_engine::fusion::probability_reached_by;
use gauntlet_mail::Limits;
use serde::{Deserialize, Serialize};

use super::acme::AcmeSettings;
use super::clock::ClockSettings;
use super::delivery::{NextHopSettings, RouteSettings, SenderSettings};
use super::people::{
    ConsoleSettings, FolderSettings, GroupSettings, MailedReportSettings, OidcSettings,
    SignInSettings,
};
use super::receiving::{
    GreylistSettings, ListenerSettings, RateSettings, RecipientSettings, StressSettings,
};
use super::reports::ReportSettings;
use super::services::ServiceSettings;

/// Everything that can be set.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// The node itself.
    pub node: NodeSettings,
    /// The system's clock.
    pub clock: ClockSettings,
    /// Where mail is accepted, one table a listener.
    pub listener: Vec<ListenerSettings>,
    /// Certificates from an authority.
    pub acme: AcmeSettings,
    /// Where other programs have mail judged that they keep, one table a service.
    pub service: Vec<ServiceSettings>,
    /// What an SMTP client may do.
    pub receiver: ReceiverSettings,
    /// How a node under pressure treats its clients.
    pub stress: StressSettings,
    /// How often clients may come.
    pub rates: RateSettings,
    /// Strangers are asked to come again.
    pub greylist: GreylistSettings,
    /// Whose mail is ours.
    pub domains: DomainSettings,
    /// Which recipients of ours exist.
    pub recipients: RecipientSettings,
    /// Where mail goes.
    pub route: RouteSettings,
    /// Where mail for some addresses goes, one table a route; before `route`.
    pub next_hop: Vec<NextHopSettings>,
    /// How it goes there.
    pub sender: SenderSettings,
    /// Messages in flight.
    pub spool: SpoolSettings,
    /// The way to the DNS.
    pub dns: DnsSettings,
    /// What the network is asked about a message.
    pub facts: FactSettings,
    /// Lists in the DNS, one table a list.
    pub dns_list: Vec<DnsListSettings>,
    /// Lists of our own, one table a list.
    pub local_list: Vec<LocalListSettings>,
    /// Signatures of outbound mail.
    pub dkim: DkimSettings,
    /// Daily reports to domains about mail in their name.
    pub dmarc_reports: ReportSettings,
    /// Daily reports to domains about TLS to their exchangers.
    pub tls_reports: ReportSettings,
    /// The scan pool.
    pub scan: ScanSettings,
    /// Bounds of one message.
    pub limits: Limits,
    /// Where classes begin.
    pub thresholds: ThresholdSettings,
    /// Rules beside our own.
    pub rules: RuleSettings,
    /// Senders, clients and hosts that are known.
    pub lists: ListSettings,
    /// What the node learns from.
    pub learning: LearningSettings,
    /// What is done with mail.
    pub policy: PolicySettings,
    /// Groups of people for the policy, one table a group.
    pub group: Vec<GroupSettings>,
    /// Held mail.
    pub quarantine: QuarantineSettings,
    /// Limits of single folders of the quarantine, one table a folder.
    pub folder: Vec<FolderSettings>,
    /// The web console.
    pub console: ConsoleSettings,
    /// Signing in at somebody else's.
    pub oidc: OidcSettings,
    /// How often passwords and codes may be tried.
    pub sign_in: SignInSettings,
    /// Mails about held mail.
    pub digest: DigestSettings,
    /// Reports by mail.
    pub report: MailedReportSettings,
    /// Logs.
    pub log: LogSettings,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            node: NodeSettings::default(),
            clock: ClockSettings::default(),
            listener: vec![ListenerSettings::default()],
            acme: AcmeSettings::default(),
            service: Vec::new(),
            receiver: ReceiverSettings::default(),
            rates: RateSettings::default(),
            stress: StressSettings::default(),
            greylist: GreylistSettings::default(),
            domains: DomainSettings::default(),
            recipients: RecipientSettings::default(),
            route: RouteSettings::default(),
            next_hop: Vec::new(),
            sender: SenderSettings::default(),
            spool: SpoolSettings::default(),
            dns: DnsSettings::default(),
            facts: FactSettings::default(),
            dns_list: Vec::new(),
            local_list: Vec::new(),
            dkim: DkimSettings::default(),
            dmarc_reports: ReportSettings::default(),
            tls_reports: ReportSettings::default(),
            scan: ScanSettings::default(),
            limits: Limits::default(),
            thresholds: ThresholdSettings::default(),
            rules: RuleSettings::default(),
            lists: ListSettings::default(),
            learning: LearningSettings::default(),
            policy: PolicySettings::default(),
            group: Vec::new(),
            quarantine: QuarantineSettings::default(),
            folder: Vec::new(),
            console: ConsoleSettings::default(),
            oidc: OidcSettings::default(),
            sign_in: SignInSettings::default(),
            digest: DigestSettings::default(),
            report: MailedReportSettings::default(),
            log: LogSettings::default(),
        }
    }
}

/// The node itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct NodeSettings {
    /// Name in greetings, Received fields and logs; empty takes the machine's name.
    pub name: String,
    /// The one folder that holds all data: spool, log, quarantine, users.
    pub data: PathBuf,
    /// Seconds that a stop waits for sessions to end.
    pub drain_seconds_max: u64,
    /// The user that the node becomes once its ports are bound, when it is started as root; empty stays.
    pub user: String,
    /// What the kernel is asked to hold the node's processes to.
    pub sandbox: Sandbox,
}

/// Whether the node restricts itself by seccomp and Landlock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Sandbox {
    /// As far as the kernel does it; what it does not is told.
    #[default]
    Auto,
    /// The node does not start if the kernel does less.
    Require,
    /// Not at all.
    Off,
}

impl Default for NodeSettings {
    fn default() -> Self {
        NodeSettings {
            name: String::new(),
            data: "gauntlet-data".into(),
            drain_seconds_max: 30,
            user: String::new(),
            sandbox: Sandbox::default(),
        }
    }
}

impl NodeSettings {
    /// The node's name: as set, else the machine's, else `localhost`.
    pub fn host_name(&self) -> String {
        if !self.name.is_empty() {
            return self.name.clone();
        }
        let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        let name = name.trim();
        if name.is_empty() { "localhost".into() } else { name.to_owned() }
    }

    /// A path inside the data folder, unless it is absolute.
    pub fn inside(&self, path: &Path) -> PathBuf {
        self.data.join(path)
    }
}

/// What an SMTP client may do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ReceiverSettings {
    /// Sessions at once over all listeners.
    pub sessions_max: usize,
    /// Sessions at once from one client address.
    pub sessions_per_client_max: usize,
    /// Sessions at once from one network (/24, /64), unless it is exempt.
    pub sessions_per_network_max: usize,
    /// Per cent of `sessions_max` from which only clients that are known for good mail are let in.
    pub shed_percent: u32,
    /// Networks in CIDR form whose clients are never shed, greylisted, or held to `rates` and to the
    /// policy's rates by client and recipient.
    pub exempt_networks: Vec<String>,
    /// Milliseconds that strangers wait for our greeting: whoever talks before it is no mail server.
    pub greeting_wait_ms: u64,
    /// Bytes of one message.
    pub message_bytes_max: u64,
    /// Recipients of one message.
    pub recipients_max: usize,
    /// Messages in one session; the next MAIL gets 421, and the connection is closed.
    pub messages_per_session_max: usize,
    /// Refused commands before the session is closed.
    pub errors_max: usize,
    /// Bytes of one command line (RFC 5321 section 4.5.3.1.4 asks for 512 at least).
    pub command_bytes_max: usize,
    /// Bytes of a chunk (BDAT) that is read past when it was refused before it came; a larger one closes the
    /// connection.
    pub refused_chunk_bytes_max: u64,
    /// Received fields before a message counts as looping.
    pub received_headers_max: usize,
    /// Seconds to wait for the next command.
    pub command_seconds_max: u64,
    /// Seconds between two pieces of a body.
    pub data_seconds_max: u64,
    /// Seconds for a whole body.
    pub body_seconds_max: u64,
    /// Bytes a second that a body brings at least; 0 sets no rate.
    pub body_bytes_per_second_min: u64,
    /// Seconds over which that is counted.
    pub body_rate_seconds: u64,
    /// Bytes of bodies held in memory over all sessions; above, new bodies get 452.
    pub memory_bytes_max: u64,
    /// Per cent of `memory_bytes_max`, `disk_bytes_max` and `disk_bodies_max` that one client address may hold.
    pub memory_percent_per_client_max: u32,
    /// Per cent of them that one network (/24, /64) may hold.
    pub memory_percent_per_network_max: u32,
    /// Seconds that a body which has come waits for memory to be judged in.
    pub memory_wait_seconds_max: u64,
    /// Bytes of one body in memory while it comes; what is over goes to disk until its end.
    pub body_memory_bytes_max: u64,
    /// Bytes of bodies on disk while they come, over all sessions.
    pub disk_bytes_max: u64,
    /// Bodies on disk while they come; each takes a descriptor.
    pub disk_bodies_max: u64,
}

impl Default for ReceiverSettings {
    fn default() -> Self {
        ReceiverSettings {
            sessions_max: 1_000,
            sessions_per_client_max: 200,
            sessions_per_network_max: 400,
            shed_percent: 80,
            exempt_networks: vec!["127.0.0.0/8".into(), "::1/128".into()],
            greeting_wait_ms: 0,
            message_bytes_max: 50 << 20,
            recipients_max: 1_000,
            messages_per_session_max: 10_000,
            errors_max: 20,
            command_bytes_max: 4_096,
            refused_chunk_bytes_max: 1 << 20,
            received_headers_max: 50,
            command_seconds_max: 300,
            data_seconds_max: 180,
            body_seconds_max: 1_800,
            body_bytes_per_second_min: 500,
            body_rate_seconds: 60,
            memory_bytes_max: 128 << 20,
            memory_percent_per_client_max: 25,
            memory_percent_per_network_max: 50,
            memory_wait_seconds_max: 10,
            body_memory_bytes_max: 256 << 10,
            disk_bytes_max: 4 << 30,
            disk_bodies_max: 128,
        }
    }
}

/// Whose mail is ours.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct DomainSettings {
    /// Domains we accept mail for; `*.example.org` takes the subdomains. Empty accepts every
    /// recipient, and is refused where an inbound listener is not on a loopback address.
    pub local: Vec<String>,
}

/// Where messages in flight are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SpoolBackend {
    /// On disk, durable before 250.
    #[default]
    Disk,
    /// In memory: lost with the process. For measuring.
    Ram,
    /// Nowhere. For measuring.
    Null,
}

/// Messages in flight.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SpoolSettings {
    /// Where they are kept.
    pub backend: SpoolBackend,
    /// Folder, relative to the data folder.
    pub path: PathBuf,
    /// Bytes of one segment file.
    pub segment_bytes_max: u64,
    /// Messages made durable by one sync.
    pub batch_messages_max: usize,
    /// How long a sync waits for more messages to share it, in milliseconds.
    pub batch_wait_ms: u64,
    /// Bytes of free disk below which new mail gets 452.
    pub free_bytes_min: u64,
    /// Bytes of the spool above which new mail gets 452.
    pub bytes_max: u64,
}

impl Default for SpoolSettings {
    fn default() -> Self {
        SpoolSettings {
            backend: SpoolBackend::Disk,
            path: "spool".into(),
            segment_bytes_max: 64 << 20,
            batch_messages_max: 256,
            batch_wait_ms: 1,
            free_bytes_min: 256 << 20,
            bytes_max: 64 << 30,
        }
    }
}

/// The way to the DNS.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct DnsSettings {
    /// Addresses of resolvers, with or without a port; empty takes the system's.
    pub servers: Vec<String>,
    /// Milliseconds to wait for one server's answer.
    pub timeout_ms: u64,
    /// Attempts after the first.
    pub attempts: usize,
    /// Milliseconds that a question may take in all.
    pub wait_ms_max: u64,
    /// Questions under way at once; above, they are not asked.
    pub questions_max: usize,
    /// Bytes of answers kept.
    pub cache_bytes_max: u64,
    /// Seconds that an answer is kept at least.
    pub ttl_seconds_min: u64,
    /// Seconds that an answer is kept at most.
    pub ttl_seconds_max: u64,
    /// Seconds that "there is nothing" is kept at most.
    pub negative_seconds_max: u64,
    /// Seconds that a failure or a timeout is kept (RFC 9520).
    pub failure_seconds: u64,
    /// Verify signatures (DNSSEC) of what trust hangs on, as DANE (RFC 7672).
    pub dnssec: bool,
    /// A file of DNSKEY records to trust instead of the root's.
    pub trust_anchor: PathBuf,
}

impl Default for DnsSettings {
    fn default() -> Self {
        DnsSettings {
            servers: Vec::new(),
            timeout_ms: 1_500,
            attempts: 1,
            wait_ms_max: 5_000,
            questions_max: 1_000,
            cache_bytes_max: 16 << 20,
            ttl_seconds_min: 5,
            ttl_seconds_max: 86_400,
            negative_seconds_max: 900,
            failure_seconds: 5,
            dnssec: false,
            trust_anchor: PathBuf::new(),
        }
    }
}

/// What the network is asked about a message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct FactSettings {
    /// Ask anything at all.
    pub enabled: bool,
    /// Milliseconds that a message may wait for its facts; what is unanswered then is unknown.
    pub wait_ms_max: u64,
    /// Questions of one message.
    pub questions_max: usize,
    /// DKIM signatures of one message that are verified.
    pub signatures_max: usize,
    /// Domains whose ARC seals are trusted, with those below them. Of a chain that they alone sealed counts what it
    /// says of DMARC; of others nothing: anybody can seal.
    pub arc_sealers_trusted: Vec<String>,
    /// Remember senders: how much of their mail was spam.
    pub history: bool,
    /// Look for the logo of senders that pass DMARC (BIMI).
    pub bimi: bool,
    /// Networks in CIDR form whose clients are ours: no SPF, reverse names and lists for them.
    pub our_networks: Vec<String>,
    /// File that tells the country of a client (MaxMind's format, .mmdb), read at start and reload; none knows no
    /// countries.
    pub countries: Option<PathBuf>,
}

impl Default for FactSettings {
    fn default() -> Self {
        let ours =
            ["127.0.0.0/8", "10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "::1/128", "fc00::/7"];
        FactSettings {
            enabled: true,
            wait_ms_max: 3_000,
            questions_max: 150,
            signatures_max: 10,
            arc_sealers_trusted: Vec::new(),
            history: true,
            bimi: false,
            our_networks: ours.map(str::to_owned).to_vec(),
            countries: None,
        }
    }
}

/// What is looked up in a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ListSubject {
    /// The client's address.
    Client,
    /// What it called itself.
    Helo,
    /// Domain of the envelope sender.
    MailFrom,
    /// Domain of the From field.
    From,
    /// Domains whose signatures verify.
    Dkim,
    /// Registered domains of links, and addresses in links.
    Links,
    /// Host names of links.
    LinkHosts,
    /// SHA-256 of attachments; for local lists.
    Attachments,
}

/// A list in the DNS.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct DnsListSettings {
    /// The list's zone.
    pub zone: String,
    /// What is looked up.
    pub of: Vec<ListSubject>,
    /// Points of any listing; below 0 for a welcome list.
    pub points: f64,
    /// Points by answer: an address, or a range with `-`; other answers then say nothing.
    pub answers: std::collections::BTreeMap<String, f64>,
}

impl Default for DnsListSettings {
    fn default() -> Self {
        DnsListSettings {
            zone: String::new(),
            of: vec![ListSubject::Client],
            points: 2.0,
            answers: std::collections::BTreeMap::new(),
        }
    }
}

/// A list of our own in a file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LocalListSettings {
    /// Its name in listings.
    pub name: String,
    /// The file: addresses, networks, hosts, mail addresses, `@domain`, SHA-256 hashes; one a line. It
    /// is read again when it changes.
    #[serde(default)]
    pub path: PathBuf,
    /// Instead of a file: where such a file is fetched from, by http or https.
    #[serde(default)]
    pub url: String,
    /// Seconds between two looks at the URL.
    #[serde(default = "an_hour")]
    pub refresh_seconds: u64,
    /// Bytes of what is fetched; a larger list is not taken over.
    #[serde(default = "fetched_bytes")]
    pub bytes_max: u64,
    /// What is looked up.
    #[serde(default = "client_only")]
    pub of: Vec<ListSubject>,
    /// Points of a listing; below 0 for a welcome list.
    pub points: f64,
}

fn an_hour() -> u64 {
    3_600
}

fn fetched_bytes() -> u64 {
    256 << 20
}

fn client_only() -> Vec<ListSubject> {
    vec![ListSubject::Client]
}

/// Signatures of outbound mail.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct DkimSettings {
    /// Folder of the keys, relative to the data folder; `gauntlet dkim` writes them.
    pub keys: PathBuf,
    /// Domain whose key seals inbound mail that goes on (ARC, RFC 8617); empty: none is sealed.
    pub seal_as: String,
}

impl Default for DkimSettings {
    fn default() -> Self {
        DkimSettings { keys: "dkim".into(), seal_as: String::new() }
    }
}

/// What the node learns from, beside corrections.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LearningSettings {
    /// Addresses that nobody uses: mail to them becomes signatures of known bad mail.
    pub probes: Vec<String>,
    /// The classifier's model, as `gauntlet train` makes it; empty takes the one in the program.
    pub model: PathBuf,
    /// Days that a signature is believed after it was seen last.
    pub signature_days: u16,
    /// Seconds between two looks for corrections and signatures that are new.
    pub refresh_seconds: u64,
}

impl Default for LearningSettings {
    fn default() -> Self {
        let signature_days = gauntlet_engine::signatures::known::DAYS_DEFAULT;
        let model = PathBuf::new();
        LearningSettings { probes: Vec::new(), model, signature_days, refresh_seconds: 2 }
    }
}

/// The scan pool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ScanSettings {
    /// Judge mail; without it every message is ham, and the policy goes by envelope, facts and headers.
    pub enabled: bool,
    /// Scan threads; 0 takes one for each CPU that the process may use.
    pub threads: usize,
    /// Messages that wait for a thread; above, new bodies get 451.
    pub queue_max: usize,
    /// Seconds a message may wait for its verdict before it gets 451.
    pub wait_seconds_max: u64,
}

impl Default for ScanSettings {
    fn default() -> Self {
        ScanSettings { enabled: true, threads: 0, queue_max: 256, wait_seconds_max: 60 }
    }
}

/// Where classes begin, in points and in expected errors; the more severe of the two counts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ThresholdSettings {
    /// From here a message is suspect.
    pub suspect: f64,
    /// From here it is spam.
    pub spam: f64,
    /// From here it is explicit spam.
    pub explicit: f64,
    /// Share of good mail that may be called suspect or worse by its probability.
    pub suspect_error: f64,
    /// Share of good mail that may be called spam or worse.
    pub spam_error: f64,
    /// Share of good mail that may be called explicit spam.
    pub explicit_error: f64,
    /// Below this probability the points of several rules together say nothing; 0: they always count.
    pub contradicted: f64,
}

impl Default for ThresholdSettings {
    fn default() -> Self {
        let Thresholds { suspect, spam, explicit, contradicted, .. } = Thresholds::default();
        let [suspect_error, spam_error, explicit_error] = Thresholds::ERRORS;
        ThresholdSettings {
            suspect,
            spam,
            explicit,
            suspect_error,
            spam_error,
            explicit_error,
            contradicted,
        }
    }
}

impl From<&ThresholdSettings> for Thresholds {
    fn from(settings: &ThresholdSettings) -> Self {
        Thresholds {
            suspect: settings.suspect,
            spam: settings.spam,
            explicit: settings.explicit,
            suspect_probability: probability_reached_by(settings.suspect_error),
            spam_probability: probability_reached_by(settings.spam_error),
            explicit_probability: probability_reached_by(settings.explicit_error),
            contradicted: settings.contradicted,
            ..Thresholds::default()
        }
    }
}

/// Rules beside our own.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RuleSettings {
    /// Rule files and folders in SpamAssassin's language.
    pub paths: Vec<PathBuf>,
    /// Use our own rules as well.
    pub own: bool,
    /// Refuse a rule file that is not understood as a whole.
    pub strict: bool,
    /// Run rules of the files that need the network; they read the facts.
    pub network: bool,
    /// End a scan as soon as the rules that are left cannot change the class; only where the files
    /// judge alone.
    pub early_stop: bool,
}

impl Default for RuleSettings {
    fn default() -> Self {
        RuleSettings {
            paths: Vec::new(),
            own: true,
            strict: false,
            network: false,
            early_stop: false,
        }
    }
}

/// Senders, clients and hosts that are known. Entries are addresses, `@domain`, domains, networks
/// in CIDR form or URL hosts; `file:PATH` reads entries from a file, one a line.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ListSettings {
    /// Never spam.
    pub allow: Vec<String>,
    /// Always spam.
    pub block: Vec<String>,
}

/// What is done with mail.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PolicySettings {
    /// The policy file; empty uses the one that comes with the program.
    pub path: PathBuf,
    /// Seconds between two looks for changes of groups that come from files and databases.
    pub groups_seconds: u64,
}

impl Default for PolicySettings {
    fn default() -> Self {
        PolicySettings { path: PathBuf::new(), groups_seconds: 300 }
    }
}

/// Held mail.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct QuarantineSettings {
    /// Days that held mail is kept.
    pub retention_days: u32,
    /// Share of held mail, in percent, that may go at once because of its age: more (and more than 100
    /// messages) is kept until an administrator says that it may.
    pub expire_percent_max: u32,
    /// Bytes of held mail; above, the oldest goes first.
    pub bytes_max: u64,
    /// Seal bodies on disk.
    pub encrypt: bool,
    /// The file of keys that seal them, relative to the data folder; made if it is not there.
    pub key_file: PathBuf,
}

impl Default for QuarantineSettings {
    fn default() -> Self {
        QuarantineSettings {
            retention_days: 7,
            expire_percent_max: 25,
            bytes_max: 10 << 30,
            encrypt: false,
            key_file: "quarantine.keys".into(),
        }
    }
}

/// Mails to people about what is held for them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct DigestSettings {
    /// Send them every day.
    pub enabled: bool,
    /// Hour of the day, UTC, from which on they are sent.
    pub hour: u8,
    /// From address; empty takes postmaster at the node's name.
    pub from: String,
    /// Where people reach the console; empty takes `console.address`.
    pub url: String,
    /// Days that the links in them work.
    pub link_days: u32,
}

impl Default for DigestSettings {
    fn default() -> Self {
        DigestSettings {
            enabled: false,
            hour: 5,
            from: String::new(),
            url: String::new(),
            link_days: 7,
        }
    }
}

/// How logs are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LogFormat {
    /// Text on a terminal, JSON otherwise.
    #[default]
    Auto,
    /// One line of text an event.
    Text,
    /// One JSON object an event.
    Json,
}

/// Logs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LogSettings {
    /// How they are written.
    pub format: LogFormat,
    /// `error`, `warn`, `info`, `debug`, `trace`, or per module as `gauntlet_smtp=debug,info`.
    pub level: String,
    /// Days that the message log is kept.
    pub retention_days: u32,
    /// Days before today of which the text logs of Receiver, Engine and Sender are kept; 0 writes none.
    pub text_days: u32,
}

impl Default for LogSettings {
    fn default() -> Self {
        LogSettings {
            format: LogFormat::Auto,
            level: "info".into(),
            retention_days: 100,
            text_days: 5,
        }
    }
}
