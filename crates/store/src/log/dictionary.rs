//! Compression dictionaries: what the records of a day have in common, so that each takes little
//! space.
//!
//! Rule names and descriptions, hosts, replies of next hops: they differ between nodes and hardly
//! between messages. So a dictionary is trained on the first records of the day, on a thread of its
//! own, and stored in the day's file. A new day begins with the dictionary of the day before.

use std::thread::JoinHandle;

use rusqlite::{Connection, OptionalExtension, params};
use zstd_safe::CDict;

/// Records that a dictionary is trained on.
const SAMPLES: usize = 512;
/// Most bytes of records that a dictionary is trained on.
const SAMPLE_BYTES_MAX: usize = 4 << 20;
/// Largest dictionary, in bytes.
const DICTIONARY_BYTES_MAX: usize = 16 << 10;
/// Most dictionaries of a day; a frame stores the id of its dictionary in one byte.
const DICTIONARIES_MAX: u32 = 255;
/// Compression level of Zstandard: below 1 it leaves literals uncompressed. The dictionary saves
/// most of the space.
const LEVEL: i32 = -1;
/// Position of the dictionary id (RFC 8878, section 5).
const NUMBER_AT: std::ops::Range<usize> = 4..8;

/// A dictionary, prepared for compression.
pub(crate) struct Dictionary {
    number: u32,
    encoder: CDict<'static>,
}

impl std::fmt::Debug for Dictionary {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Dictionary").field("number", &self.number).finish_non_exhaustive()
    }
}

impl Dictionary {
    pub(crate) fn encoder(&self) -> &CDict<'static> {
        &self.encoder
    }

    /// The dictionary that is part of the program; frames that use it store no id.
    pub(crate) fn built_in(words: &[u8]) -> Self {
        Dictionary { number: 0, encoder: zstd_safe::create_cdict(words, LEVEL) }
    }

    /// The newest dictionary of this day.
    pub(crate) fn newest(connection: &Connection) -> rusqlite::Result<Option<Self>> {
        let found = connection.query_row(
            "SELECT number, words FROM dictionary ORDER BY number DESC LIMIT 1",
            [],
            |row| Ok((row.get(0)?, row.get::<_, Vec<u8>>(1)?)),
        );
        let ready = |(number, words): (u32, Vec<u8>)| Dictionary {
            number,
            encoder: zstd_safe::create_cdict(&words, LEVEL),
        };
        Ok(found.optional()?.map(ready))
    }

    /// Stores these bytes as the next dictionary of this day. None if there are
    /// [`DICTIONARIES_MAX`].
    pub(crate) fn save(connection: &Connection, words: &[u8]) -> rusqlite::Result<Option<Self>> {
        let last: u32 =
            connection.query_row("SELECT coalesce(max(number), 0) FROM dictionary", [], |row| {
                row.get(0)
            })?;
        let number = last + 1;
        let mut words = words.to_vec();
        let Some(number_bytes) = words.get_mut(NUMBER_AT).filter(|_| number <= DICTIONARIES_MAX)
        else {
            return Ok(None);
        };
        number_bytes.copy_from_slice(&number.to_le_bytes());
        let mut insert =
            connection.prepare_cached("INSERT INTO dictionary (number, words) VALUES (?1, ?2)")?;
        insert.execute(params![number, words])?;
        Ok(Some(Dictionary { number, encoder: zstd_safe::create_cdict(&words, LEVEL) }))
    }
}

/// The bytes of a dictionary of this day; of the newest if no number is given.
pub(crate) fn load(
    connection: &Connection,
    number: Option<u32>,
) -> rusqlite::Result<Option<Vec<u8>>> {
    let mut find = connection.prepare_cached(
        "SELECT words FROM dictionary WHERE ?1 IS NULL OR number = ?1 ORDER BY number DESC LIMIT 1",
    )?;
    find.query_row([number], |row| row.get(0)).optional()
}

/// Collects records, then trains a dictionary on them.
#[derive(Debug, Default)]
pub(crate) struct Trainer {
    samples: Vec<u8>,
    lengths: Vec<usize>,
    under_way: Option<JoinHandle<Option<Vec<u8>>>>,
    is_done: bool,
}

impl Trainer {
    /// Adds an uncompressed record, while more are needed.
    pub(crate) fn add_sample(&mut self, record: &[u8]) {
        if self.is_done || self.under_way.is_some() {
            return;
        }
        if self.samples.len() + record.len() <= SAMPLE_BYTES_MAX {
            self.samples.extend_from_slice(record);
            self.lengths.push(record.len());
        }
        if self.lengths.len() >= SAMPLES || self.samples.len() + record.len() > SAMPLE_BYTES_MAX {
            let (samples, lengths) =
                (std::mem::take(&mut self.samples), std::mem::take(&mut self.lengths));
            let train = move || train(&samples, &lengths);
            match std::thread::Builder::new().name("log-dictionary".to_owned()).spawn(train) {
                Ok(thread) => self.under_way = Some(thread),
                // Records are compressed anyway, only less.
                Err(error) => {
                    tracing::warn!(%error, "cannot start the thread that trains the log's dictionary");
                }
            }
            self.is_done = true;
        }
    }

    /// The bytes of the trained dictionary, once, when training is finished.
    pub(crate) fn finished(&mut self) -> Option<Vec<u8>> {
        let thread = self.under_way.take_if(|thread| thread.is_finished())?;
        thread.join().ok().flatten()
    }
}

fn train(samples: &[u8], lengths: &[usize]) -> Option<Vec<u8>> {
    let mut words = Vec::with_capacity(DICTIONARY_BYTES_MAX);
    match zstd_safe::train_from_buffer(&mut words, samples, lengths) {
        Ok(_) => Some(words),
        Err(code) => {
            let why = error_name(code);
            tracing::debug!(why, "cannot train a dictionary on these records");
            None
        }
    }
}

/// The name of an error code of Zstandard.
pub(crate) fn error_name(code: usize) -> &'static str {
    zstd_safe::get_error_name(code)
}
