//! A user's settings for their own mail: senders they allow or block, and how strict to be.

use axum::http::StatusCode;
use axum::response::Response;
use gauntlet_policy::people::{Strictness, Wishes};
use gauntlet_store::users::Role;
use maud::{Markup, html};

use super::query_fields::number;
use crate::app::App;
use crate::error::RequestError;
use crate::request::RequestContext;
use crate::response;
use crate::text::{t, translatable};
use crate::{format, layout};

/// `GET /own`.
pub(crate) fn show(app: &App, request: &RequestContext) -> Result<Response, RequestError> {
    if request.role() != Role::User {
        return Ok(response::redirect("/"));
    }
    let address = address(request)?;
    let wishes = app.state.users.wishes(&address)?;
    let all = request.session.as_ref().map(|s| s.user.addresses.as_slice()).unwrap_or_default();
    let body = html! {
        h1 { (t("My mail")) }
        p.lead { (t("For {}. It counts from the next message on. Phishing and malware are held whatever you choose.").with(html! { b { (format::plain(&address)) } })) }
        @if all.len() > 1 {
            nav.tabs aria-label=(t("Addresses")) {
                @for one in all {
                    a href={ "/own?address=" (format::percent(one)) }
                        aria-current=[(one.eq_ignore_ascii_case(&address)).then_some("true")] { (one) }
                }
            }
        }
        (strictness(request, &address, &wishes))
        h2 { (t("Senders")) }
        (senders(request, &address, &wishes))
    };
    Ok(response::page(StatusCode::OK, layout::page(request, "/own", t("My mail"), &body)))
}

fn strictness(request: &RequestContext, address: &str, wishes: &Wishes) -> Markup {
    let points = wishes.spam_points.map(|p| p.to_string()).unwrap_or_default();
    html! {
        form.card method="post" action="/own" {
            (layout::token(request))
            input type="hidden" name="address" value=(address);
            fieldset {
                legend { (t("How much is held")) }
                @for (one, what) in [
                    (Strictness::Strict, translatable("Strict: what is suspect counts as spam")),
                    (Strictness::Normal, translatable("As for all users")),
                    (Strictness::Lax, translatable("Lenient: only what is certainly spam counts as spam")),
                ] {
                    label.check { input type="radio" name="strictness" value=(one.name())
                        checked[one == wishes.strictness]; span { (t(what)) } }
                }
            }
            label { span { (t("Mail counts as spam from so many points (empty: as for all users)")) }
                input type="number" name="points" min="1" max="100" step="0.1" value=(points); }
            div.actions { button.main type="submit" name="list" value="strictness" { (t("Save")) } }
        }
    }
}

fn senders(request: &RequestContext, address: &str, wishes: &Wishes) -> Markup {
    let all = wishes.allow.iter().map(|e| (e, true)).chain(wishes.block.iter().map(|e| (e, false)));
    let all: Vec<_> = all.collect();
    html! {
        form.filter.card method="post" action="/own" {
            (layout::token(request))
            input type="hidden" name="address" value=(address);
            div.fields { (layout::input("entry", t("Address or domain"), "", "text", "news@example.com")) }
            div.actions {
                button.main type="submit" name="list" value="allow" { (t("Allow")) }
                button.danger type="submit" name="list" value="block" { (t("Block")) }
            }
        }
        section.card.flush { table.cards {
            thead { tr { th scope="col" { (t("Sender")) } th scope="col" { (t("Is")) } th scope="col" { (t("Change")) } } }
            tbody {
                @for (entry, allowed) in &all { tr {
                    td data-label=(t("Sender")) { (format::plain(entry)) }
                    td data-label=(t("Is")) { @if *allowed { (t("allowed")) } @else { (t("blocked")) } }
                    td data-label=(t("Change")) { form method="post" action="/own" {
                        (layout::token(request))
                        input type="hidden" name="address" value=(address);
                        input type="hidden" name="entry" value=(entry);
                        button.quiet type="submit" name="list" value="remove"
                            aria-label={ (t("Remove {}").with(format::plain(entry))) } { (t("Remove")) }
                    } }
                } }
                @if all.is_empty() { tr { td.empty colspan="3" { (t("No senders are listed.")) } } }
            }
        } }
    }
}

/// `POST /own`: `list` says what: allow, block, remove, strictness.
pub(crate) fn change(app: &App, request: &RequestContext) -> Result<Response, RequestError> {
    if request.role() != Role::User {
        return Err(RequestError::Bad(
            translatable("Only users have mail of their own here.").to_owned(),
        ));
    }
    let (address, entry, users) = (address(request)?, request.field("entry"), &app.state.users);
    match request.field("list") {
        "remove" => {
            users.unlist_personal_sender(&address, entry)?;
        }
        list @ ("allow" | "block") => {
            users.list_personal_sender(&address, entry, list == "allow", request.now_ms)?;
        }
        "strictness" => {
            let strictness = request.field("strictness").parse().map_err(RequestError::Bad)?;
            users.set_strictness(
                &address,
                strictness,
                number(request, "points")?,
                request.now_ms,
            )?;
        }
        _ => {
            return Err(RequestError::Bad(
                translatable("list: allow, block, remove or strictness").to_owned(),
            ));
        }
    }
    apply(app)?;
    Ok(response::redirect(&format!("/own?notice=own-1&address={}", format::percent(&address))))
}

/// Has the node apply the settings of its users.
pub(crate) fn apply(app: &App) -> Result<(), RequestError> {
    app.state.node.users_changed().map_err(|error| {
        tracing::error!(%error, "changed settings of a user are kept, but not in use yet");
        RequestError::Bad(translatable("It is kept, but not in use yet.").to_owned())
    })
}

/// The own address that the request names; the first if it names none.
pub(crate) fn address(request: &RequestContext) -> Result<String, RequestError> {
    let all = request.session.as_ref().map(|s| s.user.addresses.as_slice()).unwrap_or_default();
    if all.is_empty() {
        return Err(RequestError::NotFound(translatable("Your account has no mail address here.")));
    }
    let asked = request.field("address");
    let found = match asked {
        "" => all.first(),
        _ => all.iter().find(|a| a.eq_ignore_ascii_case(asked)),
    };
    let none = translatable("This is no mail address of your account.");
    found.map(|a| a.to_lowercase()).ok_or(RequestError::Forbidden(none))
}
