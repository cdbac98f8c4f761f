//! Fingerprints of hellos: JA3, JA3S and JA4 (of FoxIO, BSD-licensed for TLS clients).

use std::fmt::Write as _;

use md5::{Digest as _, Md5};
use ring::digest::{SHA256, digest};

use super::lists::Hello;
use super::version;
use crate::text::hex;

/// JA3 of a client, JA3S of a server, while its fields arrive.
#[derive(Debug, Default, Clone)]
pub struct Ja3 {
    text: String,
    hash: Option<String>,
}

impl Ja3 {
    /// Fields with their commas, if there was a hello.
    pub fn text(&self) -> Option<&str> {
        Some(self.text.as_str()).filter(|text| !text.is_empty())
    }

    /// MD5 of the text in hexadecimal digits, once a hello was complete.
    pub fn hash(&self) -> Option<&str> {
        self.hash.as_deref()
    }

    pub(super) fn is_finished(&self) -> bool {
        self.hash.is_some()
    }

    pub(super) fn begin(&mut self, number: u16) {
        if self.text.is_empty() {
            let _ = write!(self.text, "{number}");
        }
    }

    pub(super) fn append(&mut self, values: &[u16]) {
        self.text.push(',');
        for (place, value) in values.iter().enumerate() {
            if place > 0 {
                self.text.push('-');
            }
            let _ = write!(self.text, "{value}");
        }
    }

    pub(super) fn finish(&mut self) {
        if self.hash.is_none() {
            self.hash = Some(hex(&Md5::digest(self.text.as_bytes())));
        }
    }
}

/// JA4 of a client's hello over TCP (or QUIC).
pub fn ja4(hello: &Hello, is_quic: bool) -> String {
    let version = match hello.version {
        Some(version::TLS13) => "13",
        Some(version::TLS12) => "12",
        Some(version::TLS11) => "11",
        Some(version::TLS10) => "10",
        Some(0x0300) => "s3",
        _ => "00",
    };
    let [first, last] = alpn_ends(hello.alpn.first().map_or(&[], Vec::as_slice));
    let mut ciphers = hello.ciphers.clone();
    ciphers.sort_unstable();
    // The server's name and the application protocols say more of the visit than of the client.
    let mut extensions: Vec<u16> =
        hello.extensions.iter().copied().filter(|kind| !matches!(kind, 0 | 16)).collect();
    extensions.sort_unstable();
    let extended = format!("{}_{}", list(&extensions), list(&hello.signature_algorithms));
    format!(
        "{}{version}{}{:02}{:02}{first}{last}_{}_{}",
        if is_quic { 'q' } else { 't' },
        if hello.extensions.contains(&0) { 'd' } else { 'i' },
        hello.ciphers.len().min(99),
        hello.extensions.len().min(99),
        short_hash(&list(&ciphers)),
        short_hash(&extended),
    )
}

/// First and last character of a protocol's name, or of its hexadecimal digits.
fn alpn_ends(name: &[u8]) -> [char; 2] {
    let (Some(&first), Some(&last)) = (name.first(), name.last()) else { return ['0'; 2] };
    if name.len() == 2 && version::is_grease(u16::from_be_bytes([first, last])) {
        return ['0'; 2];
    }
    if first.is_ascii_alphanumeric() && last.is_ascii_alphanumeric() {
        return [char::from(first), char::from(last)];
    }
    let digit = |value: u8| char::from_digit(u32::from(value), 16).unwrap_or('0');
    [digit(first >> 4), digit(last & 0x0f)]
}

fn list(values: &[u16]) -> String {
    let mut text = String::with_capacity(values.len() * 5);
    for (place, value) in values.iter().enumerate() {
        if place > 0 {
            text.push(',');
        }
        let _ = write!(text, "{value:04x}");
    }
    text
}

fn short_hash(text: &str) -> String {
    let mut digits = hex(digest(&SHA256, text.as_bytes()).as_ref());
    digits.truncate(12);
    digits
}
