//! Searches that are kept by a name.

use axum::response::Response;
use gauntlet_store::users::SavedSearch;
use maud::{Markup, html};

use crate::fault::Fault;
use crate::server::App;
use crate::text::{noted, t};
use crate::visit::{self, Visit};
use crate::{format, shell};

/// The kept searches as links, and a field to keep the one that is shown.
pub(super) fn bar(app: &App, visit: &Visit) -> Result<Markup, Fault> {
    let all = app.state.users.searches(visit.who())?;
    let now = shell::kept(visit);
    Ok(html! {
        @if !all.is_empty() {
            nav.tabs aria-label=(t("Saved searches")) {
                @for search in &all {
                    a href={ "/messages?" (search.query) }
                        aria-current=[(search.query == now).then_some("true")] {
                        (format::plain(&search.name))
                        @if search.login != visit.who() { span.count { (format::plain(&search.login)) } }
                    }
                }
            }
        }
        @if !now.is_empty() { (form(visit, &all, &now)) }
    })
}

fn form(visit: &Visit, all: &[SavedSearch], now: &str) -> Markup {
    let own = all.iter().find(|s| s.query == now && s.login == visit.who());
    html! {
        details.places {
            summary { (t("Keep this search")) }
            form method="post" action="/messages/searches" {
                (shell::token(visit))
                input type="hidden" name="query" value=(now);
                (shell::input("name", t("Name"), own.map_or("", |s| s.name.as_str()), "text", t("Spam of our bank")))
                label.check { input type="checkbox" name="shared" value="yes"
                    checked[own.is_some_and(|s| s.shared)]; span { (t("Others see it, too")) } }
                div.actions {
                    button.main type="submit" name="do" value="save" { (t("Keep")) }
                    @if own.is_some() { button.danger type="submit" name="do" value="remove" { (t("Forget")) } }
                }
            }
        }
    }
}

/// `POST /messages/searches`: `do`: save or remove.
pub(crate) fn change(app: &App, visit: &Visit) -> Result<Response, Fault> {
    let (users, name, query) = (&app.state.users, visit.field("name"), visit.field("query"));
    match visit.field("do") {
        "save" => {
            let search = SavedSearch {
                login: visit.who().to_owned(),
                name: name.to_owned(),
                query: clean(query),
                shared: visit.field("shared") == "yes",
            };
            users.save_search(&search, visit.now_ms)?;
            Ok(visit::redirect(&format!("/messages?{}", search.query)))
        }
        "remove" => {
            if !users.remove_search(visit.who(), name)? {
                return Err(Fault::NotFound(noted("You keep no search of this name.")));
            }
            Ok(visit::redirect("/messages"))
        }
        _ => Err(Fault::Bad(noted("do: save or remove").to_owned())),
    }
}

/// A query of pairs and nothing else: it becomes part of an address.
pub(crate) fn clean(query: &str) -> String {
    let fits = |c: &char| c.is_ascii_alphanumeric() || "-._~%=&+".contains(*c);
    query.chars().filter(fits).collect()
}
