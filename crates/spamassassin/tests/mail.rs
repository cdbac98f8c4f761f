//! Real mail for tests, if there is any.

use std::path::{Path, PathBuf};

/// At most so many messages, evenly spread, of the folder that `GAUNTLET_CORPUS` names; none
/// without it.
pub(crate) fn of_the_corpus(messages_max: usize) -> Vec<Vec<u8>> {
    let Some(corpus) = std::env::var_os("GAUNTLET_CORPUS") else {
        eprintln!("without mail: GAUNTLET_CORPUS is not set");
        return Vec::new();
    };
    let mut paths = Vec::new();
    files(&Path::new(&corpus).join("dev"), &mut paths);
    paths.sort();
    let step = paths.len().div_ceil(messages_max).max(1);
    paths.iter().step_by(step).filter_map(|path| std::fs::read(path).ok()).collect()
}

fn files(folder: &Path, out: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            files(&path, out);
        } else {
            out.push(path);
        }
    }
}
