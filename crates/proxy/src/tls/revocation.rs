//! Lists of certificates that their issuers took back (CRL, RFC 5280 section 5), read from files.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use tokio_rustls::rustls::RootCertStore;
use tokio_rustls::rustls::client::WebPkiServerVerifier;
use tokio_rustls::rustls::crypto::ring::default_provider;
use tokio_rustls::rustls::pki_types::CertificateRevocationListDer;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use x509_parser::prelude::{CertificateRevocationList, FromDer};

use super::error::TlsError;

type List = CertificateRevocationListDer<'static>;

/// Bytes of a file: the largest lists of public authorities have some ten million.
const FILE_BYTES_MAX: u64 = 64 * 1024 * 1024;
/// Lists of all files: the list of an issuer is searched for among them at each handshake.
const LISTS_MAX: usize = 1000;
/// What a list in PEM form begins with.
const PEM: &[u8] = b"-----BEGIN X509 CRL-----";

/// The lists of these files, each in PEM (one or more) or in DER form (one).
///
/// # Errors
/// A file that cannot be read, has no list, or one that could not be asked.
pub(super) fn read(files: &[PathBuf], roots: &Arc<RootCertStore>) -> Result<Vec<List>, TlsError> {
    let mut all = Vec::new();
    for path in files {
        let lists = lists(path).map_err(|why| wrong(path, why))?;
        for list in &lists {
            check(list, roots).map_err(|why| wrong(path, why))?;
            warn_if_over(path, list);
        }
        all.extend(lists);
        if all.len() > LISTS_MAX {
            return Err(wrong(path, format!("more than {LISTS_MAX} lists are too many")));
        }
    }
    Ok(all)
}

fn wrong(path: &Path, why: String) -> TlsError {
    TlsError::Revocation { path: path.to_owned(), why }
}

fn lists(path: &Path) -> Result<Vec<List>, String> {
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(|error| error.to_string())?;
    file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes).map_err(|error| error.to_string())?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        return Err(format!("it is larger than {FILE_BYTES_MAX} bytes"));
    }
    if memchr::memmem::find(&bytes, PEM).is_none() {
        return Ok(vec![List::from(bytes)]);
    }
    let lists: Result<Vec<List>, _> = List::pem_slice_iter(&bytes).collect();
    lists.map_err(|error| format!("its PEM form is broken: {error}"))
}

/// Whether the library would take the list.
fn check(list: &List, roots: &Arc<RootCertStore>) -> Result<(), String> {
    let provider = Arc::new(default_provider());
    let verifier = WebPkiServerVerifier::builder_with_provider(Arc::clone(roots), provider);
    let built = verifier.with_crls([list.clone()]).build();
    built.map(drop).map_err(|error| format!("no list of revoked certificates (CRL): {error}"))
}

/// An old list still has what was revoked before; what was since is missing.
fn warn_if_over(path: &Path, list: &List) {
    let Ok((_, parsed)) = CertificateRevocationList::from_der(list) else { return };
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let Some(next) = parsed.next_update() else { return };
    if u64::try_from(next.timestamp()).is_ok_and(|next| next < now) {
        let (file, issuer) = (path.display(), parsed.issuer());
        tracing::warn!(%file, %issuer, next_update = %next, "list of revoked certificates is old");
    }
}
