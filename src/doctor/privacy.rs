//! Who on this machine can read mail and keys.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use gauntlet_gateway::admin::key_access::unreadable_keys;
use gauntlet_gateway::config::Config;
use gauntlet_gateway::privileges::Account;
use gauntlet_store::files;

use super::{Findings, Status};

/// Name of these checks.
const CHECK: &str = "privacy";

/// Folders with mail, keys outside them, and a configuration file with passwords are for their
/// owner only.
pub(super) fn privacy(config: &Config, file: Option<&Path>, found: &mut Findings) {
    let data = &config.node.data;
    if !data.is_dir() {
        let text = format!("{}: there is no data folder yet", data.display());
        found.add(Status::Warning, CHECK, text);
        return;
    }
    owner(config, found);
    let outside = [&config.spool.path, &config.route.maildir].map(|path| config.node.inside(path));
    let outside = outside.into_iter().filter(|path| !path.starts_with(data) && path.is_dir());
    for folder in [data.clone()].into_iter().chain(outside) {
        folder_is_private(&folder, found);
    }
    let keys = config.listener.iter().flat_map(|listener| &listener.key).cloned();
    let sealing = config.node.inside(&config.quarantine.key_file);
    for path in keys.chain([sealing]).filter(|path| !path.starts_with(data)) {
        key_is_private(&path, found);
    }
    for warning in unreadable_keys(config).unwrap_or_default() {
        found.add(Status::Warning, CHECK, warning);
    }
    if let (Some(file), Some(secret)) = (file, secret_of(config)) {
        file_is_private(file, &format!("it holds {secret}"), found);
    }
}

/// The data folder belongs to who runs the node.
fn owner(config: &Config, found: &mut Findings) {
    let data = config.node.data.display();
    let Ok(owner) = files::owner(&config.node.data) else { return };
    let name = config.node.user.as_str();
    if name.is_empty() && files::effective_user() == 0 && owner != 0 {
        // A service manager starts the node as this user (`User=`), and root asks about it.
        let text = format!("{data} belongs to user id {owner}: start the node as this user");
        found.add(Status::Ok, CHECK, text);
        return;
    }
    let (wanted, who) = match Account::find(name) {
        Ok(account) if !name.is_empty() => (account.uid(), format!("node.user {name}")),
        _ => (files::effective_user(), "you, who ask".to_owned()),
    };
    if owner != wanted {
        let text = format!(
            "{data} belongs to user id {owner}, not to {who}: the node does not start; \
             `chown -R {wanted} {data}`"
        );
        found.add(Status::Error, CHECK, text);
    }
}

fn folder_is_private(folder: &Path, found: &mut Findings) {
    let place = folder.display();
    match files::exposed(folder) {
        Ok(exposed) => match &exposed.first {
            None => found.add(Status::Ok, CHECK, format!("{place} is for its owner only")),
            Some(first) => {
                let (count, first) = (exposed.count, first.display());
                let text = format!(
                    "{count} files or folders in {place} are open to other users of this machine, \
                     first {first}; restart the node, which corrects it, or `chmod -R go= {place}`"
                );
                found.add(Status::Error, CHECK, text);
            }
        },
        Err(error) => found.add(Status::Error, CHECK, format!("{place}: {error}")),
    }
}

fn key_is_private(path: &Path, found: &mut Findings) {
    // Administrators give keys to a group, as Debian does with ssl-cert: that is theirs to decide.
    let open = mode(path).is_some_and(|mode| mode & 0o007 != 0);
    if open {
        let place = path.display();
        let text = format!("every user can use the private key {place}; `chmod o= {place}`");
        found.add(Status::Error, CHECK, text);
    }
}

fn file_is_private(path: &Path, why: &str, found: &mut Findings) {
    if mode(path).is_some_and(|mode| mode & 0o007 != 0) {
        let place = path.display();
        let text = format!("every user can read {place}, and {why}; `chmod o= {place}`");
        found.add(Status::Error, CHECK, text);
    }
}

fn mode(path: &Path) -> Option<u32> {
    Some(std::fs::metadata(path).ok()?.permissions().mode())
}

/// The first setting that is a secret.
fn secret_of(config: &Config) -> Option<String> {
    let with_password = |url: &str| {
        let login = url.split_once("://").and_then(|(_, rest)| rest.rsplit_once('@'));
        login.is_some_and(|(login, _)| login.contains(':'))
    };
    if !config.oidc.client_secret.is_empty() {
        return Some("oidc.client_secret".to_owned());
    }
    if let Some(service) = config.service.iter().find(|service| !service.token.is_empty()) {
        return Some(format!("the token of service {:?}", service.address));
    }
    if let Some(group) = config.group.iter().find(|group| with_password(&group.database)) {
        return Some(format!("the password of group {:?}", group.name));
    }
    let list = config.local_list.iter().find(|list| with_password(&list.url));
    list.map(|list| format!("the password of local_list {:?}", list.name))
}
