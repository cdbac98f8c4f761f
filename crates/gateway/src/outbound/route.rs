//! Where a message goes: routes by domain.

use std::sync::Arc;

use gauntlet_smtp::address::domain_of;

use crate::config::{Config, DomainSettings, HopTlsPolicy, NextHopSettings, RouteSettings};

/// Where a message is handed on to.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Route {
    /// The node's own Maildir.
    Maildir,
    /// A next hop, `host:port`.
    Hop(String),
    /// One of several next hops.
    Hops(Arc<NextHop>),
    /// The mail exchangers of a domain.
    Exchangers {
        /// Domain of the recipients, whose MX records are followed.
        domain: String,
        /// TLS there; none is that of the settings.
        tls: Option<HopTlsPolicy>,
    },
}

impl Route {
    /// The next hop is ours, or one that the configuration names: not a host that the DNS names.
    pub fn is_named(&self) -> bool {
        matches!(self, Route::Hop(_) | Route::Hops(_))
    }
}

/// Next hops that share mail.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NextHop {
    /// `host:port` with its weight.
    pub hosts: Vec<(String, u32)>,
    /// TLS there; none is that of the settings.
    pub tls: Option<HopTlsPolicy>,
    /// Their protocol is LMTP.
    pub lmtp: bool,
}

/// What a `[[next_hop]]` table names: hosts, or the exchangers of each domain.
#[derive(Debug, Clone)]
enum Named {
    Hosts(Arc<NextHop>),
    Exchangers(Option<HopTlsPolicy>),
}

impl Named {
    fn of(settings: &NextHopSettings) -> Self {
        if settings.hosts.is_empty() {
            return Named::Exchangers(settings.tls);
        }
        let weight = |i: usize| settings.weights.get(i).copied().unwrap_or(1);
        let hosts = settings.hosts.iter().enumerate().map(|(i, host)| (host.clone(), weight(i)));
        let (tls, lmtp) = (settings.tls, settings.lmtp);
        Named::Hosts(Arc::new(NextHop { hosts: hosts.collect(), tls, lmtp }))
    }
}

/// Domains and recipients that are ours, and where mail goes.
#[derive(Debug, Clone, Default)]
pub struct Routes {
    settings: RouteSettings,
    domains: DomainSettings,
    /// Patterns and where their mail goes, first match wins.
    named: Vec<(Vec<String>, Named)>,
}

impl Routes {
    /// The folder of the Maildir for spam, if it has one.
    pub fn maildir_spam_folder(&self) -> Option<&str> {
        Some(self.settings.maildir_spam_folder.as_str()).filter(|name| !name.is_empty())
    }

    /// The routes of a configuration.
    pub fn of(config: &Config) -> Self {
        let named = |hop: &NextHopSettings| (hop.r#for.clone(), Named::of(hop));
        Routes {
            settings: config.route.clone(),
            domains: config.domains.clone(),
            named: config.next_hop.iter().map(named).collect(),
        }
    }

    /// Messages may be handed on while their clients wait.
    pub fn cuts_through(&self) -> bool {
        self.settings.cut_through
    }

    /// No domain is named as ours: every recipient is taken.
    pub fn takes_all(&self) -> bool {
        self.domains.local.is_empty()
    }

    /// The domain is one of ours. An empty list takes all (loopback listeners only).
    pub fn is_local(&self, domain: &str) -> bool {
        self.domains.local.is_empty() || self.domains.local.iter().any(|ours| fits(ours, domain))
    }

    /// Mail for the whole domain goes where a `[[next_hop]]` says. The domain may be a pattern
    /// itself, `*.parent`.
    pub fn has_next_hop(&self, domain: &str) -> bool {
        let mut patterns = self.named.iter().flat_map(|(patterns, _)| patterns);
        patterns.any(|pattern| fits(pattern, domain))
    }

    /// Where mail for this address goes.
    pub fn route(&self, address: &str) -> Route {
        let domain = domain_of(address);
        let is_for = |pattern: &String| match pattern.contains('@') {
            true => pattern.eq_ignore_ascii_case(address),
            false => fits(pattern, &domain),
        };
        let named = self.named.iter().find(|(patterns, _)| patterns.iter().any(is_for));
        match named {
            Some((_, Named::Hosts(hop))) => return Route::Hops(hop.clone()),
            Some((_, Named::Exchangers(tls))) if !domain.is_empty() => {
                return Route::Exchangers { domain, tls: *tls };
            }
            _ => {}
        }
        if self.is_local(&domain) || domain.is_empty() {
            return match self.settings.next_hop.as_str() {
                "" => Route::Maildir,
                hop => Route::Hop(hop.to_owned()),
            };
        }
        match self.settings.smart_host.as_str() {
            "" => Route::Exchangers { domain, tls: None },
            hop => Route::Hop(hop.to_owned()),
        }
    }
}

/// The domain is the one of the pattern, or below `*.parent`.
fn fits(pattern: &str, domain: &str) -> bool {
    pattern.eq_ignore_ascii_case(domain)
        || pattern.strip_prefix("*.").is_some_and(|parent| {
            let (domain, parent) = (domain.to_lowercase(), parent.to_lowercase());
            domain.strip_suffix(&parent).is_some_and(|head| head.ends_with('.'))
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exchangers(domain: &str, tls: Option<HopTlsPolicy>) -> Route {
        Route::Exchangers { domain: domain.into(), tls }
    }

    #[test]
    fn named_routes_come_first_and_the_first_of_them_counts() {
        let hop = |patterns: &[&str], hosts: &[&str], weights: &[u32]| NextHopSettings {
            r#for: patterns.iter().map(|p| (*p).to_owned()).collect(),
            hosts: hosts.iter().map(|h| (*h).to_owned()).collect(),
            weights: weights.to_vec(),
            ..NextHopSettings::default()
        };
        let required = Some(HopTlsPolicy::Required);
        let config = Config {
            next_hop: vec![
                hop(&["boss@example.org"], &["b:25"], &[]),
                hop(&["example.org", "*.example.org"], &["x:25", "y:25"], &[3, 1]),
                NextHopSettings { tls: required, ..hop(&["bank.example"], &[], &[]) },
            ],
            ..Config::default()
        };
        let routes = Routes::of(&config);
        let hosts = |address: &str| match routes.route(address) {
            Route::Hops(hop) => hop.hosts.clone(),
            other => panic!("{other:?}"),
        };
        assert_eq!(hosts("Boss@example.org"), [("b:25".to_owned(), 1)]);
        assert_eq!(hosts("a@x.Example.org"), [("x:25".to_owned(), 3), ("y:25".to_owned(), 1)]);
        assert_eq!(routes.route("a@bank.example"), exchangers("bank.example", required));
        assert_eq!(routes.route("a@other.example"), Route::Maildir);
    }

    #[test]
    fn ours_goes_in_and_the_rest_out() {
        let mut config = Config::default();
        let routes = Routes::of(&config);
        assert_eq!(routes.route("a@anything.example"), Route::Maildir);
        config.domains.local = vec!["example.org".into(), "*.example.net".into()];
        config.route.next_hop = "10.0.0.1:25".into();
        let routes = Routes::of(&config);
        assert_eq!(routes.route("a@EXAMPLE.org"), Route::Hop("10.0.0.1:25".into()));
        assert_eq!(routes.route("postmaster"), Route::Hop("10.0.0.1:25".into()));
        assert_eq!(routes.route("a@mail.example.net"), Route::Hop("10.0.0.1:25".into()));
        assert_eq!(routes.route("a@example.net"), exchangers("example.net", None));
        assert!(!routes.is_local("badexample.net"));
        config.route.smart_host = "smart:25".into();
        let routes = Routes::of(&config);
        assert_eq!(routes.route("a@example.com"), Route::Hop("smart:25".into()));
    }
}
