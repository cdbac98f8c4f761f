//! The certificate of an explicit proxy's own listener: clients speak TLS to the proxy itself, so
//! that the network between them sees neither their logins nor where they go.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use arc_swap::ArcSwap;
use tokio_rustls::rustls::crypto::ring::{Ticketer, default_provider, sign::any_supported_type};
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::server::{ClientHello, NoServerSessionStorage, ResolvesServerCert};
use tokio_rustls::rustls::sign::CertifiedKey;
use tokio_rustls::rustls::{Error, ServerConfig};

use super::error::TlsError;
use super::origin::{HTTP1, HTTP2};

/// A chain and its key in files, which may be replaced while the proxy runs.
#[derive(Debug)]
pub struct ListenerCertificate {
    chain: PathBuf,
    key: PathBuf,
    shown: ArcSwap<CertifiedKey>,
}

impl ResolvesServerCert for ListenerCertificate {
    fn resolve(&self, _hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.shown.load_full())
    }
}

impl ListenerCertificate {
    /// Reads a chain (PEM, the listener's own certificate first) and its key (PEM).
    ///
    /// # Errors
    /// If a file cannot be used, or they do not belong together.
    pub fn open(chain: &Path, key: &Path) -> Result<Self, TlsError> {
        let shown = ArcSwap::from(read(chain, key)?);
        Ok(ListenerCertificate { chain: chain.to_owned(), key: key.to_owned(), shown })
    }

    /// Reads the files anew: connections to come are shown what is in them now.
    ///
    /// # Errors
    /// As [`ListenerCertificate::open`]; then it stays as it was.
    pub fn reload(&self) -> Result<(), TlsError> {
        self.shown.store(read(&self.chain, &self.key)?);
        Ok(())
    }

    /// TLS for a listener that shows this.
    ///
    /// # Errors
    /// If the system gives no random numbers.
    pub fn config(self: &Arc<Self>) -> Result<ServerConfig, TlsError> {
        let library = |error: Error| TlsError::Library(error.to_string());
        let shown: Arc<dyn ResolvesServerCert> = Arc::clone(self) as _;
        let mut server = ServerConfig::builder_with_provider(Arc::new(default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(library)?
            .with_no_client_auth()
            .with_cert_resolver(shown);
        // Tickets are made from a key of this process: no memory is held for sessions that ended.
        server.ticketer = Ticketer::new().map_err(library)?;
        server.session_storage = Arc::new(NoServerSessionStorage {});
        Ok(server)
    }
}

/// The same with the protocols that a proxy's clients may choose from.
pub(crate) fn with_protocols(mut config: ServerConfig) -> Arc<ServerConfig> {
    config.alpn_protocols = vec![HTTP2.to_vec(), HTTP1.to_vec()];
    Arc::new(config)
}

fn read(chain: &Path, key: &Path) -> Result<Arc<CertifiedKey>, TlsError> {
    let wrong = |path: &Path| {
        let path = path.to_owned();
        move |why: String| TlsError::Listener { path, why }
    };
    let bytes = std::fs::read(chain).map_err(|e| wrong(chain)(e.to_string()))?;
    let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&bytes).collect();
    let certificates = certificates.map_err(|e| wrong(chain)(e.to_string()))?;
    if certificates.is_empty() {
        return Err(wrong(chain)("there is no certificate in PEM form in it".to_owned()));
    }
    let bytes = std::fs::read(key).map_err(|e| wrong(key)(e.to_string()))?;
    let private = PrivateKeyDer::from_pem_slice(&bytes);
    let private =
        private.map_err(|_| wrong(key)("there is no key in PEM form in it".to_owned()))?;
    let signing = any_supported_type(&private).map_err(|e| wrong(key)(e.to_string()))?;
    let certified = CertifiedKey::new(certificates, signing);
    certified.keys_match().map_err(|e| wrong(key)(e.to_string()))?;
    Ok(Arc::new(certified))
}
