//! Peers beside us: each is started privately, and both take the same messages in turn (A B A B),
//! so that a machine that drifts drifts under both.
//!
//! A *contest* is one job: a filter's by the protocol that both have, a relay's by SMTP to the same
//! sink, or a batch of files. Ratios are by round; CPU time is what the system counts for a server
//! and all its children. Network tests are off everywhere.

mod amavis;
pub mod batch;
pub mod packets;
pub mod page;
pub mod peers;
pub mod server;
pub mod shares;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use serde::Serialize;

use crate::load::trial::{self, Estimate, Round, Target};
use crate::load::{Addresses, Corpus, Label, Latency, Outcome, Plan, until_tried};
use crate::machine::Manifest;
use crate::null::NullServer;
use crate::protocol::Protocol;
use peers::{Around, Node, SpamdRules};
use server::Server;
use shares::{Look, Shares, SharesEstimate};

/// Longest wait for a relay to pass on what it took.
const DRAIN_MAX: Duration = Duration::from_secs(120);
/// Longest wait for an answer.
const ANSWER_MAX: Duration = Duration::from_secs(120);
/// Connections of a relay for each worker: most of them wait for disks and next hops.
const RELAY_CONNECTIONS: usize = 8;
/// Messages after which a connection is closed: servers refuse more than so many in one session.
const MESSAGES_PER_CONNECTION: u64 = 500;
/// Name of another build of this program.
pub(crate) const OTHER_BUILD: &str = "gauntlet, the other build";
/// Time for which the client is measured against a null server.
const CALIBRATION: Duration = Duration::from_secs(2);

/// A program to compare with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Peer {
    /// SpamAssassin's daemon, by spamd's protocol.
    Spamd,
    /// rspamd, by HTTP.
    Rspamd,
    /// ClamAV's daemon, by `INSTREAM`.
    Clamd,
    /// A Bayesian filter that is run as a command.
    Bogofilter,
    /// The MTA, as a relay.
    Postfix,
    /// amavisd-new, as a content filter with the same clamd.
    Amavis,
}

/// What to measure, and for how long.
#[derive(Debug, Clone)]
pub struct Options {
    /// Path of this program, which is started as a node.
    pub program: PathBuf,
    /// Version of this program, for the report.
    pub version: String,
    /// Day of the report (UTC), `YYYY-MM-DD`.
    pub date: String,
    /// Peers to compare with, in the order of the report.
    pub peers: Vec<Peer>,
    /// Runs of each server.
    pub rounds: u32,
    /// Time of a run.
    pub time: Duration,
    /// Connections at once, and workers of each peer.
    pub connections: usize,
    /// SpamAssassin's rules, for the contest in which both judge by the same ones.
    pub rules: PathBuf,
    /// Our model in place of the shipped one, so that mail which that one has learned from is
    /// unseen.
    pub model: Option<PathBuf>,
    /// rspamd's program; none is the system's.
    pub rspamd: Option<PathBuf>,
    /// Another build of this program, which takes the same messages in turn.
    pub beside: Option<PathBuf>,
}

/// What a server came to.
#[derive(Debug, Clone, Serialize)]
pub struct Entry {
    /// Name of the server.
    pub name: String,
    /// What it says that it is.
    pub version: String,
    /// How it was set up.
    pub notes: Vec<String>,
    /// Messages/s, a relay's until the last one was passed on.
    pub messages_per_second: Estimate,
    /// CPU time for each message, in microseconds.
    pub cpu_us_per_message: Option<Estimate>,
    /// What that was spent on, of a node of ours.
    pub shares: Option<SharesEstimate>,
    /// Memory at the end, its children's included, in bytes.
    pub memory_bytes: Option<u64>,
    /// Latency over all runs.
    pub latency: Option<Latency>,
    /// How many times its CPU time for a message the peer takes. None for the peer.
    pub peer_cpu_ratio: Option<Estimate>,
    /// How many times as many messages/s as the peer. None for the peer.
    pub rate_over_peer: Option<Estimate>,
    /// Why figures may not be the server's.
    pub invalid: Vec<String>,
    /// What it made of mail whose labels are known.
    pub judged: Option<Judged>,
}

/// Verdicts on labelled mail.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Judged {
    /// Spam messages that the filter judged.
    pub spam: u64,
    /// Of that, called spam.
    pub spam_caught: u64,
    /// Ham messages that the filter judged.
    pub ham: u64,
    /// Of that, called spam.
    pub ham_called_spam: u64,
}

/// One job, done by us and by a peer.
#[derive(Debug, Clone, Serialize)]
pub struct Contest {
    /// Who is compared with.
    pub peer: Peer,
    /// What the job is.
    pub job: String,
    /// How many connections at once; 0 for a batch.
    pub connections: usize,
    /// Messages/s of the client against a server that does nothing.
    pub ceiling: Option<f64>,
    /// Ours first, the peer last.
    pub entries: Vec<Entry>,
}

/// All contests of one run.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// Day (UTC), `YYYY-MM-DD`.
    pub date: String,
    /// What the messages of all contests are.
    pub workload: trial::Workload,
    /// Messages with labels that verdicts were counted on, and how they were chosen.
    pub judged: Option<String>,
    /// What each peer and we came to.
    pub contests: Vec<Contest>,
    /// Peers that were not measured, with the reason.
    pub missing: Vec<String>,
    /// The machine and the program that the figures are of.
    pub manifest: Manifest,
}

impl Report {
    /// All figures are the servers'.
    pub fn is_valid(&self) -> bool {
        self.contests.iter().flat_map(|c| &c.entries).all(|entry| entry.invalid.is_empty())
    }
}

/// Labelled mail that no model has seen.
#[derive(Debug)]
pub struct HeldOut {
    /// The messages and their labels.
    pub corpus: Corpus,
    /// How they were chosen.
    pub note: String,
}

/// Holds all contests. `progress` gets a line for each event.
///
/// # Errors
/// A server of ours that does not start, or a run that fails. A peer that cannot be started is
/// reported as missing.
pub fn run(
    options: &Options,
    corpus: &Corpus,
    held_out: Option<&HeldOut>,
    progress: &mut dyn FnMut(&str),
) -> anyhow::Result<Report> {
    let (mut contests, mut missing) = (Vec::new(), Vec::new());
    for peer in &options.peers {
        progress(&format!("{peer:?}: starting"));
        let held = match peer {
            Peer::Spamd | Peer::Rspamd | Peer::Clamd => {
                filters(options, *peer, corpus, held_out, progress)
            }
            Peer::Amavis => amavis::contest(options, corpus, progress),
            Peer::Postfix => relays(options, corpus, progress),
            Peer::Bogofilter => batch::contest(options, corpus, held_out, progress),
        };
        match held {
            Ok(contest) => contests.push(contest),
            Err(error) => {
                progress(&format!("{peer:?}: {error:#}"));
                missing.push(format!("{peer:?}: {error:#}"));
            }
        }
    }
    Ok(Report {
        date: options.date.clone(),
        workload: workload(corpus),
        judged: held_out.map(|held_out| held_out.note.clone()),
        contests,
        missing,
        manifest: Manifest::here(&options.version),
    })
}

fn workload(corpus: &Corpus) -> trial::Workload {
    trial::Workload { messages: corpus.items.len(), bytes: corpus.bytes, hash: corpus.hash.clone() }
}

/// A filter's job: judge a message and answer.
fn filters(
    options: &Options,
    peer: Peer,
    corpus: &Corpus,
    held_out: Option<&HeldOut>,
    progress: &mut dyn FnMut(&str),
) -> anyhow::Result<Contest> {
    let workers = options.connections;
    let theirs = match peer {
        Peer::Rspamd => peers::rspamd(workers, options.rspamd.as_deref())?,
        Peer::Clamd => peers::clamd(workers)?,
        _ => peers::spamd(workers, &SpamdRules::default())?,
    };
    // Where we lack the peer's protocol, we are measured by spamd's.
    let protocol = if peer == Peer::Rspamd { Protocol::Rspamd } else { Protocol::Spamd };
    let build = |program, version, name, settings, notes| {
        Node { program, version, name, protocol, settings, notes, around: &Around::default() }
            .start()
    };
    let node =
        |name, settings, notes| build(&options.program, &options.version, name, settings, notes);
    let (own, note) = match &options.model {
        None => (String::new(), "as it comes"),
        Some(model) => (
            format!("[learning]\nmodel = {:?}\n", model.display().to_string()),
            "as it comes, but for the model",
        ),
    };
    let notes = [note];
    let mut servers = vec![node("gauntlet", own.as_str(), &notes[..])?];
    let version;
    if let Some(other) = &options.beside {
        version = server::version(other, "--version");
        servers.push(build(other, &version, OTHER_BUILD, &own, &notes[..])?);
    }
    let stock;
    if peer == Peer::Spamd {
        stock =
            format!("[rules]\nown = false\npaths = [{:?}]\n", options.rules.display().to_string());
        let notes: &[&str] = &["SpamAssassin's rules in place of ours"];
        servers.push(node("gauntlet, spamd's rules", &stock, notes)?);
    }
    servers.push(theirs);
    let mut contest =
        hold(options, peer, "judge a message", &servers, corpus, Duration::ZERO, progress)?;
    if let Some(held_out) = held_out.filter(|_| peer != Peer::Clamd) {
        for (server, entry) in servers.iter().zip(&mut contest.entries) {
            progress(&format!(
                "{}: {} labelled messages",
                server.name,
                held_out.corpus.items.len()
            ));
            entry.judged = Some(judge(options, server, &held_out.corpus)?);
        }
    }
    Ok(contest)
}

/// A relay's job: take a message durably and pass it on.
fn relays(
    options: &Options,
    corpus: &Corpus,
    progress: &mut dyn FnMut(&str),
) -> anyhow::Result<Contest> {
    let sink = NullServer::start(Protocol::Smtp)?;
    let postfix = peers::postfix(sink.address)?;
    let route = format!("[route]\nnext_hop = \"{}\"\n", sink.address);
    let bare = "cut_through = false\n[scan]\nenabled = false\n";
    let node = |program: &std::path::Path, name, settings: &str, notes| {
        let settings = format!("{route}{settings}");
        Node {
            program,
            version: &server::version(program, "--version"),
            name,
            protocol: Protocol::Smtp,
            settings: &settings,
            notes,
            around: &Around::default(),
        }
        .start()
    };
    let cut = &["as it comes: scanning, cut-through to the next hop"][..];
    let own = &options.program;
    let mut servers = vec![
        node(own, "gauntlet, spool alone", bare, &["judging nothing; cut-through off"])?,
        node(own, "gauntlet, scanning", "cut_through = false\n", &["scanning; cut-through off"])?,
        node(own, "gauntlet", "", cut)?,
    ];
    if let Some(other) = &options.beside {
        servers.push(node(other, OTHER_BUILD, "", cut)?);
    }
    servers.push(postfix);
    let job = "take a message durably, and pass it on or hold it";
    let options =
        &Options { connections: options.connections * RELAY_CONNECTIONS, ..options.clone() };
    hold(options, Peer::Postfix, job, &servers, corpus, DRAIN_MAX, progress)
}

fn plan(options: &Options, server: &Server) -> anyhow::Result<Plan> {
    Ok(Plan {
        target: server.address,
        protocol: server.protocol.with_context(|| format!("{} takes no mail", server.name))?,
        connections: options.connections,
        per_connection: MESSAGES_PER_CONNECTION,
        rate: None,
        time: options.time,
        messages: 0,
        warm_up: Duration::from_secs(1),
        timeout: ANSWER_MAX,
        threads: 1,
        addresses: Addresses {
            from: "sender@bench.example".to_owned(),
            to: "user{}@bench.example".to_owned(),
            users: 1_000,
        },
    })
}

/// Lets the servers take the messages in turn; the last is the peer.
fn hold(
    options: &Options,
    peer: Peer,
    job: &str,
    servers: &[Server],
    corpus: &Corpus,
    drain: Duration,
    progress: &mut dyn FnMut(&str),
) -> anyhow::Result<Contest> {
    let mut ceilings: Vec<(Protocol, f64)> = Vec::new();
    for server in servers {
        let plan = plan(options, server)?;
        if !ceilings.iter().any(|(protocol, _)| *protocol == plan.protocol) {
            let null = NullServer::start(plan.protocol)?;
            let rate = trial::ceiling(&plan, null.address, CALIBRATION, corpus)?;
            ceilings.push((plan.protocol, rate));
        }
    }
    let mut rounds: Vec<Vec<Round>> = vec![Vec::new(); servers.len()];
    let mut shares: Vec<Vec<Shares>> = vec![Vec::new(); servers.len()];
    // The first run of each is not counted: rules are compiled, caches filled.
    for round in 0..=options.rounds {
        for ((server, rounds), shares) in servers.iter().zip(&mut rounds).zip(&mut shares) {
            let mut plan = plan(options, server)?;
            let ceiling = ceilings.iter().find(|(p, _)| *p == plan.protocol);
            let ceiling = ceiling.map(|(_, rate)| *rate);
            let target = Target {
                name: server.name.clone(),
                address: server.address,
                process: Some(server.process),
            };
            if round == 0 {
                plan.time = plan.time.min(Duration::from_secs(3));
            }
            // A slow peer on a busy machine may need longer for its first message.
            let (before, measured) = until_tried(plan.time, |time| {
                plan.time = time;
                let before = Look::at(server);
                Ok((before, trial::round(&plan, corpus, &target, ceiling, drain)?))
            })
            .with_context(|| server.name.clone())?;
            if round > 0 {
                let looks = before.zip(Look::at(server));
                let answered = measured.measured.answered_in_all as f64;
                shares.extend(looks.map(|(before, after)| before.until(&after, answered)));
                progress(&format!(
                    "{}: {:.0} messages/s, {:.0} us CPU a message",
                    server.name,
                    rate(&measured),
                    measured.server_cpu_us_per_message.unwrap_or(f64::NAN)
                ));
                rounds.push(measured);
            }
        }
    }
    let ceiling = ceilings.iter().map(|(_, rate)| *rate).reduce(f64::min);
    let theirs = rounds.last().cloned().unwrap_or_default();
    let entries = servers.iter().zip(rounds.iter().zip(&shares)).enumerate();
    let entries = entries.map(|(at, (server, measured))| {
        entry(server, measured, (at + 1 < servers.len()).then_some(theirs.as_slice()))
    });
    Ok(Contest {
        peer,
        job: job.to_owned(),
        connections: options.connections,
        ceiling,
        entries: entries.collect::<anyhow::Result<_>>()?,
    })
}

/// Messages/s until the last one was done with.
fn rate(round: &Round) -> f64 {
    let m = &round.measured;
    m.messages_per_second * m.seconds / (m.seconds + round.drain_seconds)
}

fn entry(
    server: &Server,
    (rounds, shares): (&Vec<Round>, &Vec<Shares>),
    theirs: Option<&[Round]>,
) -> anyhow::Result<Entry> {
    let rates: Vec<f64> = rounds.iter().map(rate).collect();
    let cpu: Vec<f64> = rounds.iter().filter_map(|r| r.server_cpu_us_per_message).collect();
    let pairs = |of: fn(&Round) -> Option<f64>, reverse: bool| {
        let both = rounds.iter().zip(theirs?);
        let pair = |(a, b)| Some(if reverse { (of(b)?, of(a)?) } else { (of(a)?, of(b)?) });
        Estimate::ratio(&both.filter_map(pair).collect::<Vec<_>>())
    };
    let mut invalid: Vec<String> = rounds.iter().flat_map(|r| r.invalid.clone()).collect();
    let failed: u64 = rounds.iter().map(|r| r.measured.failed).sum();
    if failed > 0 {
        let errors = rounds.iter().flat_map(|r| &r.measured.errors);
        let worst = errors.max_by_key(|(_, count)| **count).map_or("", |(error, _)| error);
        invalid.push(format!("{failed} messages got no answer: {worst}"));
    }
    Ok(Entry {
        name: server.name.clone(),
        version: server.version.clone(),
        notes: server.notes.clone(),
        messages_per_second: Estimate::of(&rates).context("no run was counted")?,
        cpu_us_per_message: Estimate::of(&cpu),
        shares: SharesEstimate::of(shares),
        memory_bytes: rounds.last().and_then(|r| r.server_memory_bytes),
        latency: Some(trial::latency(rounds)?),
        peer_cpu_ratio: pairs(|r| r.server_cpu_us_per_message, true),
        rate_over_peer: pairs(|r| Some(rate(r)), false),
        invalid,
        judged: None,
    })
}

/// Shows every message once and counts what is called spam.
fn judge(options: &Options, server: &Server, corpus: &Corpus) -> anyhow::Result<Judged> {
    let plan = Plan {
        messages: corpus.items.len() as u64,
        time: Duration::from_secs(3_600),
        warm_up: Duration::ZERO,
        ..plan(options, server)?
    };
    let measured = crate::load::run(&plan, corpus)?;
    let mut judged = Judged::default();
    for outcome in &measured.outcomes {
        let spam = outcome.outcome == Outcome::Spam;
        judged.add(outcome.label, spam, outcome.messages);
    }
    Ok(judged)
}

impl Judged {
    /// Counts messages of a label that were called spam or not.
    pub(crate) fn add(&mut self, label: Label, called_spam: bool, messages: u64) {
        let called = if called_spam { messages } else { 0 };
        match label {
            Label::Spam => {
                self.spam += messages;
                self.spam_caught += called;
            }
            Label::Ham => {
                self.ham += messages;
                self.ham_called_spam += called;
            }
            Label::Unknown => {}
        }
    }
}
