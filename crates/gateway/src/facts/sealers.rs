//! Whose word about mail that was passed on counts (ARC, RFC 8617 section 7.2).
//!
//! A valid chain proves who said something, not that it is true: anybody can seal. What its first
//! sealer found counts if every sealer is trusted by the configuration, since each could have
//! changed the mail.

use gauntlet_mail::auth_results;
use gauntlet_mail::facts::AuthResult;

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
/// `dmarc`. Behind the instance (`i=1`) they are those of any other field.
fn passes_dmarc(results: &str, from: &str) -> bool {
    let results = results.split_once(';').map_or("", |(_, results)| results);
    let results = auth_results::results(results);
    let mut found = results.iter().filter(|result| result.method == "dmarc");
    let (Some(dmarc), None) = (found.next(), found.next()) else { return false };
    dmarc.result == AuthResult::Pass && dmarc.domain("header.from").as_deref() == Some(from)
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
            (&["lists.example"], "i=1; m; x=\"; dmarc=pass header.from=bank.example\""),
            (&["lists.example"], ""),
        ] {
            let chain = chain(sealers, results);
            assert!(!chain.vouches_for("bank.example", &trusted), "{chain:?}");
        }
        assert!(!chain(&["lists.example"], good).vouches_for("bank.example", &[]));
        assert!(!chain(&["lists.example"], good).vouches_for("bank.example", &[String::new()]));
    }
}
