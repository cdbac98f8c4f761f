//! Files of a version: linked, made of deltas, or fetched whole.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use gauntlet_store::files::{create, create_folder};
use memmap2::Mmap;
use ring::digest::{Context, SHA256};

use super::{Answer, Puller};
use crate::bundle::{DeltaInfo, FileInfo};
use crate::delta;
use crate::error::Error;
use crate::generations::Generations;
use crate::hex;
use crate::limits::DELTA_FILE_BYTES_MAX;
use crate::metadata::Targets;

/// What is here already, by hash.
type Known = BTreeMap<String, PathBuf>;

impl Puller<'_> {
    /// All files of a version into a staged folder, each synced.
    pub(super) fn files(
        &mut self,
        generations: &Generations,
        targets: &Targets,
        staged: &Path,
    ) -> Result<(), Error> {
        let known = known(generations);
        for (name, file) in &targets.targets {
            let to = staged.join(name);
            let folder = to.parent().unwrap_or(staged);
            create_folder(folder).map_err(Error::io(folder))?;
            self.file(&known, name, file, &to)?;
        }
        Ok(())
    }

    fn file(&mut self, known: &Known, name: &str, file: &FileInfo, to: &Path) -> Result<(), Error> {
        if let Some(here) = known.get(file.sha256())
            && fs::hard_link(here, to).is_ok()
        {
            self.costs.linked += 1;
            return Ok(());
        }
        let has = |delta: &&DeltaInfo| {
            let from = delta.from.as_ref();
            from.is_none_or(|from| known.contains_key(from)) && delta.length < file.length
        };
        let mut deltas: Vec<&DeltaInfo> = file.custom.deltas.iter().filter(has).collect();
        deltas.sort_by_key(|delta| delta.length);
        for info in deltas {
            let from = info.from.as_ref().and_then(|from| known.get(from));
            match self.delta(info, from.map(PathBuf::as_path), file, to) {
                Ok(()) => {
                    self.costs.deltas += 1;
                    return Ok(());
                }
                // The disk's troubles are the same for every way.
                Err(error @ Error::Io { .. }) => return Err(error),
                Err(error) => tracing::warn!(name, %error, "a delta is of no use"),
            }
        }
        self.costs.whole += 1;
        self.whole(name, file, to)
    }

    fn delta(
        &mut self,
        info: &DeltaInfo,
        from: Option<&Path>,
        file: &FileInfo,
        to: &Path,
    ) -> Result<(), Error> {
        let path = info.path();
        if info.length.max(file.length) > DELTA_FILE_BYTES_MAX {
            return Err(Error::TooLarge { what: path, bytes_max: DELTA_FILE_BYTES_MAX });
        }
        let bytes = self.bytes(&path, info.length)?;
        if bytes.len() as u64 != info.length || hex::sha256(&bytes) != info.sha256 {
            return Err(Error::not_as_signed(&path, "another length or SHA-256"));
        }
        let old = from.map(map).transpose()?;
        let old = old.as_deref().unwrap_or_default();
        if old.len() as u64 > DELTA_FILE_BYTES_MAX {
            return Err(Error::TooLarge { what: path, bytes_max: DELTA_FILE_BYTES_MAX });
        }
        let mut out = Output::create(to)?;
        let made = delta::apply(old, &mut bytes.as_slice(), &mut out, file.length);
        out.check_disk()?;
        if made?.sha256 != file.sha256() {
            return Err(Error::not_as_signed(&path, "it makes another file"));
        }
        out.finish(file)
    }

    fn whole(&mut self, name: &str, file: &FileInfo, to: &Path) -> Result<(), Error> {
        let path = file.path(name);
        let mut out = Output::create(to)?;
        let answer = self.fetch(&path, file.length, None, &mut out);
        out.check_disk()?;
        match answer? {
            Answer::Whole(_) => out.finish(file),
            Answer::Same | Answer::Missing => {
                let why = "the mirror does not have it".to_owned();
                Err(Error::Fetch { what: path, why })
            }
        }
    }
}

/// All files of the versions that are here.
fn known(generations: &Generations) -> Known {
    let mut known = Known::new();
    for version in generations.versions() {
        let Ok(manifest) = generations.check(version) else { continue };
        for (name, held) in manifest.files {
            known.insert(held.sha256, generations.path(version).join(name));
        }
    }
    known
}

fn map(path: &Path) -> Result<Mmap, Error> {
    let file = File::open(path).map_err(Error::io(path))?;
    // SAFETY: a file of a version is never changed or cut after the version has its name, and it
    // has been checked to have its length. A process that may write there can harm the node anyway.
    unsafe { Mmap::map(&file) }.map_err(Error::io(path))
}

/// A file of a version while it is written.
struct Output {
    path: PathBuf,
    file: File,
    hash: Context,
    length: u64,
    failed: Option<io::Error>,
}

impl Output {
    fn create(path: &Path) -> Result<Self, Error> {
        let file = create(path).map_err(Error::io(path))?;
        let hash = Context::new(&SHA256);
        Ok(Output { path: path.to_owned(), file, hash, length: 0, failed: None })
    }

    /// An error of ours, which must not be taken for the mirror's.
    fn check_disk(&mut self) -> Result<(), Error> {
        self.failed.take().map_or(Ok(()), |cause| Err(Error::Io { path: self.path.clone(), cause }))
    }

    fn finish(self, wanted: &FileInfo) -> Result<(), Error> {
        let Output { path, file, hash, length, .. } = self;
        if length != wanted.length || hex::encode(hash.finish().as_ref()) != wanted.sha256() {
            let what = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let why = format!("{length} bytes with another SHA-256 or length than is signed");
            return Err(Error::not_as_signed(&what, why));
        }
        file.sync_all().map_err(Error::io(&path))
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self.file.write(bytes) {
            Ok(count) => {
                self.hash.update(&bytes[..count]);
                self.length += count as u64;
                Ok(count)
            }
            Err(error) => {
                let again = io::Error::from(error.kind());
                self.failed.get_or_insert(error);
                Err(again)
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}
