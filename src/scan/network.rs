//! Facts for scanned files: asked now, or those that were kept.

use std::collections::HashMap;
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::Context;
use gauntlet_engine::Snapshot;
use gauntlet_gateway::config::{Config, Loaded};
use gauntlet_gateway::facts::FactCollector;
use gauntlet_gateway::net::resolver::Resolver;
use gauntlet_mail::{Envelope, Facts, Message, auth_results};
use serde::{Deserialize, Serialize};

/// Options about the network.
#[derive(Debug, clap::Args)]
pub(super) struct NetworkArgs {
    /// Ask the DNS about each message, as a node does
    #[arg(long, conflicts_with_all = ["facts", "views"])]
    network: bool,
    /// Resolver to ask, with or without a port; repeat for more [default: the configuration's]
    #[arg(long, value_name = "SERVER", requires = "network")]
    dns: Vec<String>,
    /// The configuration file: its [lists], [thresholds] and [limits] judge, its resolver and DNS
    /// lists are asked with --network; without one, defaults (and the environment for --network)
    #[arg(short, long, env = "GAUNTLET_CONFIG")]
    config: Option<PathBuf>,
    /// Write what was found out to this file
    #[arg(long, value_name = "FILE", requires = "network")]
    keep_facts: Option<PathBuf>,
    /// Judge by what was kept in this file, without network requests
    #[arg(long, value_name = "FILE", conflicts_with = "views")]
    facts: Option<PathBuf>,
    /// Believe what this mail server wrote into its Authentication-Results (RFC 8601): the one
    /// whose mailbox this is; repeat for more [default: the configuration's]
    #[arg(long, value_name = "SERVER", conflicts_with_all = ["facts", "views"])]
    trust_authserv_id: Vec<String>,
}

/// What is known of one message.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Kept {
    file: String,
    envelope: Envelope,
    facts: Facts,
}

/// Where facts come from.
#[derive(Debug)]
pub(super) enum Source {
    /// Nothing is asked: files are judged without the network, by what these mail servers wrote
    /// into them.
    Nowhere(Vec<String>),
    /// The DNS is asked, as a node asks it.
    Live(Box<Live>),
    /// A file, by the message's name.
    Kept(HashMap<String, Kept>),
}

/// Asks, and writes down what was found out.
#[derive(Debug)]
pub(super) struct Live {
    runtime: tokio::runtime::Runtime,
    collector: FactCollector,
    /// Mail servers whose results count, whatever client the trace names: a file is of their
    /// mailbox.
    trusted: Vec<String>,
    kept: Option<Mutex<File>>,
}

impl NetworkArgs {
    /// The configuration that was named, if one was.
    ///
    /// # Errors
    /// If it cannot be read.
    pub(super) fn config(&self) -> anyhow::Result<Option<Config>> {
        let Some(path) = &self.config else { return Ok(None) };
        Ok(Some(Loaded::load(Some(path), std::env::vars())?.config))
    }

    /// Mail servers whose results count: those that were named, else the configuration's.
    fn trusted(&self, config: Option<&Config>) -> Vec<String> {
        match (self.trust_authserv_id.as_slice(), config) {
            ([], Some(config)) => config.facts.trust_authserv_id.clone(),
            (named, _) => named.to_vec(),
        }
    }

    /// Gets ready to ask, or reads what was kept.
    pub(super) fn open(&self, snapshot: &Snapshot) -> anyhow::Result<Source> {
        if let Some(path) = &self.facts {
            return Ok(Source::Kept(read(path)?));
        }
        if !self.network {
            return Ok(Source::Nowhere(self.trusted(self.config()?.as_ref())));
        }
        let mut config = Loaded::load(self.config.as_deref(), std::env::vars())?.config;
        config.facts.enabled = true;
        if !self.dns.is_empty() {
            config.dns.servers.clone_from(&self.dns);
        }
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .context("cannot start the runtime")?;
        let collector = {
            let _inside = runtime.enter();
            let resolver = Arc::new(Resolver::new(&config.dns)?);
            let host = config.node.host_name();
            FactCollector::new(resolver, &config.facts, &config.dns_list, &host)?
                .with_limits(&config.limits)
                .with_rules(snapshot.ruleset.as_ref())
        };
        let create = |path: &PathBuf| {
            let file = File::create(path).with_context(|| path.display().to_string())?;
            anyhow::Ok(Mutex::new(file))
        };
        let kept = self.keep_facts.as_ref().map(create).transpose()?;
        let trusted = self.trusted(Some(&config));
        Ok(Source::Live(Box::new(Live { runtime, collector, trusted, kept })))
    }
}

fn read(path: &PathBuf) -> anyhow::Result<HashMap<String, Kept>> {
    let named = || path.display().to_string();
    let mut all = HashMap::new();
    for (number, line) in BufReader::new(File::open(path).with_context(named)?).lines().enumerate()
    {
        let line = line.with_context(named)?;
        let kept: Kept = serde_json::from_str(&line)
            .with_context(|| format!("{}:{}: no kept facts", path.display(), number + 1))?;
        all.insert(kept.file.clone(), kept);
    }
    Ok(all)
}

impl Source {
    /// Envelope and facts of a message.
    ///
    /// # Errors
    /// A sentence, if nothing was kept of it or what was found out cannot be written.
    pub(super) fn about(
        &self,
        name: &str,
        envelope: Envelope,
        raw: &[u8],
    ) -> Result<(Envelope, Facts), String> {
        match self {
            Source::Nowhere(trusted) => {
                let mut facts = Facts::default();
                believe(trusted, raw, &mut facts);
                Ok((envelope, facts))
            }
            Source::Kept(all) => match all.get(name) {
                Some(kept) => Ok((kept.envelope.clone(), kept.facts.clone())),
                None => Err("no facts were kept of it".to_owned()),
            },
            Source::Live(live) => live.ask(name, envelope, raw),
        }
    }
}

/// Adds what trusted mail servers wrote into the message.
fn believe(trusted: &[String], raw: &[u8], facts: &mut Facts) {
    if trusted.is_empty() {
        return;
    }
    if let Some((_, results)) = auth_results::of_trusted(raw, trusted) {
        auth_results::apply(&results, &Message::parse(raw).authors().domains(), facts);
    }
}

impl Live {
    fn ask(&self, name: &str, envelope: Envelope, raw: &[u8]) -> Result<(Envelope, Facts), String> {
        let raw = gauntlet_inputs::file::with_crlf(raw);
        let mut facts = self.runtime.block_on(self.collector.gather(&envelope, &raw));
        believe(&self.trusted, &raw, &mut facts);
        let Some(file) = &self.kept else { return Ok((envelope, facts)) };
        let kept = Kept { file: name.to_owned(), envelope, facts };
        let mut line = serde_json::to_vec(&kept).map_err(|e| e.to_string())?;
        line.push(b'\n');
        let mut file = file.lock().unwrap_or_else(PoisonError::into_inner);
        file.write_all(&line).map_err(|e| format!("the facts cannot be kept: {e}"))?;
        Ok((kept.envelope, kept.facts))
    }
}
