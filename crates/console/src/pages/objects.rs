//! The files of a message, and everything in them: a table, indented by containers; and one of
//! them as an encrypted archive.

use axum::body::Body;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::Response;
use gauntlet_mail::file_kind::object::{EngineReport, Object, Tree};
use gauntlet_store::users::Role;
use maud::{Markup, html};

use super::elsewhere::audited;
use super::{object_names, quarantine};
use crate::app::App;
use crate::error::RequestError;
use crate::format;
use crate::layout;
use crate::request::RequestContext;
use crate::response;
use crate::text::{t, translatable};

/// What those who look at dangerous files agreed on long ago; programs do not open it by
/// themselves.
const PASSWORD: &str = "infected";
/// Longest password of an archive, in bytes.
const PASSWORD_BYTES_MAX: usize = 100;

/// The tree of a message that is held under this id: an administrator may fetch each object.
pub(super) fn held_table(request: &RequestContext, id: &str, tree: &Tree) -> Markup {
    if request.role() != Role::Administrator {
        return table(tree);
    }
    html! {
        form method="post" action={ "/quarantine/" (format::percent(id)) "/object" } {
            (layout::token(request))
            (table_with(tree, true))
            div.inset {
                (layout::input("password", t("Password of the archive"), PASSWORD, "text",
                    t("Fetch gives one file as a ZIP that this password opens (AES-256)")))
            }
        }
    }
}

/// `POST /quarantine/{id}/object`: one file of a held message as an encrypted ZIP; noted in the
/// audit log.
pub(crate) fn fetch(app: &App, request: &RequestContext) -> Result<Response, RequestError> {
    let held = quarantine::find(app, request, request.param("id"))?.held;
    let (sha256, password) = (request.field("sha256"), request.field("password"));
    let is_hash = sha256.len() == 64 && sha256.bytes().all(|b| b.is_ascii_hexdigit());
    if !is_hash {
        return Err(RequestError::Bad("sha256: 64 hexadecimal digits".to_owned()));
    }
    if password.is_empty() || password.len() > PASSWORD_BYTES_MAX {
        return Err(RequestError::Bad(format!("password: 1 to {PASSWORD_BYTES_MAX} bytes")));
    }
    let gone = RequestError::NotFound(translatable("Its text is not kept any more."));
    let raw = app.state.held.body(&held.reference())?.ok_or(gone)?;
    let sha256 = sha256.to_ascii_lowercase();
    let archive = app.state.node.sealed_object(&raw, &sha256, password);
    let archive = archive.map_err(|error| RequestError::Bad(error.to_string()))?;
    let (now_ms, who) = (request.now_ms, request.login());
    let name = audited(app, &held);
    app.state.quarantine.note(now_ms, who, "fetch object", &name, &sha256)?;
    let mut response = response::respond(StatusCode::OK, "application/zip", Body::from(archive));
    let name = format!("attachment; filename=\"{}.zip\"", sha256.get(..12).unwrap_or_default());
    if let Ok(attachment) = HeaderValue::from_str(&name) {
        response.headers_mut().insert(header::CONTENT_DISPOSITION, attachment);
    }
    Ok(response)
}

/// The tree, one row an object.
pub(super) fn table(tree: &Tree) -> Markup {
    table_with(tree, false)
}

fn table_with(tree: &Tree, is_fetched: bool) -> Markup {
    let heads = [
        translatable("File"),
        translatable("Type"),
        translatable("Size"),
        translatable("SHA-256"),
        translatable("Findings"),
    ];
    html! {
        table.files.cards {
            thead { tr { @for head in heads { th scope="col" { (t(head)) } } @if is_fetched { th {} } } }
            tbody { @for object in &tree.objects { (row(object, is_fetched)) } }
        }
        @if !tree.engines.is_empty() { (engines(&tree.engines)) }
    }
}

/// What malware engines did for the message.
fn engines(reports: &[EngineReport]) -> Markup {
    let heads = [
        translatable("Malware engine"),
        translatable("Version"),
        translatable("Files scanned"),
        translatable("Files cached"),
        translatable("Time in ms"),
        translatable("Status"),
    ];
    html! {
        table {
            thead { tr { @for head in heads { th { (t(head)) } } } }
            tbody { @for report in reports { tr {
                td { (format::plain(&report.engine)) }
                td { (format::plain(&report.version)) }
                td.number { (report.scanned) }
                td.number { (report.cached) }
                td.number { (report.micros / 1_000) }
                td { @if report.error.is_empty() { (t("OK")) } @else { strong { (format::plain(&report.error)) } } }
            } } }
        }
    }
}

fn row(object: &Object, is_fetched: bool) -> Markup {
    html! {
        tr {
            td.path data-label=(t("File")) { code { (format::plain(&object.path)) } }
            td.kind data-label=(t("Type")) { code { (object.kind.media_type()) } }
            td.number data-label=(t("Size")) { (object.size) }
            td.sha data-label=(t("SHA-256")) { code title=(object.sha256) { (object.sha256.get(..12).unwrap_or_default()) } }
            td data-label=(t("Findings")) {
                @for property in &object.properties {
                    div { (t(object_names::property(property.kind))) @if !property.detail.is_empty() { ": " code { (format::plain(&property.detail)) } } }
                }
                @for defect in &object.defects {
                    div { strong { (t("not read")) } ": " (t(object_names::defect(defect.kind))) @if !defect.detail.is_empty() { " " code { (format::plain(&defect.detail)) } } }
                }
            }
            @if is_fetched {
                td { button.quiet type="submit" name="sha256" value=(object.sha256) { (t("Fetch")) } }
            }
        }
    }
}
