//! `gauntlet policy check`: what is wrong with a policy, and what of it does nothing.

use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

use gauntlet_engine::Snapshot;
use gauntlet_gateway::config::Config;
use gauntlet_gateway::scan::data_loss::DataLossPrevention;
use gauntlet_policy::{Finding, Policy};
use serde::Serialize;

use super::{read_policy, warnings};
use crate::{dlp, judge};

/// Something in a policy that does nothing.
#[derive(Debug, Serialize)]
struct Warning {
    line: usize,
    /// Empty if it is about the policy as a whole.
    rule: String,
    message: String,
}

/// What a check found, as programs read it.
#[derive(Debug, Serialize)]
struct Report<'f> {
    file: &'f Path,
    valid: bool,
    rules: usize,
    web_rules: usize,
    quotas: usize,
    errors: Vec<String>,
    warnings: Vec<Warning>,
}

/// Checks a policy, with the names that this configuration knows.
///
/// # Errors
/// It cannot be used; with `json` that is printed, and a status.
pub(super) fn run(file: &Path, config: Option<&Path>, json: bool) -> anyhow::Result<ExitCode> {
    let checked = read_policy(file).and_then(|policy| {
        let warnings = warnings_of(&policy, config)?;
        Ok((policy, warnings))
    });
    if !json {
        let (policy, warnings) = checked?;
        return print(file, &policy, &warnings);
    }
    let report = match checked {
        Ok((policy, warnings)) => Report {
            file,
            valid: true,
            rules: policy.rules.len(),
            web_rules: policy.web.len(),
            quotas: policy.web_quotas.len(),
            errors: Vec::new(),
            warnings,
        },
        Err(error) => Report {
            file,
            valid: false,
            rules: 0,
            web_rules: 0,
            quotas: 0,
            errors: vec![format!("{error:#}")],
            warnings: Vec::new(),
        },
    };
    writeln!(std::io::stdout(), "{}", serde_json::to_string(&report)?)?;
    Ok(if report.valid { ExitCode::SUCCESS } else { ExitCode::from(2) })
}

fn warnings_of(policy: &Policy, config: Option<&Path>) -> anyhow::Result<Vec<Warning>> {
    let settings = dlp::config_of(config)?;
    let known = DataLossPrevention::names_of(&settings.dlp)?;
    let found = match config {
        Some(_) => warnings::of(policy, &settings),
        // Which lists there are is not known.
        None => policy.warnings.clone(),
    };
    let unknown = unknown_rules(policy, config.map(|_| &settings));
    let found = found.into_iter().chain(unknown).map(|finding| Warning {
        line: finding.line,
        rule: finding.rule,
        message: finding.message,
    });
    let never = known
        .never_found(policy)
        .into_iter()
        .filter(|never| config.is_some() || never.field != "dictionary");
    let never = never.map(|never| {
        let text = never.to_string();
        let message = text.trim_start_matches(&format!("rule {:?}: ", never.rule)).to_owned();
        Warning { line: never.line, rule: never.rule, message }
    });
    Ok(empty(policy).into_iter().chain(found).chain(never).collect())
}

/// Names of rules that there are not, by what a node of this configuration judges with, or else by
/// what comes with the program. Nothing is said where the rules are not known: channels may bring
/// others, and rules that cannot be read are an error of their own.
fn unknown_rules(policy: &Policy, config: Option<&Config>) -> Vec<Finding> {
    // Rules take a moment to load.
    if !policy.asks_for_hits() || config.is_some_and(|config| !config.channel.is_empty()) {
        return Vec::new();
    }
    let snapshot = config.map_or_else(|| Ok(Snapshot::default_rules()), judge::of_node);
    let Ok(snapshot) = snapshot else { return Vec::new() };
    let mut found = policy.unknown_rules(&names_of(&snapshot));
    if config.is_none() {
        for finding in &mut found {
            finding.message.push_str(" (of those that come with the program; others by --config)");
        }
    }
    found
}

/// The names of the rules that can hit.
fn names_of(snapshot: &Snapshot) -> Vec<String> {
    let filters = snapshot.registry.rules().iter().map(|rule| rule.name.to_string());
    let own = snapshot.own_rules.as_deref();
    let files = own.into_iter().chain(snapshot.ruleset.as_deref().map(|set| &**set));
    let files = files.flat_map(|set| set.rules()).filter(|rule| !rule.is_sub());
    filters.chain(files.map(|rule| rule.name.to_string())).collect()
}

/// What no rule decides about is delivered.
fn empty(policy: &Policy) -> Option<Warning> {
    let is_empty = policy.rules.is_empty() && policy.web.is_empty();
    is_empty.then(|| Warning {
        line: 1,
        rule: String::new(),
        message: "there are no rules: all mail is delivered, malware too".to_owned(),
    })
}

fn print(file: &Path, policy: &Policy, warnings: &[Warning]) -> anyhow::Result<ExitCode> {
    let (file, mut out) = (file.display(), std::io::stdout().lock());
    for Warning { line, rule, message } in warnings {
        match rule.as_str() {
            "" => writeln!(out, "{file}:{line}: {message}")?,
            rule => writeln!(out, "{file}:{line}: rule {rule:?}: {message}")?,
        }
    }
    let web = match policy.web.len() {
        0 => String::new(),
        web => format!("{web} web rules, "),
    };
    let quotas = match policy.web_quotas.len() {
        0 => String::new(),
        n => format!("{n} quotas, "),
    };
    let (rules, warnings) = (policy.rules.len(), warnings.len());
    writeln!(out, "{file}: {rules} rules, {web}{quotas}{warnings} warnings")?;
    Ok(ExitCode::SUCCESS)
}
