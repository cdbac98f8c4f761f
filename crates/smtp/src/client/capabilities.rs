//! The extensions that a server offers in its reply to EHLO.

/// The extensions of one server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Capabilities {
    /// Command pipelining (RFC 2920).
    pub pipelining: bool,
    /// Bodies with bytes above 127: 8BITMIME (RFC 6152).
    pub eight_bit: bool,
    /// Addresses and headers in UTF-8: SMTPUTF8 (RFC 6531).
    pub utf8: bool,
    /// Delivery status notifications (RFC 3461).
    pub dsn: bool,
    /// TLS on this connection: STARTTLS (RFC 3207).
    pub starttls: bool,
    /// AUTH with the mechanism PLAIN (RFC 4954).
    pub auth_plain: bool,
    /// The size may be announced in MAIL: SIZE (RFC 1870).
    pub size: bool,
    /// Largest message in bytes that SIZE announces; 0 if it names no limit.
    pub size_max: u64,
}

/// Parses the text of a reply to EHLO.
pub(super) fn capabilities(text: &str) -> Capabilities {
    let mut found = Capabilities::default();
    for line in text.split('\n').skip(1) {
        let mut words = line.split([' ', '=']).filter(|w| !w.is_empty());
        match words.next().unwrap_or_default().to_ascii_uppercase().as_str() {
            "PIPELINING" => found.pipelining = true,
            "8BITMIME" => found.eight_bit = true,
            "SMTPUTF8" => found.utf8 = true,
            "DSN" => found.dsn = true,
            "STARTTLS" => found.starttls = true,
            "AUTH" => found.auth_plain = words.any(|w| w.eq_ignore_ascii_case("PLAIN")),
            "SIZE" => {
                found.size = true;
                found.size_max = words.next().and_then(|w| w.parse().ok()).unwrap_or(0);
            }
            _ => {}
        }
    }
    found
}
