//! The quarantine's list: who sees what of it, and what is done with one of its messages.

use axum::http::StatusCode;
use axum::response::Response;
use gauntlet_mail::date::DAY_MS;
use gauntlet_policy::is_mailbox;
use gauntlet_store::quarantine::{
    Deletion, FolderSummary, Held, HeldPage, HeldQuery, ReleaseOrder, ReleaseRight, State,
};
use gauntlet_store::users::{Role, User};
use gauntlet_verdict::Class;
use maud::{Markup, html};

use super::elsewhere::{self, Deleted};
use super::query_fields::{day, number};
use crate::app::App;
use crate::error::RequestError;
use crate::format;
use crate::layout;
use crate::node::{HeldDecision, HeldOrder, NodeError, Released};
use crate::request::RequestContext;
use crate::response;
use crate::text::{t, translatable};

const STATES: [State; 4] = [State::Held, State::Releasing, State::Released, State::Deleted];

/// Reads a query from the fields of a request, within what the user may see.
pub(crate) fn query(request: &RequestContext) -> Result<HeldQuery, RequestError> {
    let mut classes = Vec::new();
    for name in request.values("class") {
        classes.push(name.parse::<Class>().map_err(RequestError::Bad)?);
    }
    let state =
        match request.field("state") {
            "" => Some(State::Held),
            "any" => None,
            name => Some(STATES.into_iter().find(|s| s.name() == name).ok_or_else(|| {
                RequestError::Bad(format!("state: there is none named {name:?}"))
            })?),
        };
    let mut query = HeldQuery {
        folder: request.field("folder").to_owned(),
        folders: Vec::new(),
        state,
        recipient: request.field("recipient").to_owned(),
        message: request.field("message").to_owned(),
        text: request.field("text").to_owned(),
        hide_recipients: false,
        classes,
        since_ms: day(request, "since")?,
        until_ms: day(request, "until")?.map(|ms| ms + DAY_MS),
        after: number(request, "after")?,
        limit: number(request, "limit")?.unwrap_or(0),
    };
    let Some(user) = request.session.as_ref().map(|s| &s.user) else {
        return Err(RequestError::SignIn);
    };
    match user.role {
        Role::Administrator => {}
        Role::Reviewer => query.folders.clone_from(&user.folders),
        // A user sees one address at a time: the one asked for if it is theirs, else their first.
        Role::User => {
            let asked = query.recipient.to_lowercase();
            let own = user.addresses.iter().find(|a| a.to_lowercase() == asked);
            let own = own.or(user.addresses.first());
            query.recipient = own.ok_or(RequestError::Forbidden(NO_ADDRESS))?.clone();
            query.hide_recipients = true;
        }
    }
    Ok(query)
}

const NO_ADDRESS: &str =
    translatable("No mail address is set for your account. Ask an administrator.");

/// An item as this user sees it, and what they may do with it.
pub(crate) struct Seen {
    /// The item; for a user without the addresses of others.
    pub(crate) held: Held,
    /// They may release it.
    pub(crate) may_release: bool,
    /// They may delete it.
    pub(crate) may_delete: bool,
}

pub(crate) const ADMIN_ONLY: RequestError = RequestError::Forbidden(translatable(
    "Only a reviewer or an administrator can release this message: ask one.",
));
const TO_OTHERS: RequestError = RequestError::Forbidden(translatable(
    "Users release messages to their own addresses only: leave `to` out.",
));
const OTHER_FOLDER: RequestError = RequestError::Forbidden(translatable(
    "This message is held in a folder that is not yours to decide in: ask an administrator.",
));
const NOT_ALONE: RequestError = RequestError::Forbidden(translatable(
    "Only a reviewer or an administrator can delete this message: ask one.",
));

fn is_own(user: &User, address: &str) -> bool {
    user.addresses.iter().any(|a| a.eq_ignore_ascii_case(address))
}

/// A reviewer decides in this folder.
fn decides_in(user: &User, folder: &str) -> bool {
    user.folders.is_empty() || user.folders.iter().any(|own| own == folder)
}

/// The page of this item is not forbidden to who reads the log.
pub(super) fn may_open(request: &RequestContext, held: &Held) -> bool {
    request.session.as_ref().is_some_and(|session| match session.user.role {
        Role::Administrator => true,
        Role::Reviewer => decides_in(&session.user, &held.item.folder),
        Role::User => held.item.recipients.iter().any(|r| is_own(&session.user, r)),
    })
}

/// The item as this user may see it; none if they may not.
fn seen(app: &App, user: &User, mut held: Held) -> Option<Seen> {
    let all = |held| Some(Seen { held, may_release: true, may_delete: true });
    match user.role {
        Role::Administrator => all(held),
        Role::Reviewer => decides_in(user, &held.item.folder).then(|| all(held)).flatten(),
        Role::User => {
            let item = &held.item;
            let own = item.recipients.iter().filter(|r| is_own(user, r)).count();
            let alone = own == item.recipients.len();
            let quarantine = &app.state.quarantine;
            let may_release = quarantine.is_released_by_recipient(item, &user.addresses);
            hide_others(user, &mut held);
            (own > 0).then_some(Seen { held, may_release, may_delete: alone })
        }
    }
}

/// Takes the addresses of others out of an item: who else got a message may be a blind copy.
fn hide_others(user: &User, held: &mut Held) {
    held.item.recipients.retain(|r| is_own(user, r));
    held.item.envelope.rcpt_to.retain(|r| is_own(user, r));
}

/// The item, if the user may see it.
pub(crate) fn find(app: &App, request: &RequestContext, id: &str) -> Result<Seen, RequestError> {
    as_seen(app, request, app.state.held.get(id)?)
}

/// The same of an item that was read.
pub(super) fn as_seen(
    app: &App,
    request: &RequestContext,
    held: Option<Held>,
) -> Result<Seen, RequestError> {
    let unknown = RequestError::NotFound(translatable(
        "There is no such message in the quarantine, or it is forgotten.",
    ));
    let user = request.session.as_ref().map(|s| &s.user);
    let (Some(held), Some(user)) = (held, user) else { return Err(unknown) };
    // The log, which reviewers see all of, names it: no secret that it exists. Its content is.
    let hidden = if user.role == Role::Reviewer { OTHER_FOLDER } else { unknown };
    seen(app, user, held).ok_or(hidden)
}

/// A page of the list, as the user may see it.
pub(crate) fn search(
    app: &App,
    request: &RequestContext,
    query: &HeldQuery,
) -> Result<HeldPage, RequestError> {
    let mut page = app.state.held.search(query)?;
    if let Some(user) = request.session.as_ref().map(|s| &s.user).filter(|u| u.role == Role::User) {
        for held in &mut page.items {
            hide_others(user, held);
        }
    }
    Ok(page)
}

/// `GET /quarantine`.
pub(crate) fn show(app: &App, request: &RequestContext) -> Result<Response, RequestError> {
    let query = query(request)?;
    let page = search(app, request, &query)?;
    let ordered = open_orders(app, request, &page.items);
    let mut folders = app.state.held.folders()?;
    folders.retain(|f| query.folders.is_empty() || query.folders.contains(&f.name));
    let body = html! {
        h1 { (t("Quarantine")) }
        (layout::warnings(app, request))
        @if request.role() != Role::User { (tabs(&folders, &query)) }
        (filter(request))
        form method="post" action="/quarantine/decide" {
            (layout::token(request))
            (list(request, &page.items, Some(&ordered)))
            @if !page.items.is_empty() {
                div.actions.sticky {
                    button.main type="submit" name="decision" value="release" { (t("Release selected")) }
                    button.danger type="submit" name="decision" value="delete" { (t("Delete selected")) }
                }
            }
        }
        (layout::pager(request, "/quarantine", page.next))
    };
    Ok(response::page(StatusCode::OK, layout::page(request, "/quarantine", t("Quarantine"), &body)))
}

/// Orders to other nodes about items of a page that those have not answered yet.
fn open_orders(app: &App, request: &RequestContext, items: &[Held]) -> Vec<HeldOrder> {
    if request.role() == Role::User || !items.iter().any(|h| elsewhere::is_elsewhere(app, h)) {
        return Vec::new();
    }
    let mut orders = app.state.node.held_orders();
    orders.retain(|order| order.done_ms.is_none());
    orders
}

fn tabs(folders: &[FolderSummary], query: &HeldQuery) -> Markup {
    let all: u64 = folders.iter().map(|f| f.items).sum();
    let current = |name: &str| (query.folder == name).then_some("true");
    html! {
        nav.tabs aria-label=(t("Folders")) {
            a href="/quarantine" aria-current=[current("")] { (t("All")) span.count { (format::count(all)) } }
            @for folder in folders {
                a href={ "/quarantine?folder=" (format::percent(&folder.name)) }
                    aria-current=[current(&folder.name)]
                    title={ (format::bytes(folder.bytes)) } {
                    (format::plain(&folder.name)) span.count { (format::count(folder.items)) }
                }
            }
        }
    }
}

fn filter(request: &RequestContext) -> Markup {
    let value = |name| request.field(name);
    html! {
        form.filter.card method="get" action="/quarantine" role="search" {
            input type="hidden" name="folder" value=(value("folder"));
            div.fields {
                (layout::input("text", t("Subject, sender or recipient"), value("text"), "search", ""))
                (layout::select("class", t("Class"), value("class"), &Class::ALL.map(Class::name)))
                label { span { (t("State")) }
                    select name="state" {
                        @for state in STATES {
                            option value=(t(state.name())) selected[value("state") == state.name()] {
                                (t(state.name()))
                            }
                        }
                        option value="any" selected[value("state") == "any"] { (t("any")) }
                    }
                }
            }
            div.actions { button type="submit" { (t("Find")) } }
        }
    }
}

/// Items as a table that becomes cards where it is narrow: to be selected, with the orders that are
/// open for them; or only shown.
pub(super) fn list(
    request: &RequestContext,
    items: &[Held],
    selectable: Option<&[HeldOrder]>,
) -> Markup {
    html! {
        table.cards.messages.card.flush {
            thead { tr {
                @if selectable.is_some() {
                    th.pick scope="col" {
                        input type="checkbox" data-all="item" aria-label=(t("Select all")) hidden;
                    }
                }
                th scope="col" { (t("Received")) } th scope="col" { (t("Verdict")) }
                th scope="col" { (t("From and subject")) } th scope="col" { (t("To")) }
                th scope="col" { (t("Folder")) }
            } }
            tbody {
                @for held in items { (row(request, held, selectable)) }
                @if items.is_empty() { tr { td.empty colspan="6" { (t("Nothing is held here.")) } } }
            }
        }
    }
}

fn row(request: &RequestContext, held: &Held, selectable: Option<&[HeldOrder]>) -> Markup {
    let item = &held.item;
    let reference = held.reference();
    let subject = format::plain(&item.subject);
    let subject = layout::subject(&subject);
    let is_its = |order: &&HeldOrder| order.item == item.id && order.node == held.node;
    let ordered = selectable.into_iter().flatten().find(is_its);
    html! {
        tr {
            @if selectable.is_some() {
                td.pick {
                    @if held.state == State::Held {
                        input type="checkbox" name="item" value=(reference)
                            aria-label={ (t("Select {}").with(&subject)) };
                    }
                }
            }
            td.when data-label=(t("Received")) { (format::time(item.received_ms)) }
            td.verdict data-label=(t("Verdict")) {
                (layout::class_pill(item.class)) span.score { (format::points(item.score)) }
            }
            td.what {
                span.from { (format::plain(&item.from)) }
                a href={ "/quarantine/" (format::percent(&reference)) } { (subject) }
            }
            td.to data-label=(t("To")) {
                @if let Some(first) = item.recipients.first() { span { (format::plain(first)) } }
                @if item.recipients.len() > 1 { span.more { " +" (item.recipients.len() - 1) } }
            }
            td.folder data-label=(t("Folder")) {
                (format::plain(&item.folder)) " "
                @if !held.node.is_empty() && request.role() != Role::User { span.more { (format::plain(&held.node)) } " " }
                @if let Some(order) = ordered { (layout::state("ordered")) ": " (t(&format::spaced(&order.action))) " " }
                @if held.state != State::Held { (layout::state(held.state.name())) }
            }
        }
    }
}

/// Refuses to release to what is no address, and a user's release to anybody else.
pub(crate) fn check_addresses(request: &RequestContext) -> Result<(), RequestError> {
    if request.role() == Role::User {
        let own = request.session.as_ref().map(|s| s.user.addresses.as_slice()).unwrap_or_default();
        let is_own = |to: &str| own.iter().any(|address| address.eq_ignore_ascii_case(to));
        if !request.values("to").all(is_own) {
            return Err(TO_OTHERS);
        }
    }
    match request.values("to").find(|to| !is_mailbox(to.as_bytes())) {
        Some(odd) => Err(RequestError::Bad(format!("to: {odd:?} is no address"))),
        None => Ok(()),
    }
}

/// Refuses a release that the user may not ask for.
pub(crate) fn may_release(seen: &Seen) -> Result<(), RequestError> {
    if seen.may_release { Ok(()) } else { Err(ADMIN_ONLY) }
}

/// Refuses to delete what the user may not decide about alone.
pub(crate) fn may_delete(seen: &Seen) -> Result<(), RequestError> {
    if seen.may_delete { Ok(()) } else { Err(NOT_ALONE) }
}

/// The release that the form asks for. Users release to themselves only.
pub(super) fn release_order(request: &RequestContext) -> ReleaseOrder {
    let mut to: Vec<String> = request.values("to").map(str::to_owned).collect();
    let mut right = ReleaseRight::Admin;
    if request.role() == Role::User {
        to.clear();
        let own = request.session.as_ref().map(|s| s.user.addresses.clone());
        right = ReleaseRight::Recipient(own.unwrap_or_default());
    }
    ReleaseOrder { who: request.login().to_owned(), right, to, learn: trains(request) }
}

/// Releases one item as the form asks.
pub(crate) fn release_one(
    app: &App,
    request: &RequestContext,
    held: &Held,
) -> Result<Released, NodeError> {
    release_by(app, held, release_order(request), request.now_ms)
}

/// Releases one item, whichever node holds it.
pub(crate) fn release_by(
    app: &App,
    held: &Held,
    order: ReleaseOrder,
    now_ms: i64,
) -> Result<Released, NodeError> {
    let id = &held.item.id;
    if !elsewhere::is_elsewhere(app, held) {
        let released = app.state.node.release(id, &order);
        if let Err(error) = &released {
            tracing::error!(item = id, %error, "a release failed");
        }
        return released;
    }
    if held.state != State::Held {
        return Ok(Released::NotHeld(held.state));
    }
    let to = if order.to.is_empty() { held.item.recipients.clone() } else { order.to.clone() };
    let (who, decision) = (order.who.clone(), HeldDecision::Release(order));
    let given = elsewhere::decide_one(app, (&who, now_ms), held, &decision)?;
    Ok(match (given.was, given.done_ms) {
        (Some(state), _) => Released::NotHeld(state),
        (None, Some(_)) => Released::Done(to),
        (None, None) => Released::Ordered(Box::new(given)),
    })
}

/// Whether the form asks to train the classifier. Users cannot: one decides for one mailbox only.
pub(super) fn trains(request: &RequestContext) -> bool {
    request.field("learn") == "yes" && request.role() != Role::User
}

/// Trains the classifier with an item as spam, if the form asks for it. Deleting works if that
/// fails, too.
fn train_as_unwanted(app: &App, request: &RequestContext, id: &str) {
    if trains(request)
        && let Err(error) = app.state.node.learn(id, true, request.login())
    {
        tracing::error!(item = id, %error, "a correction could not be written");
    }
}

/// Deletes a held message, whichever node holds it; trains the classifier first, if the form asks
/// for it.
pub(crate) fn delete_one(
    app: &App,
    request: &RequestContext,
    held: &Held,
) -> Result<Deleted, RequestError> {
    if !elsewhere::is_elsewhere(app, held) {
        return delete_here(app, request, held).map(Deleted::Here);
    }
    let by = (request.login(), request.now_ms);
    let decision = HeldDecision::Delete { who: request.login(), learn: trains(request) };
    Ok(Deleted::Elsewhere(elsewhere::decide_one(app, by, held, &decision)?))
}

/// Deletes a message that this node holds; its record in the log gets the event.
pub(super) fn delete_here(
    app: &App,
    request: &RequestContext,
    held: &Held,
) -> Result<Deletion, RequestError> {
    let item = &held.item;
    train_as_unwanted(app, request, &item.id);
    let deletion = app.state.quarantine.delete(&item.id, request.login(), request.now_ms)?;
    if deletion == Deletion::Done {
        let deleted = item.deleted(request.login(), request.now_ms);
        app.state.log.append_or_tell(Vec::new(), vec![deleted]);
    }
    Ok(deletion)
}
