//! The harmless file that every anti-virus program takes for malware, so that it can be tested
//! (EICAR, eicar.org).

use memchr::memmem;

/// Its finding, in the form of an engine's: engine, then name.
pub(crate) const FINDING: &str = "gauntlet: EICAR-Test-File";

/// Put together here, so that no scanner takes this program for the test file.
const PARTS: [&[u8]; 4] =
    [b"X5O!P%@AP[4\\PZX54(P^)7CC)7}", b"$EICAR-STANDARD-", b"ANTIVIRUS-TEST-FILE!", b"$H+H*"];

/// Whether a file begins with it, after white space or a byte order mark at most: one that quotes
/// it in other text only mentions it.
pub(crate) fn is_in(bytes: &[u8]) -> bool {
    const HEAD_BYTES: usize = 512;
    let head = &bytes[..bytes.len().min(HEAD_BYTES)];
    let Some(at) = memmem::find(head, PARTS[0]) else { return false };
    let before = head[..at].strip_prefix(b"\xef\xbb\xbf").unwrap_or(&head[..at]);
    before.trim_ascii().is_empty() && bytes[at..].starts_with(&PARTS.concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_and_a_mention() {
        let file = PARTS.concat();
        assert!(is_in(&file));
        assert!(is_in(&[b"\xef\xbb\xbf \r\n", file.as_slice(), b"\n"].concat()));
        assert!(!is_in(&[b"it reads ", file.as_slice()].concat()));
        assert!(!is_in(&file[..40]) && !is_in(b""));
    }
}
