//! What a rule is called, how urgent it is, what else is written of it.

use std::sync::Arc;

use super::draft::{Draft, Outcome};
use super::keyword::{Keyword, keyword, whole};
use super::text::Quotes;
use crate::rule::matches::Match;
use crate::rule::{Class, Target};

pub(super) const KEYWORDS: &[Keyword] = &[
    keyword("msg", message).quotes(Quotes::Mandatory),
    keyword("gid", group),
    keyword("rev", revision),
    keyword("priority", priority),
    keyword("classtype", class),
    keyword("reference", reference),
    keyword("metadata", metadata),
    keyword("target", target),
    keyword("noalert", |draft, _| no_alert(draft, true)).without_value(),
    keyword("alert", |draft, _| no_alert(draft, false)).without_value(),
    keyword("prefilter", prefilter).without_value(),
];

/// Priority of rules that have neither `priority` nor a class.
pub(crate) const PRIORITY: i32 = 3;
/// Longest name of a class.
const CLASS_NAME_MAX: usize = 64;

fn group(draft: &mut Draft<'_>, value: &str) -> Outcome {
    draft.gid = whole("gid", value)?;
    Ok(())
}

fn no_alert(draft: &mut Draft<'_>, no_alert: bool) -> Outcome {
    draft.no_alert = no_alert;
    Ok(())
}

fn message(draft: &mut Draft<'_>, value: &str) -> Outcome {
    if !draft.message.is_empty() {
        return Err("msg is there twice".into());
    }
    let (mut out, mut escaped) = (String::with_capacity(value.len()), false);
    for c in value.chars() {
        escaped = !escaped && c == '\\';
        if !escaped {
            out.push(c);
        }
    }
    draft.message = out;
    Ok(())
}

fn revision(draft: &mut Draft<'_>, value: &str) -> Outcome {
    if draft.rev > 0 {
        return Err("rev is there twice".into());
    }
    draft.rev = whole("rev", value)?;
    if draft.rev == 0 { Err("rev 0 is invalid".into()) } else { Ok(()) }
}

fn priority(draft: &mut Draft<'_>, value: &str) -> Outcome {
    let text = value.trim();
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !is_number {
        return Err(format!("{value:?} is no priority").into());
    }
    // Larger numbers wrap in Suricata; here they are the least urgent.
    let priority = text.parse::<i32>().unwrap_or(i32::MAX);
    draft.priority = match draft.priority {
        Some(other) if draft.has_own_priority => Some(other.min(priority)),
        _ => Some(priority),
    };
    draft.has_own_priority = true;
    Ok(())
}

fn class(draft: &mut Draft<'_>, value: &str) -> Outcome {
    let name = value.trim();
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    let begins = name.starts_with(|c: char| c.is_ascii_alphabetic());
    if !begins || !name.chars().all(is_word) || name.len() >= CLASS_NAME_MAX {
        return Err(format!("invalid classtype {value:?}").into());
    }
    let known = draft.shared.classes.get(&name.to_ascii_lowercase()).cloned();
    // A class that the configuration does not know has no text and the default priority.
    let unknown = || {
        let (name, priority) = (name.to_owned(), PRIORITY as u8);
        Arc::new(Class { name, description: String::new(), priority })
    };
    let class = known.unwrap_or_else(unknown);
    let own = i32::from(class.priority);
    let replaces = match draft.priority {
        _ if draft.has_own_priority => true,
        Some(priority) if priority <= own => false,
        _ => {
            draft.priority = Some(own);
            true
        }
    };
    if replaces && !class.description.is_empty() {
        draft.class = Some(class);
    }
    Ok(())
}

fn reference(draft: &mut Draft<'_>, value: &str) -> Outcome {
    let bad = || format!("{value:?} is not KEY,REFERENCE");
    let (key, text) = value.split_once(',').ok_or_else(bad)?;
    let key = key.trim();
    let text = text.trim().trim_start_matches('"').trim_start();
    let (scheme, rest) = match text.split_once("://") {
        Some((scheme, rest)) if scheme.chars().all(|c| c.is_ascii_alphabetic()) => {
            (Some(format!("{scheme}://")), rest)
        }
        _ => (None, text),
    };
    let is_url = |c: char| c.is_ascii_alphanumeric() || "-_./?=".contains(c);
    let end = rest.find(|c: char| !is_url(c)).unwrap_or(rest.len());
    let content = rest.get(..end).unwrap_or_default();
    let is_key = !key.is_empty() && key.chars().all(|c| c.is_ascii_alphanumeric());
    if !is_key || content.is_empty() {
        return Err(bad().into());
    }
    let known = || draft.shared.references.get(&key.to_ascii_lowercase()).cloned();
    let prefix = scheme.or_else(known).unwrap_or_default();
    draft.references.push((prefix, content.to_owned()));
    Ok(())
}

fn metadata(draft: &mut Draft<'_>, value: &str) -> Outcome {
    for pair in value.split(',') {
        let pair = pair.trim_start_matches([' ', '\t']);
        if let Some((key, value)) = pair.split_once(' ') {
            let value = value.trim_start_matches([' ', '\t']);
            if !key.is_empty() && !value.is_empty() {
                draft.metadata.push((key.to_owned(), value.to_owned()));
            }
        }
    }
    Ok(())
}

fn target(draft: &mut Draft<'_>, value: &str) -> Outcome {
    let target = match value.trim() {
        "src_ip" => Target::Source,
        "dest_ip" => Target::Destination,
        _ => return Err("only src_ip and dest_ip can be the target".into()),
    };
    if draft.target.is_some_and(|known| known != target) {
        return Err("two targets".into());
    }
    draft.target = Some(target);
    Ok(())
}

fn prefilter(draft: &mut Draft<'_>, _: &str) -> Outcome {
    let spot = draft.last_anywhere(|_| true).ok_or("nothing is before it")?;
    match draft.at_mut(spot) {
        Some(Match::Content(content)) => {
            let is_placed =
                content.is_relative() || content.offset.is_some() || content.depth.is_some();
            if content.negated && is_placed {
                return Err("a negated content with conditions on its place cannot be it".into());
            }
            content.fast_pattern.get_or_insert_default();
        }
        Some(item) if super::packet::has_prefilter(item) => {}
        _ => return Err("the keyword before it has no prefilter".into()),
    }
    draft.prefilter = Some(spot);
    Ok(())
}
