//! bogofilter, trained on its errors as its FAQ recommends: it learns what it got wrong or was not
//! sure of.

use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context, bail};

use super::{Learner, Opinion};
use crate::compare::server::{program, version};

/// bogofilter with a list of words of its own.
#[derive(Debug)]
pub struct Bogofilter {
    program: PathBuf,
    version: String,
    lists: tempfile::TempDir,
}

impl Bogofilter {
    /// One that has learned nothing.
    ///
    /// # Errors
    /// It is not installed.
    pub fn start() -> anyhow::Result<Self> {
        let program = program("bogofilter", "bogofilter")?;
        let version = version(&program, "-V");
        let lists = tempfile::tempdir().context("cannot make a folder for bogofilter")?;
        Ok(Bogofilter { program, version, lists })
    }

    /// Runs it with a message on its standard input.
    fn run(&self, options: &[&str], raw: &[u8]) -> anyhow::Result<String> {
        let mut command = Command::new(&self.program);
        command.arg("-d").arg(self.lists.path()).args(options);
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .context("cannot start bogofilter")?;
        if let Some(mut input) = child.stdin.take() {
            // What it does not read to the end it says itself.
            let _ = input.write_all(raw);
        }
        let output = child.wait_with_output()?;
        // 0 to 2 are verdicts.
        if !matches!(output.status.code(), Some(0..=2)) {
            let said = String::from_utf8_lossy(&output.stderr);
            bail!("bogofilter {options:?}: {}: {}", output.status, said.trim());
        }
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    fn is_untaught(&self) -> bool {
        !self.lists.path().join("wordlist.db").exists()
    }
}

impl Learner for Bogofilter {
    fn name(&self) -> String {
        "bogofilter".to_owned()
    }

    fn about(&self) -> String {
        format!("{}, trained on what it got wrong or was not sure of", self.version)
    }

    fn judge(&mut self, raw: &[u8]) -> anyhow::Result<Opinion> {
        if self.is_untaught() {
            // Without a list of words it refuses to judge.
            return Ok(Opinion { spam: false, suspect: true, score: 0.5 });
        }
        let said = self.run(&["-T"], raw)?;
        opinion(&said).with_context(|| format!("bogofilter says {said:?}"))
    }

    fn teach(&mut self, raw: &[u8], spam: bool) -> anyhow::Result<()> {
        let before = self.judge(raw)?;
        let sure = before.suspect == before.spam;
        if self.is_untaught() || !sure || before.spam != spam {
            self.run(&[if spam { "-s" } else { "-n" }], raw)?;
        }
        Ok(())
    }
}

/// `S 0.999999`: S is spam, H ham, U unsure.
fn opinion(line: &str) -> Option<Opinion> {
    let mut words = line.split_ascii_whitespace();
    let (class, score) = (words.next()?, words.next()?.parse().ok()?);
    Some(Opinion { spam: class == "S", suspect: class != "H", score })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_it_says() {
        let of = |line| opinion(line).map(|o| (o.spam, o.suspect, o.score));
        assert_eq!(of("S 0.99\n"), Some((true, true, 0.99)));
        assert_eq!(of("U 0.5"), Some((false, true, 0.5)));
        assert_eq!(of("H 0.000001"), Some((false, false, 0.000_001)));
        assert_eq!(of(""), None);
    }
}
