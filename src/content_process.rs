//! `gauntlet content-process`: the supervisor of unpacking. Internal: `gauntlet serve`,
//! `scan` and `unpack` start it by themselves.

use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode, Stdio};
use std::sync::Arc;

use anyhow::Context;
use gauntlet_content::Child;
use gauntlet_content::engines::command::Launcher;
use gauntlet_content::process::client::{Pool, SupervisorEnd};
use gauntlet_content::process::supervisor::{self, Settings};
use gauntlet_gateway::config::{Config, Sandbox};
use gauntlet_gateway::privileges::Account;
use gauntlet_gateway::scan::engines::EngineHost;
use gauntlet_gateway::scan::unpacking::Unpacking;
use gauntlet_mail::Message;
use tokio::sync::watch;

/// Arguments of `gauntlet content-process`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Memory of a worker above what the program needs, in bytes
    #[arg(long, default_value_t = Settings::default().memory_bytes_max)]
    memory_bytes_max: u64,
    /// Refuse to work where the kernel has no Landlock or seccomp
    #[arg(long)]
    require_sandbox: bool,
    /// Work as this user
    #[arg(long)]
    user: Option<String>,
    /// Start these commands instead of unpacking: JSON, a list of argument lists
    #[arg(long)]
    commands: Option<String>,
}

/// Starts a supervisor and the pool of its workers.
///
/// # Errors
/// If it cannot be started.
pub(crate) fn start(settings: &Settings, workers_max: usize) -> anyhow::Result<Pool> {
    let mut command = command(settings.memory_bytes_max);
    if !settings.allow_uncaged {
        command.arg("--require-sandbox");
    }
    Pool::start(command, workers_max).context("the process that unpacks cannot be started")
}

/// What a node starts for its files before it may start no program any more.
#[derive(Debug, Clone)]
pub(crate) struct Processes {
    /// Workers that unpack; none if nothing is to be unpacked.
    pub(crate) pool: Option<Arc<Pool>>,
    /// What engines keep, and the process that starts commands.
    pub(crate) engines: Arc<EngineHost>,
    /// Why the node can judge files no more; empty while it can.
    broken: watch::Sender<String>,
}

impl Processes {
    /// Watches for their ends, which are logged: nobody else would miss them before a message with
    /// a file comes. Call it once the node has restricted itself.
    ///
    /// # Errors
    /// If a thread cannot be started.
    pub(crate) fn watch(&self) -> anyhow::Result<()> {
        let thread = "a thread for the processes of unpacking";
        if let Some(pool) = &self.pool {
            let broken = self.broken.clone();
            pool.watch(move |end| supervisor_ended(end, &broken)).context(thread)?;
        }
        let broken = self.broken.clone();
        let launcher_ended = move |pid, how: String| {
            let hint = "the node stops, since it can start no other; start it again";
            tracing::error!(
                pid,
                how,
                hint,
                "the process that starts commands of engines has ended"
            );
            broken.send_replace(format!("the process that starts commands has ended ({how})"));
        };
        self.engines.watch(launcher_ended).context(thread)
    }

    /// Waits until the node can judge files no more, and says why.
    pub(crate) async fn broken(&self) -> String {
        let mut broken = self.broken.subscribe();
        match broken.wait_for(|why| !why.is_empty()).await {
            Ok(why) => why.clone(),
            // Its sender is ours.
            Err(_) => std::future::pending().await,
        }
    }
}

/// Logs that a supervisor has ended. Without any left every message with a file would be held as
/// unscannable: the node stops instead, so that its service manager starts one that judges.
fn supervisor_ended(end: &SupervisorEnd, broken: &watch::Sender<String>) {
    let SupervisorEnd { id, how, left } = end;
    let hint = match left {
        0 => "none is left, and the node stops, since it can start no other; start it again",
        _ => "the one in reserve goes on; restart the node at a quiet time to have two again",
    };
    tracing::error!(
        pid = id,
        how,
        left,
        hint,
        "a process that starts workers of unpacking has ended"
    );
    if *left == 0 {
        broken.send_replace(format!("no process that unpacks is left (the last one: {how})"));
    }
}

/// Starts them. Call it while the process may still start programs.
///
/// # Errors
/// If one cannot be started.
pub(crate) fn start_for_node(config: &Config) -> anyhow::Result<Processes> {
    let broken = watch::Sender::default();
    if !config.content.enabled || !config.scan.enabled {
        return Ok(Processes { pool: None, engines: Arc::default(), broken });
    }
    let engines = engine_host(config, &config.node.user)?;
    let mut command = command(config.content.worker_memory_bytes_max);
    if config.node.sandbox == Sandbox::Require {
        command.arg("--require-sandbox");
    }
    if !config.node.user.is_empty() {
        command.arg("--user").arg(&config.node.user);
    }
    let pool = Pool::start(command, config.content.workers());
    let pool = pool.context("the process that unpacks cannot be started")?;
    Ok(Processes { pool: Some(Arc::new(pool)), engines: Arc::new(engines), broken })
}

/// With the process that starts the commands of the settings as this user, if they have some. An
/// empty name is the user who runs this.
///
/// # Errors
/// If it cannot be started.
pub(crate) fn engine_host(config: &Config, user: &str) -> anyhow::Result<EngineHost> {
    let commands = gauntlet_gateway::scan::engines::commands(config);
    if commands.is_empty() {
        return Ok(EngineHost::default());
    }
    let mut command = Command::new("/proc/self/exe");
    command.arg0("gauntlet").arg("content-process").stdout(Stdio::null()).process_group(0);
    command.arg("--commands").arg(serde_json::to_string(&commands)?);
    if !user.is_empty() {
        command.arg("--user").arg(user);
    }
    let launcher = Launcher::start(command);
    let launcher = launcher.context("the process that starts commands of engines")?;
    Ok(EngineHost::new(Some((Arc::new(launcher), commands))))
}

/// What opens files and asks engines for a command that runs without a node.
///
/// # Errors
/// If a process cannot be started, or a file of an engine cannot be read.
pub(crate) fn start_unpacking(config: &Config, workers_max: usize) -> anyhow::Result<Unpacking> {
    let workers = Settings {
        memory_bytes_max: config.content.worker_memory_bytes_max,
        ..Settings::default()
    };
    let pool = start(&workers, workers_max)?;
    let engines = engine_host(config, "")?.engines(&config.engine, &config.content)?;
    Ok(Unpacking::new(&config.content, Arc::new(pool), Arc::new(engines)))
}

fn command(memory_bytes_max: u64) -> Command {
    // The program that runs, even if another was put in its place meanwhile.
    let mut command = Command::new("/proc/self/exe");
    command.arg0("gauntlet").arg("content-process").stdout(Stdio::null()).process_group(0);
    command.arg("--memory-bytes-max").arg(memory_bytes_max.to_string());
    command
}

/// Runs the supervisor on its standard input.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let control: OwnedFd = std::io::stdin().as_fd().try_clone_to_owned()?;
    let settings = Settings {
        memory_bytes_max: args.memory_bytes_max,
        allow_uncaged: !args.require_sandbox,
        ..Settings::default()
    };
    if let Some(user) = &args.user {
        Account::find(user)?.enter().with_context(|| format!("node.user {user:?}"))?;
    }
    ignore_signals();
    if let Some(commands) = &args.commands {
        let commands: Vec<Vec<String>> = serde_json::from_str(commands).context("--commands")?;
        gauntlet_content::engines::command::serve(&UnixStream::from(control), &commands)?;
        return Ok(ExitCode::SUCCESS);
    }
    let served = supervisor::serve(UnixStream::from(control), &settings, message_files);
    served.context("this process is started by `gauntlet` itself")?;
    Ok(ExitCode::SUCCESS)
}

/// The node ends this process by closing its socket: a signal that a service manager sends to all
/// processes must not be faster.
fn ignore_signals() {
    for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGPIPE] {
        // SAFETY: SIG_IGN runs no code of ours.
        unsafe { libc::signal(signal, libc::SIG_IGN) };
    }
}

/// Everything that a message inside another file has: for the decoder, which knows nothing of mail.
fn message_files(raw: &[u8]) -> Vec<(Child, Vec<u8>)> {
    let message = Message::parse(raw);
    let files = message.all_files().into_iter();
    let child = |f: gauntlet_mail::files::MessageFile<'_>| {
        let child = Child { name: f.name.into_owned(), declared_type: f.declared_type };
        (child, f.bytes.to_vec())
    };
    files.map(child).collect()
}
