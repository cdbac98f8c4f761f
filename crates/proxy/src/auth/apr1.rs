//! `$apr1$`: what `htpasswd` writes unless it is told otherwise, a thousand rounds of MD5 (the
//! algorithm of Poul-Henning Kamp's crypt of 1994 under another name). It is quickly guessed.

use md5::{Digest, Md5};

const MAGIC: &[u8] = b"$apr1$";
/// Bytes of a salt that count.
pub(super) const SALT_BYTES_MAX: usize = 8;
/// Letters of a hash.
pub(super) const HASH_LETTERS: usize = 22;
const ROUNDS: usize = 1000;
const LETTERS: &[u8; 64] = b"./0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/// The hash of a password with this salt, as it is written.
pub(super) fn hash(password: &[u8], salt: &[u8]) -> String {
    let inner = digest(&[password, salt, password]);
    let mut first = Md5::new();
    [password, MAGIC, salt].iter().for_each(|part| first.update(part));
    for piece in password.chunks(inner.len()) {
        first.update(inner.get(..piece.len()).unwrap_or_default());
    }
    let mut length = password.len();
    while length > 0 {
        let bit = if length & 1 == 1 { &b"\0"[..] } else { password.get(..1).unwrap_or_default() };
        first.update(bit);
        length >>= 1;
    }
    let mut made: [u8; 16] = first.finalize().into();
    for round in 0..ROUNDS {
        let (odd, salted, again) = (round % 2 == 1, round % 3 != 0, round % 7 != 0);
        made = digest(&[
            if odd { password } else { &made },
            if salted { salt } else { b"" },
            if again { password } else { b"" },
            if odd { &made } else { password },
        ]);
    }
    letters(&made)
}

fn digest(parts: &[&[u8]]) -> [u8; 16] {
    let mut hash = Md5::new();
    parts.iter().for_each(|part| hash.update(part));
    hash.finalize().into()
}

/// Three bytes in four letters, the lowest bits first; the last byte in two.
fn letters(hash: &[u8; 16]) -> String {
    let [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p] = hash.map(u32::from);
    let groups =
        [(a, g, m, 4), (b, h, n, 4), (c, i, o, 4), (d, j, p, 4), (e, k, f, 4), (0, 0, l, 2)];
    let letters = groups.into_iter().flat_map(|(high, middle, low, count)| {
        let bits = (high << 16) | (middle << 8) | low;
        (0..count).map(move |at| LETTERS[((bits >> (6 * at)) & 63) as usize])
    });
    letters.map(char::from).collect()
}
