//! Senders that were allowed or blocked here; they count from the next message on.

use axum::http::StatusCode;
use axum::response::Response;
use gauntlet_store::quarantine::Held;
use gauntlet_store::users::Role;
use gauntlet_verdict::lists::List;
use maud::{Markup, html};

use crate::fault::Fault;
use crate::server::App;
use crate::text::{noted, t};
use crate::visit::{self, Visit};
use crate::{format, shell};

/// `GET /senders`.
pub(crate) fn show(app: &App, visit: &Visit) -> Result<Response, Fault> {
    let listed = app.state.users.listed_senders()?;
    let body = html! {
        h1 { (t("Senders")) }
        (super::manage::tabs("/senders"))
        p.lead { (t("An allowed sender's mail passes unless it is phishing or malware, a blocked sender's is spam. A sender is an address, a domain with all below it, or a network. The lists of the configuration count beside these.")) }
        form.filter.card method="post" action="/senders" {
            (shell::token(visit))
            div.fields { (shell::input("entry", t("Address, domain or network"), "", "text", "news@example.com")) }
            div.actions {
                button.main type="submit" name="list" value="allow" { (t("Allow")) }
                button.danger type="submit" name="list" value="block" { (t("Block")) }
            }
        }
        section.card.flush { table.cards {
            thead { tr {
                th scope="col" { (t("Sender")) } th scope="col" { (t("Is")) } th scope="col" { (t("By")) }
                th scope="col" { (t("Since")) } th scope="col" { (t("Change")) }
            } }
            tbody {
                @for sender in &listed { tr {
                    td data-label=(t("Sender")) { (format::plain(&sender.entry)) }
                    td data-label=(t("Is")) { @if sender.allow { (t("allowed")) } @else { (t("blocked")) } }
                    td data-label=(t("By")) { (format::plain(&sender.who)) }
                    td data-label=(t("Since")) { (format::time(sender.at_ms)) }
                    td data-label=(t("Change")) { form method="post" action="/senders" {
                        (shell::token(visit))
                        input type="hidden" name="entry" value=(sender.entry);
                        button.quiet type="submit" name="list" value="remove"
                            aria-label={ (t("Remove {}").with(format::plain(&sender.entry))) } { (t("Remove")) }
                    } }
                } }
                @if listed.is_empty() { tr { td.empty colspan="5" { (t("Nobody is listed.")) } } }
            }
        } }
    };
    Ok(visit::page(StatusCode::OK, shell::page(visit, "/health", t("Senders"), &body)))
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
        _ => return Err(Fault::Bad(noted("list: allow, block or remove").to_owned())),
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
            button.quiet type="submit" name="list" value="allow" { (t("Allow {}").with(format::plain(sender))) }
            button.quiet type="submit" name="list" value="block" { (t("Block {}").with(format::plain(sender))) }
        }
    }
}
