//! Private keys and the user database in a process of their own (decision 170).
//!
//! The process that parses mail, SMTP and HTTP must not hold what an attacker would want most. So
//! `gauntlet serve` starts a second process from the same program, the *secrets process*. It
//! alone reads the private keys of TLS, DKIM, ARC and of channels, and the user database; it
//! signs and checks passwords on request, and never gives a key away. It parses no mail, no HTTP
//! and no SMTP, and opens no network socket. OpenSMTPD has such a process for its keys (`ca`),
//! OpenSSH has its monitor.
//!
//! The two talk over socket pairs made before the process is started ([`wire`]): one request at a
//! time on each, bounded, with a time-out. Without a secrets process (in commands, and in tests of
//! this library) the same code works on the files itself.

pub(crate) mod channel_signer;
pub mod client;
pub(crate) mod remote_key;
pub mod wire;

pub use client::Secrets;

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// Names a key without revealing anything about it: a hash of its public half.
pub(crate) type KeyId = [u8; 32];

/// A request to the secrets process. To add one: a line here, a line in
/// `State::answer` of `admin/secrets_process.rs`, and a method of [`Secrets`].
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Request {
    /// Whether it has started; the answer is its [`SandboxStatus`].
    Hello,
    /// Certificates and names of the keys of the listener with this address and these files.
    Certificates { address: String, certificate: Vec<PathBuf> },
    /// The text of the configuration file, which the node's sandbox may not let it read again.
    Configuration,
    /// From when to when the certificates of all listeners are good.
    CertificateLives,
    /// A signature of a TLS handshake.
    SignTls { key: KeyId, scheme: u16, message: Vec<u8> },
    /// Which DKIM keys there are.
    DkimKeys,
    /// A signature of a DKIM or ARC field.
    SignDkim { key: KeyId, message: Vec<u8> },
    /// Reads the configuration and all keys again; if any is unusable, everything stays as it was.
    Reload,
    /// The node goes on with what the last reload read; keys before the one before are forgotten.
    KeepReloaded,
    /// The ACME account (RFC 8555).
    AcmeAccount,
    /// Keeps the account; `None` forgets it.
    KeepAcmeAccount(Option<Vec<u8>>),
    /// Makes a key for these names, and a certificate signing request of it in DER.
    OrderAcme { names: Vec<String> },
    /// The chain in PEM for the last signing request: kept with its key, shown from now on.
    KeepAcmeChain { chain: String },
    /// When the certificate is to be renewed, Unix seconds; 0 if there is none that fits.
    AcmeRenewAt,
    /// How the last attempt failed.
    AcmeFailure,
    /// A method of the user database, see [`gauntlet_store::users::Remote`].
    Users { method: String, arguments: Vec<u8> },
    /// Whether the folder of a publisher's keys is one that a node may sign with.
    CheckChannelKeys,
    /// Signatures of metadata of a channel that the node publishes: the role, and what is signed.
    SignChannel { role: String, signed: String },
    /// Notes how an attempt went.
    NoteAcme(Option<Failure>),
}

/// One certificate of a listener.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Certificate {
    /// The chain in DER, the end entity's first.
    pub(crate) chain: Vec<Vec<u8>>,
    pub(crate) key: KeyId,
    /// SubjectPublicKeyInfo in DER, if the key's implementation gives it.
    pub(crate) public: Option<Vec<u8>>,
    /// Signature schemes of TLS (IANA's numbers) in the order in which the key prefers them.
    pub(crate) schemes: Vec<u16>,
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct DkimKeyInfo {
    pub(crate) id: KeyId,
    pub(crate) domain: String,
    pub(crate) selector: String,
    /// Name of the key's state: [`crate::outbound::signing::KeyState::name`].
    pub(crate) state: String,
    pub(crate) is_rsa: bool,
    pub(crate) path: PathBuf,
    /// Text of its DNS record.
    pub(crate) record: String,
}

/// Validity of a certificate file: seconds of Unix time, or why they cannot be read.
pub type Life = (PathBuf, Result<(i64, i64), String>);

/// How the process protects itself, for the node to say.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SandboxStatus {
    /// What the kernel enforces, in words.
    pub holds: Vec<String>,
    /// What it does not, and why.
    pub lacks: Vec<String>,
}

/// An attempt to get a certificate (ACME) that failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// Unix time in milliseconds.
    pub at_ms: i64,
    /// Why, and what to do.
    pub why: String,
}
