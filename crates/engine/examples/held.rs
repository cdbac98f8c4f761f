//! Which defects make messages unscannable, and how often: `held FILE...` (or file names on
//! standard input). For measuring how much good mail each limit holds.

use std::collections::BTreeMap;
use std::io::{BufRead, Write};

use gauntlet_engine::unscannable;
use gauntlet_mail::Message;

fn main() -> std::io::Result<()> {
    let mut files: Vec<String> = std::env::args().skip(1).collect();
    if files.is_empty() {
        files = std::io::stdin().lock().lines().collect::<Result<_, _>>()?;
    }
    let mut kinds: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut held = 0;
    for file in &files {
        let raw = std::fs::read(file)?;
        let mut names: Vec<String> = Message::parse(&raw)
            .defects()
            .iter()
            .filter(|d| unscannable::reason(d.kind).is_some())
            .map(|d| d.kind.name())
            .collect();
        names.dedup();
        held += usize::from(!names.is_empty());
        for name in names {
            kinds.entry(name).or_default().push(file.clone());
        }
    }
    let mut out = std::io::stdout().lock();
    writeln!(out, "{held} of {} messages are unscannable", files.len())?;
    for (kind, files) in kinds {
        writeln!(
            out,
            "{:6} {kind}: {}",
            files.len(),
            files.iter().take(5).cloned().collect::<Vec<_>>().join(" ")
        )?;
    }
    Ok(())
}
