//! Keys that root reads at the start and that `node.user` cannot read again.

use std::path::PathBuf;

use crate::config::Config;
use crate::privileges;

/// Warnings about the keys outside the data folder that `node.user` cannot read, one a file: a
/// reload or a new certificate would fail. None if the caller is not root, who alone can find out.
///
/// # Errors
/// The system's.
pub fn unreadable_keys(config: &Config) -> std::io::Result<Vec<String>> {
    let Some(account) = privileges::to_become(config)? else { return Ok(Vec::new()) };
    let mut keys: Vec<PathBuf> =
        config.listener.iter().flat_map(|listener| listener.key.iter().cloned()).collect();
    let dkim = config.node.inside(&config.dkim.keys);
    keys.extend(files_below(&dkim, DKIM_DEPTH));
    let _acting = account.act()?;
    let denied = |path: &PathBuf| {
        let opened = std::fs::File::open(path);
        opened.is_err_and(|e| e.kind() == std::io::ErrorKind::PermissionDenied)
    };
    let user = &config.node.user;
    let warning = |path: PathBuf| {
        let file = path.display();
        format!(
            "{file}: node.user {user} cannot read this key: it is used since root read it at the start, but a \
             later reload fails; `chgrp GROUP {file} && chmod g+r {file}` with a group of {user}, the same for \
             folders above that it cannot enter, or restart the node instead of reloading it"
        )
    };
    Ok(keys.into_iter().filter(denied).map(warning).collect())
}

/// Keys of DKIM are in a folder a domain.
const DKIM_DEPTH: usize = 2;

fn files_below(folder: &std::path::Path, depth: usize) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let mut found = Vec::new();
    let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    paths.sort();
    for path in paths {
        match path.symlink_metadata() {
            Ok(seen) if seen.is_dir() && depth > 1 => found.extend(files_below(&path, depth - 1)),
            Ok(seen) if seen.is_file() => found.push(path),
            _ => {}
        }
    }
    found
}
