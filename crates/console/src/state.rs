//! What the console works with: stores, node, settings.

use std::sync::Arc;
use std::time::Duration;

use gauntlet_store::log::MessageLog;
use gauntlet_store::quarantine::HeldMail;
use gauntlet_store::{AlertLog, Log, Policies, Quarantine, Users, WebLog, WebReleases};

use crate::node::NodeHandle;
use crate::oidc::OidcOptions;
use crate::proxies::Proxies;
use crate::text::Texts;
use crate::tls::Tls;

/// Settings of the console.
#[derive(Debug, Clone, Copy)]
pub struct ConsoleOptions {
    /// Seconds without a request after which a login ends.
    pub session_seconds: u64,
    /// Seconds after which a login ends however busy it is.
    pub session_age_seconds_max: u64,
    /// The console is reached by HTTPS (its own, or a proxy's): cookies are for HTTPS only.
    pub https: bool,
    /// Time for the head of a request, and between two requests of a connection.
    pub head_wait_max: Duration,
    /// Time for the body of a request.
    pub body_wait_max: Duration,
}

impl Default for ConsoleOptions {
    fn default() -> Self {
        ConsoleOptions {
            session_seconds: 8 * 3600,
            session_age_seconds_max: 12 * 3600,
            https: false,
            head_wait_max: Duration::from_secs(10),
            body_wait_max: Duration::from_secs(30),
        }
    }
}

/// What the console works with.
#[derive(Clone)]
pub struct ConsoleState {
    /// The messages that pages search: the node's own log, or that of its array.
    pub messages: Arc<dyn MessageLog>,
    /// The node's own log, which gets the events of what is done here.
    pub log: Arc<Log>,
    /// Held mail that pages show: the node's own, or that of its array.
    pub held: Arc<dyn HeldMail>,
    /// The node's own held mail, with its audit log and who may release what.
    pub quarantine: Arc<Quarantine>,
    /// The web log; none if the node has no listener for web requests.
    pub web_log: Option<Arc<WebLog>>,
    /// The log of alerts; none if the node inspects no packets.
    pub alerts: Option<Arc<AlertLog>>,
    /// What people ask to have released of the web, and what was; none if the node has no listener
    /// for web requests.
    pub web_releases: Option<Arc<WebReleases>>,
    /// What browsers are told about the proxy of this node (PAC); none if it has none.
    pub pac: Option<Arc<str>>,
    /// The versions of the policy.
    pub policies: Arc<Policies>,
    /// Logins, sessions, tokens and wishes of people.
    pub users: Arc<Users>,
    /// The node that this is the console of.
    pub node: Arc<dyn NodeHandle>,
    /// Settings of the console.
    pub options: ConsoleOptions,
    /// HTTPS of its own; none serves HTTP.
    pub tls: Option<Tls>,
    /// Proxies whose word counts about who asks.
    pub proxies: Arc<Proxies>,
    /// Phrases of pages in the language of the installation.
    pub texts: Arc<Texts>,
    /// Single sign-on (OpenID Connect); none if it is not configured.
    pub oidc: Option<Arc<OidcOptions>>,
}

impl std::fmt::Debug for ConsoleState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ConsoleState").field("options", &self.options).finish_non_exhaustive()
    }
}
