//! Files that mail programs find inside a body that is none by itself: uuencoded (POSIX) or in yEnc
//! in the middle of a text, or in Microsoft's TNEF (MS-OXTNEF). Their names and bytes are judged as
//! those of attachments are.
//!
//! Of TNEF only the names and the data of its attachments are read, not the message around them.

use std::ops::Range;

use memchr::{memchr, memmem};

use crate::charset;
use crate::encoding;

/// Files that are read of one part; with more, the part is a defect.
pub(crate) const FILES_MAX: usize = 256;

/// Bytes at the start of a body that is no text in which an encoded file must begin.
const HEAD_BYTES: usize = 1024;

/// Attributes that are read of all TNEF in a part.
const ATTRIBUTES_MAX: usize = 8 * 1024;

/// Bytes that are searched for names in TNEF, as a multiple of its own: TNEF in TNEF is searched
/// again.
const SEARCHED_BYTES_FACTOR: usize = 4;

/// Bytes of a name in TNEF; those of Windows have 260 characters at most.
const NAME_BYTES_MAX: usize = 4 * 1024;

/// Names of each kind that are read of one attribute of TNEF.
const PROPERTY_NAMES_MAX: usize = 256;

/// Zeros that stand for blanks lost at the ends of lines: as many, and so many times the bytes of
/// the text. A line of one character may stand for 63 zeros, and a text may have many files.
const PADDING_BYTES_MIN: usize = 1024;
const PADDING_FACTOR: usize = 8;

/// A file inside a body.
#[derive(Debug, Default)]
pub struct EncodedFile {
    /// The names it has, the first the one that is shown.
    pub names: Vec<String>,
    /// It stands in the middle of a text: some programs show a text there, some a file.
    pub(crate) is_in_text: bool,
    bytes: Content,
}

#[derive(Debug)]
enum Content {
    Decoded(Vec<u8>),
    /// Where it stands in the part's body as it is.
    Within(Range<usize>),
}

impl Default for Content {
    fn default() -> Self {
        Content::Within(0..0)
    }
}

impl EncodedFile {
    /// What is in it; `body` is the decoded body of the part.
    pub fn bytes<'b>(&'b self, body: &'b [u8]) -> &'b [u8] {
        match &self.bytes {
            Content::Decoded(bytes) => bytes,
            Content::Within(range) => body.get(range.clone()).unwrap_or_default(),
        }
    }
}

/// The files inside the decoded `body` of a leaf whose media type is `kind`, such as `text`.
pub(crate) fn find(body: &[u8], kind: &str, is_html: bool) -> Vec<EncodedFile> {
    match kind {
        // Programs look for such files in what they show as plain text.
        "text" if is_html => Vec::new(),
        "text" | "multipart" => in_text(body),
        _ if body.starts_with(TNEF) => in_tnef(body),
        "application" if may_begin(&body[..body.len().min(HEAD_BYTES)]) => in_text(body),
        _ => Vec::new(),
    }
}

fn may_begin(text: &[u8]) -> bool {
    line_starts(text).next().is_some()
}

/// Where `begin` or `=ybegin` stands at the start of a line.
fn line_starts(text: &[u8]) -> impl Iterator<Item = usize> {
    memmem::find_iter(text, b"begin").filter_map(|at| {
        let start = if text[..at].ends_with(b"=y") { at - 2 } else { at };
        (start == 0 || text[start - 1] == b'\n').then_some(start)
    })
}

fn in_text(text: &[u8]) -> Vec<EncodedFile> {
    let mut files = Vec::new();
    for start in line_starts(text) {
        if files.len() >= FILES_MAX {
            break;
        }
        let end = memchr(b'\n', &text[start..]).map_or(text.len(), |i| start + i + 1);
        let (line, data) = (text[start..end].trim_ascii_end(), &text[end..]);
        let found = match line.strip_prefix(b"=ybegin ") {
            Some(fields) => Some(yenc(fields, data)),
            None => begin_line(line).and_then(|begin| begin.read(data)),
        };
        files.extend(found);
    }
    files
}

/// The lines of a file up to one that begins with `end`, or with which the next file begins: files
/// that have no end must not be read again and again.
fn lines_until<'a>(data: &'a [u8], end: &'static [u8]) -> impl Iterator<Item = &'a [u8]> {
    let is_end = move |line: &[u8]| {
        line.starts_with(end) || line.starts_with(b"begin") || line.starts_with(b"=ybegin")
    };
    data.split_inclusive(|b| *b == b'\n').take_while(move |line| !is_end(line))
}

/// A line with which an encoded file begins.
pub(crate) struct BeginLine<'a> {
    /// The name of the file.
    pub(crate) name: &'a [u8],
    /// Its data is base64.
    pub(crate) is_base64: bool,
    /// As POSIX has it: a mode of three or four digits, one space before and behind.
    is_posix: bool,
    /// It has a mode that no number in a sentence is.
    has_mode: bool,
}

/// Whether the line begins a file by uuencode, with a mode.
pub(crate) fn is_begin_line(line: &[u8]) -> bool {
    begin_line(line).is_some_and(|begin| begin.has_mode)
}

/// Reads `begin 644 name`. Programs take more than one blank, modes of any length, and none.
pub(crate) fn begin_line(line: &[u8]) -> Option<BeginLine<'_>> {
    let rest = line.strip_prefix(b"begin")?;
    let (is_base64, rest) = match rest.strip_prefix(b"-base64") {
        Some(rest) => (true, rest.strip_prefix(b"-encoded").unwrap_or(rest)),
        None => (false, rest),
    };
    if !rest.first().is_some_and(|b| b" \t".contains(b)) {
        return None;
    }
    let words = rest.trim_ascii();
    let digits = words.iter().take_while(|b| (b'0'..=b'7').contains(b)).count();
    let name = words.get(digits..).filter(|_| digits > 0).unwrap_or_default();
    if name.first().is_some_and(|b| b" \t".contains(b)) {
        let single = rest.len() == words.len() + 1 && !name[1..].starts_with(b" ");
        let is_posix = single && (3..=4).contains(&digits);
        let has_mode = (3..=8).contains(&digits);
        return Some(BeginLine { name: name.trim_ascii(), is_base64, is_posix, has_mode });
    }
    let begin = BeginLine { name: words, is_base64, is_posix: false, has_mode: false };
    (!words.is_empty()).then_some(begin)
}

impl BeginLine<'_> {
    /// Whether what follows the line may be data to some decoder: it says a mode, or its first
    /// lines are data.
    pub(crate) fn may_begin(&self, data: &[u8]) -> bool {
        self.has_mode || self.read_first(data)
    }

    /// The file whose data follows; none if it is no data.
    fn read(&self, data: &[u8]) -> Option<EncodedFile> {
        if !self.read_first(data) {
            return None;
        }
        let bytes = if self.is_base64 { base64_lines(data) } else { uu_lines(data) };
        Some(EncodedFile::in_text(self.name, bytes))
    }

    /// Whether the first line behind this one is data.
    fn read_first(&self, data: &[u8]) -> bool {
        let first = data.split(|b| *b == b'\n').next().unwrap_or_default().trim_ascii_end();
        let Some(length) = uu_length(first) else { return self.is_base64 && self.is_posix };
        let characters = length.div_ceil(3) * 4;
        match (self.is_base64, self.is_posix) {
            (true, true) => true,
            (true, false) => first.len() >= 4 && first.iter().all(is_base64),
            // The first character gives the number of bytes of the line: `M` is 45, in 60
            // characters. Where a blank is zero, those at the end of the line may be lost.
            (false, true) => first.len() > characters / 2 || is_short(first, characters),
            (false, false) => {
                (characters.saturating_sub(2)..=characters + 1).contains(&(first.len() - 1))
                    && first.iter().all(is_uu)
                    || self.has_mode && is_short(first, characters)
            }
        }
    }
}

impl EncodedFile {
    fn in_text(name: &[u8], bytes: Vec<u8>) -> Self {
        let names = vec![charset::guess(name).into_owned()];
        EncodedFile { names, is_in_text: true, bytes: Content::Decoded(bytes) }
    }
}

/// A line of data, of which nothing but blanks is missing.
fn is_short(line: &[u8], characters: usize) -> bool {
    line.len() - 1 <= characters && line.iter().all(is_uu)
}

fn is_uu(byte: &u8) -> bool {
    (b' '..=b'`').contains(byte)
}

fn is_base64(byte: &u8) -> bool {
    byte.is_ascii_alphanumeric() || b"+/=".contains(byte)
}

/// The bytes that a line of uuencode has by its first character; none without a line.
fn uu_length(line: &[u8]) -> Option<usize> {
    line.first().map(|first| usize::from(first.wrapping_sub(b' ') & 63))
}

/// Makes of the bytes of a line as many as its first character says: zeros are blanks, and those
/// at the end of a line are lost on the way. `padding_left` bounds what short lines become.
pub(crate) fn fit_line(out: &mut Vec<u8>, length: usize, padding_left: &mut usize) {
    if out.len() < length {
        let padding = (length - out.len()).min(*padding_left);
        *padding_left -= padding;
        out.resize(out.len() + padding, 0);
    }
    out.truncate(length);
}

/// Zeros that the lines of this text may get.
pub(crate) fn padding_max(data: &[u8]) -> usize {
    PADDING_BYTES_MIN + data.len().saturating_mul(PADDING_FACTOR)
}

fn uu_lines(data: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut padding_left = padding_max(data);
    for line in lines_until(data, b"end") {
        let line = line.trim_ascii_end();
        let Some(length) = uu_length(line) else { break };
        let before = out.len();
        for group in line[1..].chunks(4) {
            let bits = |i: usize| u32::from(group.get(i).map_or(0, |b| b.wrapping_sub(b' ') & 63));
            let bits = bits(0) << 18 | bits(1) << 12 | bits(2) << 6 | bits(3);
            out.extend_from_slice(&bits.to_be_bytes()[1..]);
        }
        fit_line(&mut out, before + length, &mut padding_left);
    }
    out
}

fn base64_lines(data: &[u8]) -> Vec<u8> {
    let text: Vec<u8> = lines_until(data, b"====").flatten().copied().collect();
    encoding::base64(&text).bytes.into_owned()
}

/// Reads what follows a line `=ybegin line=128 size=1 name=a` (yEnc 1.3).
fn yenc(fields: &[u8], data: &[u8]) -> EncodedFile {
    let name = memmem::find(fields, b"name=").map_or(&b""[..], |i| &fields[i + 5..]);
    let mut out = Vec::new();
    for line in lines_until(data, b"=yend") {
        if line.starts_with(b"=ypart ") {
            continue;
        }
        let mut bytes = line.iter().filter(|b| !b"\r\n".contains(b));
        while let Some(byte) = bytes.next() {
            let plain = match byte {
                b'=' => bytes.next().map_or(0, |b| b.wrapping_sub(64)),
                byte => *byte,
            };
            out.push(plain.wrapping_sub(42));
        }
    }
    EncodedFile::in_text(name.trim_ascii(), out)
}

/// The signature of TNEF (MS-OXTNEF section 2.1.3.2).
const TNEF: &[u8] = b"\x78\x9f\x3e\x22";

/// Identifiers of attributes (MS-OXTNEF section 2.1.3.4), without their types.
const ATTACH_REND_DATA: u16 = 0x9002;
const ATTACH_TITLE: u16 = 0x8010;
const ATTACH_DATA: u16 = 0x800f;
const ATTACH_TRANSPORT_NAME: u16 = 0x9001;
const ATTACHMENT: u16 = 0x9005;

/// The attachments in TNEF, also of messages that are attached in it. As many as are too many, if
/// not all of it was read.
fn in_tnef(body: &[u8]) -> Vec<EncodedFile> {
    let mut files = Vec::new();
    let mut attributes_left = ATTRIBUTES_MAX;
    let mut searched_left = body.len() * SEARCHED_BYTES_FACTOR;
    for start in memmem::find_iter(body, TNEF) {
        // Behind the signature stands a key of two bytes.
        let mut at = start + TNEF.len() + 2;
        files.push(EncodedFile::default());
        while let Some((id, range)) = attribute(body, at) {
            at = range.end + 2;
            let searched = if id == ATTACHMENT { range.len() } else { 0 };
            if attributes_left == 0 || searched > searched_left {
                files.resize_with(FILES_MAX, EncodedFile::default);
                return files;
            }
            let Some(file) = files.last_mut() else { break };
            match id {
                ATTACH_REND_DATA => files.push(EncodedFile::default()),
                ATTACH_TITLE | ATTACH_TRANSPORT_NAME => {
                    file.names.extend(text(&body[range], false));
                }
                ATTACHMENT => match property_names(&body[range]) {
                    Some(names) => file.names.extend(names),
                    None => files.resize_with(FILES_MAX, EncodedFile::default),
                },
                ATTACH_DATA => file.bytes = Content::Within(range),
                _ => {}
            }
            if files.len() >= FILES_MAX {
                return files;
            }
            attributes_left -= 1;
            searched_left -= searched;
        }
        if files.len() >= FILES_MAX {
            return files;
        }
    }
    files.retain(|f| !f.names.is_empty() || !f.bytes(body).is_empty());
    files
}

/// Identifier and data of the attribute at `at`: level, identifier, type, length, data, checksum.
fn attribute(body: &[u8], at: usize) -> Option<(u16, Range<usize>)> {
    let head = body.get(at..at + 9)?;
    let id = u16::from_le_bytes([head[1], head[2]]);
    let length = u32::from_le_bytes([head[5], head[6], head[7], head[8]]) as usize;
    let range = at + 9..at.checked_add(9)?.checked_add(length)?;
    (matches!(head[0], 1 | 2) && range.end <= body.len()).then_some((id, range))
}

/// File names among MAPI properties: tag, count, length, text (MS-OXTNEF section 2.1.3.4). They are
/// searched by their tags, so that what stands between them need not be understood. None if there
/// are too many.
fn property_names(data: &[u8]) -> Option<Vec<String>> {
    // PidTagAttachLongFilename, PidTagAttachFilename, PidTagDisplayName (MS-OXPROPS); the type
    // comes first.
    const TAGS: [[u8; 2]; 3] = [[0x07, 0x37], [0x04, 0x37], [0x01, 0x30]];
    let mut names = Vec::new();
    for (tag, (kind, wide)) in
        TAGS.iter().flat_map(|tag| [(0x1e, false), (0x1f, true)].map(|kind| (tag, kind)))
    {
        let needle = [kind, 0, tag[0], tag[1]];
        for (i, at) in memmem::find_iter(data, &needle).enumerate() {
            if i >= PROPERTY_NAMES_MAX {
                return None;
            }
            let Some(head) = data.get(at + 4..at + 12) else { continue };
            let length = u32::from_le_bytes([head[4], head[5], head[6], head[7]]) as usize;
            let value = data.get(at + 12..).and_then(|rest| rest.get(..length));
            names.extend(value.and_then(|value| text(value, wide)));
        }
    }
    Some(names)
}

/// A text that ends at a NUL.
fn text(bytes: &[u8], wide: bool) -> Option<String> {
    let bytes = &bytes[..bytes.len().min(NAME_BYTES_MAX)];
    let label = wide.then_some(&b"utf-16le"[..]);
    let text = charset::decode(bytes, label).text;
    let text = text.trim_end_matches('\0').trim();
    (!text.is_empty()).then(|| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(text: &str) -> Vec<(String, Vec<u8>)> {
        let files = in_text(text.as_bytes());
        let pair = |f: EncodedFile| (f.names[0].clone(), f.bytes(b"").to_vec());
        files.into_iter().map(pair).collect()
    }

    #[test]
    fn files_by_uuencode_in_every_form_that_programs_decode() {
        let expected = [("setup.exe".to_owned(), b"harmless placeholder".to_vec())];
        let data = "4:&%R;6QE<W,@<&QA8V5H;VQD97(`\n`\nend\n";
        for begin in [
            "begin 644 ",
            "begin  644  ",
            "begin 0100644 ",
            "begin 75 ",
            "begin 0 ",
            "begin\t644\t",
            "begin  ",
        ] {
            let text = format!("Hello\n{begin}setup.exe\n{data}bye\n");
            assert_eq!(names(&text), expected, "{begin:?}");
            assert_eq!(names(&text.replace('\n', "\r\n")), expected, "{begin:?}");
        }
        // Zero as a blank, as `uuencode` had it first; with the blanks at the ends of lines, and
        // without them.
        let zeros = "begin 644 setup.exe\nM35J0                                                        \nM                    0    %!%\n#   !\n \nend\n";
        let found = names(zeros);
        assert_eq!(found[0].0, "setup.exe");
        assert_eq!((found[0].1.len(), &found[0].1[..3]), (93, &b"MZ\x90"[..]));
        let cut: String = zeros.lines().map(|line| format!("{}\n", line.trim_end())).collect();
        assert_eq!(names(&cut), found);
        let many = format!("begin 644 a\n{}", "_\n".repeat(100_000));
        assert!(names(&many)[0].1.len() < 2_000_000);
        assert!(names("begin 644 a\nMeet me at noon\n").is_empty());
        let base64 = "begin-base64 644 setup.exe\naGFybWxlc3MgcGxhY2Vob2xkZXI=\n====\n";
        assert_eq!(names(base64), expected);
        let two = format!("begin 644 a\n{data}begin 644 b\n{data}");
        assert_eq!(names(&two).len(), 2);
        for text in [
            "begin the meeting\nat noon\n",
            "begin  with this\nand go on\n",
            "Let us begin 644 a\n#0V%T\n",
            "begin 644 a\n",
            "BEGIN 644 a\n#0V%T\n",
        ] {
            assert!(names(text).is_empty(), "{text:?}");
        }
    }

    #[test]
    fn files_in_yenc() {
        let head = b"Hi\n=ybegin part=1 line=128 size=6 name=a b.exe\n=ypart begin=1 end=6\n";
        let data = b"hello".map(|b| b.wrapping_add(42));
        let files = in_text(&[&head[..], &data, b"=j\n=yend\n"].concat());
        assert_eq!(files[0].names, ["a b.exe"]);
        assert_eq!(files[0].bytes(b""), b"hello\0");
    }

    fn attr(id: u16, kind: u16, data: &[u8]) -> Vec<u8> {
        let length = u32::try_from(data.len()).unwrap().to_le_bytes();
        let id = [id.to_le_bytes(), kind.to_le_bytes()].concat();
        [&[2][..], &id, &length, data, &[0, 0]].concat()
    }

    #[test]
    fn attachments_in_tnef() {
        let tag = |kind: u8, text: &[u8]| {
            let length = u32::try_from(text.len()).unwrap().to_le_bytes();
            [&[kind, 0, 7, 0x37, 1, 0, 0, 0][..], &length, text].concat()
        };
        let wide: Vec<u8> = "long.exe\0".encode_utf16().flat_map(u16::to_le_bytes).collect();
        let inner = [TNEF, &[0, 0], &attr(ATTACH_TITLE, 1, b"inner.js\0")].concat();
        let body = [
            TNEF,
            &[0, 0],
            &attr(ATTACH_REND_DATA, 6, &[0; 14]),
            &attr(ATTACH_TITLE, 1, b"SETUP~1.EXE\0"),
            &attr(ATTACH_DATA, 6, b"MZ"),
            &attr(ATTACHMENT, 6, &[tag(0x1f, &wide), tag(0x1e, b"old.exe\0")].concat()),
            &attr(ATTACH_REND_DATA, 6, &[0; 14]),
            &attr(ATTACHMENT, 6, &inner),
        ]
        .concat();
        let files = in_tnef(&body);
        let found: Vec<_> = files.iter().flat_map(|f| f.names.clone()).collect();
        assert_eq!(found, ["SETUP~1.EXE", "old.exe", "long.exe", "inner.js"]);
        assert_eq!(files[0].bytes(&body), b"MZ");
        for end in 0..body.len() {
            in_tnef(&body[..end]);
        }
        let names = attr(ATTACHMENT, 6, &tag(0x1e, b"a\0").repeat(PROPERTY_NAMES_MAX + 1));
        assert_eq!(in_tnef(&[TNEF, &[0, 0], &names[..]].concat()).len(), FILES_MAX);
        let signatures = TNEF.repeat(10_000);
        assert_eq!(in_tnef(&signatures).len(), FILES_MAX);
        let many: Vec<u8> =
            std::iter::repeat_n(attr(ATTACH_REND_DATA, 6, b""), 300).flatten().collect();
        assert_eq!(in_tnef(&[TNEF, &[0, 0], &many[..]].concat()).len(), FILES_MAX);
    }
}
