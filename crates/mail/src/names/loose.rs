//! Readings of a name by programs that are more tolerant, or more careless, than the standards.

use memchr::memmem;

use crate::charset;
use crate::encoding;

/// How often encoded words inside encoded words are decoded.
const WORD_ROUNDS_MAX: usize = 3;

/// Characters that no file name of Windows has: programs drop them, or end the name there.
pub(super) const FORBIDDEN: [char; 6] = ['<', '>', '"', '|', '?', '*'];

/// Decodes whatever looks like an encoded word (RFC 2047), also without its end, with blanks in it,
/// with another letter for the encoding, and a word inside a word. None where there is no such
/// thing.
pub(super) fn words(name: &str) -> Option<String> {
    let mut text = words_once(name)?;
    for _ in 1..WORD_ROUNDS_MAX {
        let Some(next) = words_once(&text) else { break };
        text = next;
    }
    Some(text)
}

fn words_once(name: &str) -> Option<String> {
    let mut rest = name;
    let mut out = String::new();
    let mut found = false;
    while let Some((before, after)) = rest.split_once("=?") {
        let Some((text, end)) = word(after) else {
            out.push_str(before);
            out.push_str("=?");
            rest = after;
            continue;
        };
        // White space between two words is not part of the text.
        out.push_str(if found { before.trim() } else { before });
        out.push_str(&text);
        found = true;
        rest = end;
    }
    out.push_str(rest);
    found.then_some(out)
}

/// The text of `charset?encoding?text?=`, and what follows the word.
fn word(rest: &str) -> Option<(String, &str)> {
    let (label, rest) = rest.split_once('?')?;
    let (kind, rest) = rest.split_once('?')?;
    if label.len() > 64 || kind.trim().len() != 1 {
        return None;
    }
    let (text, end) = match rest.split_once("?=") {
        Some(found) => found,
        None => (rest.split('?').next().unwrap_or_default(), ""),
    };
    let is_base64 = |b: u8| b.is_ascii_alphanumeric() || b"+/= ".contains(&b);
    let bytes = match kind.trim() {
        "q" | "Q" => encoding::q_word(text.as_bytes()),
        "b" | "B" => encoding::base64(text.as_bytes()).bytes.into_owned(),
        _ if text.bytes().all(is_base64) => encoding::base64(text.as_bytes()).bytes.into_owned(),
        _ => encoding::q_word(text.as_bytes()),
    };
    let label = label.split('*').next().unwrap_or_default().trim();
    let label = Some(label.as_bytes()).filter(|label| !label.is_empty());
    Some((charset::decode(&bytes, label).text.into_owned(), end))
}

/// Decodes character references as HTML has them, of which names that came through a web form or
/// are shown by one may consist: numeric ones, and those of the signs that matter in a name. None
/// where there is none.
pub(super) fn references(name: &str) -> Option<String> {
    let mut out = String::new();
    let mut rest = name;
    let mut found = false;
    while let Some((before, after)) = rest.split_once('&') {
        out.push_str(before);
        match reference(after) {
            Some((c, length)) => {
                out.push(c);
                found = true;
                rest = &after[length..];
            }
            None => {
                out.push('&');
                rest = after;
            }
        }
    }
    out.push_str(rest);
    found.then_some(out)
}

/// The character that `#101;` stands for, and the length of the reference.
fn reference(text: &str) -> Option<(char, usize)> {
    if let Some(digits) = text.strip_prefix('#') {
        let (digits, base, start) = match digits.strip_prefix(['x', 'X']) {
            Some(digits) => (digits, 16, 2),
            None => (digits, 10, 1),
        };
        let end = digits.find(|c: char| !c.is_digit(base)).unwrap_or(digits.len());
        let digits = digits.get(..end)?;
        let c = char::from_u32(u32::from_str_radix(digits, base).ok()?)?;
        let length = start + digits.len();
        return Some((c, length + usize::from(text[length..].starts_with(';'))));
    }
    const NAMED: [(&str, char); 9] = [
        ("period;", '.'),
        ("sol;", '/'),
        ("bsol;", '\\'),
        ("colon;", ':'),
        ("nbsp;", ' '),
        ("quot;", '"'),
        ("Tab;", '\t'),
        ("NewLine;", '\n'),
        ("shy;", '\u{ad}'),
    ];
    let (name, c) = NAMED.iter().find(|(name, _)| text.starts_with(name))?;
    Some((*c, name.len()))
}

/// The extension as programs write it that have no Unicode: in letters of ASCII, where the standard
/// (NFKC) or the tables of Windows (`bestfit1252.txt`) have such a letter. None where it is ASCII
/// already. Letters of other scripts that only look alike are not among them: see decision 157.
pub(super) fn plain_extension(name: &str) -> Option<String> {
    let (before, extension) = name.rsplit_once('.')?;
    if extension.is_ascii() || extension.chars().count() > 16 {
        return None;
    }
    let mapped = idna::domain_to_unicode(extension).0;
    let plain: String = mapped.chars().map(without_mark).collect();
    (plain != extension).then(|| format!("{before}.{plain}"))
}

/// The letter of ASCII below a letter with a mark.
fn without_mark(c: char) -> char {
    const LETTERS: [(char, &str); 25] = [
        ('a', "àáâãäåāăąǎǟǡǻȁȃạảấầ"),
        ('b', "ƀɓḃ"),
        ('c', "çćĉċčƈ"),
        ('d', "ďđɖɗḍḋ"),
        ('e', "èéêëēĕėęěǝəɛȅȇẹẻẽếềể"),
        ('f', "ƒḟ"),
        ('g', "ĝğġģǥǧǵ"),
        ('h', "ĥħḥ"),
        ('i', "ìíîïĩīĭįıǐȉȋỉị"),
        ('j', "ĵǰ"),
        ('k', "ķǩƙ"),
        ('l', "ĺļľŀłƚḷ"),
        ('m', "ṁṃ"),
        ('n', "ñńņňŉṅṇ"),
        ('o', "òóôõöøōŏőơǒǫǭȍȏọỏ"),
        ('p', "ƥṕṗ"),
        ('r', "ŕŗřȑȓṛ"),
        ('s', "śŝşšșſṡṣ"),
        ('t', "ţťŧțƫṫṭ"),
        ('u', "ùúûüũūŭůűųưǔǖǘǚǜȕȗụủ"),
        ('v', "ṽṿ"),
        ('w', "ŵẁẃẅ"),
        ('x', "×ẋẍ"),
        ('y', "ýÿŷỳỹ"),
        ('z', "źżžƶẓ"),
    ];
    let letter = LETTERS.iter().find(|(_, marked)| marked.contains(c));
    letter.map_or(c, |(letter, _)| *letter)
}

/// The name without a number or note behind its extension: `a.exe[1]` and `a.exe (1)`, by which
/// programs distinguish copies. None where there is none.
pub(super) fn without_copy_number(name: &str) -> Option<&str> {
    let end = if name.ends_with(']') { '[' } else { '(' };
    let name = name.strip_suffix([']', ')'])?;
    name.rsplit_once(end).map(|(before, _)| before)
}

/// Whether there may be something of an encoded word or a reference in the name.
pub(super) fn is_encoded(name: &str) -> bool {
    name.contains('&') || memmem::find(name.as_bytes(), b"=?").is_some()
}
