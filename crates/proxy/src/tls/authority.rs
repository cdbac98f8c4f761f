//! A site's own certificate authority: made, read, and asked for certificates.
//!
//! The private key is in no log and in no `Debug` output. Its file is refused if everybody may read
//! it: whoever has the key can impersonate every server to everybody who trusts the authority.

use std::fmt;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose,
    GeneralSubtree, IsCa, Issuer, KeyPair, KeyUsagePurpose, NameConstraints, SerialNumber,
};
use ring::digest::{SHA256, digest};
use ring::rand::{SecureRandom, SystemRandom};
use tokio_rustls::rustls::Error;
use tokio_rustls::rustls::crypto::ring::{default_provider, sign::any_ecdsa_type};
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::sign::{CertifiedKey, SigningKey};
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::{FromDer, X509Certificate};

/// The certificate's file in the folder of an authority.
pub const CERTIFICATE_FILE: &str = "ca.pem";
/// The key's file in the folder of an authority.
pub const KEY_FILE: &str = "ca.key";

const DAY: Duration = Duration::from_secs(24 * 3600);
/// Clocks of clients may be behind by so much.
const CLOCK_SKEW: Duration = DAY;
/// Characters of a common name (RFC 5280 appendix A.1).
const COMMON_NAME_CHARS_MAX: usize = 64;
/// A serial number has at most 20 bytes (RFC 5280 section 4.1.2.2).
const SERIAL_BYTES: usize = 16;

/// What goes wrong with an authority.
#[derive(Debug, thiserror::Error)]
pub enum AuthorityError {
    /// One of the two files is not named.
    #[error("tls.ca_certificate and tls.ca_key belong together: set both, or none")]
    Half,
    /// A file that cannot be read.
    #[error("{setting} {path}: cannot be read; make an authority with `gauntlet ca new`")]
    Read {
        /// The setting.
        setting: &'static str,
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Everybody may read the key.
    #[error(
        "tls.ca_key {0}: everybody may read it, and could impersonate any server with it; \
         `chmod 600` it, and make a new authority if others have read it"
    )]
    Readable(PathBuf),
    /// No certificate in the file.
    #[error("tls.ca_certificate {0}: there is no certificate in PEM form in it")]
    Certificate(PathBuf),
    /// No key that can be used in the file.
    #[error(
        "tls.ca_key {0}: there is no private key in it that can be used (PEM, PKCS #8: P-256, \
         P-384, Ed25519 or RSA); `openssl pkcs8 -topk8 -nocrypt` converts others"
    )]
    Key(PathBuf),
    /// They do not go together.
    #[error("tls.ca_key {key} is not the key of tls.ca_certificate {certificate}")]
    Mismatch {
        /// The certificate's file.
        certificate: PathBuf,
        /// The key's file.
        key: PathBuf,
    },
    /// The certificate is not one of an authority.
    #[error("tls.ca_certificate {0}: it is no certificate of an authority (CA:TRUE, keyCertSign)")]
    NoAuthority(PathBuf),
    /// Its time is over.
    #[error(
        "tls.ca_certificate {path}: it expired on {day}; make a new one with `gauntlet ca new`"
    )]
    Expired {
        /// The file.
        path: PathBuf,
        /// The day.
        day: String,
    },
    /// A file that is there already.
    #[error("{0} exists already: an authority is not overwritten; name another folder")]
    Exists(PathBuf),
    /// A file that cannot be written.
    #[error("{path}: cannot be written")]
    Write {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The library cannot make a certificate of this.
    #[error("a certificate for {0:?} cannot be made")]
    Make(String),
}

/// What a new authority is to be.
#[derive(Debug, Clone)]
pub struct NewAuthority {
    /// The name that people see in their programs.
    pub name: String,
    /// Days from now.
    pub days: u64,
    /// Domains, with all below them, for which alone its certificates are good; empty: all.
    pub permit: Vec<String>,
}

/// What everybody may know of an authority.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Description {
    /// The name.
    pub name: String,
    /// SHA-256 of the certificate, as `AB:CD:...`.
    pub fingerprint: String,
    /// When it becomes valid, in Unix seconds.
    pub not_before: i64,
    /// Its last second, in Unix seconds.
    pub not_after: i64,
    /// Domains that it is limited to; empty: none.
    pub permit: Vec<String>,
}

/// Makes an authority (EC P-256), and writes `ca.pem` and `ca.key` (mode 0600) into the folder,
/// which is made if it is not there.
///
/// # Errors
/// If one of the files exists, or cannot be written.
pub fn create(folder: &Path, new: &NewAuthority) -> Result<Description, AuthorityError> {
    let (certificate_file, key_file) = (folder.join(CERTIFICATE_FILE), folder.join(KEY_FILE));
    for file in [&certificate_file, &key_file] {
        if file.symlink_metadata().is_ok() {
            return Err(AuthorityError::Exists(file.clone()));
        }
    }
    let make = |_| AuthorityError::Make(new.name.clone());
    let key = KeyPair::generate().map_err(make)?;
    let now = SystemTime::now();
    let mut params = CertificateParams::default();
    params.not_before = (now - CLOCK_SKEW).into();
    params.not_after = (now + DAY * u32::try_from(new.days).unwrap_or(u32::MAX)).into();
    params.serial_number = Some(serial().map_err(|()| AuthorityError::Make(new.name.clone()))?);
    params.distinguished_name = common_name(&new.name);
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    if !new.permit.is_empty() {
        let permitted_subtrees = new.permit.iter().cloned().map(GeneralSubtree::DnsName).collect();
        params.name_constraints =
            Some(NameConstraints { permitted_subtrees, excluded_subtrees: Vec::new() });
    }
    let certificate = params.self_signed(&key).map_err(make)?;
    let description = describe(certificate.der())
        .map(|parsed| parsed.description)
        .ok_or_else(|| AuthorityError::Make(new.name.clone()))?;
    let failed = |path: &Path| {
        let path = path.to_owned();
        |source| AuthorityError::Write { path, source }
    };
    fs::create_dir_all(folder).map_err(failed(folder))?;
    write_new(&key_file, &key.serialize_pem(), 0o600).map_err(failed(&key_file))?;
    write_new(&certificate_file, &certificate.pem(), 0o644).map_err(failed(&certificate_file))?;
    Ok(description)
}

/// Writes a file that is not there yet, durably.
fn write_new(path: &Path, text: &str, mode: u32) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(mode).open(path)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()
}

/// An authority that issues certificates.
pub struct Authority {
    /// Sent after each certificate, unless clients know it as a root.
    chain: Vec<CertificateDer<'static>>,
    issuer: Issuer<'static, KeyPair>,
    description: Description,
    /// One key for all certificates: making one takes longer than signing.
    leaf_key: KeyPair,
    leaf_signer: Arc<dyn SigningKey>,
}

impl fmt::Debug for Authority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Authority").field(&self.description).finish()
    }
}

impl Authority {
    /// Reads an authority from its two files.
    ///
    /// # Errors
    /// If they cannot be read, do not go together, or are not those of an authority.
    pub fn load(certificate: &Path, key: &Path) -> Result<Self, AuthorityError> {
        if certificate.as_os_str().is_empty() || key.as_os_str().is_empty() {
            return Err(AuthorityError::Half);
        }
        let chain = read_chain(certificate)?;
        let first = chain.first().ok_or_else(|| AuthorityError::Certificate(certificate.into()))?;
        let no_certificate = || AuthorityError::Certificate(certificate.to_owned());
        let parsed = describe(first).ok_or_else(no_certificate)?;
        if !parsed.is_authority {
            return Err(AuthorityError::NoAuthority(certificate.to_owned()));
        }
        let description = parsed.description;
        if description.not_after < seconds(SystemTime::now()) {
            let day = gauntlet_mail::date::day_name(description.not_after.div_euclid(24 * 3600));
            return Err(AuthorityError::Expired { path: certificate.to_owned(), day });
        }
        let pair = read_key(key, certificate, &chain)?;
        let no_key = |_| AuthorityError::Key(key.to_owned());
        let issuer = Issuer::from_ca_cert_der(first, pair).map_err(no_key)?;
        let leaf_key = KeyPair::generate().map_err(no_key)?;
        let der = PrivateKeyDer::Pkcs8(leaf_key.serialize_der().into());
        let leaf_signer = any_ecdsa_type(&der).map_err(|_| AuthorityError::Key(key.to_owned()))?;
        let chain = if parsed.is_root { Vec::new() } else { chain };
        Ok(Authority { chain, issuer, description, leaf_key, leaf_signer })
    }

    /// What everybody may know of it.
    pub fn description(&self) -> &Description {
        &self.description
    }

    /// Its constraints let it issue certificates for this host.
    pub(crate) fn may_issue(&self, host: &str) -> bool {
        let below = |domain: &String| {
            let rest = host.strip_suffix(domain.trim_start_matches('.'));
            rest.is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
        };
        self.description.permit.is_empty() || self.description.permit.iter().any(below)
    }

    /// A certificate for a host, a name or an address, and until when it is valid.
    ///
    /// # Errors
    /// If the host cannot stand in a certificate.
    pub(crate) fn issue(
        &self,
        host: &str,
        days: u64,
    ) -> Result<(Arc<CertifiedKey>, SystemTime), AuthorityError> {
        let failed = || AuthorityError::Make(host.to_owned());
        let now = SystemTime::now();
        let ends = now + DAY * u32::try_from(days).unwrap_or(u32::MAX);
        let ends = ends.min(time(self.description.not_after));
        let begins = (now - CLOCK_SKEW).max(time(self.description.not_before));
        let mut params = CertificateParams::new([host.to_owned()]).map_err(|_| failed())?;
        params.not_before = begins.into();
        params.not_after = ends.into();
        // The library's own is a hash of the key, which is the same for all: browsers refuse two
        // certificates of one issuer and serial number.
        params.serial_number = Some(serial().map_err(|()| failed())?);
        params.distinguished_name = common_name(host);
        params.is_ca = IsCa::ExplicitNoCa;
        params.use_authority_key_identifier_extension = true;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        let made = params.signed_by(&self.leaf_key, &self.issuer).map_err(|_| failed())?;
        let mut chain = vec![made.der().clone()];
        chain.extend(self.chain.iter().cloned());
        Ok((Arc::new(CertifiedKey::new(chain, Arc::clone(&self.leaf_signer))), ends))
    }
}

/// Describes the authority of a certificate file.
///
/// # Errors
/// If it cannot be read, or is not one of an authority.
pub fn show(certificate: &Path) -> Result<Description, AuthorityError> {
    let chain = read_chain(certificate)?;
    let parsed = chain.first().and_then(describe);
    let parsed = parsed.ok_or_else(|| AuthorityError::Certificate(certificate.to_owned()))?;
    match parsed.is_authority {
        true => Ok(parsed.description),
        false => Err(AuthorityError::NoAuthority(certificate.to_owned())),
    }
}

fn read_chain(path: &Path) -> Result<Vec<CertificateDer<'static>>, AuthorityError> {
    let read = |source| AuthorityError::Read {
        setting: "tls.ca_certificate",
        path: path.to_owned(),
        source,
    };
    let bytes = fs::read(path).map_err(read)?;
    let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&bytes).collect();
    all.ok().filter(|all| !all.is_empty()).ok_or_else(|| AuthorityError::Certificate(path.into()))
}

/// The key, if it is that of the chain's first certificate.
fn read_key(
    path: &Path,
    certificate: &Path,
    chain: &[CertificateDer<'static>],
) -> Result<KeyPair, AuthorityError> {
    let failed =
        |source| AuthorityError::Read { setting: "tls.ca_key", path: path.to_owned(), source };
    let mode = fs::metadata(path).map_err(failed)?.permissions().mode();
    if mode & 0o007 != 0 {
        return Err(AuthorityError::Readable(path.to_owned()));
    }
    let bytes = fs::read(path).map_err(failed)?;
    let no_key = || AuthorityError::Key(path.to_owned());
    let der = PrivateKeyDer::from_pem_slice(&bytes).map_err(|_| no_key())?;
    let pair = KeyPair::try_from(&der).map_err(|_| no_key())?;
    match CertifiedKey::from_der(chain.to_vec(), der, &default_provider()) {
        Ok(_) => Ok(pair),
        Err(Error::InconsistentKeys(_)) => Err(AuthorityError::Mismatch {
            certificate: certificate.to_owned(),
            key: path.to_owned(),
        }),
        Err(_) => Err(no_key()),
    }
}

/// A certificate as far as it matters here.
struct Parsed {
    description: Description,
    is_authority: bool,
    is_root: bool,
}

fn describe(der: &CertificateDer<'static>) -> Option<Parsed> {
    let (_, x509) = X509Certificate::from_der(der).ok()?;
    let name = x509.subject().iter_common_name().next().and_then(|name| name.as_str().ok());
    let constraints = x509.name_constraints().ok().flatten();
    let permitted = constraints.and_then(|c| c.value.permitted_subtrees.as_ref());
    let permit = permitted.into_iter().flatten().filter_map(|subtree| match &subtree.base {
        GeneralName::DNSName(name) => Some(name.to_ascii_lowercase()),
        _ => None,
    });
    let hash = digest(&SHA256, der);
    let bytes: Vec<String> = hash.as_ref().iter().map(|byte| format!("{byte:02X}")).collect();
    let may_sign = x509.key_usage().ok().flatten().is_none_or(|usage| usage.value.key_cert_sign());
    Some(Parsed {
        description: Description {
            name: name.map_or_else(|| x509.subject().to_string(), str::to_owned),
            fingerprint: bytes.join(":"),
            not_before: x509.validity().not_before.timestamp(),
            not_after: x509.validity().not_after.timestamp(),
            permit: permit.collect(),
        },
        is_authority: x509.is_ca() && may_sign,
        is_root: x509.subject().as_raw() == x509.issuer().as_raw(),
    })
}

fn common_name(name: &str) -> DistinguishedName {
    let mut distinguished = DistinguishedName::new();
    let fits = name.chars().count() <= COMMON_NAME_CHARS_MAX;
    distinguished.push(DnType::CommonName, if fits { name } else { "gauntlet" });
    distinguished
}

/// A number that no other certificate has, positive as it must be.
fn serial() -> Result<SerialNumber, ()> {
    let mut bytes = [0; SERIAL_BYTES];
    SystemRandom::new().fill(&mut bytes).map_err(|_| ())?;
    if let Some(first) = bytes.first_mut() {
        *first = (*first & 0x7f) | 0x40;
    }
    Ok(SerialNumber::from_slice(&bytes))
}

fn seconds(at: SystemTime) -> i64 {
    let since = at.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    i64::try_from(since).unwrap_or(i64::MAX)
}

fn time(unix_seconds: i64) -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(u64::try_from(unix_seconds).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn new(permit: &[&str]) -> NewAuthority {
        let permit = permit.iter().map(|&name| name.to_owned()).collect();
        NewAuthority { name: "Office CA".to_owned(), days: 10, permit }
    }

    fn made(permit: &[&str]) -> (tempfile::TempDir, Authority) {
        let folder = tempfile::tempdir().unwrap();
        create(folder.path(), &new(permit)).unwrap();
        let authority =
            Authority::load(&folder.path().join(CERTIFICATE_FILE), &folder.path().join(KEY_FILE));
        (folder, authority.unwrap())
    }

    #[test]
    fn an_authority_is_made_once_and_its_key_is_private() {
        let (folder, authority) = made(&[]);
        let key = folder.path().join(KEY_FILE);
        assert_eq!(fs::metadata(&key).unwrap().permissions().mode() & 0o777, 0o600);
        let before = fs::read(&key).unwrap();
        let again = create(folder.path(), &new(&[])).unwrap_err();
        assert!(again.to_string().contains("exists already"), "{again}");
        assert_eq!(fs::read(&key).unwrap(), before);
        let secret = String::from_utf8(before).unwrap();
        let said = format!("{authority:?}");
        assert!(said.contains("Office CA"), "{said}");
        let is_secret = |line: &str| line.len() > 20 && said.contains(line);
        assert!(!secret.lines().any(is_secret), "{said}");
        assert_eq!(show(&folder.path().join(CERTIFICATE_FILE)).unwrap(), authority.description);
    }

    #[test]
    fn a_certificate_lives_no_longer_than_the_authority() {
        let (_folder, authority) = made(&[]);
        for (host, days) in [("www.example.com", 5), ("127.0.0.1", 300), ("::1", 300)] {
            let (key, ends) = authority.issue(host, days).unwrap();
            let (_, x509) = X509Certificate::from_der(&key.cert[0]).unwrap();
            let validity = x509.validity();
            assert_eq!(validity.not_after.timestamp(), seconds(ends));
            assert!(validity.not_after.timestamp() <= authority.description.not_after);
            assert!(validity.not_before.timestamp() >= authority.description.not_before);
            assert!(!x509.is_ca());
            assert_eq!(key.cert.len(), 1, "clients have the root");
        }
        let serial = |host| {
            let (key, _) = authority.issue(host, 5).unwrap();
            let (_, x509) = X509Certificate::from_der(&key.cert[0]).unwrap();
            x509.raw_serial().to_vec()
        };
        assert_ne!(serial("a.example"), serial("a.example"));
    }

    #[test]
    fn constraints_are_heeded() {
        let (_folder, authority) = made(&["example.com"]);
        assert_eq!(authority.description.permit, ["example.com"]);
        for host in ["example.com", "www.example.com"] {
            assert!(authority.may_issue(host), "{host}");
        }
        for host in ["example.org", "badexample.com", "127.0.0.1"] {
            assert!(!authority.may_issue(host), "{host}");
        }
    }

    #[test]
    fn what_is_wrong_with_files_is_named_with_a_remedy() {
        let (folder, _) = made(&[]);
        let (other, _) = made(&[]);
        let file = |folder: &tempfile::TempDir, name: &str| folder.path().join(name);
        let certificate = file(&folder, CERTIFICATE_FILE);
        let load = |c: &Path, k: &Path| Authority::load(c, k).unwrap_err().to_string();
        let missing = file(&folder, "none");
        assert!(load(&certificate, &missing).contains("gauntlet ca new"));
        assert!(load(&missing, &missing).contains("cannot be read"));
        assert!(load(&certificate, Path::new("")).contains("belong together"));
        let error = load(&certificate, &file(&other, KEY_FILE));
        assert!(error.contains("is not the key of"), "{error}");
        assert!(load(&certificate, &garbage(&folder, 0o600)).contains("PKCS #8"));
        assert!(load(&certificate, &garbage(&folder, 0o644)).contains("chmod 600"));
        let error = load(&garbage(&folder, 0o600), &file(&folder, KEY_FILE));
        assert!(error.contains("no certificate"), "{error}");

        let leaf = rcgen::generate_simple_self_signed(["a.example".to_owned()]).unwrap();
        let (c, k) = (file(&folder, "leaf.pem"), file(&folder, "leaf.key"));
        fs::write(&c, leaf.cert.pem()).unwrap();
        write_new(&k, &leaf.signing_key.serialize_pem(), 0o600).unwrap();
        let error = load(&c, &k);
        assert!(error.contains("no certificate of an authority"), "{error}");
    }

    fn garbage(folder: &tempfile::TempDir, mode: u32) -> PathBuf {
        let path = folder.path().join(format!("garbage-{mode:o}"));
        if !path.exists() {
            write_new(
                &path,
                "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n",
                mode,
            )
            .unwrap();
        }
        path
    }
}
