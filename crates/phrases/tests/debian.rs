//! The lists of Debian's package e2guardian, as they are.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use gauntlet_phrases::list::fetch;
use gauntlet_phrases::{Count, Form, PhraseSet, ProblemKind, Reader, Role, ScoreOptions};

const FOLDER: &str = "/etc/e2guardian/lists";

fn is_there() -> bool {
    let is_there = Path::new(FOLDER).join("phraselists").is_dir();
    if !is_there {
        assert!(std::env::var_os("CI").is_none(), "e2guardian's lists are missing");
        eprintln!("SKIPPED: the package e2guardian is not installed");
    }
    is_there
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap().flatten() {
        match entry.path().is_dir() {
            true => found.extend(files(&entry.path())),
            false => found.push(entry.path()),
        }
    }
    found.sort();
    found
}

#[test]
fn every_list_is_understood_but_for_broken_lines() {
    if !is_there() {
        return;
    }
    let mut reader = Reader::new(&fetch);
    for file in files(&Path::new(FOLDER).join("phraselists")) {
        reader.read(&file, Role::of_name(&file));
    }
    let lists = reader.finish();
    let phrases: u64 = lists.files.iter().map(|file| file.phrases).sum();
    let not_read: Vec<_> =
        lists.problems.kept.iter().filter(|problem| !problem.kind.is_note()).collect();
    for problem in &not_read {
        eprintln!("{problem}");
    }
    let share = 100.0 * phrases as f64 / (phrases + lists.problems.not_read) as f64;
    eprintln!(
        "{} files, {phrases} lines with phrases, {} not understood: {share:.2} % understood",
        lists.files.len(),
        lists.problems.not_read
    );
    assert!(lists.files.len() > 100 && phrases > 9_000, "{phrases}");
    assert!(share > 99.5, "{share}");
    // Each is broken in the list itself: a bracket or a comma is missing.
    for problem in &not_read {
        let is_broken = matches!(
            problem.kind,
            ProblemKind::Bracket | ProblemKind::NoComma | ProblemKind::Charset(_)
        );
        assert!(is_broken, "{problem}");
    }
    let set = PhraseSet::compile(&lists).unwrap();
    eprintln!("{} phrases, {} bytes of automaton", set.len(), set.memory_bytes());
}

#[test]
fn the_default_lists_judge_pages() {
    if !is_there() {
        return;
    }
    let mut reader = Reader::new(&fetch);
    for name in ["weightedphraselist", "bannedphraselist", "exceptionphraselist"] {
        let file = Path::new(FOLDER).join(name);
        reader.read(&file, Role::of_name(&file));
    }
    let lists = reader.finish();
    assert!(lists.files.len() > 30, "includes are followed: {}", lists.files.len());
    let set = Arc::new(PhraseSet::compile(&lists).unwrap());
    let options = ScoreOptions { limit: 100, count: Count::Once };
    let page = "<html><title>Recipes</title><p>Bake the bread for an hour, then let it cool.";
    assert!(!set.score(page, Form::Html, &options).blocks());
    let page = "<title>Free porn</title><p>hardcore porn videos, xxx sex pics, pussy, blowjob";
    let score = set.score(page, Form::Html, &options);
    assert!(score.blocks(), "{score:?}");
    assert!(score.categories().iter().any(|(name, _)| name.contains("Pornography")), "{score:?}");
}
