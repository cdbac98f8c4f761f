//! The messages that a search finds, as CSV for spreadsheets (RFC 4180).

use axum::body::Body;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::Response;
use gauntlet_store::Summary;

use super::query_fields;
use crate::app::App;
use crate::csv::{self, Cell};
use crate::error::RequestError;
use crate::format;
use crate::request::RequestContext;
use crate::response;

/// Most lines of one file; the filter narrows what is wanted.
const LINES_MAX: usize = 10_000;
/// Messages read at once.
const SLICE: usize = 500;

const HEAD: &str = "received,reference,class,score,bytes,from,subject,recipient,recipients,disposition,outcome\r\n";

/// `GET /messages.csv`: the fields of `/messages`; the newest [`LINES_MAX`].
pub(crate) fn show(app: &App, request: &RequestContext) -> Result<Response, RequestError> {
    let mut query = query_fields::query(request)?;
    query.limit = SLICE;
    let mut out = HEAD.to_owned();
    let mut lines = 0;
    loop {
        let page = app.state.messages.search(&query)?;
        for message in page.messages.iter().take(LINES_MAX - lines) {
            push(&mut out, message);
            lines += 1;
        }
        query.after = page.next;
        if lines >= LINES_MAX || query.after.is_none() {
            break;
        }
    }
    let mut response =
        response::respond(StatusCode::OK, "text/csv; charset=utf-8", Body::from(out));
    let attachment = HeaderValue::from_static("attachment; filename=\"messages.csv\"");
    response.headers_mut().insert(header::CONTENT_DISPOSITION, attachment);
    Ok(response)
}

fn push(out: &mut String, message: &Summary) {
    let first = message.recipients.first();
    let outcome = first.and_then(|r| r.outcome).map_or("", |o| o.name());
    let received = format::day_and_clock(message.received_ms);
    let cells = [
        Cell::Text(&received),
        Cell::Text(&message.id),
        Cell::Text(message.class.name()),
        Cell::Points(message.score),
        Cell::Count(message.size),
        Cell::Text(&message.from),
        Cell::Text(&message.subject),
        first.map_or(Cell::Empty, |r| Cell::Text(&r.recipient)),
        Cell::Count(message.recipients_count),
        first.map_or(Cell::Empty, |r| Cell::Text(&r.action)),
        Cell::Text(outcome),
    ];
    csv::line(out, &cells);
}
