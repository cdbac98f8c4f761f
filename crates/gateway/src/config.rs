//! Settings: defaults, the file, the environment; effective values and where each came from.
//!
//! `config/gauntlet.toml` documents every setting; a test keeps it equal to [`Config::default`].
//! Nothing is merged by surprise: a table in the file replaces single keys of the defaults, a list
//! replaces the whole list, and an environment variable replaces one key.

mod acme;
mod clock;
mod delivery;
mod load;
mod masking;
mod people;
mod receiving;
mod reports;
mod services;
mod settings;

pub use acme::AcmeSettings;
pub use clock::ClockSettings;
pub use delivery::{HopTlsPolicy, NextHopSettings, RouteSettings, SenderSettings};
pub use load::{ConfigError, Loaded, Origin, Setting};
pub use masking::mask;
pub use people::{
    ConsoleSettings, FolderSettings, GroupSettings, MailedReportSettings, OidcSettings,
    ReportEvery, SignInSettings,
};
pub use receiving::{
    GreylistSettings, ListenerRole, ListenerSettings, RateSettings, RecipientSettings,
    StressSettings,
};
pub use reports::ReportSettings;
pub use services::{Keeper, ServiceProtocol, ServiceSettings};
pub use settings::{
    Config, DkimSettings, DnsListSettings, DnsSettings, DomainSettings, FactSettings,
    LearningSettings, ListSettings, ListSubject, LocalListSettings, LogFormat, LogSettings,
    NodeSettings, PolicySettings, QuarantineSettings, ReceiverSettings, RuleSettings, Sandbox,
    ScanSettings, SpoolBackend, SpoolSettings, ThresholdSettings,
};
