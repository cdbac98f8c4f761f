//! A message to be sent, and the commands that announce it.

use super::Client;
use crate::command::{Notify, Ret};
use crate::reply::Reply;

/// A recipient of an outgoing message.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct OutgoingRecipient {
    /// Forward path without angle brackets.
    pub to: String,
    /// `NOTIFY=`, sent only when the server offers DSN.
    pub notify: Option<Notify>,
    /// `ORCPT=` in xtext, sent only when the server offers DSN.
    pub orcpt: Option<String>,
}

/// An outgoing message without its content.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Outgoing {
    /// Reverse path; empty is the null sender.
    pub from: String,
    /// Recipients; at least one.
    pub recipients: Vec<OutgoingRecipient>,
    /// Size of the message in bytes, for `SIZE=`.
    pub size: u64,
    /// The content has bytes over 127.
    pub eight_bit: bool,
    /// An address or header is not ASCII.
    pub utf8: bool,
    /// `RET=`, sent only when the server offers DSN.
    pub ret: Option<Ret>,
    /// `ENVID=` in xtext, sent only when the server offers DSN.
    pub envid: Option<String>,
}

/// A line end in an address would be a command of its own. Whoever made the address should have
/// refused it; here it would reach the wire.
fn is_dangerous(address: &str) -> bool {
    address.chars().any(char::is_control)
}

impl Client {
    /// The reply that rejects this message for all recipients, if it cannot be sent: an address has
    /// control characters, or its addresses or header need SMTPUTF8, which is not offered (RFC 6531
    /// section 3.2), and raw UTF-8 must not be sent without.
    pub fn cannot_take(&self, message: &Outgoing, body: &[u8]) -> Option<Reply> {
        let all = message.recipients.iter().map(|recipient| &recipient.to);
        if let Some(odd) = all.chain([&message.from]).find(|address| is_dangerous(address)) {
            let text = format!("{odd:?} is no address that can be sent");
            return Some(Reply::new(553, (5, 1, 3), text));
        }
        if self.capabilities.utf8 {
            return None;
        }
        let addresses =
            message.from.is_ascii() && message.recipients.iter().all(|r| r.to.is_ascii());
        let header = || {
            let end = body.windows(4).position(|w| w == b"\r\n\r\n").unwrap_or(body.len());
            body.get(..end).is_some_and(<[u8]>::is_ascii)
        };
        if addresses && (!message.utf8 || header()) {
            return None;
        }
        let text = "the next hop does not offer SMTPUTF8, which this message needs";
        Some(Reply::new(553, (5, 6, 7), text))
    }

    pub(super) fn mail_line(&self, message: &Outgoing) -> Vec<u8> {
        let offered = self.capabilities;
        let mut line = format!("MAIL FROM:<{}>", message.from);
        if offered.size {
            line.push_str(&format!(" SIZE={}", message.size));
        }
        if offered.eight_bit && message.eight_bit {
            line.push_str(" BODY=8BITMIME");
        }
        if offered.utf8 && message.utf8 {
            line.push_str(" SMTPUTF8");
        }
        if offered.dsn {
            match message.ret {
                Some(Ret::Full) => line.push_str(" RET=FULL"),
                Some(Ret::Headers) => line.push_str(" RET=HDRS"),
                None => {}
            }
            if let Some(envid) = &message.envid {
                line.push_str(&format!(" ENVID={envid}"));
            }
        }
        line.push_str("\r\n");
        line.into_bytes()
    }

    pub(super) fn rcpt_line(&self, recipient: &OutgoingRecipient) -> Vec<u8> {
        let mut line = format!("RCPT TO:<{}>", recipient.to);
        if self.capabilities.dsn {
            if let Some(wanted) = recipient.notify {
                let words = [
                    (wanted.success, "SUCCESS"),
                    (wanted.failure, "FAILURE"),
                    (wanted.delay, "DELAY"),
                ];
                let words: Vec<&str> = words.iter().filter(|w| w.0).map(|w| w.1).collect();
                let value = if words.is_empty() { "NEVER".to_owned() } else { words.join(",") };
                line.push_str(&format!(" NOTIFY={value}"));
            }
            if let Some(orcpt) = &recipient.orcpt {
                line.push_str(&format!(" ORCPT={orcpt}"));
            }
        }
        line.push_str("\r\n");
        line.into_bytes()
    }
}
