//! What a reload changes for deliveries.

use std::sync::Arc;

use crate::config::{Config, SenderSettings};
use crate::net::tls::HopTls;
use crate::outbound::disarming::Tools;
use crate::outbound::route::Routes;
use crate::outbound::signing::KeyRing;
use crate::secrets::Secrets;

/// Why policies are not followed, though they should be, and how to correct it.
pub const MTA_STS_OFF: &str = "MTA-STS is off: no trusted roots can be used; install ca-certificates, name a PEM \
bundle in sender.roots, or set sender.mta_sts = false";

/// One generation of settings for deliveries: never changed, taken once for each attempt.
#[derive(Debug)]
pub struct OutboundSettings {
    /// Limits, waits and retries of deliveries.
    pub sender: SenderSettings,
    /// Which next hop, exchangers or Maildir take the mail of which recipient.
    pub routes: Arc<Routes>,
    /// Keys that sign and seal.
    pub key_ring: KeyRing,
    /// TLS to next hops.
    pub hop_tls: HopTls,
    /// What disarms files; none where nothing is unpacked.
    pub disarming: Option<Tools>,
    /// Messages that may wait for the quarantine.
    pub hold_backlog_max: u64,
}

impl OutboundSettings {
    /// Of this configuration; `disarming` belongs to the judge of the same generation.
    ///
    /// # Errors
    /// If a key or the trusted roots cannot be read.
    pub fn load(
        config: &Config,
        secrets: Option<&Arc<Secrets>>,
        disarming: Option<Tools>,
    ) -> anyhow::Result<Self> {
        let key_ring = match secrets {
            Some(secrets) => KeyRing::of(secrets)?,
            None => KeyRing::load(&config.node.inside(&config.dkim.keys))?,
        };
        Ok(OutboundSettings {
            sender: config.sender.clone(),
            routes: Arc::new(Routes::of(config)),
            key_ring: key_ring.with_seal(&config.dkim.seal_as)?,
            hop_tls: hop_tls(&config.sender)?,
            disarming,
            hold_backlog_max: config.quarantine.backlog_max,
        })
    }
}

/// How connections to next hops are protected; says in the log where policies cannot be followed.
///
/// # Errors
/// If `sender.roots` cannot be read or holds no certificate.
pub fn hop_tls(sender: &SenderSettings) -> anyhow::Result<HopTls> {
    let tls = crate::net::web::hop_tls(&sender.roots)?;
    if sender.mta_sts && !tls.can_verify() {
        tracing::error!("{MTA_STS_OFF}");
    }
    Ok(tls)
}
