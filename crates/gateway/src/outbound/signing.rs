//! DKIM signatures for outbound mail, and the keys for them (RFC 6376, RFC 8463).
//!
//! Keys are files: `dkim/DOMAIN/SELECTOR.pem` signs, `SELECTOR.next` waits until its record is
//! published, `SELECTOR.old` signs no more (its record stays published until the last mail signed
//! with it has arrived). All active keys of a domain sign, so that a domain can have RSA and
//! Ed25519 at once.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, bail};
use gauntlet_mail::Message;
use gauntlet_mail::address::ascii_domain;
use gauntlet_mail::facts::AuthResult;
use gauntlet_store::random;
use mail_auth::common::crypto::{DkimKey, Ed25519Key, RsaKey, Sha256, SigningKey};
use mail_auth::common::headers::Writable;
use mail_auth::dkim::generate::DkimKeyPair;
use rustls_pki_types::PrivateKeyDer;
use rustls_pki_types::pem::PemObject;

use crate::canonical;
use crate::facts::key_record::{self, Publication};
use crate::facts::{fields, is_named};
use crate::message::OutgoingMessage;
use crate::outbound::arc::{self, Chain, Sealing};
use crate::secrets::{DkimKeyInfo, Secrets};

/// Fields that are signed (RFC 6376 section 5.4.1).
const FIELDS: [&str; 19] = [
    "From",
    "Sender",
    "Reply-To",
    "To",
    "Cc",
    "Subject",
    "Date",
    "Message-ID",
    "In-Reply-To",
    "References",
    "MIME-Version",
    "Content-Type",
    "Content-Transfer-Encoding",
    "List-Id",
    "List-Post",
    "List-Unsubscribe",
    "List-Unsubscribe-Post",
    "Resent-From",
    "Feedback-ID",
];
/// Fields of one name that are signed.
const SAME_MAX: usize = 10;
/// Characters of a line of a signature.
const SIGNATURE_COLUMNS: usize = 72;
/// Keys of one domain that sign one message.
const SIGNATURES_MAX: usize = 4;

/// How a key signs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Algorithm {
    /// RSA with SHA-256: everybody can verify it.
    Rsa,
    /// Ed25519 (RFC 8463): small and fast, not known to everybody yet.
    Ed25519,
}

/// Whether a key signs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum KeyState {
    /// Its signatures are put on mail.
    Active,
    /// It will sign once its record is published.
    Next,
    /// Signed before; its record stays for mail on its way.
    Old,
}

impl KeyState {
    /// Its name, as records and commands have it.
    pub fn name(self) -> &'static str {
        match self {
            KeyState::Active => "active",
            KeyState::Next => "next",
            KeyState::Old => "old",
        }
    }

    fn extension(self) -> &'static str {
        match self {
            KeyState::Active => "pem",
            KeyState::Next => "next",
            KeyState::Old => "old",
        }
    }
}

/// A key of a file.
pub struct Key {
    /// Signing domain, in ASCII and lower case.
    pub domain: String,
    /// Selector, which with the domain names its DNS record.
    pub selector: String,
    /// Whether it signs now, will, or did.
    pub state: KeyState,
    /// File that it was read from, `<domain>/<selector>`; its extension says the state.
    pub path: PathBuf,
    secret: Secret,
}

/// Where the private half is.
enum Secret {
    /// The key itself, in this process.
    Here(DkimKey),
    /// In the secrets process.
    Elsewhere(RemoteKey),
}

/// A key that the secrets process signs with.
struct RemoteKey {
    secrets: Arc<Secrets>,
    info: DkimKeyInfo,
}

impl SigningKey for RemoteKey {
    type Hasher = Sha256;

    fn sign(&self, input: impl Writable) -> mail_auth::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        input.write(&mut bytes);
        let signed = self.secrets.sign_dkim(self.info.id, bytes);
        signed.map_err(|e| mail_auth::Error::Io(format!("{e:#}")))
    }

    fn algorithm(&self) -> mail_auth::common::crypto::Algorithm {
        match self.info.is_rsa {
            true => mail_auth::common::crypto::Algorithm::RsaSha256,
            false => mail_auth::common::crypto::Algorithm::Ed25519Sha256,
        }
    }
}

impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Key { domain, selector, state, path, secret: _ } = self;
        f.debug_struct("Key")
            .field("domain", domain)
            .field("selector", selector)
            .field("state", state)
            .field("path", path)
            .finish_non_exhaustive()
    }
}

impl Key {
    fn read(path: &Path, domain: &str, selector: &str, state: KeyState) -> anyhow::Result<Self> {
        let pem = fs::read(path)?;
        let der = PrivateKeyDer::from_pem_slice(&pem).map_err(|e| anyhow::anyhow!("{e}"))?;
        let wrong = |e: mail_auth::Error| anyhow::anyhow!("neither an RSA nor an Ed25519 key: {e}");
        let ed25519 = match &der {
            PrivateKeyDer::Pkcs8(der) => {
                Ed25519Key::from_pkcs8_maybe_unchecked_der(der.secret_pkcs8_der()).ok()
            }
            _ => None,
        };
        let secret = match ed25519 {
            Some(key) => DkimKey::Ed25519(key),
            None => DkimKey::Rsa(RsaKey::<Sha256>::from_key_der(der).map_err(wrong)?),
        };
        let (domain, selector, path) = (domain.to_owned(), selector.to_owned(), path.to_owned());
        Ok(Key { domain, selector, state, path, secret: Secret::Here(secret) })
    }

    /// Name of its DNS record.
    pub fn record_name(&self) -> String {
        format!("{}._domainkey.{}", self.selector, self.domain)
    }

    /// Text of its DNS record.
    pub fn record(&self) -> String {
        let public = match &self.secret {
            Secret::Elsewhere(key) => return key.info.record.clone(),
            Secret::Here(DkimKey::Rsa(key)) => {
                key_record::rsa_subject_public_key_info(&key.public_key())
            }
            Secret::Here(DkimKey::Ed25519(key)) => key.public_key(),
        };
        key_record::record(self.algorithm(), &public)
    }

    /// Its DNS record as zone files write it.
    pub fn zone_line(&self) -> String {
        key_record::zone_line(&self.record_name(), &self.record())
    }

    /// `rsa` or `ed25519`, as `k=` of its record has it.
    pub fn algorithm(&self) -> &'static str {
        if self.is_rsa() { "rsa" } else { "ed25519" }
    }

    fn is_rsa(&self) -> bool {
        match &self.secret {
            Secret::Here(key) => matches!(key, DkimKey::Rsa(_)),
            Secret::Elsewhere(key) => key.info.is_rsa,
        }
    }

    /// How the TXT records of its name stand to this key: the best of them counts.
    pub fn publication<'r>(&self, records: impl Iterator<Item = &'r [u8]>) -> Publication {
        let wanted = self.record();
        let all = records.map(|record| key_record::publication(record, &wanted));
        all.max().unwrap_or(Publication::Different)
    }

    /// A `DKIM-Signature` field over a header with CRLF line ends and a body of this hash. `now` is
    /// Unix time in seconds.
    fn sign(&self, header: &[u8], body_hash: &[u8], now: i64) -> anyhow::Result<String> {
        let names = signed_names(header);
        let base64 = |bytes: &[u8]| base64_simd::STANDARD.encode_to_string(bytes);
        let field = format!(
            "DKIM-Signature: v=1; a={}-sha256; s={}; d={}; c=relaxed/relaxed;\r\n\th={};\r\n\t\
             t={now}; bh={};\r\n\tb=",
            self.algorithm(),
            self.selector,
            self.domain,
            canonical::folded(&names, 70),
            base64(body_hash),
        );
        let mut covered = canonical::signed_fields(header, &names);
        covered.extend(canonical::without_end(canonical::relaxed(field.as_bytes())));
        let signature = base64(&self.signature(&covered)?);
        let lines: Vec<&str> = signature
            .as_bytes()
            .chunks(SIGNATURE_COLUMNS)
            .map(|line| std::str::from_utf8(line).unwrap_or_default())
            .collect();
        Ok(field + &lines.join("\r\n\t") + "\r\n")
    }

    /// A signature over these bytes, without any field around it.
    pub(crate) fn signature(&self, bytes: &[u8]) -> anyhow::Result<Vec<u8>> {
        let signature = match &self.secret {
            Secret::Here(DkimKey::Rsa(key)) => key.sign(bytes),
            Secret::Here(DkimKey::Ed25519(key)) => key.sign(bytes),
            Secret::Elsewhere(key) => key.sign(bytes),
        };
        signature.map_err(|e| anyhow::anyhow!("{}: {e}", self.path.display()))
    }
}

/// Names of the fields that a signature of this message covers: each as often as the message has
/// it, and once more, so that none can be added (RFC 6376 section 8.15).
fn signed_names(header: &[u8]) -> Vec<&'static str> {
    let mut names = Vec::with_capacity(2 * FIELDS.len());
    for name in FIELDS {
        let is_it = |field: &&[u8]| is_named(field, name.to_ascii_lowercase().as_bytes());
        let count = fields(header).filter(is_it).count().min(SAME_MAX);
        names.extend(std::iter::repeat_n(name, count + 1));
    }
    names
}

/// All keys of a node.
#[derive(Debug, Default)]
pub struct KeyRing {
    folder: PathBuf,
    keys: BTreeMap<String, Vec<Key>>,
    /// Whose key seals mail that goes on; empty if none does.
    seal_as: String,
    /// Who has the private halves, if it is another process.
    secrets: Option<Arc<Secrets>>,
}

impl KeyRing {
    /// Reads all keys of a folder; a folder that is not there has none.
    ///
    /// # Errors
    /// The key that cannot be read.
    pub fn load(folder: &Path) -> anyhow::Result<Self> {
        let mut ring = KeyRing { folder: folder.to_owned(), ..KeyRing::default() };
        for domain in names(folder)? {
            for file in names(&folder.join(&domain))? {
                let path = folder.join(&domain).join(&file);
                let states = [KeyState::Active, KeyState::Next, KeyState::Old];
                let found = file.rsplit_once('.').and_then(|(selector, extension)| {
                    let state = states.into_iter().find(|s| s.extension() == extension)?;
                    Some((selector, state))
                });
                let Some((selector, state)) = found else { continue };
                let key = Key::read(&path, &domain, selector, state).with_context(|| {
                    format!(
                        "DKIM key {} cannot be used; put it back from a backup, or move it out of \
                             the folder and make another with `gauntlet dkim new`",
                        path.display()
                    )
                })?;
                ring.keys.entry(domain.clone()).or_default().push(key);
            }
        }
        Ok(ring)
    }

    /// The keys that the secrets process holds.
    ///
    /// # Errors
    /// If it does not answer.
    pub fn of(secrets: &Arc<Secrets>) -> anyhow::Result<Self> {
        let mut ring = KeyRing { secrets: Some(secrets.clone()), ..KeyRing::default() };
        for info in secrets.dkim_keys()? {
            let states = [KeyState::Active, KeyState::Next, KeyState::Old];
            let state = states.into_iter().find(|s| s.name() == info.state);
            let (domain, selector) = (info.domain.clone(), info.selector.clone());
            let key = Key {
                domain: domain.clone(),
                selector,
                state: state.context("a key of unknown state")?,
                path: info.path.clone(),
                secret: Secret::Elsewhere(RemoteKey { secrets: secrets.clone(), info }),
            };
            ring.keys.entry(domain).or_default().push(key);
        }
        // As files are read: by domain, then by name.
        ring.keys.values_mut().for_each(|keys| keys.sort_by(|a, b| a.path.cmp(&b.path)));
        Ok(ring)
    }

    /// The process that has the private halves did not answer: it is about to be started anew, with
    /// the node.
    pub(crate) fn are_out_of_reach(&self) -> bool {
        self.secrets.as_ref().is_some_and(|secrets| secrets.is_out_of_reach())
    }

    /// All keys, taken out.
    pub(crate) fn into_keys(self) -> impl Iterator<Item = Key> {
        self.keys.into_values().flatten()
    }

    /// The same, sealing mail that goes on with a key of this domain; with none if it is empty.
    ///
    /// # Errors
    /// If the domain has no active key.
    pub fn with_seal(mut self, domain: &str) -> anyhow::Result<Self> {
        self.seal_as = ascii_domain(domain).unwrap_or_default();
        if !domain.is_empty() && self.sealing_key().is_none() {
            bail!(
                "dkim.seal_as: no key of {domain} signs; make one with gauntlet dkim new {domain}"
            );
        }
        Ok(self)
    }

    /// Whether mail that goes on is sealed.
    pub fn seals(&self) -> bool {
        !self.seal_as.is_empty()
    }

    /// An RSA key if there is one: RFC 8617 knows no other yet.
    fn sealing_key(&self) -> Option<&Key> {
        let active = || self.keys_of(&self.seal_as).iter().filter(|k| k.state == KeyState::Active);
        active().find(|k| k.is_rsa()).or_else(|| active().next())
    }

    /// Seals a message (RFC 8617) whose chain was found to be `arc`. Gives the header fields to put
    /// on top; empty if none is due: nothing seals, it is unknown whether the chain is good, or the
    /// chain is over. `now` is Unix time in seconds.
    ///
    /// # Errors
    /// If the key cannot sign.
    pub fn seal(
        &self,
        message: &OutgoingMessage,
        host: &str,
        arc: AuthResult,
        now: i64,
    ) -> anyhow::Result<String> {
        let (chain, otherwise) = match arc {
            AuthResult::None => (Chain::None, "arc=none"),
            AuthResult::Pass => (Chain::Pass, "arc=pass"),
            AuthResult::Fail | AuthResult::PermError | AuthResult::Policy => {
                (Chain::Fail, "arc=fail")
            }
            _ => return Ok(String::new()),
        };
        let Some(key) = self.sealing_key() else { return Ok(String::new()) };
        let algorithm = if key.is_rsa() { "rsa-sha256" } else { "ed25519-sha256" };
        let (domain, selector) = (key.domain.as_str(), key.selector.as_str());
        let sealing = Sealing { host, domain, selector, algorithm, chain, otherwise, now };
        let fields = arc::seal(message, &sealing, |bytes| key.signature(bytes))?;
        Ok(fields.unwrap_or_default())
    }

    /// All keys by domain and selector.
    pub fn keys(&self) -> impl Iterator<Item = &Key> {
        self.keys.values().flatten()
    }

    /// The keys of a domain.
    pub fn keys_of(&self, domain: &str) -> &[Key] {
        self.keys.get(domain).map_or(&[], Vec::as_slice)
    }

    /// Signs a message with the active keys of its From domain, or of the nearest domain above it.
    /// Gives the header fields to put on top, dated `now_s` (Unix seconds); empty if there is no
    /// key.
    ///
    /// # Errors
    /// If a key cannot sign.
    pub fn sign(&self, message: &OutgoingMessage, now_s: i64) -> anyhow::Result<String> {
        if self.keys.is_empty() {
            return Ok(String::new());
        }
        let from = Message::parse(message.header()).from();
        let domain = from.and_then(|from| ascii_domain(from.domain())).unwrap_or_default();
        let mut name = domain.as_str();
        loop {
            let mut active =
                self.keys_of(name).iter().filter(|k| k.state == KeyState::Active).peekable();
            if active.peek().is_some() {
                let hash = message.body_hash();
                let keys = active.take(SIGNATURES_MAX);
                return keys.map(|key| key.sign(message.header(), hash, now_s)).collect();
            }
            match name.split_once('.') {
                Some((_, parent)) => name = parent,
                None => return Ok(String::new()),
            }
        }
    }

    /// Makes a key. It signs at once if it is the domain's first of its algorithm, else it waits
    /// for [`KeyRing::activate`].
    ///
    /// # Errors
    /// If domain or selector are no names, the selector is taken, or the key cannot be written.
    pub fn create(
        &mut self,
        domain: &str,
        selector: &str,
        algorithm: Algorithm,
        bits: usize,
    ) -> anyhow::Result<&Key> {
        let domain = ascii_domain(domain).filter(|d| d.contains('.') && is_key_name(d));
        let domain = domain.context("no domain such as example.org")?;
        let selector = selector.to_ascii_lowercase();
        if !is_key_name(&selector) {
            bail!("{selector:?} is no selector: use letters, digits and '-'");
        }
        if self.keys_of(&domain).iter().any(|k| k.selector == selector) {
            bail!("{domain} has a key {selector} already");
        }
        let failed = |e: mail_auth::Error| anyhow::anyhow!("no key could be made: {e}");
        let (label, secret) = match algorithm {
            Algorithm::Rsa => {
                if !(2_048..=4_096).contains(&bits) {
                    bail!("an RSA key has 2048 to 4096 bits");
                }
                let pair = DkimKeyPair::generate_rsa(bits).map_err(failed)?;
                ("RSA PRIVATE KEY", pair.private_key().to_vec())
            }
            Algorithm::Ed25519 => {
                let seed = random::array().context("no key")?;
                ("PRIVATE KEY", ed25519_pkcs8(&seed))
            }
        };
        let word = if algorithm == Algorithm::Rsa { "rsa" } else { "ed25519" };
        let signs = |k: &&Key| k.state == KeyState::Active && k.algorithm() == word;
        let first = !self.keys_of(&domain).iter().any(|k| signs(&k));
        let state = if first { KeyState::Active } else { KeyState::Next };
        let folder = self.folder.join(&domain);
        gauntlet_store::files::create_folder(&folder)?;
        let path = folder.join(format!("{selector}.{}", state.extension()));
        write_secret(&path, label, &secret).with_context(|| path.display().to_string())?;
        let key = Key::read(&path, &domain, &selector, state)?;
        let keys = self.keys.entry(domain).or_default();
        keys.push(key);
        keys.last().context("the key was just made")
    }

    /// Lets the waiting key sign, and no other of its algorithm any more. Returns the selectors of
    /// the key and of those that it replaces.
    ///
    /// # Errors
    /// If the domain has no such waiting key, or files cannot be renamed.
    pub fn activate(&mut self, domain: &str, selector: &str) -> anyhow::Result<Vec<String>> {
        let keys = self.keys.get_mut(domain).with_context(|| format!("{domain} has no keys"))?;
        let waits = |k: &&Key| k.selector == selector && k.state == KeyState::Next;
        let next = keys.iter().find(waits);
        let next = next.with_context(|| format!("{domain} has no waiting key {selector}"))?;
        let algorithm = next.algorithm();
        let mut changed = vec![selector.to_owned()];
        // First the new one: at no time is there none.
        for (from, to) in [(KeyState::Next, KeyState::Active), (KeyState::Active, KeyState::Old)] {
            for key in keys.iter_mut().filter(|k| k.state == from && k.algorithm() == algorithm) {
                if (key.selector == selector) != (from == KeyState::Next) {
                    continue;
                }
                let path = key.path.with_extension(to.extension());
                fs::rename(&key.path, &path).with_context(|| path.display().to_string())?;
                (key.path, key.state) = (path, to);
                if from == KeyState::Active {
                    changed.push(key.selector.clone());
                }
            }
        }
        Ok(changed)
    }
}

/// Whether a selector or a domain of a key can be this: names of the DNS, which name files, too.
pub fn is_key_name(text: &str) -> bool {
    let label = |l: &str| {
        (1..=63).contains(&l.len())
            && l.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
    };
    text.len() <= 200 && text.split('.').all(label)
}

/// Names in a folder, sorted; none if it is not there. What is no UTF-8 is left out.
fn names(folder: &Path) -> anyhow::Result<Vec<String>> {
    let entries = match fs::read_dir(folder) {
        Err(error)
            if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) =>
        {
            return Ok(Vec::new());
        }
        entries => entries.with_context(|| folder.display().to_string())?,
    };
    let names = entries.flatten().filter_map(|e| e.file_name().into_string().ok());
    let mut names: Vec<String> = names.collect();
    names.sort();
    Ok(names)
}

/// The PKCS#8 of an Ed25519 key in its first version (RFC 8410 section 7): OpenSSL 3.0, and with it
/// OpenDKIM, cannot read the second one, which has the public key as well.
fn ed25519_pkcs8(seed: &[u8; 32]) -> Vec<u8> {
    const HEAD: [u8; 16] = [0x30, 0x2e, 2, 1, 0, 0x30, 5, 6, 3, 0x2b, 0x65, 0x70, 4, 0x22, 4, 0x20];
    [&HEAD[..], seed].concat()
}

/// Writes a key that only its owner can read, durably, whole or not at all. One that is there is
/// kept.
fn write_secret(path: &Path, label: &str, der: &[u8]) -> io::Result<()> {
    if path.exists() {
        return Err(io::ErrorKind::AlreadyExists.into());
    }
    let encoded = base64_simd::STANDARD.encode_to_string(der);
    let mut text = Vec::with_capacity(encoded.len() + 128);
    writeln!(text, "-----BEGIN {label}-----")?;
    for line in encoded.as_bytes().chunks(64) {
        text.extend_from_slice(line);
        text.push(b'\n');
    }
    writeln!(text, "-----END {label}-----")?;
    gauntlet_store::files::write_durably(path, &text)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAIL: &[u8] = b"From: a@mail.example.org\r\nTo: b@c\r\nSubject: hi\r\n\r\nhello\r\n";

    #[test]
    fn keys_are_made_used_and_rotated() {
        let folder = tempfile::tempdir().unwrap();
        let mut ring = KeyRing::load(&folder.path().join("dkim")).unwrap();
        assert_eq!(ring.sign(&MAIL.into(), 1_795_234_751).unwrap(), "");
        let first = ring.create("Example.org", "s1", Algorithm::Ed25519, 0).unwrap();
        assert_eq!(first.state, KeyState::Active);
        assert!(
            first.zone_line().starts_with("s1._domainkey.example.org. 3600 IN TXT ( \"v=DKIM1;")
        );
        let records = [first.record().replace("p=", "p= "), "v=DKIM1; p=".to_owned()];
        let publication =
            |records: &[String]| first.publication(records.iter().map(String::as_bytes));
        assert_eq!(publication(&records), Publication::Good);
        assert_eq!(publication(&records[1..]), Publication::Different);
        assert_eq!(publication(&[]), Publication::Different);
        let second = ring.create("example.org", "s2", Algorithm::Ed25519, 0).unwrap();
        assert_eq!(second.state, KeyState::Next);
        let header = ring.sign(&MAIL.into(), 1_795_234_751).unwrap();
        assert!(header.contains("d=example.org") && header.contains("s=s1"), "{header}");
        assert_eq!(ring.activate("example.org", "s2").unwrap(), ["s2", "s1"]);
        let ring = KeyRing::load(&folder.path().join("dkim")).unwrap();
        let states: Vec<_> = ring.keys().map(|k| (k.selector.as_str(), k.state)).collect();
        assert_eq!(states, [("s1", KeyState::Old), ("s2", KeyState::Active)]);
        let header = ring.sign(&MAIL.into(), 1_795_234_751).unwrap();
        assert!(header.contains("s=s2") && header.matches("DKIM-Signature").count() == 1);
        use std::os::unix::fs::PermissionsExt;
        let mode = ring.keys().next().unwrap().path.metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o077, 0);
    }

    #[test]
    fn wrong_names_and_files() {
        let folder = tempfile::tempdir().unwrap();
        let mut ring = KeyRing::load(folder.path()).unwrap();
        for (domain, selector) in
            [("", "s"), ("org", "s"), ("../x.y", "s"), ("a.b", "../s"), ("a.b", "")]
        {
            assert!(
                ring.create(domain, selector, Algorithm::Ed25519, 0).is_err(),
                "{domain} {selector}"
            );
        }
        assert!(ring.create("a.b", "s", Algorithm::Rsa, 1024).is_err());
        ring.create("a.b", "s", Algorithm::Ed25519, 0).unwrap();
        assert!(ring.create("a.b", "S", Algorithm::Ed25519, 0).is_err());
        fs::write(folder.path().join("a.b/bad.pem"), "no key").unwrap();
        let error = format!("{:#}", KeyRing::load(folder.path()).unwrap_err());
        assert!(error.contains("bad.pem"), "{error}");
    }
}
