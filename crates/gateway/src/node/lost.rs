//! Messages whose records in the spool are damaged: named, and settled in the log, which would say
//! for ever that they are queued.

use gauntlet_store::log::Query;
use gauntlet_store::record::Event;
use gauntlet_store::{LogRecord, Outcome, Spool, StoreError};

use crate::ids;

/// Ids that one line names.
const NAMED_MAX: usize = 50;
/// Messages of the log that are looked at.
const LOOKED_AT_MAX: usize = 100_000;
/// What the log says of them.
const REPLY: &str = "lost: its record in the spool is damaged";

/// Looks for messages that the log calls queued and the spool has not got, settles them as failed,
/// and returns their ids. `since_ms`: when the oldest mail came that may still wait.
///
/// # Errors
/// If the log cannot be read or written.
pub(super) fn settle(
    log: &gauntlet_store::Log,
    spool: &Spool,
    since_ms: i64,
    now_ms: i64,
) -> Result<Vec<String>, StoreError> {
    let mut query = Query {
        outcome: Outcome::Queued.name().to_owned(),
        since_ms: Some(since_ms),
        limit: 500,
        ..Query::default()
    };
    let (mut lost, mut records, mut events, mut looked_at) =
        (Vec::new(), Vec::new(), Vec::new(), 0);
    loop {
        let page = log.search(&query)?;
        for found in &page.messages {
            looked_at += 1;
            // What was queued once is found, too, and still is only where the spool knows it.
            if ids::parse(&found.id).is_none_or(|id| spool.contains(id)) {
                continue;
            }
            let Some(logged) = log.get(&found.id)? else { continue };
            if let Some((record, mut of_it)) = settled(logged.record, now_ms) {
                lost.push(record.id.clone());
                records.push(record);
                events.append(&mut of_it);
            }
        }
        query.after = page.next;
        if query.after.is_none() || looked_at >= LOOKED_AT_MAX {
            break;
        }
    }
    if !records.is_empty() {
        log.append(records)?;
        log.append_events(events)?;
    }
    Ok(lost)
}

/// The record with the outcome of recipients who still waited; none if nobody did.
fn settled(mut record: LogRecord, now_ms: i64) -> Option<(LogRecord, Vec<Event>)> {
    let (id, received_ms) = (record.id.clone(), record.received_ms);
    let mut events = Vec::new();
    for delivery in record.deliveries.iter_mut().filter(|d| d.outcome == Outcome::Queued) {
        delivery.outcome = Outcome::Failed;
        delivery.at_ms = now_ms;
        // A later state than any that the log has.
        delivery.attempts += 1;
        delivery.reply = REPLY.to_owned();
        events.push(Event {
            id: id.clone(),
            received_ms,
            at_ms: now_ms,
            kind: "lost".to_owned(),
            recipient: delivery.address.clone(),
            detail: REPLY.to_owned(),
        });
    }
    (!events.is_empty()).then_some((record, events))
}

/// Says which messages are lost.
pub(super) fn tell(lost: &Result<Vec<String>, StoreError>) {
    match lost {
        Ok(lost) if lost.is_empty() => tracing::warn!(
            "no message of the log is missing in the damaged spool; one that was never logged may be"
        ),
        Ok(lost) => {
            let named = lost.iter().take(NAMED_MAX).cloned().collect::<Vec<_>>().join(" ");
            let more = lost.len().saturating_sub(NAMED_MAX);
            tracing::error!(
                ids = named,
                more,
                "messages are lost: their records in the spool are damaged"
            );
        }
        Err(error) => tracing::error!(
            %error,
            "which messages are lost by the damage to the spool cannot be read from the log"
        ),
    }
}

#[cfg(test)]
mod tests {
    use gauntlet_store::Delivery;

    use super::*;

    #[test]
    fn who_still_waited_is_settled_and_nobody_else() {
        let to = |address: &str, outcome| Delivery {
            address: address.to_owned(),
            outcome,
            attempts: 2,
            ..Delivery::default()
        };
        let record = LogRecord {
            id: "a".to_owned(),
            deliveries: vec![to("x", Outcome::Delivered), to("y", Outcome::Queued)],
            ..LogRecord::default()
        };
        let (after, events) = settled(record.clone(), 7).unwrap();
        assert_eq!(after.deliveries[0], record.deliveries[0]);
        let lost = &after.deliveries[1];
        assert_eq!((lost.outcome, lost.at_ms, lost.attempts), (Outcome::Failed, 7, 3));
        assert_eq!((events.len(), events[0].recipient.as_str()), (1, "y"));
        assert!(settled(after, 8).is_none());
    }
}
