//! A host, domain or URL a line; `#` and `;` begin a comment.

use std::net::Ipv4Addr;

use super::LineFormat;
use crate::entry::{DomainReach, Entry, Pattern};
use crate::pattern;
use crate::problem::Fault;

pub(super) struct Plain;

/// `example.com` is the domain with all below, `=example.com` this host alone,
/// `example.com/path` and anything with a scheme the beginning of a URL.
pub(super) fn pattern(text: &str) -> Result<Pattern, Fault> {
    if let Some(host) = text.strip_prefix('=') {
        return pattern::exact_host(host);
    }
    if is_network(text) {
        return Err(Fault::bad(
            "a network",
            "networks of servers are not listed: write their addresses",
        ));
    }
    let is_url = text.contains("//") || text.contains(['/', '?']);
    // `host:8080` is a URL, an address with colons is none.
    let has_port = text.matches(':').count() == 1;
    if is_url || has_port {
        return pattern::prefix(text, pattern::PAGE);
    }
    let name = text.strip_prefix("*.").or_else(|| text.strip_prefix('.')).unwrap_or(text);
    if name.contains(':') && !name.starts_with('[') {
        return pattern::exact_host(&format!("[{name}]"));
    }
    pattern::domain(name, DomainReach::WithItself)
}

/// `192.0.2.0/24`: as a URL, the path would be `/24`, which nobody means.
fn is_network(text: &str) -> bool {
    let Some((address, bits)) = text.split_once('/') else { return false };
    address.parse::<Ipv4Addr>().is_ok() && bits.parse::<u8>().is_ok_and(|bits| bits <= 32)
}

/// A line without its comment: what begins it, or follows a blank.
pub(super) fn without_comment(line: &str) -> &str {
    let line = line.trim();
    if line.starts_with(['#', ';', '!']) {
        return "";
    }
    let cut = [" #", "\t#", " ;", "\t;"].iter().filter_map(|mark| line.find(mark)).min();
    cut.map_or(line, |at| &line[..at]).trim_end()
}

impl LineFormat for Plain {
    fn line(&mut self, line: &str, out: &mut Vec<Entry>) -> Result<(), Fault> {
        let text = without_comment(line);
        if !text.is_empty() {
            out.push(Entry::new(pattern(text)?));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_is_no_path() {
        assert!(pattern("192.0.2.0/24").is_err());
        for fine in ["192.0.2.0/33", "192.0.2.0/24/x", "192.0.2.1/x", "a.example/24"] {
            assert!(pattern(fine).is_ok(), "{fine}");
        }
    }
}
