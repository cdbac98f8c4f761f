//! Features of links, and of the types of parts and attachments.

use gauntlet_mail::Message;
use gauntlet_mail::url::UrlTraits;

use super::known::{service_of, top_level};
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
    let (mut links, mut own_links) = (0, 0);
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
        links += 1;
        own_links += usize::from(own);
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
    if links > 0 {
        share_of_own((links, own_links), domains.len(), sink);
    }
    magnitude(sink, group, "different hosts linked", domains.len() as u32, 64);
    if !domains.is_empty()
        && !organizational_domain.is_empty()
        && !domains.contains(&organizational_domain)
    {
        sink.feature(group, "no link to the sender", "");
    }
}

/// How many links lead to the sender's own domain.
fn share_of_own((links, own): (usize, usize), domains: usize, sink: &mut ClassifierScratch) {
    let group = Group::Links;
    let share = match 4 * own / links {
        _ if own == 0 => "none",
        0 => "few",
        1 | 2 => "half",
        3 => "most",
        _ => "all",
    };
    let of = if links > 3 { "many" } else { "few" };
    sink.feature_fmt(group, "share of links to the sender", format_args!("{share} of {of}"));
    if domains == 1 {
        let whose = if own == links { "the sender" } else { "another" };
        sink.feature(group, "one host for all links", whose);
    }
}

/// A domain that is linked, once a message.
fn link_domain(domain: &str, sink: &mut ClassifierScratch) {
    let group = Group::Links;
    sink.feature(group, "link to", domain);
    let (registered, _) = domain.split_once('.').unwrap_or((domain, ""));
    sink.feature(group, "link to top-level domain", top_level(domain));
    if let Some(service) = service_of(domain) {
        sink.feature(group, "link to", service);
    }
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

/// Bytes of a text by which it is decided whether it is ASCII for the most part.
const FOREIGN_BYTES: usize = 1_000;
/// Fewer bytes that are not ASCII are a sign or a disguise here and there.
const FOREIGN_BYTES_MIN: usize = 8;

/// Whether more than two bytes of a hundred are not ASCII: such a text needs an encoding.
fn is_foreign(text: &str) -> bool {
    let head = start(text, FOREIGN_BYTES);
    let other = head.bytes().filter(|byte| !byte.is_ascii()).count();
    other >= FOREIGN_BYTES_MIN && other * 50 > head.len()
}

pub(super) fn files(message: &Message<'_>, sink: &mut ClassifierScratch) {
    let group = Group::Files;
    for part in message.parts().iter().take(PARTS_MAX) {
        let kind = &part.content_type;
        let essence = kind.essence();
        sink.feature_fmt(group, "part", format_args!("{essence} at depth {}", part.depth.min(4)));
        // How a text in another language is encoded, and its character set, tell the language.
        if !part.text().is_some_and(is_foreign) {
            let encoding = part.transfer_encoding;
            sink.feature_fmt(group, "encoding", format_args!("{encoding:?} of {}", kind.kind));
        }
        if let Some(name) = part.file_name() {
            let extension = name.rsplit_once('.').map_or("none", |(_, e)| e).to_lowercase();
            sink.feature(group, "attachment", start(&extension, 12));
        }
    }
}
