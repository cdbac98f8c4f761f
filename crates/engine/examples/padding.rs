//! How many spams come through when the words of a good message stand in them, too: 200 spams of
//! plain text and 200 of HTML, judged by the whole engine as they are and with a good message of a
//! mailing list behind, before, between and beside their own words.
//!
//! ```text
//! cargo run --release -p gauntlet-engine --example padding -- CORPUS [MODEL]
//! ```
//!
//! CORPUS holds `dev/labels.tsv` and `trec07p-30k/index`; MODEL is judged by in place of the one
//! that ships. Both have learned from all of this mail, so the spammer here has the best of words:
//! those of good mail that the model knows.

use std::collections::BTreeMap;
use std::error::Error;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use gauntlet_engine::classifier::Model;
use gauntlet_engine::random::Random;
use gauntlet_engine::{Scratch, Settings, Snapshot, scan};
use gauntlet_mail::trace::of_trace;
use gauntlet_mail::{Facts, Message, TransferEncoding};
use gauntlet_verdict::Class;

/// Spams of each kind.
const SPAMS: usize = 200;
/// Shortest text of a good message that is put into spams, and shortest body of a spam, in bytes.
const GOOD_BYTES_MIN: usize = 800;
const SPAM_BYTES_MIN: usize = 200;
/// Seed of the draw, so that every run takes the same messages.
const SEED: u64 = 5;

/// A spam of a single part that stands in clear.
struct Spam {
    header: Vec<u8>,
    body: Vec<u8>,
    is_page: bool,
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let corpus = PathBuf::from(args.next().ok_or("usage: padding CORPUS [MODEL]")?);
    let model = match args.next() {
        Some(path) => Some(Arc::new(Model::from_bytes(&fs::read(path)?)?)),
        None => None,
    };
    let snapshot = Snapshot::build(&Settings { model, ..Settings::default() })?;
    let mut random = Random::new(SEED);
    let is_list = |file: &str| file.starts_with("lists/");
    let good = listed(&corpus.join("dev/labels.tsv"), "ham", &is_list, &mut random)?;
    let good: Vec<String> = good.iter().filter_map(|raw| good_text(raw)).take(SPAMS).collect();
    let bad = listed(&corpus.join("trec07p-30k/index"), "spam", &|_| true, &mut random)?;
    let mut judge = Judge { snapshot, scratch: Scratch::default(), counts: BTreeMap::new() };
    for is_page in [false, true] {
        let spams = bad.iter().filter_map(|raw| spam(raw)).filter(|s| s.is_page == is_page);
        for (spam, good) in spams.take(SPAMS).zip(&good) {
            for (name, raw) in variants(&spam, good) {
                judge.count(name, &raw);
            }
        }
    }
    judge.print(&mut std::io::stdout().lock())?;
    Ok(())
}

struct Judge {
    snapshot: Snapshot,
    scratch: Scratch,
    /// Messages, those called spam, and those called suspect.
    counts: BTreeMap<&'static str, [usize; 3]>,
}

impl Judge {
    fn count(&mut self, name: &'static str, raw: &[u8]) {
        let message = Message::parse(raw);
        let (envelope, facts) = (of_trace(&message, 0), Facts::default());
        let class = scan(&message, &envelope, &facts, &self.snapshot, &mut self.scratch).class;
        let counts = self.counts.entry(name).or_default();
        counts[0] += 1;
        counts[1] += usize::from(class >= Class::Spam);
        counts[2] += usize::from(class == Class::Suspect);
    }

    fn print(&self, out: &mut impl Write) -> std::io::Result<()> {
        writeln!(out, "| Spam | Messages | Called spam | Suspect |\n|---|---:|---:|---:|")?;
        for (name, [all, spam, suspect]) in &self.counts {
            writeln!(out, "| {name} | {all} | {spam} | {suspect} |")?;
        }
        Ok(())
    }
}

/// The messages of a list with this label, drawn in any order.
fn listed(
    list: &Path,
    label: &str,
    of: &dyn Fn(&str) -> bool,
    random: &mut Random,
) -> Result<Vec<Vec<u8>>, Box<dyn Error>> {
    let text = fs::read_to_string(list)?;
    let lines = text.lines().filter_map(|line| line.split_once(['\t', ' ']));
    let mut files: Vec<&str> =
        lines.filter(|(l, file)| *l == label && of(file)).map(|l| l.1).collect();
    random.shuffle(&mut files);
    let folder = list.parent().unwrap_or(Path::new(""));
    // More than is needed: most are of other kinds.
    files.into_iter().take(20 * SPAMS).map(|file| Ok(fs::read(folder.join(file))?)).collect()
}

/// What a good message says.
fn good_text(raw: &[u8]) -> Option<String> {
    let message = Message::parse(raw);
    let text: Vec<&str> = message.texts().map(|t| t.text).collect();
    let text = text.join("\n");
    (text.is_ascii() && text.len() >= GOOD_BYTES_MIN).then_some(text)
}

fn spam(raw: &[u8]) -> Option<Spam> {
    let message = Message::parse(raw);
    let [part] = message.parts() else { return None };
    let is_page = part.content_type.is("text", "html");
    let end = raw.windows(2).position(|w| w == b"\n\n")? + 2;
    let (header, body) = raw.split_at(end);
    let is_clear = part.transfer_encoding == TransferEncoding::Identity;
    let is_text = is_page || part.content_type.is("text", "plain");
    let spam = Spam { header: header.to_vec(), body: body.to_vec(), is_page };
    (is_clear && is_text && body.len() >= SPAM_BYTES_MIN).then_some(spam)
}

/// The spam as it is, and with a good text in it.
fn variants(spam: &Spam, good: &str) -> Vec<(&'static str, Vec<u8>)> {
    let whole = |body: &[&[u8]]| [&spam.header[..], &body.concat()].concat();
    let (own, good) = (&spam.body[..], good.as_bytes());
    if spam.is_page {
        return page_variants(spam, good);
    }
    let half = own.len() / 2;
    let line = own.iter().skip(half).position(|&b| b == b'\n').map_or(own.len(), |i| half + i + 1);
    let (first, second) = own.split_at(line);
    let mut lines = good.split(|&b| b == b'\n').cycle();
    let between: Vec<u8> = own
        .split_inclusive(|&b| b == b'\n')
        .flat_map(|l| [l, lines.next().unwrap_or_default(), b"\n"].concat())
        .collect();
    let start = &good[..GOOD_BYTES_MIN / 2];
    vec![
        ("text 1, as it is", whole(&[own])),
        ("text 2, 400 bytes behind", whole(&[own, b"\n", start])),
        ("text 3, three times behind", whole(&[own, b"\n", good, b"\n", good, b"\n", good])),
        ("text 4, before", whole(&[good, b"\n\n", own])),
        ("text 5, in the middle", whole(&[first, b"\n", good, b"\n", second])),
        ("text 6, line by line", whole(&[&between])),
    ]
}

fn page_variants(spam: &Spam, good: &[u8]) -> Vec<(&'static str, Vec<u8>)> {
    let own = &spam.body[..];
    let lower = own.to_ascii_lowercase();
    let find = |tag: &[u8]| lower.windows(tag.len()).position(|w| w == tag);
    let end = find(b"</body").unwrap_or(own.len());
    let begin = find(b"<body")
        .and_then(|at| Some(at + own.iter().skip(at).position(|&b| b == b'>')? + 1))
        .filter(|&at| at <= end)
        .unwrap_or(0);
    let plain = |b: &u8| if matches!(b, b'<' | b'>' | b'&') { b' ' } else { *b };
    let shown: Vec<u8> = good.iter().map(plain).collect();
    let with = |at: usize, open: &[u8], close: &[u8]| {
        let (before, behind) = own.split_at(at);
        [&spam.header[..], before, open, &shown, close, behind].concat()
    };
    let hidden = b"<div style=\"display:none\">";
    vec![
        ("page 1, as it is", [&spam.header[..], own].concat()),
        ("page 2, shown behind", with(end, b"<pre>", b"</pre>")),
        ("page 3, shown before", with(begin, b"<pre>", b"</pre>")),
        ("page 4, hidden behind", with(end, hidden, b"</div>")),
        ("page 5, hidden before", with(begin, hidden, b"</div>")),
        ("page 6, white on white behind", with(end, b"<font color=\"#ffffff\">", b"</font>")),
        ("page 7, as the alternative in plain text", alternative(spam, good)),
    ]
}

/// The page as one of two alternatives, the good text being the other.
fn alternative(spam: &Spam, good: &[u8]) -> Vec<u8> {
    let mut header = Vec::new();
    let mut keep = true;
    for line in spam.header.split_inclusive(|&b| b == b'\n') {
        if !matches!(line.first(), Some(b' ' | b'\t')) {
            let name = line.to_ascii_lowercase();
            keep = !name.starts_with(b"content-") && !line.trim_ascii().is_empty();
        }
        if keep {
            header.extend_from_slice(line);
        }
    }
    [
        &header[..],
        b"Content-Type: multipart/alternative; boundary=\"=_1\"\n\n--=_1\nContent-Type: text/plain\n\n",
        good,
        b"\n--=_1\nContent-Type: text/html\n\n",
        &spam.body,
        b"\n--=_1--\n",
    ]
    .concat()
}
