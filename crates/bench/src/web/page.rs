//! Load of a proxy as tables and charts.

use super::Report;
use super::held::Held;
use super::slow::SlowCounts;
use crate::http::page;
use crate::report::{Page, Table};

/// For the terminal and the page.
pub fn sheet(report: &Report) -> Page {
    let (mut tables, mut charts, mut invalid) = (Vec::new(), Vec::new(), Vec::new());
    for size in &report.sizes {
        let objects = format!("objects of {} bytes", size.bytes);
        let subjects = size.http.subjects.iter().filter(|s| !s.ladder.is_empty());
        let ladders = subjects.map(page::concurrency_table);
        let of_size = [page::rates(&size.http)].into_iter().chain(ladders);
        tables.extend(
            of_size.map(|table| Table { title: format!("{}: {objects}", table.title), ..table }),
        );
        tables.extend(page::download(&size.http));
        charts.extend(page::charts(&size.http).into_iter().map(|mut chart| {
            chart.name = format!("{}-{}", chart.name, size.bytes);
            chart
        }));
        invalid
            .extend(page::invalid(&size.http).into_iter().map(|why| format!("{objects}: {why}")));
    }
    tables.extend(report.slow.as_ref().map(slow));
    invalid.extend(report.held.iter().flat_map(|held| held.invalid.clone()));
    tables.extend(report.held.as_ref().map(held));
    if let Some(table) = tables.first_mut() {
        table.notes.push(report.workload.clone());
        table.notes.extend(report.notes.iter().map(|note| format!("{}: {note}", report.subject)));
    }
    let missing = report.sizes.iter().flat_map(|size| &size.http.missing);
    let missing: Vec<String> = missing.map(|why| format!("not measured: {why}")).collect();
    if let Some(table) = tables.last_mut() {
        table.notes.extend(missing);
    }
    Page { title: "Web".to_owned(), invalid, tables, charts, manifest: report.manifest.clone() }
}

fn held(held: &Held) -> Table {
    let heads = [
        "held",
        "memory before MB",
        "with them MB",
        "bytes each",
        "new ones: median ms",
        "99 % ms",
    ];
    let mut table = Table::new("Connections that are held open", &heads);
    let megabytes = |bytes: Option<u64>| {
        bytes.map_or("not read".to_owned(), |bytes| format!("{:.1}", bytes as f64 / 1e6))
    };
    table.rows = vec![vec![
        format!("{} of {}", held.open, held.wanted),
        megabytes(held.memory_before),
        megabytes(held.memory_held),
        held.bytes_per_connection.map_or("not read".to_owned(), |bytes| format!("{bytes:.0}")),
        page::milliseconds(held.new_answer.p50_us),
        page::milliseconds(held.new_answer.p99_us),
    ]];
    table.notes.push("one request was answered over each; of the proxy's memory".to_owned());
    table.notes.extend(held.first_error.iter().map(|error| format!("not held: {error}")));
    table
}

fn slow(counts: &SlowCounts) -> Table {
    let heads = ["opened", "refused", "closed by the server", "open at the end"];
    let mut table = Table::new("Slow clients: ten bytes a second", &heads);
    let numbers = [counts.opened, counts.refused, counts.closed, counts.held];
    table.rows = vec![numbers.iter().map(u64::to_string).collect()];
    table
}
