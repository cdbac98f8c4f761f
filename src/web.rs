//! The web path of a node: its listeners, what judges requests, and the web log.

mod certificates;
pub(crate) mod files;
mod listening;
mod logins;
mod look_up;
pub(crate) mod quota_file;
mod releases;
mod resolver;

use std::net::{SocketAddr, TcpListener, ToSocketAddrs, UdpSocket};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, UNIX_EPOCH};

use anyhow::Context;
use gauntlet_gateway::Node;
use gauntlet_gateway::clock::now_ms;
use gauntlet_gateway::config::{
    Config, ListenerRole, ListenerSettings, UrlListSettings, WebSettings, trust_roots,
};
use gauntlet_gateway::inbound::receiver::remediation;
use gauntlet_gateway::secrets::Secrets;
use gauntlet_mail::date::DAY_MS;
use gauntlet_phrases::PhraseSet;
use gauntlet_policy::Policy;
use gauntlet_proxy::access_log::{AccessLog, AccessRecord, Outcome};
use gauntlet_proxy::auth::Logins;
use gauntlet_proxy::content::{ContentJudge, PageShadow, SafeSearchResolver, ScanDownload};
use gauntlet_proxy::policy_judge::PolicyJudge;
use gauntlet_proxy::quotas::{QuotaSums, Quotas};
use gauntlet_proxy::resolve::Resolve;
use gauntlet_proxy::settings::Settings;
use gauntlet_proxy::{Parts, transparent_socket};
use gauntlet_store::{WebLog, WebReleases};
use gauntlet_web::pac::Speaks;
use gauntlet_web::{DNS_SCHEME, WebOutcome, WebRecord};
use tokio::sync::oneshot;

use self::certificates::Certificates;
use self::listening::{Listening, Numbers};
pub(crate) use self::look_up::ListLookUp;
use self::quota_file::QuotaFile;
use self::releases::NodeReleases;
use self::resolver::NodeResolver;
use crate::content_process::Processes;
use crate::phrases;
use crate::web_content::DownloadScanner;

/// Folder of the web log in the data folder.
pub(crate) const LOG_FOLDER: &str = "web";
/// How often days of the web log that are too old are looked for.
const RETAIN_EVERY: Duration = Duration::from_secs(3_600);

/// The sockets of the web path, bound.
#[derive(Debug)]
pub(crate) struct WebSockets(Vec<(ListenerSettings, TcpListener, Option<UdpSocket>)>);

impl WebSockets {
    /// Binds the listeners of the web path.
    ///
    /// # Errors
    /// If an address cannot be bound.
    pub(crate) fn bind(config: &Config) -> anyhow::Result<Self> {
        let bind = |settings: &ListenerSettings| {
            let socket = match settings.role {
                ListenerRole::Transparent => {
                    let address = settings.address.to_socket_addrs()?.next();
                    let address = address.context("no such address")?;
                    transparent_socket(address, config.proxy.transparent.mode)
                }
                _ => TcpListener::bind(&settings.address),
            };
            let socket = socket.map_err(|e| anyhow::anyhow!("{e}{}", remediation(&e)));
            let socket =
                socket.with_context(|| format!("listener.address {}", settings.address))?;
            socket.set_nonblocking(true)?;
            let datagrams = datagrams(settings, &socket)?;
            Ok((settings.clone(), socket, datagrams))
        };
        Ok(WebSockets(config.web_listeners().map(bind).collect::<anyhow::Result<_>>()?))
    }
}

/// The socket for datagrams of a DNS listener, at the same address and port; DNS over TLS has none.
fn datagrams(
    settings: &ListenerSettings,
    socket: &TcpListener,
) -> anyhow::Result<Option<UdpSocket>> {
    if settings.role != ListenerRole::Dns || settings.implicit_tls {
        return Ok(None);
    }
    let datagrams = UdpSocket::bind(socket.local_addr()?);
    let datagrams = datagrams.map_err(|e| anyhow::anyhow!("{e}{}", remediation(&e)));
    let datagrams =
        datagrams.with_context(|| format!("listener.address {} (UDP)", settings.address))?;
    datagrams.set_nonblocking(true)?;
    Ok(Some(datagrams))
}

/// The web path while it runs.
pub(crate) struct WebPath {
    /// What the console and `/metrics` read.
    pub(crate) log: Arc<WebLog>,
    /// What the console decides on.
    pub(crate) releases: Arc<WebReleases>,
    judge: Arc<PolicyJudge>,
    content: Arc<ContentJudge>,
    quotas: Arc<Quotas>,
    quota_file: Arc<QuotaFile>,
    logins: Option<Arc<Logins>>,
    certificates: Arc<Certificates>,
    node: Arc<Node>,
    addresses: Vec<(&'static str, SocketAddr)>,
    numbers: Vec<Numbers>,
    running: Mutex<Option<(oneshot::Sender<()>, JoinHandle<()>)>>,
}

impl WebPath {
    /// Serves these sockets on threads of its own, so that mail and web do not wait for each other;
    /// none if there are no sockets.
    ///
    /// # Errors
    /// A list of URLs cannot be opened, or a thread not be started.
    pub(crate) fn start(
        node: &Arc<Node>,
        sockets: WebSockets,
        (processes, secrets): (&Processes, &Arc<Secrets>),
        of_channels: &[PathBuf],
    ) -> anyhow::Result<Option<Self>> {
        if sockets.0.is_empty() {
            return Ok(None);
        }
        let config = node.config();
        let log = Arc::new(WebLog::open(&config.node.data.join(LOG_FOLDER))?);
        warn_of_silent_lists(&node.judge().policy, &config.url_list);
        let (quotas, quota_file) = open_quotas(&config);
        let asked = NodeReleases::open(&config.node.data.join(LOG_FOLDER), Arc::clone(node))?;
        let releases = asked.store();
        let judge = policy_judge(node, &quotas, asked);
        let content = content(node, &judge, processes, of_channels)?;
        let runtime = NestedRuntime::start()?;
        let resolver = resolver(node, &config);
        let logins = logins::logins(node, &config).context("proxy.login")?;
        warn_of_few_files(&config);
        let mut servers = Vec::new();
        let mut certificates = Certificates::default();
        for (listener, socket, datagrams) in sockets.0 {
            let masked = MaskedLog { log: Arc::clone(&log), node: Arc::clone(node) };
            let parts = Parts {
                judge: Arc::clone(&content) as _,
                resolver: Some(Arc::clone(&resolver)),
                log: Arc::new(masked),
                logins: logins.clone(),
                tls: certificates.add(&config, &listener, &socket, secrets)?,
            };
            let settings = listener_settings(&config.proxy, &listener, &config);
            let _entered = runtime.enter();
            let sockets = (socket, datagrams);
            let server = Listening::new(listener.role, sockets, settings, parts)?;
            certificates.verify_by(server.trust());
            servers.push(server);
        }
        let certificates = Arc::new(certificates);
        let addresses = servers.iter().flat_map(Listening::addresses).collect();
        let numbers = servers.iter().map(Listening::numbers).collect();
        let (stop, stopped) = oneshot::channel();
        let retaining = retain(Arc::clone(&log), Arc::clone(node), Arc::clone(&certificates));
        let write_every = Duration::from_secs(config.proxy.times.quota_write_seconds);
        let keeping = Arc::clone(&quota_file).keep(write_every);
        let thread = serve_on_thread(runtime, servers, stopped, retaining, keeping)?;
        let node = Arc::clone(node);
        let running = Mutex::new(Some((stop, thread)));
        Ok(Some(WebPath {
            log,
            releases,
            judge,
            content,
            quotas,
            quota_file,
            logins,
            certificates,
            node,
            addresses,
            numbers,
            running,
        }))
    }

    /// The phrases in force.
    pub(crate) fn phrases(&self) -> Option<Arc<PhraseSet>> {
        self.content.phrases()
    }

    /// Where phrases are tried on a share of the pages.
    pub(crate) fn page_shadow(&self) -> &PageShadow {
        self.content.shadow()
    }

    /// Judges by these phrases from now on.
    pub(crate) fn replace_phrases(&self, phrases: Option<Arc<PhraseSet>>) {
        self.content.replace_phrases(phrases);
    }

    /// Judges by the lists of URLs that the node has opened, and these phrases, from now on.
    pub(crate) fn apply(&self, phrases: Option<Arc<PhraseSet>>) {
        self.apply_lists();
        self.replace_phrases(phrases);
        if let Some(Err(error)) = self.logins.as_ref().map(|logins| logins.reload()) {
            let error = format!("{:#}", anyhow::Error::from(error));
            tracing::error!(error, "users of the proxy not read anew; they stay as they were");
        }
        self.certificates.renew(&self.node.config());
        let policy = &self.node.judge().policy;
        self.quotas.retain(&policy.web_quotas, now_ms() / 1_000);
        warn_of_silent_lists(policy, &self.node.config().url_list);
    }

    /// Judges by the lists of URLs that the node judges mail by.
    pub(crate) fn apply_lists(&self) {
        self.judge.replace_lists(self.node.judge().snapshot.url_lists.clone());
    }

    /// What browsers are told: to use the first explicit proxy, unless the settings name another.
    pub(crate) fn pac(&self) -> Option<Arc<str>> {
        let (_, address) = self.addresses.iter().find(|(role, _)| *role == "proxy")?;
        let has_tls = self.certificates.has(*address);
        let speaks = if has_tls { Speaks::Tls } else { Speaks::Plain };
        // Of a listener on all addresses, the node's name is known.
        let config = self.node.config();
        let own = match address.ip().is_unspecified() {
            true => format!("{}:{}", config.node.host_name(), address.port()),
            false => address.to_string(),
        };
        gauntlet_web::pac::script(&config.proxy.pac, &own, speaks).map(Into::into)
    }

    /// Where it listens, by the role.
    pub(crate) fn addresses(&self) -> &[(&'static str, SocketAddr)] {
        &self.addresses
    }

    /// Its numbers in Prometheus' text format.
    pub(crate) fn metrics(&self) -> String {
        let mut sums: Vec<(String, u64)> = Vec::new();
        for numbers in &self.numbers {
            for (name, n) in numbers() {
                match sums.iter_mut().find(|(known, _)| *known == name) {
                    Some((_, sum)) => *sum += n,
                    None => sums.push((name, n)),
                }
            }
        }
        sums.extend(self.quotas.all());
        sums.push(("log_records_written".to_owned(), self.log.written()));
        sums.push(("log_records_dropped".to_owned(), self.log.dropped()));
        let mut text = String::new();
        for (name, n) in sums {
            let is_gauge = name.ends_with("_now");
            let (kind, suffix) = if is_gauge { ("gauge", "") } else { ("counter", "_total") };
            let help = name.replace('_', " ");
            let name = format!("gauntlet_proxy_{name}{suffix}");
            text.push_str(&format!(
                "# HELP {name} Web path: {help}.\n# TYPE {name} {kind}\n{name} {n}\n"
            ));
        }
        text.push_str(&self.quota_metrics());
        text
    }

    /// What people have used of each quota in its present period. Names are the policy's: few.
    fn quota_metrics(&self) -> String {
        let judge = self.node.judge();
        let sums = self.quotas.sums(&judge.policy.web_quotas, now_ms() / 1_000);
        let mut text = String::new();
        let columns: [Column; 4] = [
            ("people", "people who used any of a quota in its present period", |s| s.people),
            ("used_up_people", "people who have used a quota up", |s| s.used_up),
            ("minutes", "minutes that all people have used of a quota", |s| s.minutes),
            ("bytes", "bytes that all people have used of a quota", |s| s.bytes),
        ];
        for (name, help, number) in columns.into_iter().filter(|_| !sums.is_empty()) {
            let name = format!("gauntlet_proxy_quota_{name}");
            text.push_str(&format!("# HELP {name} Web path: {help}.\n# TYPE {name} gauge\n"));
            for (quota, sums) in &sums {
                let quota = quota.replace('\\', r"\\").replace('"', "\\\"").replace('\n', r"\n");
                text.push_str(&format!("{name}{{quota=\"{quota}\"}} {}\n", number(sums)));
            }
        }
        text
    }

    /// Ends it; what has begun may end within `proxy.times.stop_seconds_max`.
    pub(crate) fn stop(&self) {
        let running = self.running.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some((stop, thread)) = running {
            // It may have ended already; a panic was told when it happened.
            let _ = stop.send(());
            let _ = thread.join();
        }
        self.quota_file.write();
        self.log.flush();
    }
}

/// A number that `/metrics` has of each quota: name, help, and where it comes from.
type Column = (&'static str, &'static str, fn(&QuotaSums) -> u64);

/// Threads of the web path, so that mail and web do not wait for each other.
/// The runtime of the web path, until its thread has it. What ends before that drops it within the
/// runtime of the node, which one that waits for its threads would not survive.
struct NestedRuntime(Option<tokio::runtime::Runtime>);

impl NestedRuntime {
    fn start() -> anyhow::Result<Self> {
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        let runtime = builder.enable_all().thread_name("web").build();
        Ok(NestedRuntime(Some(runtime.context("cannot start the runtime of the web path")?)))
    }

    fn enter(&self) -> Option<tokio::runtime::EnterGuard<'_>> {
        self.0.as_ref().map(tokio::runtime::Runtime::enter)
    }
}

impl Drop for NestedRuntime {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

/// Judges by the node's policy, as it is at that time, and the lists of URLs that it has opened.
fn policy_judge(
    node: &Arc<Node>,
    quotas: &Arc<Quotas>,
    releases: NodeReleases,
) -> Arc<PolicyJudge> {
    let lists = node.judge().snapshot.url_lists.clone();
    let of_node = Arc::clone(node);
    let policy = Box::new(move || of_node.judge() as Arc<dyn AsRef<Policy>>);
    let judge = PolicyJudge::new(policy, lists).with_quotas(Arc::clone(quotas));
    Arc::new(judge.with_releases(Arc::new(releases)))
}

/// What people have used of quotas, as it was kept.
fn open_quotas(config: &Config) -> (Arc<Quotas>, Arc<QuotaFile>) {
    let quotas = Arc::new(Quotas::new(config.proxy.limits.quota_people_max));
    let file = config.node.data.join(LOG_FOLDER).join(quota_file::FILE);
    let file = Arc::new(QuotaFile::open(file, Arc::clone(&quotas)));
    (quotas, file)
}

/// The proxy's settings for one listener.
fn listener_settings(proxy: &Settings, listener: &ListenerSettings, config: &Config) -> Settings {
    // They were checked when the configuration was read.
    let networks = listener.networks.iter().filter_map(|n| n.parse().ok()).collect();
    let mut settings = Settings { client_networks: networks, ..proxy.clone() };
    let address = listener.address.to_socket_addrs().into_iter().flatten().collect();
    match listener.role {
        ListenerRole::Transparent => settings.transparent.listen = address,
        ListenerRole::Icap => settings.icap.listen = address,
        ListenerRole::Dns => settings.dns.listen = address,
        _ => settings.listen = address,
    }
    let most = config.web_connections();
    settings.limits.connections_max = most.clients;
    settings.limits.kept_connections_max = most.kept;
    settings.icap.connections_max = settings.icap.connections_max.min(most.clients);
    // Each query that is asked upstream has a socket of its own.
    settings.dns.connections_max = settings.dns.connections_max.min(most.clients);
    settings.dns.queries_max = settings.dns.queries_max.min(most.clients);
    if settings.dns.upstream.is_empty() {
        settings.dns.upstream.clone_from(&config.dns.servers);
    }
    settings.tls.roots = trust_roots(&settings.tls.roots);
    if settings.name == Settings::default().name {
        settings.name = config.node.host_name();
    }
    settings
}

/// Serves on a thread of its own until it is stopped; the log is retained, and quotas are kept,
/// beside that.
fn serve_on_thread(
    mut runtime: NestedRuntime,
    servers: Vec<Listening>,
    stopped: oneshot::Receiver<()>,
    retaining: impl Future<Output = ()> + Send + 'static,
    keeping: impl Future<Output = ()> + Send + 'static,
) -> std::io::Result<JoinHandle<()>> {
    let thread = std::thread::Builder::new().name("web".to_owned());
    thread.spawn(move || {
        let Some(runtime) = runtime.0.take() else { return };
        runtime.spawn(retaining);
        runtime.spawn(keeping);
        runtime.block_on(serve(servers, stopped));
        runtime.shutdown_timeout(Duration::from_secs(1));
    })
}

async fn serve(servers: Vec<Listening>, stopped: oneshot::Receiver<()>) {
    let (tell, told) = tokio::sync::watch::channel(false);
    let mut running = tokio::task::JoinSet::new();
    for server in servers {
        let mut told = told.clone();
        // Who would tell it is gone: it ends, too.
        let until = async move { drop(told.wait_for(|told| *told).await) };
        running.spawn(server.run(until));
    }
    let _ = stopped.await;
    let _ = tell.send(true);
    while let Some(ended) = running.join_next().await {
        if let Ok(Err(error)) = ended {
            tracing::error!(%error, "a listener of the web path ended");
        }
    }
}

/// Deletes old days of the log, and reads certificates again, now and each hour.
async fn retain(log: Arc<WebLog>, node: Arc<Node>, certificates: Arc<Certificates>) {
    let mut hours = tokio::time::interval(RETAIN_EVERY);
    loop {
        hours.tick().await;
        let config = node.config();
        let days = config.web.log_retention_days;
        let certificates = Arc::clone(&certificates);
        let log = Arc::clone(&log);
        let since = now_ms() - i64::from(days) * DAY_MS;
        // The queue of the log may be full for a moment.
        let _ = tokio::task::spawn_blocking(move || {
            certificates.renew(&config);
            log.retain(since);
        })
        .await;
    }
}

/// What looks into responses.
fn content(
    node: &Arc<Node>,
    judge: &Arc<PolicyJudge>,
    processes: &Processes,
    of_channels: &[PathBuf],
) -> anyhow::Result<Arc<ContentJudge>> {
    let config = node.config();
    let settings = &config.proxy.content;
    let scanner = DownloadScanner::of_node(node, processes);
    let scanner = scanner.map(|scanner| Arc::new(scanner) as Arc<dyn ScanDownload>);
    let phrases = phrases::open_with(&settings.phrases, of_channels)?;
    // A channel may bring either at any time.
    let looks = phrases.is_some()
        || !config.channel.is_empty()
        || scanner.as_ref().is_some_and(|scanner| scanner.is_on());
    config.proxy.check_held(looks).context("proxy")?;
    Ok(Arc::new(ContentJudge::new(judge.clone(), settings.clone(), phrases, scanner)))
}

/// The node's way to addresses; names of search engines lead to their safe hosts, if the settings
/// want it.
fn resolver(node: &Node, config: &Config) -> Arc<dyn Resolve> {
    let resolver = Arc::new(NodeResolver::new(Arc::clone(&node.resolver)));
    match SafeSearchResolver::new(resolver.clone(), &config.proxy.content) {
        Some(safe) => Arc::new(safe),
        None => resolver,
    }
}

fn warn_of_few_files(config: &Config) {
    let (wanted, most) = (config.proxy.limits.connections_max, config.web_connections());
    if most.clients < wanted {
        let connections_max = most.clients;
        let limit = "proxy.limits.connections_max";
        tracing::warn!(connections_max, wanted, "too few open files for {limit}");
    }
}

/// Lists that no rule asks for do nothing.
fn warn_of_silent_lists(policy: &Policy, lists: &[UrlListSettings]) {
    if policy.web.is_empty() && lists.iter().any(|list| !list.allow) {
        tracing::warn!(
            "the policy has no [[web_rule]], so what is on url_list passes; \
             docs/policy.md has the rule that blocks it"
        );
    }
}

/// Writes records into the web log, without what is not to be kept.
struct MaskedLog {
    log: Arc<WebLog>,
    node: Arc<Node>,
}

impl AccessLog for MaskedLog {
    fn record(&self, record: &AccessRecord) {
        self.log.append(web_record(record, &self.node.config().web));
    }
}

/// A record as the web log keeps it.
fn web_record(record: &AccessRecord, settings: &WebSettings) -> WebRecord {
    let since = record.at.duration_since(UNIX_EPOCH).unwrap_or_default();
    let rest = record.url.split_once("://").map_or(record.url.as_str(), |(_, rest)| rest);
    let rest = rest.strip_prefix(DNS_SCHEME).unwrap_or(rest);
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let host =
        authority.rsplit_once(':').filter(|(_, port)| port.bytes().all(|b| b.is_ascii_digit()));
    let mut kept = WebRecord {
        at_ms: i64::try_from(since.as_millis()).unwrap_or(i64::MAX),
        took_ms: u64::try_from(record.took.as_millis()).unwrap_or(u64::MAX),
        reference: record.refusal.map(|_| record.reference.clone()).unwrap_or_default(),
        client: record.client.to_string(),
        user: record.user.clone().unwrap_or_default(),
        method: record.method.clone(),
        host: host.map_or(authority, |(host, _)| host).to_owned(),
        url: record.url.clone(),
        status: record.status,
        outcome: outcome(record.outcome),
        rule: rules(record),
        category: record.note.category.clone(),
        evidence: evidence(record),
        content_type: record.content_type.clone().unwrap_or_default(),
        bytes_in: record.bytes_in,
        bytes_out: record.bytes_out,
        action: Some(record.note.action.to_owned()),
        listed: (!record.note.action.is_empty()).then(|| record.note.listed.clone()),
        // Of a page of ours, nobody wants to know.
        bytes_declared: record.bytes_declared.filter(|_| record.refusal.is_none()),
        server_address: record.server_address.map_or(String::new(), |ip| ip.to_string()),
    };
    settings.mask(&mut kept);
    kept
}

/// What matched, the one that decided first; else what refused the request.
fn rules(record: &AccessRecord) -> String {
    let note = &record.note.rules;
    // A rule about responses, or what was found in one, blocks after the judge's note.
    let blocked = record.rule.iter().filter(|rule| !rule.is_empty() && !note.contains(rule));
    let rules: Vec<&str> = blocked.chain(note).map(String::as_str).collect();
    match (rules.is_empty(), record.refusal) {
        (true, Some(refusal)) => refusal.to_owned(),
        _ => rules.join("\n"),
    }
}

/// What decided, and what was found in content.
fn evidence(record: &AccessRecord) -> String {
    let found = record.notes.iter().map(String::as_str);
    let list = Some(record.note.evidence.as_str()).filter(|text| !text.is_empty());
    list.into_iter().chain(record.tunnel).chain(found).collect::<Vec<_>>().join("; ")
}

fn outcome(outcome: Outcome) -> WebOutcome {
    match outcome {
        Outcome::Passed | Outcome::Unmodified => WebOutcome::Passed,
        Outcome::Tunnel => WebOutcome::Tunnel,
        Outcome::Denied => WebOutcome::Blocked,
        Outcome::Failed => WebOutcome::Failed,
        Outcome::Aborted => WebOutcome::Aborted,
    }
}
