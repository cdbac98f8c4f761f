//! One alert: the rule, the bytes that it saw with what it looked for marked, the record, and its
//! packets to fetch.

use axum::body::Body;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::Response;
use base64_simd::STANDARD;
use gauntlet_store::alert_log::{AlertCursor, AlertRow};
use maud::{Markup, html};
use serde_json::Value;

use super::alerts;
use crate::app::App;
use crate::error::RequestError;
use crate::packet_evidence;
use crate::request::RequestContext;
use crate::response;
use crate::text::{t, translatable};
use crate::{format, layout};

/// Alerts of a flow whose packets are fetched together, at most.
const PACKETS_MAX: usize = 1_000;
/// Rules of a message that are shown.
const HITS_MAX: usize = 100;

/// An alert by its number.
pub(crate) fn find(app: &App, id: &str) -> Result<AlertRow, RequestError> {
    let unknown = || {
        RequestError::NotFound(translatable(
            "There is no such alert in the log, or it is forgotten.",
        ))
    };
    let cursor = id.parse().map_err(|_| unknown())?;
    alerts::log(app)?.get(AlertCursor(cursor))?.ok_or_else(unknown)
}

/// `GET /alerts/{id}`.
pub(crate) fn show(app: &App, request: &RequestContext) -> Result<Response, RequestError> {
    let row = find(app, request.param("id"))?;
    let record: Value = serde_json::from_str(&row.record.record).unwrap_or_default();
    let rule = record["alert"]["rule"].as_str().unwrap_or_default();
    let title = alerts::title(&row);
    let body = html! {
        p.crumbs { a href="/alerts" { (t("Alerts")) } }
        h1 { (title) }
        div.columns {
            div {
                (payload(&record, rule))
                (hits(&record["gauntlet"]))
                @if !rule.is_empty() {
                    section.card { h2 { (t("Rule")) } pre.text.source { (format::plain(rule)) } }
                }
                section.card {
                    details {
                        summary { h2 { (t("Record")) } }
                        pre.text.source { (pretty(&record)) }
                    }
                }
            }
            div { section.card { h2 { (t("Alert")) } (pairs(&row, &record)) } }
        }
    };
    Ok(response::page(StatusCode::OK, layout::page(request, "/alerts", title, &body)))
}

fn pairs(row: &AlertRow, record: &Value) -> Markup {
    let r = &row.record;
    let has_packet = record["packet"].is_string();
    html! {
        dl.pairs {
            dt { (t("When")) } dd { (format::time(r.at_ms)) }
            dt { (t("Kind")) } dd { (t(alerts::kind(&r.kind))) " " (alerts::severity(r.severity)) }
            dt { (t("Action")) } dd { (layout::state(alerts::action(&r.action))) }
            @if !r.rule.is_empty() {
                dt { (t("Rule")) } dd {
                    a href={ "/alerts?rule=" (format::percent(&r.rule)) } { code { (format::plain(&r.rule)) } }
                }
            }
            @if !r.category.is_empty() { dt { (t("Class")) } dd { (format::plain(&r.category)) } }
            dt { (t("From")) } dd { (alerts::end(&r.source, r.source_port)) }
            dt { (t("To")) } dd { (alerts::end(&r.destination, r.destination_port)) }
            dt { (t("Protocol")) } dd { (format::plain(&r.protocol)) }
        }
        @if has_packet {
            p { a.button href={ "/alerts/" (row.cursor.0) "/packets.pcap" } download {
                (t("Packets of the flow (pcap)"))
            } }
            p.hint { (t("The packets with which alerts of this flow came, as they were seen.")) }
        }
    }
}

/// The bytes that the rule saw.
fn payload(record: &Value, rule: &str) -> Markup {
    let bytes = record["payload"].as_str().and_then(|text| STANDARD.decode_to_vec(text).ok());
    let Some(bytes) = bytes else { return html! {} };
    let is_stream = record["stream"] == 1;
    html! {
        section.card {
            h2 { @if is_stream { (t("Stream")) } @else { (t("Packet")) } }
            pre.text.source { (packet_evidence::marked(&bytes, rule)) }
            p.hint { (t("Marked is where the contents of the rule are found. Bytes that are no text are dots.")) }
        }
    }
}

/// Rules that hit a message, and notes about others.
fn hits(found: &Value) -> Markup {
    let Some(found) = found.as_object() else { return html! {} };
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let hits: Vec<&Value> =
        found.get("hits").and_then(Value::as_array).into_iter().flatten().collect();
    let notes: Vec<&Value> =
        found.get("notes").and_then(Value::as_array).into_iter().flatten().collect();
    html! {
        section.card.flush {
            h2 { (t("Why")) }
            table { tbody {
                @for hit in hits.iter().take(HITS_MAX) { tr {
                    td.number { (format::points(hit["score"].as_f64().unwrap_or(0.0))) }
                    td {
                        b { (format::plain(&text(&hit["rule"]))) } " "
                        (format::plain(&text(&hit["description"])))
                        @for evidence in hit["evidence"].as_array().into_iter().flatten().take(3) {
                            @if !text(&evidence["text"]).is_empty() {
                                div.more { q { (format::plain(&text(&evidence["text"]))) } }
                            }
                        }
                    }
                } }
                @for name in ["evidence", "text", "detail", "error"] {
                    @if let Some(value) = found.get(name).map(text).filter(|text| !text.is_empty()) {
                        tr { td colspan="2" { (format::plain(&value)) } }
                    }
                }
                @for note in notes { tr { td colspan="2" { (format::plain(&text(note))) } } }
            } }
        }
    }
}

/// The record for people; what is shown above it is left out.
fn pretty(record: &Value) -> String {
    let mut record = record.clone();
    if let Some(fields) = record.as_object_mut() {
        fields.remove("payload");
        fields.remove("packet");
    }
    format::plain_lines(&serde_json::to_string_pretty(&record).unwrap_or_default())
}

/// `GET /alerts/{id}/packets.pcap`.
pub(crate) fn packets(app: &App, request: &RequestContext) -> Result<Response, RequestError> {
    let row = find(app, request.param("id"))?;
    let rows = match row.record.flow {
        0 => vec![row],
        _ => alerts::log(app)?.of_flow(&row, PACKETS_MAX)?,
    };
    let mut packets: Vec<packet_evidence::Captured> = Vec::new();
    for row in &rows {
        let record: Value = serde_json::from_str(&row.record.record).unwrap_or_default();
        let bytes = record["packet"].as_str().and_then(|text| STANDARD.decode_to_vec(text).ok());
        let Some(bytes) = bytes else { continue };
        let link = record["packet_info"]["linktype"].as_u64().and_then(|n| n.try_into().ok());
        let captured =
            packet_evidence::Captured { at_ms: row.record.at_ms, link: link.unwrap_or(1), bytes };
        // Several alerts of one packet.
        if packets.last() != Some(&captured) {
            packets.push(captured);
        }
    }
    let body = Body::from(packet_evidence::pcap(&packets));
    let mut response = response::respond(StatusCode::OK, "application/vnd.tcpdump.pcap", body);
    let name = HeaderValue::from_static("attachment; filename=\"packets.pcap\"");
    response.headers_mut().insert(header::CONTENT_DISPOSITION, name);
    Ok(response)
}
