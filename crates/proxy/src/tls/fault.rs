//! Errors of handshakes with servers.

use std::io;
use std::sync::Arc;

use gauntlet_mail::date;
use tokio_rustls::rustls::pki_types::UnixTime;
use tokio_rustls::rustls::{AlertDescription, CertificateError, Error, OtherError};

use crate::refusal::{CertificateFault, Refusal};

/// Names of a certificate that a page has; there are some with thousands.
const NAMES_MAX: usize = 3;
/// Characters of such a name.
const NAME_CHARS_MAX: usize = 80;

/// The library's error as ours.
fn fault_of(error: &CertificateError) -> CertificateFault {
    match error {
        CertificateError::Expired => CertificateFault::Expired(None),
        CertificateError::ExpiredContext { not_after, .. } => {
            CertificateFault::Expired(Some(day(*not_after)))
        }
        CertificateError::NotValidYet => CertificateFault::NotYetValid(None),
        CertificateError::NotValidYetContext { not_before, .. } => {
            CertificateFault::NotYetValid(Some(day(*not_before)))
        }
        CertificateError::NotValidForName => CertificateFault::WrongName(Vec::new()),
        CertificateError::NotValidForNameContext { presented, .. } => CertificateFault::WrongName(
            presented.iter().take(NAMES_MAX).map(|name| name_of(name)).collect(),
        ),
        CertificateError::UnknownIssuer => CertificateFault::UnknownIssuer,
        CertificateError::Revoked => CertificateFault::Revoked,
        CertificateError::UnknownRevocationStatus
        | CertificateError::ExpiredRevocationList
        | CertificateError::ExpiredRevocationListContext { .. } => {
            CertificateFault::RevocationUnknown
        }
        CertificateError::Other(other) if other.0.is::<SelfSigned>() => {
            CertificateFault::SelfSigned
        }
        _ => CertificateFault::Invalid,
    }
}

/// Marks a certificate whose issuer is its subject, which is not among the roots.
#[derive(Debug, thiserror::Error)]
#[error("the certificate is signed by itself")]
pub(crate) struct SelfSigned;

impl SelfSigned {
    pub(crate) fn error() -> Error {
        Error::InvalidCertificate(CertificateError::Other(OtherError(Arc::new(SelfSigned))))
    }
}

fn day(time: UnixTime) -> String {
    let days = time.as_secs() / (24 * 3600);
    date::day_name(i64::try_from(days).unwrap_or(i64::MAX))
}

/// A name as the library presents it, `DnsName("a.example")`, without that.
fn name_of(presented: &str) -> String {
    let inner = presented.split_once('(').and_then(|(_, rest)| rest.strip_suffix(')'));
    inner.unwrap_or(presented).trim_matches('"').chars().take(NAME_CHARS_MAX).collect()
}

/// Why a handshake with a server failed.
pub(crate) fn refusal_of(error: &io::Error) -> Refusal {
    match error.get_ref().and_then(|inner| inner.downcast_ref::<Error>()) {
        Some(Error::InvalidCertificate(error)) => Refusal::Certificate(fault_of(error)),
        // A list that names the issuer, which did not sign it.
        Some(Error::InvalidCertRevocationList(_)) => {
            Refusal::Certificate(CertificateFault::RevocationUnknown)
        }
        Some(Error::NoCertificatesPresented) => Refusal::Certificate(CertificateFault::Invalid),
        Some(Error::AlertReceived(alert)) => Refusal::TlsAlert(alert_name(*alert)),
        Some(_) => Refusal::TlsHandshake,
        None if error.kind() == io::ErrorKind::InvalidData => Refusal::TlsHandshake,
        None => Refusal::Closed,
    }
}

/// The alert's name in RFC 8446 section 6, or its number.
fn alert_name(alert: AlertDescription) -> String {
    let text = format!("{alert:?}");
    let mut name = String::with_capacity(text.len() + 4);
    for (at, letter) in text.chars().enumerate() {
        let previous = text.chars().nth(at.wrapping_sub(1));
        let begins_word =
            letter.is_ascii_uppercase() && previous.is_some_and(|p| p.is_ascii_lowercase());
        if begins_word {
            name.push('_');
        }
        name.push(letter.to_ascii_lowercase());
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;
    use tokio_rustls::rustls::CertRevocationListError;

    fn refusal(error: Error) -> Refusal {
        refusal_of(&io::Error::new(io::ErrorKind::InvalidData, error))
    }

    #[test]
    fn each_fault_has_its_name_and_a_sentence() {
        let time = UnixTime::since_unix_epoch(Duration::from_secs(1_700_000_000));
        let expired = CertificateError::ExpiredContext { time, not_after: time };
        let refused = refusal(Error::InvalidCertificate(expired));
        assert_eq!(refused.name(), "certificate_expired");
        assert!(refused.to_string().contains("it expired on 2023-11-14"), "{refused}");
        for unknown in [
            Error::InvalidCertificate(CertificateError::UnknownRevocationStatus),
            Error::InvalidCertificate(CertificateError::ExpiredRevocationList),
            Error::InvalidCertRevocationList(CertRevocationListError::BadSignature),
        ] {
            assert_eq!(refusal(unknown).name(), "certificate_revocation_unknown");
        }
        let refused = refusal(SelfSigned::error());
        assert_eq!(refused.name(), "certificate_self_signed");
        let refused = refusal(Error::AlertReceived(AlertDescription::HandshakeFailure));
        assert!(refused.to_string().contains("handshake_failure"), "{refused}");
        assert_eq!(alert_name(AlertDescription::UnknownCA), "unknown_ca");
        assert_eq!(refusal(Error::General(String::new())).name(), "tls_handshake");
        assert_eq!(refusal_of(&io::ErrorKind::UnexpectedEof.into()).name(), "closed");
    }

    #[test]
    fn of_many_names_a_few_are_shown() {
        let presented: Vec<String> =
            (0..10_000).map(|n| format!("DnsName(\"a{n}.example\")")).collect();
        let expected = "b.example".try_into().unwrap();
        let error = CertificateError::NotValidForNameContext { expected, presented };
        let refused = refusal(Error::InvalidCertificate(error)).to_string();
        assert!(refused.contains("a0.example, a1.example, a2.example"), "{refused}");
        assert!(refused.len() < 300, "{refused}");
    }
}
