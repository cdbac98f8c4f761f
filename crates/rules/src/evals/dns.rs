//! DNS lists: answered from the listings that were looked up before the scan.

use std::net::IpAddr;

use gauntlet_mail::facts::Listing;

use super::auth::facts;
use super::{Args, EvalContext, net};

/// `check_rbl(set, zone, [subtest])`: a relay's address is listed.
pub(super) fn relay_listed(cx: &EvalContext<'_>, args: &Args) -> bool {
    let Some(zone) = args.word(1) else { return false };
    let test = args.word(2);
    listings(cx, zone).any(|l| net::address(l.subject.as_bytes()).is_some() && answers(l, test))
}

/// `check_rbl_txt(set, zone, [subtest])`: the same, by the answer's text.
pub(super) fn relay_listed_text(cx: &EvalContext<'_>, args: &Args) -> bool {
    let Some(zone) = args.word(1) else { return false };
    listings(cx, zone).any(|l| {
        let text = l.text.as_deref().unwrap_or_default();
        !text.is_empty() && args.word(2).is_none_or(|t| pattern_matches(t, text))
    })
}

/// `check_rbl_sub(set, subtest)`: an answer of a list that another rule asks.
pub(super) fn sub_listed(cx: &EvalContext<'_>, args: &Args) -> bool {
    let zone = args.word(0).and_then(|set| cx.tables.zone(set));
    zone.is_some_and(|zone| listings(cx, zone).any(|l| answers(l, args.word(1))))
}

/// `check_rbl_from_host(set, zone, [subtest])`, `check_rbl_from_domain`, `check_rbl_envfrom`,
/// `check_rbl_headers`: a sender's domain is listed.
pub(super) fn sender_listed(cx: &EvalContext<'_>, args: &Args) -> bool {
    let Some(zone) = args.word(1) else { return false };
    let test = args.word(2);
    listings(cx, zone).any(|l| net::address(l.subject.as_bytes()).is_none() && answers(l, test))
}

/// `check_uridnsbl(NAME)`: the zone that a `urirhssub`, `urirhsbl`, `uridnssub`, `uridnsbl` or
/// `urinsrhssub` line of this name asks has listed a host of the message.
pub(super) fn uri_listed(cx: &EvalContext<'_>, args: &Args) -> bool {
    let query = args.word(0).and_then(|name| cx.tables.uri_query(name));
    query.is_some_and(|(zone, test)| listings(cx, zone).any(|l| answers(l, test.as_deref())))
}

fn listings<'a>(cx: &EvalContext<'a>, zone: &str) -> impl Iterator<Item = &'a Listing> {
    let zone = zone.trim_end_matches('.').to_ascii_lowercase();
    let all = facts(cx).map_or(&[][..], |f| &f.listings);
    all.iter().filter(move |l| l.zone.trim_end_matches('.').eq_ignore_ascii_case(&zone))
}

/// Whether an answer passes a subtest: none takes any answer, a number is a bit mask over the
/// address, an address or a range of addresses must contain it, anything else is a pattern.
fn answers(listing: &Listing, test: Option<&str>) -> bool {
    let Some(test) = test.filter(|t| !t.is_empty()) else { return !listing.answers.is_empty() };
    let number = |text: &str| -> Option<u32> {
        match text.parse::<IpAddr>() {
            Ok(IpAddr::V4(v4)) => Some(v4.to_bits()),
            _ => None,
        }
    };
    let digits = |text: &str| -> Option<u32> {
        match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
            Some(hex) => u32::from_str_radix(hex, 16).ok(),
            None => text.parse().ok(),
        }
    };
    let value = |text: &str| number(text).or_else(|| digits(text));
    listing.answers.iter().any(|answer| {
        let Some(bits) = number(answer) else { return pattern_matches(test, answer) };
        if let Some(exact) = number(test) {
            return bits == exact;
        }
        if let Some(mask) = digits(test) {
            // Masks apply to the address without its leading 127.
            return bits & 0x00ff_ffff & mask != 0;
        }
        if let Some((low, high)) = test.split_once('-')
            && let (Some(low), Some(high)) = (value(low), value(high))
        {
            let last = if high < 1 << 24 { bits & 0x00ff_ffff } else { bits };
            return (low..=high).contains(&last);
        }
        if let Some((value_of, mask)) = test.split_once('/')
            && let (Some(wanted), Some(mask)) = (value(value_of), value(mask))
        {
            return bits & mask == wanted & mask;
        }
        pattern_matches(test, answer)
    })
}

fn pattern_matches(pattern: &str, text: &str) -> bool {
    crate::pattern::Pattern::new(pattern).is_ok_and(|p| p.is_match(text.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subtests() {
        let listing = Listing {
            zone: "zen.example".into(),
            subject: "192.0.2.1".into(),
            answers: vec!["127.0.0.4".into()],
            text: None,
            points: 0.0,
        };
        for (test, passes) in [
            (None, true),
            (Some("127.0.0.4"), true),
            (Some("127.0.0.2"), false),
            (Some("4"), true),
            (Some("2"), false),
            (Some("127.0.0.4-127.0.0.8"), true),
            (Some("127.0.0.5-127.0.0.8"), false),
            (Some("^127\\.0\\.0\\.[4567]$"), true),
            (Some("127.0.0.0/255.255.255.0"), true),
        ] {
            assert_eq!(answers(&listing, test), passes, "{test:?}");
        }
    }
}
