//! `gauntlet learn`: tell the classifier what messages are.

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::SystemTime;

use anyhow::Context;
use gauntlet_engine::classifier::site::{Correction, message_id, reporter_id};
use gauntlet_engine::classifier::{ClassifierScratch, Model};
use gauntlet_mail::Message;
use gauntlet_store::corrections::Corrections;

use crate::train::corpus;

const AFTER_HELP: &str = "\
What is learned is kept in DATA/corrections.journal, on stable storage before the command ends. A
running node takes it over when it reloads (SIGHUP). Learning the same message twice changes nothing;
what was said last holds; --forget takes it back. The corrections of one reporter count 20 messages
together at most; the administrator's (no --reporter) count in full.

Examples:
  gauntlet learn --data /var/lib/gauntlet --spam missed.eml
  gauntlet learn --data /var/lib/gauntlet --ham ~/Maildir/.NotSpam --reporter ann@example.org
  gauntlet learn --data /var/lib/gauntlet --forget missed.eml";

/// Messages corrected between two flushes.
const BATCH: usize = 256;

/// Arguments of `gauntlet learn`.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    /// These are unwanted: messages, folders, Maildirs, mailboxes or archives
    #[arg(long, value_name = "PATH", required_unless_present_any = ["ham", "forget"])]
    spam: Vec<PathBuf>,
    /// These are wanted
    #[arg(long, value_name = "PATH")]
    ham: Vec<PathBuf>,
    /// Take back what was said about these
    #[arg(long, value_name = "PATH")]
    forget: Vec<PathBuf>,
    /// The data folder of the node
    #[arg(long, value_name = "FOLDER")]
    data: PathBuf,
    /// Who says so, e.g. an address; none is the administrator
    #[arg(long, value_name = "NAME", default_value = "")]
    reporter: String,
}

/// Learns, and prints how much was news.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let mut journal = Corrections::open(&args.data)
        .with_context(|| format!("cannot learn in {}", args.data.display()))?;
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |d| d.as_secs());
    let by = (reporter_id(&args.reporter), now as i64);
    let (model, mut scratch) = (Model::shipped(), ClassifierScratch::default());
    let (mut seen, mut news) = (0usize, 0usize);
    for (paths, spam) in [(&args.spam, true), (&args.ham, false)] {
        for path in paths {
            let mut batch = Vec::new();
            let mut failed = None;
            corpus::walk(path, &mut |raw| {
                let message = Message::parse(raw);
                let said = Correction::new(&message, &model, &mut scratch, spam, by);
                batch.push((message_id(raw), said));
                seen += 1;
                if batch.len() >= BATCH && failed.is_none() {
                    match journal.say(batch.drain(..)) {
                        Ok(count) => news += count,
                        Err(error) => failed = Some(error),
                    }
                }
            })?;
            if let Some(error) = failed {
                return Err(error.into());
            }
            news += journal.say(batch)?;
        }
    }
    let mut forgotten = 0;
    for path in &args.forget {
        let mut ids = Vec::new();
        corpus::walk(path, &mut |raw| ids.push(message_id(raw)))?;
        for id in ids {
            forgotten += usize::from(journal.forget(&id)?);
        }
    }
    writeln!(
        io::stdout().lock(),
        "{seen} messages read, {news} learned, {forgotten} forgotten, {} corrections stand",
        journal.standing().len()
    )?;
    Ok(ExitCode::SUCCESS)
}
