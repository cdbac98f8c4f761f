//! The protocols by which load is sent, and which sinks speak.

use serde::Serialize;

/// How messages are handed over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Protocol {
    /// RFC 5321, to a gateway or MTA.
    Smtp,
    /// RFC 2033, to a delivery agent or a content filter.
    Lmtp,
    /// What spamc speaks to spamd: `CHECK`.
    Spamd,
    /// What clamdscan speaks to clamd: `INSTREAM`.
    Clamd,
    /// What rspamc speaks to rspamd: `POST /checkv2`.
    Rspamd,
    /// What an MTA speaks to its mail filters, version 6.
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
