//! The files of a message, and everything in them: a table, indented by containers.

use gauntlet_mail::file_kind::object::{EngineReport, Object, Tree};
use maud::{Markup, html};

use crate::format;
use crate::text::{t, translatable};

/// The tree, one row an object.
pub(super) fn table(tree: &Tree) -> Markup {
    let heads = [
        translatable("File"),
        translatable("Type"),
        translatable("Size"),
        translatable("SHA-256"),
        translatable("Findings"),
    ];
    html! {
        table {
            thead { tr { @for head in heads { th { (t(head)) } } } }
            tbody { @for object in &tree.objects { (row(object)) } }
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

fn row(object: &Object) -> Markup {
    let words = |kind: &dyn std::fmt::Debug| {
        let mut out = String::new();
        for c in format!("{kind:?}").chars() {
            if c.is_uppercase() && !out.is_empty() {
                out.push(' ');
            }
            out.push(c.to_ascii_lowercase());
        }
        out
    };
    html! {
        tr {
            td { (format::plain(&object.path)) }
            td { (object.kind.media_type()) }
            td.number { (object.size) }
            td { code title=(object.sha256) { (object.sha256.get(..12).unwrap_or_default()) } }
            td {
                @for property in &object.properties {
                    div { (words(&property.kind)) @if !property.detail.is_empty() { ": " (format::plain(&property.detail)) } }
                }
                @for defect in &object.defects {
                    div { strong { (t("not read")) } ": " (words(&defect.kind)) @if !defect.detail.is_empty() { " (" (format::plain(&defect.detail)) ")" } }
                }
            }
        }
    }
}
