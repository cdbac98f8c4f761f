//! The program as a package installs it: its commands are about the package's node, but for
//! `gauntlet setup`, which writes configurations and has defaults of its own.

use std::fs::File;
use std::path::Path;

use clap::{Arg, Command};

/// Where packages put the program.
const PROGRAM: &str = "/usr/bin/gauntlet";
/// The configuration of the node that belongs to it.
const CONFIGURATION: &str = "/etc/gauntlet/gauntlet.toml";
/// What names the configuration wherever an option does.
const VARIABLE: &str = "GAUNTLET_CONFIG";
/// The command that decides itself which file it is about.
const SETUP: &str = "setup";

/// Has commands of an installed program take its configuration, unless one is named. For whoever
/// may not read it, the program is as any other build: the file may hold passwords of databases.
pub(crate) fn with_configuration(command: Command) -> Command {
    // Set and empty names no file; it is as if it was not set.
    let command = match std::env::var_os(VARIABLE).is_some_and(|value| value.is_empty()) {
        true => without_variable(command),
        false => command,
    };
    let is_installed = std::env::current_exe().is_ok_and(|program| program == Path::new(PROGRAM));
    match is_installed && File::open(CONFIGURATION).is_ok() {
        true => with_default(command),
        false => command,
    }
}

fn names_it(arg: &Arg) -> bool {
    arg.get_env().is_some_and(|name| name == VARIABLE)
}

fn without_variable(command: Command) -> Command {
    let own = command.mut_args(|arg| match names_it(&arg) {
        true => arg.env(clap::builder::Resettable::Reset),
        false => arg,
    });
    own.mut_subcommands(without_variable)
}

fn with_default(command: Command) -> Command {
    let own = command.mut_args(|arg| match names_it(&arg) {
        true => arg.default_value(CONFIGURATION),
        false => arg,
    });
    own.mut_subcommands(|command| match command.get_name() {
        SETUP => command,
        _ => with_default(command),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_take_the_configuration_unless_one_is_named() {
        let config = Arg::new("config").long("config").env(VARIABLE).global(true);
        let list = Command::new("list");
        let node = Command::new("queue").arg(config).subcommand(list);
        let other = Command::new("man").arg(Arg::new("folder"));
        let own = Command::new(SETUP).arg(Arg::new("config").long("config").env(VARIABLE));
        let command = Command::new("gauntlet").subcommands([node, other, own]);
        let command = with_default(command);
        let value = |words: &[&str]| {
            let matches = command.clone().try_get_matches_from(words).unwrap();
            let (_, queue) = matches.subcommand().unwrap();
            let inner = queue.subcommand().map_or(queue, |(_, list)| list);
            inner.get_one::<String>("config").cloned().unwrap_or_default()
        };
        let unnamed = std::env::var(VARIABLE).unwrap_or_else(|_| CONFIGURATION.to_owned());
        assert_eq!(value(&["gauntlet", "queue", "list"]), unnamed);
        assert_eq!(value(&["gauntlet", "queue", "list", "--config", "other"]), "other");
        assert_eq!(value(&["gauntlet", "queue", "--config", "other", "list"]), "other");
        if std::env::var_os(VARIABLE).is_none() {
            assert_eq!(value(&["gauntlet", SETUP]), "", "it has a default of its own");
        }
        let unset = without_variable(command.clone());
        let queue = unset.find_subcommand("queue").unwrap();
        assert!(!queue.get_arguments().any(names_it));
        let man = command.clone().try_get_matches_from(["gauntlet", "man"]).unwrap();
        assert!(man.subcommand().unwrap().1.get_one::<String>("folder").is_none());
    }
}
