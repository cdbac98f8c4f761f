//! Web requests: the newest, with a filter, and what the last day was about.

use axum::http::StatusCode;
use axum::response::Response;
use gauntlet_mail::date::DAY_MS;
use gauntlet_store::WebLog;
use gauntlet_store::web_log::{WebCount, WebCursor, WebPage, WebQuery, WebRow, WebSummary};
use maud::{Markup, html};

use super::query_fields::{day, number};
use crate::app::App;
use crate::error::RequestError;
use crate::request::RequestContext;
use crate::response;
use crate::text::{Phrase, t, translatable};
use crate::{format, layout};

/// Names of each list of the summary that the page shows.
const TOP: usize = 5;

/// Names of outcomes, for the filter.
const OUTCOMES: [&str; 5] = [
    translatable("passed"),
    translatable("tunnel"),
    translatable("blocked"),
    translatable("failed"),
    translatable("aborted"),
];

/// The web log, if the node has one.
pub(crate) fn log(app: &App) -> Result<&WebLog, RequestError> {
    let none =
        || RequestError::NotFound(translatable("This node has no listener for web requests."));
    app.state.web_log.as_deref().ok_or_else(none)
}

/// Reads a query from the fields of a request.
pub(crate) fn query(request: &RequestContext) -> Result<WebQuery, RequestError> {
    let text = |name| request.field(name).to_owned();
    Ok(WebQuery {
        client: text("client"),
        user: text("user"),
        host: text("host"),
        text: text("text"),
        outcome: text("outcome"),
        rule: text("rule"),
        category: text("category"),
        reference: text("reference"),
        since_ms: day(request, "since")?,
        until_ms: day(request, "until")?.map(|ms| ms + DAY_MS),
        after: number(request, "after")?.map(WebCursor),
        limit: number(request, "limit")?.unwrap_or(0),
    })
}

/// `GET /web`.
pub(crate) fn show(app: &App, request: &RequestContext) -> Result<Response, RequestError> {
    let body = match app.state.web_log.as_deref() {
        None => html! {
            h1 { (t("Web")) }
            section.card.narrow {
                p { (t("This node has no listener for web requests.")) }
                p { (t("Add one to the configuration and restart the node:")) }
                pre { "[[listener]]\nrole = \"proxy\"\naddress = \"127.0.0.1:3128\"" }
            }
        },
        Some(log) => requests(app, log, request)?,
    };
    Ok(response::page(StatusCode::OK, layout::page(request, "/web", t("Web"), &body)))
}

fn requests(app: &App, log: &WebLog, request: &RequestContext) -> Result<Markup, RequestError> {
    let waiting = match &app.state.web_releases {
        Some(releases) => releases.open_requests()?,
        None => 0,
    };
    let query = query(request)?;
    let page = log.search(&query)?;
    let live = query.after.is_none();
    let now = request.now_ms;
    let summary = log.summary(now - DAY_MS, now)?;
    Ok(html! {
        div.title {
            h1 { (t("Web")) }
            a.button href="/web/releases" {
                (t("Release requests"))
                @if waiting > 0 { " (" (format::count(waiting)) ")" }
            }
            @if live { label.live hidden { input type="checkbox" data-live-switch checked; (t("Live")) } }
        }
        (day_of(&summary))
        (filter(request))
        (layout::stale(live))
        div id="list" data-live[live] {
            (list(&page))
            (layout::pager(request, "/web", page.next.map(|c| c.0)))
        }
    })
}

/// What the last 24 hours were about.
fn day_of(summary: &WebSummary) -> Markup {
    html! {
        p.lead {
            (t("In 24 hours {} requests, {} blocked, {} to clients.")
                .with(format::count(summary.requests))
                .with(format::count(summary.blocked))
                .with(format::bytes(summary.bytes_out)))
        }
        div.tiles {
            (top(&t("Hosts"), "host", &summary.hosts))
            (top(&t("Clients"), "client", &summary.clients))
            (top(&t("Blocked by"), "rule", &summary.rules))
            (top(&t("Categories"), "category", &summary.categories))
        }
    }
}

fn top(title: &Phrase<'_>, field: &str, counts: &[WebCount]) -> Markup {
    html! {
        section.card {
            h2 { (title) }
            table { tbody {
                @for count in counts.iter().take(TOP) { tr {
                    td { a href={ "/web?" (field) "=" (format::percent(first_line(&count.name))) } {
                        (format::plain(first_line(&count.name)))
                    } }
                    td.number { (format::count(count.requests)) }
                } }
                @if counts.is_empty() { tr { td.empty { (t("Nothing yet.")) } } }
            } }
        }
    }
}

/// The rule that decided, of several.
fn first_line(text: &str) -> &str {
    text.lines().next().unwrap_or_default()
}

fn filter(request: &RequestContext) -> Markup {
    let value = |name| request.field(name);
    let search = |name, label, hint| layout::input(name, label, value(name), "search", hint);
    let day = |name, label| layout::input(name, label, value(name), "date", "");
    let fields = html! {
        (search("host", t("Host"), ".example.com"))
        (search("text", t("Part of the URL"), ""))
        (search("client", t("Client address"), "192.0.2.1"))
        (layout::select("outcome", t("Outcome"), value("outcome"), &OUTCOMES))
    };
    let more = layout::More {
        names: &["user", "rule", "category", "reference", "since", "until"],
        fields: html! {
            (search("user", t("Login"), ""))
            (search("rule", t("Rule that matched"), ""))
            (search("category", t("Category"), ""))
            (search("reference", t("Reference code"), ""))
            (day("since", t("From day")))
            (day("until", t("To day")))
        },
    };
    layout::filter(request, "/web", &fields, &more, &html! {})
}

/// Requests as a table that becomes cards where it is narrow.
fn list(page: &WebPage) -> Markup {
    html! {
        table.cards.messages.requests.card.flush {
            thead { tr {
                th scope="col" { (t("When")) } th scope="col" { (t("Outcome")) }
                th scope="col" { (t("Request")) } th scope="col" { (t("Client")) }
                th scope="col" { (t("Bytes")) } th scope="col" { (t("Why")) }
            } }
            tbody {
                @for row in &page.requests { (line(row)) }
                @if page.requests.is_empty() {
                    tr { td.empty colspan="6" { (t("No request matches.")) } }
                }
            }
        }
    }
}

fn line(row: &WebRow) -> Markup {
    let r = &row.record;
    html! {
        tr {
            td.when data-label=(t("When")) { (format::time(r.at_ms)) }
            td data-label=(t("Outcome")) { (layout::state(r.outcome.name())) " " @if r.status > 0 { (r.status) } }
            td.what data-label=(t("Request")) {
                span.from { (r.method) " " (format::plain(&r.host)) }
                span.url { (format::plain(&r.url)) }
                @if !r.server_address.is_empty() { div.more { (format::plain(&r.server_address)) } }
            }
            td.client data-label=(t("Client")) { (format::plain(&r.client)) @if !r.user.is_empty() { " " (format::plain(&r.user)) } }
            td.number data-label=(t("Bytes")) { (format::bytes(r.bytes_out)) }
            td data-label=(t("Why")) {
                @for rule in r.rule.lines() { div { (format::plain(rule)) } }
                @if !r.evidence.is_empty() { div.more { (format::plain(&r.evidence)) } }
                @if !r.reference.is_empty() { div.more { code { (r.reference) } } }
            }
        }
    }
}
