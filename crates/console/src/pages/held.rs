//! One held message: why it is held, what it says, and what to do with it.

use axum::body::Body;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::Response;
use gauntlet_mail::Message;
use gauntlet_store::quarantine::{Held, State};
use gauntlet_store::reference;
use gauntlet_store::users::Role;
use maud::{Markup, html};

use super::quarantine::Seen;
use super::{activity, elsewhere, objects, quarantine, senders, verdict};
use crate::app::App;
use crate::error::RequestError;
use crate::format;
use crate::headers::PREVIEW_POLICY;
use crate::request::RequestContext;
use crate::response;
use crate::text::{t, translatable};
use crate::{layout, preview};

/// Lines of the audit log shown.
const AUDIT_MAX: usize = 20;

/// `GET /quarantine/{id}`.
pub(crate) fn show(app: &App, request: &RequestContext) -> Result<Response, RequestError> {
    let seen = quarantine::find(app, request, request.param("id"))?;
    let (held, user) = (&seen.held, request.role() == Role::User);
    let item = &held.item;
    let raw = app.state.held.body(&held.reference())?;
    let orders = elsewhere::orders_of(app, request, held);
    let logged = app.state.messages.get(&item.message)?;
    let mut audit = app.state.quarantine.audit_log(&elsewhere::audited(app, held), AUDIT_MAX)?;
    if user {
        // What others did with it may name other recipients.
        audit.retain(|line| line.who == request.login());
    }
    let message = raw.as_deref().map(Message::parse);
    let hits = logged.as_ref().map(|l| l.record.verdict.hits.as_slice()).unwrap_or_default();
    let subject = format::plain(&item.subject);
    let title = layout::subject(&subject);
    let body = html! {
        p.crumbs { a href="/quarantine" { (t("Quarantine")) } }
        h1 { (title) }
        div.columns {
            div {
                (decision(request, &seen))
                @if !orders.is_empty() {
                    section.card.flush { h2 { (t("Orders to {}").with(format::plain(&held.node))) } (elsewhere::table(&orders)) }
                }
                @if let Some(logged) = &logged {
                    section.card.flush { h2 { (t("Why")) } (verdict::hits(&logged.record.verdict, request.role())) }
                }
                @if let Some(tree) = logged.as_ref().map(|l| &l.record.facts.content)
                    && !tree.is_empty() && raw.is_some()
                {
                    section.card.flush { h2 { (t("Files")) } (objects::held_table(request, &held.reference(), tree)) }
                }
                (content(&held.reference(), message.as_ref(), hits, user))
            }
            div {
                section.card {
                    h2 { (t("Verdict")) }
                    @match &logged {
                        Some(logged) => (verdict::summary(&logged.record.verdict)),
                        None => div.judgement { (layout::class_pill(item.class))
                            span.big { (format::points(item.score)) small { " " (t("points")) } } },
                    }
                }
                section.card { h2 { (t("Held")) } (about(request, held)) }
                @if let Some(logged) = &logged {
                    section.card { h2 { (t("Network")) } (verdict::facts(&logged.record.facts)) }
                    section.card { h2 { (t("Anomalies")) } (verdict::defects(&logged.record.verdict)) }
                }
                section.card.flush { h2 { (t("Audit log")) } (activity::table(&activity::unnamed(audit), false)) }
            }
        }
    };
    Ok(response::page(StatusCode::OK, layout::page(request, "/quarantine", &title, &body)))
}

fn decision(request: &RequestContext, seen: &Seen) -> Markup {
    let held = &seen.held;
    if held.state != State::Held {
        return html! {
            section.card {
                p { (t("This message is {} since {}.").with(html! { b { (t(held.state.name())) } }).with(format::time(held.changed_ms))) }
            }
        };
    }
    html! {
        section.card.decision {
            form method="post" action="/quarantine/decide" {
                (layout::token(request))
                input type="hidden" name="item" value=(held.reference());
                @if request.role() != Role::User {
                    details {
                        summary { (t("Release to other addresses")) }
                        (layout::input("to", t("Address"), "", "email", t("instead of the recipients")))
                    }
                    label.check { input type="checkbox" name="learn" value="yes";
                        span { (t("Train the classifier: ham if released, spam if deleted")) } }
                }
                div.actions {
                    @if seen.may_release {
                        button.main type="submit" name="decision" value="release" { (t("Release")) }
                    } @else {
                        p.hint { (t("Only a reviewer or an administrator can release this message: ask one.")) }
                    }
                    @if seen.may_delete {
                        button.danger type="submit" name="decision" value="delete" { (t("Delete")) }
                    }
                    @if request.role() != Role::User {
                        a.button.quiet href={ "/quarantine/" (format::percent(&held.reference())) "/download" } {
                            (t("Download")) }
                    }
                }
            }
            (senders::buttons(request, held))
        }
    }
}

fn content(
    id: &str,
    message: Option<&Message<'_>>,
    hits: &[gauntlet_mail::Hit],
    user: bool,
) -> Markup {
    let Some(message) = message else {
        return html! { section.card { h2 { (t("Message")) } p.hint { (t("Its text is not kept any more.")) } } };
    };
    let has_html = html_part(message).is_some();
    html! {
        @if has_html {
            section.card.flush {
                h2 { (t("HTML preview")) }
                p.hint.inset { (t("Without scripts, images, forms or live links; nothing is loaded.")) }
                iframe.preview sandbox="" referrerpolicy="no-referrer" loading="lazy"
                    title=(t("The message as HTML, made harmless"))
                    src={ "/quarantine/" (format::percent(id)) "/html" } {}
            }
        }
        section.card { h2 { (t("Text and evidence")) } (verdict::body(message, hits)) }
        section.card { details { summary { h2 { (t("Header")) } } (verdict::headers(message, hits, user)) } }
    }
}

fn about(request: &RequestContext, held: &Held) -> Markup {
    let item = &held.item;
    html! {
        dl.pairs {
            dt { (t("Folder")) } dd { (format::plain(&item.folder)) }
            @if !held.node.is_empty() && request.role() != Role::User {
                dt { (t("Node")) } dd { (format::plain(&held.node)) }
            }
            dt { (t("Received")) } dd { (format::time(item.received_ms)) }
            dt { (t("From")) } dd { (format::plain(&item.from)) }
            dt { (t("Sender")) } dd { (format::plain(&item.envelope.mail_from)) }
            @if let Some(ip) = item.envelope.client_ip { dt { (t("Client")) } dd { (ip) } }
            dt { (t("For")) } dd { @for to in &item.recipients { div { (format::plain(to)) } } }
            dt { (t("Size")) } dd { (format::bytes(held.size)) }
            @if request.role() != Role::User {
                dt { (t("In the log")) } dd {
                    a href={ "/messages/" (format::percent(&reference::join(&item.message, &held.node))) } { code { (item.message) } }
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
pub(crate) fn html_frame(app: &App, request: &RequestContext) -> Result<Response, RequestError> {
    let held = quarantine::find(app, request, request.param("id"))?.held;
    let gone = RequestError::NotFound(translatable("Its text is not kept any more."));
    let raw = app.state.held.body(&held.reference())?.ok_or(gone)?;
    let message = Message::parse(&raw);
    let document = preview::document(html_part(&message).unwrap_or_default());
    let mut response =
        response::respond(StatusCode::OK, "text/html; charset=utf-8", Body::from(document));
    let policy = HeaderValue::from_static(PREVIEW_POLICY);
    response.headers_mut().insert(header::CONTENT_SECURITY_POLICY, policy);
    Ok(response)
}

/// `GET /quarantine/{id}/download`: the message as received, never shown by the browser.
pub(crate) fn download(app: &App, request: &RequestContext) -> Result<Response, RequestError> {
    let held = quarantine::find(app, request, request.param("id"))?.held;
    let gone = RequestError::NotFound(translatable("Its text is not kept any more."));
    let raw = app.state.held.body(&held.reference())?.ok_or(gone)?;
    app.state.quarantine.note(
        request.now_ms,
        request.login(),
        "download",
        &elsewhere::audited(app, &held),
        "",
    )?;
    let mut response =
        response::respond(StatusCode::OK, "application/octet-stream", Body::from(raw));
    let attachment = HeaderValue::from_static("attachment; filename=\"message.eml\"");
    response.headers_mut().insert(header::CONTENT_DISPOSITION, attachment);
    Ok(response)
}
