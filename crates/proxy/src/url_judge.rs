//! A judge that asks lists of URLs.

use std::sync::Arc;

use arc_swap::ArcSwap;
use gauntlet_mail::url::canonical;
use gauntlet_urlfilter::{Match, Origin, UrlLists};

use crate::judge::{BlockReason, Decision, Judge};
use crate::request::WebRequest;

/// Blocks what a list has, unless an exception or an allow list undoes it.
///
/// Of a tunnel host and port alone are known, so that entries with a path do not match it.
#[derive(Debug)]
pub struct UrlJudge {
    lists: ArcSwap<UrlLists>,
}

impl UrlJudge {
    /// A judge with these lists.
    pub fn new(lists: UrlLists) -> Self {
        UrlJudge { lists: ArcSwap::from_pointee(lists) }
    }

    /// Judges by other lists from now on. A request that is being judged is judged by the old ones,
    /// which are unmapped after it.
    pub fn replace(&self, lists: UrlLists) {
        self.lists.store(Arc::new(lists));
    }
}

impl Judge for UrlJudge {
    fn request(&self, request: &WebRequest) -> Decision {
        let lists = self.lists.load();
        match lists.look_up_from(&request.url, origin(request)).first() {
            None => Decision::Allow,
            Some(found) => Decision::Block(reason(found)),
        }
    }
}

/// Which page asks, as far as the client says: some rules are for third parties alone.
fn origin(request: &WebRequest) -> Origin {
    let Some(page) = request.fields.referer.as_deref().and_then(canonical) else {
        return Origin::Unknown;
    };
    match page.registrable_domain() == request.url.registrable_domain() {
        true => Origin::SameSite,
        false => Origin::OtherSite,
    }
}

/// Without the file that the entry comes from, which is no concern of clients.
fn reason(found: &Match<'_>) -> BlockReason {
    let Match { list, category, pattern, .. } = found;
    BlockReason {
        rule: format!("{list}: {category}: {pattern}"),
        text: format!(
            "This address is on a list of those that are not allowed here (category {category})."
        ),
    }
}
