//! The hello of TLS in a packet. Unlike fingerprints of TLS over TCP, JA3 has all values, also
//! those that mean nothing.

use crate::reader::Reader;
use crate::tls::{Hello, version};

const CLIENT: u8 = 1;
const SERVER: u8 = 2;

/// Longer identifiers of sessions are an error.
const SESSION_BYTES_MAX: usize = 32;

mod extension {
    pub(super) const SERVER_NAME: u16 = 0;
    pub(super) const GROUPS: u16 = 10;
    pub(super) const FORMATS: u16 = 11;
    pub(super) const SIGNATURES: u16 = 13;
    pub(super) const PROTOCOLS: u16 = 16;
    pub(super) const VERSIONS: u16 = 43;
}

/// Why nothing was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stop {
    /// The message is longer.
    More,
    /// It is no hello.
    Wrong,
}

/// What a hello says.
#[derive(Debug, Default)]
pub(super) struct Greeting {
    pub(super) is_client: bool,
    /// Its fields in JA3's (or JA3S's) form.
    pub(super) ja3: String,
    pub(super) sni: Option<Vec<u8>>,
    /// Kinds of extensions.
    pub(super) extensions: Vec<u16>,
    /// What JA4 is made of.
    pub(super) lists: Hello,
}

#[derive(Default)]
struct Curves {
    groups: Vec<u16>,
    formats: Vec<u16>,
}

fn list(values: &[u16]) -> String {
    values.iter().map(u16::to_string).collect::<Vec<_>>().join("-")
}

fn words(bytes: &[u8]) -> Vec<u16> {
    let pairs = bytes.as_chunks::<2>().0.iter();
    pairs.map(|pair| u16::from_be_bytes(*pair)).collect()
}

/// Reads a message of a handshake, which must be a hello.
pub(super) fn read(bytes: &[u8]) -> Result<Greeting, Stop> {
    let mut reader = Reader::new(bytes);
    let kind = reader.u8().ok_or(Stop::More)?;
    let message = reader.prefixed24().ok_or(Stop::More)?;
    if !matches!(kind, CLIENT | SERVER) {
        return Err(Stop::Wrong);
    }
    let mut greeting = Greeting { is_client: kind == CLIENT, ..Greeting::default() };
    greeting.read(message).ok_or(Stop::Wrong)?;
    Ok(greeting)
}

impl Greeting {
    fn read(&mut self, message: &[u8]) -> Option<()> {
        let mut reader = Reader::new(message);
        let number = reader.be16()?;
        reader.skip(32)?;
        if reader.prefixed8()?.len() > SESSION_BYTES_MAX {
            return None;
        }
        let ciphers = if self.is_client {
            let bytes = reader.prefixed16()?;
            (bytes.len() % 2 == 0).then_some(())?;
            let ciphers = words(bytes);
            reader.prefixed8()?;
            ciphers
        } else {
            let cipher = reader.be16()?;
            reader.u8()?;
            vec![cipher]
        };
        let mut curves = Curves::default();
        let extensions = reader.prefixed16();
        let has_extensions = extensions.is_some();
        self.read_extensions(extensions.unwrap_or_default(), &mut curves);
        self.ja3 = format!("{number},{},{}", list(&ciphers), list(&self.extensions));
        if self.is_client && has_extensions {
            self.ja3 += &format!(",{},{}", list(&curves.groups), list(&curves.formats));
        }
        let is_meant = |value: &u16| !version::is_grease(*value);
        self.lists.ciphers = ciphers.into_iter().filter(is_meant).collect();
        self.lists.extensions = self.extensions.iter().copied().filter(is_meant).collect();
        Some(())
    }

    /// Up to the first that cannot be read.
    fn read_extensions(&mut self, bytes: &[u8], curves: &mut Curves) {
        let mut reader = Reader::new(bytes);
        while let Some((kind, body)) = reader.be16().zip(reader.prefixed16()) {
            if self.extension(kind, body, curves).is_none() {
                break;
            }
            self.extensions.push(kind);
        }
    }

    fn extension(&mut self, kind: u16, body: &[u8], curves: &mut Curves) -> Option<()> {
        let mut reader = Reader::new(body);
        match kind {
            extension::SERVER_NAME if !body.is_empty() => {
                let mut names = Reader::new(reader.prefixed16()?);
                while let Some((_, name)) = names.u8().zip(names.prefixed16()) {
                    self.sni.get_or_insert_with(|| name.to_vec());
                }
            }
            extension::GROUPS => curves.groups.extend(words(reader.prefixed16()?)),
            extension::FORMATS => {
                curves.formats.extend(reader.prefixed8()?.iter().copied().map(u16::from));
            }
            extension::SIGNATURES => {
                let algorithms = words(reader.prefixed16()?);
                let algorithms = algorithms.into_iter().filter(|value| !version::is_grease(*value));
                self.lists.signature_algorithms.extend(algorithms);
            }
            extension::PROTOCOLS => {
                let mut names = Reader::new(reader.prefixed16()?);
                while let Some(name) = names.prefixed8() {
                    self.lists.alpn.push(name.to_vec());
                }
            }
            extension::VERSIONS => {
                let bytes = if self.is_client { reader.prefixed8()? } else { reader.take(2)? };
                let offered = words(bytes).into_iter().filter(|value| !version::is_grease(*value));
                self.lists.version = self.lists.version.max(offered.max());
            }
            _ => {}
        }
        Some(())
    }
}
