//! `gauntlet evaluate`: how good the classifier is.

mod chart;
mod output;
mod report;
mod sources;
mod stream;
mod trec;
mod verdicts;

use std::collections::HashSet;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context;
use gauntlet_engine::classifier::Model;
use gauntlet_inputs::bodies::Bodies;

use self::report::Series;
use crate::train::corpus::{self, CorpusArgs};
use crate::train::training::{self, TrainingArgs};

const AFTER_HELP: &str = "\
--trec runs the TREC on-line protocol (TREC 2005 to 2007 spam tracks): messages
are classified in the order of the index by a filter that starts from nothing;
after each, the filter gets its label.
  immediate  at once, after every message
  delayed    in batches: up to 1,000 messages are classified (the size is
             drawn anew for each batch), then all of them are learned
  partial    at once, but only for the mail of some recipients
             (--partial-percent of addresses)

An index has one line a message, `spam path` or `ham path`, paths relative to
the index. Of each message the first 64 KB are read. messages_per_second counts
classifying and learning on one thread, without reading files.

Keys of --json: one_minus_roca_percent, ham_misclassified_percent,
spam_misclassified_percent, lam_percent, caught_at_fp_1_percent,
caught_at_fp_0_1_percent, caught_at_fp_0_01_percent, ham, spam,
messages_per_second, intervals (95 %, bootstrap); with --learner all also
`baseline` with the same keys, and `difference`: ours minus baseline, paired.

With --list, --ham and --spam the shipped model (or --model) judges labelled
mail that it has not seen, and the result is shown source by source, with
counts and 95 % upper bounds (Clopper and Pearson). Mail whose body is that of
training mail, or of the workloads that speed is measured on, is left out by
itself (the hashes are in the program, or beside the --model as `.bodies`).

With --hold-out a model is trained on the older part of each source first and
judges the newest PERCENT, less messages whose body occurs in the older part.

--verdicts shows the same table for the whole engine at its thresholds: spam,
phishing and malware count as called spam, suspect is shown apart. With
--leave-sources-out each source is judged by a model that has seen nothing of
it, as a new user's mail is. Its classes follow from docs/scanning.md.

--stream judges a mailbox as it comes: the whole engine judges each message of
a list, by date or in the list's order, and is told what it was, as a site
tells it by corrections: all, a share drawn by --seed, or the errors alone, at
once or some messages later, and some beforehand. Figures for each block of
messages, for the second half and for all: by class, and by the probability's
order, with 95 % intervals (Wilson; bootstrap). Messages that the model has
learned from are left out, which is said loudly. --peers runs other filters
over the same stream with their own learning; each must be installed (Debian:
spamd, rspamd, redis-server, bogofilter).

Examples:
  gauntlet evaluate --stream mailbox/labels.tsv --told 1.0,0.1 --report stream
  gauntlet evaluate --stream mailbox/labels.tsv --beforehand 200 --told 0
  gauntlet evaluate --stream labels.tsv --peers spamassassin,rspamd,bogofilter
  gauntlet evaluate --verdicts --list labels.tsv --list index --hold-out 30
  gauntlet evaluate --verdicts --list labels.tsv --leave-sources-out 10
  gauntlet evaluate --list labels.tsv --list trec07p/full/index --hold-out 30
  gauntlet evaluate --trec trec07p/full/index --report report
  gauntlet evaluate --trec index --learner all --feedback delayed --json";

/// Arguments of `gauntlet evaluate`.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub struct Args {
    /// Run the TREC on-line protocol over this index
    #[arg(long, value_name = "INDEX", conflicts_with_all = ["lists", "ham", "spam"],
          required_unless_present_any = ["lists", "ham", "spam", "list"])]
    trec: Option<PathBuf>,
    #[command(flatten)]
    stream: stream::StreamArgs,
    #[command(flatten)]
    corpus: CorpusArgs,
    /// Train on the older mail of each source, judge the newest PERCENT of it
    #[arg(long, value_name = "PERCENT", conflicts_with_all = ["trec", "model"],
          value_parser = clap::value_parser!(u8).range(1..=99))]
    hold_out: Option<u8>,
    /// Deal the sources out to this many parts, and judge each by a model that has seen none of its
    /// sources
    #[arg(long, value_name = "PARTS", requires = "verdicts", conflicts_with_all = ["hold_out", "model"],
          value_parser = clap::value_parser!(u8).range(2..=100))]
    leave_sources_out: Option<u8>,
    /// Judge by this model instead of the shipped one
    #[arg(long, value_name = "FILE", conflicts_with = "trec")]
    model: Option<PathBuf>,
    /// Judge by the whole engine as it ships (rules, classifier, thresholds), but for the model
    #[arg(long, conflicts_with = "trec")]
    verdicts: bool,
    /// With --verdicts: write what was weighed for each message to this file, for fitting the
    /// weights
    #[arg(long, value_name = "FILE", requires = "verdicts")]
    signals: Option<PathBuf>,
    #[command(flatten)]
    training_args: TrainingArgs,
    /// Which filter learns
    #[arg(long, value_enum, default_value_t = trec::LearnerChoice::Default)]
    learner: trec::LearnerChoice,
    /// When the filter gets the label of a message
    #[arg(long, value_enum, default_value_t = trec::Feedback::Immediate)]
    feedback: trec::Feedback,
    /// Share of recipients that give feedback, with `--feedback partial`
    #[arg(long, value_name = "PERCENT", default_value_t = 40,
          value_parser = clap::value_parser!(u32).range(0..=100))]
    partial_percent: u32,
    /// Resamples for the intervals; 0 leaves them out
    #[arg(long, value_name = "N", default_value_t = 1_000)]
    bootstrap: u32,
    /// Seed of everything that is drawn
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Write an HTML page with ROC curves and histograms of scores, and these as SVG, into this
    /// folder
    #[arg(long, value_name = "FOLDER")]
    report: Option<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Runs the evaluation and prints its result.
///
/// # Errors
/// If mail, index or model cannot be read, or the report cannot be written.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    match (&args.trec, &args.stream.list) {
        (Some(index), _) => online(index, args)?,
        (None, Some(_)) => as_it_comes(args)?,
        (None, None) => by_source(args)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn online(index: &Path, args: &Args) -> anyhow::Result<()> {
    let protocol = trec::Protocol {
        feedback: args.feedback,
        partial_percent: args.partial_percent,
        seed: args.seed,
    };
    let index = trec::read_index(index)?;
    let runs = trec::run(&index, args.learner, &protocol)?;
    let table = output::trec(&runs, args.bootstrap, args.seed, args.json)?;
    if let Some(folder) = &args.report {
        let series: Vec<Series<'_>> =
            runs.iter().map(|r| Series { name: r.name, scored: &r.scored }).collect();
        let title = format!("TREC on-line protocol, {:?} feedback", args.feedback).to_lowercase();
        report::write(folder, &title, &series, &[table])?;
    }
    Ok(())
}

fn as_it_comes(args: &Args) -> anyhow::Result<()> {
    let without = match &args.model {
        Some(model) => Bodies::beside(model)?,
        None => Bodies::shipped()?,
    };
    let common = stream::Common {
        model: read_model(args.model.as_deref())?,
        // Only what the model has learned from: speed is not measured here.
        without: Bodies { workloads: Default::default(), ..without },
        bootstrap: args.bootstrap,
        seed: args.seed,
        report: args.report.as_deref(),
        json: args.json,
    };
    stream::run(&args.stream, &common)
}

fn by_source(args: &Args) -> anyhow::Result<()> {
    let without = match &args.model {
        Some(model) => Bodies::beside(model)?,
        None if args.hold_out.or(args.leave_sources_out).is_some() => {
            Bodies::shipped()?.workloads_alone()
        }
        None => Bodies::shipped()?,
    };
    let corpus = corpus::read(&args.corpus, &without)?;
    let _ = writeln!(
        io::stderr(),
        "{} messages; left out: {} as duplicates, {} by their bodies",
        corpus.mail.len(),
        corpus.duplicates,
        corpus.excluded
    );
    let all = training::all(&corpus);
    if let Some(parts) = args.leave_sources_out {
        let parts = training::by_source(&corpus, usize::from(parts));
        let train_without = |part: Vec<usize>| {
            let part_of: HashSet<usize> = part.iter().copied().collect();
            let rest: Vec<usize> = all.iter().copied().filter(|i| !part_of.contains(i)).collect();
            let model = training::train(&corpus, &rest, &args.training_args);
            verdicts::Part { of: part, model }
        };
        return whole_engine(args, &without, parts.into_iter().map(train_without).collect());
    }
    let (model, judged) = match args.hold_out {
        Some(percent) => {
            let (older, newer) = training::split(&corpus, &all, usize::from(percent));
            (training::train(&corpus, &older, &args.training_args), newer)
        }
        None => (read_model(args.model.as_deref())?, all),
    };
    if args.verdicts {
        return whole_engine(args, &without, vec![verdicts::Part { of: judged, model }]);
    }
    let rows = sources::measure(&corpus, &judged, &model);
    let mut out = io::stdout().lock();
    if args.json {
        serde_json::to_writer(&mut out, &rows)?;
        writeln!(out)?;
    } else {
        sources::table(&mut out, &rows)?;
    }
    if let Some(folder) = &args.report {
        // All of them first: those behind the sixth are not drawn.
        let series: Vec<Series<'_>> =
            rows.iter().rev().map(|r| Series { name: &r.source, scored: &r.scored }).collect();
        report::write(folder, "Accuracy by source", &series, &[sources::html(&rows)])?;
    }
    Ok(())
}

fn whole_engine(args: &Args, without: &Bodies, parts: Vec<verdicts::Part>) -> anyhow::Result<()> {
    let rows = verdicts::measure(&args.corpus, without, parts, args.signals.as_deref())?;
    let mut out = io::stdout().lock();
    if args.json {
        serde_json::to_writer(&mut out, &rows)?;
        writeln!(out)?;
    } else {
        verdicts::table(&mut out, &rows)?;
    }
    Ok(())
}

fn read_model(path: Option<&Path>) -> anyhow::Result<Model> {
    let Some(path) = path else {
        return Ok(Arc::unwrap_or_clone(Model::shipped()));
    };
    let bytes = std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    Model::from_bytes(&bytes).with_context(|| path.display().to_string())
}
