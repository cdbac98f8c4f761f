//! Good mail that nobody corrected: samples for the thresholds, as [`GoodSample`] has them.
//!
//! One small file, `corrections/good-mail.samples`, replaced whole: the newest [`SAMPLES_MAX`]
//! samples, of an author the newest [`AUTHOR_SAMPLES_MAX`] and [`AUTHOR_DAY_SAMPLES_MAX`] of a day,
//! for [`DAYS_MAX`] days. It is written when a tenth of it is new, so that a message costs no
//! write; a crash loses that tenth, which no delivery depends on.
//!
//! File, little endian: magic `GNTLGOOD`, then samples: kind (u8), log odds (f32), author (u32),
//! day (u32); at the end the CRC-32 of all before. It holds numbers, no text and no address.

use std::io;
use std::path::{Path, PathBuf};

use gauntlet_engine::site_model::good_mail::{GoodSample, SampleKind};

use crate::corrections::FOLDER_NAME;

/// Samples that are kept.
pub const SAMPLES_MAX: usize = 2_000;
/// Samples that are kept of one author.
pub const AUTHOR_SAMPLES_MAX: usize = 6;
/// Samples of one author that are taken on one day.
pub const AUTHOR_DAY_SAMPLES_MAX: usize = 2;
/// Days for which a sample is kept: rules and models that judged it do not stay the same.
pub const DAYS_MAX: u32 = 180;
/// Name of the file in the folder of corrections.
const FILE_NAME: &str = "good-mail.samples";
const MAGIC: &[u8; 8] = b"GNTLGOOD";
const SAMPLE_BYTES: usize = 13;
const CHECKSUM_BYTES: usize = 4;
/// Largest file that is read.
const FILE_BYTES_MAX: u64 = (MAGIC.len() + SAMPLES_MAX * SAMPLE_BYTES + CHECKSUM_BYTES) as u64;
/// Share of the samples that are to be new before they are written, as a divisor.
const NEWS_SHARE: usize = 10;

/// Why the samples cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum GoodMailError {
    /// The file could not be read or written.
    #[error("{path}: {cause}")]
    Io {
        /// Path of the file.
        path: PathBuf,
        /// The operating system's error.
        cause: io::Error,
    },
    /// The file is not what was written.
    #[error("{0} is damaged or no file of samples; it is begun anew with the next message")]
    Damaged(PathBuf),
}

/// The file of a data folder.
#[must_use]
pub fn path(data: &Path) -> PathBuf {
    data.join(FOLDER_NAME).join(FILE_NAME)
}

/// The samples in a data folder, oldest first; none if there is no file.
///
/// # Errors
/// If the file cannot be read, or is damaged.
pub fn read(data: &Path) -> Result<Vec<GoodSample>, GoodMailError> {
    let path = path(data);
    let failed = |cause| GoodMailError::Io { path: path.clone(), cause };
    match std::fs::metadata(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(cause) => return Err(failed(cause)),
        Ok(about) if about.len() > FILE_BYTES_MAX => return Err(GoodMailError::Damaged(path)),
        Ok(_) => {}
    }
    let bytes = std::fs::read(&path).map_err(failed)?;
    parse(&bytes).ok_or(GoodMailError::Damaged(path))
}

fn parse(bytes: &[u8]) -> Option<Vec<GoodSample>> {
    let (body, sum) = bytes.split_last_chunk::<CHECKSUM_BYTES>()?;
    if crc32fast::hash(body) != u32::from_le_bytes(*sum) {
        return None;
    }
    let samples = body.strip_prefix(MAGIC)?;
    let (samples, []) = samples.as_chunks::<SAMPLE_BYTES>() else { return None };
    samples.iter().take(SAMPLES_MAX).map(sample_of).collect()
}

fn sample_of(bytes: &[u8; SAMPLE_BYTES]) -> Option<GoodSample> {
    let [kind, numbers @ ..] = bytes;
    let kind = match kind {
        0 => SampleKind::KnownAuthor,
        1 => SampleKind::Released,
        _ => return None,
    };
    let (numbers, _) = numbers.as_chunks::<4>();
    let [odds, author, day] = numbers else { return None };
    Some(GoodSample {
        kind,
        odds: f32::from_le_bytes(*odds),
        author: u32::from_le_bytes(*author),
        day: u32::from_le_bytes(*day),
    })
}

/// The samples of a node that runs.
#[derive(Debug)]
pub struct GoodMailWriter {
    path: PathBuf,
    /// Oldest first.
    samples: Vec<GoodSample>,
    unwritten: usize,
}

impl GoodMailWriter {
    /// With what is in a data folder.
    ///
    /// # Errors
    /// As [`read`].
    pub fn open(data: &Path) -> Result<Self, GoodMailError> {
        Ok(GoodMailWriter { samples: read(data)?, ..Self::empty(data) })
    }

    /// With nothing: what is in the folder is replaced by the next [`Self::write`].
    #[must_use]
    pub fn empty(data: &Path) -> Self {
        GoodMailWriter { path: path(data), samples: Vec::new(), unwritten: 0 }
    }

    /// Adds a sample and removes what it leaves no room for.
    pub fn add(&mut self, sample: GoodSample) {
        let is_same = |s: &&GoodSample| s.author == sample.author && s.day == sample.day;
        if self.samples.iter().filter(is_same).count() >= AUTHOR_DAY_SAMPLES_MAX {
            return;
        }
        // By distance, so that a clock that was wrong for a while spoils nothing for long.
        self.samples.retain(|s| s.day.abs_diff(sample.day) <= DAYS_MAX);
        let of_author = self.samples.iter().filter(|s| s.author == sample.author).count();
        if of_author >= AUTHOR_SAMPLES_MAX {
            let oldest = self.samples.iter().position(|s| s.author == sample.author);
            oldest.map(|oldest| self.samples.remove(oldest));
        } else if self.samples.len() >= SAMPLES_MAX {
            self.samples.remove(0);
        }
        self.samples.push(sample);
        self.unwritten += 1;
    }

    /// Enough is new that it should be written.
    #[must_use]
    pub fn is_due(&self) -> bool {
        self.unwritten > 0 && self.unwritten * NEWS_SHARE >= self.samples.len()
    }

    /// Writes the samples, if any is new; durable when it returns.
    ///
    /// # Errors
    /// If the file cannot be written; what was there stays, and the samples are written next time.
    pub fn write(&mut self) -> Result<(), GoodMailError> {
        if self.unwritten == 0 {
            return Ok(());
        }
        let mut bytes = MAGIC.to_vec();
        for sample in &self.samples {
            bytes.push(match sample.kind {
                SampleKind::KnownAuthor => 0,
                SampleKind::Released => 1,
            });
            bytes.extend(sample.odds.to_le_bytes());
            bytes.extend(sample.author.to_le_bytes());
            bytes.extend(sample.day.to_le_bytes());
        }
        bytes.extend(crc32fast::hash(&bytes).to_le_bytes());
        let written = self.path.parent().map_or(Ok(()), gauntlet_store::files::create_folder);
        written
            .and_then(|()| gauntlet_store::files::write_durably(&self.path, &bytes))
            .map_err(|cause| GoodMailError::Io { path: self.path.clone(), cause })?;
        self.unwritten = 0;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(author: u32, day: u32) -> GoodSample {
        GoodSample { kind: SampleKind::KnownAuthor, odds: -1.5, author, day }
    }

    #[test]
    fn what_was_written_is_read_and_damage_is_told_whatever_byte_it_hits() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(read(folder.path()).unwrap(), []);
        let mut writer = GoodMailWriter::open(folder.path()).unwrap();
        let all =
            [sample(1, 20_000), GoodSample { kind: SampleKind::Released, ..sample(2, 20_001) }];
        all.into_iter().for_each(|sample| writer.add(sample));
        writer.write().unwrap();
        assert_eq!(read(folder.path()).unwrap(), all);
        let file = path(folder.path());
        let good = std::fs::read(&file).unwrap();
        for at in 0..good.len() {
            assert_eq!(parse(&good[..at]), None, "cut at {at}");
            let mut changed = good.clone();
            changed[at] ^= 1;
            assert_eq!(parse(&changed), None, "changed at {at}");
        }
        std::fs::write(&file, vec![0; 1 << 20]).unwrap();
        assert!(matches!(read(folder.path()), Err(GoodMailError::Damaged(_))));
        let mut anew = GoodMailWriter::empty(folder.path());
        anew.add(all[0]);
        anew.write().unwrap();
        assert_eq!(read(folder.path()).unwrap(), all[..1]);
    }

    #[test]
    fn an_author_crowds_out_nobody_else_and_old_samples_go() {
        let folder = tempfile::tempdir().unwrap();
        let mut writer = GoodMailWriter::empty(folder.path());
        writer.add(sample(7, 20_000));
        (0..1_000).for_each(|_| writer.add(sample(1, 20_010)));
        assert_eq!(writer.samples.len(), 1 + AUTHOR_DAY_SAMPLES_MAX);
        (0..1_000).for_each(|i| writer.add(sample(1, 20_010 + i % 20)));
        assert_eq!(writer.samples.len(), 1 + AUTHOR_SAMPLES_MAX);
        (0..10_000).for_each(|i| writer.add(sample(100 + i, 20_010)));
        assert_eq!(writer.samples.len(), SAMPLES_MAX);
        writer.add(sample(1, 20_010 + DAYS_MAX + 1));
        assert_eq!(writer.samples.len(), 1);
    }

    #[test]
    fn a_tenth_is_new_before_it_is_written() {
        let folder = tempfile::tempdir().unwrap();
        let mut writer = GoodMailWriter::empty(folder.path());
        let mut writes = 0;
        for i in 0..1_000 {
            writer.add(sample(i, 20_000));
            if writer.is_due() {
                writer.write().unwrap();
                writes += 1;
            }
        }
        assert!(writes < 70, "{writes}");
    }
}
