//! What a policy says that does nothing.

use gauntlet_gateway::config::Config;
use gauntlet_policy::listed::ListNames;
use gauntlet_policy::{Finding, Policy};

use crate::url_lists;

/// Warnings about a policy, by line: its own, and names of lists of URLs and of their categories
/// that the configuration has none of. Of lists nothing is said if one cannot be opened, which is
/// an error of its own, or if channels may bring others.
pub(crate) fn of(policy: &Policy, config: &Config) -> Vec<Finding> {
    let mut found = policy.warnings.clone();
    if config.channel.is_empty()
        && let Ok(open) = url_lists::open(&config.url_list)
    {
        let names = |list| {
            let list: &gauntlet_urlfilter::UrlList = list;
            ListNames { name: list.name(), categories: list.categories() }
        };
        let lists: Vec<ListNames<'_>> = open.lists.iter().map(names).collect();
        found.extend(policy.unlisted(&lists));
    }
    found.sort_by_key(|finding| finding.line);
    found
}

/// The line of a log or a terminal.
pub(crate) fn line(finding: &Finding) -> String {
    format!("policy, line {}: rule {:?}: {}", finding.line, finding.rule, finding.message)
}
