//! The rules: how often each hit, what it costs, and which never do.

use axum::http::StatusCode;
use axum::response::Response;
use gauntlet_mail::date::DAY_MS;
use gauntlet_store::log::TopKind;
use gauntlet_store::quarantine::{HeldQuery, State};
use maud::{Markup, html};
use serde::Serialize;

use super::query_fields::number;
use crate::app::{App, RuleCosts};
use crate::error::RequestError;
use crate::format;
use crate::layout;
use crate::node::RuleInfo;
use crate::request::RequestContext;
use crate::response;
use crate::text::{t, translatable};

/// Days looked back by default.
const DAYS_DEFAULT: i64 = 30;
/// Most days looked back.
pub(crate) const DAYS_MAX: i64 = 100;
/// Held messages on which costs are measured, and the longest of them in bytes: a second or two.
const MEASURED_MAX: usize = 200;
const MEASURED_BYTES_MAX: u64 = 300_000;
/// Rules shown; the rest is in the CSV and the API.
const SHOWN_MAX: usize = 500;

/// A rule with what it did.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Usage {
    #[serde(flatten)]
    pub(crate) rule: RuleInfo,
    /// Messages that it hit in the days looked at.
    pub(crate) hits: u64,
    /// It is in force, gives points, and hit nothing.
    pub(crate) dead: bool,
    /// Microseconds a message, where it was measured.
    pub(crate) cost_us: Option<f64>,
}

/// What the rules did in the last days, those that hit most first.
pub(crate) fn usage(app: &App, days: i64, now_ms: i64) -> Result<Vec<Usage>, RequestError> {
    let mut hits =
        app.state.messages.tops(TopKind::Rule, now_ms - days * DAY_MS, now_ms + DAY_MS)?;
    let measured = app.measured();
    let cost = |name: &str| {
        let found = measured.as_ref().filter(|m| m.messages > 0)?;
        Some(*found.costs.get(name)? as f64 / 1e3 / found.messages as f64)
    };
    let mut all: Vec<Usage> = Vec::new();
    for rule in app.state.node.rules() {
        let hits = hits.remove(&rule.name).unwrap_or(0);
        let (dead, cost_us) = (hits == 0 && rule.score != 0.0, cost(&rule.name));
        all.push(Usage { rule, hits, dead, cost_us });
    }
    // Hits of rules that were in force then and are no more.
    all.extend(hits.into_iter().map(|(name, hits)| {
        let (kind, description) = ("gone".to_owned(), String::new());
        let rule = RuleInfo { name, kind, score: 0.0, description };
        Usage { rule, hits, dead: false, cost_us: None }
    }));
    all.sort_by(|a, b| b.hits.cmp(&a.hits).then_with(|| a.rule.name.cmp(&b.rule.name)));
    Ok(all)
}

/// Measures what the rules cost on the newest held mail, and keeps the result.
pub(crate) fn measure(app: &App, now_ms: i64) -> Result<RuleCosts, RequestError> {
    let query = HeldQuery { state: Some(State::Held), limit: 500, ..HeldQuery::default() };
    let mut bodies = Vec::new();
    for held in app.state.quarantine.search(&query)?.items {
        if bodies.len() < MEASURED_MAX && held.size <= MEASURED_BYTES_MAX {
            bodies.extend(app.state.quarantine.body(&held.item.id)?);
        }
    }
    if bodies.is_empty() {
        let why = translatable("Costs are measured on held mail, and nothing is held.");
        return Err(RequestError::Bad(why.to_owned()));
    }
    let costs = app.state.node.rule_costs(&bodies);
    let costs = costs.into_iter().map(|c| (c.name, c.cost_ns)).collect();
    let measured = RuleCosts { at_ms: now_ms, messages: bodies.len(), costs };
    app.set_measured(measured.clone());
    Ok(measured)
}

/// Days that the request asks for.
pub(crate) fn days(request: &RequestContext) -> Result<i64, RequestError> {
    let days = number(request, "days")?.unwrap_or(DAYS_DEFAULT);
    if (1..=DAYS_MAX).contains(&days) {
        return Ok(days);
    }
    Err(RequestError::Bad(format!("days: a whole number from 1 to {DAYS_MAX}")))
}

/// `GET /rules`.
pub(crate) fn show(app: &App, request: &RequestContext) -> Result<Response, RequestError> {
    let days = days(request)?;
    let mut all = usage(app, days, request.now_ms)?;
    let counts = (all.len(), all.iter().filter(|u| u.dead).count());
    let (which, word) = (request.field("show"), request.field("name").to_uppercase());
    match which {
        "dead" => all.retain(|u| u.dead),
        "costly" => {
            let cost = |u: &Usage| u.cost_us.unwrap_or(0.0);
            all.sort_by(|a, b| cost(b).total_cmp(&cost(a)));
        }
        _ => {}
    }
    all.retain(|u| word.is_empty() || u.rule.name.to_uppercase().contains(&word));
    let body = html! {
        h1 { (t("Rules")) }
        p.lead { (t("{} rules can hit. {} of those that give points did not hit once in {} days.").with(format::count(counts.0 as u64)).with(format::count(counts.1 as u64)).with(days)) }
        (filter(request, days, which))
        (costs(app, request))
        (table(&all, days))
    };
    Ok(response::page(StatusCode::OK, layout::page(request, "/rules", t("Rules"), &body)))
}

fn filter(request: &RequestContext, days: i64, which: &str) -> Markup {
    html! {
        form.filter.card method="get" action="/rules" role="search" {
            div.fields {
                (layout::input("name", t("Part of the name"), request.field("name"), "search", "URL"))
                label { span { (t("Days")) }
                    input type="number" name="days" min="1" max=(DAYS_MAX) value=(days); }
                label { span { (t("Show")) }
                    select name="show" {
                        @for (value, name) in
                            [("", translatable("those that hit most first")), ("costly", translatable("the costliest first")),
                             ("dead", translatable("those that never hit"))] {
                            option value=(value) selected[value == which] { (t(name)) }
                        }
                    }
                }
            }
            div.actions { button.main type="submit" { (t("Show")) } }
        }
    }
}

fn costs(app: &App, request: &RequestContext) -> Markup {
    html! {
        form.actions.above method="post" action="/rules/measure" {
            (layout::token(request))
            button type="submit" { (t("Measure costs on held mail")) }
            @match app.measured() {
                Some(found) => span.hint { (t("Measured {} on {} messages, without work that rules share.").with(format::time(found.at_ms)).with(found.messages)) },
                None => span.hint { (t("Not measured since the node started.")) },
            }
        }
    }
}

fn table(all: &[Usage], days: i64) -> Markup {
    html! {
        section.card.flush.rules { table.cards {
            thead { tr {
                th scope="col" { (t("Rule")) } th.number scope="col" { (t("Hits in {} days").with(days)) }
                th.number scope="col" { (t("Points")) } th.number scope="col" { (t("Cost a message")) }
                th scope="col" { (t("Kind")) }
            } }
            tbody {
                @for usage in all.iter().take(SHOWN_MAX) { (row(usage)) }
                @if all.is_empty() { tr { td.empty colspan="5" { (t("No rule fits.")) } } }
            }
        } }
        @if all.len() > SHOWN_MAX {
            p.hint { (t("And {} more: name a part of what you look for.").with(all.len() - SHOWN_MAX)) }
        }
    }
}

fn row(usage: &Usage) -> Markup {
    let Usage { rule, hits, dead, cost_us } = usage;
    html! {
        tr {
            td data-label=(t("Rule")) {
                a href={ "/messages?rule=" (format::percent(&rule.name)) } { (format::plain(&rule.name)) }
                @if !rule.description.is_empty() { span.more { " " (format::plain(&rule.description)) } }
            }
            td.number data-label=(t("Hits")) {
                @if *dead { span.state.state-failed { (t("none")) } } @else { (format::count(*hits)) }
            }
            td.number data-label=(t("Points")) { (format::points(rule.score)) }
            td.number data-label=(t("Cost")) {
                @match cost_us { Some(us) => (format!("{us:.1} µs")), None => "-" }
            }
            td data-label=(t("Kind")) { (rule.kind) }
        }
    }
}

/// `POST /rules/measure`.
pub(crate) fn measure_now(app: &App, request: &RequestContext) -> Result<Response, RequestError> {
    measure(app, request.now_ms)?;
    Ok(response::redirect("/rules?show=costly"))
}
