//! The messages that rule commands look at, one after the other.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use anyhow::Context;
use gauntlet_mail::{Facts, Message};
use gauntlet_rules::Outcome;
use gauntlet_spamassassin::{RulesScratch, Ruleset};

use crate::scan::envelope;
use crate::scan::source::{self, Content, Source};

/// Largest message looked at, in bytes.
const MESSAGE_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// Calls `visit` with the name and bytes of every message below the paths. What cannot be read is said
/// on standard error and left out; the number of such is returned.
pub(crate) fn each(
    paths: &[PathBuf],
    visit: &mut dyn FnMut(&str, &[u8]) -> anyhow::Result<()>,
) -> anyhow::Result<usize> {
    let source = Source { message_bytes_max: MESSAGE_BYTES_MAX, taken: Default::default() };
    let (mut unreadable, mut result) = (0, Ok(()));
    for path in paths {
        let flow = source.walk(path, &mut |input| {
            let bytes = match input.content {
                Content::Bytes(bytes) => Ok(bytes),
                Content::Failed(why) => Err(why),
                Content::File(path) => {
                    source::read_file(&path, MESSAGE_BYTES_MAX).map_err(|e| e.to_string())
                }
            };
            match bytes {
                Ok(raw) => result = visit(&input.name, &raw),
                Err(why) => {
                    eprintln!("{}: {why}", input.name);
                    unreadable += 1;
                }
            }
            if result.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        });
        if flow.is_break() {
            break;
        }
    }
    result.map(|()| unreadable)
}

/// Judges one message by the rules alone, as `gauntlet scan --rules` does.
pub(crate) fn judge(
    ruleset: &Ruleset,
    raw: &[u8],
    now: i64,
    scratch: &mut RulesScratch,
) -> Outcome {
    let message = Message::parse(raw);
    let envelope = envelope::of_file(&message, now);
    ruleset.scan(&message, &envelope, &Facts::default(), now, scratch)
}

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
