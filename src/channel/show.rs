//! `gauntlet channel show` and `verify`.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;

use anyhow::Context;
use gauntlet_channel::bundle::Kind;
use gauntlet_channel::generations::Generations;
use gauntlet_channel::instant;
use gauntlet_channel::metadata::Targets;
use gauntlet_channel::repository::Repository;
use gauntlet_channel::subscription::read_state;
use serde_json::json;

use super::content::{Content, Known};
use super::follow::{folder, names};
use super::publish::tempfile_folder;
use super::trial::{Report, read_report};
use super::{now_s, self_test};
use crate::messages::visible;
use crate::node_args::NodeArgs;

/// Messages of a trial that are listed.
const CHANGES_SHOWN_MAX: usize = 20;

pub(super) fn verify(path: &Path) -> anyhow::Result<()> {
    let channel = Repository::open(path)?;
    channel.verify(now_s())?;
    // The files under their names, as a node has them.
    let derived = tempfile_folder()?;
    let files = derived.path().join("files");
    for (name, file) in &channel.targets().targets {
        let to = files.join(name);
        std::fs::create_dir_all(to.parent().unwrap_or(&files))?;
        std::fs::copy(path.join(file.path(name)), &to).with_context(|| name.clone())?;
    }
    std::fs::create_dir_all(&files)?;
    let version = channel.targets().version;
    let content = Content::load("verified", version, (&files, derived.path()), Known::default())?;
    self_test::run(&content)?;
    let files = channel.targets().targets.len();
    let mut out = std::io::stdout().lock();
    writeln!(out, "version {version}: signatures, {files} files and their deltas are good")?;
    Ok(())
}

pub(super) fn channel(path: &Path, json: bool) -> anyhow::Result<()> {
    let channel = Repository::open(path)?;
    let (targets, root) = (channel.targets(), channel.root());
    let trusted = channel.trusted(now_s());
    let mut out = std::io::stdout().lock();
    if json {
        let files: BTreeMap<_, _> = targets.targets.iter().map(|(n, f)| (n, f.length)).collect();
        let text = json!({
            "version": targets.version, "root": root.version, "note": targets.bundle.note,
            "published": targets.bundle.published, "requires": targets.bundle.requires,
            "files": files, "problem": trusted.err().map(|e| e.to_string()),
        });
        writeln!(out, "{text}")?;
        return Ok(());
    }
    writeln!(out, "version    {}, published {}", targets.version, targets.bundle.published)?;
    if !targets.bundle.note.is_empty() {
        writeln!(out, "note       {}", targets.bundle.note)?;
    }
    writeln!(out, "root       {}, expires {}", root.version, root.expires)?;
    match trusted {
        Ok(trusted) => {
            let expires = trusted.timestamp().map_or("", |timestamp| timestamp.expires.as_str());
            writeln!(out, "timestamp  expires {expires}")?;
        }
        Err(error) => writeln!(out, "PROBLEM    {error}")?,
    }
    for (kind, count, bytes) in sums(targets) {
        writeln!(out, "{kind:<13} {count:>5} files {bytes:>12} bytes")?;
    }
    Ok(())
}

/// Files and bytes by kind.
fn sums(targets: &Targets) -> Vec<(&'static str, usize, u64)> {
    let mut all: BTreeMap<&'static str, (usize, u64)> = BTreeMap::new();
    for (name, file) in &targets.targets {
        let sum = all.entry(Kind::of(name).map_or("unknown", Kind::folder)).or_default();
        *sum = (sum.0 + 1, sum.1 + file.length);
    }
    all.into_iter().map(|(kind, (count, bytes))| (kind, count, bytes)).collect()
}

pub(super) fn subscriptions(node: &NodeArgs, json: bool) -> anyhow::Result<()> {
    let config = node.load_existing()?;
    let mut out = std::io::stdout().lock();
    for name in names(&config)? {
        let folder = folder(&config, &name);
        let (state, generations) = (read_state(&folder), Generations::read(&folder));
        let (current, versions) = (generations.current(), generations.versions());
        if json {
            let text = json!({
                "name": name, "url": gauntlet_gateway::config::mask(&state.url),
                "version": current, "versions": versions, "pinned": state.pinned,
                "approved": state.approved, "rejected": state.rejected, "asked": instant::format(state.asked_s),
                "next": instant::format(state.next_s), "failures": state.failures,
                "error": state.error, "trial": read_report(&folder),
            });
            writeln!(out, "{text}")?;
            continue;
        }
        let in_force = current.map_or("none".to_owned(), |version| version.to_string());
        writeln!(
            out,
            "{name}: version {in_force} of {}",
            gauntlet_gateway::config::mask(&state.url)
        )?;
        let all: Vec<String> = versions.iter().map(u64::to_string).collect();
        writeln!(out, "  on disk   {}", all.join(", "))?;
        writeln!(out, "  asked     {}", instant::format(state.asked_s))?;
        if let Some(version) = state.pinned {
            writeln!(out, "  pinned    to {version}")?;
        }
        if let Some(version) = state.approved.filter(|approved| Some(*approved) > current) {
            writeln!(out, "  approved  {version}: judges without being tried")?;
        }
        for (version, why) in &state.rejected {
            writeln!(out, "  rejected  {version}: {why}")?;
        }
        if let Some(trial) = read_report(&folder).filter(|t| Some(t.version) > current) {
            print_trial(&mut out, &trial)?;
        }
        if !state.error.is_empty() {
            writeln!(out, "  PROBLEM   {} times since: {}", state.failures, state.error)?;
        }
    }
    Ok(())
}

/// A version that is tried in the shadow, and what would change by it.
fn print_trial(out: &mut impl Write, trial: &Report) -> anyhow::Result<()> {
    let Report { version, until_s, held, comparison } = trial;
    let until = instant::format(*until_s);
    writeln!(out, "  tried     {version} until {until}: {} messages by both", comparison.messages)?;
    for (transition, count) in &comparison.transitions {
        writeln!(out, "            {count:>6} {transition}")?;
    }
    let pages = &comparison.pages;
    if pages.compared > 0 {
        let (compared, anew, passes) = (pages.compared, pages.blocked_anew, pages.passes_anew);
        let text = format!("{compared} pages by both: {anew} blocked anew, {passes} pass anew");
        writeln!(out, "            {text}")?;
        for (phrase, count) in &pages.phrases {
            writeln!(out, "            {count:>6} blocked anew with {:?}", visible(phrase))?;
        }
    }
    if let Some(why) = held {
        writeln!(out, "  HELD      {why}: `gauntlet channel promote` or `reject`")?;
    }
    for changed in comparison.changes.iter().take(CHANGES_SHOWN_MAX) {
        let (from, subject) = (visible(&changed.from), visible(&changed.subject));
        let (was, is, rules) = (changed.was, changed.is, changed.rules.join(" "));
        writeln!(out, "            {} {was} -> {is}  {from}  {subject}  {rules}", changed.id)?;
    }
    Ok(())
}
