//! What lists say of requests of the log, for replays.

use std::net::SocketAddr;

use gauntlet_mail::CanonicalUrl;
use gauntlet_proxy::policy_judge::{listed, listed_at};
use gauntlet_store::web_log::replay::UrlLookUp;
use gauntlet_urlfilter::UrlLists;
use gauntlet_web::Listed;

/// Lists of URLs, as a replay asks them. Which page asked is not in the log: entries for third
/// parties alone do not count.
pub(crate) struct ListLookUp {
    pub(crate) lists: UrlLists,
    /// Lists are asked for the addresses of names (`proxy.listed_addresses`).
    pub(crate) addresses: bool,
}

impl UrlLookUp for ListLookUp {
    fn listed<'a>(&'a self, url: &CanonicalUrl) -> Vec<Listed<'a>> {
        listed(&self.lists.look_up(url))
    }

    fn listed_at<'a>(&'a self, url: &CanonicalUrl, address: SocketAddr) -> Vec<Listed<'a>> {
        match self.addresses {
            true => listed_at(&self.lists, url, address),
            false => Vec::new(),
        }
    }
}
