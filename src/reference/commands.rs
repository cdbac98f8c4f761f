//! `docs/reference/commands.md`: the help of every subcommand.

use clap::Command;

use super::golden;

const HEAD: &str = "# Commands

What the help (`--help`) of every command says; `gauntlet man DIR` writes the same as manual pages,
`gauntlet completions SHELL` what a shell needs to complete it. A test makes this page from the
program's own definition of its arguments.

Options that name the node (`--config`, `--data`) can stay away where `GAUNTLET_CONFIG` names the
configuration, or the data folder is `gauntlet-data` in the current folder. Exit status is 0 for
done, 2 for an error, and 1 for what the command's own help says.
";

/// The help without what differs between machines: the environment and the terminal.
fn still(command: Command) -> Command {
    let names: Vec<String> =
        command.get_subcommands().map(|sub| sub.get_name().to_owned()).collect();
    let command = command.mut_args(|argument| argument.hide_env_values(true)).term_width(96);
    names.iter().fold(command, |command, name| command.mut_subcommand(name, still))
}

fn describe(command: &mut Command, path: &str, depth: usize, page: &mut String) {
    let about = command.get_about().map(ToString::to_string).unwrap_or_default();
    let level = "#".repeat((depth + 1).min(3));
    page.push_str(&format!("\n{level} {path}\n\n{about}.\n\n```text\n"));
    let help = command.render_long_help().to_string();
    let help = help.strip_prefix(&about).unwrap_or(&help);
    for line in help.trim().lines() {
        page.push_str(line.trim_end());
        page.push('\n');
    }
    page.push_str("```\n");
    for sub in command.get_subcommands_mut() {
        if sub.get_name() != "help" && !sub.is_hide_set() {
            let path = format!("{path} {}", sub.get_name());
            describe(sub, &path, depth + 1, page);
        }
    }
}

#[test]
fn the_page_of_commands_is_true() {
    let mut page = HEAD.to_owned();
    let mut command = still(crate::examples::command());
    command.build();
    for sub in command.get_subcommands_mut() {
        if sub.get_name() != "help" && !sub.is_hide_set() {
            let path = format!("gauntlet {}", sub.get_name());
            describe(sub, &path, 1, &mut page);
        }
    }
    golden("commands.md", &page);
}
