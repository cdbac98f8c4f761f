//! Character references (`&amp;`, `&#38;`, `&#x26;`) into characters.
//!
//! The named ones are those of HTML 4.01 (section 24) and the names for ASCII punctuation,
//! invisible spaces and a few symbols of HTML 5 that senders use to hide words and links.

use std::borrow::Cow;

use memchr::memchr;

/// Longest name in the table.
const NAME_BYTES_MAX: usize = 21;
/// Longest name that is read without its semicolon.
const LEGACY_BYTES_MAX: usize = 6;

/// Decodes every reference in `bytes`; what is not one stays. In attributes a name without
/// semicolon is left alone before `=` and letters, so that `?a=1&copy=2` survives (standard,
/// 13.2.5.73).
pub fn decode(bytes: &[u8], in_attribute: bool) -> Cow<'_, [u8]> {
    let Some(first) = memchr(b'&', bytes) else { return Cow::Borrowed(bytes) };
    let mut out = Vec::with_capacity(bytes.len());
    out.extend_from_slice(&bytes[..first]);
    let mut at = first;
    while at < bytes.len() {
        match reference(&bytes[at..], in_attribute) {
            Some((c, length)) => {
                out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
                at += length;
            }
            None => {
                out.push(b'&');
                at += 1;
            }
        }
        let next = memchr(b'&', &bytes[at..]).map_or(bytes.len(), |i| at + i);
        out.extend_from_slice(&bytes[at..next]);
        at = next;
    }
    Cow::Owned(out)
}

/// Reads the reference at the start of `bytes`, which begins with `&`: its character and length.
pub fn reference(bytes: &[u8], in_attribute: bool) -> Option<(char, usize)> {
    match *bytes.get(1)? {
        b'#' => numeric(bytes),
        b if b.is_ascii_alphabetic() => named(bytes, in_attribute),
        _ => None,
    }
}

fn numeric(bytes: &[u8]) -> Option<(char, usize)> {
    let hex = matches!(bytes.get(2), Some(b'x' | b'X'));
    let (start, radix) = if hex { (3, 16) } else { (2, 10) };
    let digits = bytes.get(start..)?.iter().take_while(|b| char::from(**b).is_digit(radix)).count();
    if digits == 0 {
        return None;
    }
    let mut value = 0u32;
    for &digit in &bytes[start..start + digits] {
        let digit = char::from(digit).to_digit(radix).unwrap_or(0);
        value = value.saturating_mul(radix).saturating_add(digit);
    }
    let end = start + digits;
    let semicolon = bytes.get(end) == Some(&b';');
    Some((code_point(value), end + usize::from(semicolon)))
}

/// Numbers 128 to 159 mean Windows-1252 (standard, 13.2.5.80).
fn code_point(value: u32) -> char {
    match value {
        0x80..=0x9f => {
            let byte = [value as u8];
            let text = encoding_rs::WINDOWS_1252.decode_without_bom_handling(&byte).0;
            text.chars().next().unwrap_or('\u{fffd}')
        }
        0 => '\u{fffd}',
        _ => char::from_u32(value).unwrap_or('\u{fffd}'),
    }
}

fn named(bytes: &[u8], in_attribute: bool) -> Option<(char, usize)> {
    let tail = &bytes[1..bytes.len().min(NAME_BYTES_MAX + 2)];
    let length = tail.iter().take_while(|b| b.is_ascii_alphanumeric()).count();
    if tail.get(length) == Some(&b';')
        && let Some(c) = by_name(&tail[..length])
    {
        return Some((c, length + 2));
    }
    for shorter in (2..=length.min(LEGACY_BYTES_MAX)).rev() {
        let next = tail.get(shorter);
        let glued = next.is_some_and(|b| b.is_ascii_alphanumeric() || *b == b'=');
        if in_attribute && glued {
            continue;
        }
        if let Some(c) = by_name(&tail[..shorter]).filter(|&c| is_legacy(&tail[..shorter], c)) {
            return Some((c, shorter + 1));
        }
    }
    None
}

/// Names that HTML 4's readers took without a semicolon: Latin-1 and the mark-up characters.
fn is_legacy(name: &[u8], c: char) -> bool {
    matches!(c, '\u{a0}'..='\u{ff}' | '&' | '<' | '>') || name.eq_ignore_ascii_case(b"quot")
}

/// The character of a name, without `&` and `;`.
pub fn by_name(name: &[u8]) -> Option<char> {
    match name {
        b"nbsp" => Some('\u{a0}'),
        b"amp" => Some('&'),
        _ => {
            let found = NAMED.binary_search_by(|(n, _)| n.as_bytes().cmp(name)).ok()?;
            char::from_u32(u32::from(NAMED[found].1))
        }
    }
}

/// Name and code point, sorted by name.
#[rustfmt::skip]
const NAMED: &[(&str, u16)] = &[
    ("AElig", 0xc6), ("AMP", 0x26), ("Aacute", 0xc1), ("Acirc", 0xc2), ("Agrave", 0xc0),
    ("Alpha", 0x391), ("ApplyFunction", 0x2061), ("Aring", 0xc5), ("Atilde", 0xc3), ("Auml", 0xc4),
    ("Beta", 0x392), ("COPY", 0xa9), ("Ccedil", 0xc7), ("Chi", 0x3a7), ("Dagger", 0x2021),
    ("Delta", 0x394), ("ETH", 0xd0), ("Eacute", 0xc9), ("Ecirc", 0xca), ("Egrave", 0xc8),
    ("Epsilon", 0x395), ("Eta", 0x397), ("Euml", 0xcb), ("GT", 0x3e), ("Gamma", 0x393),
    ("Hat", 0x5e), ("Iacute", 0xcd), ("Icirc", 0xce), ("Igrave", 0xcc), ("InvisibleComma", 0x2063),
    ("InvisibleTimes", 0x2062), ("Iota", 0x399), ("Iuml", 0xcf), ("Kappa", 0x39a), ("LT", 0x3c),
    ("Lambda", 0x39b), ("Mu", 0x39c), ("NegativeMediumSpace", 0x200b),
    ("NegativeThickSpace", 0x200b), ("NegativeThinSpace", 0x200b),
    ("NegativeVeryThinSpace", 0x200b), ("NewLine", 0xa), ("NoBreak", 0x2060),
    ("NonBreakingSpace", 0xa0), ("Ntilde", 0xd1), ("Nu", 0x39d), ("OElig", 0x152), ("Oacute", 0xd3),
    ("Ocirc", 0xd4), ("Ograve", 0xd2), ("Omega", 0x3a9), ("Omicron", 0x39f), ("Oslash", 0xd8),
    ("Otilde", 0xd5), ("Ouml", 0xd6), ("Phi", 0x3a6), ("Pi", 0x3a0), ("Prime", 0x2033),
    ("Psi", 0x3a8), ("QUOT", 0x22), ("REG", 0xae), ("Rho", 0x3a1), ("Scaron", 0x160),
    ("Sigma", 0x3a3), ("THORN", 0xde), ("Tab", 0x9), ("Tau", 0x3a4), ("Theta", 0x398),
    ("Uacute", 0xda), ("Ucirc", 0xdb), ("Ugrave", 0xd9), ("Upsilon", 0x3a5), ("Uuml", 0xdc),
    ("Xi", 0x39e), ("Yacute", 0xdd), ("Yuml", 0x178), ("ZeroWidthSpace", 0x200b), ("Zeta", 0x396),
    ("aacute", 0xe1), ("acirc", 0xe2), ("acute", 0xb4), ("aelig", 0xe6), ("af", 0x2061),
    ("agrave", 0xe0), ("alefsym", 0x2135), ("alpha", 0x3b1), ("amp", 0x26), ("and", 0x2227),
    ("ang", 0x2220), ("apos", 0x27), ("aring", 0xe5), ("ast", 0x2a), ("asymp", 0x2248),
    ("atilde", 0xe3), ("auml", 0xe4), ("bdquo", 0x201e), ("beta", 0x3b2), ("brvbar", 0xa6),
    ("bsol", 0x5c), ("bull", 0x2022), ("cap", 0x2229), ("ccedil", 0xe7), ("cedil", 0xb8),
    ("cent", 0xa2), ("check", 0x2713), ("chi", 0x3c7), ("circ", 0x2c6), ("clubs", 0x2663),
    ("colon", 0x3a), ("comma", 0x2c), ("commat", 0x40), ("cong", 0x2245), ("copy", 0xa9),
    ("crarr", 0x21b5), ("cup", 0x222a), ("curren", 0xa4), ("dArr", 0x21d3), ("dagger", 0x2020),
    ("darr", 0x2193), ("dash", 0x2010), ("deg", 0xb0), ("delta", 0x3b4), ("diams", 0x2666),
    ("divide", 0xf7), ("dollar", 0x24), ("eacute", 0xe9), ("ecirc", 0xea), ("egrave", 0xe8),
    ("empty", 0x2205), ("emsp", 0x2003), ("ensp", 0x2002), ("epsilon", 0x3b5), ("equals", 0x3d),
    ("equiv", 0x2261), ("eta", 0x3b7), ("eth", 0xf0), ("euml", 0xeb), ("euro", 0x20ac),
    ("excl", 0x21), ("exist", 0x2203), ("fnof", 0x192), ("forall", 0x2200), ("frac12", 0xbd),
    ("frac14", 0xbc), ("frac34", 0xbe), ("frasl", 0x2044), ("gamma", 0x3b3), ("ge", 0x2265),
    ("grave", 0x60), ("gt", 0x3e), ("hArr", 0x21d4), ("hairsp", 0x200a), ("harr", 0x2194),
    ("hearts", 0x2665), ("hellip", 0x2026), ("horbar", 0x2015), ("hyphen", 0x2010),
    ("iacute", 0xed), ("ic", 0x2063), ("icirc", 0xee), ("iexcl", 0xa1), ("igrave", 0xec),
    ("image", 0x2111), ("infin", 0x221e), ("int", 0x222b), ("iota", 0x3b9), ("iquest", 0xbf),
    ("isin", 0x2208), ("it", 0x2062), ("iuml", 0xef), ("kappa", 0x3ba), ("lArr", 0x21d0),
    ("lambda", 0x3bb), ("lang", 0x2329), ("laquo", 0xab), ("larr", 0x2190), ("lbrace", 0x7b),
    ("lbrack", 0x5b), ("lceil", 0x2308), ("lcub", 0x7b), ("ldquo", 0x201c), ("le", 0x2264),
    ("lfloor", 0x230a), ("lowast", 0x2217), ("lowbar", 0x5f), ("loz", 0x25ca), ("lpar", 0x28),
    ("lrm", 0x200e), ("lsaquo", 0x2039), ("lsqb", 0x5b), ("lsquo", 0x2018), ("lt", 0x3c),
    ("macr", 0xaf), ("mdash", 0x2014), ("micro", 0xb5), ("middot", 0xb7), ("minus", 0x2212),
    ("mu", 0x3bc), ("nabla", 0x2207), ("nbsp", 0xa0), ("ndash", 0x2013), ("ne", 0x2260),
    ("ni", 0x220b), ("not", 0xac), ("notin", 0x2209), ("nsub", 0x2284), ("ntilde", 0xf1),
    ("nu", 0x3bd), ("num", 0x23), ("numsp", 0x2007), ("oacute", 0xf3), ("ocirc", 0xf4),
    ("oelig", 0x153), ("ograve", 0xf2), ("oline", 0x203e), ("omega", 0x3c9), ("omicron", 0x3bf),
    ("oplus", 0x2295), ("or", 0x2228), ("ordf", 0xaa), ("ordm", 0xba), ("oslash", 0xf8),
    ("otilde", 0xf5), ("otimes", 0x2297), ("ouml", 0xf6), ("para", 0xb6), ("part", 0x2202),
    ("percnt", 0x25), ("period", 0x2e), ("permil", 0x2030), ("perp", 0x22a5), ("phi", 0x3c6),
    ("phone", 0x260e), ("pi", 0x3c0), ("piv", 0x3d6), ("plus", 0x2b), ("plusmn", 0xb1),
    ("pound", 0xa3), ("prime", 0x2032), ("prod", 0x220f), ("prop", 0x221d), ("psi", 0x3c8),
    ("puncsp", 0x2008), ("quest", 0x3f), ("quot", 0x22), ("rArr", 0x21d2), ("radic", 0x221a),
    ("rang", 0x232a), ("raquo", 0xbb), ("rarr", 0x2192), ("rbrace", 0x7d), ("rbrack", 0x5d),
    ("rceil", 0x2309), ("rcub", 0x7d), ("rdquo", 0x201d), ("real", 0x211c), ("reg", 0xae),
    ("rfloor", 0x230b), ("rho", 0x3c1), ("rlm", 0x200f), ("rpar", 0x29), ("rsaquo", 0x203a),
    ("rsqb", 0x5d), ("rsquo", 0x2019), ("sbquo", 0x201a), ("scaron", 0x161), ("sdot", 0x22c5),
    ("sect", 0xa7), ("semi", 0x3b), ("shy", 0xad), ("sigma", 0x3c3), ("sigmaf", 0x3c2),
    ("sim", 0x223c), ("sol", 0x2f), ("spades", 0x2660), ("star", 0x2606), ("starf", 0x2605),
    ("sub", 0x2282), ("sube", 0x2286), ("sum", 0x2211), ("sup", 0x2283), ("sup1", 0xb9),
    ("sup2", 0xb2), ("sup3", 0xb3), ("supe", 0x2287), ("szlig", 0xdf), ("tau", 0x3c4),
    ("there4", 0x2234), ("theta", 0x3b8), ("thetasym", 0x3d1), ("thinsp", 0x2009), ("thorn", 0xfe),
    ("tilde", 0x2dc), ("times", 0xd7), ("trade", 0x2122), ("uArr", 0x21d1), ("uacute", 0xfa),
    ("uarr", 0x2191), ("ucirc", 0xfb), ("ugrave", 0xf9), ("uml", 0xa8), ("upsih", 0x3d2),
    ("upsilon", 0x3c5), ("uuml", 0xfc), ("verbar", 0x7c), ("vert", 0x7c), ("weierp", 0x2118),
    ("xi", 0x3be), ("yacute", 0xfd), ("yen", 0xa5), ("yuml", 0xff), ("zeta", 0x3b6),
    ("zwj", 0x200d), ("zwnj", 0x200c),
];

#[cfg(test)]
mod tests {
    use super::*;

    fn text(source: &str) -> String {
        String::from_utf8(decode(source.as_bytes(), false).into_owned()).unwrap()
    }

    #[test]
    fn table_is_sorted_and_within_bounds() {
        assert!(NAMED.is_sorted_by(|a, b| a.0.as_bytes() < b.0.as_bytes()));
        assert!(NAMED.iter().all(|(n, _)| n.len() <= NAME_BYTES_MAX));
        let legacy = NAMED
            .iter()
            .filter(|(n, c)| is_legacy(n.as_bytes(), char::from_u32(u32::from(*c)).unwrap()));
        assert!(legacy.filter(|(n, _)| *n != "NonBreakingSpace").all(|(n, _)| n.len() <= 6));
    }

    #[test]
    fn named_and_numeric() {
        assert_eq!(text("a&amp;b&lt;&eacute;&euro;"), "a&b<é€");
        assert_eq!(text("&#65;&#x42;&#67 &#150;&#0;&#xffffffff;"), "ABC –\u{fffd}\u{fffd}");
        assert_eq!(text("&nosuch; & &# &#x; &;"), "&nosuch; & &# &#x; &;");
        assert_eq!(text("&copyright &notit;"), "©right ¬it;");
        assert_eq!(text("www&period;x&commat;"), "www.x@");
        assert_eq!(text("a&it;&NegativeVeryThinSpace;b"), "a\u{2062}\u{200b}b");
    }

    #[test]
    fn attributes_keep_query_parameters() {
        assert_eq!(&*decode(b"?a=1&copy=2&amp;b&lt", true), &b"?a=1&copy=2&b<"[..]);
    }
}
