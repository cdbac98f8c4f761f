//! Reading settings and telling where each came from.

use std::collections::BTreeMap;
use std::fmt;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::{Path, PathBuf};

use gauntlet_policy::{ADMIN_ONLY_FOLDERS, ReleasedBy};
use serde::Deserialize;
use toml::{Table, Value};

use super::delivery::HopTlsPolicy;
use super::masking::{mask, masked};
use super::receiving::ListenerRole;
use super::reports::ReportSettings;
use super::settings::Config;

/// Environment variables that begin with this override settings: `GAUNTLET_SCAN__THREADS=4` is
/// `threads` of `[scan]`.
pub(super) const ENVIRONMENT_PREFIX: &str = "GAUNTLET_";

/// Variables with the prefix that are no settings.
const OTHER_VARIABLES: [&str; 3] = ["GAUNTLET_CORPUS", "GAUNTLET_BLESS", "GAUNTLET_CONFIG"];

/// Settings that cannot be used.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("cannot read the configuration {path}: {cause}")]
    Read {
        /// Which file.
        path: String,
        /// Why not.
        cause: String,
    },
    /// Not TOML, an unknown key, or a value of the wrong type.
    #[error("{path}:{line}: {message}")]
    File {
        /// Which file.
        path: String,
        /// Line, from 1.
        line: usize,
        /// What is wrong, with the nearest valid key.
        message: String,
    },
    /// A variable that names no setting or has a wrong value.
    #[error("environment variable {name}: {message}")]
    Environment {
        /// The variable.
        name: String,
        /// What is wrong.
        message: String,
    },
    /// Values that read but cannot work.
    #[error("{place}{key}: {message}")]
    Meaning {
        /// File and line, or variable, that set it, with `: `; empty for a default.
        place: String,
        /// The setting.
        key: String,
        /// What is wrong and what to do.
        message: String,
    },
}

impl ConfigError {
    /// Errors quote values: without the secrets in them.
    fn masked(mut self) -> Self {
        match &mut self {
            ConfigError::Read { .. } => {}
            ConfigError::File { message, .. }
            | ConfigError::Environment { message, .. }
            | ConfigError::Meaning { message, .. } => *message = mask(message),
        }
        self
    }
}

/// Where a value came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// Nobody set it.
    Default,
    /// The file, at this line.
    File {
        /// Which file.
        path: PathBuf,
        /// Line, from 1.
        line: usize,
    },
    /// An environment variable.
    Environment(String),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::Default => f.write_str("default"),
            Origin::File { path, line } => write!(f, "{}:{line}", path.display()),
            Origin::Environment(name) => write!(f, "${name}"),
        }
    }
}

/// One effective setting.
#[derive(Debug, Clone, PartialEq)]
pub struct Setting {
    /// Dotted name, e.g. `scan.threads`.
    pub key: String,
    /// The value as TOML writes it, with what is secret masked.
    pub value: String,
    /// Where it came from.
    pub origin: Origin,
}

/// Settings, and where they came from.
#[derive(Debug, Clone, PartialEq)]
pub struct Loaded {
    /// The settings.
    pub config: Config,
    /// The file that was read, if any.
    pub path: Option<PathBuf>,
    origins: BTreeMap<String, Origin>,
}

impl Loaded {
    /// Reads the defaults, the file and the environment, in this order, and checks the result.
    ///
    /// `environment` are the process's variables; those without the prefix are ignored.
    pub fn load<I>(path: Option<&Path>, environment: I) -> Result<Self, ConfigError>
    where
        I: IntoIterator<Item = (String, String)>,
    {
        Self::read(path, environment).map_err(ConfigError::masked)
    }

    fn read<I>(path: Option<&Path>, environment: I) -> Result<Self, ConfigError>
    where
        I: IntoIterator<Item = (String, String)>,
    {
        let mut origins = BTreeMap::new();
        let mut table = Table::new();
        if let Some(path) = path {
            let text = std::fs::read_to_string(path).map_err(|e| ConfigError::Read {
                path: path.display().to_string(),
                cause: e.to_string(),
            })?;
            table = read_file(&text, path, &mut origins)?;
        }
        override_by(environment, &mut table, &mut origins)?;
        let config = Config::deserialize(table).map_err(|e| ConfigError::Meaning {
            place: String::new(),
            key: "configuration".into(),
            message: e.to_string(),
        })?;
        check(&config).map_err(|error| located(error, &origins))?;
        Ok(Loaded { config, path: path.map(Path::to_owned), origins })
    }

    /// Every setting with its value and origin, in the order of the file's documentation.
    pub fn settings(&self) -> Vec<Setting> {
        let mut settings = Vec::new();
        if let Ok(Value::Table(table)) = Value::try_from(&self.config) {
            collect("", &Value::Table(table), &self.origins, &mut settings);
        }
        settings
    }
}

fn collect(
    prefix: &str,
    value: &Value,
    origins: &BTreeMap<String, Origin>,
    settings: &mut Vec<Setting>,
) {
    if let Value::Table(table) = value {
        for (key, value) in table {
            let key = if prefix.is_empty() { key.clone() } else { format!("{prefix}.{key}") };
            collect(&key, value, origins, settings);
        }
        return;
    }
    let origin = origins.get(prefix).cloned().unwrap_or(Origin::Default);
    let value = masked(prefix, value.clone()).to_string();
    settings.push(Setting { key: prefix.to_owned(), value, origin });
}

/// Says where the setting that makes no sense was set.
fn located(error: ConfigError, origins: &BTreeMap<String, Origin>) -> ConfigError {
    let ConfigError::Meaning { key, message, .. } = error else { return error };
    let section = key.split('.').next().unwrap_or(&key);
    let origin = origins.get(&key).or_else(|| origins.get(section)).or_else(|| {
        // A condition on several keys of a table: the first that was set.
        let mut set = origins.iter().filter(|(k, _)| k.starts_with(&format!("{key}.")));
        set.next().map(|(_, origin)| origin)
    });
    let place = origin.map(|o| format!("{o}: ")).unwrap_or_default();
    ConfigError::Meaning { place, key, message }
}

/// The setting whose value is at this offset, as `section.key`.
fn key_at(text: &str, offset: usize) -> Option<String> {
    let spanned = toml::de::DeTable::parse(text).ok()?;
    let holds = |span: std::ops::Range<usize>| span.contains(&offset) || span.start == offset;
    for (section, value) in spanned.get_ref() {
        let section = section.get_ref();
        let tables: Vec<&toml::de::DeTable<'_>> = match value.get_ref() {
            toml::de::DeValue::Table(table) => vec![table],
            toml::de::DeValue::Array(items) => {
                items.iter().filter_map(|i| i.get_ref().as_table()).collect()
            }
            _ => continue,
        };
        let mut keys = tables.into_iter().flatten();
        if let Some((key, _)) = keys.find(|(_, value)| holds(value.span())) {
            return Some(format!("{section}.{}", key.get_ref()));
        }
    }
    None
}

/// Reads the file for its mistakes (with their lines), its values and their lines.
fn read_file(
    text: &str,
    path: &Path,
    origins: &mut BTreeMap<String, Origin>,
) -> Result<Table, ConfigError> {
    let wrong = |error: toml::de::Error| ConfigError::File {
        path: path.display().to_string(),
        line: error.span().map_or(1, |s| line_of(text, s.start)),
        message: {
            let message = with_nearest(error.message());
            // An unknown key names itself; a wrong value needs the name of its key.
            let unknown = message.starts_with("unknown field");
            let key = error.span().filter(|_| !unknown).and_then(|s| key_at(text, s.start));
            key.map_or_else(|| message.clone(), |key| format!("{key}: {message}"))
        },
    };
    toml::from_str::<Config>(text).map_err(wrong)?;
    let spanned = toml::de::DeTable::parse(text).map_err(wrong)?;
    for (section, value) in spanned.get_ref() {
        let file = |offset| Origin::File { path: path.to_owned(), line: line_of(text, offset) };
        match value.get_ref() {
            toml::de::DeValue::Table(keys) => {
                for key in keys.keys() {
                    let name = format!("{}.{}", section.get_ref(), key.get_ref());
                    origins.insert(name, file(key.span().start));
                }
            }
            _ => {
                origins.insert(section.get_ref().to_string(), file(section.span().start));
            }
        }
    }
    text.parse().map_err(wrong)
}

/// Applies `GAUNTLET_SECTION__KEY` variables to the table.
fn override_by<I>(
    environment: I,
    table: &mut Table,
    origins: &mut BTreeMap<String, Origin>,
) -> Result<(), ConfigError>
where
    I: IntoIterator<Item = (String, String)>,
{
    let mut variables: Vec<_> = environment.into_iter().collect();
    variables.sort();
    let Ok(Value::Table(defaults)) = Value::try_from(Config::default()) else { return Ok(()) };
    for (name, text) in variables {
        let Some(key) = name.strip_prefix(ENVIRONMENT_PREFIX) else { continue };
        if OTHER_VARIABLES.contains(&name.as_str()) || !key.contains("__") {
            continue;
        }
        let wrong = |message: String| ConfigError::Environment { name: name.clone(), message };
        let lower = key.to_lowercase();
        let (section, key) = lower.split_once("__").unwrap_or((&lower, ""));
        let default = defaults.get(section).and_then(|s| s.get(key));
        let default = default.ok_or_else(|| wrong(no_setting(&defaults, section, key)))?;
        let value = read_value(&text, default).map_err(wrong)?;
        let slot = table.entry(section).or_insert_with(|| Value::Table(Table::new()));
        if let Some(slot) = slot.as_table_mut() {
            slot.insert(key.to_owned(), value);
        }
        origins.insert(format!("{section}.{key}"), Origin::Environment(name.clone()));
        Config::deserialize(table.clone())
            .map_err(|e| wrong(e.message().lines().next().unwrap_or_default().to_owned()))?;
    }
    Ok(())
}

/// What to say of a setting that there is not, with the nearest one that there is.
fn no_setting(defaults: &Table, section: &str, key: &str) -> String {
    let given = format!("{section}.{key}");
    let names = defaults.iter().filter_map(|(section, keys)| {
        let keys = keys.as_table()?.keys().map(move |key| format!("{section}.{key}"));
        Some(keys)
    });
    let nearest = gauntlet_policy::check::nearest(&given, names.flatten());
    match nearest {
        Some(name) => format!("no setting {given}; did you mean {name}?"),
        None => format!("no setting {given}; `gauntlet config show` lists all"),
    }
}

/// Reads a variable's text as the type that the default has.
fn read_value(text: &str, default: &Value) -> Result<Value, String> {
    let number = |kind: &str| format!("{text:?} is no {kind}");
    Ok(match default {
        Value::Integer(_) => Value::Integer(text.parse().map_err(|_| number("whole number"))?),
        Value::Float(_) => Value::Float(text.parse().map_err(|_| number("number"))?),
        Value::Boolean(_) => Value::Boolean(text.parse().map_err(|_| number("true or false"))?),
        Value::Array(items) => {
            let parts = text.split(',').map(str::trim).filter(|p| !p.is_empty());
            let integers = matches!(items.first(), Some(Value::Integer(_)));
            let read = |p: &str| match integers {
                true => p.parse().map(Value::Integer).map_err(|_| number("list of whole numbers")),
                false => Ok(Value::String(p.to_owned())),
            };
            Value::Array(parts.map(read).collect::<Result<_, _>>()?)
        }
        _ => Value::String(text.to_owned()),
    })
}

/// What is wrong where certificates shall be verified and cannot.
const NO_ROOTS: &str = "needs trusted roots, and the system has none: name a PEM bundle, or install \
ca-certificates";

/// Neither the settings nor the system name trusted roots.
fn no_roots(config: &Config) -> bool {
    crate::web::roots(&config.sender.roots).as_os_str().is_empty()
}

/// Refuses next hops that cannot work.
fn check_next_hops(config: &Config) -> Result<(), ConfigError> {
    let wrong = |key: &str, message: String| {
        Err(ConfigError::Meaning { place: String::new(), key: key.to_owned(), message })
    };
    for hop in &config.next_hop {
        if hop.r#for.is_empty() {
            return wrong("next_hop.for", "names no domain and no address".into());
        }
        if !hop.weights.is_empty() && hop.weights.len() != hop.hosts.len() {
            return wrong("next_hop.weights", "needs one number for each of hosts".into());
        }
        if hop.tls == Some(HopTlsPolicy::Verified) && no_roots(config) {
            return wrong("sender.roots", format!("next_hop.tls = \"verified\" {NO_ROOTS}"));
        }
    }
    Ok(())
}

/// Thresholds rise in points, fall in errors, and are probabilities where they say so.
fn check_thresholds(config: &Config) -> Result<(), ConfigError> {
    let wrong = |key: &str, message: String| {
        Err(ConfigError::Meaning { place: String::new(), key: key.to_owned(), message })
    };
    let t = &config.thresholds;
    if !(t.suspect <= t.spam && t.spam <= t.explicit) {
        return wrong("thresholds", "must rise: suspect, spam, explicit".into());
    }
    let errors = [t.suspect_error, t.spam_error, t.explicit_error];
    if !errors.windows(2).all(|e| e[0] >= e[1]) || !errors.iter().all(|e| *e > 0.0 && *e < 1.0) {
        let message = "suspect_error, spam_error, explicit_error are shares of good mail that fall";
        return wrong("thresholds", format!("{message}, between 0 and 1"));
    }
    if !(0.0..=1.0).contains(&t.contradicted) {
        return wrong("thresholds.contradicted", "is a probability: 0 to 1".into());
    }
    Ok(())
}

/// Refuses folders without a name, and those that recipients would release dangerous mail from.
fn check_folders(config: &Config) -> Result<(), ConfigError> {
    let wrong = |key: &str, message: String| {
        Err(ConfigError::Meaning { place: String::new(), key: key.to_owned(), message })
    };
    if let Some(folder) = config.folder.iter().find(|f| f.name.trim().is_empty()) {
        let message = format!("a folder needs a name (retention_days = {})", folder.retention_days);
        return wrong("folder.name", message);
    }
    let opened = config.folder.iter().find(|f| {
        f.release == Some(ReleasedBy::User) && ADMIN_ONLY_FOLDERS.contains(&f.name.as_str())
    });
    if let Some(folder) = opened {
        let message = format!(
            "mail in folder {:?} is released by administrators only; remove release = \"user\"",
            folder.name
        );
        return wrong("folder.release", message);
    }
    Ok(())
}

/// Refuses digests that cannot be sent or read.
fn check_digest(config: &Config) -> Result<(), ConfigError> {
    let wrong = |key: &str, message: String| {
        Err(ConfigError::Meaning { place: String::new(), key: key.to_owned(), message })
    };
    let d = &config.digest;
    let plain = |text: &str| text.bytes().all(|b| b.is_ascii_graphic());
    let web = d.url.starts_with("https://") || d.url.starts_with("http://");
    if d.hour > 23 {
        return wrong("digest.hour", format!("{} is no hour: 0 to 23", d.hour));
    }
    if !(1..=365).contains(&d.link_days) {
        return wrong("digest.link_days", format!("{} days; 1 to 365", d.link_days));
    }
    let url_fits = d.url.is_empty() || (web && plain(&d.url));
    let from_fits = d.from.is_empty() || (plain(&d.from) && d.from.contains('@'));
    if !url_fits {
        return wrong("digest.url", format!("{:?} is no https:// address", d.url));
    }
    if !from_fits {
        return wrong("digest.from", format!("{:?} is no mail address", d.from));
    }
    Ok(())
}

/// Refuses reports that cannot be sent.
fn check_reports(name: &str, reports: &ReportSettings) -> Result<(), ConfigError> {
    let wrong = |key: &str, message: String| {
        let key = format!("{name}.{key}");
        Err(ConfigError::Meaning { place: String::new(), key, message })
    };
    let plain = |text: &str| text.bytes().all(|b| b.is_ascii_graphic());
    if reports.hour > 23 {
        return wrong("hour", format!("{} is no hour: 0 to 23", reports.hour));
    }
    let from = &reports.from;
    if !(from.is_empty() || (plain(from) && from.contains('@'))) {
        return wrong("from", format!("{from:?} is no mail address"));
    }
    if reports.organisation.chars().any(char::is_control) {
        return wrong("organisation", "has control characters".to_owned());
    }
    Ok(())
}

/// Refuses groups, folders, reports and a single sign-on that cannot work.
fn check_people(config: &Config) -> Result<(), ConfigError> {
    let wrong = |key: &str, message: String| {
        Err(ConfigError::Meaning { place: String::new(), key: key.to_owned(), message })
    };
    for group in &config.group {
        if group.name.trim().is_empty() {
            return wrong("group.name", "a group needs a name".into());
        }
        if group.database.is_empty() != group.query.is_empty() {
            let message = format!("group {:?} needs both database and query", group.name);
            return wrong("group.query", message);
        }
    }
    check_folders(config)?;
    let plain = |text: &str| text.bytes().all(|b| b.is_ascii_graphic());
    let web = |url: &str| plain(url) && (url.starts_with("https://") || url.starts_with("http://"));
    let (oidc, report) = (&config.oidc, &config.report);
    if !config.console.url.is_empty() && !web(&config.console.url) {
        return wrong("console.url", format!("{:?} is no https:// address", config.console.url));
    }
    if !oidc.issuer.is_empty() {
        if !web(&oidc.issuer) {
            return wrong("oidc.issuer", format!("{:?} is no https:// address", oidc.issuer));
        }
        // It is shown to people in errors, and no provider has one (OpenID Connect Discovery section 2).
        if oidc.issuer.contains('@') {
            return wrong("oidc.issuer", "has a login in it: use oidc.client_secret".into());
        }
        if oidc.client_id.is_empty() {
            return wrong("oidc.client_id", "is needed: what the provider calls us".into());
        }
        if config.console.url.is_empty() {
            return wrong(
                "console.url",
                "single sign-on needs it: people are sent back there".into(),
            );
        }
    }
    if report.hour > 23 {
        return wrong("report.hour", format!("{} is no hour: 0 to 23", report.hour));
    }
    let addresses = report.to.iter().chain((!report.from.is_empty()).then_some(&report.from));
    for address in addresses {
        if !plain(address) || !address.contains('@') || address.contains([',', '<', '>']) {
            return wrong("report.to", format!("{address:?} is no mail address"));
        }
    }
    Ok(())
}

/// Refuses numbers out of their bounds.
fn check_bounds(config: &Config) -> Result<(), ConfigError> {
    let wrong = |key: &str, message: &str| Err(out_of_bounds(key, message));
    let r = &config.receiver;
    let services = config.service.iter();
    let of_services =
        services.clone().map(|s| ("service.memory_percent_max", s.memory_percent_max));
    let of_node = [
        ("receiver.shed_percent", r.shed_percent),
        ("receiver.memory_percent_per_client_max", r.memory_percent_per_client_max),
        ("receiver.memory_percent_per_network_max", r.memory_percent_per_network_max),
        ("stress.percent", config.stress.percent),
        (
            "sender.exchanger_connections_percent_max",
            config.sender.exchanger_connections_percent_max,
        ),
        ("sender.report_connections_percent_max", config.sender.report_connections_percent_max),
    ];
    for (key, percent) in of_node.into_iter().chain(of_services) {
        if !(1..=100).contains(&percent) {
            return wrong(key, "must be 1 to 100");
        }
    }
    for service in services {
        if service.connections_max == 0 || service.connections_per_client_max == 0 {
            return wrong("service.connections_max", "must be 1 at least, per client too");
        }
        if service.request_seconds_max == 0 {
            return wrong("service.request_seconds_max", "must be 1 at least");
        }
    }
    check_not_zero(config)
}

/// Refuses limits of zero, which would let nothing in or out.
fn check_not_zero(config: &Config) -> Result<(), ConfigError> {
    for (key, value) in [
        ("receiver.sessions_max", config.receiver.sessions_max),
        ("receiver.recipients_max", config.receiver.recipients_max),
        ("receiver.sessions_per_network_max", config.receiver.sessions_per_network_max),
        ("receiver.body_rate_seconds", config.receiver.body_rate_seconds as usize),
        ("stress.body_rate_seconds", config.stress.body_rate_seconds as usize),
        ("stress.command_seconds_max", config.stress.command_seconds_max as usize),
        ("stress.errors_max", config.stress.errors_max),
        ("console.connections_max", config.console.connections_max),
        ("console.connections_per_client_max", config.console.connections_per_client_max),
        ("console.head_seconds_max", config.console.head_seconds_max as usize),
        ("console.body_seconds_max", config.console.body_seconds_max as usize),
        ("console.session_seconds", config.console.session_seconds as usize),
        ("console.session_age_seconds_max", config.console.session_age_seconds_max as usize),
        ("acme.connections_max", config.acme.connections_max),
        ("acme.connections_per_client_max", config.acme.connections_per_client_max),
        ("acme.seconds_max", config.acme.seconds_max as usize),
        ("scan.queue_max", config.scan.queue_max),
        ("learning.refresh_seconds", config.learning.refresh_seconds as usize),
        ("spool.batch_messages_max", config.spool.batch_messages_max),
        ("sender.connections_per_hop_max", config.sender.connections_per_hop_max),
        ("sender.connections_max", config.sender.connections_max),
        (
            "sender.exchanger_connections_per_network_max",
            config.sender.exchanger_connections_per_network_max,
        ),
        (
            "sender.report_connections_per_network_max",
            config.sender.report_connections_per_network_max,
        ),
        ("sender.transaction_seconds_max", config.sender.transaction_seconds_max as usize),
        ("sender.recipients_per_message_max", config.sender.recipients_per_message_max),
    ] {
        if value == 0 {
            return Err(out_of_bounds(key, "must be 1 at least"));
        }
    }
    Ok(())
}

/// The error of a number outside its range.
fn out_of_bounds(key: &str, message: &str) -> ConfigError {
    let (place, key) = (String::new(), key.to_owned());
    ConfigError::Meaning { place, key, message: message.to_owned() }
}

/// Refuses limits of attempts to sign in that limit nothing, or everybody.
fn check_sign_in(config: &Config) -> Result<(), ConfigError> {
    for (key, value, most) in config.sign_in.ranges() {
        if !(1..=most).contains(&value) {
            let message = format!("must be 1 to {most}");
            return Err(ConfigError::Meaning { place: String::new(), key: key.into(), message });
        }
    }
    Ok(())
}

/// Refuses values that read but cannot work.
fn check(config: &Config) -> Result<(), ConfigError> {
    let wrong = |key: &str, message: String| {
        Err(ConfigError::Meaning { place: String::new(), key: key.to_owned(), message })
    };
    for listener in &config.listener {
        let Some(address) = socket_address(&listener.address) else {
            let message =
                format!("{:?} is no address and port, e.g. 127.0.0.1:2525", listener.address);
            return wrong("listener.address", message);
        };
        let open = config.domains.local.is_empty() && listener.role == ListenerRole::Inbound;
        if open && !address.ip().is_loopback() {
            return wrong(
                "domains.local",
                format!("is empty, so {address} would take mail for everybody; list your domains"),
            );
        }
        if listener.certificate.len() != listener.key.len() {
            return wrong(
                "listener.key",
                "each certificate needs its key, in the same order".into(),
            );
        }
        let encrypts =
            listener.implicit_tls || listener.self_signed || !listener.certificate.is_empty();
        let encrypts = encrypts || config.acme.is_on();
        if listener.role == ListenerRole::Submission && !encrypts {
            return wrong("listener.certificate", "logins need TLS: set a certificate".into());
        }
    }
    if !config.console.address.is_empty() && socket_address(&config.console.address).is_none() {
        let message = format!("{:?} is no address and port", config.console.address);
        return wrong("console.address", message);
    }
    if config.console.tls && config.console.url.starts_with("http://") {
        return wrong("console.url", "console.tls is on: it begins with https://".into());
    }
    for proxy in &config.console.proxies {
        if let Err(problem) = proxy.parse::<crate::network::Network>() {
            return wrong("console.proxies", problem);
        }
    }
    check_thresholds(config)?;
    config.acme.check()?;
    if config.sender.tls == HopTlsPolicy::Verified && no_roots(config) {
        return wrong("sender.roots", format!("sender.tls = \"verified\" {NO_ROOTS}"));
    }
    if let Err(problem) = crate::network::Reach::new(&config.sender.exchanger_networks_allowed) {
        return wrong("sender.exchanger_networks_allowed", problem);
    }
    check_bounds(config)?;
    check_digest(config)?;
    check_reports("dmarc_reports", &config.dmarc_reports)?;
    check_people(config)?;
    check_sign_in(config)?;
    check_reports("tls_reports", &config.tls_reports)?;
    check_next_hops(config)?;
    if config.sender.retry_seconds.is_empty() {
        return wrong("sender.retry_seconds", "needs one number at least".into());
    }
    Ok(())
}

pub(super) fn socket_address(text: &str) -> Option<SocketAddr> {
    text.to_socket_addrs().ok()?.next()
}

/// Line of a byte offset, from 1.
fn line_of(text: &str, offset: usize) -> usize {
    1 + text.as_bytes()[..offset.min(text.len())].iter().filter(|&&b| b == b'\n').count()
}

/// Adds the nearest valid key to serde's "unknown field `x`, expected one of `a`, `b`".
fn with_nearest(message: &str) -> String {
    gauntlet_policy::check::with_nearest(message)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(text: &str, environment: &[(&str, &str)]) -> Result<Loaded, ConfigError> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("gauntlet.toml");
        std::fs::write(&path, text).unwrap();
        let pairs = environment.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned()));
        Loaded::load(Some(&path), pairs)
    }

    fn origin(loaded: &Loaded, key: &str) -> (String, Origin) {
        let setting = loaded.settings().into_iter().find(|s| s.key == key).unwrap();
        (setting.value, setting.origin)
    }

    #[test]
    fn the_documented_file_is_the_defaults() {
        let text = include_str!("../../../../config/gauntlet.toml");
        assert_eq!(toml::from_str::<Config>(text).unwrap(), Config::default());
        let documented: Table = text.parse().unwrap();
        let Ok(Value::Table(defaults)) = Value::try_from(Config::default()) else { panic!() };
        for (section, value) in &defaults {
            let Some(keys) = value.as_table() else { continue };
            for key in keys.keys() {
                assert!(documented[section].get(key).is_some(), "{section}.{key} is undocumented");
            }
        }
    }

    #[test]
    fn a_mistake_names_line_and_nearest_key() {
        let error = load("[scan]\n\nthread = 4\n", &[]).unwrap_err().to_string();
        assert!(error.contains("gauntlet.toml:3: unknown field `thread`"), "{error}");
        assert!(error.ends_with("did you mean `threads`?"), "{error}");
        let error = load("[scan]\nthreads = \"four\"\n", &[]).unwrap_err().to_string();
        assert!(error.contains("gauntlet.toml:2: scan.threads: invalid type: string"), "{error}");
        let error = load("\n[log]\nformat = \"xml\"\n", &[]).unwrap_err().to_string();
        assert!(error.contains("gauntlet.toml:3: log.format: unknown variant `xml`"), "{error}");
        let text = "[[listener]]\naddress = 4\n";
        let error = load(text, &[]).unwrap_err().to_string();
        assert!(error.contains("gauntlet.toml:2: listener.address: invalid type"), "{error}");
    }

    #[test]
    fn a_value_that_cannot_work_names_its_place() {
        let said = |text: &str, environment: &[(&str, &str)]| {
            load(text, environment).unwrap_err().to_string()
        };
        let error = said("[console]\n\naddress = \"here\"\n", &[]);
        assert!(
            error.ends_with("gauntlet.toml:3: console.address: \"here\" is no address and port")
        );
        let error = said("[thresholds]\nspam = 1.0\n", &[]);
        assert!(error.contains("gauntlet.toml:2: thresholds: must rise"), "{error}");
        let error = said("[thresholds]\nspam_error = 0.5\n", &[]);
        assert!(error.contains("shares of good mail that fall"), "{error}");
        let error = said("", &[("GAUNTLET_SCAN__QUEUE_MAX", "0")]);
        assert_eq!(error, "$GAUNTLET_SCAN__QUEUE_MAX: scan.queue_max: must be 1 at least");
    }

    #[test]
    fn origins_are_told() {
        let loaded =
            load("[scan]\nthreads = 4\nqueue_max = 9\n", &[("GAUNTLET_SCAN__THREADS", "2")])
                .unwrap();
        assert_eq!(loaded.config.scan.threads, 2);
        let (value, from) = origin(&loaded, "scan.threads");
        assert_eq!((value.as_str(), from.to_string().as_str()), ("2", "$GAUNTLET_SCAN__THREADS"));
        assert!(matches!(origin(&loaded, "scan.queue_max").1, Origin::File { line: 3, .. }));
        assert_eq!(origin(&loaded, "spool.backend").1, Origin::Default);
    }

    #[test]
    fn wrong_variables_are_named() {
        let error = load("", &[("GAUNTLET_SCAN__THREADS", "x")]).unwrap_err().to_string();
        assert_eq!(error, "environment variable GAUNTLET_SCAN__THREADS: \"x\" is no whole number");
        let error = load("", &[("GAUNTLET_SCAN__TREADS", "1")]).unwrap_err().to_string();
        assert!(error.ends_with("no setting scan.treads; did you mean scan.threads?"), "{error}");
        let error = load("", &[("GAUNTLET_NOTHING__LIKE_THIS", "1")]).unwrap_err().to_string();
        assert!(error.ends_with("`gauntlet config show` lists all"), "{error}");
    }

    #[test]
    fn no_open_relay_by_an_empty_list() {
        let text = "[[listener]]\naddress = \"0.0.0.0:2525\"\n";
        let error = load(text, &[]).unwrap_err().to_string();
        assert!(error.contains("would take mail for everybody"), "{error}");
        assert!(load(&format!("{text}[domains]\nlocal = [\"a.example\"]\n"), &[]).is_ok());
    }
}
