//! Decisions about held messages, one or many: what may be done is done, and what was not is named
//! with its reason.

use axum::http::StatusCode;
use axum::response::Response;
use gauntlet_store::quarantine::{Deletion, Held};
use gauntlet_store::users::Role;
use maud::{Markup, html};

use super::elsewhere;
use super::quarantine::{
    ADMIN_ONLY, as_seen, check_addresses, delete_here, list, may_delete, may_release, release_one,
    release_order, trains,
};
use crate::app::App;
use crate::error::RequestError;
use crate::node::{HeldDecision, HeldOrder, NodeError, Released};
use crate::request::RequestContext;
use crate::response;
use crate::text::{plural, t, translatable};
use crate::{format, layout};

/// Messages decided at once.
const DECIDED_MAX: usize = 500;
/// Messages that were not decided about and are named.
const NAMED_MAX: usize = 50;
/// Characters of an id that is no item of ours.
const ID_CHARS_MAX: usize = 80;

const PAST: &str = translatable("It had been released or deleted before.");
const UNRELEASED: &str =
    translatable("It could not be released: try again later, or ask an administrator.");
const UNDELETED: &str =
    translatable("It could not be deleted: try again later, or ask an administrator.");

/// `POST /quarantine/decide`: releases at once; asks once more before it deletes.
pub(crate) fn decide(app: &App, request: &RequestContext) -> Result<Response, RequestError> {
    let ids: Vec<&str> = request.values("item").take(DECIDED_MAX + 1).collect();
    if ids.len() > DECIDED_MAX {
        return Err(RequestError::Bad(format!("more than {DECIDED_MAX} messages at once")));
    }
    if ids.is_empty() {
        return Ok(response::redirect("/quarantine?notice=none-0"));
    }
    let may = match request.field("decision") {
        "release" => may_release,
        "delete" => may_delete,
        other => return Err(RequestError::Bad(format!("decision: there is none named {other:?}"))),
    };
    check_addresses(request)?;
    let (mut items, mut came) = (Vec::new(), Outcome::default());
    for (id, held) in ids.iter().zip(app.state.held.get_all(&ids)?) {
        let refused = match as_seen(app, request, held) {
            Ok(seen) => match may(&seen) {
                Ok(()) => {
                    items.push(seen.held);
                    continue;
                }
                Err(why) => (Undone::of(&seen.held, ""), why),
            },
            Err(why) => (Undone::unseen(id), why),
        };
        let (undone, why) = refused;
        // One that is asked for alone is refused as the API refuses it.
        if ids.len() == 1 {
            return Err(why);
        }
        came.undone.push(Undone { why: why.answer().1, ..undone });
    }
    match request.field("decision") {
        "release" => release(app, request, &items, &mut came),
        _ if request.field("sure") == "yes" => delete(app, request, &items, &mut came),
        _ if !items.is_empty() => return Ok(ask(request, &items, &came.undone)),
        _ => {}
    }
    Ok(came.answer(request, &items))
}

/// A message that was not decided about.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Undone {
    /// What names it.
    reference: String,
    /// Its subject, if the user may open it.
    subject: Option<String>,
    /// The reason, and whom to ask.
    why: String,
}

impl Undone {
    fn of(held: &Held, why: &str) -> Self {
        let subject = Some(format::plain(&held.item.subject));
        Undone { reference: held.reference(), subject, why: why.to_owned() }
    }

    fn unseen(id: &str) -> Self {
        let reference = id.chars().take(ID_CHARS_MAX).collect();
        Undone { reference, subject: None, why: String::new() }
    }
}

/// What a decision came to.
#[derive(Debug, Default)]
struct Outcome {
    done: usize,
    ordered: usize,
    /// Of those that were not decided about, the ones that were decided before.
    past: usize,
    undone: Vec<Undone>,
}

impl Outcome {
    fn past(&mut self, held: &Held) {
        self.past += 1;
        self.undone.push(Undone::of(held, PAST));
    }

    /// What is said of a failure: users get no words of the node's.
    fn failed(&mut self, request: &RequestContext, held: &Held, why: &str, for_users: &str) {
        let why = if request.role() == Role::User || why.is_empty() { for_users } else { why };
        self.undone.push(Undone::of(held, why));
    }

    /// Counts what other nodes said to orders about these items.
    fn orders(
        &mut self,
        request: &RequestContext,
        orders: Result<Vec<HeldOrder>, NodeError>,
        (items, for_users): (&[&Held], &str),
    ) {
        let orders = match orders {
            Ok(orders) => orders,
            Err(error) => {
                let why = error.to_string();
                return items.iter().for_each(|held| self.failed(request, held, &why, for_users));
            }
        };
        for held in items {
            let its = |order: &&HeldOrder| order.item == held.item.id && order.node == held.node;
            match orders.iter().find(its) {
                Some(order) if order.was.is_some() => self.past(held),
                Some(HeldOrder { done_ms: None, .. }) => self.ordered += 1,
                Some(order) if order.is_good => self.done += 1,
                Some(order) => {
                    let why = format!("{}: {}", order.node, order.outcome);
                    self.failed(request, held, &why, for_users);
                }
                None => self.failed(request, held, "", for_users),
            }
        }
    }

    /// The list again, or the page of the one item whose order is still open; where some were not
    /// decided about, the page that names them.
    fn answer(&self, request: &RequestContext, items: &[Held]) -> Response {
        let is_release = request.field("decision") == "release";
        let notice = match self {
            Outcome { done: 0, ordered: 0, past: n @ 1.., undone } if *n == undone.len() => {
                format!("past-{n}")
            }
            Outcome { undone, .. } if !undone.is_empty() => return self.page(request, is_release),
            Outcome { done, ordered: 1.., .. } if *done > 0 => {
                return self.page(request, is_release);
            }
            Outcome { ordered: n @ 1.., .. } => format!("ordered-{n}"),
            Outcome { done: n, .. } if is_release => format!("released-{n}"),
            Outcome { done: n, .. } => format!("deleted-{n}"),
        };
        let place = match items {
            [one] if self.ordered > 0 => format!("/{}", format::percent(&one.reference())),
            _ => String::new(),
        };
        response::redirect(&format!("/quarantine{place}?notice={notice}"))
    }

    fn page(&self, request: &RequestContext, is_release: bool) -> Response {
        let done = self.done as u64;
        let done = match is_release {
            true => plural(done, "{} message released.", "{} messages released."),
            false => plural(done, "{} message deleted.", "{} messages deleted."),
        };
        let ordered = plural(
            self.ordered as u64,
            "{} order is given; the node that holds the message has not answered yet.",
            "{} orders are given; the nodes that hold the messages have not answered yet.",
        );
        let body = html! {
            h1 { (t("What was done")) }
            p.notice.good[self.done > 0].poor[self.done == 0] role="status" { (done) }
            @if self.ordered > 0 { p.notice.good { (ordered) } }
            (named(&self.undone, is_release))
            p { a.button href="/quarantine" { (t("Back to the quarantine")) } }
        };
        let title = t("What was done");
        response::page(StatusCode::OK, layout::page(request, "/quarantine", title, &body))
    }
}

/// The messages that were not decided about, each with its reason; a link where it may be opened.
fn named(undone: &[Undone], is_release: bool) -> Markup {
    let n = undone.len() as u64;
    let title = match is_release {
        true => plural(n, "{} message was not released", "{} messages were not released"),
        false => plural(n, "{} message is not deleted", "{} messages are not deleted"),
    };
    html! {
        @if !undone.is_empty() {
            section.card.undone {
                h2 { (title) }
                ul.plain {
                    @for one in undone.iter().take(NAMED_MAX) {
                        li {
                            @match &one.subject {
                                Some(subject) => {
                                    a href={ "/quarantine/" (format::percent(&one.reference)) } {
                                        (layout::subject(subject))
                                    }
                                    " " code { (format::plain(&one.reference)) }
                                },
                                None => code { (format::plain(&one.reference)) },
                            }
                            span.more { " " (t(&one.why)) }
                        }
                    }
                }
                @if undone.len() > NAMED_MAX { p { (t("And {} more.").with(undone.len() - NAMED_MAX)) } }
            }
        }
    }
}

fn release(app: &App, request: &RequestContext, items: &[Held], came: &mut Outcome) {
    let mut there = Vec::new();
    for held in items {
        if elsewhere::is_elsewhere(app, held) {
            there.push(held);
            continue;
        }
        match release_one(app, request, held) {
            Ok(Released::Done(_)) => came.done += 1,
            Ok(Released::Ordered(_)) => came.ordered += 1,
            Ok(Released::NotHeld(_) | Released::Unknown) => came.past(held),
            Ok(Released::NotAllowed) => {
                let (_, why) = ADMIN_ONLY.answer();
                came.failed(request, held, &why, &why);
            }
            Err(error) => came.failed(request, held, &error.to_string(), UNRELEASED),
        }
    }
    if !there.is_empty() {
        let decision = HeldDecision::Release(release_order(request));
        let by = (request.login(), request.now_ms);
        let orders = elsewhere::decide(app, by, &there, &decision);
        came.orders(request, orders, (&there, UNRELEASED));
    }
}

fn delete(app: &App, request: &RequestContext, items: &[Held], came: &mut Outcome) {
    let (there, here): (Vec<&Held>, Vec<&Held>) =
        items.iter().partition(|held| elsewhere::is_elsewhere(app, held));
    for held in here {
        match delete_here(app, request, held) {
            Ok(Deletion::Done) => came.done += 1,
            Ok(Deletion::NotHeld(_) | Deletion::Unknown) => came.past(held),
            // The others are decided about all the same.
            Err(error) => {
                tracing::error!(item = held.item.id, ?error, "a held message was not deleted");
                came.failed(request, held, &error.answer().1, UNDELETED);
            }
        }
    }
    if !there.is_empty() {
        let by = (request.login(), request.now_ms);
        let decision = HeldDecision::Delete { who: request.login(), learn: trains(request) };
        let orders = elsewhere::decide(app, by, &there, &decision);
        came.orders(request, orders, (&there, UNDELETED));
    }
}

/// Asks before deleting: nothing brings a deleted message back. Names those that stay.
fn ask(request: &RequestContext, items: &[Held], undone: &[Undone]) -> Response {
    let n = items.len() as u64;
    let body = html! {
        h1 { (plural(n, "Delete {} message?", "Delete {} messages?")) }
        p.lead { (t("Nothing brings a deleted message back. Their recipients will not get it.")) }
        (list(request, items, None))
        (named(undone, false))
        form.actions method="post" action="/quarantine/decide" {
            (layout::token(request))
            input type="hidden" name="sure" value="yes";
            @for held in items { input type="hidden" name="item" value=(held.reference()); }
            @if trains(request) { input type="hidden" name="learn" value="yes"; }
            button.danger type="submit" name="decision" value="delete" { (t("Delete for good")) }
            a.button.quiet href="/quarantine" { (t("Keep")) }
        }
    };
    response::page(StatusCode::OK, layout::page(request, "/quarantine", t("Delete?"), &body))
}
