//! The replay of web requests, and its report as text.

use std::collections::BTreeMap;
use std::io::Write;

use anyhow::bail;
use gauntlet_mail::date::rfc5322;
use gauntlet_store::web_log::replay::{
    WebChanged, WebName, WebReplayReport, WebReplayRequest, replay as replay_log,
};

use super::{Bar, Compared, printable, table};
use crate::url_lists;
use crate::web::{LOG_FOLDER, ListLookUp};

/// Replays web requests; none if the node has no web log.
///
/// # Errors
/// A list or the log cannot be read; there is no log, and it `must_be` there.
pub(super) fn replay(
    compared: &Compared<'_>,
    must_be: bool,
) -> anyhow::Result<Option<WebReplayReport>> {
    let folder = compared.config.node.data.join(LOG_FOLDER);
    if !folder.is_dir() {
        match must_be {
            true => bail!("{}: no web log there; name a node's data folder", folder.display()),
            false => return Ok(None),
        }
    }
    let lists = url_lists::open(&compared.config.url_list)?.lists;
    let lists = ListLookUp { lists, addresses: compared.config.proxy.listed_addresses };
    let request = WebReplayRequest {
        policy: &compared.policy,
        before: &compared.before,
        lists: &lists,
        since_ms: compared.since_ms,
    };
    let bar = Bar::new("web requests");
    Ok(Some(replay_log(&folder, &request, |progress| bar.show(progress))?))
}

pub(super) fn print(
    out: &mut impl Write,
    report: &WebReplayReport,
    most: usize,
) -> anyhow::Result<()> {
    let unknown = report.unknown_requests();
    writeln!(
        out,
        "{} web requests: {} the same ({} by another rule), {} different, {unknown} unknown, {} not \
         for the policy",
        report.requests,
        report.same + report.same_by_other_rule,
        report.same_by_other_rule,
        report.different,
        report.not_asked
    )?;
    for (rule, field) in &report.not_replayable {
        let rule = printable(rule);
        writeln!(
            out,
            "not replayable: rule {rule:?} asks for {field}, which the log does not keep"
        )?;
    }
    let rows = report.changes.iter().map(|change| (line(change), change.requests));
    let all: BTreeMap<String, u64> = rows.collect();
    table(out, "What would have changed, by the rules that decide", &all)?;
    let unknown = report.unknown.iter().flat_map(|(rule, fields)| {
        fields.iter().map(move |(field, n)| (format!("{rule} asks for {field}"), *n))
    });
    let unknown: BTreeMap<String, u64> = unknown.collect();
    table(out, "Unknown, by the rule that asks for what was not kept", &unknown)?;
    for change in report.changes.iter().take(most) {
        details(out, change, most)?;
    }
    let left = report.changes.len().saturating_sub(most);
    if left > 0 {
        writeln!(out, "  and {left} more changes (--most, --json or --html show them)")?;
    }
    if report.changes_left_out > 0 {
        let left = report.changes_left_out;
        writeln!(out, "  {left} requests changed in further ways, which are not listed")?;
    }
    Ok(())
}

/// A change in one line.
pub(super) fn line(change: &WebChanged) -> String {
    let by = |rule: &str| match rule.is_empty() {
        true => String::new(),
        false => format!(" by {rule:?}"),
    };
    let WebChanged { was, was_rule, would_be, rule, .. } = change;
    format!("{was}{} -> {would_be}{}", by(was_rule), by(rule))
}

fn details(out: &mut impl Write, change: &WebChanged, most: usize) -> anyhow::Result<()> {
    writeln!(out, "\n{}: {} requests", printable(&line(change)), change.requests)?;
    for (title, names) in [("hosts", &change.hosts), ("clients", &change.clients)] {
        let name = |n: &WebName| format!("{} ({})", printable(&n.name), n.requests);
        let names: Vec<String> = names.iter().map(name).collect();
        if !names.is_empty() {
            writeln!(out, "  {title}: {}", names.join(", "))?;
        }
    }
    for example in change.examples.iter().take(most) {
        let (at, client) = (rfc5322(example.at_ms), printable(&example.client));
        let client = if client.is_empty() { "-".to_owned() } else { client };
        let reference = match example.reference.is_empty() {
            true => format!("at {}", example.cursor.0),
            false => example.reference.clone(),
        };
        let (method, url) = (printable(&example.method), printable(&example.url));
        writeln!(out, "  {at}  {reference}  {client}  {method} {url}")?;
    }
    Ok(())
}
