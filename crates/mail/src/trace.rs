//! The envelope of a message that came without one: what its own trace fields still say of it.

use crate::{Envelope, Message, address};

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
