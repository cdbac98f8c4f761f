//! The overview: what passes now, and how the node is.

use std::collections::BTreeMap;

use axum::http::StatusCode;
use axum::response::Response;
use gauntlet_mail::date::{HOUR_MS, time_of_day};
use gauntlet_store::Query;
use gauntlet_store::log::{Bucket, Counts, Top};
use gauntlet_store::users::Role;
use gauntlet_verdict::Class;
use maud::{Markup, html};

use super::messages;
use crate::app::App;
use crate::error::RequestError;
use crate::latency::Distribution;
use crate::layout;
use crate::node::{Disk, NodeStatus};
use crate::plot::{self, Column};
use crate::request::RequestContext;
use crate::response;
use crate::text::{t, translatable};
use crate::{format, node};

const MINUTE_MS: i64 = 60_000;
/// Bars of the plot: one an hour.
const HOURS: i64 = 24;
/// Whole minutes over which the rate of messages is taken.
const RATE_MINUTES: i64 = 5;
/// Messages in the list of the newest.
const NEWEST: usize = 8;
/// Names in a list of the most frequent.
const TOP: usize = 8;
/// Stages whose times are shown: what they are called here and in the metrics.
const STAGES: [(&str, &str); 5] = [
    (translatable("Answer to the client"), "gauntlet_answer_seconds"),
    (translatable("Network checks"), "gauntlet_facts_seconds"),
    (translatable("Scan and policy"), "gauntlet_scan_seconds"),
    (translatable("Stable storage"), "gauntlet_spool_seconds"),
    (translatable("Last outcome"), "gauntlet_delivery_seconds"),
];
/// Free share of a disk below which it is marked.
const DISK_FREE_LOW: f64 = 0.10;

/// `GET /`.
pub(crate) fn show(app: &App, request: &RequestContext) -> Result<Response, RequestError> {
    if request.role() == Role::User {
        return Ok(response::redirect("/quarantine"));
    }
    let log = &app.state.messages;
    let until = (request.now_ms.div_euclid(HOUR_MS) + 1) * HOUR_MS;
    let counts = log.counts(until - HOURS * HOUR_MS, until, 60)?;
    let minute = request.now_ms.div_euclid(MINUTE_MS) * MINUTE_MS;
    let lately = log.volume(minute - RATE_MINUTES * MINUTE_MS, minute, 1)?;
    let newest = log.search(&Query { limit: NEWEST, ..Query::default() })?;
    let held: u64 = app.state.held.folders()?.iter().map(|f| f.items).sum();
    let node = &app.state.node;
    let status = node.status();
    let body = html! {
        h1 { (t("Overview")) }
        (layout::stale(true))
        div id="list" data-live {
            @for problem in &status.problems { p.notice.poor role="alert" { (problem) } }
            @for question in &status.questions { p.notice.poor role="alert" { (question) } }
            @for warning in &status.warnings { p.notice.poor role="alert" { (warning) } }
            (tiles(&counts, held, &status))
            section.card { h2 { (t("Messages an hour, last 24 hours (UTC)")) } (hours(&counts, until)) }
            div.halves {
                section.card { h2 { (t("Top rules")) } (tops(&counts.top_rules, "rule")) }
                section.card { h2 { (t("Top sender domains")) } (tops(&counts.top_senders, "domain")) }
            }
            div.halves {
                section.card { h2 { (t("Messages a second, last {} minutes").with(RATE_MINUTES)) } (rates(&lately)) }
                section.card { h2 { (t("Latency")) } (times(&node.metrics())) }
            }
            div.halves {
                section.card { h2 { (t("Nodes")) } (nodes(&status)) }
                section.card { h2 { (t("Disks")) } (disks(&node.disks())) }
            }
            h2 { (t("Newest")) }
            (messages::list(&newest))
        }
    };
    Ok(response::page(StatusCode::OK, layout::page(request, "/", t("Overview"), &body)))
}

/// The nodes whose log this is. One today: nodes do not talk to each other.
fn nodes(status: &NodeStatus) -> Markup {
    html! {
        details.places open {
            summary { b { (status.name) } (t(", version {}").with(&status.version))
                @if status.started_ms > 0 { (t(", since {}").with(format::time(status.started_ms))) } }
            dl.pairs {
                dt { (t("Takes mail")) } dd { @if status.problems.is_empty() { (t("yes")) } @else { (t("no")) } }
                dt { (t("Sessions")) } dd { (format::count(status.sessions)) }
                dt { (t("Ruleset")) } dd { code { (status.ruleset) } }
                @for (name, place) in &status.locations { dt { (name) } dd { code { (place) } } }
            }
        }
    }
}

/// How full the disks are.
pub(super) fn disks(disks: &[Disk]) -> Markup {
    html! {
        table.costs {
            tbody {
                @for disk in disks {
                    @let used = disk.total.saturating_sub(disk.free);
                    tr {
                        th scope="row" { (disk.what) " " code { (disk.path) } }
                        td.bar { meter min="0" max=(disk.total) value=(used) aria-hidden="true" {} }
                        td.number {
                            @if (disk.free as f64) < DISK_FREE_LOW * disk.total as f64 { b { (t("low:")) " " } }
                            (t("{} free of {}").with(format::bytes(disk.free)).with(format::bytes(disk.total))) }
                    }
                }
                @if disks.is_empty() { tr { td { (t("Unknown.")) } } }
            }
        }
    }
}

fn times(metrics: &str) -> Markup {
    let shown = |us: Option<u64>| us.map_or_else(|| "-".to_owned(), format::duration_us);
    html! {
        table.costs {
            caption { (t("Since the start: median and 95th percentile")) }
            tbody {
                @for (name, metric) in STAGES {
                    @if let Some(found) = Distribution::read(metrics, metric) {
                        tr {
                            th scope="row" { (t(name)) }
                            td.number { (shown(found.quantile_us(0.5))) }
                            td.number { (shown(found.quantile_us(0.95))) }
                        }
                    }
                }
            }
        }
    }
}

fn rates(lately: &[Bucket]) -> Markup {
    let seconds = (RATE_MINUTES * 60) as f64;
    let sums = by_class(lately);
    let all: u64 = sums.values().sum();
    html! {
        table.costs {
            tbody {
                tr { th scope="row" { (t("all")) } td.number { (format!("{:.2}", all as f64 / seconds)) } }
                @for (class, n) in &sums {
                    tr { th scope="row" { (layout::class_pill(*class)) }
                        td.number { (format!("{:.2}", *n as f64 / seconds)) } }
                }
            }
        }
    }
}

fn by_class(buckets: &[Bucket]) -> BTreeMap<Class, u64> {
    let mut sums = BTreeMap::new();
    for bucket in buckets {
        *sums.entry(bucket.class).or_default() += bucket.messages;
    }
    sums
}

fn tiles(counts: &Counts, held: u64, status: &node::NodeStatus) -> Markup {
    let sums = by_class(&counts.buckets);
    let all: u64 = sums.values().sum();
    let unwanted: u64 = sums.iter().filter(|(c, _)| **c >= Class::Spam).map(|(_, n)| n).sum();
    let share = if all > 0 { 100.0 * unwanted as f64 / all as f64 } else { 0.0 };
    html! {
        div.tiles {
            a.tile href="/messages" { b { (format::count(all)) } span { (t("messages in 24 hours")) } }
            div.tile { b { (format!("{share:.0} %")) } span { (t("of them unwanted")) } }
            a.tile href="/quarantine" { b { (format::count(held)) } span { (t("held for a decision")) } }
            a.tile href="/messages?outcome=queued" {
                b { (format::count(status.queued)) }
                span { (t("in the queue"))
                    @if status.queue_age_ms > 0 {
                        (t(", oldest {}").with(format::duration_us(status.queue_age_ms * 1000))) } }
            }
        }
    }
}

/// The last hours as stacked bars.
fn hours(counts: &Counts, until: i64) -> Markup {
    let first = until / HOUR_MS - HOURS;
    let mut columns: Vec<Column> = (first..first + HOURS)
        .enumerate()
        .map(|(n, hour)| {
            let clock = time_of_day(hour * HOUR_MS);
            let label = if n % 4 == 0 { clock[..5].to_owned() } else { String::new() };
            Column { label, title: format::day_and_clock(hour * HOUR_MS), parts: Vec::new() }
        })
        .collect();
    let mut hours: BTreeMap<i64, BTreeMap<Class, u64>> = BTreeMap::new();
    for bucket in &counts.buckets {
        let classes = hours.entry(bucket.start_ms.div_euclid(HOUR_MS) - first).or_default();
        *classes.entry(bucket.class).or_default() += bucket.messages;
    }
    for (at, classes) in hours {
        if let Some(column) = usize::try_from(at).ok().and_then(|at| columns.get_mut(at)) {
            column.parts = classes.into_iter().collect();
        }
    }
    plot::stacked(t("Messages an hour"), &columns)
}

fn tops(tops: &[Top], field: &str) -> Markup {
    let names: Vec<(String, u64)> =
        tops.iter().take(TOP).map(|t| (t.name.clone(), t.messages)).collect();
    plot::tops(&names, |name| format!("/messages?{field}={}", format::percent(name)))
}
