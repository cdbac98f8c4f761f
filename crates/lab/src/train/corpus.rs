//! Labelled mail: lists, folders and mailboxes, read into features.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use gauntlet_engine::classifier::ClassifierScratch;
use gauntlet_engine::classifier::training::Example;
use gauntlet_inputs::bodies::{Bodies, body_hash};
use gauntlet_inputs::messages::walk;
use gauntlet_mail::Message;
use whatlang::Script;

use super::progress::Progress;

/// Where labelled mail is.
#[derive(Debug, clap::Args)]
pub(crate) struct CorpusArgs {
    /// List of labelled messages, a line each: `ham<TAB>file` or `spam<TAB>file`, files relative to
    /// the list; columns behind these, and a first line `label<TAB>file`, are passed over. May be
    /// given several times
    #[arg(long = "list", value_name = "FILE")]
    pub(crate) lists: Vec<PathBuf>,
    /// Good mail: a message, folder, mailbox or archive; its source is the name of the path
    #[arg(long, value_name = "PATH")]
    pub(crate) ham: Vec<PathBuf>,
    /// Unwanted mail
    #[arg(long, value_name = "PATH")]
    pub(crate) spam: Vec<PathBuf>,
    /// Leave out a source: the first folder of a file in a list, or the list's own folder
    #[arg(long = "exclude-source", value_name = "NAME")]
    pub(crate) exclude_sources: Vec<String>,
    /// Leave out every message whose body is that of a message below this folder
    #[arg(long = "exclude-bodies-of", value_name = "FOLDER")]
    pub(crate) exclude_bodies_of: Vec<PathBuf>,
}

#[derive(Debug)]
pub(crate) struct Labelled {
    /// Its features, label and source.
    pub(crate) example: Example,
    /// Unix time of its delivery, as its newest Received or its Date field says; 0 if neither can
    /// be read.
    pub(crate) date: i64,
    /// Hash of its body without white space.
    pub(crate) body: u64,
    /// What language its text is in, ISO 639-3; English where it cannot be identified.
    pub(crate) language: &'static str,
    /// Its file, as the list names it; empty for mail of a folder or mailbox.
    pub(crate) file: String,
}

/// Labelled mail of several sources.
#[derive(Debug, Default)]
pub(crate) struct Corpus {
    /// Names; an example's `source` is an index into them.
    pub(crate) sources: Vec<String>,
    /// The mail, each source in the order of its list.
    pub(crate) mail: Vec<Labelled>,
    /// Messages left out because a body occurred before in the same source and class.
    pub(crate) duplicates: usize,
    /// Messages left out because their body is in `--exclude-bodies-of`.
    pub(crate) excluded: usize,
}

/// Reads everything that the arguments name, less these bodies. Bodies that occur again are kept
/// once.
pub(crate) fn read(args: &CorpusArgs, without: &Bodies) -> anyhow::Result<Corpus> {
    read_with(args, without, &mut |_, _| {})
}

/// The same, and hands `on_message` the position and the bytes of every message that is kept.
/// Positions are the same each time.
pub(crate) fn read_with(
    args: &CorpusArgs,
    without: &Bodies,
    on_message: &mut dyn FnMut(usize, &[u8]),
) -> anyhow::Result<Corpus> {
    let excluded = bodies(&args.exclude_bodies_of)?;
    let mut reader = Reader {
        corpus: Corpus::default(),
        scratch: ClassifierScratch::default(),
        seen: HashSet::new(),
        excluded,
        without,
        progress: Progress::new("messages read"),
        on_message,
    };
    for list in &args.lists {
        reader.list(list, &args.exclude_sources)?;
    }
    for (paths, spam) in [(&args.ham, false), (&args.spam, true)] {
        for path in paths {
            let source = name_of(path);
            if !args.exclude_sources.contains(&source) {
                walk(path, &mut |raw| reader.message((&source, ""), spam, raw))?;
            }
        }
    }
    reader.progress.end();
    if reader.corpus.mail.is_empty() && reader.corpus.excluded > 0 {
        bail!(
            "all {} messages are left out by their bodies: the model was trained on them, or speed is \
             measured on them; judge other mail, or train on the older part of this with --hold-out",
            reader.corpus.excluded
        );
    }
    if reader.corpus.mail.is_empty() {
        bail!("no labelled mail; name some with --list, or with --ham and --spam");
    }
    Ok(reader.corpus)
}

struct Reader<'l> {
    corpus: Corpus,
    scratch: ClassifierScratch,
    /// Source, class and body.
    seen: HashSet<(u16, bool, u64)>,
    excluded: HashSet<u64>,
    without: &'l Bodies,
    progress: Progress,
    on_message: &'l mut dyn FnMut(usize, &[u8]),
}

impl Reader<'_> {
    fn list(&mut self, list: &Path, exclude: &[String]) -> anyhow::Result<()> {
        let text = std::fs::read_to_string(list)
            .with_context(|| format!("cannot read the list {}", list.display()))?;
        let folder = list.parent().unwrap_or(Path::new(""));
        for (line, number) in text.lines().zip(1..) {
            let (label, file) = label_and_file(line);
            let spam = match label {
                "spam" => true,
                "ham" => false,
                "label" | "" if number == 1 || label.is_empty() => continue,
                _ => bail!(
                    "{}: line {number}: {label:?} is neither `ham` nor `spam`",
                    list.display()
                ),
            };
            let source = source_of(folder, file);
            if exclude.contains(&source) {
                continue;
            }
            let path = folder.join(file);
            let raw =
                std::fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
            self.message((&source, file), spam, &raw);
        }
        Ok(())
    }

    fn message(&mut self, (source, file): (&str, &str), spam: bool, raw: &[u8]) {
        let sources = &mut self.corpus.sources;
        let index = sources.iter().position(|s| s == source).unwrap_or_else(|| {
            sources.push(source.to_owned());
            sources.len() - 1
        }) as u16;
        let body = body_hash(raw);
        self.progress.step();
        if self.excluded.contains(&body) || self.without.contain(body) {
            self.corpus.excluded += 1;
            return;
        }
        if !self.seen.insert((index, spam, body)) {
            self.corpus.duplicates += 1;
            return;
        }
        let message = Message::parse(raw);
        self.scratch.read(&message);
        let example = Example::new(&self.scratch, spam, index);
        (self.on_message)(self.corpus.mail.len(), raw);
        let (date, file) = (date(&message), file.to_owned());
        self.corpus.mail.push(Labelled { example, date, body, language: language(&message), file });
    }
}

/// The label and the file of a list's line: columns by tabs, or TREC's two words.
fn label_and_file(line: &str) -> (&str, &str) {
    let (label, rest) = line.split_once(['\t', ' ']).unwrap_or((line, ""));
    (label, rest.split('\t').next().unwrap_or_default())
}

/// Hashes of all bodies below these folders.
pub(crate) fn bodies(folders: &[PathBuf]) -> anyhow::Result<HashSet<u64>> {
    let mut found = HashSet::new();
    for folder in folders {
        walk(folder, &mut |raw| {
            found.insert(body_hash(raw));
        })?;
    }
    Ok(found)
}

/// The first folder of the file's path in its list; the list's folder if the files are beside the
/// list or in one folder `data` (as TREC's are).
fn source_of(folder: &Path, file: &str) -> String {
    let mut parts = file.split('/').filter(|p| !matches!(*p, "." | "..")).peekable();
    let first = parts.next().unwrap_or_default();
    let beside = parts.peek().is_none() || first == "data";
    if beside { name_of(folder) } else { first.to_owned() }
}

fn name_of(path: &Path) -> String {
    path.file_name().map_or_else(|| "mail".into(), |n| n.to_string_lossy().into_owned())
}

/// Characters of a text by which its language is identified.
const LANGUAGE_CHARS: usize = 2_000;

fn language(message: &Message<'_>) -> &'static str {
    let subject = message.subject();
    let texts = message.texts().flat_map(|t| t.text.chars());
    let text: String = subject.chars().chain(texts).take(LANGUAGE_CHARS).collect();
    match whatlang::detect(&text) {
        // A few words of another alphabet do not identify the language, but exclude English.
        Some(found) if found.is_reliable() || found.script() != Script::Latin => {
            found.lang().code()
        }
        _ => "eng",
    }
}

fn date(message: &Message<'_>) -> i64 {
    let received = message.header("received").and_then(|field| {
        let value = field.unfolded().into_owned();
        let at = value.iter().rposition(|&b| b == b';')?;
        gauntlet_mail::date::parse(value.get(at + 1..)?)
    });
    let written = || gauntlet_mail::date::parse(&message.header("date")?.unfolded());
    received.or_else(written).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_are_first_folders() {
        assert_eq!(source_of(Path::new("/x/dev"), "phish/email/1.eml"), "phish");
        assert_eq!(source_of(Path::new("/x/trec"), "data/inmail.1"), "trec");
        assert_eq!(source_of(Path::new("/x/mine"), "1.eml"), "mine");
    }

    #[test]
    fn a_line_has_label_and_file_first() {
        assert_eq!(label_and_file("ham\ta/1 b.eml\tlist\t2024"), ("ham", "a/1 b.eml"));
        assert_eq!(label_and_file("spam ../data/inmail.1"), ("spam", "../data/inmail.1"));
        assert_eq!(label_and_file("label"), ("label", ""));
    }

    #[test]
    fn a_list_is_read_and_a_source_left_out() {
        let folder = tempfile::tempdir().unwrap();
        for (file, text) in [("a/1", "one"), ("a/2", "one"), ("b/1", "two")] {
            let path = folder.path().join(file);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, format!("Date: 1 Jan 2024 00:00:00 +0000\n\n{text}\n")).unwrap();
        }
        let list = folder.path().join("labels.tsv");
        std::fs::write(&list, "label\tfile\nham\ta/1\nham\ta/2\nspam\tb/1\n").unwrap();
        let mut args = CorpusArgs {
            lists: vec![list],
            ham: vec![],
            spam: vec![],
            exclude_sources: vec![],
            exclude_bodies_of: vec![],
        };
        let none = Bodies::default();
        let corpus = read(&args, &none).unwrap();
        assert_eq!((corpus.mail.len(), corpus.duplicates), (2, 1));
        let trained = corpus.mail.iter().map(|m| gauntlet_inputs::bodies::short(m.body)).collect();
        let error = read(&args, &Bodies { trained, ..Bodies::default() }).unwrap_err();
        assert!(error.to_string().starts_with("all 3 messages are left out"), "{error}");
        assert_eq!(corpus.mail[0].date, 1_704_067_200);
        args.exclude_sources = vec!["a".into()];
        let corpus = read(&args, &none).unwrap();
        assert!(corpus.mail.len() == 1 && corpus.sources == ["b"]);
    }
}
