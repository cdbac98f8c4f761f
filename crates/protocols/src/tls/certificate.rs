//! Fields of certificates (RFC 5280).

use std::fmt::Write as _;

use ring::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};
use x509_parser::error::X509Error;
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::{FromDer as _, X509Certificate};

use super::event::Event;

/// Other names of the subject that are kept.
const ALTERNATIVE_NAMES_MAX: usize = 65_535;

/// Fields of a certificate (RFC 5280), as text where rules see text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Certificate {
    /// Distinguished name of who it is for.
    pub subject: String,
    /// Distinguished name of who signed it.
    pub issuer: String,
    /// Serial number: upper-case hexadecimal digits with colons.
    pub serial: String,
    /// SHA-1 of the whole: lower-case hexadecimal digits with colons.
    pub fingerprint: String,
    /// Other names: host names, addresses, URLs.
    pub alternative_names: Vec<String>,
    /// Seconds of the epoch from which it is valid.
    pub not_before: i64,
    /// Seconds of the epoch until which it is valid.
    pub not_after: i64,
}

impl Certificate {
    /// Reads one in DER.
    pub fn read(der: &[u8]) -> Result<Self, Event> {
        let (_, parsed) = X509Certificate::from_der(der).map_err(|error| event(&error))?;
        let names = match parsed.tbs_certificate.subject_alternative_name() {
            Ok(Some(extension)) => extension.value.general_names.as_slice(),
            _ => &[],
        };
        Ok(Self {
            subject: parsed.subject().to_string(),
            issuer: parsed.issuer().to_string(),
            serial: colons(parsed.tbs_certificate.raw_serial(), Case::Upper),
            fingerprint: colons(digest(&SHA1_FOR_LEGACY_USE_ONLY, der).as_ref(), Case::Lower),
            alternative_names: names.iter().take(ALTERNATIVE_NAMES_MAX).map(name).collect(),
            not_before: parsed.validity().not_before.timestamp(),
            not_after: parsed.validity().not_after.timestamp(),
        })
    }
}

fn name(name: &GeneralName<'_>) -> String {
    match name {
        GeneralName::DNSName(text) | GeneralName::URI(text) => (*text).to_owned(),
        GeneralName::IPAddress(bytes) => format!("{bytes:?}"),
        other => other.to_string(),
    }
}

#[derive(Clone, Copy)]
enum Case {
    Lower,
    Upper,
}

fn colons(bytes: &[u8], case: Case) -> String {
    let mut text = String::with_capacity(bytes.len() * 3);
    for (place, byte) in bytes.iter().enumerate() {
        if place > 0 {
            text.push(':');
        }
        let _ = match case {
            Case::Lower => write!(text, "{byte:02x}"),
            Case::Upper => write!(text, "{byte:02X}"),
        };
    }
    text
}

fn event(error: &x509_parser::nom::Err<X509Error>) -> Event {
    use x509_parser::nom::Err;

    let (Err::Error(error) | Err::Failure(error)) = error else {
        return Event::CertificateInvalidLength;
    };
    match error {
        X509Error::InvalidVersion => Event::CertificateInvalidVersion,
        X509Error::InvalidSerial => Event::CertificateInvalidSerial,
        X509Error::InvalidAlgorithmIdentifier => Event::CertificateInvalidAlgorithmIdentifier,
        X509Error::InvalidX509Name => Event::CertificateInvalidX509Name,
        X509Error::InvalidDate => Event::CertificateInvalidDate,
        X509Error::InvalidExtensions => Event::CertificateInvalidExtensions,
        X509Error::Der(_) => Event::CertificateInvalidDer,
        _ => Event::InvalidCertificate,
    }
}
