//! The quarantine's list, and decisions about one or many of its messages.

use axum::http::StatusCode;
use axum::response::Response;
use gauntlet_engine::Class;
use gauntlet_store::Event;
use gauntlet_store::quarantine::{Deletion, FolderSummary, Held, HeldQuery, ReleaseOrder, State};
use gauntlet_store::users::{Role, User};
use maud::{Markup, html};

use super::messages::{day, number};
use crate::digest::is_dangerous;
use crate::fault::Fault;
use crate::format::{self, DAY_MS};
use crate::node::Released;
use crate::server::App;
use crate::shell;
use crate::text::{noted, plural, t};
use crate::visit::{self, Visit};

/// Messages decided at once.
const DECIDED_MAX: usize = 500;
const STATES: [State; 4] = [State::Held, State::Releasing, State::Released, State::Deleted];

/// Reads a query from the fields of a request, within what the person may see.
pub(crate) fn query(visit: &Visit) -> Result<HeldQuery, Fault> {
    let mut classes = Vec::new();
    for name in visit.all("class") {
        classes.push(name.parse::<Class>().map_err(Fault::Bad)?);
    }
    let state = match visit.field("state") {
        "" => Some(State::Held),
        "any" => None,
        name => Some(
            STATES
                .into_iter()
                .find(|s| s.name() == name)
                .ok_or_else(|| Fault::Bad(format!("state: there is none named {name:?}")))?,
        ),
    };
    let mut query = HeldQuery {
        folder: visit.field("folder").to_owned(),
        folders: Vec::new(),
        state,
        recipient: visit.field("recipient").to_owned(),
        message: visit.field("message").to_owned(),
        text: visit.field("text").to_owned(),
        classes,
        since_ms: day(visit, "since")?,
        until_ms: day(visit, "until")?.map(|ms| ms + DAY_MS),
        after: number(visit, "after")?,
        limit: number(visit, "limit")?.unwrap_or(0),
    };
    let Some(user) = visit.session.as_ref().map(|s| &s.user) else { return Err(Fault::SignIn) };
    match user.role {
        Role::Administrator => {}
        Role::Reviewer => query.folders.clone_from(&user.folders),
        // A user sees one address at a time: the one asked for if it is theirs, else their first.
        Role::User => {
            let asked = query.recipient.to_lowercase();
            let own = user.addresses.iter().find(|a| a.to_lowercase() == asked);
            let own = own.or(user.addresses.first());
            query.recipient = own.ok_or(Fault::Forbidden(NO_ADDRESS))?.clone();
        }
    }
    Ok(query)
}

const NO_ADDRESS: &str = noted("No mail address is set for your account. Ask an administrator.");

/// The person may see this item and decide about it.
pub(crate) fn may(user: &User, held: &Held) -> bool {
    match user.role {
        Role::Administrator => true,
        Role::Reviewer => user.folders.is_empty() || user.folders.contains(&held.item.folder),
        Role::User => {
            let own = |r: &String| user.addresses.iter().any(|a| a.eq_ignore_ascii_case(r));
            // Of a message held for several, one of them must not decide for the others.
            held.item.recipients.iter().all(own)
        }
    }
}

/// The item, if the person may see it.
pub(crate) fn find(app: &App, visit: &Visit, id: &str) -> Result<Held, Fault> {
    let unknown =
        Fault::NotFound(noted("There is no such message in the quarantine, or it is forgotten."));
    let held = app.state.quarantine.get(id)?;
    let user = visit.session.as_ref().map(|s| &s.user);
    held.filter(|held| user.is_some_and(|u| may(u, held))).ok_or(unknown)
}

/// `GET /quarantine`.
pub(crate) fn show(app: &App, visit: &Visit) -> Result<Response, Fault> {
    let query = query(visit)?;
    let page = app.state.quarantine.search(&query)?;
    let mut folders = app.state.quarantine.folders()?;
    folders.retain(|f| query.folders.is_empty() || query.folders.contains(&f.name));
    let body = html! {
        h1 { (t("Quarantine")) }
        @if visit.role() != Role::User { (tabs(&folders, &query)) }
        (filter(visit))
        form method="post" action="/quarantine/decide" {
            (shell::token(visit))
            (list(&page.items, true))
            @if !page.items.is_empty() {
                div.actions.sticky {
                    button.main type="submit" name="decision" value="release" { (t("Release selected")) }
                    button.danger type="submit" name="decision" value="delete" { (t("Delete selected")) }
                }
            }
        }
        (shell::pager(visit, "/quarantine", page.next))
    };
    Ok(visit::page(StatusCode::OK, shell::page(visit, "/quarantine", t("Quarantine"), &body)))
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

fn filter(visit: &Visit) -> Markup {
    let value = |name| visit.field(name);
    html! {
        form.filter.card method="get" action="/quarantine" role="search" {
            input type="hidden" name="folder" value=(value("folder"));
            div.fields {
                (shell::input("text", t("Subject, sender or recipient"), value("text"), "search", ""))
                (shell::select("class", t("Class"), value("class"), &Class::ALL.map(Class::name)))
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

/// Items as a table that becomes cards where it is narrow.
fn list(items: &[Held], selectable: bool) -> Markup {
    html! {
        table.cards.messages.card.flush {
            thead { tr {
                @if selectable {
                    th.pick scope="col" {
                        input type="checkbox" data-all="item" aria-label=(t("Select all")) hidden;
                    }
                }
                th scope="col" { (t("Received")) } th scope="col" { (t("Verdict")) }
                th scope="col" { (t("From and subject")) } th scope="col" { (t("To")) }
                th scope="col" { (t("Folder")) }
            } }
            tbody {
                @for held in items { (row(held, selectable)) }
                @if items.is_empty() { tr { td.empty colspan="6" { (t("Nothing is held here.")) } } }
            }
        }
    }
}

fn row(held: &Held, selectable: bool) -> Markup {
    let item = &held.item;
    let subject = format::plain(&item.subject);
    let subject = shell::subject(&subject);
    html! {
        tr {
            @if selectable {
                td.pick {
                    @if held.state == State::Held {
                        input type="checkbox" name="item" value=(item.id)
                            aria-label={ (t("Select {}").with(&subject)) };
                    }
                }
            }
            td.when data-label=(t("Received")) { (format::time(item.received_ms)) }
            td.verdict data-label=(t("Verdict")) {
                (shell::class_pill(item.class)) span.score { (format::points(item.score)) }
            }
            td.what {
                span.from { (format::plain(&item.from)) }
                a href={ "/quarantine/" (format::percent(&item.id)) } { (subject) }
            }
            td.to data-label=(t("To")) {
                @if let Some(first) = item.recipients.first() { span { (format::plain(first)) } }
                @if item.recipients.len() > 1 { span.more { " +" (item.recipients.len() - 1) } }
            }
            td data-label=(t("Folder")) {
                (format::plain(&item.folder)) " "
                @if held.state != State::Held { (shell::state(held.state.name())) }
            }
        }
    }
}

/// `POST /quarantine/decide`: releases at once; asks once more before it deletes.
pub(crate) fn decide(app: &App, visit: &Visit) -> Result<Response, Fault> {
    let ids: Vec<&str> = visit.all("item").take(DECIDED_MAX + 1).collect();
    if ids.len() > DECIDED_MAX {
        return Err(Fault::Bad(format!("more than {DECIDED_MAX} messages at once")));
    }
    if ids.is_empty() {
        return Ok(visit::redirect("/quarantine?notice=none-0"));
    }
    let mut items = Vec::new();
    for id in ids {
        items.push(find(app, visit, id)?);
    }
    match visit.field("decision") {
        "release" => release(app, visit, &items),
        "delete" if visit.field("sure") == "yes" => delete(app, visit, &items),
        "delete" => Ok(ask(visit, &items)),
        other => Err(Fault::Bad(format!("decision: there is none named {other:?}"))),
    }
}

fn release(app: &App, visit: &Visit, items: &[Held]) -> Result<Response, Fault> {
    let (mut done, mut past, mut failed) = (0, 0, 0);
    if let [held] = items {
        may_release(visit, held)?;
    }
    for held in items {
        if may_release(visit, held).is_err() {
            failed += 1;
            continue;
        }
        match release_one(app, visit, held) {
            Ok(Released::Done(_)) => done += 1,
            Ok(Released::NotHeld(_) | Released::Unknown) => past += 1,
            Err(_) => failed += 1,
        }
    }
    let notice = match (done, past, failed) {
        (_, _, 1..) => format!("failed-{failed}"),
        (0, 1.., _) => format!("past-{past}"),
        _ => format!("released-{done}"),
    };
    Ok(visit::redirect(&format!("/quarantine?notice={notice}")))
}

/// Users do not release what is dangerous.
pub(crate) fn may_release(visit: &Visit, held: &Held) -> Result<(), Fault> {
    if visit.role() == Role::User && is_dangerous(held.item.class) {
        return Err(Fault::Forbidden(noted(
            "Phishing, malware and what could not be scanned is released by a reviewer: ask one.",
        )));
    }
    Ok(())
}

/// Releases one item as the form asks. Users release to themselves only.
pub(crate) fn release_one(app: &App, visit: &Visit, held: &Held) -> Result<Released, String> {
    let mut to: Vec<String> = visit.all("to").map(str::to_owned).collect();
    if visit.role() == Role::User {
        to.clear();
    }
    let order = ReleaseOrder { who: visit.who().to_owned(), to, learn: teaches(visit) };
    let released = app.state.node.release(&held.item.id, &order);
    if let Err(error) = &released {
        tracing::error!(item = held.item.id, error, "a release failed");
    }
    released
}

/// Whether the form asks to teach the classifier. Users do not: one decides for one mailbox.
fn teaches(visit: &Visit) -> bool {
    visit.field("learn") == "yes" && visit.role() != Role::User
}

/// Teaches that an item is unwanted, if the form asks for it. Failing that keeps nobody from deleting.
pub(crate) fn teach_unwanted(app: &App, visit: &Visit, id: &str) {
    if teaches(visit)
        && let Err(error) = app.state.node.learn(id, true, visit.who())
    {
        tracing::error!(item = id, error, "a correction could not be written");
    }
}

fn delete(app: &App, visit: &Visit, items: &[Held]) -> Result<Response, Fault> {
    let mut done = 0;
    for held in items {
        teach_unwanted(app, visit, &held.item.id);
        done += u64::from(delete_one(app, visit, held)? == Deletion::Done);
    }
    let notice = if done > 0 { format!("deleted-{done}") } else { format!("past-{}", items.len()) };
    Ok(visit::redirect(&format!("/quarantine?notice={notice}")))
}

/// Deletes a held message; the message's life in the log tells it.
pub(crate) fn delete_one(app: &App, visit: &Visit, held: &Held) -> Result<Deletion, Fault> {
    let item = &held.item;
    let deletion = app.state.quarantine.delete(&item.id, visit.who(), visit.now_ms)?;
    if deletion == Deletion::Done {
        let deleted = Event {
            id: item.message.clone(),
            received_ms: item.received_ms,
            at_ms: visit.now_ms,
            kind: "deleted".to_owned(),
            recipient: item.recipients.join(", "),
            detail: format!("by {}", visit.who()),
        };
        app.state.log.append_then(Vec::new(), vec![deleted], Box::new(|_| {}));
    }
    Ok(deletion)
}

/// Asks before deleting: nothing brings a deleted message back.
fn ask(visit: &Visit, items: &[Held]) -> Response {
    let n = items.len();
    let body = html! {
        h1 { (plural(n as u64, "Delete {} message?", "Delete {} messages?")) }
        p.lead { (t("Nothing brings a deleted message back. Their recipients will not get it.")) }
        (list(items, false))
        form.actions method="post" action="/quarantine/decide" {
            (shell::token(visit))
            input type="hidden" name="sure" value="yes";
            @for held in items { input type="hidden" name="item" value=(held.item.id); }
            @if teaches(visit) { input type="hidden" name="learn" value="yes"; }
            button.danger type="submit" name="decision" value="delete" { (t("Delete for good")) }
            a.button.quiet href="/quarantine" { (t("Keep")) }
        }
    };
    visit::page(StatusCode::OK, shell::page(visit, "/quarantine", t("Delete?"), &body))
}
