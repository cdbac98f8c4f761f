//! Limits of alerts within a rule: `threshold`, `detection_filter`, and `tag`.

use super::draft::{Draft, Outcome};
use super::keyword::{Keyword, digits, keyword};
use crate::rule::header::Direction;
use crate::rule::matches::{Tag, TagUnit, Threshold, ThresholdKind, Track};

pub(super) const KEYWORDS: &[Keyword] = &[
    keyword("threshold", threshold),
    keyword("detection_filter", detection_filter),
    keyword("tag", tag),
];

/// Most packets that `tag` logs.
const TAG_PACKETS_MAX: u32 = 256;

/// A limit without its particulars.
pub(crate) fn limit(kind: ThresholdKind, track: Track) -> Threshold {
    Threshold {
        kind,
        track,
        count: 0,
        seconds: 0,
        multiplier: 0,
        new_action: None,
        timeout_seconds: 0,
    }
}

/// `by_src` and its like.
pub(crate) fn track(word: &str) -> Option<Track> {
    Some(match word.to_ascii_lowercase().as_str() {
        "by_src" => Track::Source,
        "by_dst" => Track::Destination,
        "by_both" => Track::Pair,
        "by_rule" => Track::Rule,
        "by_flow" => Track::Flow,
        _ => return None,
    })
}

/// `limit` and its like.
pub(crate) fn kind(word: &str) -> Option<ThresholdKind> {
    Some(match word {
        "limit" => ThresholdKind::Limit,
        "threshold" => ThresholdKind::Threshold,
        "both" => ThresholdKind::Both,
        "backoff" => ThresholdKind::Backoff,
        _ => return None,
    })
}

/// Pairs of words, comma between them, none twice.
pub(crate) fn pairs<'v>(value: &'v str, known: &[&str]) -> Result<Vec<(&'v str, &'v str)>, String> {
    let mut out: Vec<(&str, &str)> = Vec::new();
    for pair in value.split(',').map(str::trim) {
        let (name, argument) = pair.split_once(char::is_whitespace).unwrap_or((pair, ""));
        if !known.contains(&name) {
            return Err(format!("{pair:?} is not known"));
        }
        if out.iter().any(|(other, _)| *other == name) {
            return Err(format!("{name} is there twice"));
        }
        out.push((name, argument.trim()));
    }
    Ok(out)
}

/// The argument of one of them.
pub(crate) fn argument<'v>(pairs: &[(&'v str, &'v str)], name: &str) -> Result<&'v str, String> {
    let found = pairs.iter().find(|(other, _)| *other == name);
    found.map(|(_, value)| *value).ok_or_else(|| format!("{name} is missing"))
}

/// A number among them.
pub(crate) fn amount(pairs: &[(&str, &str)], name: &str) -> Result<u32, String> {
    let value = argument(pairs, name)?;
    let number = digits(value).and_then(|number| u32::try_from(number).ok());
    number.ok_or_else(|| format!("{name} {value:?} is no number"))
}

/// Pairs that a threshold has.
const THRESHOLD_PAIRS: usize = 4;

/// As in Suricata what comes behind the number of the last pair is not looked at (`seconds 1m`).
fn first_pairs(value: &str) -> &str {
    let Some((comma, _)) = value.match_indices(',').nth(THRESHOLD_PAIRS - 2) else { return value };
    let is_digit = |byte: &u8| byte.is_ascii_digit();
    let bytes = value.as_bytes();
    let mut place = comma + 1;
    place += bytes.iter().skip(place).take_while(|byte| !is_digit(byte) && **byte != b',').count();
    place += bytes.iter().skip(place).take_while(|byte| is_digit(byte)).count();
    let has_number = place.checked_sub(1).and_then(|at| bytes.get(at)).is_some_and(is_digit);
    value.get(..place).filter(|_| has_number).unwrap_or(value)
}

fn threshold(draft: &mut Draft<'_>, value: &str) -> Outcome {
    if draft.threshold.is_some() {
        return Err("one threshold or detection_filter in a rule".into());
    }
    let known = ["type", "track", "count", "seconds", "multiplier"];
    let name = |pair: &'_ str| pair.trim().split(' ').next().unwrap_or_default().to_owned();
    for wanted in known {
        if value.split(',').filter(|pair| name(pair) == wanted).count() > 1 {
            return Err(format!("{wanted} is there twice").into());
        }
    }
    let pairs = pairs(first_pairs(value), &known)?;
    let kind = kind(argument(&pairs, "type")?).ok_or("the type is not known")?;
    let track = track(argument(&pairs, "track")?).ok_or("the track is not known")?;
    let mut threshold = limit(kind, track);
    threshold.count = amount(&pairs, "count")?;
    if kind == ThresholdKind::Backoff {
        threshold.multiplier = amount(&pairs, "multiplier")?;
        let counts = (1..65536).contains(&threshold.count);
        if !counts || !(2..65536).contains(&threshold.multiplier) {
            return Err("backoff: count from 1, multiplier from 2, both up to 65535".into());
        }
        if track != Track::Flow {
            return Err("backoff is tracked by_flow only".into());
        }
    } else {
        threshold.seconds = amount(&pairs, "seconds")?;
    }
    draft.threshold = Some(threshold);
    Ok(())
}

fn detection_filter(draft: &mut Draft<'_>, value: &str) -> Outcome {
    if draft.threshold.is_some() {
        return Err("one threshold or detection_filter in a rule".into());
    }
    let pairs = pairs(value, &["track", "count", "seconds"])?;
    let track = track(argument(&pairs, "track")?);
    let known = [Track::Source, Track::Destination, Track::Flow];
    let track = track.filter(|track| known.contains(track)).ok_or("the track is not known")?;
    let mut filter = limit(ThresholdKind::DetectionFilter, track);
    filter.count = amount(&pairs, "count")?;
    filter.seconds = amount(&pairs, "seconds")?;
    if filter.count == 0 || filter.seconds == 0 {
        return Err("count and seconds begin at 1".into());
    }
    draft.threshold = Some(filter);
    Ok(())
}

fn tag(draft: &mut Draft<'_>, value: &str) -> Outcome {
    let words: Vec<&str> = value.split(',').map(str::trim).collect();
    let [kind, rest @ ..] = words.as_slice() else { return Err("the kind is missing".into()) };
    let is_host = match *kind {
        "host" => true,
        "session" => false,
        _ => return Err("tag is for a host or a session".into()),
    };
    let mut tag = Tag { of_host: None, count: TAG_PACKETS_MAX, unit: TagUnit::Packets };
    let side = match rest {
        [] => "",
        [count, unit, side @ ..] if side.len() < 2 => {
            tag.count = count.parse().map_err(|_| format!("{count:?} is no number"))?;
            tag.unit = match *unit {
                "packets" => TagUnit::Packets,
                "seconds" => TagUnit::Seconds,
                "bytes" => TagUnit::Bytes,
                _ => return Err("the unit is packets, bytes or seconds".into()),
            };
            match side.first() {
                Some(&"") => return Err("the side is missing".into()),
                side => side.copied().unwrap_or_default(),
            }
        }
        _ => return Err("it is KIND[, COUNT, UNIT[, SIDE]]".into()),
    };
    if tag.unit == TagUnit::Packets {
        tag.count = tag.count.min(TAG_PACKETS_MAX);
    }
    let direction = match side {
        "src" => Direction::ToServer,
        "" | "dst" => Direction::ToClient,
        _ => return Err("the side is src or dst".into()),
    };
    tag.of_host = is_host.then_some(direction);
    draft.tag = Some(tag);
    Ok(())
}
