//! `Proxy-Authorization` as bytes: Basic (RFC 7617 section 2), Digest (RFC 7616 section 3.4).
//!
//! Every size has a limit; what is beyond, is doubled, or has two readings is malformed as a whole.

use std::borrow::Cow;

/// Bytes of the field.
const FIELD_BYTES_MAX: usize = 4096;
/// Parameters of Digest; the RFC knows twelve.
const PARAMETERS_MAX: usize = 20;
/// Bytes of a login.
const LOGIN_BYTES_MAX: usize = 254;
/// Bytes of a password; the node's users have no longer ones.
const PASSWORD_BYTES_MAX: usize = 256;

/// What a client says it is.
#[derive(Clone, PartialEq, Eq)]
pub enum Credentials {
    /// Login and password.
    Basic {
        /// Without a colon.
        login: String,
        /// Anything.
        password: String,
    },
    /// A proof.
    Digest(Box<DigestProof>),
    /// A scheme that is not ours.
    Other,
}

/// It has a password: it is not printed.
impl std::fmt::Debug for Credentials {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Credentials::Basic { login, .. } => f.debug_tuple("Basic").field(login).finish(),
            Credentials::Digest(proof) => f.debug_tuple("Digest").field(&proof.login).finish(),
            Credentials::Other => f.write_str("Other"),
        }
    }
}

/// The parameters of Digest that count.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DigestProof {
    /// Whose proof it is.
    pub login: String,
    /// As it was offered.
    pub realm: String,
    /// As it was offered.
    pub nonce: String,
    /// The target of the request, as the client hashed it.
    pub uri: String,
    /// By which hash.
    pub algorithm: Algorithm,
    /// The client's part of the nonce.
    pub cnonce: String,
    /// How often the client has used the nonce, as it was hashed: eight digits of base 16.
    pub nc: String,
    /// The proof, in lower case.
    pub response: String,
}

/// Hashes of Digest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Algorithm {
    /// `MD5`, which is what is meant without a name.
    Md5,
    /// `SHA-256`.
    Sha256,
}

impl Algorithm {
    /// Its name in the header.
    pub fn name(self) -> &'static str {
        match self {
            Algorithm::Md5 => "MD5",
            Algorithm::Sha256 => "SHA-256",
        }
    }

    /// Digits of its hash in base 16.
    pub fn digits(self) -> usize {
        match self {
            Algorithm::Md5 => 32,
            Algorithm::Sha256 => 64,
        }
    }
}

/// Reads the value of the field; none if it is malformed, or asks for what was not offered.
pub fn read(value: &[u8]) -> Option<Credentials> {
    if value.len() > FIELD_BYTES_MAX {
        return None;
    }
    let end = value.iter().position(|b| *b == b' ').unwrap_or(value.len());
    let (scheme, rest) = value.split_at_checked(end)?;
    if scheme.eq_ignore_ascii_case(b"basic") {
        basic(rest.trim_ascii())
    } else if scheme.eq_ignore_ascii_case(b"digest") {
        digest(rest).map(|proof| Credentials::Digest(Box::new(proof)))
    } else {
        let is_token = !scheme.is_empty() && scheme.iter().all(|b| is_token(*b));
        is_token.then_some(Credentials::Other)
    }
}

fn basic(encoded: &[u8]) -> Option<Credentials> {
    // Some clients leave the padding out.
    let decoded = match encoded.ends_with(b"=") || encoded.len().is_multiple_of(4) {
        true => base64_simd::STANDARD.decode_to_vec(encoded),
        false => base64_simd::STANDARD_NO_PAD.decode_to_vec(encoded),
    };
    let text = String::from_utf8(decoded.ok()?).ok()?;
    let (login, password) = text.split_once(':')?;
    let is_password = password.len() <= PASSWORD_BYTES_MAX && !password.contains(char::is_control);
    (is_login(login) && is_password)
        .then(|| Credentials::Basic { login: login.to_owned(), password: password.to_owned() })
}

/// It stands in logs, and in files between colons.
fn is_login(login: &str) -> bool {
    !login.is_empty()
        && login.len() <= LOGIN_BYTES_MAX
        && !login.contains(|c: char| c.is_control() || c == ':')
        && login.trim() == login
}

fn digest(rest: &[u8]) -> Option<DigestProof> {
    let parameters = parameters(rest)?;
    let value = |name: &str| {
        let found = parameters.iter().find(|p| p.name.eq_ignore_ascii_case(name.as_bytes()));
        found.map(|p| p.value.as_ref())
    };
    let text = |name: &str| String::from_utf8(value(name)?.to_vec()).ok();
    // Two readings of who it is would be one too many.
    let login = match (value("username"), value("username*")) {
        (Some(_), None) => text("username")?,
        (None, Some(extended)) => extended_text(extended)?,
        _ => return None,
    };
    let is_hashed = value("userhash").is_some_and(|v| v.eq_ignore_ascii_case(b"true"));
    let algorithm = match value("algorithm") {
        None => Algorithm::Md5,
        Some(name) if name.eq_ignore_ascii_case(b"MD5") => Algorithm::Md5,
        Some(name) if name.eq_ignore_ascii_case(b"SHA-256") => Algorithm::Sha256,
        Some(_) => return None,
    };
    let proof = DigestProof {
        login,
        realm: text("realm")?,
        nonce: text("nonce")?,
        uri: text("uri")?,
        algorithm,
        cnonce: text("cnonce")?,
        nc: text("nc")?,
        response: text("response")?.to_ascii_lowercase(),
    };
    let is_hex = |text: &str| text.bytes().all(|b| b.is_ascii_hexdigit());
    let is_whole = is_login(&proof.login)
        && !is_hashed
        && value("qop")?.eq_ignore_ascii_case(b"auth")
        && proof.nc.len() == 8
        && is_hex(&proof.nc)
        && proof.response.len() == algorithm.digits()
        && is_hex(&proof.response)
        && !proof.cnonce.is_empty();
    is_whole.then_some(proof)
}

/// `UTF-8''J%C3%A4s%C3%B8n` (RFC 8187 section 3.2).
fn extended_text(value: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(value).ok()?;
    let mut parts = text.splitn(3, '\'');
    let (charset, _language, encoded) = (parts.next()?, parts.next()?, parts.next()?);
    if !charset.eq_ignore_ascii_case("UTF-8") {
        return None;
    }
    String::from_utf8(gauntlet_mail::encoding::percent_decode(encoded.as_bytes())).ok()
}

struct Parameter<'a> {
    name: &'a [u8],
    value: Cow<'a, [u8]>,
}

/// A list of `name=token` and `name="quoted"` (RFC 9110 sections 5.6 and 11.2); none if it is
/// malformed, too long, or has a name twice.
fn parameters(mut rest: &[u8]) -> Option<Vec<Parameter<'_>>> {
    let mut all: Vec<Parameter<'_>> = Vec::new();
    loop {
        // Empty elements are allowed.
        while let Some((b' ' | b'\t' | b',', behind)) = rest.split_first() {
            rest = behind;
        }
        if rest.is_empty() {
            return Some(all);
        }
        let end = rest.iter().position(|b| !is_token(*b)).filter(|end| *end > 0)?;
        let (name, behind) = rest.split_at_checked(end)?;
        let behind = behind.trim_ascii_start().strip_prefix(b"=")?.trim_ascii_start();
        let (value, behind) = match behind.strip_prefix(b"\"") {
            Some(quoted) => quoted_string(quoted)?,
            None => {
                let end = behind.iter().position(|b| !is_bare(*b)).unwrap_or(behind.len());
                let (value, behind) = behind.split_at_checked(end)?;
                (Cow::Borrowed(value), behind)
            }
        };
        let is_doubled = all.iter().any(|p| p.name.eq_ignore_ascii_case(name));
        rest = behind.trim_ascii_start();
        if is_doubled || all.len() >= PARAMETERS_MAX || !matches!(rest.first(), None | Some(b',')) {
            return None;
        }
        all.push(Parameter { name, value });
    }
}

/// The text up to the quotation mark that ends it, and what is behind.
fn quoted_string(text: &[u8]) -> Option<(Cow<'_, [u8]>, &[u8])> {
    let mut unescaped = None::<Vec<u8>>;
    let mut at = 0;
    loop {
        match *text.get(at)? {
            b'"' => {
                let value = match unescaped {
                    Some(value) => Cow::Owned(value),
                    None => Cow::Borrowed(text.get(..at)?),
                };
                return Some((value, text.get(at + 1..)?));
            }
            b'\\' => {
                let so_far = match &mut unescaped {
                    Some(so_far) => so_far,
                    None => unescaped.insert(text.get(..at)?.to_vec()),
                };
                so_far.push(*text.get(at + 1)?);
                at += 2;
            }
            byte => {
                unescaped.iter_mut().for_each(|so_far| so_far.push(byte));
                at += 1;
            }
        }
    }
}

fn is_token(b: u8) -> bool {
    b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b)
}

/// Values without quotation marks are tokens, but some clients write nonces (Base64) and URIs so.
fn is_bare(b: u8) -> bool {
    is_token(b) || b"/=:?@[]".contains(&b)
}
