//! Files of samples, as unpacking finds them.

use gauntlet_mail::file_kind::FileKind;
use gauntlet_mail::file_kind::object::{
    DefectKind as UnreadKind, Object, ObjectDefect, Property, PropertyKind, Tree,
};

/// An archive with a program in it, and one that was not read.
pub(super) fn archive() -> Tree {
    let object = |parent, path: &str, kind, size| Object {
        parent,
        root: 0,
        path: path.to_owned(),
        name: path.rsplit('/').next().unwrap_or_default().to_owned(),
        declared_type: String::new(),
        kind,
        size,
        sha256: format!("{size:064x}"),
        md5: format!("{size:032x}"),
        properties: Vec::new(),
        defects: Vec::new(),
        text: String::new(),
        urls: Vec::new(),
    };
    let mut locked = object(Some(0), "invoice.zip/terms.pdf", FileKind::Unknown, 0);
    let detail = "terms.pdf".to_owned();
    locked.defects.push(ObjectDefect { kind: UnreadKind::Encrypted, detail });
    let mut program =
        object(Some(0), "invoice.zip/invoice.pdf.exe", FileKind::WindowsProgram, 48_128);
    let detail = "base64 at byte 512".to_owned();
    program.properties.push(Property { kind: PropertyKind::OtherReading, detail });
    let archive = object(None, "invoice.zip", FileKind::Zip, 20_480);
    Tree { objects: vec![archive, program, locked], ..Tree::default() }
}
