//! Anomalies of a message as a whole and of its header blocks: looked for when the defects are
//! asked for.

use memchr::{memchr, memchr_iter};

use crate::ambiguity;
use crate::authors::Authors;
use crate::defect::{Defect, DefectKind};
use crate::header::{Header, decode_words, find_encoded_word};
use crate::limits::Limits;
use crate::part::Part;

/// Longest line in bytes without its line end (RFC 5322 section 2.1.1).
const LINE_BYTES_MAX: usize = 998;

/// Fields that a header must not have twice (RFC 5322 section 3.6, RFC 2045 section 3).
const ONCE: [&str; 15] = [
    "date",
    "sender",
    "reply-to",
    "to",
    "cc",
    "bcc",
    "message-id",
    "in-reply-to",
    "references",
    "subject",
    "mime-version",
    "content-type",
    "content-transfer-encoding",
    "content-disposition",
    "content-id",
];

/// Anomalies that only a message as a whole has; `root` is its first part.
pub(crate) fn of_message(
    raw: &[u8],
    root: &Part<'_>,
    authors: &Authors,
    limits: &Limits,
    defects: &mut Vec<Defect>,
) {
    if raw.is_empty() {
        defects.push(Defect::new(DefectKind::EmptyMessage, 0));
        return;
    }
    let missing = [
        ("from", DefectKind::NoFrom),
        ("date", DefectKind::NoDate),
        ("message-id", DefectKind::NoMessageId),
    ];
    for (name, kind) in missing {
        if root.header(name).is_none() {
            defects.push(Defect::new(kind, 0));
        }
    }
    if let Some(second) = root.headers.iter().filter(|h| h.is("from")).nth(1) {
        defects.push(Defect::new(DefectKind::DuplicateFrom, 0).at(second.offset));
    }
    if authors.is_ambiguous() {
        let at = root.header("from").map_or(0, |field| field.offset);
        defects.push(Defect::new(DefectKind::AmbiguousFrom, 0).at(at));
    }
    let relays = root.headers.iter().filter(|h| h.is("received")).count();
    if relays > usize::from(limits.relays_max) {
        defects.push(Defect::new(DefectKind::TooManyRelays, 0));
    }
    let body = root.body_range.start;
    if let Some(nul) = memchr(0, raw.get(body..).unwrap_or_default()) {
        defects.push(Defect::new(DefectKind::NulInBody, 0).at(body + nul));
    }
    if let Some(at) = irregular_line_end(raw) {
        defects.push(Defect::new(DefectKind::MixedLineEndings, 0).at(at));
        if let Some(at) = ambiguity::part_after_bare_return(raw) {
            defects.push(Defect::new(DefectKind::PartsAfterBareReturn, 0).at(at));
        }
    }
}

/// The first CR without LF, or in a message that also uses CRLF the first LF without CR.
fn irregular_line_end(raw: &[u8]) -> Option<usize> {
    let returns = memchr_iter(b'\r', raw).count();
    // Most mail on disk has none.
    if returns == 0 {
        return None;
    }
    let crlf = line_ends(raw);
    if crlf == returns && crlf == memchr_iter(b'\n', raw).count() {
        return None;
    }
    let mut bare_cr = None;
    if crlf < returns {
        bare_cr = memchr_iter(b'\r', raw).find(|&i| raw.get(i + 1) != Some(&b'\n'));
    }
    let is_bare = |i: &usize| i.checked_sub(1).is_none_or(|before| raw[before] != b'\r');
    let bare_lf = if crlf > 0 { memchr_iter(b'\n', raw).find(is_bare) } else { None };
    bare_cr.into_iter().chain(bare_lf).min()
}

/// How many CRLF there are. In pieces whose counts fit a byte, of which the compiler makes vectors.
fn line_ends(raw: &[u8]) -> usize {
    const PIECE: usize = 192;
    let next = raw.get(1..).unwrap_or_default();
    let in_piece = |(first, second): (&[u8], &[u8])| {
        let pairs = first.iter().zip(second);
        pairs.fold(0u8, |n, (a, b)| n.wrapping_add(u8::from((*a == b'\r') & (*b == b'\n'))))
    };
    raw.chunks(PIECE).zip(next.chunks(PIECE)).map(in_piece).map(usize::from).sum()
}

/// Anomalies of one part's header block.
pub(crate) fn of_part(raw: &[u8], part: &Part<'_>, index: u16, defects: &mut Vec<Defect>) {
    // What the whole block lacks no field has, so most blocks need no check of each field.
    let block = raw.get(part.header_range.clone()).unwrap_or_default();
    let mut found = |kind, header: Option<&Header<'_>>| {
        let defect = |h: &Header<'_>| Defect::new(kind, index).at(h.offset).detail(&h.name_str());
        defects.extend(header.map(defect));
    };
    found(DefectKind::LongHeaderLine, part.headers.iter().find(|h| has_long_line(h)));
    if !block.is_ascii() {
        let eight_bit = |h: &&Header<'_>| {
            !h.raw_value.is_ascii() && simdutf8::basic::from_utf8(h.raw_value).is_err()
        };
        found(DefectKind::EightBitHeader, part.headers.iter().find(eight_bit));
    }
    if memchr(0, block).is_some() {
        let nul = |h: &&Header<'_>| memchr(0, h.raw_value).is_some();
        found(DefectKind::NulInHeader, part.headers.iter().find(nul));
    }
    if find_encoded_word(block).is_some() {
        let bad_word = |h: &&Header<'_>| {
            find_encoded_word(h.raw_value).is_some() && !decode_words(&h.unfolded()).1
        };
        found(DefectKind::BadEncodedWord, part.headers.iter().find(bad_word));
    }
    let mut seen = [false; ONCE.len()];
    for header in &part.headers {
        let Some(i) = ONCE.iter().position(|name| header.is(name)) else { continue };
        if std::mem::replace(&mut seen[i], true) {
            found(DefectKind::DuplicateHeader, Some(header));
        }
    }
}

/// Whether a line of the field is longer than lines may be.
fn has_long_line(header: &Header<'_>) -> bool {
    let name_and_colon = header.name.len() + 1;
    header.raw_value.len() + name_and_colon > LINE_BYTES_MAX
        && header.raw_value.split(|b| *b == b'\n').enumerate().any(|(i, line)| {
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            line.len() + if i == 0 { name_and_colon } else { 0 } > LINE_BYTES_MAX
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::Message;

    const HEAD: &str = "From: a@b\nDate: Sat, 21 Nov 2026 10:00:00 +0000\nMessage-ID: <1@b>\n";

    /// The kinds found in a message whose required fields are there.
    fn kinds(rest: &str) -> Vec<DefectKind> {
        of(&[HEAD, rest].concat(), &Limits::default())
    }

    fn of(raw: &str, limits: &Limits) -> Vec<DefectKind> {
        let bytes: Vec<u8> = raw.chars().map(|c| c as u8).collect();
        Message::parse_with(&bytes, limits).defects().iter().map(|d| d.kind).collect()
    }

    #[test]
    fn every_anomaly_of_the_header() {
        use DefectKind as K;
        assert_eq!(kinds("\nbody\n"), []);
        assert_eq!(of("", &Limits::default()), [K::EmptyMessage, K::NoBodySeparator]);
        assert_eq!(kinds("Subject: caf\u{e9}\n\n"), [K::EightBitHeader]);
        assert_eq!(kinds("Subject: a\0\n\n"), [K::NulInHeader]);
        assert_eq!(kinds(&format!("X: {}\n\n", "x".repeat(996))), [K::LongHeaderLine]);
        assert_eq!(kinds(&format!("X: {}\n\n", "x\n ".repeat(996))), []);
        assert_eq!(kinds("From: c@d\n\n"), [K::DuplicateFrom]);
        assert_eq!(kinds("To: c@d\nTo: e@f\n\n"), [K::DuplicateHeader]);
        assert_eq!(of("A: b\n\n", &Limits::default()), [K::NoFrom, K::NoDate, K::NoMessageId]);
        assert_eq!(kinds("no colon here\nTo: x\n\n"), [K::HeaderWithoutColon]);
        assert_eq!(kinds("To: x"), [K::NoBodySeparator]);
        assert_eq!(kinds("Subject: =?x-none?q?a?=\n\n"), [K::BadEncodedWord]);
        let narrow = Limits { headers_max: 3, ..Limits::default() };
        assert_eq!(of(&format!("{HEAD}A: b\n\n"), &narrow), [K::TooManyHeaders]);
        let narrow = Limits { header_bytes_max: 72, ..Limits::default() };
        assert_eq!(of(&format!("{HEAD}A: b\nC: d\n\n"), &narrow), [K::HeaderBlockTooLarge]);
        let narrow = Limits { relays_max: 1, ..Limits::default() };
        assert_eq!(of(&format!("Received: x\nReceived: y\n{HEAD}\n"), &narrow), [K::TooManyRelays]);
    }

    #[test]
    fn every_anomaly_of_the_body() {
        use DefectKind as K;
        assert_eq!(kinds("\na\0b"), [K::NulInBody]);
        assert_eq!(kinds("\na\rb"), [K::MixedLineEndings]);
        assert_eq!(kinds("\r\n"), [K::MixedLineEndings]);
        let qp = "Content-Transfer-Encoding: quoted-printable\n\n=zz";
        assert_eq!(kinds(qp), [K::BadQuotedPrintable]);
        assert_eq!(kinds("Content-Transfer-Encoding: base64\n\na*"), [K::BadBase64]);
        let malformed = kinds("Content-Transfer-Encoding: x-y\n\n");
        assert_eq!(malformed, [K::BadTransferEncoding, K::OddTransferEncoding]);
        assert_eq!(kinds("Content-Type: text/plain; charset=none\n\n"), [K::UnknownCharset]);
        assert_eq!(kinds("Content-Type: text/plain; charset=utf-8\n\n\u{ff}"), [K::BadCharset]);
        assert_eq!(kinds("Content-Type: nonsense\n\n"), [K::BadContentType]);
        let narrow = Limits { text_bytes_max: 3, ..Limits::default() };
        assert_eq!(of(&format!("{HEAD}\nabcd"), &narrow), [K::TextTooLarge]);
        let narrow = Limits { decoded_bytes_max: 3, ..Limits::default() };
        assert_eq!(of(&format!("{HEAD}\nabcd"), &narrow), [K::DecodedTooLarge]);
        let narrow = Limits { urls_max: 1, ..Limits::default() };
        assert_eq!(of(&format!("{HEAD}\nhttp://a.b/ http://c.d/"), &narrow), [K::TooManyUrls]);
    }

    #[test]
    fn line_ends_are_judged_as_byte_by_byte() {
        fn slowly(raw: &[u8]) -> Option<usize> {
            let after_cr = |i: usize| i > 0 && raw[i - 1] == b'\r';
            let is_crlf = |i: &usize| raw[*i] == b'\n' && after_cr(*i);
            let has_crlf = (0..raw.len()).any(|i| is_crlf(&i));
            (0..raw.len()).find(|&i| match raw[i] {
                b'\r' => raw.get(i + 1) != Some(&b'\n'),
                b'\n' => has_crlf && !after_cr(i),
                _ => false,
            })
        }
        let mut seed = 3u32;
        for round in 0..20_000 {
            let mut raw = vec![b'a'; if round % 2 == 0 { 0 } else { 188 }];
            for _ in 0..7 {
                seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                raw.extend_from_slice(
                    [&b"\r\n"[..], b"\n", b"\r", b"a", b"\r\n"][(seed >> 16) as usize % 5],
                );
            }
            assert_eq!(irregular_line_end(&raw), slowly(&raw), "{raw:?}");
        }
    }

    #[test]
    fn every_anomaly_of_multiparts() {
        use DefectKind as K;
        let multi = |params: &str, body: &str| {
            kinds(&format!("Content-Type: multipart/mixed{params}\n\n{body}"))
        };
        assert_eq!(multi("", "x"), [K::NoBoundary]);
        assert_eq!(multi("; boundary=x", "y"), [K::BoundaryNotFound]);
        assert_eq!(multi("; boundary=x", "--x\n\ny"), [K::UnclosedBoundary]);
        assert_eq!(multi("; boundary=x; boundary=y", "--x\n\n--x--\n"), [K::DuplicateBoundary]);
        let inner = "--x\nContent-Type: multipart/mixed; boundary=x\n\n--x\n\n--x--\n";
        assert!(multi("; boundary=x", inner).contains(&K::BoundaryReused));
        let encoded = "Content-Transfer-Encoding: base64\nContent-Type: multipart/mixed; boundary=x\n\n--x\n\n--x--\n";
        assert_eq!(kinds(encoded), [K::EncodedMultipart]);
        let twice = "--x\nContent-Type: text/plain\nContent-Type: text/html\n\n--x--\n";
        let found = multi("; boundary=x", twice);
        assert_eq!(found, [K::DuplicateHeader, K::DuplicateMimeHeader]);
        let deep = Limits { depth_max: 0, parts_max: 2, ..Limits::default() };
        let raw = format!("{HEAD}Content-Type: multipart/mixed; boundary=x\n\n--x\n\n--x--\n");
        assert_eq!(of(&raw, &deep), [K::TooDeep]);
        let few = Limits { parts_max: 2, ..Limits::default() };
        let raw = raw.replace("--x\n\n--x--", "--x\n\n--x\n\n--x--");
        assert_eq!(of(&raw, &few), [K::TooManyParts]);
    }
}
