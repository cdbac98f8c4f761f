//! The data folder: made, ours, and private.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use anyhow::{Context, bail};
use gauntlet_gateway::config::Config;
use gauntlet_gateway::data_formats;
use gauntlet_gateway::privileges::{self, Account};
use gauntlet_store::files;

/// Makes the data folder, which holds users's mail, for its owner only: the user of the
/// configuration. Folders above it are as usual: the node may be another user than the one who
/// makes them.
pub(super) fn prepare(config: &Config) -> anyhow::Result<()> {
    let data = &config.node.data;
    let account = privileges::to_become(config)?;
    if account.is_none() {
        privileges::make_above(data).with_context(|| unusable(data))?;
    }
    privileges::make_folder(config, data).with_context(|| unusable(data))?;
    belongs_to_us(data, account.as_ref())?;
    if let Some(account) = &account {
        has_nothing_of_root(data, account)?;
    }
    // As who may read it, and before anything of it is opened.
    let _acting = account.as_ref().map(Account::act).transpose()?;
    Ok(data_formats::check(config)?)
}

/// Refuses a data folder of another user: its owner can read all mail in it, whatever the modes
/// are.
fn belongs_to_us(data: &Path, account: Option<&Account>) -> anyhow::Result<()> {
    let owner = files::owner(data).with_context(|| unusable(data))?;
    let us = files::effective_user();
    if owner == us || account.is_some_and(|account| account.uid() == owner) {
        return Ok(());
    }
    let wanted = account.map_or(us, Account::uid);
    bail!(
        "node.data {place} belongs to user id {owner}, and the node runs as {wanted}: it would be theirs \
         to read; give it over with `chown -R {wanted} {place}`, run the node as its owner (node.user), \
         or name another folder with --data",
        place = data.display()
    )
}

/// Takes the rights of group and others from all that holds mail: a version before this one, or a
/// copy made with `cp`, may have left them.
pub(super) fn make_private(config: &Config) -> anyhow::Result<()> {
    let data = &config.node.data;
    let outside = [&config.spool.path, &config.route.maildir].map(|path| config.node.inside(path));
    let outside = outside.into_iter().filter(|path| !path.starts_with(data) && path.is_dir());
    for folder in [data.clone()].into_iter().chain(outside) {
        let found = files::make_private(&folder)
            .with_context(|| format!("{} cannot be made private", folder.display()))?;
        if let Some(first) = &found.first {
            let (count, first) = (found.count - found.left.min(found.count), first.display());
            tracing::warn!(count, %first, "made private: other users of this machine could read it");
        }
        if let Some((first, why)) = &found.left_first {
            let (count, first) = (found.left, first.display());
            let hint = format!("chown -R {} {}", files::effective_user(), folder.display());
            tracing::error!(count, %first, why, hint, "other users can read it: not ours to change");
        }
    }
    Ok(())
}

fn unusable(data: &Path) -> String {
    format!(
        "node.data {} cannot be used; name another folder there, or with --data",
        data.display()
    )
}

/// Folders of the data folder that a node makes.
const FOLDERS: [&str; 20] = [
    "log",
    "queue",
    "quarantine",
    "lists",
    "groups",
    "policies",
    "receiving",
    "reports",
    "signatures",
    "channels",
    "probes",
    "publish",
    "corrections",
    "history",
    "console",
    "tls",
    "acme",
    "dkim",
    "logs",
    "maildir",
];

/// Refuses what root left in the data folder of another user, as a node without node.user does, or
/// a command of an earlier version. Root does not give it away: it could not distinguish it from
/// links to what is not the node's.
fn has_nothing_of_root(data: &Path, account: &Account) -> anyhow::Result<()> {
    let _acting = account.act()?;
    for name in FOLDERS {
        let path = data.join(name);
        // Not of what a link names: that may be another disk's, and is the administrator's to
        // arrange.
        let Ok(seen) = std::fs::symlink_metadata(&path) else { continue };
        if seen.is_dir() && seen.uid() == 0 {
            bail!(
                "{} belongs to root, and node.user cannot use it: look at what it is, then give it over with \
                 `chown -hR {} {}`",
                path.display(),
                account.uid(),
                data.display()
            );
        }
    }
    Ok(())
}
