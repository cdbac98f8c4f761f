//! Network rules of AdBlock Plus: those that a URL alone can answer.
//!
//! `||host^` and `||host/path`, `|http://host/path`, `@@` before either, and `/expression/`. Of the
//! options those are read that ask nothing but who asks (`third-party`), or nothing at all
//! (`important`, `document`, `all`). What asks for the type of a request or the page it comes from,
//! and what hides elements of pages, is counted by name.

use super::LineFormat;
use crate::entry::{Case, DomainReach, Entry, Party, Pattern, PrefixEnd, PrefixHosts};
use crate::pattern::{self, UrlMeaning};
use crate::problem::Fault;

pub(super) struct AdBlock;

/// What stands between selectors of pages and the hosts that they are for.
const ELEMENT_MARKS: [&str; 8] = ["##", "#@#", "#?#", "#$#", "#%#", "#@?#", "#@$#", "$$"];

impl LineFormat for AdBlock {
    fn line(&mut self, line: &str, out: &mut Vec<Entry>) -> Result<(), Fault> {
        let line = line.trim();
        // `[Adblock Plus 2.0]` is its first line.
        if line.is_empty() || line.starts_with(['!', '[']) {
            return Ok(());
        }
        if ELEMENT_MARKS.iter().any(|mark| line.contains(mark)) {
            return Err(Fault::skipped("a rule for elements of pages", "browsers apply these"));
        }
        if line.starts_with('#') {
            return Ok(());
        }
        let (is_exception, rule) = match line.strip_prefix("@@") {
            Some(rule) => (true, rule),
            None => (false, line),
        };
        let (rule, options) = split_options(rule);
        let mut entry = Entry::new(Pattern::ExactHost(String::new()));
        entry.is_exception = is_exception;
        let mut case = Case::Folded;
        for option in options.into_iter().flat_map(|options| options.split(',')) {
            apply(option.trim(), &mut entry, &mut case)?;
        }
        entry.pattern = read(rule, case)?;
        out.push(entry);
        Ok(())
    }
}

/// Rule and options. A `$` inside of an expression is none that begins options.
fn split_options(rule: &str) -> (&str, Option<&str>) {
    if rule.starts_with('/') && rule.ends_with('/') && rule.len() > 1 {
        return (rule, None);
    }
    match rule.rfind('$').filter(|&at| at > 0) {
        Some(at) => (&rule[..at], Some(&rule[at + 1..])),
        None => (rule, None),
    }
}

fn apply(option: &str, entry: &mut Entry, case: &mut Case) -> Result<(), Fault> {
    match option {
        "third-party" | "3p" | "~first-party" | "~1p" => entry.party = Party::Third,
        "~third-party" | "~3p" | "first-party" | "1p" => entry.party = Party::First,
        "important" => entry.is_important = true,
        "match-case" => *case = Case::Sensitive,
        // The page itself, which blocks whatever it would load.
        "document" | "doc" | "all" | "" => {}
        _ => {
            let name = option.split('=').next().unwrap_or_default().trim_start_matches('~');
            let is_name = name.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_".contains(&b));
            let name = if is_name && name.len() <= 24 { name } else { "..." };
            return Err(Fault::skipped(
                format!("option ${name}"),
                "it asks for more than a URL and who asks",
            ));
        }
    }
    Ok(())
}

fn read(rule: &str, case: Case) -> Result<Pattern, Fault> {
    if let Some(text) = rule.strip_prefix('/').and_then(|rule| rule.strip_suffix('/'))
        && !text.is_empty()
    {
        return pattern::regex(text, case);
    }
    let (rest, hosts) = if let Some(rest) = rule.strip_prefix("||") {
        (rest, PrefixHosts::Below)
    } else if let Some(rest) = rule.strip_prefix('|').filter(|rest| rest.contains("://")) {
        (rest, PrefixHosts::Exact)
    } else if rule.contains("://") && !rule.starts_with('*') {
        (rule, PrefixHosts::Exact)
    } else if !rule.contains(['/', '*', '^', '|', '?', '=', '&']) && rule.contains('.') {
        // A bare domain, as lists of hosts have them that call themselves AdBlock's.
        return pattern::domain(rule, DomainReach::WithItself);
    } else {
        return Err(Fault::skipped(
            "a pattern without a host",
            "it would be tried on every URL: write it as an expression /.../",
        ));
    };
    let rest = rest.strip_suffix('*').unwrap_or(rest);
    let (rest, end) = match rest.strip_suffix(['^', '|']) {
        Some(rest) => (rest, PrefixEnd::Boundary),
        None => (rest, PrefixEnd::Anywhere),
    };
    if rest.contains(['*', '^', '|']) {
        return Err(Fault::skipped("a wildcard inside", "write it as an expression /.../"));
    }
    let is_cut = end == PrefixEnd::Anywhere
        && hosts == PrefixHosts::Exact
        && rest.split_once("://").is_some_and(|(_, rest)| !rest.contains(['/', '?']));
    if is_cut {
        return Err(Fault::skipped("the beginning of a host", "write the whole host"));
    }
    let is_host = !rest.contains(['/', '?']) && hosts == PrefixHosts::Below;
    if is_host && !rest.contains(':') {
        if end == PrefixEnd::Anywhere && !rest.contains('.') {
            return Err(Fault::skipped("the beginning of a host", "write the whole host"));
        }
        return pattern::domain(rest, DomainReach::WithItself);
    }
    pattern::prefix(rest, UrlMeaning { hosts, end, case })
}
