//! Unpacking the files of a message and asking malware engines about them, before it is judged.
//!
//! A message without files never comes here, unless it is ambiguous or an engine looks at messages
//! as they came. One
//! that has some leaves its scan thread, is unpacked in a process of its own
//! (`gauntlet_content::process`), is looked at by the engines, and is judged with what was found.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use gauntlet_content::engines::{Contents, EngineSet};
use gauntlet_content::process::client::{OnObject, Pool};
use gauntlet_content::{
    EngineReport, Limits, Object, OnFailure, Password, Property, PropertyKind, Root, Tree,
};
use gauntlet_mail::files::MessageFile;
use gauntlet_mail::readings::{self, ReadingFile};
use gauntlet_mail::{Defect, Message, passwords};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::config::ContentSettings;
use crate::metrics;

/// Begins the paths of files that only other readings of a message show.
const READING: &str = "reading ";

/// Metrics of each engine: name, help, kind.
const ENGINE_METRICS: [(&str, &str, &str); 6] = [
    (
        "engine_up",
        "Malware engines (or lists) of this name that are asked; 0 after failures",
        "gauge",
    ),
    ("engine_scanned_total", "Files that a malware engine looked at", "counter"),
    ("engine_cached_total", "Files whose answer was remembered", "counter"),
    ("engine_found_total", "Files in which a malware engine found something", "counter"),
    ("engine_failed_total", "Items for which a malware engine gave no answer", "counter"),
    ("engine_microseconds_total", "Wall time of asking a malware engine", "counter"),
];

/// What unpacks, and within which limits.
#[derive(Debug, Clone)]
pub struct Unpacking {
    pool: Arc<Pool>,
    limits: Limits,
    /// Tried on every encrypted file.
    words: Vec<Password>,
    engines: Arc<EngineSet>,
    /// As many as there are workers, and messages that engines look at: whoever waits for one must
    /// not hold a thread.
    turns: Arc<Semaphore>,
    /// The same for messages whose workers stand back.
    turns_standing_back: Arc<Semaphore>,
    /// Messages that wait because an engine gave no answer.
    deferred: Arc<AtomicU64>,
}

impl Unpacking {
    /// Of these settings, by the workers of this pool and these engines.
    pub fn new(settings: &ContentSettings, pool: Arc<Pool>, engines: Arc<EngineSet>) -> Self {
        let word = |word: &String| Password { word: word.clone(), source: "list".to_owned() };
        // Engines that wait for the network keep no worker busy.
        let waiting = if engines.is_empty() { 0 } else { settings.engine_messages_max };
        let turns = |workers: usize| Arc::new(Semaphore::new(workers.max(waiting)));
        Unpacking {
            limits: settings.limits(),
            words: settings.passwords.iter().map(word).collect(),
            turns: turns(pool.workers_max()),
            turns_standing_back: turns(pool.standing_back_max()),
            engines,
            pool,
            deferred: Arc::default(),
        }
    }

    /// What an administrator should know of the processes that start workers: those that have ended
    /// cannot be started again by a node that is confined.
    pub fn question(&self) -> Option<String> {
        let (ended, all) = self.pool.supervisors_ended();
        (ended > 0).then(|| {
            format!(
                "unpacking: {ended} of the {all} processes that start its workers have ended; \
                 restart the node at a quiet time, it stops by itself once none is left"
            )
        })
    }

    /// The malware engines that files are given to.
    pub fn engines(&self) -> &Arc<EngineSet> {
        &self.engines
    }

    /// Messages that were deferred because an engine gave no answer.
    pub fn deferred(&self) -> u64 {
        self.deferred.load(Ordering::Relaxed)
    }

    /// Appends what engines have done since the settings were read.
    pub fn render_metrics(&self, text: &mut String) {
        if self.engines.is_empty() {
            return;
        }
        let help = "Messages deferred because a malware engine gave no answer";
        metrics::line(text, "engine_deferred_total", help, "counter", self.deferred());
        let mut by_name: BTreeMap<&str, [u64; 6]> = BTreeMap::new();
        for (name, counts, error) in self.engines.statistics() {
            let sums = by_name.entry(name).or_default();
            let all = [
                u64::from(error.is_none()),
                counts.scanned.load(Ordering::Relaxed),
                counts.cached.load(Ordering::Relaxed),
                counts.found.load(Ordering::Relaxed),
                counts.failed.load(Ordering::Relaxed),
                counts.micros.load(Ordering::Relaxed),
            ];
            sums.iter_mut().zip(all).for_each(|(sum, one)| *sum += one);
        }
        for (number, (name, help, kind)) in ENGINE_METRICS.into_iter().enumerate() {
            let values = by_name.iter().map(|(engine, sums)| (*engine, sums[number]));
            metrics::labelled(text, name, help, kind, "engine", values);
        }
    }

    /// Whether a message is to be looked at here: it has files, or other readings may have some.
    pub fn wants(&self, message: &Message<'_>) -> bool {
        self.engines.wants_messages()
            || !message.files().is_empty()
            || is_ambiguous(message.defects())
    }

    /// The files of a message, everything in them, and what engines say of it. `raw` is the message
    /// as it came. Blocks.
    pub fn tree(&self, message: &Message<'_>, raw: &[u8]) -> Tree {
        if self.engines.is_empty() {
            return self.unpack(message, None);
        }
        let mut contents = Contents::default();
        let bytes_max = self.engines.bytes_max();
        let mut keep = |object: &Object, bytes: &[u8]| contents.add(object, bytes, bytes_max);
        let keeps = self.engines.wants_objects();
        let look: Option<&mut OnObject<'_>> = if keeps { Some(&mut keep) } else { None };
        let mut tree = self.unpack(message, look);
        // A worker that failed gave no bytes of objects; those of the files are here.
        let files = message.files();
        for object in tree.objects.iter().filter(|o| keeps && o.parent.is_none()) {
            if let Some(file) = files.get(object.root as usize) {
                contents.add(object, file.bytes, bytes_max);
            }
        }
        let raw = self.engines.wants_messages().then_some(raw);
        self.engines.scan(&mut tree, &contents, raw);
        tree
    }

    /// What is known of a message's files, had this engine looked at them as it is now; others are
    /// not asked again. The time that it took is in its reports. `raw` is the message as it came.
    /// Blocks.
    pub fn asked_again(
        &self,
        engine: &str,
        (message, raw): (&Message<'_>, &[u8]),
        known: &Tree,
    ) -> Tree {
        let mut tree = without_findings(engine, known);
        let is_it = |name: &str| name == engine;
        if !self.wants(message) || !self.engines.has(engine) {
            return tree;
        }
        let mut contents = Contents::default();
        let bytes_max = self.engines.bytes_max();
        let mut keep = |object: &Object, bytes: &[u8]| contents.add(object, bytes, bytes_max);
        let mut fresh = self.unpack(message, Some(&mut keep));
        fresh.objects.iter_mut().for_each(|object| object.properties.clear());
        let raw = self.engines.wants_messages().then_some(raw);
        self.engines.scan_by(&is_it, &mut fresh, &contents, raw);
        tree.engines.append(&mut fresh.engines);
        for found in fresh.objects.into_iter().filter(|object| !object.properties.is_empty()) {
            let same = tree.objects.iter_mut().find(|object| object.sha256 == found.sha256);
            match same {
                Some(object) => object.properties.extend(found.properties),
                // The log keeps some of them only.
                None => tree.objects.push(Object { parent: None, ..found }),
            }
        }
        tree
    }

    /// The files of a message in every reading, and everything in them.
    fn unpack(&self, message: &Message<'_>, look: Option<&mut OnObject<'_>>) -> Tree {
        let files = message.files();
        let readings = is_ambiguous(message.defects()).then(|| message.readings());
        let others: Vec<(String, &ReadingFile)> = readings
            .iter()
            .flat_map(|readings| &readings.files)
            .map(|f| (format!("{}{}/{}", READING, f.reading, f.name), f))
            .collect();
        let usual = |f| {
            let f: &MessageFile<'_> = f;
            Root { name: &f.name, declared_type: &f.declared_type, bytes: f.bytes }
        };
        let mut roots: Vec<Root<'_>> = files.iter().map(usual).collect();
        roots.extend(others.iter().map(|(name, f)| Root {
            name,
            declared_type: &f.declared_type,
            bytes: &f.bytes,
        }));
        let mut tree = match roots.is_empty() {
            true => Tree::default(),
            false => self.pool.unpack(&roots, &self.limits, &self.passwords(message), look),
        };
        for object in tree.objects.iter_mut().filter(|o| o.parent.is_none()) {
            let other = (object.root as usize).checked_sub(files.len());
            if let Some((_, file)) = other.and_then(|index| others.get(index)) {
                let detail = file.reading.clone();
                object.properties.push(Property { kind: PropertyKind::OtherReading, detail });
            }
        }
        tree.all_readings = readings.is_some_and(|readings| readings.complete);
        tree
    }

    fn passwords(&self, message: &Message<'_>) -> Vec<Password> {
        let max = self.limits.passwords_max.saturating_sub(self.words.len());
        let of_message = passwords::candidates(message, max).into_iter();
        let word = |(word, source): (String, &str)| Password { word, source: source.to_owned() };
        of_message.map(word).chain(self.words.iter().cloned()).collect()
    }

    /// The object of this SHA-256 (64 hexadecimal digits) anywhere in the message: its name and its
    /// bytes. Blocks.
    pub fn object(&self, message: &Message<'_>, sha256: &str) -> Option<(String, Vec<u8>)> {
        let mut found = None;
        let mut look = |object: &Object, bytes: &[u8]| {
            if found.is_none() && object.sha256 == sha256 {
                found = Some((object.name.clone(), bytes.to_vec()));
            }
        };
        self.unpack(message, Some(&mut look));
        found
    }

    /// The processes, and the limits of a request, for what else they do.
    pub fn tools(&self) -> (Arc<Pool>, Limits) {
        (self.pool.clone(), self.limits)
    }

    /// The engine because of which a message waits, counted and logged.
    pub(crate) fn defers(&self, id: &str, tree: &Tree) -> bool {
        let Some(report) = tempfail(tree) else { return false };
        self.deferred.fetch_add(1, Ordering::Relaxed);
        tracing::error!(
            id,
            engine = report.engine,
            error = report.error,
            "a malware engine gives no answer; the message is deferred (engine.on_failure)"
        );
        true
    }

    /// The text of one file and of everything in it. Blocks.
    pub fn text(&self, name: &str, bytes: &[u8]) -> String {
        let tree = self.file(name, bytes);
        let texts = tree.objects.iter().map(|object| object.text.as_str());
        let texts: Vec<&str> = texts.filter(|text| !text.is_empty()).collect();
        texts.join("\n")
    }

    /// One file and everything in it. Blocks.
    pub fn file(&self, name: &str, bytes: &[u8]) -> Tree {
        let root = Root { name, declared_type: "", bytes };
        self.pool.unpack(&[root], &self.limits, &self.words, None)
    }

    /// A turn to unpack, by a thread that stands back or not. None if the node stops.
    pub(crate) async fn turn(&self, stands_back: bool) -> Option<OwnedSemaphorePermit> {
        let turns = if stands_back { &self.turns_standing_back } else { &self.turns };
        turns.clone().acquire_owned().await.ok()
    }
}

/// A tree as it is without what an engine found and reported.
fn without_findings(engine: &str, known: &Tree) -> Tree {
    let mut tree = known.clone();
    let begin = format!("{engine}: ");
    let kinds = [PropertyKind::EngineFinding, PropertyKind::EngineSuspicion];
    for object in &mut tree.objects {
        object.properties.retain(|p| !kinds.contains(&p.kind) || !p.detail.starts_with(&begin));
    }
    tree.engines.retain(|report| report.engine != engine);
    tree
}

/// Whether a message with these defects shows other files to other programs, which are looked at
/// here.
pub fn is_ambiguous(defects: &[Defect]) -> bool {
    defects.iter().any(|defect| readings::covers(defect.kind))
}

/// The report of an engine that gave no answer, and without which a message must wait.
pub fn tempfail(tree: &Tree) -> Option<&EngineReport> {
    let mut reports = tree.engines.iter();
    reports.find(|r| !r.error.is_empty() && r.on_failure == OnFailure::Tempfail)
}
