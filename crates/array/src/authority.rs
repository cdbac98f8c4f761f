//! The array's own certificate authority: nodes show PostgreSQL certificates that it issued.
//!
//! It is two files in a folder, `ca.pem` and `ca.key`, that commands of an administrator read; no
//! node's process does. Keys are EC P-256. A node's certificate has the common name `node:NAME`,
//! which PostgreSQL maps to a role (`pg_ident.conf`).

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use gauntlet_store::random;
use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, DistinguishedName,
    DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyIdMethod, KeyPair, KeyUsagePurpose,
    PublicKeyData, RevokedCertParams, SanType, SerialNumber, SignatureAlgorithm,
};

/// The certificate's file.
pub const CERTIFICATE_FILE: &str = "ca.pem";
/// The key's file.
pub const KEY_FILE: &str = "ca.key";
/// The file of what was issued to nodes: serial number, time and end in Unix seconds, name.
const ISSUED_FILE: &str = "issued";
/// Common name of the certificate that a token holds: it may ask for a certificate, nothing else.
pub const JOIN_NAME: &str = "gauntlet_join";

/// Name of the authority in its certificates.
const AUTHORITY_NAME: &str = "Gauntlet array";
/// Longest common name (RFC 5280 appendix A.1), without `node:`.
const NAME_BYTES_MAX: usize = 64 - "node:".len();
/// A point of P-256, not compressed (SEC 1 section 2.3.3).
const POINT_BYTES: usize = 65;
/// Clocks may be behind by so much.
const CLOCK_SKEW: Duration = Duration::from_secs(3_600);
const DAY: Duration = Duration::from_secs(24 * 3_600);
/// Days until a list of revoked certificates must be replaced: PostgreSQL lets nobody in by one
/// that is older, so it is never a surprise.
const LIST_DAYS: u32 = 3_650;

/// What goes wrong with the authority.
#[derive(Debug, thiserror::Error)]
pub enum AuthorityError {
    /// A file of it cannot be read.
    #[error(
        "{path}: cannot be read: {cause}; `gauntlet array ca new --out FOLDER` makes an authority, \
         and --ca names its folder"
    )]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        cause: String,
    },
    /// A file is there already.
    #[error("{0} exists already and is not overwritten; name another folder")]
    Exists(PathBuf),
    /// A file cannot be written.
    #[error("{path}: cannot be written: {cause}")]
    Write {
        /// The file.
        path: PathBuf,
        /// Why.
        cause: io::Error,
    },
    /// Others may read the key.
    #[error("{0}: others may read this key, and make themselves nodes by it; `chmod 600` it")]
    Readable(PathBuf),
    /// The name fits into no certificate.
    #[error("{0:?} fits into no certificate: 1 to 59 letters, digits, dots, - and _")]
    Name(String),
    /// What asks for a certificate is no key.
    #[error("the request has no public key of the curve P-256")]
    Key,
    /// The library refuses.
    #[error("a certificate cannot be made: {0}")]
    Make(String),
}

/// A certificate that was issued.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Issued {
    /// PEM.
    pub certificate: String,
    /// Its serial number, in hexadecimal digits.
    pub serial: String,
    /// When it was made, in Unix seconds.
    pub made_s: i64,
    /// Its last second, in Unix seconds.
    pub until_s: i64,
}

/// A certificate with its key.
#[derive(Clone)]
pub struct Pair {
    /// The certificate.
    pub issued: Issued,
    /// The key, PEM (PKCS #8).
    pub key: String,
}

/// A key that a new node made for itself.
pub struct NodeKey(KeyPair);

impl NodeKey {
    /// A new one.
    ///
    /// # Errors
    /// If the system gives no random bytes.
    pub fn make() -> Result<Self, AuthorityError> {
        KeyPair::generate().map(NodeKey).map_err(|error| AuthorityError::Make(error.to_string()))
    }

    /// One that was made before.
    ///
    /// # Errors
    /// If this is no key.
    pub fn from_pem(pem: &str) -> Result<Self, AuthorityError> {
        KeyPair::from_pem(pem).map(NodeKey).map_err(|_| AuthorityError::Key)
    }

    /// What the authority needs of it.
    pub fn public(&self) -> &[u8] {
        self.0.public_key_raw()
    }

    /// The key, PEM (PKCS #8).
    pub fn to_pem(&self) -> String {
        self.0.serialize_pem()
    }
}

/// A public key as it was sent.
struct PublicKey(Vec<u8>);

impl PublicKeyData for PublicKey {
    fn der_bytes(&self) -> &[u8] {
        &self.0
    }

    fn algorithm(&self) -> &'static SignatureAlgorithm {
        &rcgen::PKCS_ECDSA_P256_SHA256
    }
}

/// What a certificate is good for.
enum Purpose<'a> {
    /// To sign in to the database, for so long.
    Client(&'a str, Duration),
    /// To be the database's server.
    Server(&'a str, Duration),
}

/// The authority, ready to issue.
pub struct Authority {
    folder: PathBuf,
    issuer: Issuer<'static, KeyPair>,
    certificate: String,
}

impl std::fmt::Debug for Authority {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Authority")
    }
}

impl Authority {
    /// Makes an authority in this folder.
    ///
    /// # Errors
    /// If there is one already, or it cannot be written.
    pub fn create(folder: &Path, days: u32) -> Result<Self, AuthorityError> {
        let failed = |error: rcgen::Error| AuthorityError::Make(error.to_string());
        let key = KeyPair::generate().map_err(failed)?;
        let mut params = authority_params();
        let now = SystemTime::now();
        (params.not_before, params.not_after) =
            ((now - CLOCK_SKEW).into(), (now + DAY * days).into());
        params.serial_number = Some(serial()?.0);
        let certificate = params.self_signed(&key).map_err(failed)?.pem();
        let made = |cause| AuthorityError::Write { path: folder.to_owned(), cause };
        std::fs::create_dir_all(folder).map_err(made)?;
        write_new(&folder.join(KEY_FILE), &key.serialize_pem(), 0o600)?;
        write_new(&folder.join(CERTIFICATE_FILE), &certificate, 0o644)?;
        let (folder, issuer) = (folder.to_owned(), Issuer::new(authority_params(), key));
        Ok(Authority { folder, issuer, certificate })
    }

    /// Opens the authority in this folder.
    ///
    /// # Errors
    /// If it cannot be read, or others may read its key.
    pub fn open(folder: &Path) -> Result<Self, AuthorityError> {
        let read = |name: &str| {
            let path = folder.join(name);
            std::fs::read_to_string(&path)
                .map_err(|error| AuthorityError::Read { path, cause: error.to_string() })
        };
        let path = folder.join(KEY_FILE);
        let text = read(KEY_FILE)?;
        let mode = path.metadata().map(|seen| seen.permissions().mode());
        if mode.is_ok_and(|mode| mode & 0o077 != 0) {
            return Err(AuthorityError::Readable(path));
        }
        let key = KeyPair::from_pem(&text)
            .map_err(|error| AuthorityError::Read { path, cause: error.to_string() })?;
        let certificate = read(CERTIFICATE_FILE)?;
        let (folder, issuer) = (folder.to_owned(), Issuer::new(authority_params(), key));
        Ok(Authority { folder, issuer, certificate })
    }

    /// Its certificate, PEM.
    pub fn certificate(&self) -> &str {
        &self.certificate
    }

    /// Issues the certificate of a node to whom has this public key.
    ///
    /// # Errors
    /// If the name or the key fits into no certificate.
    pub fn issue_node(
        &self,
        name: &str,
        public: &[u8],
        days: u32,
    ) -> Result<Issued, AuthorityError> {
        check_name(name)?;
        if public.len() != POINT_BYTES || public.first() != Some(&4) {
            return Err(AuthorityError::Key);
        }
        let purpose = Purpose::Client(&format!("node:{name}"), DAY * days);
        self.issue(&purpose, &PublicKey(public.to_vec()))
    }

    /// Notes a certificate of a node beside the authority, for when the database is asked.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn note(&self, name: &str, issued: &Issued) -> Result<(), AuthorityError> {
        let path = self.folder.join(ISSUED_FILE);
        let failed = |cause| AuthorityError::Write { path: path.clone(), cause };
        let mut file = OpenOptions::new().append(true).create(true).open(&path).map_err(failed)?;
        let Issued { serial, made_s, until_s, .. } = issued;
        let line = format!("{serial} {made_s} {until_s} {name}\n");
        file.write_all(line.as_bytes()).and_then(|()| file.sync_all()).map_err(failed)
    }

    /// The certificates that were noted: name, and what was issued, without the certificate.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn noted(&self) -> Result<Vec<(String, Issued)>, AuthorityError> {
        let path = self.folder.join(ISSUED_FILE);
        let text = match std::fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(AuthorityError::Read { path, cause: error.to_string() }),
        };
        let entry = |line: &str| {
            let mut words = line.splitn(4, ' ');
            let serial = words.next()?.to_owned();
            let (made_s, until_s) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
            let issued = Issued { certificate: String::new(), serial, made_s, until_s };
            Some((words.next()?.to_owned(), issued))
        };
        Ok(text.lines().filter_map(entry).collect())
    }

    /// Issues a certificate, with a key, that may ask for the one of a node.
    ///
    /// # Errors
    /// If the library refuses.
    pub fn issue_join(&self, valid: Duration) -> Result<Pair, AuthorityError> {
        self.pair(&Purpose::Client(JOIN_NAME, valid))
    }

    /// Issues a certificate, with a key, for a database's server of this host name or address.
    ///
    /// # Errors
    /// If the name fits into no certificate.
    pub fn issue_server(&self, host: &str, days: u32) -> Result<Pair, AuthorityError> {
        check_name(host)?;
        self.pair(&Purpose::Server(host, DAY * days))
    }

    fn pair(&self, purpose: &Purpose<'_>) -> Result<Pair, AuthorityError> {
        let key = NodeKey::make()?;
        let issued = self.issue(purpose, &PublicKey(key.public().to_vec()))?;
        Ok(Pair { issued, key: key.to_pem() })
    }

    fn issue(&self, purpose: &Purpose<'_>, key: &PublicKey) -> Result<Issued, AuthorityError> {
        let mut params = CertificateParams::default();
        let (number, text) = serial()?;
        params.serial_number = Some(number);
        params.use_authority_key_identifier_extension = true;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        let (name, valid, usage) = match *purpose {
            Purpose::Client(name, valid) => (name, valid, ExtendedKeyUsagePurpose::ClientAuth),
            Purpose::Server(name, valid) => (name, valid, ExtendedKeyUsagePurpose::ServerAuth),
        };
        params.extended_key_usages = vec![usage];
        if let Purpose::Server(host, _) = purpose {
            params.subject_alt_names = vec![match host.parse() {
                Ok(address) => SanType::IpAddress(address),
                Err(_) => SanType::DnsName(
                    (*host).try_into().map_err(|_| AuthorityError::Name((*host).to_owned()))?,
                ),
            }];
        }
        params.distinguished_name = common_name(name);
        let now = SystemTime::now();
        let end = now + valid;
        (params.not_before, params.not_after) = ((now - CLOCK_SKEW).into(), end.into());
        let made = params.signed_by(key, &self.issuer);
        let certificate = made.map_err(|error| AuthorityError::Make(error.to_string()))?.pem();
        let [made_s, until_s] = [now, end]
            .map(|at| at.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs() as i64));
        Ok(Issued { certificate, serial: text, made_s, until_s })
    }

    /// The list of revoked certificates, PEM, for PostgreSQL's `ssl_crl_file`: serial numbers in
    /// hexadecimal digits, each with the Unix second of its revocation.
    ///
    /// # Errors
    /// If a number is none, or the library refuses.
    pub fn revocation_list(&self, revoked: &[(String, i64)]) -> Result<String, AuthorityError> {
        let entry = |(serial, at_s): &(String, i64)| {
            let number = unhex(serial).ok_or_else(|| AuthorityError::Make(serial.clone()))?;
            let at = UNIX_EPOCH + Duration::from_secs(u64::try_from(*at_s).unwrap_or(0));
            Ok(RevokedCertParams {
                serial_number: SerialNumber::from(number),
                revocation_time: at.into(),
                reason_code: None,
                invalidity_date: None,
            })
        };
        let now = SystemTime::now();
        let seconds = now.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        let params = CertificateRevocationListParams {
            this_update: (now - CLOCK_SKEW).into(),
            next_update: (now + DAY * LIST_DAYS).into(),
            // Later lists have greater numbers (RFC 5280 section 5.2.3).
            crl_number: SerialNumber::from(seconds),
            issuing_distribution_point: None,
            revoked_certs: revoked.iter().map(entry).collect::<Result<_, AuthorityError>>()?,
            key_identifier_method: KeyIdMethod::Sha256,
        };
        let list = params.signed_by(&self.issuer);
        let list = list.map_err(|error| AuthorityError::Make(error.to_string()))?;
        list.pem().map_err(|error| AuthorityError::Make(error.to_string()))
    }
}

/// What the authority's own certificate says; the same each time, as issued ones refer to it.
fn authority_params() -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = common_name(AUTHORITY_NAME);
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    params
}

fn common_name(name: &str) -> DistinguishedName {
    let mut names = DistinguishedName::new();
    names.push(DnType::CommonName, name);
    names
}

/// Refuses a name that fits into no certificate.
///
/// # Errors
/// If it does not.
pub fn check_name(name: &str) -> Result<(), AuthorityError> {
    let is_good = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | ':');
    match !name.is_empty() && name.len() <= NAME_BYTES_MAX && name.chars().all(is_good) {
        true => Ok(()),
        false => Err(AuthorityError::Name(name.to_owned())),
    }
}

/// A new serial number, positive and of 16 bytes, and its digits.
fn serial() -> Result<(SerialNumber, String), AuthorityError> {
    let made = random::array().map_err(|error: io::Error| AuthorityError::Make(error.to_string()));
    let mut bytes: [u8; 16] = made?;
    bytes[0] = bytes[0] & 0x7f | 0x40;
    Ok((SerialNumber::from(bytes.to_vec()), bytes.iter().map(|b| format!("{b:02x}")).collect()))
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    let digits = text.as_bytes().chunks(2);
    digits.map(|two| u8::from_str_radix(std::str::from_utf8(two).ok()?, 16).ok()).collect()
}

/// Writes a file that is not there yet, durably.
///
/// # Errors
/// If it is there, or cannot be written.
pub fn write_new(path: &Path, text: &str, mode: u32) -> Result<(), AuthorityError> {
    let write = || {
        let mut file = OpenOptions::new().write(true).create_new(true).mode(mode).open(path)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()
    };
    write().map_err(|cause: io::Error| match cause.kind() {
        io::ErrorKind::AlreadyExists => AuthorityError::Exists(path.to_owned()),
        _ => AuthorityError::Write { path: path.to_owned(), cause },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_authority_issues_what_it_is_asked_for_and_no_more() {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join("ca");
        let made = Authority::create(&place, 30).unwrap();
        assert!(matches!(Authority::create(&place, 30), Err(AuthorityError::Exists(_))));
        let again = Authority::open(&place).unwrap();
        assert_eq!(again.certificate(), made.certificate());
        let key = NodeKey::make().unwrap();
        let issued = again.issue_node("mx1.example.org", key.public(), 10).unwrap();
        assert!(issued.certificate.starts_with("-----BEGIN CERTIFICATE-----"));
        assert_eq!(issued.serial.len(), 32);
        assert!(again.noted().unwrap().is_empty());
        again.note("mx1.example.org", &issued).unwrap();
        let noted = again.noted().unwrap();
        assert_eq!((noted.len(), noted[0].0.as_str()), (1, "mx1.example.org"));
        assert_eq!((&noted[0].1.serial, noted[0].1.until_s), (&issued.serial, issued.until_s));
        assert!(matches!(again.issue_node("", key.public(), 1), Err(AuthorityError::Name(_))));
        assert!(matches!(again.issue_node("a b", key.public(), 1), Err(AuthorityError::Name(_))));
        assert!(matches!(again.issue_node("a", &[4; 64], 1), Err(AuthorityError::Key)));
        assert!(matches!(again.issue_node("a", &[3; 65], 1), Err(AuthorityError::Key)));
        let list = again.revocation_list(&[(issued.serial, 1_795_000_000)]).unwrap();
        assert!(list.starts_with("-----BEGIN X509 CRL-----"));
        assert!(again.revocation_list(&[("no number".to_owned(), 0)]).is_err());
        let open = std::fs::Permissions::from_mode(0o644);
        std::fs::set_permissions(place.join(KEY_FILE), open).unwrap();
        assert!(matches!(Authority::open(&place), Err(AuthorityError::Readable(_))));
    }
}
