//! Bulk mail that declares itself: newsletters and notices, which the recipient may want.
//!
//! | Rule | Points | Says |
//! |---|---|---|
//! | `BULK_UNSUBSCRIBE` | 0 bulk | a List-Unsubscribe field, and no way to post to a list |
//! | `BULK_PRECEDENCE` | 0 bulk | `Precedence: bulk` or `junk`, and no way to post to a list |
//! | `BULK_FEEDBACK` | 0 bulk | a CSA-Complaints field of a certified bulk mailing service |
//!
//! A Feedback-ID says nothing: services put one into codes, resets and receipts as well. They give
//! no points: a message with a low score is class bulk then, instead of ham. Lists that
//! people write to (List-Post), and answers (In-Reply-To), are personal mail and no bulk
//! mail.

use gauntlet_mail::Header;

use crate::filter::{Filter, Findings, Item};
use crate::filters::header_form::field_evidence;
use crate::rule_registry::{Rule, RuleEffect, RuleRegistry};
use crate::scratch::Scratch;

/// The filter that recognises bulk mail by its header fields.
#[derive(Debug)]
pub struct Bulk {
    unsubscribe: Rule,
    precedence: Rule,
    feedback: Rule,
}

impl Bulk {
    /// The filter with its rules.
    pub fn new(registry: &mut RuleRegistry) -> Self {
        let mut rule = |name, description| registry.rule(name, 0.0, description, RuleEffect::Bulk);
        Bulk {
            unsubscribe: rule("BULK_UNSUBSCRIBE", "Bulk mail with List-Unsubscribe"),
            precedence: rule("BULK_PRECEDENCE", "Precedence: bulk or junk"),
            feedback: rule("BULK_FEEDBACK", "Bulk mail with CSA-Complaints"),
        }
    }
}

impl Filter for Bulk {
    fn name(&self) -> &'static str {
        "bulk"
    }

    fn run(&self, item: &Item<'_>, _: &mut Scratch, findings: &mut Findings) {
        let message = item.message;
        let posts = |f: &Header<'_>| !f.unfolded().trim_ascii().eq_ignore_ascii_case(b"NO");
        let answers = message.header("in-reply-to").is_some();
        if answers || message.header("list-post").is_some_and(posts) {
            return;
        }
        if let Some(field) = message.header("list-unsubscribe") {
            findings.add(&self.unsubscribe, field_evidence(field));
        }
        let bulk = |f: &&Header<'_>| {
            let value = f.unfolded();
            value.eq_ignore_ascii_case(b"bulk") || value.eq_ignore_ascii_case(b"junk")
        };
        if let Some(field) = message.header("precedence").filter(bulk) {
            findings.add(&self.precedence, field_evidence(field));
        }
        if let Some(field) = message.header("csa-complaints") {
            findings.add(&self.feedback, field_evidence(field));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filters::testing::hits;

    #[test]
    fn newsletters_but_not_lists_of_people() {
        let found = |mail: &str| hits(&Bulk::new(&mut RuleRegistry::default()), mail);
        assert_eq!(found("List-Unsubscribe: <mailto:u@x.com>\n\nhi\n"), ["BULK_UNSUBSCRIBE"]);
        assert_eq!(found("Precedence: bulk\n\nhi\n"), ["BULK_PRECEDENCE"]);
        assert_eq!(found("CSA-Complaints: a@b.example\n\nhi\n"), ["BULK_FEEDBACK"]);
        assert!(found("Feedback-ID: a:b:c\n\nYour code is 123456.\n").is_empty());
        let list = "List-Unsubscribe: <mailto:u@x.com>\nList-Post: <mailto:l@x.com>\n\nhi\n";
        assert!(found(list).is_empty());
    }
}
