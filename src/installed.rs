//! The program as a package installs it: its commands are about the package's node.

use std::fs::File;
use std::path::Path;

/// Where packages put the program.
const PROGRAM: &str = "/usr/bin/gauntlet";
/// The configuration of the node that belongs to it.
const CONFIGURATION: &str = "/etc/gauntlet/gauntlet.toml";
const VARIABLE: &str = "GAUNTLET_CONFIG";

/// Has commands of an installed program take its configuration, unless one is named. For whoever
/// may not read it, the program is as any other build: the file may hold passwords of databases.
/// Call it while the process has one thread.
pub(crate) fn choose_configuration() {
    let is_installed = std::env::current_exe().is_ok_and(|program| program == Path::new(PROGRAM));
    if is_installed && std::env::var_os(VARIABLE).is_none() && File::open(CONFIGURATION).is_ok() {
        // SAFETY: there is no other thread that could read the environment meanwhile.
        unsafe { std::env::set_var(VARIABLE, CONFIGURATION) };
    }
}
