//! What goes wrong before anything is served.

use std::io;
use std::path::PathBuf;

use super::authority::AuthorityError;
use crate::settings::SettingsError;

/// Why TLS cannot be set up.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// The authority.
    #[error(transparent)]
    Authority(#[from] AuthorityError),
    /// A setting.
    #[error(transparent)]
    Settings(#[from] SettingsError),
    /// A file of roots that cannot be read.
    #[error("tls.roots or tls.more_roots {path}: cannot be read")]
    ReadRoots {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file without any certificate.
    #[error("tls.roots or tls.more_roots {0}: there is no certificate in PEM form in it")]
    NoRoots(PathBuf),
    /// A list of revoked certificates that cannot be used.
    #[error("tls.crls {path}: {why}")]
    Revocation {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        why: String,
    },
    /// Tunnels would be decrypted, and no server could be verified.
    #[error(
        "tunnels are to be decrypted (tls.ca_certificate), and no roots are known to verify \
         servers by: install the system's (ca-certificates), or name a PEM bundle in tls.roots"
    )]
    Unverifiable,
    /// The certificate of a listener, or its key.
    #[error("{path}: {why}")]
    Listener {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        why: String,
    },
    /// The library refuses its settings.
    #[error("TLS: {0}")]
    Library(String),
}
