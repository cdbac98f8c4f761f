//! `gauntlet man`: manual pages, made from the same text as `--help`.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;

/// Arguments of `gauntlet man`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Folder to write `gauntlet.1` and a page for each subcommand into; without it the main page
    /// is printed
    #[arg(value_name = "DIR")]
    folder: Option<PathBuf>,
}

/// Prints or writes the pages.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let command = crate::examples::command();
    match &args.folder {
        Some(folder) => {
            std::fs::create_dir_all(folder)
                .and_then(|()| clap_mangen::generate_to(command, folder))
                .with_context(|| format!("cannot write manual pages to {}", folder.display()))?;
        }
        None => {
            let mut page = Vec::new();
            clap_mangen::Man::new(command).render(&mut page)?;
            std::io::stdout().write_all(&page)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}
