//! This program's own proxy, started privately, with a list that is composed.

use std::io::{BufWriter, Write as _};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context;
use gauntlet_urlfilter::{compile, sources};

use super::tls::Authority;
use super::workload::domains;
use crate::compare::peers::Around;
use crate::compare::server::{Server, Start, folder, free_address, write};

/// Kept connections to one origin that a proxy's settings allow at most.
const KEPT_MAX: usize = 1_000;

/// How the proxy is started.
pub(crate) struct Proxy<'a> {
    /// Path of the program.
    pub(crate) program: &'a Path,
    /// What it says that it is.
    pub(crate) version: &'a str,
    /// Its name in the report.
    pub(crate) name: &'a str,
    /// A text with a domain a line; none blocks nothing.
    pub(crate) domains: Option<&'a Path>,
    /// Connections of one client that it takes, and keeps to the one origin.
    pub(crate) connections: usize,
    /// Threads that serve sockets.
    pub(crate) workers: usize,
    /// What it decrypts by, and the certificate of the origin that it is to trust.
    pub(crate) authority: Option<(&'a Authority, &'a Path)>,
}

impl Proxy<'_> {
    /// Starts it.
    ///
    /// # Errors
    /// The list cannot be compiled, or it does not start.
    pub(crate) fn start(&self) -> anyhow::Result<Server> {
        let (folder, address) = (folder()?, free_address()?);
        let mut command = Command::new(self.program);
        command.args(["proxy", "--listen", &address.to_string()]);
        command.args(["--allow-network", "127.0.0.0/8", "--allow-network", "::1/128"]);
        let kept = self.connections.min(KEPT_MAX);
        let mut text = format!(
            "connect_ports = [\"1-65535\"]\n[limits]\nconnections_max = 1000000\n\
             client_connections_max = 1000000\nkept_origin_connections_max = {kept}\n\
             [times]\nkeep_alive_seconds_max = 600\n"
        );
        if let Some((authority, origin)) = self.authority {
            text.push_str(&format!("[tls]\nmore_roots = [{origin:?}]\n"));
            command.arg("--ca").arg(authority.folder());
        }
        command.arg("--settings").arg(write(folder.path(), "proxy.toml", &text)?);
        let mut notes = vec![format!("{} thread(s) for sockets, no access log", self.workers)];
        if self.authority.is_some() {
            notes.push("decrypts tunnels, each server verified".to_owned());
        }
        if let Some(domains) = self.domains {
            let out = folder.path().join("list.urls");
            let (built, _) = compile(&sources::collect(domains, None, None)?.files, &out)?;
            command.arg("--block").arg(out);
            notes.push(format!("a list of {} domains", built.entries));
        }
        let workers = self.workers.max(1).to_string();
        let environment = vec![("TOKIO_WORKER_THREADS", workers)];
        Around { environment, ..Around::default() }.apply(&mut command);
        let start = Start {
            name: self.name.to_owned(),
            version: self.version.to_owned(),
            notes,
            protocol: None,
            address,
            folder,
        };
        Server::foreground(start, command)
    }
}

/// Writes a composed list of domains, one a line.
///
/// # Errors
/// If it cannot be written.
pub(crate) fn write_domains(
    folder: &Path,
    name: &str,
    entries: u64,
    line: impl Fn(&str) -> String,
) -> anyhow::Result<PathBuf> {
    let path = folder.join(name);
    let failed = || format!("cannot write {}", path.display());
    let mut out = BufWriter::new(std::fs::File::create(&path).with_context(failed)?);
    for domain in domains(entries) {
        writeln!(out, "{}", line(&domain)).with_context(failed)?;
    }
    out.flush().with_context(failed)?;
    Ok(path)
}
