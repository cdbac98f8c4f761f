//! Suricata and our packet path beside each other as tables.

use super::{Agreement, Contest, Entry, Report, Spread};
use crate::report::{Page, Table};

const COLUMNS: [&str; 11] = [
    "program",
    "CPU s",
    "the peer's CPU beside it",
    "s",
    "the peer's time beside it",
    "packets/CPU s",
    "packets/s",
    "Gbit/s",
    "starting: CPU s",
    "starting: s",
    "memory MB",
];

const ALERTS: [&str; 6] =
    ["alerts", "all", "equal", "on another packet of the flow", "only its own", "only the peer's"];

/// For the terminal and the page.
pub fn sheet(report: &Report) -> Page {
    let mut tables = Vec::new();
    for contest in &report.contests {
        tables.push(figures(contest, report));
        if contest.with_rules {
            tables.push(alerts(contest));
        }
    }
    let mut notes = vec![
        format!(
            "{}; runs in turn after one that is not counted; medians of {} rounds (least to most); \
             ratios by round",
            report.date, report.rounds
        ),
        "CPU s: user and system time of the whole process, less what the same command takes over \
         the first packet alone (starting), measured right before; of loading, which is until the \
         capture is opened, each run's own is subtracted; rates are of what is left"
            .to_owned(),
    ];
    notes.extend(pressure(report));
    notes.extend(report.missing.iter().map(|why| format!("not measured: {why}")));
    match tables.last_mut() {
        Some(last) => last.notes.extend(notes),
        None => tables.push(Table { notes, ..Table::new("Nothing was measured", &[]) }),
    }
    let invalid = |contest: &Contest| {
        let what = title(contest, report);
        let entry = |entry: &Entry| {
            let of = |why: &String| format!("{what}: {}: {why}", entry.name);
            entry.invalid.iter().map(of).collect::<Vec<_>>()
        };
        contest.entries.iter().flat_map(entry).collect::<Vec<_>>()
    };
    Page {
        title: "Packets beside Suricata".to_owned(),
        invalid: report.contests.iter().flat_map(invalid).collect(),
        tables,
        charts: Vec::new(),
        manifest: report.manifest.clone(),
    }
}

/// Whether something else wanted the CPUs.
fn pressure(report: &Report) -> Option<String> {
    let runs = report.contests.iter().flat_map(|c| &c.entries).flat_map(|entry| &entry.runs);
    let share = Spread::of(runs.filter_map(|run| run.cpu_pressure_share))?;
    Some(format!(
        "while they ran, some process of the machine waited for a CPU {:.0} % of the time ({:.0} to {:.0} %)",
        share.median * 100.0,
        share.least * 100.0,
        share.most * 100.0
    ))
}

fn title(contest: &Contest, report: &Report) -> String {
    let facts = &contest.capture;
    let copies =
        if facts.copies > 1 { format!("{} copies of ", facts.copies) } else { String::new() };
    let rules = match contest.with_rules {
        true => report.rules.join(", "),
        false => "without rules".to_owned(),
    };
    format!(
        "{:?}: {copies}{}, {} packets, {:.1} MB, {rules}",
        contest.peer,
        facts.name,
        facts.packets,
        facts.bytes as f64 / 1e6
    )
}

fn figures(contest: &Contest, report: &Report) -> Table {
    let mut table = Table::new(&title(contest, report), &COLUMNS);
    let or_not = |text: Option<String>| text.unwrap_or_else(|| "–".to_owned());
    let times = |ratio: &Spread| format!("{} times", spread(ratio));
    let row = |entry: &Entry| {
        vec![
            entry.name.clone(),
            spread(&entry.cpu_seconds),
            or_not(entry.peer_cpu_ratio.as_ref().map(times)),
            spread(&entry.seconds),
            or_not(entry.peer_time_ratio.as_ref().map(times)),
            or_not(entry.packets_per_cpu_second.as_ref().map(spread)),
            or_not(entry.packets_per_second.as_ref().map(spread)),
            or_not(entry.gigabits_per_second.as_ref().map(spread)),
            spread(&entry.start_cpu_seconds),
            spread(&entry.start_seconds),
            format!("{:.0}", entry.peak_bytes as f64 / 1e6),
        ]
    };
    table.rows = contest.entries.iter().map(row).collect();
    table.notes = contest.entries.iter().map(setting).collect();
    let facts = &contest.capture;
    if facts.unchanged > 0 {
        table.notes.push(format!(
            "{} packets of the capture have no address to change and are the same in all copies",
            facts.unchanged
        ));
    }
    table.notes.extend(facts.damage.iter().map(|why| format!("the capture is {why}")));
    table
}

fn setting(entry: &Entry) -> String {
    let rules = entry
        .rules
        .map(|count| format!("; {} rules in use, {} left out", count.loaded, count.left_out));
    format!("{} ({}): {}{}", entry.name, entry.version, entry.command, rules.unwrap_or_default())
}

fn alerts(contest: &Contest) -> Table {
    let peer = contest.entries.last().map_or("the peer", |entry| entry.name.as_str());
    let mut table = Table::new(&format!("Alerts beside those of {peer}"), &ALERTS);
    let row = |entry: &Entry| {
        let mut cells = vec![entry.name.clone(), entry.alerts.to_string()];
        match &entry.agreement {
            Some(found) => cells.extend(agreement(found)),
            None => cells.extend(std::iter::repeat_n("–".to_owned(), ALERTS.len() - 2)),
        }
        cells
    };
    table.rows = contest.entries.iter().map(row).collect();
    table.notes.push("equal: the same rule on the same packet".to_owned());
    table
}

fn agreement(found: &Agreement) -> [String; 4] {
    let alone = |count: u64, rules: &[String]| match count {
        0 => "0".to_owned(),
        _ => format!("{count} ({})", rules.join(", ")),
    };
    [
        found.equal.to_string(),
        found.on_another_packet.to_string(),
        alone(found.ours_alone, &found.ours_alone_rules),
        alone(found.theirs_alone, &found.theirs_alone_rules),
    ]
}

/// `1.23 (1.10 to 1.40)`.
fn spread(value: &Spread) -> String {
    let digits = if value.median.abs() < 100.0 { 2 } else { 0 };
    let Spread { median, least, most } = value;
    if least == most {
        return format!("{median:.digits$}");
    }
    format!("{median:.digits$} ({least:.digits$} to {most:.digits$})")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_as_they_are_shown() {
        assert_eq!(spread(&Spread { median: 1.0, least: 1.0, most: 1.0 }), "1.00");
        assert_eq!(spread(&Spread { median: 123.4, least: 99.0, most: 200.0 }), "123 (99 to 200)");
        let found = Agreement {
            equal: 7,
            theirs_alone: 2,
            theirs_alone_rules: vec!["1:5".into(), "1:6".into()],
            ..Agreement::default()
        };
        assert_eq!(agreement(&found), ["7", "0", "0", "2 (1:5, 1:6)"]);
    }
}
