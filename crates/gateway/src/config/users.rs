//! Settings about users: groups for the policy, folders of the quarantine, the console, single
//! sign-on, reports.

use std::path::PathBuf;
use std::time::Duration;

use gauntlet_store::users::AttemptLimits;
use gauntlet_verdict::ReleasedBy;
use serde::{Deserialize, Serialize};

/// A group of addresses that the policy may name: members from here, a file, and a database, all
/// together.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct GroupSettings {
    /// What the policy calls it.
    pub name: String,
    /// Addresses, or `@domain` for all of a domain.
    pub members: Vec<String>,
    /// A file of the same, one a line; `#` begins a comment.
    pub file: PathBuf,
    /// A database: `sqlite:/path/of/a/file.db` or `postgres://user:password@host:5432/database`.
    pub database: String,
    /// What it is asked; the first column is an address, or `@domain`.
    pub query: String,
}

/// How long one folder of the quarantine keeps mail, and how much.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct FolderSettings {
    /// Name of the folder, as dispositions of the policy give it.
    pub name: String,
    /// Days that its mail is kept, instead of `quarantine.retention_days`.
    pub retention_days: u32,
    /// Bytes of held mail; above, the oldest of the folder goes first. 0 sets no cap of its own.
    pub bytes_max: u64,
    /// Who may release its mail: `user`, its recipient; `admin`, reviewers and administrators only.
    /// None: `user` for spam, suspect and bulk, `admin` for all other folders.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub release: Option<ReleasedBy>,
}

impl Default for FolderSettings {
    fn default() -> Self {
        FolderSettings { name: String::new(), retention_days: 7, bytes_max: 0, release: None }
    }
}

/// Sign-in by a provider (OpenID Connect).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct OidcSettings {
    /// The provider: `https://login.example.com/realms/staff`; empty switches it off.
    pub issuer: String,
    /// What the provider calls us.
    pub client_id: String,
    /// What we prove it with; empty for a public client.
    pub client_secret: String,
    /// The claim that is the login here.
    pub login_claim: String,
    /// Add accounts that are not known here yet, as users who see their own mail (`email`, if
    /// verified).
    pub add_people: bool,
    /// What the button says.
    pub name: String,
}

impl Default for OidcSettings {
    fn default() -> Self {
        OidcSettings {
            issuer: String::new(),
            client_id: String::new(),
            client_secret: String::new(),
            login_claim: "email".to_owned(),
            add_people: false,
            name: "Single sign-on".to_owned(),
        }
    }
}

/// How often passwords and codes may be tried, by console, API and mail clients together.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SignInSettings {
    /// How long failures of addresses count.
    pub window_seconds: u64,
    /// Failures of one address (a /64 of IPv6) within the window after which it has to wait.
    pub failures_per_address_max: u32,
    /// Failures of a /24 (a /48 of IPv6) within the window after which all of it has to wait.
    pub failures_per_network_max: u32,
    /// Failures of one login from one address within the window.
    pub failures_per_login_max: u32,
    /// The same from an address from which the login signed in before.
    pub failures_per_known_login_max: u32,
    /// Failures of a login from everywhere before attempts from unknown addresses are delayed.
    pub account_failures_free: u32,
    /// Longest time between two attempts at a login from unknown addresses.
    pub account_pause_seconds_max: u64,
    /// Wrong codes of a second factor before the next is delayed.
    pub code_failures_free: u32,
    /// Longest time between two codes.
    pub code_pause_seconds_max: u64,
    /// How long an address stays known for a login.
    pub known_days: u64,
}

impl Default for SignInSettings {
    fn default() -> Self {
        SignInSettings {
            window_seconds: 600,
            failures_per_address_max: 20,
            failures_per_network_max: 100,
            failures_per_login_max: 5,
            failures_per_known_login_max: 20,
            account_failures_free: 10,
            account_pause_seconds_max: 600,
            code_failures_free: 5,
            code_pause_seconds_max: 3_600,
            known_days: 30,
        }
    }
}

impl SignInSettings {
    /// As the counter of attempts takes them.
    pub fn limits(&self) -> AttemptLimits {
        let seconds = Duration::from_secs;
        AttemptLimits {
            window: seconds(self.window_seconds),
            failures_per_address_max: self.failures_per_address_max,
            failures_per_network_max: self.failures_per_network_max,
            failures_per_login_max: self.failures_per_login_max,
            failures_per_known_login_max: self.failures_per_known_login_max,
            account_failures_free: self.account_failures_free,
            account_pause_max: seconds(self.account_pause_seconds_max),
            code_failures_free: self.code_failures_free,
            code_pause_max: seconds(self.code_pause_seconds_max),
            known_for: seconds(self.known_days.saturating_mul(super::DAY_SECONDS)),
        }
    }

    /// Settings and their ranges: none may switch a limit off.
    pub(super) fn ranges(&self) -> [(&'static str, u64, u64); 10] {
        let many = 1_000_000;
        let days = 30 * super::DAY_SECONDS;
        [
            ("sign_in.window_seconds", self.window_seconds, days),
            ("sign_in.failures_per_address_max", self.failures_per_address_max.into(), many),
            ("sign_in.failures_per_network_max", self.failures_per_network_max.into(), many),
            ("sign_in.failures_per_login_max", self.failures_per_login_max.into(), many),
            (
                "sign_in.failures_per_known_login_max",
                self.failures_per_known_login_max.into(),
                many,
            ),
            ("sign_in.account_failures_free", self.account_failures_free.into(), many),
            ("sign_in.account_pause_seconds_max", self.account_pause_seconds_max, days),
            ("sign_in.code_failures_free", self.code_failures_free.into(), 100),
            ("sign_in.code_pause_seconds_max", self.code_pause_seconds_max, days),
            ("sign_in.known_days", self.known_days, 3_650),
        ]
    }
}

/// How often reports are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReportEvery {
    /// Of the day before.
    Day,
    /// On Mondays, of the week before.
    #[default]
    Week,
    /// On the first, of the month before.
    Month,
}

/// Who gets reports on the node's mail, and when.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct MailedReportSettings {
    /// Who gets them; empty sends none.
    pub to: Vec<String>,
    /// Whether a report is about a day, a week or a month.
    pub every: ReportEvery,
    /// Hour of the day, UTC, from which on they are sent.
    pub hour: u8,
    /// From address; empty takes postmaster at the node's name.
    pub from: String,
}

impl Default for MailedReportSettings {
    fn default() -> Self {
        MailedReportSettings {
            to: Vec::new(),
            every: ReportEvery::Week,
            hour: 6,
            from: String::new(),
        }
    }
}

/// Address and limits of the web console.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ConsoleSettings {
    /// Address and port; port 0 takes a free one, empty switches it off.
    pub address: String,
    /// Connections at once, `/metrics` among them; each takes a descriptor that mail cannot have.
    pub connections_max: usize,
    /// Connections at once from one address.
    pub connections_per_client_max: usize,
    /// Seconds for the head of a request, and between two requests of a connection.
    pub head_seconds_max: u64,
    /// Seconds for the body of a request.
    pub body_seconds_max: u64,
    /// Seconds without a request after which a login ends.
    pub session_seconds: u64,
    /// Seconds after which a login ends however busy it is.
    pub session_age_seconds_max: u64,
    /// Where users reach it: `https://mail.example.com`; empty takes `address`. With https, cookies
    /// are for HTTPS only.
    pub url: String,
    /// HTTPS with the node's certificates: those of the first listener that has any.
    pub tls: bool,
    /// Networks of proxies before it, whose `X-Forwarded-For` says who asks.
    pub proxies: Vec<String>,
    /// A catalogue of what pages and mails to users say in another language (a copy of
    /// `crates/console/text/en.toml`); empty is English.
    pub texts: PathBuf,
}

impl Default for ConsoleSettings {
    fn default() -> Self {
        ConsoleSettings {
            address: "127.0.0.1:8025".into(),
            connections_max: 128,
            connections_per_client_max: 64,
            head_seconds_max: 10,
            body_seconds_max: 30,
            session_seconds: 8 * 3_600,
            session_age_seconds_max: 12 * 3_600,
            url: String::new(),
            tls: false,
            proxies: Vec::new(),
            texts: PathBuf::new(),
        }
    }
}

impl ConsoleSettings {
    /// Where it is without `url`.
    pub fn url_at(&self, address: &str) -> String {
        format!("{}://{address}", if self.tls { "https" } else { "http" })
    }

    /// What is wrong with where it listens: passwords and cookies would cross a network in the
    /// clear.
    pub fn exposure(&self) -> Option<String> {
        let address = super::address::socket_address(&self.address)?;
        let safe =
            self.tls || address.ip().to_canonical().is_loopback() || !self.proxies.is_empty();
        (!safe).then(|| {
            format!(
                "console.address {address} is open to the network without TLS: passwords and sessions \
                 can be read on the way; set console.tls = true, or name the proxy that terminates HTTPS in \
                 console.proxies, or listen on 127.0.0.1"
            )
        })
    }
}
