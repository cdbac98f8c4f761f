//! The list of messages, newest first, with its filter.

use axum::http::StatusCode;
use axum::response::Response;
use gauntlet_store::log::{Cursor, day_number};
use gauntlet_store::{Page, Query, Summary};
use gauntlet_verdict::Class;
use maud::{Markup, html};

use super::searches;
use crate::fault::Fault;
use crate::format::{self, DAY_MS};
use crate::server::App;
use crate::shell;
use crate::text::t;
use crate::visit::{self, Visit};

/// Names of final dispositions, for the filter.
pub(crate) const ACTIONS: [&str; 8] =
    ["deliver", "spam_folder", "redirect", "hold", "quarantine", "reject", "defer", "discard"];
/// Names of outcomes, for the filter.
pub(crate) const OUTCOMES: [&str; 7] =
    ["queued", "delivered", "quarantined", "failed", "discarded", "rejected", "deleted"];

/// Reads a query from the fields of a request.
pub(crate) fn query(visit: &Visit) -> Result<Query, Fault> {
    let text = |name| visit.field(name).to_owned();
    let mut classes = Vec::new();
    for name in visit.all("class") {
        classes.push(name.parse::<Class>().map_err(Fault::Bad)?);
    }
    Ok(Query {
        sender: text("sender"),
        recipient: text("recipient"),
        domain: text("domain"),
        subject: text("subject"),
        message_id: text("message_id"),
        id: text("id"),
        classes,
        action: text("action"),
        outcome: text("outcome"),
        rule: text("rule"),
        policy_rule: text("policy_rule"),
        client: text("client"),
        event: text("event"),
        since_ms: day(visit, "since")?,
        until_ms: day(visit, "until")?.map(|ms| ms + DAY_MS),
        score_min: number(visit, "score_min")?,
        after: number(visit, "after")?.map(Cursor),
        limit: number(visit, "limit")?.unwrap_or(0),
    })
}

/// The start of a day that a field names, in milliseconds.
pub(crate) fn day(visit: &Visit, name: &str) -> Result<Option<i64>, Fault> {
    let text = visit.field(name);
    if text.is_empty() {
        return Ok(None);
    }
    let day = day_number(text).map(|day| Some(day * DAY_MS));
    day.ok_or_else(|| Fault::Bad(format!("{name}: {text:?} is no day; write 2026-11-21")))
}

/// The number in a field.
pub(crate) fn number<T: std::str::FromStr>(visit: &Visit, name: &str) -> Result<Option<T>, Fault> {
    let text = visit.field(name);
    if text.is_empty() {
        return Ok(None);
    }
    let number = text.parse().map(Some);
    number.map_err(|_| Fault::Bad(format!("{name}: {text:?} is no number that fits")))
}

/// `GET /messages`.
pub(crate) fn show(app: &App, visit: &Visit) -> Result<Response, Fault> {
    let query = query(visit)?;
    let page = app.state.log.search(&query)?;
    let live = query.after.is_none();
    let body = html! {
        div.title {
            h1 { (t("Messages")) }
            @if live { label.live hidden { input type="checkbox" data-live-switch checked; (t("Live")) } }
        }
        (searches::bar(app, visit)?)
        (filter(visit))
        div id="list" data-live[live] {
            (list(&page))
            (shell::pager(visit, "/messages", page.next.map(|c| c.0)))
        }
    };
    Ok(visit::page(StatusCode::OK, shell::page(visit, "/messages", t("Messages"), &body)))
}

fn filter(visit: &Visit) -> Markup {
    let value = |name| visit.field(name);
    let classes = Class::ALL.map(Class::name);
    let more = ["domain", "rule", "outcome", "since", "until", "message_id", "id", "client"];
    let open = more.iter().any(|name| !value(name).is_empty());
    html! {
        form.filter.card method="get" action="/messages" role="search" {
            div.fields {
                (shell::input("subject", t("Subject words"), value("subject"), "search", t("invoice pay*")))
                (shell::input("sender", t("Sender"), value("sender"), "search", t("name@ or @domain")))
                (shell::input("recipient", t("Recipient"), value("recipient"), "search", t("name@ or @domain")))
                (shell::select("class", t("Class"), value("class"), &classes))
                (shell::select("action", t("Disposition"), value("action"), &ACTIONS))
            }
            details open[open] {
                summary { (t("More")) }
                div.fields {
                    (shell::input("domain", t("Domain, either side"), value("domain"), "search", "example.com"))
                    (shell::input("rule", t("Rule that hit"), value("rule"), "search", "URL_TEXT_MISMATCH"))
                    (shell::select("outcome", t("Delivery"), value("outcome"), &OUTCOMES))
                    (shell::input("since", t("From day"), value("since"), "date", ""))
                    (shell::input("until", t("To day"), value("until"), "date", ""))
                    (shell::input("message_id", t("Message-ID"), value("message_id"), "search", ""))
                    (shell::input("id", t("Reference code"), value("id"), "search", ""))
                    (shell::input("client", t("Client address"), value("client"), "search", "192.0.2.1"))
                }
            }
            div.actions {
                button.main type="submit" { (t("Find")) }
                a.button.quiet href="/messages" { (t("Clear")) }
                a.button.quiet href={ "/messages.csv?" (shell::kept(visit)) } download { "CSV" }
            }
        }
    }
}

/// Messages as a table that becomes cards where it is narrow.
pub(crate) fn list(page: &Page) -> Markup {
    html! {
        table.cards.messages.card.flush {
            thead { tr {
                th scope="col" { (t("Received")) } th scope="col" { (t("Verdict")) }
                th scope="col" { (t("From and subject")) } th scope="col" { (t("To")) }
                th scope="col" { (t("Disposition")) }
            } }
            tbody {
                @for message in &page.messages { (row(message)) }
                @if page.messages.is_empty() {
                    tr { td.empty colspan="5" { (t("No message matches.")) } }
                }
            }
        }
    }
}

fn row(message: &Summary) -> Markup {
    let subject = format::plain(&message.subject);
    html! {
        tr {
            td.when data-label=(t("Received")) { (format::time(message.received_ms)) }
            td.verdict data-label=(t("Verdict")) {
                (shell::class_pill(message.class))
                span.score title=(t("score")) { (format::points(message.score)) }
            }
            td.what {
                span.from { (format::plain(&message.from)) }
                a href={ "/messages/" (format::percent(&message.id)) } {
                    @if subject.trim().is_empty() { (t("(no subject)")) } @else { (subject) }
                }
            }
            td.to data-label=(t("To")) {
                @if let Some(first) = message.recipients.first() {
                    span { (format::plain(&first.recipient)) }
                    @if message.recipients_count > 1 {
                        span.more { " +" (message.recipients_count - 1) }
                    }
                }
            }
            td data-label=(t("Disposition")) { (end(message)) }
        }
    }
}

/// What was done, and how far the delivery is where that says more.
fn end(message: &Summary) -> Markup {
    let mut actions: Vec<&str> = message.recipients.iter().map(|r| r.action.as_str()).collect();
    actions.sort_unstable();
    actions.dedup();
    let outcome = message.recipients.iter().filter_map(|r| r.outcome).max_by_key(|o| o.is_final());
    html! {
        @for action in &actions { (shell::state(action)) " " }
        @if let Some(outcome) = outcome {
            @if ["queued", "failed"].contains(&outcome.name()) { (shell::state(outcome.name())) }
        }
    }
}
