//! What is wrong with a server's certificate, in words.

use std::fmt;

/// Why a certificate does not prove that the server is the one that was asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CertificateFault {
    /// Its time is over, since this day if that is known.
    Expired(Option<String>),
    /// Its time has not begun; it does on this day.
    NotYetValid(Option<String>),
    /// It is for other names: the first of them.
    WrongName(Vec<String>),
    /// Nobody that is trusted has signed it.
    UnknownIssuer,
    /// The server has signed it itself.
    SelfSigned,
    /// Its issuer took it back.
    Revoked,
    /// Nothing that is known and in force says whether its issuer took it back.
    RevocationUnknown,
    /// Anything else: a wrong signature, a purpose that it is not for, an unreadable one.
    Invalid,
}

impl CertificateFault {
    /// The name in counters and in the log.
    pub fn name(&self) -> &'static str {
        match self {
            CertificateFault::Expired(_) => "certificate_expired",
            CertificateFault::NotYetValid(_) => "certificate_not_yet_valid",
            CertificateFault::WrongName(_) => "certificate_wrong_name",
            CertificateFault::UnknownIssuer => "certificate_unknown_issuer",
            CertificateFault::SelfSigned => "certificate_self_signed",
            CertificateFault::Revoked => "certificate_revoked",
            CertificateFault::RevocationUnknown => "certificate_revocation_unknown",
            CertificateFault::Invalid => "certificate_invalid",
        }
    }
}

impl fmt::Display for CertificateFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CertificateFault::Expired(None) => f.write_str("it has expired"),
            CertificateFault::Expired(Some(day)) => write!(f, "it expired on {day}"),
            CertificateFault::NotYetValid(None) => f.write_str("it is not yet valid"),
            CertificateFault::NotYetValid(Some(day)) => write!(f, "it is valid from {day} on"),
            CertificateFault::WrongName(names) if names.is_empty() => {
                f.write_str("it is for another name")
            }
            CertificateFault::WrongName(names) => {
                write!(f, "it is for other names: {}", names.join(", "))
            }
            CertificateFault::UnknownIssuer => {
                f.write_str("it was issued by nobody that this proxy trusts")
            }
            CertificateFault::SelfSigned => f.write_str("the server has signed it itself"),
            CertificateFault::Revoked => f.write_str("its issuer has revoked it"),
            CertificateFault::RevocationUnknown => {
                f.write_str("no list in force says whether its issuer has revoked it")
            }
            CertificateFault::Invalid => {
                f.write_str("it cannot be used for a server, or is broken")
            }
        }
    }
}
