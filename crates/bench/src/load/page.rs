//! A trial as one self-contained HTML page with its charts.

use std::fmt::Write as _;

use super::trial::{Estimate, Subject, Trial};
use crate::plot::{self, Axis, Drawing, Line, Scale};
use crate::report::Chart;

/// Points of the curve of latencies for each subject.
const QUANTILES: u32 = 60;

/// The report as an HTML page.
pub fn page(trial: &Trial) -> String {
    let title = format!("Load over {}", trial.protocol.name());
    let mut body = String::new();
    if !trial.valid {
        body.push_str(
            "<div class=\"invalid\"><strong>INVALID</strong>: the client was the limit.<ul>",
        );
        for why in trial.subjects.iter().flat_map(|s| &s.rounds).flat_map(|r| &r.invalid) {
            let _ = write!(body, "<li>{}</li>", plot::escape(why));
        }
        body.push_str("</ul></div>\n");
    }
    body.push_str(&table(trial));
    let _ = write!(
        body,
        "<figure>{}</figure>\n<figure>{}</figure>\n<h2>Conditions</h2>\n<table>{}</table>\n",
        latencies(&trial.subjects).svg(),
        samples(&trial.subjects).svg(),
        conditions(trial)
    );
    plot::page(&title, &body)
}

/// The charts by themselves: latencies, answers by second.
pub fn charts(trial: &Trial) -> [Chart; 2] {
    [("latency", latencies(&trial.subjects)), ("rate", samples(&trial.subjects))]
        .map(|(name, drawing)| Chart { name: name.to_owned(), drawing })
}

/// `12.3 (11.9 to 12.8)`.
pub fn estimate(value: &Estimate) -> String {
    let digits = if value.mean.abs() < 100.0 { 2 } else { 0 };
    match (value.low, value.high) {
        (Some(low), Some(high)) => {
            format!("{:.digits$} ({low:.digits$} to {high:.digits$})", value.mean)
        }
        _ => format!("{:.digits$}", value.mean),
    }
}

fn table(trial: &Trial) -> String {
    let mut out = "<table><tr><th>server</th><th>messages/s</th><th>CPU µs a message</th>\
                   <th>memory MB</th><th>median ms</th><th>99 % ms</th><th>failed</th></tr>\n"
        .to_owned();
    for subject in &trial.subjects {
        let cpu = subject.server_cpu_us_per_message.as_ref().map(estimate);
        let memory = subject.rounds.last().and_then(|r| r.server_memory_bytes);
        let _ = writeln!(
            out,
            "<tr><th>{}</th><td>{}</td><td>{}</td><td>{}</td><td>{:.2}</td><td>{:.2}</td><td>{}</td></tr>",
            plot::escape(&subject.target.name),
            estimate(&subject.messages_per_second),
            cpu.unwrap_or_else(|| "not read".to_owned()),
            memory.map_or_else(|| "not read".to_owned(), |b| format!("{:.1}", b as f64 / 1e6)),
            subject.latency.p50_us / 1e3,
            subject.latency.p99_us / 1e3,
            subject.rounds.iter().map(|r| r.measured.failed).sum::<u64>()
        );
    }
    out.push_str("</table>\n");
    if let Some(comparison) = &trial.comparison {
        for (what, ratio) in
            [("messages/s", &comparison.rate_ratio), ("CPU a message", &comparison.cpu_ratio)]
        {
            if let Some(ratio) = ratio {
                let _ = writeln!(
                    out,
                    "<p>The first over the second, {what}: {} (95 %).</p>",
                    estimate(ratio)
                );
            }
        }
    }
    out
}

fn latencies(subjects: &[Subject]) -> Drawing {
    let line = |subject: &Subject| {
        let mut all = subject.rounds.iter().map(|r| r.measured.histogram.clone());
        let mut points = Vec::new();
        if let Some(mut sum) = all.next() {
            for other in all {
                // Both were made with the same bounds.
                let _ = sum.add(other);
            }
            for step in 0..=QUANTILES {
                // From the median on, evenly in the number of nines.
                let tail = 0.5 * 10_f64.powf(-3.3 * f64::from(step) / f64::from(QUANTILES));
                let value = sum.value_at_quantile(1.0 - tail) as f64 / 1e6;
                points.push((1.0 / tail, value));
            }
        }
        Line { name: subject.target.name.clone(), points }
    };
    plot::chart(
        "Latency",
        Axis {
            name: "one message in so many is slower (2: median, 100: 99 %)",
            scale: Scale::Logarithmic,
        },
        Axis { name: "ms", scale: Scale::Logarithmic },
        &subjects.iter().map(line).collect::<Vec<_>>(),
    )
}

fn samples(subjects: &[Subject]) -> Drawing {
    let line = |subject: &Subject| {
        let samples = subject.rounds.iter().flat_map(|r| r.measured.samples.iter().copied());
        let points = samples.zip(0_u32..).map(|(count, n)| (f64::from(n), count as f64)).collect();
        Line { name: subject.target.name.clone(), points }
    };
    plot::chart(
        "Answers",
        Axis { name: "second, all runs one after the other", scale: Scale::Linear },
        Axis { name: "messages/s", scale: Scale::Linear },
        &subjects.iter().map(line).collect::<Vec<_>>(),
    )
}

fn conditions(trial: &Trial) -> String {
    let manifest = &trial.manifest;
    let loop_kind = trial.rate.map_or_else(
        || "closed".to_owned(),
        |rate| format!("open, {rate} messages/s, latency from when a message was due"),
    );
    let ceiling = trial.ceiling.map_or_else(|| "not measured".to_owned(), |c| format!("{c:.0}"));
    let rows = [
        ("loop", loop_kind),
        ("connections", trial.connections.to_string()),
        ("client threads", trial.threads.to_string()),
        ("client's ceiling, messages/s", ceiling),
        (
            "messages",
            format!(
                "{}, {:.1} MB, {}",
                trial.workload.messages,
                trial.workload.bytes as f64 / 1e6,
                trial.workload.hash
            ),
        ),
        ("machine", format!("{}, {} CPUs", manifest.cpu_model, manifest.cpus)),
        ("system", format!("{}, kernel {}", manifest.system, manifest.kernel)),
        ("governor", manifest.governor.clone()),
        (
            "program",
            format!("{} build {} commit {}", manifest.version, manifest.build, manifest.commit),
        ),
    ];
    rows.iter()
        .map(|(name, value)| format!("<tr><th>{name}</th><td>{}</td></tr>\n", plot::escape(value)))
        .collect()
}
