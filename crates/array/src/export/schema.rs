//! The schema of exported files.

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
