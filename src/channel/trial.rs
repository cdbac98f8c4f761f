//! A version that is tried in the shadow: held mail of the last days is judged by it and by the one
//! in force, then a share of what comes; only verdicts are compared.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crossbeam_channel::Receiver;
use gauntlet_channel::canary::{self, Changed, Comparison, Pair};
use gauntlet_engine::{Scratch, Snapshot, scan};
use gauntlet_gateway::config::ChannelSettings;
use gauntlet_gateway::scan::good_signs::has_good_sign;
use gauntlet_gateway::scan::shadow::{Sample, Shadow};
use gauntlet_gateway::scan::unpacking::Unpacking;
use gauntlet_gateway::{Judge, Node};
use gauntlet_mail::{DefectKind, Envelope, Facts, Limits, Message};
use gauntlet_phrases::PhraseSet;
use gauntlet_proxy::content::{PageSample, PageShadow};
use gauntlet_store::{Log, Quarantine, Query};
use gauntlet_verdict::Verdict;
use serde::{Deserialize, Serialize};

use super::content::Content;
use crate::web::WebPath;

/// Held mail of so many days is judged again.
const HELD_DAYS: i64 = 7;
/// File of a trial's comparison, in the channel's folder.
const REPORT: &str = "trial.json";
const DAY_MS: i64 = 86_400_000;
/// Lines of the log that are read at once.
const PAGE: usize = 200;
/// Bytes of a From and a Subject that are kept to be shown.
const SHOWN_BYTES_MAX: usize = 200;
/// Rules that are named beside a message.
const RULES_SHOWN_MAX: usize = 8;

/// A version that is tried.
#[derive(Debug)]
pub(super) struct Trial {
    pub(super) content: Arc<Content>,
    /// When its time is up, in seconds from 1970.
    pub(super) until_s: i64,
    /// Why a person has to decide, if so.
    pub(super) held: Option<String>,
    /// Mail can tell it from the version in force.
    pub(super) tries_mail: bool,
    shared: Arc<Shared>,
    shadow: Shadow,
    /// Where pages come from, if they are compared.
    pages: Option<PageShadow>,
}

#[derive(Debug, Default)]
struct Shared {
    comparison: Mutex<Comparison>,
    stop: AtomicBool,
    /// Held mail has been judged.
    replayed: AtomicBool,
}

/// What both are judged with.
struct Both {
    now: Side,
    next: Side,
    /// The engine whose rules are others, if so: files are given to it again.
    engine: Option<String>,
}

/// What one of them is.
struct Side {
    snapshot: Snapshot,
    unpacking: Option<Arc<Unpacking>>,
}

impl Side {
    fn of(judge: &Judge) -> Self {
        Side { snapshot: judge.snapshot.clone(), unpacking: judge.unpacking.clone() }
    }
}

/// What came of judging a message by one of them.
struct Judged {
    verdict: Verdict,
    /// Of the scan, and of the engine that was asked again.
    micros: f64,
    /// A filter or the engine failed.
    failed: bool,
}

impl Both {
    /// Judges a message by one of them.
    fn judge(
        &self,
        side: &Side,
        (message, raw): (&Message<'_>, &[u8]),
        (envelope, facts): (&Envelope, &Facts),
        scratch: &mut Scratch,
    ) -> Judged {
        let again = self.engine.as_ref().zip(side.unpacking.as_ref());
        let again = again.map(|(engine, unpacking)| {
            let content = unpacking.asked_again(engine, (message, raw), &facts.content);
            (engine, Facts { content, ..facts.clone() })
        });
        let facts = again.as_ref().map_or(facts, |(_, facts)| facts);
        let verdict = scan(message, envelope, facts, &side.snapshot, scratch);
        let report = again.as_ref().and_then(|(engine, facts)| {
            facts.content.engines.iter().find(|report| report.engine == **engine)
        });
        let has_failed = report.is_some_and(|report| !report.error.is_empty());
        Judged {
            micros: verdict.cost_us() + report.map_or(0.0, |report| report.micros as f64),
            failed: has_failed
                || verdict.defects.iter().any(|d| d.kind == DefectKind::FilterFailed),
            verdict,
        }
    }
}

impl Trial {
    /// Begins it, on a thread of its own.
    ///
    /// # Errors
    /// If the thread cannot be started.
    pub(super) fn begin(
        node: &Arc<Node>,
        settings: &ChannelSettings,
        (content, engine): (Arc<Content>, Option<String>),
        next: &Judge,
        now_s: i64,
    ) -> std::io::Result<Self> {
        let (shared, judge) = (Arc::new(Shared::default()), node.judge());
        let shadow = judge.shadow.clone();
        let samples = shadow.begin(settings.canary_percent);
        let both = Both { now: Side::of(&judge), next: Side::of(next), engine };
        let (log, held) = (node.log.clone(), node.quarantine.clone());
        let (limits, most) = (judge.limits, settings.canary_held_messages_max);
        let of_thread = shared.clone();
        std::thread::Builder::new().name("canary".to_owned()).spawn(move || {
            replay(&log, &held, (&both, limits), most, &of_thread);
            of_thread.replayed.store(true, Ordering::Release);
            compare_live(&samples, &both, &of_thread);
        })?;
        let until_s = now_s.saturating_add(settings.canary_seconds.cast_signed());
        Ok(Trial { content, until_s, held: None, tries_mail: true, shared, shadow, pages: None })
    }

    /// Compares pages, too, by these phrases and those in force, on another thread.
    ///
    /// # Errors
    /// If it cannot be started.
    pub(super) fn compare_pages(
        &mut self,
        web: &WebPath,
        percent: u8,
        next: Option<Arc<PhraseSet>>,
    ) -> std::io::Result<()> {
        let (samples, of_thread) = (web.page_shadow().begin(percent), self.shared.clone());
        let both = [web.phrases(), next];
        self.pages = Some(web.page_shadow().clone());
        let compare = move || compare_pages(&samples, &both, &of_thread);
        std::thread::Builder::new().name("canary-pages".to_owned()).spawn(compare).map(drop)
    }

    /// The limits that the settings have for it.
    pub(super) fn limits(&self, settings: &ChannelSettings) -> canary::Limits {
        let least = settings.canary_messages_min;
        canary::Limits {
            messages_min: if self.tries_mail { least } else { 0 },
            pages_min: if self.pages.is_some() { least } else { 0 },
            ..limits(settings)
        }
    }

    /// What was compared so far.
    pub(super) fn comparison(&self) -> Comparison {
        self.shared.comparison.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Whether its time is up and held mail has been judged.
    pub(super) fn is_over(&self, now_s: i64) -> bool {
        now_s >= self.until_s && self.shared.replayed.load(Ordering::Acquire)
    }
}

/// The limits that the settings have, whatever is tried.
fn limits(settings: &ChannelSettings) -> canary::Limits {
    canary::Limits {
        worse_percent_max: settings.canary_worse_percent_max,
        good_sign_worse_max: settings.canary_good_signs_max,
        milder_percent_max: settings.canary_milder_percent_max,
        cost_percent_max: settings.canary_cost_percent_max,
        ..canary::Limits::default()
    }
}

/// A trial as it stands, for `gauntlet channel show` and the console.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Report {
    /// The version that is tried.
    pub(crate) version: u64,
    /// When its time is up, in seconds from 1970.
    pub(crate) until_s: i64,
    /// Why a person has to decide, if so.
    pub(crate) held: Option<String>,
    /// What was compared so far.
    pub(crate) comparison: Comparison,
}

/// Writes how a trial is into the channel's folder. It is only to be read along: not synced.
pub(super) fn report(folder: &Path, trial: &Trial, comparison: &Comparison) {
    let (version, until_s, held) = (trial.content.version, trial.until_s, trial.held.clone());
    let report = Report { version, until_s, held, comparison: comparison.clone() };
    let text = serde_json::to_vec(&report).unwrap_or_default();
    let (path, beside) = (folder.join(REPORT), folder.join(format!("{REPORT}.new")));
    let written = std::fs::write(&beside, text).and_then(|()| std::fs::rename(&beside, &path));
    if let Err(error) = written {
        tracing::debug!(%error, "how a trial is cannot be written");
    }
}

/// The last trial of a channel.
pub(crate) fn read_report(folder: &Path) -> Option<Report> {
    serde_json::from_slice(&std::fs::read(folder.join(REPORT)).ok()?).ok()
}

impl Drop for Trial {
    fn drop(&mut self) {
        self.shadow.end();
        self.pages.iter().for_each(PageShadow::end);
        self.shared.stop.store(true, Ordering::Release);
    }
}

/// Judges held mail by both, with the facts of then.
fn replay(
    log: &Log,
    held: &Quarantine,
    (both, limits): (&Both, Limits),
    most: u64,
    shared: &Shared,
) {
    let since_ms = gauntlet_gateway::clock::now_ms() - HELD_DAYS * DAY_MS;
    let mut query = Query { since_ms: Some(since_ms), limit: PAGE, ..Query::default() };
    let (mut scratch, mut judged) = ([Scratch::default(), Scratch::default()], 0);
    while let Ok(page) = log.search(&query) {
        for summary in &page.messages {
            if judged >= most || shared.stop.load(Ordering::Acquire) {
                return;
            }
            let (Ok(Some(logged)), Ok(Some(raw))) = (log.get(&summary.id), held.body(&summary.id))
            else {
                continue;
            };
            judged += 1;
            let (envelope, facts) = (&logged.record.envelope, &logged.record.facts);
            let message = Message::parse_with(&raw, &limits);
            // Both anew: what was learned since must not count as the new version's doing.
            let (about, came) = ((&message, &*raw), (envelope, facts));
            let was = both.judge(&both.now, about, came, &mut scratch[0]);
            let is = both.judge(&both.next, about, came, &mut scratch[1]);
            shared.add(&logged.record.id, &message, (envelope, facts), (&was, &is));
        }
        match page.next {
            Some(next) => query.after = Some(next),
            None => return,
        }
    }
}

/// Judges what comes, until the trial ends.
fn compare_live(samples: &Receiver<Sample>, both: &Both, shared: &Shared) {
    let mut scratch = [Scratch::default(), Scratch::default()];
    while let Ok(sample) = samples.recv() {
        if shared.stop.load(Ordering::Acquire) {
            return;
        }
        let Sample { id, raw, envelope, facts, verdict, limits } = &sample;
        let message = Message::parse_with(raw, limits);
        let (about, came) = ((&message, &**raw), (envelope, facts));
        let is = both.judge(&both.next, about, came, &mut scratch[1]);
        // Its time beside that of the other: the node's own threads are warmer, and busier.
        let again = both.judge(&both.now, about, came, &mut scratch[0]);
        let was = Judged { verdict: verdict.clone(), ..again };
        shared.add(id, &message, (envelope, facts), (&was, &is));
    }
}

/// Scores pages by both, until the trial ends.
fn compare_pages(
    samples: &std::sync::mpsc::Receiver<PageSample>,
    [now, next]: &[Option<Arc<PhraseSet>>; 2],
    shared: &Shared,
) {
    while let Ok(sample) = samples.recv() {
        if shared.stop.load(Ordering::Acquire) {
            return;
        }
        let (was, is) = (sample.score(now.as_ref()), sample.score(next.as_ref()));
        let mut comparison = shared.comparison.lock().unwrap_or_else(PoisonError::into_inner);
        comparison.pages.add([was.blocks, is.blocks], &is.phrases, [was.micros, is.micros]);
    }
}

impl Shared {
    fn add(
        &self,
        id: &str,
        message: &Message<'_>,
        (envelope, facts): (&Envelope, &Facts),
        (judged_was, judged_is): (&Judged, &Judged),
    ) {
        let (was, is) = (&judged_was.verdict, &judged_is.verdict);
        let pair = Pair {
            was: was.class,
            is: is.class,
            good_sign: has_good_sign(envelope, facts),
            failed: judged_is.failed && !judged_was.failed,
            micros: [judged_was.micros, judged_is.micros],
        };
        let shown = |text: String| {
            let end = text.floor_char_boundary(SHOWN_BYTES_MAX);
            text.get(..end).unwrap_or_default().to_owned()
        };
        let changed = || Changed {
            id: id.to_owned(),
            from: message
                .header("From")
                .map(|h| shown(h.decoded().into_owned()))
                .unwrap_or_default(),
            subject: shown(message.subject().into_owned()),
            was: was.class,
            is: is.class,
            good_sign: pair.good_sign,
            rules: new_rules(was, is),
        };
        let mut comparison = self.comparison.lock().unwrap_or_else(PoisonError::into_inner);
        comparison.add(&pair, changed);
    }
}

/// Rules that only the new version hit.
fn new_rules(was: &Verdict, is: &Verdict) -> Vec<String> {
    let is_new = |rule: &&str| was.hit(rule).is_none();
    let rules = is.hits.iter().map(|hit| &*hit.rule).filter(is_new);
    rules.take(RULES_SHOWN_MAX).map(str::to_owned).collect()
}
