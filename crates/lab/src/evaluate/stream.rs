//! `gauntlet evaluate --stream`: a mailbox as it comes. Filters judge each message in its turn, and
//! get some of the labels later, as people give them.
//!
//! ```text
//! list ─▶ mailbox, in order ─▶ judge ─▶ outcome ─▶ figures by block, half and all
//!                                │        │
//!                                └── label (all, some, errors; later) ─▶ teach
//! ```
//!
//! The whole engine judges, as it ships: rules, classifier, signatures, site model, calibration and
//! what is remembered of senders. Facts that only the network knows (SPF, DKIM, DNS lists) are
//! unknown, as for any mail that is read from files.

mod drawing;
mod engine;
mod figures;
mod mailbox;
mod output;
mod protocol;

use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context, bail};
use gauntlet_bench::learners::{BAYES_MIN, Bogofilter, Learner, Neural, Rspamd, SpamAssassin};
use gauntlet_engine::classifier::Model;
use gauntlet_inputs::bodies::Bodies;

use self::engine::Engine;
use self::figures::Run;
use self::mailbox::{Mailbox, Order};
use self::protocol::{LabelScope, Outcome, Protocol};

/// Good and bad messages from which SpamAssassin's Bayes is used where it is to be used early.
const BAYES_EARLY: u32 = 20;

/// Arguments of a stream.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct StreamArgs {
    /// A mailbox as it comes: judge the messages of this list in their order, and give the filter
    /// labels, as people do
    #[arg(long = "stream", value_name = "LIST", conflicts_with_all = ["trec", "lists", "ham", "spam"])]
    pub(crate) list: Option<PathBuf>,
    /// Shares of the messages whose label the filter gets, drawn by --seed; a run for each
    #[arg(long, value_name = "SHARES", value_delimiter = ',', default_values_t = [1.0, 0.1],
          value_parser = share, requires = "list")]
    pub(crate) told: Vec<f64>,
    /// Give labels only of messages that were judged wrongly
    #[arg(long, requires = "list")]
    pub(crate) errors_only: bool,
    /// Messages between a message and its label
    #[arg(long, value_name = "N", default_value_t = 0, requires = "list")]
    pub(crate) delay: usize,
    /// Give the labels of the first N messages beforehand; they are not judged
    #[arg(long, value_name = "N", default_value_t = 0, requires = "list")]
    pub(crate) beforehand: usize,
    /// Give the labels of all of this list beforehand, too
    #[arg(long, value_name = "LIST", requires = "list")]
    pub(crate) beforehand_list: Vec<PathBuf>,
    /// Which messages come first
    #[arg(long, value_enum, default_value_t = Order::Date, requires = "list")]
    pub(crate) order: Order,
    /// Messages of a block of figures
    #[arg(long, value_name = "N", default_value_t = 100, requires = "list",
          value_parser = clap::value_parser!(u32).range(10..))]
    pub(crate) block: u32,
    /// Only the messages of the list whose path begins so (may be repeated)
    #[arg(long, value_name = "PREFIX", requires = "list")]
    pub(crate) only: Vec<String>,
    /// Other filters over the same stream, with their own learning, side by side
    #[arg(long, value_enum, value_delimiter = ',', requires = "list")]
    pub(crate) peers: Vec<Peer>,
}

/// A filter beside us.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Peer {
    /// spamd with Bayes as it ships: it is used from 200 good and 200 bad messages on.
    Spamassassin,
    /// The same, its Bayes speaking from 20 on.
    SpamassassinEarly,
    /// rspamd with Bayes in Redis.
    Rspamd,
    /// The same with its neural module.
    RspamdNeural,
    /// bogofilter, trained on errors.
    Bogofilter,
}

impl Peer {
    fn start(self) -> anyhow::Result<Box<dyn Learner>> {
        Ok(match self {
            Peer::Spamassassin => Box::new(SpamAssassin::start(BAYES_MIN)?),
            Peer::SpamassassinEarly => Box::new(SpamAssassin::start(BAYES_EARLY)?),
            Peer::Rspamd => Box::new(Rspamd::start(Neural::Off)?),
            Peer::RspamdNeural => Box::new(Rspamd::start(Neural::On)?),
            Peer::Bogofilter => Box::new(Bogofilter::start()?),
        })
    }
}

fn share(text: &str) -> Result<f64, String> {
    let share: f64 = text.parse().map_err(|_| format!("{text:?} is no number"))?;
    match (0.0..=1.0).contains(&share) {
        true => Ok(share),
        false => Err("a share is 0 to 1".to_owned()),
    }
}

/// Options of the rest of `evaluate`.
pub(crate) struct Common<'a> {
    pub(crate) model: Model,
    pub(crate) without: Bodies,
    pub(crate) bootstrap: u32,
    pub(crate) seed: u64,
    pub(crate) report: Option<&'a std::path::Path>,
    pub(crate) json: bool,
}

/// Runs the stream through the engine and the peers, once for each share of labels.
///
/// # Errors
/// If mail cannot be read, a peer is missing or fails, or the report cannot be written.
pub(crate) fn run(args: &StreamArgs, common: &Common<'_>) -> anyhow::Result<()> {
    let Some(list) = &args.list else { bail!("no list of a stream") };
    let mailbox = Mailbox::read(list, &args.only, args.order, &common.without)?;
    let beforehand = beforehand(args)?;
    say_what_is_read(&mailbox, &beforehand, common.seed);
    if mailbox.mail.len() <= args.beforehand {
        bail!("--beforehand {}: the stream has {} messages", args.beforehand, mailbox.mail.len());
    }
    // A peer that is missing is to be known before an hour of judging.
    for peer in &args.peers {
        let about = peer.start().with_context(|| format!("--peers: {peer:?} cannot be started"))?;
        let _ = writeln!(io::stderr(), "{}: {}", about.name(), about.about());
    }
    let model = Arc::new(common.model.clone());
    let protocols: Vec<Protocol> =
        args.told.iter().map(|&share| protocol(args, share, common.seed)).collect();
    let mut runs = Vec::new();
    for protocol in &protocols {
        let mut filters: Vec<Box<dyn Learner>> = vec![Box::new(Engine::new(Arc::clone(&model))?)];
        for peer in &args.peers {
            filters.push(peer.start()?);
        }
        for mut filter in filters {
            let judged = protocol.run(filter.as_mut(), &mailbox.mail, &beforehand)?;
            runs.push(finished(filter.as_ref(), protocol, &judged, args, common));
        }
    }
    if let Some(folder) = common.report {
        drawing::write(folder, &mailbox, &runs)?;
    }
    output::print(&mailbox, &runs, common)
}

fn protocol(args: &StreamArgs, share: f64, seed: u64) -> Protocol {
    let told = if args.errors_only { LabelScope::Errors } else { LabelScope::Any };
    Protocol { told, share, delay: args.delay, beforehand: args.beforehand, seed }
}

fn finished(
    filter: &dyn Learner,
    protocol: &Protocol,
    judged: &[Outcome],
    args: &StreamArgs,
    common: &Common<'_>,
) -> Run {
    let figures = figures::Settings {
        block: args.block as usize,
        bootstrap: common.bootstrap,
        seed: common.seed,
    };
    Run::new((filter.name(), filter.about()), protocol, judged, &figures)
}

/// Labelled mail from before the stream. It may be mail that the model has learned from.
fn beforehand(args: &StreamArgs) -> anyhow::Result<Vec<mailbox::Mail>> {
    let mut all = Vec::new();
    for list in &args.beforehand_list {
        all.extend(Mailbox::read(list, &[], args.order, &Bodies::default())?.mail);
    }
    Ok(all)
}

fn say_what_is_read(mailbox: &Mailbox, beforehand: &[mailbox::Mail], seed: u64) {
    let _ = writeln!(
        io::stderr(),
        "{} messages, {} of them spam; {} left out by their bodies; {} told beforehand; seed {seed}",
        mailbox.mail.len(),
        mailbox.mail.iter().filter(|m| m.spam).count(),
        mailbox.left_out,
        beforehand.len(),
    );
    if mailbox.left_out > 0 {
        let _ = writeln!(
            io::stderr(),
            "THE MODEL HAS LEARNED FROM {} MESSAGES OF THE STREAM, which are left out: make a model without \
             them (gauntlet train --exclude-source) and name it with --model",
            mailbox.left_out
        );
    }
}
