//! `gauntlet policy replay`: what a policy would have done with the mail and the web requests of
//! the last days.

use std::collections::BTreeMap;
use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, bail};
use gauntlet_content::Tree;
use gauntlet_engine::{Scratch, Snapshot, scan};
use gauntlet_gateway::admin::policy_source;
use gauntlet_gateway::clock;
use gauntlet_gateway::config::Config;
use gauntlet_inputs::rules::ReadingArgs;
use gauntlet_mail::date::DAY_MS;
use gauntlet_mail::{Envelope, Facts, Message};
use gauntlet_policy::Policy;
use gauntlet_store::replay::{ChangedDecision, Progress, ReplayRequest, Report, Rescanned, replay};
use gauntlet_store::web_log::replay::WebReplayReport;
use gauntlet_store::{Log, Quarantine};
use gauntlet_verdict::Thresholds;
use indicatif::ProgressBar;

use super::read_policy;
use super::unpacker::Unpacker;
use crate::node_args::NodeArgs;
use crate::ruleset::RulesetArgs;

mod page;
mod web;

const AFTER_HELP: &str = "\
Facts and verdicts are those that were logged. Rules that look into the message (attachments,
links, header fields) are tried on mail whose body is still in the quarantine; for other mail, a
rule that stands unchanged in the old policy keeps its answer, and a new or changed one is
counted as unknown. Rates are not kept: rules that ask for them are treated the same way.

Web requests are tried with the URL lists of the configuration, on what the web log has of them: no
programs (client.program), no bodies, and paths and clients as [web] keeps them. A rule that asks
for what is not there is named and its requests are counted as unknown, unless it stands unchanged.

Exit codes: 0 done; 2 the policy, the configuration or the log cannot be read.

Examples:
  gauntlet policy replay new.toml                       the node's last 7 days
  gauntlet policy replay new.toml --html changes.html   the same as a page
  gauntlet policy replay new.toml --only web            web requests alone
  gauntlet policy replay new.toml --rescan              held mail opened and judged again by today's
                                                        rules, limits and malware engines";

/// Arguments of `gauntlet policy replay`.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(super) struct Args {
    /// The policy to try
    policy: PathBuf,
    /// The policy that decided then [default: the one in force]
    #[arg(long, value_name = "FILE")]
    before: Option<PathBuf>,
    /// Mail and web requests of so many last days
    #[arg(long, default_value_t = 7, value_parser = clap::value_parser!(u32).range(1..=36_500))]
    days: u32,
    /// Replay this alone [default: both, as far as the node has them]
    #[arg(long, value_name = "WHAT")]
    only: Option<Only>,
    #[command(flatten)]
    node: NodeArgs,
    /// Open and judge mail that is still kept again, instead of using its logged files and verdict
    #[arg(long)]
    rescan: bool,
    /// Judge it by SpamAssassin rules from this folder or file alone (may be repeated)
    #[arg(long, value_name = "DIR")]
    rules: Vec<PathBuf>,
    #[command(flatten)]
    reading: ReadingArgs,
    /// Print at most so many changes one by one
    #[arg(long, default_value_t = 50, value_name = "N")]
    most: usize,
    /// Print one JSON object instead of text
    #[arg(long)]
    json: bool,
    /// Write a page, too
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

/// What is replayed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Only {
    /// Messages
    Mail,
    /// Web requests
    Web,
}

/// Policies, and since when they are compared.
struct Compared<'a> {
    config: &'a Config,
    policy: Policy,
    before: Policy,
    since_ms: i64,
}

/// Runs `gauntlet policy replay`.
pub(super) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let config = args.node.load()?;
    let policy = read_policy(&args.policy)?;
    let in_force = policy_source::load(&config)?;
    let people = in_force.people.clone();
    let before = match &args.before {
        Some(file) => read_policy(file)?,
        None => in_force,
    };
    // What single users want is no part of a file.
    let policy = Policy { people: people.clone(), ..policy };
    let before = Policy { people, ..before };
    let since_ms = clock::now_ms().saturating_sub(i64::from(args.days) * DAY_MS);
    let compared = Compared { config: &config, policy, before, since_ms };
    let mail = match args.only {
        Some(Only::Web) => None,
        _ => Some(mail(args, &compared)?),
    };
    let web = match args.only {
        Some(Only::Mail) => None,
        only => web::replay(&compared, only.is_some())?,
    };
    if let Some(file) = &args.html {
        let title = format!("{} over the last {} days", args.policy.display(), args.days);
        let page = page::of(mail.as_ref(), web.as_ref(), &title);
        std::fs::write(file, page).with_context(|| file.display().to_string())?;
    }
    let mut out = std::io::stdout().lock();
    if args.json {
        writeln!(out, "{}", json(mail.as_ref(), web.as_ref())?)?;
        return Ok(ExitCode::SUCCESS);
    }
    if let Some(report) = &mail {
        print(&mut out, report, args.most)?;
    }
    if let Some(report) = &web {
        if mail.is_some() {
            writeln!(out)?;
        }
        web::print(&mut out, report, args.most)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// What was found, as one object: that of mail, with that of web requests in it.
fn json(mail: Option<&Report>, web: Option<&WebReplayReport>) -> anyhow::Result<serde_json::Value> {
    let mut value = match mail {
        Some(report) => serde_json::to_value(report)?,
        None => serde_json::json!({}),
    };
    if let Some(report) = web {
        value["web"] = serde_json::to_value(report)?;
    }
    Ok(value)
}

/// Replays mail.
fn mail(args: &Args, compared: &Compared<'_>) -> anyhow::Result<Report> {
    let config = compared.config;
    let data = &config.node.data;
    if !data.join("log").is_dir() {
        let shown = data.display();
        bail!("{shown}: no message log in it; name a node's data folder with --data or --config");
    }
    let log = Log::open(&data.join("log"))?;
    let quarantine = Quarantine::open_shared(&data.join("quarantine"))?;
    let snapshot = args.snapshot(data, config)?;
    let order = ReplayRequest {
        policy: &compared.policy,
        before: &compared.before,
        thresholds: Thresholds::from(&config.thresholds),
        since_ms: compared.since_ms,
    };
    let mut scratch = Scratch::default();
    let unpacker = config.content.enabled.then(|| Unpacker::new(config.clone()));
    let mut rescan = |message: &Message<'_>, envelope: &Envelope, facts: &Facts| {
        let snapshot = snapshot.as_ref()?;
        let facts = opened(facts, unpacker.as_ref().map(|u| u.tree(message)));
        let verdict = scan(message, envelope, &facts, snapshot, &mut scratch);
        Some(Rescanned { verdict, facts })
    };
    let bar = Bar::new("messages");
    Ok(replay(&log, &quarantine, &order, &mut rescan, |progress| bar.show(progress))?)
}

/// Says on a terminal how far it is.
struct Bar(Option<ProgressBar>, &'static str);

impl Bar {
    fn new(items: &'static str) -> Self {
        Bar(std::io::stderr().is_terminal().then(ProgressBar::new_spinner), items)
    }

    fn show(&self, progress: Progress) -> bool {
        if let Bar(Some(bar), items) = self {
            bar.set_message(format!("{} {items}", progress.items));
            bar.tick();
        }
        true
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        if let Some(bar) = &self.0 {
            bar.finish_and_clear();
        }
    }
}

impl Args {
    /// What judges mail again: the rules that are named, else what the node judges by now.
    fn snapshot(&self, data: &Path, config: &Config) -> anyhow::Result<Option<Snapshot>> {
        if self.rules.is_empty() && !self.rescan {
            return Ok(None);
        }
        let data = self.rules.is_empty().then(|| data.to_owned());
        let (rules, reading) = (self.rules.clone(), self.reading.clone());
        let ruleset = RulesetArgs { rules, data, reading, ..RulesetArgs::default() };
        ruleset.load_for_node(config).map(Some)
    }
}

/// The facts with files that were opened again; those of the log where none could be.
fn opened(facts: &Facts, tree: Option<Tree>) -> Facts {
    let content = tree.filter(|tree| !tree.is_empty());
    Facts { content: content.unwrap_or_else(|| facts.content.clone()), ..facts.clone() }
}

fn print(out: &mut impl Write, report: &Report, most: usize) -> anyhow::Result<()> {
    let unknown: u64 = report.unknown.values().sum();
    writeln!(
        out,
        "{} messages ({} with their body), {} recipients: {} the same, {} different, {unknown} unknown",
        report.messages, report.whole, report.recipients, report.same, report.different
    )?;
    table(out, "What would have changed", &report.transitions)?;
    table(out, "By the rule that decides now", &report.rules)?;
    table(out, "By recipient (the first 20)", &top(&report.users, 20))?;
    table(out, "Unknown, by the rule that asks for what was not kept", &report.unknown)?;
    if !report.changes.is_empty() && most > 0 {
        writeln!(out, "\nChanges, likely false positives first")?;
        for changed in report.changes.iter().take(most) {
            line(out, changed)?;
        }
    }
    let left = report.changes.len().saturating_sub(most);
    if left > 0 {
        writeln!(out, "  and {left} more (--most, --json or --html show them)")?;
    }
    Ok(())
}

fn line(out: &mut impl Write, changed: &ChangedDecision) -> anyhow::Result<()> {
    let mark = if changed.withheld { "!" } else { " " };
    let ChangedDecision { id, recipient, class, score, was, would_be, rule, .. } = changed;
    writeln!(out, "{mark} {id}  {recipient}: {was} -> {would_be}  ({rule:?}; {class} {score:.1})")?;
    let (from, subject) = (printable(&changed.from), printable(&changed.subject));
    writeln!(out, "    {from}: {subject}")?;
    Ok(())
}

/// The largest entries, at most so many.
fn top(counts: &BTreeMap<String, u64>, most: usize) -> BTreeMap<String, u64> {
    let mut all: Vec<_> = counts.iter().collect();
    all.sort_by_key(|(_, n)| std::cmp::Reverse(**n));
    all.into_iter().take(most).map(|(k, n)| (k.clone(), *n)).collect()
}

fn table(out: &mut impl Write, title: &str, counts: &BTreeMap<String, u64>) -> anyhow::Result<()> {
    if counts.is_empty() {
        return Ok(());
    }
    writeln!(out, "\n{title}")?;
    let mut all: Vec<_> = counts.iter().collect();
    all.sort_by_key(|(name, n)| (std::cmp::Reverse(**n), *name));
    for (name, count) in all {
        let name = if name.is_empty() { "no rule" } else { name };
        writeln!(out, "{count:8}  {}", printable(name))?;
    }
    Ok(())
}

/// The text without control characters: it comes from outside.
fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '?' } else { c }).collect()
}
