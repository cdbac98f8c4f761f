//! What an eval function examines: the evidence of its hits.
//!
//! A function returns only whether it hits. The evidence for users is what it examined: the field's
//! value, or the view. This table names that for each function, so that functions need not collect
//! evidence and messages without hits cost nothing.

use gauntlet_mail::{Evidence, View};

use crate::views::Views;
use gauntlet_rules::rule::HeaderSelector;

/// What a function examines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EvidenceSource {
    /// Header values, by selector; the first that exists is shown.
    Header(&'static [&'static str]),
    /// The header that its first argument names.
    Named,
    /// One of the views as a whole.
    View(View),
}

/// The relays that are not trusted, newest first.
const UNTRUSTED: &str = "X-Spam-Relays-Untrusted";
const RELAYS: EvidenceSource = EvidenceSource::Header(&[UNTRUSTED, "Received"]);
const RECEIVED: EvidenceSource = EvidenceSource::Header(&["Received"]);
const SENDER: EvidenceSource = EvidenceSource::Header(&["From", "EnvelopeFrom"]);
const RECIPIENTS: EvidenceSource = EvidenceSource::Header(&["ToCc", "EnvelopeTo"]);
const SUBJECT: EvidenceSource = EvidenceSource::Header(&["Subject"]);

/// What most functions of a group examine, by parts of their names. The first that matches counts.
const BY_NAME: [(&str, EvidenceSource); 41] = [
    ("freemail_header", EvidenceSource::Named),
    ("header_count_range", EvidenceSource::Named),
    ("illegal_chars", EvidenceSource::Named),
    ("freemail_body", EvidenceSource::View(View::SaBody)),
    ("freemail_replyto", EvidenceSource::Header(&["Reply-To", "From"])),
    ("freemail", SENDER),
    ("dkim", EvidenceSource::View(View::Facts)),
    ("spf", EvidenceSource::View(View::Facts)),
    ("dmarc", EvidenceSource::View(View::Facts)),
    ("arc_", EvidenceSource::View(View::Facts)),
    ("rbl", EvidenceSource::View(View::Facts)),
    ("uridnsbl", EvidenceSource::View(View::Facts)),
    ("dns_sender", EvidenceSource::View(View::Facts)),
    ("bayes", EvidenceSource::View(View::Feature)),
    ("subject_id", SUBJECT),
    ("to_in_subject", EvidenceSource::Header(&["Subject", "To"])),
    ("title_subject", EvidenceSource::View(View::Html)),
    ("subject", SUBJECT),
    ("html", EvidenceSource::View(View::Html)),
    ("iframe", EvidenceSource::View(View::Html)),
    ("https", EvidenceSource::View(View::Html)),
    ("uri", EvidenceSource::View(View::Url)),
    ("redirector", EvidenceSource::View(View::Url)),
    ("image", EvidenceSource::View(View::Attachment)),
    ("pixel", EvidenceSource::View(View::Attachment)),
    ("message_id", EvidenceSource::Header(&["Message-Id"])),
    ("messageid", EvidenceSource::Header(&["Message-Id", "Received"])),
    ("name_id", EvidenceSource::Header(&["Message-Id", "From"])),
    ("shifted_date", EvidenceSource::Header(&["Date"])),
    ("months", RECEIVED),
    ("replyto_in", EvidenceSource::Header(&["Reply-To"])),
    ("to_header", RECIPIENTS),
    ("check_to_in", RECIPIENTS),
    ("recipients", RECIPIENTS),
    ("equal_from_domains", SENDER),
    ("from_in", SENDER),
    ("forged_in", SENDER),
    ("hdr_from", SENDER),
    ("ratware_envelope_from", EvidenceSource::Header(&["EnvelopeFrom", "To"])),
    ("charset_in_headers", EvidenceSource::Header(&["Subject", "From"])),
    ("unresolved_template", EvidenceSource::Header(&["ALL"])),
];

/// Parts of the names of functions that examine the relays of the message.
const OF_RELAYS: [&str; 10] =
    ["received", "rcvd", "relays", "helo", "rdns", "trusted", "reverse", "trail", "hotmail", "msn"];

/// What the function of this name examines.
pub(super) fn source_of(function: &str) -> EvidenceSource {
    let by_name = BY_NAME.iter().find(|(part, _)| function.contains(part));
    by_name.map_or_else(
        || match OF_RELAYS.iter().any(|part| function.contains(part)) {
            true => RELAYS,
            false => EvidenceSource::View(View::SaBody),
        },
        |(_, source_of)| *source_of,
    )
}

/// The evidence of a function's hit; `call` is the call as the rule writes it.
pub(super) fn evidence(
    source_of: EvidenceSource,
    first: Option<&str>,
    call: &str,
    views: &Views<'_>,
) -> Evidence {
    let named = [first.unwrap_or_default()];
    let selectors: &[&str] = match source_of {
        EvidenceSource::Header(selectors) => selectors,
        EvidenceSource::Named => &named,
        EvidenceSource::View(view) => return Evidence::new(view, 0, 0, b"").named(call),
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
        assert_eq!(source_of("check_freemail_header"), EvidenceSource::Named);
        assert_eq!(source_of("check_freemail_from"), SENDER);
        assert_eq!(source_of("check_for_spf_fail"), EvidenceSource::View(View::Facts));
        assert_eq!(source_of("html_image_only"), EvidenceSource::View(View::Html));
        assert_eq!(source_of("image_count"), EvidenceSource::View(View::Attachment));
        assert_eq!(source_of("check_for_forged_juno_received_headers"), RELAYS);
        assert_eq!(source_of("subject_is_all_caps"), SUBJECT);
        assert_eq!(source_of("check_uri_host_listed"), EvidenceSource::View(View::Url));
        assert_eq!(source_of("plaintext_body_length"), EvidenceSource::View(View::SaBody));
        assert_eq!(source_of("check_for_missing_to_header"), RECIPIENTS);
    }
}
