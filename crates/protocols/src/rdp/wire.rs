//! Messages: TPKT (RFC 1006) with X.224 in it, and records of TLS.

use crate::reader::Reader;

/// The most channels of a client that are kept: the protocol allows for 31.
const CHANNELS_MAX: usize = 64;

/// Longer records of TLS are none.
const RECORD_BYTES_MAX: usize = (1 << 14) + 256;

/// The most certificates of a chain.
const CERTIFICATES_MAX: usize = 32;

/// Kinds of data of a client ([MS-RDPBCGR], section 2.2.1.3.1).
const CORE: u16 = 0xc001;
const NET: u16 = 0xc003;

/// Bytes of a client's core data that must be there.
const CORE_BYTES_MIN: usize = 128;

/// Why nothing was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stop {
    /// More bytes are needed.
    More,
    /// It is no such message.
    Wrong,
}

/// What a message says.
#[derive(Debug)]
pub(super) enum Item {
    Request { cookie: Option<Vec<u8>>, flags: Option<u8> },
    Confirm(Option<Answer>),
    Connect { channels: Vec<Vec<u8>> },
    Connected,
    Certificates(Vec<Vec<u8>>),
}

/// What a server makes of the protocols that the client offers.
#[derive(Debug)]
pub(super) enum Answer {
    Protocol { flags: u8, protocol: u32 },
    Failure(u32),
}

impl Item {
    pub(super) fn is_of_client(&self) -> bool {
        matches!(self, Self::Request { .. } | Self::Connect { .. })
    }
}

type Result<T> = std::result::Result<T, Stop>;

fn more<T>(value: Option<T>) -> Result<T> {
    value.ok_or(Stop::More)
}

fn check(holds: bool) -> Result<()> {
    if holds { Ok(()) } else { Err(Stop::Wrong) }
}

/// Nothing where it is no such message, but more bytes are waited for.
fn maybe<T>(read: Result<T>) -> Result<Option<T>> {
    match read {
        Ok(value) => Ok(Some(value)),
        Err(Stop::Wrong) => Ok(None),
        Err(Stop::More) => Err(Stop::More),
    }
}

/// Reads a message; says how long it is.
pub(super) fn read(bytes: &[u8]) -> Result<(Option<Item>, usize)> {
    let mut reader = Reader::new(bytes);
    check(more(reader.u8())? == super::TPKT)?;
    more(reader.u8())?;
    let length = usize::from(more(reader.be16())?).checked_sub(4).ok_or(Stop::Wrong)?;
    let data = more(reader.take(length))?;
    for kind in [read_request, read_confirm, read_data] {
        if let Some(item) = maybe(kind(data))? {
            return Ok((item, reader.position()));
        }
    }
    Ok((None, reader.position()))
}

/// The head of X.224's connection requests and confirmations of class 0; hands out what is behind.
fn read_head(bytes: &[u8], kind: u8) -> Result<&[u8]> {
    let mut reader = Reader::new(bytes);
    let length = more(reader.u8())?;
    check(length != 0xff)?;
    let code = more(reader.u8())?;
    check(code >> 4 == kind && code & 15 <= 1)?;
    check(more(reader.be16())? == 0)?;
    more(reader.skip(2))?;
    let class = more(reader.u8())?;
    check(class >> 4 <= 4 && class & 15 <= 3)?;
    let rest = length.checked_sub(6).ok_or(Stop::Wrong)?;
    let rest = more(reader.take(usize::from(rest)))?;
    check(class == 0)?;
    Ok(rest)
}

fn read_request(bytes: &[u8]) -> Result<Option<Item>> {
    let mut data = read_head(bytes, 0xe)?;
    let mut item = (None, None);
    if !data.is_empty()
        && let Some((cookie, rest)) = maybe(read_cookie(data))?
    {
        item.0 = Some(cookie);
        data = rest;
    }
    if !data.is_empty()
        && let Some((flags, protocols)) = maybe(read_negotiation(data, 1))?
    {
        let is_known = flags & !0xb == 0 && protocols & !0xf == 0;
        item.1 = Some(flags).filter(|_| is_known);
    }
    Ok(Some(Item::Request { cookie: item.0, flags: item.1 }))
}

fn read_cookie(bytes: &[u8]) -> Result<(Vec<u8>, &[u8])> {
    const HEAD: &[u8] = b"Cookie: mstshash=";
    let wrong = bytes.iter().zip(HEAD).any(|(byte, wanted)| byte != wanted);
    check(!wrong)?;
    let rest = more(bytes.get(HEAD.len()..))?;
    let end = more(memchr::memmem::find(rest, b"\r\n"))?;
    let (cookie, rest) = more(rest.split_at_checked(end))?;
    check(std::str::from_utf8(cookie).is_ok())?;
    Ok((cookie.to_vec(), rest.get(2..).unwrap_or_default()))
}

/// Flags and number of a negotiation message of this kind.
fn read_negotiation(bytes: &[u8], kind: u8) -> Result<(u8, u32)> {
    let mut reader = Reader::new(bytes);
    check(more(reader.u8())? == kind)?;
    let flags = more(reader.u8())?;
    check(more(reader.le16())? == 8)?;
    Ok((flags, more(reader.le32())?))
}

fn read_confirm(bytes: &[u8]) -> Result<Option<Item>> {
    let data = read_head(bytes, 0xd)?;
    if data.is_empty() {
        return Ok(Some(Item::Confirm(None)));
    }
    if let Some((flags, protocol)) = maybe(read_negotiation(data, 2))?
        && flags & !0x1f == 0
        && matches!(protocol, 0 | 1 | 2 | 4 | 8)
    {
        return Ok(Some(Item::Confirm(Some(Answer::Protocol { flags, protocol }))));
    }
    let failure = maybe(read_negotiation(data, 3))?.filter(|(_, code)| (1..=6).contains(code));
    Ok(Some(Item::Confirm(failure.map(|(_, code)| Answer::Failure(code)))))
}

/// A data message, which may connect (T.125).
fn read_data(bytes: &[u8]) -> Result<Option<Item>> {
    let mut reader = Reader::new(bytes);
    check(more(reader.u8())? == 2)?;
    check(more(reader.u8())? == 0xf0)?;
    check(more(reader.u8())? == 0x80)?;
    if let Some(channels) = maybe(read_connect(reader.rest()))? {
        return Ok(Some(Item::Connect { channels }));
    }
    Ok(maybe(read_connected(reader.rest()))?.map(|()| Item::Connected))
}

fn read_connected(bytes: &[u8]) -> Result<()> {
    let mut reader = Reader::new(bytes);
    check(more(reader.u8())? == 0x7f)?;
    check(more(reader.u8())? == 0x66)
}

/// Names of a client's channels.
fn read_connect(bytes: &[u8]) -> Result<Vec<Vec<u8>>> {
    const KEY: &[u8] = b"Duca";
    let mut reader = Reader::new(bytes);
    check(more(reader.u8())? == 0x7f)?;
    check(more(reader.u8())? == 0x65)?;
    let key = more(memchr::memmem::find(reader.rest(), KEY))?;
    more(reader.skip(key + KEY.len()))?;
    // A length as in X.691, section 10.9, of up to 16 kB.
    let first = more(reader.u8())?;
    let length = match first >> 6 {
        0 | 1 => usize::from(first),
        2 => usize::from(first & 0x3f) << 8 | usize::from(more(reader.u8())?),
        _ => return Err(Stop::Wrong),
    };
    let mut reader = Reader::new(more(reader.take(length))?);
    let mut channels = Vec::new();
    loop {
        let mut ahead = reader;
        if maybe(read_block(&mut ahead, &mut channels))?.is_none() {
            break;
        }
        reader = ahead;
        if reader.is_empty() {
            break;
        }
    }
    Ok(channels)
}

fn read_block(reader: &mut Reader<'_>, channels: &mut Vec<Vec<u8>>) -> Result<()> {
    let kind = more(reader.le16())?;
    let length = usize::from(more(reader.le16())?).checked_sub(4).ok_or(Stop::Wrong)?;
    let data = more(reader.take(length))?;
    match kind {
        CORE => more(data.get(..CORE_BYTES_MIN).map(|_| ())),
        NET => {
            let mut inner = Reader::new(data);
            let count = more(inner.le32())?;
            for _ in 0..count {
                let name = more(inner.take(8))?;
                more(inner.skip(4))?;
                let end = name.iter().position(|byte| *byte == 0).unwrap_or(name.len());
                if channels.len() < CHANNELS_MAX {
                    channels.extend(name.get(..end).map(<[u8]>::to_vec));
                }
            }
            Ok(())
        }
        _ => Ok(()),
    }
}

/// Reads a record of TLS: the certificates in it, and how long it is.
pub(super) fn read_tls(bytes: &[u8]) -> Result<(Option<Vec<Vec<u8>>>, usize)> {
    let mut reader = Reader::new(bytes);
    let kind = more(reader.u8())?;
    more(reader.skip(2))?;
    let length = usize::from(more(reader.be16())?);
    check(length <= RECORD_BYTES_MAX)?;
    let data = more(reader.take(length))?;
    check((20..=24).contains(&kind))?;
    let mut certificates = None;
    if kind == super::HANDSHAKE {
        let mut inner = Reader::new(data);
        let mut is_first = true;
        while let Some((kind, message)) = inner.u8().zip(inner.prefixed24()) {
            is_first = false;
            if kind == 11 {
                certificates = read_certificates(message);
            }
        }
        check(!is_first)?;
    }
    Ok((certificates, reader.position()))
}

fn read_certificates(message: &[u8]) -> Option<Vec<Vec<u8>>> {
    let mut list = Reader::new(Reader::new(message).prefixed24()?);
    let mut certificates = Vec::new();
    while let Some(certificate) =
        list.prefixed24().filter(|_| certificates.len() < CERTIFICATES_MAX)
    {
        certificates.push(certificate.to_vec());
    }
    Some(certificates)
}
