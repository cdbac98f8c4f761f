//! One form for phrases and texts.
//!
//! Letters lose their case; what separates words becomes one space. Which ASCII signs separate is
//! e2guardian's choice (everything below `/`, `: ; < = > ? @ [ \ ] ^ _` and the backtick), so that
//! its lists mean the same. Characters that nobody sees are left out: they are a way to hide a
//! word.

/// Among the bytes of a text: perhaps a word ends here. No byte of UTF-8.
pub(crate) const MARK: u8 = 0xff;

/// What a character is to a phrase.
enum Class {
    Space,
    Nothing,
    Other,
}

/// Writes characters in the one form, with one space where there are several.
#[derive(Debug, Clone)]
pub(crate) struct Folder {
    after: After,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum After {
    Word,
    Space,
    /// After a word that perhaps ended.
    MaybeSpace,
}

impl Folder {
    /// For a phrase: a space at its start stays.
    pub(crate) fn for_phrase() -> Self {
        Folder { after: After::Word }
    }

    /// For a text, which begins at the edge of a word.
    pub(crate) fn for_text(out: &mut Vec<u8>) -> Self {
        out.push(b' ');
        Folder { after: After::Space }
    }

    pub(crate) fn space(&mut self, out: &mut Vec<u8>) {
        if self.after != After::Space {
            out.push(b' ');
            self.after = After::Space;
        }
    }

    /// Before a space it makes no difference: the mark is not written before the next letter.
    pub(crate) fn maybe_space(&mut self) {
        if self.after == After::Word {
            self.after = After::MaybeSpace;
        }
    }

    #[inline]
    pub(crate) fn push(&mut self, c: char, out: &mut Vec<u8>) {
        // Most of all text, without a look at the classes.
        if c.is_ascii_alphanumeric() {
            self.begin_word(out);
            return out.push((c as u8).to_ascii_lowercase());
        }
        self.push_any(c, out);
    }

    fn push_any(&mut self, c: char, out: &mut Vec<u8>) {
        let c = narrow(c);
        match class(c) {
            Class::Space => self.space(out),
            Class::Nothing => {}
            Class::Other => {
                self.begin_word(out);
                match c.is_ascii() {
                    true => out.push((c as u8).to_ascii_lowercase()),
                    false => fold(c, out),
                }
            }
        }
    }

    fn begin_word(&mut self, out: &mut Vec<u8>) {
        if self.after == After::MaybeSpace {
            out.push(MARK);
        }
        self.after = After::Word;
    }
}

/// Letters of the width of ideographs are the letters of ASCII.
fn narrow(c: char) -> char {
    match c {
        '\u{ff01}'..='\u{ff5e}' => char::from_u32(c as u32 - 0xfee0).unwrap_or(c),
        c => c,
    }
}

/// Lower, upper and again lower case: what differs in case alone becomes equal, also where letters
/// have several forms (`ß`, `ẞ` and `SS`, both forms of the Greek sigma).
fn fold(c: char, out: &mut Vec<u8>) {
    let upper = c.to_lowercase().flat_map(char::to_uppercase);
    for lower in upper.flat_map(char::to_lowercase) {
        out.extend_from_slice(lower.encode_utf8(&mut [0; 4]).as_bytes());
    }
}

fn class(c: char) -> Class {
    match c {
        // Browsers leave it out of what they show.
        '\0' => Class::Nothing,
        '\x01'..'/' | ':'..='@' | '['..='`' => Class::Space,
        '/'..='\x7e' => Class::Other,
        '\x7f' => Class::Space,
        '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{180b}'..='\u{180e}' => Class::Nothing,
        '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' => Class::Nothing,
        '\u{2060}'..='\u{206f}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' => Class::Nothing,
        '\u{e0000}'..='\u{e0fff}' => Class::Nothing,
        // Letters of the block Latin-1.
        '\u{aa}' | '\u{b5}' | '\u{ba}' => Class::Other,
        '\u{80}'..='\u{bf}' | '\u{2010}'..='\u{205e}' => Class::Space,
        '\u{3000}'..='\u{3003}' | '\u{3008}'..='\u{3020}' => Class::Space,
        c if c.is_whitespace() => Class::Space,
        _ => Class::Other,
    }
}

/// A phrase in the one form, with at most one space at either end.
pub(crate) fn phrase(text: &str) -> String {
    let mut out = Vec::with_capacity(text.len());
    let mut folder = Folder::for_phrase();
    text.chars().for_each(|c| folder.push(c, &mut out));
    // Only whole characters were written.
    String::from_utf8(out).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn case_space_and_what_is_not_seen() {
        for (text, folded) in [
            (" Bet ", " bet "),
            ("a\t\r\n b", "a b"),
            ("?q=naked+Women&", " q naked women "),
            ("STRASSE straße", "strasse strasse"),
            ("ΣΊΣΥΦΟΣ σίσυφος", "σίσυφοσ σίσυφοσ"),
            ("ЁЖ ёж", "ёж ёж"),
            ("b\u{200b}e\u{ad}t\u{feff}", "bet"),
            ("Ｂｅｔ\u{3000}x", "bet x"),
            ("don’t a–b \u{a0}«c»", "don t a b c "),
            ("a/b {c}", "a/b {c}"),
            ("", ""),
        ] {
            assert_eq!(phrase(text), folded, "{text:?}");
        }
    }

    #[test]
    fn folding_again_changes_nothing() {
        for c in (0..=0x10ffff).filter_map(char::from_u32) {
            let once = phrase(&c.to_string());
            assert_eq!(phrase(&once), once, "{c:?}");
        }
    }
}
