//! Lists of URLs that mail and web share: whether a message leads to an entry of one.
//!
//! | Rule | Points | Says |
//! |---|---|---|
//! | `URL_LIST_PHISHING` | 8.0 phishing | a URL is on a list that means phishing |
//! | `URL_LIST_SPAM` | 8.0 | a URL is on a list that means spam |
//! | `URL_LISTED` | 0 | a URL is on a list that means nothing by itself; the policy may ask |
//!
//! The lists are those that the proxy asks, looked up as the proxy looks them up: the canonical
//! URL, exceptions and lists that allow undo entries, without knowing which page asks. What counts
//! is in [`Verdict::url_lists`](gauntlet_verdict::Verdict::url_lists), for the policy's `url`
//! condition.
//! URLs that only some programs open ([`gauntlet_mail::Message::hidden_urls`]) are looked up, too:
//! one for each host. Words that are no link are not: lists that others publish have too many
//! hosts whose names people write.
//!
//! Limits: the URLs that the parser kept ([`gauntlet_mail::Limits::urls_max`]), each once;
//! [`LOOK_UP_BYTES_MAX`] bytes of them, since expressions are tried on every byte;
//! [`LISTED_A_CATEGORY_MAX`] URLs for each category of a list and [`LISTED_MAX`] in all are kept.
//! What goes over is `too_many_urls`.

use std::collections::{BTreeMap, HashSet};

use gauntlet_mail::evidence::quote;
use gauntlet_mail::{Defect, DefectKind, Evidence, Url, View};
use gauntlet_urlfilter::{Match, UrlLists};
use gauntlet_verdict::ListedUrl;
use serde::{Deserialize, Serialize};

use crate::filter::{Filter, Findings, Item};
use crate::rule_registry::{Rule, RuleRegistry};
use crate::scratch::Scratch;

/// Bytes of different URLs of a message that are looked up.
pub const LOOK_UP_BYTES_MAX: usize = 256 * 1024;
/// URLs that are kept of those on one list in one category.
pub const LISTED_A_CATEGORY_MAX: usize = 4;
/// URLs that are kept in all.
pub const LISTED_MAX: usize = 256;

/// What it means for mail that a URL is on a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UrlListMeaning {
    /// The message is phishing.
    Phishing,
    /// The message is spam.
    Spam,
    /// Nothing by itself: advertisements, and what a site does not want to be read at work, are in
    /// good mail, too.
    #[default]
    None,
}

/// Lists of URLs, and what they mean for mail.
#[derive(Debug, Clone, Default)]
pub struct MailUrlLists {
    /// The lists, also those that the web path asks.
    pub lists: UrlLists,
    /// By the list's name; a list without one means nothing.
    pub meanings: BTreeMap<String, UrlListMeaning>,
}

impl MailUrlLists {
    fn meaning(&self, list: &str) -> UrlListMeaning {
        self.meanings.get(list).copied().unwrap_or_default()
    }

    /// Names what the lists were compiled from, and what they mean.
    fn version(&self) -> String {
        let mut hash = blake3::Hasher::new();
        for list in self.lists.iter() {
            let meaning = self.meaning(list.name());
            hash.update(format!("{:?}{:?}{meaning:?}", list.name(), list.role()).as_bytes());
            hash.update(&list.sources_hash());
        }
        hash.finalize().to_hex().to_string()
    }
}

/// Looks the URLs of a message up.
#[derive(Debug)]
pub struct UrlListFilter {
    lists: MailUrlLists,
    phishing: Rule,
    spam: Rule,
    listed: Rule,
}

impl UrlListFilter {
    /// The filter for these lists.
    pub fn new(registry: &mut RuleRegistry, lists: MailUrlLists) -> Self {
        let phishing =
            registry.phishing("URL_LIST_PHISHING", 8.0, "URL is on a list of phishing URLs");
        let spam = registry.points("URL_LIST_SPAM", 8.0, "URL is on a list of URLs of spam");
        let listed = registry.points("URL_LISTED", 0.0, "URL is on a list of URLs");
        UrlListFilter { lists, phishing, spam, listed }
    }

    fn rule(&self, list: &str) -> &Rule {
        match self.lists.meaning(list) {
            UrlListMeaning::Phishing => &self.phishing,
            UrlListMeaning::Spam => &self.spam,
            UrlListMeaning::None => &self.listed,
        }
    }

    fn add(&self, url: &Url, found: &Match<'_>, findings: &mut Findings) {
        let Match { list, category, pattern, .. } = found;
        let mut at = Evidence::new(View::Url, url.part, url.offset as usize, url.raw.as_bytes());
        at.length = url.length;
        let name = format!("url_list: {list}, {category}, {pattern}");
        findings.add(self.rule(list), at.named(&name));
        let listed = ListedUrl {
            list: (*list).to_owned(),
            category: (*category).to_owned(),
            pattern: quote(pattern.to_string().as_bytes()),
            url: quote(url.canonical.as_str().as_bytes()),
        };
        if !keep(&mut findings.url_lists, listed) {
            too_many(findings);
        }
    }
}

impl Filter for UrlListFilter {
    fn name(&self) -> &'static str {
        "url_lists"
    }

    fn reads_objects(&self) -> bool {
        true
    }

    fn run(&self, item: &Item<'_>, _: &mut Scratch, findings: &mut Findings) {
        let mut seen = HashSet::new();
        let mut room = LOOK_UP_BYTES_MAX;
        for url in item.message.all_urls() {
            let text = url.canonical.as_str();
            if url.canonical.scheme() == "mailto" || !seen.insert(text) {
                continue;
            }
            let Some(left) = room.checked_sub(text.len()) else {
                too_many(findings);
                break;
            };
            room = left;
            for found in self.lists.lists.look_up(&url.canonical).effective() {
                self.add(url, found, findings);
            }
        }
        if item.message.has_unread_urls() {
            findings.defects.push(Defect::new(DefectKind::TooManyUrls, 0).detail("nested"));
        }
    }

    fn data_version(&self) -> String {
        self.lists.version()
    }
}

fn too_many(findings: &mut Findings) {
    if !findings.defects.iter().any(is_too_many) {
        findings.defects.push(Defect::new(DefectKind::TooManyUrls, 0).detail("url lists"));
    }
}

fn is_too_many(defect: &Defect) -> bool {
    defect.kind == DefectKind::TooManyUrls && defect.detail == "url lists"
}

/// Adds a listed URL, unless enough of its list and category are known; whether there was room.
fn keep(kept: &mut Vec<ListedUrl>, listed: ListedUrl) -> bool {
    let is_like =
        |other: &&ListedUrl| (&other.list, &other.category) == (&listed.list, &listed.category);
    let like = kept.iter().filter(is_like).count();
    if like >= LISTED_A_CATEGORY_MAX || kept.contains(&listed) {
        return true;
    }
    // The policy asks for lists and categories: none of them may be hidden behind others.
    if kept.len() >= LISTED_MAX {
        return like > 0;
    }
    kept.push(listed);
    true
}

/// Adds what was found in another reading of the item, or in its files; whether there was room.
pub(crate) fn merge(kept: &mut Vec<ListedUrl>, others: Vec<ListedUrl>) -> bool {
    // Not `all`: each is kept, whatever was said of the one before.
    let mut is_room = true;
    for listed in others {
        is_room &= keep(kept, listed);
    }
    is_room
}

/// The same for files, with what they had too much of.
pub(crate) fn merge_files(findings: &mut Findings, files: &mut Findings) {
    let others = std::mem::take(&mut files.url_lists);
    if !merge(&mut findings.url_lists, others) || files.defects.iter().any(is_too_many) {
        too_many(findings);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filters::testing::find;
    use crate::{Settings, Snapshot, scan};
    use gauntlet_mail::{Envelope, Facts, Message};
    use gauntlet_urlfilter::formats::Format;
    use gauntlet_urlfilter::sources::Source;
    use gauntlet_urlfilter::{Role, UrlList};
    use gauntlet_verdict::{Class, Verdict};
    use std::sync::Arc;

    /// A list of these lines.
    fn list(name: &str, role: Role, lines: &str) -> Arc<UrlList> {
        let folder = tempfile::tempdir().unwrap();
        let (source, out) = (folder.path().join(name), folder.path().join("list.urls"));
        std::fs::write(&source, lines).unwrap();
        let format = if lines.contains("||") { Format::AdBlock } else { Format::Plain };
        let source = Source { path: source, category: name.to_owned(), format: Some(format) };
        gauntlet_urlfilter::compile(&[source], &out).unwrap();
        Arc::new(UrlList::open(&out, name, role).unwrap())
    }

    fn lists(all: Vec<(Arc<UrlList>, UrlListMeaning)>) -> MailUrlLists {
        let meanings = all.iter().map(|(list, m)| (list.name().to_owned(), *m)).collect();
        let lists = UrlLists::new(all.into_iter().map(|(list, _)| list).collect());
        MailUrlLists { lists, meanings }
    }

    fn some() -> MailUrlLists {
        lists(vec![
            (list("feed", Role::Match, "evil.example/login\n"), UrlListMeaning::Phishing),
            (list("junk", Role::Match, "pills.example\n"), UrlListMeaning::Spam),
            (
                list("ads", Role::Match, "||ads.example^\n@@||ads.example/terms^\n"),
                UrlListMeaning::None,
            ),
            (list("ours", Role::Allow, "good.pills.example\n"), UrlListMeaning::None),
        ])
    }

    fn judge(body: &str, url_lists: MailUrlLists) -> Verdict {
        let settings = Settings { url_lists, ..Settings::default() };
        let snapshot = Snapshot::build(&settings).unwrap();
        let raw = format!(
            "From: a@b.example\nTo: c@d.example\nSubject: x\nMessage-ID: <1@b.example>\n\
             Date: Sat, 21 Nov 2026 10:00:00 +0000\n\n{body}\n"
        );
        let message = Message::parse(raw.as_bytes());
        let (envelope, facts) = (Envelope::default(), Facts::default());
        scan(&message, &envelope, &facts, &snapshot, &mut Scratch::default())
    }

    #[test]
    fn a_list_says_what_a_hit_means() {
        let cases = [
            ("http://evil.example/login?x", Some("URL_LIST_PHISHING"), Class::Phishing),
            ("http://evil.example/", None, Class::Ham),
            ("https://WWW.Pills.Example/", Some("URL_LIST_SPAM"), Class::Spam),
            ("https://good.pills.example/", None, Class::Ham),
            ("http://x.ads.example/", Some("URL_LISTED"), Class::Ham),
            ("http://ads.example/terms", None, Class::Ham),
            ("mailto:a@pills.example", None, Class::Ham),
        ];
        for (url, rule, class) in cases {
            let verdict = judge(&format!("see {url} please"), some());
            let found: Vec<&str> = verdict.hits.iter().map(|h| &*h.rule).collect();
            let found = found.into_iter().find(|name| name.starts_with("URL_LIST"));
            assert_eq!((found, verdict.class), (rule, class), "{url}");
            assert_eq!(verdict.url_lists.len(), usize::from(rule.is_some()), "{url}");
        }
    }

    #[test]
    fn the_evidence_has_list_category_entry_and_url() {
        let verdict = judge("see http://EVIL.example:80/login/x", some());
        let hit = verdict.hit("URL_LIST_PHISHING").unwrap();
        let at = &hit.evidence[0];
        let name = "url_list: feed, feed, prefix evil.example/login";
        assert_eq!(at.name.as_deref(), Some(name));
        assert_eq!(at.text, "http://EVIL.example:80/login/x");
        let listed = &verdict.url_lists[0];
        assert_eq!(listed.pattern, "prefix evil.example/login");
        assert_eq!(listed.url, "http://evil.example/login/x");
    }

    #[test]
    fn a_redirector_hides_nothing() {
        let verdict = judge("https://www.google.com/url?q=https://pills.example/x", some());
        assert_eq!(verdict.class, Class::Spam, "{:?}", verdict.hits);
    }

    #[test]
    fn no_category_is_hidden_behind_others_of_them() {
        let ads: String = (0..300).map(|i| format!("http://a{i}.ads.example/ \n")).collect();
        let verdict = judge(&format!("{ads}http://evil.example/login"), some());
        let names: Vec<&str> = verdict.url_lists.iter().map(|l| l.list.as_str()).collect();
        assert_eq!(names, ["ads", "ads", "ads", "ads", "feed"]);
        assert_eq!(verdict.hit("URL_LISTED").unwrap().count, 300);
    }

    #[test]
    fn what_is_not_looked_up_is_a_defect() {
        let long = "x".repeat(3_900);
        let many: String = (0..80).map(|i| format!("http://a{i}.example/{long}\n")).collect();
        let verdict = judge(&format!("{many}http://evil.example/login"), some());
        assert_eq!(verdict.class, Class::Unscannable);
        let detail = |d: &Defect| d.kind == DefectKind::TooManyUrls && d.detail == "url lists";
        assert!(verdict.defects.iter().any(detail), "{:?}", verdict.defects);
        assert_eq!(judge(&many, MailUrlLists::default()).class, Class::Ham);
    }

    #[test]
    fn without_lists_there_is_no_filter_and_with_them_another_version() {
        let version = |url_lists| {
            let settings = Settings { url_lists, ..Settings::default() };
            let snapshot = Snapshot::build(&settings).unwrap();
            let runs = snapshot.filters.iter().any(|f| f.name() == "url_lists");
            (runs, snapshot.version.to_string())
        };
        let (runs, plain) = version(MailUrlLists::default());
        assert!(!runs);
        let (runs, with) = version(some());
        assert!(runs && plain != with);
        assert_eq!(version(some()).1, with);
        let mut other = some();
        other.meanings.insert("ads".into(), UrlListMeaning::Spam);
        assert_ne!(version(other).1, with);
    }

    #[test]
    fn a_mail_that_hits_and_one_that_must_not() {
        let filter = UrlListFilter::new(&mut RuleRegistry::default(), some());
        let found = |body: &str| {
            let mail = format!("From: a@b.example\n\n{body}\n");
            find(&filter, &mail, &Envelope::default()).hits.len()
        };
        assert_eq!((found("http://pills.example"), found("http://pillz.example")), (1, 0));
        assert_eq!(found("pills.example is a word"), 0, "it is no link");
    }
}
