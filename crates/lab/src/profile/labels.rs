//! Labels of messages, read from a file.

use std::path::Path;

use anyhow::Context;

/// Labels of messages: lines `label<TAB>file`, matched by the end of the message's name.
#[derive(Debug, Default)]
pub(crate) struct Labels(std::collections::HashMap<String, String>);

impl Labels {
    /// Reads a file of labels.
    pub(crate) fn read(path: &Path) -> anyhow::Result<Self> {
        let text = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
        let pair = |line: &str| {
            let (label, file) = line.split_once('\t')?;
            Some((file.split('\t').next()?.to_owned(), label.to_owned()))
        };
        Ok(Labels(text.lines().filter_map(pair).collect()))
    }

    /// The label of a message: that of the longest end of its name that is in the file.
    pub(crate) fn of(&self, name: &str) -> Option<&str> {
        let ends = std::iter::once(0).chain(name.match_indices('/').map(|m| m.0 + 1));
        ends.into_iter().find_map(|at| self.0.get(name.get(at..)?)).map(String::as_str)
    }
}
