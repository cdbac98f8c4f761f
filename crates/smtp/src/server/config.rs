//! Configuration of a listener's sessions: limits and extensions.

/// Limits of one session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SessionLimits {
    /// Longest command line, in bytes with its CR LF. RFC 5321 asks for 512 plus what extensions
    /// add; AUTH wants 12,288 (RFC 4954 section 4).
    pub line_bytes_max: usize,
    /// Largest message, in bytes.
    pub message_bytes_max: u64,
    /// Largest BDAT chunk in bytes that is skipped when it was refused before it was received; a
    /// larger one closes the connection. A client that pipelines has sent the chunk before it reads
    /// the refusal.
    pub refused_chunk_bytes_max: u64,
    /// Most recipients of one message; RFC 5321 asks for at least 100.
    pub recipients_max: usize,
    /// Errors after which the session ends with 421.
    pub errors_max: u16,
    /// Commands without a message between them after which the session ends with 421.
    pub commands_max: u16,
}

impl Default for SessionLimits {
    fn default() -> Self {
        SessionLimits {
            line_bytes_max: 12_288,
            message_bytes_max: 50 * 1024 * 1024,
            refused_chunk_bytes_max: 1024 * 1024,
            recipients_max: 1_000,
            errors_max: 10,
            commands_max: 200,
        }
    }
}

/// The extensions that a listener offers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Features {
    /// Offer STARTTLS (RFC 3207).
    pub starttls: bool,
    /// Offer AUTH PLAIN and LOGIN, over TLS only.
    pub auth: bool,
    /// Offer AUTH SCRAM-SHA-256 as well.
    pub scram: bool,
    /// Refuse MAIL before AUTH.
    pub auth_required: bool,
    /// LMTP (RFC 2033): LHLO, and a reply for each recipient.
    pub lmtp: bool,
}

/// Configuration that all sessions of a listener share.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionConfig {
    /// Host name in the greeting and in replies to EHLO.
    pub host: String,
    /// Limits of each session.
    pub limits: SessionLimits,
    /// Extensions that depend on the listener.
    pub features: Features,
}
