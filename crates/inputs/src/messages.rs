//! Messages below paths, one after the other, for commands that take them all in turn.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use anyhow::bail;
use gauntlet_mail::{Message, trace};
use gauntlet_rules::Outcome;

use crate::rules::{LoadedRules, LoadedScratch};
use crate::source::{self, Content, Source};

/// Largest message that [`each`] shows, in bytes.
const MESSAGE_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// Largest message of a mailbox, an archive or a pipe that [`walk`] takes, in bytes.
const LABELLED_BYTES_MAX: u64 = 16 << 20;

/// Calls `visit` with the name and bytes of every message below the paths. What cannot be read is
/// said on standard error and left out; the number of such is returned. How many files of folders
/// are no mail by their names is said there, too.
///
/// # Errors
/// The first error of `visit`, which ends the walk.
pub fn each(
    paths: &[PathBuf],
    visit: &mut dyn FnMut(&str, &[u8]) -> anyhow::Result<()>,
) -> anyhow::Result<usize> {
    let source = Source::of_messages(MESSAGE_BYTES_MAX);
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
    source.say_passed_over();
    result.map(|()| unreadable)
}

/// Judges one message by the rules alone, as `gauntlet scan --rules` does, as if received at the
/// Unix time `now` in seconds.
pub fn judge(ruleset: &LoadedRules, raw: &[u8], now: i64, scratch: &mut LoadedScratch) -> Outcome {
    let message = Message::parse(raw);
    let envelope = trace::of_trace(&message, now);
    ruleset.judge(&message, &envelope, now, scratch)
}

/// Gives every message below a path to `take`, for commands that learn: nothing may be left out
/// unseen. How many files of folders are no mail by their names is said on standard error.
///
/// # Errors
/// If a message cannot be read, is empty, or one of a mailbox or archive is over 16 MiB; that ends
/// the walk.
pub fn walk(path: &Path, take: &mut dyn FnMut(&[u8])) -> anyhow::Result<()> {
    let source = Source::of_messages(LABELLED_BYTES_MAX);
    let mut failed = None;
    let _ = source.walk(path, &mut |input| {
        let read = match input.content {
            Content::Bytes(raw) => Ok(raw),
            Content::File(file) => std::fs::read(&file).map_err(|error| error.to_string()),
            Content::Failed(why) => Err(why),
        };
        match read {
            // Nothing can be learned of it, and every such file would be the same message.
            Ok(raw) if raw.trim_ascii().is_empty() => {
                failed = Some(format!("{}: it is empty, there is no message in it", input.name));
            }
            Ok(raw) => take(&raw),
            Err(why) => failed = Some(format!("{}: {why}", input.name)),
        }
        if failed.is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    source.say_passed_over();
    match failed {
        Some(why) => bail!("cannot read {why}"),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_message_is_an_error_that_names_its_file() {
        let folder = tempfile::tempdir().unwrap();
        let empty = folder.path().join("b.eml");
        std::fs::write(folder.path().join("a.eml"), "Subject: a\n\nHello\n").unwrap();
        for text in ["", "\r\n \n"] {
            std::fs::write(&empty, text).unwrap();
            let mut taken = 0;
            let error = walk(folder.path(), &mut |_| taken += 1).unwrap_err().to_string();
            let wanted = format!("{}: it is empty, there is no message in it", empty.display());
            assert_eq!((taken, error), (1, format!("cannot read {wanted}")));
        }
        let error = walk(Path::new("/dev/null"), &mut |_| {}).unwrap_err().to_string();
        assert!(error.starts_with("cannot read /dev/null: it is empty"), "{error}");
    }
}
