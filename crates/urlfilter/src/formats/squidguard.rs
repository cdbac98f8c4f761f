//! Files of squidGuard's and ufdbGuard's folders: `domains`, `urls` and `expressions`.
//!
//! A domain stands for itself and all below. A URL is a host and the beginning of its path, in any
//! case; scheme, port and a leading `www.`, `web.` or `ftp.` (with digits) do not count, neither in
//! the list nor in what is asked. What follows a blank (squidGuard: where to send the client) is
//! not ours.

use super::LineFormat;
use crate::entry::{Case, DomainReach, Entry, Pattern, PrefixEnd, PrefixHosts};
use crate::pattern::{self, UrlMeaning};
use crate::problem::Fault;
use crate::server_names;

pub(super) struct Domains;
pub(super) struct Urls;
pub(super) struct Expressions;

/// The value of a line; `-` of a difference takes an entry away, which a whole list cannot need.
fn value(line: &str) -> Result<&str, Fault> {
    let mut words = line.split_ascii_whitespace();
    let word = words.next().unwrap_or_default();
    if word.starts_with('#') {
        return Ok("");
    }
    let is_more = words.next().is_some_and(|next| !next.starts_with('#') && words.next().is_some());
    if is_more {
        return Err(Fault::bad("more than an entry", "write one entry a line"));
    }
    match word.strip_prefix('-') {
        Some(_) => Err(Fault::skipped(
            "an entry to take away",
            "give whole lists, not the differences (.diff)",
        )),
        None => Ok(word.strip_prefix('+').unwrap_or(word)),
    }
}

impl LineFormat for Domains {
    fn line(&mut self, line: &str, out: &mut Vec<Entry>) -> Result<(), Fault> {
        let word = value(line)?;
        let name = word.strip_prefix('.').unwrap_or(word);
        if !name.is_empty() {
            out.push(Entry::new(pattern::domain(name, DomainReach::WithItself)?));
        }
        Ok(())
    }
}

impl LineFormat for Urls {
    fn line(&mut self, line: &str, out: &mut Vec<Entry>) -> Result<(), Fault> {
        let word = value(line)?;
        if word.is_empty() {
            return Ok(());
        }
        let meaning = UrlMeaning {
            hosts: PrefixHosts::ServerNames,
            end: PrefixEnd::Anywhere,
            case: Case::Folded,
        };
        let mut pattern = pattern::prefix(word, meaning)?;
        if let Pattern::Prefix(prefix) = &mut pattern {
            prefix.port = None;
            let name = server_names::without(&prefix.host);
            prefix.host = name.to_owned();
        }
        out.push(Entry::new(pattern));
        Ok(())
    }
}

impl LineFormat for Expressions {
    fn line(&mut self, line: &str, out: &mut Vec<Entry>) -> Result<(), Fault> {
        let text = line.trim();
        if !text.is_empty() && !text.starts_with('#') {
            out.push(Entry::new(pattern::regex(text, Case::Folded)?));
        }
        Ok(())
    }
}
