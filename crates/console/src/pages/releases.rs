//! What people ask to have released of the web, and the exceptions that administrators made.

mod view;

use std::net::IpAddr;

use axum::http::StatusCode;
use axum::response::Response;
use gauntlet_store::WebReleases;
use gauntlet_store::web_releases::{ReleaseError, RequestState, StoredException, Terms};
use gauntlet_web::release::{ReleaseRequest, ReleasedFor};

use super::query_fields::number;
use crate::app::App;
use crate::error::RequestError;
use crate::release_answer::ReleaseOutcome;
use crate::request::RequestContext;
use crate::text::{t, translatable};
use crate::{layout, response};

/// The longest time for which something is released, in hours, unless it is for good: a year.
pub(crate) const HOURS_MAX: i64 = 8_760;
const HOUR_MS: i64 = 3_600_000;
/// Decided requests on the page.
const DECIDED_SHOWN: usize = 20;
/// Exceptions on the page; the API lists more.
const EXCEPTIONS_SHOWN: usize = 200;
/// Requests that wait, on the page.
const OPEN_SHOWN: usize = 50;

/// Requests and exceptions, if the node has a web path.
pub(crate) fn store(app: &App) -> Result<&WebReleases, RequestError> {
    let none =
        || RequestError::NotFound(translatable("This node has no listener for web requests."));
    app.state.web_releases.as_deref().ok_or_else(none)
}

impl From<ReleaseError> for RequestError {
    fn from(error: ReleaseError) -> Self {
        match error {
            ReleaseError::Store(error) => error.into(),
            other => RequestError::Bad(other.to_string()),
        }
    }
}

/// `GET /web/releases`.
pub(crate) fn show(app: &App, request: &RequestContext) -> Result<Response, RequestError> {
    let store = store(app)?;
    let shown = view::Shown {
        open: store.requests(Some(RequestState::Open), None, OPEN_SHOWN)?,
        open_in_all: store.open_requests()?,
        exceptions: store.list(Some(request.now_ms), None, EXCEPTIONS_SHOWN)?,
        decided: {
            let mut decided = store.requests(Some(RequestState::Approved), None, DECIDED_SHOWN)?;
            decided.extend(store.requests(Some(RequestState::Declined), None, DECIDED_SHOWN)?);
            decided.sort_by_key(|request| std::cmp::Reverse(request.decided_ms));
            decided.truncate(DECIDED_SHOWN);
            decided
        },
    };
    let body = view::page(request, &shown);
    let page = layout::page(request, "/web", t("Release requests"), &body);
    Ok(response::page(StatusCode::OK, page))
}

/// `POST /web/releases`: `do`: approve, decline, add or revoke.
pub(crate) fn change(app: &App, request: &RequestContext) -> Result<Response, RequestError> {
    let of_form = || number(request, "number").map(Option::unwrap_or_default);
    let notice = match request.field("do") {
        "approve" => {
            approve(app, request, Some(of_form()?))?;
            "web_released"
        }
        "add" => {
            approve(app, request, None)?;
            "web_released"
        }
        "decline" => {
            decline(app, request, of_form()?)?;
            "web_declined"
        }
        "revoke" => {
            revoke(app, request, of_form()?)?;
            "web_revoked"
        }
        _ => {
            let why = translatable("do: approve, decline, add or revoke");
            return Err(RequestError::Bad(why.to_owned()));
        }
    };
    Ok(response::redirect(&format!("/web/releases?notice={notice}-1")))
}

/// Releases what the fields say: `target`, `for` (everybody, client, user) with `client` and `user`
/// where no request has them, `hours` (for good if not given), `note`.
pub(crate) fn approve(
    app: &App,
    request: &RequestContext,
    asked: Option<i64>,
) -> Result<StoredException, RequestError> {
    let store = store(app)?;
    let asked_for = match asked {
        None => None,
        Some(number) => Some(find_open(store, number)?),
    };
    let (target, note) = (request.field("target").to_owned(), request.field("note").to_owned());
    let hours: Option<i64> = number(request, "hours")?;
    let until_ms = match hours {
        None => None,
        Some(hours) if (1..=HOURS_MAX).contains(&hours) => Some(request.now_ms + hours * HOUR_MS),
        Some(_) => return Err(RequestError::Bad(format!("hours: from 1 to {HOURS_MAX}"))),
    };
    let asked_by = asked_for.clone().unwrap_or_default();
    let released_for = released_for(request, &asked_by.client, &asked_by.user)?;
    let terms = Terms { target, released_for, until_ms, note };
    let made = store.approve(asked, &terms, request.login(), request.now_ms)?;
    let target = &made.target;
    let whom = &terms.released_for;
    note_activity(
        app,
        request,
        "release web",
        &format!("{target} for {whom}, release {}", made.number),
    )?;
    if let Some(asked) = asked_for {
        app.state.node.answer_release(&asked, ReleaseOutcome::Released(until_ms));
    }
    Ok(made)
}

/// A request that waits.
fn find_open(store: &WebReleases, number: i64) -> Result<ReleaseRequest, RequestError> {
    let found = store.requests(Some(RequestState::Open), number.checked_add(1), 1)?;
    let found = found.into_iter().find(|stored| stored.number == number);
    let found = found.ok_or(RequestError::NotFound(translatable(
        "This request was decided already, or is forgotten.",
    )))?;
    Ok(found.request)
}

fn released_for(
    request: &RequestContext,
    client: &str,
    user: &str,
) -> Result<ReleasedFor, RequestError> {
    let given = |name: &'static str, known: &str| match request.field(name) {
        "" => known.to_owned(),
        given => given.to_owned(),
    };
    match request.field("for") {
        "" | "everybody" => Ok(ReleasedFor::Everybody),
        "client" => {
            let client = given("client", client);
            let address = client.parse::<IpAddr>().map(ReleasedFor::Client);
            address.map_err(|_| RequestError::Bad(format!("client: {client:?} is no address")))
        }
        "user" => match given("user", user) {
            user if user.is_empty() => {
                let why = translatable("user: nobody is named");
                Err(RequestError::Bad(why.to_owned()))
            }
            user => Ok(ReleasedFor::User(user)),
        },
        _ => {
            let why = translatable("for: everybody, client or user");
            Err(RequestError::Bad(why.to_owned()))
        }
    }
}

/// Leaves what was asked for blocked.
pub(crate) fn decline(
    app: &App,
    request: &RequestContext,
    number: i64,
) -> Result<(), RequestError> {
    let note = request.field("note");
    let asked = find_open(store(app)?, number)?;
    store(app)?.decline(number, request.login(), note, request.now_ms)?;
    note_activity(app, request, "decline web release", &format!("request {number} {note}"))?;
    app.state.node.answer_release(&asked, ReleaseOutcome::Declined);
    Ok(())
}

/// Ends an exception; whether there was one.
pub(crate) fn revoke(
    app: &App,
    request: &RequestContext,
    number: i64,
) -> Result<bool, RequestError> {
    let ended = store(app)?.revoke(number, request.login(), request.now_ms)?;
    if let Some(ended) = &ended {
        let detail = format!("{}, release {number}", ended.target);
        note_activity(app, request, "revoke web release", &detail)?;
    }
    Ok(ended.is_some())
}

fn note_activity(
    app: &App,
    request: &RequestContext,
    action: &str,
    detail: &str,
) -> Result<(), RequestError> {
    Ok(app.state.users.note(request.now_ms, request.login(), action, detail)?)
}
