//! `gauntlet secrets-process`: what `gauntlet serve` starts for private keys. Not to be run by
//! hand.

use std::os::fd::{FromRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::sync::Arc;

use gauntlet_gateway::admin::sandbox;
use gauntlet_gateway::admin::secrets_process::{self, State};
use gauntlet_gateway::config::Config;
use gauntlet_gateway::secrets::{SandboxStatus, Secrets};

use crate::node_args::NodeArgs;

/// Arguments of `gauntlet secrets-process`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    node: NodeArgs,
    /// Descriptors of the sockets to the node
    #[arg(long, value_delimiter = ',', required = true)]
    connections: Vec<RawFd>,
}

/// Starts the secrets process of a node.
///
/// # Errors
/// If it cannot be started, or says why it cannot work.
pub(super) fn start(node: &NodeArgs) -> anyhow::Result<Arc<Secrets>> {
    // The program that runs, even if another was put in its place meanwhile.
    let mut command = Command::new("/proc/self/exe");
    command.arg0("gauntlet").arg("secrets-process").args(node.to_arguments());
    command.stdin(Stdio::null()).stdout(Stdio::null());
    // Away from what the terminal sends: it ends when the node has ended.
    command.process_group(0);
    Secrets::start(command)
}

/// Runs the secrets process.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let connections = args.connections.iter().map(|fd| connection(*fd));
    let connections = connections.collect::<anyhow::Result<Vec<UnixStream>>>()?;
    ignore_signals();
    let node = args.node.clone();
    // A configuration that cannot be read is the node's to report.
    if let Ok(config) = node.load() {
        super::text_logs::start_errors(&config)?;
    }
    let file = node.file().map(Path::to_owned);
    let opened = State::open(Box::new(move || node.load()), file, settle);
    // The node says why it did not start: no need to say it twice.
    let failed = opened.is_err();
    match secrets_process::serve(connections, opened) {
        Err(_) if failed => Ok(ExitCode::from(2)),
        ended => ended.map(|()| ExitCode::SUCCESS),
    }
}

/// One end of a socket pair that the node made.
fn connection(fd: RawFd) -> anyhow::Result<UnixStream> {
    // SAFETY: all zeros is a valid `stat`, and it outlives the call.
    let is_socket = unsafe {
        let mut stat: libc::stat = std::mem::zeroed();
        libc::fstat(fd, &raw mut stat) == 0 && stat.st_mode & libc::S_IFMT == libc::S_IFSOCK
    };
    anyhow::ensure!(
        fd > 2 && is_socket,
        "{fd} is no socket of a node: `gauntlet serve` starts this process by itself"
    );
    // SAFETY: the node left this descriptor open for us, and no other code of this process uses it.
    Ok(UnixStream::from(unsafe { OwnedFd::from_raw_fd(fd) }))
}

/// The node ends this process by closing its sockets, once its last message is signed: a signal
/// that a service manager sends to all processes must not be faster.
fn ignore_signals() {
    for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGPIPE] {
        // SAFETY: SIG_IGN runs no code of ours.
        unsafe { libc::signal(signal, libc::SIG_IGN) };
    }
}

/// Gives up what is not needed once the keys are read.
fn settle(config: &Config) -> anyhow::Result<SandboxStatus> {
    super::drop_root(config)?;
    sandbox::enter_secrets(config)
}
