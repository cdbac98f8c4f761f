//! RTF (Rich Text Format 1.9.1): embedded objects, however their digits are disguised, templates,
//! and text.

use memchr::memmem;

use crate::host::Child;
use crate::object::{PropertyKind, UrlSource};
use crate::text;
use crate::unpack::Unpacker;

/// Objects of one document that are read.
const OBJECTS_MAX: usize = 64;
const OLE_MAGIC: &[u8] = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1";

/// Adds every object, and the text.
pub(super) fn decode(bytes: &[u8], unpacker: &mut Unpacker<'_>) {
    for at in memmem::find_iter(bytes, b"\\objdata").take(OBJECTS_MAX) {
        if unpacker.is_over() {
            return;
        }
        object(&digits(&bytes[at + 8..]), unpacker);
    }
    if memmem::find(bytes, b"\\objupdate").is_some() {
        unpacker.property(PropertyKind::EmbeddedObject, "updated when opened");
    }
    if let Some(at) = memmem::find(bytes, b"\\*\\template") {
        let target =
            bytes[at + 11..].split(|b| matches!(b, b'}' | b'{')).next().unwrap_or_default();
        let target = text::decode(target).trim().to_owned();
        if target.contains("://") || target.starts_with("\\\\") {
            unpacker.property(PropertyKind::ExternalTemplate, &target);
            unpacker.url(&target, UrlSource::External);
        }
    }
    let shown = shown(bytes);
    for part in shown.split("HYPERLINK \"").skip(1) {
        unpacker.url(part.split('"').next().unwrap_or_default(), UrlSource::Link);
    }
    if let Some(field) = shown.lines().find(|line| line.contains("DDEAUTO")) {
        unpacker.property(PropertyKind::Dde, field);
    }
    unpacker.text(&shown);
}

/// The bytes of an object's hexadecimal digits: control words, groups and white space between them
/// are skipped, as Word does.
fn digits(rtf: &[u8]) -> Vec<u8> {
    let (mut out, mut half, mut depth, mut at) = (Vec::new(), None, 0i32, 0);
    while let Some(&byte) = rtf.get(at) {
        at += 1;
        match byte {
            b'{' => depth += 1,
            b'}' => {
                depth -= 1;
                if depth < 0 {
                    break;
                }
            }
            b'\\' if rtf.get(at) == Some(&b'\'') => at += 3,
            b'\\' => {
                while rtf.get(at).is_some_and(u8::is_ascii_alphabetic) {
                    at += 1;
                }
                while rtf.get(at).is_some_and(|b| b.is_ascii_digit() || *b == b'-') {
                    at += 1;
                }
            }
            byte => {
                if let Some(value) = char::from(byte).to_digit(16) {
                    match half.take() {
                        None => half = Some(value),
                        Some(high) => out.push((high << 4 | value) as u8),
                    }
                }
            }
        }
    }
    out
}

/// An OLE 1 object (MS-OLEDS section 2.2.5): class, then its data.
fn object(bytes: &[u8], unpacker: &mut Unpacker<'_>) {
    let string = |at: usize| {
        let size = bytes.get(at..at + 4)?;
        let size = u32::from_le_bytes([size[0], size[1], size[2], size[3]]) as usize;
        let name = bytes.get(at + 4..at.checked_add(4)?.checked_add(size)?)?;
        Some((name, at + 4 + size))
    };
    let class = string(8).map(|(name, _)| text::decode(name).trim_end_matches('\0').to_owned());
    let class = class.unwrap_or_default();
    unpacker.property(PropertyKind::EmbeddedObject, &class);
    if class.to_lowercase().starts_with("equation") {
        unpacker.property(PropertyKind::EquationEditor, &class);
    }
    if let Some(at) = memmem::find(bytes, OLE_MAGIC) {
        unpacker.child(Child::named("object.ole"), &bytes[at..]);
    } else if class.eq_ignore_ascii_case("package") {
        // Topic and item are empty, then the size: what the packager writes follows.
        let data = string(8).and_then(|(_, at)| bytes.get(at + 12..)).unwrap_or_default();
        let (name, body) = package(data);
        unpacker.child(Child::named(name), body);
    } else if bytes.len() > 64 {
        unpacker.child(Child::named("object.bin"), bytes);
    }
}

/// Name and bytes of a packaged file, or all of it if it is written otherwise.
fn package(data: &[u8]) -> (String, &[u8]) {
    let parsed = (|| {
        let rest = data.get(2..)?;
        let end = memchr::memchr(0, rest)?;
        let label = text::file_name(&rest[..end]);
        let rest = &rest[end + 1..];
        let rest = &rest[memchr::memchr(0, rest)? + 1..];
        let rest = rest.get(8..)?;
        let rest = &rest[memchr::memchr(0, rest)? + 1..];
        let size = u32::from_le_bytes(rest.get(..4)?.try_into().ok()?) as usize;
        let body = rest.get(4..)?;
        Some((label, &body[..size.min(body.len())]))
    })();
    parsed.unwrap_or_else(|| ("package".to_owned(), data))
}

/// The text without control words and hexadecimal data.
fn shown(rtf: &[u8]) -> String {
    const TEXT_BYTES_MAX: usize = 1 << 20;
    let (mut out, mut at) = (Vec::new(), 0);
    while let Some(&byte) = rtf.get(at) {
        if out.len() >= TEXT_BYTES_MAX {
            break;
        }
        at += 1;
        match byte {
            b'{' | b'}' | b'\r' | b'\n' => {}
            b'\\' => {
                let start = at;
                while rtf.get(at).is_some_and(u8::is_ascii_alphabetic) {
                    at += 1;
                }
                let word = &rtf[start..at];
                if word.is_empty() {
                    let escaped = rtf.get(at).copied().unwrap_or(b' ');
                    at += 1;
                    if escaped == b'\'' {
                        let hex = rtf.get(at..at + 2).and_then(|h| std::str::from_utf8(h).ok());
                        out.extend(hex.and_then(|h| u8::from_str_radix(h, 16).ok()));
                        at += 2;
                    } else if matches!(escaped, b'\\' | b'{' | b'}') {
                        out.push(escaped);
                    }
                    continue;
                }
                while rtf.get(at).is_some_and(|b| b.is_ascii_digit() || *b == b'-') {
                    at += 1;
                }
                if rtf.get(at) == Some(&b' ') {
                    at += 1;
                }
                match word {
                    b"par" | b"line" | b"cell" | b"row" => out.push(b'\n'),
                    b"tab" => out.push(b' '),
                    b"objdata" | b"pict" | b"bin" => {
                        while rtf.get(at).is_some_and(|b| *b != b'}') {
                            at += 1;
                        }
                    }
                    _ => {}
                }
            }
            byte => out.push(byte),
        }
    }
    text::decode(&out)
}

#[cfg(test)]
mod tests {
    use crate::PropertyKind;
    use crate::formats::testing::{nasty, paths, tree};

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|b| format!("{b:02x}")).collect()
    }

    #[test]
    fn a_package_whose_digits_are_disguised() {
        let native = [
            &[2, 0][..],
            b"run.exe\0C:\\run.exe\0",
            &[0, 0, 3, 0, 6, 0, 0, 0],
            b"C:\\x\0",
            &4u32.to_le_bytes(),
            b"MZ\x90\0",
        ]
        .concat();
        let object = [
            &1u32.to_le_bytes()[..],
            &2u32.to_le_bytes(),
            &8u32.to_le_bytes(),
            b"Package\0",
            &[0; 8],
            &u32::try_from(native.len()).unwrap().to_le_bytes(),
            &native,
        ]
        .concat();
        let digits = hex(&object);
        let (first, second) = digits.split_at(20);
        let text = format!(
            "{{\\rtf1 Dear {{\\b Ann}}\\par{{\\object{{\\*\\objdata {first}\\par\n{{\\x1}} {second}}}}}}}"
        );
        let found = tree(text.as_bytes(), "a.rtf");
        assert_eq!(paths(&found), ["a.rtf", "a.rtf/run.exe"]);
        assert_eq!(found.objects[1].kind, crate::FileKind::WindowsProgram);
        assert!(found.objects[0].text.contains("Dear Ann"));
        assert!(found.objects[0].has(PropertyKind::EmbeddedObject));
        nasty(text.as_bytes(), "a.rtf");
    }

    #[test]
    fn a_template_from_elsewhere() {
        let text = b"{\\rtf1{\\*\\template http://198.51.100.7/t.dotm}text}";
        let found = tree(text, "a.rtf");
        assert!(found.objects[0].has(PropertyKind::ExternalTemplate));
    }
}
