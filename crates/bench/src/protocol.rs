//! Protocols of load generators and sinks.

use serde::Serialize;

/// How messages are handed over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Protocol {
    /// RFC 5321, to a gateway or MTA.
    Smtp,
    /// RFC 2033, to a delivery agent or a content filter.
    Lmtp,
    /// The protocol of spamc and spamd: `CHECK`.
    Spamd,
    /// The protocol of clamdscan and clamd: `INSTREAM`.
    Clamd,
    /// The protocol of rspamc and rspamd: `POST /checkv2`.
    Rspamd,
    /// Sendmail's milter protocol, version 6.
    Milter,
}

impl Protocol {
    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Protocol::Smtp => "smtp",
            Protocol::Lmtp => "lmtp",
            Protocol::Spamd => "spamd",
            Protocol::Clamd => "clamd",
            Protocol::Rspamd => "rspamd",
            Protocol::Milter => "milter",
        }
    }
}
