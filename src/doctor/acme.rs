//! Certificates from an authority: is there one, and how did the last attempt go?

use std::sync::Arc;

use gauntlet_gateway::config::Config;
use gauntlet_gateway::net::acme;
use gauntlet_gateway::net::resolver::{Kind, Resolver};
use gauntlet_gateway::secrets::Secrets;

use super::{Findings, Status};

/// The certificate is there, and nothing failed.
pub(super) fn certificate(config: &Config, secrets: Option<&Arc<Secrets>>, found: &mut Findings) {
    if !config.acme.is_on() {
        return;
    }
    let failed = match secrets {
        Some(secrets) => secrets.acme_failure().ok().flatten(),
        None => acme::last_failure(&config.node.data),
    };
    if let Some(failed) = failed {
        let at = gauntlet_mail::date::rfc5322(failed.at_ms);
        let text = format!(
            "no certificate at {at}: {}; it is tried again by itself, and at once after a reload",
            failed.why
        );
        found.add(Status::Error, "certificate", text);
    } else if !acme::certificate(&config.node.data).exists() {
        let text = format!(
            "none from {} yet; is `gauntlet serve` running? It shows one that it signed itself meanwhile",
            config.acme.directory
        );
        found.add(Status::Warning, "certificate", text);
    }
}

/// The authority finds the names in the DNS.
pub(super) async fn names(resolver: &Resolver, config: &Config, found: &mut Findings) {
    if !config.acme.is_on() {
        return;
    }
    for name in config.acme.names(&config.node.host_name()) {
        let mut addresses = Vec::new();
        for kind in [Kind::A, Kind::Aaaa] {
            addresses.extend(resolver.ask(&name, kind).await.answer.addresses());
        }
        let text = match addresses.is_empty() {
            false => continue,
            true => format!(
                "{name} (acme.names) has no address: the authority cannot ask for a proof; publish A or AAAA"
            ),
        };
        found.add(Status::Error, "certificate", text);
    }
}
