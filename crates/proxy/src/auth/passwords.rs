//! Who has which password: behind a trait, since a node has users of its own; here those of a file.

use std::collections::HashMap;
use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;

use argon2::Argon2;
use argon2::password_hash::{PasswordHash, PasswordVerifier};
use blowfish::Blowfish;
use futures_util::future::BoxFuture;

use super::apr1;
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
    /// Reads lines of `login:hash`. Hashes are bcrypt (`htpasswd -B`), Argon2 (`argon2 -e`),
    /// SHA-crypt (`htpasswd -2`, `-5`, `mkpasswd`) and, with a warning, `$apr1$` (`htpasswd -m`).
    ///
    /// # Errors
    /// If it cannot be read, or a line is malformed or has another hash.
    pub fn open(path: &Path) -> Result<Self, FileError> {
        let mut hashes = HashMap::new();
        let mut quick = 0;
        for (line, text) in file::lines(&file::read(path)?) {
            let wrong = |why: &str| file::wrong(path, line, why.to_owned());
            let (login, hash) = text.split_once(':').ok_or_else(|| wrong("no LOGIN:HASH"))?;
            let Some(read) = Hash::read(hash) else {
                return Err(wrong(
                    "this hash is none of bcrypt (htpasswd -B, cost 4 to 15), Argon2 (argon2 -e), \
                     SHA-crypt ($5$, $6$, at most 1000000 rounds) and $apr1$; others are not known \
                     here, or too easily guessed",
                ));
            };
            quick += u32::from(matches!(read, Hash::Apr1(..)));
            if login.is_empty() || hashes.insert(login.to_owned(), Arc::from(hash)).is_some() {
                return Err(wrong("the login is empty, or was there before"));
            }
        }
        if quick > 0 {
            let file = path.display();
            tracing::warn!(%file, quick, "$apr1$ hashes are quickly guessed; htpasswd -B makes others");
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
    /// SHA-256 or SHA-512, rounds, salt, and the hash itself.
    Sha(Sha, usize, &'a str, &'a str),
    /// Salt, and the hash itself.
    Apr1(&'a str, &'a str),
}

/// Which of the two hashes of SHA-crypt.
#[derive(Debug, Clone, Copy)]
enum Sha {
    Sha256,
    Sha512,
}

/// A login should take a second at most, on any machine: higher costs are mistakes.
const BCRYPT_COST_MAX: u32 = 15;
const ARGON2_KIB_MAX: u32 = 1 << 20;
const ARGON2_PASSES_MAX: u32 = 100;
const SHA_ROUNDS_MAX: usize = 1_000_000;
/// Bytes of a salt that count.
const SHA_SALT_BYTES_MAX: usize = 16;

impl<'a> Hash<'a> {
    fn read(text: &'a str) -> Option<Self> {
        if let Some(rest) = ["$2a$", "$2b$", "$2y$"].iter().find_map(|p| text.strip_prefix(p)) {
            let (cost, rest) = rest.split_once('$')?;
            let cost = cost.parse().ok().filter(|cost| (4..=BCRYPT_COST_MAX).contains(cost))?;
            let (salt, hash) = rest.split_at_checked(22).filter(|(_, hash)| hash.len() == 31)?;
            return Some(Hash::Bcrypt(cost, bcrypt_bytes(salt)?, bcrypt_bytes(hash)?));
        }
        if let Some(rest) = text.strip_prefix("$apr1$") {
            let (salt, hash) = rest.split_once('$')?;
            let fits = salt.len() <= apr1::SALT_BYTES_MAX && hash.len() == apr1::HASH_LETTERS;
            return fits.then_some(Hash::Apr1(salt, hash));
        }
        if let Some(rest) = text.strip_prefix("$5$") {
            return read_sha(Sha::Sha256, 43, rest);
        }
        if let Some(rest) = text.strip_prefix("$6$") {
            return read_sha(Sha::Sha512, 86, rest);
        }
        let hash = PasswordHash::new(text).ok().filter(|_| text.starts_with("$argon2"))?;
        let params = argon2::Params::try_from(&hash).ok()?;
        let is_bounded = params.m_cost() <= ARGON2_KIB_MAX && params.t_cost() <= ARGON2_PASSES_MAX;
        (is_bounded && hash.hash.is_some()).then_some(Hash::Argon2(hash))
    }
}

/// What stands behind `$5$` or `$6$` (Drepper, "Unix crypt using SHA-256 and SHA-512").
fn read_sha(sha: Sha, letters: usize, text: &str) -> Option<Hash<'_>> {
    let (rounds, rest) = match text.strip_prefix("rounds=") {
        None => (sha_crypt::ROUNDS_DEFAULT, text),
        Some(text) => {
            let (rounds, rest) = text.split_once('$')?;
            (rounds.parse().ok()?, rest)
        }
    };
    let (salt, hash) = rest.split_once('$')?;
    let fits = (1000..=SHA_ROUNDS_MAX).contains(&rounds)
        && salt.len() <= SHA_SALT_BYTES_MAX
        && hash.len() == letters;
    fits.then_some(Hash::Sha(sha, rounds, salt, hash))
}

/// The hash of a password as it is written.
fn sha_hash(sha: Sha, password: &str, salt: &str, rounds: usize) -> Option<String> {
    let (password, salt) = (password.as_bytes(), salt.as_bytes());
    match sha {
        Sha::Sha256 => {
            let params = sha_crypt::Sha256Params::new(rounds).ok()?;
            sha_crypt::sha256_crypt_b64(password, salt, &params).ok()
        }
        Sha::Sha512 => {
            let params = sha_crypt::Sha512Params::new(rounds).ok()?;
            sha_crypt::sha512_crypt_b64(password, salt, &params).ok()
        }
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
        Some(Hash::Sha(sha, rounds, salt, hash)) => sha_hash(sha, password, salt, rounds)
            .is_some_and(|made| is_same(made.as_bytes(), hash.as_bytes())),
        Some(Hash::Apr1(salt, hash)) => {
            let made = apr1::hash(password.as_bytes(), salt.as_bytes());
            is_same(made.as_bytes(), hash.as_bytes())
        }
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What `htpasswd -nbB`, `argon2`, `openssl passwd` and crypt(3) print for "secret".
    const LINES: &str = "\
# users of the proxy
bcrypt:$2y$05$HSqzFHcXPS3m2XEpUHKnpO5Ixav1aWHkF2mL198XGVQvx5BzqF3c6
argon2:$argon2id$v=19$m=1024,t=1,p=1$c2FsdHNhbHRzYWx0$\
GMv1V/a9uBNqF+93SqBH3JLZiqfe1V1xP9SfOSAqqRE
apr1:$apr1$saltsalt$LrttParrLPdxvgutaSXWJ0
sha256:$5$saltsalt$0IyaXrmV7.sGNS6tirgqHLqX/G.FBvgkYA.lpPdS5sA
short:$5$rounds=1000$s$1G5532wclKO2DGU0xcX3Rd6BmCQw9FWjZAp9VdiPyK3
sha512:$6$rounds=1234$abcdefghijklmnop$\
IHxJU1//aPNjHJ/dTsgfYDQ8x53Qf934gbfExKhFjSUfeLhnxh5Qjre4cx8Z1herK1vKT7cjNCB8ULVND1/Q./
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
        for login in ["bcrypt", "argon2", "apr1", "sha256", "short", "sha512"] {
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
            ("a:{SHA}5en6G6MezRroT3XKqkdPOmY/BfQ=", "line 1: this hash"),
            ("a:$5$rounds=999999999$salt$Gcm6FsVtF/Qa77ZKD.iwsJlCVPY0XSMgLJL0Hnww/c1", "line 1"),
            ("a:$5$rounds=x$salt$Gcm6FsVtF/Qa77ZKD.iwsJlCVPY0XSMgLJL0Hnww/c1", "line 1"),
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
