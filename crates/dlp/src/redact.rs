//! Masking values that were found wherever else they stand: a subject, a quotation, a file name.

use memchr::memmem;

/// Characters of a value, cut at the edge of a quotation, that are masked.
const PIECE_CHARS_MIN: usize = 7;
/// Quotations of this many letters and digits out of the middle of a value are masked.
const INNER_CHARS_MIN: usize = 12;

/// A value, and what may be seen of it.
#[derive(Debug, Clone)]
pub(crate) struct Secret {
    /// Letters and digits in upper case.
    pub(crate) canonical: String,
    /// How many of them are shown at the beginning and at the end.
    pub(crate) shown: (usize, usize),
}

/// The text with every value masked, however it is divided, also where the text begins or ends in
/// the middle of one. None if no value is in it.
pub(crate) fn redacted(text: &str, secrets: &[Secret]) -> Option<String> {
    let (mut letters, mut places) = (Vec::new(), Vec::new());
    for (at, c) in text.char_indices().filter(|(_, c)| c.is_ascii_alphanumeric()) {
        letters.push(c.to_ascii_uppercase() as u8);
        places.push(at);
    }
    let mut hidden = vec![false; letters.len()];
    for secret in secrets {
        let value = secret.canonical.as_bytes();
        let (head, tail) = match secret.shown {
            (head, tail) if (head + tail) * 2 > value.len() => (0, 0),
            shown => shown,
        };
        if value.is_empty() {
            continue;
        }
        for at in memmem::find_iter(&letters, value) {
            hidden[at + head..at + value.len() - tail].fill(true);
        }
        for (from, to) in pieces(&letters, value) {
            hidden[from..to].fill(true);
        }
    }
    if !hidden.contains(&true) {
        return None;
    }
    let mut masked = text.as_bytes().to_vec();
    for (place, _) in places.iter().zip(hidden).filter(|(_, hidden)| *hidden) {
        masked[*place] = b'*';
    }
    String::from_utf8(masked).ok()
}

/// Where the text is, begins or ends with a piece of the value.
fn pieces(letters: &[u8], value: &[u8]) -> Vec<(usize, usize)> {
    let all = letters.len();
    if all >= INNER_CHARS_MIN && all < value.len() && memmem::find(value, letters).is_some() {
        return vec![(0, all)];
    }
    let longest = all.min(value.len().saturating_sub(1));
    let lengths = || (PIECE_CHARS_MIN..=longest).rev();
    let last = lengths().find(|&n| letters.ends_with(&value[..n])).map(|n| (all - n, all));
    let first = lengths().find(|&n| letters.starts_with(&value[value.len() - n..])).map(|n| (0, n));
    first.into_iter().chain(last).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_masked_however_they_are_divided_or_cut() {
        let secrets = [Secret { canonical: "4111111111111111".into(), shown: (4, 4) }];
        let masked = |text: &str| redacted(text, &secrets).unwrap_or_else(|| text.to_owned());
        assert_eq!(masked("Card 4111 1111-11111111!"), "Card 4111 ****-****1111!");
        assert_eq!(masked("my number is 4111 1111 1"), "my number is **** **** *");
        assert_eq!(masked("1 1111 1111 is it"), "* **** **** is it");
        assert_eq!(masked("111111111111"), "************", "out of the middle");
        assert_eq!(masked("order 4242"), "order 4242");
        assert_eq!(redacted("über 41", &secrets), None);
        assert_eq!(redacted("", &secrets), None);
    }
}
