//! Everything in a configuration file that this version does not take, not only the first of it.
//!
//! A mistake is found, its line taken out, and the rest read again: each is told by itself, in the
//! order of the file.

use std::path::Path;

use serde::Serialize;

use super::error::ConfigError;
use super::load::Loaded;

/// Mistakes that are told of one file.
const FAULTS_MAX: usize = 50;

/// Settings that earlier builds had, and what is in their place.
const MOVED: &[(&str, &str, &str)] = &[(
    "domains",
    "recipients",
    "it is [recipients] now: `known`, `file`, `sqlite` or `probe` say where addresses come from",
)];

/// A mistake in a configuration file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Fault {
    /// Its line, from 1; 0 if it is no line's.
    pub line: usize,
    /// The setting, as far as it is known: `section.key`.
    pub setting: Option<String>,
    /// What is wrong and what to do.
    pub message: String,
}

/// The mistakes in a configuration file; none if it can be used.
///
/// # Errors
/// If it cannot be read.
pub fn faults<I>(path: &Path, environment: &I) -> Result<Vec<Fault>, ConfigError>
where
    I: IntoIterator<Item = (String, String)> + Clone,
{
    let read = std::fs::read_to_string(path);
    let mut text = read.map_err(|e| ConfigError::Read {
        path: path.display().to_string(),
        cause: e.to_string(),
    })?;
    let mut found = Vec::new();
    while found.len() < FAULTS_MAX {
        match Loaded::load_text(&text, path, environment.clone()) {
            Ok(_) => break,
            Err(ConfigError::File { line, message, .. }) => {
                let (section, key) = setting_at(&text, line);
                let setting = section.zip(key).map(|(section, key)| format!("{section}.{key}"));
                let moved = MOVED.iter().find(|(s, k, _)| Some((*s, *k)) == section.zip(key));
                let message = match moved {
                    Some((_, _, now)) => format!("{message}; {now}"),
                    None => message,
                };
                found.push(Fault { line, setting, message });
                let Some(rest) = without(&text, line) else { break };
                text = rest;
            }
            Err(error) => {
                let setting = match &error {
                    ConfigError::Invalid { key, .. } => Some(key.clone()),
                    _ => None,
                };
                found.push(Fault { line: 0, setting, message: error.to_string() });
                break;
            }
        }
    }
    Ok(found)
}

/// Section and key at a line, by its looks; what is said of them is a help, no more.
fn setting_at(text: &str, line: usize) -> (Option<&str>, Option<&str>) {
    let lines: Vec<&str> = text.lines().take(line).collect();
    let header = lines.iter().rev().find_map(|l| l.trim().strip_prefix('['));
    let name = |header: &'_ str| header.trim_start_matches('[').find(']');
    let section = header.and_then(|h| h.trim_start_matches('[').get(..name(h)?));
    let key = lines.last().and_then(|l| Some(l.split_once('=')?.0.trim()));
    (section, key)
}

/// The text with this line empty, so that the lines behind it keep their numbers; for the head of a
/// section, all of it. None if there is nothing to take out.
fn without(text: &str, line: usize) -> Option<String> {
    let at = line.checked_sub(1)?;
    let mut lines: Vec<&str> = text.lines().collect();
    let is_head = lines.get(at)?.trim_start().starts_with('[');
    if lines.get(at)?.trim().is_empty() {
        return None;
    }
    *lines.get_mut(at)? = "";
    if is_head {
        let rest = lines.iter_mut().skip(at + 1);
        rest.take_while(|line| !line.trim_start().starts_with('[')).for_each(|line| *line = "");
    }
    Some(lines.join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_mistake_is_told_with_its_line() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("gauntlet.toml");
        let text = "[node]\nnam = \"gw.test\"\ndata = 5\n[domains]\nlocal = [\"example.org\"]\n\
                    recipients = \"/etc/known\"\n[gone]\na = 1\nb = 2\n[scan]\nthreads = 2\n";
        std::fs::write(&path, text).unwrap();
        let found = faults(&path, &Vec::new()).unwrap();
        let lines: Vec<usize> = found.iter().map(|fault| fault.line).collect();
        assert_eq!(lines.len(), 4, "{found:?}");
        assert!([2, 3, 6, 7].iter().all(|line| lines.contains(line)), "{found:?}");
        let moved = found.iter().find(|fault| fault.line == 6).unwrap();
        assert!(moved.message.contains("[recipients]"), "{moved:?}");
        assert_eq!(moved.setting.as_deref(), Some("domains.recipients"));
        std::fs::write(&path, "[scan]\nthreads = 2\n").unwrap();
        assert_eq!(faults(&path, &Vec::new()).unwrap(), []);
    }
}
