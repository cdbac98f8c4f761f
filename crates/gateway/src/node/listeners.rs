//! The sockets of a node.

use std::io;
use std::path::Path;
use std::sync::Arc;

use super::Addresses;
use crate::config::{Config, ServiceSettings};
use crate::inbound::challenge_listener::ChallengeListener;
use crate::inbound::receiver::Listener;
use crate::inbound::services::Service;
use crate::net::tls::ListenerTls;
use crate::privileges;
use crate::secrets::Secrets;

/// The listeners of a node, bound: the only step for which a node may need to be root.
#[derive(Debug)]
pub struct Listeners {
    pub(super) listeners: Vec<Listener>,
    pub(super) services: Vec<Service>,
    /// Where an authority asks for proofs.
    pub(super) proofs: Option<ChallengeListener>,
    pub(super) addresses: Addresses,
    pub(super) secrets: Option<Arc<Secrets>>,
}

impl Listeners {
    /// Binds every listener and reads its certificates. Nothing is accepted yet. Call it on the
    /// runtime that is to run the node.
    ///
    /// # Errors
    /// If an address cannot be bound or a certificate cannot be read.
    pub fn open(config: &Config) -> anyhow::Result<Self> {
        Self::open_with(config, None)
    }

    /// The same, with the private keys in the secrets process.
    ///
    /// # Errors
    /// As [`Listeners::open`].
    pub fn open_with(config: &Config, secrets: Option<Arc<Secrets>>) -> anyhow::Result<Self> {
        let mut listeners = Vec::new();
        for settings in config.mail_listeners() {
            let tls = ListenerTls::load_from(config, settings, secrets.clone())?.map(Arc::new);
            listeners.push(Listener::bind(settings, tls)?);
        }
        let address = |listener: &Listener| Ok((listener.role(), listener.address()?));
        let addresses = listeners.iter().map(address).collect::<io::Result<Vec<_>>>()?;
        let bind = |settings: &ServiceSettings| match settings.address.strip_prefix("unix:") {
            Some(path) => {
                privileges::with_file(config, Path::new(path), || Service::bind(settings))
            }
            None => Service::bind(settings),
        };
        let services = config.service.iter().map(bind).collect::<io::Result<Vec<_>>>()?;
        let proofs = config.acme.is_on().then(|| ChallengeListener::bind(&config.acme));
        Ok(Listeners { listeners, services, proofs: proofs.transpose()?, addresses, secrets })
    }
}
