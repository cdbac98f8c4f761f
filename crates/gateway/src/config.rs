//! Settings: defaults, the file, the environment; effective values and where each came from.
//!
//! `config/gauntlet.toml` documents every setting; a test keeps it equal to [`Config::default`].
//! Nothing is merged by surprise: a table in the file replaces single keys of the defaults, a list
//! replaces the whole list, and an environment variable replaces one key.

mod acme;
mod address;
mod array;
mod channels;
mod clock;
mod content;
mod databases;
mod delivery;
mod dlp;
mod engines;
mod error;
pub mod faults;
mod ips;
mod lines;
mod load;
mod lookups;
mod masking;
mod names;
mod origin;
mod receiving;
mod reports;
mod restart;
mod roots;
mod scanning;
mod services;
mod settings;
mod shared;
mod traces;
mod users;
mod validate;
mod web;

pub use acme::AcmeSettings;
pub(crate) use address::DNS_PORT;
pub use address::{is_same_socket, server_address};
pub use array::ArraySettings;
pub use channels::{ChannelPublishSettings, ChannelSettings, OBJECTS, is_object_name};
pub use clock::ClockSettings;
pub use content::ContentSettings;
pub use databases::PostgresSettings;
pub use delivery::{HopTlsPolicy, NextHopSettings, RouteSettings, SenderSettings};
pub use dlp::{DictionarySettings, DlpSettings, FingerprintSettings};
pub use engines::{EngineInput, EngineKind, EngineSettings, EngineTransfer};
pub use error::ConfigError;
pub use ips::IpsSettings;
pub use load::{Loaded, Setting};
pub use lookups::{DnsListSettings, DnsSettings, FactSettings, ListSubject, LocalListSettings};
pub use masking::mask;
pub use names::is_host_and_port;
pub(crate) use names::is_recipient;
pub use origin::Origin;
pub use receiving::{
    GreylistSettings, ListenerRole, ListenerSettings, RateSettings, RecipientSettings,
    StressSettings, TrapSettings,
};
pub use reports::ReportSettings;
pub use restart::needs_restart;
pub use roots::trust_roots;
pub use scanning::{LearningSettings, ListSettings, RuleSettings, ScanSettings, ThresholdSettings};
pub use services::{QuarantineOwner, ServiceProtocol, ServiceSettings};
pub use settings::{
    Config, DigestSettings, DkimSettings, DomainSettings, LogFormat, LogSettings, NodeSettings,
    PolicySettings, QuarantineSettings, ReceiverSettings, Sandbox, SpoolBackend, SpoolSettings,
};
pub use shared::SharedSettings;
pub use traces::TraceSettings;
pub use users::{
    ConsoleSettings, FolderSettings, GroupSettings, MailedReportSettings, OidcSettings,
    ReportEvery, SignInSettings,
};
pub use validate::THREADS_MAX;
pub use web::{LoggedClients, UrlListSettings, WebSettings, proxy_settings_of};

/// Seconds of a day, as settings count them.
const DAY_SECONDS: u64 = gauntlet_mail::date::DAY_SECONDS.cast_unsigned();
