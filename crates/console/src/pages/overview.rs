//! The overview: what passes now, and how the node is.

use std::collections::BTreeMap;

use axum::http::StatusCode;
use axum::response::Response;
use gauntlet_engine::Class;
use gauntlet_store::Query;
use gauntlet_store::log::{Counts, Top};
use gauntlet_store::users::Role;
use maud::{Markup, html};

use super::messages;
use crate::fault::Fault;
use crate::format;
use crate::node::NodeStatus;
use crate::server::App;
use crate::shell;
use crate::visit::{self, Visit};

const HOUR_MS: i64 = 3_600_000;
/// Bars of the plot: one an hour.
const HOURS: i64 = 24;
/// Newest messages shown.
const NEWEST: usize = 8;
/// Names in a list of the most frequent.
const TOP: usize = 8;

/// `GET /`.
pub(crate) fn show(app: &App, visit: &Visit) -> Result<Response, Fault> {
    if visit.role() == Role::User {
        return Ok(visit::redirect("/quarantine"));
    }
    let until = (visit.now_ms.div_euclid(HOUR_MS) + 1) * HOUR_MS;
    let counts = app.state.log.counts(until - HOURS * HOUR_MS, until, 60)?;
    let newest = app.state.log.search(&Query { limit: NEWEST, ..Query::default() })?;
    let held: u64 = app.state.quarantine.folders()?.iter().map(|f| f.items).sum();
    let status = app.state.node.status();
    let body = html! {
        h1 { "Overview" }
        div id="list" data-live {
            (health(&status))
            (tiles(&counts, held, &status))
            section.card { h2 { "Messages an hour, last 24 hours (UTC)" } (plot(&counts, until)) }
            div.halves {
                section.card { h2 { "Rules that hit most" } (tops(&counts.top_rules, "rule")) }
                section.card { h2 { "Domains that sent most" } (tops(&counts.top_senders, "domain")) }
            }
            h2 { "Newest" }
            (messages::list(&newest))
        }
    };
    Ok(visit::page(StatusCode::OK, &shell::page(visit, "/", "Overview", &body)))
}

fn health(status: &NodeStatus) -> Markup {
    html! {
        @for problem in &status.problems { p.notice.poor role="alert" { (problem) } }
        details.places {
            summary { "Node " b { (status.name) } ", version " (status.version)
                @if status.started_ms > 0 { ", since " (format::time(status.started_ms)) } }
            dl.pairs {
                dt { "Ruleset" } dd { code { (status.ruleset) } }
                @for (name, place) in &status.places { dt { (name) } dd { code { (place) } } }
            }
        }
    }
}

fn by_class(counts: &Counts) -> BTreeMap<Class, u64> {
    let mut sums = BTreeMap::new();
    for bucket in &counts.buckets {
        *sums.entry(bucket.class).or_default() += bucket.messages;
    }
    sums
}

fn tiles(counts: &Counts, held: u64, status: &NodeStatus) -> Markup {
    let sums = by_class(counts);
    let all: u64 = sums.values().sum();
    let unwanted: u64 = sums.iter().filter(|(c, _)| **c >= Class::Spam).map(|(_, n)| n).sum();
    let share = if all > 0 { 100.0 * unwanted as f64 / all as f64 } else { 0.0 };
    html! {
        div.tiles {
            a.tile href="/messages" { b { (format::count(all)) } span { "messages in 24 hours" } }
            div.tile { b { (format!("{share:.0} %")) } span { "of them unwanted" } }
            a.tile href="/quarantine" { b { (format::count(held)) } span { "held for a decision" } }
            a.tile href="/messages?outcome=queued" {
                b { (format::count(status.queued)) }
                span { "in the queue"
                    @if status.queue_age_ms > 0 {
                        ", oldest " (format::duration_us(status.queue_age_ms * 1000)) } }
            }
        }
    }
}

/// Width of a bar with its gap, and height of the plot, in the picture's own units.
const BAR: i64 = 30;
const HEIGHT: f64 = 140.0;

/// Stacked bars, one an hour; also readable as a table by those who do not see it.
fn plot(counts: &Counts, until: i64) -> Markup {
    let mut hours: BTreeMap<i64, BTreeMap<Class, u64>> = BTreeMap::new();
    for bucket in &counts.buckets {
        let classes = hours.entry(bucket.start_ms.div_euclid(HOUR_MS)).or_default();
        *classes.entry(bucket.class).or_default() += bucket.messages;
    }
    let most = hours.values().map(|c| c.values().sum::<u64>()).max().unwrap_or(0).max(1);
    let first = until / HOUR_MS - HOURS;
    let sums = by_class(counts);
    html! {
        svg.plot viewBox={ "0 -18 " (HOURS * BAR) " " (HEIGHT + 40.0) } role="img"
            aria-label={ "Messages an hour, at most " (format::count(most)) } {
            @for line in 0..=2u32 {
                line.grid x1="0" x2=(HOURS * BAR) y1=(HEIGHT * f64::from(line) / 2.0)
                    y2=(HEIGHT * f64::from(line) / 2.0) {}
            }
            @for hour in 0..HOURS {
                (bar(hours.get(&(first + hour)), most, hour * BAR, (first + hour) * HOUR_MS))
                @if hour % 4 == 0 {
                    text x=(hour * BAR) y=(HEIGHT + 16.0) {
                        (&format::clock((first + hour) * HOUR_MS)[..5])
                    }
                }
            }
            text.most x=(HOURS * BAR) y="-6" text-anchor="end" { (format::count(most)) }
        }
        ul.legend {
            @for (class, n) in &sums {
                li { span class={ "key fill-" (class.name()) } {} (class.name()) " "
                    b { (format::count(*n)) } }
            }
            @if sums.is_empty() { li { "No messages yet." } }
        }
    }
}

fn bar(classes: Option<&BTreeMap<Class, u64>>, most: u64, x: i64, start_ms: i64) -> Markup {
    let Some(classes) = classes else { return html! {} };
    let mut y = HEIGHT;
    let total: u64 = classes.values().sum();
    html! {
        g {
            title { (format::day_and_clock(start_ms)) ": " (format::count(total)) }
            @for (class, n) in classes {
                @let height = HEIGHT * *n as f64 / most as f64;
                ({ y -= height; "" })
                rect class={ "fill-" (class.name()) } x=(x) y=(format!("{y:.1}")) width=(BAR - 5)
                    height=(format!("{height:.1}")) {}
            }
        }
    }
}

fn tops(tops: &[Top], field: &str) -> Markup {
    let most = tops.first().map_or(1, |t| t.messages.max(1));
    html! {
        table.costs {
            tbody {
                @for top in tops.iter().take(TOP) {
                    tr {
                        th scope="row" {
                            a href={ "/messages?" (field) "=" (format::percent(&top.name)) } {
                                (format::plain(&top.name)) }
                        }
                        td.bar { meter min="0" max=(most) value=(top.messages)
                            aria-hidden="true" {} }
                        td.number { (format::count(top.messages)) }
                    }
                }
                @if tops.is_empty() { tr { td { "None yet." } } }
            }
        }
    }
}
