//! A database in MaxMind's format (MaxMind DB File Format Specification, version 2.0), composed for
//! tests.

/// A text.
pub(crate) fn string(text: &str) -> Vec<u8> {
    [&[2 << 5 | text.len() as u8], text.as_bytes()].concat()
}

/// Texts and values.
pub(crate) fn map(entries: &[(&str, Vec<u8>)]) -> Vec<u8> {
    let mut out = vec![7 << 5 | entries.len() as u8];
    for (key, value) in entries {
        out.extend([string(key), value.clone()].concat());
    }
    out
}

/// A number of a type (MMDB: 5 has 16 bits, 6 has 32, 9 has 64), in two bytes.
fn number(kind: u8, value: u16) -> Vec<u8> {
    let head = if kind > 7 { vec![2, kind - 7] } else { vec![kind << 5 | 2] };
    [head, value.to_be_bytes().to_vec()].concat()
}

/// A database that knows one network of addresses of version 4.
pub(crate) fn database(network: [u8; 4], bits: u32, data: &[u8]) -> Vec<u8> {
    let network = u32::from_be_bytes(network);
    let mut out = Vec::new();
    for bit in 0..bits {
        // Records of 24 bits: where a 0 leads and where a 1 does. As many as there are nodes is
        // nowhere.
        let onward = if bit + 1 < bits { bit + 1 } else { bits + 16 };
        let sides = match network >> (31 - bit) & 1 {
            0 => [onward, bits],
            _ => [bits, onward],
        };
        sides.iter().for_each(|side| out.extend(&side.to_be_bytes()[1..]));
    }
    out.extend([0; 16]);
    out.extend(data);
    out.extend(b"\xab\xcd\xefMaxMind.com");
    out.extend(map(&[
        ("binary_format_major_version", number(5, 2)),
        ("binary_format_minor_version", number(5, 0)),
        ("build_epoch", number(9, 1)),
        ("database_type", string("Test-Country")),
        ("description", map(&[("en", string("test"))])),
        ("ip_version", number(5, 4)),
        ("languages", vec![1, 4, 0x42, b'e', b'n']),
        ("node_count", number(6, u16::try_from(bits).unwrap())),
        ("record_size", number(5, 24)),
    ]));
    out
}
