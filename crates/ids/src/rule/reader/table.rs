//! All keywords, and how one option is read.

use std::collections::HashMap;
use std::sync::LazyLock;

use super::draft::{Draft, Outcome, Refusal};
use super::keyword::{Keyword, Value};
use super::text::{OptionText, Quotes, unquote};
use super::{
    bytes, certificate, content, country, dataset, events, files, limits, meta, packet, pattern,
    protocol, state, transforms,
};
use crate::rule::buffers;
use crate::rule::header::Direction;

static KEYWORDS: LazyLock<HashMap<&'static str, Keyword>> = LazyLock::new(|| {
    let tables = [
        content::KEYWORDS,
        pattern::KEYWORDS,
        bytes::KEYWORDS,
        packet::KEYWORDS,
        state::KEYWORDS,
        meta::KEYWORDS,
        limits::KEYWORDS,
        files::KEYWORDS,
        dataset::KEYWORDS,
        events::KEYWORDS,
        protocol::KEYWORDS,
        certificate::KEYWORDS,
        country::KEYWORDS,
        transforms::KEYWORDS,
    ];
    let all = tables.into_iter().flatten();
    all.map(|keyword| (keyword.name, *keyword)).collect()
});

/// Whether rules may use this keyword.
pub(crate) fn is_known(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    KEYWORDS.contains_key(name.as_str())
        || buffers::sticky(&name).is_some()
        || protocol::is_known(&name)
        || matches!(name.as_str(), "sid" | "requires")
}

/// All keywords, sorted.
pub(crate) fn all() -> Vec<&'static str> {
    let mut all: Vec<_> = KEYWORDS.keys().copied().chain(buffers::sticky_keywords()).collect();
    all.extend(protocol::names());
    all.extend(["requires"]);
    all.sort_unstable();
    all.dedup();
    all
}

/// Reads one option into the rule.
pub(crate) fn read(draft: &mut Draft<'_>, option: &OptionText<'_>) -> Outcome {
    let name = option.name.to_ascii_lowercase();
    let Some(keyword) = KEYWORDS.get(name.as_str()) else {
        if buffers::sticky(&name).is_some() {
            return read_sticky(draft, &name, option.value.unwrap_or_default());
        }
        return match protocol::find(&name) {
            Some(_) if option.value.is_none_or(str::is_empty) => Err("it needs a value".into()),
            Some(check) => {
                let (value, _) = unquote(option.value.unwrap_or_default(), Quotes::None, false)?;
                check.read(draft, value)
            }
            None => Err(Refusal::Error(format!("unknown rule keyword {:?}", option.name))),
        };
    };
    let value = option.value.unwrap_or_default();
    match keyword.value {
        Value::Required if value.is_empty() => return Err("it needs a value".into()),
        Value::None if !value.is_empty() => return Err("it has no value".into()),
        _ => {}
    }
    draft.is_negated = false;
    let mut text = "";
    if !value.is_empty() {
        (text, draft.is_negated) = unquote(value, keyword.quotes, keyword.may_negate)?;
        if keyword.may_direct {
            text = direct(draft, text, keyword.value == Value::Optional)?;
        }
    }
    let outcome = (keyword.read)(draft, text);
    draft.forced = None;
    draft.is_negated = false;
    outcome
}

/// Buffers whose keywords may name a side.
const HAVE_DIRECTION: [&str; 7] = [
    "http_accept_enc",
    "http_accept_lang",
    "http_accept",
    "http_connection",
    "http_content_len",
    "http_content_type",
    "http_referer",
];

/// A keyword that chooses a buffer.
fn read_sticky(draft: &mut Draft<'_>, name: &str, value: &str) -> Outcome {
    let Some(info) = buffers::sticky(name) else { return Ok(()) };
    if !value.is_empty() {
        if !HAVE_DIRECTION.contains(&info.buffer) || info.is_modifier {
            return Err("it has no value".into());
        }
        let (value, _) = unquote(value, Quotes::None, false)?;
        direct(draft, value, true)?;
    }
    let fingerprints = ["ja3", "ja4"].into_iter().find(|kind| info.buffer.starts_with(kind));
    if let Some(kind) = fingerprints.filter(|kind| !draft.shared.has_fingerprints(kind)) {
        return Err(Refusal::Skip(format!("{kind} is off by app-layer.protocols.tls")));
    }
    if info.is_modifier {
        return content::modifier(
            draft,
            info.buffer,
            info.protocols.first().copied().unwrap_or(""),
        );
    }
    let outcome = draft.activate(info.buffer, None);
    draft.forced = None;
    outcome?;
    draft.set_protocols(&info.protocols)?;
    packet::note_header_buffer(draft, info.buffer)?;
    if name == "http.response_body" {
        (draft.towards.client, draft.towards.server) = (true, false);
    }
    Ok(())
}

/// `to_client` or `to_server` before a value, in rules on both sides (`=>`).
fn direct<'v>(draft: &mut Draft<'_>, value: &'v str, is_only: bool) -> Outcome<&'v str> {
    let sides = [("to_client", Direction::ToClient), ("to_server", Direction::ToServer)];
    for (name, side) in sides {
        let Some(rest) = value.strip_prefix(name) else { continue };
        let rest = rest.trim_start_matches([' ', '\t']);
        let rest = match rest.strip_prefix(',') {
            Some(rest) => rest.trim_start_matches([' ', '\t']),
            None if rest.is_empty() => rest,
            None => return Err(format!("a comma is missing after {name}").into()),
        };
        draft.forced = Some(side);
        if !draft.is_bidirectional {
            let (own, other) = match side {
                Direction::ToClient => (&mut draft.towards.client, draft.towards.server),
                Direction::ToServer => (&mut draft.towards.server, draft.towards.client),
            };
            if other {
                return Err("the rule is for the other direction".into());
            }
            *own = true;
        }
        return Ok(rest);
    }
    if is_only { Err("only to_server or to_client".into()) } else { Ok(value) }
}
