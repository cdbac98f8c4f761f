//! A capture file, run through all layers: what `gauntlet ips replay` does.

mod parity;
mod profile;
mod threads;

pub use parity::{Key, Parity, ParityError, RuleParity, parity};
pub use profile::{ProfileReport, RuleCost, SearchCost, profile};

use std::collections::BTreeMap;
use std::fs;
use std::io::BufReader;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use gauntlet_packet::{Capture, Checksums, Frame, HostPolicies, Link};
use gauntlet_protocols::{HashSettings, mail};

use crate::config::Settings;
use crate::detect::{self, Countries, Detector, Limits, Program, Reputations, Suppress};
use crate::eve::{self, Beside, Finder, Store, StoreSettings, Writer};
use crate::lists;
use crate::pipeline::{self, Gate, Observer, Pipeline, Wishes};
use crate::rule::matches::ThresholdKind;
use crate::rule::reader::Reader;
use crate::rule::{RuleSet, thresholds};

/// What to replay with.
#[derive(Debug, Clone)]
pub struct Options {
    /// Settings as suricata.yaml has them.
    pub settings: Settings,
    /// Where files are that the settings name.
    pub directory: PathBuf,
    /// Rule files.
    pub rules: Vec<PathBuf>,
    /// Drops are carried out: dropped packets and flows are not looked at any more.
    pub inline: bool,
    /// Whether checksums are looked at; none: as the settings say.
    pub checksums: Option<bool>,
}

/// Why there was nothing to replay.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// A file could not be read.
    #[error("cannot read {0}: {1}")]
    Read(PathBuf, std::io::Error),
    /// It is no capture.
    #[error("{0}: {1}")]
    Capture(PathBuf, gauntlet_packet::capture::Error),
    /// The folder of stored files cannot be made.
    #[error("cannot make {0}: {1}")]
    Store(PathBuf, std::io::Error),
    /// Who finds more cannot begin.
    #[error("what packets carry cannot be judged: {0}")]
    Finder(std::io::Error),
    /// A file of values cannot be used.
    #[error(transparent)]
    List(#[from] lists::ListError),
}

/// What was replayed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Summary {
    /// Frames of the capture.
    pub frames: u64,
    /// Those of them whose link type is not decoded.
    pub undecoded: u64,
    /// The link type of the last of those.
    pub undecoded_link: Option<Link>,
    /// Bytes that were captured of them.
    pub bytes: u64,
    /// Alerts.
    pub alerts: u64,
    /// Packets that a rule drops.
    pub dropped: u64,
    /// Rules that are in use.
    pub rules: usize,
    /// Rules that are not.
    pub left_out: usize,
    /// Why the capture was not read to its end, or not all of it decoded, if so.
    pub damage: Option<String>,
    /// Why a file could not be stored, the first time.
    pub store_problem: Option<String>,
}

/// Reads rules.
///
/// # Errors
///
/// If a file cannot be read. What is wrong in it is in [`RuleSet::problems`].
pub fn rules(options: &Options) -> Result<RuleSet, ReplayError> {
    read_rules(options, None)
}

fn read_rules(options: &Options, earlier: Option<&Program>) -> Result<RuleSet, ReplayError> {
    let settings = &options.settings;
    let mut reader = Reader::new(settings);
    if let Some(earlier) = earlier {
        reader.keep_numbers(&earlier.rules);
    }
    if let Some(file) = settings.get("classification-file").map(|file| options.path(file))
        && let Ok(text) = fs::read_to_string(&file)
    {
        reader.classes(&text);
    }
    reader.stock_classes();
    if let Some(file) = settings.get("reference-config-file").map(|file| options.path(file))
        && let Ok(text) = fs::read_to_string(&file)
    {
        reader.references(&text);
    }
    reader.stock_references();
    for file in &options.rules {
        reader.read_file(file).map_err(|e| ReplayError::Read(file.clone(), e))?;
    }
    Ok(reader.finish())
}

impl Options {
    /// Where a file of the settings is.
    fn path(&self, file: &str) -> PathBuf {
        self.directory.join(file)
    }
}

/// Limits of threshold.config, by the places of rules.
fn limits(options: &Options, rules: &mut RuleSet) -> BTreeMap<u32, Limits> {
    let mut limits: BTreeMap<u32, Limits> = BTreeMap::new();
    for (number, rule) in (0u32..).zip(&rules.rules) {
        if let Some(own) = &rule.threshold {
            limits.entry(number).or_default().thresholds.push(own.clone());
        }
    }
    let Some(file) = options.settings.get("threshold-file") else { return limits };
    let path = options.path(file);
    let Ok(text) = fs::read_to_string(&path) else { return limits };
    let read = thresholds::read(&path.display().to_string(), &text, &options.settings);
    rules.problems.extend(read.problems);
    for line in &read.lines {
        for (number, rule) in (0u32..).zip(&rules.rules) {
            let fits = |wanted: u32, found: u32| wanted == 0 || wanted == found;
            if !fits(line.gid, rule.gid) || !fits(line.sid, rule.sid) {
                continue;
            }
            let slot = limits.entry(number).or_default();
            if line.threshold.kind == ThresholdKind::Suppress {
                let track = line.threshold.track;
                let addresses = line.addresses.clone();
                slot.suppress.push(Suppress { track, addresses });
            } else {
                slot.thresholds.push(line.threshold.clone());
            }
        }
    }
    limits
}

/// Settings of all layers, and the keys that nobody knows.
pub fn layers(options: &Options) -> (pipeline::Settings, detect::Settings, Vec<String>) {
    let mut layers = pipeline::Settings::default();
    // The stock file's policy is among the settings, if they have it.
    layers.packets.hosts = HostPolicies::none();
    let mut detection = detect::Settings { inline: options.inline, ..Default::default() };
    let unknown = options.settings.apply(&mut [
        &mut |key, value| layers.packets.set(key, value),
        &mut |key, value| layers.flows.set(key, value),
        &mut |key, value| layers.streams.set(key, value),
        &mut |key, value| layers.protocols.set(key, value),
        &mut |key, value| detection.set(key, value),
        &mut |key, _| eve::Settings::knows(key) || StoreSettings::knows(key),
    ]);
    let unknown = unknown.into_iter().map(str::to_owned).collect();
    layers.streams.resolve(options.inline);
    layers.flows.resolve(&layers.streams);
    layers.protocols.inline = layers.streams.inline;
    layers.protocols.midstream = layers.streams.midstream;
    layers.protocols.http.stored_body_limit = layers.streams.depth.into();
    layers.streams.hosts = layers.packets.hosts.clone();
    if let Some(checksums) = options.checksums {
        layers.streams.validate_checksums = checksums;
    }
    // Only streams that validate count the wrong ones by which `auto` decides.
    if !layers.streams.validate_checksums && layers.packets.checksums == Checksums::Auto {
        layers.packets.checksums = Checksums::All;
    }
    (layers, detection, unknown)
}

/// Rules made ready.
///
/// # Errors
///
/// If a rule file cannot be read.
pub fn program(options: &Options) -> Result<Program, ReplayError> {
    let (_, detection, _) = layers(options);
    let mut rules = rules(options)?;
    let limits = limits(options, &mut rules);
    Ok(Program::new(rules, detection, limits))
}

/// Rules made ready to take the place of `earlier` in pipelines that run.
///
/// # Errors
///
/// If a rule file cannot be read.
pub fn next_program(options: &Options, earlier: &Program) -> Result<Program, ReplayError> {
    let (_, detection, _) = layers(options);
    let mut rules = read_rules(options, Some(earlier))?;
    let limits = limits(options, &mut rules);
    let mut program = Program::new(rules, detection, limits);
    program.generation = earlier.generation + 1;
    Ok(program)
}

/// What detection knows before the first packet: sets of values, scores of addresses.
///
/// # Errors
///
/// If a list cannot be read.
pub fn detector(options: &Options, program: &Program) -> Result<Detector, ReplayError> {
    let mut detector = Detector::default();
    let mut reputations = Reputations::default();
    lists::load(&program.rules.datasets, &mut detector.datasets)?;
    if let Some(categories) = options.settings.get("reputation-categories-file") {
        let files = options.settings.list("reputation-files");
        let files: Vec<PathBuf> = files.iter().map(|file| options.path(file)).collect();
        reputations = lists::reputations(&options.path(categories), &files)?;
    }
    if let Some(file) = options.settings.get("geoip-database") {
        let file = options.path(file);
        let countries = Countries::open(&file).map_err(|e| ReplayError::Read(file, e))?;
        reputations.countries = Some(countries);
    }
    detector.reputations = Arc::new(reputations);
    Ok(detector)
}

/// What records need of files, whatever rules ask for.
pub fn hashes(eve: &eve::Settings) -> HashSettings {
    let [md5, sha1, sha256] = eve.hashes();
    HashSettings { md5, sha1, sha256, magic: eve.forces_magic(), data: eve.has_bodies() }
}

/// Rules and settings made ready, for any number of captures.
#[expect(missing_debug_implementations, reason = "thousands of compiled rules")]
pub struct Replayer<'a> {
    options: &'a Options,
    layers: pipeline::Settings,
    program: Arc<Program>,
    output: Output,
    threads: usize,
}

/// Makes who finds more in what a thread's pipeline tells.
pub type Finders<'a> = dyn Fn() -> std::io::Result<Box<dyn Finder + Send>> + 'a;

/// What is written.
#[derive(Debug, Clone)]
pub struct Output {
    /// Which records.
    pub eve: eve::Settings,
    /// Where files go, if they are kept.
    pub store: Option<StoreSettings>,
}

impl Output {
    /// What the settings ask for (`outputs`).
    pub fn read(options: &Options) -> Self {
        Self {
            eve: eve::Settings::read(&options.settings),
            store: StoreSettings::read(&options.settings, &options.directory),
        }
    }

    /// Alerts alone.
    fn alerts(options: &Options) -> Self {
        Self { eve: eve::Settings::read(&options.settings).alerts_only(), store: None }
    }
}

impl<'a> Replayer<'a> {
    /// Reads and prepares the rules. Records of alerts alone are written.
    ///
    /// # Errors
    ///
    /// If a rule file cannot be read.
    pub fn new(options: &'a Options) -> Result<Self, ReplayError> {
        Self::with_output(options, Output::alerts(options))
    }

    /// The same, with other records.
    ///
    /// # Errors
    ///
    /// If a rule file cannot be read.
    pub fn with_output(options: &'a Options, output: Output) -> Result<Self, ReplayError> {
        let program = program(options)?;
        let (mut layers, _, _) = layers(options);
        layers.protocols.hashes = hashes(&output.eve);
        layers.protocols.hashes.sha256 |= output.store.is_some();
        layers.protocols.hashes.data |= output.store.is_some();
        program.wants(&mut layers.protocols);
        layers.streams.check_overlaps |= program.asks_overlaps();
        layers.wishes = output.eve.wishes(output.store.as_ref());
        Ok(Self { options, layers, program: Arc::new(program), output, threads: 1 })
    }

    /// Inspects on so many threads, beside the one that reads; with one, the reader inspects, and
    /// so it does if files are kept.
    #[must_use]
    pub fn on_threads(mut self, threads: NonZeroUsize) -> Self {
        self.threads = threads.get();
        self
    }

    /// Also tells what a [`Finder`] wants to be told, for [`Self::run_beside`].
    #[must_use]
    pub fn telling(mut self, wishes: Wishes, mail: Option<mail::Settings>) -> Self {
        self.layers.wishes = self.layers.wishes.and(wishes);
        self.layers.protocols.hashes.data |= wishes.files;
        self.layers.protocols.mail = mail;
        self
    }

    /// Flows are decided about by their first packet.
    #[must_use]
    pub fn gated(mut self, gate: Option<Arc<dyn Gate>>) -> Self {
        self.layers.gate = gate;
        self
    }

    /// Replays a capture, from a fresh state; each record of EVE goes to `line`.
    ///
    /// # Errors
    ///
    /// If the capture or a list cannot be read, or none of its frames is decoded. A capture that is
    /// damaged is replayed as far as it goes.
    pub fn run(&self, capture: &Path, line: &mut dyn FnMut(&str)) -> Result<Summary, ReplayError> {
        self.run_beside(capture, line, None)
    }

    /// The same with those who find more, one for each thread.
    ///
    /// # Errors
    ///
    /// As [`Self::run`], and if a finder cannot be made.
    pub fn run_beside(
        &self,
        capture: &Path,
        line: &mut dyn FnMut(&str),
        finders: Option<&Finders<'_>>,
    ) -> Result<Summary, ReplayError> {
        let mut summary = self.summary();
        let mut frames = open(capture)?;
        let detector = detector(self.options, &self.program)?;
        let mut writer = self.writer(capture, Box::new(line));
        if self.threads > 1 && self.output.store.is_none() {
            let finders = self.finders(finders)?;
            let begin = threads::Begin { capture, detector: &detector, finders };
            threads::run(self, begin, &mut frames, &mut summary, &mut writer);
            return decoded(summary, capture);
        }
        if let Some(settings) = &self.output.store {
            let directory = settings.directory.clone();
            let bad = |error| ReplayError::Store(directory, error);
            writer = writer.with_store(Store::open(settings.clone()).map_err(bad)?);
        }
        let mut pipeline = Pipeline::new(Arc::clone(&self.program), detector, &self.layers);
        let mut drive = |observer: &mut dyn Observer| {
            while let Some(frame) = next_frame(&mut frames, &mut summary) {
                pipeline.frame(&frame, observer);
            }
            pipeline.end(observer);
        };
        match finders.map(|make| make()).transpose().map_err(ReplayError::Finder)? {
            Some(mut finder) => drive(&mut Beside::new(&mut writer, finder.as_mut())),
            None => drive(&mut writer),
        }
        writer.stats(&pipeline.counters());
        (summary.alerts, summary.dropped) = (writer.alerts, writer.drops);
        summary.store_problem = writer.store_problem().map(ToString::to_string);
        decoded(summary, capture)
    }

    /// A finder for each thread; none if there is nobody to find more.
    fn finders(
        &self,
        make: Option<&Finders<'_>>,
    ) -> Result<Vec<Option<Box<dyn Finder + Send>>>, ReplayError> {
        let one = |_| make.map(|make| make()).transpose().map_err(ReplayError::Finder);
        (0..self.threads).map(one).collect()
    }

    /// Of no frame yet.
    fn summary(&self) -> Summary {
        let unsupported = self.program.unsupported().count();
        Summary {
            rules: self.program.rules.rules.len() - unsupported,
            left_out: self.program.rules.problems.len() + unsupported,
            ..Summary::default()
        }
    }

    /// Writes records about a capture.
    fn writer<'o>(&self, capture: &Path, out: eve::Out<'o>) -> Writer<'o> {
        let (settings, program) = (self.output.eve.clone(), Arc::clone(&self.program));
        Writer::new(settings, program, &capture.display().to_string(), out)
    }
}

fn open(capture: &Path) -> Result<Capture, ReplayError> {
    let file = fs::File::open(capture).map_err(|e| ReplayError::Read(capture.to_owned(), e))?;
    let bad = |e| ReplayError::Capture(capture.to_owned(), e);
    Capture::open(BufReader::new(file)).map_err(bad)
}

/// The next frame; none at the end, or where the capture is damaged, which is noted.
fn next_frame(frames: &mut Capture, summary: &mut Summary) -> Option<Frame> {
    match frames.next() {
        Ok(Some(frame)) => {
            summary.frames += 1;
            summary.bytes += frame.bytes.len() as u64;
            if let Link::Other(_) = frame.link {
                summary.undecoded += 1;
                summary.undecoded_link = Some(frame.link);
            }
            return Some(frame);
        }
        Ok(None) if summary.damage.is_none() => {
            let damage = frames.damage();
            let damage = damage.map(|it| format!("{} after {} frames", it.reason, it.frames));
            let told: Vec<String> = damage.into_iter().chain(undecoded(summary)).collect();
            summary.damage = (!told.is_empty()).then(|| told.join("; "));
        }
        Ok(None) => {}
        Err(error) => summary.damage = Some(error.to_string()),
    }
    None
}

/// A summary of what was inspected: a capture of which nothing could be is like one that cannot be
/// read.
fn decoded(summary: Summary, capture: &Path) -> Result<Summary, ReplayError> {
    match summary.undecoded_link {
        Some(link) if summary.undecoded == summary.frames => {
            let error = gauntlet_packet::capture::Error::Link { link };
            Err(ReplayError::Capture(capture.to_owned(), error))
        }
        _ => Ok(summary),
    }
}

/// What is told of a capture some of whose interfaces have link types that are not decoded.
fn undecoded(summary: &Summary) -> Option<String> {
    let (count, frames, link) = (summary.undecoded, summary.frames, summary.undecoded_link?);
    let decoded = Link::DECODED;
    Some(format!("{count} of {frames} frames are not decoded: {link} (what is: {decoded})"))
}

/// Replays one capture; each record of EVE goes to `line`.
///
/// # Errors
///
/// As [`Replayer::new`] and [`Replayer::run`].
pub fn replay(
    capture: &Path,
    options: &Options,
    line: &mut dyn FnMut(&str),
) -> Result<Summary, ReplayError> {
    Replayer::new(options)?.run(capture, line)
}
