//! Character references as HTML::Parser 3.81 decodes them: the entities of HTML 4.01 section 24 and
//! numbers; the result of a narrow string stays narrow unless a character needs more than a byte.

use std::borrow::Cow;

use crate::views::perl::Text;

/// Entities below U+0100, sorted: known with and without a final semicolon, and as prefixes.
#[rustfmt::skip]
const LATIN: &[(&str, u8)] = &[
    ("AElig", 0xc6), ("Aacute", 0xc1), ("Acirc", 0xc2), ("Agrave", 0xc0), ("Aring", 0xc5),
    ("Atilde", 0xc3), ("Auml", 0xc4), ("Ccedil", 0xc7), ("ETH", 0xd0), ("Eacute", 0xc9),
    ("Ecirc", 0xca), ("Egrave", 0xc8), ("Euml", 0xcb), ("Iacute", 0xcd), ("Icirc", 0xce),
    ("Igrave", 0xcc), ("Iuml", 0xcf), ("Ntilde", 0xd1), ("Oacute", 0xd3), ("Ocirc", 0xd4),
    ("Ograve", 0xd2), ("Oslash", 0xd8), ("Otilde", 0xd5), ("Ouml", 0xd6), ("THORN", 0xde),
    ("Uacute", 0xda), ("Ucirc", 0xdb), ("Ugrave", 0xd9), ("Uuml", 0xdc), ("Yacute", 0xdd),
    ("aacute", 0xe1), ("acirc", 0xe2), ("acute", 0xb4), ("aelig", 0xe6), ("agrave", 0xe0),
    ("amp", 0x26), ("apos", 0x27), ("aring", 0xe5), ("atilde", 0xe3), ("auml", 0xe4),
    ("brvbar", 0xa6), ("ccedil", 0xe7), ("cedil", 0xb8), ("cent", 0xa2), ("copy", 0xa9),
    ("curren", 0xa4), ("deg", 0xb0), ("divide", 0xf7), ("eacute", 0xe9), ("ecirc", 0xea),
    ("egrave", 0xe8), ("eth", 0xf0), ("euml", 0xeb), ("frac12", 0xbd), ("frac14", 0xbc),
    ("frac34", 0xbe), ("gt", 0x3e), ("iacute", 0xed), ("icirc", 0xee), ("iexcl", 0xa1),
    ("igrave", 0xec), ("iquest", 0xbf), ("iuml", 0xef), ("laquo", 0xab), ("lt", 0x3c),
    ("macr", 0xaf), ("micro", 0xb5), ("middot", 0xb7), ("nbsp", 0xa0), ("not", 0xac),
    ("ntilde", 0xf1), ("oacute", 0xf3), ("ocirc", 0xf4), ("ograve", 0xf2), ("ordf", 0xaa),
    ("ordm", 0xba), ("oslash", 0xf8), ("otilde", 0xf5), ("ouml", 0xf6), ("para", 0xb6),
    ("plusmn", 0xb1), ("pound", 0xa3), ("quot", 0x22), ("raquo", 0xbb), ("reg", 0xae),
    ("sect", 0xa7), ("shy", 0xad), ("sup1", 0xb9), ("sup2", 0xb2), ("sup3", 0xb3),
    ("szlig", 0xdf), ("thorn", 0xfe), ("times", 0xd7), ("uacute", 0xfa), ("ucirc", 0xfb),
    ("ugrave", 0xf9), ("uml", 0xa8), ("uuml", 0xfc), ("yacute", 0xfd), ("yen", 0xa5),
    ("yuml", 0xff),
];

/// The other entities of HTML 4, sorted: recognized only with a final semicolon.
#[rustfmt::skip]
const OTHER: &[(&str, u16)] = &[
    ("Alpha", 0x391), ("Beta", 0x392), ("Chi", 0x3a7), ("Dagger", 0x2021), ("Delta", 0x394),
    ("Epsilon", 0x395), ("Eta", 0x397), ("Gamma", 0x393), ("Iota", 0x399), ("Kappa", 0x39a),
    ("Lambda", 0x39b), ("Mu", 0x39c), ("Nu", 0x39d), ("OElig", 0x152), ("Omega", 0x3a9),
    ("Omicron", 0x39f), ("Phi", 0x3a6), ("Pi", 0x3a0), ("Prime", 0x2033), ("Psi", 0x3a8),
    ("Rho", 0x3a1), ("Scaron", 0x160), ("Sigma", 0x3a3), ("Tau", 0x3a4), ("Theta", 0x398),
    ("Upsilon", 0x3a5), ("Xi", 0x39e), ("Yuml", 0x178), ("Zeta", 0x396), ("alefsym", 0x2135),
    ("alpha", 0x3b1), ("and", 0x2227), ("ang", 0x2220), ("asymp", 0x2248), ("bdquo", 0x201e),
    ("beta", 0x3b2), ("bull", 0x2022), ("cap", 0x2229), ("chi", 0x3c7), ("circ", 0x2c6),
    ("clubs", 0x2663), ("cong", 0x2245), ("crarr", 0x21b5), ("cup", 0x222a), ("dArr", 0x21d3),
    ("dagger", 0x2020), ("darr", 0x2193), ("delta", 0x3b4), ("diams", 0x2666), ("empty", 0x2205),
    ("emsp", 0x2003), ("ensp", 0x2002), ("epsilon", 0x3b5), ("equiv", 0x2261), ("eta", 0x3b7),
    ("euro", 0x20ac), ("exist", 0x2203), ("fnof", 0x192), ("forall", 0x2200), ("frasl", 0x2044),
    ("gamma", 0x3b3), ("ge", 0x2265), ("hArr", 0x21d4), ("harr", 0x2194), ("hearts", 0x2665),
    ("hellip", 0x2026), ("image", 0x2111), ("infin", 0x221e), ("int", 0x222b), ("iota", 0x3b9),
    ("isin", 0x2208), ("kappa", 0x3ba), ("lArr", 0x21d0), ("lambda", 0x3bb), ("lang", 0x2329),
    ("larr", 0x2190), ("lceil", 0x2308), ("ldquo", 0x201c), ("le", 0x2264), ("lfloor", 0x230a),
    ("lowast", 0x2217), ("loz", 0x25ca), ("lrm", 0x200e), ("lsaquo", 0x2039), ("lsquo", 0x2018),
    ("mdash", 0x2014), ("minus", 0x2212), ("mu", 0x3bc), ("nabla", 0x2207), ("ndash", 0x2013),
    ("ne", 0x2260), ("ni", 0x220b), ("notin", 0x2209), ("nsub", 0x2284), ("nu", 0x3bd),
    ("oelig", 0x153), ("oline", 0x203e), ("omega", 0x3c9), ("omicron", 0x3bf), ("oplus", 0x2295),
    ("or", 0x2228), ("otimes", 0x2297), ("part", 0x2202), ("permil", 0x2030), ("perp", 0x22a5),
    ("phi", 0x3c6), ("pi", 0x3c0), ("piv", 0x3d6), ("prime", 0x2032), ("prod", 0x220f),
    ("prop", 0x221d), ("psi", 0x3c8), ("rArr", 0x21d2), ("radic", 0x221a), ("rang", 0x232a),
    ("rarr", 0x2192), ("rceil", 0x2309), ("rdquo", 0x201d), ("real", 0x211c), ("rfloor", 0x230b),
    ("rho", 0x3c1), ("rlm", 0x200f), ("rsaquo", 0x203a), ("rsquo", 0x2019), ("sbquo", 0x201a),
    ("scaron", 0x161), ("sdot", 0x22c5), ("sigma", 0x3c3), ("sigmaf", 0x3c2), ("sim", 0x223c),
    ("spades", 0x2660), ("sub", 0x2282), ("sube", 0x2286), ("sum", 0x2211), ("sup", 0x2283),
    ("supe", 0x2287), ("tau", 0x3c4), ("there4", 0x2234), ("theta", 0x3b8), ("thetasym", 0x3d1),
    ("thinsp", 0x2009), ("tilde", 0x2dc), ("trade", 0x2122), ("uArr", 0x21d1), ("uarr", 0x2191),
    ("upsih", 0x3d2), ("upsilon", 0x3c5), ("weierp", 0x2118), ("xi", 0x3be), ("zeta", 0x3b6),
    ("zwj", 0x200d), ("zwnj", 0x200c),
];

/// A Perl string, borrowed from the source if possible.
#[derive(Debug, Clone)]
pub(super) struct Piece<'s> {
    pub(super) chars: Cow<'s, str>,
    pub(super) wide: bool,
}

impl<'s> Piece<'s> {
    /// A piece of the source.
    pub(super) fn plain(source: &'s str, wide: bool) -> Self {
        Piece { chars: Cow::Borrowed(source), wide }
    }

    /// A string of its own.
    pub(super) fn into_text(self) -> Text {
        Text { chars: self.chars.into_owned(), wide: self.wide }
    }
}

/// A reference's character, and whether Perl would make the string wide for it.
struct Replacement {
    value: u32,
    /// Bytes of the reference after `&`, the semicolon included.
    length: usize,
    /// Came from the table of wide entities.
    wide: bool,
}

fn latin(name: &[u8]) -> Option<u32> {
    let found = LATIN.binary_search_by(|e| e.0.as_bytes().cmp(name)).ok()?;
    Some(u32::from(LATIN[found].1))
}

fn other(name: &[u8]) -> Option<u32> {
    let found = OTHER.binary_search_by(|e| e.0.as_bytes().cmp(name)).ok()?;
    Some(u32::from(OTHER[found].1))
}

/// Decodes the references of `source`, a piece of a string that is `wide` or not. `prefixes`: an
/// unknown name that begins with a known one counts as that one (text), else not (attributes).
pub(super) fn decode(source: &str, wide: bool, prefixes: bool) -> Piece<'_> {
    let Some(first) = memchr::memchr(b'&', source.as_bytes()) else {
        return Piece::plain(source, wide);
    };
    let mut out = String::with_capacity(source.len());
    out.push_str(&source[..first]);
    let (mut at, mut wide, mut high) = (first, wide, None);
    while let Some(i) = memchr::memchr(b'&', &source.as_bytes()[at..]).map(|i| at + i) {
        out.push_str(&source[at..i]);
        let rest = &source.as_bytes()[i + 1..];
        match reference(rest, prefixes) {
            Some(found) => {
                at = i + 1 + found.length;
                let before = wide;
                push(&found, &mut out, &mut wide, &mut high);
                if source.as_bytes().get(at) != Some(&b'&') {
                    high = None;
                }
                debug_assert!(wide || !before, "a wide string never becomes narrow");
            }
            None => {
                out.push('&');
                at = i + 1;
                high = None;
            }
        }
    }
    out.push_str(&source[at..]);
    Piece { chars: Cow::Owned(out), wide }
}

/// Appends a replacement; surrogate pairs are combined.
fn push(found: &Replacement, out: &mut String, wide: &mut bool, high: &mut Option<u32>) {
    let value = found.value;
    if value <= 0xff && !found.wide {
        out.push(char::from_u32(value).unwrap_or('\u{fffd}'));
        *high = None;
        return;
    }
    *wide = true;
    let value = match value {
        0xdc00..=0xdfff => match high.take() {
            Some(first) => {
                out.pop(); // the replacement character that stood for the first half
                ((first - 0xd800) << 10) + (value - 0xdc00) + 0x1_0000
            }
            None => 0xfffd,
        },
        0xd800..=0xdbff => {
            *high = Some(value);
            0xfffd
        }
        _ => {
            *high = None;
            if (0xfdd0..=0xfdef).contains(&value) || value & 0xfffe == 0xfffe {
                0xfffd
            } else {
                value
            }
        }
    };
    out.push(char::from_u32(value).unwrap_or('\u{fffd}'));
}

/// Parses the reference after a `&`.
fn reference(rest: &[u8], prefixes: bool) -> Option<Replacement> {
    if let Some(digits) = rest.strip_prefix(b"#") {
        return number(digits);
    }
    let length = rest.iter().take_while(|&&b| crate::views::perl::is_word(b)).count();
    let name = &rest[..length];
    let semicolon = usize::from(rest.get(length) == Some(&b';'));
    if length == 0 {
        return None;
    }
    if let Some(value) = latin(name) {
        return Some(Replacement { value, length: length + semicolon, wide: false });
    }
    if semicolon == 1
        && let Some(value) = other(name)
    {
        return Some(Replacement { value, length: length + 1, wide: true });
    }
    if !prefixes {
        return None;
    }
    let longest = length.saturating_sub(1).min(6);
    (1..=longest)
        .rev()
        .find_map(|n| latin(&name[..n]).map(|value| Replacement { value, length: n, wide: false }))
}

/// A numeric reference after `&#`.
fn number(digits: &[u8]) -> Option<Replacement> {
    let hex = matches!(digits.first(), Some(b'x' | b'X'));
    let (digits, base, skip) = if hex { (&digits[1..], 16, 1) } else { (digits, 10, 0) };
    let (mut value, mut length) = (0u32, 0);
    while let Some(digit) = digits.get(length).and_then(|&b| char::from(b).to_digit(base)) {
        value = value * base + digit;
        if value > 0x10_ffff {
            return None;
        }
        length += 1;
    }
    if length == 0 || value == 0 || value == 0xfffe || value == 0xffff {
        return None;
    }
    let semicolon = usize::from(digits.get(length) == Some(&b';'));
    Some(Replacement { value, length: 1 + skip + length + semicolon, wide: value > 0xff })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_sorted() {
        assert!(LATIN.is_sorted_by_key(|e| e.0) && OTHER.is_sorted_by_key(|e| e.0));
        assert_eq!((LATIN.len(), OTHER.len()), (101, 152));
        assert!(LATIN.iter().all(|e| e.0.len() <= 6));
    }

    #[test]
    fn references() {
        let text = |s: &str| decode(s, false, true).into_text();
        assert_eq!(text("a&eacute;b&amp;").bytes(), b"a\xe9b&");
        assert_eq!(text("&copyright &ampx").bytes(), b"\xa9right &x");
        assert_eq!(
            decode("?a=1&copyright=2", false, false).into_text().bytes(),
            b"?a=1&copyright=2"
        );
        assert_eq!(text("&hellip;&#8230;").bytes(), "……".as_bytes());
        assert_eq!(
            text("&hellip &#0; &#xfffe; &#1114112;").bytes(),
            b"&hellip &#0; &#xfffe; &#1114112;"
        );
        assert_eq!(text("&#xD83D;&#xDE00;").bytes(), "😀".as_bytes());
        assert_eq!(text("&#233;").bytes(), b"\xe9");
        assert_eq!(text("& &; &#; &#x;").bytes(), b"& &; &#; &#x;");
    }
}
