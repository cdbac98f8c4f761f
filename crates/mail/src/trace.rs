//! The envelope of a message that came without one: what its own trace fields still say of it.

use crate::{Envelope, Message, address, fields};

/// Return-Path gives the sender, the Received field by which the message came in from outside gives
/// client and HELO. What they do not say stays unknown, never a forgery.
pub fn of_trace(message: &Message<'_>, received_at: i64) -> Envelope {
    let mail_from = message
        .header("return-path")
        .and_then(|field| address::mailboxes(&field.unfolded(), 1).into_iter().next())
        .map_or_else(String::new, |mailbox| mailbox.address);
    let entry = message.trust_path(&[]).entry.and_then(|i| message.relays().get(i));
    let Some(entry) = entry else {
        return Envelope { mail_from, received_at, ..Envelope::default() };
    };
    Envelope {
        mail_from,
        // The clock of the server that took it, which the dates of the message are compared with.
        received_at: entry.date.unwrap_or(received_at),
        client_ip: entry.ip,
        client_name: Some(entry.rdns.clone()).filter(|name| !name.is_empty()),
        helo: entry.helo.clone(),
        ..Envelope::default()
    }
}

/// The same of a message that is read for nothing else: its header alone is looked at.
pub fn of_raw(raw: &[u8], received_at: i64) -> Envelope {
    // As far as any program reads a header: a `Message` ends it there at the latest.
    let header_bytes = fields::fields(raw).map(<[u8]>::len).sum();
    of_trace(&Message::parse(raw.get(..header_bytes).unwrap_or(raw)), received_at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_alone_says_what_the_message_says() {
        let received = "Received: from x.example (x.example [192.0.2.7]) by mx; \
                        Mon, 2 Nov 2026 10:00:00 +0000";
        let path = "Return-Path: <a@b.example>";
        for raw in [
            format!("{path}\r\n{received}\r\n\r\nReceived: from y ([192.0.2.9])\r\n"),
            format!("{received}\nno field\n{path}\n\nbody"),
            format!("{received}\nno field\nnor this\n{path}\n\n{received}"),
            format!("From x\n \n{path}\n\t\n{received}\n"),
            format!("\n{path}\n\n"),
            format!(
                "Content-Type: multipart/mixed; boundary=x\n{received}\n\n--x\n\n{path}\n--x--"
            ),
            path.to_owned(),
            String::new(),
        ] {
            let raw = raw.as_bytes();
            assert_eq!(of_raw(raw, 7), of_trace(&Message::parse(raw), 7), "{}", raw.escape_ascii());
        }
    }
}
