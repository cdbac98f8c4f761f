//! What decrypts tunnels: the authority, what is exempted, and TLS to clients.

use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::ring::{Ticketer, default_provider};
use tokio_rustls::rustls::server::NoServerSessionStorage;
use tokio_rustls::rustls::sign::SingleCertAndKey;
use tokio_rustls::rustls::{AlertDescription, Error, ServerConfig, ServerConnection};
use tokio_rustls::server::TlsStream;

use super::authority::Authority;
use super::certificates::Certificates;
use super::error::TlsError;
use super::learned::Learned;
use super::origin::{BUFFER_BYTES_MAX, HTTP1, HTTP2};
use crate::counters::Counters;
use crate::settings::{Hosts, TlsSettings};
use crate::stream::Stream;

/// What decrypts tunnels.
#[derive(Debug)]
pub(crate) struct Interceptor {
    pub(crate) certificates: Certificates,
    pub(crate) learned: Learned,
    pub(crate) bypass: Hosts,
    server: ServerConfig,
}

/// Why there is no TLS with a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ClientFailure {
    /// It does not take our certificate, or ended the connection without a word.
    Rejected,
    /// Anything else: no version in common, a broken message, an ECH that was not decrypted.
    Other,
    /// It took too long.
    TimedOut,
}

impl Interceptor {
    /// Reads the authority. None if the settings name none.
    ///
    /// # Errors
    /// If it cannot be used, or servers cannot be verified.
    pub(crate) fn new(
        settings: &TlsSettings,
        counters: &Arc<Counters>,
    ) -> Result<Option<Self>, TlsError> {
        if !settings.is_intercepting() {
            return Ok(None);
        }
        let authority = Authority::load(&settings.ca_certificate, &settings.ca_key)?;
        if settings.roots.as_os_str().is_empty() && settings.more_roots.is_empty() {
            return Err(TlsError::Unverifiable);
        }
        let library = |error: Error| TlsError::Library(error.to_string());
        let placeholder = authority.issue("localhost", 1)?.0;
        let mut server = ServerConfig::builder_with_provider(Arc::new(default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(library)?
            .with_no_client_auth()
            .with_cert_resolver(Arc::new(SingleCertAndKey::from(placeholder)));
        server.alpn_protocols = vec![HTTP2.to_vec(), HTTP1.to_vec()];
        // Tickets are made from a key of this process: no memory is held for sessions that ended.
        server.ticketer = Ticketer::new().map_err(library)?;
        server.session_storage = Arc::new(NoServerSessionStorage {});
        let (days, max) = (settings.certificate_days, settings.certificate_cache_max);
        Ok(Some(Interceptor {
            certificates: Certificates::new(authority, days, max, Arc::clone(counters)),
            learned: Learned::new(settings),
            bypass: Hosts::new(&settings.bypass)?,
            server,
        }))
    }

    /// A tunnel of this client to this host is not decrypted, by a setting or by what was learned.
    pub(crate) fn is_exempted(&self, client: IpAddr, host: &str) -> bool {
        self.bypass.has(host) || self.learned.lesson(client, host, Instant::now()).is_some()
    }

    /// Speaks TLS with a client, as the server of this name; `negotiates`: by a protocol that the
    /// client offers, else by none, whatever it offers.
    ///
    /// # Errors
    /// Why it failed.
    pub(crate) async fn accept<S: Stream>(
        &self,
        stream: S,
        name: &str,
        negotiates: bool,
        wait_max: Duration,
    ) -> Result<TlsStream<S>, ClientFailure> {
        let key = self.certificates.get(name).map_err(|error| {
            tracing::warn!(host = name, %error, "no certificate could be made");
            ClientFailure::Other
        })?;
        let mut server = self.server.clone();
        server.cert_resolver = Arc::new(SingleCertAndKey::from(key));
        if !negotiates {
            server.alpn_protocols.clear();
        }
        let limited = |c: &mut ServerConnection| c.set_buffer_limit(Some(BUFFER_BYTES_MAX));
        let accepting = TlsAcceptor::from(Arc::new(server)).accept_with(stream, limited);
        match timeout(wait_max, accepting).await {
            Ok(accepted) => accepted.map_err(|error| failure_of(&error)),
            Err(_) => Err(ClientFailure::TimedOut),
        }
    }
}

/// What a failed handshake says about the client. Programs that trust one certificate alone send
/// one of several alerts, or none.
fn failure_of(error: &io::Error) -> ClientFailure {
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<Error>());
    match (inner, error.kind()) {
        (
            Some(Error::AlertReceived(
                AlertDescription::UnknownCA
                | AlertDescription::BadCertificate
                | AlertDescription::CertificateUnknown
                | AlertDescription::UnsupportedCertificate
                | AlertDescription::CertificateExpired
                | AlertDescription::CertificateRevoked
                | AlertDescription::HandshakeFailure
                | AlertDescription::AccessDenied
                | AlertDescription::InternalError
                | AlertDescription::UserCanceled
                | AlertDescription::CloseNotify,
            )),
            _,
        ) => ClientFailure::Rejected,
        (Some(_), _) => ClientFailure::Other,
        (None, io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset) => {
            ClientFailure::Rejected
        }
        (None, _) => ClientFailure::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_failed_handshake_says() {
        let alert = |alert| io::Error::new(io::ErrorKind::InvalidData, Error::AlertReceived(alert));
        for rejected in [
            alert(AlertDescription::UnknownCA),
            alert(AlertDescription::CertificateUnknown),
            io::ErrorKind::UnexpectedEof.into(),
        ] {
            assert_eq!(failure_of(&rejected), ClientFailure::Rejected, "{rejected}");
        }
        for other in [
            alert(AlertDescription::EncryptedClientHelloRequired),
            alert(AlertDescription::ProtocolVersion),
            io::Error::new(io::ErrorKind::InvalidData, Error::NoApplicationProtocol),
        ] {
            assert_eq!(failure_of(&other), ClientFailure::Other, "{other}");
        }
    }
}
