//! The files of metadata of The Update Framework, version 1 of its specification, as types.
//!
//! A file is an [`Envelope`]: what is signed, and signatures over its canonical form. It is parsed
//! once; the signatures are checked over what was parsed, and the types are made from the same
//! value, so that no two readers can see different things. Fields that are not known are kept under
//! the signature and ignored.

use std::collections::{BTreeMap, BTreeSet};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::bundle::{self, BundleInfo, FileInfo};
use crate::canonical::canonical;
use crate::error::Error;
use crate::hex;
use crate::instant;
use crate::keys::{PublicKey, SigningKey};
use crate::limits;

/// The specification that is followed.
pub const SPEC_VERSION: &str = "1.0.33";
/// Thresholds above this are mistakes.
const THRESHOLD_MAX: u32 = 64;

/// The four roles.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum RoleName {
    /// Says which keys the others have.
    Root,
    /// Says which files a version has.
    Targets,
    /// Says which versions of the metadata belong together.
    Snapshot,
    /// Says that the snapshot is the newest.
    Timestamp,
}

impl RoleName {
    /// All of them, in the order in which they trust each other.
    pub const ALL: [RoleName; 4] =
        [RoleName::Root, RoleName::Targets, RoleName::Snapshot, RoleName::Timestamp];

    /// As metadata name it.
    pub fn name(self) -> &'static str {
        match self {
            RoleName::Root => "root",
            RoleName::Targets => "targets",
            RoleName::Snapshot => "snapshot",
            RoleName::Timestamp => "timestamp",
        }
    }

    /// The file that a channel serves.
    pub fn file_name(self, version: u64) -> String {
        match self {
            RoleName::Timestamp => "timestamp.json".to_owned(),
            other => format!("{version}.{}.json", other.name()),
        }
    }

    /// Bytes of its metadata.
    pub fn bytes_max(self) -> u64 {
        match self {
            RoleName::Root => limits::ROOT_BYTES_MAX,
            RoleName::Targets => limits::TARGETS_BYTES_MAX,
            RoleName::Snapshot => limits::SNAPSHOT_BYTES_MAX,
            RoleName::Timestamp => limits::TIMESTAMP_BYTES_MAX,
        }
    }
}

/// What is signed, and by whom.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Envelope {
    signed: Value,
    signatures: Vec<Signature>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Signature {
    keyid: String,
    sig: String,
}

impl Envelope {
    /// Reads a file of metadata.
    ///
    /// # Errors
    /// If it is larger than its role allows, or no such file.
    pub fn parse(role: RoleName, bytes: &[u8]) -> Result<Self, Error> {
        #[derive(Deserialize)]
        struct Written {
            signed: Value,
            signatures: Vec<Signature>,
        }
        let what = role.name();
        if bytes.len() as u64 > role.bytes_max() {
            return Err(Error::TooLarge { what: what.to_owned(), bytes_max: role.bytes_max() });
        }
        let read = serde_json::from_slice::<Written>(bytes);
        let Written { signed, signatures } = read.map_err(|e| Error::malformed(what, e))?;
        if signatures.len() > limits::KEYS_MAX {
            return Err(Error::malformed(what, "more signatures than any channel has"));
        }
        Ok(Envelope { signed, signatures })
    }

    /// An envelope without signatures.
    pub fn unsigned(signed: Value) -> Self {
        Envelope { signed, signatures: Vec::new() }
    }

    /// Signs; a signature of the same key is replaced.
    pub fn sign(&mut self, key: &SigningKey) {
        let keyid = key.public().id();
        let sig = key.sign(&canonical(&self.signed).unwrap_or_default());
        self.add_signature(keyid, sig);
    }

    /// Adds a signature that was made elsewhere, in hexadecimal digits; one of the same key is
    /// replaced.
    pub fn add_signature(&mut self, keyid: String, sig: String) {
        self.signatures.retain(|signature| signature.keyid != keyid);
        self.signatures.push(Signature { keyid, sig });
    }

    /// What is signed, as it is signed; none if it has no canonical form.
    pub fn canonical(&self) -> Option<Vec<u8>> {
        canonical(&self.signed)
    }

    /// The file.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut text =
            format!("{:#}", json!({"signatures": self.signatures, "signed": self.signed}));
        text.push('\n');
        text.into_bytes()
    }

    /// Checks that enough keys of a role signed. Two ids of one key count once.
    ///
    /// # Errors
    /// Too few.
    pub fn verify(&self, keys: &RoleKeys, root: &Root, what: RoleName) -> Result<(), Error> {
        let fail = |valid| Error::Signatures {
            what: what.name().to_owned(),
            valid,
            threshold: keys.threshold,
        };
        let signed = canonical(&self.signed).ok_or_else(|| fail(0))?;
        let mut counted: BTreeSet<&PublicKey> = BTreeSet::new();
        for Signature { keyid, sig } in &self.signatures {
            let known = keys.keyids.contains(keyid).then(|| root.keys.get(keyid)).flatten();
            if let Some(key) = known.filter(|key| !counted.contains(key))
                && key.verifies(&signed, sig)
            {
                counted.insert(key);
            }
        }
        match counted.len() >= keys.threshold as usize {
            true => Ok(()),
            false => Err(fail(counted.len())),
        }
    }

    /// Reads what is signed as the metadata of a role.
    ///
    /// # Errors
    /// If it is of another role, another specification, or not what the role has.
    pub fn read<T: Metadata>(&self) -> Result<T, Error> {
        let what = T::ROLE.name();
        let text = |name: &str| self.signed.get(name).and_then(Value::as_str).unwrap_or_default();
        if text("_type") != what {
            return Err(Error::malformed(what, format!("it is of type {:?}", text("_type"))));
        }
        let spec = text("spec_version");
        if spec.split('.').next() != Some("1") {
            return Err(Error::malformed(what, format!("specification {spec:?} instead of 1")));
        }
        let read = T::deserialize(&self.signed).map_err(|e| Error::malformed(what, e))?;
        if read.version() == 0 || instant::parse(read.expires()).is_none() {
            return Err(Error::malformed(what, "no version above 0, or no time of expiry"));
        }
        read.check()?;
        Ok(read)
    }
}

/// What metadata of every role have.
pub trait Metadata: DeserializeOwned {
    /// Whose it is.
    const ROLE: RoleName;
    /// Counts up with every change.
    fn version(&self) -> u64;
    /// When it no longer counts, as text.
    fn expires(&self) -> &str;
    /// What its form alone does not say.
    ///
    /// # Errors
    /// What is wrong.
    fn check(&self) -> Result<(), Error>;

    /// Checks that it still counts.
    ///
    /// # Errors
    /// If it expired.
    fn check_time(&self, now_s: i64) -> Result<(), Error> {
        match instant::parse(self.expires()).is_some_and(|expires| expires > now_s) {
            true => Ok(()),
            false => Err(Error::Expired {
                what: Self::ROLE.name().to_owned(),
                expires: self.expires().to_owned(),
                now: instant::format(now_s),
            }),
        }
    }
}

/// Which keys speak for a role, and how many of them must.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RoleKeys {
    /// Ids of the keys.
    pub keyids: Vec<String>,
    /// So many of them must sign.
    pub threshold: u32,
}

/// Keys of all roles.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Root {
    /// Counts up by one.
    pub version: u64,
    /// When it no longer counts.
    pub expires: String,
    /// Whether names of files begin with their version or hash; a channel's always do.
    pub consistent_snapshot: bool,
    /// By id.
    pub keys: BTreeMap<String, PublicKey>,
    /// By name.
    pub roles: BTreeMap<String, RoleKeys>,
}

impl Root {
    /// The keys of a role.
    ///
    /// # Errors
    /// None are named.
    pub fn role(&self, role: RoleName) -> Result<&RoleKeys, Error> {
        let keys = self.roles.get(role.name());
        keys.ok_or_else(|| Error::malformed("root", format!("no role {}", role.name())))
    }

    /// What is to be signed.
    pub fn to_value(&self) -> Value {
        typed(RoleName::Root, self)
    }
}

impl Metadata for Root {
    const ROLE: RoleName = RoleName::Root;

    fn version(&self) -> u64 {
        self.version
    }

    fn expires(&self) -> &str {
        &self.expires
    }

    fn check(&self) -> Result<(), Error> {
        let bad = |why: &str| Err(Error::malformed("root", why));
        if !self.consistent_snapshot {
            return bad("consistent_snapshot is not set: a channel needs it");
        }
        if self.keys.len() > limits::KEYS_MAX {
            return bad("more keys than any channel has");
        }
        for role in RoleName::ALL {
            let keys = self.role(role)?;
            let distinct: BTreeSet<&String> = keys.keyids.iter().collect();
            if !(1..=THRESHOLD_MAX).contains(&keys.threshold) || distinct.len() != keys.keyids.len()
            {
                return bad("a role with a threshold of 0, or with the same key twice");
            }
        }
        Ok(())
    }
}

/// Version, and perhaps length and hash, of another file of metadata.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MetaFile {
    /// Version of the metadata.
    pub version: u64,
    /// Bytes of its file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub length: Option<u64>,
    /// `sha256` of its file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hashes: Option<BTreeMap<String, String>>,
}

impl MetaFile {
    /// Of the bytes of a file.
    pub fn of(version: u64, bytes: &[u8]) -> Self {
        let hashes = Some(BTreeMap::from([("sha256".to_owned(), hex::sha256(bytes))]));
        MetaFile { version, length: Some(bytes.len() as u64), hashes }
    }

    /// Checks the bytes of a file before they are parsed.
    ///
    /// # Errors
    /// Another length or hash.
    pub fn check(&self, what: RoleName, bytes: &[u8]) -> Result<(), Error> {
        if self.length.is_some_and(|length| length != bytes.len() as u64) {
            return Err(Error::not_as_signed(what.name(), "another length"));
        }
        let hash = self.hashes.as_ref().and_then(|hashes| hashes.get("sha256"));
        match hash.is_some_and(|hash| *hash != hex::sha256(bytes)) {
            true => Err(Error::not_as_signed(what.name(), "another SHA-256")),
            false => Ok(()),
        }
    }
}

/// The newest snapshot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Timestamp {
    /// Counts up with every signing.
    pub version: u64,
    /// When it no longer counts.
    pub expires: String,
    /// Of `snapshot.json`.
    pub meta: BTreeMap<String, MetaFile>,
}

/// The metadata that belong together.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Snapshot {
    /// Counts up with every change.
    pub version: u64,
    /// When it no longer counts.
    pub expires: String,
    /// Of `targets.json`.
    pub meta: BTreeMap<String, MetaFile>,
}

/// The files of a version.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Targets {
    /// The channel's version.
    pub version: u64,
    /// When it no longer counts.
    pub expires: String,
    /// By name.
    pub targets: BTreeMap<String, FileInfo>,
    /// What a version says about itself.
    #[serde(rename = "x-gauntlet", default)]
    pub bundle: BundleInfo,
}

impl Timestamp {
    /// What it says of the snapshot.
    ///
    /// # Errors
    /// Nothing.
    pub fn snapshot(&self) -> Result<&MetaFile, Error> {
        self.meta.get("snapshot.json").ok_or_else(|| Error::malformed("timestamp", "no snapshot"))
    }

    /// What is to be signed.
    pub fn to_value(&self) -> Value {
        typed(RoleName::Timestamp, self)
    }
}

impl Snapshot {
    /// What it says of the targets.
    ///
    /// # Errors
    /// Nothing.
    pub fn targets(&self) -> Result<&MetaFile, Error> {
        self.meta.get("targets.json").ok_or_else(|| Error::malformed("snapshot", "no targets"))
    }

    /// What is to be signed.
    pub fn to_value(&self) -> Value {
        typed(RoleName::Snapshot, self)
    }
}

impl Targets {
    /// What is to be signed.
    pub fn to_value(&self) -> Value {
        typed(RoleName::Targets, self)
    }

    /// Bytes of all files together.
    pub fn bytes(&self) -> u64 {
        self.targets.values().fold(0, |all, file| all.saturating_add(file.length))
    }
}

/// The fields of metadata, with those that all have.
fn typed(role: RoleName, fields: &impl Serialize) -> Value {
    // These types have text keys and integers only, so nothing fails.
    let mut value = serde_json::to_value(fields).unwrap_or_default();
    if let Some(object) = value.as_object_mut() {
        object.insert("_type".to_owned(), role.name().into());
        object.insert("spec_version".to_owned(), SPEC_VERSION.into());
    }
    value
}

impl Metadata for Timestamp {
    const ROLE: RoleName = RoleName::Timestamp;

    fn version(&self) -> u64 {
        self.version
    }

    fn expires(&self) -> &str {
        &self.expires
    }

    fn check(&self) -> Result<(), Error> {
        self.snapshot().map(drop)
    }
}

impl Metadata for Snapshot {
    const ROLE: RoleName = RoleName::Snapshot;

    fn version(&self) -> u64 {
        self.version
    }

    fn expires(&self) -> &str {
        &self.expires
    }

    fn check(&self) -> Result<(), Error> {
        self.targets().map(drop)
    }
}

impl Metadata for Targets {
    const ROLE: RoleName = RoleName::Targets;

    fn version(&self) -> u64 {
        self.version
    }

    fn expires(&self) -> &str {
        &self.expires
    }

    fn check(&self) -> Result<(), Error> {
        if self.targets.len() > limits::FILES_MAX {
            return Err(Error::malformed("targets", "more files than a bundle may have"));
        }
        bundle::check_names(self.targets.keys().map(String::as_str))?;
        self.targets.iter().try_for_each(|(name, file)| file.check(name))
    }
}
