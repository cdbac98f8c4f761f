//! The filters, one a file. Each file has the struct, the rules it can hit with their points, its
//! limits, and a message that hits and one that must not.

use std::sync::Arc;

use crate::classifier::Model;
use crate::filter::Filter;
use crate::lexicon::Lexicon;
use crate::lookalike::Brands;
use crate::rule_registry::RuleRegistry;
use gauntlet_verdict::lists::List;

use self::url_lists::{MailUrlLists, UrlListFilter};

pub mod attachments;
pub mod bulk;
pub mod classifier;
pub mod header_form;
pub mod lists;
pub mod network;
pub mod objects;
pub mod own_links;
pub mod pages;
pub mod path;
pub mod rules;
pub mod sender;
pub mod signatures;
pub mod site;
pub mod spamassassin;
pub mod test_strings;
pub mod url_lists;
pub mod urls;
pub mod words;

/// All filters in the order they run: cheap ones that are sure of their class first.
pub(crate) fn all(
    registry: &mut RuleRegistry,
    (allow, block): (List, List),
    url_lists: MailUrlLists,
    model: Arc<Model>,
) -> Vec<Box<dyn Filter>> {
    let brands = Arc::new(Brands::shipped());
    vec![
        Box::new(test_strings::TestStrings::new(registry)),
        Box::new(lists::Lists::new(registry, allow, block)),
        Box::new(UrlListFilter::new(registry, url_lists)),
        Box::new(attachments::Attachments::new(registry)),
        Box::new(objects::Objects::new(registry)),
        Box::new(header_form::HeaderForm::new(registry)),
        Box::new(network::Network::new(registry)),
        Box::new(path::Path::new(registry)),
        Box::new(bulk::Bulk::new(registry)),
        Box::new(sender::Sender::new(registry, brands.clone())),
        Box::new(urls::Urls::new(registry, brands)),
        Box::new(pages::Pages::new(registry)),
        Box::new(words::Words::new(registry, Lexicon::shipped())),
        Box::new(classifier::Classifier::new(registry, model)),
        Box::new(signatures::Signatures::new(registry)),
        Box::new(site::Site::new(registry)),
    ]
}

/// What the tests of the filters share.
#[cfg(test)]
pub(crate) mod testing {
    use gauntlet_mail::{Envelope, Facts, Message};

    use crate::filter::{Filter, Findings, Item};
    use crate::learned::Learned;
    use crate::scratch::Scratch;

    /// What the filter finds in a message, given with LF.
    pub(crate) fn find(filter: &dyn Filter, raw: &str, envelope: &Envelope) -> Findings {
        find_with(filter, raw, envelope, &Facts::default())
    }

    /// The same with what is known from the network.
    pub(crate) fn find_with(
        filter: &dyn Filter,
        raw: &str,
        envelope: &Envelope,
        facts: &Facts,
    ) -> Findings {
        let message = Message::parse(raw.as_bytes());
        let learned = Learned::default();
        let item = Item { message: &message, envelope, facts, learned: &learned };
        let mut findings = Findings::default();
        filter.run(&item, &mut Scratch::default(), &mut findings);
        findings
    }

    /// Names of the rules that hit, in the order of the filter.
    pub(crate) fn hits(filter: &dyn Filter, raw: &str) -> Vec<String> {
        let findings = find(filter, raw, &Envelope::default());
        findings.hits.iter().map(|h| h.rule.to_string()).collect()
    }
}
