//! `gauntlet clock`: what the running node thinks of the system's clock.

use std::io::Write;
use std::process::ExitCode;

use anyhow::bail;
use gauntlet_gateway::control::{Answer, Request};

use crate::node_args::NodeArgs;

const AFTER_HELP: &str = "\
A clock that is set ahead by more than clock.jump_seconds_max, or a node that was off for so
long, makes nothing older: held mail, the queue and the message log age by the time that has
passed, until you say that the clock is right. Check it with `date -u` first.

Exit codes: 0 nothing is to be decided, or it was accepted; 1 something is.

Examples:
  gauntlet clock --config gauntlet.toml
  gauntlet clock --accept --config gauntlet.toml";

/// Arguments of `gauntlet clock`.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    #[command(flatten)]
    node: NodeArgs,
    /// The clock is right, and what is too old by it may go
    #[arg(long)]
    accept: bool,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let mut out = std::io::stdout().lock();
    if args.accept {
        let Answer::Done(questions) = args.node.ask(&Request::AcceptClock)? else {
            bail!("the node gave another answer: is it of this version?")
        };
        match questions {
            0 => writeln!(out, "accepted; there was no question")?,
            _ => writeln!(out, "accepted; what is too old goes now")?,
        }
        return Ok(ExitCode::SUCCESS);
    }
    let Answer::Status(status) = args.node.ask(&Request::Status)? else {
        bail!("the node gave another answer: is it of this version?")
    };
    if status.questions.is_empty() {
        writeln!(out, "nothing to decide: the clock is not ahead of the time that has passed")?;
        return Ok(ExitCode::SUCCESS);
    }
    for question in &status.questions {
        writeln!(out, "{question}")?;
    }
    Ok(ExitCode::from(1))
}
