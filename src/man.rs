//! `gauntlet man`: manual pages, made from the same text as `--help`.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;

use crate::documented::{TEXT, sections};

/// Arguments of `gauntlet man`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Folder to write `gauntlet.1` and a page for each subcommand into; without it the main page
    /// is printed
    #[arg(value_name = "DIR")]
    folder: Option<PathBuf>,
    /// Print the page of the configuration file, `gauntlet.toml.5`, instead
    #[arg(long, conflicts_with = "folder")]
    settings: bool,
}

/// Prints or writes the pages.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    if args.settings {
        std::io::stdout().write_all(settings().as_bytes())?;
        return Ok(ExitCode::SUCCESS);
    }
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

/// The manual page of the configuration file.
fn settings() -> String {
    let mut page = String::from(
        ".TH gauntlet.toml 5\n.SH NAME\ngauntlet.toml \\- settings of gauntlet\n.SH DESCRIPTION\n\
         Every setting with its default. A file needs only what differs. A key replaces one default,\n\
         a list the whole list; the environment replaces single keys (GAUNTLET_SCAN__THREADS=4 is\n\
         threads of [scan]). Tables in double brackets may be repeated.\n",
    );
    for section in sections(TEXT) {
        page += &format!(".SH {}\n", escaped(&section.header));
        if !section.prose.is_empty() {
            page += &format!("{}\n", escaped(&section.prose.join(" ")));
        }
        for key in &section.keys {
            let example = if key.is_example { " (example)" } else { "" };
            let (name, value, text) = (&key.name, escaped(&key.value), escaped(&key.comment));
            page += &format!(".TP\n\\fB{name}\\fR = {value}{example}\n{text}\n");
        }
    }
    page + ".SH SEE ALSO\n.BR gauntlet (1),\n.BR gauntlet\\-config (1)\n"
}

/// A text that no line of begins a request of roff, with its signs as they are.
fn escaped(text: &str) -> String {
    let text = text.replace('\\', "\\e").replace('-', "\\-");
    if text.starts_with(['.', '\'']) { format!("\\&{text}") } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_manual_page_has_every_setting() {
        let page = settings();
        let count = sections(TEXT).iter().map(|section| section.keys.len()).sum::<usize>();
        assert!(count > 400, "the settings are read: {count}");
        assert_eq!(page.matches("\n.TP\n").count(), count);
        let is_request = |line: &&str| line.starts_with(['.', '\'']);
        for request in page.lines().filter(is_request) {
            assert!(
                [".TH", ".SH", ".TP", ".BR"].iter().any(|r| request.starts_with(r)),
                "{request}"
            );
        }
    }
}
