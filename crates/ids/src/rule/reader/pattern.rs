//! `pcre`.

use super::content::{Next, mark_next};
use super::draft::{Draft, List, Outcome};
use super::keyword::{Keyword, keyword};
use super::shared::PCRE_LIMITS;
use super::text::Quotes;
use crate::bytes::pattern::Capture;
use crate::bytes::pattern::{Flags, Pattern};
use crate::rule::matches::Match;

pub(super) const KEYWORDS: &[Keyword] =
    &[keyword("pcre", pcre).quotes(Quotes::Optional).negatable()];

/// Most groups that are kept.
const CAPTURES_MAX: usize = 8;

/// Flags that choose a buffer.
const BUFFERS: &[(char, &str)] = &[
    ('U', "http_uri"),
    ('V', "http_user_agent"),
    ('W', "http_host"),
    ('Z', "http_raw_host"),
    ('H', "http_header"),
    ('I', "http_raw_uri"),
    ('D', "http_raw_header"),
    ('M', "http_method"),
    ('C', "http_cookie"),
    ('P', "http_client_body"),
    ('Q', "file_data"),
    ('Y', "http_stat_msg"),
    ('S', "http_stat_code"),
];

/// What the letters behind the pattern say.
#[derive(Default)]
struct Letters {
    flags: Flags,
    relative: bool,
    own_limits: bool,
    raw_bytes: bool,
    buffer: Option<&'static str>,
}

impl Letters {
    fn read(text: &str) -> Outcome<Self> {
        let mut out = Letters::default();
        for letter in text.chars() {
            match letter {
                'A' => out.flags.anchored = true,
                'E' => out.flags.dollar_end_only = true,
                'G' => out.flags.ungreedy = true,
                'i' => out.flags.caseless = true,
                'm' => out.flags.multi_line = true,
                's' => out.flags.dot_all = true,
                'x' => out.flags.extended = true,
                'O' => out.own_limits = true,
                'R' => out.relative = true,
                'B' if out.buffer.is_none() => out.raw_bytes = true,
                _ => out.choose(letter)?,
            }
        }
        Ok(out)
    }

    fn choose(&mut self, letter: char) -> Outcome {
        let found = BUFFERS.iter().find(|(flag, _)| *flag == letter);
        let (_, buffer) = found.ok_or_else(|| format!("unknown regex modifier {letter:?}"))?;
        let may_be_raw = matches!(letter, 'D' | 'P' | 'Q' | 'Y' | 'S');
        if self.buffer.is_some() || (self.raw_bytes && !may_be_raw) {
            return Err("only one modifier of a pcre can name a buffer".into());
        }
        self.buffer = Some(buffer);
        Ok(())
    }
}

/// Pattern, letters, and names of captures.
fn cut(value: &str) -> Outcome<(&str, &str, &str)> {
    let starts = ["flow:", "pkt:", "alert:"].iter().filter_map(|name| value.find(name));
    let mut names = "";
    let mut text = value;
    if let Some(start) = starts.min().filter(|&start| start > 1) {
        let before = value.get(..start).unwrap_or_default();
        let trimmed = before.trim_end_matches([',', ' ']);
        if trimmed.len() < before.len() {
            text = trimmed;
            names = value.get(start..).unwrap_or_default().trim_end_matches('"');
        }
    }
    let bytes = text.as_bytes();
    let before = |at: usize, back: usize| at.checked_sub(back).and_then(|at| bytes.get(at));
    let is_slash = |at: &usize| bytes.get(*at) == Some(&b'/');
    let open = |at: &usize| is_slash(at) && before(*at, 1) != Some(&b'\\');
    let close = |at: &usize| {
        is_slash(at) && (before(*at, 1) != Some(&b'\\') || before(*at, 2) == Some(&b'\\'))
    };
    let first = (0..bytes.len()).find(open);
    let last = (0..bytes.len()).rev().find(close);
    let bad = || format!("pcre parse error: {value:?}");
    let (first, last) = first.zip(last).filter(|(first, last)| last > first).ok_or_else(bad)?;
    let pattern = text.get(first + 1..last).ok_or_else(bad)?;
    let letters = text.get(last + 1..).unwrap_or_default();
    Ok((pattern, letters.split('"').next().unwrap_or_default(), names))
}

fn has_upper_case(pattern: &str) -> bool {
    let mut rest = pattern.chars();
    while let Some(c) = rest.next() {
        if c == '\\' {
            if rest.next() == Some('x') {
                rest.next();
                rest.next();
            }
        } else if c.is_ascii_uppercase() {
            return true;
        }
    }
    false
}

fn pcre(draft: &mut Draft<'_>, value: &str) -> Outcome {
    let (text, letters, names) = cut(value)?;
    let letters = Letters::read(letters)?;
    if letters.buffer == Some("http_host") && !letters.flags.caseless && has_upper_case(text) {
        return Err("http.host is in lower case, so the pattern must be, too".into());
    }
    let limits = if letters.own_limits { draft.shared.pcre_limits } else { PCRE_LIMITS };
    let mut pattern = Pattern::new(text, letters.flags, limits)?;
    pattern.relative = letters.relative;
    pattern.negated = draft.is_negated;
    pattern.captures = captures(draft, &pattern, names)?;
    let list = list(draft, letters.buffer)?;
    let relative = pattern.relative;
    let spot = draft.append(list, Match::Pcre(Box::new(pattern)))?;
    if !relative {
        return Ok(());
    }
    let wanted = |item: &Match| matches!(item, Match::Content(_) | Match::Pcre(_));
    match draft.before(spot, wanted) {
        Some(before) => mark_next(draft, before, Next::Both),
        None if draft.active().is_none() => {
            return Err("/R needs a match before it in the same buffer".into());
        }
        None => {}
    }
    Ok(())
}

fn list(draft: &mut Draft<'_>, buffer: Option<&'static str>) -> Outcome<List> {
    let wanted = buffer.map(|name| List::Buffer(draft.key(name)));
    if let Some(active) = draft.active() {
        if wanted.is_some_and(|wanted| wanted != active) {
            return Err("a sticky buffer is still set; pkt_data resets it".into());
        }
        return Ok(draft.settle()?.unwrap_or(active));
    }
    let Some(wanted) = wanted else { return Ok(List::Payload) };
    let conflicts = |own| !crate::rule::protocol::applies(own, "http1");
    if draft.protocol.is_some_and(conflicts) {
        return Err("the rule is for another protocol than the pcre's buffer".into());
    }
    draft.set_protocol("http1")?;
    Ok(wanted)
}

/// Captures named behind the letters, and groups named `flow_NAME`, `pkt_NAME`, `alert_NAME`.
fn captures(draft: &mut Draft<'_>, pattern: &Pattern, names: &str) -> Outcome<Vec<Capture>> {
    let mut out = Vec::new();
    let mut key_waits = false;
    let mut count = 0;
    for name in names.split([' ', ',']).filter(|name| !name.is_empty()) {
        if count >= pattern.group_count() {
            return Err("more names of captures than groups".into());
        }
        count += 1;
        match (name, key_waits) {
            ("pkt:key", false) => {
                key_waits = true;
                out.push(Capture::PacketKey);
            }
            ("pkt:value", true) => key_waits = false,
            ("pkt:value", false) | (_, true) => {
                return Err("pkt:key and pkt:value belong together".into());
            }
            _ => out.push(capture(draft, name, ':')?),
        }
        if count >= CAPTURES_MAX {
            break;
        }
    }
    let mut rest = pattern.text.as_str();
    while let Some((_, after)) = rest.split_once("(?P<") {
        let Some((name, tail)) = after.split_once('>') else { break };
        rest = tail;
        if let Ok(capture) = capture(draft, name, '_') {
            if out.len() >= CAPTURES_MAX {
                return Err(format!("more than {CAPTURES_MAX} captures").into());
            }
            out.push(capture);
        }
    }
    Ok(out)
}

fn capture(draft: &mut Draft<'_>, name: &str, separator: char) -> Outcome<Capture> {
    let bad = "names of captures begin with flow:, pkt: or alert:";
    let (kind, name) = name.split_once(separator).ok_or(bad)?;
    let number = draft.shared.variables.of(name);
    match kind {
        "flow" => Ok(Capture::Flow(number)),
        "pkt" => Ok(Capture::Packet(number)),
        "alert" => Ok(Capture::Alert(number)),
        _ => Err(bad.into()),
    }
}
