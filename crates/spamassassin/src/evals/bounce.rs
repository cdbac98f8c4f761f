//! Bounces of mail that was sent through the site's own relays.

use super::args::Args;
use super::context::EvalContext;
use super::text::{lines, re};

/// Bytes of a folded Received field that are kept together.
const FIELD_BYTES_MAX: usize = 16 * 1024;

/// `have_any_bounce_relays()`: `welcomelist_bounce_relays` names any.
pub(super) fn any_relays(cx: &EvalContext<'_>, _: &Args) -> bool {
    cx.tables.addresses("welcomelist_bounce_relays").is_some_and(|list| !list.is_empty())
}

/// `check_welcomelist_bounce_relays()`: a Received field inside the text names one of them.
pub(super) fn has_our_relay(cx: &EvalContext<'_>, args: &Args) -> bool {
    if !any_relays(cx, args) {
        return false;
    }
    let Some(list) = cx.tables.addresses("welcomelist_bounce_relays") else { return false };
    let received = re!(r"(?i)\A[> ]*Received:");
    let in_text = cx
        .views
        .body()
        .iter()
        .filter(|line| received.is_match(line))
        .any(|line| re!(r" (\S+\.\S+) ").captures_iter(line).any(|c| list.contains(&c[1])));
    if in_text {
        return true;
    }
    let mut field: Vec<u8> = Vec::new();
    let mut has_begun = false;
    for line in lines(cx.tree().pristine_body()) {
        let line = line.strip_suffix(b"\n").unwrap_or(line);
        has_begun |= received.is_match(line);
        if !has_begun {
            continue;
        }
        if !line.first().is_some_and(|&b| super::text::is_space(b)) {
            field.clear();
        }
        if field.len() + line.len() <= FIELD_BYTES_MAX {
            field.extend_from_slice(line);
        }
        let named = re!(r"\s(\S+\.\S+)\s");
        if received.is_match(&field) && named.captures_iter(&field).any(|c| list.contains(&c[1])) {
            return true;
        }
    }
    false
}
