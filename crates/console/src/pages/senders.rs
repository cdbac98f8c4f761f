//! Senders that were allowed or blocked here; they count from the next message on.

use axum::http::StatusCode;
use axum::response::Response;
use gauntlet_engine::lists::List;
use gauntlet_store::quarantine::Held;
use gauntlet_store::users::Role;
use maud::{Markup, html};

use crate::fault::Fault;
use crate::server::App;
use crate::visit::{self, Visit};
use crate::{format, shell};

/// `GET /senders`.
pub(crate) fn show(app: &App, visit: &Visit) -> Result<Response, Fault> {
    let listed = app.state.users.listed_senders()?;
    let body = html! {
        h1 { "Senders" }
        (super::manage::tabs("/senders"))
        p.lead { "An allowed sender's mail passes unless it is phishing or malware, a blocked sender's is spam. \
            A sender is an address, a domain with all below it, or a network. The lists of the \
            configuration count beside these." }
        form.filter.card method="post" action="/senders" {
            (shell::token(visit))
            div.fields { (shell::input("entry", "Address, domain or network", "", "text", "news@example.com")) }
            div.actions {
                button.main type="submit" name="list" value="allow" { "Allow" }
                button.danger type="submit" name="list" value="block" { "Block" }
            }
        }
        section.card.flush { table.cards {
            thead { tr {
                th scope="col" { "Sender" } th scope="col" { "Is" } th scope="col" { "By" }
                th scope="col" { "Since" } th scope="col" { "Change" }
            } }
            tbody {
                @for sender in &listed { tr {
                    td data-label="Sender" { (format::plain(&sender.entry)) }
                    td data-label="Is" { @if sender.allow { "allowed" } @else { "blocked" } }
                    td data-label="By" { (format::plain(&sender.who)) }
                    td data-label="Since" { (format::time(sender.at_ms)) }
                    td data-label="Change" { form method="post" action="/senders" {
                        (shell::token(visit))
                        input type="hidden" name="entry" value=(sender.entry);
                        button.quiet type="submit" name="list" value="remove"
                            aria-label={ "Remove " (format::plain(&sender.entry)) } { "Remove" }
                    } }
                } }
                @if listed.is_empty() { tr { td.empty colspan="5" { "Nobody is listed." } } }
            }
        } }
    };
    Ok(visit::page(StatusCode::OK, &shell::page(visit, "/health", "Senders", &body)))
}

/// `POST /senders`: `entry`, and `list`: allow, block or remove.
pub(crate) fn change(app: &App, visit: &Visit) -> Result<Response, Fault> {
    let entry = visit.field("entry");
    if entry.is_empty() {
        return Ok(visit::redirect("/senders"));
    }
    let users = &app.state.users;
    match visit.field("list") {
        "remove" => {
            users.unlist_sender(entry, visit.who(), visit.now_ms)?;
        }
        list @ ("allow" | "block") => {
            List::parse([entry]).map_err(|e| Fault::Bad(e.to_string()))?;
            users.list_sender(entry, list == "allow", visit.who(), visit.now_ms)?;
        }
        _ => return Err(Fault::Bad("list: allow, block or remove".to_owned())),
    }
    tell(app)?;
    Ok(visit::redirect("/senders?notice=senders-1"))
}

/// Has the node take the lists over.
pub(crate) fn tell(app: &App) -> Result<(), Fault> {
    app.state.node.senders_changed().map_err(|error| {
        tracing::error!(error, "the lists of senders are kept, but not in use yet");
        Fault::Bad(format!("It is kept, but not in use yet: {error}"))
    })
}

/// Buttons that list a held message's sender, for who may.
pub(crate) fn buttons(visit: &Visit, held: &Held) -> Markup {
    let sender = &held.item.envelope.mail_from;
    if visit.role() != Role::Administrator || sender.is_empty() {
        return html! {};
    }
    html! {
        form.actions method="post" action="/senders" {
            (shell::token(visit))
            input type="hidden" name="entry" value=(sender);
            button.quiet type="submit" name="list" value="allow" { "Allow " (format::plain(sender)) }
            button.quiet type="submit" name="list" value="block" { "Block " (format::plain(sender)) }
        }
    }
}
