//! TLS of listeners and next hops: rustls with `ring`.
//!
//! A listener shows one of its certificates by the name that the client asks for (SNI). They are
//! read again at a reload; sessions that are open keep theirs. A listener without a certificate may
//! use one that the node signed itself at its first start: it proves nothing, but it encrypts,
//! which is all that servers ask of each other (RFC 7435), and what logins need.

pub mod dane;
pub mod expiry;

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, bail};
use arc_swap::ArcSwap;
use gauntlet_mail::TlsSession;
use gauntlet_store::files;
use tokio_rustls::rustls::client::danger::{
    HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier,
};
use tokio_rustls::rustls::client::{ClientConnection, WebPkiServerVerifier, verify_server_name};
use tokio_rustls::rustls::crypto::{self, CryptoProvider, WebPkiSupportedAlgorithms, ring};
use tokio_rustls::rustls::pki_types::pem::{self, PemObject};
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use tokio_rustls::rustls::server::{
    ClientHello, ParsedCertificate, ResolvesServerCert, ServerConnection,
};
use tokio_rustls::rustls::sign::CertifiedKey;
use tokio_rustls::rustls::{
    ClientConfig, DigitallySignedStruct, Error, RootCertStore, ServerConfig, SignatureScheme,
};
use tokio_rustls::{TlsAcceptor, TlsConnector};

use crate::config::{Config, ListenerSettings};
use crate::net::acme_folder;
use crate::privileges;
use crate::secrets::Secrets;
use crate::wire::Wire;

/// Bytes of plain text that one connection may hold back for a client that does not read.
const BUFFER_BYTES_MAX: usize = 64 * 1024;
/// Folder of the certificate that the node made itself, in the data folder.
const OWN_FOLDER: &str = "tls";

/// The certificates of a listener.
#[derive(Debug)]
pub struct ListenerTls {
    config: Arc<ServerConfig>,
    certificates: Arc<Certificates>,
    /// Who holds the private keys, if it is another process.
    secrets: Option<Arc<Secrets>>,
    /// TLS from the first byte.
    pub implicit: bool,
}

#[derive(Debug)]
struct Certificates(ArcSwap<Vec<Arc<CertifiedKey>>>);

impl ResolvesServerCert for Certificates {
    /// The first certificate for the name that is requested, else the first of all.
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let all = self.0.load();
        let wanted = hello.server_name().and_then(|name| ServerName::try_from(name).ok());
        let fits = |key: &&Arc<CertifiedKey>| {
            let (Some(name), Ok(end)) = (&wanted, key.end_entity_cert()) else { return false };
            ParsedCertificate::try_from(end).is_ok_and(|c| verify_server_name(&c, name).is_ok())
        };
        all.iter().find(fits).or(all.first()).cloned()
    }
}

/// Certificates of a listener that were read and are not shown yet.
#[derive(Debug)]
pub struct CertifiedKeys(Vec<Arc<CertifiedKey>>);

impl ListenerTls {
    /// Reads the certificates of a listener. None if it offers no TLS.
    ///
    /// # Errors
    /// If a file cannot be read, or a key does not belong to its certificate.
    pub fn load(config: &Config, listener: &ListenerSettings) -> anyhow::Result<Option<Self>> {
        Self::load_from(config, listener, None)
    }

    /// The same, with the private keys in this process.
    ///
    /// # Errors
    /// As [`ListenerTls::load`].
    pub fn load_from(
        config: &Config,
        listener: &ListenerSettings,
        secrets: Option<Arc<Secrets>>,
    ) -> anyhow::Result<Option<Self>> {
        let all = certificates(config, listener, secrets.as_ref())?;
        if all.is_empty() {
            return Ok(None);
        }
        let certificates = Arc::new(Certificates(ArcSwap::from_pointee(all)));
        let mut server = ServerConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()
            .context("TLS")?
            .with_no_client_auth()
            .with_cert_resolver(certificates.clone());
        // Tickets are made from a key of this process: no memory is held for sessions that ended.
        server.ticketer = ring::Ticketer::new().context("TLS tickets")?;
        server.session_storage = Arc::new(tokio_rustls::rustls::server::NoServerSessionStorage {});
        let (config, implicit) = (Arc::new(server), listener.implicit_tls);
        Ok(Some(ListenerTls { config, certificates, secrets, implicit }))
    }

    /// Reads the certificates again; [`ListenerTls::apply`] shows them.
    ///
    /// # Errors
    /// As [`ListenerTls::load`].
    pub fn prepare(
        &self,
        config: &Config,
        listener: &ListenerSettings,
    ) -> anyhow::Result<CertifiedKeys> {
        let all = certificates(config, listener, self.secrets.as_ref())?;
        if all.is_empty() {
            bail!("listener {}: taking TLS away needs a restart", listener.address);
        }
        Ok(CertifiedKeys(all))
    }

    /// Shows these certificates to connections to come.
    pub fn apply(&self, keys: CertifiedKeys) {
        self.certificates.0.store(Arc::new(keys.0));
    }

    /// From when on clients refuse what they are shown, in Unix seconds: the first end of its
    /// certificates. None if none of them can be read.
    pub fn ends_s(&self) -> Option<i64> {
        let shown = self.certificates.0.load();
        let firsts = shown.iter().filter_map(|key| key.cert.first());
        firsts.filter_map(|first| expiry::end(first).ok()).min()
    }

    /// What clients are shown, for others that serve with the same certificates: those of a reload,
    /// too.
    pub fn server(&self) -> Arc<ServerConfig> {
        self.config.clone()
    }

    /// Makes a client's connection a TLS one.
    ///
    /// # Errors
    /// The handshake's.
    pub async fn accept(&self, wire: Wire) -> io::Result<(Wire, TlsSession)> {
        let acceptor = TlsAcceptor::from(self.config.clone());
        let limited = |c: &mut ServerConnection| c.set_buffer_limit(Some(BUFFER_BYTES_MAX));
        let stream = acceptor.accept_with(wire, limited).await?;
        let connection = stream.get_ref().1;
        let mut session = describe(connection);
        session.server_name = connection.server_name().map(str::to_owned);
        Ok((Box::new(stream), session))
    }
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}

fn describe(connection: &tokio_rustls::rustls::CommonState) -> TlsSession {
    let version = connection.protocol_version().and_then(|v| v.as_str()).unwrap_or_default();
    let cipher = connection.negotiated_cipher_suite().and_then(|c| c.suite().as_str());
    TlsSession {
        version: version.replace('_', "."),
        cipher: cipher.unwrap_or_default().to_owned(),
        server_name: None,
    }
}

/// The certificates of a listener, from the process that holds the keys.
fn certificates(
    config: &Config,
    listener: &ListenerSettings,
    secrets: Option<&Arc<Secrets>>,
) -> anyhow::Result<Vec<Arc<CertifiedKey>>> {
    match secrets {
        Some(secrets) => secrets.certificates(listener),
        None => read_all(config, listener),
    }
}

/// The certificates of a listener; if it has none, the authority's, else the node's own if it may
/// use it.
pub(crate) fn read_all(
    config: &Config,
    listener: &ListenerSettings,
) -> anyhow::Result<Vec<Arc<CertifiedKey>>> {
    let mut pairs: Vec<(PathBuf, PathBuf)> =
        listener.certificate.iter().cloned().zip(listener.key.iter().cloned()).collect();
    if pairs.is_empty() && config.acme.is_on() {
        let path = acme_folder::certificate(&config.node.data);
        match privileges::with_file(config, &path, || read(&path, &path)) {
            Ok(given) => return Ok(vec![Arc::new(given)]),
            Err(error) if path.exists() => {
                let error = format!("{error:#}");
                tracing::error!(error, "the certificate cannot be used; a new one is requested");
            }
            Err(_) => {}
        }
    }
    let own = listener.self_signed || listener.implicit_tls || config.acme.is_on();
    if pairs.is_empty() && own {
        let folder = config.node.data.join(OWN_FOLDER);
        pairs.push(privileges::with_file(config, &folder, || self_signed(config))?);
    }
    read_pairs(config, &pairs)
}

/// The certificates that the settings name for a listener; none if they name none. Makes nothing.
///
/// # Errors
/// If a file cannot be read, or a key does not belong to its certificate.
pub(crate) fn read_named(
    config: &Config,
    listener: &ListenerSettings,
) -> anyhow::Result<Vec<Arc<CertifiedKey>>> {
    let pairs = listener.certificate.iter().cloned().zip(listener.key.iter().cloned());
    read_pairs(config, &pairs.collect::<Vec<_>>())
}

/// What is wrong with the certificates that the settings name, each problem once: a start would
/// refuse it. Makes nothing.
pub fn problems(config: &Config) -> Vec<anyhow::Error> {
    let read = config.listener.iter().map(|listener| read_named(config, listener));
    let mut told = BTreeSet::new();
    let is_new = |error: &anyhow::Error| told.insert(format!("{error:#}"));
    read.filter_map(Result::err).filter(is_new).collect()
}

fn read_pairs(
    config: &Config,
    pairs: &[(PathBuf, PathBuf)],
) -> anyhow::Result<Vec<Arc<CertifiedKey>>> {
    let read_as = |chain: &PathBuf, key: &PathBuf| {
        let users = |path: &PathBuf| privileges::is_users(config, path);
        match users(chain)? || users(key)? {
            true => privileges::with_file(config, &config.node.data, || read(chain, key)),
            false => read(chain, key),
        }
    };
    pairs.iter().map(|(chain, key)| read_as(chain, key).map(Arc::new)).collect()
}

/// Whether the first certificate of a file is for all these names.
///
/// # Errors
/// If it cannot be read.
pub(crate) fn is_for(path: &Path, names: &[String]) -> anyhow::Result<bool> {
    let first = CertificateDer::from_pem_file(path)?;
    let certificate = ParsedCertificate::try_from(&first)?;
    let covers = |name: &String| {
        let name = ServerName::try_from(name.as_str());
        name.is_ok_and(|name| verify_server_name(&certificate, &name).is_ok())
    };
    Ok(names.iter().all(covers))
}

/// What is wrong with a file of PEM that has other things in it, or none.
const NO_CERTIFICATE: &str = "has no certificate in it; name a PEM file with the node's own first \
(-----BEGIN CERTIFICATE-----) and those of its authorities behind it";
const NO_KEY: &str = "has no private key in it that can be used; name the PEM file that the \
certificate was requested with (-----BEGIN PRIVATE KEY-----), without a password";

/// A certificate chain and its key.
///
/// # Errors
/// If a file cannot be read, or the key does not belong to the certificate.
pub(crate) fn read(chain: &Path, key: &Path) -> anyhow::Result<CertifiedKey> {
    let named = |what: &str, path: &Path| format!("listener.{what} {}", path.display());
    let certificates = CertificateDer::pem_file_iter(chain)
        .and_then(|all| all.collect::<Result<Vec<_>, _>>())
        .with_context(|| named("certificate", chain))?;
    if certificates.is_empty() {
        bail!("{} {NO_CERTIFICATE}", named("certificate", chain));
    }
    let secret = match PrivateKeyDer::from_pem_file(key) {
        Err(pem::Error::NoItemsFound) => bail!("{} {NO_KEY}", named("key", key)),
        secret => secret.with_context(|| named("key", key))?,
    };
    match CertifiedKey::from_der(certificates, secret, &provider()) {
        Err(Error::InconsistentKeys(how)) => bail!(
            "{} does not go with its key: {how:?}; name the key that it was requested with, not {}",
            named("certificate", chain),
            key.display()
        ),
        pair => pair.with_context(|| named("certificate", chain)),
    }
}

/// The certificate that the node made for itself; makes it if there is none that can be used: it is
/// known to nobody, so that another does as well.
fn self_signed(config: &Config) -> anyhow::Result<(PathBuf, PathBuf)> {
    let folder = config.node.data.join(OWN_FOLDER);
    let pair = (folder.join("self-signed.pem"), folder.join("self-signed.key"));
    if pair.0.exists() || pair.1.exists() {
        match read(&pair.0, &pair.1) {
            Ok(_) => return Ok(pair),
            Err(error) => {
                let (path, error) = (pair.0.display(), format!("{error:#}"));
                tracing::warn!(%path, error, "the self-signed certificate is unusable; making another");
            }
        }
    }
    let host = config.node.host_name();
    let made = rcgen::generate_simple_self_signed(vec![host])
        .context("node.name cannot stand in a certificate")?;
    // Each whole or not at all; of two that do not go together both are made anew.
    files::create_folder(&folder)
        .and_then(|()| files::write_durably(&pair.1, made.signing_key.serialize_pem().as_bytes()))
        .and_then(|()| files::write_durably(&pair.0, made.cert.pem().as_bytes()))
        .with_context(|| folder.display().to_string())?;
    Ok(pair)
}

/// What a next hop's certificate has to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Certificate {
    /// Any certificate is accepted: TLS against eavesdroppers only.
    Any,
    /// Valid for the host's name, by the roots that are trusted.
    Valid,
    /// One that the DNS names (DANE).
    Pinned(Vec<dane::Pin>),
}

impl Certificate {
    /// What these TLSA records ask for: one of them must fit, if any can be used (RFC 7672 section
    /// 3.1).
    pub fn pinned(records: &[crate::net::resolver::Data]) -> Self {
        let pins: Vec<dane::Pin> = records.iter().filter_map(dane::Pin::of).collect();
        if pins.is_empty() { Certificate::Any } else { Certificate::Pinned(pins) }
    }
}

/// How connections to next hops are protected.
#[derive(Debug, Clone)]
pub struct HopTls {
    any: Arc<ClientConfig>,
    verified: Option<Arc<ClientConfig>>,
}

impl HopTls {
    /// With these trusted roots, a PEM bundle; without one nothing can be verified.
    ///
    /// # Errors
    /// If the bundle cannot be read or holds no certificate.
    pub fn load(roots: &Path) -> anyhow::Result<Self> {
        HopTls::load_for(roots, "sender.roots")
    }

    /// The same, for the setting of this name.
    ///
    /// # Errors
    /// As [`HopTls::load`].
    pub fn load_for(roots: &Path, setting: &str) -> anyhow::Result<Self> {
        HopTls::load_as(roots, setting, None)
    }

    /// The same, with a certificate and its key (PEM files) that are shown to servers which ask.
    ///
    /// # Errors
    /// As [`HopTls::load`], or if the two cannot be read or do not go together.
    pub fn load_as(
        roots: &Path,
        setting: &str,
        own: Option<(&Path, &Path)>,
    ) -> anyhow::Result<Self> {
        let algorithms = provider().signature_verification_algorithms;
        let any = client(Arc::new(AnyCertificate(algorithms)), own)?;
        if roots.as_os_str().is_empty() {
            return Ok(HopTls { any, verified: None });
        }
        let named = || format!("{setting} {}", roots.display());
        let mut store = RootCertStore::empty();
        let all = CertificateDer::pem_file_iter(roots).with_context(named)?;
        let (added, _odd_ones_are_left_out) = store.add_parsable_certificates(all.flatten());
        if added == 0 {
            bail!("{}: no certificate in it", named());
        }
        let verifier =
            WebPkiServerVerifier::builder_with_provider(Arc::new(store), provider()).build();
        Ok(HopTls { any, verified: Some(client(verifier.with_context(named)?, own)?) })
    }

    /// What encrypts and takes any certificate, and what verifies it if there are roots: for
    /// clients that speak another protocol.
    pub fn configurations(&self) -> (Arc<ClientConfig>, Option<Arc<ClientConfig>>) {
        (self.any.clone(), self.verified.clone())
    }

    /// Certificates can be verified: there are roots.
    pub fn can_verify(&self) -> bool {
        self.verified.is_some()
    }

    /// Makes a connection to `host` a TLS one; its certificate must be such a one.
    ///
    /// # Errors
    /// The handshake's, or that nothing can be verified without `sender.roots`.
    pub async fn connect(
        &self,
        wire: Wire,
        host: &str,
        certificate: &Certificate,
    ) -> Result<Wire, HandshakeError> {
        let config = match (certificate, &self.verified) {
            (Certificate::Any, _) => self.any.clone(),
            (Certificate::Valid, Some(verified)) => verified.clone(),
            (Certificate::Valid, None) => {
                return Err(HandshakeError::NoRoots);
            }
            (Certificate::Pinned(pins), _) => {
                client(Arc::new(dane::Pinned::new(pins.clone(), provider())), None)
                    .map_err(HandshakeError::Settings)?
            }
        };
        let name = ServerName::try_from(host.to_owned())
            .map_err(|error| HandshakeError::Name { host: host.to_owned(), error })?;
        let limited = |c: &mut ClientConnection| c.set_buffer_limit(Some(BUFFER_BYTES_MAX));
        let connecting = TlsConnector::from(config).connect_with(name, wire, limited);
        let stream = connecting.await?;
        Ok(Box::new(stream))
    }
}

/// Why a connection could not be encrypted as it was requested.
#[derive(Debug, thiserror::Error)]
pub enum HandshakeError {
    /// The name in a certificate was to be verified, and no authority is trusted.
    #[error("sender.roots is not set, the system has none: cannot verify")]
    NoRoots,
    /// The library refuses the settings.
    #[error("{0}")]
    Settings(anyhow::Error),
    /// The host is no name that a certificate can be for.
    #[error("{host}: {error}")]
    Name {
        /// The host as it is configured.
        host: String,
        /// What is wrong with it.
        error: tokio_rustls::rustls::pki_types::InvalidDnsNameError,
    },
    /// The peer or the network ended the handshake, or its certificate is not accepted.
    #[error("TLS: {0}")]
    Handshake(#[from] std::io::Error),
}

fn client(
    verifier: Arc<dyn ServerCertVerifier>,
    own: Option<(&Path, &Path)>,
) -> anyhow::Result<Arc<ClientConfig>> {
    let config = ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .context("TLS")?
        .dangerous()
        .with_custom_certificate_verifier(verifier);
    let Some((certificate, key)) = own else {
        return Ok(Arc::new(config.with_no_client_auth()));
    };
    let named = || format!("{} and {}", certificate.display(), key.display());
    let chain = CertificateDer::pem_file_iter(certificate).with_context(named)?;
    let chain = chain.collect::<Result<Vec<_>, _>>().with_context(named)?;
    let key = PrivateKeyDer::from_pem_file(key).with_context(named)?;
    Ok(Arc::new(config.with_client_auth_cert(chain, key).with_context(named)?))
}

/// Opportunistic TLS (RFC 7435): whose certificate it is does not matter, but that the peer holds
/// its key does.
#[derive(Debug)]
struct AnyCertificate(WebPkiSupportedAlgorithms);

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        crypto::verify_tls12_signature(message, cert, dss, &self.0)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        crypto::verify_tls13_signature(message, cert, dss, &self.0)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_schemes()
    }
}
