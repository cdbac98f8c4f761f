//! Whose word about mail that was passed on counts (ARC, RFC 8617 section 7.2).
//!
//! A valid chain proves who said something, not that it is true: anybody can seal. What its first
//! sealer found counts if every sealer is trusted by the configuration, since each could have
//! changed the mail.

use std::borrow::Cow;

/// What a valid chain says.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Chain {
    /// Domains of the sealers in the order of the chain, in lower case.
    pub sealers: Vec<String>,
    /// ARC-Authentication-Results of the first.
    pub first_results: String,
}

impl Chain {
    /// The chain says that DMARC passed for this From domain when the mail came to the first
    /// sealer, and all sealers are one of the trusted domains or below it.
    pub fn vouches_for(&self, from: &str, trusted: &[String]) -> bool {
        let is_trusted = |sealer: &String| {
            let below = |domain: &str| {
                let head = sealer.strip_suffix(domain);
                head.is_some_and(|head| head.is_empty() || head.ends_with('.'))
            };
            trusted.iter().any(|domain| !domain.is_empty() && below(&domain.to_ascii_lowercase()))
        };
        !self.sealers.is_empty()
            && self.sealers.iter().all(is_trusted)
            && passes_dmarc(&self.first_results, from)
    }
}

/// The results (RFC 8601 section 2.2) have `dmarc=pass` with this `header.from`, and no other
/// `dmarc`.
fn passes_dmarc(results: &str, from: &str) -> bool {
    let plain = without_comments(results);
    let is_dmarc = |part: &&str| {
        let method = part.trim_start().split(['=', ' ', '\t', '/']).next().unwrap_or_default();
        method.eq_ignore_ascii_case("dmarc")
    };
    let mut found = plain.split(';').filter(is_dmarc);
    let (Some(part), None) = (found.next(), found.next()) else { return false };
    let mut words = part.split_ascii_whitespace();
    let passes = words.next().is_some_and(|word| word.eq_ignore_ascii_case("dmarc=pass"));
    let named = |word: &str| {
        let (name, value) = word.split_once('=')?;
        name.eq_ignore_ascii_case("header.from").then(|| value.trim_matches('"').to_owned())
    };
    let mut domains = words.filter_map(named);
    let (Some(domain), None) = (domains.next(), domains.next()) else { return false };
    let domain = domain.rsplit_once('@').map_or(domain.as_str(), |(_, domain)| domain);
    passes && gauntlet_mail::address::ascii_domain(domain).as_deref() == Some(from)
}

/// The text without comments (RFC 5322 section 3.2.2).
fn without_comments(text: &str) -> Cow<'_, str> {
    if !text.contains('(') {
        return Cow::Borrowed(text);
    }
    let (mut out, mut depth, mut escaped) = (String::with_capacity(text.len()), 0u32, false);
    for c in text.chars() {
        match c {
            _ if std::mem::take(&mut escaped) => {}
            '\\' if depth > 0 => escaped = true,
            '(' => depth += 1,
            ')' if depth > 0 => depth -= 1,
            _ if depth > 0 => {}
            _ => out.push(c),
        }
    }
    Cow::Owned(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_trusted_sealers_vouch_and_for_that_domain_alone() {
        let chain = |sealers: &[&str], results: &str| Chain {
            sealers: sealers.iter().map(|s| (*s).to_owned()).collect(),
            first_results: results.to_owned(),
        };
        let trusted = ["lists.example".to_owned(), "Mail.example".to_owned()];
        let good = "i=1; mx.mail.example; spf=pass smtp.mailfrom=x@bank.example; \
                    dmarc=pass (p=REJECT; x) header.from=bank.example";
        for sealers in [&["lists.example"][..], &["mx.mail.example", "lists.example"]] {
            assert!(chain(sealers, good).vouches_for("bank.example", &trusted), "{sealers:?}");
        }
        for (sealers, results) in [
            (&["evil.example"][..], good),
            (&["evil.example", "lists.example"], good),
            (&["lists.example", "evil.example"], good),
            (&["evillists.example"], good),
            (&[], good),
            (&["lists.example"], "i=1; m; dmarc=fail header.from=bank.example"),
            (&["lists.example"], "i=1; m; dmarc=pass header.from=evil.example"),
            (&["lists.example"], "i=1; m; dmarc=pass"),
            (&["lists.example"], "i=1; m; (dmarc=pass header.from=bank.example)"),
            (&["lists.example"], "i=1; m; spf=pass dmarc=pass header.from=bank.example"),
            (
                &["lists.example"],
                "i=1; m; dmarc=pass header.from=evil.example header.from=bank.example",
            ),
            (&["lists.example"], "i=1; m; dmarc=fail; dmarc=pass header.from=bank.example"),
            (&["lists.example"], ""),
        ] {
            let chain = chain(sealers, results);
            assert!(!chain.vouches_for("bank.example", &trusted), "{chain:?}");
        }
        assert!(!chain(&["lists.example"], good).vouches_for("bank.example", &[]));
        assert!(!chain(&["lists.example"], good).vouches_for("bank.example", &[String::new()]));
    }
}
