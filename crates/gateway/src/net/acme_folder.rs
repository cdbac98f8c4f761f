//! Where the certificate of an authority lies.

use std::path::{Path, PathBuf};

/// Folder of account and certificate, in the data folder.
pub(crate) const FOLDER: &str = "acme";

/// The certificate with its key, in the data folder.
pub fn certificate(data: &Path) -> PathBuf {
    data.join(FOLDER).join("certificate.pem")
}
