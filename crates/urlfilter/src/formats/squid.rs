//! Squid's ACLs in files: `dstdomain` and `url_regex`, one value a line.

use super::LineFormat;
use crate::entry::{Case, DomainReach, Entry};
use crate::pattern;
use crate::problem::Fault;

/// `dstdomain`: `.example.com` is the domain with all below, `example.com` this host alone.
pub(super) struct Domains;

impl LineFormat for Domains {
    fn line(&mut self, line: &str, out: &mut Vec<Entry>) -> Result<(), Fault> {
        // Options stand before the values, perhaps on a line of their own.
        for word in value(line).split_ascii_whitespace().filter(|word| *word != "-n") {
            let pattern = match word.strip_prefix('.') {
                Some(domain) => pattern::domain(domain, DomainReach::WithItself)?,
                None => pattern::exact_host(word)?,
            };
            out.push(Entry::new(pattern));
        }
        Ok(())
    }
}

/// `url_regex`: an expression a line; `-i` and `+i` set whether case counts for what follows.
#[derive(Default)]
pub(super) struct Regexes {
    folds: bool,
}

impl LineFormat for Regexes {
    fn line(&mut self, line: &str, out: &mut Vec<Entry>) -> Result<(), Fault> {
        let mut text = line.trim();
        if text.starts_with('#') {
            return Ok(());
        }
        while let Some((flag, rest)) = flag(text) {
            self.folds = flag;
            text = rest;
        }
        if text.is_empty() {
            return Ok(());
        }
        let case = if self.folds { Case::Folded } else { Case::Sensitive };
        out.push(Entry::new(pattern::regex(text, case)?));
        Ok(())
    }
}

/// An option for case at the beginning, and what follows it.
fn flag(text: &str) -> Option<(bool, &str)> {
    let (option, rest) = text.split_at_checked(2)?;
    let folds = match option {
        "-i" => true,
        "+i" => false,
        _ => return None,
    };
    (rest.is_empty() || rest.starts_with([' ', '\t'])).then(|| (folds, rest.trim_start()))
}

fn value(line: &str) -> &str {
    let line = line.trim();
    let end = if line.starts_with('#') { Some(0) } else { line.find(" #") };
    end.map_or(line, |at| line[..at].trim_end())
}
