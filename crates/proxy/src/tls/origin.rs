//! TLS to servers: verified at full strength, whoever asks.

use std::fs;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use arc_swap::ArcSwapOption;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::client::danger::{
    HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier,
};
use tokio_rustls::rustls::client::{ResolvesClientCert, Resumption, WebPkiServerVerifier};
use tokio_rustls::rustls::crypto::CryptoProvider;
use tokio_rustls::rustls::crypto::ring::default_provider;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use tokio_rustls::rustls::sign::CertifiedKey;
use tokio_rustls::rustls::{
    CertificateError, ClientConfig, ClientConnection, DigitallySignedStruct, Error, RootCertStore,
    SignatureScheme,
};
use x509_parser::prelude::{FromDer, X509Certificate};

use super::error::TlsError;
use super::fault::{SelfSigned, refusal_of};
use super::revocation;
use crate::refusal::{CertificateFault, Refusal};
use crate::settings::{TlsSettings, UnknownRevocation};
use crate::stream::Stream;

/// Bytes of plain text that one connection may hold back for a peer that does not read.
pub(crate) const BUFFER_BYTES_MAX: usize = 64 * 1024;

pub(crate) const HTTP1: &[u8] = b"http/1.1";
pub(crate) const HTTP2: &[u8] = b"h2";

/// What a connection is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Protocols {
    /// HTTP of any version.
    Any,
    /// HTTP/1.1 alone: only there a connection can become one of another protocol.
    Http1,
}

/// Makes connections to servers secure.
#[derive(Debug)]
pub(crate) struct OriginTls {
    /// None without roots: then nobody is trusted.
    config: ArcSwapOption<ClientConfig>,
    settings: TlsSettings,
    wait_max: Duration,
}

/// Whom a proxy trusts, to read it anew while the proxy runs.
#[derive(Debug, Clone)]
pub struct OriginTrust(pub(crate) Arc<OriginTls>);

impl OriginTrust {
    /// Reads roots and lists of revoked certificates anew: connections to come are verified by what
    /// is in the files now.
    ///
    /// # Errors
    /// If a file cannot be used; then all stays as it was.
    pub fn reload(&self) -> Result<(), TlsError> {
        self.0.config.store(config(&self.0.settings)?.map(Arc::new));
        Ok(())
    }
}

/// A secure connection.
pub(crate) struct Secured {
    pub(crate) stream: TlsStream<Box<dyn Stream>>,
    pub(crate) is_http2: bool,
    /// The server asked for a certificate of the client, and did without.
    pub(crate) asks_for_certificate: bool,
}

/// A server that was verified.
#[derive(Debug)]
pub(crate) struct Verified {
    /// It asked for a certificate of the client; its connection is not kept.
    pub(crate) asks_for_certificate: bool,
}

/// Why there is no secure connection.
#[derive(Debug)]
pub(crate) struct Unsecured {
    pub(crate) refusal: Refusal,
    /// The server asked for a certificate of the client before.
    pub(crate) asks_for_certificate: bool,
}

impl OriginTls {
    /// With the roots of the settings; without any, no server can be verified.
    ///
    /// # Errors
    /// If a file of roots cannot be read, or has none; if a list of revoked certificates cannot be
    /// used.
    pub(crate) fn new(settings: &TlsSettings, wait_max: Duration) -> Result<Self, TlsError> {
        let config = ArcSwapOption::from(config(settings)?.map(Arc::new));
        Ok(OriginTls { config, settings: settings.clone(), wait_max })
    }

    /// Speaks TLS over a connection, and verifies that the server is `name`, a host name or an
    /// address.
    ///
    /// # Errors
    /// Why it is not secure.
    pub(crate) async fn secure(
        &self,
        stream: Box<dyn Stream>,
        name: &str,
        protocols: Protocols,
    ) -> Result<Secured, Unsecured> {
        let asked = Arc::new(Asked::default());
        let unsecured =
            |refusal| Unsecured { refusal, asks_for_certificate: asked.0.load(Ordering::Relaxed) };
        let server = ServerName::try_from(name.to_owned())
            .map_err(|_| unsecured(Refusal::Malformed("the address names no host")))?;
        let Some(config) = self.config.load_full() else {
            return Err(unsecured(Refusal::Certificate(CertificateFault::UnknownIssuer)));
        };
        let mut config = (*config).clone();
        config.client_auth_cert_resolver = Arc::clone(&asked) as Arc<dyn ResolvesClientCert>;
        config.alpn_protocols = match protocols {
            Protocols::Any => vec![HTTP2.to_vec(), HTTP1.to_vec()],
            Protocols::Http1 => vec![HTTP1.to_vec()],
        };
        let limited = |c: &mut ClientConnection| c.set_buffer_limit(Some(BUFFER_BYTES_MAX));
        let connector = TlsConnector::from(Arc::new(config));
        let connecting = connector.connect_with(server, stream, limited);
        let stream = match timeout(self.wait_max, connecting).await {
            Ok(stream) => stream.map_err(|error| unsecured(refusal_of(&error)))?,
            Err(_) => return Err(unsecured(Refusal::ConnectTimeout)),
        };
        let is_http2 = stream.get_ref().1.alpn_protocol() == Some(HTTP2);
        Ok(Secured { stream, is_http2, asks_for_certificate: asked.0.load(Ordering::Relaxed) })
    }

    /// Which of these protocols a server chooses, if any. Nothing else is said to it, so it is not
    /// verified: a client may trust a server that is not trusted here.
    ///
    /// # Errors
    /// If there is no handshake.
    pub(crate) async fn selected(
        &self,
        stream: Box<dyn Stream>,
        name: &str,
        protocols: &[Vec<u8>],
    ) -> Result<Option<Vec<u8>>, Refusal> {
        let server = ServerName::try_from(name.to_owned())
            .map_err(|_| Refusal::Malformed("the address names no host"))?;
        let provider = Arc::new(default_provider());
        let anyone = Arc::new(Anyone(Arc::clone(&provider)));
        let builder = ClientConfig::builder_with_provider(provider);
        let builder = builder.with_safe_default_protocol_versions();
        let builder = builder.map_err(|error| refusal_of(&io::Error::other(error)))?;
        let mut config =
            builder.dangerous().with_custom_certificate_verifier(anyone).with_no_client_auth();
        config.resumption = Resumption::disabled();
        config.alpn_protocols = protocols.to_vec();
        let connecting = TlsConnector::from(Arc::new(config)).connect(server, stream);
        match timeout(self.wait_max, connecting).await {
            Ok(Ok(stream)) => Ok(stream.get_ref().1.alpn_protocol().map(<[u8]>::to_vec)),
            Ok(Err(error)) => Err(refusal_of(&error)),
            Err(_) => Err(Refusal::ConnectTimeout),
        }
    }
}

/// Takes any certificate: for a handshake after which nothing is said.
#[derive(Debug)]
struct Anyone(Arc<CryptoProvider>);

impl ServerCertVerifier for Anyone {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

/// How servers are verified; none without roots.
fn config(settings: &TlsSettings) -> Result<Option<ClientConfig>, TlsError> {
    let mut roots = RootCertStore::empty();
    let bundle = Some(&settings.roots).filter(|path| !path.as_os_str().is_empty());
    for path in bundle.into_iter().chain(&settings.more_roots) {
        add_roots(&mut roots, path)?;
    }
    if roots.is_empty() {
        return Ok(None);
    }
    let roots = Arc::new(roots);
    let lists = revocation::read(&settings.crls, &roots)?;
    let provider = Arc::new(default_provider());
    let library = |error: &dyn std::error::Error| TlsError::Library(error.to_string());
    let verifier = WebPkiServerVerifier::builder_with_provider(roots, Arc::clone(&provider));
    let verifier = verifier.with_crls(lists);
    let verifier = match settings.unknown_revocation {
        UnknownRevocation::Allow => verifier.allow_unknown_revocation_status(),
        UnknownRevocation::Block => verifier.enforce_revocation_expiration(),
    };
    let verifier = Arc::new(Verifier(verifier.build().map_err(|e| library(&e))?));
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|e| library(&e))?
        .dangerous()
        .with_custom_certificate_verifier(verifier)
        .with_no_client_auth();
    // A resumed session would show neither a new certificate nor that the server asks for one;
    // connections are kept instead.
    config.resumption = Resumption::disabled();
    Ok(Some(config))
}

fn add_roots(roots: &mut RootCertStore, path: &Path) -> Result<(), TlsError> {
    let bytes =
        fs::read(path).map_err(|source| TlsError::ReadRoots { path: path.to_owned(), source })?;
    let all = CertificateDer::pem_slice_iter(&bytes).filter_map(Result::ok);
    let (added, _odd_ones_are_left_out) = roots.add_parsable_certificates(all);
    match added {
        0 => Err(TlsError::NoRoots(path.to_owned())),
        _ => Ok(()),
    }
}

/// Notes that the server asked for a certificate; has none.
#[derive(Debug, Default)]
struct Asked(AtomicBool);

impl ResolvesClientCert for Asked {
    fn resolve(&self, _: &[&[u8]], _: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        self.0.store(true, Ordering::Relaxed);
        None
    }

    fn has_certs(&self) -> bool {
        false
    }
}

/// The library's verification; of a certificate that nobody knows, also whether the server has
/// signed it itself.
#[derive(Debug)]
struct Verifier(Arc<WebPkiServerVerifier>);

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let verified = self.0.verify_server_cert(certificate, intermediates, name, ocsp, now);
        verified.map_err(|error| match &error {
            // A certificate of an authority that a server shows as its own is `Other`.
            Error::InvalidCertificate(
                CertificateError::UnknownIssuer | CertificateError::Other(_),
            ) if is_self_signed(certificate) => SelfSigned::error(),
            _ => error,
        })
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.0.verify_tls12_signature(message, certificate, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.0.verify_tls13_signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_verify_schemes()
    }
}

fn is_self_signed(certificate: &CertificateDer<'_>) -> bool {
    X509Certificate::from_der(certificate)
        .is_ok_and(|(_, x509)| x509.subject().as_raw() == x509.issuer().as_raw())
}
