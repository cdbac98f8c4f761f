//! How a node of a test is started.

use std::path::PathBuf;
use std::process::Command;

/// The program of a node, and what it is told beside its arguments.
#[derive(Debug, Default)]
pub(crate) struct Launch {
    /// Another build; none is the one under test.
    pub(crate) program: Option<PathBuf>,
    /// Variables of its environment.
    pub(crate) environment: Vec<(&'static str, String)>,
}

impl Launch {
    /// The command, with so many open files at most.
    pub(crate) fn command(&self, descriptors: Option<u32>) -> Command {
        let own = || PathBuf::from(env!("CARGO_BIN_EXE_gauntlet"));
        let program = self.program.clone().unwrap_or_else(own);
        let mut command = match descriptors {
            None => Command::new(program),
            Some(most) => {
                let mut shell = Command::new("sh");
                let limited = format!("ulimit -n {most} && exec \"$0\" \"$@\"");
                shell.args(["-c", &limited]).arg(program);
                shell
            }
        };
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        command
    }
}
