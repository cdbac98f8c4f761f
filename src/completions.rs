//! `gauntlet completions`: what a shell needs to complete our arguments.

use std::io::Write;
use std::process::ExitCode;

/// Arguments of `gauntlet completions`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Shell that the completions are for
    #[arg(value_name = "SHELL")]
    shell: clap_complete::Shell,
}

/// Prints the completions of the shell.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut crate::examples::command(), "gauntlet", &mut script);
    std::io::stdout().write_all(&script)?;
    Ok(ExitCode::SUCCESS)
}
