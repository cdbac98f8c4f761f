//! Ports that client and server agree on for data.

use crate::text::decimal;

/// `PORT 192,168,0,13,234,10` (RFC 959 section 4.1.2).
pub(super) fn active(line: &[u8]) -> Option<u16> {
    let rest = skip_space(line.strip_prefix(b"PORT")?);
    let (_, digits) = number(rest)?;
    let mut rest = skip_space(rest.get(digits..)?);
    for _ in 0..3 {
        rest = rest.strip_prefix(b",")?;
        rest = rest.get(digit_count(rest)?..)?;
    }
    let (high, rest) = byte(rest.strip_prefix(b",")?)?;
    let (low, _) = byte(rest.strip_prefix(b",")?)?;
    port(high, low)
}

/// `227 Entering Passive Mode (212,27,32,66,221,243).`
pub(super) fn passive(line: &[u8]) -> Option<u16> {
    let rest = after(line.strip_prefix(b"227")?, b"(")?;
    let mut rest = rest.get(digit_count(rest)?..)?;
    for _ in 0..3 {
        rest = rest.strip_prefix(b",")?;
        rest = rest.get(digit_count(rest)?..)?;
    }
    let (high, rest) = byte(skip_space(rest.strip_prefix(b",")?))?;
    let (low, rest) = byte(skip_space(skip_space(rest).strip_prefix(b",")?))?;
    skip_space(rest).strip_prefix(b")")?;
    port(high, low)
}

/// `EPRT |2|2a01:e34:ee97:b130:8c3e:45ea:5ac6:e301|41813|` (RFC 2428).
pub(super) fn extended_active(line: &[u8]) -> Option<u16> {
    let mut rest = line.strip_prefix(b"EPRT")?;
    for _ in 0..3 {
        rest = after(rest, b"|")?;
    }
    let (number, digits) = number(skip_space(rest))?;
    skip_space(skip_space(rest).get(digits..)?).strip_prefix(b"|")?;
    Some(number).filter(|port| *port != 0)
}

/// `229 Entering Extended Passive Mode (|||48758|).` (RFC 2428).
pub(super) fn extended_passive(line: &[u8]) -> Option<u16> {
    let rest = skip_space(after(line.strip_prefix(b"229")?, b"|||")?);
    let (number, digits) = number(rest)?;
    skip_space(rest.get(digits..)?).strip_prefix(b"|)")?;
    Some(number).filter(|port| *port != 0)
}

/// The address that `PORT` names, whatever it is, if four numbers with commas are there.
pub(super) fn address(line: &[u8]) -> Option<u32> {
    if line.len() <= 7 {
        return None;
    }
    let begin = line.iter().position(u8::is_ascii_digit)?;
    let mut rest = line.get(begin..)?;
    let mut address: u32 = 0;
    for _ in 0..4 {
        let digits = digit_count(rest).filter(|digits| *digits < 4)?;
        let (octet, _) = decimal(rest)?;
        let octet = u32::try_from(octet).ok().filter(|octet| *octet <= 256)?;
        rest = skip_space(rest.get(digits..)?).strip_prefix(b",")?;
        address = (address << 8).wrapping_add(octet);
    }
    Some(address)
}

fn port(high: u8, low: u8) -> Option<u16> {
    Some(u16::from_be_bytes([high, low])).filter(|port| *port != 0)
}

fn byte(input: &[u8]) -> Option<(u8, &[u8])> {
    let (value, digits) = decimal(input)?;
    Some((u8::try_from(value).ok()?, input.get(digits..)?))
}

fn number(input: &[u8]) -> Option<(u16, usize)> {
    let (value, digits) = decimal(input)?;
    Some((u16::try_from(value).ok()?, digits))
}

fn digit_count(input: &[u8]) -> Option<usize> {
    let count = input.iter().take_while(|byte| byte.is_ascii_digit()).count();
    Some(count).filter(|count| *count > 0)
}

fn after<'a>(input: &'a [u8], mark: &[u8]) -> Option<&'a [u8]> {
    let begin = memchr::memmem::find(input, mark)?;
    input.get(begin + mark.len()..)
}

fn skip_space(input: &[u8]) -> &[u8] {
    let begin = input.iter().position(|byte| !b" \t\r\n".contains(byte)).unwrap_or(input.len());
    input.get(begin..).unwrap_or_default()
}
