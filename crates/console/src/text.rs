//! What pages say, in the reader's language.
//!
//! A page is written with phrases: [`t`] with the English words. `text/en.toml` is the one place
//! where all of them stand; a copy of it with the right-hand sides put into another language is
//! another language, and a setting names it. Phrases are put into words when the page is done
//! ([`Texts::localize`]), so that no page needs to know its reader's language. Until then a phrase
//! stands in the page as `<t:words<t,value<t.`: every `<` of what others wrote is escaped by then,
//! so nothing but a page can write that.
//!
//! What rules, policies, other hosts and the stores say is data and stays as it is.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write;

use maud::{Escaper, Render};

/// The catalogue of the words that the program is written with.
const ENGLISH: &str = include_str!("../text/en.toml");
/// The phrase that every catalogue says as its own language tag.
pub(crate) const LANGUAGE: &str = "en";
/// Where the value of a phrase goes.
const PLACE: &str = "{}";
/// Phrases within values of phrases, and so on.
const DEPTH_MAX: u32 = 8;

/// Words for the reader, with values for the places marked `{}`.
#[derive(Debug, Clone)]
pub(crate) struct Phrase<'a> {
    english: &'a str,
    values: Vec<String>,
}

/// The phrase of these English words, which `text/en.toml` has.
pub(crate) fn t(english: &str) -> Phrase<'_> {
    Phrase { english, values: Vec::new() }
}

/// One phrase for a single thing, else the other, with the number for its place.
pub(crate) fn plural<'a>(n: u64, one: &'a str, many: &'a str) -> Phrase<'a> {
    t(if n == 1 { one } else { many }).with(crate::format::count(n))
}

/// Words that become a phrase later; so that they are found when the catalogue is checked.
pub(crate) const fn translatable(english: &'static str) -> &'static str {
    english
}

impl Phrase<'_> {
    /// With this value for the next place.
    pub(crate) fn with(mut self, value: impl Render) -> Self {
        self.values.push(value.render().into_string());
        self
    }
}

impl Render for Phrase<'_> {
    fn render_to(&self, out: &mut String) {
        out.push_str("<t:");
        // Writing to a string cannot fail.
        let _ = Escaper::new(out).write_str(self.english);
        for value in &self.values {
            out.push_str("<t,");
            out.push_str(value);
        }
        out.push_str("<t.");
    }
}

/// The words of one language.
#[derive(Debug, Clone)]
pub struct Texts {
    /// Language tag (RFC 5646), e.g. `en`.
    language: String,
    /// Words by the English ones; both escaped as HTML needs it.
    phrases: HashMap<String, String>,
}

/// Why a catalogue of translations is refused.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum CatalogueError {
    /// It is no TOML, or has other tables.
    #[error("{0}")]
    Syntax(#[from] toml::de::Error),
    /// Its language is no tag of BCP 47.
    #[error("language = {0:?} is no language tag; write en, or pt-BR")]
    Language(String),
    /// A phrase that no page has.
    #[error("no page says {0:?}; text/en.toml has what they say")]
    Unknown(String),
    /// A translation with more or fewer placeholders than its phrase.
    #[error("{english:?} and {translated:?} have not equally many places {{}}")]
    Placeholders {
        /// The English phrase that is its key.
        english: String,
        /// What the catalogue has for it.
        translated: String,
    },
}

impl Default for Texts {
    fn default() -> Self {
        Texts { language: "en".to_owned(), phrases: HashMap::new() }
    }
}

impl Texts {
    /// Reads a catalogue: TOML, `language` and a table `text` of English words and what to say
    /// instead. What is missing is said in English.
    ///
    /// # Errors
    /// Which line or phrase is wrong.
    pub fn parse(catalogue: &str) -> Result<Self, CatalogueError> {
        let known = read(ENGLISH)?.1;
        let (language, given) = read(catalogue)?;
        let is_tag = !language.is_empty()
            && language.len() <= 35
            && language.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
        if !is_tag {
            return Err(CatalogueError::Language(language));
        }
        let mut phrases = HashMap::new();
        for (english, said) in given {
            if !known.contains_key(&english) {
                return Err(CatalogueError::Unknown(english));
            }
            let places = |text: &str| text.matches(PLACE).count();
            if places(&english) != places(&said) {
                return Err(CatalogueError::Placeholders { english, translated: said });
            }
            if said != english && !said.is_empty() {
                phrases.insert(escaped(&english), escaped(&said));
            }
        }
        phrases.insert(LANGUAGE.to_owned(), language.clone());
        Ok(Texts { language, phrases })
    }

    /// Tag of the language.
    pub fn language(&self) -> &str {
        &self.language
    }

    /// Puts the phrases of a finished page into words.
    pub(crate) fn localize(&self, page: &str) -> String {
        let mut out = String::with_capacity(page.len());
        let mut rest = page;
        self.localize_until(&mut rest, &mut out, 0);
        out
    }

    /// Reads on to the end of a value or of all, and leaves what follows.
    fn localize_until(&self, rest: &mut &str, out: &mut String, depth: u32) {
        while let Some(at) = rest.find("<t") {
            let (before, mark) = rest.split_at(at);
            out.push_str(before);
            match mark.as_bytes().get(2) {
                Some(b':') if depth < DEPTH_MAX => {
                    *rest = &mark[3..];
                    self.localize_phrase(rest, out, depth);
                }
                Some(b',' | b'.') if depth > 0 => {
                    *rest = mark;
                    return;
                }
                // `<table`, `<tr`, ...
                _ => {
                    out.push_str("<t");
                    *rest = &mark[2..];
                }
            }
        }
        out.push_str(rest);
        *rest = "";
    }

    fn localize_phrase(&self, rest: &mut &str, out: &mut String, depth: u32) {
        let end = rest.find("<t").unwrap_or(rest.len());
        let (english, after) = rest.split_at(end);
        *rest = after;
        let said = self.phrases.get(english).map_or(english, String::as_str);
        let mut places = said.split(PLACE);
        out.push_str(places.next().unwrap_or_default());
        while let Some(value) = rest.strip_prefix("<t,") {
            *rest = value;
            self.localize_until(rest, out, depth + 1);
            out.push_str(places.next().unwrap_or_default());
        }
        *rest = rest.strip_prefix("<t.").unwrap_or(rest);
    }

    /// A phrase as plain text, for mail and files.
    pub(crate) fn say(&self, english: &str, values: &[&dyn std::fmt::Display]) -> String {
        let said = self.phrases.get(&escaped(english)).map(|said| unescaped(said));
        let mut places = said.as_deref().unwrap_or(english).split(PLACE);
        let mut out = places.next().unwrap_or_default().to_owned();
        for (value, after) in values.iter().zip(places) {
            let _ = write!(out, "{value}{after}");
        }
        out
    }
}

/// Language and phrases of a catalogue.
fn read(catalogue: &str) -> Result<(String, BTreeMap<String, String>), CatalogueError> {
    #[derive(serde::Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Catalogue {
        language: String,
        text: BTreeMap<String, String>,
    }
    let read: Catalogue = toml::from_str(catalogue)?;
    Ok((read.language, read.text))
}

fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let _ = Escaper::new(&mut out).write_str(text);
    out
}

fn unescaped(text: &str) -> String {
    let plain = text.replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", "\"");
    plain.replace("&amp;", "&")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;

    use gauntlet_policy::edit::{ENDS, LIST_FIELDS};
    use gauntlet_store::quarantine::State;
    use gauntlet_store::record::Outcome;
    use gauntlet_store::users::Role;
    use gauntlet_verdict::{Class, Final};
    use maud::html;

    use super::*;

    const GERMAN: &str = "language = \"de\"\n[text]\n\"Messages\" = \"Nachrichten\"\n\
                          \"{} of {}\" = \"{} von <{}>\"\n\"Back to the start\" = \"\"\n";

    #[test]
    fn phrases_are_put_into_words_and_data_is_left_alone() {
        let texts = Texts::parse(GERMAN).unwrap();
        let hostile = "<t:Messages<t.";
        let page = html! {
            table title=(t("Messages")) { (t("{} of {}").with(html! { b { (hostile) } }).with(t("Messages"))) }
            p { (t("Back to the start")) " Messages" }
        };
        assert_eq!(
            texts.localize(&page.into_string()),
            "<table title=\"Nachrichten\"><b>&lt;t:Messages&lt;t.</b> von &lt;Nachrichten&gt;</table>\
             <p>Back to the start Messages</p>"
        );
        assert_eq!(texts.say("{} of {}", &[&1, &"<2>"]), "1 von <<2>>");
        // What no page makes is still no reason to panic.
        for malformed in
            ["<t", "<t:", "<t:a<t", "<t,<t.", "<t:Messages<t,<t,<t,", "<t:a<t,b<t:c<t,"]
        {
            texts.localize(malformed);
        }
        texts.localize(&"<t:a<t,".repeat(10_000));
    }

    #[test]
    fn a_catalogue_that_says_nonsense_is_refused() {
        let why = |text: &str| Texts::parse(text).err().unwrap().to_string();
        assert!(why("language = \"de\"\n[text]\n\"Mesages\" = \"x\"\n").contains("Mesages"));
        assert!(why("language = \"de\"\n[text]\n\"{} of {}\" = \"von {}\"\n").contains("places"));
        assert!(why("language = \"<b>\"\n[text]\n").contains("language tag"));
        assert!(why("language = 1").contains("line 1"));
    }

    /// Every literal that the sources make a phrase of, and the names that become phrases.
    fn said() -> BTreeSet<String> {
        let mut found = BTreeSet::new();
        let mut folders = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("src")];
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).unwrap().flatten() {
                let path = entry.path();
                if path.is_dir() {
                    folders.push(path);
                } else if path.extension().is_some_and(|e| e == "rs") {
                    let text = std::fs::read_to_string(&path).unwrap();
                    collect(text.split("#[cfg(test)]").next().unwrap(), &mut found);
                }
            }
        }
        found.extend(names().map(crate::format::spaced));
        found
    }

    /// Names that pages show, which are code elsewhere.
    fn names() -> impl Iterator<Item = &'static str> {
        let classes = Class::ALL.map(Class::name).into_iter();
        let states = [State::Held, State::Releasing, State::Released, State::Deleted];
        let auth = [
            "unknown",
            "none",
            "pass",
            "fail",
            "softfail",
            "neutral",
            "temperror",
            "permerror",
            "policy",
        ];
        classes
            .chain(states.map(State::name))
            .chain(Role::ALL.map(Role::name))
            .chain(auth)
            .chain(Final::NAMES)
            .chain(Outcome::NAMES)
            .chain(["OK", "warning", "error", "every domain", "all else, outbound"])
            .chain([
                "made here",
                "received",
                "waited",
                "scanned",
                "decided",
                "spooled",
                "passed on",
            ])
            .chain(["notified", "not notified", "learned", "not learned"])
            .chain([
                "deferred",
                "bounced",
                "lost",
                "corrected_ham",
                "corrected_spam",
                "release_failed",
            ])
            .chain(["moved_here", "moved_away", "moving"])
            .chain(["ordered", "release", "delete", "learn"])
            .chain(LIST_FIELDS.map(|(_, label)| label))
            .chain(ENDS.map(|(name, _)| name))
    }

    /// The literals right after the functions that make phrases.
    fn collect(source: &str, found: &mut BTreeSet<String>) {
        for start in ["t(", "translatable(", "plural(", "say("] {
            for (at, _) in source.match_indices(start) {
                let before = source[..at].chars().next_back().unwrap_or(' ');
                if before.is_alphanumeric() || before == '_' {
                    continue;
                }
                let mut rest = &source[at + start.len()..];
                if start == "plural(" {
                    // The number, then two literals.
                    rest = &rest[rest.find(',').unwrap() + 1..];
                }
                while let Some((literal, after)) = literal(rest) {
                    found.insert(literal);
                    rest = after.trim_start().trim_start_matches(',');
                    if start != "plural(" {
                        break;
                    }
                }
            }
        }
    }

    /// The string literal that the text begins with, and what follows.
    fn literal(text: &str) -> Option<(String, &str)> {
        let inner = text.trim_start().strip_prefix('"')?;
        let mut out = String::new();
        let mut chars = inner.char_indices();
        while let Some((at, c)) = chars.next() {
            match c {
                '"' => return Some((out, &inner[at + 1..])),
                '\\' => match chars.next()?.1 {
                    '\n' => {
                        while chars.clone().next().is_some_and(|(_, c)| c.is_whitespace()) {
                            chars.next();
                        }
                    }
                    other => out.push(other),
                },
                c => out.push(c),
            }
        }
        None
    }

    /// To write a new catalogue after a change of texts: run this with `WRITE_TEXTS=1`.
    #[test]
    fn the_catalogue_has_what_pages_say_and_no_more() {
        let said = said();
        if std::env::var_os("WRITE_TEXTS").is_some() {
            let mut out = String::from(
                "# What the console says. To add a language: copy this file, put the right-hand sides and\n\
                 # `language` into it, and name the copy in the setting console.texts.\n\
                 # Each {} stands for a value, in this order.\nlanguage = \"en\"\n\n[text]\n",
            );
            for text in &said {
                let quoted = toml::Value::String(text.clone());
                let _ = writeln!(out, "{quoted} = {quoted}");
            }
            let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("text/en.toml");
            std::fs::write(path, out).unwrap();
            return;
        }
        let (language, known) = read(ENGLISH).unwrap();
        assert_eq!(language, "en");
        let known: BTreeSet<String> = known.into_keys().collect();
        let missing: Vec<_> = said.difference(&known).collect();
        let unused: Vec<_> = known.difference(&said).collect();
        assert!(missing.is_empty(), "not in text/en.toml: {missing:#?}");
        assert!(unused.is_empty(), "in text/en.toml, but no page says it: {unused:#?}");
    }
}
