//! `gauntlet train`: make a model from labelled mail.

pub(crate) mod corpus;
pub(crate) mod school;

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;

use self::corpus::CorpusArgs;
use self::school::Lessons;

const AFTER_HELP: &str = "\
The model is the same, byte for byte, for the same mail, options and seed. Its features are those that
senders make; what collectors and receivers add to a message is not looked at.

Examples:
  gauntlet train --list dev/labels.tsv --list trec07p/full/index -o model/default.model
  gauntlet train --list dev/labels.tsv --exclude-source phishing_pot -o without.model
  gauntlet train --ham ~/Maildir --spam spam.mbox -o mine.model";

/// Arguments of `gauntlet train`.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    #[command(flatten)]
    corpus: CorpusArgs,
    #[command(flatten)]
    lessons: Lessons,
    /// Write the model to this file
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
}

/// Trains and writes the model.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let corpus = corpus::read(&args.corpus)?;
    let model = school::train(&corpus, &school::all(&corpus), &args.lessons);
    let bytes = model.to_bytes();
    std::fs::write(&args.output, &bytes)
        .with_context(|| format!("cannot write {}", args.output.display()))?;
    let mut out = io::stdout().lock();
    writeln!(
        out,
        "{}: model {}, {} bytes, of {} messages ({} left out as duplicates, {} by their body)",
        args.output.display(),
        model.version(),
        bytes.len(),
        corpus.mail.len(),
        corpus.duplicates,
        corpus.excluded,
    )?;
    writeln!(out, "{}", model.description())?;
    Ok(ExitCode::SUCCESS)
}
