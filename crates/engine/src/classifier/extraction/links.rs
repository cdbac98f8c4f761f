//! Features of links, and of the types of parts and attachments.

use gauntlet_mail::Message;
use gauntlet_mail::url::UrlTraits;

use super::{magnitude, shape};
use crate::classifier::group::Group;
use crate::classifier::scratch::ClassifierScratch;
use crate::classifier::tokens::start;

/// Links of a message that are read; the others say the same as a rule.
const LINKS_MAX: usize = 40;

/// Parts of a message whose types are read.
const PARTS_MAX: usize = 20;

pub(super) fn links(
    message: &Message<'_>,
    organizational_domain: &str,
    sink: &mut ClassifierScratch,
) {
    let group = Group::Links;
    let urls = message.urls();
    magnitude(sink, group, "links", urls.len() as u32, 256);
    let mut domains: Vec<&str> = Vec::new();
    for url in urls.iter().take(LINKS_MAX) {
        let canonical = &url.canonical;
        if canonical.scheme() == "mailto" {
            continue;
        }
        let domain = canonical.registrable_domain();
        if !domains.contains(&domain) {
            domains.push(domain);
            link_domain(domain, sink);
        }
        sink.feature(group, "link scheme", canonical.scheme());
        let own = !organizational_domain.is_empty() && domain == organizational_domain;
        let whose = if own { "to the sender" } else { "elsewhere" };
        sink.feature_fmt(group, whose, format_args!("by {:?}", url.source));
        let labels = canonical.host().split('.').count().min(6);
        sink.feature_fmt(group, "labels of a link's host", format_args!("{labels}"));
        let path = canonical.path_and_query();
        shape(sink, group, "link shape", start(path, 200));
        let last =
            path.split('?').next().unwrap_or_default().rsplit('/').next().unwrap_or_default();
        if let Some((_, extension)) = last.rsplit_once('.') {
            sink.feature(group, "link to a file", start(extension, 8));
        }
        unusual_traits(canonical.traits(), sink);
    }
    magnitude(sink, group, "different hosts linked", domains.len() as u32, 64);
    if !domains.is_empty()
        && !organizational_domain.is_empty()
        && !domains.contains(&organizational_domain)
    {
        sink.feature(group, "no link to the sender", "");
    }
}

/// A domain that is linked, once a message.
fn link_domain(domain: &str, sink: &mut ClassifierScratch) {
    let group = Group::Links;
    sink.feature(group, "link to", domain);
    let (registered, _) = domain.split_once('.').unwrap_or((domain, ""));
    sink.feature(group, "link to top-level domain", domain.rsplit('.').next().unwrap_or_default());
    shape(sink, group, "shape of a linked domain", registered);
}

fn unusual_traits(traits: UrlTraits, sink: &mut ClassifierScratch) {
    let odd = [
        (UrlTraits::USER_INFO, "a user name"),
        (UrlTraits::IP, "an address as host"),
        (UrlTraits::IDN, "a host in another alphabet"),
        (UrlTraits::ESCAPED_HOST, "an escaped host"),
        (UrlTraits::PORT, "a port"),
        (UrlTraits::MALFORMED, "malformed"),
    ];
    for (bit, what) in odd {
        if traits.has(bit) {
            sink.feature(Group::Links, "link with", what);
        }
    }
}

/// Character sets that do not tell the language of a text; which of the others it is would.
const CHARSETS: [&str; 4] = ["us-ascii", "utf-8", "iso-8859-1", "windows-1252"];

pub(super) fn files(message: &Message<'_>, sink: &mut ClassifierScratch) {
    let group = Group::Files;
    for part in message.parts().iter().take(PARTS_MAX) {
        let kind = &part.content_type;
        let essence = kind.essence();
        sink.feature_fmt(group, "part", format_args!("{essence} at depth {}", part.depth.min(4)));
        if let Some(charset) = kind.param("charset") {
            let charset = charset.to_lowercase();
            if let Some(known) = CHARSETS.into_iter().find(|name| *name == charset.trim()) {
                sink.feature(group, "charset", known);
            }
        }
        let encoding = part.transfer_encoding;
        sink.feature_fmt(group, "encoding", format_args!("{encoding:?} of {}", kind.kind));
        if let Some(name) = part.file_name() {
            let extension = name.rsplit_once('.').map_or("none", |(_, e)| e).to_lowercase();
            sink.feature(group, "attachment", start(&extension, 12));
        }
    }
}
