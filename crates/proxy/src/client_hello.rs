//! What a TLS client says first: reads a ClientHello (RFC 8446 section 4.1.2) out of the first
//! bytes of a stream, and takes none of them away, so that they can be replayed to a server as they
//! came.
//!
//! It is stricter than servers are: what two programs could read differently (two names, a second
//! message in the record, an extension twice) is malformed, since the name that is judged must be
//! the name that the server goes by.
//!
//! rustls's own `Acceptor` keeps neither the bytes nor whether the client offers ECH, which is why
//! this is here.

use std::net::IpAddr;

/// Bytes of a ClientHello, without the headers of its records. With post-quantum keys and a session
/// ticket it has about 2 KiB; the protocol would allow 16 MiB.
pub const HELLO_BYTES_MAX: usize = 32 * 1024;

/// Records that a ClientHello may be cut into. Each has a header of 5 bytes.
pub const RECORDS_MAX: usize = 64;

/// Bytes after which [`read`] never says [`Reading::NeedsMore`].
pub const READ_BYTES_MAX: usize =
    HELLO_BYTES_MAX + MESSAGE_HEADER_BYTES + RECORDS_MAX * RECORD_HEADER_BYTES;

/// Extensions of a ClientHello; browsers send about 20.
pub const EXTENSIONS_MAX: usize = 128;

/// Protocols of ALPN, and versions of TLS.
pub const PROTOCOLS_MAX: usize = 64;

/// A name of the DNS (RFC 1035 section 2.3.4), without its last dot.
const NAME_BYTES_MAX: usize = 253;

const RECORD_HEADER_BYTES: usize = 5;
/// Of a record's content (RFC 8446 section 5.1).
const RECORD_BYTES_MAX: usize = 1 << 14;
const MESSAGE_HEADER_BYTES: usize = 4;

const CONTENT_HANDSHAKE: u8 = 22;
const MESSAGE_CLIENT_HELLO: u8 = 1;
const MAJOR_VERSION: u8 = 3;

const EXTENSION_SERVER_NAME: u16 = 0;
const EXTENSION_ALPN: u16 = 16;
const EXTENSION_SUPPORTED_VERSIONS: u16 = 43;
/// RFC 9849 section 5.
const EXTENSION_ECH: u16 = 0xfe0d;
const ECH_OUTER: u8 = 0;

/// What the first bytes of a stream are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reading {
    /// Too few to say; at most [`READ_BYTES_MAX`] are ever needed.
    NeedsMore,
    /// Something other than TLS.
    NotTls,
    /// TLS, but not as it should be, or beyond a limit. More bytes would not change it.
    Malformed(&'static str),
    /// A whole ClientHello.
    Hello(ClientHello),
}

/// What a client offers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientHello {
    /// The server's name (RFC 6066 section 3): a host name in lower case, without a last dot. None
    /// if there is none, or an address, which is no name: servers then go by their own address.
    pub sni: Option<String>,
    /// An address that stands in place of the name.
    pub address: Option<IpAddr>,
    /// Protocols above TLS (RFC 7301), as in `h2`, in the client's order.
    pub alpn: Vec<Vec<u8>>,
    /// Versions of TLS, as in 0x0304 for TLS 1.3, in the client's order, with those that only keep
    /// servers tolerant (RFC 8701).
    pub versions: Vec<u16>,
    /// There is an Encrypted ClientHello (RFC 9849): then `sni` is the name of who decrypts it, and
    /// the server's own name is not seen. Browsers also send one that means nothing, and both look
    /// the same.
    pub ech: bool,
    /// Bytes of the stream until the end of the last record of the ClientHello.
    pub size: usize,
}

type Checked<T> = Result<T, &'static str>;

/// Reads a ClientHello at the begin of these bytes. Call it again with more of them when it needs
/// more: no state is kept, and what is not yet whole is only measured.
pub fn read(bytes: &[u8]) -> Reading {
    let (message, size) = match message(bytes) {
        Ok(Some(found)) => found,
        Ok(None) => return Reading::NeedsMore,
        Err(NoMessage::NotTls) => return Reading::NotTls,
        Err(NoMessage::Malformed(why)) => return Reading::Malformed(why),
    };
    match hello(&message, size) {
        Ok(hello) => Reading::Hello(hello),
        Err(why) => Reading::Malformed(why),
    }
}

/// Whether these bytes begin a handshake, as far as they go.
pub(crate) fn may_be_tls(bytes: &[u8]) -> bool {
    bytes.iter().zip([CONTENT_HANDSHAKE, MAJOR_VERSION]).all(|(a, b)| *a == b)
}

/// Why there is no handshake message.
enum NoMessage {
    NotTls,
    Malformed(&'static str),
}

/// The first message without its header, and where its last record ends; none as long as it is not
/// whole.
fn message(bytes: &[u8]) -> Result<Option<(Vec<u8>, usize)>, NoMessage> {
    let mut rest = bytes;
    let mut parts: Vec<&[u8]> = Vec::new();
    // Of the message's header, what is here; of the message, what the records so far announce.
    let (mut header, mut announced) = (Vec::with_capacity(MESSAGE_HEADER_BYTES), 0);
    loop {
        let Some(record) = record(rest, parts.is_empty())? else { return Ok(None) };
        let missing = MESSAGE_HEADER_BYTES - header.len();
        header.extend(record.content.iter().take(missing));
        parts.push(record.content);
        announced += record.length;
        if let [kind, high, middle, low] = *header {
            let length = u32::from_be_bytes([0, high, middle, low]) as usize;
            check_header(kind, length)?;
            let need = MESSAGE_HEADER_BYTES + length;
            if announced > need {
                return Err(NoMessage::Malformed("something follows the ClientHello"));
            }
            if announced == need && record.is_whole() {
                let message = parts.concat().split_off(MESSAGE_HEADER_BYTES);
                return Ok(Some((message, bytes.len() - record.rest.len())));
            }
        }
        if !record.is_whole() {
            return Ok(None);
        }
        if parts.len() == RECORDS_MAX {
            return Err(NoMessage::Malformed("the ClientHello is cut into too many records"));
        }
        rest = record.rest;
    }
}

fn check_header(kind: u8, length: usize) -> Result<(), NoMessage> {
    if kind != MESSAGE_CLIENT_HELLO {
        return Err(NoMessage::Malformed("the first message is no ClientHello"));
    }
    match length > HELLO_BYTES_MAX {
        true => Err(NoMessage::Malformed("the ClientHello is too long")),
        false => Ok(()),
    }
}

/// A record, as far as it is here.
struct Record<'a> {
    content: &'a [u8],
    length: usize,
    rest: &'a [u8],
}

impl Record<'_> {
    fn is_whole(&self) -> bool {
        self.content.len() == self.length
    }
}

/// The record at the begin of these bytes (RFC 8446 section 5.1); none without a whole header.
fn record(bytes: &[u8], is_first: bool) -> Result<Option<Record<'_>>, NoMessage> {
    if !may_be_tls(bytes) {
        return Err(match is_first {
            true => NoMessage::NotTls,
            false => NoMessage::Malformed("another record stands within the ClientHello"),
        });
    }
    let Some((header, after)) = bytes.split_at_checked(RECORD_HEADER_BYTES) else {
        return Ok(None);
    };
    let length = match *header {
        [_, _, _, high, low] => usize::from(u16::from_be_bytes([high, low])),
        _ => return Ok(None),
    };
    if length == 0 || length > RECORD_BYTES_MAX {
        return Err(NoMessage::Malformed("a record is empty or too long"));
    }
    let (content, rest) = after.split_at_checked(length).unwrap_or((after, &[]));
    Ok(Some(Record { content, length, rest }))
}

fn hello(message: &[u8], size: usize) -> Checked<ClientHello> {
    const SHORT: &str = "the ClientHello ends too early";
    let mut bytes = Bytes(message);
    let legacy_version = bytes.u16().ok_or(SHORT)?;
    bytes.take(32).ok_or(SHORT)?;
    let session = bytes.vector8().ok_or(SHORT)?;
    let suites = bytes.vector16().ok_or(SHORT)?;
    let compressions = bytes.vector8().ok_or(SHORT)?;
    let is_even = suites.0.len().is_multiple_of(2);
    if session.0.len() > 32 || suites.is_empty() || !is_even || compressions.is_empty() {
        return Err("a field of the ClientHello has an impossible length");
    }
    let mut hello = ClientHello {
        sni: None,
        address: None,
        alpn: Vec::new(),
        versions: vec![legacy_version],
        ech: false,
        size,
    };
    // Before TLS 1.2, extensions could be missing altogether (RFC 5246 section 7.4.1.2).
    if bytes.is_empty() {
        return Ok(hello);
    }
    let list = bytes.vector16().filter(|_| bytes.is_empty());
    extensions(list.ok_or("the extensions do not fill the ClientHello")?, &mut hello)?;
    Ok(hello)
}

fn extensions(mut list: Bytes<'_>, hello: &mut ClientHello) -> Checked<()> {
    let mut seen = Vec::new();
    while !list.is_empty() {
        let pair = list.u16().and_then(|kind| Some((kind, list.vector16()?)));
        let (kind, content) = pair.ok_or("an extension ends too early")?;
        if seen.contains(&kind) {
            return Err("an extension is there twice");
        }
        if seen.len() == EXTENSIONS_MAX {
            return Err("there are too many extensions");
        }
        seen.push(kind);
        match kind {
            EXTENSION_SERVER_NAME => (hello.sni, hello.address) = server_name(content)?,
            EXTENSION_ALPN => hello.alpn = alpn(content)?,
            EXTENSION_SUPPORTED_VERSIONS => hello.versions = versions(content)?,
            EXTENSION_ECH => match content.0.first() {
                Some(&ECH_OUTER) => hello.ech = true,
                _ => return Err("the Encrypted ClientHello is of another kind"),
            },
            _ => {}
        }
    }
    Ok(())
}

/// RFC 6066 section 3: a list, in which there is one name only, or an address.
fn server_name(mut content: Bytes<'_>) -> Checked<(Option<String>, Option<IpAddr>)> {
    let mut one = || {
        let mut list = content.vector16().filter(|_| content.is_empty())?;
        let kind = list.take(1)?;
        let name = list.vector16().filter(|_| list.is_empty())?;
        (kind == [0]).then_some(name.0)
    };
    let name = one().ok_or("the server's name is not one host name")?;
    let name = std::str::from_utf8(name).map_err(|_| NO_HOST)?.to_ascii_lowercase();
    if let Ok(address) = name.parse() {
        return Ok((None, Some(address)));
    }
    let name = name.strip_suffix('.').unwrap_or(&name);
    match is_host(name) {
        true => Ok((Some(name.to_owned()), None)),
        false => Err(NO_HOST),
    }
}

const NO_HOST: &str = "the server's name is no host name";

/// Labels of letters, digits, `-` and `_`. The last is no number: programs take such a name for an
/// address (as in `0x7f.1`), each in its own way.
fn is_host(name: &str) -> bool {
    let is_plain = |b: u8| b.is_ascii_alphanumeric() || b == b'-' || b == b'_';
    let is_label = |l: &str| (1..=63).contains(&l.len()) && l.bytes().all(is_plain);
    let last = name.rsplit('.').next().unwrap_or_default();
    let is_number = last.starts_with("0x") || last.bytes().all(|b| b.is_ascii_digit());
    name.len() <= NAME_BYTES_MAX && name.split('.').all(is_label) && !is_number
}

/// RFC 7301 section 3.1.
fn alpn(mut content: Bytes<'_>) -> Checked<Vec<Vec<u8>>> {
    const WRONG: &str = "the list of protocols (ALPN) is malformed";
    let list = content.vector16().filter(|_| content.is_empty());
    let mut list = list.filter(|list| !list.is_empty()).ok_or(WRONG)?;
    let mut protocols = Vec::new();
    while !list.is_empty() {
        let name = list.vector8().filter(|name| !name.is_empty()).ok_or(WRONG)?;
        if protocols.len() == PROTOCOLS_MAX {
            return Err("there are too many protocols (ALPN)");
        }
        protocols.push(name.0.to_vec());
    }
    Ok(protocols)
}

/// RFC 8446 section 4.2.1.
fn versions(mut content: Bytes<'_>) -> Checked<Vec<u16>> {
    const WRONG: &str = "the list of versions is malformed";
    let list = content.vector8().filter(|_| content.is_empty());
    let mut list = list.filter(|list| !list.is_empty()).ok_or(WRONG)?;
    let mut versions = Vec::new();
    while !list.is_empty() {
        if versions.len() == PROTOCOLS_MAX {
            return Err("there are too many versions");
        }
        versions.push(list.u16().ok_or(WRONG)?);
    }
    Ok(versions)
}

/// Bytes that are read from the front; none if there are too few (RFC 8446 section 3.4).
#[derive(Clone, Copy)]
struct Bytes<'a>(&'a [u8]);

impl<'a> Bytes<'a> {
    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn take(&mut self, n: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(n)?;
        self.0 = rest;
        Some(taken)
    }

    fn u16(&mut self) -> Option<u16> {
        Some(u16::from_be_bytes(self.take(2)?.try_into().ok()?))
    }

    fn vector8(&mut self) -> Option<Bytes<'a>> {
        let length = *self.take(1)?.first()?;
        self.take(length.into()).map(Bytes)
    }

    fn vector16(&mut self) -> Option<Bytes<'a>> {
        let length = self.u16()?;
        self.take(length.into()).map(Bytes)
    }
}
