//! A server that a comparison started for itself: on loopback, in a temporary folder, ended with
//! the value.

use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};

use crate::process::family;
use crate::protocol::Protocol;

/// Longest wait for a server to listen.
const START_MAX: Duration = Duration::from_secs(120);
/// Bytes of a server's log that are quoted when it does not start.
const LOG_QUOTED: usize = 600;

/// A server that was started for the measurement, and ends with the value.
#[derive(Debug)]
pub struct Server {
    /// Its name in the report.
    pub name: String,
    /// What it says that it is.
    pub version: String,
    /// How it was set up, where that is not as it comes.
    pub notes: Vec<String>,
    /// Protocol of mail that its listener speaks; a server of the web has none.
    pub protocol: Option<Protocol>,
    /// Address and port of its listener.
    pub address: SocketAddr,
    /// Process whose CPU time and memory count, with its children's.
    pub process: u32,
    /// Where a node of ours shows what it counts; a peer has none.
    pub metrics: Option<SocketAddr>,
    child: Option<Child>,
    /// What ends a server that put itself into the background.
    stop: Option<Command>,
    _folder: tempfile::TempDir,
}

/// What a server needs to be started.
pub(crate) struct Start {
    pub(crate) name: String,
    pub(crate) version: String,
    pub(crate) notes: Vec<String>,
    pub(crate) protocol: Option<Protocol>,
    pub(crate) address: SocketAddr,
    pub(crate) folder: tempfile::TempDir,
}

impl Server {
    /// Starts a command that stays in the foreground, and waits until it listens.
    pub(crate) fn foreground(start: Start, mut command: Command) -> anyhow::Result<Self> {
        let log = start.folder.path().join("output.log");
        let out = std::fs::File::create(&log).context("cannot write the server's log")?;
        command.stdin(Stdio::null()).stderr(out.try_clone()?).stdout(out);
        let child = command.spawn().with_context(|| format!("cannot start {}", start.name))?;
        let process = child.id();
        let mut server = Self::of(start, Some(child), None, process);
        server.wait(&log)?;
        Ok(server)
    }

    /// Takes over a server that runs in the background already, and that `stop` ends.
    pub(crate) fn background(start: Start, process: u32, stop: Command) -> anyhow::Result<Self> {
        let log = start.folder.path().join("output.log");
        let mut server = Self::of(start, None, Some(stop), process);
        server.wait(&log)?;
        Ok(server)
    }

    fn of(start: Start, child: Option<Child>, stop: Option<Command>, process: u32) -> Self {
        let Start { name, version, notes, protocol, address, folder } = start;
        Server {
            name,
            version,
            notes,
            protocol,
            address,
            process,
            metrics: None,
            child,
            stop,
            _folder: folder,
        }
    }

    fn wait(&mut self, log: &Path) -> anyhow::Result<()> {
        let begin = Instant::now();
        while TcpStream::connect_timeout(&self.address, Duration::from_secs(1)).is_err() {
            let ended = self.child.as_mut().map(Child::try_wait).transpose()?.flatten();
            if ended.is_some() || begin.elapsed() > START_MAX {
                let text = std::fs::read_to_string(log).unwrap_or_default();
                let tail = text.char_indices().rev().nth(LOG_QUOTED).map_or(0, |(at, _)| at);
                let why = ended.map_or_else(|| "does not listen".to_owned(), |s| s.to_string());
                bail!("{} on {}: {why}: {}", self.name, self.address, text[tail..].trim());
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(mut stop) = self.stop.take() {
            // `drop` cannot report an error, and there is nothing else to try.
            let _ = stop.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
        }
        let Some(child) = &mut self.child else { return };
        for process in family(child.id()).iter().rev() {
            if let Ok(process) = libc::pid_t::try_from(*process) {
                // SAFETY: kill only sends a signal; the numbers are of processes that this value
                // started, whose parent was alive and had not been waited for a moment ago.
                unsafe { libc::kill(process, libc::SIGKILL) };
            }
        }
        // It is dead or cannot be killed; `drop` cannot report which.
        let _ = child.wait();
    }
}

/// A loopback address that is free now.
pub(crate) fn free_address() -> anyhow::Result<SocketAddr> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("no free port")?.local_addr()?)
}

/// A folder that a server may enter which gave up root's rights.
pub(crate) fn folder() -> anyhow::Result<tempfile::TempDir> {
    let folder = tempfile::tempdir().context("cannot make a temporary folder")?;
    let open = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(folder.path(), open).context("cannot open the temporary folder")?;
    Ok(folder)
}

/// Writes a file below the folder, and the folders above it.
pub(crate) fn write(folder: &Path, name: &str, text: &str) -> anyhow::Result<PathBuf> {
    let path = folder.join(name);
    let written = match path.parent() {
        Some(parent) => std::fs::create_dir_all(parent),
        None => Ok(()),
    };
    written
        .and_then(|()| std::fs::write(&path, text))
        .with_context(|| format!("cannot write {}", path.display()))?;
    Ok(path)
}

/// The program of that name on the path or among the system's, or how to get it.
pub(crate) fn program(name: &str, package: &str) -> anyhow::Result<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let system = ["/usr/sbin", "/sbin"].map(PathBuf::from);
    std::env::split_paths(&path)
        .chain(system)
        .map(|folder| folder.join(name))
        .find(|file| file.is_file())
        .with_context(|| format!("there is no {name} (Debian: apt-get install {package})"))
}

/// The first line that the program prints for an option that asks for its version.
pub(crate) fn version(program: &Path, option: &str) -> String {
    let output = Command::new(program).arg(option).stdin(Stdio::null()).output();
    let text = output.map(|o| [o.stdout, o.stderr].concat()).unwrap_or_default();
    let text = String::from_utf8_lossy(&text).into_owned();
    text.lines().next().unwrap_or("unknown").trim().to_owned()
}

/// Whether this process may start servers that give up root's rights themselves.
pub(crate) fn is_root() -> bool {
    // SAFETY: geteuid takes nothing, returns a number and cannot fail.
    unsafe { libc::geteuid() == 0 }
}
