//! Signing of what a node publishes in a channel, by the secrets process (decision 282).
//!
//! The node makes metadata, this process signs them, and gives no key away. Who has taken the node
//! over can ask for signatures, too; so this process signs only what such a node is for:
//!
//! | Metadata | Signed if |
//! |---|---|
//! | root | never |
//! | targets | files lie in [`MADE_BY_NODES`], or are in `channel_publish.content` |
//! | snapshot, timestamp | they have the form of their role |
//! | all | they expire no later than the settings say |
//!
//! The node can read `channel_publish.content`, and not write it; what is signed of it has its
//! bytes.
//!
//! Limits: a request has at most [`REQUEST_BYTES_MAX`](crate::secrets::wire::REQUEST_BYTES_MAX)
//! bytes; hashes of at most [`HASHES_MAX`] files are remembered, so that a table of a gigabyte is
//! not read each time.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, bail, ensure};
use gauntlet_channel::hex::sha256_of_file;
use gauntlet_channel::instant;
use gauntlet_channel::keys::SigningKey;
use gauntlet_channel::metadata::{Envelope, Metadata, RoleName, Snapshot, Targets, Timestamp};
use gauntlet_channel::repository::{KeyFolder, Lifetimes};

use crate::config::{ChannelPublishSettings, Config};

/// Folders of what a node makes of its probes, in `channel_publish.content` or its own.
pub(crate) const MADE_BY_NODES: [&str; 4] = ["signatures", "urls/phishing", "urls/spam", "order"];
/// Files whose hashes are remembered.
const HASHES_MAX: usize = 4_096;
/// Clocks of the two processes are one; the answer may take a while.
const SLACK_S: i64 = 3_600;

/// What a file was when it was hashed: device, inode, bytes, times of content and of inode.
type Stamp = (u64, u64, u64, i64, i64, i64, i64);

/// Signs, and remembers hashes.
#[derive(Debug, Default)]
pub(crate) struct ChannelSigning {
    hashes: Mutex<BTreeMap<PathBuf, (Stamp, String)>>,
}

/// Key id and signature, both in hexadecimal digits.
pub(crate) type Signed = Vec<(String, String)>;

/// The lifetimes that a node's metadata have.
pub fn lifetimes(settings: &ChannelPublishSettings) -> Lifetimes {
    let timestamp_hours = settings.timestamp_hours;
    Lifetimes { timestamp_hours, ..Lifetimes::default() }
}

/// Refuses a folder with a key of the root: who takes this machine over must not hand the channel
/// to other keys.
///
/// # Errors
/// It has one, or cannot be read.
pub(crate) fn check_keys(settings: &ChannelPublishSettings) -> anyhow::Result<()> {
    ensure!(
        KeyFolder::new(&settings.keys).some(RoleName::Root)?.is_empty(),
        "{} has a key of the root (root-*.pem): keep it on a medium that is not connected",
        settings.keys.display()
    );
    Ok(())
}

impl ChannelSigning {
    /// Signs metadata of a role with all its keys; whoever asks takes those that the root names.
    ///
    /// # Errors
    /// Why not, in words for the log of the node.
    pub(crate) fn sign(
        &self,
        config: &Config,
        (role, signed): (&str, &str),
        now_s: i64,
    ) -> anyhow::Result<Signed> {
        let settings = &config.channel_publish;
        ensure!(settings.is_on(), "channel_publish.folder is not set");
        check_keys(settings)?;
        let value = serde_json::from_str(signed).context("metadata to be signed")?;
        let envelope = Envelope::unsigned(value);
        let role = match role {
            "targets" => {
                let targets = read::<Targets>(&envelope, settings, now_s)?;
                self.check_files(config, &targets)?;
                RoleName::Targets
            }
            "snapshot" => {
                read::<Snapshot>(&envelope, settings, now_s)?;
                RoleName::Snapshot
            }
            "timestamp" => {
                read::<Timestamp>(&envelope, settings, now_s)?;
                RoleName::Timestamp
            }
            other => bail!("a node signs nothing of the role {other:?}"),
        };
        let bytes = envelope.canonical().context("metadata without a canonical form")?;
        let keys = KeyFolder::new(&settings.keys).all(role)?;
        let sign = |key: SigningKey| (key.public().id(), key.sign(&bytes));
        Ok(keys.into_iter().map(sign).collect())
    }

    /// What a node may not make by itself must be in the publisher's folder.
    fn check_files(&self, config: &Config, targets: &Targets) -> anyhow::Result<()> {
        let requires = &targets.bundle.requires;
        ensure!(requires.is_empty(), "a node publishes nothing that requires gauntlet {requires}");
        let content = &config.channel_publish.content;
        for (name, file) in &targets.targets {
            if is_made_by_nodes(name) {
                continue;
            }
            ensure!(
                !content.as_os_str().is_empty() && !is_writable_by_node(config, content),
                "{name}: a node publishes {} by itself; anything else must lie in \
                 channel_publish.content, in a folder outside of node.data and \
                 channel_publish.folder, which the node cannot write",
                MADE_BY_NODES.join(", ")
            );
            let path = content.join(name);
            let (bytes, hash) = self.hash(&path)?;
            ensure!(
                bytes == file.length && hash == file.sha256(),
                "{name}: what is to be signed is not what {} has",
                path.display()
            );
        }
        Ok(())
    }

    fn hash(&self, path: &Path) -> anyhow::Result<(u64, String)> {
        let named = || path.display().to_string();
        let about = std::fs::metadata(path).with_context(named)?;
        let stamp = (
            about.dev(),
            about.ino(),
            about.len(),
            about.mtime(),
            about.mtime_nsec(),
            about.ctime(),
            about.ctime_nsec(),
        );
        let mut hashes = self.hashes.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, hash)) = hashes.get(path).filter(|(known, _)| *known == stamp) {
            return Ok((about.len(), hash.clone()));
        }
        let (bytes, hash) = sha256_of_file(path)?;
        if hashes.len() >= HASHES_MAX {
            hashes.clear();
        }
        hashes.insert(path.to_owned(), (stamp, hash.clone()));
        Ok((bytes, hash))
    }
}

/// Reads metadata, and holds them to the lifetimes of the settings.
fn read<T: Metadata>(
    envelope: &Envelope,
    settings: &ChannelPublishSettings,
    now_s: i64,
) -> anyhow::Result<T> {
    let read: T = envelope.read()?;
    let latest_s = lifetimes(settings).end_s(T::ROLE, now_s).saturating_add(SLACK_S);
    let expires_s = instant::parse(read.expires()).context("no time of expiry")?;
    let role = T::ROLE.name();
    ensure!(expires_s <= latest_s, "{role}: would count until {}, too long", read.expires());
    Ok(read)
}

fn is_made_by_nodes(name: &str) -> bool {
    let folder = name.rsplit_once('/').map_or("", |(folder, _)| folder);
    MADE_BY_NODES.contains(&folder)
}

/// Folders below which the node's sandbox lets it change files.
fn is_writable_by_node(config: &Config, content: &Path) -> bool {
    let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let content = real(content);
    [&config.node.data, &config.channel_publish.folder]
        .into_iter()
        .any(|folder| content.starts_with(real(folder)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use gauntlet_channel::repository::{PublishOptions, Repository, Signer};

    const NOW_S: i64 = 1_800_000_000;

    /// A channel that a node publishes, with a rule of its publisher's.
    struct Site {
        _folder: tempfile::TempDir,
        config: Config,
        signing: ChannelSigning,
    }

    impl Site {
        fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            let mut config = Config::default();
            config.node.data = folder.path().join("data");
            let publish = &mut config.channel_publish;
            publish.folder = folder.path().join("channel");
            publish.keys = folder.path().join("keys");
            publish.content = folder.path().join("content");
            let keys = KeyFolder::new(&publish.keys);
            RoleName::ALL.iter().for_each(|role| drop(keys.create(*role).unwrap()));
            let lifetimes = lifetimes(publish);
            Repository::init(&publish.folder, &keys, 1, lifetimes, NOW_S).unwrap();
            for (name, text) in [("rules/a.cf", "body A /a/\n"), ("signatures/probes", "x")] {
                let path = publish.content.join(name);
                std::fs::create_dir_all(path.parent().unwrap()).unwrap();
                std::fs::write(path, text).unwrap();
            }
            Site { _folder: folder, config, signing: ChannelSigning::default() }
        }

        fn publish(&self, content: &Path, lifetimes: Lifetimes) -> Result<u64, String> {
            let settings = &self.config.channel_publish;
            let mut channel = Repository::open(&settings.folder).unwrap();
            let options = PublishOptions { lifetimes, ..PublishOptions::default() };
            let made = channel.publish(content, self, &options, NOW_S);
            made.map(|made| made.version).map_err(|error| error.to_string())
        }
    }

    impl Signer for Site {
        fn sign(
            &self,
            role: RoleName,
            _: &gauntlet_channel::metadata::Root,
            envelope: &mut Envelope,
        ) -> Result<(), gauntlet_channel::error::Error> {
            let text = String::from_utf8(envelope.canonical().unwrap()).unwrap();
            let signed = self.signing.sign(&self.config, (role.name(), &text), NOW_S);
            let refused =
                |e: anyhow::Error| gauntlet_channel::error::Error::Refused(format!("{e:#}"));
            signed
                .map_err(refused)?
                .into_iter()
                .for_each(|(id, sig)| envelope.add_signature(id, sig));
            Ok(())
        }

        fn place(&self) -> String {
            "the secrets process".to_owned()
        }
    }

    #[test]
    fn only_what_probes_made_and_what_the_publisher_has_is_signed() {
        let mut site = Site::new();
        let content = site.config.channel_publish.content.clone();
        let usual = lifetimes(&site.config.channel_publish);
        let root = site.config.channel_publish.keys.join("root-1.pem");
        let error = site.publish(&content, usual).unwrap_err();
        assert!(error.contains("has a key of the root"), "{error}");
        std::fs::remove_file(root).unwrap();
        assert_eq!(site.publish(&content, usual), Ok(2));
        // A node that was taken over: a rule that the publisher does not have.
        let forged = site.config.node.data.join("forged");
        for (name, text) in [("signatures/probes", "y"), ("urls/spam/probes", "a.example\n")] {
            let path = forged.join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        assert_eq!(site.publish(&forged, usual), Ok(3), "that is what it is for");
        for (name, text) in [
            ("rules/a.cf", "body A /e/\nscore A 100\n"),
            ("rules/b.cf", "body B /b/\n"),
            ("urls/allow/mine", "evil.example\n"),
            ("yara/a.yar", "rule a { condition: true }"),
        ] {
            let path = forged.join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(&path, text).unwrap();
            let error = site.publish(&forged, usual).unwrap_err();
            assert!(error.contains(name), "{error}");
            std::fs::remove_file(path).unwrap();
        }
        let long = Lifetimes { timestamp_hours: 24 * 365, ..usual };
        std::fs::write(forged.join("signatures/probes"), "z").unwrap();
        let error = site.publish(&forged, long).unwrap_err();
        assert!(error.contains("too long"), "{error}");
        let bad = |role, text| site.signing.sign(&site.config, (role, text), NOW_S).is_err();
        assert!(bad("root", "{}") && bad("targets", "{}") && bad("timestamp", "no JSON"));
        // In a folder that the node writes, its own files vouch for nothing.
        site.config.channel_publish.content = forged.clone();
        std::fs::create_dir_all(forged.join("rules")).unwrap();
        std::fs::write(forged.join("rules/c.cf"), "body C /c/\n").unwrap();
        let error = site.publish(&forged, usual).unwrap_err();
        assert!(error.contains("outside of node.data"), "{error}");
    }
}
