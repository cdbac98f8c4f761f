//! Links in digests: signed, for one use, with an expiry time.
//!
//! A link is `payload.mac`: its action as JSON in base64url, and the keyed BLAKE3 hash of that text
//! under a key of the node. Creating a link stores nothing; using one stores its hash, so that it
//! works once.

use base64_simd::URL_SAFE_NO_PAD;
use rusqlite::{OptionalExtension, params};
use serde::{Deserialize, Serialize};

use super::UserDatabase;
use super::audit::audit;
use super::sharing::LINKS_BEFORE;
use crate::error::StoreError;
use crate::random;

/// Longest link that is verified, in bytes.
const LINK_BYTES_MAX: usize = 2_000;
/// Bytes of the signing key.
const KEY_BYTES: usize = 32;
/// Characters of the signature, which is hexadecimal.
const MAC_CHARS: usize = 64;

/// The content of a link.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Link {
    /// The action of the link.
    pub kind: LinkKind,
    /// The recipient's address, in lower case.
    pub address: String,
    /// Id of the held item; empty for [`LinkKind::Enter`].
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub item: String,
    /// Expiry time, in Unix milliseconds.
    pub until_ms: i64,
    /// Time of the digest, which distinguishes links that are otherwise equal.
    pub made_ms: i64,
}

/// The action of a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LinkKind {
    /// See the held mail of the address, without a password.
    Enter,
    /// Release one held message.
    Release,
    /// Release it, and allow its sender for the address.
    Allow,
}

/// Result of verifying a link.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum LinkStatus {
    /// The signature is right, and it is in time.
    Valid(Link),
    /// The signature is right, but its time is over.
    Expired(Link),
    /// It was used before.
    Used(Link),
    /// Its signature is wrong.
    Forged,
}

impl UserDatabase {
    /// Signs a link. The text has letters, digits, `-`, `_` and one `.`.
    ///
    /// # Errors
    /// If there is no key yet and none could be generated.
    pub fn sign_link(&self, link: &Link) -> Result<String, StoreError> {
        let payload = serde_json::to_vec(link).unwrap_or_default();
        let payload = URL_SAFE_NO_PAD.encode_to_string(payload);
        let mac = blake3::keyed_hash(&self.link_key()?, payload.as_bytes()).to_hex();
        Ok(format!("{payload}.{mac}"))
    }

    /// Verifies a link without using it.
    ///
    /// # Errors
    /// If the database cannot be read.
    pub fn check_link(&self, text: &str, now_ms: i64) -> Result<LinkStatus, StoreError> {
        let Some(link) = self.verify_signature(text)? else { return Ok(LinkStatus::Forged) };
        let used = self.read(|c| {
            let mut find = c.prepare_cached("SELECT 1 FROM used_link WHERE hash = ?1")?;
            find.exists([hash(text)])
        })?;
        Ok(match link {
            link if used => LinkStatus::Used(link),
            link if now_ms >= link.until_ms => LinkStatus::Expired(link),
            link => LinkStatus::Valid(link),
        })
    }

    /// Verifies and uses a link: of concurrent uses one gets [`LinkStatus::Valid`].
    ///
    /// # Errors
    /// If that could not be made durable; then it is not used.
    pub fn use_link(&self, text: &str, now_ms: i64) -> Result<LinkStatus, StoreError> {
        let link = match self.check_link(text, now_ms)? {
            LinkStatus::Valid(link) => link,
            other => return Ok(other),
        };
        let first = self.change(|batch| {
            // Expired ones are refused anyway.
            batch.execute("DELETE FROM used_link WHERE until_ms < ?1", [now_ms])?;
            let first = batch.execute(
                "INSERT OR IGNORE INTO used_link (hash, until_ms) VALUES (?1, ?2)",
                params![hash(text), link.until_ms],
            )? == 1;
            if first {
                let what = match link.kind {
                    LinkKind::Enter => "came by a link",
                    LinkKind::Release => "released by a link",
                    LinkKind::Allow => "allowed by a link",
                };
                audit(batch, now_ms, &link.address, what, &link.item, "")?;
            }
            Ok(first)
        })?;
        Ok(if first { LinkStatus::Valid(link) } else { LinkStatus::Used(link) })
    }

    /// Makes a used link valid again, if its action failed.
    ///
    /// # Errors
    /// If that could not be made durable.
    pub fn restore_link(&self, text: &str) -> Result<(), StoreError> {
        self.change(|batch| {
            batch.execute("DELETE FROM used_link WHERE hash = ?1", [hash(text)])?;
            Ok(())
        })
    }

    fn verify_signature(&self, text: &str) -> Result<Option<Link>, StoreError> {
        let Some((payload, mac)) = text.split_once('.') else { return Ok(None) };
        if text.len() > LINK_BYTES_MAX || mac.len() != MAC_CHARS {
            return Ok(None);
        }
        // One spelling only: used links are stored by the hash of their text.
        if mac.bytes().any(|b| b.is_ascii_uppercase()) {
            return Ok(None);
        }
        let Ok(mac) = blake3::Hash::from_hex(mac) else { return Ok(None) };
        // The comparisons take constant time.
        let is_by = |key: &[u8; KEY_BYTES]| blake3::keyed_hash(key, payload.as_bytes()) == mac;
        if !is_by(&self.link_key()?) && !self.link_keys_before()?.iter().any(is_by) {
            return Ok(None);
        }
        let payload = URL_SAFE_NO_PAD.decode_to_vec(payload.as_bytes()).unwrap_or_default();
        Ok(serde_json::from_slice(&payload).ok())
    }

    fn link_key(&self) -> Result<[u8; KEY_BYTES], StoreError> {
        self.stored_key("links")
    }

    /// The nodes' keys before the array's came, for links that were sent with them.
    fn link_keys_before(&self) -> Result<Vec<[u8; KEY_BYTES]>, StoreError> {
        let sql = "SELECT value FROM secret WHERE name = ?1 OR name GLOB ?1 || ' *'";
        let found: Vec<Vec<u8>> = self.read(|c| {
            let mut find = c.prepare_cached(sql)?;
            find.query_map([LINKS_BEFORE], |row| row.get(0))?.collect()
        })?;
        Ok(found.into_iter().filter_map(|key| key.try_into().ok()).collect())
    }

    /// A key of this name, which never leaves the process that has the database; generated and
    /// stored when it is first needed.
    pub(super) fn stored_key(&self, name: &str) -> Result<[u8; KEY_BYTES], StoreError> {
        const FIND: &str = "SELECT value FROM secret WHERE name = ?1";
        let found =
            self.read(|c| c.query_row(FIND, [name], |r| r.get::<_, Vec<u8>>(0)).optional())?;
        let kept = match found {
            Some(kept) => kept,
            None => {
                let fresh = random::bytes(KEY_BYTES)?;
                self.change(|batch| {
                    let sql = "INSERT OR IGNORE INTO secret (name, value) VALUES (?1, ?2)";
                    batch.execute(sql, params![name, fresh])?;
                    batch.query_row(FIND, [name], |r| r.get(0))
                })?
            }
        };
        let damaged = || StoreError::Damaged {
            path: self.path.clone(),
            what: format!("the key of the {name}"),
            cause: "it has another length".to_owned(),
        };
        kept.try_into().map_err(|_| damaged())
    }
}

fn hash(text: &str) -> Vec<u8> {
    blake3::hash(text.as_bytes()).as_bytes().to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_works_once_for_a_while_and_as_it_was_made() {
        let folder = tempfile::tempdir().unwrap();
        let users = UserDatabase::open(folder.path()).unwrap();
        let link = Link {
            kind: LinkKind::Release,
            address: "ann@example.org".to_owned(),
            item: "held-one".to_owned(),
            until_ms: 1_000,
            made_ms: 1,
        };
        let text = users.sign_link(&link).unwrap();
        assert!(text.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b)), "{text}");
        // Every changed character makes it invalid.
        for i in 0..text.len() {
            let mut other = text.clone().into_bytes();
            other[i] = if other[i] == b'a' { b'b' } else { b'a' };
            let other = String::from_utf8(other).unwrap();
            assert_eq!(users.check_link(&other, 5).unwrap(), LinkStatus::Forged, "{other}");
        }
        // So does another spelling of the signature: each would be a further use.
        let (payload, mac) = text.split_once('.').unwrap();
        for at in mac.match_indices(|c: char| c.is_ascii_lowercase()).map(|(at, _)| at) {
            let mut other = mac.to_owned();
            other[at..=at].make_ascii_uppercase();
            assert_eq!(
                users.use_link(&format!("{payload}.{other}"), 5).unwrap(),
                LinkStatus::Forged
            );
        }
        for other in ["", ".", "a.b", &text[..text.len() - 1], &"x".repeat(5_000)] {
            assert_eq!(users.use_link(other, 5).unwrap(), LinkStatus::Forged);
        }
        assert_eq!(users.check_link(&text, 999).unwrap(), LinkStatus::Valid(link.clone()));
        assert_eq!(users.check_link(&text, 1_000).unwrap(), LinkStatus::Expired(link.clone()));
        assert_eq!(users.use_link(&text, 500).unwrap(), LinkStatus::Valid(link.clone()));
        assert_eq!(users.use_link(&text, 501).unwrap(), LinkStatus::Used(link.clone()));
        users.restore_link(&text).unwrap();
        assert_eq!(users.use_link(&text, 502).unwrap(), LinkStatus::Valid(link.clone()));
        // Another node's key.
        let elsewhere = tempfile::tempdir().unwrap();
        let other = UserDatabase::open(elsewhere.path()).unwrap();
        assert_eq!(other.check_link(&text, 5).unwrap(), LinkStatus::Forged);
        // The same after a restart.
        drop(users);
        let users = UserDatabase::open(folder.path()).unwrap();
        assert_eq!(users.check_link(&text, 503).unwrap(), LinkStatus::Used(link));
    }
}
