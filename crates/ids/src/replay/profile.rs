//! What each rule costs on a capture: what `gauntlet ips rules profile` prints.

use std::path::Path;
use std::sync::Arc;

use super::{Options, ReplayError, Replayer, Summary, decoded, detector, next_frame, open};
use crate::detect::{Clock, Cost, Profile, Searched};
use crate::pipeline::Pipeline;

/// What rules have cost on a capture.
#[derive(Debug, Clone)]
pub struct ProfileReport {
    /// What was replayed.
    pub summary: Summary,
    /// All of detection: `checks` are packets that rules looked at, those that were made up at the
    /// end of flows among them; `matches` are alerts.
    pub detection: Cost,
    /// Rules that were tried, those that took longest first.
    pub rules: Vec<RuleCost>,
    /// Where rules were searched for, what took longest first.
    pub searches: Vec<SearchCost>,
    /// Rules that were never tried.
    pub idle: usize,
}

/// What a rule has cost.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuleCost {
    /// `gid:sid:rev`.
    pub rule: String,
    /// Its message.
    pub title: String,
    /// File and line.
    pub place: String,
    /// How often it was tried, and how long that took.
    pub cost: Cost,
    /// What it is looked up by: the buffer of its fast pattern, none if it has no such pattern.
    pub looked_up_in: Option<&'static str>,
    /// Its fast pattern, as the rule has it.
    pub fast_pattern: Vec<u8>,
}

/// What a search for rules has cost.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SearchCost {
    /// The buffer, as rules name it; payloads and streams are `packet`.
    pub buffer: String,
    /// `matches`: rules that it named.
    pub cost: Cost,
}

/// Replays a capture on one thread and counts what each rule costs, by `clock`. Counting takes time
/// itself, some 50 ns a rule that is tried.
///
/// # Errors
///
/// As [`Replayer::new`] and [`Replayer::run`].
pub fn profile(
    capture: &Path,
    options: &Options,
    clock: Clock,
) -> Result<ProfileReport, ReplayError> {
    let replayer = Replayer::new(options)?;
    let mut summary = replayer.summary();
    let mut frames = open(capture)?;
    let mut detector = detector(options, &replayer.program)?;
    detector.profile = Some(Box::new(Profile::new(clock, 1)));
    let mut pipeline = Pipeline::new(Arc::clone(&replayer.program), detector, &replayer.layers);
    let mut ignore = |_: &str| {};
    let mut writer = replayer.writer(capture, Box::new(&mut ignore));
    while let Some(frame) = next_frame(&mut frames, &mut summary) {
        pipeline.frame(&frame, &mut writer);
    }
    pipeline.end(&mut writer);
    (summary.alerts, summary.dropped) = (writer.alerts, writer.drops);
    let summary = decoded(summary, capture)?;
    let counted = pipeline.profile().cloned().unwrap_or_else(|| Profile::new(clock, 1));
    Ok(report(&replayer, summary, &counted))
}

fn report(replayer: &Replayer<'_>, summary: Summary, counted: &Profile) -> ProfileReport {
    let mut rules: Vec<_> =
        counted.rules().filter_map(|(n, cost)| rule(replayer, n, cost)).collect();
    rules.sort_by(|a, b| {
        b.cost.nanoseconds.cmp(&a.cost.nanoseconds).then_with(|| a.rule.cmp(&b.rule))
    });
    let search = |(searched, cost): (Searched, &Cost)| SearchCost {
        buffer: match searched {
            Searched::Packet => "packet".to_owned(),
            Searched::Buffer(key) => buffer(replayer, key.0),
        },
        cost: *cost,
    };
    let mut searches: Vec<_> = counted.searches().map(search).collect();
    searches.sort_by_key(|search| std::cmp::Reverse(search.cost.nanoseconds));
    let idle = summary.rules.saturating_sub(rules.len());
    ProfileReport { summary, detection: counted.detection, rules, searches, idle }
}

/// A buffer's name, with how many transforms its bytes went through.
fn buffer(replayer: &Replayer<'_>, key: u16) -> String {
    let Some(used) = replayer.program.rules.buffers.get(usize::from(key)) else {
        return String::new();
    };
    match used.transforms.len() {
        0 => used.name.to_owned(),
        count => format!("{} (transformed {count} times)", used.name),
    }
}

fn rule(replayer: &Replayer<'_>, number: u32, cost: &Cost) -> Option<RuleCost> {
    let set = &replayer.program.rules;
    let rule = set.rules.get(number as usize)?;
    let pattern = rule.fast_pattern.as_ref().filter(|pattern| !pattern.negated);
    let name = |key: u16| set.buffers.get(usize::from(key)).map_or("", |used| used.name);
    Some(RuleCost {
        rule: format!("{}:{}:{}", rule.gid, rule.sid, rule.rev),
        title: rule.message.clone(),
        place: format!("{}:{}", rule.place.file, rule.place.line),
        cost: *cost,
        looked_up_in: pattern.map(|pattern| pattern.key.map_or("packet", |key| name(key.0))),
        fast_pattern: pattern.map(|pattern| pattern.bytes.clone()).unwrap_or_default(),
    })
}
