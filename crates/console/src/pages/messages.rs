//! The list of messages, newest first, with its filter.

use axum::http::StatusCode;
use axum::response::Response;
use gauntlet_store::record::Outcome;
use gauntlet_store::{Page, Summary};
use gauntlet_verdict::{Class, Final};
use maud::{Markup, html};

use super::{query_fields, searches};
use crate::app::App;
use crate::error::RequestError;
use crate::format;
use crate::layout;
use crate::request::RequestContext;
use crate::response;
use crate::text::t;

/// `GET /messages`.
pub(crate) fn show(app: &App, request: &RequestContext) -> Result<Response, RequestError> {
    let query = query_fields::query(request)?;
    let page = app.state.messages.search(&query)?;
    let live = query.after.is_none();
    let body = html! {
        div.title {
            h1 { (t("Messages")) }
            @if live { label.live hidden { input type="checkbox" data-live-switch checked; (t("Live")) } }
        }
        (searches::bar(app, request)?)
        (filter(request))
        (layout::stale(live))
        div id="list" data-live[live] {
            (layout::warnings(app, request))
            (list(&page))
            (layout::pager(request, "/messages", page.next.map(|c| c.0)))
        }
    };
    Ok(response::page(StatusCode::OK, layout::page(request, "/messages", t("Messages"), &body)))
}

fn filter(request: &RequestContext) -> Markup {
    let value = |name| request.field(name);
    let search = |name, label, hint| layout::input(name, label, value(name), "search", hint);
    let day = |name, label| layout::input(name, label, value(name), "date", "");
    let select = |name, label, names: &[&str]| layout::select(name, label, value(name), names);
    let fields = html! {
        (layout::input("subject", t("Subject words"), value("subject"), "search", t("invoice pay*")))
        (layout::input("sender", t("Sender"), value("sender"), "search", t("name@example.com or @example.com")))
        (layout::input("recipient", t("Recipient"), value("recipient"), "search", t("name@example.com or @example.com")))
        (select("class", t("Class"), &Class::ALL.map(Class::name)))
        (select("action", t("Disposition"), &Final::NAMES))
    };
    let more = layout::More {
        names: &["domain", "rule", "outcome", "since", "until", "message_id", "id", "client"],
        fields: html! {
            (search("domain", t("Domain, either side"), "example.com"))
            (search("rule", t("Rule that hit"), "URL_TEXT_MISMATCH"))
            (select("outcome", t("Delivery"), &Outcome::NAMES))
            (day("since", t("From day")))
            (day("until", t("To day")))
            (search("message_id", t("Message-ID"), ""))
            (search("id", t("Reference code"), ""))
            (search("client", t("Client address"), "192.0.2.1"))
        },
    };
    let csv = html! {
        a.button.quiet href={ "/messages.csv?" (layout::kept(request)) } download { "CSV" }
    };
    layout::filter(request, "/messages", &fields, &more, &csv)
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
            td.when data-label=(t("Received")) {
                (format::time(message.received_ms))
                @if !message.node.is_empty() { " " span.more { (format::plain(&message.node)) } }
            }
            td.verdict data-label=(t("Verdict")) {
                (layout::class_pill(message.class))
                span.score title=(t("score")) { (format::points(message.score)) }
            }
            td.what {
                span.from { (format::plain(&message.from)) }
                a href={ "/messages/" (format::percent(&message.reference())) } {
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
        @for action in &actions { (layout::state(action)) " " }
        @if let Some(outcome) = outcome {
            @if ["queued", "failed"].contains(&outcome.name()) { (layout::state(outcome.name())) }
        }
    }
}
