//! SPF, DKIM, DMARC, ARC and the classifier: results from before the scan.

use gauntlet_mail::facts::{AuthResult, DkimSignature, DmarcPolicy, Facts};

use super::args::Args;
use super::context::EvalContext;
use gauntlet_rules::Profile;

/// The facts from the network; `None` in the local profile.
pub(super) fn facts<'a>(cx: &EvalContext<'a>) -> Option<&'a Facts> {
    (cx.profile == Profile::Full).then_some(cx.facts)
}

fn spf_is(cx: &EvalContext<'_>, result: AuthResult) -> bool {
    facts(cx).is_some_and(|f| f.spf == result)
}

fn helo_is(cx: &EvalContext<'_>, result: AuthResult) -> bool {
    facts(cx).is_some_and(|f| f.spf_helo == result)
}

/// `check_for_spf_pass()`.
pub(super) fn spf_pass(cx: &EvalContext<'_>, _: &Args) -> bool {
    spf_is(cx, AuthResult::Pass)
}

/// `check_for_spf_neutral()`.
pub(super) fn spf_neutral(cx: &EvalContext<'_>, _: &Args) -> bool {
    spf_is(cx, AuthResult::Neutral)
}

/// `check_for_spf_none()`.
pub(super) fn spf_none(cx: &EvalContext<'_>, _: &Args) -> bool {
    spf_is(cx, AuthResult::None)
}

/// `check_for_spf_fail()`.
pub(super) fn spf_fail(cx: &EvalContext<'_>, _: &Args) -> bool {
    spf_is(cx, AuthResult::Fail)
}

/// `check_for_spf_softfail()`.
pub(super) fn spf_softfail(cx: &EvalContext<'_>, _: &Args) -> bool {
    spf_is(cx, AuthResult::SoftFail)
}

/// `check_for_spf_permerror()`.
pub(super) fn spf_permerror(cx: &EvalContext<'_>, _: &Args) -> bool {
    spf_is(cx, AuthResult::PermError)
}

/// `check_for_spf_temperror()`.
pub(super) fn spf_temperror(cx: &EvalContext<'_>, _: &Args) -> bool {
    spf_is(cx, AuthResult::TempError)
}

/// `check_for_spf_helo_pass()`.
pub(super) fn helo_pass(cx: &EvalContext<'_>, _: &Args) -> bool {
    helo_is(cx, AuthResult::Pass)
}

/// `check_for_spf_helo_neutral()`.
pub(super) fn helo_neutral(cx: &EvalContext<'_>, _: &Args) -> bool {
    helo_is(cx, AuthResult::Neutral)
}

/// `check_for_spf_helo_none()`.
pub(super) fn helo_none(cx: &EvalContext<'_>, _: &Args) -> bool {
    helo_is(cx, AuthResult::None)
}

/// `check_for_spf_helo_fail()`.
pub(super) fn helo_fail(cx: &EvalContext<'_>, _: &Args) -> bool {
    helo_is(cx, AuthResult::Fail)
}

/// `check_for_spf_helo_softfail()`.
pub(super) fn helo_softfail(cx: &EvalContext<'_>, _: &Args) -> bool {
    helo_is(cx, AuthResult::SoftFail)
}

/// `check_for_spf_helo_permerror()`.
pub(super) fn helo_permerror(cx: &EvalContext<'_>, _: &Args) -> bool {
    helo_is(cx, AuthResult::PermError)
}

/// `check_for_spf_helo_temperror()`.
pub(super) fn helo_temperror(cx: &EvalContext<'_>, _: &Args) -> bool {
    helo_is(cx, AuthResult::TempError)
}

/// `check_for_spf_welcomelist_from()`: the envelope sender is listed, and SPF passes.
pub(super) fn spf_welcome(cx: &EvalContext<'_>, _: &Args) -> bool {
    spf_listed(cx, "welcomelist_from_spf", "welcomelist_auth")
}

/// `check_for_def_spf_welcomelist_from()`: the same for the default lists.
pub(super) fn spf_default_welcome(cx: &EvalContext<'_>, _: &Args) -> bool {
    spf_listed(cx, "def_welcomelist_from_spf", "def_welcomelist_auth")
}

fn spf_listed(cx: &EvalContext<'_>, list: &str, addresses: &str) -> bool {
    if !spf_is(cx, AuthResult::Pass) {
        return false;
    }
    let sender = cx.text("EnvelopeFrom:addr").to_ascii_lowercase();
    !sender.is_empty()
        && (cx.tables.relayed(list).iter().any(|entry| entry.address.matches(&sender))
            || cx.tables.addresses(addresses).is_some_and(|list| list.contains(&sender)))
}

/// The signatures that verify.
pub(super) fn valid_signatures<'a>(
    cx: &EvalContext<'a>,
) -> impl Iterator<Item = &'a DkimSignature> {
    let all = facts(cx).map_or(&[][..], |f| &f.dkim);
    all.iter().filter(|s| s.result == AuthResult::Pass)
}

/// Whether a signing domain is one of these; `.example.com` and `*.example.com` match the domain
/// and its subdomains; an empty list matches every domain.
fn is_one_of(domain: &str, wanted: &[String]) -> bool {
    wanted.is_empty()
        || wanted.iter().any(|w| match w.strip_prefix('*').unwrap_or(w).strip_prefix('.') {
            Some(parent) => {
                let head = strip_suffix_no_case(domain, parent);
                head.is_some_and(|h| h.is_empty() || h.ends_with('.'))
            }
            None => domain.eq_ignore_ascii_case(w),
        })
}

fn strip_suffix_no_case<'t>(text: &'t str, suffix: &str) -> Option<&'t str> {
    let at = text.len().checked_sub(suffix.len())?;
    let tail = text.get(at..)?;
    tail.eq_ignore_ascii_case(suffix).then(|| &text[..at])
}

/// `check_dkim_signed([domains...])`.
pub(super) fn dkim_signed(cx: &EvalContext<'_>, args: &Args) -> bool {
    facts(cx).is_some_and(|f| f.dkim.iter().any(|s| is_one_of(&s.domain, &args.words)))
}

/// `check_dkim_valid([domains...])`.
pub(super) fn dkim_valid(cx: &EvalContext<'_>, args: &Args) -> bool {
    valid_signatures(cx).any(|s| is_one_of(&s.domain, &args.words))
}

/// `check_dkim_valid_author_sig([domains...])`: signed by the domain of a From address.
pub(super) fn dkim_author(cx: &EvalContext<'_>, args: &Args) -> bool {
    valid_signatures(cx)
        .any(|s| is_one_of(&s.domain, &args.words) && from_domains(cx).any(|d| same(&s.domain, &d)))
}

fn same(domain: &str, other: &[u8]) -> bool {
    domain.as_bytes().eq_ignore_ascii_case(other)
}

fn from_domains<'a>(cx: &'a EvalContext<'_>) -> impl Iterator<Item = Vec<u8>> + 'a {
    cx.values("From:addr")
        .iter()
        .filter_map(|address| memchr::memrchr(b'@', address).map(|at| address[at + 1..].to_vec()))
}

/// `check_dkim_valid_envelopefrom()`: signed by the domain of the envelope sender.
pub(super) fn dkim_envelope(cx: &EvalContext<'_>, _: &Args) -> bool {
    let sender = cx.text("EnvelopeFrom:addr");
    let Some(at) = memchr::memchr(b'@', &sender) else { return false };
    valid_signatures(cx).any(|s| same(&s.domain, &sender[at + 1..]))
}

/// `check_dkim_dependable()`: the signatures could be verified.
pub(super) fn dkim_dependable(cx: &EvalContext<'_>, _: &Args) -> bool {
    facts(cx).is_some_and(|f| {
        let mut all = f.dkim.iter();
        !f.dkim.is_empty()
            && !all.any(|s| matches!(s.result, AuthResult::Unknown | AuthResult::TempError))
    })
}

/// `check_for_dkim_welcomelist_from()`: a From address is listed with a domain that signed.
pub(super) fn dkim_welcome(cx: &EvalContext<'_>, _: &Args) -> bool {
    dkim_listed(cx, "welcomelist_from_dkim", "welcomelist_auth")
}

/// `check_for_def_dkim_welcomelist_from()`: the same for the default lists.
pub(super) fn dkim_default_welcome(cx: &EvalContext<'_>, _: &Args) -> bool {
    dkim_listed(cx, "def_welcomelist_from_dkim", "def_welcomelist_auth")
}

fn dkim_listed(cx: &EvalContext<'_>, list: &str, addresses: &str) -> bool {
    /// Signatures with shorter keys do not count, in bits.
    const KEY_BITS_MIN: u16 = 1024;
    let strong: Vec<&DkimSignature> =
        valid_signatures(cx).filter(|s| s.key_bits == 0 || s.key_bits >= KEY_BITS_MIN).collect();
    if strong.is_empty() {
        return false;
    }
    cx.values("From:addr").iter().map(|a| a.to_ascii_lowercase()).any(|author| {
        let domain = memchr::memrchr(b'@', &author).map_or(&[][..], |at| &author[at + 1..]);
        let by_author = || strong.iter().any(|s| same(&s.domain, domain));
        let by = |voucher: &[u8]| {
            let wanted = voucher.rsplit(|&b| b == b'@').next().unwrap_or_default();
            match wanted.strip_prefix(b"*").unwrap_or(wanted).strip_prefix(b".") {
                Some(parent) => {
                    let below = [b".", parent].concat();
                    strong
                        .iter()
                        .any(|s| s.domain.to_ascii_lowercase().as_bytes().ends_with(&below))
                }
                None => strong.iter().any(|s| same(&s.domain, wanted)),
            }
        };
        let listed = cx.tables.relayed(list).iter().filter(|entry| entry.address.matches(&author));
        listed.flat_map(|e| &e.vouchers).any(|v| if v.is_empty() { by_author() } else { by(v) })
            || (cx.tables.addresses(addresses).is_some_and(|l| l.contains(&author)) && by_author())
    })
}

/// `check_arc_signed()`.
pub(super) fn arc_signed(cx: &EvalContext<'_>, _: &Args) -> bool {
    facts(cx).is_some_and(|f| !matches!(f.arc, AuthResult::Unknown | AuthResult::None))
}

/// `check_arc_valid()`.
pub(super) fn arc_valid(cx: &EvalContext<'_>, _: &Args) -> bool {
    facts(cx).is_some_and(|f| f.arc == AuthResult::Pass)
}

/// `check_dmarc_pass()`.
pub(super) fn dmarc_pass(cx: &EvalContext<'_>, _: &Args) -> bool {
    facts(cx).is_some_and(|f| f.dmarc == AuthResult::Pass)
}

fn dmarc_fails(cx: &EvalContext<'_>, policy: DmarcPolicy) -> bool {
    facts(cx).is_some_and(|f| f.dmarc == AuthResult::Fail && f.dmarc_policy == policy)
}

/// `check_dmarc_reject()`.
pub(super) fn dmarc_reject(cx: &EvalContext<'_>, _: &Args) -> bool {
    dmarc_fails(cx, DmarcPolicy::Reject)
}

/// `check_dmarc_quarantine()`.
pub(super) fn dmarc_quarantine(cx: &EvalContext<'_>, _: &Args) -> bool {
    dmarc_fails(cx, DmarcPolicy::Quarantine)
}

/// `check_dmarc_none()`.
pub(super) fn dmarc_none(cx: &EvalContext<'_>, _: &Args) -> bool {
    dmarc_fails(cx, DmarcPolicy::None)
}

/// `check_dmarc_missing()`: the domain publishes no policy.
pub(super) fn dmarc_missing(cx: &EvalContext<'_>, _: &Args) -> bool {
    facts(cx).is_some_and(|f| f.dmarc == AuthResult::None)
}

/// `check_bayes(min, max)`: the classifier's probability of spam.
pub(super) fn bayes(cx: &EvalContext<'_>, args: &Args) -> bool {
    let Some(probability) = cx.spam_probability else { return false };
    let min = args.number(0);
    (min == 0.0 || probability > min) && args.bound(1).is_none_or(|max| probability <= max)
}
