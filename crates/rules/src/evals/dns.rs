//! Rules that ask the DNS: answered from what was looked up before the scan.
//!
//! Two kinds of facts answer: what was asked because of the rule itself (`rule_answers`, by the
//! question's text), and the listings of lists that the node asks anyway, for the same subjects.

use std::net::{IpAddr, Ipv4Addr};

use gauntlet_mail::facts::Listing;

use super::asking::{Plan, sender_domains};
use super::auth::facts;
use super::{Args, EvalContext, net};
use crate::questions::RecordType;

/// `check_rbl(set, zone, [subtest])`: a relay's address is listed.
pub(super) fn relay_listed(cx: &EvalContext<'_>, args: &Args) -> bool {
    let plans = args.word(0).map_or(&[][..], |set| cx.tables.set(set));
    let zone = bare_zone(args.word(1));
    let of_zone = plans.iter().filter(|p| matches!(p, Plan::Relays { zone: z, .. } if *z == zone));
    any_answer(cx, of_zone, args.word(2))
        || listings(cx, &zone).any(|l| is_address(l) && listing_passes(l, args.word(2)))
}

/// `check_rbl_txt(set, zone, [subtest])`: the same, by the answer's text.
pub(super) fn relay_listed_text(cx: &EvalContext<'_>, args: &Args) -> bool {
    let plans = args.word(0).map_or(&[][..], |set| cx.tables.set(set));
    let passes = |text: &str| args.word(2).is_none_or(|t| pattern_matches(t, text));
    let texts = plans.iter().filter(|p| matches!(p, Plan::Relays { kind: RecordType::Txt, .. }));
    let mut texts = texts.flat_map(|plan| plan.questions(cx));
    texts.any(|q| answers_to(cx, &q.to_string()).iter().any(|a| passes(a)))
        || listings(cx, &bare_zone(args.word(1))).any(|l| {
            let text = l.text.as_deref().unwrap_or_default();
            !text.is_empty() && passes(text)
        })
}

/// `check_rbl_sub(set, subtest)`: an answer of a list that another rule asks.
pub(super) fn sub_listed(cx: &EvalContext<'_>, args: &Args) -> bool {
    let plans = args.word(0).map_or(&[][..], |set| cx.tables.set(set));
    let zones = plans.iter().filter_map(|plan| match plan {
        Plan::Relays { zone, .. } | Plan::Senders { zone, .. } => Some(zone),
        _ => None,
    });
    any_answer(cx, plans.iter(), args.word(1))
        || zones.flat_map(|zone| listings(cx, zone)).any(|l| listing_passes(l, args.word(1)))
}

/// `check_rbl_from_host(set, zone, [subtest])`, `check_rbl_from_domain`, `check_rbl_envfrom`,
/// `check_rbl_headers`: a sender's domain is listed.
pub(super) fn sender_listed(cx: &EvalContext<'_>, args: &Args) -> bool {
    let plans = args.word(0).map_or(&[][..], |set| cx.tables.set(set));
    let zone = bare_zone(args.word(1));
    let of_zone = plans.iter().filter(|p| matches!(p, Plan::Senders { zone: z, .. } if *z == zone));
    any_answer(cx, of_zone, args.word(2))
        || listings(cx, &zone).any(|l| !is_address(l) && listing_passes(l, args.word(2)))
}

/// `check_uridnsbl(NAME)`: the zone that a `urirhssub`, `urirhsbl`, `uridnssub`, `uridnsbl` or
/// `urinsrhssub` line of this name asks has listed a host of the message.
pub(super) fn uri_listed(cx: &EvalContext<'_>, args: &Args) -> bool {
    let Some((plan, test)) = args.word(0).and_then(|name| cx.tables.uri_query(name)) else {
        return false;
    };
    let Plan::Links { zone, .. } = plan else { return false };
    any_answer(cx, std::iter::once(plan), test.as_deref())
        || listings(cx, zone).any(|l| listing_passes(l, test.as_deref()))
}

/// `askdns`: the answer to the rule's own question passes its filter. The first argument is the
/// rule's name.
pub(super) fn template_answered(cx: &EvalContext<'_>, args: &Args) -> bool {
    let Some((plan, filter)) = args.word(0).and_then(|name| cx.tables.template(name)) else {
        return false;
    };
    plan.questions(cx).iter().any(|question| {
        let answers = answers_to(cx, &question.to_string());
        answers.iter().any(|a| match &args.pattern {
            Some(pattern) => pattern.is_match(a.as_bytes()),
            None => passes(a, filter.as_deref()),
        })
    })
}

/// `check_dns_sender()`: a sender's domain has neither mail servers nor addresses.
pub(super) fn sender_without_dns(cx: &EvalContext<'_>, _: &Args) -> bool {
    let Some(facts) = facts(cx) else { return false };
    let nothing = |kind: RecordType, domain: &str| {
        let question = format!("{} {domain}", kind.name());
        facts.rule_answers.iter().any(|a| a.question == question && a.answers.is_empty())
    };
    !facts.rule_answers.is_empty()
        && sender_domains(cx)
            .iter()
            .any(|d| nothing(RecordType::Mx, d) && nothing(RecordType::A, d))
}

/// A zone as plans and listings have it.
pub(super) fn bare_zone(zone: Option<&str>) -> String {
    zone.unwrap_or_default().trim_matches('.').to_ascii_lowercase()
}

fn is_address(listing: &Listing) -> bool {
    net::address(listing.subject.as_bytes()).is_some()
}

fn listings<'a>(cx: &EvalContext<'a>, zone: &str) -> impl Iterator<Item = &'a Listing> + use<'a> {
    let zone = zone.to_owned();
    let all = facts(cx).map_or(&[][..], |f| &f.listings);
    all.iter().filter(move |l| l.zone.trim_end_matches('.').eq_ignore_ascii_case(&zone))
}

fn answers_to<'a>(cx: &EvalContext<'a>, question: &str) -> &'a [String] {
    let all = facts(cx).map_or(&[][..], |f| &f.rule_answers);
    all.iter().find(|a| a.question == question).map_or(&[], |a| &a.answers)
}

/// An answer to a question of these plans passes the subtest.
fn any_answer<'p>(
    cx: &EvalContext<'_>,
    plans: impl Iterator<Item = &'p Plan>,
    test: Option<&str>,
) -> bool {
    // Most mail is on no list: then nothing is worked out.
    if facts(cx).is_none_or(|f| f.rule_answers.is_empty()) {
        return false;
    }
    plans.flat_map(|plan| plan.questions(cx)).any(|question| {
        let answers = answers_to(cx, &question.to_string());
        answers.iter().any(|answer| match question.kind {
            RecordType::A => list_answer_passes(answer, test),
            _ => test.is_none_or(|t| pattern_matches(t, answer)),
        })
    })
}

fn listing_passes(listing: &Listing, test: Option<&str>) -> bool {
    listing.answers.iter().any(|answer| list_answer_passes(answer, test))
}

/// A list's answer is in 127.0.0.0/8, or it is none. What means "you are blocked" passes only a test
/// that names it, never a mask or a range by chance.
fn list_answer_passes(answer: &str, test: Option<&str>) -> bool {
    let Ok(address) = answer.parse::<Ipv4Addr>() else { return passes(answer, test) };
    match address.octets() {
        [127, 255, 255, _] => {
            test.is_some_and(|t| t == answer || (t.contains('\\') && pattern_matches(t, answer)))
        }
        [127, ..] => passes(answer, test),
        _ => false,
    }
}

/// Whether an answer passes a subtest: none takes any answer, a number is a bit mask over the
/// address, an address or a range of addresses must contain it, anything else is a pattern.
fn passes(answer: &str, test: Option<&str>) -> bool {
    let Some(test) = test.filter(|t| !t.is_empty()) else { return true };
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
}

fn pattern_matches(pattern: &str, text: &str) -> bool {
    crate::pattern::Pattern::new(pattern).is_ok_and(|p| p.is_match(text.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subtests() {
        for (answer, test, hits) in [
            ("127.0.0.4", None, true),
            ("127.0.0.4", Some("127.0.0.4"), true),
            ("127.0.0.4", Some("127.0.0.2"), false),
            ("127.0.0.4", Some("4"), true),
            ("127.0.0.4", Some("2"), false),
            ("127.0.0.4", Some("127.0.0.4-127.0.0.8"), true),
            ("127.0.0.4", Some("127.0.0.5-127.0.0.8"), false),
            ("127.0.0.4", Some("^127\\.0\\.0\\.[4567]$"), true),
            ("127.0.0.4", Some("127.0.0.0/255.255.255.0"), true),
            // Blocked, and no answer of a list at all.
            ("127.255.255.254", None, false),
            ("127.255.255.254", Some("2"), false),
            ("127.255.255.254", Some("127.0.0.0-127.255.255.255"), false),
            ("127.255.255.254", Some("127.255.255.254"), true),
            ("127.255.255.254", Some("^127\\.255\\.255\\.254$"), true),
            ("192.0.2.1", None, false),
        ] {
            assert_eq!(list_answer_passes(answer, test), hits, "{answer} {test:?}");
        }
    }
}
