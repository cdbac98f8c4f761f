//! `gauntlet setup`: from a machine with the program on it to a configuration that runs.
//!
//! ```text
//! flags, environment, answers ─▶ Given ─▶ Answers ─▶ configuration, DNS records, lines   (pure)
//!                                             └─▶ Plan (reads) ─▶ apply (writes) ─▶ doctor
//!                                                                  └─▶ journal ─▶ undo
//! ```

mod answers;
mod apply;
mod configuration;
mod given;
mod host;
mod journal;
mod mta;
mod plan;
mod postfix;
mod questions;
mod records;
mod report;

use std::io::{BufRead, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, bail};
use gauntlet_gateway::clock::now_ms;

use self::answers::{Answers, Membership};
use self::given::{Given, Purpose};
use self::host::Host;
use self::journal::{Journal, Step, Undone};
use self::plan::Plan;
use self::report::Report;
use crate::array::join::token_for;
use crate::doctor::Findings;

const AFTER_HELP: &str = "\
Writes a configuration of only what differs from the defaults, makes the data folder and DKIM keys,
checks all of it as `gauntlet doctor` does, and prints the DNS records to publish and the lines for
Postfix or Exim. What is not said by flags or by the environment (GAUNTLET_SETUP_NAME for --name,
and so on; lists with commas) is asked for on a terminal. A file that is there already is replaced
with --force only, and kept beside the new one. The Debian package's own, if nobody changed it, is
replaced without --force, and kept as well.

Exit codes: 0 done; 1 done, and doctor found an error (records that are not published yet are such),
the node did not join its array, or undo kept something; 2 nothing done.

Examples:
  gauntlet setup                         asks what the node is for, and the rest
  gauntlet setup trial
  gauntlet setup milter --name mx.example.org --apply-postfix
  gauntlet setup front --name mx.example.org --domain example.org --next-hop 10.0.0.5:25 --dry-run
  gauntlet setup front --domain example.org --next-hop 127.0.0.1 --lmtp --acme me@example.org
  gauntlet setup array --domain example.org --next-hop 10.0.0.5 --token - < token
  gauntlet setup undo                    takes the last set-up back";

/// Arguments of `gauntlet setup`.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Option<Action>,
    #[command(flatten)]
    given: Given,
    /// The configuration file [default: /etc/gauntlet/gauntlet.toml for root, else, and for a
    /// trial, ./gauntlet.toml]
    #[arg(short, long, value_name = "FILE", env = "GAUNTLET_CONFIG", global = true)]
    config: Option<PathBuf>,
    /// Show what would be done, and do nothing
    #[arg(long, global = true)]
    dry_run: bool,
    /// Print one JSON object
    #[arg(long, global = true)]
    json: bool,
    /// Replace a configuration that is there; it is kept beside the new one
    #[arg(long)]
    force: bool,
    /// Ask, even if standard input is no terminal: answers are lines
    #[arg(long)]
    ask: bool,
    /// Do not run doctor on what was written
    #[arg(long)]
    no_doctor: bool,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    /// Take back what the last set-up did; what somebody changed since is kept and named
    #[command(after_help = "\
Files that it wrote are removed, or replaced by those that were there before; Postfix gets its old
settings. Folders are removed if they are empty: no mail is ever deleted.

Exit codes: 0 all of it; 1 something was kept; 2 nothing done.

Examples:
  gauntlet setup undo --dry-run
  gauntlet setup undo --config /etc/gauntlet/gauntlet.toml")]
    Undo,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let host = Host::look();
    if let Some(Action::Undo) = args.action {
        return undo(args, &host);
    }
    let mut given = args.given.clone();
    let asks = complete(args, &mut given, &host)?;
    let purpose = given.purpose().context(NO_PURPOSE)?;
    let mut answers = Answers::of(&given, purpose, &host).map_err(|problems| {
        anyhow::anyhow!("this cannot be set up:\n  {}", problems.join("\n  "))
    })?;
    if let Membership::Token(text) = &mut answers.membership {
        // Before anything is written. Standard input is read once.
        *text = token_for(&answers.name, text).context("--token")?.to_text();
    }
    let file = file(args, purpose, &host);
    let plan = Plan::make(&file, &answers, &host)?;
    let replaces = plan.replaces();
    if args.dry_run {
        let report = report(&plan, &answers, &host, None);
        report.print(&mut std::io::stdout().lock(), args.json)?;
        return Ok(ExitCode::SUCCESS);
    }
    if asks && !agrees(&plan, replaces)? {
        bail!("nothing is done");
    }
    if replaces && !args.force && !asks {
        bail!(
            "{} is there already and says something else; --force replaces it and keeps it \
             beside the new one, --dry-run shows the difference, --config names another file",
            plan.path.display()
        );
    }
    let done = apply::apply(&plan, &answers, now_ms())?;
    let mut report = report(&plan, &answers, &host, Some(done));
    if !args.no_doctor {
        report.findings = Some(examine(&plan, &answers)?);
    }
    report.print(&mut std::io::stdout().lock(), args.json)?;
    let bad = report.findings.as_ref().is_some_and(Findings::has_error);
    let failed = bad || matches!(report.joined, Some(Err(_)));
    Ok(if failed { ExitCode::from(1) } else { ExitCode::SUCCESS })
}

const NO_PURPOSE: &str = "what is the node for? Say `gauntlet setup trial`, `milter`, `front` or \
`array` (or --for, or GAUNTLET_SETUP_FOR); on a terminal, or with --ask, it is asked";

/// Asks for what is missing, where somebody can answer. Says whether somebody was asked.
fn complete(args: &Args, given: &mut Given, host: &Host) -> anyhow::Result<bool> {
    let missing: Vec<&str> = questions::open(given, host)
        .iter()
        .filter(|question| question.is_required())
        .map(|question| question.flag)
        .collect();
    let is_incomplete = given.purpose().is_none() || !missing.is_empty();
    let asks = args.ask || (is_incomplete && std::io::stdin().is_terminal());
    if !asks {
        if given.purpose().is_some() && !missing.is_empty() {
            bail!(
                "standard input is no terminal, so nothing is asked; missing: {} (or {}); --ask \
                 asks all the same, one line an answer",
                missing.join(", "),
                missing.iter().map(|flag| variable(flag)).collect::<Vec<_>>().join(", ")
            );
        }
        return Ok(false);
    }
    with_person(|input, output| questions::ask(given, host, input, output))?;
    Ok(true)
}

/// The variable of the environment that stands for a flag.
fn variable(flag: &str) -> String {
    let name = flag.trim_start_matches('-').replace('-', "_").to_ascii_uppercase();
    format!("GAUNTLET_SETUP_{name}")
}

fn with_person<T>(
    talk: impl FnOnce(&mut dyn BufRead, &mut dyn Write) -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    talk(&mut std::io::stdin().lock(), &mut std::io::stderr().lock())
}

/// Shows the file, and asks whether it is to be written.
fn agrees(plan: &Plan, replaces: bool) -> anyhow::Result<bool> {
    let place = plan.path.display();
    let (shown, question) = match (replaces, &plan.old) {
        (true, Some(old)) => (
            gauntlet_policy::diff::text(old, &plan.text),
            format!("Replace {place}, and keep the old one beside it?"),
        ),
        _ => (plan.text.clone(), format!("Write {place}, and do what was said above?")),
    };
    with_person(|input, output| {
        writeln!(output, "\n{shown}")?;
        if let Some(planned) = &plan.postfix {
            writeln!(output, "{}", planned.changes.text())?;
        }
        questions::confirm(&question, input, output)
    })
}

/// The configuration file, absolute.
fn file(args: &Args, purpose: Purpose, host: &Host) -> PathBuf {
    let default = match host.is_root && purpose != Purpose::Trial {
        true => Path::new("/etc/gauntlet/gauntlet.toml"),
        false => Path::new("gauntlet.toml"),
    };
    host.here.join(args.config.as_deref().unwrap_or(default))
}

fn report<'a>(
    plan: &'a Plan,
    answers: &'a Answers,
    host: &'a Host,
    done: Option<apply::Done>,
) -> Report<'a> {
    let is_dry = done.is_none();
    let done =
        done.unwrap_or_else(|| apply::Done { keys: plan.keys.clone(), ..Default::default() });
    Report {
        plan,
        answers,
        host,
        is_dry,
        records: records::records(answers, &done.keys, &policy_id(now_ms())),
        sts_policy: records::sts_policy(answers),
        done: done.lines,
        joined: done.joined,
        findings: None,
    }
}

/// The time as digits: `20261128163300`.
fn policy_id(unix_ms: i64) -> String {
    let day = unix_ms.div_euclid(gauntlet_mail::date::DAY_SECONDS * 1_000);
    let (year, month, date) = gauntlet_mail::date::civil(day);
    let seconds = unix_ms.div_euclid(1_000).rem_euclid(gauntlet_mail::date::DAY_SECONDS);
    let (hour, minute, second) = (seconds / 3_600, seconds / 60 % 60, seconds % 60);
    format!("{year:04}{month:02}{date:02}{hour:02}{minute:02}{second:02}")
}

fn examine(plan: &Plan, answers: &Answers) -> anyhow::Result<Findings> {
    // A join has added to the file.
    let environment = crate::environment::environment;
    let config = crate::shared_settings::load(Some(&plan.path), environment)?.config;
    let address = answers.addresses.first().copied().filter(|_| answers.hop.is_some());
    let mut findings = crate::doctor::examine(&config, Some(&plan.path), address, None)?;
    if answers.purpose == Purpose::Trial {
        // Nobody outside sees a node on loopback.
        findings.0.retain(|(_, check, _)| !matches!(*check, "our name" | "reverse name"));
    }
    Ok(findings)
}

fn undo(args: &Args, host: &Host) -> anyhow::Result<ExitCode> {
    let file = undo_file(args, host);
    let mut journal = Journal::of(&file)?;
    let Some((purpose, at)) = journal.last().map(|(purpose, at)| (purpose, at.to_owned())) else {
        bail!(
            "{}: nothing was set up by `gauntlet setup` here; --config names the configuration \
             that it wrote",
            file.display()
        );
    };
    let mut out = std::io::stdout().lock();
    if args.dry_run {
        let steps: Vec<String> = journal.steps().map(Step::describe).collect();
        if args.json {
            let line = serde_json::json!({"for": purpose.name(), "at": at, "would_undo": steps});
            writeln!(out, "{line}")?;
        } else {
            writeln!(out, "would take back `gauntlet setup {}` of {at}:", purpose.name())?;
            steps.iter().try_for_each(|step| writeln!(out, "  {step}"))?;
        }
        return Ok(ExitCode::SUCCESS);
    }
    let undone = journal.undo()?;
    let kept = undone.iter().any(|one| matches!(one, Undone::Kept(_)));
    let earlier = journal.last().map(|(purpose, at)| (purpose.name(), at.to_owned()));
    if args.json {
        let texts = |wanted: bool| -> Vec<&String> {
            let of = |one: &'_ Undone| matches!(one, Undone::Done(_)) == wanted;
            undone.iter().filter(|one| of(one)).map(Undone::text).collect()
        };
        let line = serde_json::json!({
            "for": purpose.name(), "at": at, "undone": texts(true), "kept": texts(false),
            "earlier": earlier.as_ref().map(|(name, _)| name),
        });
        writeln!(out, "{line}")?;
    } else {
        writeln!(out, "`gauntlet setup {}` of {at} is taken back:", purpose.name())?;
        for one in &undone {
            writeln!(out, "  {}", one.text())?;
        }
        // A file that was there before is back, and a node goes on with it.
        let verb = if file.exists() { "restart" } else { "stop" };
        after_undo(purpose, verb, earlier, &mut out)?;
    }
    Ok(if kept { ExitCode::from(1) } else { ExitCode::SUCCESS })
}

/// What is left to do by hand.
fn after_undo(
    purpose: Purpose,
    verb: &str,
    earlier: Option<(&str, String)>,
    out: &mut impl Write,
) -> std::io::Result<()> {
    let next = match purpose {
        Purpose::Trial => String::new(),
        Purpose::Milter => format!(
            "next: `postfix reload` (with `-c` and its folder, if that is not /etc/postfix), then \
             {verb} the node\n"
        ),
        Purpose::Front => {
            format!("next: {verb} the node, and take its records out of the DNS\n")
        }
        Purpose::Array => format!(
            "next: {verb} the node, take its records out of the DNS, and `gauntlet array leave \
             NAME` on the manager if it had joined\n"
        ),
    };
    write!(out, "{next}")?;
    if let Some((name, at)) = earlier {
        writeln!(out, "`gauntlet setup {name}` of {at} is still there: undo again takes it back")?;
    }
    Ok(())
}

/// The configuration whose set-up is taken back: the one that was named, or where one was set up.
fn undo_file(args: &Args, host: &Host) -> PathBuf {
    let here = host.here.join("gauntlet.toml");
    match &args.config {
        Some(file) => host.here.join(file),
        None if host.is_root && !journal::place(&here).exists() => {
            PathBuf::from("/etc/gauntlet/gauntlet.toml")
        }
        None => here,
    }
}
