//! Features of the header: sender, Subject, and how the fields are written.

use gauntlet_mail::{Header, Message};

use super::{FIELD_BYTES_MAX, FIELDS, shape};
use crate::classifier::group::Group;
use crate::classifier::scratch::ClassifierScratch;
use crate::classifier::tokens::start;

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
    sink.feature(
        group,
        "top-level domain",
        organizational_domain.rsplit('.').next().unwrap_or_default(),
    );
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
        let same = !organizational_domain.is_empty() && value.contains(organizational_domain);
        sink.feature(
            group,
            if same { "answers to itself" } else { "answers to another domain" },
            "",
        );
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
    if let Some(date) = value("date") {
        let date = String::from_utf8_lossy(&date);
        let at = sink.arena().len();
        for (i, piece) in date.split_whitespace().skip(4).enumerate() {
            let gap = if i > 0 { " " } else { "" };
            sink.arena().push_str(gap);
            sink.arena().push_str(start(piece, 16));
        }
        sink.feature_since(group, "time zone", at);
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

/// The name in [`FIELDS`] of a header field that is looked at. Most fields are not, and most of
/// those have another length.
pub(super) fn field(header: &Header<'_>) -> Option<&'static str> {
    FIELDS.into_iter().find(|f| f.len() == header.name.len() && header.is(f))
}
