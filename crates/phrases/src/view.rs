//! A text on its way to the automaton: character references decoded, in the one form.

use gauntlet_mail::html::entity;
use html_escape::NAMED_ENTITIES;

use crate::fold::Folder;

/// Bytes of a character reference, with its `&`: longer ones do not exist (and numbers with more
/// zeros are nobody's spelling).
const REFERENCE_BYTES_MAX: usize = 34;

/// Makes the one form of a text that comes in pieces.
#[derive(Debug)]
pub(crate) struct View {
    folder: Folder,
    /// `&` and what may still become a reference.
    pending: String,
    decodes: bool,
    /// What the automaton has not seen.
    pub(crate) out: Vec<u8>,
}

impl View {
    /// `decodes` character references, as HTML has them.
    pub(crate) fn new(decodes: bool) -> Self {
        let mut out = Vec::new();
        let folder = Folder::for_text(&mut out);
        View { folder, pending: String::new(), decodes, out }
    }

    pub(crate) fn push(&mut self, c: char) {
        if !self.decodes {
            return self.folder.push(c, &mut self.out);
        }
        if self.pending.is_empty() && c != '&' {
            return self.folder.push(c, &mut self.out);
        }
        let is_in_reference = c.is_ascii_alphanumeric() || (c == '#' && self.pending.len() == 1);
        if is_in_reference && self.pending.len() < REFERENCE_BYTES_MAX {
            return self.pending.push(c);
        }
        if c == ';' {
            self.pending.push(c);
            return self.flush();
        }
        self.flush();
        match c {
            '&' => self.pending.push(c),
            c => self.folder.push(c, &mut self.out),
        }
    }

    /// Ends a word.
    pub(crate) fn space(&mut self) {
        self.flush();
        self.folder.space(&mut self.out);
    }

    /// Perhaps a word ends here: [`crate::fold::MARK`] says so to the search.
    pub(crate) fn maybe_space(&mut self) {
        self.flush();
        self.folder.maybe_space();
    }

    /// Writes what was taken for the beginning of a reference.
    pub(crate) fn flush(&mut self) {
        if self.pending.is_empty() {
            return;
        }
        let pending = std::mem::take(&mut self.pending);
        let rest = match (named(&pending), entity::reference(pending.as_bytes(), false)) {
            (Some(characters), _) => characters,
            (None, None) => pending.as_str(),
            (None, Some((c, length))) => {
                self.folder.push(c, &mut self.out);
                pending.get(length..).unwrap_or_default()
            }
        };
        rest.chars().for_each(|c| self.folder.push(c, &mut self.out));
    }
}

/// The characters of a name that browsers know (HTML Living Standard, section 13.5); those without
/// a semicolon are few, and read by [`entity::reference`].
fn named(reference: &str) -> Option<&'static str> {
    let name = reference.strip_prefix('&')?.strip_suffix(';')?.as_bytes();
    let at = NAMED_ENTITIES.binary_search_by(|(known, _)| (*known).cmp(name)).ok()?;
    NAMED_ENTITIES.get(at).map(|(_, characters)| *characters)
}
