//! What lists say of requests of the log, for replays.

use gauntlet_mail::CanonicalUrl;
use gauntlet_proxy::policy_judge::listed;
use gauntlet_store::web_log::replay::UrlLookUp;
use gauntlet_urlfilter::UrlLists;
use gauntlet_web::Listed;

/// Lists of URLs, as a replay asks them. Which page asked is not in the log: entries for third
/// parties alone do not count.
pub(crate) struct ListLookUp(pub(crate) UrlLists);

impl UrlLookUp for ListLookUp {
    fn listed<'a>(&'a self, url: &CanonicalUrl) -> Vec<Listed<'a>> {
        listed(&self.0.look_up(url))
    }
}
