//! What the trained classifier says.
//!
//! | Rule | Points | Says |
//! |---|---|---|
//! | `CLASSIFIER_SPAM` | 0 | the classifier leans to spam; the evidence names the features |
//! | `CLASSIFIER_HAM` | 0 | the classifier leans to ham |
//!
//! No points: the log odds go into the probability (`fusion`), beside the rules. The evidence of
//! each gives the features that moved the log odds most, with how far.
//!
//! About a message without a single byte to read it says nothing: there is no probability then.
//! **Little evidence makes nothing suspect.** Where there is neither a subject nor text, link or
//! attachment, only the header's form counts, and the model has hardly seen that alone: its log
//! odds are bounded by 2 either way. A plain text may have 0.5 and a quarter for each of its words,
//! 1.5 more if it has a link. Good mail in other languages than English is hardly known to the
//! model: where the text has none of that, its log odds are at most 3.0. Where the words of a plain
//! text speak for it, what is left is that it is one, that nobody here knows the sender, and that a
//! link leads elsewhere; good and unwanted mail have that in common, so it makes nothing suspect
//! by itself (`docs/decisions/228-words-of-plain-mail.md`).

use std::sync::Arc;

use gauntlet_mail::{Evidence, Message, Part, View};

use crate::classifier::{ClassifierScratch, Model};
use crate::filter::{Filter, Findings, Item};
use crate::rule_registry::{Rule, RuleEffect, RuleRegistry};
use crate::scratch::Scratch;

/// Bound of the log odds of a message without words, either way: alone it makes nothing suspect.
const WORDLESS_LOG_ODDS_MAX: f64 = 2.0;

/// Most log odds of a text in a language that the model has not learned: below what is suspect.
const UNREAD_LOG_ODDS_MAX: f64 = 3.0;

/// Most log odds of a plain text whose words speak for it: just below what is suspect, so that
/// rules decide.
const GOOD_WORDS_LOG_ODDS_MAX: f64 = 3.4;
/// Share of the text in the model's log odds up to which its words speak for a message.
const GOOD_WORDS_SHARE: f32 = -0.2;
/// Words of a text that says so little that no share below 0 can be asked of it.
const SHORT_WORDS: usize = 80;

/// The filter that runs the trained model over the words and features of a message.
#[derive(Debug)]
pub struct Classifier {
    model: Arc<Model>,
    spam: Rule,
    ham: Rule,
}

impl Classifier {
    /// The filter with its rules.
    pub fn new(registry: &mut RuleRegistry, model: Arc<Model>) -> Self {
        let mut rule =
            |name, description| registry.rule(name, 0.0, description, RuleEffect::Points);
        Classifier {
            model,
            spam: rule("CLASSIFIER_SPAM", "Classifier: spam"),
            ham: rule("CLASSIFIER_HAM", "Classifier: ham"),
        }
    }
}

impl Filter for Classifier {
    fn name(&self) -> &'static str {
        "classifier"
    }

    fn run(&self, item: &Item<'_>, scratch: &mut Scratch, findings: &mut Findings) {
        if item.message.is_blank() {
            return;
        }
        let scratch = &mut scratch.classifier;
        scratch.read_once(item.message);
        let said = self.model.logit(scratch);
        let logit = self.bound(item.message, scratch, said);
        findings.classifier = Some((logit * 1e6).round() / 1e6);
        let rule = if logit > 0.0 { &self.spam } else { &self.ham };
        if logit < said {
            let why = format!("bounded by what kind of mail it is ({:+.2})", logit - said);
            findings.add(rule, feature("classifier", &why));
        }
        for push in self.model.explain(scratch, logit > 0.0) {
            let text = format!("{} ({:+.2})", push.feature, push.weight);
            findings.add(rule, feature("classifier", &text));
        }
    }

    fn data_version(&self) -> String {
        self.model.version().to_owned()
    }
}

/// Most log odds of a plain text: of none, for each of its words, and for its links.
const PLAIN_LOG_ODDS: f64 = 0.5;
const WORD_LOG_ODDS: f64 = 0.25;
const LINK_LOG_ODDS: f64 = 1.5;

impl Classifier {
    /// The model's log odds within the bounds of the kind of mail.
    fn bound(&self, message: &Message<'_>, scratch: &ClassifierScratch, said: f64) -> f64 {
        if is_wordless(message) {
            return said.clamp(-WORDLESS_LOG_ODDS_MAX, WORDLESS_LOG_ODDS_MAX);
        }
        // Read once more only where it matters.
        let beyond = said > UNREAD_LOG_ODDS_MAX;
        let is_unread = beyond && scratch.is_unread(has_other_letters(message));
        let said = if is_unread { UNREAD_LOG_ODDS_MAX } else { said };
        // Pages, pictures and files say more than their words.
        let is_plain = |p: &Part<'_>| !p.is_attachment() && p.content_type.is("text", "plain");
        if !message.parts().iter().all(is_plain) {
            return said;
        }
        let (links, words) = (message.urls().len(), scratch.sequence().len());
        let of_links = if links == 0 { 0.0 } else { LINK_LOG_ODDS };
        let said = said.min(PLAIN_LOG_ODDS + of_links + WORD_LOG_ODDS * words as f64);
        if said <= GOOD_WORDS_LOG_ODDS_MAX {
            return said;
        }
        let is_short = links <= 1 && words <= SHORT_WORDS;
        let most = if is_short { 0.0 } else { GOOD_WORDS_SHARE };
        let speak_for_it = self.model.text_share(scratch) <= most;
        if speak_for_it { GOOD_WORDS_LOG_ODDS_MAX } else { said }
    }
}

/// Bytes of a text by which it is decided whether it has letters of other languages.
const LETTERS_READ: usize = 2_000;

/// Whether one byte in 25 of the text stands for other letters than those of ASCII.
fn has_other_letters(message: &Message<'_>) -> bool {
    let (mut other, mut all) = (0, 0);
    for part in message.texts() {
        let head = part.text.as_bytes();
        let head = head.get(..LETTERS_READ).unwrap_or(head);
        other += head.iter().filter(|byte| !byte.is_ascii()).count();
        all += head.len();
    }
    other * 25 > all
}

/// Neither a subject nor text, link, picture or attachment.
fn is_wordless(message: &Message<'_>) -> bool {
    let shown = |kind: &str| !matches!(kind, "text" | "multipart");
    message.subject().trim().is_empty()
        && !message.texts().any(|t| !t.text.trim().is_empty())
        && !message.parts().iter().any(|p| p.is_attachment() || shown(&p.content_type.kind))
        && message.urls().is_empty()
}

fn feature(name: &str, text: &str) -> Evidence {
    Evidence::new(View::Feature, 0, 0, text.as_bytes()).named(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use gauntlet_mail::Envelope;

    #[test]
    fn gives_log_odds_and_says_why_without_points() {
        let filter = Classifier::new(&mut RuleRegistry::default(), Model::shipped());
        let raw = "From: \"Pills 4U\" <x83@cheap.example.net>\nSubject: CHEAP viagra online\n\n\
            Buy cheap viagra and cialis online, no prescription. http://pills.example.net/\n";
        let found = crate::filters::testing::find(&filter, raw, &Envelope::default());
        assert!(found.classifier.unwrap() > 0.0);
        let hit = &found.hits[0];
        assert_eq!((&*hit.rule, hit.score), ("CLASSIFIER_SPAM", 0.0));
        assert!(hit.evidence.iter().all(|e| e.view == View::Feature && !e.text.is_empty()));
        let raw = "From: Ann <ann@example.org>\nSubject: Re: minutes of the meeting\n\
            In-Reply-To: <1@example.org>\nReferences: <1@example.org>\n\n\
            > could you look at the patch?\n\nYes, it works here. Thanks, Ann\n";
        let found = crate::filters::testing::find(&filter, raw, &Envelope::default());
        assert!(found.classifier.unwrap() < 0.0, "{found:?}");
    }

    #[test]
    fn says_nothing_about_nothing_and_little_without_words() {
        let filter = Classifier::new(&mut RuleRegistry::default(), Model::shipped());
        let find = |raw: &str| {
            crate::filters::testing::find(&filter, raw, &Envelope::default()).classifier
        };
        for blank in ["", "\n", "\r\n\r\n", " \t\n\n"] {
            assert_eq!(find(blank), None, "{blank:?}");
        }
        for wordless in ["X: y\n\n", "Received: from x\n\n \n", "From: a@b.example\nSubject:\n\n"] {
            let odds = find(wordless).unwrap();
            assert!(odds.abs() <= WORDLESS_LOG_ODDS_MAX, "{wordless:?}: {odds}");
        }
    }

    #[test]
    fn a_short_plain_text_or_one_that_it_cannot_read_is_not_suspect_by_itself() {
        let filter = Classifier::new(&mut RuleRegistry::default(), Model::shipped());
        let find = |body: &str| {
            let raw =
                format!("From: \"Pills 4U\" <x83@cheap.icu>\nSubject: CHEAP viagra\n\n{body}\n");
            crate::filters::testing::find(&filter, &raw, &Envelope::default()).classifier.unwrap()
        };
        assert!(find("viagra") <= 0.75);
        assert!(find("see http://pills.icu/") <= 2.25, "a link more");
        let pitch =
            "Buy the cheapest viagra and cialis online with your card, no prescription needed. ";
        assert!(find(&pitch.repeat(3)) > 2.0, "words enough");
        let unread = "Kaufen Sie die besten Uhren und Pillen zum halben Preis, nur diese Woche. ";
        assert!(find(&unread.repeat(3)) <= UNREAD_LOG_ODDS_MAX);
    }

    #[test]
    fn a_plain_text_whose_words_speak_for_it_is_not_suspect_by_what_surrounds_them() {
        let model = Model::shipped();
        let filter = Classifier::new(&mut RuleRegistry::default(), Arc::clone(&model));
        let judged = |body: &str| {
            let raw = format!(
                "From: \"Martin\" <martin83@offers.icu>\nSubject: hi\n\
                 X-Mailer: Microsoft Outlook Express 6.00.2600.0000\nX-Priority: 3\n\
                 X-MimeOLE: Produced By Microsoft MimeOLE V6.00.2600.0000\nMIME-Version: 1.0\n\
                 Content-Type: text/plain; charset=\"Windows-1252\"\n\n{body}\n"
            );
            let mut scratch = ClassifierScratch::default();
            scratch.read(&Message::parse(raw.as_bytes()));
            let found = crate::filters::testing::find(&filter, &raw, &Envelope::default());
            (model.logit(&scratch), found.classifier.unwrap())
        };
        let link = "http://pills.icu/?cheap";
        for good in [
            format!(
                "Hi Anna,\n\nthanks for the list of changes. I have looked at the patch and it \
                 works here, but could you add a test for the case that the file is empty? The \
                 other comments are in the document, see\n\n{link}\n\nSee you on Monday,\nMartin"
            ),
            format!("Hi Anna,\n\nthe notes of our meeting on Monday:\n\n{link}\n\nThanks, Martin"),
        ] {
            let (said, bounded) = judged(&good);
            assert!(said > GOOD_WORDS_LOG_ODDS_MAX, "{said}");
            assert_eq!(bounded, GOOD_WORDS_LOG_ODDS_MAX, "{good}");
        }
        let pitch = "Buy the cheapest viagra and cialis online, no prescription needed. ".repeat(3);
        assert!(judged(&format!("{pitch}{link}")).1 > GOOD_WORDS_LOG_ODDS_MAX);
    }
}
