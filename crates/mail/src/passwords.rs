//! Words of a message that may be the password of a file in it: senders of malware encrypt an
//! archive and write the password beside it, where a scanner does not look.

use std::collections::HashSet;

use crate::message::Message;

/// Bytes of text that are searched.
const TEXT_BYTES_MAX: usize = 64 * 1024;
/// Characters of a word that may be a password.
const WORD_CHARS: std::ops::RangeInclusive<usize> = 1..=64;
/// Words behind one that announces a password.
const BEHIND_MAX: usize = 4;

/// Words that announce a password, in the languages of the mail that carries such files.
const ANNOUNCING: [&str; 24] = [
    "password",
    "passwort",
    "kennwort",
    "passcode",
    "passwd",
    "pass",
    "pwd",
    "pw",
    "code",
    "pin",
    "key",
    "contraseña",
    "clave",
    "senha",
    "wachtwoord",
    "hasło",
    "haslo",
    "пароль",
    "密码",
    "密碼",
    "パスワード",
    "parola",
    "passe",
    "geslo",
];

/// Candidates in the order in which they are tried: what an announcing word precedes, words of file
/// names, words of the subject and the text that look like passwords; each with where it comes from
/// (`body`, `subject`, `file name`). At most `max`, each once.
pub fn candidates(message: &Message<'_>, max: usize) -> Vec<(String, &'static str)> {
    let mut found = Candidates { seen: HashSet::new(), all: Vec::new(), max };
    let subject = message.subject();
    found.announced(&subject, "subject");
    let mut room = TEXT_BYTES_MAX;
    let texts: Vec<&str> = message
        .texts()
        .map(|t| {
            let text = head(t.text, room);
            room -= text.len();
            text
        })
        .collect();
    for text in &texts {
        found.announced(text, "body");
    }
    for file in message.files() {
        let stem = file.name.rsplit_once('.').map_or(&*file.name, |(stem, _)| stem);
        found.add(stem, "file name");
        stem.split(['_', '-', ' ', '.', '(', ')']).for_each(|word| found.add(word, "file name"));
    }
    let with_digit = |word: &&str| word.chars().any(|c| c.is_ascii_digit());
    for (text, source) in
        [(&*subject, "subject")].into_iter().chain(texts.iter().map(|t| (*t, "body")))
    {
        words(text).filter(with_digit).for_each(|word| found.add(word, source));
    }
    for (text, source) in
        [(&*subject, "subject")].into_iter().chain(texts.iter().map(|t| (*t, "body")))
    {
        words(text).for_each(|word| found.add(word, source));
    }
    found.all
}

struct Candidates {
    seen: HashSet<String>,
    all: Vec<(String, &'static str)>,
    max: usize,
}

impl Candidates {
    fn add(&mut self, word: &str, source: &'static str) {
        let is_word = WORD_CHARS.contains(&word.chars().count());
        if self.all.len() < self.max && is_word && self.seen.insert(word.to_owned()) {
            self.all.push((word.to_owned(), source));
        }
    }

    /// The words behind those that announce a password, as they stand and without the marks of a
    /// sentence around them.
    fn announced(&mut self, text: &str, source: &'static str) {
        let mut left = 0;
        for word in text.split_whitespace() {
            let lower = word.to_lowercase();
            if left > 0 {
                self.add(trimmed(word), source);
                self.add(word, source);
                left -= 1;
            }
            let announces = ANNOUNCING
                .iter()
                .find(|a| lower.trim_start_matches(['(', '"', '*']).starts_with(*a));
            if let Some(announcing) = announces {
                left = BEHIND_MAX;
                // "password:1234" is one word.
                let behind = word
                    .char_indices()
                    .nth(announcing.chars().count())
                    .map_or("", |(i, _)| &word[i..]);
                let behind = behind.trim_start_matches([':', '=', '-']);
                if behind.len() < word.len() && !behind.is_empty() {
                    self.add(trimmed(behind), source);
                    self.add(behind, source);
                }
            }
        }
    }
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split_whitespace().map(trimmed).filter(|word| word.len() >= 3)
}

/// Without quotation marks, brackets and the end of a sentence.
fn trimmed(word: &str) -> &str {
    let marks = |c: char| {
        matches!(
            c,
            '"' | '\''
                | '('
                | ')'
                | '['
                | ']'
                | '<'
                | '>'
                | '*'
                | ','
                | ';'
                | ':'
                | '“'
                | '”'
                | '„'
                | '«'
                | '»'
                | '`'
        )
    };
    word.trim_matches(marks).trim_end_matches(['.', '!', '?']).trim_matches(marks)
}

fn head(text: &str, max: usize) -> &str {
    let end = (0..=max.min(text.len())).rev().find(|&end| text.is_char_boundary(end)).unwrap_or(0);
    &text[..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(raw: &str) -> Vec<String> {
        candidates(&Message::parse(raw.as_bytes()), 50).into_iter().map(|(word, _)| word).collect()
    }

    #[test]
    fn announced_words_come_first() {
        let found = of(
            "Subject: invoice 771\n\nDear client, see the archive.\nThe password is: Xy!9_k.\nBye\n",
        );
        assert_eq!(found[..2], ["is", "is:"]);
        assert!(found[..8].contains(&"Xy!9_k".to_owned()), "{found:?}");
        assert!(found.contains(&"771".to_owned()));
        assert!(of("Subject: x\n\nPasswort:geheim7\n")[0] == "geheim7");
        assert!(of("Subject: x\n\nпароль — 1234\n").contains(&"1234".to_owned()));
    }

    #[test]
    fn few_and_short() {
        let long = "a1 ".repeat(100_000) + &"b".repeat(5_000);
        assert!(of(&format!("Subject: x\n\n{long}\n")).len() <= 50);
        assert!(of("").is_empty());
    }
}
