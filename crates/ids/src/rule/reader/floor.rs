//! Where a content with `distance` can begin at the earliest, as Suricata computes it.
//!
//! Suricata derives offsets from the contents before: behind `content:"abc"` one with `distance:0`
//! begins at 3 or later. That follows from the match itself, except behind a negated content that
//! has no condition on its place: nothing of it is there, and its length counts nevertheless.
//! `content:!"abc"; content:"x"; distance:0` does not find an `x` among the first three bytes.

use super::draft::{Draft, Entry};
use crate::rule::matches::{Amount, Content, Match};

/// Sets the offsets that follow from negated contents, in the payload and in each buffer.
pub(super) fn apply(draft: &mut Draft<'_>) {
    apply_to(&mut draft.payload);
    for buffer in &mut draft.buffers {
        apply_to(&mut buffer.entries);
    }
}

fn apply_to(entries: &mut [Entry]) {
    // Length of the negated content that the next relative one counts from.
    let mut base: Option<i64> = None;
    for entry in entries {
        base = match &mut entry.item {
            Match::Content(content) if is_free(content) => {
                content.negated.then_some(content.bytes.len() as i64)
            }
            Match::Content(content) => {
                if let (Some(base), Some(distance), false) =
                    (base, content.distance, content.negated)
                {
                    content.offset = Some(Amount::Fixed((base + number(distance)).max(0)));
                }
                None
            }
            Match::Pcre(pattern) if pattern.relative => base,
            _ => None,
        };
    }
}

fn is_free(content: &Content) -> bool {
    !content.is_relative() && content.depth.is_none() && content.offset.is_none()
}

/// Of a variable its number counts, not the value that it will have.
fn number(amount: Amount) -> i64 {
    match amount {
        Amount::Fixed(number) => number,
        Amount::Variable(number) => i64::from(number),
    }
}
