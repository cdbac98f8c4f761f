//! What people have used of quotas, in a file: it is written whole, beside the old one, and
//! renamed.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use gauntlet_proxy::quotas::{QuotaEntry, Quotas};
use serde::{Deserialize, Serialize};

/// Its name in the folder of the web log.
pub(crate) const FILE: &str = "quotas.json";
/// Bytes of it that are read.
const BYTES_MAX: u64 = 1 << 30;

#[derive(Serialize, Deserialize)]
struct Kept {
    /// Of this format: 1.
    version: u32,
    used: Vec<QuotaEntry>,
}

/// The file, and what it keeps.
pub(crate) struct QuotaFile {
    path: PathBuf,
    quotas: Arc<Quotas>,
}

/// What a file keeps; nothing if there is none.
///
/// # Errors
/// If it cannot be read.
pub(crate) fn read(path: &Path) -> anyhow::Result<Vec<QuotaEntry>> {
    use std::io::Read;
    let file = match std::fs::File::open(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        file => file.with_context(|| format!("cannot read {}", path.display()))?,
    };
    let mut text = String::new();
    file.take(BYTES_MAX).read_to_string(&mut text).with_context(|| path.display().to_string())?;
    let kept: Kept = serde_json::from_str(&text).with_context(|| path.display().to_string())?;
    anyhow::ensure!(kept.version == 1, "{} is of another version", path.display());
    Ok(kept.used)
}

impl QuotaFile {
    /// Takes what the file has. One that is damaged is said aloud and begins anew: nobody is kept
    /// from working by it.
    pub(crate) fn open(path: PathBuf, quotas: Arc<Quotas>) -> Self {
        match read(&path) {
            Ok(entries) => quotas.restore(entries),
            Err(error) => {
                let error = format!("{error:#}");
                tracing::warn!(error, "what was used of quotas is not known: it begins anew");
            }
        }
        QuotaFile { path, quotas }
    }

    /// Writes it, if something has changed.
    pub(crate) fn write(&self) {
        let Some(used) = self.quotas.changed_entries() else { return };
        if let Err(error) = self.replace(&Kept { version: 1, used }) {
            self.quotas.not_written();
            let error = format!("{error:#}");
            tracing::warn!(error, "what was used of quotas could not be written");
        }
    }

    fn replace(&self, kept: &Kept) -> anyhow::Result<()> {
        use std::os::unix::fs::OpenOptionsExt;
        let new = self.path.with_extension("new");
        let failed = || format!("cannot write {}", new.display());
        let mut options = std::fs::OpenOptions::new();
        options.write(true).create(true).truncate(true).mode(0o600);
        let mut file = options.open(&new).with_context(failed)?;
        file.write_all(&serde_json::to_vec(kept)?).with_context(failed)?;
        file.sync_all().with_context(failed)?;
        std::fs::rename(&new, &self.path).with_context(failed)
    }

    /// Writes it every so often, for ever.
    pub(crate) async fn keep(self: Arc<Self>, every: Duration) {
        loop {
            tokio::time::sleep(every).await;
            let file = Arc::clone(&self);
            // It was told if it failed.
            let _ = tokio::task::spawn_blocking(move || file.write()).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use gauntlet_policy::{Groups, Policy};

    use super::*;

    #[test]
    fn what_was_used_survives_and_a_damaged_file_begins_anew() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(FILE);
        let text = "[[web_quota]]\nname = \"Q\"\nminutes = 9\n";
        let quota = Policy::parse(text, &Groups::default()).unwrap().web_quotas.remove(0);
        let open = || {
            let quotas = Arc::new(Quotas::new(100));
            (QuotaFile::open(path.clone(), Arc::clone(&quotas)), quotas)
        };
        let (file, quotas) = open();
        file.write();
        assert!(!path.exists(), "nothing has changed");
        quotas.add(&quota, "ann", 7, 600);
        file.write();
        assert_eq!(open().1.get(&quota, "ann", 660).minutes, 1);
        assert_eq!(open().1.get(&quota, "ann", 660).bytes, 7);
        for damaged in ["", "{", "{\"version\":2,\"used\":[]}"] {
            std::fs::write(&path, damaged).unwrap();
            assert_eq!(open().1.get(&quota, "ann", 660).minutes, 0);
        }
    }
}
