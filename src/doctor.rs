//! `gauntlet doctor`: checks of what a node depends on.
//!
//! Each check reports a status, details and, unless it passes, a remediation hint.

mod acme;
mod array;
mod data;
mod engines;
mod privacy;
mod relays;
pub(crate) mod resources;

use std::io::Write;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use gauntlet_gateway::config::{Config, Sandbox};
use gauntlet_gateway::facts::key_record::Publication;
use gauntlet_gateway::facts::lists::{Meaning, meaning};
use gauntlet_gateway::net::resolver::{Kind, Outcome, Resolver};
use gauntlet_gateway::outbound::settings::MTA_STS_OFF;
use gauntlet_gateway::outbound::signing::{KeyRing, KeyState};
use gauntlet_gateway::secrets::SandboxStatus;
use gauntlet_gateway::secrets::Secrets;

/// Arguments of `gauntlet doctor`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Checks the clock, who can read the data folder, the disks, the certificates' keys and ends,
the message log's days, the queue, malware engines (do they answer?), names of detectors in
the policy, databases of groups, the array's database, replica and object store, the roots
that certificates are verified by, the resolver, DNS lists (do they answer us?), our name and
address in the DNS and back, published DKIM keys, and whether our listeners relay for
strangers.

Exit codes: 0 no error (warnings do not count); 1 a check failed; 2 the configuration cannot be
read.

Examples:
  gauntlet doctor --config gauntlet.toml
  gauntlet doctor --dns 192.0.2.53 --json"
)]
pub(crate) struct Args {
    /// The configuration file; without one, defaults and environment
    #[arg(short, long, env = "GAUNTLET_CONFIG")]
    config: Option<PathBuf>,
    /// Resolver to ask, with or without a port [default: the configuration's]
    #[arg(long, value_name = "SERVER")]
    dns: Option<String>,
    /// The address that our mail comes from [default: that of node.name]
    #[arg(long, value_name = "ADDRESS")]
    address: Option<IpAddr>,
    /// Print one JSON object a line
    #[arg(long)]
    json: bool,
}

/// Result of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Status {
    Ok,
    Warning,
    Error,
}

impl Status {
    /// As the command prints it and the API has it; programs read it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Status::Ok => "ok",
            Status::Warning => "warning",
            Status::Error => "error",
        }
    }
}

/// What was found, in order.
#[derive(Debug, Default)]
pub(crate) struct Findings(pub(crate) Vec<(Status, &'static str, String)>);

impl Findings {
    fn add(&mut self, status: Status, what: &'static str, text: impl Into<String>) {
        self.0.push((status, what, text.into()));
    }

    /// A check failed; warnings do not count.
    pub(crate) fn has_error(&self) -> bool {
        self.0.iter().any(|(status, _, _)| *status == Status::Error)
    }

    /// Prints a line each, as a table or as JSON objects.
    ///
    /// # Errors
    /// The output takes nothing.
    pub(crate) fn print(&self, out: &mut impl Write, as_json: bool) -> std::io::Result<()> {
        for (status, what, text) in &self.0 {
            if as_json {
                let line =
                    serde_json::json!({"check": what, "status": status.name(), "text": text});
                writeln!(out, "{line}")?;
            } else {
                writeln!(out, "{:<7} {what:<12} {text}", status.name())?;
            }
        }
        Ok(())
    }
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let loaded =
        crate::shared_settings::load(args.config.as_deref(), crate::environment::environment)?;
    let mut config = loaded.config;
    if let Some(server) = &args.dns {
        config.dns.servers = vec![server.clone()];
    }
    let found = examine(&config, args.config.as_deref(), args.address, None)?;
    found.print(&mut std::io::stdout().lock(), args.json)?;
    Ok(if found.has_error() { ExitCode::from(1) } else { ExitCode::SUCCESS })
}

/// What the kernel holds the processes of a running node to.
#[derive(Debug, Clone, Default)]
pub(crate) struct Confinement {
    /// Each process with what holds it, and what is missing.
    pub(crate) text: String,
    /// No process lacks a part of its sandbox.
    pub(crate) is_whole: bool,
}

/// What a running node knows of itself, and could not find out since it is confined.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Running<'n> {
    /// The process that reads its keys.
    pub(crate) secrets: &'n Arc<Secrets>,
    /// How it is confined.
    pub(crate) sandbox: &'n Confinement,
}

/// Checks what a node of this configuration depends on. Sends requests to the network; do not call
/// it on a thread of an async runtime. A node passes what it knows of itself.
pub(crate) fn examine(
    config: &Config,
    file: Option<&Path>,
    address: Option<IpAddr>,
    running: Option<Running<'_>>,
) -> anyhow::Result<Findings> {
    let secrets = running.map(|node| node.secrets);
    let mut found = Findings::default();
    clock(&mut found);
    privacy::privacy(config, file, &mut found);
    console(config, &mut found);
    sandbox(config, running.map(|node| node.sandbox), &mut found);
    unpacking(config, &mut found);
    engines::engines(config, secrets.is_some(), &mut found);
    // A node that runs has logged it when it read them.
    if running.is_none() {
        data::rules(config, &mut found);
    }
    data::policy(config, &mut found);
    data::conditions(config, &mut found);
    resources::disk(config, &mut found);
    resources::certificates(config, secrets, &mut found);
    acme::certificate(config, secrets, &mut found);
    resources::questions(config, &mut found);
    resources::message_log(config, &mut found);
    resources::queue(config, &mut found);
    resources::held_mail(config, &mut found);
    groups(config, &mut found);
    roots(config, &mut found);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(array::array(config, &mut found));
    runtime.block_on(async {
        let resolver = Resolver::new(&config.dns)?;
        if answers(&resolver, &mut found).await {
            lists(&resolver, config, &mut found).await;
            our_name(&resolver, config, address, &mut found).await;
            keys(&resolver, config, secrets, &mut found).await?;
            acme::names(&resolver, config, &mut found).await;
        }
        anyhow::Ok(())
    })?;
    relays::open_relay(config, &mut found);
    Ok(found)
}

/// The console's passwords do not cross a network in the clear.
fn console(config: &Config, found: &mut Findings) {
    let address = &config.console.address;
    match config.console.exposure() {
        Some(danger) => found.add(Status::Error, "console", danger),
        None if address.is_empty() => {}
        None => {
            let how =
                if config.console.tls { "HTTPS of its own" } else { "this machine or a proxy" };
            found.add(Status::Ok, "console", format!("{address}: reached by {how}"));
        }
    }
}

/// The kernel holds the node to what it needs.
fn sandbox(config: &Config, running: Option<&Confinement>, found: &mut Findings) {
    if config.node.sandbox == Sandbox::Off {
        found.add(Status::Warning, "sandbox", "switched off by node.sandbox; set it to \"auto\"");
        return;
    }
    if let Some(Confinement { text, is_whole }) = running {
        let status = if *is_whole { Status::Ok } else { Status::Warning };
        return found.add(status, "sandbox", text.clone());
    }
    let SandboxStatus { holds, lacks } = gauntlet_gateway::admin::sandbox::available();
    let holds = holds.join(", ");
    if lacks.is_empty() {
        found.add(Status::Ok, "sandbox", format!("the kernel has {holds}"));
    } else {
        let text = format!(
            "the kernel lacks {}; use one from 5.13 on that has them switched on (it has: {holds})",
            lacks.join("; ")
        );
        found.add(Status::Warning, "sandbox", text);
    }
}

/// Formats that only programs of the system read.
fn unpacking(config: &Config, found: &mut Findings) {
    if !config.content.enabled {
        let text = "switched off by content.enabled: what is inside attachments is not seen";
        return found.add(Status::Warning, "unpacking", text);
    }
    match gauntlet_content::process::tool::find("bsdtar") {
        Some(path) => {
            let text = format!("RAR, CAB, LHA and ISO are read by {}", path.display());
            found.add(Status::Ok, "unpacking", text);
        }
        None => found.add(
            Status::Warning,
            "unpacking",
            "RAR, CAB, LHA and ISO cannot be read and are unscannable; install bsdtar \
             (Debian: apt install libarchive-tools)",
        ),
    }
}

/// A wrong clock breaks signatures, greylisting and logs.
fn clock(found: &mut Findings) {
    match gauntlet_gateway::clock::error_ms() {
        Some(error) => {
            let text = format!("synchronised, wrong by {error} ms at most");
            found.add(Status::Ok, "clock", text);
        }
        None => found.add(
            Status::Warning,
            "clock",
            "the clock is not synchronised, as far as the system knows; run chrony, ntpd or \
             systemd-timesyncd (in a container: on its host)",
        ),
    }
}

/// Databases that groups are read from.
fn groups(config: &Config, found: &mut Findings) {
    for (name, answer) in gauntlet_gateway::admin::groups::examine(config) {
        match answer {
            Ok(members) => {
                let text = format!("the database of {name:?} answers: {members} members");
                found.add(Status::Ok, "groups", text);
            }
            Err(error) => found.add(Status::Error, "groups", format!("group {name:?}: {error:#}")),
        }
    }
}

/// Certificates of next hops and of MTA-STS can be verified.
fn roots(config: &Config, found: &mut Findings) {
    let roots = gauntlet_gateway::config::trust_roots(&config.sender.roots);
    match gauntlet_gateway::net::web::hop_tls(&config.sender.roots) {
        Ok(tls) if tls.can_verify() => {
            let text = format!("certificates are verified by {}", roots.display());
            found.add(Status::Ok, "roots", text);
        }
        Ok(_) if config.sender.mta_sts => found.add(Status::Error, "roots", MTA_STS_OFF),
        Ok(_) => found.add(Status::Warning, "roots", "no certificate of others can be verified"),
        Err(error) => found.add(Status::Error, "roots", format!("{error:#}")),
    }
}

async fn answers(resolver: &Resolver, found: &mut Findings) -> bool {
    let servers: Vec<String> = resolver.servers().iter().map(ToString::to_string).collect();
    let servers = servers.join(", ");
    let asked = resolver.ask(".", Kind::Ns).await;
    let (outcome, took) = (asked.answer.outcome, asked.took.as_millis());
    let fine = outcome.is_certain();
    match fine {
        true => found.add(Status::Ok, "resolver", format!("{servers} answers in {took} ms")),
        false => found.add(
            Status::Error,
            "resolver",
            format!("{servers}: {}; set dns.servers to a resolver that answers", outcome.name()),
        ),
    }
    fine
}

/// Every list has two entries for tests (RFC 5782 section 5): 127.0.0.2 is listed, 127.0.0.1 is
/// not.
async fn lists(resolver: &Resolver, config: &Config, found: &mut Findings) {
    if config.dns_list.is_empty() {
        found.add(Status::Ok, "lists", "no DNS list is configured");
    }
    for list in &config.dns_list {
        let zone = list.zone.trim().trim_matches('.');
        let listed = resolver.ask(&format!("2.0.0.127.{zone}"), Kind::A).await.answer;
        let clean = resolver.ask(&format!("1.0.0.127.{zone}"), Kind::A).await.answer;
        let refuses = |answer: &gauntlet_gateway::net::resolver::Answer| {
            answer.outcome == Outcome::Refused
                || answer.addresses().any(|ip| match ip {
                    IpAddr::V4(v4) => meaning(v4) == Meaning::Refused,
                    IpAddr::V6(_) => false,
                })
        };
        let says = |answer: &gauntlet_gateway::net::resolver::Answer| {
            answer.addresses().any(|ip| match ip {
                IpAddr::V4(v4) => meaning(v4) == Meaning::Listed,
                IpAddr::V6(_) => false,
            })
        };
        if refuses(&listed) || refuses(&clean) {
            found.add(
                Status::Error,
                "lists",
                format!(
                    "{zone} refuses to answer us: probably because {} is an open public resolver; \
                     run a resolver of your own, or take the list out",
                    resolver.servers().first().map(ToString::to_string).unwrap_or_default()
                ),
            );
        } else if says(&clean) {
            found.add(Status::Error, "lists", format!("{zone} lists everything; take it out"));
        } else if says(&listed) {
            found.add(Status::Ok, "lists", format!("{zone} answers"));
        } else {
            let outcome = listed.outcome.name();
            let text =
                format!("{zone}: no answer for its own test entry ({outcome}); is it alive?");
            found.add(Status::Warning, "lists", text);
        }
    }
}

/// Our name has an address, and the address has our name.
async fn our_name(
    resolver: &Resolver,
    config: &Config,
    address: Option<IpAddr>,
    found: &mut Findings,
) {
    let name = config.node.host_name();
    if !name.contains('.') {
        let text = format!("{name:?} is no full name; set node.name, others judge us by it");
        found.add(Status::Error, "our name", text);
        return;
    }
    let mut addresses = Vec::new();
    for kind in [Kind::A, Kind::Aaaa] {
        addresses.extend(resolver.ask(&name, kind).await.answer.addresses());
    }
    match addresses.is_empty() {
        true => {
            found.add(
                Status::Error,
                "our name",
                format!("{name} has no address; publish A or AAAA"),
            );
        }
        false => found.add(Status::Ok, "our name", format!("{name} has {addresses:?}")),
    }
    for ip in address.map_or(addresses, |ip| vec![ip]) {
        let names = resolver.ask_names(ip).await.answer;
        if names.names().any(|n| n.eq_ignore_ascii_case(&name)) {
            found.add(Status::Ok, "reverse name", format!("{ip} is {name}"));
            continue;
        }
        let said: Vec<&str> = names.names().collect();
        let said = if said.is_empty() { names.outcome.name().to_owned() } else { said.join(", ") };
        found.add(
            Status::Error,
            "reverse name",
            format!(
                "{ip} is not {name} but: {said}; ask the provider of the address for a PTR record"
            ),
        );
    }
}

/// The keys that sign are published.
async fn keys(
    resolver: &Resolver,
    config: &Config,
    secrets: Option<&Arc<Secrets>>,
    found: &mut Findings,
) -> anyhow::Result<()> {
    let ring = match secrets {
        Some(secrets) => KeyRing::of(secrets)?,
        None => KeyRing::load(&config.node.inside(&config.dkim.keys))?,
    };
    for key in ring.keys().filter(|k| k.state == KeyState::Active) {
        let name = key.record_name();
        let answer = resolver.ask(&name, Kind::Txt).await.answer;
        let (status, text) = match key.publication(answer.texts()) {
            Publication::Good => (Status::Ok, format!("{name} is published")),
            Publication::Testing => (
                Status::Warning,
                format!("{name} says t=y: verifiers take the mail as not signed; take t=y out"),
            ),
            Publication::BareRsa => {
                let (bare, line) = (crate::dkim::BARE_RSA, key.zone_line());
                (Status::Error, format!("{name} {bare}; publish this instead: {line}"))
            }
            Publication::Different => {
                let (said, line) = (answer.outcome.name(), key.zone_line());
                (Status::Error, format!("{name} is not published ({said}): {line}"))
            }
        };
        found.add(status, "dkim", text);
    }
    Ok(())
}
