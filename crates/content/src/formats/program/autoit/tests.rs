use super::*;
use crate::formats::testing::{nasty, paths, tree};

fn masked(version: &Version, seed: u32, bytes: &[u8]) -> Vec<u8> {
    let mut keys = (version.keys)(seed);
    bytes.iter().map(|byte| byte ^ keys()).collect()
}

fn string(version: &Version, (mask, seed): (u32, u32), text: &str) -> Vec<u8> {
    let units = u32::try_from(text.len()).unwrap();
    let bytes: Vec<u8> =
        text.bytes().flat_map(|b| [b, 0].into_iter().take(version.width)).collect();
    let body = masked(version, units.wrapping_add(seed), &bytes);
    [&(units ^ mask).to_le_bytes()[..], &body].concat()
}

/// Each byte by itself: no repetitions, and one of three bytes at the end.
fn packed(version: &Version, bytes: &[u8]) -> Vec<u8> {
    let mut bits = String::new();
    for byte in bytes {
        bits += &format!("{}{byte:08b}", 1 - version.repeats);
    }
    bits += &format!("{}{:015b}{:02b}", version.repeats, 1, 0);
    while !bits.len().is_multiple_of(8) {
        bits.push('0');
    }
    let body: Vec<u8> = (0..bits.len() / 8)
        .map(|at| u8::from_str_radix(&bits[8 * at..8 * at + 8], 2).unwrap())
        .collect();
    let name = if version.width == 1 { b"EA05" } else { b"EA06" };
    let size = u32::try_from(bytes.len() + 3).unwrap();
    [&name[..], &size.to_be_bytes(), &body].concat()
}

fn script(version: &Version, files: &[(&str, &str, &[u8])]) -> Vec<u8> {
    let mut out = MAGIC.to_vec();
    out.push(if version.width == 1 { b'5' } else { b'6' });
    out.extend([1; 16]);
    let sum = if version.width == 1 { 16 } else { 0 };
    for (kind, path, bytes) in files {
        out.extend(version.signature.to_le_bytes());
        out.extend(string(version, version.name, kind));
        out.extend(string(version, version.path, path));
        let body = packed(version, bytes);
        let body = masked(version, version.seed.wrapping_add(sum), &body);
        out.push(1);
        out.extend((u32::try_from(body.len()).unwrap() ^ version.size).to_le_bytes());
        out.extend([0; 8]);
        out.extend([0; TIMES_BYTES]);
        out.extend(body);
    }
    out
}

#[test]
fn the_script_and_its_files_in_both_versions() {
    for version in [EA05, EA06] {
        let files: [(&str, &str, &[u8]); 2] =
            [(">AUTOIT SCRIPT<", "C:\\a.au3", b"; text"), ("C:\\b.txt", "C:\\b.txt", b"hello")];
        let whole = script(&version, &files);
        let found = tree(&whole, "a.a3x");
        assert_eq!(paths(&found), ["a.a3x", "a.a3x/script.au3", "a.a3x/C:\\b.txt"]);
        assert_eq!(found.objects[2].text, "helloooo");
        assert!(found.objects[0].has(PropertyKind::Script));
        nasty(&whole, "a.a3x");
    }
}

#[test]
fn words_of_a_tokenised_script() {
    let mut tokens = vec![1, 0, 0, 0, 0x31, 3, 0, 0, 0];
    tokens.extend("Run".encode_utf16().flat_map(|unit| (unit ^ 3).to_le_bytes()));
    tokens.extend([0x47, 0x05, 1, 0, 0, 0, 0x36, 3, 0, 0, 0]);
    tokens.extend("cmd".encode_utf16().flat_map(|unit| (unit ^ 3).to_le_bytes()));
    tokens.push(0x7f);
    assert_eq!(words(&tokens), "Run cmd \n");
    for end in 0..tokens.len() {
        words(&tokens[..end]);
    }
    words(&[0, 0, 0, 0, 0x36, 0xff, 0xff, 0xff, 0xff, 1]);
}
