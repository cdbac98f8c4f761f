//! Which recipients of ours exist: checked before a message is taken.
//!
//! ```text
//! [recipients] known, file ─▶ table (SQL) ─▶ cache ─▶ probe of the next hop
//!        yes: known              yes: known            its answer to RCPT
//! ```
//!
//! Without any of these every local part is taken. With a list or table and no probe, a recipient
//! in none of them is unknown. `postmaster` is always known (RFC 5321 section 4.5.1).

use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use gauntlet_smtp::address::{canonical, domain_of};
use gauntlet_store::recipients::Table;

use crate::config::{Config, RecipientSettings, is_recipient};
use crate::outbound::route::Routes;
use crate::outbound::sender::{Probe, Sender};

/// Answers of next hops that are kept.
const CACHE_MAX: u64 = 100_000;

/// Whether a recipient exists.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RecipientStatus {
    /// As far as we know.
    Exists,
    /// No; the text for the 550.
    Unknown(String),
    /// It cannot be decided now.
    Undecided,
}

/// Knows recipients. Share it as `Arc<Recipients>`.
#[derive(Debug)]
pub struct Recipients {
    settings: RecipientSettings,
    /// Addresses and `@domain` in lower case; none takes every local part.
    listed: Option<HashSet<String>>,
    table: Option<Arc<Table>>,
    /// What is odd about the file; a node goes on without those lines.
    odd: Option<String>,
    probed: moka::sync::Cache<String, (bool, Instant)>,
}

impl Recipients {
    /// Reads the list and opens the table of these settings.
    ///
    /// # Errors
    /// If a file cannot be read, or the query is no query with one parameter.
    pub fn load(config: &Config) -> anyhow::Result<Self> {
        let settings = config.recipients.clone();
        let mut listed: HashSet<String> =
            settings.known.iter().map(|a| canonical(a).to_lowercase()).collect();
        let path = &settings.file;
        let has_list = !listed.is_empty() || !path.as_os_str().is_empty();
        let mut odd = None;
        if !path.as_os_str().is_empty() {
            let place = || format!("recipients.file {}", path.display());
            let read = read_list(path, &mut listed).with_context(place)?;
            odd = read.map(|what| format!("{}: {what}", place()));
        }
        if let Some(odd) = &odd {
            tracing::warn!("{odd}");
        }
        let table = if settings.sqlite.as_os_str().is_empty() {
            None
        } else {
            // SQLite does not say why it cannot open a file.
            std::fs::File::open(&settings.sqlite)
                .with_context(|| format!("recipients.sqlite {}", settings.sqlite.display()))?;
            let table = Table::open(&settings.sqlite, &settings.query);
            Some(Arc::new(table.context("recipients.sqlite, recipients.query")?))
        };
        let probed = moka::sync::Cache::builder()
            .max_capacity(CACHE_MAX)
            .time_to_live(Duration::from_secs(settings.probe_keep_seconds.max(1)))
            .build();
        Ok(Recipients { settings, listed: has_list.then_some(listed), table, odd, probed })
    }

    /// Lines of `recipients.file` that are no address, if there are any.
    pub fn odd_lines(&self) -> Option<&str> {
        self.odd.as_deref()
    }

    /// Whether this recipient of ours exists.
    pub async fn check(&self, address: &str, routes: &Routes, sender: &Sender) -> RecipientStatus {
        let address = address.to_lowercase();
        let domain = domain_of(&address);
        if address == "postmaster" || address.strip_suffix(&domain) == Some("postmaster@") {
            return RecipientStatus::Exists;
        }
        let everyone = self.listed.is_none() && self.table.is_none() && !self.settings.probe;
        let listed = self.listed.as_ref().is_some_and(|listed| {
            listed.contains(&address) || listed.contains(&format!("@{domain}"))
        });
        if everyone || listed {
            return RecipientStatus::Exists;
        }
        if let Some(table) = self.table.clone() {
            let asked = address.clone();
            let found = tokio::task::spawn_blocking(move || table.contains(&asked)).await;
            match found {
                Ok(Ok(true)) => return RecipientStatus::Exists,
                Ok(Ok(false)) => {}
                Ok(Err(error)) => {
                    tracing::error!(%error, "recipients.sqlite cannot be queried");
                    return RecipientStatus::Undecided;
                }
                Err(_) => return RecipientStatus::Undecided,
            }
        }
        if !self.settings.probe {
            return RecipientStatus::Unknown("no such recipient".to_owned());
        }
        self.probe(address, routes, sender).await
    }

    /// Asks the next hop, unless it said so a while ago.
    async fn probe(&self, address: String, routes: &Routes, sender: &Sender) -> RecipientStatus {
        let route = routes.route(&address);
        if !route.is_named() {
            return RecipientStatus::Exists;
        }
        let keep = Duration::from_secs(self.settings.probe_refused_seconds);
        match self.probed.get(&address) {
            Some((true, _)) => return RecipientStatus::Exists,
            Some((false, since)) if sender.clock().elapsed(since) < keep => {
                return RecipientStatus::Unknown("no such recipient".to_owned());
            }
            _ => {}
        }
        let wait = Duration::from_secs(self.settings.probe_wait_seconds);
        match tokio::time::timeout(wait, sender.probe(&route, &address)).await {
            Ok(Probe::Taken) => {
                self.probed.insert(address, (true, sender.clock().now()));
                RecipientStatus::Exists
            }
            Ok(Probe::Refused(reply)) => {
                self.probed.insert(address, (false, sender.clock().now()));
                RecipientStatus::Unknown(format!("the next hop said {reply}"))
            }
            // A gateway takes mail for a server that is away: that is what it has a spool for.
            Ok(Probe::Unclear) | Err(_) if self.settings.accept_unclear => RecipientStatus::Exists,
            Ok(Probe::Unclear) | Err(_) => RecipientStatus::Undecided,
        }
    }
}

/// Adds the addresses of a file, one a line. Gives what to say of lines that are none.
fn read_list(path: &Path, listed: &mut HashSet<String>) -> anyhow::Result<Option<String>> {
    let text = std::fs::read_to_string(path)?;
    let lines = text.lines().map(str::trim).zip(1..);
    let lines = lines.filter(|(line, _)| !line.is_empty() && !line.starts_with('#'));
    let (good, odd): (Vec<_>, Vec<_>) = lines.partition(|(line, _)| is_recipient(line));
    listed.extend(good.iter().map(|(line, _)| canonical(line).to_lowercase()));
    let Some((_, first)) = odd.first() else { return Ok(None) };
    let mend = "write one address or @domain a line";
    if good.is_empty() {
        bail!("none of its lines is an address, such as line {first}; {mend}");
    }
    Ok(Some(match odd.len() {
        1 => format!("line {first} is no address and counts for nobody; {mend}"),
        count => format!(
            "{count} lines are no address and count for nobody, the first is line {first}; {mend}"
        ),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_that_are_no_address_are_told() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("known");
        let read = |text: &str| {
            std::fs::write(&path, text).unwrap();
            let mut listed = HashSet::new();
            let said = read_list(&path, &mut listed).map_err(|error| error.to_string());
            (said, listed.len())
        };
        assert_eq!(read("# ours\n\nAnn@ours.test\n@all.test\n"), (Ok(None), 2));
        let (said, count) = read("ann@ours.test\nbob\n@\n");
        let said = said.unwrap().unwrap();
        assert_eq!(count, 1);
        assert!(said.contains("2 lines are no address") && said.contains("line 2"), "{said}");
        let (said, _) = read("ann@ours.test\nbob");
        assert!(said.unwrap().unwrap().starts_with("line 2 is no address"));
        let (said, _) = read("root:x:0:0:root:/root:/bin/sh\n");
        assert!(said.unwrap_err().contains("none of its lines is an address, such as line 1"));
        assert_eq!(read(""), (Ok(None), 0));
    }
}
