//! What belongs to one user: settings for their own mail, second factor, saved searches; and who
//! did what.

use axum::response::Response;
use gauntlet_policy::people::Strictness;
use gauntlet_store::users::{SavedSearch, SecondFactor};
use serde_json::json;

use super::done;
use crate::app::App;
use crate::error::RequestError;
use crate::pages::query_fields::{checked, number};
use crate::pages::{
    activity as activity_page, app_passwords as app_password_page, own as own_page,
    searches as searches_page, second_factor, sign_in,
};
use crate::request::RequestContext;

/// `GET /api/v1/searches`.
pub(super) fn searches(app: &App, request: &RequestContext) -> Result<Response, RequestError> {
    done(&json!({ "searches": app.state.users.searches(request.login())? }))
}

/// `PUT /api/v1/searches/{name}`.
pub(super) fn save_search(app: &App, request: &RequestContext) -> Result<Response, RequestError> {
    let search = SavedSearch {
        login: request.login().to_owned(),
        name: request.param("name").to_owned(),
        query: checked(request, request.field("query"))?,
        shared: request.field("shared") == "yes",
    };
    app.state.users.save_search(&search, request.now_ms)?;
    done(&search)
}

/// `DELETE /api/v1/searches/{name}`.
pub(super) fn remove_search(app: &App, request: &RequestContext) -> Result<Response, RequestError> {
    searches_page::forget(app, request, (request.field("owner"), request.param("name")))?;
    done(&json!({ "removed": true }))
}

/// `GET /api/v1/activity`.
pub(super) fn activity(app: &App, _: &RequestContext) -> Result<Response, RequestError> {
    done(&json!({ "lines": activity_page::newest(app)? }))
}

/// `GET /api/v1/own`.
pub(super) fn own(app: &App, request: &RequestContext) -> Result<Response, RequestError> {
    let address = own_page::address(request)?;
    let wishes = app.state.users.wishes(&address)?;
    done(&json!({ "address": address, "strictness": wishes.strictness.name(),
        "spam_points": wishes.spam_points, "allow": wishes.allow, "block": wishes.block }))
}

/// `PUT /api/v1/own`.
pub(super) fn set_own(app: &App, request: &RequestContext) -> Result<Response, RequestError> {
    let address = own_page::address(request)?;
    let strictness: Strictness = request.field("strictness").parse().map_err(RequestError::Bad)?;
    let points = number(request, "points")?;
    app.state.users.set_strictness(&address, strictness, points, request.now_ms)?;
    own_page::apply(app)?;
    done(&json!({ "address": address, "strictness": strictness.name() }))
}

/// `PUT /api/v1/own/senders`.
pub(super) fn list_own(app: &App, request: &RequestContext) -> Result<Response, RequestError> {
    let (address, entry, list) =
        (own_page::address(request)?, request.field("entry"), request.field("list"));
    app.state.users.list_personal_sender(&address, entry, list == "allow", request.now_ms)?;
    own_page::apply(app)?;
    done(&json!({ "entry": entry, "list": list }))
}

/// `DELETE /api/v1/own/senders`.
pub(super) fn unlist_own(app: &App, request: &RequestContext) -> Result<Response, RequestError> {
    let removed = app
        .state
        .users
        .unlist_personal_sender(&own_page::address(request)?, request.field("entry"))?;
    own_page::apply(app)?;
    done(&json!({ "removed": removed }))
}

/// Programs have no account of their own.
fn is_person(request: &RequestContext) -> Result<(), RequestError> {
    let why = "This is about the account of a user; a token has none.";
    if request.csrf().is_empty() { Err(RequestError::NotFound(why)) } else { Ok(()) }
}

/// `GET /api/v1/own/second-factor`.
pub(super) fn factor(app: &App, request: &RequestContext) -> Result<Response, RequestError> {
    is_person(request)?;
    let (on, codes) = match app.state.users.second_factor(request.login())? {
        SecondFactor::On { recovery_codes } => (true, recovery_codes),
        SecondFactor::Off | SecondFactor::Pending => (false, 0),
    };
    done(&json!({ "on": on, "recovery_codes": codes }))
}

/// `POST /api/v1/own/second-factor`.
pub(super) fn change_factor(app: &App, request: &RequestContext) -> Result<Response, RequestError> {
    is_person(request)?;
    let (who, users, code) = (request.login(), &app.state.users, request.field("code"));
    let value = match request.field("do") {
        "begin" => {
            app_password_page::has_proved(app, request)?;
            json!({ "on": false, "secret": users.begin_totp(who)? })
        }
        "on" => {
            let codes = second_factor::enable(app, request, code)?;
            let wrong = "The code was wrong: send the one that the app shows now.";
            let codes = codes.ok_or_else(|| RequestError::Bad(wrong.to_owned()))?;
            json!({ "on": true, "recovery_codes": codes })
        }
        _ => {
            second_factor::disable(app, request, code)?;
            json!({ "on": false })
        }
    };
    let response = done(&value)?;
    match request.field("do") {
        "begin" => Ok(response),
        // All sessions ended with it; the answer brings the cookie of a new one.
        _ => sign_in::again(app, request, response),
    }
}

/// `GET /api/v1/own/app-passwords`.
pub(super) fn app_passwords(app: &App, request: &RequestContext) -> Result<Response, RequestError> {
    is_person(request)?;
    done(&json!({ "app_passwords": app.state.users.app_passwords(request.login())? }))
}

/// `POST /api/v1/own/app-passwords`.
pub(super) fn add_app_password(
    app: &App,
    request: &RequestContext,
) -> Result<Response, RequestError> {
    is_person(request)?;
    let name = request.field("name");
    let secret = app_password_page::make(app, request, name)?;
    done(&json!({ "name": name, "secret": secret }))
}

/// `DELETE /api/v1/own/app-passwords/{name}`.
pub(super) fn revoke_app_password(
    app: &App,
    request: &RequestContext,
) -> Result<Response, RequestError> {
    is_person(request)?;
    app_password_page::revoke(app, request, request.param("name"))?;
    done(&json!({ "removed": true }))
}
