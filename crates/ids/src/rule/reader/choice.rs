//! Which content of a rule is searched first, for all rules at once: its fast pattern, chosen as
//! Suricata chooses it.

use super::draft::{Draft, DraftBuffer, Entry};
use crate::rule::buffers::{self, BufferKind};
use crate::rule::header::Direction;
use crate::rule::matches::{Amount, Content, Match};
use crate::rule::{BufferKey, FastPattern, protocol};

/// Rank of the payload among buffers: lower ones are preferred.
const PAYLOAD_RANK: u8 = 3;

/// A list in which the pattern may be: a buffer or the payload, and its rank and order.
struct Candidate<'d> {
    key: Option<BufferKey>,
    entries: &'d [Entry],
    rank: u8,
    order: u32,
    is_to_client: bool,
    only_to_client: bool,
}

fn contents(entries: &[Entry]) -> impl Iterator<Item = &Content> {
    // A buffer that may be absent is no place to search.
    let present = entries.iter().take_while(|e| !matches!(e.item, Match::Absent { .. }));
    present.filter_map(|entry| match &entry.item {
        Match::Content(content) => Some(content),
        _ => None,
    })
}

/// The fast pattern; `None` if the rule has no content for it.
pub(super) fn choose(draft: &Draft<'_>) -> Option<FastPattern> {
    let candidates = candidates(draft);
    for candidate in &candidates {
        let wanted = contents(candidate.entries).find(|content| content.fast_pattern.is_some());
        if let Some(content) = wanted {
            return Some(pattern(candidate.key, content));
        }
    }
    let all = || candidates.iter().flat_map(|c| contents(c.entries));
    let want_negated = !all().any(|content| !content.negated);
    let usable = |c: &&Candidate<'_>| contents(c.entries).any(|c| c.negated == want_negated);
    let mut lists: Vec<&Candidate<'_>> = candidates.iter().filter(usable).collect();
    if draft.is_bidirectional && lists.iter().any(|list| !list.is_to_client) {
        lists.retain(|list| !list.is_to_client);
    }
    let rank = lists.iter().map(|list| list.rank).min()?;
    lists.retain(|list| list.rank == rank);
    lists.sort_by_key(|list| list.order);
    let counts = |content: &&Content| want_negated || !content.negated;
    let longest = lists
        .iter()
        .filter(|list| !list.only_to_client)
        .flat_map(|list| contents(list.entries))
        .filter(counts)
        .map(|content| content.bytes.len())
        .max()?;
    let mut best: Option<(u32, Option<BufferKey>, &Content)> = None;
    for list in lists {
        for content in contents(list.entries).filter(counts) {
            let strength = strength(&content.bytes);
            let is_longest = content.bytes.len() == longest;
            if is_longest && best.is_none_or(|(other, ..)| strength > other) {
                best = Some((strength, list.key, content));
            }
        }
    }
    best.map(|(_, key, content)| pattern(key, content))
}

fn candidates<'d>(draft: &'d Draft<'_>) -> Vec<Candidate<'d>> {
    let mut out = vec![Candidate {
        key: None,
        entries: &draft.payload,
        rank: PAYLOAD_RANK,
        order: 0,
        is_to_client: false,
        only_to_client: false,
    }];
    for buffer in &draft.buffers {
        let Some(used) = draft.shared.buffer_use(buffer.key) else { continue };
        let Some(info) = buffers::buffer(used.name) else { continue };
        let Some(rank) = info.pattern_rank else { continue };
        // Transformed buffers come after all that are plain, in the order of their first use.
        let order = match used.transforms.is_empty() && info.kind != BufferKind::Frame {
            true => u32::from(info.order) + 1,
            false => 0x1_0000 + u32::from(buffer.key.0),
        };
        out.push(Candidate {
            key: Some(buffer.key),
            entries: &buffer.entries,
            rank,
            order,
            is_to_client: is_to_client(draft, buffer, &info.engines),
            only_to_client: buffer.only == Some(Direction::ToClient),
        });
    }
    out
}

fn is_to_client(draft: &Draft<'_>, buffer: &DraftBuffer, engines: &[buffers::EngineInfo]) -> bool {
    let own = |engine: &&buffers::EngineInfo| {
        draft.protocol.is_none_or(|own| protocol::applies(own, engine.protocol))
    };
    let mut sides = engines.iter().filter(own).map(|engine| engine.direction);
    buffer.only == Some(Direction::ToClient) || sides.all(|side| side == Direction::ToClient)
}

/// How rare the bytes are likely to be; each byte counts in full once.
fn strength(bytes: &[u8]) -> u32 {
    let mut seen = [false; 256];
    let mut sum = 0;
    for &byte in bytes {
        let Some(known) = seen.get_mut(usize::from(byte)) else { continue };
        let printable = (0x20..0x7f).contains(&byte);
        sum += match byte {
            _ if *known => 1,
            _ if byte.is_ascii_alphabetic() => 3,
            0x00 | 0x01 | 0xff => 4,
            _ if printable => 4,
            _ => 6,
        };
        *known = true;
    }
    sum
}

fn pattern(key: Option<BufferKey>, content: &Content) -> FastPattern {
    let choice = content.fast_pattern.unwrap_or_default();
    let bytes = match choice.chop {
        Some((offset, length)) => {
            let (start, end) = (usize::from(offset), usize::from(offset) + usize::from(length));
            content.bytes.get(start..end).unwrap_or(&content.bytes)
        }
        None => &content.bytes,
    };
    // A place that a variable gives is not known before the rule is inspected.
    let is_variable = |amount: Option<Amount>| matches!(amount, Some(Amount::Variable(_)));
    let is_placed =
        choice.chop.is_none() && !is_variable(content.offset) && !is_variable(content.depth);
    let fixed = |amount: Option<Amount>| match amount {
        Some(Amount::Fixed(amount)) if is_placed => u32::try_from(amount).unwrap_or(0),
        _ => 0,
    };
    FastPattern {
        key,
        bytes: bytes.to_vec(),
        nocase: content.nocase,
        only: choice.only,
        negated: content.negated,
        offset: fixed(content.offset),
        depth: fixed(content.depth),
        ends_with: content.ends_with && choice.chop.is_none(),
    }
}
