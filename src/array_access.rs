//! The way from a configuration to its array.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use gauntlet_array::{
    Database, DatabaseAddress, DatabaseOptions, DatabaseTls, Identity, Objects, ObjectsAddress,
    ObjectsOptions, SharedLog, SharedQuarantine,
};
use gauntlet_gateway::admin::quarantine::body_keys;
use gauntlet_gateway::config::{Config, trust_roots};
use gauntlet_gateway::net::tls::HopTls;
use gauntlet_store::files;

/// The array's database; none if the node is alone.
///
/// # Errors
/// If the address or the trusted roots cannot be used.
pub(crate) fn database(config: &Config) -> anyhow::Result<Option<Database>> {
    let array = &config.array;
    if !array.is_on() {
        return Ok(None);
    }
    let (address, tls, options) = parts(config, &array.database)?;
    Ok(Some(Database::new(address, tls, options)))
}

/// The replica of the database that searches ask first; none if none is named.
///
/// # Errors
/// As [`database`].
pub(crate) fn replica(config: &Config) -> anyhow::Result<Option<Database>> {
    if config.array.replica.is_empty() {
        return Ok(None);
    }
    let (address, tls, options) = parts(config, &config.array.replica).context("array.replica")?;
    Ok(Some(Database::to_read(address, tls, options)))
}

fn parts(
    config: &Config,
    uri: &str,
) -> anyhow::Result<(DatabaseAddress, DatabaseTls, DatabaseOptions)> {
    let address = DatabaseAddress::parse(uri)?;
    let tls = database_tls(config)?;
    let options = DatabaseOptions {
        connect_max: Duration::from_secs(config.array.connect_seconds_max),
        query_max: Duration::from_secs(config.array.query_seconds_max),
    };
    Ok((address, tls, options))
}

/// TLS to the database: its roots, and the node's certificate if it has one.
fn database_tls(config: &Config) -> anyhow::Result<DatabaseTls> {
    let array = &config.array;
    let (roots, setting) = match array.ca.as_os_str().is_empty() {
        true => (trust_roots(&config.sender.roots), "sender.roots"),
        false => (config.node.inside(&array.ca), "array.ca"),
    };
    let own = (!array.certificate.as_os_str().is_empty())
        .then(|| (config.node.inside(&array.certificate), config.node.inside(&array.key)));
    let own = own.as_ref().map(|(certificate, key)| (certificate.as_path(), key.as_path()));
    let tls = HopTls::load_as(&roots, setting, own).context("array.certificate, array.key")?;
    let (any, verified) = tls.configurations();
    Ok(DatabaseTls { any, verified })
}

/// Checks the addresses of database and object store.
///
/// # Errors
/// What is wrong with one.
pub(crate) fn check(config: &Config) -> anyhow::Result<()> {
    if config.array.is_on() {
        DatabaseAddress::parse(&config.array.database)?;
    }
    if !config.array.replica.is_empty() {
        DatabaseAddress::parse(&config.array.replica).context("array.replica")?;
    }
    if !config.array.objects.is_empty() {
        ObjectsAddress::parse(&config.array.objects)?;
    }
    Ok(())
}

/// The array's object store; none if held mail stays on its nodes.
///
/// # Errors
/// If the address or the trusted roots cannot be used.
pub(crate) fn objects(config: &Config) -> anyhow::Result<Option<Objects>> {
    if config.array.objects.is_empty() {
        return Ok(None);
    }
    objects_at(config, &config.array.objects).map(Some)
}

/// The object store at this address.
///
/// # Errors
/// As [`objects`].
pub(crate) fn objects_at(config: &Config, uri: &str) -> anyhow::Result<Objects> {
    let address = ObjectsAddress::parse(uri)?;
    let (any, verified) = HopTls::load(&trust_roots(&config.sender.roots))?.configurations();
    let tls = DatabaseTls { any, verified };
    Ok(Objects::new(&address, &tls, ObjectsOptions::default())?)
}

/// The held mail of all nodes, on this runtime.
///
/// # Errors
/// If the configuration names no array, or no object store.
pub(crate) fn shared_quarantine(
    config: &Config,
    runtime: &tokio::runtime::Runtime,
) -> anyhow::Result<SharedQuarantine> {
    let database = database(config)?.context("array.database is not set")?;
    let objects = objects(config)?.context("array.objects is not set")?;
    Ok(SharedQuarantine::new(database, objects, body_keys(config)?, runtime.handle().clone()))
}

/// A runtime for connections to the array, apart from that of mail.
///
/// # Errors
/// If the system gives no thread.
pub(crate) fn runtime(threads: usize) -> anyhow::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(threads)
        .max_blocking_threads(4)
        .thread_name("array")
        .enable_all()
        .build()
        .context("a thread for the array")
}

/// Where the node keeps what it knows of its array.
pub(crate) fn folder(config: &Config) -> PathBuf {
    config.node.data.join("array")
}

/// Who this node is; made the first time.
///
/// # Errors
/// If the file cannot be read or written.
pub(crate) fn identity(config: &Config) -> anyhow::Result<Identity> {
    let folder = folder(config);
    files::create_folder(&folder).with_context(|| folder.display().to_string())?;
    let identity = read_or_make(&folder.join("identity"))?;
    let group = config.array.group.clone();
    Ok(Identity { name: config.node.host_name(), identity, group })
}

/// The identity of this node, as its file has it; none if there is none yet.
///
/// # Errors
/// If the file cannot be read.
pub(crate) fn known_identity(config: &Config) -> std::io::Result<Option<String>> {
    match std::fs::read_to_string(folder(config).join("identity")) {
        Ok(text) => Ok(Some(text.trim().to_owned())),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

fn read_or_make(path: &Path) -> anyhow::Result<String> {
    let named = || format!("{}: the identity of this node in the array", path.display());
    match std::fs::read_to_string(path) {
        Ok(text) => {
            let text = text.trim().to_owned();
            let is_one = text.len() == 32 && text.bytes().all(|b| b.is_ascii_hexdigit());
            anyhow::ensure!(
                is_one,
                "{} is damaged; remove the file, and remove the node with `gauntlet array leave`",
                named()
            );
            Ok(text)
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            let made = Identity::make().with_context(named)?;
            files::write_durably(path, made.as_bytes()).with_context(named)?;
            Ok(made)
        }
        Err(error) => Err(error).with_context(named),
    }
}

/// The log of all nodes, on this runtime.
///
/// # Errors
/// If the configuration names no array, or an address of it cannot be used.
pub(crate) fn shared_log(
    config: &Config,
    runtime: &tokio::runtime::Runtime,
) -> anyhow::Result<Arc<SharedLog>> {
    let database = database(config)?.context("array.database is not set")?;
    let log = SharedLog::new(database, runtime.handle().clone());
    Ok(Arc::new(match replica(config)? {
        Some(replica) => log.with_replica(replica),
        None => log,
    }))
}
