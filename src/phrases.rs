//! `gauntlet phrases`: check lists of weighted phrases, and explain what a page scores.

use std::io::{Read as _, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context;
use gauntlet_phrases::list::fetch;
use gauntlet_phrases::{
    Count, Form, Format, Hit, Kind, Lists, PhraseSet, Problem, ProblemKind, Reader, Role, Score,
    ScoreOptions,
};
use serde_json::{Value, json};

/// Exit code of `check` if a line is not understood, and of `score` if the page is blocked.
const EXIT_FOUND: u8 = 1;
/// Exit code of `check` if a file cannot be read.
const EXIT_UNUSABLE: u8 = 2;
/// Bytes of a page.
const PAGE_BYTES_MAX: u64 = 64 << 20;

const AFTER_HELP: &str = "\
Lists are DansGuardian's and e2guardian's (`< word ><50>`, `<a>,<b><-20>`, `.Include<file>`), or
have a word and its weight a line. Phrases without a weight are banned, or exceptions if the
list's name begins with `exception`.

Exit codes: 0 all was understood, or the page may pass; 1 `check` met a line that is not
understood, `score` a page that is blocked; 2 wrong usage, or a file that cannot be used.

Examples:
  gauntlet phrases check /etc/e2guardian/lists/weightedphraselist
  gauntlet phrases score casino.txt --page page.html --limit 100
  curl -s http://example.com/ | gauntlet phrases score casino.txt --page -";

/// Arguments of `gauntlet phrases`.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    /// Read lists and say what is wrong with them
    Check {
        /// Lists
        #[arg(required = true, value_name = "FILE")]
        lists: Vec<PathBuf>,
        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },
    /// Say what a page scores, by which phrases, and what would have changed it
    Score {
        /// Lists
        #[arg(required = true, value_name = "FILE")]
        lists: Vec<PathBuf>,
        /// A file with the page, in UTF-8; `-` is standard input
        #[arg(long, value_name = "FILE")]
        page: PathBuf,
        /// It is text, not HTML
        #[arg(long)]
        text: bool,
        /// More points than this block
        #[arg(long, value_name = "N", default_value_t = 100)]
        limit: i64,
        /// Count a phrase each time it is found
        #[arg(long)]
        every: bool,
        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    match &args.action {
        Action::Check { lists, json } => check(lists, *json),
        Action::Score { lists, page, text, limit, every, json } => {
            let form = if *text { Form::Plain } else { Form::Html };
            let count = if *every { Count::Every } else { Count::Once };
            score(lists, page, form, &ScoreOptions { limit: *limit, count }, *json)
        }
    }
}

/// Reads lists.
pub(crate) fn read(files: &[PathBuf]) -> Lists {
    let mut reader = Reader::new(&fetch);
    files.iter().for_each(|file| reader.read(file, Role::of_name(file)));
    reader.finish()
}

/// The same of a configuration's lists and of those of channels.
///
/// # Errors
/// As [`open`].
pub(crate) fn open_with(
    files: &[PathBuf],
    of_channels: &[PathBuf],
) -> anyhow::Result<Option<Arc<PhraseSet>>> {
    open(&[files, of_channels].concat())
}

/// Reads and compiles lists; what is wrong with them is told on standard error.
///
/// # Errors
/// If one of the named files cannot be read, or nothing is in them.
pub(crate) fn open(files: &[PathBuf]) -> anyhow::Result<Option<Arc<PhraseSet>>> {
    if files.is_empty() {
        return Ok(None);
    }
    for file in files {
        std::fs::metadata(file).with_context(|| format!("cannot read {}", file.display()))?;
    }
    let lists = read(files);
    let problems = &lists.problems;
    if problems.not_read > 0 {
        let first = problems.kept.iter().find(|p| !p.kind.is_note());
        let first = first.map(ToString::to_string).unwrap_or_default();
        eprintln!(
            "gauntlet: {} lines of phrases are not understood (gauntlet phrases check); the first: \
             {first}",
            problems.not_read
        );
    }
    let set = PhraseSet::compile(&lists)?;
    anyhow::ensure!(!set.is_empty(), "no phrases in {}", shown(files));
    Ok(Some(Arc::new(set)))
}

fn shown(files: &[PathBuf]) -> String {
    let all: Vec<String> = files.iter().map(|file| file.display().to_string()).collect();
    all.join(", ")
}

fn check(files: &[PathBuf], json: bool) -> anyhow::Result<ExitCode> {
    let lists = read(files);
    let set = PhraseSet::compile(&lists)?;
    let mut to = std::io::stdout().lock();
    match json {
        true => writeln!(to, "{}", check_json(&lists, &set))?,
        false => print_check(&mut to, &lists, &set)?,
    }
    let is_unreadable = |problem: &Problem| matches!(problem.kind, ProblemKind::Unreadable(_));
    Ok(match lists.problems.not_read {
        _ if lists.problems.kept.iter().any(is_unreadable) => ExitCode::from(EXIT_UNUSABLE),
        0 => ExitCode::SUCCESS,
        _ => ExitCode::from(EXIT_FOUND),
    })
}

fn format_name(format: Format) -> &'static str {
    match format {
        Format::E2guardian => "e2guardian",
        Format::Simple => "simple",
    }
}

fn print_check(to: &mut impl Write, lists: &Lists, set: &PhraseSet) -> std::io::Result<()> {
    for file in &lists.files {
        writeln!(
            to,
            "{}: {}, {}: {} lines, {} with phrases, {} not understood",
            file.path,
            format_name(file.format),
            file.charset,
            file.lines,
            file.phrases,
            file.not_read
        )?;
    }
    for problem in &lists.problems.kept {
        let word = if problem.kind.is_note() { "note" } else { "NOT READ" };
        writeln!(to, "{word}: {problem}")?;
    }
    let told = lists.problems.kept.len() as u64;
    let more = (lists.problems.not_read + lists.problems.notes).saturating_sub(told);
    if more > 0 {
        writeln!(to, "and {more} more")?;
    }
    let counts = set.counts();
    let understood: u64 = lists.files.iter().map(|file| file.phrases).sum();
    let of_lines: u64 = lists.files.iter().map(|file| file.not_read).sum();
    writeln!(
        to,
        "{} phrases ({} add points, {} take points, {} banned, {} exceptions; {} combinations) in \
         {} categories; {understood} of {} lines understood; automaton of {} bytes",
        set.len(),
        counts.positive,
        counts.negative,
        counts.banned,
        counts.exceptions,
        counts.combinations,
        lists.categories.len() - 1,
        understood + of_lines,
        set.memory_bytes()
    )
}

fn check_json(lists: &Lists, set: &PhraseSet) -> Value {
    let files = lists.files.iter().map(|file| {
        json!({
            "file": file.path, "format": format_name(file.format), "charset": file.charset,
            "lines": file.lines, "phrases": file.phrases, "not_read": file.not_read,
        })
    });
    let problems = lists.problems.kept.iter().map(|problem| {
        json!({
            "file": problem.file, "line": problem.line, "what": problem.kind.to_string(),
            "note": problem.kind.is_note(), "text": problem.text,
        })
    });
    let counts = set.counts();
    json!({
        "files": files.collect::<Vec<_>>(),
        "problems": problems.collect::<Vec<_>>(),
        "not_read": lists.problems.not_read,
        "notes": lists.problems.notes,
        "phrases": set.len(),
        "positive": counts.positive,
        "negative": counts.negative,
        "banned": counts.banned,
        "exceptions": counts.exceptions,
        "combinations": counts.combinations,
        "categories": lists.categories.iter().skip(1).collect::<Vec<_>>(),
    })
}

fn score(
    files: &[PathBuf],
    page: &Path,
    form: Form,
    options: &ScoreOptions,
    json: bool,
) -> anyhow::Result<ExitCode> {
    let set = open(files)?.context("no lists")?;
    let mut bytes = Vec::new();
    let context = || format!("cannot read {}", page.display());
    match page.as_os_str() == "-" {
        true => std::io::stdin().lock().take(PAGE_BYTES_MAX).read_to_end(&mut bytes),
        false => {
            let file = std::fs::File::open(page).with_context(context)?;
            file.take(PAGE_BYTES_MAX).read_to_end(&mut bytes)
        }
    }
    .with_context(context)?;
    let score = set.score(&String::from_utf8_lossy(&bytes), form, options);
    let mut to = std::io::stdout().lock();
    match json {
        true => writeln!(to, "{}", score_json(&score))?,
        false => print_score(&mut to, &score)?,
    }
    Ok(if score.blocks() { ExitCode::from(EXIT_FOUND) } else { ExitCode::SUCCESS })
}

fn what(hit: &Hit) -> String {
    match hit.kind {
        Kind::Weighted(_) => format!("{:+}", hit.points),
        Kind::Banned => "banned".to_owned(),
        Kind::Exception => "exception".to_owned(),
    }
}

fn print_score(to: &mut impl Write, score: &Score) -> std::io::Result<()> {
    let said = if score.blocks() { "blocked" } else { "passes" };
    let (total, limit) = (score.total(), score.limit);
    writeln!(to, "{said}: {}: {total} points, limit {limit}", score.verdict())?;
    writeln!(to, "{}", score.what_would_change_it())?;
    for (index, sight) in score.sights.iter().enumerate() {
        let decides = if index == score.deciding { ", decides" } else { "" };
        writeln!(to, "\n{}: {} points, {}{decides}", sight.sight, sight.total, sight.verdict)?;
        for hit in &sight.hits {
            let category = if hit.category.is_empty() { "-" } else { &hit.category };
            writeln!(
                to,
                "{:>10}  {:>4} x  {:?}  {category}  {}:{}",
                what(hit),
                hit.count,
                hit.phrase,
                hit.file,
                hit.line
            )?;
        }
    }
    for (name, points) in score.categories() {
        writeln!(to, "category {name}: {points}")?;
    }
    Ok(())
}

fn score_json(score: &Score) -> Value {
    let hit = |hit: &Hit| {
        json!({
            "phrase": hit.phrase, "what": what(hit), "points": hit.points, "count": hit.count,
            "category": &*hit.category, "file": &*hit.file, "line": hit.line,
        })
    };
    let sights = score.sights.iter().map(|sight| {
        json!({
            "of": sight.sight.to_string(), "points": sight.total,
            "verdict": sight.verdict.to_string(),
            "hits": sight.hits.iter().map(hit).collect::<Vec<_>>(),
        })
    });
    json!({
        "blocked": score.blocks(), "verdict": score.verdict().to_string(),
        "points": score.total(), "limit": score.limit, "bytes": score.bytes,
        "what_would_change_it": score.what_would_change_it(),
        "decides": score.deciding, "of": sights.collect::<Vec<_>>(),
    })
}
