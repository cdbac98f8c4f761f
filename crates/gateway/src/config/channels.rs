//! Settings of channels: signed updates of rules, models and lists.

use std::collections::BTreeSet;
use std::path::PathBuf;

use gauntlet_learning::url_entries::EntryRules;
use serde::{Deserialize, Serialize};

use super::array::ArraySettings;
use super::error::ConfigError;
use super::masking::mask;

/// Most channels.
const CHANNELS_MAX: usize = 32;
/// Longest name.
const NAME_BYTES_MAX: usize = 64;
/// What the address of a channel in the array's object store begins with.
pub const OBJECTS: &str = "objects:";

/// A channel that the node follows.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ChannelSettings {
    /// Its name in logs, metrics and the console, and its folder in the data folder.
    pub name: String,
    /// Where it is: `https://`, `http://`, `file://`, or `objects:NAME` in `array.objects`.
    pub url: String,
    /// File with its first root, handed over by hand.
    pub root: PathBuf,
    /// Seconds between two looks for a new version, give or take a fifth.
    pub interval_seconds: u64,
    /// Bytes of all files of a version.
    pub bytes_max: u64,
    /// Versions that stay on disk, for going back.
    pub versions_max: usize,
    /// Seconds that new rules and models are tried in the shadow before they judge; 0: not at all.
    pub canary_seconds: u64,
    /// Share of the mail that comes, in hundredths, that is judged by both then.
    pub canary_percent: u8,
    /// Held messages of the last week that are judged by both.
    pub canary_held_messages_max: u64,
    /// Messages that have to be compared; fewer: a person decides.
    pub canary_messages_min: u64,
    /// Share of good mail that may be suspect or worse by the new version, in hundredths.
    pub canary_worse_percent_max: f64,
    /// Messages with a sign of good mail that may be.
    pub canary_good_signs_max: u64,
    /// Share of bad mail that may be good by it, in hundredths; above: a person decides.
    pub canary_milder_percent_max: f64,
    /// Time for a message by it, in hundredths of that before; above: a person decides.
    pub canary_cost_percent_max: f64,
    /// Seconds that people's corrections are watched after a new version judges; 0: not at all.
    pub watch_seconds: u64,
    /// Bad verdicts that may be corrected to good in that time; more: back to the version before.
    pub watch_corrections_max: u64,
}

/// A channel that the node makes, signs and publishes by itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ChannelPublishSettings {
    /// Folder of the channel, which a web server serves; empty publishes none.
    pub folder: PathBuf,
    /// Name below `array.objects` where it is brought after each publication, for nodes of the
    /// array (`objects:NAME`); empty: nowhere.
    pub objects: String,
    /// Folder with the keys of targets, snapshot and timestamp.
    pub keys: PathBuf,
    /// Folder with what is published beside what probes brought, which is written into it, too;
    /// empty is one in the data folder.
    pub content: PathBuf,
    /// Messages, folders or mailboxes of good mail: nothing that resembles it is published.
    pub good: Vec<PathBuf>,
    /// Seconds between two looks for what is new.
    pub interval_seconds: u64,
    /// Messages to probes that lead to a host before it is an entry of a list.
    pub url_messages_min: usize,
    /// Networks that they have to come from.
    pub url_networks_min: usize,
    /// Domains of senders that they have to come from.
    pub url_senders_min: usize,
    /// Entries in all.
    pub url_entries_max: usize,
    /// Days that a message counts for an entry.
    pub url_days: u16,
    /// Hours that a timestamp counts.
    pub timestamp_hours: u32,
    /// Earlier versions from which a delta leads to a new one.
    pub deltas: u64,
    /// Earlier versions whose files stay.
    pub versions_max: u64,
}

impl Default for ChannelPublishSettings {
    fn default() -> Self {
        let EntryRules { messages_min, networks_min, senders_min, entries_max } =
            EntryRules::default();
        ChannelPublishSettings {
            folder: PathBuf::new(),
            objects: String::new(),
            keys: PathBuf::new(),
            content: PathBuf::new(),
            good: Vec::new(),
            interval_seconds: 60,
            url_messages_min: messages_min,
            url_networks_min: networks_min,
            url_senders_min: senders_min,
            url_entries_max: entries_max,
            url_days: 7,
            timestamp_hours: 48,
            deltas: 12,
            versions_max: 32,
        }
    }
}

impl ChannelPublishSettings {
    /// The node publishes.
    pub fn is_on(&self) -> bool {
        !self.folder.as_os_str().is_empty()
    }

    /// What an entry of a URL list has to have.
    pub fn entry_rules(&self) -> EntryRules {
        EntryRules {
            messages_min: self.url_messages_min,
            networks_min: self.url_networks_min,
            senders_min: self.url_senders_min,
            entries_max: self.url_entries_max,
        }
    }

    /// Refuses a publisher that cannot work, or whose keys are served.
    pub(super) fn check(&self, array: &ArraySettings) -> Result<(), ConfigError> {
        let wrong = |key: &str, problem: &str| {
            Err(ConfigError::invalid(format!("channel_publish.{key}"), problem))
        };
        if !self.is_on() {
            return Ok(());
        }
        if !self.objects.is_empty() {
            check_objects("channel_publish.objects", &self.objects, array)?;
        }
        if self.keys.as_os_str().is_empty() {
            return wrong("keys", "name the folder with the keys that sign (`channel init`)");
        }
        let absolute = |path: &PathBuf| std::path::absolute(path).unwrap_or_else(|_| path.clone());
        if absolute(&self.keys).starts_with(absolute(&self.folder)) {
            return wrong("keys", "lies inside of channel_publish.folder, which is served");
        }
        let content = &self.content;
        if !content.as_os_str().is_empty() && absolute(&self.keys).starts_with(absolute(content)) {
            return wrong("keys", "lies inside of channel_publish.content, which is published");
        }
        let counts = [self.url_messages_min, self.url_networks_min, self.url_senders_min];
        if self.interval_seconds == 0 || counts.contains(&0) || self.timestamp_hours == 0 {
            return wrong(
                "interval_seconds",
                "interval_seconds, timestamp_hours and url_*_min are at least 1",
            );
        }
        Ok(())
    }
}

impl Default for ChannelSettings {
    fn default() -> Self {
        ChannelSettings {
            name: String::new(),
            url: String::new(),
            root: PathBuf::new(),
            interval_seconds: 300,
            bytes_max: 4 << 30,
            versions_max: 4,
            canary_seconds: 600,
            canary_percent: 5,
            canary_held_messages_max: 1000,
            canary_messages_min: 20,
            canary_worse_percent_max: 0.5,
            canary_good_signs_max: 1,
            canary_milder_percent_max: 10.0,
            canary_cost_percent_max: 200.0,
            watch_seconds: 86_400,
            watch_corrections_max: 5,
        }
    }
}

/// Checks a name in the array's object store.
fn check_objects(key: &str, name: &str, array: &ArraySettings) -> Result<(), ConfigError> {
    if array.objects.is_empty() {
        let problem = "array.objects names no object store, in which the channel could be";
        return Err(ConfigError::invalid(key, problem));
    }
    if !is_object_name(name) {
        let problem = format!("{name:?}: letters, digits, '-', '_', '.' and single '/' only");
        return Err(ConfigError::invalid(key, problem));
    }
    Ok(())
}

/// Whether a channel in the array's object store may be called so.
pub fn is_object_name(name: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./".contains(c);
    let is_odd = |part: &str| matches!(part, "" | "." | "..");
    name.len() <= NAME_BYTES_MAX && name.chars().all(is_plain) && !name.split('/').any(is_odd)
}

/// Checks all channels.
pub(super) fn check(
    channels: &[ChannelSettings],
    array: &ArraySettings,
) -> Result<(), ConfigError> {
    let wrong = |key: &str, problem: String| Err(ConfigError::invalid(key, problem));
    if channels.len() > CHANNELS_MAX {
        return wrong("channel", format!("{CHANNELS_MAX} channels at most"));
    }
    let mut names = BTreeSet::new();
    for channel in channels {
        let name = channel.name.as_str();
        let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
        if name.is_empty() || name.len() > NAME_BYTES_MAX || !name.chars().all(is_plain) {
            return wrong("channel.name", format!("{name:?}: letters, digits, '-' and '_' only"));
        }
        if !names.insert(name.to_ascii_lowercase()) {
            return wrong("channel.name", format!("two channels are called {name:?}"));
        }
        let schemes = ["https://", "http://", "file:///"];
        if let Some(name) = channel.url.strip_prefix(OBJECTS) {
            check_objects("channel.url", name, array)?;
        } else if !schemes.iter().any(|scheme| channel.url.starts_with(scheme)) {
            let url = mask(&channel.url);
            let problem =
                format!("{url:?} must begin with https://, http://, file:/// or objects:");
            return wrong("channel.url", problem);
        }
        if channel.root.as_os_str().is_empty() {
            let problem = "name the file with the channel's first root (1.root.json), which its \
                           publisher hands over";
            return wrong("channel.root", problem.to_owned());
        }
        if channel.interval_seconds == 0 || channel.versions_max < 2 || channel.bytes_max == 0 {
            let problem = "interval_seconds and bytes_max are at least 1, versions_max 2";
            return wrong("channel", problem.to_owned());
        }
        if channel.canary_percent > 100 {
            return wrong("channel.canary_percent", "100 at most".to_owned());
        }
    }
    Ok(())
}
