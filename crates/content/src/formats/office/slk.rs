//! Symbolic links (SYLK): sheets as lines of text, which Excel opens without its protected view.

use super::dde;
use crate::object::PropertyKind;
use crate::unpack::Unpacker;

/// Whether a text is one.
pub(super) fn is_match(bytes: &[u8]) -> bool {
    bytes.starts_with(b"ID;")
}

/// Notes macros, names that run by themselves, and links by DDE; formulas become text.
pub(super) fn read(text: &str, unpacker: &mut Unpacker<'_>) {
    let mut shown = String::new();
    for line in text.split(['\r', '\n']) {
        // Two semicolons stand for one in a field.
        let line = line.replace(";;", "\u{0}");
        let mut fields = line.split(';').map(|field| field.replace('\u{0}', ";"));
        let record = fields.next().unwrap_or_default();
        for field in fields {
            match (record.as_str(), field.as_bytes().first()) {
                // An option: this is a sheet of macros.
                ("O", Some(b'E')) if field.len() == 1 => {
                    unpacker.property(PropertyKind::XlmMacros, "SYLK");
                }
                ("NN", Some(b'N')) => {
                    let name = &field[1..];
                    if name.to_ascii_lowercase().starts_with("auto_") {
                        unpacker.property(PropertyKind::AutoExec, name);
                    }
                }
                // A cell: its formula and its value.
                ("C", Some(b'E' | b'K')) => {
                    let formula = &field[1..];
                    if let Some(link) = dde::reference(formula) {
                        unpacker.property(PropertyKind::Dde, link);
                    }
                    shown.push_str(formula);
                    shown.push('\n');
                }
                _ => {}
            }
        }
    }
    unpacker.text(&shown);
}

#[cfg(test)]
mod tests {
    use crate::PropertyKind;
    use crate::formats::testing::{nasty, tree};

    #[test]
    fn macros_and_names() {
        let text = "ID;P\nO;E\nNN;NAuto_open;ER1C1\nC;X1;Y1;K0;EEXEC(\"calc\")\nC;X1;Y2;Ecmd|' /c calc'!A0\nE\n";
        let found = tree(text.as_bytes(), "a.slk");
        let object = &found.objects[0];
        for kind in [PropertyKind::XlmMacros, PropertyKind::AutoExec, PropertyKind::Dde] {
            assert!(object.has(kind), "{object:?}");
        }
        assert!(object.text.contains("EXEC(\"calc\")"));
        nasty(text.as_bytes(), "a.slk");
        let link = |line: &str| {
            let text = format!("ID;P\r{line}\rE\r");
            tree(text.as_bytes(), "a.slk").objects[0].has(PropertyKind::Dde)
        };
        assert!(link("C;X1;Ecmd|'/c a;;b'!A0"));
        assert!(!link("C;X1;K\"use cmd|'/c a'!A0\""), "a text");
    }
}
