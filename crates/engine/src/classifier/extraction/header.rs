//! Features of the header: sender, Subject, and how the fields are written.

use gauntlet_mail::{Header, Message, address};

use super::known::{SERVICE_FIELDS, is_free_mail, top_level};
use super::{FIELD_BYTES_MAX, FIELDS, shape};
use crate::classifier::group::Group;
use crate::classifier::scratch::ClassifierScratch;
use crate::classifier::tokens::start;
use crate::lookalike;

/// Shortest word of a sender's name that is looked for in the domain, in bytes.
const NAME_WORD_BYTES_MIN: usize = 4;

pub(super) fn sender(
    message: &Message<'_>,
    name: &str,
    address: &str,
    organizational_domain: &str,
    sink: &mut ClassifierScratch,
) {
    let group = Group::Sender;
    sink.words(start(name, FIELD_BYTES_MAX), group);
    sink.feature(group, "domain", organizational_domain);
    sink.feature(group, "top-level domain", top_level(organizational_domain));
    if is_free_mail(organizational_domain) {
        sink.feature(group, "a free mailbox", "");
    }
    names_recipient(message, name, organizational_domain, sink);
    let (local, host) = address.rsplit_once('@').unwrap_or((address, ""));
    shape(sink, group, "address shape", local);
    let registered = organizational_domain.split('.').next().unwrap_or_default();
    shape(sink, group, "shape of the domain", registered);
    sink.feature_fmt(
        group,
        "letters of the domain",
        format_args!("{}", registered.len().min(24) / 3),
    );
    let labels = host.split('.').count();
    sink.feature_fmt(group, "labels in the domain", format_args!("{}", labels.min(6)));
    if name.contains('@') {
        sink.feature(group, "an address in the name of the sender", "");
    }
    if name.is_empty() {
        sink.feature(group, "no name of the sender", "");
    } else if name.chars().any(|c| c.is_ascii_alphabetic()) {
        // A name in another alphabet cannot be like an address: that tells the language, no more.
        let named = is_named(name, registered, local);
        sink.feature(
            group,
            ["a name unlike the address", "a name like the address"][usize::from(named)],
            "",
        );
    }
    if let Some(reply) = message.header("reply-to") {
        let value = String::from_utf8_lossy(&reply.unfolded()).to_lowercase();
        let host = value.rsplit('@').next().unwrap_or_default();
        let host = host.trim_matches(|c: char| !c.is_ascii_alphanumeric());
        if is_free_mail(host) && !value.contains(address) {
            let of = ["of another", "of a free mailbox"];
            let of = of[usize::from(is_free_mail(organizational_domain))];
            sink.feature(group, "answers to a free mailbox", of);
        }
        let same = !organizational_domain.is_empty() && value.contains(organizational_domain);
        sink.feature(
            group,
            if same { "answers to itself" } else { "answers to another domain" },
            "",
        );
    }
}

/// Shortest local part of a recipient that is looked for in the subject, and shortest name of its
/// domain that is looked for in the sender's name, in bytes.
const LOCAL_PART_BYTES_MIN: usize = 5;
const REGISTERED_BYTES_MIN: usize = 4;

/// Whether sender and subject name the recipient. Who it is does not matter.
fn names_recipient(
    message: &Message<'_>,
    name: &str,
    organizational_domain: &str,
    sink: &mut ClassifierScratch,
) {
    let group = Group::Sender;
    let Some(field) = message.header("to") else { return };
    let Some(to) = address::mailboxes(&field.unfolded(), 1).into_iter().next() else { return };
    let to = to.address.to_lowercase();
    let Some((local, host)) = to.split_once('@').filter(|(local, _)| local.len() > 2) else {
        return;
    };
    let domain = lookalike::organizational_domain(host).unwrap_or(host);
    let registered = domain.split('.').next().unwrap_or_default();
    if domain == organizational_domain {
        sink.feature(group, "a sender of the recipient's domain", "");
    } else if registered.len() >= REGISTERED_BYTES_MIN
        && !is_free_mail(domain)
        && name.to_lowercase().contains(registered)
    {
        sink.feature(group, "the recipient's domain in the sender's name", "");
    }
    let subject = message.subject().to_lowercase();
    if subject.contains(&to) {
        sink.feature(group, "the recipient's address in the subject", "");
    } else if local.len() >= LOCAL_PART_BYTES_MIN && subject.contains(local) {
        sink.feature(group, "the recipient's local part in the subject", "");
    }
}

/// Whether a word of the sender's name is in the domain or the address.
fn is_named(name: &str, registered: &str, local: &str) -> bool {
    let name = start(name, FIELD_BYTES_MAX).to_lowercase();
    let words = name.split(|c: char| !c.is_alphanumeric());
    words
        .filter(|w| w.len() >= NAME_WORD_BYTES_MIN)
        .any(|w| registered.contains(w) || local.contains(w))
        || (!registered.is_empty() && name.replace([' ', '.', '-', '\''], "").contains(registered))
}

pub(super) fn subject(message: &Message<'_>, sink: &mut ClassifierScratch) {
    let subject = message.subject();
    let mut rest = start(&subject, FIELD_BYTES_MAX).trim();
    // [tags] are a mailing list's.
    while let Some(tag) = rest.find('[').filter(|&i| i < 12) {
        let Some(end) = rest.get(tag..).and_then(|t| t.find(']')) else { break };
        rest = rest.get(tag + end + 1..).unwrap_or_default().trim_start();
    }
    let group = Group::Subject;
    sink.words(rest, group);
    let letters = || rest.chars().filter(|c| c.is_alphabetic());
    if letters().count() > 5 && letters().all(char::is_uppercase) {
        sink.feature(group, "all in capitals", "");
    }
    if rest.chars().any(|c| ('\u{2600}'..='\u{27BF}').contains(&c) || c >= '\u{1F000}') {
        sink.feature(group, "a pictograph", "");
    }
    if rest.is_empty() {
        sink.feature(group, "empty", "");
    }
}

pub(super) fn form(
    message: &Message<'_>,
    organizational_domain: &str,
    sink: &mut ClassifierScratch,
) {
    let group = Group::Form;
    let mut last = "start";
    for header in message.headers() {
        let Some(name) = field(header) else { continue };
        sink.feature(group, "field", name);
        sink.feature_fmt(group, "field order", format_args!("{last}, {name}"));
        sink.feature(group, "spelling of a field", &header.name_str());
        last = name;
    }
    let value = |name: &str| message.header(name).map(Header::unfolded);
    if let Some(id) = value("message-id") {
        let id = String::from_utf8_lossy(&id);
        let (local, host) = id.split_once('@').unwrap_or((&id, ""));
        shape(sink, group, "Message-ID shape", local);
        let same = !organizational_domain.is_empty()
            && host.to_lowercase().contains(organizational_domain);
        let whose = if same { "Message-ID of the sender" } else { "Message-ID of another" };
        sink.feature(group, whose, "");
    }
    for header in message.headers() {
        let named = |field: &&str| field.len() == header.name.len() && header.is(field);
        if let Some(name) = SERVICE_FIELDS.into_iter().find(named) {
            sink.feature(group, "field of a service", name);
        }
    }
    if let Some(date) = value("date") {
        zone(&String::from_utf8_lossy(&date), sink);
    }
    for name in ["x-mailer", "user-agent"] {
        if let Some(value) = value(name) {
            let value = String::from_utf8_lossy(&value);
            let mut words = value.split([' ', '/', ',']);
            let mut next = || start(words.next().unwrap_or_default(), 20);
            sink.feature_fmt(group, "mail program", format_args!("{} {}", next(), next()));
        }
    }
    if let Some(kind) = value("content-type") {
        let kind = String::from_utf8_lossy(&kind);
        if let Some((_, boundary)) = kind.split_once("boundary=") {
            shape(sink, group, "boundary shape", start(boundary.trim_matches('"'), 40));
        }
    }
    let to = value("to").unwrap_or_default();
    let recipients = to.iter().filter(|&&b| b == b'@').count();
    sink.feature(group, "recipients", ["none", "one", "two", "several"][recipients.min(3)]);
}

/// How the time zone of a date is written. Which it is tells a country, no more.
fn zone(date: &str, sink: &mut ClassifierScratch) {
    let zone = match date.split_whitespace().nth(4).unwrap_or("none") {
        known @ ("+0000" | "-0000" | "GMT" | "UTC" | "none" | "Z") => known,
        zone if zone.len() == 5 && zone.starts_with(['+', '-']) => "a numeric one",
        _ => "an odd one",
    };
    let comment = if date.contains('(') { "with a comment" } else { "" };
    let group = Group::Form;
    sink.feature_fmt(group, "time zone", format_args!("{zone} {comment}"));
    if date.split_whitespace().next().is_some_and(|day| !day.ends_with(',')) {
        sink.feature(group, "no weekday", "");
    }
}

/// The name in [`FIELDS`] of a header field that is looked at. Most fields are not, and most of
/// those have another length.
pub(super) fn field(header: &Header<'_>) -> Option<&'static str> {
    FIELDS.into_iter().find(|f| f.len() == header.name.len() && header.is(f))
}
