//! Alerts of packets.

use axum::response::Response;
use gauntlet_mail::date::DAY_MS;
use serde_json::{Value, json};

use super::done;
use crate::app::App;
use crate::error::RequestError;
use crate::pages::query_fields::number;
use crate::pages::{alert, alerts};
use crate::request::RequestContext;

const HOUR_MS: i64 = 3_600_000;
/// Hours counted when the request does not say.
const HOURS_DEFAULT: i64 = 24;
/// Days of the counts by rule when the request does not say.
const DAYS_DEFAULT: i64 = 7;

/// `GET /api/v1/alerts`: fields as in the filter of the page, and `after`, `limit`. Without the
/// records, which have whole packets.
pub(super) fn list(app: &App, request: &RequestContext) -> Result<Response, RequestError> {
    let mut page = alerts::log(app)?.search(&alerts::query(request)?)?;
    let ids: Vec<i64> = page.alerts.iter().map(|row| row.cursor.0).collect();
    page.alerts.iter_mut().for_each(|row| row.record.record.clear());
    let mut value = json!(page);
    let rows = value["alerts"].as_array_mut().into_iter().flatten();
    for (row, id) in rows.zip(ids) {
        name_id(row, id);
    }
    done(&value)
}

/// `GET /api/v1/alerts/{alert}`: with its record of EVE.
pub(super) fn one(app: &App, request: &RequestContext) -> Result<Response, RequestError> {
    let row = alert::find(app, request.param("alert"))?;
    let record: Value = serde_json::from_str(&row.record.record).unwrap_or_default();
    let mut value = json!(row);
    name_id(&mut value, row.cursor.0);
    value["record"] = record;
    done(&value)
}

/// What a program asks by, instead of the log's position.
fn name_id(row: &mut Value, id: i64) {
    if let Some(row) = row.as_object_mut() {
        row.remove("cursor");
        row.remove("record");
        row.insert("id".to_owned(), id.into());
    }
}

/// `GET /api/v1/alerts/summary`: of the last `hours`.
pub(super) fn summary(app: &App, request: &RequestContext) -> Result<Response, RequestError> {
    let hours: i64 = number(request, "hours")?.unwrap_or(HOURS_DEFAULT);
    let now = request.now_ms;
    done(&alerts::log(app)?.summary(now - hours * HOUR_MS, now)?)
}

/// `GET /api/v1/alerts/rules`: rules that are loaded, with their alerts of the last `days`.
pub(super) fn rules(app: &App, request: &RequestContext) -> Result<Response, RequestError> {
    let days: i64 = number(request, "days")?.unwrap_or(DAYS_DEFAULT);
    let summary = alerts::log(app)?.summary(request.now_ms - days * DAY_MS, request.now_ms)?;
    let of = |rule: &str| summary.rules.iter().find(|count| count.rule == rule);
    let known = app.state.node.packet_rules();
    let rules = known.iter().map(|known| {
        let count = of(&known.rule);
        json!({
            "rule": known.rule,
            "title": known.title,
            "alerts": count.map_or(0, |count| count.alerts),
            "newest_ms": count.map(|count| count.newest_ms),
            "cost_ppm": known.cost_ppm,
        })
    });
    done(&json!({ "days": days, "rules": rules.collect::<Vec<_>>() }))
}
