//! The tokens of programs that use the API.

use axum::http::StatusCode;
use axum::response::Response;
use gauntlet_store::users::{Scope, TOKEN_DAYS_MAX};
use maud::{Markup, html};

use super::query_fields::number;
use super::tabs;
use crate::app::App;
use crate::error::RequestError;
use crate::request::RequestContext;
use crate::response;
use crate::text::{t, translatable};
use crate::{format, layout};

/// Days until a token expires, by default.
pub(crate) const DAYS_DEFAULT: i64 = 90;

/// `GET /tokens`.
pub(crate) fn show(app: &App, request: &RequestContext) -> Result<Response, RequestError> {
    let tokens = app.state.users.tokens()?;
    let body = html! {
        h1 { (t("Tokens")) }
        (tabs::tabs("/tokens"))
        (form(request))
        section.card.flush { table.cards {
            thead { tr {
                th scope="col" { (t("Name")) } th scope="col" { (t("Role")) } th scope="col" { (t("By")) }
                th scope="col" { (t("Until")) } th scope="col" { (t("Last use")) } th scope="col" { (t("Change")) }
            } }
            tbody {
                @for token in &tokens { tr {
                    td data-label=(t("Name")) { (token.name) }
                    td data-label=(t("Role")) {
                        @for scope in &token.scopes { code { (scope.name()) } " " } }
                    td data-label=(t("By")) { (format::plain(&token.who)) }
                    td data-label=(t("Until")) { (format::time(token.expires_ms))
                        @if token.expires_ms <= request.now_ms { b { " " (t("expired")) } } }
                    td data-label=(t("Used")) {
                        @match token.used_ms { Some(at) => (format::time(at)), None => (t("never")) } }
                    td data-label=(t("Change")) { form method="post" action="/tokens" {
                        (layout::token(request))
                        input type="hidden" name="name" value=(token.name);
                        button.quiet type="submit" name="do" value="revoke"
                            aria-label={ (t("Revoke {}").with(&token.name)) } { (t("Revoke")) }
                    } }
                } }
                @if tokens.is_empty() { tr { td.empty colspan="6" { (t("There are none.")) } } }
            }
        } }
    };
    Ok(page(request, &body))
}

fn page(request: &RequestContext, body: &Markup) -> Response {
    response::page(StatusCode::OK, layout::page(request, "/health", t("Tokens"), body))
}

fn form(request: &RequestContext) -> Markup {
    html! {
        details.card {
            summary { h2 { (t("Make a token")) } }
            form method="post" action="/tokens" {
                (layout::token(request))
                (layout::input("name", t("Name: letters, digits, - _ ."), "", "text", "dashboard"))
                label { span { (t("Days")) }
                    input type="number" name="days" min="1" max=(TOKEN_DAYS_MAX) value=(DAYS_DEFAULT); }
                fieldset {
                    legend { (t("Scopes")) }
                    @for scope in Scope::ALL {
                        label.check { input type="checkbox" name="scope" value=(scope.name());
                            span { code { (scope.name()) } } }
                    }
                }
                button.main type="submit" name="do" value="make" { (t("Make")) }
            }
        }
    }
}

/// `POST /tokens`: `do`: make or revoke.
pub(crate) fn change(app: &App, request: &RequestContext) -> Result<Response, RequestError> {
    let (users, name) = (&app.state.users, request.field("name"));
    match request.field("do") {
        "make" => {
            let mut scopes = Vec::new();
            for scope in request.values("scope") {
                scopes.push(
                    scope.parse::<Scope>().map_err(|error| RequestError::Bad(error.to_string()))?,
                );
            }
            let days = number(request, "days")?.unwrap_or(DAYS_DEFAULT);
            let secret = users.add_token(name, &scopes, days, request.login(), request.now_ms)?;
            Ok(page(
                request,
                &html! {
                    h1 { (t("Token {}").with(name)) }
                    section.card.narrow {
                        p { (t("It is not shown again.")) }
                        p { code { (secret) } }
                        p { a.button href="/tokens" { (t("Done")) } }
                    }
                },
            ))
        }
        "revoke" => {
            if !users.revoke_token(name, request.login(), request.now_ms)? {
                return Err(RequestError::NotFound(translatable(
                    "There is no token of this name.",
                )));
            }
            Ok(response::redirect("/tokens?notice=tokens-1"))
        }
        _ => Err(RequestError::Bad(translatable("do: make or revoke").to_owned())),
    }
}
