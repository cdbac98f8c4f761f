//! Filters that are run as commands over many files: their own loading is part of what they cost.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, bail};

use super::server::{program, version};
use super::{Contest, Entry, HeldOut, Judged, OTHER_BUILD, Options, Peer};
use crate::load::trial::Estimate;
use crate::load::{Corpus, Label};
use crate::usage;

/// Messages that bogofilter learns before it is measured, of each label.
const LEARNED_MAX: usize = 2_000;

/// Messages as files, in the order of the corpus.
struct Files {
    _folder: tempfile::TempDir,
    paths: Vec<PathBuf>,
}

impl Files {
    fn write(corpus: &Corpus) -> anyhow::Result<Self> {
        let folder = tempfile::tempdir().context("cannot make a folder for messages")?;
        let mut paths = Vec::with_capacity(corpus.items.len());
        for (number, item) in corpus.items.iter().enumerate() {
            let path = folder.path().join(format!("{number:07}.eml"));
            std::fs::write(&path, &item.raw)
                .with_context(|| format!("cannot write {}", path.display()))?;
            paths.push(path);
        }
        Ok(Files { _folder: folder, paths })
    }

    /// Every second one from `first` on with that label.
    fn half(&self, corpus: &Corpus, first: usize, label: Label) -> Vec<&Path> {
        let pairs = self.paths.iter().zip(&corpus.items).skip(first).step_by(2);
        pairs.filter(|(_, item)| item.label == label).map(|(path, _)| path.as_path()).collect()
    }
}

/// What a command took.
struct Took {
    seconds: f64,
    cpu: f64,
    out: String,
}

/// Runs a command over a list of files on its standard input.
fn batch(command: &mut Command, paths: &[&Path]) -> anyhow::Result<Took> {
    let list: Vec<u8> =
        paths.iter().flat_map(|p| [p.as_os_str().as_encoded_bytes(), b"\n"].concat()).collect();
    let (start, before) = (Instant::now(), usage::children_cpu_seconds());
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .with_context(|| format!("cannot start {:?}", command.get_program()))?;
    let input = child.stdin.take();
    let writer = std::thread::spawn(move || {
        // A command that does not read to the end says so itself.
        let _ = input.map(|mut input| input.write_all(&list));
    });
    let output = child.wait_with_output()?;
    // It cannot panic.
    let _ = writer.join();
    // Exit codes of filters are verdicts; a filter that says nothing has failed.
    if output.stdout.is_empty() && !output.status.success() {
        bail!(
            "{:?}: {}: {}",
            command.get_program(),
            output.status,
            String::from_utf8_lossy(&output.stderr).trim()
        );
    }
    Ok(Took {
        seconds: start.elapsed().as_secs_f64(),
        cpu: usage::children_cpu_seconds() - before,
        out: String::from_utf8_lossy(&output.stdout).into_owned(),
    })
}

/// A batch job: `gauntlet scan` and `bogofilter` over the same files.
///
/// # Errors
/// bogofilter is not installed, or a command fails.
pub(super) fn contest(
    options: &Options,
    corpus: &Corpus,
    held_out: Option<&HeldOut>,
    progress: &mut dyn FnMut(&str),
) -> anyhow::Result<Contest> {
    let bogofilter = program("bogofilter", "bogofilter")?;
    let lists = tempfile::tempdir().context("cannot make a folder for bogofilter")?;
    let theirs = || {
        let mut command = Command::new(&bogofilter);
        command.arg("-d").arg(lists.path());
        command
    };
    // What it learns from must be labelled: the unseen mail's first half, else the workload's.
    let school = held_out.map_or(corpus, |held_out| &held_out.corpus);
    let school_files = Files::write(school)?;
    let learned = learn(&theirs, school, &school_files)?;
    let scan = |program: &Path| {
        let mut command = Command::new(program);
        command.args(["scan", "--json", "--threads", "1", "--files-from", "-"]);
        command
    };
    let ours = || scan(&options.program);
    let files = Files::write(corpus)?;
    let paths: Vec<&Path> = files.paths.iter().map(PathBuf::as_path).collect();
    let mut rounds: [Vec<Took>; 3] = Default::default();
    for _ in 0..options.rounds {
        let commands = [Some(ours()), options.beside.as_deref().map(scan), Some(bulk(theirs()))];
        for (rounds, command) in rounds.iter_mut().zip(commands) {
            let Some(mut command) = command else { continue };
            let took = batch(&mut command, &paths)?;
            progress(&format!(
                "{:?}: {:.0} messages/s",
                command.get_program(),
                paths.len() as f64 / took.seconds
            ));
            rounds.push(took);
        }
    }
    let [mine, other, peers] = rounds;
    let mut entries = vec![
        entry("gauntlet scan", options.version.clone(), &mine, Some(&peers), paths.len())?,
        entry("bogofilter", version(&bogofilter, "-V"), &peers, None, paths.len())?,
    ];
    entries[0].notes = vec!["one thread, rules and classifier".to_owned()];
    entries[1].notes = vec![format!("learned from {}", learned.join(" and "))];
    if let Some(program) = &options.beside {
        let version = version(program, "--version");
        let other = entry(OTHER_BUILD, version, &other, Some(&peers), paths.len())?;
        entries.insert(1, other);
    }
    if let Some(held_out) = held_out {
        // `scan` has the shipped model alone.
        let ours = options.model.is_none().then(ours);
        judge_both(&mut entries, ours, bulk(theirs()), &school_files, &held_out.corpus)?;
    }
    Ok(Contest {
        peer: Peer::Bogofilter,
        job: "judge a batch of files, loading included".to_owned(),
        connections: 0,
        ceiling: None,
        entries,
    })
}

/// Has us and bogofilter judge the half of the labelled mail that was no school.
fn judge_both(
    entries: &mut [Entry],
    ours: Option<Command>,
    mut theirs: Command,
    files: &Files,
    corpus: &Corpus,
) -> anyhow::Result<()> {
    let half = |label| files.half(corpus, 1, label).into_iter().map(move |path| (path, label));
    let exam: Vec<(&Path, Label)> = [Label::Spam, Label::Ham].into_iter().flat_map(half).collect();
    if let (Some(mut ours), Some(entry)) = (ours, entries.first_mut()) {
        entry.judged = Some(judged(&mut ours, &exam, is_spam_by_us)?);
    }
    if let Some(entry) = entries.last_mut() {
        entry.judged = Some(judged(&mut theirs, &exam, is_spam_by_bogofilter)?);
        let note = "half of the labelled mail was its school, the rest was judged";
        entry.notes.push(note.to_owned());
    }
    Ok(())
}

/// Lets bogofilter learn from every second message; what it learned from.
fn learn(
    theirs: &dyn Fn() -> Command,
    school: &Corpus,
    files: &Files,
) -> anyhow::Result<Vec<String>> {
    let mut learned = Vec::new();
    for (label, option) in [(Label::Spam, "-s"), (Label::Ham, "-n")] {
        let mut paths = files.half(school, 0, label);
        paths.truncate(LEARNED_MAX);
        if paths.is_empty() {
            bail!("bogofilter has to learn first, and no message is labelled {}", label.name());
        }
        batch(theirs().args([option, "-b"]), &paths)?;
        learned.push(format!("{} {}", paths.len(), label.name()));
    }
    Ok(learned)
}

/// One short line for each file that standard input names.
fn bulk(mut command: Command) -> Command {
    command.args(["-T", "-b"]);
    command
}

fn entry(
    name: &str,
    version: String,
    rounds: &[Took],
    theirs: Option<&[Took]>,
    messages: usize,
) -> anyhow::Result<Entry> {
    let messages = messages as f64;
    let of = |value: fn(&Took) -> f64| rounds.iter().map(value).collect::<Vec<f64>>();
    let ratio = |value: fn(&Took) -> f64| {
        let pairs = rounds.iter().zip(theirs?).map(|(a, b)| (value(b), value(a)));
        Estimate::ratio(&pairs.collect::<Vec<_>>())
    };
    let rates: Vec<f64> = of(|t| t.seconds).iter().map(|s| messages / s).collect();
    let cpu: Vec<f64> = of(|t| t.cpu).iter().map(|s| s * 1e6 / messages).collect();
    Ok(Entry {
        name: name.to_owned(),
        version,
        notes: Vec::new(),
        messages_per_second: Estimate::of(&rates).context("no run was counted")?,
        cpu_us_per_message: Estimate::of(&cpu),
        shares: None,
        memory_bytes: None,
        latency: None,
        peer_cpu_ratio: ratio(|t| t.cpu),
        rate_over_peer: ratio(|t| t.seconds),
        invalid: Vec::new(),
        judged: None,
    })
}

fn judged(
    command: &mut Command,
    exam: &[(&Path, Label)],
    is_spam: fn(&str) -> Option<(String, bool)>,
) -> anyhow::Result<Judged> {
    let paths: Vec<&Path> = exam.iter().map(|(path, _)| *path).collect();
    let took = batch(command, &paths)?;
    let verdicts: BTreeMap<String, bool> = took.out.lines().filter_map(is_spam).collect();
    let mut judged = Judged::default();
    for (path, label) in exam {
        let name = path.display().to_string();
        let Some(spam) = verdicts.get(&name) else { bail!("no verdict on {name}") };
        judged.add(*label, *spam, 1);
    }
    Ok(judged)
}

/// A line of `gauntlet scan --json`.
fn is_spam_by_us(line: &str) -> Option<(String, bool)> {
    #[derive(serde::Deserialize)]
    struct Line {
        file: String,
        class: String,
    }
    let line: Line = serde_json::from_str(line).ok()?;
    Some((line.file, !matches!(line.class.as_str(), "ham" | "bulk" | "suspect")))
}

/// `path S 0.99`: S is spam, H ham, U unsure.
fn is_spam_by_bogofilter(line: &str) -> Option<(String, bool)> {
    let mut words = line.rsplitn(3, ' ');
    let (_score, class, path) = (words.next()?, words.next()?, words.next()?);
    Some((path.to_owned(), class == "S"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verdicts_of_lines() {
        let spam = |path: &str, spam| Some((path.to_owned(), spam));
        assert_eq!(is_spam_by_bogofilter("/a b/c.eml S 0.99"), spam("/a b/c.eml", true));
        assert_eq!(is_spam_by_bogofilter("x U 0.5"), spam("x", false));
        assert_eq!(is_spam_by_bogofilter("x"), None);
        let line = r#"{"file":"a.eml","class":"spam","score":1.0}"#;
        assert_eq!(is_spam_by_us(line), spam("a.eml", true));
        assert_eq!(is_spam_by_us(&line.replace("\"spam\"", "\"suspect\"")), spam("a.eml", false));
        assert_eq!(is_spam_by_us("{}"), None);
    }
}
