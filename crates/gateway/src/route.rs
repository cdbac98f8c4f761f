//! Where a message goes: routes by domain.

use std::collections::HashSet;
use std::path::Path;

use gauntlet_smtp::address::domain_of;

use crate::config::{Config, DomainSettings, RouteSettings};

/// A place to hand a message to.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Route {
    /// Our own Maildir.
    Maildir,
    /// A next hop, `host:port`.
    Hop(String),
    /// The mail exchangers of a domain.
    Exchangers(String),
}

/// Domains and recipients that are ours, and where mail goes.
#[derive(Debug, Clone, Default)]
pub struct Routes {
    settings: RouteSettings,
    domains: DomainSettings,
    /// Addresses and `@domain` entries that exist; none takes every local part.
    recipients: Option<HashSet<String>>,
}

impl Routes {
    /// Reads the recipients file, if one is set.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn load(config: &Config) -> std::io::Result<Self> {
        let path: &Path = &config.domains.recipients;
        let recipients = if path.as_os_str().is_empty() {
            None
        } else {
            let text = std::fs::read_to_string(path).map_err(|e| {
                std::io::Error::new(e.kind(), format!("domains.recipients {}: {e}", path.display()))
            })?;
            let lines =
                text.lines().map(str::trim).filter(|l| !l.is_empty() && !l.starts_with('#'));
            Some(lines.map(str::to_lowercase).collect())
        };
        Ok(Routes { settings: config.route.clone(), domains: config.domains.clone(), recipients })
    }

    /// Messages may be handed on while their clients wait.
    pub fn cuts_through(&self) -> bool {
        self.settings.cut_through
    }

    /// The domain is one of ours. An empty list takes all (loopback listeners only).
    pub fn is_local(&self, domain: &str) -> bool {
        self.domains.local.is_empty()
            || self.domains.local.iter().any(|ours| {
                ours.eq_ignore_ascii_case(domain)
                    || ours.strip_prefix("*.").is_some_and(|parent| {
                        domain
                            .to_lowercase()
                            .strip_suffix(&parent.to_lowercase())
                            .is_some_and(|head| head.ends_with('.'))
                    })
            })
    }

    /// The recipient exists, as far as we know.
    pub fn is_known(&self, address: &str) -> bool {
        let Some(known) = &self.recipients else { return true };
        let address = address.to_lowercase();
        address == "postmaster"
            || known.contains(&address)
            || known.contains(&format!("@{}", domain_of(&address)))
    }

    /// Where mail for this address goes.
    pub fn route(&self, address: &str) -> Route {
        let domain = domain_of(address);
        if self.is_local(&domain) || domain.is_empty() {
            return match self.settings.next_hop.as_str() {
                "" => Route::Maildir,
                hop => Route::Hop(hop.to_owned()),
            };
        }
        match self.settings.smart_host.as_str() {
            "" => Route::Exchangers(domain),
            hop => Route::Hop(hop.to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ours_goes_in_and_the_rest_out() {
        let mut config = Config::default();
        let routes = Routes::load(&config).unwrap();
        assert_eq!(routes.route("a@anything.example"), Route::Maildir);
        config.domains.local = vec!["example.org".into(), "*.example.net".into()];
        config.route.next_hop = "10.0.0.1:25".into();
        let routes = Routes::load(&config).unwrap();
        assert_eq!(routes.route("a@EXAMPLE.org"), Route::Hop("10.0.0.1:25".into()));
        assert_eq!(routes.route("postmaster"), Route::Hop("10.0.0.1:25".into()));
        assert_eq!(routes.route("a@mail.example.net"), Route::Hop("10.0.0.1:25".into()));
        assert_eq!(routes.route("a@example.net"), Route::Exchangers("example.net".into()));
        assert!(!routes.is_local("badexample.net"));
        config.route.smart_host = "smart:25".into();
        let routes = Routes::load(&config).unwrap();
        assert_eq!(routes.route("a@example.com"), Route::Hop("smart:25".into()));
    }
}
