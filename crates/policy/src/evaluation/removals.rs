//! Which parts `strip`, `disarm` and `convert_names` are about.

use std::collections::BTreeMap;

use gauntlet_mail::file_kind::object::Object;
use gauntlet_mail::{Part, file_kind};
use gauntlet_verdict::{Change, Removal, RemovedPart, RenamedPart};

use super::Evaluation;
use super::fields::fits_attachment;
use crate::condition::AttachmentCondition;
use crate::objects::{ObjectCondition, described};

/// Characters of a name in log, notes and header fields.
const NAME_CHARS_MAX: usize = 150;

impl Evaluation<'_> {
    /// None if no part fits.
    pub(super) fn removal(
        &self,
        disarms: bool,
        which: &[ObjectCondition],
        template: &Removal,
    ) -> Option<Change> {
        let mut found: BTreeMap<u16, Option<&Object>> = BTreeMap::new();
        match which {
            [] => found.extend(self.every_file(disarms).into_iter().map(|part| (part, None))),
            which => {
                for (part, object) in which.iter().flat_map(|w| self.parts_with(w)) {
                    found.entry(part).or_insert(Some(object));
                }
            }
        }
        let part = |(part, object): (u16, Option<&Object>)| self.removed(part, object);
        let parts: Vec<RemovedPart> = found.into_iter().filter_map(part).collect();
        let removal = Removal { parts, note: self.fill(&template.note), ..template.clone() };
        match removal.parts.is_empty() {
            true => None,
            false if disarms => Some(Change::Disarm(removal)),
            false => Some(Change::Strip(removal)),
        }
    }

    /// Parts that are or hold files; where they are disarmed, pages that are shown, too.
    fn every_file(&self, disarms: bool) -> Vec<u16> {
        let message = self.input.message;
        let mut parts: Vec<u16> = message.files().iter().map(|file| file.part).collect();
        if disarms {
            let pages = message.parts().iter().zip(0u16..);
            let pages = pages.filter(|(p, _)| !p.is_container && p.content_type.is("text", "html"));
            parts.extend(pages.map(|(_, index)| index));
        }
        parts
    }

    fn removed(&self, index: u16, object: Option<&Object>) -> Option<RemovedPart> {
        let part = self.input.message.parts().get(usize::from(index))?;
        let files = self.input.message.files();
        let tree = &self.input.facts.content;
        let root = tree.objects.iter().find(|o| {
            let file = files.get(o.root as usize);
            o.parent.is_none() && file.is_some_and(|file| file.part == index)
        });
        let name = part.file_name().or(root.map(|r| r.name.as_str())).unwrap_or_default();
        let sniffed = || file_kind::sniff(part.body()).media_type();
        Some(RemovedPart {
            part: index,
            name: printable(name),
            media_type: root.map_or_else(sniffed, |r| r.kind.media_type()).to_owned(),
            size: root.map_or(part.body().len() as u64, |r| r.size),
            sha256: root.map(|r| r.sha256.clone()).unwrap_or_default(),
            why: object.map(described).unwrap_or_default(),
        })
    }

    /// None if no name fits. Names of files in texts and in encoded messages stay: they have no
    /// fields of their own.
    pub(super) fn converted_names(
        &self,
        which: &AttachmentCondition,
        append: &str,
        rule: &str,
    ) -> Option<Change> {
        let is_named = |p: &Part<'_>| p.within.is_none() && p.is_attachment();
        let parts = self.input.message.parts().iter().zip(0u16..);
        let renamed = parts.filter(|(p, _)| is_named(p)).filter_map(|(part, index)| {
            let fits = fits_attachment(part, which)?;
            let from = printable(part.file_name().unwrap_or(&fits));
            // What follows the last separator is what a program saves it under.
            let last = from.rsplit(['/', '\\']).next().unwrap_or_default();
            let last = last.trim_end_matches(['.', ' ']);
            // What some programs end a name at.
            let last = last.replace(['"', '\'', ':', '*', '?', '<', '>', '|', ';', '='], "_");
            let to = format!("{}{append}", if last.is_empty() { "unnamed" } else { &last });
            Some(RenamedPart { part: index, from, to })
        });
        let parts: Vec<RenamedPart> = renamed.collect();
        (!parts.is_empty()).then(|| Change::ConvertNames { parts, rule: rule.to_owned() })
    }
}

/// A name without what could break a line or turn its reading order.
fn printable(name: &str) -> String {
    let is_bad = |c: char| {
        c.is_control()
            || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    name.chars().take(NAME_CHARS_MAX).map(|c| if is_bad(c) { '_' } else { c }).collect()
}
