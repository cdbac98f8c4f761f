//! The messages of a stream in their order.

use std::io::Write;
use std::path::Path;

use anyhow::{Context, bail};
use gauntlet_inputs::bodies::{Bodies, body_hash};
use gauntlet_mail::{Message, date, trace};

/// Messages of a stream at most: all are in memory.
const MESSAGES_MAX: usize = 200_000;

/// Which messages come first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Order {
    /// By the time of delivery; the list's order where messages have none.
    Date,
    /// As the list has them.
    List,
}

#[derive(Debug, Clone)]
pub(crate) struct Mail {
    pub(crate) raw: Vec<u8>,
    pub(crate) spam: bool,
    /// Unix time in seconds of its delivery; 0 if it has none.
    pub(crate) date: i64,
}

/// Labelled mail in its order.
#[derive(Debug, Default)]
pub(crate) struct Mailbox {
    /// The list, for titles.
    pub(crate) name: String,
    pub(crate) mail: Vec<Mail>,
    /// Messages that the model was trained on.
    pub(crate) left_out: usize,
}

impl Mailbox {
    /// Reads a list, less these bodies. Mail that comes twice is kept twice: so it came.
    ///
    /// # Errors
    /// If a line is none, a file cannot be read, or nothing is left.
    pub(crate) fn read(
        list: &Path,
        only: &[String],
        order: Order,
        without: &Bodies,
    ) -> anyhow::Result<Self> {
        let text = std::fs::read_to_string(list)
            .with_context(|| format!("cannot read the list {}", list.display()))?;
        let folder = list.parent().unwrap_or(Path::new(""));
        let mut found = Mailbox { name: list.display().to_string(), ..Mailbox::default() };
        for (line, number) in text.lines().zip(1..) {
            let Some((spam, file)) =
                entry(line).with_context(|| format!("{}: line {number}", list.display()))?
            else {
                continue;
            };
            if !only.is_empty() && !only.iter().any(|prefix| file.starts_with(prefix.as_str())) {
                continue;
            }
            let path = folder.join(file);
            let raw =
                std::fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
            if without.contain(body_hash(&raw)) {
                found.left_out += 1;
                continue;
            }
            if found.mail.len() >= MESSAGES_MAX {
                bail!("{}: more than {MESSAGES_MAX} messages", list.display());
            }
            let date = delivered(&Message::parse(&raw));
            found.mail.push(Mail { raw, spam, date });
        }
        if found.mail.is_empty() {
            bail!("{}: no message is left of it ({} left out)", list.display(), found.left_out);
        }
        if order == Order::Date {
            found.sort();
        }
        Ok(found)
    }

    fn sort(&mut self) {
        let undated = self.mail.iter().filter(|m| m.date == 0).count();
        if undated > 0 {
            let _ = writeln!(
                std::io::stderr(),
                "{undated} messages have no time of delivery; they keep their place behind the one before"
            );
        }
        let mut last = 0;
        for mail in &mut self.mail {
            if mail.date == 0 {
                mail.date = last;
            }
            last = mail.date;
        }
        self.mail.sort_by_key(|m| m.date);
    }
}

/// Label and file of a line; none for a head and an empty line.
fn entry(line: &str) -> anyhow::Result<Option<(bool, &str)>> {
    let (label, rest) = line.split_once(['\t', ' ']).unwrap_or((line, ""));
    let file = rest.split('\t').next().unwrap_or_default().trim();
    match label.to_ascii_lowercase().as_str() {
        "" | "label" => Ok(None),
        _ if file.is_empty() => bail!("no file after {label:?}"),
        "spam" => Ok(Some((true, file))),
        "ham" => Ok(Some((false, file))),
        _ => bail!("{label:?} is neither `ham` nor `spam`"),
    }
}

/// When a message was delivered, by its newest Received field, else when it was written.
fn delivered(message: &Message<'_>) -> i64 {
    let newest = message.header("received").and_then(|field| {
        let value = field.unfolded().into_owned();
        let at = value.iter().rposition(|&b| b == b';')?;
        date::parse(value.get(at + 1..)?)
    });
    let written = || date::parse(&message.header("date")?.unfolded());
    newest.or_else(written).unwrap_or_else(|| trace::of_trace(message, 0).received_at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_lists() {
        assert_eq!(entry("ham\ta/1 b.eml\tlist").unwrap(), Some((false, "a/1 b.eml")));
        assert_eq!(entry("SPAM data/1").unwrap(), Some((true, "data/1")));
        assert_eq!(entry("label\tfile").unwrap(), None);
        assert!(entry("eggs x").is_err() && entry("ham").is_err());
    }

    #[test]
    fn mail_comes_by_its_date_and_twice_if_it_came_twice() {
        let folder = tempfile::tempdir().unwrap();
        let write =
            |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
        write("new", "Date: 2 Jan 2024 00:00:00 +0000\n\nnew\n");
        write("old", "Date: 1 Jan 2024 00:00:00 +0000\n\nold\n");
        write("none", "X: y\n\nold\n");
        write("labels.tsv", "label\tfile\nspam\tnew\nham\told\nham\told\nham\tnone\n");
        let list = folder.path().join("labels.tsv");
        let read = |order| Mailbox::read(&list, &[], order, &Bodies::default()).unwrap();
        let first = |m: &Mailbox| m.mail.iter().map(|m| m.spam).collect::<Vec<_>>();
        assert_eq!(first(&read(Order::Date)), [false, false, false, true]);
        assert_eq!(first(&read(Order::List)), [true, false, false, false]);
        let only = Mailbox::read(&list, &["ne".into()], Order::Date, &Bodies::default()).unwrap();
        assert_eq!(only.mail.len(), 1);
    }
}
