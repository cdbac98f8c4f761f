//! Links of digests: shown first, used by a button. Mail programs and scanners open links by
//! themselves; that must do nothing.

use axum::http::StatusCode;
use axum::response::Response;
use gauntlet_store::quarantine::{Held, ReleaseOrder, ReleaseRight, State};
use gauntlet_store::users::{Link, LinkKind, LinkStatus, Proof, SecondFactor};
use maud::{Markup, Render, html};

use super::quarantine::release_by;
use super::sign_in::with_cookie;
use crate::app::App;
use crate::error::RequestError;
use crate::node::Released;
use crate::request::RequestContext;
use crate::response;
use crate::text::{t, translatable};
use crate::{format, layout};

/// `GET /link/{token}`: what the link does, and the button that does it.
pub(crate) fn show(app: &App, request: &RequestContext) -> Result<Response, RequestError> {
    let link = match app.state.users.check_link(request.param("token"), request.now_ms)? {
        LinkStatus::Valid(link) => link,
        other => return Ok(refused(&other)),
    };
    let held = held(app, &link)?;
    if let Err(response) = decidable(app, &link, held.as_ref()) {
        return Ok(*response);
    }
    let (title, button) = match link.kind {
        LinkKind::Enter => (translatable("Your held mail"), translatable("Go to my held mail")),
        LinkKind::Release => (translatable("Release this message?"), translatable("Release it")),
        LinkKind::Allow => (
            translatable("Release this message?"),
            translatable("Release it, and always let its sender in"),
        ),
    };
    let body = html! {
        section.card.narrow {
            h1 { (t(title)) }
            p { (t("For {}.").with(html! { b { (format::plain(&link.address)) } })) }
            @if let Some(held) = &held { (about(held)) }
            form method="post" action={ "/link/" (request.param("token")) } {
                button.main type="submit" { (t(button)) }
            }
            p.hint { (t("This link works once.")) }
        }
    };
    Ok(response::page(StatusCode::OK, layout::bare(t(title), &body)))
}

/// `POST /link/{token}`: uses the link.
pub(crate) fn follow(app: &App, request: &RequestContext) -> Result<Response, RequestError> {
    let (text, users) = (request.param("token"), &app.state.users);
    let link = match users.check_link(text, request.now_ms)? {
        LinkStatus::Valid(link) => link,
        other => return Ok(refused(&other)),
    };
    let held = held(app, &link)?;
    if let Err(response) = decidable(app, &link, held.as_ref()) {
        return Ok(*response);
    }
    match users.use_link(text, request.now_ms)? {
        LinkStatus::Valid(_) => {}
        other => return Ok(refused(&other)),
    }
    match held {
        None => enter(app, request, &link),
        Some(held) => release(app, request, &link, &held),
    }
}

fn enter(app: &App, request: &RequestContext, link: &Link) -> Result<Response, RequestError> {
    let users = &app.state.users;
    let Some(user) = users.user_for_address(&link.address, request.now_ms)? else {
        let why = t("Your account may do more than see your own mail: sign in with your password.");
        return Ok(notice_page(StatusCode::FORBIDDEN, translatable("Sign in"), why));
    };
    if matches!(users.second_factor(&user.login)?, SecondFactor::On { .. }) {
        let why = t("Your account has a second factor: sign in with your password and a code.");
        return Ok(notice_page(StatusCode::FORBIDDEN, translatable("Sign in"), why));
    }
    if let Some(old) = &request.token {
        users.end_session(old)?;
    }
    let (login, address) = (&user.login, &link.address);
    let started = users.start_session_with(login, Proof::Link, address, request.now_ms)?;
    let https = app.state.options.https;
    Ok(with_cookie(response::redirect("/quarantine"), &started.token, https))
}

fn release(
    app: &App,
    request: &RequestContext,
    link: &Link,
    held: &Held,
) -> Result<Response, RequestError> {
    let right = ReleaseRight::Recipient(vec![link.address.clone()]);
    let order = ReleaseOrder { who: link.address.clone(), right, ..ReleaseOrder::default() };
    match release_by(app, held, order, request.now_ms) {
        Ok(released @ (Released::Done(_) | Released::Ordered(_))) => {
            let mut text = match released {
                Released::Done(_) => t("It is on its way to {}.").with(&link.address).render(),
                _ => t("It goes to {} as soon as the node that holds it is there.")
                    .with(&link.address)
                    .render(),
            };
            if link.kind == LinkKind::Allow {
                let sender = &held.item.envelope.mail_from;
                let also = match allow(app, request, link, sender) {
                    Ok(()) => t("Mail of its sender will not be held for you any more."),
                    Err(_) => t("Its sender could not be put on your list."),
                };
                text = html! { (text) " " (also) };
            }
            Ok(notice_page(StatusCode::OK, translatable("Released"), text))
        }
        Ok(Released::NotHeld(state)) => Ok(already_decided(state)),
        Ok(Released::NotAllowed) => Ok(not_allowed()),
        Ok(Released::Unknown) => Ok(gone()),
        Err(error) => {
            tracing::error!(item = held.item.id, %error, "a release by a link failed");
            app.state.users.restore_link(request.param("token"))?;
            let why = translatable(
                "It could not be released now. The link still works: try again later.",
            );
            Ok(notice_page(StatusCode::SERVICE_UNAVAILABLE, translatable("Not now"), t(why)))
        }
    }
}

/// Lists the sender as allowed for the recipient of the link; why it could not be is logged.
fn allow(
    app: &App,
    request: &RequestContext,
    link: &Link,
    sender: &str,
) -> Result<(), RequestError> {
    let users = &app.state.users;
    users
        .list_personal_sender(&link.address, sender, true, request.now_ms)
        .inspect_err(|error| tracing::error!(%error, "an allowed sender could not be listed"))?;
    app.state.node.users_changed().inspect_err(
        |error| tracing::error!(%error, "an allowed sender is listed, but not in use yet"),
    )?;
    Ok(())
}

/// The item that the link is about; none for one that is about no item.
fn held(app: &App, link: &Link) -> Result<Option<Held>, RequestError> {
    if link.kind == LinkKind::Enter {
        return Ok(None);
    }
    Ok(app.state.held.get(&link.item)?)
}

/// The item may be decided about by this link; else the answer that says why not.
fn decidable(app: &App, link: &Link, held: Option<&Held>) -> Result<(), Box<Response>> {
    let own = std::slice::from_ref(&link.address);
    let may = |held: &Held| app.state.quarantine.is_released_by_recipient(&held.item, own);
    match held {
        None if link.kind == LinkKind::Enter => Ok(()),
        None => Err(Box::new(gone())),
        Some(held) if held.state != State::Held => Err(Box::new(already_decided(held.state))),
        Some(held) if may(held) => Ok(()),
        Some(_) => Err(Box::new(not_allowed())),
    }
}

fn not_allowed() -> Response {
    let why =
        translatable("Only a reviewer or an administrator can release this message: ask one.");
    notice_page(StatusCode::FORBIDDEN, translatable("Not possible"), t(why))
}

fn about(held: &Held) -> Markup {
    let item = &held.item;
    html! {
        dl.pairs {
            dt { (t("Subject")) } dd { (format::plain(&item.subject)) }
            dt { (t("From")) } dd { (format::plain(&item.from)) }
            dt { (t("Sender")) } dd { (format::plain(&item.envelope.mail_from)) }
            dt { (t("Received")) } dd { (format::time(item.received_ms)) }
            dt { (t("Held as")) } dd { (layout::class_pill(item.class)) }
        }
        p {}
    }
}

fn already_decided(state: State) -> Response {
    let text = match state {
        State::Deleted => translatable("This message was deleted. Nothing brings it back."),
        _ => translatable("This message was released before. It is delivered once."),
    };
    notice_page(StatusCode::CONFLICT, translatable("Already decided"), t(text))
}

fn gone() -> Response {
    let text = translatable("This message is not kept any more.");
    notice_page(StatusCode::GONE, translatable("Gone"), t(text))
}

fn refused(shown: &LinkStatus) -> Response {
    let (status, title, text) = match shown {
        LinkStatus::Used(_) => (
            StatusCode::GONE,
            translatable("Used before"),
            translatable(
                "This link was used before, and works once. The next digest brings a new one.",
            ),
        ),
        LinkStatus::Expired(_) => (
            StatusCode::GONE,
            translatable("Too old"),
            translatable("This link has expired. The next digest brings a new one."),
        ),
        LinkStatus::Forged | LinkStatus::Valid(_) => (
            StatusCode::NOT_FOUND,
            translatable("No such link"),
            translatable("This link is invalid or incomplete. Open it as the digest has it."),
        ),
    };
    notice_page(status, title, t(text))
}

fn notice_page(status: StatusCode, title: &str, text: impl Render) -> Response {
    let body = html! { section.card.narrow { h1 { (t(title)) } p role="status" { (text) } } };
    response::page(status, layout::bare(t(title), &body))
}
