//! `gauntlet dkim`: keys that sign outbound mail.

use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

use crate::node_args::NodeArgs;
use anyhow::{Context, bail};
use clap::ValueEnum;
use gauntlet_gateway::config::Config;
use gauntlet_gateway::facts::key_record::Publication;
use gauntlet_gateway::net::resolver::{Kind, Resolver};
use gauntlet_gateway::outbound::signing::{Algorithm, Key, KeyRing, KeyState};

/// Arguments of `gauntlet dkim`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "A node reads its keys at its start and on SIGHUP. Mail is signed where the \
policy says dkim_sign, with the keys of the From domain or of the nearest domain above it.

Examples:
  gauntlet dkim new example.org
  gauntlet dkim new example.org --algorithm ed25519
  gauntlet dkim rotate example.org     makes the next key; again, once it is published: uses it
  gauntlet dkim list"
)]
pub(crate) struct Args {
    #[command(flatten)]
    node: NodeArgs,
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    /// Make a key and print its DNS record
    New {
        /// The domain that signs
        domain: String,
        /// Name of the key [default: one that is free]
        #[arg(long)]
        selector: Option<String>,
        /// Algorithm of the key (RFC 6376, RFC 8463)
        #[arg(long, value_enum, default_value_t = Kinds::Rsa)]
        algorithm: Kinds,
        /// Bits of an RSA key
        #[arg(long, default_value_t = 2048)]
        bits: usize,
    },
    /// Print all keys with their state and DNS records
    List {
        /// Print JSON, one line each
        #[arg(long)]
        json: bool,
    },
    /// Make the next key of a domain; if there is one and its record is published, use it
    Rotate {
        /// Domain that the key signs for
        domain: String,
        /// How the next key signs
        #[arg(long, value_enum, default_value_t = Kinds::Rsa)]
        algorithm: Kinds,
        /// Use the next key without a look whether its record is published
        #[arg(long)]
        unchecked: bool,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Kinds {
    Rsa,
    Ed25519,
}

impl Kinds {
    fn algorithm(self) -> Algorithm {
        match self {
            Kinds::Rsa => Algorithm::Rsa,
            Kinds::Ed25519 => Algorithm::Ed25519,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Kinds::Rsa => "rsa",
            Kinds::Ed25519 => "ed25519",
        }
    }
}

/// What is wrong with a key that is published as PKCS#1.
pub(crate) const BARE_RSA: &str = "is published as a bare RSAPublicKey (PKCS#1), which most verifiers \
cannot read: they need the SubjectPublicKeyInfo";

/// Bits of the keys that `rotate` makes.
const RSA_BITS: usize = 2_048;

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let config = args.node.load()?;
    let folder = config.node.inside(&config.dkim.keys);
    if folder.starts_with(&config.node.data) {
        crate::node_args::become_owner(&config.node.data)?;
    }
    let mut ring = KeyRing::load(&folder)?;
    match &args.action {
        Action::New { domain, selector, algorithm, bits } => {
            let selector = selector.clone().unwrap_or_else(|| free_selector(&ring, domain));
            let key = ring.create(domain, &selector, algorithm.algorithm(), *bits)?;
            print_made(key)?;
        }
        Action::List { json } => list(&ring, *json, &folder)?,
        Action::Rotate { domain, algorithm, unchecked } => {
            rotate(&config, &mut ring, domain, *algorithm, *unchecked)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// `g1`, `g2`, ...: the first that the domain has not.
fn free_selector(ring: &KeyRing, domain: &str) -> String {
    let domain = domain.to_ascii_lowercase();
    let taken = |name: &String| ring.keys_of(&domain).iter().any(|k| k.selector == *name);
    let names = (1..).map(|n| format!("g{n}"));
    names.into_iter().find(|name| !taken(name)).unwrap_or_default()
}

fn print_made(key: &Key) -> anyhow::Result<()> {
    let mut out = std::io::stdout();
    writeln!(out, "{}", key.zone_line())?;
    let next = match key.state {
        KeyState::Next => format!(
            "publish this record, then run `gauntlet dkim rotate {}` again to use the key",
            key.domain
        ),
        _ => "publish this record, then reload the node (SIGHUP): the key signs".to_owned(),
    };
    eprintln!("{}: {next}", key.path.display());
    Ok(())
}

fn list(ring: &KeyRing, json: bool, folder: &Path) -> anyhow::Result<()> {
    let mut out = std::io::stdout();
    for key in ring.keys() {
        if json {
            let line = serde_json::json!({
                "domain": key.domain, "selector": key.selector, "state": key.state.name(),
                "algorithm": key.algorithm(), "name": key.record_name(), "record": key.record(),
            });
            writeln!(out, "{line}")?;
        } else {
            let (state, algorithm) = (key.state.name(), key.algorithm());
            writeln!(out, "{} {} {state} {algorithm}", key.domain, key.selector)?;
            writeln!(out, "  {}", key.zone_line())?;
        }
    }
    if ring.keys().next().is_none() {
        eprintln!("no keys in {}; make one with `gauntlet dkim new DOMAIN`", folder.display());
    }
    Ok(())
}

fn rotate(
    config: &Config,
    ring: &mut KeyRing,
    domain: &str,
    algorithm: Kinds,
    unchecked: bool,
) -> anyhow::Result<()> {
    let domain = domain.to_ascii_lowercase();
    let keys = ring.keys_of(&domain);
    if keys.is_empty() {
        bail!("{domain} has no keys; make one with `gauntlet dkim new {domain}`");
    }
    let waits = |k: &&Key| k.state == KeyState::Next && k.algorithm() == algorithm.name();
    let Some(next) = keys.iter().find(waits) else {
        let selector = free_selector(ring, &domain);
        return print_made(ring.create(&domain, &selector, algorithm.algorithm(), RSA_BITS)?);
    };
    if !unchecked {
        check_published(config, next)?;
    }
    let selector = next.selector.clone();
    let changed = ring.activate(&domain, &selector)?;
    let mut out = std::io::stdout();
    writeln!(out, "{domain}: {selector} signs from the next reload of the node (SIGHUP) on")?;
    for old in changed.iter().skip(1) {
        writeln!(out, "{domain}: keep the record of {old} for a week, then remove it")?;
    }
    Ok(())
}

/// Whether the world can see the key's record.
fn check_published(config: &Config, key: &Key) -> anyhow::Result<()> {
    let name = key.record_name();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let asked = runtime.block_on(async {
        let resolver = Resolver::new(&config.dns)?;
        anyhow::Ok(resolver.ask(&name, Kind::Txt).await)
    });
    let answer = asked.context("the DNS cannot be asked; --unchecked goes on without")?.answer;
    let said = match key.publication(answer.texts()) {
        Publication::Good | Publication::Testing => return Ok(()),
        Publication::BareRsa => BARE_RSA.to_owned(),
        Publication::Different => format!("is not published ({})", answer.outcome.name()),
    };
    bail!("{name} {said}; publish this record, then try again:\n{}", key.zone_line())
}
