//! Certificates from an authority (ACME, RFC 8555), proved by HTTP-01 (section 8.3).
//!
//! One certificate for all names, with its key in one file that is replaced whole:
//! `acme/certificate.pem` in the data folder. It is renewed when two thirds of its life are over,
//! and when names or authority change. Listeners use a new one for connections to come; what
//! is open goes on. An attempt that fails is repeated, ever more slowly, since authorities count
//! failures; a reload tries at once.

mod order;
mod proofs;

pub use order::{Ordered, obtain};
pub use proofs::Proofs;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use gauntlet_store::files;

use crate::config::Config;
use crate::net::acme_folder::FOLDER;
pub use crate::net::acme_folder::certificate;
use crate::net::tls::{self, expiry};
use crate::secrets::{Failure, Secrets};

/// Who keeps account, key and certificate: the secrets process if there is one, else this one.
#[derive(Debug, Clone, Copy)]
pub struct AcmeStore<'k> {
    /// Settings of the certificates and of their folder.
    pub config: &'k Config,
    /// The secrets process, which then keeps all three.
    pub secrets: Option<&'k Arc<Secrets>>,
}

impl AcmeStore<'_> {
    /// See [`renew_at`].
    ///
    /// # Errors
    /// If the secrets process does not answer.
    pub fn renew_at(&self) -> anyhow::Result<i64> {
        match self.secrets {
            Some(secrets) => secrets.acme_renew_at(),
            None => Ok(renew_at(self.config)),
        }
    }

    /// See [`note`].
    ///
    /// # Errors
    /// The disk's.
    pub fn note(&self, failed: Option<Failure>) -> anyhow::Result<()> {
        match self.secrets {
            Some(secrets) => secrets.note_acme(failed),
            None => Ok(note(&self.config.node.data, failed.as_ref())?),
        }
    }

    /// See [`keep`].
    ///
    /// # Errors
    /// As [`keep`].
    pub fn keep(&self, ordered: Ordered) -> anyhow::Result<()> {
        match (self.secrets, ordered.key) {
            (Some(secrets), _) => secrets.keep_acme_chain(ordered.chain),
            (None, key) => keep(self.config, &key.unwrap_or_default(), &ordered.chain),
        }
    }

    fn account(&self) -> Option<Vec<u8>> {
        match self.secrets {
            Some(secrets) => secrets.acme_account().ok()?,
            None => read_account(&self.config.node.data),
        }
    }

    fn keep_account(&self, account: Vec<u8>) -> anyhow::Result<()> {
        match self.secrets {
            Some(secrets) => secrets.keep_acme_account(Some(account)),
            None => keep_account(&self.config.node.data, &account),
        }
    }

    fn forget_account(&self) -> anyhow::Result<()> {
        match self.secrets {
            Some(secrets) => secrets.keep_acme_account(None),
            None => Ok(forget_account(&self.config.node.data)?),
        }
    }

    /// A signing request in DER, with its key if this process made it.
    fn request(&self, names: Vec<String>) -> anyhow::Result<(Option<String>, Vec<u8>)> {
        match self.secrets {
            Some(secrets) => Ok((None, secrets.acme_request(names)?)),
            None => signing_request(names).map(|(key, request)| (Some(key), request)),
        }
    }
}

/// Before the first repetition of an attempt that failed; each further takes twice as long.
const RETRY_FIRST: Duration = Duration::from_secs(300);
/// The longest of these pauses.
const RETRY_MAX: Duration = Duration::from_secs(6 * 3600);

fn account(data: &Path) -> PathBuf {
    data.join(FOLDER).join("account.json")
}

fn failure(data: &Path) -> PathBuf {
    data.join(FOLDER).join("failure.json")
}

/// The account with an authority, in the form of the library that implements the protocol.
pub(crate) fn read_account(data: &Path) -> Option<Vec<u8>> {
    std::fs::read(account(data)).ok()
}

pub(crate) fn keep_account(data: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    let path = account(data);
    write(&path, bytes).with_context(|| path.display().to_string())
}

pub(crate) fn forget_account(data: &Path) -> io::Result<()> {
    match std::fs::remove_file(account(data)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// A new key in PEM, and a signing request of it for these names in DER (RFC 2986).
pub(crate) fn signing_request(names: Vec<String>) -> anyhow::Result<(String, Vec<u8>)> {
    let mut parameters = rcgen::CertificateParams::new(names).context("acme.names")?;
    parameters.distinguished_name = rcgen::DistinguishedName::new();
    let key = rcgen::KeyPair::generate().context("no key could be made")?;
    let request = parameters.serialize_request(&key).context("no signing request")?;
    Ok((key.serialize_pem(), request.der().to_vec()))
}

/// How the last attempt failed; none if it did not.
pub fn last_failure(data: &Path) -> Option<Failure> {
    serde_json::from_slice(&std::fs::read(failure(data)).ok()?).ok()
}

/// Writes down how an attempt went.
///
/// # Errors
/// The disk's.
pub fn note(data: &Path, failed: Option<&Failure>) -> io::Result<()> {
    match failed {
        Some(failed) => write(&failure(data), &serde_json::to_vec(failed)?),
        None => match std::fs::remove_file(failure(data)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        },
    }
}

/// The pause after so many failures in a row.
pub fn retry_pause(failures: u32) -> Duration {
    RETRY_FIRST.saturating_mul(1 << failures.saturating_sub(1).min(16)).min(RETRY_MAX)
}

/// When the certificate is to be renewed, in Unix seconds; 0 if there is none that fits the
/// settings.
pub fn renew_at(config: &Config) -> i64 {
    let path = certificate(&config.node.data);
    let fits = || -> anyhow::Result<i64> {
        let text = std::fs::read_to_string(&path)?;
        let from = origin(&config.acme.directory);
        anyhow::ensure!(text.lines().next() == Some(from.as_str()));
        let names = config.acme.names(&config.node.host_name());
        anyhow::ensure!(tls::is_for(&path, &names)?);
        let (start, end) = expiry::life(&path)?;
        Ok(end - (end - start) / 3)
    };
    fits().unwrap_or(0)
}

/// First line of a certificate's file: who gave it (RFC 7468 section 2 allows text before the first
/// boundary).
fn origin(directory: &str) -> String {
    format!("Issued by way of {directory}")
}

/// Keeps a certificate with its key: whole or not at all.
///
/// # Errors
/// The disk's, or that key and certificate do not belong together.
pub fn keep(config: &Config, key: &str, chain: &str) -> anyhow::Result<()> {
    let path = certificate(&config.node.data);
    let text = format!("{}\n{key}\n{chain}", origin(&config.acme.directory));
    let new = path.with_extension("new");
    write(&new, text.as_bytes()).with_context(|| new.display().to_string())?;
    tls::read(&new, &new).context("what the authority gave cannot be used")?;
    write(&path, text.as_bytes()).with_context(|| path.display().to_string())?;
    std::fs::remove_file(&new).with_context(|| new.display().to_string())
}

/// Writes a file for its owner only, whole or not at all.
fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    if let Some(folder) = path.parent() {
        files::create_folder(folder)?;
    }
    files::write_durably(path, bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Loaded;

    fn made(names: &[&str], start: i64, end: i64) -> (String, String) {
        let at = |s: i64| std::time::UNIX_EPOCH + Duration::from_secs(s.cast_unsigned());
        let names: Vec<String> = names.iter().map(|n| (*n).to_owned()).collect();
        let mut parameters = rcgen::CertificateParams::new(names).unwrap();
        parameters.not_before = at(start).into();
        parameters.not_after = at(end).into();
        let key = rcgen::KeyPair::generate().unwrap();
        let certificate = parameters.self_signed(&key).unwrap();
        (key.serialize_pem(), certificate.pem())
    }

    #[test]
    fn it_is_renewed_in_time_and_when_names_or_authority_change() {
        let folder = tempfile::tempdir().unwrap();
        let environment = |names: &str, authority: &str| {
            let pairs = [
                ("GAUNTLET_NODE__DATA", folder.path().to_str().unwrap()),
                ("GAUNTLET_NODE__NAME", "MX.example.org"),
                ("GAUNTLET_ACME__DIRECTORY", authority),
                ("GAUNTLET_ACME__NAMES", names),
            ];
            let pairs = pairs.map(|(key, value)| (key.to_owned(), value.to_owned()));
            Loaded::load(None, pairs).unwrap().config
        };
        let config = environment("", "https://one.example/");
        assert_eq!(renew_at(&config), 0, "there is none yet");
        let (key, chain) = made(&["mx.example.org"], 1_700_000_000, 1_700_000_900);
        keep(&config, &key, &chain).unwrap();
        assert_eq!(renew_at(&config), 1_700_000_600);
        assert_eq!(renew_at(&environment("mx.example.org", "https://one.example/")), 1_700_000_600);
        assert_eq!(renew_at(&environment("", "https://two.example/")), 0);
        assert_eq!(renew_at(&environment("mx.example.org,b.example", "https://one.example/")), 0);
        let (another, _) = made(&["mx.example.org"], 1, 2);
        keep(&config, &another, &chain).unwrap_err();
        assert_eq!(renew_at(&config), 1_700_000_600, "the old pair stays");
        use std::os::unix::fs::PermissionsExt;
        let mode = std::fs::metadata(certificate(folder.path())).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }

    #[test]
    fn failures_are_repeated_ever_more_slowly() {
        let pauses: Vec<u64> = (1..=9).map(|n| retry_pause(n).as_secs() / 60).collect();
        assert_eq!(pauses, [5, 10, 20, 40, 80, 160, 320, 360, 360]);
        assert_eq!(retry_pause(u32::MAX), RETRY_MAX);
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(last_failure(folder.path()), None);
        note(folder.path(), None).unwrap();
        let failed = Failure { at_ms: 7, why: "no way".into() };
        note(folder.path(), Some(&failed)).unwrap();
        assert_eq!(last_failure(folder.path()), Some(failed));
        note(folder.path(), None).unwrap();
        assert_eq!(last_failure(folder.path()), None);
    }
}
