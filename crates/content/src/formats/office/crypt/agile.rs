//! Agile encryption (MS-OFFCRYPTO section 2.3.4.10 to 2.3.4.15): parameters in XML.

use ring::digest::{Algorithm, SHA1_FOR_LEGACY_USE_ONLY, SHA256, SHA384, SHA512};

use super::{cipher, utf16};

/// Rounds that the specification allows.
const ROUNDS_MAX: u32 = 10_000_000;
/// Bytes that are encrypted as one.
const SEGMENT_BYTES: usize = 4_096;
/// What tells keys of one password apart (section 2.3.4.13).
const FOR_INPUT: [u8; 8] = [0xfe, 0xa7, 0xd2, 0x76, 0x3b, 0x4b, 0x9e, 0x79];
const FOR_HASH: [u8; 8] = [0xd7, 0xaa, 0x0f, 0x6d, 0x30, 0x61, 0x34, 0x4e];
const FOR_KEY: [u8; 8] = [0x14, 0x6e, 0x0b, 0xe7, 0xab, 0xac, 0xd0, 0xd6];

/// Parameters of a cipher.
struct Parameters {
    salt: Vec<u8>,
    block_bytes: usize,
    key_bytes: usize,
    hash: &'static Algorithm,
}

pub(super) struct Agile {
    package: Parameters,
    password: Parameters,
    rounds: u32,
    input: Vec<u8>,
    hash: Vec<u8>,
    key: Vec<u8>,
}

impl Agile {
    /// Reads the parameters; none if something is missing or not AES in blocks.
    pub(super) fn read(xml: &[u8]) -> Option<Self> {
        // Attributes may stand on lines of their own, in quotation marks of either kind.
        let plain = |c: char| match c {
            '\'' => '"',
            c if c.is_whitespace() => ' ',
            c => c,
        };
        let xml: String = String::from_utf8_lossy(xml).chars().map(plain).collect();
        let element = |name: &str| {
            let at = xml.find(&format!("{name} "))?;
            xml[at..].split('>').next()
        };
        let (data, key) = (element("keyData")?, element("encryptedKey")?);
        let rounds: u32 = attribute(key, "spinCount")?.parse().ok()?;
        Some(Agile {
            package: Parameters::read(data)?,
            password: Parameters::read(key)?,
            rounds: Some(rounds).filter(|rounds| *rounds <= ROUNDS_MAX)?,
            input: base64(attribute(key, "encryptedVerifierHashInput")?)?,
            hash: base64(attribute(key, "encryptedVerifierHashValue")?)?,
            key: base64(attribute(key, "encryptedKeyValue")?)?,
        })
    }

    /// The key of the package, if the password is right.
    pub(super) fn key(&self, word: &str) -> Option<Vec<u8>> {
        let own = &self.password;
        let spun = cipher::spun(own.hash, &own.salt, &utf16(word), self.rounds);
        let open = |purpose: &[u8], data: &[u8]| {
            let key = fitted(cipher::hash(own.hash, &[&spun, purpose]), own.key_bytes);
            cipher::cbc(&key, &fitted(own.salt.clone(), own.block_bytes), data)
        };
        let mut input = open(&FOR_INPUT, &self.input);
        input.truncate(own.salt.len());
        let right = cipher::hash(own.hash, &[&input]);
        let stored = open(&FOR_HASH, &self.hash);
        let is_right = !right.is_empty() && stored.starts_with(&right);
        is_right.then(|| fitted(open(&FOR_KEY, &self.key), self.package.key_bytes))
    }

    /// The package of these bytes: segments with start values of their own.
    pub(super) fn decrypt(&self, key: &[u8], data: &[u8]) -> Vec<u8> {
        let own = &self.package;
        let mut plain = Vec::with_capacity(data.len());
        for (number, segment) in (0u32..).zip(data.chunks(SEGMENT_BYTES)) {
            let start = cipher::hash(own.hash, &[&own.salt, &number.to_le_bytes()]);
            plain.extend(cipher::cbc(key, &fitted(start, own.block_bytes), segment));
        }
        plain
    }
}

impl Parameters {
    fn read(element: &str) -> Option<Self> {
        let number = |name: &str| attribute(element, name)?.parse::<usize>().ok();
        let is_aes = attribute(element, "cipherAlgorithm")? == "AES"
            && attribute(element, "cipherChaining")? == "ChainingModeCBC";
        let key_bytes = number("keyBits")? / 8;
        let hash = match attribute(element, "hashAlgorithm")? {
            "SHA1" | "SHA-1" => &SHA1_FOR_LEGACY_USE_ONLY,
            "SHA256" | "SHA-256" => &SHA256,
            "SHA384" | "SHA-384" => &SHA384,
            "SHA512" | "SHA-512" => &SHA512,
            _ => return None,
        };
        let block_bytes = number("blockSize")?;
        let is_usual = is_aes && matches!(key_bytes, 16 | 24 | 32) && block_bytes == 16;
        let salt = base64(attribute(element, "saltValue")?)?;
        is_usual.then_some(Parameters { salt, block_bytes, key_bytes, hash })
    }
}

/// Cut, or filled up with 0x36 (section 2.3.4.11).
fn fitted(mut bytes: Vec<u8>, length: usize) -> Vec<u8> {
    bytes.resize(length, 0x36);
    bytes
}

fn attribute<'x>(element: &'x str, name: &str) -> Option<&'x str> {
    let at = element.find(&format!(" {name}=\""))? + name.len() + 3;
    element[at..].split('"').next()
}

fn base64(text: &str) -> Option<Vec<u8>> {
    base64_simd::STANDARD.decode_to_vec(text.as_bytes()).ok()
}
