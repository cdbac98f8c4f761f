//! The columns of an exported message.

use gauntlet_mail::Direction;
use gauntlet_store::log::LoggedMessage;
use gauntlet_verdict::Final;

use super::columns::Cells;

fn int(number: u32) -> i32 {
    i32::try_from(number).unwrap_or(i32::MAX)
}

/// Gives each column of [`super::schema::SCHEMA`] its value, in its order.
pub(super) fn push(cells: &mut Cells<'_>, message: &LoggedMessage, node: &str) {
    let record = &message.record;
    let envelope = &record.envelope;
    let verdict = &record.verdict;
    cells.text(&record.id);
    cells.text(node);
    cells.long(record.received_ms);
    cells.text(match envelope.direction {
        Direction::Inbound => "inbound",
        Direction::Outbound => "outbound",
    });
    cells.optional_text(envelope.client_ip.map(|ip| ip.to_string()).as_deref());
    cells.optional_text(envelope.client_name.as_deref());
    cells.text(&envelope.helo);
    cells.optional_text(envelope.auth_user.as_deref());
    cells.text(&envelope.mail_from);
    cells.long(i64::try_from(record.size).unwrap_or(i64::MAX));
    cells.text(&record.from);
    cells.text(&record.subject);
    cells.text(&record.message_id);
    cells.text(verdict.class.name());
    cells.real(verdict.score);
    cells.optional_real(verdict.probability);
    cells.text(&verdict.ruleset);
    cells.int(int(record.latency_ms));
    cells.real(verdict.cost_us());
    cells.list(3, &verdict.hits, |cells, hit| {
        cells.text(&hit.rule);
        cells.real(hit.score);
        cells.int(int(hit.count));
    });
    cells.list(4, &record.dispositions, |cells, decision| {
        cells.text(&decision.recipient);
        cells.text(decision.end.name());
        cells.text(match &decision.end {
            Final::Hold { folder } | Final::Quarantine { folder } => folder,
            _ => "",
        });
        cells.text(&decision.rules.join(", "));
    });
    cells.list(6, &record.deliveries, |cells, delivery| {
        cells.text(&delivery.address);
        cells.text(delivery.outcome.name());
        cells.optional_long((delivery.at_ms > 0).then_some(delivery.at_ms));
        cells.int(int(delivery.attempts));
        cells.text(&delivery.next_hop);
        cells.text(&delivery.reply);
    });
    cells.list(4, &message.events, |cells, event| {
        cells.long(event.at_ms);
        cells.text(&event.kind);
        cells.text(&event.recipient);
        cells.text(&event.detail);
    });
}
