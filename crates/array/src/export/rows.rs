//! The columns of an exported message.

use gauntlet_mail::Direction;
use gauntlet_store::log::LoggedMessage;
use gauntlet_verdict::Final;

use super::columns::Cells;

/// The schema of a file, in the words of the format. Columns are only ever added, at the end: what
/// reads old files reads new ones. docs/array-export.md says what each is.
pub(super) const SCHEMA: &str = "
message message {
  required binary id (STRING);
  required binary node (STRING);
  required int64 received (TIMESTAMP(MILLIS,true));
  required binary direction (STRING);
  optional binary client_ip (STRING);
  optional binary client_name (STRING);
  required binary helo (STRING);
  optional binary login (STRING);
  required binary sender (STRING);
  required int64 size;
  required binary header_from (STRING);
  required binary subject (STRING);
  required binary message_id (STRING);
  required binary class (STRING);
  required double score;
  optional double probability;
  required binary ruleset (STRING);
  required int32 latency_ms;
  required double cost_us;
  required group hits (LIST) {
    repeated group list {
      required group element {
        required binary rule (STRING);
        required double score;
        required int32 count;
      }
    }
  }
  required group decisions (LIST) {
    repeated group list {
      required group element {
        required binary recipient (STRING);
        required binary action (STRING);
        required binary folder (STRING);
        required binary rule (STRING);
      }
    }
  }
  required group deliveries (LIST) {
    repeated group list {
      required group element {
        required binary address (STRING);
        required binary outcome (STRING);
        optional int64 at (TIMESTAMP(MILLIS,true));
        required int32 attempts;
        required binary next_hop (STRING);
        required binary reply (STRING);
      }
    }
  }
  required group events (LIST) {
    repeated group list {
      required group element {
        required int64 at (TIMESTAMP(MILLIS,true));
        required binary kind (STRING);
        required binary recipient (STRING);
        required binary detail (STRING);
      }
    }
  }
}
";

fn int(number: u32) -> i32 {
    i32::try_from(number).unwrap_or(i32::MAX)
}

/// Gives each column of [`SCHEMA`] its value, in its order.
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
