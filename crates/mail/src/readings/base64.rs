//! Base64 as decoders differ: on behind padding or not, junk and lines that may be boundaries left
//! out.

use crate::encoding;

/// Characters of a line that is taken for base64 though nothing says so.
const DATA_LINE_MIN: usize = 40;

/// A first line of nothing but base64.
pub(super) fn looks_encoded(body: &[u8]) -> bool {
    let first = body.split(|b| *b == b'\n').map(<[u8]>::trim_ascii).find(|line| !line.is_empty());
    first.is_some_and(|line| {
        let is_base64 = |b: &u8| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'/' | b'=');
        line.len() >= DATA_LINE_MIN && line.iter().all(is_base64)
    })
}

/// What each decoder makes of a body that begins behind the fields at byte `at`.
pub(super) fn readings(body: &[u8], at: usize) -> Vec<(String, Vec<u8>)> {
    let mut readings = Vec::new();
    let mut add = |how: &str, data: &[u8]| {
        let bytes = encoding::base64(data).bytes.into_owned();
        readings.push((format!("base64{how} at byte {at}"), bytes));
    };
    let data: Vec<u8> = body
        .split_inclusive(|b| *b == b'\n')
        .filter(|line| !line.starts_with(b"--"))
        .flatten()
        .copied()
        .collect();
    add("", &data);
    if let Some(padding) = memchr::memchr(b'=', &data) {
        let behind = data[padding..].iter().take_while(|b| **b == b'=').count() + padding;
        if !data[behind..].trim_ascii().is_empty() {
            add(" up to its padding", &data[..behind]);
            add(" behind its padding", &data[behind..]);
            let unpadded: Vec<u8> = data.iter().copied().filter(|b| *b != b'=').collect();
            add(" without its padding", &unpadded);
        }
    }
    let is_data = |b: &u8| b.is_ascii_alphanumeric() || b"+/=\r\n\t ".contains(b);
    if let Some(junk) = data.iter().position(|b| !is_data(b)) {
        add(" up to the first other character", &data[..junk]);
    }
    readings
}
