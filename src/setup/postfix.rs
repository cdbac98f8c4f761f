//! Settings of a real Postfix, by its own `postconf`: read, set, and set back.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail, ensure};
use serde::{Deserialize, Serialize};

use super::answers::Service;
use super::host::Host;
use super::mta::{self, MILTER_LISTS, Parameter, RELEASE_OPTIONS};

/// `postconf`, and the folder of main.cf that it is to use.
#[derive(Debug, Clone)]
pub(super) struct Postfix {
    postconf: PathBuf,
    folder: PathBuf,
}

/// A setting of main.cf that changes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Change {
    pub(super) name: String,
    pub(super) value: String,
    /// What main.cf says now; none if the default is in force.
    pub(super) before: Option<String>,
}

/// What changes in Postfix.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Changes {
    pub(super) main: Vec<Change>,
    /// A service that master.cf gets: its line there.
    pub(super) service: Option<String>,
}

impl Changes {
    /// Nothing changes.
    pub(super) fn is_empty(&self) -> bool {
        self.main.is_empty() && self.service.is_none()
    }

    /// As a difference, one setting a line.
    pub(super) fn text(&self) -> String {
        let mut text = String::new();
        for change in &self.main {
            if let Some(before) = &change.before {
                text.push_str(&format!("-{} = {before}\n", change.name));
            }
            text.push_str(&format!("+{} = {}\n", change.name, change.value));
        }
        if let Some(line) = &self.service {
            text.push_str(&format!("+{line}\n"));
            let options = RELEASE_OPTIONS.iter();
            text.extend(options.map(|(name, value)| format!("+  -o {name}={value}\n")));
        }
        text
    }
}

impl Postfix {
    /// The Postfix of this machine, with its own folder or that one.
    ///
    /// # Errors
    /// There is none, or it has no such folder.
    pub(super) fn find(host: &Host, folder: Option<&Path>) -> anyhow::Result<Self> {
        let postconf = host.postconf.clone().context(
            "there is no postconf on this machine: leave --apply-postfix out, and copy the lines \
             to the machine with Postfix",
        )?;
        match folder {
            Some(folder) => Ok(Self::at(postconf, folder)),
            None => {
                let said = run(&postconf, &["-h", "config_directory"])?;
                Ok(Self::at(postconf, Path::new(said.trim())))
            }
        }
    }

    /// The same, with this folder.
    pub(super) fn at(postconf: PathBuf, folder: &Path) -> Self {
        Postfix { postconf, folder: folder.to_owned() }
    }

    /// The program.
    pub(super) fn program(&self) -> &Path {
        &self.postconf
    }

    /// The folder of main.cf.
    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    fn run(&self, args: &[&str]) -> anyhow::Result<String> {
        let folder = self.folder.display().to_string();
        let args: Vec<&str> = ["-c", &folder].into_iter().chain(args.iter().copied()).collect();
        run(&self.postconf, &args)
    }

    /// Lists of milters that are in force.
    pub(super) fn milter_lists(&self) -> anyhow::Result<[String; 2]> {
        let [one, two] = MILTER_LISTS.map(|name| self.run(&["-h", name]));
        Ok([one?, two?].map(|list| list.trim().to_owned()))
    }

    /// What main.cf sets.
    fn main(&self) -> anyhow::Result<BTreeMap<String, String>> {
        let said = self.run(&["-n"])?;
        let pairs = said.lines().filter_map(|line| line.split_once('='));
        Ok(pairs.map(|(name, value)| (name.trim().to_owned(), value.trim().to_owned())).collect())
    }

    /// What has to change for this service. Changes nothing.
    pub(super) fn changes(&self, service: &Service) -> anyhow::Result<Changes> {
        let [one, two] = self.milter_lists()?;
        let main = self.main()?;
        let differs = |wanted: Parameter| {
            let before = main.get(&wanted.name).cloned();
            let same = before.as_ref() == Some(&wanted.value);
            (!same).then_some(Change { name: wanted.name, value: wanted.value, before })
        };
        let wanted = mta::parameters(service, [&one, &two]);
        let line = mta::release_service(service);
        let is_new = |line: &String| {
            let there = self.run(&["-M", &service_name(line)]);
            there.map_or(true, |there| there.trim().is_empty())
        };
        Ok(Changes {
            main: wanted.into_iter().filter_map(differs).collect(),
            service: line.filter(is_new),
        })
    }

    /// Makes the changes.
    pub(super) fn apply(&self, changes: &Changes) -> anyhow::Result<()> {
        let settings: Vec<String> =
            changes.main.iter().map(|c| format!("{} = {}", c.name, c.value)).collect();
        if !settings.is_empty() {
            let args: Vec<&str> =
                ["-e"].into_iter().chain(settings.iter().map(String::as_str)).collect();
            self.run(&args)?;
        }
        if let Some(line) = &changes.service {
            let name = service_name(line);
            self.run(&["-M", &format!("{name}={line}")])?;
            for (option, value) in RELEASE_OPTIONS {
                self.run(&["-P", &format!("{name}/{option}={value}")])?;
            }
        }
        Ok(())
    }

    /// Sets back what still is as it was set; names what is not.
    pub(super) fn restore(&self, changes: &Changes) -> anyhow::Result<Vec<String>> {
        let mut kept = Vec::new();
        let main = self.main()?;
        for change in &changes.main {
            let name = &change.name;
            match (main.get(name), &change.before) {
                (Some(now), _) if *now != change.value => kept.push(name.clone()),
                (None, _) => {}
                (Some(_), Some(before)) => {
                    self.run(&["-e", &format!("{name} = {before}")])?;
                }
                (Some(_), None) => {
                    self.run(&["-X", name])?;
                }
            }
        }
        if let Some(line) = &changes.service {
            // One that is gone already is no failure.
            let name = service_name(line);
            if self.run(&["-M", &name]).is_ok_and(|there| !there.trim().is_empty()) {
                self.run(&["-M", "-X", &name])?;
            }
        }
        Ok(kept)
    }
}

/// `NAME/TYPE` of a line of master.cf.
fn service_name(line: &str) -> String {
    let mut words = line.split_whitespace();
    let (name, kind) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    format!("{name}/{kind}")
}

fn run(program: &Path, args: &[&str]) -> anyhow::Result<String> {
    let shown = format!("{} {}", program.display(), args.join(" "));
    let output = Command::new(program).args(args).output().with_context(|| shown.clone())?;
    let said = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        bail!("{shown}: {}", said.trim());
    }
    ensure!(!said.contains("fatal:"), "{shown}: {}", said.trim());
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_read_as_a_difference() {
        let change = |name: &str, value: &str, before: Option<&str>| Change {
            name: name.into(),
            value: value.into(),
            before: before.map(str::to_owned),
        };
        let changes = Changes {
            main: vec![
                change("smtpd_milters", "unix:a, inet:b", Some("unix:a")),
                change("milter_protocol", "6", None),
            ],
            service: Some("127.0.0.1:10026 inet n - n - - smtpd".into()),
        };
        let text = changes.text();
        assert!(text.starts_with(
            "-smtpd_milters = unix:a\n+smtpd_milters = unix:a, inet:b\n+milter_protocol = 6\n\
             +127.0.0.1:10026 inet n - n - - smtpd\n+  -o smtpd_milters=\n"
        ));
        assert_eq!(service_name(changes.service.as_ref().unwrap()), "127.0.0.1:10026/inet");
        assert!(Changes::default().is_empty());
    }
}
