//! Senders, recipients, hosts and subjects on the lists of the rule files.

use super::args::Args;
use super::context::EvalContext;
use super::memo::ListStatus;
use super::net;
use super::tables::addresses::AddressList;
use super::text::{is_space, trim};
use crate::boundaries::is_host_name;
use crate::views::Relay;

/// `check_from_in_blocklist()`.
pub(super) fn from_blocked(cx: &EvalContext<'_>, _: &Args) -> bool {
    any_listed(cx, "blocklist_from", all_from)
}

/// `check_from_in_list(NAME)`.
pub(super) fn from_in_list(cx: &EvalContext<'_>, args: &Args) -> bool {
    args.word(0).is_some_and(|list| any_listed(cx, list, all_from))
}

/// `check_replyto_in_list(NAME)`.
pub(super) fn reply_to_in_list(cx: &EvalContext<'_>, args: &Args) -> bool {
    let address = cx.text("Reply-To:addr");
    let list = args.word(0).and_then(|list| cx.tables.addresses(list));
    !address.is_empty() && list.is_some_and(|list| list.contains(&address))
}

/// `check_to_in_list(NAME)`.
pub(super) fn to_in_list(cx: &EvalContext<'_>, args: &Args) -> bool {
    args.word(0).is_some_and(|list| any_listed(cx, list, all_to))
}

/// `check_to_in_blocklist()`.
pub(super) fn to_blocked(cx: &EvalContext<'_>, _: &Args) -> bool {
    any_listed(cx, "blocklist_to", all_to)
}

/// `check_to_in_welcomelist()`.
pub(super) fn to_welcome(cx: &EvalContext<'_>, _: &Args) -> bool {
    any_listed(cx, "welcomelist_to", all_to)
}

/// `check_to_in_more_spam()`.
pub(super) fn to_more_spam(cx: &EvalContext<'_>, _: &Args) -> bool {
    any_listed(cx, "more_spam_to", all_to)
}

/// `check_to_in_all_spam()`.
pub(super) fn to_all_spam(cx: &EvalContext<'_>, _: &Args) -> bool {
    any_listed(cx, "all_spam_to", all_to)
}

/// Whether one of the addresses is listed; they are collected only if the list is not empty.
fn any_listed<'a>(
    cx: &'a EvalContext<'_>,
    list: &str,
    addresses: impl Fn(&'a EvalContext<'_>) -> &'a [Vec<u8>],
) -> bool {
    let list = cx.tables.addresses(list).filter(|list| !list.is_empty());
    list.is_some_and(|list| addresses(cx).iter().any(|a| list.contains(a)))
}

/// Every address that the message claims as sender; Resent-From has precedence.
pub(super) fn all_from<'a>(cx: &'a EvalContext<'_>) -> &'a [Vec<u8>] {
    cx.memo.all_from.get_or_init(|| {
        let mut addresses: Vec<Vec<u8>> = owned(cx, "Resent-From:first:addr").collect();
        if addresses.is_empty() {
            let fields = [
                "From:addr",
                "Envelope-Sender:addr",
                "Resent-Sender:addr",
                "X-Envelope-From:addr",
                "EnvelopeFrom:addr",
            ];
            addresses = fields.iter().flat_map(|name| owned(cx, name)).collect();
            addresses.retain(|a| !a.is_empty());
            for address in &mut addresses {
                // `foo@bar..com` is looked up as `foo@bar.com`.
                address.dedup_by(|a, b| *a == b'.' && *b == b'.');
            }
        }
        unique(addresses)
    })
}

/// Every address that the message claims as recipient.
fn all_to<'a>(cx: &'a EvalContext<'_>) -> &'a [Vec<u8>] {
    cx.memo.all_to.get_or_init(|| {
        let resent = ["Resent-To:first:addr", "Resent-Cc:first:addr"];
        let mut addresses: Vec<Vec<u8>> = resent.iter().flat_map(|n| owned(cx, n)).collect();
        if addresses.is_empty() {
            addresses.extend(received_for(cx));
            let fields = [
                "To:addr",
                "Apparently-To:addr",
                "Delivered-To:addr",
                "Envelope-Recipients:addr",
                "Apparently-Resent-To:addr",
                "X-Envelope-To:addr",
                "Envelope-To:addr",
                "X-Delivered-To:addr",
                "X-Original-To:addr",
                "X-Rcpt-To:addr",
                "X-Real-To:addr",
                "Cc:addr",
            ];
            addresses.extend(fields.iter().flat_map(|name| owned(cx, name)));
        }
        unique(addresses)
    })
}

/// The recipients that the three newest Received fields name.
fn received_for(cx: &EvalContext<'_>) -> Vec<Vec<u8>> {
    let named = super::text::re!(r"\A<?(\S+@(\S+?))>?;");
    let received = cx.values("Received");
    let found = received.iter().take(3).filter_map(|line| {
        // The first ` for ` before an address, which ends at the next space.
        let word = |at| line.get(at..)?.strip_prefix(b" for ")?.split(|b| is_space(*b)).next();
        let words = memchr::memchr_iter(b' ', line).filter_map(word);
        let found = words.filter(|word| word.contains(&b'@')).find_map(|w| named.captures(w))?;
        is_host_name(&found[2]).then(|| found[1].to_vec())
    });
    found.collect()
}

fn owned<'a>(cx: &'a EvalContext<'_>, name: &str) -> impl Iterator<Item = Vec<u8>> + use<'a> {
    cx.values(name).iter().cloned()
}

/// The addresses without repetitions, in order.
fn unique(addresses: Vec<Vec<u8>>) -> Vec<Vec<u8>> {
    let mut out: Vec<Vec<u8>> = Vec::with_capacity(addresses.len());
    for address in addresses {
        if !out.contains(&address) {
            out.push(address);
        }
    }
    out
}

/// `check_from_in_welcomelist()`.
pub(super) fn from_welcome(cx: &EvalContext<'_>, _: &Args) -> bool {
    own_list_status(cx) == ListStatus::Welcome
}

/// `check_forged_in_welcomelist()`.
pub(super) fn from_welcome_forged(cx: &EvalContext<'_>, _: &Args) -> bool {
    own_list_status(cx) == ListStatus::Forged && default_list_status(cx) == ListStatus::Unlisted
}

/// `check_from_in_default_welcomelist()`.
pub(super) fn from_default_welcome(cx: &EvalContext<'_>, _: &Args) -> bool {
    default_list_status(cx) == ListStatus::Welcome
}

/// `check_forged_in_default_welcomelist()`.
pub(super) fn from_default_welcome_forged(cx: &EvalContext<'_>, _: &Args) -> bool {
    default_list_status(cx) == ListStatus::Forged && own_list_status(cx) == ListStatus::Unlisted
}

fn own_list_status(cx: &EvalContext<'_>) -> ListStatus {
    *cx.memo.own_list_status.get_or_init(|| {
        if any_listed(cx, "welcomelist_from", all_from) {
            return ListStatus::Welcome;
        }
        list_status(cx, "welcomelist_from_rcvd")
    })
}

fn default_list_status(cx: &EvalContext<'_>) -> ListStatus {
    *cx.memo.default_list_status.get_or_init(|| list_status(cx, "def_welcomelist_from_rcvd"))
}

/// The best status of any sender address.
fn list_status(cx: &EvalContext<'_>, list: &str) -> ListStatus {
    let list = cx.tables.relayed(list);
    if list.is_empty() || !has_relays(cx) {
        return ListStatus::Unlisted;
    }
    let mut best = ListStatus::Unlisted;
    for address in all_from(cx) {
        let address = address.to_ascii_lowercase();
        let mut matches = list.iter().filter(|entry| entry.address.matches(&address)).peekable();
        if matches.peek().is_none() {
            continue;
        }
        if matches.flat_map(|entry| &entry.vouchers).any(|v| relay_fits(cx, v)) {
            return ListStatus::Welcome;
        }
        let allowed = cx.tables.addresses("welcomelist_allows_relays");
        if !allowed.is_some_and(|list: &AddressList| list.contains(&address)) {
            best = ListStatus::Forged;
        }
    }
    best
}

fn has_relays(cx: &EvalContext<'_>) -> bool {
    let relays = cx.views.relays();
    !relays.untrusted().is_empty() || !relays.trusted().is_empty()
}

/// The relays that may confirm a sender: the newest untrusted one, or all if all are trusted.
fn confirming_relays<'a>(cx: &'a EvalContext<'_>) -> impl Iterator<Item = &'a Relay> {
    let relays = cx.views.relays();
    let trusted = if relays.untrusted().is_empty() { relays.trusted() } else { &[] };
    relays.untrusted().iter().take(1).chain(trusted)
}

/// Whether a list entry names one of the relays: `[address]`, `[address]/bits`, or the end of a
/// host name.
fn relay_fits(cx: &EvalContext<'_>, voucher: &[u8]) -> bool {
    let literal = voucher.strip_prefix(b"[").and_then(|rest| {
        let end = memchr::memrchr(b']', rest)?;
        Some((&rest[..end], &rest[end + 1..]))
    });
    confirming_relays(cx).any(|relay| match literal {
        Some((address, bits)) => net::in_range(&[address, bits].concat(), &relay.ip),
        None => {
            let name = relay.lc_rdns();
            let head = name.strip_suffix(voucher);
            head.is_some_and(|h| h.is_empty() || h.ends_with(b"."))
        }
    })
}

/// `check_mailfrom_matches_rcvd()`: the envelope sender's domain is the domain of the relay's name.
pub(super) fn envelope_matches_relay(cx: &EvalContext<'_>, _: &Args) -> bool {
    let sender = cx.text("EnvelopeFrom:addr").to_ascii_lowercase();
    let Some(at) = memchr::memrchr(b'@', &sender) else { return false };
    let host = &sender[at + 1..];
    // At least one dot, with something before and after it.
    let has_inner_dot = host.len() > 2 && host[1..host.len() - 1].contains(&b'.');
    if !has_inner_dot {
        return false;
    }
    let domain = cx.tables.boundaries.trim(host);
    confirming_relays(cx)
        .any(|relay| !relay.rdns.is_empty() && cx.tables.boundaries.trim(&relay.rdns) == domain)
}

/// `check_uri_host_listed(NAME)`: a URI's host, or a domain above it, is on a list.
pub(super) fn uri_host_listed(cx: &EvalContext<'_>, args: &Args) -> bool {
    args.word(0).is_some_and(|list| host_listed(cx, list))
}

/// `check_uri_host_in_blocklist()`.
pub(super) fn uri_host_blocked(cx: &EvalContext<'_>, _: &Args) -> bool {
    host_listed(cx, "BLOCK")
}

/// `check_uri_host_in_welcomelist()`.
pub(super) fn uri_host_welcome(cx: &EvalContext<'_>, _: &Args) -> bool {
    host_listed(cx, "WELCOME")
}

fn host_listed(cx: &EvalContext<'_>, list: &str) -> bool {
    /// Most names tried for one host; of longer ones the end.
    const LABELS_MAX: usize = 11;
    let Some(list) = cx.tables.hosts().get(list) else { return false };
    let mut hosts = cx.uri_hosts();
    hosts.any(|host| {
        if let Some(inner) = host.strip_prefix(b"[").and_then(|h| h.strip_suffix(b"]")) {
            return list.get(inner).copied().unwrap_or_default();
        }
        if net::ipv4(host).is_some() {
            return list.get(host).copied().unwrap_or_default();
        }
        let dots = || memchr::memchr_iter(b'.', host);
        let starts = std::iter::once(0).chain(dots().map(|dot| dot + 1));
        let skip = (dots().count() + 1).saturating_sub(LABELS_MAX);
        let verdict = starts.skip(skip).find_map(|start| list.get(&host[start..]));
        verdict.copied().unwrap_or_default()
    })
}

/// `check_subject_in_welcomelist()`.
pub(super) fn subject_welcome(cx: &EvalContext<'_>, _: &Args) -> bool {
    subject_listed(cx, "welcomelist_subject")
}

/// `check_subject_in_blocklist()`.
pub(super) fn subject_blocked(cx: &EvalContext<'_>, _: &Args) -> bool {
    subject_listed(cx, "blocklist_subject")
}

fn subject_listed(cx: &EvalContext<'_>, list: &str) -> bool {
    let list = cx.tables.subjects(list);
    if list.is_empty() {
        return false;
    }
    let subject = cx.text("Subject").to_ascii_lowercase();
    let mut lines = subject.split(|&b| b == b'\n');
    !trim(&subject).is_empty() && lines.any(|line| list.iter().any(|glob| glob.is_within(line)))
}
