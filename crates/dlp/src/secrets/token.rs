//! Tokens with a prefix of their own.

/// Different characters of a token; a placeholder has fewer.
const DISTINCT_MIN: usize = 8;
/// Longest token that is read.
const TOKEN_BYTES_MAX: usize = 8 * 1024;

/// Characters of a token behind its prefix.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Chars {
    /// Capitals and digits of Base32 (RFC 4648 section 6).
    Base32,
    /// ASCII letters and digits.
    Alnum,
    /// ASCII letters, digits and `_`.
    Word,
    /// Letters, digits, `_` and `-` (Base64 for URLs, RFC 4648 section 5).
    Url,
    /// The same and dots between.
    Dotted,
    /// Base64 (RFC 4648 section 4).
    Base64,
    /// Digits and `a` to `f`.
    Hex,
}

impl Chars {
    fn has(self, byte: u8) -> bool {
        match self {
            Chars::Base32 => byte.is_ascii_uppercase() || matches!(byte, b'2'..=b'7'),
            Chars::Alnum => byte.is_ascii_alphanumeric(),
            Chars::Word => byte.is_ascii_alphanumeric() || byte == b'_',
            Chars::Url => byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'),
            Chars::Dotted => byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.'),
            Chars::Base64 => byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'='),
            Chars::Hex => matches!(byte, b'0'..=b'9' | b'a'..=b'f'),
        }
    }
}

/// A kind of token.
#[derive(Debug, Clone, Copy)]
pub(super) struct Shape {
    pub(super) detector: &'static str,
    pub(super) prefix: &'static str,
    chars: Chars,
    /// Characters behind the prefix, least and most.
    lengths: (usize, usize),
    check: fn(&str) -> bool,
}

const fn shape(
    detector: &'static str,
    prefix: &'static str,
    chars: Chars,
    lengths: (usize, usize),
) -> Shape {
    Shape { detector, prefix, chars, lengths, check: |_| true }
}

const fn checked(base: Shape, check: fn(&str) -> bool) -> Shape {
    Shape { check, ..base }
}

const GITHUB: &str = "github_token";
const OTHER: &str = "access_token";

pub(super) const SHAPES: &[Shape] = &[
    shape("aws_key", "AKIA", Chars::Base32, (16, 16)),
    shape("aws_key", "ASIA", Chars::Base32, (16, 16)),
    checked(shape(GITHUB, "ghp_", Chars::Alnum, (36, 36)), has_checksum),
    checked(shape(GITHUB, "gho_", Chars::Alnum, (36, 36)), has_checksum),
    checked(shape(GITHUB, "ghu_", Chars::Alnum, (36, 36)), has_checksum),
    checked(shape(GITHUB, "ghs_", Chars::Alnum, (36, 36)), has_checksum),
    checked(shape(GITHUB, "ghr_", Chars::Alnum, (36, 36)), has_checksum),
    shape(GITHUB, "github_pat_", Chars::Word, (82, 82)),
    checked(shape("jwt", "eyJ", Chars::Dotted, (20, TOKEN_BYTES_MAX)), is_jwt),
    shape(OTHER, "glpat-", Chars::Dotted, (20, 64)),
    shape(OTHER, "gldt-", Chars::Url, (20, 64)),
    shape(OTHER, "glptt-", Chars::Hex, (40, 40)),
    shape(OTHER, "xoxb-", Chars::Url, (24, 120)),
    shape(OTHER, "xoxp-", Chars::Url, (24, 120)),
    shape(OTHER, "xoxa-", Chars::Url, (24, 120)),
    shape(OTHER, "xoxr-", Chars::Url, (24, 120)),
    shape(OTHER, "xoxs-", Chars::Url, (24, 120)),
    shape(OTHER, "xapp-", Chars::Url, (24, 160)),
    shape(OTHER, "sk_live_", Chars::Alnum, (24, 128)),
    shape(OTHER, "rk_live_", Chars::Alnum, (24, 128)),
    shape(OTHER, "AIza", Chars::Url, (35, 35)),
    shape(OTHER, "GOCSPX-", Chars::Url, (28, 28)),
    checked(shape(OTHER, "SG.", Chars::Dotted, (66, 66)), |token| is_divided(token, &[22, 43])),
    checked(shape(OTHER, "npm_", Chars::Alnum, (36, 36)), has_checksum),
    shape(OTHER, "pypi-AgE", Chars::Url, (80, 400)),
    shape(OTHER, "hf_", Chars::Alnum, (34, 34)),
    shape(OTHER, "dop_v1_", Chars::Hex, (64, 64)),
    shape(OTHER, "doo_v1_", Chars::Hex, (64, 64)),
    shape(OTHER, "shpat_", Chars::Hex, (32, 32)),
    shape(OTHER, "shpca_", Chars::Hex, (32, 32)),
    shape(OTHER, "dckr_pat_", Chars::Url, (27, 27)),
    shape(OTHER, "hvs.", Chars::Url, (90, 200)),
    shape(OTHER, "glsa_", Chars::Word, (41, 41)),
    shape(OTHER, "sk-ant-", Chars::Url, (80, 200)),
    shape(OTHER, "sk-proj-", Chars::Url, (40, 256)),
    checked(shape(OTHER, "AccountKey=", Chars::Base64, (88, 88)), |key| key.ends_with("==")),
];

impl Shape {
    /// Begin, end, and length of the prefix of a token whose prefix stands at these bytes. `passed`
    /// is set to where a run ends that is too long for any.
    pub(super) fn find(
        &self,
        text: &str,
        start: usize,
        prefix_end: usize,
        passed: &mut usize,
    ) -> Option<(usize, usize, usize)> {
        let bytes = text.as_bytes();
        let before = start.checked_sub(1).map_or(b' ', |i| bytes[i]);
        let rest = &bytes[prefix_end..bytes.len().min(prefix_end + TOKEN_BYTES_MAX + 1)];
        let mut length = rest.iter().take_while(|b| self.chars.has(**b)).count();
        if length > TOKEN_BYTES_MAX {
            *passed = prefix_end + length;
            return None;
        }
        // The end of a sentence is none of the token.
        while self.chars == Chars::Dotted && length > 0 && rest[length - 1] == b'.' {
            length -= 1;
        }
        let end = prefix_end + length;
        let token = &text[prefix_end..end];
        let is_free = !before.is_ascii_alphanumeric()
            && before != b'_'
            && !bytes.get(end).is_some_and(u8::is_ascii_alphanumeric);
        let fits = is_free
            && (self.lengths.0..=self.lengths.1).contains(&length)
            && distinct(token) >= DISTINCT_MIN
            && (self.check)(token);
        fits.then_some((start, end, prefix_end - start))
    }
}

fn distinct(token: &str) -> usize {
    let mut seen = [false; 128];
    token.bytes().for_each(|b| seen[usize::from(b & 127)] = true);
    seen.into_iter().filter(|&is| is).count()
}

/// GitHub's and npm's tokens end in six characters: the CRC-32 of those before, in base 62.
fn has_checksum(token: &str) -> bool {
    const DIGITS: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    let Some((body, sum)) = token.split_at_checked(30) else { return false };
    let mut rest = crc32fast::hash(body.as_bytes());
    sum.bytes().rev().all(|byte| {
        let digit = DIGITS[rest as usize % DIGITS.len()];
        rest /= 62;
        digit == byte
    }) && rest == 0
}

/// Whether pieces between dots have these lengths.
fn is_divided(token: &str, lengths: &[usize]) -> bool {
    token.split('.').map(str::len).eq(lengths.iter().copied())
}

/// Three pieces, of which the first is a header that names its algorithm (RFC 7515 section 4.1.1).
fn is_jwt(rest: &str) -> bool {
    let pieces: Vec<&str> = rest.split('.').collect();
    let [header, payload, signature] = pieces[..] else { return false };
    let header = format!("eyJ{header}");
    let decoded = base64_simd::URL_SAFE_NO_PAD.decode_to_vec(&header).unwrap_or_default();
    memchr::memmem::find(&decoded, b"\"alg\"").is_some()
        && decoded.ends_with(b"}")
        && payload.starts_with("ey")
        && signature.len() >= 20
}

#[cfg(test)]
mod tests {
    use super::super::tests::found;

    /// Thirty letters and digits.
    const BODY: &str = "Abcdefghijklmnopqrstuvwxyz0123";

    /// A token of ours with a checksum that is right.
    fn with_checksum(body: &str) -> String {
        let digits = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
        let (mut rest, mut sum) = (crc32fast::hash(body.as_bytes()), Vec::new());
        for _ in 0..6 {
            sum.insert(0, char::from(digits[rest as usize % 62]));
            rest /= 62;
        }
        format!("{body}{}", sum.into_iter().collect::<String>())
    }

    #[test]
    fn tokens_are_found_by_form_and_checksum() {
        let github = format!("ghp_{}", with_checksum(BODY));
        // Composed by their form, so that no scanner of repositories takes them for real ones.
        let long = "a1B2c3D4e5F6g7H8i9J0".repeat(5);
        let cases = [
            ("github_token", github.clone()),
            ("github_token", format!("github_pat_{}", &long[..82])),
            ("aws_key", format!("AKIA{}", "IOSFODNN7EXAMPLE")),
            ("access_token", format!("npm_{}", with_checksum(BODY))),
            ("access_token", format!("glpat-{}", &long[..20])),
            ("access_token", format!("xoxb-{}", &long[..40])),
            ("access_token", format!("sk_live_{}", &long[..24])),
            ("access_token", format!("AIza{}", &long[..35])),
            ("access_token", format!("SG.{}.{}", &long[..22], &long[..43])),
            ("access_token", format!("dop_v1_{}", "0123456789abcdef".repeat(4))),
            ("access_token", format!("AccountKey={}==", &long[..86])),
            ("jwt", format!("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.{}", &long[..43])),
        ];
        for (name, token) in cases {
            let text = format!("token: \"{token}\", or {token}. https://api.example/?t={token}");
            assert_eq!(found(&text), vec![(name, token.clone()); 3], "{token}");
            assert_eq!(found(&format!("x{token}")), [], "{token} inside a word");
        }
        assert_eq!(found(&format!("{github}A")), [], "too long");
    }

    #[test]
    fn placeholders_and_wrong_checksums_are_none() {
        for text in [
            format!("ghp_{BODY}000000"),
            format!("ghp_{}", "x".repeat(36)),
            "AKIA0000000000000000".to_owned(),
            format!("AKIA{}", "A".repeat(16)),
            "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0".to_owned(),
            "eyJmb28iOiJiYXIifQ.eyJzdWIiOiIxIn0.aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa".to_owned(),
            "SG.short.short".to_owned(),
            "npm_package_config_registry_url_of_the_build".to_owned(),
            "AccountKey=".to_owned(),
        ] {
            assert_eq!(found(&text), [], "{text}");
        }
    }
}
