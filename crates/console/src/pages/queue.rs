//! What waits for delivery: why, since when, and what can be done about it.

use axum::http::StatusCode;
use axum::response::Response;
use maud::{Markup, html};

use crate::app::App;
use crate::error::RequestError;
use crate::node::{QueueOrder, QueuedMail};
use crate::request::RequestContext;
use crate::response;
use crate::text::{plural, t, translatable};
use crate::{format, layout};

/// Most messages that the page lists.
const SHOWN_MAX: usize = 200;

/// `GET /queue`.
pub(crate) fn show(app: &App, request: &RequestContext) -> Result<Response, RequestError> {
    let messages = app.state.node.queue(SHOWN_MAX);
    let status = app.state.node.status();
    let routes = app.state.node.mail_routes();
    let body = html! {
        h1 { (t("Queue")) }
        p.lead { (t("{} messages are queued or being delivered").with(format::count(status.queued)))
            @if status.queue_age_ms > 0 { (t(", the oldest for {}").with(format::duration_us(status.queue_age_ms * 1000))) } "." }
        form method="post" action="/queue" {
            (layout::token(request))
            table.cards.card.flush {
                thead { tr {
                    th.pick scope="col" {
                        input type="checkbox" data-all="id" aria-label=(t("Select all")) hidden; }
                    th scope="col" { (t("Message")) } th scope="col" { (t("Next attempt")) }
                    th scope="col" { (t("From")) } th scope="col" { (t("To")) } th scope="col" { (t("Size")) }
                    th scope="col" { (t("Last answer")) }
                } }
                tbody {
                    @for message in &messages { (row(message, request.now_ms)) }
                    @if messages.is_empty() { tr { td.empty colspan="7" { (t("The queue is empty.")) } } }
                }
            }
            @if !messages.is_empty() {
                div.actions.sticky {
                    button.main type="submit" name="order" value="retry" { (t("Deliver now")) }
                    button type="submit" name="order" value="hold" { (t("Hold")) }
                    button.danger type="submit" name="order" value="delete" { (t("Delete")) }
                }
            }
        }
        h2 { (t("Routes")) }
        section.card.flush { table.cards {
            thead { tr { th scope="col" { (t("Mail for")) } th scope="col" { (t("Goes to")) } th scope="col" { "TLS" } } }
            tbody { @for route in &routes { tr {
                td data-label=(t("Mail for")) { (t(&format::plain(&route.mail_for))) }
                td data-label=(t("Goes to")) { code { (format::plain(&route.goes_to)) } }
                td data-label="TLS" { (route.tls) }
            } } }
        } }
        p.hint { (t("The first that fits counts; routes are set in [route] and [[next_hop]] of the configuration.")) }
    };
    Ok(response::page(StatusCode::OK, layout::page(request, "/queue", t("Queue"), &body)))
}

fn row(message: &QueuedMail, now_ms: i64) -> Markup {
    let QueuedMail { id, due_ms, active, from, to, size, attempts, reply } = message;
    let sender = if from.is_empty() { "<>".to_owned() } else { format::plain(from) };
    html! {
        tr {
            td.pick { input type="checkbox" name="id" value=(id) aria-label={ (t("Select {}").with(id)) }; }
            td data-label=(t("Message")) { a href={ "/messages/" (format::percent(id)) } { code { (id) } } }
            td data-label=(t("Next")) {
                @match (active, due_ms) {
                    (true, _) => (t("now")),
                    (_, None) => b { (t("held")) },
                    (_, Some(due)) => { (t("in {}").with(format::duration_us(
                        due.saturating_sub(now_ms).max(0).cast_unsigned() * 1000))) },
                }
                @if *attempts > 0 { span.more { " " (t("after {} attempts").with(attempts)) } }
            }
            td data-label=(t("From")) { (sender) }
            td data-label=(t("To")) {
                @if let Some(first) = to.first() { (format::plain(first)) }
                @if to.len() > 1 { span.more { " +" (to.len() - 1) } }
            }
            td data-label=(t("Size")) { (format::bytes(*size)) }
            td data-label=(t("Answer")) { (format::plain(reply)) }
        }
    }
}

/// `POST /queue`: `order` for every `id`; asks once more before it deletes.
pub(crate) fn decide(app: &App, request: &RequestContext) -> Result<Response, RequestError> {
    let ids: Vec<&str> = request.values("id").collect();
    if ids.is_empty() {
        return Ok(response::redirect("/queue?notice=none-0"));
    }
    let order = match request.field("order") {
        "retry" => QueueOrder::Retry,
        "hold" => QueueOrder::Hold,
        "delete" if request.field("sure") == "yes" => QueueOrder::Delete,
        "delete" => return Ok(ask(request, &ids)),
        _ => {
            return Err(RequestError::Bad(translatable("order: retry, hold or delete").to_owned()));
        }
    };
    let count = act(app, request, order, &ids)?;
    Ok(response::redirect(&format!("/queue?notice=queue-{count}")))
}

/// Does it, and notes who did.
pub(crate) fn act(
    app: &App,
    request: &RequestContext,
    order: QueueOrder,
    ids: &[&str],
) -> Result<usize, RequestError> {
    let count = app.state.node.queue_order(order, ids, request.login())?;
    let what = match order {
        QueueOrder::Retry => "queue: deliver now",
        QueueOrder::Hold => "queue: hold",
        QueueOrder::Delete => "queue: delete",
    };
    let shown: Vec<&str> = ids.iter().take(20).copied().collect();
    app.state.users.note(request.now_ms, request.login(), what, &shown.join(", "))?;
    Ok(count)
}

fn ask(request: &RequestContext, ids: &[&str]) -> Response {
    let n = ids.len();
    let body = html! {
        h1 { (plural(n as u64, "Delete {} message from the queue?", "Delete {} messages from the queue?")) }
        p.lead { (t("They are not delivered, and their senders are not notified.")) }
        form.actions method="post" action="/queue" {
            (layout::token(request))
            input type="hidden" name="sure" value="yes";
            @for id in ids { input type="hidden" name="id" value=(id); }
            button.danger type="submit" name="order" value="delete" { (t("Delete for good")) }
            a.button.quiet href="/queue" { (t("Keep")) }
        }
    };
    response::page(StatusCode::OK, layout::page(request, "/queue", t("Delete?"), &body))
}
