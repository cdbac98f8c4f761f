//! What serde cannot say about settings: bounds, and settings that do not go together.

use std::net::SocketAddr;

use gauntlet_policy::is_folder_name;
use gauntlet_verdict::{ADMIN_ONLY_FOLDERS, ReleasedBy};

use super::address::{is_same_socket, socket_address};
use super::delivery::HopTlsPolicy;
use super::error::ConfigError;
use super::receiving::{ListenerRole, ListenerSettings};
use super::reports::ReportSettings;
use super::settings::Config;

/// Most threads that judge mail.
pub const THREADS_MAX: u16 = 1_024;

/// What `log.level` may say of a module, or of all.
const LOG_LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];

/// What is wrong where certificates shall be verified and cannot.
const NO_ROOTS: &str = "needs trusted roots, and the system has none: name a PEM bundle, or install \
ca-certificates";

/// Neither the settings nor the system name trusted roots.
fn no_roots(config: &Config) -> bool {
    crate::config::trust_roots(&config.sender.roots).as_os_str().is_empty()
}

/// A listener of mail has a certificate, that the console may show.
fn has_certificate(config: &Config) -> bool {
    let has = |l: &ListenerSettings| {
        l.implicit_tls || l.self_signed || !l.certificate.is_empty() || config.acme.is_on()
    };
    config.mail_listeners().any(has)
}

/// A folder of a Maildir++ is below the Maildir itself and begins with a dot.
fn check_spam_folder(name: &str) -> Result<(), ConfigError> {
    let fine = name.is_empty()
        || (name.len() > 1
            && name.starts_with('.')
            && !name.starts_with("..")
            && !name.contains('/')
            && !name.chars().any(char::is_control));
    match fine {
        true => Ok(()),
        false => Err(ConfigError::invalid(
            "route.maildir_spam_folder",
            format!("{name:?} is no folder of a Maildir; write a dot and a name, like \".Junk\""),
        )),
    }
}

/// Refuses next hops that cannot work.
fn check_next_hops(config: &Config) -> Result<(), ConfigError> {
    let wrong = |key: &str, message: String| Err(ConfigError::invalid(key, message));
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
    let wrong = |key: &str, message: String| Err(ConfigError::invalid(key, message));
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

/// Refuses to believe a server without a name, and fields in the name of this node: they are taken
/// out.
fn check_front_servers(config: &Config) -> Result<(), ConfigError> {
    let own = config.node.host_name();
    for server in &config.facts.trust_authserv_id {
        let name = server.trim_end_matches('.');
        let why = match name {
            "" => "is empty; write the first word of the server's Authentication-Results",
            _ if name.eq_ignore_ascii_case(&own) => {
                "is this node's own name; name the mail server in front of it"
            }
            _ => continue,
        };
        return Err(ConfigError::invalid("facts.trust_authserv_id", format!("{server:?} {why}")));
    }
    Ok(())
}

/// Refuses folders without a name, and those that recipients would release dangerous mail from.
fn check_folders(config: &Config) -> Result<(), ConfigError> {
    let wrong = |key: &str, message: String| Err(ConfigError::invalid(key, message));
    if config.quarantine.backlog_max == 0 {
        let message = "must be at least 1; with 0 no message could be held".to_owned();
        return wrong("quarantine.backlog_max", message);
    }
    if let Some(folder) = config.folder.iter().find(|f| f.name.trim().is_empty()) {
        let message = format!("a folder needs a name (retention_days = {})", folder.retention_days);
        return wrong("folder.name", message);
    }
    if let Some(folder) = config.folder.iter().find(|f| !is_folder_name(&f.name)) {
        let message = format!(
            "{:?} is no folder name: use letters, digits, '-' and '_', at most 64, as rules of the \
             policy name it",
            folder.name
        );
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
    let wrong = |key: &str, message: String| Err(ConfigError::invalid(key, message));
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
    let wrong =
        |key: &str, message: String| Err(ConfigError::invalid(format!("{name}.{key}"), message));
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
fn check_users(config: &Config) -> Result<(), ConfigError> {
    let wrong = |key: &str, message: String| Err(ConfigError::invalid(key, message));
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
        // It is shown to users in errors, and no provider has one (OpenID Connect Discovery section
        // 2).
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
    let wrong = |key: &str, message: &str| Err(ConfigError::invalid(key, message));
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
    if config.scan.threads > usize::from(THREADS_MAX) {
        let message = format!("must be {THREADS_MAX} at most; 0 takes one for each CPU");
        return wrong("scan.threads", &message);
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
        ("traps.messages_per_hour_max", config.traps.messages_per_hour_max as usize),
        ("traps.message_bytes_max", config.traps.message_bytes_max as usize),
        ("traps.kept_bytes_max", config.traps.kept_bytes_max as usize),
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
            return Err(ConfigError::invalid(key, "must be 1 at least"));
        }
    }
    Ok(())
}

/// Refuses limits of attempts to sign in and of questions to databases that limit nothing, or
/// everyone.
fn check_ranges(config: &Config) -> Result<(), ConfigError> {
    let ranges = config.sign_in.ranges().into_iter().chain(config.postgres.ranges());
    for (key, value, most) in ranges {
        if !(1..=most).contains(&value) {
            return Err(ConfigError::invalid(key, format!("must be 1 to {most}")));
        }
    }
    Ok(())
}

/// Refuses services that cannot be reached, or that strangers would reach without a token.
fn check_services(config: &Config) -> Result<(), ConfigError> {
    for service in &config.service {
        let is_path = service.address.strip_prefix("unix:").is_some_and(|path| !path.is_empty());
        if !is_path && socket_address(&service.address).is_none() {
            let message = format!(
                "{:?} is no address and port, e.g. 127.0.0.1:3599, and no unix: with a path",
                service.address
            );
            return Err(ConfigError::invalid("service.address", message));
        }
        if let Some(problem) = service.lacks_token() {
            return Err(ConfigError::invalid("service.address", problem));
        }
    }
    Ok(())
}

/// Refuses the same address twice: the second could not be bound. Those that share their port are
/// apart, and so is port 0, which takes a free one.
fn check_sockets(config: &Config) -> Result<(), ConfigError> {
    let listeners = config.listener.iter().filter(|listener| !listener.share_port);
    let all = listeners.map(|listener| ("listener.address", &listener.address));
    let all = all.chain(config.service.iter().map(|s| ("service.address", &s.address)));
    let all = all.chain([("console.address", &config.console.address)]);
    let mut seen: Vec<SocketAddr> = Vec::new();
    for (key, text) in all {
        let Some(address) = socket_address(text).filter(|address| address.port() != 0) else {
            continue;
        };
        if let Some(other) = seen.iter().find(|other| is_same_socket(**other, address)) {
            let message = match *other == address {
                true => format!("{text} is taken twice; give each its own port"),
                false => format!(
                    "{text} and {other} are the same port of the same address; name single \
                     addresses of this machine, or give each its own port"
                ),
            };
            return Err(ConfigError::invalid(key, message));
        }
        seen.push(address);
    }
    Ok(())
}

/// Refuses a console that nobody could reach, or whose clients could not be told apart.
fn check_console(config: &Config) -> Result<(), ConfigError> {
    let wrong = |key: &str, message: String| Err(ConfigError::invalid(key, message));
    if !config.console.address.is_empty() && socket_address(&config.console.address).is_none() {
        let message = format!("{:?} is no address and port", config.console.address);
        return wrong("console.address", message);
    }
    if config.console.tls && !config.console.address.is_empty() && !has_certificate(config) {
        let message = "needs a listener with a certificate, whose it shows: set \
                       listener.certificate, listener.self_signed or acme.directory";
        return wrong("console.tls", message.into());
    }
    if config.console.tls && config.console.url.starts_with("http://") {
        return wrong("console.url", "console.tls is on: it begins with https://".into());
    }
    for proxy in &config.console.proxies {
        if let Err(problem) = proxy.parse::<crate::network::Network>() {
            return wrong("console.proxies", problem.to_string());
        }
    }
    Ok(())
}

/// Any other word would be taken for the name of a module, and the log be silent.
fn check_log_level(level: &str) -> Result<(), ConfigError> {
    let is_level =
        |word: &str| LOG_LEVELS.iter().any(|level| level.eq_ignore_ascii_case(word.trim()));
    let is_module = |name: &str| {
        let name = name.trim();
        !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || "_:".contains(c))
    };
    for part in level.split(',') {
        let is_known = match part.split_once('=') {
            Some((module, level)) => is_module(module) && is_level(level),
            None => is_level(part),
        };
        if !is_known {
            let message = format!(
                "{part:?} is neither a level ({}) nor a module's, as in \"gauntlet_smtp=debug,info\"",
                LOG_LEVELS.join(", ")
            );
            return Err(ConfigError::invalid("log.level", message));
        }
    }
    Ok(())
}

/// Refuses values that read but cannot work.
pub(super) fn check(config: &Config) -> Result<(), ConfigError> {
    let wrong = |key: &str, message: String| Err(ConfigError::invalid(key, message));
    for listener in config.mail_listeners() {
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
    check_log_level(&config.log.level)?;
    check_console(config)?;
    super::channels::check(&config.channel, &config.array)?;
    config.array.check()?;
    config.channel_publish.check(&config.array)?;
    config.learning.check(&config.recipients.known)?;
    super::web::check(config.web_listeners(), (&config.proxy, &config.url_list), &config.web)?;
    check_thresholds(config)?;
    check_front_servers(config)?;
    config.acme.check()?;
    if config.sender.tls == HopTlsPolicy::Verified && no_roots(config) {
        return wrong("sender.roots", format!("sender.tls = \"verified\" {NO_ROOTS}"));
    }
    if let Err(problem) = crate::network::Reach::new(&config.sender.exchanger_networks_allowed) {
        return wrong("sender.exchanger_networks_allowed", problem.to_string());
    }
    check_bounds(config)?;
    super::engines::check(&config.engine, config.content.enabled)?;
    check_digest(config)?;
    check_reports("dmarc_reports", &config.dmarc_reports)?;
    check_users(config)?;
    check_ranges(config)?;
    check_reports("tls_reports", &config.tls_reports)?;
    config.ips.check()?;
    config.traces.check()?;
    super::names::check(config)?;
    check_services(config)?;
    check_sockets(config)?;
    check_next_hops(config)?;
    check_spam_folder(&config.route.maildir_spam_folder)?;
    if config.sender.retry_seconds.is_empty() {
        return wrong("sender.retry_seconds", "needs one number at least".into());
    }
    Ok(())
}
