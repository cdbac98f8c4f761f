//! What a hello offers or chooses.

use super::version;

/// Lists of a hello, without GREASE (RFC 8701).
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Hello {
    /// The highest version named.
    pub version: Option<u16>,
    /// Cipher suites.
    pub ciphers: Vec<u16>,
    /// Extensions in their order.
    pub extensions: Vec<u16>,
    /// Signature algorithms (of clients).
    pub signature_algorithms: Vec<u16>,
    /// Application protocols.
    pub alpn: Vec<Vec<u8>>,
}

impl Hello {
    pub(super) fn note_version(&mut self, number: u16) {
        if !version::is_grease(number) {
            self.version = self.version.max(Some(number));
        }
    }
}
