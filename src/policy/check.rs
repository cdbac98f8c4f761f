//! `gauntlet policy check`: what is wrong with a policy, and what of it does nothing.

use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

use gauntlet_gateway::scan::data_loss::DataLossPrevention;
use gauntlet_policy::Policy;
use serde::Serialize;

use super::{read_policy, warnings};
use crate::dlp;

/// Something in a policy that does nothing.
#[derive(Debug, Serialize)]
struct Warning {
    line: usize,
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
    let found = found.into_iter().map(|finding| Warning {
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
    Ok(found.chain(never).collect())
}

fn print(file: &Path, policy: &Policy, warnings: &[Warning]) -> anyhow::Result<ExitCode> {
    let (file, mut out) = (file.display(), std::io::stdout().lock());
    for Warning { line, rule, message } in warnings {
        writeln!(out, "{file}:{line}: rule {rule:?}: {message}")?;
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
