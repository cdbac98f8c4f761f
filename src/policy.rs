//! `gauntlet policy`: check a policy, explain a message, test messages with expected dispositions,
//! replay the mail of the last days, keep versions and go back.

mod check;
mod replay;
mod unpacker;
mod versions;
pub(crate) mod warnings;
mod web;

pub(crate) use versions::author;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::SystemTime;

use anyhow::Context;
use gauntlet_engine::{Scratch, Snapshot, scan};
use gauntlet_gateway::admin::policy_source;
use gauntlet_gateway::config::Config;
use gauntlet_inputs::file;
use gauntlet_mail::{Direction, Facts, Message};
use gauntlet_policy::{Explanation, Groups, Policy, PolicyInput, Rates};
use gauntlet_store::WebReleases;
use gauntlet_verdict::Verdict;
use gauntlet_web::release::WebExceptions;
use serde::Deserialize;

use crate::dlp::{self, Looking};
use crate::ruleset::RulesetArgs;
use crate::web::LOG_FOLDER;

/// Whom a policy is asked about where nobody is named.
const NOBODY: &str = "recipient@example.org";
const AFTER_HELP: &str = "\
Cases for `test` are TOML:
  [[case]]
  message = \"mail/invoice.eml\"        # relative to the file of cases
  direction = \"inbound\"               # the default
  mail_from = \"a@example.net\"
  rcpt_to = [\"me@example.org\"]
  expect = \"quarantine:spam\"          # ACTION or ACTION:FOLDER, for every recipient
  rule = \"Spam is quarantined\"        # optional: the rule that decided

Exit codes: 0 good; 1 a case had another disposition; 2 the policy cannot be used.

Examples:
  gauntlet policy check policy.toml
  gauntlet policy explain message.eml --to me@example.org
  gauntlet policy explain http://example.com/ --config gauntlet.toml --client 10.0.0.7
  gauntlet policy test cases.toml --policy policy.toml
  gauntlet policy replay new.toml --days 7 --html changes.html
  gauntlet policy apply new.toml --note \"newsletters to their own folder\"
  gauntlet policy rollback";

/// Arguments of `gauntlet policy`.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    /// Read a policy and print its errors and warnings
    Check {
        /// The policy file to read
        file: PathBuf,
        /// The configuration file, for what its [dlp] names; without one, names of dictionaries are
        /// not checked
        #[arg(short, long, env = "GAUNTLET_CONFIG")]
        config: Option<PathBuf>,
        /// Print one JSON object: valid, rules, web_rules, quotas, errors, warnings
        #[arg(long)]
        json: bool,
    },
    /// Say which rules were tried for a message or a URL, which matched, and why
    Explain(Box<ExplainArgs>),
    /// Try messages with expected dispositions
    Test {
        /// The file of cases, TOML as below
        cases: PathBuf,
        /// The policy file [default: the policy in force of the node that --config or --data names,
        /// else the one that comes with the program]
        #[arg(long)]
        policy: Option<PathBuf>,
        /// The configuration file, for the policy in force and what its [dlp] names
        #[arg(short, long, env = "GAUNTLET_CONFIG")]
        config: Option<PathBuf>,
        #[command(flatten)]
        ruleset: RulesetArgs,
    },
    /// Say what a policy would have done with the mail that a node logged
    Replay(replay::Args),
    /// Put a policy into force; a running node applies it at once
    Apply(versions::ApplyArgs),
    /// List the versions of a node's policy, newest first
    History(versions::HistoryArgs),
    /// Print a version of the policy, or what it changed
    Show(versions::ShowArgs),
    /// Go back to the version before, or to another; a running node applies it at once
    Rollback(versions::RollbackArgs),
}

#[derive(Debug, clap::Args)]
struct ExplainArgs {
    /// The message, `-` for standard input; or a URL, for the rules about web requests
    #[arg(value_name = "MESSAGE|URL")]
    message: PathBuf,
    /// The policy file [default: the policy in force of the node that --config or --data names,
    /// else the one that comes with the program]
    #[arg(long)]
    policy: Option<PathBuf>,
    /// Envelope recipients (may be repeated) [default: recipient@example.org, of whom the filters
    /// are not told: they find what `gauntlet scan` finds]
    #[arg(long)]
    to: Vec<String>,
    /// Envelope sender [default: the Return-Path, else the From address]
    #[arg(long)]
    from: Option<String>,
    /// As mail that goes out
    #[arg(long)]
    outbound: bool,
    #[command(flatten)]
    request: web::RequestArgs,
    /// Print one JSON object instead of text
    #[arg(long)]
    json: bool,
    /// The configuration file, for the policy in force and what its [dlp] and [[url_list]] name
    #[arg(short, long, env = "GAUNTLET_CONFIG")]
    config: Option<PathBuf>,
    #[command(flatten)]
    ruleset: RulesetArgs,
}

fn explain(args: &ExplainArgs) -> anyhow::Result<ExitCode> {
    let (policy, config) = (args.policy.as_deref(), args.config.as_deref());
    if let Some(url) = args.message.to_str().filter(|text| web::is_url(text)) {
        let names_node = config.is_some() || args.ruleset.data.is_some();
        let (policy, config) = policy_of(policy, config, &args.ruleset)?;
        let exceptions = match names_node {
            true => WebReleases::read_exceptions(&config.node.data.join(LOG_FOLDER))?,
            false => WebExceptions::default(),
        };
        return web::explain(url, &args.request, (&policy, &config, &exceptions), args.json);
    }
    let raw = file::read(&args.message)?;
    let direction = if args.outbound { Direction::Outbound } else { Direction::Inbound };
    let judge = Judge::new(policy, config, &args.ruleset)?;
    let (verdict, explanations) =
        judge.explain(&raw, direction, args.from.clone(), args.to.clone());
    print_explanations(&verdict, &explanations, args.json)
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    match &args.action {
        Action::Check { file, config, json } => check::run(file, config.as_deref(), *json),
        Action::Explain(args) => explain(args),
        Action::Test { cases, policy, config, ruleset } => {
            test(cases, &Judge::new(policy.as_deref(), config.as_deref(), ruleset)?)
        }
        Action::Replay(args) => replay::run(args),
        Action::Apply(args) => versions::apply(args),
        Action::History(args) => versions::history(args),
        Action::Show(args) => versions::show(args),
        Action::Rollback(args) => versions::rollback(args),
    }
}

fn read_policy(file: &Path) -> anyhow::Result<Policy> {
    let text = std::fs::read_to_string(file).with_context(|| file.display().to_string())?;
    Policy::parse(&text, &Groups::default()).with_context(|| file.display().to_string())
}

/// The policy that is asked about, and the configuration that names what it asks for.
fn policy_of(
    policy: Option<&Path>,
    config: Option<&Path>,
    ruleset: &RulesetArgs,
) -> anyhow::Result<(Policy, Config)> {
    let names_node = config.is_some() || ruleset.data.is_some();
    let mut config = dlp::config_of(config)?;
    if let Some(data) = &ruleset.data {
        config.node.data.clone_from(data);
    }
    let policy = match policy {
        Some(file) => read_policy(file)?,
        None if names_node => policy_source::load(&config)?,
        None => Policy::default_policy(&Groups::default()),
    };
    Ok((policy, config))
}

/// A policy and what judges messages before it.
struct Judge {
    policy: Policy,
    snapshot: Snapshot,
    /// Opens files and looks for data, if the policy asks for any.
    data_loss: Option<Looking>,
    unpacker: unpacker::Unpacker,
}

impl Judge {
    fn new(
        policy: Option<&Path>,
        config: Option<&Path>,
        ruleset: &RulesetArgs,
    ) -> anyhow::Result<Self> {
        let names_node = config.is_some() || ruleset.data.is_some();
        let (policy, config) = policy_of(policy, config, ruleset)?;
        let snapshot = match names_node {
            true => ruleset.load_for_node(&config)?,
            false => ruleset.load()?,
        };
        let data_loss = match policy.data_conditions().next() {
            Some(_) => Some(Looking::start(&config)?),
            None => None,
        };
        for what in data_loss.iter().flat_map(|looking| looking.never_found(&policy)) {
            eprintln!("gauntlet: {what}");
        }
        let unpacker = unpacker::Unpacker::new(config);
        Ok(Judge { policy, snapshot, data_loss, unpacker })
    }

    /// Without recipients the policy is asked about [`NOBODY`]; the filters are not told of it, so
    /// that they find what `gauntlet scan` finds.
    fn explain(
        &self,
        raw: &[u8],
        direction: Direction,
        mail_from: Option<String>,
        rcpt_to: Vec<String>,
    ) -> (Verdict, Vec<Explanation>) {
        let message = Message::parse(raw);
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let mut envelope =
            gauntlet_mail::trace::of_trace(&message, i64::try_from(now.as_secs()).unwrap_or(0));
        envelope.direction = direction;
        if !rcpt_to.is_empty() {
            envelope.rcpt_to = rcpt_to;
        }
        if let Some(mail_from) = mail_from {
            envelope.mail_from = mail_from;
        }
        let facts = Facts { content: self.unpacker.tree(&message), ..Facts::default() };
        let mut verdict =
            scan(&message, &envelope, &facts, &self.snapshot, &mut Scratch::default());
        let looks = |_: &&Looking| self.policy.asks_data_loss(direction);
        if let Some(looking) = self.data_loss.as_ref().filter(looks) {
            looking.look(&message, &facts, &mut verdict);
        }
        if envelope.rcpt_to.is_empty() {
            envelope.rcpt_to.push(NOBODY.to_owned());
        }
        let explanations = self.policy.explain(&PolicyInput {
            id: "none",
            message: &message,
            envelope: &envelope,
            facts: &facts,
            verdict: &verdict,
            thresholds: &self.snapshot.thresholds,
            rates: &Rates::default(),
        });
        (verdict, explanations)
    }
}

fn print_explanations(
    verdict: &Verdict,
    explanations: &[Explanation],
    json: bool,
) -> anyhow::Result<ExitCode> {
    let mut out = std::io::stdout().lock();
    if json {
        let mut line = serde_json::json!({
            "class": verdict.class, "score": verdict.score, "recipients": explanations,
        });
        if let Some(found) = &verdict.data_loss {
            line["data_loss"] = serde_json::to_value(found)?;
        }
        writeln!(out, "{line}")?;
        return Ok(ExitCode::SUCCESS);
    }
    writeln!(out, "class {}, score {:.1}", verdict.class, verdict.score)?;
    if let Some(found) = &verdict.data_loss {
        let cut = if found.is_cut { " (not all was read)" } else { "" };
        writeln!(out, "\ndata found{cut}: {}", found.findings.len())?;
        dlp::print_findings(&mut out, found)?;
    }
    for explanation in explanations {
        let disposition = &explanation.disposition;
        writeln!(out, "\n{}: {}", disposition.recipient, disposition.end)?;
        for change in &disposition.changes {
            writeln!(out, "  change: {}", serde_json::to_string(change)?)?;
        }
        writeln!(out, "  rules tried:")?;
        for trace in &explanation.trace {
            let mark = if trace.matched { "+" } else { "-" };
            writeln!(out, "  {mark} {}  ({})", trace.rule, trace.because)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Cases {
    #[serde(rename = "case")]
    cases: Vec<Case>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    message: PathBuf,
    #[serde(default)]
    direction: Direction,
    mail_from: Option<String>,
    #[serde(default)]
    rcpt_to: Vec<String>,
    expect: String,
    rule: Option<String>,
}

fn test(file: &Path, judge: &Judge) -> anyhow::Result<ExitCode> {
    let text = std::fs::read_to_string(file).with_context(|| file.display().to_string())?;
    let cases: Cases = toml::from_str(&text).with_context(|| file.display().to_string())?;
    let folder = file.parent().unwrap_or(Path::new("."));
    let mut out = std::io::stdout().lock();
    let mut failed = 0usize;
    for case in &cases.cases {
        let raw = file::read(&folder.join(&case.message))?;
        let (_, explanations) =
            judge.explain(&raw, case.direction, case.mail_from.clone(), case.rcpt_to.clone());
        for explanation in explanations {
            let got = explanation.disposition;
            let end = got.end.to_string();
            let decided = got.rules.last().map_or("no rule", String::as_str);
            let as_expected = end == case.expect && case.rule.as_ref().is_none_or(|r| r == decided);
            failed += usize::from(!as_expected);
            let mark = if as_expected { "ok  " } else { "FAIL" };
            let name = case.message.display();
            writeln!(out, "{mark} {name} for {}: {end} by {decided:?}", got.recipient)?;
            if !as_expected {
                let by = case.rule.as_deref().map_or(String::new(), |r| format!(" by {r:?}"));
                writeln!(out, "     expected {}{by}", case.expect)?;
            }
        }
    }
    writeln!(out, "{} cases, {failed} failed", cases.cases.len())?;
    Ok(if failed == 0 { ExitCode::SUCCESS } else { ExitCode::from(1) })
}
