//! `gauntlet channel diff`: how two versions differ.

use std::collections::BTreeSet;
use std::io::Write;
use std::path::Path;

use anyhow::Context;
use gauntlet_channel::bundle::FileInfo;
use gauntlet_channel::repository::Repository;
use serde_json::json;

/// Files larger than this are compared by their hash alone.
const TEXT_BYTES_MAX: u64 = 16 << 20;

/// What became of a file.
struct Changed<'f> {
    name: &'f str,
    was: Option<&'f FileInfo>,
    is: Option<&'f FileInfo>,
    /// Lines that came and went; none of what is no text.
    lines: Option<(usize, usize)>,
    /// Bytes that a node of the older version fetches for it.
    fetched: u64,
}

pub(super) fn run(path: &Path, (from, to): (u64, u64), json: bool) -> anyhow::Result<()> {
    let channel = Repository::open(path)?;
    let version = |number: u64| {
        let gone = || format!("version {number} is not (or no longer) in {}", path.display());
        channel.version(number).with_context(gone)
    };
    let (old, new) = (version(from)?, version(to)?);
    let names: BTreeSet<&String> = old.targets.keys().chain(new.targets.keys()).collect();
    let mut out = std::io::stdout().lock();
    let mut fetched = 0;
    for name in names {
        let (was, is) = (old.targets.get(name), new.targets.get(name));
        if was.map(FileInfo::sha256) == is.map(FileInfo::sha256) {
            continue;
        }
        let changed = Changed {
            name,
            was,
            is,
            lines: lines(path, name, was, is),
            fetched: is.map_or(0, |file| cheapest(file, was)),
        };
        fetched += changed.fetched;
        print(&mut out, &changed, json)?;
    }
    if !json {
        writeln!(out, "{fetched} bytes are fetched from {from} to {to}, metadata aside")?;
    }
    Ok(())
}

fn print(out: &mut impl Write, changed: &Changed<'_>, json: bool) -> anyhow::Result<()> {
    let length = |file: Option<&FileInfo>| file.map(|file| file.length);
    let (was, is) = (length(changed.was), length(changed.is));
    if json {
        let text = json!({
            "file": changed.name, "was_bytes": was, "is_bytes": is,
            "lines_added": changed.lines.map(|l| l.0), "lines_removed": changed.lines.map(|l| l.1),
            "fetched_bytes": changed.fetched,
        });
        writeln!(out, "{text}")?;
        return Ok(());
    }
    let what = match (was, is) {
        (None, _) => "new    ",
        (_, None) => "gone   ",
        _ => "changed",
    };
    let bytes = is.or(was).unwrap_or_default();
    write!(out, "{what}  {}  {bytes} bytes", changed.name)?;
    if let Some((added, removed)) = changed.lines {
        write!(out, ", +{added} -{removed} lines")?;
    }
    writeln!(out, ", {} fetched", changed.fetched)?;
    Ok(())
}

fn cheapest(file: &FileInfo, was: Option<&FileInfo>) -> u64 {
    let before = was.map(FileInfo::sha256);
    let deltas = file.custom.deltas.iter();
    let usable = deltas.filter(|d| d.from.is_none() || d.from.as_deref() == before);
    usable.map(|delta| delta.length).chain([file.length]).min().unwrap_or_default()
}

/// Lines that only one of the two has, whatever their order.
fn lines(
    channel: &Path,
    name: &str,
    was: Option<&FileInfo>,
    is: Option<&FileInfo>,
) -> Option<(usize, usize)> {
    let text = |file: Option<&FileInfo>| match file {
        None => Some(String::new()),
        Some(file) if file.length > TEXT_BYTES_MAX => None,
        Some(file) => std::fs::read_to_string(channel.join(file.path(name))).ok(),
    };
    let (was, is) = (text(was)?, text(is)?);
    let (old, new): (BTreeSet<&str>, BTreeSet<&str>) =
        (was.lines().collect(), is.lines().collect());
    Some((new.difference(&old).count(), old.difference(&new).count()))
}
