//! Response policy zones (draft-vixie-dnsop-dns-rpz): a zone file whose names are hosts.
//!
//! `name CNAME .` and the other actions that answer wrongly or not block; `CNAME rpz-passthru.` is
//! an exception. `*.name` is what is below the name alone. Triggers on addresses and name servers
//! say nothing about a URL.

use super::LineFormat;
use crate::entry::{DomainReach, Entry};
use crate::pattern;
use crate::problem::Fault;

#[derive(Default)]
pub(super) struct Zone {
    /// Name of the zone, without final dot; empty until it is known.
    origin: String,
    /// Owner of the record before: a line that begins with a blank has the same.
    owner: String,
    /// Within the parentheses of a record over several lines.
    is_open: bool,
}

const TRIGGERS: [&str; 4] = ["rpz-ip", "rpz-nsip", "rpz-nsdname", "rpz-client-ip"];

/// What a record does.
enum Action {
    Block,
    Pass,
    Nothing,
    Skip(&'static str),
}

impl LineFormat for Zone {
    fn line(&mut self, line: &str, out: &mut Vec<Entry>) -> Result<(), Fault> {
        let text = line.split(';').next().unwrap_or_default();
        let was_open = self.is_open;
        match (text.rfind('('), text.rfind(')')) {
            (Some(open), close) => self.is_open = close.is_none_or(|close| close < open),
            (None, Some(_)) => self.is_open = false,
            (None, None) => {}
        }
        if was_open || text.trim().is_empty() {
            return Ok(());
        }
        let mut words: Vec<&str> = text.split_ascii_whitespace().take(16).collect();
        if let Some(origin) = words.first().filter(|w| w.eq_ignore_ascii_case("$ORIGIN")) {
            let _ = origin;
            self.origin = plain_name(words.get(1).copied().unwrap_or_default());
            return Ok(());
        }
        if text.starts_with('$') {
            return Ok(());
        }
        if !text.starts_with([' ', '\t']) {
            self.owner = words.remove(0).to_owned();
        }
        self.record(&words, out)
    }
}

impl Zone {
    fn record(&mut self, words: &[&str], out: &mut Vec<Entry>) -> Result<(), Fault> {
        let is_filler = |word: &&&str| {
            let word = word.to_ascii_uppercase();
            matches!(word.as_str(), "IN" | "CH" | "HS")
                || word.starts_with(|c: char| c.is_ascii_digit())
        };
        let skipped = words.iter().take_while(is_filler).count();
        let Some((kind, data)) = words.get(skipped..).and_then(|w| w.split_first()) else {
            return Err(Fault::bad("no record", "write name CNAME ."));
        };
        let kind = kind.to_ascii_uppercase();
        if kind == "SOA" && self.origin.is_empty() && self.owner.ends_with('.') {
            self.origin = plain_name(&self.owner);
        }
        let is_exception = match action(&kind, data) {
            Action::Block => false,
            Action::Pass => true,
            Action::Nothing => return Ok(()),
            Action::Skip(what) => {
                return Err(Fault::skipped(what, "only answers for names are of use here"));
            }
        };
        let Some(name) = self.relative() else { return Ok(()) };
        if TRIGGERS.iter().any(|trigger| name.split('.').next_back() == Some(trigger)) {
            return Err(Fault::skipped(
                "a trigger on addresses or name servers",
                "only triggers on names are of use here",
            ));
        }
        let pattern = match name.strip_prefix("*.") {
            Some(domain) => pattern::domain(domain, DomainReach::BelowOnly)?,
            None => pattern::exact_host(&name)?,
        };
        out.push(Entry { is_exception, ..Entry::new(pattern) });
        Ok(())
    }

    /// The owner below the zone; none for the zone itself.
    fn relative(&self) -> Option<String> {
        let name = plain_name(&self.owner);
        if name == "@" || name == self.origin {
            return None;
        }
        if !self.owner.ends_with('.') || self.origin.is_empty() {
            return Some(name);
        }
        let below = name.strip_suffix(&self.origin).and_then(|name| name.strip_suffix('.'));
        Some(below.map_or(name.clone(), str::to_owned))
    }
}

fn plain_name(name: &str) -> String {
    name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase()
}

fn action(kind: &str, data: &[&str]) -> Action {
    let target = data.first().map(|target| target.to_ascii_lowercase()).unwrap_or_default();
    match kind {
        "SOA" | "NS" | "DNSKEY" | "RRSIG" | "NSEC" | "NSEC3" | "NSEC3PARAM" => Action::Nothing,
        "CNAME" => match target.trim_end_matches('.') {
            "rpz-passthru" => Action::Pass,
            "rpz-tcp-only" => Action::Skip("the action rpz-tcp-only"),
            _ => Action::Block,
        },
        // Answers with other data lead to a page that says why.
        "A" | "AAAA" | "TXT" | "MX" | "PTR" => Action::Block,
        _ => Action::Skip("a record of another type"),
    }
}
