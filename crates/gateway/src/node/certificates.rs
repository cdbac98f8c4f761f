//! Certificates of the listeners: read again at a reload, got from an authority.

use std::sync::Arc;
use std::time::Duration;

use tokio_rustls::rustls::ServerConfig;

use super::Node;
use crate::acme::{self, Door, Failure, Keeper, Proofs};
use crate::clock::now_ms;
use crate::config::Config;

/// Between two looks whether a certificate is due.
const LOOK_PAUSE: Duration = Duration::from_secs(60);

impl Node {
    /// TLS with the node's certificates, for the console: those of the first listener that has any. None if
    /// no listener offers TLS.
    pub fn tls(&self) -> Option<Arc<ServerConfig>> {
        self.certificates.iter().flatten().next().map(|tls| tls.server())
    }

    /// Reads the certificates of the listeners again: those whose address stayed the same.
    pub(super) fn reload_certificates(&self, config: &Config) -> anyhow::Result<()> {
        let before = self.config();
        for (old, tls) in before.listener.iter().zip(&self.certificates) {
            let now = config.listener.iter().find(|new| new.address == old.address);
            if let (Some(now), Some(tls)) = (now, tls) {
                tls.reload(config, now)?;
            }
        }
        Ok(())
    }

    /// Gets certificates from the authority of the configuration, again and again. `door` is where it asks
    /// for proofs.
    pub(super) async fn keep_certificate(self: Arc<Self>, door: Option<Door>) {
        let mut stopping = self.stop.subscribe();
        let proofs = Arc::new(Proofs::default());
        let has_door = door.is_some();
        if let Some(door) = door {
            tokio::spawn(door.run(proofs.clone(), self.stop.subscribe()));
        }
        let mut failures = 0;
        loop {
            let config = self.config();
            // Without an answer there is nothing to renew: the node is about to end.
            let renew_at = self.keeper(&config).renew_at().unwrap_or(i64::MAX);
            let due = config.acme.is_on() && renew_at <= now_ms() / 1_000;
            let mut pause = LOOK_PAUSE;
            if due {
                let got = tokio::select! {
                    got = self.get_certificate(&config, &proofs, has_door) => got,
                    _ = stopping.wait_for(|stop| *stop) => return,
                };
                failures = if got { 0 } else { failures + 1 };
                pause = if got { LOOK_PAUSE } else { acme::retry_pause(failures) };
            }
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = self.reloaded.notified() => {}
                _ = stopping.wait_for(|stop| *stop) => return,
            }
        }
    }

    /// Gets one, and shows it from now on. Says in the log how it went, and keeps that for `doctor`.
    async fn get_certificate(
        &self,
        config: &Arc<Config>,
        proofs: &Arc<Proofs>,
        has_door: bool,
    ) -> bool {
        let names = config.acme.names(&config.node.host_name()).join(", ");
        let got = async {
            anyhow::ensure!(has_door, "acme.address is bound at the start only: restart the node");
            let ordered = acme::obtain(self.keeper(config), proofs).await?;
            self.keeper(config).keep(ordered)?;
            self.reload_certificates(config)
        };
        let failed = match got.await {
            Ok(()) => {
                tracing::info!(names, "a new certificate is shown from now on");
                None
            }
            Err(error) => {
                let why = format!("{error:#}");
                tracing::error!(names, error = why, "no certificate");
                Some(Failure { at_ms: now_ms(), why })
            }
        };
        let has_failed = failed.is_some();
        if let Err(error) = self.keeper(config).note(failed) {
            let error = format!("{error:#}");
            tracing::warn!(error, "how the attempt went cannot be kept for `gauntlet doctor`");
        }
        !has_failed
    }

    fn keeper<'k>(&'k self, config: &'k Config) -> Keeper<'k> {
        Keeper { config, secrets: self.secrets.as_ref() }
    }
}
