//! Patterns from what people write: hosts, domains and URLs in the one canonical form.

use gauntlet_mail::url::{UrlTraits, canonical};

use crate::entry::{Case, DomainReach, Pattern, Prefix, PrefixEnd, PrefixHosts};
use crate::limits::HOST_BYTES_MAX;
use crate::problem::Fault;

/// A host in canonical form.
pub(crate) struct Host {
    /// As in [`gauntlet_mail::url::CanonicalUrl::host`].
    pub(crate) name: String,
    /// It is an address: nothing is below it.
    pub(crate) is_address: bool,
}

const HOST_REMEDY: &str = "write a host name or an address, without scheme, port and path";

/// Reads a host, and nothing but a host.
pub(crate) fn host(text: &str) -> Result<Host, Fault> {
    let fault = || Fault::bad("no host name", HOST_REMEDY);
    let is_ipv6 = text.starts_with('[') && text.ends_with(']');
    let foreign = |c: char| matches!(c, '/' | '\\' | '?' | '#' | '@' | ':' | ',' | '*' | '|' | '^');
    if text.is_empty() || (!is_ipv6 && text.contains(foreign)) || text.contains(char::is_whitespace)
    {
        return Err(fault());
    }
    let url = canonical(&format!("//{text}")).ok_or_else(fault)?;
    if url.host().len() > HOST_BYTES_MAX {
        return Err(fault());
    }
    let is_address = url.traits().has(UrlTraits::IP);
    Ok(Host { name: url.host().to_owned(), is_address })
}

/// A host alone.
pub(crate) fn exact_host(text: &str) -> Result<Pattern, Fault> {
    Ok(Pattern::ExactHost(host(text)?.name))
}

/// A domain with all below; an address alone.
pub(crate) fn domain(text: &str, reach: DomainReach) -> Result<Pattern, Fault> {
    let host = host(text)?;
    Ok(match host.is_address {
        true => Pattern::ExactHost(host.name),
        false => Pattern::Domain { domain: host.name, reach },
    })
}

/// How a URL of a list is meant.
#[derive(Clone, Copy)]
pub(crate) struct UrlMeaning {
    pub(crate) hosts: PrefixHosts,
    pub(crate) end: PrefixEnd,
    pub(crate) case: Case,
}

/// A page and what is below it, as lists of URLs mean them.
pub(crate) const PAGE: UrlMeaning =
    UrlMeaning { hosts: PrefixHosts::Exact, end: PrefixEnd::Boundary, case: Case::Sensitive };

/// The beginning of a URL; its scheme does not count.
pub(crate) fn prefix(text: &str, meaning: UrlMeaning) -> Result<Pattern, Fault> {
    let fault = || Fault::bad("no URL", "write scheme://host/path, or host/path");
    // Without a scheme a host that begins with `_` is none to `canonical`.
    let url = match text.starts_with('_') {
        true => canonical(&format!("//{text}")),
        false => canonical(text),
    };
    let url = url.ok_or_else(fault)?;
    if url.host().len() > HOST_BYTES_MAX || !url.path_and_query().starts_with('/') {
        return Err(fault());
    }
    let UrlMeaning { hosts, mut end, case } = meaning;
    if url.traits().has(UrlTraits::CUT) {
        // What is asked is cut at the same place, perhaps within a segment.
        end = PrefixEnd::Anywhere;
    }
    let mut path = url.path_for_look_up().into_owned();
    if case == Case::Folded {
        path.make_ascii_lowercase();
    }
    Ok(Pattern::Prefix(Prefix {
        host: url.host().to_owned(),
        hosts: if url.traits().has(UrlTraits::IP) { PrefixHosts::Exact } else { hosts },
        port: url.port(),
        path,
        end,
        case,
    }))
}

/// A regular expression, as long as it can be used.
pub(crate) fn regex(text: &str, case: Case) -> Result<Pattern, Fault> {
    let text = match case {
        Case::Sensitive => text.to_owned(),
        Case::Folded => format!("(?i){text}"),
    };
    match crate::regexes::check(&text) {
        Ok(()) => Ok(Pattern::Regex(text)),
        Err(fault) => Err(fault),
    }
}
