//! What the trained classifier says.
//!
//! | Rule | Points | Says |
//! |---|---|---|
//! | `CLASSIFIER_SPAM` | 0 | the classifier leans to spam; the evidence names the features that pushed |
//! | `CLASSIFIER_HAM` | 0 | the classifier leans to ham |
//!
//! No points: the log odds go into the probability (`fusion`), beside the rules. The evidence of
//! each gives the features that moved the log odds most, with how far.
//!
//! About a message without a single byte to read it says nothing: there is no probability then.
//! Where there is neither a subject nor text, link or attachment, only the header's form counts,
//! and the model has hardly seen that alone: its log odds are bounded by 2 either way.
//!
//! Mail that its author's domain has signed is today's, and of today's good mail the model has seen
//! little: it takes the form of the age for a mark of spam. Its log odds are bounded by 3.75 there,
//! and by 3 if the sender also offers to unsubscribe by a List-Unsubscribe field: suspect at most,
//! unless rules agree (1.7 and 4 points make spam of it), signatures do, or the site has learned
//! so. The bound holds for a signature that was verified, or that was not verified at all.

use std::sync::Arc;

use gauntlet_mail::facts::{AuthResult, DkimSignature};
use gauntlet_mail::{Evidence, Facts, Header, Message, View};

use crate::classifier::Model;
use crate::filter::{Filter, Findings, Item};
use crate::lookalike;
use crate::rule_registry::{Rule, RuleEffect, RuleRegistry};
use crate::scratch::Scratch;

/// Bound of the log odds of a message without words, either way: alone it makes nothing suspect.
const WORDLESS_LOG_ODDS_MAX: f64 = 2.0;
/// Bound of the log odds towards spam of mail that its author's domain has signed.
const SIGNED_LOG_ODDS_MAX: f64 = 3.75;
/// The same, if the mail also offers to unsubscribe.
const UNSUBSCRIBE_LOG_ODDS_MAX: f64 = 3.0;
/// Most DKIM-Signature fields that are looked at.
const SIGNATURES_MAX: usize = 8;

/// Asks the model, and what the site has learned on top of it.
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
        let site = &item.learned.site;
        let learned = site.as_ref().map_or(0.0, |site| site.logit(scratch));
        let said = self.model.logit(scratch);
        let bounded = bound(item, said);
        let logit = bounded + learned;
        findings.classifier = Some((logit * 1e6).round() / 1e6);
        let rule = if logit > 0.0 { &self.spam } else { &self.ham };
        if learned != 0.0 {
            findings.add(rule, feature("site", &format!("what this site taught ({learned:+.2})")));
        }
        if bounded < said {
            let why = format!("bounded by what kind of mail it is ({:+.2})", bounded - said);
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

/// The model's log odds within the bounds of the kind of mail.
fn bound(item: &Item<'_>, said: f64) -> f64 {
    let message = item.message;
    if is_wordless(message) {
        return said.clamp(-WORDLESS_LOG_ODDS_MAX, WORDLESS_LOG_ODDS_MAX);
    }
    if said <= UNSUBSCRIBE_LOG_ODDS_MAX || !is_signed_by_author(message, item.facts) {
        return said;
    }
    // A discussion list adds such a field whoever the author is.
    let unsubscribes =
        message.header("list-unsubscribe").is_some() && message.header("list-post").is_none();
    said.min(if unsubscribes { UNSUBSCRIBE_LOG_ODDS_MAX } else { SIGNED_LOG_ODDS_MAX })
}

/// Whether a DKIM signature is of the From address's organizational_domain: a verified one if any
/// was tried.
fn is_signed_by_author(message: &Message<'_>, facts: &Facts) -> bool {
    let Some(from) = message.from() else { return false };
    let address = from.address.to_lowercase();
    let Some((_, domain)) = address.rsplit_once('@') else { return false };
    let Some(author) = lookalike::organizational_domain(domain) else { return false };
    let is_authors = |signer: &str| {
        lookalike::organizational_domain(&signer.trim().to_lowercase()).is_some_and(|o| o == author)
    };
    if !facts.dkim.is_empty() {
        let passed = |s: &&DkimSignature| s.result == AuthResult::Pass;
        return facts.dkim.iter().filter(passed).any(|s| is_authors(&s.domain));
    }
    let fields = message.headers().iter().filter(|h| h.is("dkim-signature"));
    fields.take(SIGNATURES_MAX).any(|field| signer(field).is_some_and(|d| is_authors(&d)))
}

/// The domain that a DKIM-Signature field names (`d=`, RFC 6376 section 3.5).
fn signer(field: &Header<'_>) -> Option<String> {
    let value = field.unfolded();
    let value = String::from_utf8_lossy(&value);
    let mut tags = value.split(';').filter_map(|tag| tag.split_once('='));
    tags.find(|(name, _)| name.trim() == "d").map(|(_, domain)| domain.trim().to_owned())
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
    use crate::learned::Learned;
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
        // A subject is words enough.
        assert!(find("Subject: cheap viagra online, buy now\n\n").unwrap() > 2.0);
    }

    const SHOUTING: &str = "Subject: CHEAP viagra and cialis online, buy now\n\nBuy cheap viagra and cialis \
        online, no prescription. http://pills.example.net/\n";

    /// Log odds of an unwanted message with these fields and facts.
    fn odds(fields: &str, facts: &Facts) -> f64 {
        let filter = Classifier::new(&mut RuleRegistry::default(), Model::shipped());
        let raw = format!("From: \"Pills 4U\" <x83@mail.example.com>\n{fields}{SHOUTING}");
        let message = Message::parse(raw.as_bytes());
        let (envelope, learned) = (Envelope::default(), Learned::default());
        let item = Item { message: &message, envelope: &envelope, facts, learned: &learned };
        let mut findings = Findings::default();
        filter.run(&item, &mut Scratch::default(), &mut findings);
        findings.classifier.unwrap()
    }

    #[test]
    fn mail_signed_by_its_author_is_judged_with_reserve() {
        let own = "DKIM-Signature: v=1; a=rsa-sha256; d=example.com;\n s=x; b=AAAA\n";
        let other = own.replace("example.com", "example.org");
        let unsubscribe = format!("{own}List-Unsubscribe: <https://example.com/u>\n");
        let list = format!("{unsubscribe}List-Post: <mailto:l@example.com>\n");
        let unknown = Facts::default();
        assert!(odds("", &unknown) > SIGNED_LOG_ODDS_MAX);
        assert!(odds(&other, &unknown) > SIGNED_LOG_ODDS_MAX);
        assert_eq!(odds(own, &unknown), SIGNED_LOG_ODDS_MAX);
        assert_eq!(odds(&unsubscribe, &unknown), UNSUBSCRIBE_LOG_ODDS_MAX);
        assert_eq!(odds(&list, &unknown), SIGNED_LOG_ODDS_MAX);
        for (result, domain, holds) in [
            (AuthResult::Pass, "news.example.com", true),
            (AuthResult::Pass, "example.org", false),
            (AuthResult::Fail, "example.com", false),
            (AuthResult::TempError, "example.com", false),
        ] {
            let (domain, selector) = (domain.to_owned(), String::new());
            let signature =
                DkimSignature { domain, selector, result, key_bits: 2048, partial_body: false };
            let facts = Facts { dkim: vec![signature], ..Facts::default() };
            let is_bounded = odds(own, &facts) <= SIGNED_LOG_ODDS_MAX;
            assert_eq!(is_bounded, holds, "{result:?} of {:?}", facts.dkim);
        }
    }
}
