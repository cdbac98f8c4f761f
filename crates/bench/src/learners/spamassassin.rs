//! SpamAssassin's spamd with its own Bayes, which it also teaches itself (`bayes_auto_learn`).

use anyhow::{Context, bail};

use super::{Learner, Opinion, exchange};
use crate::compare::peers::{give_to, spamd_command};
use crate::compare::server::{Server, Start, folder, free_address, is_root, program, version};
use crate::protocol::Protocol;

/// Good and bad messages from which its Bayes says anything: as it ships.
pub const BAYES_MIN: u32 = 200;

/// A spamd that learns.
#[derive(Debug)]
pub struct SpamAssassin {
    server: Server,
    bayes_min: u32,
}

impl SpamAssassin {
    /// Starts it; its Bayes speaks from so many good and bad messages on.
    ///
    /// # Errors
    /// It is not installed or does not start.
    pub fn start(bayes_min: u32) -> anyhow::Result<Self> {
        let (program, folder, address) = (program("spamd", "spamd")?, folder()?, free_address()?);
        let bayes = folder.path().join("bayes");
        std::fs::create_dir(&bayes).context("cannot make a folder")?;
        let mut command = spamd_command(&program, 1, &folder, address);
        for setting in [
            "use_bayes 1".to_owned(),
            "bayes_auto_learn 1".to_owned(),
            format!("bayes_path {}", bayes.join("bayes").display()),
            format!("bayes_min_ham_num {bayes_min}"),
            format!("bayes_min_spam_num {bayes_min}"),
        ] {
            command.arg(format!("--cf={setting}"));
        }
        command.arg("--allow-tell");
        if is_root() {
            // It gives up root's rights, and its words must be where it may write.
            command.args(["-u", "nobody"]);
            give_to(folder.path(), "nobody")?;
        }
        let version = version(&program, "--version");
        let (name, protocol) = ("spamd".to_owned(), Some(Protocol::Spamd));
        let start = Start { name, version, notes: Vec::new(), protocol, address, folder };
        Ok(SpamAssassin { server: Server::foreground(start, command)?, bayes_min })
    }

    fn ask(&self, method: &str, fields: &str, raw: &[u8]) -> anyhow::Result<String> {
        let head = format!("{method} SPAMC/1.5\r\nContent-length: {}\r\n{fields}\r\n", raw.len());
        let answer = exchange(self.server.address, &head, raw)?;
        let answer = String::from_utf8_lossy(&answer).into_owned();
        if !answer.starts_with("SPAMD/") || !answer.contains(" 0 EX_OK") {
            bail!("spamd answers {answer:?}");
        }
        Ok(answer)
    }
}

impl Learner for SpamAssassin {
    fn name(&self) -> String {
        match self.bayes_min {
            BAYES_MIN => "spamassassin".to_owned(),
            min => format!("spamassassin, Bayes from {min}"),
        }
    }

    fn about(&self) -> String {
        format!(
            "{}, local tests, Bayes with bayes_auto_learn, silent below {} good and {1} bad messages",
            self.server.version, self.bayes_min
        )
    }

    fn judge(&mut self, raw: &[u8]) -> anyhow::Result<Opinion> {
        let answer = self.ask("CHECK", "", raw)?;
        opinion(&answer).with_context(|| format!("spamd answers {answer:?}"))
    }

    fn teach(&mut self, raw: &[u8], spam: bool) -> anyhow::Result<()> {
        let class = if spam { "spam" } else { "ham" };
        self.ask("TELL", &format!("Message-class: {class}\r\nSet: local\r\n"), raw)?;
        Ok(())
    }
}

/// `Spam: True ; 7.3 / 5.0`
fn opinion(answer: &str) -> Option<Opinion> {
    let line = answer.lines().find_map(|line| line.strip_prefix("Spam:"))?;
    let (said, points) = line.split_once(';')?;
    let score = points.split('/').next()?.trim().parse().ok()?;
    let spam = matches!(said.trim(), "True" | "Yes");
    Some(Opinion { spam, suspect: spam, score })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_it_says() {
        let of = |text| opinion(text).map(|o| (o.spam, o.score));
        let text = "SPAMD/1.1 0 EX_OK\r\nSpam: True ; 7.3 / 5.0\r\n\r\n";
        assert_eq!(of(text), Some((true, 7.3)));
        assert_eq!(of("Spam: False ; -0.1 / 5.0\r\n"), Some((false, -0.1)));
        assert_eq!(of("SPAMD/1.1 76 Bad header\r\n"), None);
    }
}
