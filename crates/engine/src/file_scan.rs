//! Judging a file that came with no message: what a user found, a download, a share.
//!
//! The file is the only attachment of a message without sender and text ([`wrapped`]); the filters
//! that judge files run on it, and those that read text run on the texts inside it. Rules about
//! mail, and the classifier, which has only seen mail, say nothing.

use gauntlet_mail::{Envelope, Facts, Message};
use gauntlet_verdict::Verdict;

use crate::filter::Item;
use crate::scan::{run_filters, verdict};
use crate::scratch::Scratch;
use crate::snapshot::Snapshot;

/// Bytes of a line of base64 before it is encoded (RFC 2045 section 6.8).
const LINE_BYTES: usize = 57;
/// Between the parts; base64 has no such line.
const BOUNDARY: &str = "=_gauntlet_file";

/// A message whose only attachment is this file. The name is taken as it is, without folders.
pub fn wrapped(name: &str, bytes: &[u8]) -> Vec<u8> {
    let mut raw = format!(
        "MIME-Version: 1.0\r\nContent-Type: multipart/mixed; boundary=\"{BOUNDARY}\"\r\n\r\n\
         --{BOUNDARY}\r\nContent-Type: application/octet-stream\r\n\
         Content-Disposition: attachment; filename*=utf-8''{}\r\n\
         Content-Transfer-Encoding: base64\r\n\r\n",
        percent_encoded(name.rsplit('/').next().unwrap_or_default())
    )
    .into_bytes();
    raw.reserve(bytes.len() / 2 * 3);
    for line in bytes.chunks(LINE_BYTES) {
        base64_simd::STANDARD.encode_append(line, &mut raw);
        raw.extend_from_slice(b"\r\n");
    }
    raw.extend_from_slice(format!("--{BOUNDARY}--\r\n").as_bytes());
    raw
}

/// As the value of a parameter (RFC 8187 section 3.2).
fn percent_encoded(name: &str) -> String {
    let mut out = String::new();
    for byte in name.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'.' | b'-' | b'_' => {
                out.push(char::from(byte));
            }
            other => out.push_str(&format!("%{other:02X}")),
        }
    }
    out
}

/// The verdict on the file in a message that [`wrapped`] made. `facts` has what unpacking found in
/// it.
pub fn scan_file(
    message: &Message<'_>,
    facts: &Facts,
    snapshot: &Snapshot,
    scratch: &mut Scratch,
) -> Verdict {
    let envelope = Envelope::default();
    let item = Item { message, envelope: &envelope, facts, learned: &snapshot.learned };
    let ran = run_filters(&item, snapshot, scratch, |filter| filter.judges_files());
    // That the message has no sender and no date is our doing.
    verdict(Vec::new(), ran, facts.content.all_readings, snapshot)
}

#[cfg(test)]
mod tests {
    use super::*;
    use gauntlet_verdict::Class;

    fn rules(name: &str, bytes: &[u8]) -> (Class, Vec<String>) {
        let raw = wrapped(name, bytes);
        let message = Message::parse(&raw);
        let snapshot = Snapshot::default_rules();
        let verdict = scan_file(&message, &Facts::default(), &snapshot, &mut Scratch::default());
        assert!(verdict.defects.is_empty(), "{:?}", verdict.defects);
        (verdict.class, verdict.hits.iter().map(|hit| hit.rule.to_string()).collect())
    }

    #[test]
    fn names_and_bytes_count_and_rules_about_mail_do_not() {
        assert_eq!(rules("notes.txt", b"Buy now! Cheap pills, act fast!"), (Class::Ham, vec![]));
        let (_, found) = rules("a folder/invoice.pdf\u{202e}.exe", b"MZ\x90\0 program");
        assert!(found.contains(&"ATTACH_EXECUTABLE".to_owned()), "{found:?}");
        assert!(found.contains(&"ATTACH_NAME_TRICK".to_owned()), "{found:?}");
    }
}
