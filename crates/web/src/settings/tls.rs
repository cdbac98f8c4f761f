//! Settings of TLS: whom we trust, and whether tunnels are decrypted.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::{Hosts, SettingsError};

const DAY: u64 = 24 * 3600;

/// `[tls]`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TlsSettings {
    /// A PEM bundle of the roots by which servers are verified.
    pub roots: PathBuf,
    /// PEM files of more roots: those of the site's own servers.
    pub more_roots: Vec<PathBuf>,
    /// Lists of certificates that their issuers took back (CRL, RFC 5280 section 5; PEM or DER).
    pub crls: Vec<PathBuf>,
    /// Servers of whose certificates no list in force says whether they were taken back.
    pub unknown_revocation: UnknownRevocation,
    /// The certificate of the authority (PEM) by which tunnels are decrypted; empty decrypts none.
    pub ca_certificate: PathBuf,
    /// Its private key (PEM, PKCS #8), which nobody but its owner and group may read.
    pub ca_key: PathBuf,
    /// Hosts whose tunnels are not decrypted: `bank.example` with all below it, `*.bank.example`
    /// what is below it alone, or an address.
    pub bypass: Vec<String>,
    /// Tunnels whose ClientHello is encrypted (RFC 9849), as far as that can be seen.
    pub ech: TunnelPolicy,
    /// Tunnels without TLS, or with TLS for another protocol than HTTP: nothing looks into them.
    pub not_http: TunnelPolicy,
    /// What is done if a server asks for a certificate of the client.
    pub client_certificate: ClientCertificate,
    /// Show pages for refused tunnels within TLS: browsers do not show those outside.
    pub pages: bool,
    /// Certificates issued for servers that are kept.
    pub certificate_cache_max: usize,
    /// How long such a certificate is valid, in days; never longer than the authority's own.
    pub certificate_days: u64,
    /// Handshakes that a client breaks off for one host before that host is no longer decrypted for
    /// it; 0 never learns.
    pub learn_failures_max: u32,
    /// These failures are within so many seconds.
    pub learn_window_seconds: u64,
    /// How long what was learned is kept, in seconds.
    pub learn_keep_seconds: u64,
    /// Pairs of client and host, and hosts, of which something was learned.
    pub learn_hosts_max: usize,
}

impl Default for TlsSettings {
    fn default() -> Self {
        TlsSettings {
            roots: PathBuf::new(),
            more_roots: Vec::new(),
            crls: Vec::new(),
            unknown_revocation: UnknownRevocation::Allow,
            ca_certificate: PathBuf::new(),
            ca_key: PathBuf::new(),
            bypass: Vec::new(),
            ech: TunnelPolicy::Allow,
            not_http: TunnelPolicy::Allow,
            client_certificate: ClientCertificate::Bypass,
            pages: true,
            certificate_cache_max: 5000,
            certificate_days: 30,
            learn_failures_max: 3,
            learn_window_seconds: 600,
            learn_keep_seconds: DAY,
            learn_hosts_max: 10_000,
        }
    }
}

/// What is done with servers of whose certificates nothing says whether they were taken back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum UnknownRevocation {
    /// They pass; a list that is out of date still counts for what it has.
    Allow,
    /// They are refused: each certificate of a chain needs a list that is in force.
    Block,
}

/// What is done with tunnels that nothing can look into.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TunnelPolicy {
    /// They pass as they are.
    Allow,
    /// They end.
    Block,
}

/// What is done if a server asks for a certificate of the client, which only the client has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ClientCertificate {
    /// The host is not decrypted.
    Bypass,
    /// The client gets a page that says so.
    Block,
}

impl TlsSettings {
    /// Whether every value is within its bounds.
    ///
    /// # Errors
    /// The first that is not.
    pub(crate) fn check(&self) -> Result<(), SettingsError> {
        let size = |n: usize| u64::try_from(n).unwrap_or(u64::MAX);
        for (name, value, min, max) in [
            ("tls.certificate_cache_max", size(self.certificate_cache_max), 1, 1_000_000),
            // Programs of Apple take no more than 825 days, browsers less from public authorities.
            ("tls.certificate_days", self.certificate_days, 1, 397),
            ("tls.learn_failures_max", self.learn_failures_max.into(), 0, 1000),
            ("tls.learn_window_seconds", self.learn_window_seconds, 1, DAY),
            ("tls.learn_keep_seconds", self.learn_keep_seconds, 1, 365 * DAY),
            ("tls.learn_hosts_max", size(self.learn_hosts_max), 1, 1_000_000),
        ] {
            if value < min || value > max {
                return Err(SettingsError::Bounds { name, value, min, max });
            }
        }
        if self.unknown_revocation == UnknownRevocation::Block && self.crls.is_empty() {
            return Err(SettingsError::NoRevocationLists);
        }
        Hosts::new(&self.bypass).map(drop)
    }

    /// Tunnels are decrypted.
    pub fn is_intercepting(&self) -> bool {
        !self.ca_certificate.as_os_str().is_empty() || !self.ca_key.as_os_str().is_empty()
    }
}
