//! TLS keys that are in the secrets process, as rustls sees them.

use std::sync::Arc;

use tokio_rustls::rustls::pki_types::{CertificateDer, SubjectPublicKeyInfoDer};
use tokio_rustls::rustls::sign::{CertifiedKey, Signer, SigningKey};
use tokio_rustls::rustls::{Error, SignatureAlgorithm, SignatureScheme};

use super::{Certificate, KeyId, Request, Secrets};
use crate::config::ListenerSettings;

impl Secrets {
    /// The certificates of a listener, with keys that ask the process.
    ///
    /// # Errors
    /// If the process knows no such listener.
    pub(crate) fn certificates(
        self: &Arc<Self>,
        listener: &ListenerSettings,
    ) -> anyhow::Result<Vec<Arc<CertifiedKey>>> {
        let (address, certificate) = (listener.address.clone(), listener.certificate.clone());
        let certificates: Vec<Certificate> =
            self.call(&Request::Certificates { address, certificate })?;
        let made = certificates.into_iter().map(|certificate| {
            let key = RemoteKey::new(self, &certificate);
            let chain = certificate.chain.into_iter().map(CertificateDer::from).collect();
            Arc::new(CertifiedKey::new(chain, Arc::new(key)))
        });
        Ok(made.collect())
    }

    fn sign_tls(&self, key: KeyId, scheme: u16, message: &[u8]) -> anyhow::Result<Vec<u8>> {
        self.call(&Request::SignTls { key, scheme, message: message.to_vec() })
    }
}

/// A key whose private half is in the secrets process.
#[derive(Debug)]
struct RemoteKey {
    secrets: Arc<Secrets>,
    id: KeyId,
    public: Option<Vec<u8>>,
    schemes: Vec<SignatureScheme>,
}

impl RemoteKey {
    fn new(secrets: &Arc<Secrets>, certificate: &Certificate) -> Self {
        RemoteKey {
            secrets: secrets.clone(),
            id: certificate.key,
            public: certificate.public.clone(),
            schemes: certificate.schemes.iter().map(|s| SignatureScheme::from(*s)).collect(),
        }
    }
}

impl SigningKey for RemoteKey {
    fn choose_scheme(&self, offered: &[SignatureScheme]) -> Option<Box<dyn Signer>> {
        let scheme = *self.schemes.iter().find(|s| offered.contains(s))?;
        Some(Box::new(RemoteSigner { secrets: self.secrets.clone(), id: self.id, scheme }))
    }

    fn public_key(&self) -> Option<SubjectPublicKeyInfoDer<'_>> {
        self.public.as_deref().map(SubjectPublicKeyInfoDer::from)
    }

    fn algorithm(&self) -> SignatureAlgorithm {
        self.schemes.first().map_or(SignatureAlgorithm::RSA, |scheme| match scheme {
            SignatureScheme::ED25519 => SignatureAlgorithm::ED25519,
            SignatureScheme::ECDSA_NISTP256_SHA256
            | SignatureScheme::ECDSA_NISTP384_SHA384
            | SignatureScheme::ECDSA_NISTP521_SHA512 => SignatureAlgorithm::ECDSA,
            _ => SignatureAlgorithm::RSA,
        })
    }
}

#[derive(Debug)]
struct RemoteSigner {
    secrets: Arc<Secrets>,
    id: KeyId,
    scheme: SignatureScheme,
}

impl Signer for RemoteSigner {
    fn sign(&self, message: &[u8]) -> Result<Vec<u8>, Error> {
        let signed = self.secrets.sign_tls(self.id, self.scheme.into(), message);
        signed.map_err(|why| Error::General(format!("{why:#}")))
    }

    fn scheme(&self) -> SignatureScheme {
        self.scheme
    }
}

/// Every scheme that a key may have, those that rustls prefers first.
const SCHEMES: [SignatureScheme; 10] = [
    SignatureScheme::RSA_PSS_SHA512,
    SignatureScheme::RSA_PSS_SHA384,
    SignatureScheme::RSA_PSS_SHA256,
    SignatureScheme::RSA_PKCS1_SHA512,
    SignatureScheme::RSA_PKCS1_SHA384,
    SignatureScheme::RSA_PKCS1_SHA256,
    SignatureScheme::ECDSA_NISTP256_SHA256,
    SignatureScheme::ECDSA_NISTP384_SHA384,
    SignatureScheme::ECDSA_NISTP521_SHA512,
    SignatureScheme::ED25519,
];

/// What a key can do, by IANA's numbers.
pub(crate) fn schemes_of(key: &dyn SigningKey) -> Vec<u16> {
    let can = |scheme: &&SignatureScheme| key.choose_scheme(&[**scheme]).is_some();
    SCHEMES.iter().filter(can).map(|scheme| u16::from(*scheme)).collect()
}
