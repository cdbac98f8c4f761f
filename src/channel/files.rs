//! Files of a version that are read by their path: phrases, YARA rules, lists of hashes. Each is
//! read as whoever uses it reads it, and a fault in one is a fault of the version. None may name
//! another file: a publisher has no business with the files of a node.

use std::io;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail, ensure};
use gauntlet_content::engines::hash_list::HashList;
use gauntlet_content::engines::yara::Yara;
use gauntlet_phrases::list::fetch;
use gauntlet_phrases::{PhraseSet, Reader, Role};

/// Bytes of a file.
const BYTES_MAX: u64 = 64 << 20;

/// Reads them.
///
/// # Errors
/// The first file that cannot be used.
pub(super) fn check(
    phrases: &[PathBuf],
    yara: &[PathBuf],
    hashes: &[PathBuf],
) -> anyhow::Result<()> {
    for path in phrases.iter().chain(yara).chain(hashes) {
        let bytes = std::fs::metadata(path)?.len();
        ensure!(bytes <= BYTES_MAX, "{}: {bytes} bytes, at most {BYTES_MAX}", name(path));
    }
    check_phrases(phrases)?;
    check_yara(yara)?;
    for path in hashes {
        let (_, report) = HashList::load(path).with_context(|| format!("hashes/{}", name(path)))?;
        if let Some((line, problem)) = report.problems.first() {
            bail!("hashes/{}, line {line}: {problem}", name(path));
        }
    }
    Ok(())
}

fn name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

fn check_phrases(paths: &[PathBuf]) -> anyhow::Result<()> {
    if paths.is_empty() {
        return Ok(());
    }
    let named = |path: &Path| match paths.iter().any(|known| known == path) {
        true => fetch(path),
        false => Err(io::Error::other("lists of a channel include no other file")),
    };
    let mut reader = Reader::new(&named);
    paths.iter().for_each(|path| reader.read(path, Role::of_name(path)));
    let lists = reader.finish();
    if let Some(problem) = lists.problems.kept.iter().find(|problem| !problem.kind.is_note()) {
        bail!("phrases/: {problem}");
    }
    let set = PhraseSet::compile(&lists).context("phrases/")?;
    ensure!(!set.is_empty(), "phrases/: no phrase in it");
    Ok(())
}

fn check_yara(paths: &[PathBuf]) -> anyhow::Result<()> {
    if paths.is_empty() {
        return Ok(());
    }
    for path in paths {
        let text = std::fs::read(path).with_context(|| format!("yara/{}", name(path)))?;
        let text = String::from_utf8_lossy(&text);
        let includes = |line: &&str| line.trim_start().starts_with("include");
        if let Some(line) = text.lines().find(includes) {
            bail!("yara/{}: rules of a channel include no other file: {line:.80}", name(path));
        }
    }
    let (_, report) = Yara::load(paths).context("yara/")?;
    if let Some(problem) = report.problems.first() {
        bail!("yara/{}, line {}: {}", name(&problem.path), problem.line, problem.text);
    }
    ensure!(report.rules > 0, "yara/: no rule in {} files", report.files);
    Ok(())
}
