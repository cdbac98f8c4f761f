//! What several tests need.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use gauntlet_mail::url::canonical;
use gauntlet_urlfilter::formats::{Format, Reader};
use gauntlet_urlfilter::problem::Problems;
use gauntlet_urlfilter::sources::Source;
use gauntlet_urlfilter::{Built, ReadReport, Role, UrlList, UrlLists, compile};

/// Numbers that look random and are the same in every run (splitmix64).
pub(crate) struct Numbers(pub(crate) u64);

impl Numbers {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(crate) fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }

    pub(crate) fn of<'a, T>(&mut self, all: &'a [T]) -> &'a T {
        &all[self.below(all.len())]
    }
}

/// A folder with lists and what was compiled from them.
pub(crate) struct Folder(pub(crate) tempfile::TempDir);

impl Folder {
    pub(crate) fn new() -> Folder {
        Folder(tempfile::tempdir().unwrap())
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    pub(crate) fn write(&self, name: &str, text: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
        path
    }

    /// Compiles one list of this format.
    pub(crate) fn compile(&self, format: Format, text: &str) -> (PathBuf, Built, ReadReport) {
        let path = self.write("list", text);
        let source = Source { path, format: Some(format), category: "bad".into() };
        let out = self.path().join("list.urls");
        let (built, report) = compile(&[source], &out).unwrap();
        (out, built, report)
    }

    /// One list of this format, open.
    pub(crate) fn lists(&self, format: Format, text: &str) -> UrlLists {
        let (out, ..) = self.compile(format, text);
        UrlLists::new(vec![Arc::new(UrlList::open(&out, "list", Role::Match).unwrap())])
    }
}

/// The pattern and category of the first match that counts.
pub(crate) fn found(lists: &UrlLists, url: &str) -> Option<String> {
    let url = canonical(url).unwrap();
    let matches = lists.look_up(&url);
    matches.first().map(|m| format!("{} {}", m.category, m.pattern))
}

/// Patterns of a text as `line kind text`, and the problems.
pub(crate) fn read(format: Format, text: &str) -> (Vec<String>, Problems) {
    let mut reader = Reader::new(text.as_bytes(), "list", format);
    let mut entries = Vec::new();
    for entry in reader.by_ref() {
        let entry = entry.unwrap();
        let sign = if entry.is_exception { "!" } else { "" };
        let category = entry.category.as_deref().map(|c| format!(" = {c}")).unwrap_or_default();
        entries.push(format!("{}: {sign}{}{category}", entry.line, shown(&entry.pattern)));
    }
    (entries, reader.into_problems())
}

fn shown(pattern: &gauntlet_urlfilter::entry::Pattern) -> String {
    use gauntlet_urlfilter::entry::{DomainReach, Pattern, PrefixEnd, PrefixHosts};
    match pattern {
        Pattern::ExactHost(host) => format!("host {host}"),
        Pattern::Domain { domain, reach: DomainReach::WithItself } => format!("domain {domain}"),
        Pattern::Domain { domain, reach: DomainReach::BelowOnly } => format!("below {domain}"),
        Pattern::Regex(text) => format!("regex {text}"),
        Pattern::Prefix(p) => {
            let hosts = match p.hosts {
                PrefixHosts::Exact => "",
                PrefixHosts::ServerNames => "(www.)",
                PrefixHosts::Below => "*.",
            };
            let port = p.port.map(|port| format!(":{port}")).unwrap_or_default();
            let end = if p.end == PrefixEnd::Boundary { "|" } else { "" };
            format!("prefix {hosts}{}{port}{}{end}", p.host, p.path)
        }
    }
}
