//! The node's state as the console shows it: rules and their cost, settings, health, routes, disks.

use std::sync::{Arc, OnceLock, PoisonError, RwLock};

use gauntlet_console::{
    Disk, EffectiveSetting, HealthCheck, MailRoute, RuleCost, RuleInfo, WebRequest,
};
use gauntlet_engine::Snapshot;
use gauntlet_gateway::config::{Config, Loaded, needs_restart};
use gauntlet_gateway::metrics;
use gauntlet_gateway::net::web;
use gauntlet_gateway::outbound::route::Routes;
use gauntlet_mail::{Envelope, Facts, Message};
use gauntlet_rules::{NativeDocument, Ruleset};

use crate::doctor::{self, Running, resources};

/// The effective settings; a reload replaces them.
#[derive(Debug, Clone, Default)]
pub(super) struct EffectiveSettings {
    settings: Arc<RwLock<Vec<EffectiveSetting>>>,
    /// Those of the start, some of which hold until the next.
    started: Arc<OnceLock<Config>>,
}

impl EffectiveSettings {
    /// Replaces them by those of a configuration.
    pub(super) fn apply(&self, loaded: &Loaded) {
        let settings = loaded.settings().into_iter().map(|s| EffectiveSetting {
            value: s.value,
            key: s.key,
            origin: s.origin.to_string(),
        });
        *self.settings.write().unwrap_or_else(PoisonError::into_inner) = settings.collect();
        self.started.get_or_init(|| loaded.config.clone());
    }

    /// Says which settings of a reload hold from the next start on: all looks as if they were in
    /// force.
    pub(super) fn warn_of_restart(&self, now: &Config) {
        let Some(started) = self.started.get() else { return };
        let settings = needs_restart(started, now).join(", ");
        if !settings.is_empty() {
            let hint = "restart the node; until then these stay as they were at its start";
            tracing::warn!(settings, hint, "settings changed that need a restart");
        }
    }

    pub(super) fn list(&self) -> Vec<EffectiveSetting> {
        self.settings.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Every rule of a snapshot, by name.
pub(super) fn rules(snapshot: &Snapshot) -> Vec<RuleInfo> {
    let filters = snapshot.registry.rules().iter().filter(|r| r.enabled).map(|r| RuleInfo {
        name: r.name.to_string(),
        kind: "filter".to_owned(),
        score: r.score,
        description: r.description.to_string(),
    });
    let mut all: Vec<RuleInfo> = filters.collect();
    let own = snapshot.own_rules.as_deref();
    for ruleset in own.into_iter().chain(snapshot.ruleset.as_deref().map(|set| &**set)) {
        let set = ruleset.profile().score_set();
        let scored = ruleset.rules().iter().filter(|r| !r.is_sub() && r.is_callable);
        all.extend(scored.map(|r| RuleInfo {
            name: r.name.to_string(),
            kind: r.test.kind().to_owned(),
            score: r.scores.get(set).copied().unwrap_or(0.0),
            description: r.description.to_string(),
        }));
    }
    all.sort_by(|a, b| a.name.cmp(&b.name));
    all.dedup_by(|a, b| a.name == b.name);
    all
}

/// What trying the rules on these messages costs, by rule.
pub(super) fn rule_costs(snapshot: &Snapshot, messages: &[Vec<u8>]) -> Vec<RuleCost> {
    let mut costs = Vec::new();
    if let Some(own) = &snapshot.own_rules {
        // Engines are made when first needed, which would count as the rule's cost.
        own.not_run();
        let mut scratch = gauntlet_rules::RulesScratch::with_costs();
        for raw in messages {
            let (message, envelope) = (Message::parse(raw), Envelope::default());
            own.scan(&NativeDocument::new(&message, &envelope), &mut scratch);
        }
        costs.extend(costs_of(own, scratch.costs()));
    }
    if let Some(ruleset) = &snapshot.ruleset {
        ruleset.not_run();
        let mut scratch = gauntlet_spamassassin::RulesScratch::with_costs();
        for raw in messages {
            let message = Message::parse(raw);
            ruleset.scan(&message, &Envelope::default(), &Facts::default(), 0, &mut scratch);
        }
        costs.extend(costs_of(ruleset, scratch.costs()));
    }
    costs
}

fn costs_of(ruleset: &Ruleset, costs: &[(u64, u64)]) -> impl Iterator<Item = RuleCost> {
    ruleset.rules().iter().zip(costs).map(|(rule, (tries, nanos))| RuleCost {
        name: rule.name.to_string(),
        tries: *tries,
        cost_ns: *nanos,
    })
}

/// The checks of `gauntlet doctor`.
pub(super) fn health(config: &Config, running: Running<'_>) -> Vec<HealthCheck> {
    match doctor::examine(config, None, None, Some(running)) {
        Ok(found) => {
            let line = |(status, check, text): (doctor::Status, &str, String)| HealthCheck {
                check: check.to_owned(),
                status: status.name(),
                text,
            };
            found.0.into_iter().map(line).collect()
        }
        Err(error) => vec![HealthCheck {
            check: "doctor".to_owned(),
            status: "error",
            text: format!("{error:#}"),
        }],
    }
}

/// Where mail goes, in the order in which it is tried. A domain of ours for which a next hop stands
/// is told once: there.
pub(crate) fn mail_routes(config: &Config) -> Vec<MailRoute> {
    let tls = |of: Option<gauntlet_gateway::config::HopTlsPolicy>| {
        format!("{:?}", of.unwrap_or(config.sender.tls)).to_lowercase()
    };
    let exchangers = || "mail exchangers that the DNS names".to_owned();
    let mut routes: Vec<MailRoute> = Vec::new();
    for hop in &config.next_hop {
        let weighed = hop.hosts.iter().enumerate().map(|(n, host)| match hop.weights.get(n) {
            Some(weight) => format!("{host} (share {weight})"),
            None => host.clone(),
        });
        let hosts: Vec<String> = weighed.collect();
        let lmtp = if hop.lmtp { "LMTP to " } else { "" };
        let goes_to =
            if hosts.is_empty() { exchangers() } else { format!("{lmtp}{}", hosts.join(", ")) };
        routes.push(MailRoute { mail_for: hop.r#for.join(", "), goes_to, tls: tls(hop.tls) });
    }
    if let Some(mail_for) = without_next_hop(config) {
        let maildir = || format!("Maildir {}", config.node.inside(&config.route.maildir).display());
        let (goes_to, tls) = match config.route.next_hop.as_str() {
            "" => (maildir(), "-".to_owned()),
            hop => (hop.to_owned(), tls(None)),
        };
        routes.push(MailRoute { mail_for, goes_to, tls });
    }
    let goes_to = match config.route.smart_host.as_str() {
        "" => exchangers(),
        host => host.to_owned(),
    };
    routes.push(MailRoute { mail_for: "all else, outbound".to_owned(), goes_to, tls: tls(None) });
    routes
}

/// Our domains whose mail goes where `[route]` says; none if each of them has a `[[next_hop]]`.
pub(super) fn without_next_hop(config: &Config) -> Option<String> {
    let routes = Routes::of(config);
    if routes.takes_all() {
        let has_others =
            config.next_hop.iter().any(|hop| hop.r#for.iter().any(|p| !p.contains('@')));
        return Some(if has_others { "every other domain" } else { "every domain" }.to_owned());
    }
    let ours = config.domains.local.iter().filter(|domain| !routes.has_next_hop(domain));
    let ours: Vec<&str> = ours.map(String::as_str).collect();
    (!ours.is_empty()).then(|| ours.join(", "))
}

/// Sends a request on a runtime of its own.
pub(super) fn send_web_request(
    config: &Config,
    request: &WebRequest,
) -> anyhow::Result<(u16, String)> {
    let WebRequest { url, headers, body } = request.clone();
    let tls = web::hop_tls(&config.sender.roots)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(web::ask(&web::Asked { url, headers, body }, &tls))
}

/// The disks of data and spool.
pub(crate) fn disks(config: &Config) -> Vec<Disk> {
    let shown = |d: resources::Disk| Disk {
        what: d.what.to_owned(),
        path: d.path.display().to_string(),
        free: d.free,
        total: d.total,
    };
    resources::disks(config).into_iter().map(shown).collect()
}

/// A number that metrics have of each disk: name, help, and where it comes from.
type DiskColumn = (&'static str, &'static str, fn(&Disk) -> u64);

/// Room on the disks that the node writes to, by what is there, in Prometheus' text format.
pub(crate) fn disk_metrics(config: &Config) -> String {
    let disks = disks(config);
    let columns: [DiskColumn; 2] = [
        ("disk_free_bytes", "Bytes free on a disk of the node", |disk| disk.free),
        ("disk_total_bytes", "Bytes of a disk of the node", |disk| disk.total),
    ];
    let mut text = String::new();
    for (name, help, bytes) in columns {
        let values = disks.iter().map(|disk| (disk.what.as_str(), bytes(disk)));
        metrics::labelled(&mut text, name, help, "gauge", "disk", values);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `mail for` and `goes to` of every route.
    fn routes(text: &str) -> Vec<(String, String)> {
        let file = std::path::Path::new("gauntlet.toml");
        let loaded = Loaded::load_text(text, file, Vec::new()).unwrap();
        mail_routes(&loaded.config).into_iter().map(|r| (r.mail_for, r.goes_to)).collect()
    }

    #[test]
    fn a_domain_with_a_next_hop_is_not_said_to_go_to_the_maildir() {
        let local = "[domains]\nlocal = [\"example.org\", \"*.example.org\", \"example.net\"]\n";
        let hop = |patterns: &str| {
            format!("[[next_hop]]\nfor = [{patterns}]\nhosts = [\"mx.example.org:25\"]\n")
        };
        let ours = |text: &str| {
            let mut all = routes(text);
            assert_eq!(all.pop().unwrap().0, "all else, outbound");
            all
        };
        let to_hop = |of: &str| (of.to_owned(), "mx.example.org:25".to_owned());
        let some = ours(&format!("{local}{}", hop("\"example.org\", \"*.example.org\"")));
        assert_eq!(some[0], to_hop("example.org, *.example.org"));
        assert_eq!(some[1].0, "example.net");
        assert!(some[1].1.starts_with("Maildir "), "{some:?}");
        let all =
            ours(&format!("{local}{}", hop("\"Example.ORG\", \"*.example.org\", \"example.net\"")));
        assert_eq!(all, [to_hop("Example.ORG, *.example.org, example.net")]);
        // One recipient's next hop is not that of the domain.
        let one = ours(&format!("{local}{}", hop("\"boss@example.org\"")));
        assert_eq!(one[1].0, "example.org, *.example.org, example.net");
        assert_eq!(ours(&hop("\"example.org\""))[1].0, "every other domain");
        assert_eq!(ours("")[0].0, "every domain");
    }
}
