//! Certificates that the DNS names (DANE: RFC 6698, RFC 7671, for SMTP RFC 7672).

use std::sync::Arc;

use ring::digest::{SHA256, SHA512, digest};
use tokio_rustls::rustls::client::WebPkiServerVerifier;
use tokio_rustls::rustls::client::danger::{
    HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier,
};
use tokio_rustls::rustls::crypto::{self, CryptoProvider};
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use tokio_rustls::rustls::server::ParsedCertificate;
use tokio_rustls::rustls::{
    CertificateError, DigitallySignedStruct, Error, RootCertStore, SignatureScheme,
};

use crate::net::resolver::Data;

/// A TLSA record that SMTP can use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pin {
    /// The pin is of an authority above the server's certificate (DANE-TA), not of that itself
    /// (DANE-EE).
    authority: bool,
    /// What is compared: the public key, not the whole certificate.
    key_only: bool,
    form: Form,
    data: Vec<u8>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    Whole,
    Sha256,
    Sha512,
}

impl Pin {
    /// Reads a record. None for what SMTP does not use: usages 0 and 1 (RFC 7672 section 3.1.3),
    /// and unknown numbers.
    pub fn of(record: &Data) -> Option<Self> {
        let Data::Tlsa { usage, selector, matching, data } = record else { return None };
        let authority = match usage {
            2 => true,
            3 => false,
            _ => return None,
        };
        let key_only = match selector {
            0 => false,
            1 => true,
            _ => return None,
        };
        let form = match matching {
            0 => Form::Whole,
            1 if data.len() == 32 => Form::Sha256,
            2 if data.len() == 64 => Form::Sha512,
            _ => return None,
        };
        Some(Pin { authority, key_only, form, data: data.clone() })
    }

    fn fits(&self, certificate: &CertificateDer<'_>) -> bool {
        let parsed;
        let subject: &[u8] = if self.key_only {
            let Ok(read) = ParsedCertificate::try_from(certificate) else { return false };
            parsed = read.subject_public_key_info();
            parsed.as_ref()
        } else {
            certificate.as_ref()
        };
        match self.form {
            Form::Whole => self.data == subject,
            Form::Sha256 => digest(&SHA256, subject).as_ref() == self.data,
            Form::Sha512 => digest(&SHA512, subject).as_ref() == self.data,
        }
    }
}

/// Takes certificates that fit one of the pins.
#[derive(Debug)]
pub struct Pinned {
    pins: Vec<Pin>,
    provider: Arc<CryptoProvider>,
}

impl Pinned {
    /// At least one of these has to fit.
    pub fn new(pins: Vec<Pin>, provider: Arc<CryptoProvider>) -> Self {
        Pinned { pins, provider }
    }

    /// The chain leads to an authority that a pin names, and the certificate is for this host
    /// (RFC 7672 section 3.1.2).
    fn is_below_an_authority(
        &self,
        end: &CertificateDer<'_>,
        chain: &[CertificateDer<'_>],
        host: &ServerName<'_>,
        now: UnixTime,
    ) -> bool {
        let mut roots = RootCertStore::empty();
        for pin in self.pins.iter().filter(|pin| pin.authority) {
            for certificate in chain.iter().filter(|c| pin.fits(c)) {
                let _one_that_cannot_be_an_authority = roots.add(certificate.clone().into_owned());
            }
        }
        if roots.is_empty() {
            return false;
        }
        let verifier =
            WebPkiServerVerifier::builder_with_provider(Arc::new(roots), self.provider.clone());
        verifier.build().is_ok_and(|v| v.verify_server_cert(end, chain, host, &[], now).is_ok())
    }
}

impl ServerCertVerifier for Pinned {
    fn verify_server_cert(
        &self,
        end: &CertificateDer<'_>,
        chain: &[CertificateDer<'_>],
        host: &ServerName<'_>,
        _ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        // RFC 7672 section 3.1.1: with DANE-EE neither the name nor the dates matter.
        let itself = self.pins.iter().any(|pin| !pin.authority && pin.fits(end));
        if itself || self.is_below_an_authority(end, chain, host, now) {
            Ok(ServerCertVerified::assertion())
        } else {
            Err(Error::InvalidCertificate(CertificateError::ApplicationVerificationFailure))
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        crypto::verify_tls12_signature(message, cert, dss, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        crypto::verify_tls13_signature(message, cert, dss, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rcgen::{CertificateParams, CertifiedIssuer, IsCa, KeyPair};
    use tokio_rustls::rustls::crypto::ring;

    fn tlsa(usage: u8, selector: u8, matching: u8, data: &[u8]) -> Data {
        Data::Tlsa { usage, selector, matching, data: data.to_vec() }
    }

    fn takes(records: &[Data], chain: &[CertificateDer<'static>], host: &str) -> bool {
        let pins = records.iter().filter_map(Pin::of).collect();
        let verifier = Pinned::new(pins, Arc::new(ring::default_provider()));
        let host = ServerName::try_from(host.to_owned()).unwrap();
        let (end, rest) = chain.split_first().unwrap();
        verifier.verify_server_cert(end, rest, &host, &[], UnixTime::now()).is_ok()
    }

    #[test]
    fn the_servers_own_certificate_or_key() {
        let made = rcgen::generate_simple_self_signed(vec!["mx.example".into()]).unwrap();
        let other = rcgen::generate_simple_self_signed(vec!["mx.example".into()]).unwrap();
        let end = made.cert.der().clone();
        let key = ParsedCertificate::try_from(&end).unwrap().subject_public_key_info();
        let chain = [end.clone()];
        let sha256 = |bytes: &[u8]| digest(&SHA256, bytes).as_ref().to_vec();
        let fits = [
            tlsa(3, 0, 0, &end),
            tlsa(3, 0, 1, &sha256(&end)),
            tlsa(3, 1, 0, &key),
            tlsa(3, 1, 1, &sha256(&key)),
            tlsa(3, 1, 2, digest(&SHA512, &key).as_ref()),
        ];
        for record in &fits {
            assert!(takes(std::slice::from_ref(record), &chain, "any.name"), "{record}");
            assert!(!takes(
                std::slice::from_ref(record),
                &[other.cert.der().clone()],
                "mx.example"
            ));
        }
        for unused in
            [tlsa(1, 1, 1, &sha256(&key)), tlsa(3, 1, 1, b"short"), tlsa(3, 9, 1, &[0; 32])]
        {
            assert_eq!(Pin::of(&unused), None, "{unused}");
        }
    }

    #[test]
    fn an_authority_vouches_for_names() {
        let mut params = CertificateParams::new(vec![]).unwrap();
        params.is_ca = IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        let authority = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec!["mx.example".into()]).unwrap();
        let end = params.signed_by(&key, &authority).unwrap();
        let chain = [end.der().clone(), authority.der().clone()];
        let record = tlsa(2, 0, 1, digest(&SHA256, authority.der()).as_ref());
        assert!(takes(std::slice::from_ref(&record), &chain, "mx.example"));
        assert!(!takes(std::slice::from_ref(&record), &chain, "other.example"));
        assert!(!takes(&[record], &chain[..1], "mx.example"), "the chain must hold it");
    }
}
