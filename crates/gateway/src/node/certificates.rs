//! Certificates of the listeners: read again at a reload, got from an authority.

use std::sync::Arc;
use std::time::Duration;

use tokio_rustls::rustls::ServerConfig;

use super::Node;
use crate::config::Config;
use crate::inbound::challenge_listener::ChallengeListener;
use crate::net::acme::{self, AcmeStore, Proofs};
use crate::secrets::Failure;

/// Between two polls whether a certificate is due.
const POLL_INTERVAL: Duration = Duration::from_secs(60);

impl Node {
    /// TLS with the node's certificates, for the console: those of the first listener that has any.
    /// None if no listener offers TLS.
    pub fn tls(&self) -> Option<Arc<ServerConfig>> {
        self.certificates.iter().flatten().next().map(|tls| tls.server())
    }

    /// Gets certificates from the authority of the configuration, again and again. `listener` is
    /// where it asks for proofs.
    pub(super) async fn keep_certificate(self: Arc<Self>, listener: Option<ChallengeListener>) {
        let mut stopping = self.stop.subscribe();
        let proofs = Arc::new(Proofs::default());
        let has_listener = listener.is_some();
        if let Some(listener) = listener {
            tokio::spawn(listener.run(proofs.clone(), self.stop.subscribe(), self.clock.clone()));
        }
        let mut failures = 0;
        loop {
            let config = self.config();
            // Without an answer there is nothing to renew: the node is about to end.
            let renew_at = self.acme_store(&config).renew_at().unwrap_or(i64::MAX);
            let due = config.acme.is_on() && renew_at <= self.clock.unix_s();
            let mut pause = POLL_INTERVAL;
            if due {
                let got = tokio::select! {
                    got = self.get_certificate(&config, &proofs, has_listener) => got,
                    _ = stopping.wait_for(|stop| *stop) => return,
                };
                failures = if got { 0 } else { failures + 1 };
                pause = if got { POLL_INTERVAL } else { acme::retry_pause(failures) };
            }
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = self.reloaded.notified() => {}
                _ = stopping.wait_for(|stop| *stop) => return,
            }
        }
    }

    /// Gets one, and shows it from now on. Says in the log how it went, and keeps that for
    /// `doctor`.
    async fn get_certificate(
        &self,
        config: &Arc<Config>,
        proofs: &Arc<Proofs>,
        has_listener: bool,
    ) -> bool {
        let names = config.acme.names(&config.node.host_name()).join(", ");
        let got = async {
            anyhow::ensure!(
                has_listener,
                "acme.address is bound at the start only: restart the node"
            );
            let ordered = acme::obtain(self.acme_store(config), proofs).await?;
            self.acme_store(config).keep(ordered)?;
            let all = self.prepare_certificates(config)?;
            all.into_iter().for_each(|(tls, keys)| tls.apply(keys));
            anyhow::Ok(())
        };
        let failed = match got.await {
            Ok(()) => {
                tracing::info!(names, "a new certificate is in use");
                None
            }
            Err(error) => {
                let why = format!("{error:#}");
                tracing::error!(names, error = why, "no certificate");
                Some(Failure { at_ms: self.clock.unix_ms(), why })
            }
        };
        let has_failed = failed.is_some();
        if let Err(error) = self.acme_store(config).note(failed) {
            let error = format!("{error:#}");
            tracing::warn!(error, "how the attempt went cannot be kept for `gauntlet doctor`");
        }
        !has_failed
    }

    fn acme_store<'k>(&'k self, config: &'k Config) -> AcmeStore<'k> {
        AcmeStore { config, secrets: self.secrets.as_ref() }
    }
}
