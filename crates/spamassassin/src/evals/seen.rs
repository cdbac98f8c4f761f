//! What an eval function looks at: the evidence of its hits.
//!
//! A function answers yes or no; why is in its source. What a person wants to see is what it judged: the
//! field's value, or which view it read. This table names that for each function, so that functions
//! need not carry evidence along, and messages that hit nothing pay nothing for it.

use gauntlet_mail::{Evidence, View};

use crate::views::Views;
use gauntlet_rules::rule::HeaderSelector;

/// What a function looks at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Seen {
    /// Header values, by selector; the first that is there is shown.
    Header(&'static [&'static str]),
    /// The header that its first argument names.
    Named,
    /// One of the views as a whole.
    View(View),
}

/// The relays that are not trusted, newest first.
const UNTRUSTED: &str = "X-Spam-Relays-Untrusted";
const RELAYS: Seen = Seen::Header(&[UNTRUSTED, "Received"]);
const RECEIVED: Seen = Seen::Header(&["Received"]);
const SENDER: Seen = Seen::Header(&["From", "EnvelopeFrom"]);
const RECIPIENTS: Seen = Seen::Header(&["ToCc", "EnvelopeTo"]);
const SUBJECT: Seen = Seen::Header(&["Subject"]);

/// Where most functions of a group look, by what their names contain. The first that fits counts.
const BY_NAME: [(&str, Seen); 41] = [
    ("freemail_header", Seen::Named),
    ("header_count_range", Seen::Named),
    ("illegal_chars", Seen::Named),
    ("freemail_body", Seen::View(View::SaBody)),
    ("freemail_replyto", Seen::Header(&["Reply-To", "From"])),
    ("freemail", SENDER),
    ("dkim", Seen::View(View::Facts)),
    ("spf", Seen::View(View::Facts)),
    ("dmarc", Seen::View(View::Facts)),
    ("arc_", Seen::View(View::Facts)),
    ("rbl", Seen::View(View::Facts)),
    ("uridnsbl", Seen::View(View::Facts)),
    ("dns_sender", Seen::View(View::Facts)),
    ("bayes", Seen::View(View::Feature)),
    ("subject_id", SUBJECT),
    ("to_in_subject", Seen::Header(&["Subject", "To"])),
    ("title_subject", Seen::View(View::Html)),
    ("subject", SUBJECT),
    ("html", Seen::View(View::Html)),
    ("iframe", Seen::View(View::Html)),
    ("https", Seen::View(View::Html)),
    ("uri", Seen::View(View::Url)),
    ("redirector", Seen::View(View::Url)),
    ("image", Seen::View(View::Attachment)),
    ("pixel", Seen::View(View::Attachment)),
    ("message_id", Seen::Header(&["Message-Id"])),
    ("messageid", Seen::Header(&["Message-Id", "Received"])),
    ("name_id", Seen::Header(&["Message-Id", "From"])),
    ("shifted_date", Seen::Header(&["Date"])),
    ("months", RECEIVED),
    ("replyto_in", Seen::Header(&["Reply-To"])),
    ("to_header", RECIPIENTS),
    ("check_to_in", RECIPIENTS),
    ("recipients", RECIPIENTS),
    ("equal_from_domains", SENDER),
    ("from_in", SENDER),
    ("forged_in", SENDER),
    ("hdr_from", SENDER),
    ("ratware_envelope_from", Seen::Header(&["EnvelopeFrom", "To"])),
    ("charset_in_headers", Seen::Header(&["Subject", "From"])),
    ("unresolved_template", Seen::Header(&["ALL"])),
];

/// Words in the names of functions that look at the path of the message.
const OF_RELAYS: [&str; 10] =
    ["received", "rcvd", "relays", "helo", "rdns", "trusted", "reverse", "trail", "hotmail", "msn"];

/// What the function of this name looks at.
pub(super) fn seen(function: &str) -> Seen {
    let by_name = BY_NAME.iter().find(|(part, _)| function.contains(part));
    by_name.map_or_else(
        || match OF_RELAYS.iter().any(|part| function.contains(part)) {
            true => RELAYS,
            false => Seen::View(View::SaBody),
        },
        |(_, seen)| *seen,
    )
}

/// What the function saw; `call` is how the rule calls it.
pub(super) fn evidence(seen: Seen, first: Option<&str>, call: &str, views: &Views<'_>) -> Evidence {
    let named = [first.unwrap_or_default()];
    let selectors: &[&str] = match seen {
        Seen::Header(selectors) => selectors,
        Seen::Named => &named,
        Seen::View(view) => return Evidence::new(view, 0, 0, b"").named(call),
    };
    let value = |name: &&str| {
        let value = views.header(&HeaderSelector::parse(name))?;
        Some(Evidence::new(View::Header, 0, 0, value.trim_ascii_end()).named(name))
    };
    let missing = || {
        let name = selectors.first().copied().unwrap_or_default();
        Evidence::new(View::Header, 0, 0, b"").named(name)
    };
    selectors.iter().find_map(value).unwrap_or_else(missing)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_are_found_by_their_names() {
        assert_eq!(seen("check_freemail_header"), Seen::Named);
        assert_eq!(seen("check_freemail_from"), SENDER);
        assert_eq!(seen("check_for_spf_fail"), Seen::View(View::Facts));
        assert_eq!(seen("html_image_only"), Seen::View(View::Html));
        assert_eq!(seen("image_count"), Seen::View(View::Attachment));
        assert_eq!(seen("check_for_forged_juno_received_headers"), RELAYS);
        assert_eq!(seen("subject_is_all_caps"), SUBJECT);
        assert_eq!(seen("check_uri_host_listed"), Seen::View(View::Url));
        assert_eq!(seen("plaintext_body_length"), Seen::View(View::SaBody));
        assert_eq!(seen("check_for_missing_to_header"), RECIPIENTS);
    }
}
