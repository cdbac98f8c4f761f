//! A message that is put together, within limits.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use gauntlet_packet::Direction;

use crate::protocol::Protocol;

/// Limits of messages.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Bytes of one message that are kept.
    pub message_bytes_max: u64,
    /// Bytes of all messages that are kept at a time; copies of the settings share the count.
    pub held_bytes_max: u64,
    held: Arc<AtomicU64>,
}

impl Settings {
    /// With these limits, in bytes.
    pub fn new(message_bytes_max: u64, held_bytes_max: u64) -> Self {
        Self { message_bytes_max, held_bytes_max, held: Arc::default() }
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self::new(64 << 20, 256 << 20)
    }
}

/// How a message ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MailEnd {
    /// All of it is there.
    Whole,
    /// It is longer than [`Settings::message_bytes_max`].
    TooLarge,
    /// There was no room ([`Settings::held_bytes_max`]).
    NoRoom,
    /// Bytes of it were not seen.
    Gap,
    /// The connection ended within it, or was encrypted.
    Cut,
}

impl MailEnd {
    /// For records.
    pub fn name(self) -> &'static str {
        match self {
            MailEnd::Whole => "whole",
            MailEnd::TooLarge => "too_large",
            MailEnd::NoRoom => "no_room",
            MailEnd::Gap => "gap",
            MailEnd::Cut => "cut",
        }
    }
}

/// What the connection says of a message.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MailEnvelope {
    /// The argument of HELO, EHLO or LHLO.
    pub helo: String,
    /// The reverse path without brackets, of SMTP; empty is the null sender.
    pub mail_from: String,
    /// Forward paths that the server accepted.
    pub rcpt_to: Vec<String>,
    /// Who has logged in.
    pub auth_user: Option<String>,
}

/// A message that was carried.
#[derive(Debug)]
pub struct Mail {
    /// By which protocol.
    pub protocol: Protocol,
    /// Which way.
    pub direction: Direction,
    /// What the connection says of it.
    pub envelope: MailEnvelope,
    /// The message, without what the protocol adds; its beginning if it is not whole.
    pub bytes: Vec<u8>,
    /// How long it is, as far as it was seen.
    pub size: u64,
    /// How it ended.
    pub end: MailEnd,
    /// Servers differ about where it ends: it has a dot on a line whose ends are no CR LF.
    pub has_other_end: bool,
    share: Share,
}

/// What a message takes of the room for all, given back when dropped.
#[derive(Debug)]
struct Share {
    held: Arc<AtomicU64>,
    bytes: u64,
}

impl Share {
    fn take(&mut self, bytes: u64, max: u64) -> bool {
        let before = self.held.fetch_add(bytes, Ordering::Relaxed);
        if before.saturating_add(bytes) > max {
            self.held.fetch_sub(bytes, Ordering::Relaxed);
            return false;
        }
        self.bytes += bytes;
        true
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.held.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// A message that grows.
pub(super) struct Growing {
    mail: Mail,
    bytes_max: u64,
    held_bytes_max: u64,
}

impl Growing {
    pub(super) fn new(settings: &Settings, protocol: Protocol, direction: Direction) -> Self {
        let mail = Mail {
            protocol,
            direction,
            envelope: MailEnvelope::default(),
            bytes: Vec::new(),
            size: 0,
            end: MailEnd::Whole,
            has_other_end: false,
            share: Share { held: Arc::clone(&settings.held), bytes: 0 },
        };
        let bytes_max = settings.message_bytes_max;
        Self { mail, bytes_max, held_bytes_max: settings.held_bytes_max }
    }

    /// Bytes so far.
    pub(super) fn size(&self) -> u64 {
        self.mail.size
    }

    pub(super) fn push(&mut self, bytes: &[u8]) {
        let mail = &mut self.mail;
        mail.size += bytes.len() as u64;
        if mail.end != MailEnd::Whole {
            return;
        }
        if mail.size > self.bytes_max {
            mail.end = MailEnd::TooLarge;
        } else if mail.share.take(bytes.len() as u64, self.held_bytes_max) {
            mail.bytes.extend_from_slice(bytes);
        } else {
            mail.end = MailEnd::NoRoom;
        }
    }

    pub(super) fn note_other_end(&mut self) {
        self.mail.has_other_end = true;
    }

    /// The message, which ends here.
    pub(super) fn finish(self, end: MailEnd, envelope: MailEnvelope) -> Mail {
        let mut mail = self.mail;
        mail.envelope = envelope;
        if mail.end == MailEnd::Whole {
            mail.end = end;
        }
        mail
    }
}
