//! `content`, its modifiers, and conditions on the size of buffers.

use super::draft::{Draft, List, Outcome, Spot};
use super::keyword::{Keyword, keyword};
use super::text::Quotes;
use crate::rule::buffers::BufferKind;
use crate::rule::matches::{Amount, Content, FastPatternChoice, IsDataAt, Match};
use crate::rule::number;

/// Largest `distance` and `within`, either way.
const RELATIVE_MAX: i64 = 1024 * 1024;

pub(super) const KEYWORDS: &[Keyword] = &[
    keyword("content", content).quotes(Quotes::Mandatory).negatable(),
    keyword("uricontent", uri_content).quotes(Quotes::Mandatory).negatable(),
    keyword("nocase", nocase).without_value(),
    keyword("rawbytes", rawbytes).without_value(),
    keyword("depth", depth),
    keyword("startswith", starts_with).without_value(),
    keyword("offset", offset),
    keyword("distance", distance),
    keyword("within", within),
    keyword("endswith", ends_with).without_value(),
    keyword("fast_pattern", fast_pattern).optional_value(),
    keyword("replace", replace).quotes(Quotes::Mandatory).negatable(),
    keyword("isdataat", is_data_at),
    keyword("bsize", buffer_size),
    keyword("urilen", uri_length),
    keyword("absent", absent).optional_value(),
];

fn is_content(item: &Match) -> bool {
    matches!(item, Match::Content(_))
}

fn is_content_or_pcre(item: &Match) -> bool {
    matches!(item, Match::Content(_) | Match::Pcre(_))
}

/// Whether relative matches can follow it.
pub(super) fn is_anchor(item: &Match) -> bool {
    is_content_or_pcre(item)
        || matches!(
            item,
            Match::ByteTest(_)
                | Match::ByteJump(_)
                | Match::ByteExtract(_)
                | Match::ByteMath(_)
                | Match::IsDataAt(_)
        )
}

/// The bytes of a content: `|hex|`, backslashes before `:`, `;`, `"` and `\`.
pub(super) fn bytes(text: &str) -> Result<Vec<u8>, String> {
    let mut out = Vec::with_capacity(text.len());
    let (mut in_hex, mut escaped, mut high) = (false, false, None::<u32>);
    let mut is_converted = false;
    for &byte in text.as_bytes() {
        if byte == b'|' {
            if in_hex && high.is_some() {
                return Err(format!("incomplete hex code in {text:?}"));
            }
            in_hex = !in_hex;
        } else if !escaped && byte == b'\\' {
            escaped = true;
        } else if in_hex {
            match (char::from(byte).to_digit(16), high.take()) {
                (Some(digit), None) => high = Some(digit),
                (Some(digit), Some(first)) => {
                    out.push((first * 16 + digit) as u8);
                    is_converted = true;
                }
                (None, kept) if matches!(byte, b' ' | b',') => high = kept,
                _ => return Err(format!("{:?} is no hex code in {text:?}", char::from(byte))),
            }
        } else if escaped {
            if !matches!(byte, b':' | b';' | b'\\' | b'"') {
                return Err(format!("the backslash must be escaped in {text:?}"));
            }
            out.push(byte);
            (escaped, is_converted) = (false, true);
        } else if byte == b'"' {
            return Err(format!("a double quote must be escaped in {text:?}"));
        } else {
            out.push(byte);
        }
    }
    if in_hex {
        return Err(format!("a bar is missing in {text:?}"));
    }
    // Bars with no digits between them are themselves, as in Suricata, unless something else of the
    // content stands for another byte.
    if !is_converted {
        out = text.as_bytes().to_vec();
    }
    if out.is_empty() { Err("the content is empty".to_owned()) } else { Ok(out) }
}

/// A content without modifiers.
pub(super) fn new(text: &str, negated: bool) -> Outcome<Content> {
    Ok(Content {
        bytes: bytes(text)?,
        nocase: false,
        negated,
        offset: None,
        depth: None,
        distance: None,
        within: None,
        ends_with: false,
        starts_with: false,
        has_next: false,
        can_retry: false,
        fast_pattern: None,
        raw_bytes: false,
        replace: None,
    })
}

fn content(draft: &mut Draft<'_>, value: &str) -> Outcome {
    let content = new(value, draft.is_negated)?;
    if let Some(List::Buffer(key)) = draft.settle()?
        && !content.negated
        && let Some(used) = draft.shared.buffer_use(key)
        && let Some(transform) = used.transforms.iter().find(|t| !t.can_yield(&content.bytes))
    {
        let name = transform.name();
        return Err(format!("{value:?} cannot be in a buffer after {name}").into());
    }
    draft.append_bytes(Match::Content(content)).map(|_| ())
}

fn uri_content(draft: &mut Draft<'_>, value: &str) -> Outcome {
    if draft.shared.settings.get("legacy.uricontent") == Some("disabled") {
        return Err("uricontent is disabled by legacy.uricontent".into());
    }
    content(draft, value)?;
    modifier(draft, "http_uri", "http1")
}

/// An old modifier such as `http_uri`: the content before it belongs to a buffer.
pub(super) fn modifier(
    draft: &mut Draft<'_>,
    buffer: &'static str,
    protocol: &'static str,
) -> Outcome {
    if draft.active().is_some() {
        return Err("a sticky buffer is still set; pkt_data resets it".into());
    }
    let conflicts = |own| !crate::rule::protocol::applies(own, protocol);
    if draft.protocol.is_some_and(conflicts) {
        return Err("the rule is for another protocol".into());
    }
    let contents = draft.payload.iter().rposition(|entry| is_content(&entry.item));
    let none = "there is no content before it";
    contents.ok_or(none)?;
    let spot = draft.last(is_content).ok_or(none)?;
    // The last content of all may be in a buffer already: the payload's counts.
    let spot = if draft.list_of(spot) == Some(List::Payload) {
        spot
    } else {
        draft.last_payload(is_content).ok_or(none)?
    };
    let Some(Match::Content(content)) = draft.at(spot) else { return Err(none.into()) };
    if content.raw_bytes || content.replace.is_some() {
        return Err("it cannot be used with rawbytes or replace".into());
    }
    if content.is_relative() {
        relink(draft, spot, buffer);
    }
    draft.protocol = Some(protocol);
    draft.is_app_layer = true;
    draft.move_to_buffer(spot, buffer)
}

/// A relative content leaves the payload: what was before it there has no follower, what is before
/// it in its buffer has one.
fn relink(draft: &mut Draft<'_>, spot: Spot, buffer: &'static str) {
    if let Some(before) = draft.before(spot, is_content_or_pcre) {
        mark_next(draft, before, Next::Neither);
    }
    let key = draft.key(buffer);
    if draft.current().is_some_and(|current| current.key == key)
        && let Some(before) = draft.last_in_current(is_content_or_pcre)
    {
        mark_next(draft, before, Next::Both);
    }
}

/// Which kind of relative match follows.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Next {
    /// It depends on the place (`within`, `isdataat` ...): backtracking.
    Both,
    /// `distance` of a content that must be there.
    Distance,
    /// None.
    Neither,
}

/// Notes at a content or pcre that a relative match follows.
pub(super) fn mark_next(draft: &mut Draft<'_>, spot: Spot, next: Next) {
    match draft.at_mut(spot) {
        Some(Match::Content(content)) => match next {
            Next::Both => (content.has_next, content.can_retry) = (true, true),
            Next::Distance => content.has_next = true,
            Next::Neither => (content.has_next, content.can_retry) = (false, false),
        },
        Some(Match::Pcre(pattern)) => pattern.has_next = next != Next::Neither,
        _ => {}
    }
}

/// The content that a modifier changes.
fn last_content<'d>(draft: &'d mut Draft<'_>) -> Outcome<(Spot, &'d mut Content)> {
    let spot = draft.last(is_content).ok_or("there is no content before it")?;
    match draft.at_mut(spot) {
        Some(Match::Content(content)) => Ok((spot, content)),
        _ => Err("there is no content before it".into()),
    }
}

fn nocase(draft: &mut Draft<'_>, _: &str) -> Outcome {
    let (_, content) = last_content(draft)?;
    if content.nocase {
        return Err("nocase is there twice".into());
    }
    content.nocase = true;
    content.bytes.make_ascii_lowercase();
    Ok(())
}

fn rawbytes(draft: &mut Draft<'_>, _: &str) -> Outcome {
    if draft.active().is_some() {
        return Err("it cannot be used with a sticky buffer".into());
    }
    let spot = draft.last_payload(is_content).ok_or("there is no content before it")?;
    match draft.at_mut(spot) {
        Some(Match::Content(content)) if !content.raw_bytes => {
            content.raw_bytes = true;
            Ok(())
        }
        _ => Err("rawbytes is there twice".into()),
    }
}

/// What all conditions on the place of a content share.
fn check_placeable(content: &Content) -> Outcome {
    if let Some(choice) = content.fast_pattern {
        if content.negated {
            return Err("a negated fast_pattern cannot have conditions on its place".into());
        }
        if choice.only {
            return Err("fast_pattern:only cannot have conditions on its place".into());
        }
    }
    Ok(())
}

fn check_absolute(content: &Content) -> Outcome {
    if content.is_relative() {
        return Err("depth and offset exclude distance and within".into());
    }
    check_placeable(content)
}

fn check_relative(content: &Content) -> Outcome {
    if content.depth.is_some() || content.offset.is_some() {
        return Err("distance and within exclude depth and offset".into());
    }
    check_placeable(content)
}

/// A byte variable's name, not a number.
pub(super) fn is_variable(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic())
}

/// The variable, for modifiers, which may use those of all lists.
fn variable(draft: &Draft<'_>, name: &str) -> Outcome<Amount> {
    let number = draft.variable(name, None);
    number.map(Amount::Variable).ok_or_else(|| format!("no byte variable {name:?}").into())
}

/// A whole number as `strtoull` with base 0 reads it: decimal, 0x hex, 0 octal.
pub(super) fn integer(text: &str) -> Option<i64> {
    let text = text.trim_start();
    let (negative, digits) = match text.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let hex = digits.strip_prefix("0x").or_else(|| digits.strip_prefix("0X"));
    let number = match (hex, digits.strip_prefix('0')) {
        (Some(hex), _) => i64::from_str_radix(hex, 16).ok()?,
        (None, Some(octal)) if !octal.is_empty() => i64::from_str_radix(octal, 8).ok()?,
        _ => digits.parse::<u32>().ok().map(i64::from)?,
    };
    Some(if negative { -number } else { number })
}

fn unsigned(text: &str) -> Outcome<i64> {
    let number = integer(text).filter(|number| (0..=i64::from(u16::MAX)).contains(number));
    number.ok_or_else(|| format!("{text:?} is not a number up to 65535").into())
}

fn relative(text: &str) -> Outcome<i64> {
    let number = integer(text).filter(|number| number.abs() <= RELATIVE_MAX);
    number.ok_or_else(|| format!("{text:?} is not a number up to {RELATIVE_MAX}").into())
}

fn depth(draft: &mut Draft<'_>, value: &str) -> Outcome {
    let amount = match is_variable(value) {
        true => variable(draft, value)?,
        false => Amount::Fixed(unsigned(value)?),
    };
    let (_, content) = last_content(draft)?;
    if content.depth.is_some() {
        return Err("depth is there twice".into());
    }
    check_absolute(content)?;
    content.depth = Some(match amount {
        Amount::Fixed(depth) => {
            let length = content.bytes.len() as i64;
            if depth < length {
                return Err(format!("depth {depth} is less than the content's {length}").into());
            }
            let offset = match content.offset {
                Some(Amount::Fixed(offset)) => offset,
                Some(Amount::Variable(number)) => i64::from(number),
                None => 0,
            };
            Amount::Fixed((depth + offset) & i64::from(u16::MAX))
        }
        variable => variable,
    });
    Ok(())
}

fn starts_with(draft: &mut Draft<'_>, _: &str) -> Outcome {
    let (_, content) = last_content(draft)?;
    if content.depth.is_some() {
        return Err("startswith and depth exclude each other".into());
    }
    check_absolute(content)?;
    if content.offset.is_some() {
        return Err("startswith and offset exclude each other".into());
    }
    content.depth = Some(Amount::Fixed(content.bytes.len() as i64));
    content.starts_with = true;
    Ok(())
}

fn offset(draft: &mut Draft<'_>, value: &str) -> Outcome {
    let amount = match is_variable(value) {
        true => variable(draft, value)?,
        false => Amount::Fixed(unsigned(value)?),
    };
    let (_, content) = last_content(draft)?;
    if content.starts_with || content.offset.is_some() {
        return Err("offset is there twice, or with startswith".into());
    }
    check_absolute(content)?;
    if let (Amount::Fixed(offset), Some(Amount::Fixed(depth))) = (amount, content.depth) {
        let least = depth.max(content.bytes.len() as i64);
        content.depth = Some(Amount::Fixed((least + offset) & i64::from(u16::MAX)));
    }
    content.offset = Some(amount);
    Ok(())
}

fn distance(draft: &mut Draft<'_>, value: &str) -> Outcome {
    let amount = match is_variable(value) {
        true => variable(draft, value)?,
        false => Amount::Fixed(relative(value)?),
    };
    let (spot, content) = last_content(draft)?;
    if content.distance.is_some() {
        return Err("distance is there twice".into());
    }
    check_relative(content)?;
    content.distance = Some(amount);
    let next = if content.negated { Next::Both } else { Next::Distance };
    link(draft, spot, next)
}

fn within(draft: &mut Draft<'_>, value: &str) -> Outcome {
    let amount = match is_variable(value) {
        true => variable(draft, value)?,
        false => Amount::Fixed(relative(value)?),
    };
    let (spot, content) = last_content(draft)?;
    if content.within.is_some() {
        return Err("within is there twice".into());
    }
    check_relative(content)?;
    if let Amount::Fixed(within) = amount
        && within < content.bytes.len() as i64
    {
        return Err(format!("within {within} is less than the content's length").into());
    }
    content.within = Some(amount);
    link(draft, spot, Next::Both)
}

fn link(draft: &mut Draft<'_>, spot: Spot, next: Next) -> Outcome {
    let Some(before) = draft.before(spot, is_content_or_pcre) else { return Ok(()) };
    if let Some(Match::Content(content)) = draft.at(before)
        && content.fast_pattern.is_some_and(|choice| choice.only)
    {
        return Err("the content before it is fast_pattern:only".into());
    }
    mark_next(draft, before, next);
    Ok(())
}

fn ends_with(draft: &mut Draft<'_>, _: &str) -> Outcome {
    last_content(draft)?.1.ends_with = true;
    Ok(())
}

fn fast_pattern(draft: &mut Draft<'_>, value: &str) -> Outcome {
    let spot = draft.last_pattern(is_content).or_else(|| draft.last(is_content));
    let spot = spot.ok_or("there is no content before it")?;
    let is_base64 = draft.list_of(spot) == Some(List::Base64);
    let others = draft.payload.iter().chain(&draft.base64).any(
        |entry| matches!(&entry.item, Match::Content(content) if content.fast_pattern.is_some()),
    );
    let Some(Match::Content(content)) = draft.at_mut(spot) else {
        return Err("there is no content before it".into());
    };
    let is_placed = content.is_relative() || content.offset.is_some() || content.depth.is_some();
    if content.negated && is_placed {
        return Err("a negated content with conditions on its place cannot be it".into());
    }
    let mut choice = FastPatternChoice::default();
    if value.is_empty() {
        if content.fast_pattern.is_some() || others {
            return Err("only one content of a rule can be it".into());
        }
        if is_base64 {
            return Err("it cannot be used with base64_data".into());
        }
    } else if value.trim_start().starts_with("only") {
        if content.negated || is_placed {
            return Err("only: the content is negated or has conditions on its place".into());
        }
        choice.only = true;
    } else {
        choice.chop = Some(chop(value, content.bytes.len())?);
    }
    content.fast_pattern = Some(choice);
    Ok(())
}

fn chop(value: &str, length_max: usize) -> Outcome<(u16, u16)> {
    let bad = || format!("{value:?} is not OFFSET,LENGTH within the content");
    let (offset, length) = value.split_once(',').ok_or_else(bad)?;
    let offset: u16 = offset.trim().parse().map_err(|_| bad())?;
    let length: u16 = length.trim().parse().map_err(|_| bad())?;
    if usize::from(offset) + usize::from(length) > length_max {
        return Err(bad().into());
    }
    Ok((offset, length))
}

/// Packets are not changed here, and Suricata ignores the keyword where it does not change them.
fn replace(draft: &mut Draft<'_>, value: &str) -> Outcome {
    if draft.is_negated {
        return Err("a replacement cannot be negated".into());
    }
    bytes(value)?;
    Ok(())
}

fn is_data_at(draft: &mut Draft<'_>, value: &str) -> Outcome {
    let bad = || format!("{value:?} is not [!]NUMBER[, relative][, rawbytes]");
    let text = value.trim();
    let negated = text.starts_with('!');
    let mut parts = text.strip_prefix('!').unwrap_or(text).split(',').map(str::trim);
    let place = parts.next().filter(|place| !place.is_empty()).ok_or_else(bad)?;
    let rest: Vec<&str> = parts.collect();
    let relative = rest.first() == Some(&"relative");
    // `rawbytes` alone is one that Suricata's own reader stumbles over.
    if !matches!(rest.as_slice(), [] | ["relative"] | ["relative", "rawbytes"])
        || text.strip_prefix('!').is_some_and(|rest| rest.starts_with(char::is_whitespace))
        || place.contains(char::is_whitespace)
    {
        return Err(bad().into());
    }
    let at = match is_variable(place) {
        true => variable(draft, place)?,
        false => Amount::Fixed(place.parse::<u16>().map(i64::from).map_err(|_| bad())?),
    };
    let (list, before) = place_of(draft, relative)?;
    if let Some(before) = before
        && (at, relative, negated) == (Amount::Fixed(1), true, true)
        && let Some(Match::Content(content)) = draft.at_mut(before)
    {
        content.ends_with = true;
        return Ok(());
    }
    draft.append(list, Match::IsDataAt(IsDataAt { at, relative, negated }))?;
    if let Some(before) = before {
        mark_next(draft, before, Next::Both);
    }
    Ok(())
}

/// The list of a check on bytes, and the match that it is relative to.
pub(super) fn place_of(draft: &mut Draft<'_>, relative: bool) -> Outcome<(List, Option<Spot>)> {
    if draft.active().is_some() {
        let list = draft.settle()?.unwrap_or(List::Payload);
        let before = relative.then(|| draft.last(is_content_or_pcre)).flatten();
        return Ok((list, before));
    }
    let before = relative.then(|| draft.last(is_anchor)).flatten();
    let list = before.and_then(|before| draft.list_of(before)).unwrap_or(List::Payload);
    Ok((list, before))
}

fn buffer_size(draft: &mut Draft<'_>, value: &str) -> Outcome {
    let list = draft.settle()?.ok_or("bsize needs a sticky buffer")?;
    let compare = number::compare(value, u64::MAX)?;
    draft.append(list, Match::BufferSize(compare)).map(|_| ())
}

fn uri_length(draft: &mut Draft<'_>, value: &str) -> Outcome {
    draft.set_protocol("http")?;
    let (value, form) = value.split_once(',').unwrap_or((value, "norm"));
    let buffer = match form.trim() {
        "raw" => "http_raw_uri",
        "norm" => "http_uri",
        other => return Err(format!("{other:?} is neither raw nor norm").into()),
    };
    let compare = number::compare(value, u64::from(u16::MAX))?;
    let key = draft.key(buffer);
    draft.append(List::Buffer(key), Match::UriLength(compare)).map(|_| ())
}

fn absent(draft: &mut Draft<'_>, value: &str) -> Outcome {
    let or_else = match value {
        "" => false,
        "or_else" => true,
        _ => return Err(format!("{value:?} is not or_else").into()),
    };
    let Some(List::Buffer(key)) = draft.settle()? else {
        return Err("absent needs a sticky buffer".into());
    };
    if draft.kind(key) == BufferKind::Frame {
        return Err("absent does not work with frames".into());
    }
    match draft.current() {
        Some(current) if current.key == key && current.entries.is_empty() => {}
        _ => return Err("absent must come first after its buffer".into()),
    }
    draft.append(List::Buffer(key), Match::Absent { or_else }).map(|_| ())
}
