//! Senders that were allowed or blocked here; they count from the next message on.

use axum::http::StatusCode;
use axum::response::Response;
use gauntlet_store::quarantine::Held;
use gauntlet_store::users::Role;
use gauntlet_verdict::lists::check_entry;
use maud::{Markup, html};

use crate::app::App;
use crate::error::RequestError;
use crate::request::RequestContext;
use crate::response;
use crate::text::{t, translatable};
use crate::{format, layout};

/// `GET /senders`.
pub(crate) fn show(app: &App, request: &RequestContext) -> Result<Response, RequestError> {
    let listed = app.state.users.listed_senders()?;
    let body = html! {
        h1 { (t("Senders")) }
        (super::tabs::tabs("/senders"))
        p.lead { (t("An allowed sender's mail passes unless it is phishing or malware, a blocked sender's is spam. A sender is an address, a domain with all below it, or a network. The lists of the configuration count beside these.")) }
        form.filter.card method="post" action="/senders" {
            (layout::token(request))
            div.fields { (layout::input("entry", t("Address, domain or network"), "", "text", "news@example.com")) }
            div.actions {
                button.main type="submit" name="list" value="allow" { (t("Allow")) }
                button.danger type="submit" name="list" value="block" { (t("Block")) }
            }
        }
        section.card.flush { table.cards {
            thead { tr {
                th scope="col" { (t("Sender")) } th scope="col" { (t("Status")) } th scope="col" { (t("By")) }
                th scope="col" { (t("Since")) } th scope="col" { (t("Change")) }
            } }
            tbody {
                @for sender in &listed { tr {
                    td data-label=(t("Sender")) { (format::plain(&sender.entry)) }
                    td data-label=(t("Status")) { @if sender.allow { (t("allowed")) } @else { (t("blocked")) } }
                    td data-label=(t("By")) { (format::plain(&sender.who)) }
                    td data-label=(t("Since")) { (format::time(sender.at_ms)) }
                    td data-label=(t("Change")) { form method="post" action="/senders" {
                        (layout::token(request))
                        input type="hidden" name="entry" value=(sender.entry);
                        button.quiet type="submit" name="list" value="remove"
                            aria-label={ (t("Remove {}").with(format::plain(&sender.entry))) } { (t("Remove")) }
                    } }
                } }
                @if listed.is_empty() { tr { td.empty colspan="5" { (t("No senders are listed.")) } } }
            }
        } }
    };
    Ok(response::page(StatusCode::OK, layout::page(request, "/health", t("Senders"), &body)))
}

/// `POST /senders`: `entry`, and `list`: allow, block or remove.
pub(crate) fn change(app: &App, request: &RequestContext) -> Result<Response, RequestError> {
    let entry = request.field("entry");
    if entry.is_empty() {
        return Ok(response::redirect("/senders"));
    }
    let users = &app.state.users;
    match request.field("list") {
        "remove" => {
            users.unlist_sender(entry, request.login(), request.now_ms)?;
        }
        list @ ("allow" | "block") => {
            check_entry(entry).map_err(|e| RequestError::Bad(e.to_string()))?;
            users.list_sender(entry, list == "allow", request.login(), request.now_ms)?;
        }
        _ => {
            return Err(RequestError::Bad(translatable("list: allow, block or remove").to_owned()));
        }
    }
    apply(app)?;
    Ok(response::redirect("/senders?notice=senders-1"))
}

/// Has the node apply the lists.
pub(crate) fn apply(app: &App) -> Result<(), RequestError> {
    app.state.node.senders_changed().map_err(|error| {
        tracing::error!(%error, "the lists of senders are kept, but not in use yet");
        RequestError::Bad(format!("It is kept, but not in use yet: {error}"))
    })
}

/// Buttons that list a held message's sender, for who may.
pub(crate) fn buttons(request: &RequestContext, held: &Held) -> Markup {
    let sender = &held.item.envelope.mail_from;
    if request.role() != Role::Administrator || sender.is_empty() {
        return html! {};
    }
    html! {
        form.actions method="post" action="/senders" {
            (layout::token(request))
            input type="hidden" name="entry" value=(sender);
            button.quiet type="submit" name="list" value="allow" { (t("Allow {}").with(format::plain(sender))) }
            button.quiet type="submit" name="list" value="block" { (t("Block {}").with(format::plain(sender))) }
        }
    }
}
