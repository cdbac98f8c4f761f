//! `gauntlet proxy`: the web path by itself.

mod access_log;

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use anyhow::{Context, bail};
use gauntlet_gateway::config::{proxy_settings_of, trust_roots};
use gauntlet_mail::Network;
use gauntlet_policy::{Groups, Policy};
use gauntlet_proxy::auth::Logins;
use gauntlet_proxy::content::{ContentJudge, SafeSearchResolver, ScanDownload};
use gauntlet_proxy::icap::IcapServer;
use gauntlet_proxy::policy_judge::PolicyJudge;
use gauntlet_proxy::quotas::Quotas;
use gauntlet_proxy::resolve::{Resolve, SystemResolver};
use gauntlet_proxy::settings::content::YouTube;
use gauntlet_proxy::settings::{LoginMethod, LoginSettings, Mode, Settings, Upstream};
use gauntlet_proxy::tls::authority::{CERTIFICATE_FILE, KEY_FILE};
use gauntlet_proxy::tls::{ListenerCertificate, OriginTrust};
use gauntlet_proxy::{Parts, Server, StartError};
use gauntlet_urlfilter::UrlList;
use tokio::signal::unix::{SignalKind, signal};

use self::access_log::{Access, Format};
use crate::web::quota_file::QuotaFile;
use crate::web_content::DownloadScanner;
use crate::{dlp, phrases, urls};

const AFTER_HELP: &str = "\
It runs until it is told to stop (SIGTERM, SIGINT); requests and tunnels then have
times.stop_seconds_max to end. A second signal stops it at once. SIGHUP opens the lists, the
policy, files of users, certificates, lists of revoked ones (tls.crls) and the access log anew;
SIGUSR1 the access log alone, for programs that rotate it.

Exit status: 0 it was stopped; 2 it could not start.

Examples:
  gauntlet proxy                                      on 127.0.0.1:3128, nothing blocked
  gauntlet urls compile --out bad.urls blacklists/    makes a list
  gauntlet proxy --listen 10.0.0.1:3128 --block bad.urls --access-log access.log
  gauntlet proxy --block bad.urls --policy web.toml   rules of your own (docs/policy.md)
  gauntlet ca new --out ca/                           an authority of your own
  gauntlet proxy --ca ca/ --bypass banks.urls         decrypts tunnels, but not to banks
  gauntlet proxy --tls-cert proxy.pem --tls-key proxy.key   clients: curl -x https://...
  gauntlet proxy --password-file users                only who is in the file (htpasswd -B)
  gauntlet proxy --upstream proxy.example.com:8080    through another proxy
  gauntlet proxy --transparent '[::]:3129'            what a router redirects
  gauntlet proxy --phrases words.txt --safe-search    pages by their words, safe search
  gauntlet proxy --settings proxy.toml                docs/proxy.md names all settings
  curl -x 127.0.0.1:3128 http://example.com/          try it
  gauntlet proxy --icap 127.0.0.1:1344 --block bad.urls   Squid asks; docs/guides/squid-icap.md";

/// Arguments of `gauntlet proxy`.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    /// Where clients connect; may be given more than once [default: 127.0.0.1:3128]
    #[arg(long, value_name = "ADDRESS:PORT")]
    listen: Vec<SocketAddr>,
    /// Where a router sends connections of clients that know nothing of the proxy; without
    /// --listen, others cannot use it; may be given more than once
    #[arg(long, value_name = "ADDRESS:PORT")]
    transparent: Vec<SocketAddr>,
    /// The router does so by TPROXY (needs CAP_NET_ADMIN), and not by REDIRECT
    #[arg(long, requires = "transparent")]
    tproxy: bool,
    /// Answer other proxies, such as Squid, by ICAP; without --listen, programs cannot use it as
    /// their proxy; may be given more than once
    #[arg(long, value_name = "ADDRESS:PORT")]
    icap: Vec<SocketAddr>,
    /// Block what this list has: a file of `gauntlet urls compile`; may be given more than once
    #[arg(long, value_name = "FILE")]
    block: Vec<PathBuf>,
    /// Allow what this list has, whatever others say
    #[arg(long, value_name = "FILE")]
    allow: Vec<PathBuf>,
    /// Decide by the web rules of this policy; without one, what is on a list is blocked
    #[arg(long, value_name = "FILE")]
    policy: Option<PathBuf>,
    /// Keep what people have used of the policy's quotas in this file; without one, a restart
    /// forgets it
    #[arg(long, value_name = "FILE", requires = "policy")]
    quota_file: Option<PathBuf>,
    /// Take clients from this network; may be given more than once [default: private networks]
    #[arg(long, value_name = "NETWORK")]
    client_network: Vec<Network>,
    /// Decrypt tunnels with this authority: a folder of `gauntlet ca new`
    #[arg(long, value_name = "FOLDER")]
    ca: Option<PathBuf>,
    /// Do not decrypt tunnels to hosts that this list has; may be given more than once
    #[arg(long, value_name = "FILE")]
    bypass: Vec<PathBuf>,
    /// Let clients reach this network, although it is not of the internet
    #[arg(long, value_name = "NETWORK")]
    allow_network: Vec<String>,
    /// Speak TLS with clients of --listen: the certificate and its chain (PEM)
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// Its private key (PEM)
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// Ask for the logins of this file, made by `htpasswd -B` (bcrypt or Argon2)
    #[arg(long, value_name = "FILE")]
    password_file: Option<PathBuf>,
    /// Ask for the logins of this file by Digest, made by `htdigest` for --realm
    #[arg(long, value_name = "FILE")]
    digest_file: Option<PathBuf>,
    /// What browsers say that they ask a login for [default: "Gauntlet proxy"]
    #[arg(long, value_name = "TEXT")]
    realm: Option<String>,
    /// Do not ask clients of this network for a login; may be given more than once
    #[arg(long, value_name = "NETWORK")]
    no_login: Vec<String>,
    /// Send everything through this proxy
    #[arg(long, value_name = "HOST:PORT", value_parser = upstream)]
    upstream: Option<Upstream>,
    /// Judge pages by this list of weighted phrases; may be given more than once
    #[arg(long, value_name = "FILE")]
    phrases: Vec<PathBuf>,
    /// Block pages with more points than this
    #[arg(long, value_name = "N")]
    phrase_limit: Option<i64>,
    /// Have search engines and YouTube leave out what is not for children
    #[arg(long)]
    safe_search: bool,
    /// Unpack and scan downloads by [content] and the [[engine]]s of this node's configuration
    #[arg(long, value_name = "FILE")]
    scan_config: Option<PathBuf>,
    /// Append a line a request to this file; `-` is standard output
    #[arg(long, value_name = "FILE")]
    access_log: Option<PathBuf>,
    /// Format of these lines
    #[arg(long, value_name = "FORMAT", default_value = "squid")]
    log_format: Format,
    /// Read settings from this file; options go before them
    #[arg(long, value_name = "FILE")]
    settings: Option<PathBuf>,
}

fn upstream(text: &str) -> Result<Upstream, String> {
    let parts = text.rsplit_once(':').and_then(|(host, port)| Some((host, port.parse().ok()?)));
    let (host, port) = parts.ok_or("write HOST:PORT, as in proxy.example.com:8080")?;
    let host = host.trim_matches(['[', ']']).to_owned();
    Ok(Upstream { host, port, user: String::new(), password: String::new() })
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    // Warnings alone: what is learned of clients and servers, connections that are not accepted.
    tracing_subscriber::fmt()
        .with_max_level(tracing::Level::WARN)
        .with_writer(io::stderr)
        .with_ansi(false)
        .init();
    let settings = settings(args)?;
    settings.check()?;
    let in_force = Arc::new(RwLock::new(Arc::new(policy(args.policy.as_deref())?)));
    let lists = urls::open_to_keep(&args.block, &args.allow)?;
    let of_judge = Arc::clone(&in_force);
    let source = Box::new(move || {
        let policy: Arc<Policy> = of_judge.read().unwrap_or_else(PoisonError::into_inner).clone();
        policy as Arc<dyn AsRef<Policy>>
    });
    let quotas = Arc::new(Quotas::new(settings.limits.quota_people_max));
    let judge = Arc::new(PolicyJudge::new(source, lists).with_quotas(Arc::clone(&quotas)));
    let quota_file = args.quota_file.clone().map(|file| QuotaFile::open(file, quotas.clone()));
    let quota_file = quota_file.map(Arc::new);
    let write_every = Duration::from_secs(settings.times.quota_write_seconds);
    judge.replace_bypass(urls::open_to_keep(&args.bypass, &[])?);
    let content = content(args, &settings, judge.clone())?;
    // What is still to be written when the proxy stops is written when this is dropped.
    let access = Access::open(args.access_log.as_deref(), args.log_format)?;
    let logins = settings.login.is_on().then(|| Logins::new(&settings.login, None)).transpose()?;
    let logins = logins.map(Arc::new);
    let certificate = certificate(args)?;
    let parts = Parts {
        judge: content.clone(),
        resolver: resolver(&settings),
        log: Arc::clone(&access.log),
        logins: logins.clone(),
        tls: certificate.as_ref().map(ListenerCertificate::config).transpose()?,
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let lists = settings.content.phrases.clone();
    let reload = || {
        access.open_anew();
        renew(certificate.as_deref());
        reload(args, (&judge, &in_force), &lists, &content, logins.as_deref());
    };
    if let Some(file) = &quota_file {
        runtime.spawn(Arc::clone(file).keep(write_every));
    }
    let mut numbers = runtime.block_on(serve(settings, parts, (&reload, &access)))?;
    quota_file.iter().for_each(|file| file.write());
    numbers.push(("access_log_lines_lost".to_owned(), access.lost()));
    report(&numbers);
    Ok(ExitCode::SUCCESS)
}

fn settings(args: &Args) -> anyhow::Result<Settings> {
    let mut settings = match &args.settings {
        None => Settings::default(),
        Some(file) => {
            let text = std::fs::read_to_string(file);
            let text = text.with_context(|| format!("cannot read {}", file.display()))?;
            proxy_settings_of(&text).with_context(|| file.display().to_string())?
        }
    };
    if !args.listen.is_empty() {
        settings.listen.clone_from(&args.listen);
    }
    if !args.client_network.is_empty() {
        settings.client_networks.clone_from(&args.client_network);
    }
    if !args.transparent.is_empty() {
        settings.transparent.listen.clone_from(&args.transparent);
    }
    let has_others = !args.transparent.is_empty() || !args.icap.is_empty();
    if args.listen.is_empty() && has_others {
        settings.listen.clear();
    }
    if args.tproxy {
        settings.transparent.mode = Mode::Tproxy;
    }
    if !args.icap.is_empty() {
        settings.icap.listen.clone_from(&args.icap);
    }
    settings.private_networks.extend(args.allow_network.iter().cloned());
    if args.upstream.is_some() {
        settings.upstream.clone_from(&args.upstream);
    }
    log_in(args, &mut settings.login);
    if let Some(folder) = &args.ca {
        settings.tls.ca_certificate = folder.join(CERTIFICATE_FILE);
        settings.tls.ca_key = folder.join(KEY_FILE);
    }
    if !args.bypass.is_empty() && !settings.tls.is_intercepting() {
        bail!(
            "--bypass names hosts that are not decrypted, and nothing is: add --ca (or \
             tls.ca_certificate in the settings), or leave --bypass out"
        );
    }
    settings.tls.roots = trust_roots(&settings.tls.roots);
    let content = &mut settings.content;
    content.phrases.extend(args.phrases.iter().cloned());
    if args.phrase_limit.is_some() && content.phrases.is_empty() {
        bail!(
            "--phrase-limit limits the points of phrases, and there are none: add --phrases (or \
             content.phrases in the settings)"
        );
    }
    content.phrase_limit = args.phrase_limit.unwrap_or(content.phrase_limit);
    if args.safe_search {
        content.safe_search = true;
        content.youtube = match content.youtube {
            YouTube::Off => YouTube::Strict,
            set => set,
        };
    }
    Ok(settings)
}

/// What clients are shown that speak TLS to the proxy itself.
fn certificate(args: &Args) -> anyhow::Result<Option<Arc<ListenerCertificate>>> {
    match (&args.tls_cert, &args.tls_key) {
        (Some(chain), Some(key)) => Ok(Some(Arc::new(ListenerCertificate::open(chain, key)?))),
        _ => Ok(None),
    }
}

/// Reads it anew.
fn renew(certificate: Option<&ListenerCertificate>) {
    if let Some(Err(error)) = certificate.map(ListenerCertificate::reload) {
        eprintln!("gauntlet: proxy keeps its certificate: {error:#}");
    }
}

/// Files of users say by what they log in.
fn log_in(args: &Args, login: &mut LoginSettings) {
    let files = [
        (&args.digest_file, &mut login.digest_file, LoginMethod::Digest),
        (&args.password_file, &mut login.password_file, LoginMethod::Basic),
    ];
    for (given, file, method) in files {
        let Some(given) = given else { continue };
        file.clone_from(given);
        if !login.methods.contains(&method) {
            login.methods.push(method);
        }
    }
    if let Some(realm) = &args.realm {
        login.realm.clone_from(realm);
    }
    login.exempt_networks.extend(args.no_login.iter().cloned());
}

/// The policy of a file; without one, the default.
fn policy(file: Option<&Path>) -> anyhow::Result<Policy> {
    let Some(file) = file else { return Ok(Policy::default_policy(&Groups::default())) };
    let text = std::fs::read_to_string(file);
    let text = text.with_context(|| format!("cannot read {}", file.display()))?;
    Policy::parse(&text, &Groups::default()).with_context(|| file.display().to_string())
}

/// What looks into responses.
fn content(
    args: &Args,
    settings: &Settings,
    judge: Arc<PolicyJudge>,
) -> anyhow::Result<Arc<ContentJudge>> {
    let scanner = match &args.scan_config {
        // Whoever asks for scans gets them, also before an engine is set up.
        Some(file) => {
            let scanner = DownloadScanner::start(&dlp::config_of(Some(file))?)?;
            Some(scanner.even_without_engines())
        }
        None => None,
    };
    let scanner = scanner.map(|scanner| Arc::new(scanner) as Arc<dyn ScanDownload>);
    let phrases = phrases::open(&settings.content.phrases)?;
    settings.check_held(phrases.is_some() || scanner.is_some())?;
    Ok(Arc::new(ContentJudge::new(judge, settings.content.clone(), phrases, scanner)))
}

/// Leads names of search engines to their safe hosts, if the settings want it.
fn resolver(settings: &Settings) -> Option<Arc<dyn Resolve>> {
    let system = Arc::new(SystemResolver::new(settings.limits.lookups_max));
    let safe = SafeSearchResolver::new(system, &settings.content)?;
    Some(Arc::new(safe))
}

/// Opens the lists and the policy anew. If one of them cannot be, all stay as they are.
fn reload(
    args: &Args,
    (judge, in_force): (&PolicyJudge, &RwLock<Arc<Policy>>),
    phrase_lists: &[PathBuf],
    content: &ContentJudge,
    logins: Option<&Logins>,
) {
    let open = || {
        logins.map(Logins::reload).transpose()?;
        let policy = args.policy.as_deref().map(|file| policy(Some(file))).transpose()?;
        let lists = urls::open_to_keep(&args.block, &args.allow)?;
        let bypass = urls::open_to_keep(&args.bypass, &[])?;
        anyhow::Ok((policy, lists, bypass, phrases::open(phrase_lists)?))
    };
    match open() {
        Ok((policy, lists, bypass, phrases)) => {
            let entries: u64 = lists.iter().chain(bypass.iter()).map(UrlList::entries).sum();
            let words = phrases.as_ref().map(|set| format!(", {} phrases", set.len()));
            judge.replace_lists(lists);
            judge.replace_bypass(bypass);
            content.replace_phrases(phrases);
            let rules = policy.as_ref().map(|policy| format!(", {} web rules", policy.web.len()));
            if let Some(policy) = policy {
                *in_force.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(policy);
            }
            eprintln!(
                "gauntlet: proxy has new lists: {entries} entries{}{}",
                words.unwrap_or_default(),
                rules.unwrap_or_default()
            );
        }
        Err(error) => eprintln!("gauntlet: proxy keeps its lists: {error:#}"),
    }
}

async fn serve(
    settings: Settings,
    parts: Parts,
    (reload, access): (&(dyn Fn() + Sync), &Access),
) -> anyhow::Result<Vec<(String, u64)>> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut hangup = signal(SignalKind::hangup())?;
    let mut rotate = signal(SignalKind::user_defined1())?;
    let (judge, log) = (Arc::clone(&parts.judge), Arc::clone(&parts.log));
    let icap = IcapServer::bind(settings.clone(), Parts { judge, log, ..Parts::default() }).await?;
    let is_proxy = !settings.listen.is_empty() || !settings.transparent.listen.is_empty();
    let proxy = match is_proxy {
        false => None,
        true => Some(Server::bind(settings, parts).await?),
    };
    for address in proxy.iter().flat_map(Server::addresses) {
        eprintln!("gauntlet: proxy on {address}");
    }
    for address in proxy.iter().flat_map(Server::transparent_addresses) {
        eprintln!("gauntlet: transparent proxy on {address}");
    }
    for address in icap.addresses() {
        eprintln!("gauntlet: ICAP on {address}");
    }
    let trust = proxy.as_ref().map(Server::trust);
    let counters = (proxy.as_ref().map(Server::counters), icap.counters());
    let (stop, stopped) = tokio::sync::watch::channel(());
    let mut running = std::pin::pin!(run_until(proxy, icap, &stopped));
    loop {
        tokio::select! {
            ended = running.as_mut() => break ended?,
            _ = terminate.recv() => break,
            _ = interrupt.recv() => break,
            _ = rotate.recv() => access.open_anew(),
            // Reading a list may take long; requests are served by other threads meanwhile.
            _ = hangup.recv() => tokio::task::block_in_place(|| {
                trust_anew(trust.as_ref());
                reload();
            }),
        }
    }
    drop(stop);
    tokio::select! {
        ended = running => ended?,
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    let of_proxy = counters.0.iter().flat_map(|counters| counters.all());
    Ok(of_proxy.chain(counters.1.all()).collect())
}

/// Reads roots and lists of revoked certificates anew.
fn trust_anew(trust: Option<&OriginTrust>) {
    if let Some(Err(error)) = trust.map(OriginTrust::reload) {
        let error = anyhow::Error::from(error);
        eprintln!("gauntlet: proxy verifies servers as before: {error:#}");
    }
}

/// Runs both until the channel ends.
async fn run_until(
    proxy: Option<Server>,
    icap: IcapServer,
    stopped: &tokio::sync::watch::Receiver<()>,
) -> Result<(), StartError> {
    let stop = || {
        let mut stopped = stopped.clone();
        async move { while stopped.changed().await.is_ok() {} }
    };
    let proxy = async {
        match proxy {
            Some(proxy) => proxy.run(stop()).await,
            None => Ok(()),
        }
    };
    tokio::try_join!(proxy, icap.run(stop())).map(|_| ())
}

/// Says what happened, as far as anything did.
fn report(numbers: &[(String, u64)]) {
    let happened = numbers.iter().filter(|(_, n)| *n > 0);
    let numbers: Vec<String> = happened.map(|(name, n)| format!("{name}={n}")).collect();
    match numbers.is_empty() {
        true => eprintln!("gauntlet: proxy stopped; nothing came"),
        false => eprintln!("gauntlet: proxy stopped; {}", numbers.join(" ")),
    }
}
