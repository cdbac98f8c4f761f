//! The condition `object`, and the parts of the message that hold objects.

use std::collections::BTreeMap;

use gauntlet_mail::file_kind::object::Object;

use super::{Answer, Evaluation};
use crate::condition::Condition;
use crate::objects::{ObjectCondition, described};

impl Evaluation<'_> {
    pub(super) fn object_fields(&self, when: &Condition) -> Option<Answer> {
        let wanted = when.object.as_ref()?;
        let tree = &self.input.facts.content;
        Some(match (wanted.first(tree), tree.objects.len()) {
            (Some(object), _) => (true, format!("object {}", described(object))),
            (None, 0) => (false, "no object: nothing was unpacked".to_owned()),
            (None, 1) => (false, "the one object does not fit".to_owned()),
            (None, count) => (false, format!("none of {count} objects fits")),
        })
    }

    /// Indices of the parts whose file fits, or holds an object that does, each with the first
    /// such object.
    pub(super) fn parts_with(&self, wanted: &ObjectCondition) -> BTreeMap<u16, &Object> {
        let files = self.input.message.files();
        let mut parts = BTreeMap::new();
        for object in self.input.facts.content.objects.iter().filter(|o| wanted.fits(o)) {
            // Roots were given in the order of the message's files.
            if let Some(file) = files.get(object.root as usize) {
                parts.entry(file.part).or_insert(object);
            }
        }
        parts
    }
}
