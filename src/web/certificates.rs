//! Certificates of listeners whose clients speak TLS to the proxy itself: made and kept as those of
//! the node's other listeners, with their keys in the secrets process. And by what certificates of
//! servers are verified.

use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;

use anyhow::{Context, bail};
use gauntlet_gateway::config::{Config, ListenerRole, ListenerSettings};
use gauntlet_gateway::net::tls::ListenerTls;
use gauntlet_gateway::secrets::Secrets;
use gauntlet_proxy::tls::{OriginTrust, ServerConfig};

/// Of each listener with TLS.
#[derive(Default)]
pub(super) struct Certificates {
    shown: Vec<(SocketAddr, ListenerSettings, ListenerTls)>,
    trusts: Vec<OriginTrust>,
}

impl Certificates {
    /// Reads the certificate of a listener, if its clients speak TLS.
    ///
    /// # Errors
    /// If it cannot be read, or there is none.
    pub(super) fn add(
        &mut self,
        config: &Config,
        listener: &ListenerSettings,
        socket: &TcpListener,
        secrets: &Arc<Secrets>,
    ) -> anyhow::Result<Option<ServerConfig>> {
        let speaks_tls = matches!(listener.role, ListenerRole::Proxy | ListenerRole::Dns);
        if !speaks_tls || !listener.implicit_tls {
            return Ok(None);
        }
        let address = &listener.address;
        let tls = ListenerTls::load_from(config, listener, Some(Arc::clone(secrets)));
        let Some(tls) = tls.with_context(|| format!("listener {address}"))? else {
            bail!("listener {address}: implicit_tls needs certificate and key, or self_signed");
        };
        let server = (*tls.server()).clone();
        self.shown.push((socket.local_addr()?, listener.clone(), tls));
        Ok(Some(server))
    }

    /// What a listener verifies servers by.
    pub(super) fn verify_by(&mut self, trust: Option<OriginTrust>) {
        self.trusts.extend(trust);
    }

    /// Clients of this listener speak TLS.
    pub(super) fn has(&self, address: SocketAddr) -> bool {
        self.shown.iter().any(|(of, ..)| *of == address)
    }

    /// Reads all again, for connections to come: certificates that are shown, roots, and lists of
    /// revoked certificates. What cannot be read stays as it was.
    pub(super) fn renew(&self, config: &Config) {
        for trust in &self.trusts {
            if let Err(error) = trust.reload() {
                let error = format!("{:#}", anyhow::Error::from(error));
                tracing::error!(error, "servers are verified as before");
            }
        }
        for (_, before, tls) in &self.shown {
            let now = config.web_listeners().find(|now| now.address == before.address);
            match tls.prepare(config, now.unwrap_or(before)) {
                Ok(keys) => tls.apply(keys),
                Err(error) => {
                    let (address, error) = (&before.address, format!("{error:#}"));
                    tracing::error!(address, error, "the certificate stays as it was");
                }
            }
        }
    }
}
