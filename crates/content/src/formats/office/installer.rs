//! Packages of the Windows Installer (MSI): their custom actions, which run programs and scripts.
//!
//! An MSI is a compound file; its database has a stream for each table, under a name that packs two
//! letters into a character. Tables are written column by column, texts by their number in a pool
//! (as the projects Wine and msitools describe it).

use super::compound::Stream;
use crate::formats::numbers::{slice, u16_at, u32_at};
use crate::object::PropertyKind;
use crate::text;
use crate::unpack::Unpacker;

/// Strings of a pool, and custom actions of a package.
const STRINGS_MAX: usize = 200_000;
const ACTIONS_MAX: usize = 1_000;
/// The character before the name of a table.
const TABLE: char = '\u{4840}';
/// Types of actions that only set a property or a folder, or show an error.
const HARMLESS: [u16; 3] = [19, 35, 51];
/// Types whose target is a script.
const SCRIPTS: [u16; 2] = [37, 38];

/// Notes the custom actions of a package; other documents have none.
pub(super) fn installer(streams: &[Stream], unpacker: &mut Unpacker<'_>) {
    let table = |name: &str| {
        let mut all = streams.iter().filter(|stream| stream.name().starts_with(TABLE));
        all.find(|stream| unpacked(stream.name()) == name).map(|stream| stream.bytes.as_slice())
    };
    let (Some(actions), Some(pool), Some(data)) =
        (table("CustomAction"), table("_StringPool"), table("_StringData"))
    else {
        return;
    };
    let strings = Strings::read(pool, data);
    for action in strings.actions(actions) {
        let kind = action.kind & 0x3f;
        if HARMLESS.contains(&kind) {
            continue;
        }
        let detail = format!("{} (type {kind}): {} {}", action.name, action.source, action.target);
        unpacker.property(PropertyKind::InstallerAction, detail.trim());
        if SCRIPTS.contains(&kind) || action.target.contains("://") {
            unpacker.text(&action.target);
        }
    }
}

/// The name of a stream: characters from U+3800 on have two letters each, from U+4800 on one.
fn unpacked(name: &str) -> String {
    const LETTERS: &[u8; 64] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz._";
    let letter = |index: u32| char::from(LETTERS[(index & 63) as usize]);
    let mut out = String::new();
    for c in name.chars() {
        match u32::from(c) {
            code @ 0x3800..=0x47ff => {
                out.push(letter(code - 0x3800));
                out.push(letter((code - 0x3800) >> 6));
            }
            code @ 0x4800..=0x483f => out.push(letter(code - 0x4800)),
            0x4840 => {}
            _ => out.push(c),
        }
    }
    out
}

struct Action {
    name: String,
    kind: u16,
    source: String,
    target: String,
}

/// The pool of strings.
struct Strings<'b> {
    all: Vec<&'b [u8]>,
    /// Bytes of a string's number in a table.
    width: usize,
}

impl<'b> Strings<'b> {
    /// Lengths and counts in one stream, characters in the other.
    fn read(pool: &[u8], data: &'b [u8]) -> Self {
        let width = if u32_at(pool, 0).unwrap_or(0) & 0x8000_0000 != 0 { 3 } else { 2 };
        let mut all = vec![&data[..0]];
        let mut at = 0;
        let mut entries = pool.chunks_exact(4).skip(1);
        while let (Some(entry), true) = (entries.next(), all.len() < STRINGS_MAX) {
            let (low, count) = (u16_at(entry, 0).unwrap_or(0), u16_at(entry, 2).unwrap_or(0));
            let mut length = usize::from(low);
            if low == 0 && count != 0 {
                // A long one: its length stands in the next entry.
                let Some(next) = entries.next() else { break };
                length = usize::from(count) << 16 | usize::from(u16_at(next, 0).unwrap_or(0));
            }
            let string = slice(data, at, length);
            all.push(string);
            at += string.len();
        }
        Strings { all, width }
    }

    fn text(&self, bytes: &[u8]) -> Option<String> {
        let number = bytes.iter().rev().fold(0, |all, b| all << 8 | usize::from(*b));
        self.all.get(number).map(|string| text::decode(string))
    }

    /// The rows of the table: action, type, source, target, and in newer packages a number.
    fn actions(&self, table: &[u8]) -> Vec<Action> {
        let short = 3 * self.width + 2;
        [short, short + 4].into_iter().find_map(|row| self.rows(table, row)).unwrap_or_default()
    }

    fn rows(&self, table: &[u8], row: usize) -> Option<Vec<Action>> {
        let count = Some(table.len() / row).filter(|n| n * row == table.len() && *n > 0)?;
        let (kinds, sources) = (self.width * count, (self.width + 2) * count);
        let targets = sources + self.width * count;
        let cell =
            |column: usize, index: usize| slice(table, column + index * self.width, self.width);
        let rows = (0..count.min(ACTIONS_MAX)).map(|index| {
            let kind = u16_at(table, kinds + 2 * index)?;
            // Numbers that are not null have their highest bit set.
            let name = self.text(cell(0, index)).filter(|name| !name.is_empty())?;
            (kind & 0x8000 != 0).then_some(Action {
                name,
                kind: kind & 0x7fff,
                source: self.text(cell(sources, index))?,
                target: self.text(cell(targets, index))?,
            })
        });
        rows.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_both_widths() {
        let data = b"RunItpowershell -ec AAAA[x]";
        let pool = [0u16, 0, 5, 1, 19, 1, 3, 1].iter().flat_map(|n| n.to_le_bytes());
        let pool: Vec<u8> = pool.collect();
        let strings = Strings::read(&pool, data);
        let table: Vec<u8> =
            [1u16, 0x8000 | 50, 3, 2].iter().flat_map(|n| n.to_le_bytes()).collect();
        let actions = strings.actions(&table);
        assert_eq!(actions[0].name, "RunIt");
        assert_eq!((actions[0].kind, actions[0].source.as_str()), (50, "[x]"));
        assert_eq!(actions[0].target, "powershell -ec AAAA");
        let long = [table, vec![0; 4]].concat();
        assert_eq!(strings.actions(&long).len(), 1);
        assert!(strings.actions(&long[..5]).is_empty());
    }

    #[test]
    fn names_of_streams() {
        // "Icon" in two characters: I is 18, c 38, o 50, n 49.
        let name = [0x3800 + 18 + (38 << 6), 0x3800 + 50 + (49 << 6)];
        let name: String = name.into_iter().filter_map(char::from_u32).collect();
        assert_eq!(unpacked(&format!("{TABLE}{name}")), "Icon");
        assert_eq!(unpacked("\u{5}SummaryInformation"), "\u{5}SummaryInformation");
    }
}
