//! What a rule for packets looked for, in the bytes that it saw; and packets as a file.

use maud::{Markup, html};

/// Contents of a rule that are looked for, at most.
const CONTENTS_MAX: usize = 64;
/// Most marks in one text.
const MARKS_MAX: usize = 200;

/// A content of a rule.
#[derive(Debug, PartialEq, Eq)]
struct Content {
    bytes: Vec<u8>,
    any_case: bool,
}

/// The bytes as text, with the contents of the rule marked.
pub(crate) fn marked(bytes: &[u8], rule: &str) -> Markup {
    let mut at = 0;
    let marks = marks(bytes, &contents(rule));
    let text = |begin: usize, end: usize| -> String {
        let part = bytes.get(begin..end).unwrap_or_default();
        // Of the ends of lines one byte is enough.
        part.iter().filter(|byte| **byte != b'\r').map(|byte| printable(*byte)).collect()
    };
    html! {
        @for (begin, end) in marks {
            (text(at, begin))
            mark { (text(begin, end)) }
            ({ at = end; "" })
        }
        (text(at, bytes.len()))
    }
}

fn printable(byte: u8) -> char {
    match byte {
        b'\n' | b' '..=b'~' => char::from(byte),
        _ => '·',
    }
}

/// Where they are: apart from each other, in order.
fn marks(bytes: &[u8], contents: &[Content]) -> Vec<(usize, usize)> {
    let lower = bytes.to_ascii_lowercase();
    let mut found: Vec<(usize, usize)> = Vec::new();
    for content in contents {
        let (text, wanted) = match content.any_case {
            true => (&lower[..], content.bytes.to_ascii_lowercase()),
            false => (bytes, content.bytes.clone()),
        };
        let places = memchr::memmem::find_iter(text, &wanted).take(MARKS_MAX);
        found.extend(places.map(|place| (place, place + wanted.len())));
    }
    found.sort_unstable();
    let mut joined: Vec<(usize, usize)> = Vec::new();
    for (begin, end) in found {
        match joined.last_mut().filter(|last| begin <= last.1) {
            Some(last) => last.1 = last.1.max(end),
            None => joined.push((begin, end)),
        }
    }
    joined.truncate(MARKS_MAX);
    joined
}

/// The contents of a rule that must be there (`content:"a|0d 0a|"; nocase;`).
fn contents(rule: &str) -> Vec<Content> {
    let mut found: Vec<Content> = Vec::new();
    for option in options(rule) {
        let option = option.trim();
        if option.eq_ignore_ascii_case("nocase") {
            if let Some(last) = found.last_mut() {
                last.any_case = true;
            }
            continue;
        }
        let Some(value) = option.strip_prefix("content:") else { continue };
        let quoted = value.trim().strip_prefix('"').and_then(|value| value.strip_suffix('"'));
        let bytes = quoted.map(unquoted).unwrap_or_default();
        if !bytes.is_empty() && found.len() < CONTENTS_MAX {
            found.push(Content { bytes, any_case: false });
        }
    }
    found
}

/// What is between semicolons that are not in quotes or escaped.
fn options(rule: &str) -> Vec<&str> {
    let begin = rule.find('(').map_or(0, |place| place + 1);
    let (mut options, mut start) = (Vec::new(), begin);
    let (mut is_quoted, mut is_escaped) = (false, false);
    for (place, c) in rule.char_indices().filter(|(place, _)| *place >= begin) {
        match c {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            '"' => is_quoted = !is_quoted,
            ';' if !is_quoted => {
                options.push(rule.get(start..place).unwrap_or_default());
                start = place + 1;
            }
            _ => {}
        }
    }
    options
}

/// A content's bytes: escapes, and hexadecimal digits between bars.
fn unquoted(text: &str) -> Vec<u8> {
    let (mut bytes, mut digits, mut is_hex, mut is_escaped) = (Vec::new(), None, false, false);
    for byte in text.bytes() {
        match byte {
            _ if is_escaped => {
                bytes.push(byte);
                is_escaped = false;
            }
            b'|' => is_hex = !is_hex,
            _ if is_hex => {
                let Some(digit) = char::from(byte).to_digit(16) else { continue };
                let digit = u8::try_from(digit).unwrap_or_default();
                match digits.take() {
                    Some(high) => bytes.push(high << 4 | digit),
                    None => digits = Some(digit),
                }
            }
            b'\\' => is_escaped = true,
            _ => bytes.push(byte),
        }
    }
    bytes
}

/// A packet as it was seen.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Captured {
    pub(crate) at_ms: i64,
    /// Link type as capture files number it.
    pub(crate) link: u32,
    pub(crate) bytes: Vec<u8>,
}

/// A capture file (pcap) of those with the link type of the first one.
pub(crate) fn pcap(packets: &[Captured]) -> Vec<u8> {
    let link = packets.first().map_or(1, |packet| packet.link);
    let mut out = Vec::new();
    // Magic number, version 2.4, time zone, accuracy, longest packet, link type.
    for word in [0xa1b2_c3d4, 0x0004_0002, 0, 0, 262_144, link] {
        out.extend(u32::to_le_bytes(word));
    }
    for packet in packets.iter().filter(|packet| packet.link == link) {
        let seconds = u32::try_from(packet.at_ms.div_euclid(1_000)).unwrap_or(u32::MAX);
        let micros = u32::try_from(packet.at_ms.rem_euclid(1_000) * 1_000).unwrap_or(0);
        let len = u32::try_from(packet.bytes.len()).unwrap_or(u32::MAX);
        for word in [seconds, micros, len, len] {
            out.extend(u32::to_le_bytes(word));
        }
        out.extend_from_slice(&packet.bytes);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contents_of_a_rule_are_marked() {
        let rule = r#"alert tcp any any -> any 80 (msg:"a; content:\"x\""; content:"GET|20 2f|";
            content:!"never"; content:"Se\;cret"; nocase; sid:1;)"#;
        let bytes = b"GET /a SE;CRET never \x00<b> GET /";
        let page = marked(bytes, rule).into_string();
        let expected =
            "<mark>GET /</mark>a <mark>SE;CRET</mark> never ·&lt;b&gt; <mark>GET /</mark>";
        assert_eq!(page, expected);
        for rule in ["", "(", "alert (content:\"|0\"; content:\"\\", "(content:;nocase;)", "(\"é;"]
        {
            assert_eq!(marked(b"a", rule).into_string(), "a", "{rule}");
        }
    }

    #[test]
    fn a_capture_has_packets_of_one_link_type() {
        let packet = |link, byte| Captured { at_ms: 1_500, link, bytes: vec![byte; 3] };
        let file = pcap(&[packet(101, 1), packet(1, 2), packet(101, 3)]);
        assert_eq!(file.len(), 24 + 2 * (16 + 3));
        assert_eq!(file[20..24], 101_u32.to_le_bytes());
        assert_eq!(file[24..32], [1, 0, 0, 0, 0x20, 0xa1, 7, 0]);
        assert_eq!(file[59..], [3, 3, 3]);
        assert_eq!(pcap(&[]).len(), 24);
    }
}
