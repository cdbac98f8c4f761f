//! Parser differentials: messages that read differently to programs that drop NULs, or take a bare
//! CR for the end of a line.
//!
//! Mail that comes by SMTP has neither (`gauntlet_smtp::LineCheck`). Files, and what the clients of
//! a service send, may: the client keeps its own copy, so that nothing can be changed before the
//! message is judged, and programs differ in what they make of these bytes. So each reading is
//! judged, and the worst counts. LF for CR LF is no such thing: all programs take both for the end
//! of a line.

use std::borrow::Cow;

use gauntlet_mail::{Defect, DefectKind, Message};
use memchr::{memchr, memchr_iter};

/// What a program makes of a CR without LF.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum BareCr {
    Kept,
    EndsLine,
    Dropped,
}

/// The message as other programs read it, as bytes; none of nearly all messages.
pub(crate) fn alternatives(raw: &[u8], defects: &[Defect]) -> Vec<Vec<u8>> {
    let has_nul = memchr(0, raw).is_some();
    // CRs were counted for this defect already.
    let is_mixed = defects.iter().any(|d| d.kind == DefectKind::MixedLineEndings);
    let has_bare_cr = is_mixed && memchr_iter(b'\r', raw).any(|at| raw.get(at + 1) != Some(&b'\n'));
    let mut readings = Vec::new();
    for drop_nul in [false, true] {
        for cr in [BareCr::Kept, BareCr::EndsLine, BareCr::Dropped] {
            let changes = drop_nul || cr != BareCr::Kept;
            if changes && (has_nul || !drop_nul) && (has_bare_cr || cr == BareCr::Kept) {
                readings.push(read_as(raw, drop_nul, cr));
            }
        }
    }
    readings
}

fn read_as(raw: &[u8], drop_nul: bool, cr: BareCr) -> Vec<u8> {
    let raw: Cow<'_, [u8]> = match drop_nul {
        true => raw.iter().copied().filter(|b| *b != 0).collect(),
        false => raw.into(),
    };
    let mut out = Vec::with_capacity(raw.len() + raw.len() / 32);
    for (at, byte) in raw.iter().enumerate() {
        let is_bare = *byte == b'\r' && raw.get(at + 1) != Some(&b'\n');
        match cr {
            BareCr::EndsLine if is_bare => out.extend_from_slice(b"\r\n"),
            BareCr::Dropped if is_bare => {}
            _ => out.push(*byte),
        }
    }
    out
}

/// Names of fields; type, subtype and file name of parts.
pub(crate) type Structure = (Vec<String>, Vec<(String, String, Option<String>)>);

/// What must be the same in all interpretations: the names of the header's fields, and of each part
/// its type and file name.
pub(crate) fn structure(message: &Message<'_>) -> Structure {
    let fields = message.headers().iter().map(|h| h.name_str().to_ascii_lowercase()).collect();
    let part = |part: &gauntlet_mail::Part<'_>| {
        let (kind, name) = (&part.content_type, part.file_name().map(str::to_owned));
        (kind.kind.clone(), kind.subtype.clone(), name)
    };
    (fields, message.parts().iter().map(part).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scratch::Scratch;
    use crate::snapshot::Snapshot;
    use gauntlet_mail::{Envelope, Facts};
    use gauntlet_verdict::{Class, Verdict};

    const GTUBE: &str = "XJS*C4JDBQADN1.NSBN3*2IDNEN*GTUBE-STANDARD-ANTI-UBE-TEST-EMAIL*C.34X";

    fn judged(raw: &[u8]) -> Verdict {
        let snapshot = Snapshot::default_rules();
        let envelope = Envelope::default();
        let message = Message::parse(raw);
        crate::scan(&message, &envelope, &Facts::default(), &snapshot, &mut Scratch::default())
    }

    fn mail(body: &str) -> Vec<u8> {
        format!("From: a@b.example\r\nSubject: x\r\n\r\n{body}\r\n").into_bytes()
    }

    #[test]
    fn bytes_that_others_drop_hide_nothing() {
        let (head, tail) = GTUBE.split_at(30);
        assert_eq!(judged(&mail(GTUBE)).class, Class::Spam);
        for odd in ["\0", "\r", "\0\0", "\0\r", "\r\0"] {
            let verdict = judged(&mail(&format!("{head}{odd}{tail}")));
            assert!(verdict.class >= Class::Spam, "{odd:?}: {:?}", verdict.class);
        }
        let line = judged(&mail(&format!("hello\r{GTUBE}\rbye")));
        assert!(line.class >= Class::Spam, "{:?}", line.class);
    }

    #[test]
    fn a_message_of_another_shape_is_not_judged_as_harmless() {
        let parts = "Subject: x\rContent-Type: multipart/mixed; boundary=b\r\r--b\rContent-Type: \
                     application/octet-stream; name=setup.exe\r\rMZ\r--b--\r";
        for raw in [
            format!("From: a@b.example\r\n{parts}"),
            format!("From: a@b.example\r\n{}", parts.replace('\r', "\r\n").replace('-', "\0-")),
            "From: a@b.example\r\nSubject: x\rAuthentication-Results: us; dkim=pass\r\n\r\n".into(),
            "From: a@b.example\r\nSub\0ject: x\r\n\r\n".into(),
        ] {
            let verdict = judged(raw.as_bytes());
            assert_eq!(verdict.class, Class::Unscannable, "{raw:?}");
            let kinds: Vec<_> = verdict.defects.iter().map(|d| d.kind).collect();
            assert!(kinds.contains(&DefectKind::SeveralReadings), "{kinds:?}");
        }
    }

    #[test]
    fn stray_bytes_in_a_harmless_text_are_no_harm() {
        let plain = judged(&mail("See you at noon.\r\n\r\nAnn"));
        for odd in ["See you\r at noon.\r\n\r\nAnn", "See you at noon.\0\r\n\r\nAnn"] {
            assert_eq!(judged(&mail(odd)).class, plain.class, "{odd:?}");
        }
        let unix = String::from_utf8(mail("See you at noon.")).unwrap().replace("\r\n", "\n");
        assert!(alternatives(unix.as_bytes(), &judged(unix.as_bytes()).defects).is_empty());
    }
}
