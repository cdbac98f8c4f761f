//! Who a message says it is from (RFC 5322 sections 3.6.2 and 3.6.6), held against who logged in.

use std::borrow::Cow;

use gauntlet_mail::authors::Authors;
use gauntlet_mail::fields::{fields, is_named};
use gauntlet_mail::header::unfold;
use gauntlet_smtp::Reply;

/// Addresses of all From fields that are looked at; a message with more is refused.
const AUTHORS_MAX: usize = 64;
/// Fields that mail programs show as who a message is from.
const FIELDS: [&str; 4] = ["From", "Sender", "Resent-From", "Resent-Sender"];

/// Why a user with these addresses may not send the message; none if whoever a mail program may
/// show as its author or sender is one of them.
pub(super) fn refusal(message: &[u8], own: &[String]) -> Option<Reply> {
    let refuse = |text: String| Some(Reply::new(550, (5, 7, 1), text));
    for name in FIELDS {
        let values = values(message, name);
        let authors = Authors::read(values.iter().map(|value| &**value), AUTHORS_MAX);
        let foreign = |address: &&str| !own.iter().any(|o| o.eq_ignore_ascii_case(address));
        if let Some(address) = authors.addresses().find(foreign) {
            let shown: String =
                gauntlet_smtp::text::one_line(address, '?').chars().take(100).collect();
            return refuse(format!(
                "the {name} field names {shown}, which is not one of your addresses"
            ));
        }
        if authors.is_ambiguous() {
            return refuse(format!(
                "the {name} field is malformed or too long: write Name <address>"
            ));
        }
        let is_nameless = authors.mailboxes.iter().any(|author| author.address.is_empty());
        if is_nameless || (name == "From" && authors.mailboxes.is_empty()) {
            return refuse(match name {
                "From" => "the message names no author: add a From field".to_owned(),
                _ => format!("the {name} field names no address"),
            });
        }
    }
    None
}

/// The values of all fields of this name, unfolded.
fn values<'m>(message: &'m [u8], name: &str) -> Vec<Cow<'m, [u8]>> {
    let name = name.to_ascii_lowercase();
    let named = fields(message).filter(|field| is_named(field, name.as_bytes()));
    let value = |field: &'m [u8]| {
        let colon = memchr::memchr(b':', field).map_or(field.len(), |at| at + 1);
        unfold(field.get(colon..).unwrap_or_default())
    };
    named.map(value).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_author_is_the_person_who_logged_in() {
        let own = ["ann@example.net".to_owned(), "info@example.net".to_owned()];
        let is_refused = |text: &str| refusal(text.as_bytes(), &own).is_some();
        for good in [
            "From: ann@example.net\r\n\r\n",
            "Subject: x\r\nfrom : Ann <ANN@Example.NET>\r\n\r\nFrom: eve@x.example\r\n",
            "From: Ann <ann@example.net>,\r\n info@example.net\r\n\r\n",
            "From: \"boss@example.net\" <ann@example.net>\r\nSender: info@example.net\r\n\r\n",
        ] {
            assert!(!is_refused(good), "{good:?}");
        }
        for bad in [
            "Subject: x\r\n\r\nFrom: ann@example.net\r\n",
            "From: boss@example.net\r\n\r\n",
            "From: ann@example.net, boss@example.net\r\n\r\n",
            "From: ann@example.net\r\nFrom: boss@example.net\r\n\r\n",
            "From: ann@example.net\r\nbroken\r\nbroken\r\nFrom\r\n : boss@example.net\r\n\r\n",
            "From: \"ann@example.net\" <boss@example.net>\r\n\r\n",
            "From: Ann\r\n\r\n",
            "From:\r\n\r\n",
            // In one program the one is the author, in another the other.
            "From: <boss@example.net> <ann@example.net>\r\n\r\n",
            "From: <ann@example.net> <boss@example.net>\r\n\r\n",
            "From: boss@example.net \"<ann@example.net>\"\r\n\r\n",
            "From: boss@example.net <ann@example.net>\r\n\r\n",
            "From: ann@example.net (\r\n <boss@example.net>\r\n\r\n",
            "From: \" <boss@example.net>, <ann@example.net>\r\n\r\n",
            "From: <boss@example.net,ann@example.net>\r\n\r\n",
            "From: boss@example.net: ann@example.net;\r\n\r\n",
            "From: =?utf-8?q?boss=40example.net?=, ann@example.net\r\n\r\n",
            "From: Boss, ann@example.net\r\n\r\n",
            "From: ann@example.net\r\nSender: boss@example.net\r\n\r\n",
            "From: ann@example.net\r\nResent-From: boss@example.net\r\n\r\n",
            "From: ann@example.net\r\nRESENT-SENDER : boss@example.net\r\n\r\n",
        ] {
            assert!(is_refused(bad), "{bad:?}");
        }
        let long = format!("From: ann@example.net ({})\r\n\r\n", "x".repeat(64 * 1024));
        assert!(is_refused(&long));
    }
}
