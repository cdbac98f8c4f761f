//! Versions of a channel on a node's disk.
//!
//! ```text
//! FOLDER/generations/12/rules/a.cf ...   a whole version; never changed once it has this name
//! FOLDER/generations/12/generation.json  what it holds
//! FOLDER/generations/12/judged           it was in force once
//! FOLDER/generations/13.partial/         one that is being fetched; the next opening removes it
//! FOLDER/current                         the number of the version in force
//! ```
//!
//! A version is written and synced under its partial name, then renamed; `current` is replaced by a
//! rename, too. A kill or a power cut at any moment leaves the version before or the next, whole.
//! Files that two versions share are one file with two names, so that a small change of a large
//! channel takes little room and time.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use gauntlet_store::files::{create_folder, sync_folder, write_durably};
use serde::{Deserialize, Serialize};

use crate::bundle::{BundleInfo, check_names};
use crate::error::Error;
use crate::hex;
use crate::limits::TARGETS_BYTES_MAX;

const CURRENT: &str = "current";
const FOLDER: &str = "generations";
const MANIFEST: &str = "generation.json";
const PARTIAL: &str = "partial";
/// Mark of a version that judged once: one may go back to it.
const JUDGED: &str = "judged";

/// What a version on disk holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    /// The channel's version.
    pub version: u64,
    /// By name.
    pub files: BTreeMap<String, Held>,
    /// What the publisher says of it.
    #[serde(default)]
    pub bundle: BundleInfo,
}

/// A file of a version on disk.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Held {
    /// Bytes.
    pub length: u64,
    /// In digits.
    pub sha256: String,
}

impl Manifest {
    /// Reads what [`Generations::finish`] wrote.
    ///
    /// # Errors
    /// If it is no such file.
    pub fn parse(bytes: &[u8]) -> Result<Self, Error> {
        if bytes.len() as u64 > TARGETS_BYTES_MAX {
            let what = MANIFEST.to_owned();
            return Err(Error::TooLarge { what, bytes_max: TARGETS_BYTES_MAX });
        }
        let manifest = serde_json::from_slice::<Manifest>(bytes);
        let manifest = manifest.map_err(|e| Error::malformed(MANIFEST, e))?;
        check_names(manifest.files.keys().map(String::as_str))?;
        match manifest.files.values().all(|file| hex::is_sha256(&file.sha256)) {
            true => Ok(manifest),
            false => Err(Error::malformed(MANIFEST, "no SHA-256")),
        }
    }

    /// Bytes of all files.
    pub fn bytes(&self) -> u64 {
        self.files.values().fold(0, |all, file| all.saturating_add(file.length))
    }
}

/// The versions below a folder.
#[derive(Debug, Clone)]
pub struct Generations(PathBuf);

impl Generations {
    /// Opens the folder to write, and removes what a run that was killed left half. Nobody else may
    /// write meanwhile.
    ///
    /// # Errors
    /// The system's.
    pub fn open(folder: &Path) -> Result<Self, Error> {
        let generations = Generations(folder.to_owned());
        let inner = generations.folder();
        create_folder(&inner).map_err(Error::io(&inner))?;
        for name in names(&inner)?.iter().filter(|name| name.ends_with(PARTIAL)) {
            let path = inner.join(name);
            fs::remove_dir_all(&path).map_err(Error::io(&path))?;
        }
        Ok(generations)
    }

    /// Reads a folder without changing it.
    pub fn read(folder: &Path) -> Self {
        Generations(folder.to_owned())
    }

    fn folder(&self) -> PathBuf {
        self.0.join(FOLDER)
    }

    /// Where a version's files are.
    pub fn path(&self, version: u64) -> PathBuf {
        self.folder().join(version.to_string())
    }

    /// The version in force.
    pub fn current(&self) -> Option<u64> {
        fs::read_to_string(self.0.join(CURRENT)).ok()?.trim().parse().ok()
    }

    /// The whole versions, the oldest first.
    pub fn versions(&self) -> Vec<u64> {
        let names = names(&self.folder()).unwrap_or_default();
        let mut all: Vec<u64> = names.iter().filter_map(|name| name.parse().ok()).collect();
        all.sort_unstable();
        all
    }

    /// What a version holds.
    ///
    /// # Errors
    /// If it is not there, or damaged.
    pub fn manifest(&self, version: u64) -> Result<Manifest, Error> {
        let path = self.path(version).join(MANIFEST);
        Manifest::parse(&fs::read(&path).map_err(Error::io(&path))?)
    }

    /// Checks that every file of a version is there in its length: what a damaged disk or a hand
    /// leaves. Whether each byte is right costs reading all of them.
    ///
    /// # Errors
    /// The first file that is not.
    pub fn check(&self, version: u64) -> Result<Manifest, Error> {
        let manifest = self.manifest(version)?;
        for (name, held) in &manifest.files {
            let path = self.path(version).join(name);
            let length = fs::metadata(&path).map_err(Error::io(&path))?.len();
            if length != held.length {
                let what = path.display().to_string();
                return Err(Error::not_as_signed(&what, format!("{length} bytes")));
            }
        }
        Ok(manifest)
    }

    /// The versions before this one that were in force once, the oldest first. Others may have
    /// failed their test, or their trial.
    pub fn judged_before(&self, version: u64) -> Vec<u64> {
        let judged = |v: &u64| *v < version && self.path(*v).join(JUDGED).is_file();
        self.versions().into_iter().filter(judged).collect()
    }

    /// An empty folder for the files of a version.
    ///
    /// # Errors
    /// The system's.
    pub fn stage(&self, version: u64) -> Result<PathBuf, Error> {
        let path = self.folder().join(format!("{version}.{PARTIAL}"));
        if path.exists() {
            fs::remove_dir_all(&path).map_err(Error::io(&path))?;
        }
        create_folder(&path).map_err(Error::io(&path))?;
        Ok(path)
    }

    /// Gives a staged version its name. Its files have been synced; their folders are here.
    ///
    /// # Errors
    /// The system's; the version is then not there.
    pub fn finish(&self, manifest: &Manifest) -> Result<(), Error> {
        let staged = self.folder().join(format!("{}.{PARTIAL}", manifest.version));
        let path = staged.join(MANIFEST);
        let text =
            serde_json::to_vec_pretty(manifest).map_err(|e| Error::malformed(MANIFEST, e))?;
        write_durably(&path, &text).map_err(Error::io(&path))?;
        sync_folders(&staged)?;
        let to = self.path(manifest.version);
        if to.exists() {
            // Of a version that was found damaged.
            fs::remove_dir_all(&to).map_err(Error::io(&to))?;
        }
        fs::rename(&staged, &to).map_err(Error::io(&to))?;
        sync_folder(&self.folder()).map_err(Error::io(&to))
    }

    /// Puts a version in force.
    ///
    /// # Errors
    /// If it is not there; the system's. The one before is then in force.
    pub fn promote(&self, version: u64) -> Result<(), Error> {
        self.check(version)?;
        let mark = self.path(version).join(JUDGED);
        write_durably(&mark, b"").map_err(Error::io(&mark))?;
        let path = self.0.join(CURRENT);
        write_durably(&path, format!("{version}\n").as_bytes()).map_err(Error::io(&path))
    }

    /// Takes the channel out of force: what ships with the program judges alone.
    ///
    /// # Errors
    /// The system's.
    pub fn demote_all(&self) -> Result<(), Error> {
        let path = self.0.join(CURRENT);
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(Error::Io { path, cause: error })
            }
            _ => sync_folder(&self.0).map_err(Error::io(&path)),
        }
    }

    /// Removes a version that is not in force.
    ///
    /// # Errors
    /// If it is; the system's.
    pub fn remove(&self, version: u64) -> Result<(), Error> {
        if self.current() == Some(version) {
            return Err(Error::Refused(format!("version {version} is in force")));
        }
        let path = self.path(version);
        // Under another name first: a half removed one must not look whole.
        let gone = self.folder().join(format!("{version}.gone.{PARTIAL}"));
        fs::rename(&path, &gone).map_err(Error::io(&path))?;
        fs::remove_dir_all(&gone).map_err(Error::io(&gone))
    }

    /// Removes versions older than the one in force, but for so many in all: first those that never
    /// judged, then the oldest.
    ///
    /// # Errors
    /// The system's.
    pub fn keep(&self, versions: usize) -> Result<(), Error> {
        let Some(in_force) = self.current() else { return Ok(()) };
        let all = self.versions();
        let surplus = all.len().saturating_sub(versions.max(1));
        let judged = self.judged_before(in_force);
        let mut older: Vec<u64> = all.into_iter().filter(|v| *v < in_force).collect();
        older.sort_by_key(|version| (judged.contains(version), *version));
        older.into_iter().take(surplus).try_for_each(|version| self.remove(version))
    }
}

fn names(folder: &Path) -> Result<Vec<String>, Error> {
    let entries = fs::read_dir(folder).map_err(Error::io(folder))?;
    let name = |entry: io::Result<fs::DirEntry>| {
        Ok(entry.map_err(Error::io(folder))?.file_name().to_string_lossy().into_owned())
    };
    entries.map(name).collect()
}

fn sync_folders(folder: &Path) -> Result<(), Error> {
    for entry in fs::read_dir(folder).map_err(Error::io(folder))? {
        let path = entry.map_err(Error::io(folder))?.path();
        if path.is_dir() {
            sync_folders(&path)?;
        }
    }
    File::open(folder).and_then(|folder| folder.sync_all()).map_err(Error::io(folder))
}
