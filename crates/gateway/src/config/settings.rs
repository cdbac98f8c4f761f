//! The settings, one struct a table of the file. Units are last in the names.

use std::path::{Path, PathBuf};

use gauntlet_mail::Limits;
use serde::{Deserialize, Serialize};

use super::acme::AcmeSettings;
use super::array::ArraySettings;
use super::channels::{ChannelPublishSettings, ChannelSettings};
use super::clock::ClockSettings;
use super::content::ContentSettings;
use super::databases::PostgresSettings;
use super::delivery::{NextHopSettings, RouteSettings, SenderSettings};
use super::dlp::DlpSettings;
use super::engines::EngineSettings;
use super::ips::IpsSettings;
use super::lookups::{DnsListSettings, DnsSettings, FactSettings, LocalListSettings};
use super::receiving::{
    GreylistSettings, ListenerSettings, RateSettings, RecipientSettings, StressSettings,
    TrapSettings,
};
use super::reports::ReportSettings;
use super::scanning::{
    LearningSettings, ListSettings, RuleSettings, ScanSettings, ThresholdSettings,
};
use super::services::ServiceSettings;
use super::traces::TraceSettings;
use super::users::{
    ConsoleSettings, FolderSettings, GroupSettings, MailedReportSettings, OidcSettings,
    SignInSettings,
};
use super::web::{UrlListSettings, WebSettings};
use crate::limits::WebConnections;

/// Everything that can be set.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// Name, data folder, user and sandbox of the node.
    pub node: NodeSettings,
    /// How large a step of the system's clock may be.
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
    /// What listeners for traps take.
    pub traps: TrapSettings,
    /// Strangers are asked to come again.
    pub greylist: GreylistSettings,
    /// Whose mail is ours.
    pub domains: DomainSettings,
    /// Which recipients of ours exist.
    pub recipients: RecipientSettings,
    /// Where mail goes that no `next_hop` takes.
    pub route: RouteSettings,
    /// Where mail for some addresses goes, one table a route; before `route`.
    pub next_hop: Vec<NextHopSettings>,
    /// How it goes there.
    pub sender: SenderSettings,
    /// Where messages in flight are kept, and how much of them.
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
    /// Traces for OpenTelemetry.
    pub traces: TraceSettings,
    /// How many threads judge mail, and how long mail waits for them.
    pub scan: ScanSettings,
    /// What unpacking of attachments may cost.
    pub content: ContentSettings,
    /// Malware engines, one table an engine.
    pub engine: Vec<EngineSettings>,
    /// What data is looked for (data loss prevention).
    pub dlp: DlpSettings,
    /// Bounds of one message.
    pub limits: Limits,
    /// Score or probability from which each class begins.
    pub thresholds: ThresholdSettings,
    /// Rules beside our own.
    pub rules: RuleSettings,
    /// Channels that bring rules, models and lists, one table a channel; a later one counts more.
    pub channel: Vec<ChannelSettings>,
    /// A channel that the node publishes.
    pub channel_publish: ChannelPublishSettings,
    /// Senders, clients and hosts that are known.
    pub lists: ListSettings,
    /// What the node learns from.
    pub learning: LearningSettings,
    /// What is done with mail.
    pub policy: PolicySettings,
    /// Groups of addresses for the policy, one table a group.
    pub group: Vec<GroupSettings>,
    /// Limits of questions to PostgreSQL servers.
    pub postgres: PostgresSettings,
    /// Nodes that share policy, log and quarantine.
    pub array: ArraySettings,
    /// How long held mail is kept, how much of it, and its encryption.
    pub quarantine: QuarantineSettings,
    /// Limits of single folders of the quarantine, one table a folder.
    pub folder: Vec<FolderSettings>,
    /// Address and limits of the web console.
    pub console: ConsoleSettings,
    /// Sign-in by a provider (OpenID Connect).
    pub oidc: OidcSettings,
    /// How often passwords and codes may be tried.
    pub sign_in: SignInSettings,
    /// Mails about held mail.
    pub digest: DigestSettings,
    /// Reports to administrators by mail.
    pub report: MailedReportSettings,
    /// The message log and the text log.
    pub log: LogSettings,
    /// Limits of the web path, for its listeners together.
    pub proxy: gauntlet_web::settings::Settings,
    /// Lists of URLs, one table a list.
    pub url_list: Vec<UrlListSettings>,
    /// What is kept of web requests.
    pub web: WebSettings,
    /// Inspection of packets.
    pub ips: IpsSettings,
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
            traps: TrapSettings::default(),
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
            traces: TraceSettings::default(),
            scan: ScanSettings::default(),
            content: ContentSettings::default(),
            engine: Vec::new(),
            dlp: DlpSettings::default(),
            limits: Limits::default(),
            thresholds: ThresholdSettings::default(),
            rules: RuleSettings::default(),
            channel: Vec::new(),
            channel_publish: ChannelPublishSettings::default(),
            lists: ListSettings::default(),
            learning: LearningSettings::default(),
            policy: PolicySettings::default(),
            group: Vec::new(),
            postgres: PostgresSettings::default(),
            array: ArraySettings::default(),
            quarantine: QuarantineSettings::default(),
            folder: Vec::new(),
            console: ConsoleSettings::default(),
            oidc: OidcSettings::default(),
            sign_in: SignInSettings::default(),
            digest: DigestSettings::default(),
            report: MailedReportSettings::default(),
            log: LogSettings::default(),
            proxy: gauntlet_web::settings::Settings::default(),
            url_list: Vec::new(),
            web: WebSettings::default(),
            ips: IpsSettings::default(),
        }
    }
}

impl Config {
    /// The settings that a text in TOML sets, and the defaults of the others. Whoever has a table
    /// writes it down first: code for each way to read all settings is big.
    pub(super) fn of_toml(text: &str) -> Result<Self, toml::de::Error> {
        toml::from_str(text)
    }

    /// The listeners that take mail.
    pub fn mail_listeners(&self) -> impl Iterator<Item = &ListenerSettings> {
        self.listener.iter().filter(|listener| !listener.role.is_web())
    }

    /// What each listener of the web path may hold, by the settings and the open files that the
    /// process may have.
    pub fn web_connections(&self) -> WebConnections {
        let limits = &self.proxy.limits;
        let open = usize::try_from(crate::limits::descriptors()).unwrap_or(usize::MAX);
        let (clients, kept) = (limits.connections_max, limits.kept_connections_max);
        WebConnections::within(clients, kept, self.web_listeners().count(), open)
    }

    /// The listeners of the web path.
    pub fn web_listeners(&self) -> impl Iterator<Item = &ListenerSettings> {
        self.listener.iter().filter(|listener| listener.role.is_web())
    }
}

/// Name, data folder, user and sandbox of the node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct NodeSettings {
    /// Name in greetings, Received fields and logs; empty takes the machine's name.
    pub name: String,
    /// The one folder that holds all data: spool, log, quarantine, users.
    pub data: PathBuf,
    /// Seconds that a stop waits for sessions to end.
    pub drain_seconds_max: u64,
    /// The user that the node becomes once its ports are bound, when it is started as root; empty
    /// stays.
    pub user: String,
    /// What the kernel is asked to hold the node's processes to.
    pub sandbox: Sandbox,
}

/// Whether the node restricts itself by seccomp and Landlock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Sandbox {
    /// As far as the kernel does it; what it does not is logged.
    #[default]
    Auto,
    /// The node does not start if the kernel does less.
    Require,
    /// The processes may do whatever their user may.
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
    /// Networks in CIDR form whose clients are never shed, greylisted, or held to `rates` and to
    /// the policy's rates by client and recipient.
    pub exempt_networks: Vec<String>,
    /// Milliseconds that strangers wait for our greeting: a client that talks before it is no mail
    /// server.
    pub greeting_wait_ms: u64,
    /// Seconds after the order to drain in which only the health checks of load balancers fail;
    /// then clients get 421.
    pub drain_notice_seconds: u64,
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
    /// Bytes of a chunk (BDAT) that is read past when it was refused before it came; a larger one
    /// closes the connection.
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
    /// Per cent of `memory_bytes_max`, `disk_bytes_max` and `disk_bodies_max` that one client
    /// address may hold.
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
            drain_notice_seconds: 10,
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
    /// Nowhere: nothing is kept of a message. For measuring.
    Null,
}

/// How messages in flight are kept until every recipient is settled.
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

/// What is done with mail.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PolicySettings {
    /// The policy file; empty uses the one that comes with the program.
    pub path: PathBuf,
    /// Seconds between two polls for changes of groups that come from files and databases.
    pub groups_seconds: u64,
    /// Notifications (`notify`) an hour to one address; further ones are not sent, which the log
    /// says.
    pub notifications_per_address_per_hour_max: u32,
    /// Messages an hour that one rule trains with (`learn`); further ones are not learned, which
    /// the log says.
    pub learned_per_rule_per_hour_max: u32,
}

impl Default for PolicySettings {
    fn default() -> Self {
        PolicySettings {
            path: PathBuf::new(),
            groups_seconds: 300,
            notifications_per_address_per_hour_max: 20,
            learned_per_rule_per_hour_max: 100,
        }
    }
}

/// How long held mail is kept, and how much of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct QuarantineSettings {
    /// Days that held mail is kept.
    pub retention_days: u32,
    /// Share of held mail, in percent, that may go at once because of its age: more (and more than
    /// 100 messages) is kept until an administrator says that it may.
    pub expire_percent_max: u32,
    /// Bytes of held mail; above, the oldest goes first.
    pub bytes_max: u64,
    /// Messages that are to be held and wait for the quarantine; above, such mail gets 451.
    pub backlog_max: u64,
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
            backlog_max: 10_000,
            encrypt: false,
            key_file: "quarantine.keys".into(),
        }
    }
}

/// Mails to users about what is held for them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct DigestSettings {
    /// Send them every day.
    pub enabled: bool,
    /// Hour of the day, UTC, from which on they are sent.
    pub hour: u8,
    /// From address; empty takes postmaster at the node's name.
    pub from: String,
    /// Where users reach the console; empty takes `console.address`.
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

/// Format, level and retention of the message log and of the text log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LogSettings {
    /// How they are written.
    pub format: LogFormat,
    /// `error`, `warn`, `info`, `debug`, `trace`, or per module as `gauntlet_smtp=debug,info`.
    pub level: String,
    /// Days that the message log is kept.
    pub retention_days: u32,
    /// Days before today of which the text logs of Receiver, Engine and Sender are kept; 0 writes
    /// none.
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
