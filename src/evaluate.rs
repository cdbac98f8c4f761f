//! `gauntlet evaluate`: how good the classifier is.

mod output;
mod trec;

use std::path::PathBuf;
use std::process::ExitCode;

const AFTER_HELP: &str = "\
The TREC on-line protocol (TREC 2005 to 2007 spam tracks): messages are classified in the order of
the index by a filter that starts from nothing; after each, the filter is told what it was.
  immediate  at once, after every message
  delayed    in batches: up to 1,000 messages are classified (the size is drawn anew for each
             batch), then all of them are learned
  partial    at once, but only for the mail of some recipients (--partial-percent of addresses)

An index has one line a message, `spam path` or `ham path`, paths relative to the index.
Of each message the first 64 KB are read. messages_per_second counts classifying and learning on one
thread, without reading files.

Keys of --json: one_minus_roca_percent, ham_misclassified_percent, spam_misclassified_percent,
lam_percent, caught_at_fp_1_percent, caught_at_fp_0_1_percent, caught_at_fp_0_01_percent, ham, spam,
messages_per_second, intervals (95 %, bootstrap); with --learner all also `baseline` with the same
keys, and `difference`: ours minus baseline, paired.

Examples:
  gauntlet evaluate --trec trec07p/full/index
  gauntlet evaluate --trec index --learner all --feedback delayed --json";

/// Arguments of `gauntlet evaluate`.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    /// Run the TREC on-line protocol over this index
    #[arg(long, value_name = "INDEX", required = true)]
    trec: PathBuf,
    /// Which filter learns
    #[arg(long, value_enum, default_value_t = trec::LearnerChoice::Default)]
    learner: trec::LearnerChoice,
    /// When the filter is told what a message was
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
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Runs the evaluation and prints its result.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let protocol = trec::Protocol {
        feedback: args.feedback,
        partial_percent: args.partial_percent,
        seed: args.seed,
    };
    let index = trec::read_index(&args.trec)?;
    let runs = trec::run(&index, args.learner, &protocol)?;
    output::trec(&runs, args.bootstrap, args.seed, args.json)?;
    Ok(ExitCode::SUCCESS)
}
