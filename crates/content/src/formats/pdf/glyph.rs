//! Names of glyphs in the encodings of fonts (Adobe Glyph List): those of Latin text.

/// Names that are no single letter, with their characters.
const NAMES: [(&str, char); 114] = [
    ("space", ' '),
    ("exclam", '!'),
    ("quotedbl", '"'),
    ("numbersign", '#'),
    ("dollar", '$'),
    ("percent", '%'),
    ("ampersand", '&'),
    ("quotesingle", '\''),
    ("parenleft", '('),
    ("parenright", ')'),
    ("asterisk", '*'),
    ("plus", '+'),
    ("comma", ','),
    ("hyphen", '-'),
    ("period", '.'),
    ("slash", '/'),
    ("zero", '0'),
    ("one", '1'),
    ("two", '2'),
    ("three", '3'),
    ("four", '4'),
    ("five", '5'),
    ("six", '6'),
    ("seven", '7'),
    ("eight", '8'),
    ("nine", '9'),
    ("colon", ':'),
    ("semicolon", ';'),
    ("less", '<'),
    ("equal", '='),
    ("greater", '>'),
    ("question", '?'),
    ("at", '@'),
    ("bracketleft", '['),
    ("backslash", '\\'),
    ("bracketright", ']'),
    ("asciicircum", '^'),
    ("underscore", '_'),
    ("grave", '`'),
    ("braceleft", '{'),
    ("bar", '|'),
    ("braceright", '}'),
    ("asciitilde", '~'),
    ("quoteleft", '\u{2018}'),
    ("quoteright", '\u{2019}'),
    ("quotedblleft", '\u{201c}'),
    ("quotedblright", '\u{201d}'),
    ("quotedblbase", '\u{201e}'),
    ("quotesinglbase", '\u{201a}'),
    ("endash", '\u{2013}'),
    ("emdash", '\u{2014}'),
    ("bullet", '\u{2022}'),
    ("ellipsis", '\u{2026}'),
    ("Euro", '\u{20ac}'),
    ("trademark", '\u{2122}'),
    ("minus", '\u{2212}'),
    ("dagger", '\u{2020}'),
    ("guilsinglleft", '\u{2039}'),
    ("guilsinglright", '\u{203a}'),
    ("guillemotleft", '«'),
    ("guillemotright", '»'),
    ("copyright", '©'),
    ("registered", '®'),
    ("degree", '°'),
    ("section", '§'),
    ("paragraph", '¶'),
    ("sterling", '£'),
    ("yen", '¥'),
    ("cent", '¢'),
    ("germandbls", 'ß'),
    ("ae", 'æ'),
    ("AE", 'Æ'),
    ("oe", 'œ'),
    ("OE", 'Œ'),
    ("oslash", 'ø'),
    ("Oslash", 'Ø'),
    ("aring", 'å'),
    ("Aring", 'Å'),
    ("ccedilla", 'ç'),
    ("Ccedilla", 'Ç'),
    ("dotlessi", 'ı'),
    ("ff", '\u{fb00}'),
    ("fi", '\u{fb01}'),
    ("fl", '\u{fb02}'),
    ("ffi", '\u{fb03}'),
    ("ffl", '\u{fb04}'),
    ("exclamdown", '¡'),
    ("questiondown", '¿'),
    ("multiply", '×'),
    ("divide", '÷'),
    ("plusminus", '±'),
    ("mu", 'µ'),
    ("periodcentered", '·'),
    ("nbspace", '\u{a0}'),
    ("onehalf", '½'),
    ("onequarter", '¼'),
    ("threequarters", '¾'),
    ("ordfeminine", 'ª'),
    ("ordmasculine", 'º'),
    ("lslash", 'ł'),
    ("Lslash", 'Ł'),
    ("eth", 'ð'),
    ("Eth", 'Ð'),
    ("thorn", 'þ'),
    ("Thorn", 'Þ'),
    ("fraction", '\u{2044}'),
    ("sfthyphen", '-'),
    ("softhyphen", '-'),
    ("brokenbar", '¦'),
    ("logicalnot", '¬'),
    ("currency", '¤'),
    ("acute", '´'),
    ("dieresis", '¨'),
    ("cedilla", '¸'),
];

/// Accents that end a name behind a letter, with the row of their letters.
const ACCENTS: [(&str, &str, &str); 6] = [
    ("acute", "aeiouyAEIOUY", "áéíóúýÁÉÍÓÚÝ"),
    ("grave", "aeiouAEIOU", "àèìòùÀÈÌÒÙ"),
    ("circumflex", "aeiouAEIOU", "âêîôûÂÊÎÔÛ"),
    ("dieresis", "aeiouyAEIOU", "äëïöüÿÄËÏÖÜ"),
    ("tilde", "anoANO", "ãñõÃÑÕ"),
    ("caron", "cesznrCESZNR", "čěšžňřČĚŠŽŇŘ"),
];

/// The character of a glyph's name.
pub(super) fn character(name: &str) -> Option<char> {
    // A suffix names a variant: `a.sc`.
    let name =
        name.split_once('.').map_or(name, |(stem, _)| if stem.is_empty() { name } else { stem });
    let mut chars = name.chars();
    if let (Some(only), None) = (chars.next(), chars.next()) {
        return Some(only);
    }
    if let Some((_, c)) = NAMES.iter().find(|(known, _)| *known == name) {
        return Some(*c);
    }
    for (accent, plain, accented) in ACCENTS {
        if let Some(letter) = name.strip_suffix(accent).filter(|letter| letter.len() == 1)
            && let Some(at) = plain.find(letter)
        {
            return accented.chars().nth(at);
        }
    }
    let digits = name.strip_prefix("uni").or_else(|| name.strip_prefix('u'))?;
    let digits = digits.get(..4).filter(|_| name.starts_with("uni")).unwrap_or(digits);
    u32::from_str_radix(digits, 16).ok().and_then(char::from_u32)
}
