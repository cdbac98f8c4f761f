//! `gauntlet serve`: run a node.

mod console_connections;
mod data_folder;
mod handle;
pub(crate) mod node_state;
mod packets;
pub(crate) mod secrets_process;
mod service_manager;
mod subsystems;
mod text_logs;

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use gauntlet_console::{ConsoleOptions, ConsoleState, OidcOptions, Proxies, Tls};
use gauntlet_gateway::admin::key_access::unreadable_keys;
use gauntlet_gateway::admin::policy_source;
use gauntlet_gateway::admin::sandbox;
use gauntlet_gateway::config::{Config, Loaded, OidcSettings, Sandbox};
use gauntlet_gateway::limits::has_threads;
use gauntlet_gateway::privileges::{self, Account};
use gauntlet_gateway::scan::shadow::Shadow;
use gauntlet_gateway::secrets::SandboxStatus;
use gauntlet_gateway::secrets::Secrets;
use gauntlet_gateway::{Listeners, Node};
use gauntlet_store::{Policies, Users};
use tokio::signal::unix::{SignalKind, signal};

use self::console_connections::ConsoleConnections;
use self::handle::Handle;
use self::node_state::EffectiveSettings;
use self::packets::{PacketProcess, Packets};
use self::service_manager::ServiceManager;
use crate::array::held::held;
use crate::array::member::{Membership, messages};
use crate::array::upgrade;
use crate::channel::content::Contents;
use crate::channel::watch::{Channels, MakeJudge};
use crate::content_process::{self, Processes};
use crate::denied::is_denied;
use crate::doctor::Confinement;
use crate::judge::judge_of;
use crate::node_args::NodeArgs;
use crate::url_lists::OpenLists;
use crate::web::{WebPath, WebSockets};
use crate::{digest, learning, phrases, report};

/// Arguments of `gauntlet serve`.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    node: NodeArgs,
}

/// Descriptors that the process asks the system for.
const DESCRIPTORS_WANTED: u64 = 1 << 20;
/// Threads of stores, logs, console and what blocks.
const THREADS_BESIDE: usize = 24;

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let loaded = args.node.loaded()?;
    let config = loaded.config.clone();
    has_threads(threads_wanted(&config))?;
    let settings = EffectiveSettings::default();
    settings.apply(&loaded);
    let manager = Arc::new(ServiceManager::of_environment());
    // Before the text logs and the secrets process, which write into it.
    data_folder::prepare(&config)?;
    // Before there is any thread, and while the node may still read what only root may.
    let secrets = secrets_process::start(&args.node)?;
    // Before the node may start no program any more.
    let processes = content_process::start_for_node(&config)?;
    let packets = PacketProcess::start(&config, args.node.file())?;
    // Before the sandbox, within which nobody could read a key of the data folder.
    let unreadable = unreadable_keys(&config)?;
    let confined = sandbox::enter_node(&config, args.node.file())?;
    let _written_to_the_end = text_logs::start(&config)?;
    for warning in unreadable {
        tracing::warn!("{warning}");
    }
    secrets.watch().context("a thread for the secrets process")?;
    processes.watch()?;
    let sandbox = describe_sandbox(&confined, &secrets);
    crate::allocator::keep_memory_small();
    let descriptors = raise_descriptor_limit();
    tracing::info!(descriptors, "open files allowed");
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    // The runtime reads this variable itself if no number is set.
    if std::env::var_os("TOKIO_WORKER_THREADS").is_none() {
        runtime.worker_threads(socket_threads(&config));
    }
    let runtime =
        runtime.enable_all().thread_name("mail").build().context("cannot start the runtime")?;
    let parts = (secrets, processes, packets, manager);
    runtime.block_on(serve(args, config.clone(), settings, parts, sandbox))?;
    match upgrade::is_stopping(&config) {
        true => Ok(ExitCode::from(upgrade::EXIT_STATUS)),
        false => Ok(ExitCode::SUCCESS),
    }
}

/// Threads that wait for sockets and judge small messages: as many as CPUs. Where they judge none,
/// half as many, since they would wake each other for little
/// (`docs/decisions/126-allocator.md`).
fn socket_threads(config: &Config) -> usize {
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    match config.scan.enabled && config.scan.threads == 0 {
        true => cpus,
        false => (cpus / 2).max(1),
    }
}

/// About how many threads a node has: of the runtime, of the scan pool, and those beside.
fn threads_wanted(config: &Config) -> usize {
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    let scanning = if config.scan.threads == 0 { cpus } else { config.scan.threads };
    // The web path has a runtime of its own.
    let web = if config.web_listeners().next().is_some() { cpus } else { 0 };
    socket_threads(config) + scanning + web + THREADS_BESIDE
}

/// Logs which restrictions the kernel enforces on the processes, and which it lacks; returns them
/// for [`announce`].
fn describe_sandbox(node: &SandboxStatus, secrets: &Secrets) -> Confinement {
    let mut is_whole = true;
    let mut all = Vec::new();
    for (process, confined) in [("node", node), ("secrets process", secrets.status())] {
        let holds = confined.holds.join(", ");
        is_whole &= confined.lacks.is_empty();
        if confined.lacks.is_empty() {
            tracing::info!(process, holds, "sandbox");
        } else {
            let lacks = confined.lacks.join("; ");
            tracing::warn!(process, holds, lacks, "the sandbox is not whole");
        }
        let lacks = confined.lacks.iter().map(|lack| format!("without {lack}"));
        let parts: Vec<String> = confined.holds.iter().cloned().chain(lacks).collect();
        all.push(format!("{process}: {}", parts.join(", ")));
    }
    all.dedup();
    Confinement { text: all.join("; "), is_whole }
}

/// What was started before there are threads.
type StartedBefore = (Arc<Secrets>, Processes, Option<PacketProcess>, Arc<ServiceManager>);

async fn serve(
    args: &Args,
    config: Config,
    settings: EffectiveSettings,
    (secrets, processes, packets, manager): StartedBefore,
    sandbox: Confinement,
) -> anyhow::Result<()> {
    let mut hang_up = signal(SignalKind::hangup())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let (listeners, console_listener, web_sockets) = open_listeners(&config, &secrets)?;
    let users = Arc::new(Users::remote(secrets.clone()));
    users.attempts().set_limits(config.sign_in.limits());
    let lists = Arc::new(OpenLists::of_node(&config.node.data));
    let channels = Channels::start(&config);
    let make = make_judge(&users, &processes, &lists);
    let judge = channels.judge(make.clone());
    let node = Node::start(config, listeners, judge, users.clone())?;
    gauntlet_gateway::control::serve(node.clone()).context("the control socket")?;
    let phrases = channels.contents().phrases();
    let web = WebPath::start(&node, web_sockets, (&processes, &secrets), &phrases)?.map(Arc::new);
    let packets = Packets::watch(&node.config(), packets)?.map(Arc::new);
    let array = Membership::start(&node, &args.node, &users)?;
    let paths: Paths = (web.clone(), packets.clone(), array.clone());
    subsystems::register(&node, &paths, &channels);
    learning::watch(&node)?;
    channels.watch(&node, users.clone(), make, web.as_ref())?;
    record_policy(&node);
    digest::watch(&node, users.clone(), array.clone())?;
    report::watch(&node, users.clone(), array.clone())?;
    let parts = (users.clone(), settings.clone(), paths);
    let start = |at| Console::start(&node, parts, (secrets.clone(), sandbox.clone()), at);
    let console = console_listener.map(start).transpose()?;
    // Last, because it is shown once: a start that fails must not use it up.
    let password = users.create_first_administrator(now_ms())?;
    let paths = (console.as_ref(), web.as_deref());
    announce_or_warn(&node, paths, password.as_deref(), &sandbox.text);
    manager.ready();
    tokio::spawn(manager.clone().keep_alive());
    let broken = loop {
        tokio::select! {
            _ = hang_up.recv() => {
                let phrases = channels.contents().phrases();
                let served = (&*node, web.as_deref(), &*lists, &*phrases);
                manager.reloading();
                manager.reloaded(reload(args, served, &settings, (&users, &secrets)));
                packets.iter().for_each(|packets| packets.reload());
            }
            _ = terminate.recv() => break None,
            _ = interrupt.recv() => break None,
            why = lost_process(&secrets, &processes) => break Some(why),
        }
    };
    manager.stopping(node.config().node.drain_seconds_max);
    log_stop(broken.as_deref());
    let beside = tokio::task::spawn_blocking(move || stop_paths(&(web, packets, None)));
    node.stop().await;
    let _ = tokio::task::spawn_blocking(move || stop_paths(&(None, None, array))).await;
    if let Some(console) = console {
        console.stop();
    }
    // What they did is done; a panic was told when it happened.
    let _ = beside.await;
    users.attempts().finish();
    match broken {
        Some(why) => bail!("{why}; start the node again, mail in the spool is safe"),
        None => Ok(()),
    }
}

/// Waits until a process has ended without which the node is of no use, and says which: it cannot
/// start another, being confined.
async fn lost_process(secrets: &Secrets, processes: &Processes) -> String {
    tokio::select! {
        why = secrets.ended() => why,
        why = processes.broken() => why,
    }
}

fn log_stop(broken: Option<&str>) {
    if let Some(why) = broken {
        let hint = "start the node again; mail in the spool is safe";
        tracing::error!(why, hint, "the node lacks a process that it needs, and stops");
    }
    tracing::info!("stopping: no new sessions, waiting for those that are open");
}

/// Standard output may be closed: mail goes on without it.
fn announce_or_warn(
    node: &Node,
    paths: (Option<&Console>, Option<&WebPath>),
    password: Option<&str>,
    sandbox: &str,
) {
    if let Err(error) = announce(node, paths, password, sandbox) {
        let hint = "`gauntlet user passwd admin` makes a new one-time password";
        tracing::warn!(%error, hint, "standard output takes nothing");
    }
    tracing::info!(ruleset = node.ruleset(), "ready");
}

/// What makes the judge of each generation, and of versions of channels that are tried.
fn make_judge(users: &Arc<Users>, processes: &Processes, lists: &Arc<OpenLists>) -> Arc<MakeJudge> {
    let (users, processes, lists) = (users.clone(), processes.clone(), lists.clone());
    // The same for all generations: a trial outlives reloads.
    let shadow = Shadow::default();
    Arc::new(move |config: &Config, contents: &Contents| {
        judge_of(config, &users, (&processes, &lists), (contents, &shadow))
    })
}

/// Binds all ports, then drops root if the configuration names a user.
fn open_listeners(
    config: &Config,
    secrets: &Arc<Secrets>,
) -> anyhow::Result<(Listeners, Option<std::net::TcpListener>, WebSockets)> {
    let listeners = Listeners::open_with(config, Some(secrets.clone()))?;
    let web = WebSockets::bind(config)?;
    let console = match config.console.address.as_str() {
        "" => None,
        address => Some(
            std::net::TcpListener::bind(address)
                .map_err(|e| {
                    anyhow::anyhow!("{e}{}", gauntlet_gateway::inbound::receiver::remediation(&e))
                })
                .with_context(|| format!("console.address {address}"))?,
        ),
    };
    drop_root(config)?;
    if privileges::is_root() {
        tracing::warn!("running as root: set node.user to a user of its own");
    }
    data_folder::make_private(config)?;
    Ok((listeners, console, web))
}

/// Drops root for good if the configuration names a user.
fn drop_root(config: &Config) -> anyhow::Result<()> {
    if config.node.user.is_empty() {
        return Ok(());
    }
    let named = || format!("node.user {:?}", config.node.user);
    Account::find(&config.node.user)?.enter().with_context(named)
}

/// The configuration as it is now. Where its file was replaced by another, the sandbox may know
/// only the one of the start; the secrets process, which may read any file, reads it then.
fn load_again(args: &Args, secrets: &Secrets) -> anyhow::Result<Loaded> {
    match args.node.loaded() {
        Err(error) if is_denied(&error) => match secrets.configuration() {
            Ok(text) => args.node.loaded_from(&text),
            Err(_) => Err(error),
        },
        loaded => loaded,
    }
}

fn reload(
    args: &Args,
    (node, web, lists, of_channels): (&Node, Option<&WebPath>, &OpenLists, &[PathBuf]),
    settings: &EffectiveSettings,
    (users, secrets): (&Users, &Secrets),
) -> Result<(), String> {
    let applied = load_again(args, secrets).and_then(|loaded| {
        let phrases = &loaded.config.proxy.content.phrases;
        let phrases = web.map(|_| phrases::open_with(phrases, of_channels)).transpose()?;
        lists.look_again();
        node.reload(loaded.config.clone())?;
        settings.apply(&loaded);
        web.zip(phrases).into_iter().for_each(|(web, phrases)| web.apply(phrases));
        Ok(())
    });
    match applied {
        Ok(()) => {
            users.attempts().set_limits(node.config().sign_in.limits());
            record_policy(node);
            tracing::info!(ruleset = node.ruleset(), "configuration reloaded");
            settings.warn_of_restart(&node.config());
            Ok(())
        }
        Err(error) => {
            let denied = is_denied(&error) && node.config().node.sandbox != Sandbox::Off;
            let hint = "the sandbox (node.sandbox) lets the node read the files that the configuration named at \
                        the start; a file that is new, or that was replaced in a folder with keys or the data \
                        folder below it, needs a restart: write into the file instead of replacing it, or \
                        keep keys and data in other folders";
            let error = match denied {
                true => format!("{error:#}; {hint}"),
                false => format!("{error:#}"),
            };
            tracing::error!(error, "configuration not reloaded; everything stays as it was");
            Err(error)
        }
    }
}

/// Notes the policy in force as a version, if it is none yet: the history then has files that were
/// changed by hand.
fn record_policy(node: &Node) {
    let config = node.config();
    let noted = Policies::open(&policy_source::folder(&config))
        .map_err(anyhow::Error::from)
        .and_then(|policies| policy_source::note(&config, &policies, now_ms()));
    if let Err(error) = noted {
        let error = format!("{error:#}");
        tracing::warn!(error, "the policy in force could not be kept as a version");
    }
}

/// What the console shows beside the node.
type Parts = (Arc<Users>, EffectiveSettings, Paths);

/// What there is beside mail.
type Paths = (Option<Arc<WebPath>>, Option<Arc<Packets>>, Option<Arc<Membership>>);

/// Ends them; each waits for what has begun.
fn stop_paths((web, packets, array): &Paths) {
    packets.iter().for_each(|packets| packets.stop());
    web.iter().for_each(|web| web.stop());
    array.iter().for_each(|array| array.stop());
}

/// The certificate that the console shows, if it is to have one.
fn console_tls(config: &Config, node: &Node) -> anyhow::Result<Option<Tls>> {
    match (config.console.tls, node.tls()) {
        (false, _) => Ok(None),
        (true, Some(config)) => Ok(Some(Tls::new(config))),
        (true, None) => bail!(
            "console.tls needs a listener with a certificate, whose it shows: set \
             listener.certificate, listener.self_signed or acme.directory"
        ),
    }
}

/// The console on a runtime of its own, so that it can never stall mail.
struct Console {
    address: std::net::SocketAddr,
    stop: tokio::sync::oneshot::Sender<()>,
    thread: std::thread::JoinHandle<()>,
}

impl Console {
    fn start(
        node: &Arc<Node>,
        (users, settings, (web, packets, array)): Parts,
        (secrets, sandbox): (Arc<Secrets>, Confinement),
        listener: std::net::TcpListener,
    ) -> anyhow::Result<Self> {
        let config = node.config();
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let policies = Arc::new(Policies::open(&policy_source::folder(&config))?);
        if let Some(danger) = config.console.exposure() {
            tracing::error!("{danger}");
        }
        let state = ConsoleState {
            messages: messages(node, array.as_ref()),
            log: node.log.clone(),
            held: held(node, array.as_ref()),
            quarantine: node.quarantine.clone(),
            users,
            policies: policies.clone(),
            web_log: web.as_ref().map(|web| web.log.clone()),
            alerts: packets.as_ref().map(|packets| packets.log.clone()),
            web_releases: web.as_ref().map(|web| web.releases.clone()),
            pac: web.as_ref().and_then(|web| web.pac()),
            node: Arc::new(Handle {
                node: node.clone(),
                policies,
                settings,
                secrets,
                sandbox,
                packets,
                array,
            }),
            options: console_options(&config),
            tls: console_tls(&config, node)?,
            proxies: Arc::new(
                Proxies::parse(&config.console.proxies)
                    .map_err(|e| anyhow::anyhow!("console.proxies: {e}"))?,
            ),
            texts: digest::texts(&config)?,
            oidc: oidc(&config),
        };
        let connections = Arc::new(ConsoleConnections::new(&config));
        let (stop, stopped) = tokio::sync::oneshot::channel();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .max_blocking_threads(8)
            .thread_name("console")
            .build()
            .context("cannot start the console's runtime")?;
        let thread = std::thread::Builder::new().name("console".to_owned()).spawn(move || {
            let served = runtime.block_on(async {
                let listener = tokio::net::TcpListener::from_std(listener)?;
                let until = async {
                    let _stopped_or_dropped = stopped.await;
                };
                gauntlet_console::serve(listener, state, connections, until).await
            });
            if let Err(error) = served {
                tracing::error!(%error, "the console ended");
            }
        })?;
        Ok(Console { address, stop, thread })
    }

    /// Ends the console; requests under way have a second to finish.
    fn stop(self) {
        let _ended_already = self.stop.send(());
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(1);
        while !self.thread.is_finished() && std::time::Instant::now() < deadline {
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
    }
}

fn console_options(config: &Config) -> ConsoleOptions {
    ConsoleOptions {
        session_seconds: config.console.session_seconds,
        session_age_seconds_max: config.console.session_age_seconds_max,
        https: config.console.tls || config.console.url.starts_with("https://"),
        head_wait_max: Duration::from_secs(config.console.head_seconds_max),
        body_wait_max: Duration::from_secs(config.console.body_seconds_max),
    }
}

/// The single sign-on of a configuration.
fn oidc(config: &Config) -> Option<Arc<OidcOptions>> {
    let OidcSettings { issuer, client_id, client_secret, login_claim, add_people, name } =
        config.oidc.clone();
    let url = config.console.url.clone();
    let options =
        OidcOptions { issuer, client_id, client_secret, login_claim, add_people, name, url };
    (!options.issuer.is_empty()).then(|| Arc::new(options))
}

/// Prints listeners, folders and the first password on standard output.
fn announce(
    node: &Node,
    (console, web): (Option<&Console>, Option<&WebPath>),
    password: Option<&str>,
    sandbox: &str,
) -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "gauntlet {} is ready", env!("CARGO_PKG_VERSION"))?;
    for (name, location) in handle::locations(node) {
        writeln!(out, "  {name:<14} {location}")?;
    }
    for (role, address) in web.iter().flat_map(|web| web.addresses()) {
        writeln!(out, "  {role:<14} {address}")?;
    }
    if let Some(console) = console {
        let url = node.config().console.url_at(&console.address.to_string());
        writeln!(out, "  {:<14} {url}/", "console")?;
        if let Some(danger) = node.config().console.exposure() {
            writeln!(out, "  {:<14} {danger}", "DANGER")?;
        }
    }
    writeln!(out, "  {:<14} {sandbox}", "sandbox")?;
    if let Some(password) = password {
        writeln!(out, "  {:<14} login admin, one-time password {password}", "first start")?;
    }
    writeln!(out, "  {:<14} Ctrl-C; what has begun is finished first", "to stop")?;
    out.flush()
}

/// Raises the limit of open files as far as the system lets us. Returns what it is now.
fn raise_descriptor_limit() -> u64 {
    gauntlet_gateway::limits::raise_descriptors(DESCRIPTORS_WANTED)
}

fn now_ms() -> i64 {
    gauntlet_gateway::clock::now_ms()
}
