//! Private keys as text (RFC 7468, and what came before and beside it).

/// What stands in the first line of each form.
pub(super) const MARKERS: [&str; 3] =
    ["PRIVATE KEY-----", "PRIVATE KEY BLOCK-----", "PuTTY-User-Key-File-"];

/// Longest label before the marker, such as `-----BEGIN ENCRYPTED `.
const LABEL_BYTES_MAX: usize = 40;
/// Bytes of a key that are read: RSA of 16,384 bits has some 13,000.
const KEY_BYTES_MAX: usize = 16 * 1024;
/// Base64 characters of the shortest key: Ed25519 in PKCS #8.
const KEY_CHARS_MIN: usize = 60;
/// Different characters of a key; a placeholder of dots or x has fewer.
const KEY_CHARS_DISTINCT_MIN: usize = 16;

/// Begin, end and bytes of the first line of the key around a marker, if there is one behind it.
pub(super) fn find(
    text: &str,
    marker: usize,
    marker_end: usize,
    free_from: usize,
) -> Option<(usize, usize, usize)> {
    let bytes = text.as_bytes();
    let is_putty = text[marker..].starts_with(MARKERS[2]);
    let start = if is_putty {
        marker
    } else {
        let from = marker.saturating_sub(LABEL_BYTES_MAX).max(free_from);
        from + memchr::memmem::rfind(&bytes[from..marker], b"-----BEGIN ")?
    };
    let limit = bytes.len().min(marker_end + KEY_BYTES_MAX);
    let body = &bytes[marker_end..limit];
    // The next key ends this one, too: many beginnings are not read twice.
    let ends: &[&[u8]] = match is_putty {
        true => &[MARKERS[2].as_bytes(), b"Private-MAC"],
        false => &[b"-----"],
    };
    let until = |body: &[u8], end: &&[u8]| memchr::memmem::find(body, end).unwrap_or(body.len());
    let length = ends.iter().fold(body.len(), |length, end| until(&body[..length], end));
    is_key(&body[..length]).then(|| {
        let mut end = marker_end + length;
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        (start, end, marker_end - start)
    })
}

fn is_key(body: &[u8]) -> bool {
    let (mut count, mut seen) = (0_usize, [false; 128]);
    let is_base64 = |b: &&u8| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'/' | b'=');
    for &byte in body.iter().filter(is_base64) {
        count += 1;
        seen[usize::from(byte & 127)] = true;
    }
    let distinct = seen.into_iter().filter(|&is| is).count();
    count >= KEY_CHARS_MIN && distinct >= KEY_CHARS_DISTINCT_MIN
}

#[cfg(test)]
mod tests {
    use super::super::tests::found;

    /// No key: the alphabet, in the length of one.
    const BODY: &str = "MC4CAQAwBQYDK2VwBCIEIAbcdefghijklmnopqrstuvwxyz0123456789ABCDEFGHIJKL\n";

    #[test]
    fn keys_are_found_in_every_form() {
        for (begin, end) in [
            ("-----BEGIN PRIVATE KEY-----\n", "-----END PRIVATE KEY-----\n"),
            (
                "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\n\n",
                "-----END RSA PRIVATE KEY-----",
            ),
            ("> -----BEGIN OPENSSH PRIVATE KEY-----\n> ", ""),
            ("-----BEGIN PGP PRIVATE KEY BLOCK-----\n\n", "-----END PGP PRIVATE KEY BLOCK-----"),
            ("PuTTY-User-Key-File-3: ssh-ed25519\nEncryption: none\n", "Private-MAC: 00"),
        ] {
            let all = found(&format!("see\n{begin}{BODY}{end}"));
            assert!(matches!(&all[..], [("private_key", _)]), "{begin}: {all:?}");
        }
    }

    #[test]
    fn text_about_keys_is_no_key() {
        for text in [
            "paste your -----BEGIN PRIVATE KEY----- here",
            "-----BEGIN PRIVATE KEY-----\n...\n-----END PRIVATE KEY-----",
            &format!("-----BEGIN PRIVATE KEY-----\n{}\n-----END PRIVATE KEY-----", "x".repeat(100)),
            &format!("-----BEGIN PUBLIC KEY-----\n{BODY}-----END PUBLIC KEY-----"),
            &format!("PRIVATE KEY-----\n{BODY}"),
        ] {
            assert_eq!(found(text), [], "{text}");
        }
    }

    #[test]
    fn two_keys_are_two() {
        let one = format!("-----BEGIN PRIVATE KEY-----\n{BODY}-----END PRIVATE KEY-----\n");
        assert_eq!(found(&one.repeat(2)).len(), 2);
    }
}
