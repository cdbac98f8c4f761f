//! Charsets of seven bits that shift between ASCII and two bytes a character, which browsers no
//! longer read: ISO-2022-KR (RFC 1557) and HZ (RFC 1843).

use encoding_rs::{EUC_KR, GBK};

/// Shift out: two bytes a character from here.
const SO: u8 = 0x0e;
/// Shift in: ASCII again.
const SI: u8 = 0x0f;

/// The text, if the label names one of these charsets.
pub(super) fn decode(bytes: &[u8], label: &[u8]) -> Option<String> {
    let is = |names: &[&str]| names.iter().any(|n| label.eq_ignore_ascii_case(n.as_bytes()));
    if is(&["iso-2022-kr", "csiso2022kr"]) {
        return Some(iso_2022_kr(bytes));
    }
    is(&["hz-gb-2312", "hz", "hz-gb", "gb2312-hz"]).then(|| hz(bytes))
}

/// EUC-KR is the same with the high bit set, and no shifts.
fn iso_2022_kr(bytes: &[u8]) -> String {
    let mut out = Vec::with_capacity(bytes.len());
    let mut wide = false;
    let mut rest = bytes;
    while let [byte, after @ ..] = rest {
        rest = after;
        match *byte {
            0x1b if after.starts_with(b"$)C") => rest = &after[3..],
            SO => wide = true,
            SI => wide = false,
            // Each line begins in ASCII (RFC 1557).
            b'\n' => {
                wide = false;
                out.push(b'\n');
            }
            0x21..=0x7e if wide => out.push(byte | 0x80),
            byte => out.push(byte),
        }
    }
    EUC_KR.decode_without_bom_handling(&out).0.into_owned()
}

/// GBK is the same with the high bit set between `~{` and `~}`.
fn hz(bytes: &[u8]) -> String {
    let mut out = Vec::with_capacity(bytes.len());
    let mut wide = false;
    let mut rest = bytes;
    while let [byte, after @ ..] = rest {
        rest = after;
        match (*byte, after.first()) {
            (b'~', Some(b'{')) => {
                wide = true;
                rest = &after[1..];
            }
            (b'~', Some(b'}')) => {
                wide = false;
                rest = &after[1..];
            }
            (b'~', Some(b'~')) => {
                out.push(b'~');
                rest = &after[1..];
            }
            // A line goes on: both signs are dropped (RFC 1843, with the line ends of mail).
            (b'~', Some(b'\n')) if !wide => rest = &after[1..],
            (b'~', Some(b'\r')) if !wide && after.get(1) == Some(&b'\n') => rest = &after[2..],
            (b'\n', _) => {
                wide = false;
                out.push(b'\n');
            }
            (0x21..=0x7e, _) if wide => out.push(byte | 0x80),
            (byte, _) => out.push(byte),
        }
    }
    GBK.decode_without_bom_handling(&out).0.into_owned()
}
