//! Transforms of the sticky buffer before them.

use super::draft::{Draft, Outcome};
use super::keyword::{Keyword, keyword};
use super::shared::PCRE_LIMITS;
use super::text::Quotes;
use crate::bytes::base64::Base64Mode;
use crate::bytes::transform::{Transform, pcre_transform};
use crate::rule::number;

pub(super) const KEYWORDS: &[Keyword] = &[
    keyword("dotprefix", |d, _| d.add_transform(Transform::DotPrefix)).without_value(),
    keyword("to_lowercase", |d, _| d.add_transform(Transform::ToLower)).without_value(),
    keyword("to_uppercase", |d, _| d.add_transform(Transform::ToUpper)).without_value(),
    keyword("strip_whitespace", |d, _| d.add_transform(Transform::StripWhitespace)).without_value(),
    keyword("compress_whitespace", |d, _| d.add_transform(Transform::CompressWhitespace))
        .without_value(),
    keyword("url_decode", |d, _| d.add_transform(Transform::UrlDecode)).without_value(),
    keyword("to_md5", |d, _| d.add_transform(Transform::Md5)).without_value(),
    keyword("to_sha1", |d, _| d.add_transform(Transform::Sha1)).without_value(),
    keyword("to_sha256", |d, _| d.add_transform(Transform::Sha256)).without_value(),
    keyword("header_lowercase", |d, _| d.add_transform(Transform::HeaderLower)).without_value(),
    keyword("strip_pseudo_headers", |d, _| d.add_transform(Transform::StripPseudoHeaders))
        .without_value(),
    keyword("domain", |d, _| d.add_transform(Transform::Domain)).without_value(),
    keyword("tld", |d, _| d.add_transform(Transform::TopLevelDomain)).without_value(),
    keyword("xor", xor).quotes(Quotes::Mandatory),
    keyword("pcrexform", pcrexform).quotes(Quotes::Mandatory),
    keyword("from_base64", from_base64).optional_value(),
    keyword("gunzip", |d, v| {
        let max = size(v)?;
        d.add_transform(Transform::Gunzip(max))
    })
    .optional_value(),
    keyword("zlib_deflate", |d, v| {
        let max = size(v)?;
        d.add_transform(Transform::Inflate(max))
    })
    .optional_value(),
];

/// Bytes that are unpacked unless the rule says, and at most.
const UNPACKED_BYTES: u64 = 1024;
const UNPACKED_BYTES_MAX: u64 = 16 << 20;
/// Longest key of `xor`.
const KEY_BYTES_MAX: usize = 255;

fn xor(draft: &mut Draft<'_>, value: &str) -> Outcome {
    let bytes = value.as_bytes();
    let pair = |pair: &[u8]| {
        let text = std::str::from_utf8(pair).ok().filter(|text| text.len() == 2)?;
        u8::from_str_radix(text, 16).ok()
    };
    let key: Option<Vec<u8>> = bytes.chunks(2).map(pair).collect();
    let key = key.filter(|key| (1..=KEY_BYTES_MAX).contains(&key.len()));
    draft.add_transform(Transform::Xor(key.ok_or("the key is pairs of hex digits")?))
}

fn pcrexform(draft: &mut Draft<'_>, value: &str) -> Outcome {
    draft.add_transform(pcre_transform(value, PCRE_LIMITS)?)
}

fn from_base64(draft: &mut Draft<'_>, value: &str) -> Outcome {
    let (mut mode, mut offset, mut bytes) = (Base64Mode::Rfc4648, 0, 0);
    for word in value.split(',').map(str::trim).filter(|word| !word.is_empty()) {
        let (name, argument) = word.split_once([' ', '\t']).unwrap_or((word, ""));
        let argument = argument.trim();
        let number = || argument.parse::<u16>().map(u32::from).map_err(|_| "0 to 65535");
        match (name, argument) {
            ("mode", "rfc4648") => mode = Base64Mode::Rfc4648,
            ("mode", "rfc2045") => mode = Base64Mode::Rfc2045,
            ("mode", "strict") => mode = Base64Mode::Strict,
            ("offset", _) => offset = number()?,
            ("bytes", _) => bytes = number()?,
            _ => return Err(format!("{word:?} is not known").into()),
        }
    }
    draft.add_transform(Transform::FromBase64 { mode, offset, bytes })
}

fn size(value: &str) -> Outcome<u32> {
    if value.is_empty() {
        return Ok(UNPACKED_BYTES as u32);
    }
    let text = value.strip_prefix("max-size ").ok_or("it is max-size SIZE")?;
    let size = number::value(text.trim(), UNPACKED_BYTES_MAX);
    let size = size.filter(|(size, rest)| *size > 0 && rest.is_empty());
    size.map(|(size, _)| size as u32).ok_or_else(|| "the size is 1 byte to 16 MiB".into())
}
