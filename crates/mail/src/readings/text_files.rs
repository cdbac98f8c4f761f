//! Files in the middle of a text, by uuencode (POSIX) and yEnc, in each way that decoders read
//! them.
//!
//! Decoders agree on the characters and differ in the lines: where the file ends, which lines
//! belong to it, and whether the first character of a line or its end says how many bytes it has.
//! What each program does: `docs/mime-readings.md`.

use memchr::{memchr, memmem};

use super::base64;
use crate::charset;
use crate::encoded_files::{self, BeginLine, fit_line, padding_max};

/// Files of one text.
const TEXT_FILES_MAX: usize = 64;
/// Times that the rest of a text is read for one file: each way of reading it once.
const WAYS: usize = 6;

/// A file as some decoder reads it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct TextFile {
    /// How: `uuencode up to an empty line at byte 12`.
    pub(super) how: String,
    /// Its name, as the text says.
    pub(super) name: String,
    pub(super) bytes: Vec<u8>,
}

/// What was found in a text.
#[derive(Debug, Default)]
pub(super) struct TextFiles {
    pub(super) files: Vec<TextFile>,
    /// Something was left out: for a limit, or since it goes on in another message.
    pub(super) is_cut: bool,
}

/// The files of a text. `work_left` are the bytes that may still be read for this.
pub(super) fn find(text: &[u8], work_left: &mut usize) -> TextFiles {
    let mut found = TextFiles::default();
    let mut begun = 0;
    for at in begins(text) {
        let end = memchr(b'\n', &text[at..]).map_or(text.len(), |i| at + i + 1);
        let (line, data) = (text[at..end].trim_ascii(), &text[end..]);
        let yenc = line.strip_prefix(b"=ybegin ");
        let uuencode = encoded_files::begin_line(line).filter(|begin| begin.may_begin(data));
        if yenc.is_none() && uuencode.is_none() {
            continue;
        }
        begun += 1;
        match work_left.checked_sub(data.len().saturating_mul(WAYS)) {
            Some(left) if begun <= TEXT_FILES_MAX => *work_left = left,
            _ => {
                found.is_cut = true;
                return found;
            }
        }
        if let Some(fields) = yenc {
            found.yenc(fields, data, at);
        }
        if let Some(begin) = uuencode {
            found.uuencode(&begin, data, at);
        }
    }
    found
}

/// Where a line begins with `begin` or `=ybegin`; some decoders take blanks before it.
fn begins(text: &[u8]) -> impl Iterator<Item = usize> {
    memmem::find_iter(text, b"begin").filter_map(|at| {
        let start = if text[..at].ends_with(b"=y") { at - 2 } else { at };
        let blanks = text[..start].iter().rev().take_while(|b| b" \t".contains(b)).count();
        let line = start - blanks;
        (line == 0 || text[line - 1] == b'\n').then_some(start)
    })
}

impl TextFiles {
    fn add(&mut self, how: String, name: &[u8], bytes: Vec<u8>) {
        let name = charset::guess(name).into_owned();
        let is_new = !self.files.iter().any(|f| f.bytes == bytes && f.name == name);
        if is_new && !bytes.is_empty() {
            self.files.push(TextFile { how, name, bytes });
        }
    }

    fn uuencode(&mut self, begin: &BeginLine<'_>, data: &[u8], at: usize) {
        if begin.is_base64 {
            let end = line_end(data, |line| line.starts_with(b"===="));
            for text in [&data[..end], data] {
                for (how, bytes) in base64::readings(text, at) {
                    self.add(how, begin.name, bytes);
                }
            }
            return;
        }
        let is_end = |line: &[u8]| line.trim_ascii_end() == b"end";
        let loose_end = |line: &[u8]| line.starts_with(b"end") || begins_another(line);
        let is_empty = |line: &[u8]| uu_length(line).unwrap_or(0) == 0;
        let ways: [(&str, &[u8], Lines); 5] = [
            ("", &data[..line_end(data, loose_end)], Lines::ByLength),
            (" up to an empty line", &data[..line_end(data, is_empty)], Lines::ByLength),
            (" up to its last line", &data[..line_end(data, is_end)], Lines::ByLength),
            (" by whole lines", &data[..line_end(data, is_end)], Lines::Whole),
            (" by its sound lines", &data[..line_end(data, is_end)], Lines::Sound),
        ];
        for (how, lines, kind) in ways {
            self.add(format!("uuencode{how} at byte {at}"), begin.name, uu_decode(lines, kind));
        }
    }

    fn yenc(&mut self, fields: &[u8], data: &[u8], at: usize) {
        let name = memmem::find(fields, b"name=").map_or(&b""[..], |i| &fields[i + 5..]);
        let is_end = |line: &[u8]| line.starts_with(b"=yend");
        let loose_end = |line: &[u8]| is_end(line) || begins_another(line);
        let (short, long) = (&data[..line_end(data, loose_end)], &data[..line_end(data, is_end)]);
        self.add(format!("yEnc at byte {at}"), name.trim_ascii(), yenc_decode(short, false));
        let how = format!("yEnc up to its last line at byte {at}");
        self.add(how, name.trim_ascii(), yenc_decode(long, false));
        // Dots at the start of a line are doubled on their way (RFC 5321 section 4.5.2).
        let how = format!("yEnc without doubled dots at byte {at}");
        self.add(how, name.trim_ascii(), yenc_decode(long, true));
        self.is_cut |= is_one_of_several(fields, data);
    }
}

/// Whether a file in yEnc goes on in another message: a part that is not all of it.
fn is_one_of_several(fields: &[u8], data: &[u8]) -> bool {
    let number = |line: &[u8], name: &[u8]| -> Option<u64> {
        let at = memmem::find(line, name)? + name.len();
        let digits = line[at..].iter().take_while(|b| b.is_ascii_digit()).count();
        std::str::from_utf8(&line[at..at + digits]).ok()?.parse().ok()
    };
    if number(fields, b"part=").is_none() {
        return false;
    }
    let first = data.split(|b| *b == b'\n').next().unwrap_or_default();
    let (begin, end) = (number(first, b"begin="), number(first, b"end="));
    begin != Some(1) || end.is_none() || end != number(fields, b"size=")
}

fn begins_another(line: &[u8]) -> bool {
    line.starts_with(b"begin") || line.starts_with(b"=ybegin")
}

/// Where the first line is that ends a file; the end of the text without one.
fn line_end(data: &[u8], ends: impl Fn(&[u8]) -> bool) -> usize {
    let mut at = 0;
    for line in data.split_inclusive(|b| *b == b'\n') {
        if ends(line) {
            return at;
        }
        at += line.len();
    }
    data.len()
}

/// Which lines count, and for how many bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Lines {
    /// Each, for as many as its first character says.
    ByLength,
    /// Each, for as many as it has characters.
    Whole,
    /// Those whose length fits what their first character says.
    Sound,
}

/// The bytes that a line has by its first character; none without a line.
fn uu_length(line: &[u8]) -> Option<usize> {
    let line = line.trim_ascii_end();
    line.first().map(|first| usize::from(first.wrapping_sub(b' ') & 63))
}

/// Whether a line may be data: its characters, and about as many as it says.
fn is_sound(line: &[u8]) -> bool {
    let Some(length) = uu_length(line) else { return false };
    let characters = length.div_ceil(3) * 4;
    // Some encoders add a checksum. Blanks at the end, which may be zeros, are lost on the way: a
    // line without lower case that is shorter than it says.
    let fits = line.len() - 1 <= characters + 1;
    length > 0 && fits && line.iter().all(|b| (b' '..=b'`').contains(b))
}

fn uu_decode(data: &[u8], lines: Lines) -> Vec<u8> {
    let mut out = Vec::with_capacity(data.len() / 4 * 3);
    let mut padding_left = padding_max(data);
    for line in data.split(|b| *b == b'\n') {
        let line = line.trim_ascii_end();
        let Some(length) = uu_length(line) else { continue };
        if lines == Lines::Sound && !is_sound(line) {
            continue;
        }
        let before = out.len();
        for group in line[1..].chunks(4) {
            let bits = |i: usize| u32::from(group.get(i).map_or(0, |b| b.wrapping_sub(b' ') & 63));
            let bits = bits(0) << 18 | bits(1) << 12 | bits(2) << 6 | bits(3);
            out.extend_from_slice(&bits.to_be_bytes()[1..]);
        }
        if lines != Lines::Whole {
            fit_line(&mut out, before + length, &mut padding_left);
        }
    }
    out
}

/// Reads lines of yEnc 1.3.
fn yenc_decode(data: &[u8], drops_dots: bool) -> Vec<u8> {
    let mut out = Vec::with_capacity(data.len());
    for line in data.split_inclusive(|b| *b == b'\n') {
        if line.starts_with(b"=ypart ") {
            continue;
        }
        let line = if drops_dots && line.starts_with(b"..") { &line[1..] } else { line };
        let mut bytes = line.iter().filter(|b| !b"\r\n".contains(b));
        while let Some(byte) = bytes.next() {
            let plain = match byte {
                b'=' => bytes.next().map_or(0, |b| b.wrapping_sub(64)),
                byte => *byte,
            };
            out.push(plain.wrapping_sub(42));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    const HIDDEN: &[u8] = b"MZ harmless placeholder, of more than one line when it is encoded";

    fn encoded() -> Vec<String> {
        let mut lines = Vec::new();
        for chunk in HIDDEN.chunks(45) {
            let mut line = vec![b' ' + u8::try_from(chunk.len()).unwrap()];
            for group in chunk.chunks(3) {
                let bits = |i: usize| u32::from(group.get(i).copied().unwrap_or(0));
                let bits = bits(0) << 16 | bits(1) << 8 | bits(2);
                let digit = |shift: u32| match u8::try_from(bits >> shift & 63).unwrap() {
                    0 => b'`',
                    value => b' ' + value,
                };
                line.extend([18, 12, 6, 0].map(digit));
            }
            lines.push(String::from_utf8(line).unwrap());
        }
        lines
    }

    fn shows(text: &str) -> bool {
        [text.to_owned(), text.replace('\n', "\r\n")].iter().all(|text| {
            let found = find(text.as_bytes(), &mut (1 << 20));
            assert!(!found.is_cut);
            found.files.iter().any(|f| f.bytes == HIDDEN && f.name == "a.exe")
        })
    }

    #[test]
    fn a_file_is_found_wherever_a_decoder_ends_it() {
        let lines = encoded();
        let [first, second] = [lines[0].as_str(), lines[1].as_str()];
        for text in [
            format!("Hi\nbegin 644 a.exe\n{first}\n{second}\n`\nend\nbye\n"),
            format!("  begin 644 a.exe\n{first}\n{second}\n`\nend\n"),
            // The data goes on behind an empty line, a line of text, what looks like an end.
            format!("begin 644 a.exe\n{first}\n\n{second}\n`\nend\n"),
            format!("begin 644 a.exe\n{first}\n`\n{second}\n`\nend\n"),
            format!("begin 644 a.exe\n{first}\nand then some words\n{second}\nend\n"),
            format!("begin 644 a.exe\n{first}\nending soon\n{second}\nend\n"),
            format!("begin 644 a.exe\n{first}\nbegin 644\n{second}\nend\n"),
            // It ends with an empty line, and other lines follow.
            format!("begin 644 a.exe\n{first}\n{second}\n\n#0V%T\n#0V%T\nend\n"),
            format!("begin 644 a.exe\n{first}\n{second}\n"),
            format!(
                "begin-base64 644 a.exe\n{}\n====\n",
                base64_simd::STANDARD.encode_to_string(HIDDEN)
            ),
        ] {
            assert!(shows(&text), "{text}\n{:?}", find(text.as_bytes(), &mut (1 << 20)));
        }
    }

    #[test]
    fn lengths_that_lie() {
        let line = encoded()[0].replacen('M', "#", 1);
        let text = format!("begin 644 a.exe\n{line}\n`\nend\n");
        let found = find(text.as_bytes(), &mut (1 << 20)).files;
        let shown: Vec<&[u8]> = found.iter().map(|f| f.bytes.as_slice()).collect();
        assert!(shown.contains(&&HIDDEN[..45]) && shown.contains(&&HIDDEN[..3]), "{shown:?}");
    }

    #[test]
    fn yenc_with_dots_and_in_parts() {
        let data: Vec<u8> = HIDDEN.iter().map(|b| b.wrapping_add(42)).collect();
        let escaped: Vec<u8> = data
            .iter()
            .flat_map(|b| match b {
                0 | b'\n' | b'\r' | b'=' => vec![b'=', b.wrapping_add(64)],
                _ => vec![*b],
            })
            .collect();
        let text =
            |head: &str, data: &[u8]| [head.as_bytes(), data, b"\r\n=yend size=65\r\n"].concat();
        let whole = text("=ybegin line=128 size=65 name=a.exe\r\n", &escaped);
        assert_eq!(find(&whole, &mut 9_999).files[0].bytes, HIDDEN);
        let dotted =
            text("=ybegin line=128 size=65 name=a.exe\r\n", &[b"..", &escaped[..]].concat());
        let undotted = [&[b'.'.wrapping_sub(42)][..], HIDDEN].concat();
        assert!(find(&dotted, &mut 9_999).files.iter().any(|f| f.bytes == undotted));
        let head =
            |ypart: &str| format!("=ybegin part=1 line=128 size=65 name=a.exe\r\n{ypart}\r\n");
        assert!(!find(&text(&head("=ypart begin=1 end=65"), &escaped), &mut 9_999).is_cut);
        assert!(find(&text(&head("=ypart begin=1 end=40"), &escaped), &mut 9_999).is_cut);
        assert!(find(&text(&head("=ypart begin=41 end=65"), &escaped), &mut 9_999).is_cut);
    }

    #[test]
    fn words_are_no_files_and_work_is_bounded() {
        for text in ["begin the meeting\nat noon\n", "Let us begin 644 a\n#0V%T\n", "beginning\n"] {
            assert!(find(text.as_bytes(), &mut 9_999).files.is_empty(), "{text:?}");
        }
        let many = "begin 644 a\n#0V%T\n".repeat(100_000);
        let mut work = 1 << 26;
        assert!(find(many.as_bytes(), &mut work).is_cut);
        let mut none = 0;
        assert!(find(b"begin 644 a\n#0V%T\n`\nend\n", &mut none).is_cut);
    }
}
