//! How large a table of known fingerprints is, and how long making, opening and asking it takes, as
//! the node does it: the table in its file, memory-mapped.
//!
//! ```text
//! cargo run --release -p gauntlet-store --example signatures_at_scale -- [ENTRIES] [FOLDER]
//! ```
//!
//! 10,000,000 entries by default: 1.3 GB on disk in FOLDER (the system's folder for temporary
//! files by default), removed at the end, and as much memory to keep its pages at hand.

use std::error::Error;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Instant;

use gauntlet_engine::random::{Random, mix};
use gauntlet_engine::signatures::KnownSignatures;
use gauntlet_engine::signatures::fingerprint::{Fingerprint, Found, Kind};
use gauntlet_engine::signatures::table::Entry;
use gauntlet_learning::signatures::{FOLDER_NAME, TABLE_NAME, load, write_table};

/// Lookups of each kind.
const LOOKUPS: u32 = 200_000;
/// Values of a known sketch that are changed before it is looked up: a resemblance of 92 %.
const CHANGED: usize = 2;
/// The day that everything was seen on, from 1970, and on which it is looked up.
const DAY: u16 = 20_000;

/// The text of this number.
fn text(number: u64) -> Fingerprint {
    let mut random = Random::new(mix(number));
    let sketch = std::array::from_fn(|_| random.next_u64() as u16);
    Fingerprint { kind: Kind::Text, size: 100, sketch }
}

/// The same with [`CHANGED`] values changed, each time others.
fn changed(mut fingerprint: Fingerprint, random: &mut Random) -> Fingerprint {
    let length = fingerprint.sketch.len();
    let first = random.below(length as u32) as usize;
    for step in 0..CHANGED {
        fingerprint.sketch[(first + step * (length / CHANGED)) % length] ^= 1;
    }
    fingerprint
}

/// Looks them all up; how many were found, and microseconds for each.
fn ask(known: &KnownSignatures, wanted: &[Fingerprint]) -> (usize, f64) {
    let began = Instant::now();
    let is_found = |fingerprint: &&Fingerprint| {
        !known.resembles(&[Found { fingerprint: **fingerprint, part: 0 }], DAY).is_empty()
    };
    let found = wanted.iter().filter(is_found).count();
    (found, began.elapsed().as_secs_f64() * 1e6 / wanted.len() as f64)
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let entries: u32 = args.next().map_or(Ok(10_000_000), |n| n.parse())?;
    let parent = args.next().map_or_else(std::env::temp_dir, PathBuf::from);
    let data = parent.join(format!("signatures-at-scale-{}", std::process::id()));
    let result = measure(&data, entries);
    // Also after an error: a gigabyte is not left behind.
    let _ = std::fs::remove_dir_all(&data);
    result
}

fn measure(data: &Path, entries: u32) -> Result<(), Box<dyn Error>> {
    let folder = data.join(FOLDER_NAME);
    std::fs::create_dir_all(&folder)?;
    let path = folder.join(TABLE_NAME);
    let began = Instant::now();
    let entry = |n| Entry { fingerprint: text(n), bad: 1, good: 0, day: DAY };
    write_table(&path, (entries, 1), &mut (0..u64::from(entries)).map(entry))?;
    let built = began.elapsed().as_secs_f64();
    let bytes = std::fs::metadata(&path)?.len();

    let began = Instant::now();
    let (table, journal) = load(data)?;
    let opened = began.elapsed().as_secs_f64() * 1e3;
    let known = KnownSignatures::new(table, &journal, &[], 90);

    let mut random = Random::new(1);
    let any = |random: &mut Random| u64::from(random.below(entries.max(1)));
    let like: Vec<_> = (0..LOOKUPS)
        .map(|_| {
            let number = any(&mut random);
            changed(text(number), &mut random)
        })
        .collect();
    let unlike: Vec<_> = (0..LOOKUPS).map(|n| text(u64::MAX - u64::from(n))).collect();
    let mut out = std::io::stdout().lock();
    writeln!(
        out,
        "entries      {entries}, {bytes} bytes, {:.0} an entry",
        bytes as f64 / f64::from(entries.max(1))
    )?;
    writeln!(out, "built        {built:.1} s, flushed to the disk")?;
    writeln!(out, "opened       {opened:.3} ms")?;
    for (name, wanted) in [("known", &like), ("unknown", &unlike)] {
        // Once to bring the pages into memory.
        ask(&known, wanted);
        let (found, micros) = ask(&known, wanted);
        writeln!(out, "{name:12} {micros:.2} us a lookup, {found} of {LOOKUPS} found")?;
    }
    Ok(())
}
