//! All engines of a node, queried about the objects of one item.

use std::collections::{HashMap, HashSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::{Answer, Breaker, Cache, Engine, EngineError, EngineItem, NamePatterns};
use crate::object::{
    DefectKind, EngineReport, Object, ObjectDefect, OnFailure, Property, PropertyKind, Tree,
};
use crate::text;

/// Bytes of a finding or an error that are kept.
const DETAIL_BYTES_MAX: usize = 200;
/// Names of one engine for one object.
const NAMES_MAX: usize = 8;

/// What a site wants of an engine.
#[derive(Debug, Clone)]
pub struct EngineOptions {
    /// Look at messages as they came, too.
    pub messages: bool,
    /// Look at each object of the tree, at the same content once.
    pub objects: bool,
    /// Larger files are not given to it.
    pub bytes_max: u64,
    /// Wall time for all objects of one item.
    pub time_max: Duration,
    /// What a failure means.
    pub on_failure: OnFailure,
    /// Names that are nothing.
    pub ignore: NamePatterns,
    /// Names that are suspicious, and no malware.
    pub suspicious: NamePatterns,
}

impl Default for EngineOptions {
    fn default() -> Self {
        EngineOptions {
            messages: false,
            objects: true,
            bytes_max: 25 << 20,
            time_max: Duration::from_secs(30),
            on_failure: OnFailure::Tempfail,
            ignore: NamePatterns::default(),
            suspicious: NamePatterns::default(),
        }
    }
}

/// Counts since the engine was set up.
#[derive(Debug, Default)]
pub struct EngineStatistics {
    /// Objects that it looked at.
    pub scanned: AtomicU64,
    /// Objects whose answer was remembered.
    pub cached: AtomicU64,
    /// Objects in which it found something.
    pub found: AtomicU64,
    /// Objects for which it gave no answer.
    pub failed: AtomicU64,
    /// Wall time in microseconds.
    pub micros: AtomicU64,
}

/// An engine in a set.
#[derive(Debug)]
pub struct Member {
    /// Its name in settings, verdicts and metrics.
    pub name: String,
    /// The engine itself; it blocks until it answers or its time is over.
    pub engine: Box<dyn Engine>,
    /// What the site wants of it.
    pub options: EngineOptions,
    /// Leaves it alone while it fails.
    pub breaker: Breaker,
    /// Counts since the engine was set up, shared with each [`EngineState`] made of it.
    pub statistics: Arc<EngineStatistics>,
}

/// How an engine is, for people who look after the node.
#[derive(Debug, Clone)]
pub struct EngineState {
    /// Its name in settings, verdicts and metrics.
    pub name: String,
    /// Program and signatures as it reports them, or why it cannot be queried.
    pub version: Result<String, EngineError>,
    /// What a failure means for mail.
    pub on_failure: OnFailure,
    /// Counts since the engine was set up, shared with its [`Member`].
    pub statistics: Arc<EngineStatistics>,
}

/// Engines that are queried at the same time.
#[derive(Debug)]
pub struct EngineSet {
    members: Vec<Member>,
    cache: Arc<Cache>,
    /// Bytes of one item's objects that wait in memory for the engines.
    bytes_max: u64,
}

/// The bytes of an item's objects, each content once.
#[derive(Debug, Default)]
pub struct Contents {
    by_sha256: HashMap<String, Vec<u8>>,
    bytes: u64,
    left_out: HashSet<String>,
}

impl Contents {
    /// Takes the bytes of an object, unless there are more than `bytes_max` in all then.
    pub fn add(&mut self, object: &Object, bytes: &[u8], bytes_max: u64) {
        if bytes.is_empty() || self.by_sha256.contains_key(&object.sha256) {
            return;
        }
        let all = self.bytes.saturating_add(bytes.len() as u64);
        if all > bytes_max {
            self.left_out.insert(object.sha256.clone());
            return;
        }
        self.bytes = all;
        self.by_sha256.insert(object.sha256.clone(), bytes.to_vec());
    }
}

/// The answers of one engine about all objects.
struct Outcome {
    report: EngineReport,
    /// By the object's place in the list that was scanned.
    answers: Vec<Option<Answer>>,
}

impl EngineSet {
    /// A set. `bytes_max` limits what waits in memory for one item.
    pub fn new(members: Vec<Member>, cache: Arc<Cache>, bytes_max: u64) -> Self {
        EngineSet { members, cache, bytes_max }
    }

    /// A set without engines.
    pub fn none() -> Self {
        Self::new(Vec::new(), Arc::new(Cache::new(0, Duration::ZERO)), 0)
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    /// Whether one has this name.
    pub fn has(&self, name: &str) -> bool {
        self.members.iter().any(|m| m.name == name)
    }

    /// Whether some engine wants messages as they came.
    pub fn wants_messages(&self) -> bool {
        self.members.iter().any(|m| m.options.messages)
    }

    /// Whether some engine wants objects.
    pub fn wants_objects(&self) -> bool {
        self.members.iter().any(|m| m.options.objects)
    }

    /// Most bytes of one item's objects that [`Contents::add`] should take.
    pub fn bytes_max(&self) -> u64 {
        self.bytes_max
    }

    /// How the engines are. Asks each for its version, at most so long.
    pub fn states(&self, time_max: Duration) -> Vec<EngineState> {
        let until = Instant::now() + time_max;
        let state = |m: &Member| EngineState {
            name: m.name.clone(),
            version: m.engine.version(until),
            on_failure: m.options.on_failure,
            statistics: m.statistics.clone(),
        };
        self.members.iter().map(state).collect()
    }

    /// Counts of each engine, and the error for which it is not queried now.
    pub fn statistics(
        &self,
    ) -> impl Iterator<Item = (&str, &Arc<EngineStatistics>, Option<EngineError>)> {
        self.members.iter().map(|m| (m.name.as_str(), &m.statistics, m.breaker.last_error()))
    }

    /// Has all engines look at the objects of a tree whose bytes are in `contents`, and at a
    /// message as it came. What they say is written into the tree. A message in which something is
    /// found becomes an object of its own, last in the tree.
    pub fn scan(&self, tree: &mut Tree, contents: &Contents, message: Option<&[u8]>) {
        self.scan_by(&|_| true, tree, contents, message);
    }

    /// The same by the engines of which this says so by their names.
    pub fn scan_by(
        &self,
        is_asked: &dyn Fn(&str) -> bool,
        tree: &mut Tree,
        contents: &Contents,
        message: Option<&[u8]>,
    ) {
        let members: Vec<&Member> = self.members.iter().filter(|m| is_asked(&m.name)).collect();
        let message = message.map(|bytes| (message_object(tree, bytes), bytes));
        let mut seen = HashSet::new();
        let mut items: Vec<(EngineItem<'_>, bool)> = Vec::new();
        for object in &tree.objects {
            if let Some(bytes) = contents.by_sha256.get(&object.sha256)
                && seen.insert(object.sha256.as_str())
            {
                items.push((item(object, bytes), false));
            }
        }
        if let Some((object, bytes)) = &message {
            items.push((item(object, bytes), true));
        }
        let ask = |member: &Member| {
            // An engine that fails is one that gave no answer.
            let asked = catch_unwind(AssertUnwindSafe(|| self.ask(member, &items)));
            asked.unwrap_or_else(|_| crashed(member, items.len()))
        };
        let outcomes: Vec<Outcome> = std::thread::scope(|scope| {
            let Some((first, rest)) = members.split_first() else { return Vec::new() };
            let rest: Vec<_> = rest.iter().map(|&m| (m, scope.spawn(move || ask(m)))).collect();
            let mut outcomes = vec![ask(first)];
            let joined = rest.into_iter();
            outcomes
                .extend(joined.map(|(m, t)| t.join().unwrap_or_else(|_| crashed(m, items.len()))));
            outcomes
        });
        let keys: Vec<String> = items.iter().map(|(item, _)| item.sha256.to_owned()).collect();
        drop(items);
        let message = message.map(|(object, _)| object);
        write(tree, &keys, message, members.into_iter().zip(outcomes));
        left_out(tree, contents);
    }

    /// Has one engine look at all.
    fn ask(&self, member: &Member, items: &[(EngineItem<'_>, bool)]) -> Outcome {
        let start = Instant::now();
        let until = start + member.options.time_max;
        let report = EngineReport {
            engine: member.name.clone(),
            on_failure: member.options.on_failure,
            ..EngineReport::default()
        };
        let mut outcome = Outcome { report, answers: vec![None; items.len()] };
        if let Err(error) = self.ask_until(member, items, until, &mut outcome) {
            outcome.report.error = text::bounded(&error.to_string(), DETAIL_BYTES_MAX);
            member.statistics.failed.fetch_add(1, Ordering::Relaxed);
        }
        let micros = u64::try_from(start.elapsed().as_micros()).unwrap_or(u64::MAX);
        outcome.report.micros = micros;
        let counts = &member.statistics;
        counts.micros.fetch_add(micros, Ordering::Relaxed);
        counts.scanned.fetch_add(outcome.report.scanned.into(), Ordering::Relaxed);
        counts.cached.fetch_add(outcome.report.cached.into(), Ordering::Relaxed);
        outcome
    }

    fn ask_until(
        &self,
        member: &Member,
        items: &[(EngineItem<'_>, bool)],
        until: Instant,
        outcome: &mut Outcome,
    ) -> Result<(), EngineError> {
        let options = &member.options;
        let wanted = |is_message: bool| if is_message { options.messages } else { options.objects };
        let all = items.iter().zip(&mut outcome.answers);
        let mut asked = all.filter(|((_, is_message), _)| wanted(*is_message)).peekable();
        if asked.peek().is_none() {
            return Ok(());
        }
        member.breaker.admit(Instant::now())?;
        let failed = |error: &EngineError| member.breaker.report(Some(error), Instant::now());
        // That it reports its version does not mean that it can scan files.
        let version = member.engine.version(until).inspect_err(failed)?;
        outcome.report.version = text::bounded(&version, DETAIL_BYTES_MAX);
        for ((item, is_message), answer) in asked {
            if item.bytes.len() as u64 > options.bytes_max {
                *answer = Some(Answer::TooLarge);
                continue;
            }
            let keeps = member.engine.is_expensive() && !is_message;
            let known = || self.cache.get(&member.name, &version, item.sha256, Instant::now());
            if let Some(known) = keeps.then(known).flatten() {
                outcome.report.cached += 1;
                *answer = Some(known);
                continue;
            }
            let scanned = match member.engine.scan(item, until) {
                // It answers, so the breaker does not count it: who sends files that it cannot read
                // would open the breaker for everybody.
                Err(EngineError::Failed(why)) => Answer::Unreadable(why),
                result => result.inspect_err(failed)?,
            };
            member.breaker.report(None, Instant::now());
            outcome.report.scanned += 1;
            if keeps && !matches!(scanned, Answer::Unreadable(_)) {
                let now = Instant::now();
                self.cache.put(&member.name, &version, item.sha256, scanned.clone(), now);
            }
            *answer = Some(scanned);
        }
        Ok(())
    }
}

/// Writes the findings and failures of the engines into the tree.
fn write<'m>(
    tree: &mut Tree,
    keys: &[String],
    message: Option<Object>,
    outcomes: impl Iterator<Item = (&'m Member, Outcome)>,
) {
    let mut by_content: HashMap<&str, Findings> = HashMap::new();
    let mut of_message = Findings::default();
    for (member, outcome) in outcomes {
        let last = keys.len().wrapping_sub(1);
        for (index, (key, answer)) in keys.iter().zip(outcome.answers).enumerate() {
            let Some(answer) = answer else { continue };
            let is_message = message.is_some() && index == last;
            let findings = match is_message {
                true => &mut of_message,
                false => by_content.entry(key).or_default(),
            };
            findings.add(member, answer);
        }
        tree.engines.push(outcome.report);
    }
    for object in &mut tree.objects {
        if let Some(findings) = by_content.get(object.sha256.as_str()) {
            object.properties.extend(findings.properties.iter().cloned());
            object.defects.extend(findings.defects.iter().cloned());
        }
    }
    if let Some(mut object) = message
        && !(of_message.properties.is_empty() && of_message.defects.is_empty())
    {
        (object.properties, object.defects) = (of_message.properties, of_message.defects);
        tree.objects.push(object);
    }
}

/// What all engines found in one content, and why some could not read it.
#[derive(Debug, Default)]
struct Findings {
    properties: Vec<Property>,
    defects: Vec<ObjectDefect>,
}

impl Findings {
    fn add(&mut self, member: &Member, answer: Answer) {
        let options = &member.options;
        let detail = |name: &str| {
            let named = format!("{}: {}", member.name, text::printable(name));
            text::bounded(&named, DETAIL_BYTES_MAX)
        };
        match answer {
            Answer::Clean => {}
            Answer::TooLarge | Answer::Unreadable(_) if options.on_failure == OnFailure::Accept => {
            }
            Answer::Unreadable(why) => self
                .defects
                .push(ObjectDefect { kind: DefectKind::DecoderFailed, detail: detail(&why) }),
            Answer::TooLarge => self.defects.push(ObjectDefect {
                kind: DefectKind::ObjectTooLarge,
                detail: detail("larger than the engine takes"),
            }),
            Answer::Found(names) => {
                let names = names.iter().filter(|name| !options.ignore.match_name(name));
                let before = self.properties.len();
                for name in names.take(NAMES_MAX) {
                    let kind = match options.suspicious.match_name(name) {
                        true => PropertyKind::EngineSuspicion,
                        false => PropertyKind::EngineFinding,
                    };
                    self.properties.push(Property { kind, detail: detail(name) });
                }
                let found = u64::from(self.properties.len() > before);
                member.statistics.found.fetch_add(found, Ordering::Relaxed);
            }
        }
    }
}

fn item<'a>(object: &'a Object, bytes: &'a [u8]) -> EngineItem<'a> {
    EngineItem {
        path: &object.path,
        kind: object.kind,
        bytes,
        sha256: &object.sha256,
        md5: &object.md5,
    }
}

/// The message itself, as an object beside its files.
fn message_object(tree: &Tree, bytes: &[u8]) -> Object {
    let (sha256, md5) = crate::digest::of(bytes);
    let roots = tree.objects.iter().map(|o| o.root.saturating_add(1)).max();
    Object {
        parent: None,
        root: roots.unwrap_or(0),
        path: "message".to_owned(),
        name: String::new(),
        declared_type: "message/rfc822".to_owned(),
        kind: gauntlet_sniff::FileKind::Message,
        size: bytes.len() as u64,
        sha256,
        md5,
        properties: Vec::new(),
        defects: Vec::new(),
        text: String::new(),
        urls: Vec::new(),
    }
}

/// Objects that did not fit into the memory of one item were not looked at.
fn left_out(tree: &mut Tree, contents: &Contents) {
    for object in &mut tree.objects {
        if contents.left_out.contains(&object.sha256) {
            let detail = "engines: over content.engine_bytes_max".to_owned();
            object.defects.push(ObjectDefect { kind: DefectKind::TooManyBytes, detail });
        }
    }
}

/// What is known of an engine whose code failed.
fn crashed(member: &Member, items: usize) -> Outcome {
    let report = EngineReport {
        engine: member.name.clone(),
        error: "the engine's code failed".to_owned(),
        on_failure: member.options.on_failure,
        ..EngineReport::default()
    };
    Outcome { report, answers: vec![None; items] }
}

#[cfg(test)]
mod tests;
