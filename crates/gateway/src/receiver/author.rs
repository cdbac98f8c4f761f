//! Who a message says it is from (RFC 5322 section 3.6.2), held against who logged in.

use gauntlet_mail::address::mailboxes;
use gauntlet_mail::fields::{fields, is_named};
use gauntlet_mail::header::unfold;
use gauntlet_smtp::Reply;

/// Authors of one field that are looked at; a field with more is refused.
const AUTHORS_MAX: usize = 64;

/// Why a person with these addresses may not send the message; none if every author of every From field is
/// one of them.
pub(super) fn refusal(message: &[u8], own: &[String]) -> Option<Reply> {
    let refuse = |text: String| Some(Reply::new(550, (5, 7, 1), text));
    let mut authors = Vec::new();
    for field in fields(message).filter(|field| is_named(field, b"from")) {
        let colon = memchr::memchr(b':', field).map_or(field.len(), |at| at + 1);
        authors.extend(mailboxes(&unfold(field.get(colon..).unwrap_or_default()), AUTHORS_MAX));
    }
    let foreign = |address: &String| !own.iter().any(|o| o.eq_ignore_ascii_case(address));
    match authors.iter().map(|author| &author.address).find(|address| foreign(address)) {
        Some(address) => {
            let shown: String =
                gauntlet_smtp::text::one_line(address, '?').chars().take(100).collect();
            refuse(format!("the From field names {shown}, which is not one of your addresses"))
        }
        None if authors.is_empty() => {
            refuse("the message names no author: add a From field".to_owned())
        }
        None if authors.len() >= AUTHORS_MAX => {
            refuse("too many authors in the From field".to_owned())
        }
        None => None,
    }
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
        ] {
            assert!(is_refused(bad), "{bad:?}");
        }
    }
}
