//! One message: what it was, why, and its life.

use axum::http::StatusCode;
use axum::response::Response;
use gauntlet_mail::Message;
use gauntlet_store::log::LoggedMessage;
use gauntlet_store::quarantine::{Held, HeldQuery};
use gauntlet_store::{LogRecord, Stage};
use maud::{Markup, html};

use super::{data, objects, quarantine, verdict};
use crate::app::App;
use crate::error::RequestError;
use crate::format;
use crate::layout;
use crate::request::RequestContext;
use crate::response;
use crate::text::{t, translatable};

/// `GET /messages/{id}`.
pub(crate) fn show(app: &App, request: &RequestContext) -> Result<Response, RequestError> {
    let unknown = RequestError::NotFound(translatable(
        "There is no such message in the log, or it is forgotten.",
    ));
    let logged = app.state.messages.get(request.param("id"))?.ok_or(unknown)?;
    let query = HeldQuery { message: logged.record.id.clone(), ..HeldQuery::default() };
    let mut held = app.state.held.search(&query)?.items;
    // Two nodes give the same id now and then.
    held.retain(|h| logged.node.is_empty() || h.node.is_empty() || h.node == logged.node);
    let (mine, others): (Vec<_>, Vec<_>) =
        held.iter().partition(|item| quarantine::may_open(request, item));
    let mut kept = None;
    for item in mine {
        if let Some(raw) = app.state.held.body(&item.reference())? {
            kept = Some((item.reference(), raw));
            break;
        }
    }
    let raw = kept.as_ref().map(|(_, raw)| raw.as_slice());
    let record = &logged.record;
    let subject = format::plain(&record.subject);
    let title = layout::subject(&subject);
    let body = html! {
        p.crumbs {
            a href="/messages" { (t("Messages")) }
            @if !logged.node.is_empty() { " · " (format::plain(&logged.node)) }
        }
        h1 { (title) }
        div.columns {
            div {
                section.card { h2 { (t("Verdict")) } (verdict::summary(&record.verdict)) }
                section.card.flush { h2 { (t("Why")) } (verdict::hits(&record.verdict, request.role())) }
                @if !record.facts.content.is_empty() {
                    section.card.flush { h2 { (t("Files")) } (files(request, record, kept.as_ref().map(|(id, _)| id.as_str()))) }
                }
                (content(record, raw, !others.is_empty()))
            }
            div {
                section.card { h2 { (t("Envelope")) } (envelope(record)) }
                section.card { h2 { (t("Recipients")) } (recipients(request, record, &held)) }
                section.card { h2 { (t("History")) } (timeline(&logged)) }
                section.card { h2 { (t("Network")) } (verdict::facts(&record.facts)) }
                @if let Some(found) = &record.verdict.data_loss {
                    section.card.flush { h2 { (t("Data loss prevention")) } (data::table(found)) }
                }
                section.card { h2 { (t("Anomalies")) } (verdict::defects(&record.verdict)) }
                section.card { h2 { (t("Cost")) } (verdict::costs(&record.verdict)) }
            }
        }
    };
    Ok(response::page(StatusCode::OK, layout::page(request, "/messages", &title, &body)))
}

/// The tree of files; of a message that is held under an id, each can be fetched.
fn files(request: &RequestContext, record: &LogRecord, held: Option<&str>) -> Markup {
    match held {
        Some(id) => objects::held_table(request, id, &record.facts.content),
        None => objects::table(&record.facts.content),
    }
}

/// `is_elsewhere`: the message is held in a folder that the reader does not decide in.
fn content(record: &LogRecord, raw: Option<&[u8]>, is_elsewhere: bool) -> Markup {
    let Some(raw) = raw else {
        return html! {
            section.card {
                h2 { (t("Message")) }
                @if is_elsewhere {
                    p.hint { (t("The message is held in a folder of other reviewers, who see it there. The evidence above quotes what the rules saw.")) }
                } @else {
                    p.hint { (t("The message itself is not kept: only held messages are. The evidence above quotes what the rules saw.")) }
                }
            }
        };
    };
    // What is logged of such a message is masked; who may see the message itself finds it where it
    // is held.
    if record.verdict.data_loss.as_ref().is_some_and(|found| !found.findings.is_empty()) {
        return html! {
            section.card {
                h2 { (t("Message")) }
                p.hint { (t("The message holds data that the policy looks for. It is shown in the quarantine, to those who decide on it.")) }
            }
        };
    }
    let message = Message::parse(raw);
    html! {
        section.card { h2 { (t("Message")) } (verdict::body(&message, &record.verdict.hits)) }
        section.card {
            details {
                summary { h2 { (t("Header")) } }
                (verdict::headers(&message, &record.verdict.hits, false))
            }
        }
    }
}

fn envelope(record: &LogRecord) -> Markup {
    let envelope = &record.envelope;
    html! {
        dl.pairs {
            dt { (t("Received")) } dd { (format::time(record.received_ms)) }
            dt { (t("From")) } dd { (format::plain(&record.from)) }
            dt { (t("Sender")) } dd {
                @if envelope.mail_from.is_empty() { "<>" } @else { (format::plain(&envelope.mail_from)) }
            }
            dt { (t("Client")) } dd {
                @if let Some(ip) = envelope.client_ip { (ip) }
                @if let Some(name) = &envelope.client_name { " " (format::plain(name)) }
            }
            dt { "HELO" } dd { (format::plain(&envelope.helo)) }
            @if let Some(tls) = &envelope.tls { dt { "TLS" } dd { (tls.version) " " (tls.cipher) } }
            @if let Some(user) = &envelope.auth_user { dt { (t("Login")) } dd { (format::plain(user)) } }
            dt { (t("Size")) } dd { (format::bytes(record.size)) }
            dt { "Message-ID" } dd { code { (format::plain(&record.message_id)) } }
            dt { (t("Reference")) } dd { code { (record.id) } }
        }
    }
}

fn recipients(request: &RequestContext, record: &LogRecord, held: &[Held]) -> Markup {
    html! {
        ul.plain.recipients {
            @for disposition in &record.dispositions {
                li {
                    b { (format::plain(&disposition.recipient)) } " " (layout::state(disposition.end.name()))
                    @if !disposition.rules.is_empty() {
                        span.more { (t("by {}").with(format::plain(&disposition.rules.join(", ")))) }
                    }
                }
            }
        }
        @for item in held {
            @let place = t("In folder {}: {}").with(format::plain(&item.item.folder))
                .with(t(item.state.name()));
            p {
                @if quarantine::may_open(request, item) {
                    a.button href={ "/quarantine/" (format::percent(&item.reference())) } { (place) }
                } @else { (place) }
            }
        }
    }
}

/// The history of the message: its stages, then its deliveries and what users did.
fn timeline(logged: &LoggedMessage) -> Markup {
    let record = &logged.record;
    html! {
        ol.timeline {
            li { (format::time(record.received_ms)) span.what { (t("begun")) } }
            @for stage in &record.stages { (stage_line(stage)) }
            @if record.latency_ms > 0 {
                // The log keeps whole milliseconds of it; it cannot be before what it waited for.
                @let last_us = record.stages.last().map_or(0, |s| s.at_us);
                @let answered_us = (u64::from(record.latency_ms) * 1000).max(last_us);
                li { span.at { "+" (format::duration_us(answered_us)) } span.what { (t("answered")) } }
            }
            @for delivery in &record.deliveries {
                li {
                    (format::time(delivery.at_ms))
                    span.what { (layout::state(delivery.outcome.name())) " " (format::plain(&delivery.address)) }
                    span.more {
                        @if delivery.attempts > 1 { (t("{} attempts.").with(delivery.attempts)) " " }
                        (format::plain(&delivery.next_hop)) " " (format::plain(&delivery.reply))
                    }
                }
            }
            @for event in &logged.events {
                li {
                    (format::time(event.at_ms))
                    span.what { (t(&format::spaced(&event.kind))) " " (format::plain(&event.recipient)) }
                    span.more { (format::plain(&event.detail)) }
                }
            }
        }
    }
}

fn stage_line(stage: &Stage) -> Markup {
    html! {
        li {
            span.at { "+" (format::duration_us(stage.at_us)) }
            span.what { (t(&stage.name)) }
            @if !stage.detail.is_empty() { span.more { (format::plain(&stage.detail)) } }
        }
    }
}
