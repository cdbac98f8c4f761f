//! threshold.config: `threshold`, `event_filter`, `rate_filter` and `suppress` for rules by id.

use super::address::AddressSet;
use super::matches::{Threshold, ThresholdKind, Track};
use super::network::{Variables, addresses};
use super::reader::limits::{amount, argument, kind, limit, pairs, track};
use super::{Action, Place, Problem, RejectTo};
use crate::config::Settings;

/// Longest line.
const LINE_BYTES_MAX: usize = 8192;

/// Limits of one rule, or of many: 0 is any.
#[derive(Debug, Clone, PartialEq)]
pub struct ThresholdLine {
    /// Group id; 0 is any.
    pub gid: u32,
    /// Id; 0 is any.
    pub sid: u32,
    /// What is done.
    pub threshold: Threshold,
    /// Of suppress: only for these addresses, by the track's side.
    pub addresses: Option<AddressSet>,
}

/// What a file says, and what was wrong in it.
#[derive(Debug, Default)]
pub struct ThresholdFile {
    /// In the order of the file.
    pub lines: Vec<ThresholdLine>,
    /// Lines that were left out.
    pub problems: Vec<Problem>,
}

impl Variables for Settings {
    fn address_group(&self, name: &str) -> Option<&str> {
        self.get(&format!("vars.address-groups.{name}"))
    }

    fn port_group(&self, name: &str) -> Option<&str> {
        self.get(&format!("vars.port-groups.{name}"))
    }
}

/// Reads the text of a file.
pub fn read(file: &str, text: &str, settings: &Settings) -> ThresholdFile {
    let mut out = ThresholdFile::default();
    let mut joined = String::new();
    let mut begin = 0;
    for (number, line) in text.lines().enumerate() {
        if joined.is_empty() {
            begin = number as u32 + 1;
        }
        let line = line.trim();
        if joined.is_empty() && (line.is_empty() || line.starts_with('#')) {
            continue;
        }
        if let Some(start) = line.strip_suffix('\\')
            && joined.len() + start.len() < LINE_BYTES_MAX
        {
            joined.push_str(start);
            continue;
        }
        joined.push_str(line);
        match read_line(&joined, settings) {
            Ok(line) => out.lines.push(line),
            Err(reason) => {
                let place = Place { file: file.into(), line: begin };
                let keyword = joined.split_whitespace().next().map(str::to_owned);
                out.problems.push(Problem { place, sid: None, keyword, reason, is_skip: false });
            }
        }
        joined.clear();
    }
    out
}

fn read_line(line: &str, settings: &Settings) -> Result<ThresholdLine, String> {
    let (name, rest) = line.split_once(char::is_whitespace).ok_or("there is nothing in it")?;
    let (ids, rest) = take_ids(rest.trim())?;
    let rest = rest.trim().trim_end_matches(',');
    let (threshold, addresses) = match name {
        "threshold" | "event_filter" => (filter(rest)?, None),
        "rate_filter" => (rate(rest)?, None),
        "suppress" => suppress(rest, settings)?,
        _ => return Err(format!("{name:?} is not known")),
    };
    if ids.0 == 0 && ids.1 != 0 {
        return Err("gen_id 0 needs sig_id 0".to_owned());
    }
    Ok(ThresholdLine { gid: ids.0, sid: ids.1, threshold, addresses })
}

/// `gen_id N, sig_id N` and what follows.
fn take_ids(text: &str) -> Result<((u32, u32), &str), String> {
    let mut rest = text;
    let mut ids = [0; 2];
    for (id, name) in ids.iter_mut().zip(["gen_id", "sig_id"]) {
        let after = rest.strip_prefix(name).ok_or_else(|| format!("{name} is missing"))?;
        let (number, tail) = after.split_once(',').unwrap_or((after, ""));
        *id = number.trim().parse().map_err(|_| format!("{name} {number:?} is no number"))?;
        rest = tail.trim();
    }
    Ok(((ids[0], ids[1]), rest))
}

fn filter(text: &str) -> Result<Threshold, String> {
    let pairs = pairs(text, &["type", "track", "count", "seconds", "multiplier"])?;
    let kind = kind(argument(&pairs, "type")?).ok_or("the type is not known")?;
    let track = track(argument(&pairs, "track")?).ok_or("the track is not known")?;
    let mut threshold = limit(kind, track);
    threshold.count = amount(&pairs, "count")?;
    if kind == ThresholdKind::Backoff {
        threshold.multiplier = amount(&pairs, "multiplier")?;
    } else {
        threshold.seconds = amount(&pairs, "seconds")?;
    }
    Ok(threshold)
}

fn rate(text: &str) -> Result<Threshold, String> {
    let pairs = pairs(text, &["track", "count", "seconds", "new_action", "timeout"])?;
    let track = track(argument(&pairs, "track")?).ok_or("the track is not known")?;
    let mut threshold = limit(ThresholdKind::Rate, track);
    threshold.count = amount(&pairs, "count")?;
    threshold.seconds = amount(&pairs, "seconds")?;
    threshold.timeout_seconds = amount(&pairs, "timeout")?;
    if threshold.count == 0 || threshold.seconds == 0 || threshold.timeout_seconds == 0 {
        return Err("count, seconds and timeout begin at 1".to_owned());
    }
    threshold.new_action = Some(match argument(&pairs, "new_action")? {
        "alert" => Action::Alert,
        "drop" => Action::Drop,
        "pass" => Action::Pass,
        "reject" => Action::Reject(RejectTo::Source),
        other => return Err(format!("new_action {other:?} is not supported")),
    });
    Ok(threshold)
}

fn suppress(text: &str, settings: &Settings) -> Result<(Threshold, Option<AddressSet>), String> {
    if text.is_empty() {
        return Ok((limit(ThresholdKind::Suppress, Track::Rule), None));
    }
    let bad = "it is track by_src|by_dst|by_either, ip ADDRESSES";
    let (track, ip) = text.split_once(',').ok_or(bad)?;
    let track = match track.trim().strip_prefix("track").map(str::trim) {
        Some("by_src") => Track::Source,
        Some("by_dst") => Track::Destination,
        Some("by_either") => Track::Either,
        _ => return Err(bad.to_owned()),
    };
    let ip = ip.trim().strip_prefix("ip").ok_or(bad)?.trim();
    let (set, _) = addresses(ip, settings)?;
    Ok((limit(ThresholdKind::Suppress, track), Some(set)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read_or_told() {
        let text = "# comment\n\
            threshold gen_id 1, sig_id 2, type limit, track by_src, count 1, seconds 60\n\
            event_filter gen_id 0, sig_id 0, type both, track by_dst, \\\n  count 5, seconds 10\n\
            rate_filter gen_id 1, sig_id 3, track by_both, count 2, seconds 3, \
            new_action drop, timeout 10\n\
            suppress gen_id 1, sig_id 4\n\
            suppress gen_id 1, sig_id 4, track by_either, ip [10.0.0.0/8,!10.1.1.1]\n\
            suppress gen_id 1, sig_id 4, track by_src, ip $NONE\n\
            nonsense gen_id 1, sig_id 4\n";
        let file = read("threshold.config", text, &Settings::built_in());
        assert_eq!(file.lines.len(), 5, "{:?}", file.problems);
        assert_eq!(file.lines[1].threshold.count, 5);
        assert_eq!(file.lines[2].threshold.new_action, Some(Action::Drop));
        let set = file.lines[4].addresses.as_ref().expect("addresses");
        assert!(set.contains("10.2.2.2".parse().unwrap()));
        assert!(!set.contains("10.1.1.1".parse().unwrap()));
        assert_eq!(file.problems.len(), 2);
        assert_eq!(file.problems[0].place.line, 8);
    }
}
