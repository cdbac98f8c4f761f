//! What fields of a request ask of the log of messages, and a query that is kept as a text.

use gauntlet_mail::date::{DAY_MS, day_number};
use gauntlet_mail::encoding::percent_decode;
use gauntlet_store::Query;
use gauntlet_store::log::{Cursor, check_address};
use gauntlet_verdict::Class;

use crate::error::RequestError;
use crate::layout;
use crate::request::RequestContext;

/// Fields of the list of messages that a search may keep: all of its filter, and how long its pages
/// are.
pub(crate) const KEPT_FIELDS: [&str; 17] = [
    "sender",
    "recipient",
    "domain",
    "subject",
    "message_id",
    "id",
    "class",
    "action",
    "outcome",
    "rule",
    "policy_rule",
    "client",
    "event",
    "since",
    "until",
    "score_min",
    "limit",
];

/// Reads a query from the fields of a request.
pub(crate) fn query(request: &RequestContext) -> Result<Query, RequestError> {
    let text = |name| request.field(name).to_owned();
    for name in ["sender", "recipient"] {
        check_address(request.field(name))
            .map_err(|why| RequestError::Bad(format!("{name}: {why}")))?;
    }
    let mut classes = Vec::new();
    for name in request.values("class") {
        classes.push(name.parse::<Class>().map_err(RequestError::Bad)?);
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
        since_ms: day(request, "since")?,
        until_ms: day(request, "until")?.map(|ms| ms + DAY_MS),
        score_min: number(request, "score_min")?,
        after: number(request, "after")?.map(Cursor),
        limit: number(request, "limit")?.unwrap_or(0),
    })
}

/// The start of a day that a field names, in milliseconds.
pub(crate) fn day(request: &RequestContext, name: &str) -> Result<Option<i64>, RequestError> {
    let text = request.field(name);
    if text.is_empty() {
        return Ok(None);
    }
    let day = day_number(text).map(|day| Some(day * DAY_MS));
    day.ok_or_else(|| RequestError::Bad(format!("{name}: {text:?} is no day; write 2026-11-21")))
}

/// The number in a field.
pub(crate) fn number<T: std::str::FromStr>(
    request: &RequestContext,
    name: &str,
) -> Result<Option<T>, RequestError> {
    let text = request.field(name);
    if text.is_empty() {
        return Ok(None);
    }
    let number = text.parse().map(Some);
    number.map_err(|_| RequestError::Bad(format!("{name}: {text:?} is no number that fits")))
}

/// A query as the page of messages has it in its address, whatever it was encoded like; refused is
/// what that page would not understand.
pub(crate) fn checked(request: &RequestContext, text: &str) -> Result<String, RequestError> {
    let mut fields: Vec<(String, String)> = Vec::new();
    for pair in text.trim().trim_start_matches('?').split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let (name, value) = (decoded(name)?, decoded(value)?);
        if !KEPT_FIELDS.contains(&name.as_str()) {
            let shown: String = name.chars().take(40).collect();
            let known = KEPT_FIELDS.join(", ");
            let why = format!("query: {shown:?} is no field of a search; there are: {known}");
            return Err(RequestError::Bad(why));
        }
        if value.chars().any(char::is_control) {
            return Err(RequestError::Bad(format!("query: {name} has control characters")));
        }
        if !value.trim().is_empty() {
            fields.push((name, value.trim().to_owned()));
        }
    }
    let search = request.of_fields(fields);
    query(&search)?;
    Ok(layout::kept(&search))
}

fn decoded(text: &str) -> Result<String, RequestError> {
    String::from_utf8(percent_decode(text.replace('+', " ").as_bytes()))
        .map_err(|_| RequestError::Bad(format!("query: {text:?} is no UTF-8")))
}
