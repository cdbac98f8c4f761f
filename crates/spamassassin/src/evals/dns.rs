//! DNS rules: evaluated on what was looked up before the scan.
//!
//! Two kinds of facts are used: answers to the rules' own questions (`rule_answers`, by the
//! question's text), and the results of the DNS lists that the node queries anyway, for the same
//! subjects.

use std::net::Ipv4Addr;

use gauntlet_mail::facts::Listing;

use gauntlet_rules::RecordType;

use super::args::Args;
use super::auth::facts;
use super::context::EvalContext;
use super::dns_questions::is_accredited;
use super::net;
use super::plan::{Plan, bare_zone};
use super::senders::sender_domains;

/// `check_rbl(set, zone, [subtest])`: a relay's address is listed.
pub(super) fn relay_listed(cx: &EvalContext<'_>, args: &Args) -> bool {
    let plans = args.word(0).map_or(&[][..], |set| cx.tables.set(set));
    let zone = bare_zone(args.word(1));
    let of_zone = plans.iter().filter(|p| matches!(p, Plan::Relays { zone: z, .. } if *z == zone));
    any_answer(cx, of_zone, args.word(2))
        || listings(cx, &zone).any(|l| is_address(l) && listing_passes(l, args.word(2)))
}

/// `check_rbl_accreditor(set, zone, subtest, accreditor)`: the same, if the message names this
/// accreditor.
pub(super) fn accredited_listed(cx: &EvalContext<'_>, args: &Args) -> bool {
    let accreditor = args.word(3).unwrap_or_default().to_ascii_lowercase();
    is_accredited(cx, &accreditor) && relay_listed(cx, args)
}

/// `check_rbl_rcvd(set, zone, [subtest])`: the first hop's address or a name of it is listed.
pub(super) fn first_hop_listed(cx: &EvalContext<'_>, args: &Args) -> bool {
    let plans = args.word(0).map_or(&[][..], |set| cx.tables.set(set));
    let zone = bare_zone(args.word(1));
    let of_zone =
        plans.iter().filter(|p| matches!(p, Plan::FirstHop { zone: z, .. } if *z == zone));
    any_answer(cx, of_zone, args.word(2))
}

/// `check_rbl_ns_from(set, zone, [subtest])`: a name server of the envelope sender's domain is
/// listed.
pub(super) fn authority_listed(cx: &EvalContext<'_>, args: &Args) -> bool {
    let plans = args.word(0).map_or(&[][..], |set| cx.tables.set(set));
    let zone = bare_zone(args.word(1));
    let of_zone = plans.iter().filter(|p| matches!(p, Plan::Authorities { zone: z } if *z == zone));
    any_answer(cx, of_zone, args.word(2))
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

/// `check_rbl_sub(set, subtest)`: an answer of a list that another rule queries.
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

/// `check_uridnsbl(NAME)`: a host of the message is listed in the zone of the `urirhssub`,
/// `urirhsbl`, `uridnssub`, `uridnsbl` or `urinsrhssub` line of this name.
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
        answers.iter().any(|a| match (&args.pattern, filter.as_deref()) {
            (Some(pattern), _) => pattern.is_match(a.as_bytes()),
            (None, None) => true,
            (None, Some(codes)) if question.status => names_code(codes, a),
            (None, Some(filter)) => template_passes(a, filter),
        })
    })
}

/// Whether a list such as `[NXDOMAIN, 5]` has this response code.
fn names_code(codes: &str, code: &str) -> bool {
    let number = CODES.iter().find(|(name, _)| *name == code).map_or("", |(_, number)| number);
    let inner = codes.trim().trim_start_matches('[').trim_end_matches(']');
    inner.split(',').map(str::trim).any(|c| c.eq_ignore_ascii_case(code) || c == number)
}

/// Response codes that the resolver distinguishes, with their numbers (RFC 6895 section 2.3).
const CODES: [(&str, &str); 4] =
    [("NOERROR", "0"), ("SERVFAIL", "2"), ("NXDOMAIN", "3"), ("REFUSED", "5")];

/// Whether an answer passes the filter of an `askdns` rule: the text itself, with or without
/// quotes; of addresses also a range `n1-n2`, a value under a mask `n/m`, or bits `n` of one in
/// 127.0.0.0/8.
fn template_passes(answer: &str, filter: &str) -> bool {
    let filter = filter.trim();
    for quote in ['"', '\''] {
        if let Some(inner) = filter.strip_prefix(quote).and_then(|f| f.strip_suffix(quote)) {
            return answer == inner;
        }
    }
    if answer == filter {
        return true;
    }
    let Ok(address) = answer.parse::<Ipv4Addr>() else { return false };
    let bits = address.to_bits();
    let range = filter.split_once('-').map(|(low, high)| (value_of(low), value_of(high)));
    let masked = filter.split_once('/').map(|(value, mask)| (value_of(value), value_of(mask)));
    match (range, masked) {
        (Some((Some(low), Some(high))), _) => (low..=high).contains(&bits),
        (_, Some((Some(value), Some(mask)))) => bits & mask == value & mask,
        _ if filter.contains('.') => false,
        _ => value_of(filter).is_some_and(|mask| address.octets()[0] == 127 && bits & mask != 0),
    }
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
    // Most mail is on no list: then no question needs to be built.
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

/// Answers of a list outside 127.0.0.0/8 do not count. An answer that means "you are blocked"
/// passes only a subtest that names it, never a mask or a range.
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

/// Whether an answer passes a subtest: `None` takes any answer, a number is a bit mask over the
/// address, an address or a range of addresses must contain it, anything else is a pattern.
fn passes(answer: &str, test: Option<&str>) -> bool {
    let Some(test) = test.filter(|t| !t.is_empty()) else { return true };
    let Some(bits) = number(answer) else { return pattern_matches(test, answer) };
    if let Some(exact) = number(test) {
        return bits == exact;
    }
    if let Some(mask) = digits(test) {
        // Masks apply to the address without its leading 127.
        return bits & 0x00ff_ffff & mask != 0;
    }
    if let Some((low, high)) = test.split_once('-')
        && let (Some(low), Some(high)) = (value_of(low), value_of(high))
    {
        let last = if high < 1 << 24 { bits & 0x00ff_ffff } else { bits };
        return (low..=high).contains(&last);
    }
    if let Some((wanted, mask)) = test.split_once('/')
        && let (Some(wanted), Some(mask)) = (value_of(wanted), value_of(mask))
    {
        return bits & mask == wanted & mask;
    }
    pattern_matches(test, answer)
}

/// An IPv4 address as a number.
fn number(text: &str) -> Option<u32> {
    text.parse::<Ipv4Addr>().ok().map(Ipv4Addr::to_bits)
}

/// A number in decimal or (`0x`) hexadecimal digits.
fn digits(text: &str) -> Option<u32> {
    match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(hex) => u32::from_str_radix(hex, 16).ok(),
        None => text.parse().ok(),
    }
}

/// A number as subtests write it.
fn value_of(text: &str) -> Option<u32> {
    number(text).or_else(|| digits(text))
}

fn pattern_matches(pattern: &str, text: &str) -> bool {
    gauntlet_rules::pattern::Pattern::new(pattern).is_ok_and(|p| p.is_match(text.as_bytes()))
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
            // "You are blocked", and an address that is no list's answer.
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

    #[test]
    fn filters_of_templates() {
        for (answer, filter, hits) in [
            ("127.0.0.4", "127.0.0.4", true),
            ("127.0.0.4", "127.0.0.5", false),
            ("127.0.0.4", "4", true),
            ("127.0.0.4", "0x4", true),
            ("192.0.2.4", "4", false),
            ("192.0.2.4", "192.0.2.0-192.0.2.9", true),
            ("192.0.2.4", "0.0.0.4/0.0.0.4", true),
            ("192.0.2.4", "0.0.0.8/0.0.0.8", false),
            ("some \"text\"", "'some \"text\"'", true),
            ("some text", "\"other\"", false),
        ] {
            assert_eq!(template_passes(answer, filter), hits, "{answer} {filter}");
        }
        assert!(names_code("[NXDOMAIN]", "NXDOMAIN") && names_code("[0, ServFail]", "SERVFAIL"));
        assert!(names_code("[3]", "NXDOMAIN") && !names_code("[NXDOMAIN]", "NOERROR"));
    }
}
