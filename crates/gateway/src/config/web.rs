//! Settings of the web path that the node itself reads: lists of URLs and the web log. Those of
//! the proxy are [`gauntlet_web::settings`].

use std::path::PathBuf;

use gauntlet_engine::UrlListMeaning;
use gauntlet_web::WebRecord;
use gauntlet_web::settings::Settings;
use serde::{Deserialize, Serialize};

use super::address::socket_address;
use super::error::ConfigError;
use super::receiving::{ListenerRole, ListenerSettings};
use crate::network::Network;

/// Most lists of URLs.
const URL_LISTS_MAX: usize = 100;

/// The settings of a proxy that runs alone, from a file of TOML with those settings only.
///
/// # Errors
/// What is no TOML, no setting or no value for it, with its line.
pub fn proxy_settings_of(text: &str) -> Result<Settings, toml::de::Error> {
    toml::from_str(text)
}

/// What is kept of web requests.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct WebSettings {
    /// Days that the web log is kept.
    pub log_retention_days: u32,
    /// How clients stand in it.
    pub log_clients: LoggedClients,
    /// Whole URLs are kept; else scheme, host and port alone.
    pub log_urls: bool,
    /// Who asked for release of a page and left an address gets a mail when it is decided.
    pub answer_requests: bool,
}

impl Default for WebSettings {
    fn default() -> Self {
        WebSettings {
            log_retention_days: 30,
            log_clients: LoggedClients::Address,
            log_urls: true,
            answer_requests: false,
        }
    }
}

/// How clients stand in the web log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LoggedClients {
    /// By address and login.
    Address,
    /// By network (/24, /56), without login.
    Network,
    /// Not at all.
    None,
}

/// A list of URLs that the policy may ask for, of requests and of mail.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct UrlListSettings {
    /// Its name in policies and in the log.
    pub name: String,
    /// The compiled file (`gauntlet urls compile`).
    pub file: PathBuf,
    /// It undoes entries of all other lists.
    pub allow: bool,
    /// What it means for mail that a URL of a message is on it.
    pub mail: UrlListMeaning,
}

impl WebSettings {
    /// Takes out of a record what is not to be kept.
    pub fn mask(&self, record: &mut WebRecord) {
        match self.log_clients {
            LoggedClients::Address => {}
            LoggedClients::Network => {
                record.user.clear();
                record.client = record.client.parse().map(network_of).unwrap_or_default();
            }
            LoggedClients::None => {
                record.user.clear();
                record.client.clear();
            }
        }
        if !self.log_urls {
            let authority = record.url.find("://").map_or(0, |at| at + 3);
            let rest = record.url.get(authority..).unwrap_or_default();
            let end = rest.find(['/', '?', '#']).map_or(record.url.len(), |at| authority + at);
            record.url.truncate(end);
        }
    }
}

/// The network of an address: /24, or /56 as providers give to one home (RFC 6177).
fn network_of(address: std::net::IpAddr) -> String {
    match address.to_canonical() {
        std::net::IpAddr::V4(address) => {
            let [a, b, c, _] = address.octets();
            format!("{a}.{b}.{c}.0/24")
        }
        std::net::IpAddr::V6(address) => {
            let network = u128::from(address) & (u128::MAX << 72);
            format!("{}/56", std::net::Ipv6Addr::from(network))
        }
    }
}

/// Refuses listeners and lists of the web path that cannot work.
pub(super) fn check<'a>(
    listeners: impl Iterator<Item = &'a ListenerSettings>,
    (proxy, lists): (&Settings, &[UrlListSettings]),
    web: &WebSettings,
) -> Result<(), ConfigError> {
    let wrong = |key: &str, message: String| Err(ConfigError::invalid(key, message));
    if let Err(error) = proxy.check() {
        return wrong("proxy", error.to_string());
    }
    for listener in listeners {
        if socket_address(&listener.address).is_none() {
            let message = format!("{:?} is no address and port", listener.address);
            return wrong("listener.address", message);
        }
        let has_tls = matches!(listener.role, ListenerRole::Proxy | ListenerRole::Dns);
        if listener.implicit_tls && !has_tls {
            let message =
                "only clients of role = \"proxy\", of \"dns\" and of mail speak TLS with the node";
            return wrong("listener.implicit_tls", message.into());
        }
        if listener.certificate.len() != listener.key.len() {
            let message = "each certificate needs its key, in the same order";
            return wrong("listener.key", message.into());
        }
        let bad = listener.networks.iter().find_map(|n| n.parse::<Network>().err());
        if let Some(problem) = bad {
            return wrong("listener.networks", problem.to_string());
        }
    }
    if lists.len() > URL_LISTS_MAX {
        return wrong("url_list", format!("more than {URL_LISTS_MAX} lists"));
    }
    for (i, list) in lists.iter().enumerate() {
        if list.name.trim().is_empty() || list.file.as_os_str().is_empty() {
            return wrong("url_list", "a list needs a name and a file".into());
        }
        if lists[..i].iter().any(|other| other.name == list.name) {
            return wrong("url_list.name", format!("two lists are called {:?}", list.name));
        }
        if list.allow && list.mail != UrlListMeaning::None {
            let message = "a list that allows cannot say what is bad mail; remove one of them";
            return wrong("url_list.mail", message.into());
        }
    }
    match web.log_retention_days {
        0 => wrong("web.log_retention_days", "must be 1 at least".into()),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_to_be_kept_is_not() {
        let masked = |settings: &WebSettings, client: &str| {
            let mut record = WebRecord {
                client: client.into(),
                user: "ann".into(),
                url: "http://a.example:81/x?y".into(),
                ..WebRecord::default()
            };
            settings.mask(&mut record);
            (record.client, record.user, record.url)
        };
        let all = WebSettings::default();
        let whole = ("10.1.2.3".into(), "ann".into(), "http://a.example:81/x?y".into());
        assert_eq!(masked(&all, "10.1.2.3"), whole);
        let some = WebSettings { log_clients: LoggedClients::Network, log_urls: false, ..all };
        let network = ("10.1.2.0/24".into(), String::new(), "http://a.example:81".into());
        assert_eq!(masked(&some, "10.1.2.3"), network);
        assert_eq!(masked(&some, "2001:db8:1:2ff::1").0, "2001:db8:1:200::/56");
        let none = WebSettings { log_clients: LoggedClients::None, ..some };
        assert_eq!(masked(&none, "10.1.2.3").0, "");
    }
}
