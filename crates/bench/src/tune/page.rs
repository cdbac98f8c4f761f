//! The ladder of a tuning, and the experiment, as tables.

use super::parallel::{self, Cell, PAPER, PAPER_PLACES, Program, SHARINGS, Sharing};
use super::{Report, Setup, WITHIN};
use crate::load::page::estimate;
use crate::load::trial::Estimate;
use crate::report::{Page, Table};

/// For the terminal and the page.
pub fn sheet(report: Option<&Report>, experiment: Option<&parallel::Report>) -> Option<Page> {
    let manifest = report.map(|r| &r.manifest).or(experiment.map(|e| &e.manifest))?.clone();
    let mut tables = Vec::new();
    if let Some(report) = report {
        tables.extend([gain_table(report), steps(report)]);
    }
    if let Some(experiment) = experiment {
        tables.extend(Program::both().map(|program| shared(experiment, program)));
        tables.push(places(experiment));
    }
    Some(Page {
        title: "Tuning".to_owned(),
        invalid: report.map(|r| r.invalid.clone()).unwrap_or_default(),
        tables,
        charts: Vec::new(),
        manifest,
    })
}

/// The settings that a tuning found, as a configuration file.
pub fn settings(report: &Report) -> String {
    let mut text = format!(
        "# What helped beyond noise here ({}): {} times the messages/s out of the box.\n",
        report.topology,
        report.tuned_over_first.as_ref().map_or_else(unknown, estimate)
    );
    for rung in report.ladder.iter().skip(1) {
        let gain = rung.gain.as_ref().map(estimate).unwrap_or_default();
        text.push_str(&format!("# {}: {gain} times\n", rung.name));
    }
    if report.tuned == Setup::default() {
        text.push_str("# Nothing did: the settings out of the box are the best found.\n");
    }
    let unit = report.tuned.unit();
    if !unit.is_empty() {
        text.push_str("# For the systemd unit, as a configuration file cannot say it:\n");
        unit.iter().for_each(|line| text.push_str(&format!("#   {line}\n")));
    }
    text.push_str(&report.tuned.toml());
    text
}

fn gain_table(report: &Report) -> Table {
    let mut table = Table::new("From out of the box to tuned", &["state", "messages/s", "gain"]);
    let rows = report.ladder.iter().map(|rung| {
        let gain = rung.gain.as_ref().map(estimate).unwrap_or_default();
        vec![rung.name.clone(), estimate(&rung.messages_per_second), gain]
    });
    table.rows = rows.collect();
    let over = report.tuned_over_first;
    let percent = WITHIN * 100.0;
    let verdict = match over.map_or((None, None), |over| (over.low, over.high)) {
        _ if over.is_none() => "whether out of the box will do is not known".to_owned(),
        _ if report.tuned == Setup::default() => {
            "they are the same: nothing helped twice".to_owned()
        }
        (_, Some(high)) if high <= 1.0 + WITHIN => {
            format!("out of the box is within {percent:.0} %")
        }
        (Some(low), _) if low > 1.0 + WITHIN => {
            format!("out of the box is NOT within {percent:.0} %")
        }
        _ => {
            let side = if report.out_of_the_box_will_do { "within" } else { "NOT within" };
            format!("out of the box is {side} {percent:.0} % by the mean; the interval holds both")
        }
    };
    table.notes = vec![
        format!(
            "tuned over out of the box, beside each other: {} times: {verdict}",
            over.as_ref().map_or_else(unknown, estimate)
        ),
        format!(
            "noise: out of the box over itself: {} times",
            report.noise.as_ref().map_or_else(unknown, estimate)
        ),
        "the study of 2006 went from 18 to 94 messages/s (5.2 times) on 8 cores with 32 threads"
            .into(),
        format!("this machine: {}", report.topology),
        format!(
            "{} messages, {:.1} MB ({}); client alone: {:.0} messages/s",
            report.workload.messages,
            report.workload.bytes as f64 / 1e6,
            report.workload.hash,
            report.ceiling
        ),
    ];
    table
}

fn unknown() -> String {
    "unmeasured".to_owned()
}

fn steps(report: &Report) -> Table {
    let heads = [
        "setting",
        "tried",
        "messages/s over the best so far",
        "once more",
        "CPU saved, times",
        "",
    ];
    let mut table = Table::new("What was tried", &heads);
    let rows = report.steps.iter().map(|step| {
        let mut row = vec![step.setting.to_owned(), step.name.clone(), estimate(&step.ratio)];
        row.push(step.again.as_ref().map(estimate).unwrap_or_default());
        row.push(step.cpu_ratio.as_ref().map(estimate).unwrap_or_default());
        row.push(if step.kept { "kept" } else { "" }.to_owned());
        row
    });
    table.rows = rows.collect();
    table.notes = report.missing.iter().map(|why| format!("not tried: {why}")).collect();
    table.notes.extend(report.unmeasured.iter().map(|why| format!("unmeasured: {why}")));
    table
}

impl Program {
    fn both() -> [Program; 2] {
        [Program::Paper, Program::Engine]
    }
}

/// Messages/s by CPUs and sharing, the paper's figures beside.
fn shared(report: &parallel::Report, program: Program) -> Table {
    let title = match program {
        Program::Paper => "The paper's own algorithm here",
        Program::Engine => "Our engine, the words as rules",
    };
    let title = format!("{title}: {} words, 1,000-byte messages/s", report.patterns);
    let mut table = Table::new(
        &title,
        &[
            "CPUs",
            "flow",
            "static",
            "dynamic",
            "guided",
            "dynamic/static",
            "guided/static",
            "paper: flow",
            "paper: pattern",
        ],
    );
    let most = report.cells.iter().map(|c| c.cpus).max().unwrap_or(0);
    for cpus in 1..=most.max(PAPER.len()) {
        let cell = |sharing: Sharing| {
            let this = |c: &&Cell| (c.program, c.cpus, c.sharing) == (program, cpus, sharing);
            report.cells.iter().find(this)
        };
        let rate = |sharing| {
            cell(sharing).map_or_else(|| "–".to_owned(), |c| rounded(&c.messages_per_second))
        };
        let over = |sharing| {
            let ratio = cell(sharing).and_then(|c| c.over_static.as_ref());
            ratio.map_or_else(|| "–".to_owned(), estimate)
        };
        let mut row = vec![cpus.to_string()];
        row.extend(SHARINGS.map(rate));
        row.extend([Sharing::Dynamic, Sharing::Guided].map(over));
        let paper = PAPER.get(cpus - 1);
        row.push(paper.map_or_else(|| "–".to_owned(), |p| format!("{:.2}", p.0)));
        row.push(paper.map_or_else(|| "–".to_owned(), |p| format!("{:.2}", p.1)));
        table.rows.push(row);
    }
    table.notes = vec![
        "the paper: dynamic 2 to 15 % over static, guided 4 to 17 %; flow-based wins from 3 CPUs on".into(),
        "the paper's list of words is not published; these words and messages come from a generator".into(),
    ];
    table.notes.extend(report.missing.iter().map(|why| format!("not measured: {why}")));
    table
}

/// A rate with its interval, without decimals.
pub(crate) fn rounded(value: &Estimate) -> String {
    let mut text = format!("{:.0}", value.mean);
    if let (Some(low), Some(high)) = (value.low, value.high) {
        text.push_str(&format!(" ({low:.0} to {high:.0})"));
    }
    text
}

fn places(report: &parallel::Report) -> Table {
    let mut table = Table::new(
        "CPUs of different cores over CPUs of one core (paper: its URL filter)",
        &["CPUs", "here", "paper"],
    );
    for (cpus, paper) in PAPER_PLACES {
        let here = report.other_cores_over_same.iter().find(|(count, _)| *count == cpus);
        let here = here.map_or_else(|| "this machine lacks it".to_owned(), |(_, r)| estimate(r));
        table.rows.push(vec![cpus.to_string(), here, format!("{paper:.2}")]);
    }
    table.notes.push(format!("this machine: {}", report.topology));
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::Manifest;
    use crate::tune::{Rung, Step};

    #[test]
    fn the_ladder_and_its_settings() {
        let estimate = |mean| Estimate { mean, low: Some(mean - 0.1), high: Some(mean + 0.1) };
        let tuned = Setup {
            batch_messages_max: Some(16),
            allocator: Some(crate::tune::Allocator::Preloaded("/usr/lib/libx.so".into())),
            ..Setup::default()
        };
        let rung = |name: &str, mean, gain| Rung {
            name: name.to_owned(),
            messages_per_second: estimate(mean),
            gain,
        };
        let mut report = Report {
            topology: "2 CPUs".into(),
            noise: Some(estimate(1.0)),
            steps: vec![Step {
                setting: "batch",
                name: "16 messages a sync".into(),
                ratio: estimate(1.2),
                cpu_ratio: None,
                again: Some(estimate(1.19)),
                kept: true,
            }],
            ladder: vec![
                rung("out of the box", 18.0, None),
                rung("batch: 16 messages a sync", 94.0, Some(estimate(1.2))),
            ],
            tuned,
            tuned_over_first: Some(estimate(1.2)),
            out_of_the_box_will_do: false,
            missing: vec!["placement: no core here has 2 threads".into()],
            unmeasured: vec!["batch: 64 messages a sync: no message was tried".into()],
            ceiling: 9_000.0,
            invalid: Vec::new(),
            workload: crate::load::trial::Workload { messages: 1, bytes: 2, hash: "x".into() },
            manifest: Manifest::here("0"),
        };
        let text = sheet(Some(&report), None).unwrap().text();
        for words in [
            "18.0",
            "94.0",
            "NOT within 5 %",
            "18 to 94",
            "kept",
            "no core here",
            "unmeasured: batch: 64",
        ] {
            assert!(text.contains(words), "{words} in {text}");
        }
        let file = settings(&report);
        assert!(file.contains("batch_messages_max = 16\n"), "{file}");
        assert!(file.contains("#   Environment=LD_PRELOAD=/usr/lib/libx.so"), "{file}");
        report.tuned = Setup::default();
        (report.noise, report.tuned_over_first) = (None, None);
        let text = sheet(Some(&report), None).unwrap().text();
        assert!(text.contains("over itself: unmeasured"), "{text}");
        assert!(settings(&report).contains("Nothing did"));
        assert!(sheet(None, None).is_none());
    }
}
