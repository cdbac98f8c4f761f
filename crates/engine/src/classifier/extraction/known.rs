//! What is known of domains and header fields whoever uses them, so that a model learns of the kind
//! and not of each: what it has learned of one cheap top-level domain holds for the next.

use std::collections::HashSet;
use std::sync::LazyLock;

/// Header fields that services which send for others write, and web servers and web mail. Mailing
/// lists and receivers write none of them.
pub(super) const SERVICE_FIELDS: [&str; 31] = [
    "list-unsubscribe-post",
    "feedback-id",
    "auto-submitted",
    "x-auto-response-suppress",
    "x-ses-outgoing",
    "x-sg-eid",
    "x-sg-id",
    "x-mailgun-sid",
    "x-mandrill-user",
    "x-mc-user",
    "x-msys-api",
    "x-job",
    "x-campaign",
    "x-campaignid",
    "x-report-abuse",
    "x-report-abuse-to",
    "x-csa-complaints",
    "x-entity-id",
    "x-entity-ref-id",
    "x-pm-message-id",
    "x-roving-id",
    "x-cid",
    "x-php-originating-script",
    "x-mailin-campaign",
    "x-originating-ip",
    "x-antiabuse",
    "x-source",
    "x-authenticated-sender",
    "x-get-message-sender-via",
    "content-language",
    "thread-topic",
];

static CHEAP: LazyLock<HashSet<&str>> =
    LazyLock::new(|| lines(include_str!("../../../data/odd_tlds.txt")));
static FREE_MAIL: LazyLock<HashSet<&str>> =
    LazyLock::new(|| lines(include_str!("../../../data/freemail.txt")));
static SHORTENERS: LazyLock<HashSet<&str>> =
    LazyLock::new(|| lines(include_str!("../../../data/shorteners.txt")));
static FREE_HOSTING: LazyLock<HashSet<&str>> =
    LazyLock::new(|| lines(include_str!("../../../data/free_hosting.txt")));

fn lines(text: &'static str) -> HashSet<&'static str> {
    text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')).collect()
}

/// The last label of a domain. Those that cost next to nothing are one; so are all countries, since
/// where a message comes from is no mark of anything.
pub(super) fn top_level(domain: &str) -> &str {
    match domain.rsplit('.').next().unwrap_or_default() {
        top if CHEAP.contains(top) => "cheap",
        top if top.len() == 2 => "of a country",
        top => top,
    }
}

/// Whether anybody gets an address there for nothing.
pub(super) fn is_free_mail(domain: &str) -> bool {
    FREE_MAIL.contains(domain)
}

/// What a linked domain is to everybody, if anything.
pub(super) fn service_of(domain: &str) -> Option<&'static str> {
    if SHORTENERS.contains(domain) {
        return Some("a shortener");
    }
    FREE_HOSTING.contains(domain).then_some("free hosting")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_of_domains() {
        assert_eq!(
            ["a.com", "a.co.th", "a.icu", "a.su"].map(top_level),
            ["com", "of a country", "cheap", "cheap"]
        );
        assert!(is_free_mail("gmail.com") && !is_free_mail("shop.com"));
        assert_eq!(service_of("tinyurl.com"), Some("a shortener"));
        assert_eq!(service_of("shop.com"), None);
    }
}
