//! yEnc 1.3 (yenc.org/yenc-draft.1.3.txt): files between `=ybegin` and `=yend`.

use memchr::memmem;

use super::lines;
use crate::host::Child;
use crate::object::{DefectKind, PropertyKind};
use crate::text;
use crate::unpack::Unpacker;

/// Adds every file of the text; one that is a part of several says so.
pub(super) fn decode(text: &[u8], unpacker: &mut Unpacker<'_>) {
    if memmem::find(text, b"=ybegin ").is_none() {
        return;
    }
    let mut all = lines(text);
    while let Some(line) = all.next() {
        let Some(parameters) = line.strip_prefix(b"=ybegin ") else { continue };
        let Some(name) = memmem::find(parameters, b"name=").map(|at| &parameters[at + 5..]) else {
            continue;
        };
        if unpacker.is_over() {
            return;
        }
        if memmem::find(parameters, b"part=").is_some() {
            unpacker.property(PropertyKind::Volume, &text::file_name(name));
            unpacker.defect(DefectKind::MissingVolume, &text::file_name(name));
        }
        let mut body = Vec::new();
        for line in all.by_ref().take_while(|line| !line.starts_with(b"=yend")) {
            if line.starts_with(b"=ypart ") {
                continue;
            }
            let mut bytes = line.iter();
            while let Some(&byte) = bytes.next() {
                let byte = match byte {
                    b'=' => bytes.next().map_or(byte, |next| next.wrapping_sub(64)),
                    byte => byte,
                };
                body.push(byte.wrapping_sub(42));
            }
        }
        unpacker.child(Child::named(text::file_name(name.trim_ascii())), &body);
    }
}

#[cfg(test)]
mod tests {
    use crate::formats::testing::{paths, tree};

    #[test]
    fn escaped_bytes() {
        let text = b"=ybegin line=128 size=4 name=a.bin\r\n\x77\x84=}=n\r\n=yend size=4\r\n";
        let found = tree(text, "x.txt");
        assert_eq!(paths(&found), ["x.txt", "x.txt/a.bin"]);
        assert_eq!(found.objects[1].size, 4);
    }
}
