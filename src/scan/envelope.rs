//! The envelope of a message that is read from a file: what its own trace fields still say of it.

use gauntlet_mail::{Envelope, Message, address};

/// Return-Path gives the sender. What it does not say stays unknown, never a forgery.
pub(crate) fn of_file(message: &Message<'_>, received_at: i64) -> Envelope {
    let mail_from = message
        .header("return-path")
        .and_then(|field| address::mailboxes(&field.unfolded(), 1).into_iter().next())
        .map_or_else(String::new, |mailbox| mailbox.address);
    Envelope { mail_from, received_at, ..Envelope::default() }
}
