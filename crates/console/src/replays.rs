//! Trying a policy on the mail and the web requests of the last days, beside the pages: one replay
//! at a time, on a thread of its own that rests as long as it works, with bounds on numbers and
//! time.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use gauntlet_mail::date::DAY_MS;
use gauntlet_policy::{Groups, People, Policy};
use gauntlet_store::replay::{Progress, ReplayRequest, Report, replay};
use gauntlet_store::web_log::replay::{WebReplayReport, WebReplayRequest};
use serde::Serialize;

use crate::error::RequestError;
use crate::state::ConsoleState;

/// Messages that a replay looks at.
pub(crate) const MESSAGES_MAX: u64 = 200_000;
/// Web requests that a replay looks at: each is quicker than a message.
pub(crate) const REQUESTS_MAX: u64 = 2_000_000;
/// How long a replay may take.
pub(crate) const TIME_MAX: Duration = Duration::from_secs(600);
/// Most days that are replayed.
pub(crate) const DAYS_MAX: i64 = 100;
/// The longest rest between two slices of work.
const REST_MAX: Duration = Duration::from_millis(500);

/// What is to be replayed.
#[derive(Debug, Clone)]
pub(crate) struct Trial {
    /// The policy to try, as written.
    pub(crate) text: String,
    /// The version of the policy that it is compared with.
    pub(crate) base: i64,
    /// Mail and web requests of so many last days.
    pub(crate) days: i64,
    /// Login of the user who asked.
    pub(crate) who: String,
}

/// Why a replay did not begin, or failed; a sentence for the user who asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct ReplayError(String);

impl ReplayError {
    fn new(reason: impl std::fmt::Display) -> Self {
        ReplayError(reason.to_string())
    }
}

impl From<ReplayError> for RequestError {
    fn from(error: ReplayError) -> Self {
        RequestError::Bad(error.to_string())
    }
}

/// A replay, under way or over.
#[derive(Debug)]
pub(crate) struct Job {
    /// Number of the job since the start, from 1.
    pub(crate) number: u64,
    pub(crate) trial: Trial,
    /// Unix time in milliseconds of its start.
    pub(crate) began_ms: i64,
    messages: AtomicU64,
    requests: AtomicU64,
    reached_ms: AtomicI64,
    /// How many logs are replayed, and how many of them are done.
    logs: (i64, AtomicI64),
    stop: AtomicBool,
    done: Mutex<Option<Result<Arc<Found>, ReplayError>>>,
}

/// What a replay found.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub(crate) struct Found {
    /// In the message log.
    #[serde(flatten)]
    pub(crate) mail: Report,
    /// In the web log, if the node has one.
    pub(crate) web: Option<WebReplayReport>,
}

impl Job {
    /// Messages looked at so far.
    pub(crate) fn messages(&self) -> u64 {
        self.messages.load(Ordering::Relaxed)
    }

    /// Web requests looked at so far.
    pub(crate) fn requests(&self) -> u64 {
        self.requests.load(Ordering::Relaxed)
    }

    /// How much of the time is looked at, in percent.
    pub(crate) fn percent(&self) -> i64 {
        let whole = (self.trial.days * DAY_MS).max(1);
        let looked_at = self.began_ms - self.reached_ms.load(Ordering::Relaxed);
        let of_this = (looked_at * 100 / whole).clamp(0, 100);
        let (logs, done) = &self.logs;
        ((done.load(Ordering::Relaxed) * 100 + of_this) / logs.max(&1)).clamp(0, 100)
    }

    /// What it found, or why it failed; none while it is under way.
    pub(crate) fn outcome(&self) -> Option<Result<Arc<Found>, ReplayError>> {
        self.done.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Ends it with what it has found until then.
    pub(crate) fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    fn finish(&self, outcome: Result<Arc<Found>, ReplayError>) {
        *self.done.lock().unwrap_or_else(PoisonError::into_inner) = Some(outcome);
    }
}

/// The current replay, or the last one.
#[derive(Debug, Default)]
pub(crate) struct Replays {
    current: Mutex<Option<Arc<Job>>>,
}

impl Replays {
    /// The one under way, or the last one.
    pub(crate) fn current(&self) -> Option<Arc<Job>> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Begins a replay. None if one is under way.
    ///
    /// # Errors
    /// It is no policy, the version to compare with is gone, or there is no thread for it.
    pub(crate) fn begin(
        &self,
        state: &ConsoleState,
        trial: Trial,
        now_ms: i64,
    ) -> Result<Option<Arc<Job>>, ReplayError> {
        let people = Arc::new(state.users.people().map_err(ReplayError::new)?);
        let policy = parse(&trial.text, &people)?;
        let base = state.policies.get(trial.base).map_err(ReplayError::new)?;
        let base = base
            .ok_or_else(|| ReplayError(format!("there is no version {} any more", trial.base)))?;
        let before = parse(&base.text, &people)?;
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        if current.as_ref().is_some_and(|job| job.outcome().is_none()) {
            return Ok(None);
        }
        let job = Arc::new(Job {
            number: current.as_ref().map_or(1, |job| job.number + 1),
            trial,
            began_ms: now_ms,
            messages: AtomicU64::new(0),
            requests: AtomicU64::new(0),
            reached_ms: AtomicI64::new(now_ms),
            logs: (1 + i64::from(state.web_log.is_some()), AtomicI64::new(0)),
            stop: AtomicBool::new(false),
            done: Mutex::new(None),
        });
        let (state, working) = (state.clone(), job.clone());
        std::thread::Builder::new()
            .name("replay".to_owned())
            .spawn(move || {
                let run = std::panic::AssertUnwindSafe(|| run(&state, &working, &policy, &before));
                let outcome = std::panic::catch_unwind(run);
                let failed = ReplayError::new("the replay failed; the node's own log says why");
                working.finish(outcome.unwrap_or(Err(failed)));
            })
            .map_err(|e| ReplayError(format!("no thread for the replay: {e}")))?;
        *current = Some(job.clone());
        Ok(Some(job))
    }
}

/// The policy as it would be in force: with what single users want.
fn parse(text: &str, people: &Arc<People>) -> Result<Policy, ReplayError> {
    let policy = Policy::parse(text, &Groups::default()).map_err(ReplayError::new)?;
    Ok(Policy { people: people.clone(), ..policy })
}

fn run(
    state: &ConsoleState,
    job: &Job,
    policy: &Policy,
    before: &Policy,
) -> Result<Arc<Found>, ReplayError> {
    let failed = |error: &dyn std::fmt::Display| {
        tracing::error!(%error, "a replay failed");
        ReplayError::new("the log could not be read; the node's own log says why")
    };
    let since_ms = job.began_ms - job.trial.days * DAY_MS;
    let thresholds = state.node.thresholds();
    let order = ReplayRequest { policy, before, thresholds, since_ms };
    let pace = Pace::new(job, &job.messages, MESSAGES_MAX);
    let mail = replay(&state.log, &state.quarantine, &order, &mut |_, _, _| None, pace.go_on());
    let mail = mail.map_err(|e| failed(&e))?;
    let Some(log) = &state.web_log else {
        return Ok(Arc::new(Found { mail, web: None }));
    };
    job.logs.1.store(1, Ordering::Relaxed);
    job.reached_ms.store(job.began_ms, Ordering::Relaxed);
    let lists = state.node.url_lists().map_err(ReplayError::new)?;
    let order = WebReplayRequest { policy, before, lists: &*lists, since_ms };
    let pace = Pace::new(job, &job.requests, REQUESTS_MAX);
    let web = log.replay(&order, pace.go_on()).map_err(|e| failed(&e))?;
    Ok(Arc::new(Found { mail, web: Some(web) }))
}

/// Half of one CPU at most, within the bounds: mail comes first.
struct Pace<'j> {
    job: &'j Job,
    items: &'j AtomicU64,
    items_max: u64,
    began: Instant,
}

impl<'j> Pace<'j> {
    fn new(job: &'j Job, items: &'j AtomicU64, items_max: u64) -> Self {
        Pace { job, items, items_max, began: Instant::now() }
    }

    /// Called after each slice of work; says whether to go on.
    fn go_on(self) -> impl FnMut(Progress) -> bool + 'j {
        let mut slice = self.began;
        move |progress| {
            self.items.store(progress.items, Ordering::Relaxed);
            self.job.reached_ms.store(progress.reached_ms, Ordering::Relaxed);
            std::thread::sleep(slice.elapsed().min(REST_MAX));
            slice = Instant::now();
            !self.job.stop.load(Ordering::Relaxed)
                && progress.items < self.items_max
                && self.began.elapsed() < TIME_MAX
        }
    }
}
