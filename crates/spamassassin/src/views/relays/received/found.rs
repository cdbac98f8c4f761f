//! The values found in a Received field while it is parsed.

use super::super::pattern::Kept;
use super::super::{Relay, ip};
use crate::views::perl::{is_space, starts_no_case, trim};

/// The values found so far.
#[derive(Debug, Default, Clone)]
pub(super) struct Found {
    pub(super) ip: Vec<u8>,
    pub(super) helo: Vec<u8>,
    pub(super) rdns: Vec<u8>,
    pub(super) by: Vec<u8>,
    pub(super) id: Vec<u8>,
    pub(super) ident: Vec<u8>,
    pub(super) envfrom: Option<Vec<u8>>,
    pub(super) auth: Vec<u8>,
    pub(super) looks_up: bool,
}

/// Takes the captures of a pattern.
pub(super) fn take(found: &mut Found, kept: &Kept, line: &[u8]) {
    let places: [(u8, &mut Vec<u8>); 5] = [
        (b'h', &mut found.helo),
        (b'r', &mut found.rdns),
        (b'i', &mut found.ip),
        (b'b', &mut found.by),
        (b't', &mut found.ident),
    ];
    for (slot, place) in places {
        if let Some(text) = kept.text(slot, line) {
            *place = text.to_vec();
        }
    }
    if let Some(text) = kept.text(b's', line) {
        take_named(found, text);
    }
}

/// `helo=NAME` and `ident=NAME` in the text between parentheses.
pub(super) fn take_named(found: &mut Found, text: &[u8]) {
    let value = |text: &[u8], name: &[u8], min: usize| {
        memchr::memmem::find_iter(text, name).find_map(|i| {
            let rest = &text[i + name.len()..];
            let length = rest.iter().take_while(|&&b| !is_space(b)).count();
            (length >= min).then(|| (rest[..length].to_vec(), i..i + name.len() + length))
        })
    };
    let mut rest = text.to_vec();
    if let Some((helo, place)) = value(&rest, b"helo=", 1) {
        found.helo = helo;
        rest.drain(place);
    }
    if let Some((ident, _)) = value(&rest, b"ident=", 0) {
        found.ident = ident;
    }
}

fn clean(text: &mut [u8]) {
    let is_invalid = |byte: u8| {
        is_space(byte)
            | matches!(byte, b'\0' | b'#' | b'[' | b']' | b'(' | b')' | b'<' | b'>' | b'|')
    };
    for byte in text {
        *byte = if is_invalid(*byte) { b'!' } else { *byte };
    }
}

pub(super) fn clean_sender(sender: &[u8]) -> Vec<u8> {
    let start = sender.iter().position(|&b| !is_space(b)).unwrap_or(sender.len());
    let brackets = sender[start..].iter().take_while(|b| **b == b'<').count();
    let mut text = trim(&sender[start + brackets..]).to_vec();
    while text.last() == Some(&b'>') {
        text.pop();
    }
    clean(&mut text);
    text
}

/// Cleans the values and makes a relay of them.
pub(super) fn finish(mut found: Found) -> Relay {
    while found.rdns.last() == Some(&b'.') {
        found.rdns.pop();
    }
    if found.rdns.eq_ignore_ascii_case(b"unknown") || found.rdns.starts_with(b"[") {
        found.rdns.clear();
    }
    let mut address = found.ip.as_slice();
    if starts_no_case(address, b"ipv6:") {
        address = &address[5..];
    }
    address = address.strip_prefix(b"[").unwrap_or(address);
    address = address.strip_suffix(b"]").unwrap_or(address);
    let mapped = ip::parse(address).and_then(|a| match a {
        std::net::IpAddr::V6(v6) => v6.to_ipv4_mapped(),
        std::net::IpAddr::V4(_) => None,
    });
    let dotted = memchr::memchr(b'.', address).is_some();
    found.ip = match mapped {
        Some(v4) if dotted => v4.to_string().into_bytes(),
        _ => address.to_vec(),
    };
    if found.by.last() == Some(&b';') {
        found.by.pop();
    }
    for text in [&mut found.ip, &mut found.rdns, &mut found.helo, &mut found.by, &mut found.ident] {
        clean(text);
    }
    let address = ip::parse(&found.ip);
    Relay {
        private: address.is_some_and(ip::is_private),
        no_reverse_dns: found.rdns.is_empty() && found.looks_up,
        rdns_not_in_headers: found.rdns.is_empty() && !found.looks_up,
        address,
        ip: found.ip,
        rdns: found.rdns,
        helo: found.helo,
        by: found.by,
        id: found.id,
        ident: found.ident,
        envfrom: found.envfrom.map(|f| clean_sender(&f)),
        auth: found.auth,
        internal: false,
        msa: false,
    }
}
