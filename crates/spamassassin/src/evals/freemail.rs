//! Addresses of freemail providers.

use std::borrow::Cow;
use std::sync::LazyLock;

use regex::bytes::Regex;

use super::args::Args;
use super::context::EvalContext;
use super::lists::all_from;
use super::text::{bytes_pattern, re};

/// Most addresses taken from links, and in all, from one body.
const LINK_ADDRESSES_MAX: usize = 20;
const BODY_ADDRESSES_MAX: usize = 40;
/// Longest local part in bytes (RFC 5321 section 4.5.3.1.1).
const LOCAL_PART_MAX: usize = 64;

/// `check_freemail_from([pattern])`: any sender address is a freemail one.
pub(super) fn from(cx: &EvalContext<'_>, args: &Args) -> bool {
    cx.tables.freemail.is_available()
        && all_from(cx).iter().any(|a| is_match(cx, args, &a.to_ascii_lowercase()))
}

/// `check_freemail_header(field, [pattern])`: an address in the field is a freemail one.
pub(super) fn header(cx: &EvalContext<'_>, args: &Args) -> bool {
    let Some(name) = args.word(0).filter(|_| cx.tables.freemail.is_available()) else {
        return false;
    };
    let values = cx.values(&[name, ":addr"].concat());
    values.iter().any(|a| is_match(cx, args, &a.to_ascii_lowercase()))
}

fn is_match(cx: &EvalContext<'_>, args: &Args, address: &[u8]) -> bool {
    is_freemail(cx, address) && args.pattern.as_ref().is_none_or(|p| p.is_match(address))
}

/// `check_freemail_body([pattern])`: a freemail address is in the text.
pub(super) fn body(cx: &EvalContext<'_>, args: &Args) -> bool {
    let found = body_addresses(cx);
    cx.tables.freemail.is_available()
        && found.as_ref().is_some_and(|all| {
            all.iter().any(|a| args.pattern.as_ref().is_none_or(|p| p.is_match(a)))
        })
}

/// `check_freemail_replyto(replyto|reply)`: a reply would go to another freemail address than the
/// sender's, or than one in the text.
pub(super) fn reply_to(cx: &EvalContext<'_>, args: &Args) -> bool {
    let freemail = &cx.tables.freemail;
    if !freemail.is_available() {
        return false;
    }
    let what = args.word(0).unwrap_or("replyto");
    if what != "replyto" && what != "reply" {
        return false;
    }
    let lower =
        |name| -> Vec<Vec<u8>> { cx.values(name).iter().map(|a| a.to_ascii_lowercase()).collect() };
    let (senders, replies) = (lower("From:addr"), lower("Reply-To:addr"));
    let from_free = senders.iter().any(|a| is_freemail(cx, a));
    let reply_free = replies.iter().any(|a| is_freemail(cx, a));
    let skip = if what == "replyto" {
        !reply_free
    } else {
        (!replies.is_empty() && !reply_free) || !from_free
    };
    // The envelope sender comes last: finding it may need all relays of the message.
    if skip || (freemail.skip_bulk_envelope && looks_bulk(&cx.text("EnvelopeFrom"))) {
        return false;
    }
    if from_free && reply_free && !senders.iter().any(|a| replies.contains(a)) {
        return true;
    }
    let answers = if what == "replyto" || reply_free { &replies } else { &senders };
    let found = body_addresses(cx);
    found.as_ref().is_some_and(|all| all.iter().any(|a| answers.iter().any(|r| r != a)))
}

/// Envelope senders of lists, bounces and robots, whose replies go elsewhere legitimately.
fn looks_bulk(envelope_from: &[u8]) -> bool {
    re!(
        r"(?i)(?:\A(?:post|host|domain)master|\Adouble-bounce|\A(?:sentto|owner|return|(?:gr)?bounced?)-.+|-(?:request|bounces?|admin|owner)|\b(?:do[._\-t]?)?no[._\-t]?repl(?:y|ies)|.+=.+)@"
    )
    .is_match(envelope_from)
}

/// Whether an address (in lower case) is a freemail one and no role or robot.
pub(super) fn is_freemail(cx: &EvalContext<'_>, address: &[u8]) -> bool {
    if address.is_empty() {
        return false;
    }
    let at = memchr::memrchr(b'@', address);
    let domain = &address[at.map_or(0, |at| at + 1)..];
    let role = re!(
        r"(?i)\A(?:abuse|support|sales|info|helpdesk|contact|kontakt|(?:post|host|domain)master|undisclosed.*|request-[a-f0-9]{16}|bounced?-|[a-f0-9]{8}(?:\.[a-f0-9]{8}|-[a-f0-9]{4}-[a-f0-9]{4}-[a-f0-9]{4}-[a-f0-9]{12})|.+=.+=.+)@"
    );
    let freemail = &cx.tables.freemail;
    freemail.has_domain(domain) && !freemail.is_welcome(address, domain) && !role.is_match(address)
}

/// Freemail addresses in the text; `None` if there are too many to be meaningful.
fn body_addresses<'a>(cx: &'a EvalContext<'_>) -> &'a Option<Vec<Vec<u8>>> {
    cx.memo.body_freemails.get_or_init(|| {
        let freemail = &cx.tables.freemail;
        let is_over = |count: usize, max: usize| freemail.skip_when_over_max && count == max;
        let mut found: Vec<Vec<u8>> = Vec::new();
        let mut free = 0;
        for (address, count) in all_body_addresses(cx).into_iter().zip(1..) {
            if is_over(count, freemail.body_emails_max) {
                return None;
            }
            if is_freemail(cx, &address) {
                free += 1;
                if is_over(free, freemail.body_freemails_max) {
                    return None;
                }
                found.push(address);
            }
        }
        Some(found)
    })
}

/// Every address in links and text, in lower case, without repetitions.
///
/// SpamAssassin cuts links and quoted addresses out of the very strings that `body` rules see, and
/// they see what is left; so does this ([`crate::views::Views::edit_body`]).
fn all_body_addresses(cx: &EvalContext<'_>) -> Vec<Vec<u8>> {
    static LINKED_TEXT: LazyLock<Regex> =
        LazyLock::new(|| bytes_pattern(r"(?i)<?https?://\S{0,255}(?:@|%40)\S{0,255}"));
    let mut all: Vec<Vec<u8>> = Vec::new();
    for uri in cx.linked_uris() {
        let Some(address) = uri.get(7..).filter(|_| uri[..7].eq_ignore_ascii_case(b"mailto:"))
        else {
            continue;
        };
        if let Some((0, end)) = find_address(cx, address, 0) {
            let address = address[..end].to_ascii_lowercase();
            if !all.contains(&address) {
                all.push(address);
            }
            if all.len() >= LINK_ADDRESSES_MAX {
                break;
            }
        }
    }
    let mut edits = Vec::new();
    for (number, text) in cx.views.body().iter().enumerate() {
        let has_mark = memchr::memchr(b'@', text).is_some();
        if !has_mark && memchr::memmem::find(text, b"%40").is_none() {
            continue;
        }
        let tidied: Cow<'_, [u8]> = LINKED_TEXT.replace_all(text, b" ".as_slice());
        let tidied = without_quoted(cx, &tidied);
        add_addresses(cx, &tidied, &mut all);
        if tidied != *text {
            edits.push((number, tidied));
        }
        if all.len() >= BODY_ADDRESSES_MAX {
            break;
        }
    }
    cx.views.edit_body(edits);
    all
}

/// Adds the addresses in a text, in lower case, to those that are known.
fn add_addresses(cx: &EvalContext<'_>, text: &[u8], all: &mut Vec<Vec<u8>>) {
    let mut from = 0;
    while let Some((start, end)) = find_address(cx, text, from) {
        let address = text[start..end].to_ascii_lowercase();
        if !all.contains(&address) {
            all.push(address);
        }
        if all.len() >= BODY_ADDRESSES_MAX {
            return;
        }
        from = end;
    }
}

/// The text without `<addresses>` and those that a word with a colon follows (`... wrote:`).
fn without_quoted(cx: &EvalContext<'_>, text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    let (mut copied, mut from) = (0, 0);
    while let Some((start, end)) = find_address(cx, text, from) {
        from = end;
        let after_mailto = text[..start].ends_with(b"mailto:");
        let opened = text[..start].ends_with(b"<") && start > copied;
        // `mailto:` before the angle bracket counts too, since either may begin what is cut out.
        if after_mailto && !opened {
            continue;
        }
        let Some(length) = quote_mark(&text[end..]) else { continue };
        out.extend_from_slice(&text[copied..start - usize::from(opened)]);
        out.push(b' ');
        copied = end + length;
        from = copied;
    }
    out.extend_from_slice(&text[copied..]);
    out
}

/// Length of `>` or of ` word:` at the start, where the word is none that introduces an address.
fn quote_mark(text: &[u8]) -> Option<usize> {
    if text.starts_with(b">") {
        return Some(1);
    }
    let mark = re!(r"(?i)\A\s{1,10}([a-z]{2,11}):");
    let found = mark.captures(text)?;
    let contact = re!(r"(?i)\A(?:fa(?:x|csi)|tel|phone|e?-?mail)");
    (!contact.is_match(&found[1])).then(|| found.get(0).map_or(0, |m| m.end()))
}

/// The first address at or after `from`: where it starts and ends.
fn find_address(cx: &EvalContext<'_>, text: &[u8], from: usize) -> Option<(usize, usize)> {
    let mut search = from;
    while let Some(at) = memchr::memchr(b'@', text.get(search..)?).map(|i| search + i) {
        search = at + 1;
        let Some(start) = local_part_start(&text[from..at]).map(|s| from + s) else { continue };
        // The byte before the start of the search still counts for boundaries.
        if start > 0 && is_local_char(text[start - 1]) {
            continue;
        }
        if let Some(end) = domain_end(cx, text, at + 1) {
            return Some((start, end));
        }
    }
    None
}

fn is_local_char(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+/=?^_`{|}~-".contains(&byte)
}

/// Where the part before the `@` starts: words joined by single dots.
fn local_part_start(before: &[u8]) -> Option<usize> {
    let mut start = before.len();
    while start > 0 {
        let byte = before[start - 1];
        let is_inner_dot = byte == b'.'
            && start < before.len()
            && start > 1
            && is_local_char(before[start])
            && is_local_char(before[start - 2]);
        if !is_local_char(byte) && !is_inner_dot {
            break;
        }
        start -= 1;
    }
    let length = before.len() - start;
    (length > 0 && length <= LOCAL_PART_MAX).then_some(start)
}

/// Where the domain that starts here ends: one to four labels and a known top-level domain.
fn domain_end(cx: &EvalContext<'_>, text: &[u8], start: usize) -> Option<usize> {
    /// Labels before the top-level domain, and bytes of one.
    const LABELS_MAX: usize = 4;
    const LABEL_BYTES_MAX: usize = 61;
    let is_label_byte = |b: &u8| b.is_ascii_alphanumeric() || *b == b'-';
    let mut labels: Vec<(usize, usize)> = Vec::new();
    let mut at = start;
    while labels.len() <= LABELS_MAX {
        let length = text.get(at..)?.iter().take_while(|b| is_label_byte(b)).count();
        if length == 0 {
            break;
        }
        labels.push((at, at + length));
        if text.get(at + length) != Some(&b'.') {
            break;
        }
        at += length + 1;
    }
    // The last label that can be the top: greedy, then back.
    (1..labels.len()).rev().find_map(|top| {
        let ordinary = labels[..top]
            .iter()
            .all(|&(s, e)| e - s <= LABEL_BYTES_MAX && text[s] != b'-' && text[e - 1] != b'-');
        let (s, e) = labels[top];
        let follows =
            text.get(e) == Some(&b'.') && text.get(e + 1).is_some_and(u8::is_ascii_alphanumeric);
        let is_top = cx.tables.boundaries.is_top(&text[s..e].to_ascii_lowercase());
        (ordinary && is_top && !follows).then_some(e)
    })
}
