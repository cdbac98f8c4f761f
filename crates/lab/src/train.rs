//! `gauntlet train`: make a model from labelled mail.

pub(crate) mod corpus;
pub(crate) mod progress;
pub(crate) mod training;

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use gauntlet_inputs::bodies::{self, Bodies};

use self::corpus::CorpusArgs;
use self::training::TrainingArgs;

const AFTER_HELP: &str = "\
The model is the same, byte for byte, for the same mail, options and seed. Its
features are those that senders make; what collectors and receivers add to a
message is not looked at.

Examples:
  gauntlet train --list labels.tsv --list index --workload bench30k -o my.model
  gauntlet train --list labels.tsv --exclude-source phishing_pot -o less.model
  gauntlet train --ham ~/Maildir --spam spam.mbox -o mine.model";

/// Arguments of `gauntlet train`.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub struct Args {
    #[command(flatten)]
    corpus: CorpusArgs,
    #[command(flatten)]
    training_args: TrainingArgs,
    /// Folder of mail that speed is measured on: evaluation leaves its bodies out, as it does those
    /// of the training mail
    #[arg(long = "workload", value_name = "FOLDER")]
    workloads: Vec<PathBuf>,
    /// Write the model to this file, and the hashes of the bodies of its mail beside it (`.bodies`)
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
}

/// Trains and writes the model and the hashes of its bodies.
///
/// # Errors
/// If mail cannot be read, there is none, or a file cannot be written.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let corpus = corpus::read(&args.corpus, &Bodies::default())?;
    let model = training::train(&corpus, &training::all(&corpus), &args.training_args);
    let bytes = model.to_bytes();
    let hashes = Bodies {
        trained: corpus.mail.iter().map(|m| bodies::short(m.body)).collect(),
        workloads: corpus::bodies(&args.workloads)?.into_iter().map(bodies::short).collect(),
    };
    let beside = args.output.with_extension("bodies");
    for (path, bytes) in [(&args.output, &bytes), (&beside, &hashes.to_bytes())] {
        gauntlet_store::files::write_durably_as(path, bytes, 0o644)
            .with_context(|| format!("cannot write {}", path.display()))?;
    }
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
