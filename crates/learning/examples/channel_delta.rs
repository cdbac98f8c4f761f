//! What it costs a node to take a small file of signatures over beside a large table, as a channel
//! brings it: time, and memory of the process.
//!
//! `cargo run --release -p gauntlet-learning --example channel_delta -- FOLDER [10000000 [1000]]`

use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Instant;

use gauntlet_engine::random::Random;
use gauntlet_engine::signatures::table::Entry;
use gauntlet_engine::signatures::{Fingerprint, Kind, KnownSignatures};
use gauntlet_learning::signatures::{SignaturesError, open_file, write_file, write_table};

fn entry(random: &mut Random) -> Entry {
    let sketch = std::array::from_fn(|_| random.next_u64() as u16);
    let fingerprint = Fingerprint { kind: Kind::Text, size: 100, sketch };
    Entry { fingerprint, bad: 1, good: 0, day: 20_600 }
}

/// Bytes of memory of the process that no file backs.
fn anonymous_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"));
    let kilobytes = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    kilobytes.unwrap_or_default() * 1024
}

fn known(files: &[&Path]) -> Result<Vec<KnownSignatures>, SignaturesError> {
    let open = |path: &&Path| {
        let (table, entries) = open_file(path)?;
        Ok(KnownSignatures::new(table, &entries, &[], 90))
    };
    files.iter().map(open).collect()
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut out = std::io::stdout();
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let folder = PathBuf::from(arguments.first().map_or(".", String::as_str));
    let number = |at: usize, default| arguments.get(at).map_or(Ok(default), |text| text.parse());
    let (count, few) = (number(1, 10_000_000u32)?, number(2, 1_000u32)?);
    let (table, small) = (folder.join("table"), folder.join("entries"));
    let mut random = Random::new(1);
    let began = Instant::now();
    write_table(&table, (count, 0), &mut (0..count).map(|_| entry(&mut random)))?;
    let bytes = std::fs::metadata(&table)?.len();
    writeln!(out, "a table of {count} entries, {bytes} bytes, made in {:?}", began.elapsed())?;
    let before = known(&[&table])?;
    let entries: Vec<Entry> = (0..few).map(|_| entry(&mut random)).collect();
    write_file(&small, &entries)?;
    let (memory, began) = (anonymous_bytes(), Instant::now());
    let after = known(&[&table, &small])?;
    let took = began.elapsed();
    let more = anonymous_bytes().saturating_sub(memory);
    let held: usize = after.iter().map(KnownSignatures::len).sum();
    writeln!(out, "{few} entries taken over in {took:?}, {more} bytes more, {held} known")?;
    drop(before);
    Ok(())
}
