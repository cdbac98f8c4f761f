//! What a start of the web path finds wrong in the files that a configuration names.

use std::net::IpAddr;
use std::sync::Arc;

use anyhow::Context;
use futures_util::future::BoxFuture;
use gauntlet_gateway::config::{Config, ListenerRole};
use gauntlet_proxy::auth::Logins;
use gauntlet_proxy::auth::passwords::Passwords;
use gauntlet_proxy::{Parts, Server};

use super::listener_settings;
use crate::phrases;

/// In the place of the node's users, who are not asked here.
struct Nobody;

impl Passwords for Nobody {
    fn check(&self, _: IpAddr, _: String, _: String) -> BoxFuture<'_, Option<Arc<str>>> {
        Box::pin(std::future::ready(None))
    }

    fn generation(&self) -> u64 {
        0
    }
}

/// Lists of phrases, files of users, the authority and its key, roots and lists of revoked
/// certificates, as far as listeners of the web path use them. Call it within a runtime.
pub(crate) fn problems(config: &Config) -> Vec<anyhow::Error> {
    if config.web_listeners().next().is_none() {
        return Vec::new();
    }
    let (proxy, mut found) = (&config.proxy, Vec::new());
    let words = phrases::open(&proxy.content.phrases).map(drop);
    found.extend(words.context("proxy.content.phrases").err());
    if proxy.login.is_on() {
        let read = Logins::new(&proxy.login, Some(Box::new(Nobody))).map(drop);
        found.extend(read.context("proxy.login").err());
    }
    let speaks_tls = |role| matches!(role, ListenerRole::Proxy | ListenerRole::Transparent);
    // All listeners have the same.
    if let Some(listener) = config.web_listeners().find(|listener| speaks_tls(listener.role)) {
        let settings = listener_settings(proxy, listener, config);
        let read = Server::with_sockets(Vec::new(), Vec::new(), settings, Parts::default());
        found.extend(read.map(drop).context("proxy").err());
    }
    found
}
