//! Searches that are kept by a name.

use axum::response::Response;
use gauntlet_store::users::{Role, SavedSearch, Scope};
use maud::{Markup, html};

use super::query_fields::checked;
use crate::app::App;
use crate::error::RequestError;
use crate::request::RequestContext;
use crate::response;
use crate::text::{t, translatable};
use crate::{format, layout};

/// The kept searches as links, and a field to keep the one that is shown.
pub(super) fn bar(app: &App, request: &RequestContext) -> Result<Markup, RequestError> {
    let all = app.state.users.searches(request.login())?;
    let now = layout::kept(request);
    Ok(html! {
        @if !all.is_empty() {
            nav.tabs aria-label=(t("Saved searches")) {
                @for search in &all {
                    a href={ "/messages?" (search.query) }
                        aria-current=[(search.query == now).then_some("true")] {
                        (format::plain(&search.name))
                        @if search.login != request.login() { span.count { (format::plain(&search.login)) } }
                    }
                }
            }
        }
        @if !now.is_empty() { (form(request, &all, &now)) (shared(request, &all, &now)) }
    })
}

fn form(request: &RequestContext, all: &[SavedSearch], now: &str) -> Markup {
    let own = all.iter().find(|s| s.query == now && s.login == request.login());
    html! {
        details.places {
            summary { (t("Save this search")) }
            form method="post" action="/messages/searches" {
                (layout::token(request))
                input type="hidden" name="query" value=(now);
                (layout::input("name", t("Name"), own.map_or("", |s| s.name.as_str()), "text", t("Spam of our bank")))
                label.check { input type="checkbox" name="shared" value="yes"
                    checked[own.is_some_and(|s| s.shared)]; span { (t("Shared with other users")) } }
                div.actions {
                    button.main type="submit" name="do" value="save" { (t("Keep")) }
                    @if own.is_some() { button.danger type="submit" name="do" value="remove" { (t("Forget")) } }
                }
            }
        }
    }
}

/// A button for administrators where a search of somebody else is shown, who may have left.
fn shared(request: &RequestContext, all: &[SavedSearch], now: &str) -> Markup {
    let theirs = |s: &&SavedSearch| {
        s.query == now && s.login != request.login() && request.role() == Role::Administrator
    };
    html! {
        @for search in all.iter().filter(theirs) {
            form.actions.above method="post" action="/messages/searches" {
                (layout::token(request))
                input type="hidden" name="owner" value=(search.login);
                input type="hidden" name="name" value=(search.name);
                span { (t("The search {} is shared by {}.").with(html! { b { (format::plain(&search.name)) } }).with(format::plain(&search.login))) }
                button.danger type="submit" name="do" value="remove" { (t("Forget for everybody")) }
            }
        }
    }
}

/// `POST /messages/searches`: `do`: save or remove; `owner` for a shared search of somebody else.
pub(crate) fn change(app: &App, request: &RequestContext) -> Result<Response, RequestError> {
    let (users, name, query) = (&app.state.users, request.field("name"), request.field("query"));
    match request.field("do") {
        "save" => {
            let search = SavedSearch {
                login: request.login().to_owned(),
                name: name.to_owned(),
                query: checked(request, query)?,
                shared: request.field("shared") == "yes",
            };
            users.save_search(&search, request.now_ms)?;
            Ok(response::redirect(&format!("/messages?{}", search.query)))
        }
        "remove" => {
            forget(app, request, (request.field("owner"), name))?;
            Ok(response::redirect("/messages"))
        }
        _ => Err(RequestError::Bad(translatable("do: save or remove").to_owned())),
    }
}

/// Forgets a search: one's own, or one that somebody else shares, for administrators.
pub(crate) fn forget(
    app: &App,
    request: &RequestContext,
    (owner, name): (&str, &str),
) -> Result<(), RequestError> {
    let (users, who) = (&app.state.users, request.login());
    let none = || RequestError::NotFound(translatable("There is no saved search of this name."));
    if owner.is_empty() || owner == who {
        return if users.remove_search(who, name)? { Ok(()) } else { Err(none()) };
    }
    if request.role() != Role::Administrator {
        return Err(RequestError::Forbidden(translatable(
            "Only its owner or an administrator can forget this search.",
        )));
    }
    // A token for reading messages reads and keeps its own.
    request.require_scope(Scope::UsersWrite)?;
    let is_it = |s: &SavedSearch| s.login == owner && s.name == name && s.shared;
    if !users.searches(who)?.iter().any(is_it) || !users.remove_search(owner, name)? {
        return Err(none());
    }
    users.note(request.now_ms, who, "remove search", &format!("{owner}: {name}"))?;
    Ok(())
}
