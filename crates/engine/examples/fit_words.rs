//! Fits the probabilities of `data/words.tsv` on labelled mail, and prints the sums that good mail
//! seldom reaches.
//!
//! ```text
//! cargo run --release -p gauntlet-engine --example fit_words -- \
//!     crates/engine/data/words.tsv $GAUNTLET_CORPUS/dev/labels.tsv
//!     $GAUNTLET_CORPUS/trec07p-30k/index
//! ```
//!
//! The words stay as they are in the file; only their probabilities change. A list names a message
//! a line, `label<TAB>path` or `label path`, relative to the list's folder. Every source (first
//! folder of the path) has the same weight in the counts of its label, so that a large source's
//! topics do not become signs of good or bad mail. Of each list the first two thirds are fitted on;
//! the sums are printed for the rest, which is later mail where the list is in order of time.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use gauntlet_engine::RuleRegistry;
use gauntlet_engine::filters::words::Words;
use gauntlet_engine::lexicon::Lexicon;
use gauntlet_mail::Message;

/// Messages at a probability of one half that every word is counted with: a rare word stays near
/// it.
const PRIOR_MESSAGES: f64 = 8.0;

/// A word that fewer good messages hold than this is no better known than [`UNMET_MAX`]: that the
/// corpus has little good mail in its language does not make the language suspicious.
const GOOD_MESSAGES_MIN: u32 = 3;
const UNMET_MAX: f64 = 0.8;

struct Labelled {
    spam: bool,
    source: String,
    path: PathBuf,
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args_os().skip(1).map(PathBuf::from);
    let words_path = args.next().ok_or("usage: fit_words words.tsv LIST...")?;
    let lexicon = Lexicon::parse(&std::fs::read_to_string(&words_path)?)?;
    let (mut fit, mut check) = (Vec::new(), Vec::new());
    for list in args {
        let mut messages = read_list(&list)?;
        let rest = messages.split_off(messages.len() * 2 / 3);
        fit.extend(messages);
        check.extend(rest);
    }
    let probabilities = probabilities(&lexicon, &fit)?;
    let lines = lexicon.words().iter().zip(&probabilities);
    let text: String = lines.map(|(word, p)| format!("{}\t{p:.3}\n", word.text)).collect();
    std::fs::write(&words_path, &text)?;
    eprintln!("{} words fitted on {} messages", probabilities.len(), fit.len());
    print_sums(&Words::new(&mut RuleRegistry::default(), Lexicon::parse(&text)?), &check)
}

fn read_list(list: &Path) -> Result<Vec<Labelled>, Box<dyn std::error::Error>> {
    let folder = list.parent().unwrap_or(Path::new("."));
    let mut messages = Vec::new();
    for line in std::fs::read_to_string(list)?.lines() {
        let Some((label, path)) = line.split_once(['\t', ' ']) else { continue };
        if label != "spam" && label != "ham" {
            continue;
        }
        let source = path.split('/').next().unwrap_or_default();
        let source = format!("{}/{source}", folder.display());
        messages.push(Labelled { spam: label == "spam", source, path: folder.join(path) });
    }
    Ok(messages)
}

/// Sources weigh the same up to this many messages: a small one is no better known for its weight.
const SOURCE_MESSAGES: f64 = 1_000.0;

fn probabilities(
    lexicon: &Lexicon,
    messages: &[Labelled],
) -> Result<Vec<f64>, Box<dyn std::error::Error>> {
    let mut sources: BTreeMap<(&str, bool), f64> = BTreeMap::new();
    for message in messages {
        *sources.entry((&message.source, message.spam)).or_default() += 1.0;
    }
    let weight =
        |m: &Labelled| SOURCE_MESSAGES / sources[&(&*m.source, m.spam)].max(SOURCE_MESSAGES);
    let mut counts = vec![[0.0f64; 2]; lexicon.words().len()];
    let mut met = vec![0u32; counts.len()];
    let mut totals = [0.0f64; 2];
    for message in messages {
        let raw = std::fs::read(&message.path)?;
        let parsed = Message::parse(&raw);
        let weight = weight(message);
        totals[usize::from(message.spam)] += weight;
        let mut seen = vec![false; counts.len()];
        let subject = parsed.subject();
        for text in std::iter::once(&*subject).chain(parsed.texts().map(|t| t.text)) {
            lexicon.find(text, |word, _| seen[word] = true);
        }
        for ((count, met), seen) in counts.iter_mut().zip(&mut met).zip(seen) {
            count[usize::from(message.spam)] += weight * f64::from(u8::from(seen));
            *met += u32::from(seen && !message.spam);
        }
    }
    let of = |([ham, spam], met): (&[f64; 2], &u32)| {
        let (ham_share, spam_share) = (ham / totals[0].max(1.0), spam / totals[1].max(1.0));
        let n = ham + spam;
        let p = if n > 0.0 { spam_share / (spam_share + ham_share) } else { 0.5 };
        let smoothed = (PRIOR_MESSAGES * 0.5 + n * p) / (PRIOR_MESSAGES + n);
        if *met < GOOD_MESSAGES_MIN { smoothed.min(UNMET_MAX) } else { smoothed }
    };
    Ok(counts.iter().zip(&met).map(of).collect())
}

/// For each share of good mail: the sum that it does not reach, and how much spam does.
fn print_sums(words: &Words, messages: &[Labelled]) -> Result<(), Box<dyn std::error::Error>> {
    let (mut ham, mut spam) = (Vec::new(), Vec::new());
    for message in messages {
        let raw = std::fs::read(&message.path)?;
        let value = words.sum(&Message::parse(&raw)).value();
        if message.spam { &mut spam } else { &mut ham }.push(value);
    }
    ham.sort_by(f64::total_cmp);
    eprintln!("{} good and {} unwanted messages to check on", ham.len(), spam.len());
    for share in [0.05, 0.02, 0.01, 0.003, 0.001] {
        let at = ((1.0 - share) * ham.len() as f64) as usize;
        let Some(value) = ham.get(at.min(ham.len().saturating_sub(1))) else { continue };
        let caught = spam.iter().filter(|v| *v > value).count();
        let percent = 100.0 * caught as f64 / spam.len().max(1) as f64;
        eprintln!(
            "{share:6.3} of good mail reaches {value:6.2}; {percent:5.1} % of unwanted mail does"
        );
    }
    Ok(())
}
