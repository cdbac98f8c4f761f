//! One held message: why it is held, what it says, and what to do with it.

use axum::body::Body;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::Response;
use gauntlet_mail::Message;
use gauntlet_store::quarantine::{Held, State};
use gauntlet_store::users::Role;
use maud::{Markup, html};

use super::{activity, quarantine, senders, verdict};
use crate::fault::Fault;
use crate::format;
use crate::headers::PREVIEW_POLICY;
use crate::server::App;
use crate::visit::{self, Visit};
use crate::{preview, shell};

/// Lines of the audit log shown.
const AUDIT_MAX: usize = 20;

/// `GET /quarantine/{id}`.
pub(crate) fn show(app: &App, visit: &Visit) -> Result<Response, Fault> {
    let held = quarantine::find(app, visit, visit.param("id"))?;
    let item = &held.item;
    let raw = app.state.quarantine.body(&item.id)?;
    let logged = app.state.log.get(&item.message)?;
    let audit = app.state.quarantine.audit_log(&item.id, AUDIT_MAX)?;
    let message = raw.as_deref().map(Message::parse);
    let hits = logged.as_ref().map(|l| l.record.verdict.hits.as_slice()).unwrap_or_default();
    let subject = format::plain(&item.subject);
    let title = if subject.trim().is_empty() { "(no subject)".to_owned() } else { subject };
    let body = html! {
        p.crumbs { a href="/quarantine" { "Quarantine" } }
        h1 { (title) }
        div.columns {
            div {
                (decision(visit, &held))
                @if let Some(logged) = &logged {
                    section.card.flush { h2 { "Why" } (verdict::hits(&logged.record.verdict)) }
                }
                (content(item.id.as_str(), message.as_ref(), hits))
            }
            div {
                section.card {
                    h2 { "Verdict" }
                    @match &logged {
                        Some(logged) => (verdict::summary(&logged.record.verdict)),
                        None => div.judgement { (shell::class_pill(item.class))
                            span.big { (format::points(item.score)) small { " points" } } },
                    }
                }
                section.card { h2 { "Held" } (about(visit, &held)) }
                @if let Some(logged) = &logged {
                    section.card { h2 { "Network" } (verdict::facts(&logged.record.facts)) }
                    section.card { h2 { "Oddities" } (verdict::defects(&logged.record.verdict)) }
                }
                section.card.flush { h2 { "Who did what" } (activity::table(&audit, false)) }
            }
        }
    };
    Ok(visit::page(StatusCode::OK, &shell::page(visit, "/quarantine", &title, &body)))
}

fn decision(visit: &Visit, held: &Held) -> Markup {
    if held.state != State::Held {
        return html! {
            section.card {
                p { "This message is " b { (held.state.name()) } " since "
                    (format::time(held.changed_ms)) "." }
            }
        };
    }
    html! {
        section.card.decision {
            form method="post" action="/quarantine/decide" {
                (shell::token(visit))
                input type="hidden" name="item" value=(held.item.id);
                @if visit.role() != Role::User {
                    details {
                        summary { "Release to somebody else" }
                        (shell::input("to", "Address", "", "email", "instead of the recipients"))
                    }
                    label.check { input type="checkbox" name="learn" value="yes";
                        span { "Teach the classifier: wanted if released, unwanted if deleted" } }
                }
                div.actions {
                    @if quarantine::may_release(visit, held).is_ok() {
                        button.main type="submit" name="decision" value="release" { "Release" }
                    }
                    button.danger type="submit" name="decision" value="delete" { "Delete" }
                    @if visit.role() != Role::User {
                        a.button.quiet href={ "/quarantine/" (format::percent(&held.item.id)) "/download" } {
                            "Download" }
                    }
                }
            }
            (senders::buttons(visit, held))
        }
    }
}

fn content(id: &str, message: Option<&Message<'_>>, hits: &[gauntlet_mail::Hit]) -> Markup {
    let Some(message) = message else {
        return html! { section.card { h2 { "Message" } p.hint { "Its text is not kept any more." } } };
    };
    let has_html = html_part(message).is_some();
    html! {
        @if has_html {
            section.card.flush {
                h2 { "As its sender meant it to look" }
                p.hint.inset { "Without scripts, images, forms or live links; nothing is loaded." }
                iframe.preview sandbox="" referrerpolicy="no-referrer" loading="lazy"
                    title="The message as HTML, made harmless"
                    src={ "/quarantine/" (format::percent(id)) "/html" } {}
            }
        }
        section.card { h2 { "Text and evidence" } (verdict::body(message, hits)) }
        section.card { details { summary { h2 { "Header" } } (verdict::headers(message, hits)) } }
    }
}

fn about(visit: &Visit, held: &Held) -> Markup {
    let item = &held.item;
    html! {
        dl.pairs {
            dt { "Folder" } dd { (format::plain(&item.folder)) }
            dt { "Received" } dd { (format::time(item.received_ms)) }
            dt { "From" } dd { (format::plain(&item.from)) }
            dt { "Sender" } dd { (format::plain(&item.envelope.mail_from)) }
            @if let Some(ip) = item.envelope.client_ip { dt { "Client" } dd { (ip) } }
            dt { "For" } dd { @for to in &item.recipients { div { (format::plain(to)) } } }
            dt { "Size" } dd { (format::bytes(held.size)) }
            @if visit.role() != Role::User {
                dt { "In the log" } dd {
                    a href={ "/messages/" (format::percent(&item.message)) } { code { (item.message) } }
                }
            }
        }
    }
}

/// The source of the first HTML part.
pub(crate) fn html_part<'m>(message: &'m Message<'_>) -> Option<&'m str> {
    let part =
        message.parts().iter().find(|p| p.content_type.is("text", "html") && !p.is_container);
    part?.text()
}

/// `GET /quarantine/{id}/html`: for the frame; harmless, and without rights if opened by itself.
pub(crate) fn html_frame(app: &App, visit: &Visit) -> Result<Response, Fault> {
    let held = quarantine::find(app, visit, visit.param("id"))?;
    let gone = Fault::NotFound("Its text is not kept any more.");
    let raw = app.state.quarantine.body(&held.item.id)?.ok_or(gone)?;
    let message = Message::parse(&raw);
    let document = preview::document(html_part(&message).unwrap_or_default());
    let mut response =
        visit::respond(StatusCode::OK, "text/html; charset=utf-8", Body::from(document));
    let policy = HeaderValue::from_static(PREVIEW_POLICY);
    response.headers_mut().insert(header::CONTENT_SECURITY_POLICY, policy);
    Ok(response)
}

/// `GET /quarantine/{id}/download`: the message as received, never shown by the browser.
pub(crate) fn download(app: &App, visit: &Visit) -> Result<Response, Fault> {
    let held = quarantine::find(app, visit, visit.param("id"))?;
    let gone = Fault::NotFound("Its text is not kept any more.");
    let raw = app.state.quarantine.body(&held.item.id)?.ok_or(gone)?;
    app.state.quarantine.note(visit.now_ms, visit.who(), "download", &held.item.id, "")?;
    let mut response = visit::respond(StatusCode::OK, "application/octet-stream", Body::from(raw));
    let attachment = HeaderValue::from_static("attachment; filename=\"message.eml\"");
    response.headers_mut().insert(header::CONTENT_DISPOSITION, attachment);
    Ok(response)
}
