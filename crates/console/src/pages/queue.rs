//! What waits for delivery: why, since when, and what can be done about it.

use axum::http::StatusCode;
use axum::response::Response;
use gauntlet_store::reference;
use maud::{Markup, html};

use crate::app::App;
use crate::error::RequestError;
use crate::node::{ArrayNode, QueueOrder, QueueOrdered, QueuedMail};
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
    let others = others(app);
    let body = html! {
        h1 { (t("Queue")) }
        p.lead { (t("{} messages are queued or being delivered").with(format::count(status.queued)))
            @if status.queue_age_ms > 0 { (t(", the oldest for {}").with(format::duration_us(status.queue_age_ms * 1000))) } "." }
        (layout::warnings(app, request))
        (table(request, &messages, ""))
        @for node in &others { (elsewhere(request, node)) }
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

/// The other nodes of the array in whose queues something waits.
pub(crate) fn others(app: &App) -> Vec<ArrayNode> {
    let own = app.state.node.name();
    let nodes = app.state.node.array().map_or(Vec::new(), |array| array.nodes);
    let waits = |node: &ArrayNode| node.queued > 0 && node.name != own && node.state != "removed";
    nodes.into_iter().filter(waits).collect()
}

/// What another node told of its queue when it was last seen.
fn elsewhere(request: &RequestContext, node: &ArrayNode) -> Markup {
    html! {
        h2 { (t("Queue of {}").with(format::plain(&node.name))) }
        p.lead { (t("{} messages as of {}; of those that wait after a failed attempt or are held, the oldest:")
            .with(format::count(node.queued)).with(format::time(node.seen_ms))) }
        @if node.waiting.is_empty() { p.hint { (t("None: all are on their way.")) } }
        @else { (table(request, &node.waiting, &node.name)) }
    }
}

/// Messages of a queue, and what can be done with them. `node` is empty for this node's own.
fn table(request: &RequestContext, messages: &[QueuedMail], node: &str) -> Markup {
    html! {
        form method="post" action="/queue" {
            (layout::token(request))
            @if !node.is_empty() { input type="hidden" name="node" value=(node); }
            table.cards.card.flush {
                thead { tr {
                    th.pick scope="col" {
                        input type="checkbox" data-all="id" aria-label=(t("Select all")) hidden; }
                    th scope="col" { (t("Message")) } th scope="col" { (t("Next attempt")) }
                    th scope="col" { (t("From")) } th scope="col" { (t("To")) } th scope="col" { (t("Size")) }
                    th scope="col" { (t("Last answer")) }
                } }
                tbody {
                    @for message in messages { (row(message, node, request.now_ms)) }
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
    }
}

fn row(message: &QueuedMail, node: &str, now_ms: i64) -> Markup {
    let QueuedMail { id, due_ms, active, from, to, more, size, attempts, reply, leaving_to } =
        message;
    let more = *more + to.len().saturating_sub(1) as u64;
    let sender = if from.is_empty() { "<>".to_owned() } else { format::plain(from) };
    html! {
        tr {
            td.pick { input type="checkbox" name="id" value=(id) aria-label={ (t("Select {}").with(id)) }; }
            td data-label=(t("Message")) { a href={ "/messages/" (format::percent(&reference::join(id, node))) } { code { (id) } } }
            td data-label=(t("Next")) {
                @match (active, due_ms) {
                    (true, _) => (t("now")),
                    (_, None) if !leaving_to.is_empty() =>
                        b { (t("moving to {}").with(format::plain(leaving_to))) },
                    (_, None) => b { (t("held")) },
                    (_, Some(due)) => { (t("in {}").with(format::duration_us(
                        due.saturating_sub(now_ms).max(0).cast_unsigned() * 1000))) },
                }
                @if *attempts > 0 { span.more { " " (t("after {} attempts").with(attempts)) } }
            }
            td data-label=(t("From")) { (sender) }
            td data-label=(t("To")) {
                @if let Some(first) = to.first() { (format::plain(first)) }
                @if more > 0 { span.more { " +" (more) } }
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
        "delete" => return Ok(ask(request, &ids, request.field("node"))),
        _ => {
            return Err(RequestError::Bad(translatable("order: retry, hold or delete").to_owned()));
        }
    };
    let node = request.field("node");
    if !node.is_empty() && node != app.state.node.name() {
        let ordered = act_elsewhere(app, request, node, order, &ids)?;
        return match (ordered.is_done, ordered.is_good) {
            (false, _) => Ok(response::redirect("/queue?notice=ordered-1")),
            (true, true) => Ok(response::redirect("/queue?notice=queue_ordered-1")),
            (true, false) => Err(RequestError::Bad(format!("{node}: {}", ordered.outcome))),
        };
    }
    let count = act(app, request, order, &ids)?;
    Ok(response::redirect(&format!("/queue?notice=queue-{count}")))
}

/// Has another node do it, and notes who ordered it.
pub(crate) fn act_elsewhere(
    app: &App,
    request: &RequestContext,
    node: &str,
    order: QueueOrder,
    ids: &[&str],
) -> Result<QueueOrdered, RequestError> {
    let ordered = app.state.node.queue_order_elsewhere(node, order, ids, request.login())?;
    note(app, request, order, &format!("{node}: {}", listed(ids)))?;
    Ok(ordered)
}

/// Does it, and notes who did.
pub(crate) fn act(
    app: &App,
    request: &RequestContext,
    order: QueueOrder,
    ids: &[&str],
) -> Result<usize, RequestError> {
    let count = app.state.node.queue_order(order, ids, request.login())?;
    note(app, request, order, &listed(ids))?;
    Ok(count)
}

fn listed(ids: &[&str]) -> String {
    ids.iter().take(20).copied().collect::<Vec<&str>>().join(", ")
}

fn note(
    app: &App,
    request: &RequestContext,
    order: QueueOrder,
    about: &str,
) -> Result<(), RequestError> {
    let what = match order {
        QueueOrder::Retry => "queue: deliver now",
        QueueOrder::Hold => "queue: hold",
        QueueOrder::Delete => "queue: delete",
    };
    Ok(app.state.users.note(request.now_ms, request.login(), what, about)?)
}

fn ask(request: &RequestContext, ids: &[&str], node: &str) -> Response {
    let n = ids.len();
    let body = html! {
        h1 { (plural(n as u64, "Delete {} message from the queue?", "Delete {} messages from the queue?")) }
        p.lead { (t("They are not delivered, and their senders are not notified.")) }
        form.actions method="post" action="/queue" {
            (layout::token(request))
            input type="hidden" name="sure" value="yes";
            @if !node.is_empty() { input type="hidden" name="node" value=(node); }
            @for id in ids { input type="hidden" name="id" value=(id); }
            button.danger type="submit" name="order" value="delete" { (t("Delete for good")) }
            a.button.quiet href="/queue" { (t("Keep")) }
        }
    };
    response::page(StatusCode::OK, layout::page(request, "/queue", t("Delete?"), &body))
}
