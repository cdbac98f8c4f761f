//! What is known of client or server.

use super::certificate::Certificate;
use super::fingerprint::Ja3;
use super::lists::Hello;

/// One side of a session.
#[derive(Debug, Default)]
pub struct Side {
    /// Version: of the hello, or else of the last record.
    pub version: u16,
    /// The 32 bytes of its hello.
    pub random: Option<[u8; 32]>,
    /// The identifier of the session in its hello, if not empty.
    pub session_id: Option<Vec<u8>>,
    /// The host that it asks for.
    pub sni: Option<Vec<u8>>,
    /// What its hello offers or chooses.
    pub hello: Hello,
    /// JA3 (of a server JA3S).
    pub fingerprint: Ja3,
    /// Fields of the first certificate.
    pub certificate: Option<Certificate>,
    /// All certificates, in DER, first one first.
    pub chain: Vec<Vec<u8>>,
    /// A message with certificates was seen.
    pub(super) has_sent_certificates: bool,
}
