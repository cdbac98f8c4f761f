//! Links of digests: shown first, used by a button. Mail programs and scanners open links by themselves;
//! that must do nothing.

use axum::http::StatusCode;
use axum::response::Response;
use gauntlet_store::quarantine::{Held, ReleaseOrder, ReleaseRight, State};
use gauntlet_store::users::{Link, LinkKind, LinkStatus, Proof, SecondFactor};
use maud::{Markup, Render, html};

use super::sign_in::with_cookie;
use crate::fault::Fault;
use crate::node::Released;
use crate::server::App;
use crate::text::{noted, t};
use crate::visit::{self, Visit};
use crate::{format, shell};

/// `GET /link/{token}`: what the link does, and the button that does it.
pub(crate) fn show(app: &App, visit: &Visit) -> Result<Response, Fault> {
    let link = match app.state.users.check_link(visit.param("token"), visit.now_ms)? {
        LinkStatus::Valid(link) => link,
        other => return Ok(refused(&other)),
    };
    let held = held(app, &link)?;
    if let Err(response) = decidable(app, &link, held.as_ref()) {
        return Ok(*response);
    }
    let (title, button) = match link.kind {
        LinkKind::Enter => (noted("Your held mail"), noted("Go to my held mail")),
        LinkKind::Release => (noted("Release this message?"), noted("Release it")),
        LinkKind::Allow => {
            (noted("Release this message?"), noted("Release it, and always let its sender in"))
        }
    };
    let body = html! {
        section.card.narrow {
            h1 { (t(title)) }
            p { (t("For {}.").with(html! { b { (format::plain(&link.address)) } })) }
            @if let Some(held) = &held { (about(held)) }
            form method="post" action={ "/link/" (visit.param("token")) } {
                button.main type="submit" { (t(button)) }
            }
            p.hint { (t("This link works once.")) }
        }
    };
    Ok(visit::page(StatusCode::OK, shell::bare(t(title), &body)))
}

/// `POST /link/{token}`: uses the link.
pub(crate) fn follow(app: &App, visit: &Visit) -> Result<Response, Fault> {
    let (text, users) = (visit.param("token"), &app.state.users);
    let link = match users.check_link(text, visit.now_ms)? {
        LinkStatus::Valid(link) => link,
        other => return Ok(refused(&other)),
    };
    let held = held(app, &link)?;
    if let Err(response) = decidable(app, &link, held.as_ref()) {
        return Ok(*response);
    }
    match users.use_link(text, visit.now_ms)? {
        LinkStatus::Valid(_) => {}
        other => return Ok(refused(&other)),
    }
    match held {
        None => enter(app, visit, &link),
        Some(held) => release(app, visit, &link, &held),
    }
}

fn enter(app: &App, visit: &Visit, link: &Link) -> Result<Response, Fault> {
    let users = &app.state.users;
    let Some(user) = users.user_for_address(&link.address, visit.now_ms)? else {
        let why = t("Your account may do more than see your own mail: sign in with your password.");
        return Ok(said(StatusCode::FORBIDDEN, noted("Sign in"), why));
    };
    if matches!(users.second_factor(&user.login)?, SecondFactor::On { .. }) {
        let why = t("Your account has a second factor: sign in with your password and a code.");
        return Ok(said(StatusCode::FORBIDDEN, noted("Sign in"), why));
    }
    if let Some(old) = &visit.token {
        users.end_session(old)?;
    }
    let (login, address) = (&user.login, &link.address);
    let started = users.start_session_with(login, Proof::Link, address, visit.now_ms)?;
    let https = app.state.options.https;
    Ok(with_cookie(visit::redirect("/quarantine"), &started.token, https))
}

fn release(app: &App, visit: &Visit, link: &Link, held: &Held) -> Result<Response, Fault> {
    let right = ReleaseRight::Recipient(vec![link.address.clone()]);
    let order = ReleaseOrder { who: link.address.clone(), right, ..ReleaseOrder::default() };
    match app.state.node.release(&held.item.id, &order) {
        Ok(Released::Done(_)) => {
            let mut text = t("It is on its way to {}.").with(&link.address).render();
            if link.kind == LinkKind::Allow {
                let sender = &held.item.envelope.mail_from;
                let also = match allow(app, visit, link, sender) {
                    Ok(()) => t("Mail of its sender will not be held for you any more."),
                    Err(_) => t("Its sender could not be put on your list."),
                };
                text = html! { (text) " " (also) };
            }
            Ok(said(StatusCode::OK, noted("Released"), text))
        }
        Ok(Released::NotHeld(state)) => Ok(past(state)),
        Ok(Released::NotAllowed) => Ok(not_allowed()),
        Ok(Released::Unknown) => Ok(gone()),
        Err(error) => {
            tracing::error!(item = held.item.id, error, "a release by a link failed");
            app.state.users.restore_link(visit.param("token"))?;
            let why = noted("It could not be released now. The link still works: try again later.");
            Ok(said(StatusCode::SERVICE_UNAVAILABLE, noted("Not now"), t(why)))
        }
    }
}

fn allow(app: &App, visit: &Visit, link: &Link, sender: &str) -> Result<(), String> {
    let listed = app.state.users.list_personal_sender(&link.address, sender, true, visit.now_ms);
    listed.map_err(|e| e.to_string()).and_then(|()| app.state.node.people_changed()).map_err(
        |error| {
            tracing::error!(error, "an allowed sender could not be listed");
            error
        },
    )
}

/// The item that the link is about; none for one that is about no item.
fn held(app: &App, link: &Link) -> Result<Option<Held>, Fault> {
    if link.kind == LinkKind::Enter {
        return Ok(None);
    }
    Ok(app.state.quarantine.get(&link.item)?)
}

/// The item may be decided about by this link; else the answer that says why not.
fn decidable(app: &App, link: &Link, held: Option<&Held>) -> Result<(), Box<Response>> {
    let own = std::slice::from_ref(&link.address);
    let may = |held: &Held| app.state.quarantine.is_released_by_recipient(&held.item, own);
    match held {
        None if link.kind == LinkKind::Enter => Ok(()),
        None => Err(Box::new(gone())),
        Some(held) if held.state != State::Held => Err(Box::new(past(held.state))),
        Some(held) if may(held) => Ok(()),
        Some(_) => Err(Box::new(not_allowed())),
    }
}

fn not_allowed() -> Response {
    let why = noted("Only an administrator can release this message.");
    said(StatusCode::FORBIDDEN, noted("Not possible"), t(why))
}

fn about(held: &Held) -> Markup {
    let item = &held.item;
    html! {
        dl.pairs {
            dt { (t("Subject")) } dd { (format::plain(&item.subject)) }
            dt { (t("From")) } dd { (format::plain(&item.from)) }
            dt { (t("Sender")) } dd { (format::plain(&item.envelope.mail_from)) }
            dt { (t("Received")) } dd { (format::time(item.received_ms)) }
            dt { (t("Held as")) } dd { (shell::class_pill(item.class)) }
        }
        p {}
    }
}

fn past(state: State) -> Response {
    let text = match state {
        State::Deleted => noted("This message was deleted. Nothing brings it back."),
        _ => noted("This message was released before. It is delivered once."),
    };
    said(StatusCode::CONFLICT, noted("Decided before"), t(text))
}

fn gone() -> Response {
    let text = noted("This message is not kept any more.");
    said(StatusCode::GONE, noted("Gone"), t(text))
}

fn refused(shown: &LinkStatus) -> Response {
    let (status, title, text) = match shown {
        LinkStatus::Used(_) => (
            StatusCode::GONE,
            noted("Used before"),
            noted("This link was used before, and works once. The next digest brings a new one."),
        ),
        LinkStatus::Expired(_) => (
            StatusCode::GONE,
            noted("Too old"),
            noted("This link's time is over. The next digest brings a new one."),
        ),
        LinkStatus::Forged | LinkStatus::Valid(_) => (
            StatusCode::NOT_FOUND,
            noted("No such link"),
            noted(
                "This link is none of ours, or a part of it is missing. Open it as the digest has it.",
            ),
        ),
    };
    said(status, title, t(text))
}

fn said(status: StatusCode, title: &str, text: impl Render) -> Response {
    let body = html! { section.card.narrow { h1 { (t(title)) } p role="status" { (text) } } };
    visit::page(status, shell::bare(t(title), &body))
}
