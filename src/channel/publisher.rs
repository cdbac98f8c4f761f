//! A node that publishes a channel by itself: every so many seconds what its probes and traps
//! brought is written, compared with good mail, signed and published, if it is new.
//!
//! What fails changes nothing; it is told in the log, the activity log and the metrics, and tried
//! again.

use std::fmt::Write;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Context;
use gauntlet_channel::repository::{PublishOptions, Published};
use gauntlet_gateway::Node;
use gauntlet_gateway::admin::channel_signing::lifetimes;
use gauntlet_gateway::config::{ChannelPublishSettings, Config, OBJECTS};
use gauntlet_store::Users;

use super::activity::note;
use super::now_s;
use super::objects_mirror::{Brought, ObjectsMirror};
use super::probes::{self, GoodMail, Sources, Written};
use super::publish::{Made, Order, SIGN_SHARE, Unchanged, publish_folder};

/// Between two looks whether a round is due: a reload may have changed that.
const LOOK_PAUSE: Duration = Duration::from_secs(1);
/// Folder in the data folder.
const FOLDER: &str = "publish";

/// What is counted of it. Clones share it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Publisher(Arc<Mutex<Counts>>);

#[derive(Debug, Clone, Default)]
struct Counts {
    is_on: bool,
    version: u64,
    rounds: u64,
    published: u64,
    failed: u64,
    written: Written,
    published_s: i64,
    error: String,
    bring_error: String,
}

/// A family of metrics: name, help, kind, and its value.
type Family = (&'static str, &'static str, &'static str, fn(&Counts) -> u64);

const FAMILIES: [Family; 9] = [
    ("version", "Version of the channel that was published last", "gauge", |c| c.version),
    ("rounds_total", "Looks whether there is something new to publish", "counter", |c| c.rounds),
    ("versions_total", "Versions published", "counter", |c| c.published),
    ("failed_total", "Looks that failed", "counter", |c| c.failed),
    ("signatures", "Signatures in the last version", "gauge", |c| c.written.signatures as u64),
    ("signatures_left_out", "Signatures left out: they resemble good mail", "gauge", |c| {
        c.written.resembling as u64
    }),
    ("url_entries", "Entries of URL lists in the last version", "gauge", |c| c.written.urls as u64),
    (
        "url_hosts_left_out",
        "Hosts left out of URL lists: something speaks for them",
        "gauge",
        |c| c.written.urls_left_out as u64,
    ),
    (
        "published_seconds",
        "When a version was published last, in seconds since 1970",
        "gauge",
        |c| c.published_s.max(0).cast_unsigned(),
    ),
];

impl Publisher {
    /// The lines of `/metrics`; none of a node that publishes nothing.
    pub(crate) fn metrics(&self) -> String {
        let counts = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let mut text = String::new();
        for (name, help, kind, value) in FAMILIES.iter().filter(|_| counts.is_on) {
            let (name, value) = (format!("gauntlet_channel_publish_{name}"), value(&counts));
            // Writing to a String cannot fail.
            let _written =
                writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}\n{name} {value}");
        }
        text
    }

    fn change<T>(&self, change: impl FnOnce(&mut Counts) -> T) -> T {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Publishes as the configuration says, until the node ends.
    ///
    /// # Errors
    /// If the thread cannot be started.
    pub(crate) fn watch(&self, node: &Arc<Node>, users: Arc<Users>) -> anyhow::Result<()> {
        self.change(|counts| counts.is_on = node.config().channel_publish.is_on());
        let (publisher, node) = (self.clone(), Arc::downgrade(node));
        let look = move || {
            let mut rounds = Rounds::default();
            loop {
                std::thread::sleep(LOOK_PAUSE);
                let Some(node) = node.upgrade() else { return };
                let config = node.config();
                let settings = &config.channel_publish;
                publisher.change(|counts| counts.is_on = settings.is_on());
                let pause = Duration::from_secs(settings.interval_seconds);
                let rests = rounds.last.is_some_and(|last| last.elapsed() < pause);
                if !settings.is_on() || rests {
                    continue;
                }
                rounds.last = Some(Instant::now());
                publisher.told(&users, settings, rounds.round(&node, &config));
                publisher.brought(&users, settings, rounds.bring(&config));
            }
        };
        std::thread::Builder::new()
            .name("publisher".to_owned())
            .spawn(look)
            .context("publisher")?;
        Ok(())
    }

    /// Tells if what was published could not be brought to the object store.
    fn brought(
        &self,
        users: &Users,
        settings: &ChannelPublishSettings,
        brought: anyhow::Result<()>,
    ) {
        let error = brought.err().map(|error| format!("{error:#}")).unwrap_or_default();
        let is_new = self.change(|counts| {
            counts.failed += u64::from(!error.is_empty());
            let is_new = counts.bring_error != error;
            counts.bring_error.clone_from(&error);
            is_new
        });
        if !error.is_empty() {
            tracing::error!(error, "what is published is not in the object store");
            if is_new {
                let folder = settings.folder.display();
                note(users, "publish failed", &format!("{folder}: {error}"));
            }
        }
    }

    /// Tells what came of a round.
    fn told(
        &self,
        users: &Users,
        settings: &ChannelPublishSettings,
        made: anyhow::Result<(Written, Made)>,
    ) {
        let folder = settings.folder.display();
        let (written, made) = match made {
            Ok(made) => made,
            Err(error) => {
                let error = format!("{error:#}");
                let is_new = self.change(|counts| {
                    (counts.rounds, counts.failed) = (counts.rounds + 1, counts.failed + 1);
                    let is_new = counts.error != error;
                    counts.error.clone_from(&error);
                    is_new
                });
                tracing::error!(%folder, error, "nothing was published");
                if is_new {
                    note(users, "publish failed", &format!("{folder}: {error}"));
                }
                return;
            }
        };
        self.change(|counts| {
            counts.rounds += 1;
            counts.written = written;
            counts.error.clear();
        });
        match made {
            Made::Published(Published { version, changed, delta_bytes, .. }, files) => {
                self.change(|counts| {
                    counts.version = version;
                    counts.published += 1;
                    counts.published_s = now_s();
                });
                let Written { signatures, resembling, urls, urls_left_out } = written;
                tracing::info!(
                    %folder, version, files, changed, delta_bytes, signatures, resembling, urls,
                    urls_left_out, "published"
                );
                let detail = format!(
                    "{folder} version {version}: {signatures} signatures, {urls} URLs; left out \
                     {resembling} and {urls_left_out}"
                );
                note(users, "publish channel", &detail);
            }
            Made::Signed(version) => {
                self.change(|counts| counts.version = version);
                tracing::debug!(%folder, version, "signed again");
            }
            Made::Nothing => {}
        }
    }
}

/// What is kept from one round to the next.
#[derive(Debug, Default)]
struct Rounds {
    /// The object store has what the folder has.
    is_brought: bool,
    last: Option<Instant>,
    signed: Option<Instant>,
    known: GoodMail,
}

impl Rounds {
    fn round(&mut self, node: &Node, config: &Config) -> anyhow::Result<(Written, Made)> {
        let settings = &config.channel_publish;
        let own = config.node.data.join(FOLDER);
        let content = match settings.content.as_os_str().is_empty() {
            true => own.join("content"),
            false => settings.content.clone(),
        };
        for folder in [&own, &content] {
            gauntlet_store::files::create_folder(folder)
                .with_context(|| folder.display().to_string())?;
        }
        let signer = node.channel_signer()?;
        let sources = Sources {
            data: &config.node.data,
            good: &settings.good,
            held: Some((&node.log, &node.quarantine)),
            rules: settings.entry_rules(),
            url_days: settings.url_days,
        };
        let written = probes::write(&sources, &mut self.known, &content, now_s())?;
        let life_s = u64::from(settings.timestamp_hours) * 3600;
        let is_old = self.signed.is_none_or(|at| at.elapsed().as_secs() > life_s / SIGN_SHARE);
        let made = publish_folder(
            &Order {
                channel: &settings.folder,
                folder: &content,
                signer: &*signer,
                derived: &derived(&own)?,
                options: options(settings),
            },
            if is_old { Unchanged::Sign } else { Unchanged::Leave },
        )?;
        if !matches!(made, Made::Nothing) {
            self.signed = Some(Instant::now());
            self.is_brought = false;
        }
        Ok((written, made))
    }

    /// Brings what was published to the array's object store, if nodes follow it there; again if
    /// that failed before.
    fn bring(&mut self, config: &Config) -> anyhow::Result<()> {
        let settings = &config.channel_publish;
        if settings.objects.is_empty() || self.is_brought {
            return Ok(());
        }
        let address = format!("{OBJECTS}{}", settings.objects);
        let brought = ObjectsMirror::new(&address, config)?.bring(&settings.folder);
        let Brought { files, bytes, removed } = brought.with_context(|| address.clone())?;
        self.is_brought = true;
        tracing::debug!(address, files, bytes, removed, "brought to the object store");
        Ok(())
    }
}

/// A folder for what is compiled to be checked.
fn derived(own: &std::path::Path) -> anyhow::Result<PathBuf> {
    let folder = own.join("derived");
    gauntlet_store::files::create_folder(&folder).with_context(|| folder.display().to_string())?;
    Ok(folder)
}

fn options(settings: &ChannelPublishSettings) -> PublishOptions {
    PublishOptions {
        note: "what probes brought".to_owned(),
        requires: String::new(),
        lifetimes: lifetimes(settings),
        delta_versions: settings.deltas,
        keep_versions: settings.versions_max,
    }
}
