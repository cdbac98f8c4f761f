//! A shell of a test: it keeps its folder, aliases and background jobs between commands.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Instant;

use super::PATIENCE;

/// What the shell prints behind each command, before its status.
const END: &str = "end of the command:";

/// A running `bash`.
pub(crate) struct Shell {
    child: Child,
    input: ChildStdin,
    lines: Receiver<String>,
}

impl Shell {
    /// Starts it in this folder, which is its home, too; `gauntlet` is this program.
    pub(crate) fn start(folder: &Path, program: &Path) -> Self {
        let mut path = program.parent().expect("a program's folder").as_os_str().to_owned();
        path.push(":");
        path.push(std::env::var_os("PATH").unwrap_or_default());
        let mut child = Command::new("bash")
            .args(["--noprofile", "--norc"])
            .current_dir(folder)
            .env("PATH", path)
            .env("HOME", folder)
            .env("COLUMNS", "100")
            .env_remove("GAUNTLET_CONFIG")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .process_group(0)
            .spawn()
            .expect("bash starts");
        let mut input = child.stdin.take().expect("its input");
        writeln!(input, "exec 2>&1; shopt -s expand_aliases").expect("bash reads");
        let output = child.stdout.take().expect("its output");
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            let mut output = BufReader::new(output);
            let mut line = Vec::new();
            while output.read_until(b'\n', &mut line).is_ok_and(|read| read > 0) {
                let text = String::from_utf8_lossy(&line).into_owned();
                line.clear();
                if sender.send(text).is_err() {
                    break;
                }
            }
        });
        Shell { child, input, lines }
    }

    /// Runs a command: what it printed, and its status. A command in the background goes on.
    pub(crate) fn run(&mut self, command: &str) -> (String, i32) {
        // A command reads nothing of what we write to the shell.
        let text = format!("{{\n{command}\n}} </dev/null\nprintf '\\n{END}%s\\n' $?\n");
        self.input.write_all(text.as_bytes()).expect("bash reads");
        let mut printed = String::new();
        let start = Instant::now();
        loop {
            let left = PATIENCE.saturating_sub(start.elapsed());
            let line = self.lines.recv_timeout(left);
            let line = line.unwrap_or_else(|e| panic!("{command}\n{e}; it printed:\n{printed}"));
            if let Some(status) = line.strip_prefix(END) {
                return (printed, status.trim().parse().expect("a status"));
            }
            printed.push_str(&line);
        }
    }

    /// What was printed and is printed until it is enough, by a command in the background.
    pub(crate) fn wait_for(&self, printed: String, enough: impl Fn(&str) -> bool) -> String {
        let (mut printed, start) = (printed, Instant::now());
        while !enough(&printed) {
            let left = PATIENCE.saturating_sub(start.elapsed());
            let Ok(line) = self.lines.recv_timeout(left) else { break };
            printed.push_str(&line);
        }
        printed
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        // With all that it left in the background.
        let group = format!("-{}", self.child.id());
        let _it_may_have_ended = Command::new("kill").args(["-KILL", "--", &group]).status();
        let _reaped = self.child.wait();
    }
}
