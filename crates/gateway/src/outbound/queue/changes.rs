//! What is changed of a message on its way out: fields and parts by the policy, then signatures and
//! the seal.

use bytes::Bytes;
use gauntlet_mail::{Direction, Message};
use gauntlet_policy::rewrite::{self, DisarmedPart};
use gauntlet_store::LogRecord;
use gauntlet_verdict::Change;

use super::Queue;
use crate::message::OutgoingMessage;
use crate::outbound::settings::OutboundSettings;
use crate::outbound::signing::KeyRing;

impl Queue {
    /// The message with these changes made, signed and sealed last. Parts that were to be disarmed
    /// and are not in `disarmed` are stripped.
    ///
    /// # Errors
    /// If it was to be signed and the secrets process has ended: it must wait then, not go out
    /// unsigned.
    pub(crate) fn changed(
        &self,
        settings: &OutboundSettings,
        record: &LogRecord,
        body: &Bytes,
        changes: &[Change],
        disarmed: &[DisarmedPart],
    ) -> Result<OutgoingMessage, String> {
        let (keys, now_s) = (&settings.key_ring, self.now_ms() / 1_000);
        let mut message = with_changes(OutgoingMessage::from(body.clone()), changes, disarmed);
        if changes.contains(&Change::DkimSign) {
            message = with_fields(message, keys, |message| keys.sign(message, now_s))?;
        }
        if !seals(settings, record) {
            return Ok(message);
        }
        let (host, arc) = (&self.parts.host, record.facts.arc);
        with_fields(message, keys, |message| keys.seal(message, host, arc, now_s))
    }
}

/// Whether a message gets a seal when it goes on.
pub(crate) fn seals(settings: &OutboundSettings, record: &LogRecord) -> bool {
    record.envelope.direction == Direction::Inbound && settings.key_ring.seals()
}

/// The message with these changes. Those of the header leave the body where it is.
fn with_changes(
    message: OutgoingMessage,
    changes: &[Change],
    disarmed: &[DisarmedPart],
) -> OutgoingMessage {
    let of_header = |change: &&Change| {
        matches!(
            change,
            Change::AddHeader { .. } | Change::RemoveHeader { .. } | Change::TagSubject { .. }
        )
    };
    let of_body = |change: &&Change| {
        matches!(
            change,
            Change::StripAttachments { .. }
                | Change::Strip(_)
                | Change::Disarm(_)
                | Change::ConvertNames { .. }
                | Change::Disclaimer { .. }
        )
    };
    if changes.iter().any(|change| of_body(&change)) {
        let raw = message.to_vec();
        let changed = rewrite::apply_with(&Message::parse(&raw), changes, disarmed);
        return OutgoingMessage::from(Bytes::from(changed));
    }
    if !changes.iter().any(|change| of_header(&change)) {
        return message;
    }
    let header = rewrite::apply(&Message::parse(message.header()), changes);
    message.with_header(header)
}

/// The message with fields on top that are made of it; as it is, said in the log, if they cannot
/// be.
fn with_fields(
    message: OutgoingMessage,
    keys: &KeyRing,
    make: impl FnOnce(&OutgoingMessage) -> anyhow::Result<String>,
) -> Result<OutgoingMessage, String> {
    match make(&message) {
        Ok(fields) => Ok(message.with_first(&fields)),
        Err(error) if keys.are_out_of_reach() => {
            tracing::error!(%error, "a message waits: it cannot be signed now");
            Err("cannot be signed now".to_owned())
        }
        Err(error) => {
            tracing::error!(%error, "a message goes out unsigned");
            Ok(message)
        }
    }
}
