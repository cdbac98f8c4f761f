//! A publisher and a node in a temporary folder.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use gauntlet_channel::Error;
use gauntlet_channel::metadata::RoleName;
use gauntlet_channel::pull::{Answer, Costs, FolderMirror, Mirror, Outcome, PullOptions, pull};
use gauntlet_channel::repository::{KeyFolder, Lifetimes, PublishOptions, Published, Repository};
use gauntlet_channel::subscription::Subscription;

/// A time that tests begin with: 27 November 2026.
pub(crate) const NOW_S: i64 = 1_795_750_000;
pub(crate) const HOUR_S: i64 = 3600;
pub(crate) const DAY_S: i64 = 86_400;

pub(crate) struct Site {
    pub(crate) folder: tempfile::TempDir,
    pub(crate) now_s: i64,
}

impl Site {
    /// A channel with two keys of the root, both of which must sign, and nothing published.
    pub(crate) fn new() -> Self {
        let site = Site { folder: tempfile::tempdir().unwrap(), now_s: NOW_S };
        let keys = site.keys();
        for role in RoleName::ALL {
            keys.create(role).unwrap();
        }
        keys.create(RoleName::Root).unwrap();
        Repository::init(&site.channel(), &keys, 2, Lifetimes::default(), NOW_S).unwrap();
        site
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn keys(&self) -> KeyFolder {
        KeyFolder::new(&self.path("keys"))
    }

    pub(crate) fn channel(&self) -> PathBuf {
        self.path("channel")
    }

    pub(crate) fn options() -> PublishOptions {
        PublishOptions { delta_versions: 8, keep_versions: 16, ..PublishOptions::default() }
    }

    /// Publishes these files and no others.
    pub(crate) fn publish(&self, files: &[(&str, &[u8])]) -> Published {
        self.publish_with(files, &Self::options())
    }

    pub(crate) fn publish_with(
        &self,
        files: &[(&str, &[u8])],
        options: &PublishOptions,
    ) -> Published {
        let content = self.path("content");
        let _first = fs::remove_dir_all(&content);
        fs::create_dir(&content).unwrap();
        for (name, bytes) in files {
            let path = content.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, bytes).unwrap();
        }
        let mut channel = Repository::open(&self.channel()).unwrap();
        channel.publish(&content, &self.keys(), options, self.now_s).unwrap()
    }

    pub(crate) fn root(&self) -> Vec<u8> {
        fs::read(self.channel().join("1.root.json")).unwrap()
    }

    /// The node's subscription.
    pub(crate) fn node(&self) -> Subscription {
        Subscription::begin(&self.path("node"), "file:///channel", &self.root()).unwrap()
    }

    /// Pulls from a mirror, and puts in force what came.
    pub(crate) fn pull_from(&self, mirror: &mut dyn Mirror) -> Result<(Outcome, Costs), Error> {
        let mut node = self.node();
        let pulled = pull(&mut node, mirror, &PullOptions::default(), self.now_s)?;
        if let Outcome::Ready(version) = pulled.0 {
            node.generations.promote(version).unwrap();
        }
        node.save().unwrap();
        Ok(pulled)
    }

    pub(crate) fn pull(&self) -> Result<(Outcome, Costs), Error> {
        self.pull_from(&mut FolderMirror::new(&self.channel()))
    }

    /// The files of the version in force.
    pub(crate) fn in_force(&self) -> BTreeMap<String, Vec<u8>> {
        in_force(&self.path("node"))
    }

    /// A copy of the channel as it is now.
    pub(crate) fn freeze(&self, name: &str) -> PathBuf {
        let to = self.path(name);
        copy_folder(&self.channel(), &to);
        to
    }
}

pub(crate) fn in_force(node: &Path) -> BTreeMap<String, Vec<u8>> {
    let generations = gauntlet_channel::generations::Generations::read(node);
    let Some(version) = generations.current() else { return BTreeMap::new() };
    let manifest = generations.check(version).unwrap();
    let read = |name: String| {
        let bytes = fs::read(generations.path(version).join(&name)).unwrap();
        (name, bytes)
    };
    manifest.files.into_keys().map(read).collect()
}

pub(crate) fn copy_folder(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().flatten() {
        let target = to.join(entry.file_name());
        match entry.path().is_dir() {
            true => copy_folder(&entry.path(), &target),
            false => drop(fs::copy(entry.path(), target).unwrap()),
        }
    }
}

/// A mirror that does with each file what a function says: none is no such file.
pub(crate) struct Tampering<F>(pub(crate) FolderMirror, pub(crate) F);

impl<F: FnMut(&str, Vec<u8>) -> Option<Vec<u8>>> Mirror for Tampering<F> {
    fn fetch(
        &mut self,
        name: &str,
        bytes_max: u64,
        etag: Option<&str>,
        out: &mut (dyn Write + Send),
    ) -> Result<Answer, String> {
        let mut bytes = Vec::new();
        let answer = self.0.fetch(name, bytes_max, etag, &mut bytes)?;
        if answer == Answer::Missing {
            return Ok(answer);
        }
        let Some(bytes) = (self.1)(name, bytes) else { return Ok(Answer::Missing) };
        // What a client of ours does with a server that sends more.
        let most = usize::try_from(bytes_max).unwrap_or(usize::MAX);
        if bytes.len() > most {
            out.write_all(&bytes[..most]).map_err(|e| e.to_string())?;
            return Err(format!("larger than {bytes_max} bytes"));
        }
        out.write_all(&bytes).map_err(|e| e.to_string())?;
        Ok(answer)
    }
}
