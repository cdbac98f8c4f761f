//! Public keys as DKIM publishes them in the DNS (RFC 6376 section 3.6.1, RFC 8463 section 4).
//!
//! An RSA key stands in `p=` as a `SubjectPublicKeyInfo` (RFC 5280 section 4.1.2.7), which is an
//! `RSAPublicKey` (RFC 8017 appendix A.1.1) in a frame that names the algorithm. The RFC's text
//! asks for the `RSAPublicKey` alone, but its example has the frame, and so have the keys that
//! everybody publishes: Mail::DKIM and OpenDKIM cannot use a key without one. An Ed25519 key stands
//! there as its 32 bytes.

use crate::facts::tags;

const INTEGER: u8 = 0x02;
const BIT_STRING: u8 = 0x03;
const SEQUENCE: u8 = 0x30;
/// `AlgorithmIdentifier` of RSA keys: rsaEncryption (1.2.840.113549.1.1.1) with a NULL (RFC 3279
/// section 2.3.1), in DER.
const RSA_ENCRYPTION: [u8; 15] =
    [SEQUENCE, 0x0d, 0x06, 0x09, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x01, 0x05, 0x00];
/// Bytes of a TXT string; a longer record has several (RFC 1035 section 3.3).
const STRING_BYTES_MAX: usize = 255;

/// How a published record stands to a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Publication {
    /// It is another key, none, or forbids the hash algorithm that we sign with.
    Different,
    /// It is the key, as a bare `RSAPublicKey`: most verifiers cannot read it ("wrong tag").
    BareRsa,
    /// It is the key, but in a test (`t=y`): verifiers treat mail as if it were not signed.
    Testing,
    /// It is the key, in the form that verifiers read.
    Good,
}

/// The `SubjectPublicKeyInfo` of an `RSAPublicKey`, both in DER.
pub fn rsa_subject_public_key_info(rsa_public_key: &[u8]) -> Vec<u8> {
    // A bit string begins with the number of unused bits.
    let bits = [&[0], rsa_public_key].concat();
    let content = [&RSA_ENCRYPTION[..], &der(BIT_STRING, &bits)].concat();
    der(SEQUENCE, &content)
}

/// The `RSAPublicKey` in DER of a published one, with or without a frame; none if it is neither.
fn rsa_public_key(published: &[u8]) -> Option<&[u8]> {
    let (tag, outer, _) = der_value(published)?;
    let (first, _, rest) = der_value(outer).filter(|_| tag == SEQUENCE)?;
    if first == INTEGER {
        return Some(published);
    }
    let (tag, bits, _) = der_value(rest)?;
    bits.get(1..).filter(|_| tag == BIT_STRING)
}

/// Text of the record of a key. `kind` is `rsa` or `ed25519`, `public` what stands in `p=`.
pub fn record(kind: &str, public: &[u8]) -> String {
    format!("v=DKIM1; k={kind}; p={}", base64_simd::STANDARD.encode_to_string(public))
}

/// A TXT record as zone files of BIND, Knot and NSD write it (RFC 1035 section 5.1): strings of 255
/// bytes at most, on one line.
pub fn zone_line(name: &str, record: &str) -> String {
    let pieces: Vec<String> = record
        .as_bytes()
        .chunks(STRING_BYTES_MAX)
        .map(|piece| format!("\"{}\"", String::from_utf8_lossy(piece)))
        .collect();
    format!("{name}. 3600 IN TXT ( {} )", pieces.join(" "))
}

/// How a published record stands to `wanted`, the record as it should be.
pub fn publication(published: &[u8], wanted: &str) -> Publication {
    let published = String::from_utf8_lossy(published);
    let kind = |text: &str| tags::get(text, "k").unwrap_or("rsa").trim().to_ascii_lowercase();
    // A version that is there must be ours, and be the first tag (RFC 6376 section 3.6.1); hash
    // algorithms that are there must have the one that we sign with.
    let version = tags::get(&published, "v").is_none_or(|v| v.trim() == "DKIM1");
    let hashes = |h: &str| h.split(':').any(|h| h.trim().eq_ignore_ascii_case("sha256"));
    let hashed = tags::get(&published, "h").is_none_or(hashes);
    let (found, own) = (public_key(&published), public_key(wanted));
    if own.is_empty() || !version || !hashed || kind(&published) != kind(wanted) {
        return Publication::Different;
    }
    if found == own {
        let flags = tags::get(&published, "t").unwrap_or_default();
        let testing = flags.split(':').any(|flag| flag.trim().eq_ignore_ascii_case("y"));
        return if testing { Publication::Testing } else { Publication::Good };
    }
    let bare = kind(wanted) == "rsa" && rsa_public_key(&own) == Some(found.as_slice());
    if bare { Publication::BareRsa } else { Publication::Different }
}

/// Bytes of `p=`; none if they cannot be read. White space may stand anywhere in it.
fn public_key(record: &str) -> Vec<u8> {
    let text: String = tags::get(record, "p").unwrap_or_default().split_whitespace().collect();
    base64_simd::STANDARD.decode_to_vec(text.as_bytes()).unwrap_or_default()
}

/// Bits of the key in a record: of the modulus of an RSA key, 256 of an Ed25519 key, 0 if it cannot
/// be read.
pub fn key_bits(record: &[u8]) -> u16 {
    let text = String::from_utf8_lossy(record);
    let is_ed25519 = tags::get(&text, "k").is_some_and(|k| k.eq_ignore_ascii_case("ed25519"));
    if is_ed25519 {
        return 256;
    }
    modulus_bits(&public_key(&text)).unwrap_or(0)
}

/// Bits of the modulus, the first integer of an `RSAPublicKey`.
fn modulus_bits(published: &[u8]) -> Option<u16> {
    let (tag, key, _) = der_value(rsa_public_key(published)?)?;
    let (integer, modulus, _) = der_value(key).filter(|_| tag == SEQUENCE)?;
    let modulus = Some(modulus).filter(|_| integer == INTEGER)?;
    let zeros = modulus.iter().take_while(|byte| **byte == 0).count();
    let number = modulus.get(zeros..)?;
    let first = number.first()?;
    u16::try_from(number.len() * 8 - first.leading_zeros() as usize).ok()
}

/// A DER value: tag, length, content.
fn der(tag: u8, content: &[u8]) -> Vec<u8> {
    let length = content.len().to_be_bytes();
    let zeros = length.iter().take_while(|byte| **byte == 0).count();
    let significant = length.get(zeros..).unwrap_or_default();
    let mut out = vec![tag];
    match significant {
        [] => out.push(0),
        [short @ 0..=127] => out.push(*short),
        long => {
            out.push(0x80 | long.len() as u8);
            out.extend_from_slice(long);
        }
    }
    out.extend_from_slice(content);
    out
}

/// Tag, content and what follows.
fn der_value(der: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (tag, length) = (*der.first()?, *der.get(1)?);
    let (length, from) = match length {
        short @ 0..=127 => (usize::from(short), 2),
        long => {
            let count = usize::from(long & 127);
            let bytes = der.get(2..2 + count).filter(|_| count <= 4)?;
            (bytes.iter().fold(0, |n, b| n << 8 | usize::from(*b)), 2 + count)
        }
    };
    let end = from.checked_add(length)?;
    Some((tag, der.get(from..end)?, der.get(end..)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of RFC 6376 appendix C.
    const RFC_6376: &str = "v=DKIM1; k=rsa; p=MIGfMA0GCSqGSIb3DQEBAQUAA4GNADCBiQKBgQDkHlOQoBTzWRiGs5V6NpP3id\
        Y6Wk08a5qhdR6wy5bdOKb2jLQiY/J16JYi0Qvx/byYzCNb3W91y3FutACDfzwQ/BC/e/8uBsCR+yz1Lxj+PL6lHv\
        qMKrM3rG4hstT5QjvHO9PzoxZyVYLzBfO2EeC3Ip3G+2kryOTIKT+l/K4w3QIDAQAB";
    /// The example of RFC 8463 appendix A.
    const RFC_8463: &str = "v=DKIM1; k=ed25519; p=11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=";

    #[test]
    fn bits_of_keys() {
        assert_eq!(key_bits(RFC_6376.as_bytes()), 1024);
        assert_eq!(key_bits(RFC_8463.as_bytes()), 256);
        for bad in ["", "p=", "p=AAAA", "p=MIGf", "p=!!!!", "k=rsa; p=MP////8="] {
            assert_eq!(key_bits(bad.as_bytes()), 0, "{bad}");
        }
    }

    #[test]
    fn the_frame_of_rsa_keys_is_that_of_the_rfc() {
        let framed = public_key(RFC_6376);
        let bare = rsa_public_key(&framed).unwrap();
        assert_eq!(rsa_subject_public_key_info(bare), framed);
        assert_eq!(rsa_public_key(bare), Some(bare));
        for length in [0, 127, 128, 255, 256, 70_000] {
            let value = der(BIT_STRING, &vec![7; length]);
            assert_eq!(der_value(&value), Some((BIT_STRING, &vec![7; length][..], &[][..])));
        }
        let zone = zone_line("a.b", &"x".repeat(300));
        assert_eq!(
            zone,
            format!("a.b. 3600 IN TXT ( \"{}\" \"{}\" )", "x".repeat(255), "x".repeat(45))
        );
    }

    #[test]
    fn published_records_are_compared() {
        let framed = public_key(RFC_6376);
        let bare = record("rsa", rsa_public_key(&framed).unwrap());
        let with = |what: &str, by: &str| RFC_6376.replace(what, by);
        let cases = [
            (RFC_6376.to_owned(), RFC_6376, Publication::Good),
            (with("p=MIGf", "p=MI\tGf "), RFC_6376, Publication::Good),
            (with("k=rsa; ", "h=sha1:sha256; t=s; "), RFC_6376, Publication::Good),
            (with("k=rsa", "t=s:y"), RFC_6376, Publication::Testing),
            (bare, RFC_6376, Publication::BareRsa),
            (RFC_8463.to_owned(), RFC_8463, Publication::Good),
            (RFC_8463.replace("ed25519", "rsa"), RFC_8463, Publication::Different),
            (RFC_8463.to_owned(), RFC_6376, Publication::Different),
            (with("k=rsa", "h=sha1"), RFC_6376, Publication::Different),
            (with("DKIM1", "DKIM2"), RFC_6376, Publication::Different),
            ("v=DKIM1; p=".to_owned(), RFC_6376, Publication::Different),
            ("v=spf1 -all".to_owned(), RFC_6376, Publication::Different),
            (String::new(), "", Publication::Different),
        ];
        for (published, wanted, expected) in cases {
            assert_eq!(publication(published.as_bytes(), wanted), expected, "{published}");
        }
    }
}
