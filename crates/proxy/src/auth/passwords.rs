//! Who has which password: behind a trait, since a node has users of its own; here those of a file.

use std::collections::HashMap;
use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;

use argon2::Argon2;
use argon2::password_hash::{PasswordHash, PasswordVerifier};
use blowfish::Blowfish;
use futures_util::future::BoxFuture;

use super::file::{self, FileError};
use super::nonce::is_same;

/// A hash that nothing fits, so that an unknown login takes as long as a known one (bcrypt, cost
/// 10).
const DUMMY_HASH: &str = "$2b$10$abcdefghijklmnopqrstuuByRMCv8hbNjhAf/uRUvbuDvKQP.mnRS";

/// Checks passwords. What it says is remembered for `login.remember_seconds`.
pub trait Passwords: Send + Sync {
    /// The login as it is known, if the password is right. It may take as long as a slow hash does;
    /// few are asked at once.
    fn check(
        &self,
        client: IpAddr,
        login: String,
        password: String,
    ) -> BoxFuture<'_, Option<Arc<str>>>;

    /// Changes whenever users may have changed: what is remembered is forgotten then.
    fn generation(&self) -> u64 {
        0
    }
}

/// Users of a file as `htpasswd` writes it.
#[derive(Debug, Default)]
pub struct PasswordFile {
    hashes: HashMap<String, Arc<str>>,
}

impl PasswordFile {
    /// Reads lines of `login:hash`. Hashes are bcrypt (`htpasswd -B`) and Argon2 (`argon2 -e`).
    ///
    /// # Errors
    /// If it cannot be read, or a line is malformed or has another hash.
    pub fn open(path: &Path) -> Result<Self, FileError> {
        let mut hashes = HashMap::new();
        for (line, text) in file::lines(&file::read(path)?) {
            let wrong = |why: &str| file::wrong(path, line, why.to_owned());
            let (login, hash) = text.split_once(':').ok_or_else(|| wrong("no LOGIN:HASH"))?;
            if Hash::read(hash).is_none() {
                return Err(wrong(
                    "this hash is none of bcrypt (htpasswd -B, cost 4 to 15) and Argon2 \
                     (argon2 -e); others are not known here, or too easily guessed",
                ));
            }
            if login.is_empty() || hashes.insert(login.to_owned(), Arc::from(hash)).is_some() {
                return Err(wrong("the login is empty, or was there before"));
            }
        }
        Ok(PasswordFile { hashes })
    }
}

impl Passwords for PasswordFile {
    fn check(
        &self,
        _client: IpAddr,
        login: String,
        password: String,
    ) -> BoxFuture<'_, Option<Arc<str>>> {
        let known = self.hashes.get(&login).cloned();
        let is_known = known.is_some();
        let hash = known.unwrap_or_else(|| Arc::from(DUMMY_HASH));
        Box::pin(async move {
            let fits = tokio::task::spawn_blocking(move || fits(&password, &hash)).await;
            (fits.unwrap_or(false) && is_known).then(|| Arc::from(login))
        })
    }
}

/// A hash as it is written, with what makes it slow within bounds.
#[derive(Debug)]
enum Hash<'a> {
    /// Cost, salt, and the hash itself.
    Bcrypt(u32, [u8; 16], [u8; 23]),
    Argon2(PasswordHash<'a>),
}

/// A login should take a second at most, on any machine: higher costs are mistakes.
const BCRYPT_COST_MAX: u32 = 15;
const ARGON2_KIB_MAX: u32 = 1 << 20;
const ARGON2_PASSES_MAX: u32 = 100;

impl<'a> Hash<'a> {
    fn read(text: &'a str) -> Option<Self> {
        if let Some(rest) = ["$2a$", "$2b$", "$2y$"].iter().find_map(|p| text.strip_prefix(p)) {
            let (cost, rest) = rest.split_once('$')?;
            let cost = cost.parse().ok().filter(|cost| (4..=BCRYPT_COST_MAX).contains(cost))?;
            let (salt, hash) = rest.split_at_checked(22).filter(|(_, hash)| hash.len() == 31)?;
            return Some(Hash::Bcrypt(cost, bcrypt_bytes(salt)?, bcrypt_bytes(hash)?));
        }
        let hash = PasswordHash::new(text).ok().filter(|_| text.starts_with("$argon2"))?;
        let params = argon2::Params::try_from(&hash).ok()?;
        let is_bounded = params.m_cost() <= ARGON2_KIB_MAX && params.t_cost() <= ARGON2_PASSES_MAX;
        (is_bounded && hash.hash.is_some()).then_some(Hash::Argon2(hash))
    }
}

/// Bytes in bcrypt's own Base64, whose letters have another order; bits that are left over do not
/// count.
fn bcrypt_bytes<const N: usize>(text: &str) -> Option<[u8; N]> {
    const LETTERS: &[u8] = b"./ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
    let (mut bytes, mut bits, mut kept) = (Vec::with_capacity(N), 0_u32, 0);
    for letter in text.bytes() {
        let value = LETTERS.iter().position(|l| *l == letter)?;
        bits = (bits << 6) | u32::try_from(value).ok()?;
        kept += 6;
        if kept >= 8 {
            kept -= 8;
            bytes.push((bits >> kept) as u8);
            bits &= (1 << kept) - 1;
        }
    }
    bytes.try_into().ok()
}

/// Text that bcrypt encrypts: "OrpheanBeholderScryDoubt".
const MAGIC: [u32; 6] =
    [0x4f72_7068, 0x6561_6e42, 0x6568_6f6c, 0x6465_7253, 0x6372_7944, 0x6f75_6274];

/// bcrypt (Provos and Mazieres, "A Future-Adaptable Password Scheme", section 5) on Blowfish with
/// its costly key schedule: of a password 72 bytes count, with the zero that ends it.
fn bcrypt(password: &str, cost: u32, salt: &[u8; 16]) -> Vec<u8> {
    let mut word = [password.as_bytes(), b"\0"].concat();
    word.truncate(72);
    let mut state: Blowfish = Blowfish::bc_init_state();
    state.salted_expand_key(salt, &word);
    for _ in 0..1_u64 << cost {
        state.bc_expand_key(&word);
        state.bc_expand_key(salt);
    }
    let mut made = Vec::with_capacity(24);
    for pair in MAGIC.chunks_exact(2) {
        let [left, right] = *pair else { continue };
        let mut block = [left, right];
        for _ in 0..64 {
            block = state.bc_encrypt(block);
        }
        made.extend(block.iter().flat_map(|half| half.to_be_bytes()));
    }
    // The last byte never was part of the hash.
    made.truncate(23);
    made
}

/// The password has this hash. It takes as long as the hash is meant to.
fn fits(password: &str, hash: &str) -> bool {
    match Hash::read(hash) {
        Some(Hash::Bcrypt(cost, salt, hash)) => is_same(&bcrypt(password, cost, &salt), &hash),
        Some(Hash::Argon2(hash)) => {
            Argon2::default().verify_password(password.as_bytes(), &hash).is_ok()
        }
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What `htpasswd -nbB` and `argon2` print for "secret".
    const LINES: &str = "\
# users of the proxy
bcrypt:$2y$05$HSqzFHcXPS3m2XEpUHKnpO5Ixav1aWHkF2mL198XGVQvx5BzqF3c6
argon2:$argon2id$v=19$m=1024,t=1,p=1$c2FsdHNhbHRzYWx0$\
GMv1V/a9uBNqF+93SqBH3JLZiqfe1V1xP9SfOSAqqRE
";

    fn open(text: &str) -> Result<PasswordFile, String> {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("passwords");
        std::fs::write(&file, text).unwrap();
        PasswordFile::open(&file).map_err(|e| e.to_string())
    }

    #[tokio::test]
    async fn every_kind_of_hash_is_checked() {
        let users = open(LINES).unwrap();
        let check = |login: &str, password: &str| {
            users.check([127, 0, 0, 1].into(), login.to_owned(), password.to_owned())
        };
        for login in ["bcrypt", "argon2"] {
            assert_eq!(check(login, "secret").await.as_deref(), Some(login));
            assert_eq!(check(login, "Secret").await, None, "{login}");
        }
        assert_eq!(check("nobody", "secret").await, None);
        assert!(Hash::read(DUMMY_HASH).is_some());
    }

    #[test]
    fn what_cannot_be_checked_is_named_with_its_line() {
        for (text, why) in [
            ("a:$apr1$x$y", "line 1: this hash is none of bcrypt"),
            ("a:plain", "htpasswd -B"),
            ("a", "LOGIN:HASH"),
            ("a:$2y$31$HSqzFHcXPS3m2XEpUHKnpO5Ixav1aWHkF2mL198XGVQvx5BzqF3c6", "line 1"),
            ("a:$6$saltsalt$x", "line 1"),
        ] {
            let error = open(text).unwrap_err();
            assert!(error.contains(why), "{text}: {error}");
        }
        let twice = LINES.replace("argon2:", "bcrypt:");
        assert!(open(&twice).unwrap_err().contains("line 3"), "the login is there twice");
    }
}
