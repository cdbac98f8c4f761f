//! The sandbox of a node (decision 171): what the kernel holds the two processes to, whatever code
//! runs in them.
//!
//! Both are restricted before they have threads. The node may read what its configuration names and
//! what a program needs of a system, and change its data folder, but not *read* in it what belongs
//! to the secrets process; it may start no program and trace no process. The secrets process may
//! read anything, since it reads keys from wherever they are, change its own folders only, and open
//! no socket.

use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use gauntlet_learning::corrections;
use gauntlet_store::files;
use gauntlet_store::sharing::SharedKind;

use super::channel_signing::MADE_BY_NODES;
use crate::config::{Config, Sandbox};
use crate::privileges;
use crate::secrets::SandboxStatus;
use gauntlet_sandbox::landlock::{self, CHANGE, CHANGE_FILES, READ, Ruleset};
use gauntlet_sandbox::seccomp;

/// Folders of the data folder that belong to the secrets process.
const SECRET_FOLDERS: [&str; 3] = ["console", "tls", "acme"];
/// Folders of the data folder that a node reads; made before, since a rule is about a folder that
/// is there.
const OWN_FOLDERS: [&str; 18] = [
    "array",
    "log",
    "queue",
    "quarantine",
    "lists",
    "groups",
    "policies",
    "receiving",
    "reports",
    "signatures",
    "urls",
    "web",
    "alerts",
    "channels",
    "probes",
    "publish",
    corrections::FOLDER_NAME,
    HISTORY,
];
/// Folder of the memory of senders.
const HISTORY: &str = "history";
const HISTORY_FILES: [&str; 3] = ["history.db-wal", "history.db-shm", "history.db"];
/// Folder of the text logs.
const TEXT_LOGS: &str = "logs";
/// Files of the data folder that a node writes and reads again: none that is ever replaced.
const OWN_FILES: [&str; 1] = ["lock"];
/// What a program reads of a system: names, times, roots, libraries, what the kernel reports.
const OF_THE_SYSTEM: [&str; 20] = [
    "/etc/resolv.conf",
    "/etc/hosts",
    "/etc/nsswitch.conf",
    "/etc/host.conf",
    "/etc/gai.conf",
    "/etc/services",
    "/etc/protocols",
    "/etc/localtime",
    "/etc/passwd",
    "/etc/group",
    "/etc/ld.so.cache",
    "/etc/ssl/certs",
    "/etc/pki/tls/certs",
    "/etc/pki/ca-trust",
    "/usr/share",
    "/usr/lib",
    "/lib",
    "/lib64",
    "/proc",
    "/sys",
];

/// What this machine's kernel can hold a process to: for `doctor`.
pub fn available() -> SandboxStatus {
    let mut status = SandboxStatus::default();
    match landlock::version() {
        Ok(version) => status.holds.push(format!("Landlock (version {version})")),
        Err(error) => status.lacks.push(format!("Landlock: {error}")),
    }
    match std::fs::read_to_string("/proc/sys/kernel/seccomp/actions_avail") {
        Ok(actions) if actions.contains("kill_process") => status.holds.push("seccomp".into()),
        Ok(_) => status.lacks.push("seccomp: the kernel cannot kill a process by it".into()),
        Err(error) => status.lacks.push(format!("seccomp: {error}")),
    }
    status
}

/// Restricts the node. Call it while the process has one thread, once the secrets process runs.
///
/// # Errors
/// With `node.sandbox = "require"`, what the kernel does not do.
pub fn enter_node(config: &Config, file: Option<&Path>) -> anyhow::Result<SandboxStatus> {
    let bare = config.node.sandbox != Sandbox::Off && keys_lie_bare(config);
    let mut status = enter(config, || node_rules(config, file), true)?;
    if bare {
        let what = "a wall around the keys in node.data: quarantine.key_file lies beside them; name a \
                    file in a folder of its own there, such as sealing/quarantine.keys";
        anyhow::ensure!(
            config.node.sandbox != Sandbox::Require,
            "node.sandbox = \"require\": {what}"
        );
        status.lacks.push(what.to_owned());
    }
    Ok(status)
}

/// Restricts the secrets process.
///
/// # Errors
/// As [`enter_node`].
pub fn enter_secrets(config: &Config) -> anyhow::Result<SandboxStatus> {
    // SAFETY: takes integers. From now on only root may trace this process or read its memory.
    unsafe { libc::prctl(libc::PR_SET_DUMPABLE, 0, 0, 0, 0) };
    enter(config, || secrets_rules(config), false)
}

fn enter(
    config: &Config,
    rules: impl FnOnce() -> io::Result<Ruleset>,
    network: bool,
) -> anyhow::Result<SandboxStatus> {
    let mut status = SandboxStatus::default();
    let wanted = config.node.sandbox;
    if wanted == Sandbox::Off {
        status.lacks.push("switched off: node.sandbox".to_owned());
        return Ok(status);
    }
    let files = rules().and_then(|rules| {
        let version = rules.version();
        rules.enforce().map(|()| version)
    });
    match files {
        Ok(version) => status.holds.push(format!("Landlock (version {version})")),
        Err(error) => status.lacks.push(format!("Landlock: {error}")),
    }
    match seccomp::enforce(network) {
        Ok(()) => status.holds.push("seccomp".to_owned()),
        Err(error) => status.lacks.push(format!("seccomp: {error}")),
    }
    anyhow::ensure!(
        wanted != Sandbox::Require || status.lacks.is_empty(),
        "node.sandbox = \"require\", but the kernel does not do it: {}; use a kernel that does, or set \"auto\"",
        status.lacks.join("; ")
    );
    Ok(status)
}

/// The secrets process reads keys from wherever the configuration has them.
fn secrets_rules(config: &Config) -> io::Result<Ruleset> {
    let rules = Ruleset::new()?;
    rules.allow(Path::new("/"), READ)?;
    for name in SECRET_FOLDERS {
        let folder = config.node.data.join(name);
        files::create_folder(&folder)?;
        rules.allow(&folder, CHANGE)?;
    }
    Ok(rules)
}

/// What the secrets process alone may read.
fn secret_paths(config: &Config) -> Vec<PathBuf> {
    let own = SECRET_FOLDERS.iter().map(|name| config.node.data.join(name));
    let keys = config.listener.iter().flat_map(|listener| listener.key.iter().cloned());
    let dkim = config.node.inside(&config.dkim.keys);
    let publisher = Some(config.channel_publish.keys.clone()).filter(|p| !p.as_os_str().is_empty());
    let users = Some(config.node.inside(&config.array.users_key));
    let users = users.filter(|_| config.array.shares(SharedKind::Users));
    let all = own.chain(keys).chain([dkim]).chain(publisher).chain(users);
    all.map(|path| path.canonicalize().unwrap_or(path)).collect()
}

fn node_rules(config: &Config, file: Option<&Path>) -> io::Result<Ruleset> {
    let rules = Ruleset::new()?;
    let secret = secret_paths(config);
    let data = &config.node.data;
    make_own(config)?;
    let bare = keys_lie_bare(config);
    // Not more: a folder of the secrets process could be renamed, or a file of its moved to where
    // it may be read, now or by the rules of the next start.
    rules.allow(data, if bare { READ | CHANGE_FILES } else { CHANGE_FILES })?;
    for entry in std::fs::read_dir(data)? {
        let entry = entry?;
        if !entry.file_type()?.is_symlink() {
            allow_reading(&rules, &entry.path(), &secret)?;
        }
    }
    for name in OWN_FOLDERS.iter().chain(&[TEXT_LOGS]) {
        rules.allow(&data.join(name), READ | CHANGE)?;
    }
    for path in [&config.spool.path, &config.route.maildir].map(|path| config.node.inside(path)) {
        rules.allow(&path, READ | CHANGE)?;
    }
    let objects = config.array.objects_folder().map(Path::to_owned);
    let mut written = folders_of_publisher(config).into_iter().chain(objects);
    written.try_for_each(|path| rules.allow(&path, READ | CHANGE))?;
    OF_THE_SYSTEM.iter().try_for_each(|path| rules.allow(Path::new(path), READ))?;
    // Lists are replaced by new files of the same name.
    let lists = config.url_list.iter().map(|list| &list.file).chain(&config.proxy.content.phrases);
    for folder in lists.filter_map(|list| list.parent()).chain(folders_of_channels(config)) {
        let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
        if folder.is_dir() && folder != Path::new("/") {
            allow_reading(&rules, folder, &secret)?;
        }
    }
    for path in ["/dev/null", "/dev/urandom"] {
        rules.allow(Path::new(path), READ | CHANGE)?;
    }
    // The system replaces it whole; where it leads elsewhere, that folder holds nothing else.
    if let Ok(resolvers) = Path::new("/etc/resolv.conf").canonicalize()
        && let Some(folder) = resolvers.parent().filter(|folder| *folder != Path::new("/etc"))
    {
        rules.allow(folder, READ)?;
    }
    for path in file.into_iter().map(Path::to_owned).chain(named_by(config)) {
        // `gauntlet.toml` has a folder, too.
        let path = std::path::absolute(&path).unwrap_or(path);
        let above = path.parent().filter(|_| path.is_file());
        // Who replaces a file by another of its name does so in its folder.
        let narrow =
            |folder: &&Path| folder.components().count() > 2 && !folder.starts_with("/tmp");
        let read = match above.filter(narrow) {
            Some(folder) if is_clear(folder, &secret) => folder,
            _ => &path,
        };
        allow_reading(&rules, read, &secret)?;
    }
    // The policy is saved in the console: a new file beside it takes its place.
    let policy = std::path::absolute(&config.policy.path).unwrap_or_default();
    let folder = policy.parent().filter(|_| policy.is_file());
    if let Some(folder) = folder.filter(|folder| is_clear(folder, &secret)) {
        rules.allow(folder, READ | CHANGE)?;
    }
    for service in &config.service {
        if let Some(folder) = service.address.strip_prefix("unix:").map(Path::new)
            && let Some(folder) = folder.parent()
        {
            rules.allow(folder, CHANGE)?;
        }
    }
    Ok(rules)
}

/// What a node publishes, and where it puts what it made of probes. What else is published of
/// `content` it reads only: the secrets process signs nothing else
/// ([`channel_signing`](super::channel_signing)).
fn folders_of_publisher(config: &Config) -> Vec<PathBuf> {
    let publish = &config.channel_publish;
    let mut folders = folders_of_probes(config);
    folders.push(publish.folder.clone());
    folders.retain(|path| path.is_dir());
    folders
}

/// Folders of what is made of probes, if they lie in a folder of the publisher's.
fn folders_of_probes(config: &Config) -> Vec<PathBuf> {
    let content = &config.channel_publish.content;
    match content.is_dir() {
        true => MADE_BY_NODES.iter().map(|name| content.join(name)).collect(),
        false => Vec::new(),
    }
}

/// Channels that are folders of this machine.
fn folders_of_channels(config: &Config) -> impl Iterator<Item = &Path> {
    let folders = config.channel.iter().filter_map(|channel| channel.url.strip_prefix("file://"));
    folders.map(Path::new).filter(|folder| folder.is_dir())
}

/// The folder of the memory of senders. Before version 0.2 its files were in the data folder
/// itself; they are moved, the database last, so that a move that was interrupted is finished by
/// the next start.
pub(crate) fn history_folder(data: &Path) -> io::Result<PathBuf> {
    let folder = data.join(HISTORY);
    files::create_folder(&folder)?;
    for name in HISTORY_FILES {
        let (before, now) = (data.join(name), folder.join(name));
        if before.exists() && !now.exists() {
            std::fs::rename(before, now)?;
        }
    }
    Ok(folder)
}

/// Makes what the node is to read in its data folder, as the user that it becomes.
fn make_own(config: &Config) -> io::Result<()> {
    {
        let _acting = privileges::to_become(config)?.map(|account| account.act()).transpose()?;
        make_in_data(config)?;
    }
    for path in [&config.spool.path, &config.route.maildir].map(|path| config.node.inside(path)) {
        privileges::make_folder(config, &path)?;
    }
    if let Some(folder) = config.array.objects_folder() {
        privileges::make_folder(config, folder)?;
    }
    for folder in folders_of_probes(config) {
        privileges::make_folder(config, &folder)?;
    }
    // The keys of held mail are made where there are none.
    let keys = config.node.inside(&config.quarantine.key_file);
    if let Some(folder) = keys.parent().filter(|_| config.quarantine.encrypt) {
        privileges::make_folder(config, folder)?;
    }
    let as_user = || super::quarantine::body_keys(config).map_err(io::Error::other).map(drop);
    match privileges::to_become(config)? {
        Some(account) => {
            let _acting = account.act()?;
            as_user()
        }
        None => as_user(),
    }
}

fn make_in_data(config: &Config) -> io::Result<()> {
    let data = &config.node.data;
    for name in OWN_FOLDERS {
        files::create_folder(&data.join(name))?;
    }
    if config.log.text_days > 0 {
        files::create_folder(&data.join(TEXT_LOGS))?;
    }
    corrections::move_old_journal(data)?;
    history_folder(data)?;
    for name in OWN_FILES {
        let mut options = std::fs::File::options();
        options.create(true).append(true).mode(0o600).open(data.join(name))?;
    }
    Ok(())
}

/// The keys of held mail lie in the data folder itself. They are replaced by `gauntlet quarantine`,
/// and the kernel knows files that are replaced by their folder only: the node must read the whole
/// folder then.
fn keys_lie_bare(config: &Config) -> bool {
    let path = config.node.inside(&config.quarantine.key_file);
    path.parent() == Some(&config.node.data) && (config.quarantine.encrypt || path.exists())
}

/// Nothing secret is in this folder, nor is it in something secret.
fn is_clear(path: &Path, secret: &[PathBuf]) -> bool {
    let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    !secret.iter().any(|secret| secret.starts_with(&path) || path.starts_with(secret))
}

fn allow_reading(rules: &Ruleset, path: &Path, secret: &[PathBuf]) -> io::Result<()> {
    if is_clear(path, secret) { rules.allow(path, READ) } else { Ok(()) }
}

/// Every file and folder that a value of the configuration names, but the data folder.
fn named_by(config: &Config) -> Vec<PathBuf> {
    let mut texts = Vec::new();
    collect(&serde_json::to_value(config).unwrap_or_default(), &mut texts);
    let data = &config.node.data;
    let paths = texts.iter().flat_map(|text| [PathBuf::from(text), data.join(text)]);
    paths.filter(|path| path.exists() && path != data && path != Path::new("/")).collect()
}

fn collect(value: &serde_json::Value, texts: &mut Vec<String>) {
    match value {
        serde_json::Value::String(text) if !text.is_empty() && text != "." => {
            texts.push(text.clone());
        }
        serde_json::Value::Array(values) => values.iter().for_each(|v| collect(v, texts)),
        serde_json::Value::Object(values) => values.values().for_each(|v| collect(v, texts)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;
    use std::os::unix::process::{CommandExt, ExitStatusExt};
    use std::process::{Command, ExitStatus};

    use super::*;

    const TASK: &str = "GAUNTLET_TEST_SANDBOX";
    const FOLDER: &str = "GAUNTLET_TEST_SANDBOX_FOLDER";

    fn config(folder: &Path) -> Config {
        let mut config = Config::default();
        config.node.data = folder.join("data");
        config.listener[0].key = vec![folder.join("tls.key")];
        config.channel_publish.folder = folder.join("channel");
        config.channel_publish.keys = folder.join("channel-keys");
        config.channel_publish.content = folder.join("content");
        config.policy.path = folder.join("rules/policy.toml");
        config
    }

    /// What a compromised process would do; run in one of its own by the test below.
    #[test]
    fn a_process_that_was_taken_over() {
        let (Ok(task), Ok(folder)) = (std::env::var(TASK), std::env::var(FOLDER)) else { return };
        let folder = PathBuf::from(folder);
        let config = config(&folder);
        let status = match task.starts_with("secrets") {
            true => enter_secrets(&config).unwrap(),
            false => enter_node(&config, Some(&folder.join("gauntlet.toml"))).unwrap(),
        };
        if !status.lacks.is_empty() {
            eprintln!("not held: {:?}", status.lacks);
            return;
        }
        let denied = |path: &Path, write: bool| {
            let opened = std::fs::File::options().read(!write).write(write).open(path);
            let kind = opened.map(|_| ()).unwrap_err().kind();
            assert_eq!(kind, io::ErrorKind::PermissionDenied, "{}", path.display());
        };
        let data = &config.node.data;
        // SAFETY: each takes integers or null pointers; the kernel refuses or ends the process.
        let call = |number: i64, first: i64| unsafe { libc::syscall(number, first, 0, 0, 0) };
        match task.as_str() {
            "node files" => {
                denied(Path::new("/etc/passwd"), true);
                denied(&folder.join("beside"), false);
                denied(&folder.join("tls.key"), false);
                denied(&folder.join("channel-keys/targets-1.pem"), false);
                denied(&folder.join("content/rules/a.cf"), true);
                std::fs::read(folder.join("content/rules/a.cf")).unwrap();
                std::fs::write(folder.join("content/signatures/probes"), "x").unwrap();
                denied(&data.join("console/users.db"), false);
                denied(&data.join("dkim/example.org/s1.pem"), false);
                for (from, to) in [
                    ("console/users.db", "log/x"),
                    ("console/users.db", "x.json"),
                    ("console", "zzz"),
                    ("console", "log/zzz"),
                ] {
                    let moved = std::fs::rename(data.join(from), data.join(to));
                    assert!(moved.is_err(), "{from} moved to where it could be read: {to}");
                    let linked = std::fs::hard_link(data.join(from), data.join(to));
                    assert!(linked.is_err(), "{from} linked to {to}");
                }
                // Nor may it open to others what it cannot read.
                for (path, mode) in [("", 0o755), ("console", 0o711), ("console/users.db", 0o644)] {
                    let open = std::fs::Permissions::from_mode(mode);
                    let opened = std::fs::set_permissions(data.join(path), open);
                    assert!(opened.is_err(), "{path} opened to others");
                }
                let private = std::fs::Permissions::from_mode(0o700);
                std::fs::set_permissions(data.join("log"), private).unwrap();
                assert!(
                    std::fs::hard_link(data.join("console/users.db"), data.join("log/x")).is_err()
                );
                std::fs::read(folder.join("gauntlet.toml")).unwrap();
                std::fs::read(folder.join("rules/policy.toml")).unwrap();
                std::fs::write(data.join("log/day"), "x").unwrap();
                assert_eq!(std::fs::read(data.join("log/day")).unwrap(), b"x");
                std::fs::write(data.join("new.part"), "x").unwrap();
                std::fs::rename(data.join("new.part"), data.join("new")).unwrap();
            }
            "node sockets" => {
                std::net::TcpListener::bind("127.0.0.1:0").unwrap();
                for family in [libc::AF_NETLINK, libc::AF_PACKET, libc::AF_VSOCK] {
                    assert_eq!(call(libc::SYS_socket, family.into()), -1);
                    assert_eq!(io::Error::last_os_error().raw_os_error(), Some(libc::EPERM));
                }
            }
            "secrets sockets" => {
                let bound = std::net::TcpListener::bind("127.0.0.1:0");
                assert_eq!(bound.unwrap_err().kind(), io::ErrorKind::PermissionDenied);
            }
            "secrets files" => {
                std::fs::read(folder.join("tls.key")).unwrap();
                std::fs::write(data.join("console/x"), "x").unwrap();
                denied(&folder.join("beside"), true);
                denied(&data.join("log/day"), true);
            }
            "node exec" | "secrets exec" => drop(Command::new("/bin/true").exec()),
            "node ptrace" | "secrets ptrace" => drop(call(libc::SYS_ptrace, 0)),
            "node mount" => drop(call(libc::SYS_unshare, 0)),
            other => panic!("{other}"),
        }
    }

    fn run(task: &str, folder: &Path) -> (ExitStatus, String) {
        let output = Command::new(std::env::current_exe().unwrap())
            .args([
                "admin::sandbox::tests::a_process_that_was_taken_over",
                "--exact",
                "--nocapture",
            ])
            .env(TASK, task)
            .env(FOLDER, folder)
            .output()
            .unwrap();
        (output.status, String::from_utf8_lossy(&output.stderr).into_owned())
    }

    #[test]
    fn the_kernel_holds_a_process_that_was_taken_over() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        for name in [
            "data/console",
            "data/dkim/example.org",
            "data/log",
            "rules",
            "channel",
            "channel-keys",
            "content/rules",
        ] {
            std::fs::create_dir_all(folder.join(name)).unwrap();
        }
        for name in [
            "tls.key",
            "beside",
            "gauntlet.toml",
            "rules/policy.toml",
            "data/console/users.db",
            "data/dkim/example.org/s1.pem",
            "channel-keys/targets-1.pem",
            "content/rules/a.cf",
        ] {
            std::fs::write(folder.join(name), "content").unwrap();
        }
        for task in ["node files", "node sockets", "secrets sockets", "secrets files"] {
            let (status, said) = run(task, folder);
            assert!(status.success(), "{task}: {said}");
        }
        for task in ["node exec", "secrets exec", "node ptrace", "secrets ptrace", "node mount"] {
            let (status, said) = run(task, folder);
            let held = !said.contains("not held");
            assert!(!held || status.signal() == Some(libc::SIGSYS), "{task}: {status} {said}");
        }
    }

    #[test]
    fn the_memory_of_senders_moves_once_and_whole() {
        let folder = tempfile::tempdir().unwrap();
        let data = folder.path();
        // The crash came between the two moves.
        std::fs::create_dir(data.join("history")).unwrap();
        std::fs::write(data.join("history/history.db-wal"), "wal").unwrap();
        std::fs::write(data.join("history.db"), "db").unwrap();
        for _ in 0..2 {
            let moved = history_folder(data).unwrap();
            assert_eq!(std::fs::read(moved.join("history.db")).unwrap(), b"db");
            assert_eq!(std::fs::read(moved.join("history.db-wal")).unwrap(), b"wal");
            assert!(!data.join("history.db").exists());
        }
    }
}
