//! Stamps: which run, instance and number a message is of.

use std::fmt::Write as _;

use gauntlet_smtp::dot_stuff;

/// Name of the header field. Not one of `X-Gauntlet-`: a gateway removes those as forged.
const FIELD: &str = "X-Bench-Stamp";

/// Which message it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Stamp {
    pub(super) instance: usize,
    /// Number of the message in its instance, from 1.
    pub(super) sequence: u64,
}

impl Stamp {
    /// Header fields that go first: the stamp, From and To.
    pub(super) fn head(self, run: &str, from: &str, to: &[String]) -> String {
        let mut text = format!(
            "{FIELD}: {run} {} {}\r\nFrom: <{from}>\r\nTo: <",
            self.instance, self.sequence
        );
        // A recipient a line: folded, so that no line is too long.
        let _never_fails = write!(text, "{}>\r\n", to.join(">,\r\n <"));
        text
    }

    /// The stamp of this run in the head of a message.
    pub(super) fn find(head: &[u8], run: &str) -> Option<Self> {
        let text = String::from_utf8_lossy(head);
        let line = text.lines().find_map(|l| {
            let (name, value) = l.split_once(':')?;
            name.eq_ignore_ascii_case(FIELD).then_some(value)
        })?;
        let mut words = line.split_ascii_whitespace();
        if words.next()? != run {
            return None;
        }
        Some(Stamp { instance: words.next()?.parse().ok()?, sequence: words.next()?.parse().ok()? })
    }
}

/// A message without its From and To, ready for the wire.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Template {
    /// Stuffed, with its end.
    pub(super) rest: Vec<u8>,
    pub(super) eight_bit: bool,
}

impl Template {
    pub(super) fn new(raw: &[u8]) -> Self {
        let mut kept = Vec::with_capacity(raw.len());
        let (mut in_header, mut dropping) = (true, false);
        for line in raw.split_inclusive(|b| *b == b'\n') {
            if in_header {
                let folded = line.starts_with(b" ") || line.starts_with(b"\t");
                let bare = line.strip_suffix(b"\n").unwrap_or(line);
                in_header = !bare.strip_suffix(b"\r").unwrap_or(bare).is_empty();
                if !folded {
                    let name = line.split(|b| *b == b':').next().unwrap_or_default();
                    let name = name.trim_ascii_end();
                    dropping = in_header
                        && [&b"from"[..], b"to", FIELD.as_bytes()]
                            .iter()
                            .any(|n| name.eq_ignore_ascii_case(n));
                }
                if dropping && in_header {
                    continue;
                }
            }
            kept.extend_from_slice(line);
        }
        let mut rest = Vec::new();
        dot_stuff(&kept, &mut rest);
        Template { rest, eight_bit: !raw.is_ascii() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn from_and_to_are_replaced() {
        let raw = b"Subject: a\nFrom: x\n y\nTo : z\nfrom: twice\nFrom-Me: kept\n\nFrom: body\n.\n";
        let template = Template::new(raw);
        let text = "Subject: a\r\nFrom-Me: kept\r\n\r\nFrom: body\r\n..\r\n.\r\n";
        assert_eq!(String::from_utf8_lossy(&template.rest), text);
        assert_eq!(Template::new(b"").rest, b".\r\n");
    }

    #[test]
    fn stamps_are_found_again() {
        let stamp = Stamp { instance: 3, sequence: 77 };
        let head = stamp.head("run", "a@b", &["c@d".into(), "e@f".into()]);
        assert!(head.ends_with("To: <c@d>,\r\n <e@f>\r\n"), "{head}");
        let message = format!("Received: by x\r\n{head}Subject: y\r\n\r\n");
        assert_eq!(Stamp::find(message.as_bytes(), "run"), Some(stamp));
        assert_eq!(Stamp::find(message.as_bytes(), "other"), None);
        assert_eq!(Stamp::find(b"Subject: x\r\n\r\n", "run"), None);
    }
}
