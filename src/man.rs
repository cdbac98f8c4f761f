//! `gauntlet man`: manual pages, made from the same text as `--help`.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use clap::Command;
use clap_mangen::Man;

use crate::documented::{TEXT, sections};

/// Arguments of `gauntlet man`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Folder to write `gauntlet.1` and a page for each command into, under the names of its
    /// subcommands, too; without it the main page is printed
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
                .and_then(|()| write_pages(command, folder))
                .with_context(|| format!("cannot write manual pages to {}", folder.display()))?;
        }
        None => {
            let mut page = Vec::new();
            Man::new(command).render(&mut page)?;
            std::io::stdout().write_all(&page)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Writes `gauntlet.1`, and a page for each command that has all of its subcommands: two hundred
/// small pages would be a hundredth of the package. The name of each subcommand leads to it.
fn write_pages(command: Command, folder: &Path) -> io::Result<()> {
    let mut command = command.disable_help_subcommand(true);
    command.build();
    Man::new(command.clone()).generate_to(folder)?;
    for command in shown(&command) {
        let man = Man::new(command.clone());
        let (name, mut page) = (man.get_filename(), Vec::new());
        man.render(&mut page)?;
        add_subcommands(command, &mut page, &mut |alias| {
            let alias = folder.join(alias);
            match std::fs::remove_file(&alias) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
                _ => std::os::unix::fs::symlink(&name, alias),
            }
        })?;
        std::fs::write(folder.join(&name), page)?;
    }
    Ok(())
}

fn shown(command: &Command) -> impl Iterator<Item = &Command> {
    command.get_subcommands().filter(|command| !command.is_hide_set())
}

/// Appends the pages of all subcommands, their sections below one of their own; `named` gets the
/// name of each page.
fn add_subcommands(
    command: &Command,
    page: &mut Vec<u8>,
    named: &mut impl FnMut(&str) -> io::Result<()>,
) -> io::Result<()> {
    for command in shown(command) {
        let command = command.clone().disable_help_subcommand(true);
        let man = Man::new(command.clone());
        named(&man.get_filename())?;
        let mut own = Vec::new();
        man.render(&mut own)?;
        let own = String::from_utf8_lossy(&own);
        let title = command.get_bin_name().unwrap_or_default().replace('-', "\\-");
        writeln!(page, ".SH \"{title}\"")?;
        // Behind the title comes the version, which all have.
        let sections = own.split("\n.SH ").skip(1);
        for section in sections.filter(|section| !section.starts_with("VERSION")) {
            writeln!(page, ".SS {section}")?;
        }
        add_subcommands(&command, page, named)?;
    }
    Ok(())
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

    /// `man gauntlet-array-join` finds what `gauntlet array join --help` says.
    #[test]
    fn each_command_has_its_page() {
        let folder = tempfile::tempdir().unwrap();
        for _again in 0..2 {
            write_pages(crate::examples::command(), folder.path()).unwrap();
        }
        let mut all = crate::examples::command().disable_help_subcommand(true);
        all.build();
        let mut waiting = vec![all];
        let mut commands = 0;
        while let Some(command) = waiting.pop() {
            let name = command.get_display_name().unwrap_or("gauntlet");
            let page = std::fs::read_to_string(folder.path().join(format!("{name}.1"))).unwrap();
            let about = command.get_about().unwrap().to_string().replace('-', "\\-");
            let first: String =
                about.chars().take_while(|c| c.is_alphanumeric() || *c == ' ').collect();
            assert!(page.contains(first.trim_end()), "{name}: {first}");
            waiting.extend(shown(&command).cloned());
            commands += 1;
        }
        assert!(commands > 150, "{commands}");
        let files = std::fs::read_dir(folder.path()).unwrap();
        let pages = files.filter(|file| file.as_ref().unwrap().file_type().unwrap().is_file());
        assert!(pages.count() < 80);
    }

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
