//! Which charsets belong to which locales.

use super::text::re;

/// Charsets (letters and digits only) of the locales that use others than the ones always accepted.
const CHARSETS: [(&str, &str); 14] = [
    (
        "ja",
        "EUCJP JISX020119760 JISX020819830 JISX020819900 JISX020819970 JISX021219900 \
        JISX021320001 JISX021320002 SHIFT_JIS SHIFTJIS ISO2022JP SJIS JIS7 JISX0201 JISX0208 JISX0212",
    ),
    ("ko", "EUCKR KSC56011987"),
    ("ru", CYRILLIC),
    ("ka", CYRILLIC),
    ("tg", CYRILLIC),
    ("be", CYRILLIC),
    ("uk", CYRILLIC),
    ("bg", CYRILLIC),
    ("th", "TIS620"),
    ("zh", "GB1988 GB2312 GB231219800 GB18030 GBK BIG5HKSCS BIG5 EUCTW ISO2022CN"),
    ("zh.big5", "BIG5HKSCS BIG5 EUCTW"),
    ("zh.gb2312", "GB1988 GB2312 GB231219800 GB18030 GBK ISO2022CN"),
    ("en", ""),
    ("c", ""),
];
const CYRILLIC: &str = "KOI8R KOI8U KOI8T ISOIR111 CP1251 GEORGIANPS PT154 CP866";

/// Whether text in this charset may be expected in one of the locales.
pub(super) fn charset_is_ok(charset: &[u8], locales: &[String]) -> bool {
    let name: Vec<u8> =
        charset.iter().filter(|b| b.is_ascii_alphanumeric()).map(u8::to_ascii_uppercase).collect();
    // A quoted-printable `=3D` that was never decoded.
    let name = name.strip_prefix(b"3D").unwrap_or(&name);
    let always = re!(
        r"\A(?:USASCII\z|ASCII\z|ISO8859|ISO10646|UTF|UCS|CP125|WINDOWS|IBM852\z|UNICODE11UTF[78]|XUNKNOWN\z|ISO\z)"
    );
    if always.is_match(name) {
        return true;
    }
    locales.iter().any(|locale| {
        let language = locale.get(..2).unwrap_or(locale);
        let known = CHARSETS.iter().find(|(l, _)| *l == language);
        known.is_some_and(|(_, names)| names.split(' ').any(|n| n.as_bytes() == name))
    })
}

/// Whether a charset's bytes look like capitals when taken for ASCII.
pub(super) fn charset_looks_like_caps(charset: &[u8]) -> bool {
    re!(
        r"(?i)\A[-_a-z0-9]*(?:koi|jp|jis|euc|gb|big5|isoir|cp1251|windows-1251|georgianps|pt154|tis)[-_a-z0-9]*\n?\z"
    )
    .is_match(charset)
}

/// Whether a raw header has an encoded word in such a charset.
pub(super) fn encoded_word_in_caps_charset(raw: &[u8]) -> bool {
    re!(
        r"(?i)=\?[-_a-z0-9]*(?:koi|jp|jis|euc|gb|big5|isoir|cp1251|windows-1251|georgianps|pt154|tis)[-_a-z0-9]*\?"
    )
    .is_match(raw)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn charsets_of_locales() {
        let english = ["en".to_owned()];
        let russian = ["ru_RU.UTF-8".to_owned()];
        assert!(charset_is_ok(b"utf-8", &english) && charset_is_ok(b"Windows-1251", &english));
        assert!(!charset_is_ok(b"koi8-r", &english) && charset_is_ok(b"koi8-r", &russian));
        assert!(!charset_is_ok(b"gb2312", &russian));
        assert!(charset_is_ok(b"3D\"us-ascii\"", &english));
        assert!(charset_looks_like_caps(b"iso-2022-jp") && !charset_looks_like_caps(b"utf-8"));
    }
}
