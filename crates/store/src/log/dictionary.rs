//! A day's own dictionary: what its records have in common, so that each is kept in little room.
//!
//! Rules and what they say of themselves, hosts, phrases of next hops: they differ from place to place and hardly
//! from message to message. So the dictionary is made from the first records of the day, beside the writing and on
//! a thread of its own, and kept in the day's file. A new day begins with the dictionary of the day before.

use std::thread::JoinHandle;

use rusqlite::{Connection, OptionalExtension, params};
use zstd_safe::CDict;

/// Records that a dictionary is made from.
const SAMPLES: usize = 512;
/// Most bytes of records that a dictionary is made from.
const SAMPLE_BYTES_MAX: usize = 4 << 20;
/// Largest dictionary, in bytes.
const DICTIONARY_BYTES_MAX: usize = 16 << 10;
/// Most dictionaries of a day; a frame names its dictionary by one byte.
const DICTIONARIES_MAX: u32 = 255;
/// How hard Zstandard tries: below 1 it leaves single bytes as they are. The dictionary saves most of what there is.
const LEVEL: i32 = -1;
/// Where a dictionary says its number (RFC 8878, section 5).
const NUMBER_AT: std::ops::Range<usize> = 4..8;

/// A dictionary, ready to pack with.
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
    /// What to pack with.
    pub(crate) fn encoder(&self) -> &CDict<'static> {
        &self.encoder
    }

    /// One that is part of the program; frames that are packed against it name none.
    pub(crate) fn of_the_program(words: &[u8]) -> Self {
        Dictionary { number: 0, encoder: zstd_safe::create_cdict(words, LEVEL) }
    }

    /// The newest of this day.
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

    /// Keeps these words as the next dictionary of this day. None if it has as many as there can be.
    pub(crate) fn keep(connection: &Connection, words: &[u8]) -> rusqlite::Result<Option<Self>> {
        let last: u32 =
            connection.query_row("SELECT coalesce(max(number), 0) FROM dictionary", [], |row| {
                row.get(0)
            })?;
        let number = last + 1;
        let mut words = words.to_vec();
        let Some(place) = words.get_mut(NUMBER_AT).filter(|_| number <= DICTIONARIES_MAX) else {
            return Ok(None);
        };
        place.copy_from_slice(&number.to_le_bytes());
        let mut insert =
            connection.prepare_cached("INSERT INTO dictionary (number, words) VALUES (?1, ?2)")?;
        insert.execute(params![number, words])?;
        Ok(Some(Dictionary { number, encoder: zstd_safe::create_cdict(&words, LEVEL) }))
    }
}

/// The words of a dictionary of this day; of the newest if no number is given.
pub(crate) fn words(
    connection: &Connection,
    number: Option<u32>,
) -> rusqlite::Result<Option<Vec<u8>>> {
    let mut find = connection.prepare_cached(
        "SELECT words FROM dictionary WHERE ?1 IS NULL OR number = ?1 ORDER BY number DESC LIMIT 1",
    )?;
    find.query_row([number], |row| row.get(0)).optional()
}

/// Gathers records, then makes a dictionary of them.
#[derive(Debug, Default)]
pub(crate) struct Trainer {
    samples: Vec<u8>,
    lengths: Vec<usize>,
    under_way: Option<JoinHandle<Option<Vec<u8>>>>,
    is_done: bool,
}

impl Trainer {
    /// Takes a record, as it is before it is packed, while some are still missing.
    pub(crate) fn take(&mut self, record: &[u8]) {
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
                // Records are packed all the same, only less tightly.
                Err(error) => tracing::warn!(%error, "no thread for the dictionary of the log"),
            }
            self.is_done = true;
        }
    }

    /// The words of the dictionary, once, when it is made.
    pub(crate) fn made(&mut self) -> Option<Vec<u8>> {
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
            tracing::debug!(why, "these records make no dictionary");
            None
        }
    }
}

/// What a code of Zstandard means.
pub(crate) fn error_name(code: usize) -> &'static str {
    zstd_safe::get_error_name(code)
}
