//! Channels in the array's object store (`objects:NAME` is `NAME/` in `array.objects`): read from
//! there as from any mirror, and brought there from the folder in which they were published.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;

use anyhow::{Context, bail};
use gauntlet_array::objects::{Fetched, Objects};
use gauntlet_channel::limits::ROOT_BYTES_MAX;
use gauntlet_channel::pull::{Answer, Mirror};
use gauntlet_gateway::config::{Config, OBJECTS, is_object_name};

use crate::array_access;

/// The file that says what is newest: the last that is brought.
const NEWEST: &str = "timestamp.json";
/// The file by which one channel is told from another: the first that is brought.
const FIRST: &str = "1.root.json";

/// A channel in the object store. It is asked on the thread of the caller, which waits.
pub(super) struct ObjectsMirror {
    objects: Objects,
    name: String,
    runtime: tokio::runtime::Runtime,
}

/// What was brought.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Brought {
    /// Files that were not there.
    pub(crate) files: usize,
    /// Their bytes.
    pub(crate) bytes: u64,
    /// Files that no version needs any more, and that were removed.
    pub(crate) removed: usize,
}

impl ObjectsMirror {
    /// The channel of this address.
    ///
    /// # Errors
    /// If it is none, or the configuration names no object store.
    pub(super) fn new(address: &str, config: &Config) -> anyhow::Result<Self> {
        let name = address.strip_prefix(OBJECTS).filter(|name| is_object_name(name));
        let Some(name) = name else {
            bail!("{address}: write objects:NAME, with letters, digits, '-', '_', '.' and '/'");
        };
        let objects = array_access::objects(config)?;
        let objects = objects.with_context(|| format!("{address}: array.objects is not set"))?;
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.enable_all().build().context("a runtime for channels")?;
        Ok(ObjectsMirror { objects, name: name.to_owned(), runtime })
    }

    /// Brings the object store up to date with a channel's folder: what it lacks, then what is
    /// newest; then what the folder no longer has is removed. Ended at any moment, there is one
    /// version whole, the one before or this.
    ///
    /// # Errors
    /// If the folder is no channel's, something else is there than this channel, or the object
    /// store cannot be reached or refuses.
    pub(super) fn bring(&self, folder: &Path) -> anyhow::Result<Brought> {
        // Before the others are looked for: who publishes meanwhile adds files that this does not
        // name, and takes none away that it does.
        let newest = std::fs::read(folder.join(NEWEST))
            .with_context(|| format!("{}: no channel, without {NEWEST}", folder.display()))?;
        let first = std::fs::read(folder.join(FIRST))
            .with_context(|| format!("{}: no channel, without {FIRST}", folder.display()))?;
        let files = files(folder)?;
        self.runtime.block_on(async {
            let there = self.objects.list(&self.name).await?;
            if !there.is_empty() {
                self.check_owner(&first).await?;
            }
            let mut brought = Brought::default();
            self.objects.put(&self.object(FIRST), first.into()).await?;
            // Names have a version or a hash in them: only what is newest changes.
            let missing = files.iter().filter(|(name, bytes)| there.get(*name) != Some(*bytes));
            for name in missing.map(|(name, _)| name).filter(|n| !is_first_or_newest(n)) {
                let path = folder.join(name);
                let read = std::fs::read(&path).with_context(|| path.display().to_string())?;
                (brought.files, brought.bytes) =
                    (brought.files + 1, brought.bytes + read.len() as u64);
                self.objects.put(&self.object(name), read.into()).await?;
            }
            self.objects.put(&self.object(NEWEST), newest.into()).await?;
            let gone = |name: &&String| is_ours(name) && !files.contains_key(*name);
            for name in there.keys().filter(gone) {
                self.objects.delete(&self.object(name)).await?;
                brought.removed += 1;
            }
            Ok(brought)
        })
    }

    /// Refuses a name below which something else is: what this channel lacks would be removed, be
    /// it another channel or held mail.
    async fn check_owner(&self, first: &[u8]) -> anyhow::Result<()> {
        let mut there = Vec::new();
        let name = self.object(FIRST);
        let read = self.objects.fetch(&name, None, ROOT_BYTES_MAX, &mut there).await?;
        if !matches!(read, Fetched::Whole(_)) || there != first {
            let name = &self.name;
            bail!("{OBJECTS}{name}: something else than this channel is there; take another name");
        }
        Ok(())
    }

    fn object(&self, name: &str) -> String {
        format!("{}/{name}", self.name)
    }
}

impl Mirror for ObjectsMirror {
    fn fetch(
        &mut self,
        name: &str,
        bytes_max: u64,
        etag: Option<&str>,
        out: &mut (dyn Write + Send),
    ) -> Result<Answer, String> {
        let name = self.object(name);
        match self.runtime.block_on(self.objects.fetch(&name, etag, bytes_max, out)) {
            Ok(Fetched::Same) => Ok(Answer::Same),
            Ok(Fetched::Gone) => Ok(Answer::Missing),
            Ok(Fetched::Whole(tag)) => Ok(Answer::Whole(tag)),
            Err(error) => Err(error.to_string()),
        }
    }
}

fn is_first_or_newest(name: &str) -> bool {
    name == FIRST || name == NEWEST
}

/// Whether a channel may have a file of this name: another may lie below this one.
fn is_ours(name: &str) -> bool {
    !name.contains('/') || name.starts_with("targets/") || name.starts_with("deltas/")
}

/// Names and bytes of the files of a channel; those that are being written are left out.
fn files(folder: &Path) -> anyhow::Result<BTreeMap<String, u64>> {
    let (mut found, mut folders) = (BTreeMap::new(), vec![folder.to_owned()]);
    while let Some(next) = folders.pop() {
        let named = || next.display().to_string();
        for entry in std::fs::read_dir(&next).with_context(named)? {
            let entry = entry.with_context(named)?;
            let (path, kind) = (entry.path(), entry.file_type().with_context(named)?);
            let name = path.strip_prefix(folder)?.to_string_lossy().into_owned();
            let is_temporary =
                name.ends_with(".new") || entry.file_name().to_string_lossy().starts_with('.');
            if kind.is_dir() {
                folders.push(path);
            } else if kind.is_file() && !is_temporary {
                found.insert(name, entry.metadata().with_context(named)?.len());
            }
        }
    }
    Ok(found)
}
