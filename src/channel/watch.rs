//! Channels of a running node: each is pulled by its interval on a thread of their own, compiled
//! and tested there, and swapped in whole while mail flows.
//!
//! ```text
//! pull ─▶ verified files ─▶ compiled, self-test ─▶ `current` on disk ─▶ one swap in memory
//!   └── whatever fails: what is in force stays; told; again after a longer pause
//! ```
//!
//! `gauntlet channel pull`, `pin` and `rollback` change the disk; the thread sees that within
//! seconds and follows.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock, Weak};
use std::time::{Duration, Instant};

use anyhow::Context;
use gauntlet_channel::bundle::Kind;
use gauntlet_channel::canary::Decision;
use gauntlet_channel::generations::Generations;
use gauntlet_channel::subscription::{Subscription, Watched, read_state};
use gauntlet_gateway::config::{ChannelSettings, Config};
use gauntlet_gateway::priority::in_background;
use gauntlet_gateway::{Judge, Node};
use gauntlet_rules::HitRates;
use gauntlet_store::Users;
use gauntlet_store::log::TopKind;

use super::activity::note;
use super::advance::{Step, folder, in_force, open, random, step};
use super::content::{Content, Contents, yara_engine};
use super::now_s;
use super::publisher::Publisher;
use super::self_test;
use super::status::{self, Status};
use super::trial::{self, Trial};
use super::watched::{corrected_to_good, journal_bytes};
use crate::phrases;
use crate::web::WebPath;

/// What is compared with good mail before it is published, or is exact: it judges at once.
const NOT_TRIED: [Kind; 4] = [Kind::Signatures, Kind::Urls, Kind::Order, Kind::Hashes];
/// Between two looks whether a channel is due, or was changed by a command.
const LOOK_PAUSE: Duration = Duration::from_secs(1);
/// Hits are counted in one span.
const MINUTES_OF_A_DAY: u32 = 1_440;
/// Between two times that the hits of rules are counted.
const COUNT_PAUSE: Duration = Duration::from_secs(3_600);
/// First pulls of a start are spread over so many seconds.
const START_SPREAD_S: u64 = 10;

/// Channels in force, and how each is. Clones share it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Channels(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    contents: RwLock<Contents>,
    status: Mutex<BTreeMap<String, Status>>,
    /// One at a time: the others wait for their turn.
    trial: Mutex<Option<Trial>>,
    publisher: Publisher,
    /// The web path, which reads phrases.
    web: OnceLock<Weak<WebPath>>,
}

/// Makes what a node judges with of its configuration and of channels.
pub(crate) type MakeJudge = dyn Fn(&Config, &Contents) -> anyhow::Result<Judge> + Send + Sync;

/// The same of the configuration alone, with the channels that are in force.
type OfNode = dyn Fn(&Config) -> anyhow::Result<Judge> + Send + Sync;

/// What a step of a channel acts on.
struct Acting<'n> {
    config: &'n Config,
    settings: &'n ChannelSettings,
    node: &'n Arc<Node>,
    users: &'n Users,
    make: &'n MakeJudge,
}

impl Channels {
    /// What is on disk for the channels of a configuration. One that cannot be used is told, and
    /// the node starts without it: what ships with the program judges.
    pub(crate) fn start(config: &Config) -> Self {
        let channels = Channels::default();
        for settings in &config.channel {
            channels.status(&settings.name, |_| {});
            match open(config, settings).and_then(|s| in_force(&s, &settings.name, None)) {
                Ok(Some(content)) => channels.put(config, content),
                Ok(None) => {}
                Err(error) => {
                    let (name, error) = (&settings.name, format!("{error:#}"));
                    tracing::error!(channel = name, error, "a channel cannot be used");
                    channels.status(name, |status| status.error = error);
                }
            }
        }
        channels
    }

    /// What makes the judge of the node, of what is in force then.
    pub(crate) fn judge(&self, make: Arc<MakeJudge>) -> Box<OfNode> {
        let channels = self.clone();
        Box::new(move |config: &Config| make(config, &channels.contents()))
    }

    /// What is in force.
    pub(crate) fn contents(&self) -> Contents {
        self.0.contents.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set(&self, contents: Contents) {
        *self.0.contents.write().unwrap_or_else(PoisonError::into_inner) = contents;
    }

    fn put(&self, config: &Config, content: Arc<Content>) {
        self.status(&content.channel, |status| status.version = content.version);
        self.set(self.contents().with(content, &order(config)));
    }

    fn status<T>(&self, name: &str, change: impl FnOnce(&mut Status) -> T) -> T {
        let mut all = self.0.status.lock().unwrap_or_else(PoisonError::into_inner);
        change(all.entry(name.to_owned()).or_default())
    }

    /// Their lines of `/metrics`.
    pub(crate) fn metrics(&self) -> String {
        let mut text =
            status::metrics(&self.0.status.lock().unwrap_or_else(PoisonError::into_inner));
        text.push_str(&self.0.publisher.metrics());
        text
    }

    /// Follows the channels of the node's configuration until the node ends.
    ///
    /// # Errors
    /// If the thread cannot be started.
    pub(crate) fn watch(
        &self,
        node: &Arc<Node>,
        users: Arc<Users>,
        make: Arc<MakeJudge>,
        web: Option<&Arc<WebPath>>,
    ) -> anyhow::Result<()> {
        if let Some(web) = web {
            let _set_once = self.0.web.set(Arc::downgrade(web));
        }
        self.0.publisher.watch(node, users.clone())?;
        let (channels, node) = (self.clone(), Arc::downgrade(node));
        let look = move || {
            let mut counted = None;
            loop {
                std::thread::sleep(LOOK_PAUSE);
                let Some(node) = node.upgrade() else { return };
                let config = node.config();
                channels.leave_others(&config, &node);
                channels.follow_the_day(&config, &node, &mut counted);
                for settings in &config.channel {
                    let (config, node, users) = (&*config, &node, &*users);
                    let acting = Acting { config, settings, node, users, make: &*make };
                    channels.look(&acting);
                }
            }
        };
        std::thread::Builder::new().name("channels".to_owned()).spawn(look).context("channels")?;
        Ok(())
    }

    /// Has rules tried first that hit often on the last day, where scans may end early.
    fn follow_the_day(&self, config: &Config, node: &Node, counted: &mut Option<Instant>) {
        let rules = &config.rules;
        let rests = counted.is_some_and(|at| at.elapsed() < COUNT_PAUSE);
        if !(rules.early_stop && rules.order_by_hits) || rests {
            return;
        }
        *counted = Some(Instant::now());
        let until_ms = gauntlet_gateway::clock::now_ms() + 1;
        let since_ms = until_ms - gauntlet_mail::date::DAY_MS;
        let counts = node.log.tops(TopKind::Rule, since_ms, until_ms).and_then(|hits| {
            let day = node.log.volume(since_ms, until_ms, MINUTES_OF_A_DAY)?;
            let messages = day.iter().map(|bucket| bucket.messages).sum();
            Ok(HitRates::new(messages, hits))
        });
        let rates = match counts {
            Ok(rates) => Arc::new(rates),
            Err(error) => {
                tracing::warn!(%error, "hits of rules cannot be counted; their order stays");
                return;
            }
        };
        let before = node.ruleset();
        self.set(Contents { own_rates: rates, ..self.contents() });
        if let Err(error) = node.reload(Config::clone(config)) {
            let error = format!("{error:#}");
            tracing::error!(error, "rules could not be put into another order");
        } else if node.ruleset() != before {
            tracing::info!(was = before, ruleset = node.ruleset(), "rules follow the day's hits");
        }
    }

    /// Ends with what the configuration no longer has.
    fn leave_others(&self, config: &Config, node: &Node) {
        let named = |content: &&Arc<Content>| !order(config).contains(&content.channel);
        let contents = self.contents();
        if let Some(gone) = contents.all.iter().find(named) {
            self.set(contents.without(&gone.channel));
            self.0.status.lock().unwrap_or_else(PoisonError::into_inner).remove(&gone.channel);
            if let Err(error) = node.reload(Config::clone(config)) {
                let error = format!("{error:#}");
                tracing::error!(channel = gone.channel, error, "a channel could not be left");
            }
        }
    }

    /// Pulls a channel if it is due; follows what a command did to it otherwise.
    fn look(&self, acting: &Acting<'_>) {
        let Acting { config, settings, .. } = acting;
        let (name, now_s) = (&settings.name, now_s());
        let folder = folder(config, name);
        let on_disk = Generations::read(&folder).current();
        let in_memory = self.contents().get(name).map(|content| content.version);
        let changed = on_disk != in_memory && read_state(&folder).error.is_empty();
        let due = self.status(name, |status| {
            if status.next_s == 0 {
                let spread = random() % START_SPREAD_S.min(settings.interval_seconds).max(1);
                status.next_s = now_s + spread.cast_signed();
            }
            // A clock that was set back must not silence a channel.
            let longest = settings.interval_seconds.saturating_mul(2).max(8_000).cast_signed();
            now_s >= status.next_s || status.next_s - now_s > longest
        });
        let decided =
            self.decide_trial(acting, now_s).and_then(|()| self.watch_corrections(acting));
        if let Err(error) = decided {
            self.failed(acting, None, &error);
        }
        if !due && !changed {
            return;
        }
        let mut subscription = match open(config, settings) {
            Ok(subscription) => subscription,
            Err(error) => return self.failed(acting, None, &error),
        };
        let taken = match due {
            true => self.pull(acting, &mut subscription),
            false => self.follow(acting, &subscription),
        };
        match taken {
            Err(error) => self.failed(acting, Some(&mut subscription), &error),
            Ok(()) if due => self.succeeded(settings, &mut subscription),
            Ok(()) => {}
        }
    }

    fn pull(&self, acting: &Acting<'_>, subscription: &mut Subscription) -> anyhow::Result<()> {
        let Acting { config, settings, .. } = acting;
        let began = Instant::now();
        let before = self.contents().get(&settings.name).cloned();
        let test = |content: &Arc<Content>| self.test(acting, content, before.as_deref());
        let asking = (*config, now_s());
        let Step { outcome, costs, ready } =
            in_background(|| step(subscription, settings, asking, (before.as_deref(), &test)))?;
        self.status(&settings.name, |status| {
            status.bytes += costs.bytes;
            status.asked_s = now_s();
        });
        let (requests, bytes) = (costs.requests, costs.bytes);
        tracing::debug!(channel = settings.name, ?outcome, requests, bytes, "pulled");
        let Some(content) = ready else { return self.follow(acting, subscription) };
        let wants_trial = settings.canary_seconds > 0
            && subscription.state.approved != Some(content.version)
            && self.needs_trial(&content);
        match wants_trial {
            true => self.begin_trial(acting, content),
            false => {
                self.take_over(acting, subscription, &content)?;
                let took = began.elapsed();
                let took_ms = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
                self.status(&settings.name, |status| status.take_over_ms = took_ms);
                let (channel, version) = (&settings.name, content.version);
                tracing::info!(channel, version, requests, bytes, ?took, "taken over");
                Ok(())
            }
        }
    }

    /// Whether a version can judge at all; where only known mail is another, beside what judges
    /// now.
    fn test(
        &self,
        acting: &Acting<'_>,
        content: &Arc<Content>,
        before: Option<&Content>,
    ) -> anyhow::Result<()> {
        if !before.is_some_and(|before| before.differs_only_in(content, &[Kind::Signatures])) {
            return self_test::run(content);
        }
        let judge = acting.node.judge();
        let next = self.contents().with(content.clone(), &order(acting.config));
        let next = judge.snapshot.clone().with_published(next.signatures());
        self_test::of_known_mail(&judge.snapshot, &next)
    }

    /// Known mail, known files and lists of URLs are compared with good mail before they are
    /// published; they judge at once. Rules and models are tried first.
    fn needs_trial(&self, content: &Content) -> bool {
        let contents = self.contents();
        let nothing = Content::default();
        let old = contents.get(&content.channel).map_or(&nothing, |old| old);
        !content.differs_only_in(old, &NOT_TRIED)
    }

    /// Puts a version in force, on disk and in memory.
    fn take_over(
        &self,
        acting: &Acting<'_>,
        subscription: &mut Subscription,
        content: &Arc<Content>,
    ) -> anyhow::Result<()> {
        let (settings, version) = (acting.settings, content.version);
        let is_watched = settings.watch_seconds > 0 && self.needs_trial(content);
        let before = subscription.generations.current();
        subscription.generations.promote(version)?;
        if let Err(error) = self.swap(acting, Some(content)) {
            // The disk as the memory: a start would fail where the swap did.
            match before {
                Some(version) => subscription.generations.promote(version)?,
                None => subscription.generations.demote_all()?,
            }
            return Err(error);
        }
        if is_watched {
            let since_s = now_s();
            let day_before = since_s - settings.watch_seconds.cast_signed();
            let data = &acting.config.node.data;
            let corrections_before = corrected_to_good(data, day_before..since_s)?;
            subscription.state.watched = Some(Watched { version, since_s, corrections_before });
            subscription.save()?;
        }
        Ok(subscription.generations.keep(settings.versions_max)?)
    }

    /// What is in force on disk, in memory.
    fn follow(&self, acting: &Acting<'_>, subscription: &Subscription) -> anyhow::Result<()> {
        let name = &acting.settings.name;
        let in_memory = self.contents().get(name).map(|content| content.version);
        if subscription.generations.current() == in_memory {
            return Ok(());
        }
        let before = self.contents().get(name).cloned();
        let content = in_force(subscription, name, before.as_deref())?;
        self.swap(acting, content.as_ref())
    }

    /// Begins to try a version in the shadow, unless it is tried already, or another channel's is.
    fn begin_trial(&self, acting: &Acting<'_>, content: Arc<Content>) -> anyhow::Result<()> {
        let mut trial = self.0.trial.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(other) = &*trial
            && (other.content.channel != content.channel
                || other.content.version == content.version)
        {
            return Ok(());
        }
        *trial = None;
        let Acting { config, settings, node, users, make } = acting;
        let contents = self.contents().with(content.clone(), &order(config));
        let (next, version) = (make(config, &contents)?, content.version);
        let before = self.contents().get(&settings.name).cloned().unwrap_or_default();
        let engine =
            (!before.has_same(&content, &[Kind::Yara])).then(|| yara_engine(&settings.name));
        let small = [&NOT_TRIED[..], &[Kind::Phrases]].concat();
        let (tries_mail, same_phrases) = (
            !before.differs_only_in(&content, &small),
            before.has_same(&content, &[Kind::Phrases]),
        );
        let mut begun = Trial::begin(node, settings, (content, engine), &next, now_s())?;
        begun.tries_mail = tries_mail;
        if let Some(web) = self.web().filter(|_| !same_phrases) {
            let phrases = phrases::open_with(&config.proxy.content.phrases, &contents.phrases())?;
            begun.compare_pages(&web, settings.canary_percent, phrases)?;
        }
        *trial = Some(begun);
        let (channel, seconds) = (&settings.name, settings.canary_seconds);
        tracing::info!(channel, version, seconds, "a new version is tried in the shadow");
        note(users, "try channel", &format!("{channel} version {version} for {seconds} s"));
        Ok(())
    }

    /// What follows from a trial so far.
    fn decide_trial(&self, acting: &Acting<'_>, now_s: i64) -> anyhow::Result<()> {
        let Acting { config, settings, users, .. } = acting;
        let mut slot = self.0.trial.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(trial) = slot.as_mut().filter(|t| t.content.channel == settings.name) else {
            return Ok(());
        };
        let (folder, version) = (folder(config, &settings.name), trial.content.version);
        let state = read_state(&folder);
        let unwanted = state.rejected.contains_key(&version)
            || state.pinned.is_some_and(|pinned| pinned != version);
        let comparison = trial.comparison();
        let decision = match state.approved == Some(version) {
            true => Decision::Promote,
            false => comparison.decide(&trial.limits(settings), trial.is_over(now_s)),
        };
        trial::report(&folder, trial, &comparison);
        let channel = &settings.name;
        let what = format!("{channel} version {version} after {} messages", comparison.messages);
        match decision {
            _ if unwanted => *slot = None,
            Decision::Wait => {}
            Decision::Hold(why) if trial.held.is_none() => {
                tracing::warn!(channel, version, why, "a new version waits for a person");
                note(users, "hold channel", &format!("{what}: {why}"));
                trial.held = Some(why);
                trial::report(&folder, trial, &comparison);
            }
            Decision::Hold(_) => {}
            Decision::Reject(why) => {
                let mut subscription = open(config, settings)?;
                subscription.reject(version, &why)?;
                tracing::error!(channel, version, why, "a new version is rejected");
                note(users, "reject channel", &format!("{what}: {why}"));
                self.status(channel, |status| status.rejected += 1);
                *slot = None;
            }
            Decision::Promote => {
                let content = trial.content.clone();
                let mut subscription = open(config, settings)?;
                note(users, "promote channel", &what);
                // Its thread ends; what is in memory of it goes.
                *slot = None;
                drop(slot);
                self.take_over(acting, &mut subscription, &content)?;
            }
        }
        Ok(())
    }

    /// Rolls a version back that people correct more than they did the one before.
    fn watch_corrections(&self, acting: &Acting<'_>) -> anyhow::Result<()> {
        let Acting { config, settings, users, .. } = acting;
        let state = read_state(&folder(config, &settings.name));
        let Some(watched) = state.watched else { return Ok(()) };
        let in_force = self.contents().get(&settings.name).map(|content| content.version);
        let until_s = watched.since_s.saturating_add(settings.watch_seconds.cast_signed());
        let is_over = now_s() >= until_s || in_force < Some(watched.version);
        let data = &config.node.data;
        let found = self.status(&settings.name, |status| {
            // Read only when something was said since.
            let journal = journal_bytes(data);
            let news = std::mem::replace(&mut status.journal_bytes, journal) != journal;
            (news && !is_over).then(|| corrected_to_good(data, watched.since_s..i64::MAX))
        });
        let found = found.transpose()?.unwrap_or_default();
        let most = settings.watch_corrections_max.max(2 * watched.corrections_before);
        if found <= most && !is_over {
            return Ok(());
        }
        let mut subscription = open(config, settings)?;
        subscription.state.watched = None;
        if found > most {
            let why = format!("{found} bad verdicts were corrected to good, of {most} at most");
            // A version that was taken over meanwhile builds on this one.
            let to = subscription.roll_back_before(watched.version, &why)?;
            let (channel, version) = (&settings.name, watched.version);
            tracing::error!(channel, version, ?to, why, "a version was rolled back");
            note(users, "roll back channel", &format!("{channel} version {version}: {why}"));
            self.status(channel, |status| status.rolled_back += 1);
        }
        subscription.save()?;
        self.follow(acting, &subscription)
    }

    /// The swap: from here on messages are judged with this version; none waits for it.
    fn swap(&self, acting: &Acting<'_>, content: Option<&Arc<Content>>) -> anyhow::Result<()> {
        let Acting { config, settings, node, users, .. } = acting;
        let name = settings.name.as_str();
        let (before, began) = (self.contents(), Instant::now());
        let old = before.get(name).cloned();
        let next = match content {
            Some(content) => before.with(content.clone(), &order(config)),
            None => before.without(name),
        };
        self.set(next.clone());
        let small = match (&old, &content) {
            // Order counts where scans may end early, and rules are made anew for it there.
            (Some(old), Some(new)) if config.rules.early_stop => {
                old.differs_only_in(new, &[Kind::Signatures])
            }
            (Some(old), Some(new)) => old.differs_only_in(new, &[Kind::Signatures, Kind::Order]),
            _ => false,
        };
        // Rules, model and lists are made anew beside the old ones; known mail alone is handed
        // over.
        let swapped = match small {
            true => {
                node.apply_published(&next.signatures());
                Ok(())
            }
            false => node.reload(Config::clone(config)),
        };
        if let Err(error) = swapped {
            self.set(before);
            return Err(error);
        }
        if before.phrases() != next.phrases() {
            self.apply_phrases(config, &next);
        }
        let version = content.as_ref().map_or(0, |content| content.version);
        let was = old.as_ref().map_or(0, |content| content.version);
        let took = began.elapsed();
        self.status(name, |status| {
            (status.version, status.taken_over) = (version, status.taken_over + 1);
            status.swap_ms = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
        });
        let ruleset = node.ruleset();
        tracing::info!(channel = name, was, version, ruleset, ?took, "judging by another version");
        let detail = format!("{name} from version {was} to {version}, ruleset {ruleset}");
        note(users, "take over channel", &detail);
        Ok(())
    }

    fn web(&self) -> Option<Arc<WebPath>> {
        self.0.web.get().and_then(Weak::upgrade)
    }

    /// Hands the web path phrases of configuration and channels.
    fn apply_phrases(&self, config: &Config, contents: &Contents) {
        let Some(web) = self.web() else { return };
        match phrases::open_with(&config.proxy.content.phrases, &contents.phrases()) {
            Ok(phrases) => web.replace_phrases(phrases),
            Err(error) => {
                let error = format!("{error:#}");
                tracing::error!(error, "phrases of channels cannot be used; those before stay");
            }
        }
    }

    fn succeeded(&self, settings: &ChannelSettings, subscription: &mut Subscription) {
        subscription.note(None, settings.interval_seconds, now_s(), random());
        if let Err(error) = subscription.save() {
            tracing::warn!(channel = settings.name, %error, "a channel's state cannot be written");
        }
        self.status(&settings.name, |status| {
            (status.failures, status.pulls) = (0, status.pulls + 1);
            status.error.clear();
            status.next_s = subscription.state.next_s;
        });
    }

    fn failed(
        &self,
        acting: &Acting<'_>,
        subscription: Option<&mut Subscription>,
        error: &anyhow::Error,
    ) {
        let Acting { settings, users, .. } = acting;
        let text = format!("{error:#}");
        let next_s = match subscription {
            Some(subscription) => {
                subscription.note(Some(&text), settings.interval_seconds, now_s(), random());
                if let Err(error) = subscription.save() {
                    let channel = &settings.name;
                    tracing::warn!(channel, %error, "a channel's state cannot be written");
                }
                subscription.state.next_s
            }
            // Somebody else has it open, or it cannot be read.
            None => now_s() + 5,
        };
        let (failures, is_new) = self.status(&settings.name, |status| {
            status.failures = status.failures.saturating_add(1);
            (status.pulls, status.pulls_failed) = (status.pulls + 1, status.pulls_failed + 1);
            let is_new = status.error != text;
            (status.error, status.next_s) = (text.clone(), next_s);
            (status.failures, is_new)
        });
        let pause_s = next_s - now_s();
        let channel = &settings.name;
        tracing::error!(channel, error = text, failures, pause_s, "what is in force stays");
        if is_new {
            note(users, "channel failed", &format!("{channel}: {text}"));
        }
    }
}

fn order(config: &Config) -> Vec<String> {
    config.channel.iter().map(|channel| channel.name.clone()).collect()
}
