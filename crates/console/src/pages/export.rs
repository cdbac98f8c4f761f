//! The messages that a search finds, as CSV for spreadsheets (RFC 4180).

use axum::body::Body;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::Response;
use gauntlet_store::Summary;

use super::messages;
use crate::fault::Fault;
use crate::format;
use crate::server::App;
use crate::visit::{self, Visit};

/// Most lines of one file; the filter narrows what is wanted.
const LINES_MAX: usize = 10_000;
/// Messages read at once.
const SLICE: usize = 500;

const HEAD: &str = "received,reference,class,score,bytes,from,subject,recipient,recipients,disposition,outcome\r\n";

/// `GET /messages.csv`: the fields of `/messages`; the newest [`LINES_MAX`].
pub(crate) fn show(app: &App, visit: &Visit) -> Result<Response, Fault> {
    let mut query = messages::query(visit)?;
    query.limit = SLICE;
    let mut out = HEAD.to_owned();
    let mut lines = 0;
    loop {
        let page = app.state.log.search(&query)?;
        for message in page.messages.iter().take(LINES_MAX - lines) {
            push(&mut out, message);
            lines += 1;
        }
        query.after = page.next;
        if lines >= LINES_MAX || query.after.is_none() {
            break;
        }
    }
    let mut response = visit::respond(StatusCode::OK, "text/csv; charset=utf-8", Body::from(out));
    let attachment = HeaderValue::from_static("attachment; filename=\"messages.csv\"");
    response.headers_mut().insert(header::CONTENT_DISPOSITION, attachment);
    Ok(response)
}

fn push(out: &mut String, message: &Summary) {
    let first = message.recipients.first();
    let outcome = first.and_then(|r| r.outcome).map_or("", |o| o.name());
    let fields = [
        format::day_and_clock(message.received_ms),
        message.id.clone(),
        message.class.name().to_owned(),
        message.score.to_string(),
        message.size.to_string(),
        message.from.clone(),
        message.subject.clone(),
        first.map(|r| r.recipient.clone()).unwrap_or_default(),
        message.recipients_count.to_string(),
        first.map(|r| r.action.clone()).unwrap_or_default(),
        outcome.to_owned(),
    ];
    for (n, field) in fields.iter().enumerate() {
        if n > 0 {
            out.push(',');
        }
        // The score is ours and may begin with a minus.
        out.push_str(&cell(field, n == 3));
    }
    out.push_str("\r\n");
}

/// A field as RFC 4180 writes it. Spreadsheets run what begins with one of `=+-@`: text from outside
/// gets an apostrophe before it.
pub(crate) fn cell(text: &str, is_number: bool) -> String {
    let plain = format::plain(text);
    let runs = plain.trim_start().starts_with(['=', '+', '-', '@', '\t']) && !is_number;
    let plain = if runs { format!("'{plain}") } else { plain };
    if plain.contains(['"', ',', '\r', '\n', '\'']) {
        format!("\"{}\"", plain.replace('"', "\"\""))
    } else {
        plain
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_from_outside_runs_or_leaves_its_cell() {
        assert_eq!(cell("plain", false), "plain");
        assert_eq!(cell("a,b", false), "\"a,b\"");
        assert_eq!(cell("say \"x\"", false), "\"say \"\"x\"\"\"");
        assert_eq!(cell("=cmd|' /C calc'!A0", false), "\"'=cmd|' /C calc'!A0\"");
        assert_eq!(cell(" @SUM(1)", false), "\"' @SUM(1)\"");
        assert_eq!(cell("-0.4", true), "-0.4");
    }
}
