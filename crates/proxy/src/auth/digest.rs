//! The proof of Digest (RFC 7616 section 3.4.1), and the users that it is checked by.
//!
//! A proof is made of `HA1 = H(login:realm:password)`. Who has it needs no password, so that the
//! file is as secret as passwords are; and a slow hash of a password does not give it.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use hyper::{Method, Uri};
use md5::{Digest as _, Md5};

use super::file::{self, FileError};
use super::header::{Algorithm, DigestProof};
use super::nonce::is_same;

/// Users of one realm.
#[derive(Debug, Default)]
pub(crate) struct DigestUsers {
    by_login: HashMap<String, Hashes>,
    /// What all of them can prove by, the strongest first.
    pub(crate) algorithms: Vec<Algorithm>,
}

/// `HA1` in lower case of base 16, by the algorithm.
#[derive(Debug, Clone, Default)]
struct Hashes {
    md5: Option<String>,
    sha256: Option<String>,
}

impl Hashes {
    fn get(&self, algorithm: Algorithm) -> Option<&str> {
        match algorithm {
            Algorithm::Md5 => self.md5.as_deref(),
            Algorithm::Sha256 => self.sha256.as_deref(),
        }
    }
}

impl DigestUsers {
    /// Reads lines of `login:realm:HA1`, as `htdigest` makes them with MD5; with SHA-256, `HA1` has
    /// 64 digits. Entries of other realms are left out.
    ///
    /// # Errors
    /// If it cannot be read, a line is malformed, or there is no algorithm that all users have.
    pub(crate) fn open(path: &Path, realm: &str) -> Result<Self, FileError> {
        let mut by_login: HashMap<String, Hashes> = HashMap::new();
        for (line, text) in file::lines(&file::read(path)?) {
            let wrong = |why: &str| file::wrong(path, line, why.to_owned());
            let mut parts = text.splitn(3, ':');
            let (Some(login), Some(of), Some(hash)) = (parts.next(), parts.next(), parts.next())
            else {
                return Err(wrong("a line is LOGIN:REALM:HASH"));
            };
            if of != realm {
                continue;
            }
            let hash = hash.trim().to_ascii_lowercase();
            let is_hash = hash.bytes().all(|b| b.is_ascii_hexdigit());
            let hashes = by_login.entry(login.to_owned()).or_default();
            let place = match hash.len() {
                32 if is_hash => &mut hashes.md5,
                64 if is_hash => &mut hashes.sha256,
                _ => return Err(wrong("the hash has 32 (MD5) or 64 (SHA-256) digits of base 16")),
            };
            if place.replace(hash).is_some() {
                return Err(wrong("this user was there before"));
            }
        }
        if by_login.is_empty() {
            let why = format!("there is no user of the realm {realm:?}");
            return Err(file::wrong(path, 1, why));
        }
        let all = [Algorithm::Sha256, Algorithm::Md5].into_iter();
        let has = |a: &Algorithm| by_login.values().all(|hashes| hashes.get(*a).is_some());
        let algorithms: Vec<Algorithm> = all.filter(has).collect();
        if algorithms.is_empty() {
            let why = "some users have MD5 alone and others SHA-256 alone, so that nothing can be \
                       offered to all";
            return Err(file::wrong(path, 1, why.to_owned()));
        }
        Ok(DigestUsers { by_login, algorithms })
    }

    /// The login, if the proof is right for a request by this method; whether its nonce is good is
    /// another question.
    pub(crate) fn verify(&self, proof: &DigestProof, method: &Method) -> Option<Arc<str>> {
        if !self.algorithms.contains(&proof.algorithm) {
            return None;
        }
        let known = self.by_login.get(&proof.login).and_then(|h| h.get(proof.algorithm));
        // For unknown logins the same is computed, so that the time says nothing.
        let ha1 = known.unwrap_or("00000000000000000000000000000000");
        let expected = response(ha1, proof, method);
        let is_right = is_same(expected.as_bytes(), proof.response.as_bytes());
        (is_right && known.is_some()).then(|| Arc::from(proof.login.as_str()))
    }
}

/// `response` as a client computes it.
fn response(ha1: &str, proof: &DigestProof, method: &Method) -> String {
    let DigestProof { nonce, nc, cnonce, uri, algorithm, .. } = proof;
    let ha2 = hash(*algorithm, &format!("{method}:{uri}"));
    hash(*algorithm, &format!("{ha1}:{nonce}:{nc}:{cnonce}:auth:{ha2}"))
}

/// A hash in lower case of base 16.
fn hash(algorithm: Algorithm, text: &str) -> String {
    let hex = |bytes: &[u8]| bytes.iter().map(|b| format!("{b:02x}")).collect();
    match algorithm {
        Algorithm::Md5 => hex(&Md5::digest(text.as_bytes())),
        Algorithm::Sha256 => {
            hex(ring::digest::digest(&ring::digest::SHA256, text.as_bytes()).as_ref())
        }
    }
}

/// The target that was hashed is that of the request: as it was sent, or, as curl has it, its path
/// alone.
pub(crate) fn is_target(hashed: &str, method: &Method, uri: &Uri) -> bool {
    let path = uri.path_and_query().map_or("/", |path| path.as_str());
    if *method == Method::CONNECT {
        return uri.authority().is_some_and(|a| a.as_str().eq_ignore_ascii_case(hashed));
    }
    hashed == path || hashed.parse::<Uri>().is_ok_and(|hashed| hashed == *uri)
}

#[cfg(test)]
mod tests {
    use super::super::header::{Credentials, read};
    use super::*;

    /// RFC 7616 section 3.9.1, with the answers for MD5 and SHA-256.
    #[test]
    fn the_examples_of_the_rfc_are_right() {
        for (algorithm, response) in [
            ("MD5", "8ca523f5e9506fed4657c9700eebdbec"),
            ("SHA-256", "753927fa0e85d155564e2e272a28d1802ca10daf4496794697cf8db5856cb6c1"),
        ] {
            let field = format!(
                "Digest username=\"Mufasa\", realm=\"http-auth@example.org\", \
                 uri=\"/dir/index.html\", algorithm={algorithm}, \
                 nonce=\"7ypf/xlj9XXwfDPEoM4URrv/xwf94BcCAzFZH4GiTo0v\", nc=00000001, \
                 cnonce=\"f2/wE4q74E6zIJEtWaHKaf5wv/H5QzzpXusqGemxURZJ\", qop=auth, \
                 response=\"{response}\", opaque=\"FQhe/qaU925kfnzjCev0ciny7QMkPqMAFRtzCUYo5tdS\""
            );
            let Some(Credentials::Digest(proof)) = read(field.as_bytes()) else { panic!() };
            let ha1 = hash(proof.algorithm, "Mufasa:http-auth@example.org:Circle of Life");
            let folder = tempfile::tempdir().unwrap();
            let file = folder.path().join("digest");
            std::fs::write(&file, format!("Mufasa:http-auth@example.org:{ha1}\n")).unwrap();
            let users = DigestUsers::open(&file, "http-auth@example.org").unwrap();
            assert_eq!(users.verify(&proof, &Method::GET).as_deref(), Some("Mufasa"));
            assert_eq!(users.verify(&proof, &Method::POST), None);
            let other = DigestProof { login: "Scar".to_owned(), ..*proof };
            assert_eq!(users.verify(&other, &Method::GET), None);
        }
    }

    #[test]
    fn what_all_users_have_is_offered() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("digest");
        let (md5, sha) = ("0".repeat(32), "0".repeat(64));
        let open = |text: &str| {
            std::fs::write(&file, text).unwrap();
            DigestUsers::open(&file, "r").map_err(|e| e.to_string())
        };
        let both = format!("a:r:{md5}\na:r:{sha}\nb:r:{sha}\nb:r:{md5}\nc:other:{md5}\n# x\n\n");
        assert_eq!(open(&both).unwrap().algorithms, [Algorithm::Sha256, Algorithm::Md5]);
        let some = format!("a:r:{md5}\na:r:{sha}\nb:r:{md5}\n");
        assert_eq!(open(&some).unwrap().algorithms, [Algorithm::Md5]);
        for (text, why) in [
            (format!("a:r:{md5}\nb:r:{sha}"), "nothing can be offered"),
            (format!("a:r:{md5}\na:r:{md5}"), "line 2: this user"),
            ("a:r:xyz".to_owned(), "32 (MD5) or 64"),
            ("a".to_owned(), "LOGIN:REALM:HASH"),
            (String::new(), "no user of the realm"),
        ] {
            let error = open(&text).unwrap_err();
            assert!(error.contains(why), "{error}");
        }
    }

    #[test]
    fn the_target_is_that_of_the_request() {
        let uri: Uri = "http://x.example/a?b".parse().unwrap();
        assert!(is_target("/a?b", &Method::GET, &uri));
        assert!(is_target("http://X.example/a?b", &Method::GET, &uri));
        assert!(!is_target("/a", &Method::GET, &uri));
        assert!(!is_target("http://y.example/a?b", &Method::GET, &uri));
        let uri: Uri = "x.example:443".parse().unwrap();
        assert!(is_target("x.example:443", &Method::CONNECT, &uri));
        assert!(!is_target("/", &Method::CONNECT, &uri));
    }
}
