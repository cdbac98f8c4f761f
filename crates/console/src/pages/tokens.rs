//! The tokens of programs that use the API.

use axum::http::StatusCode;
use axum::response::Response;
use gauntlet_store::users::{Scope, TOKEN_DAYS_MAX};
use maud::{Markup, html};

use super::manage;
use super::messages::number;
use crate::fault::Fault;
use crate::server::App;
use crate::visit::{self, Visit};
use crate::{format, shell};

/// Days of a token when nobody says.
pub(crate) const DAYS_DEFAULT: i64 = 90;

/// `GET /tokens`.
pub(crate) fn show(app: &App, visit: &Visit) -> Result<Response, Fault> {
    let tokens = app.state.users.tokens()?;
    let body = html! {
        h1 { "Tokens" }
        (manage::tabs("/tokens"))
        (form(visit))
        section.card.flush { table.cards {
            thead { tr {
                th scope="col" { "Name" } th scope="col" { "May" } th scope="col" { "By" }
                th scope="col" { "Until" } th scope="col" { "Last use" } th scope="col" { "Change" }
            } }
            tbody {
                @for token in &tokens { tr {
                    td data-label="Name" { (token.name) }
                    td data-label="May" {
                        @for scope in &token.scopes { code { (scope.name()) } " " } }
                    td data-label="By" { (format::plain(&token.who)) }
                    td data-label="Until" { (format::time(token.expires_ms))
                        @if token.expires_ms <= visit.now_ms { b { " over" } } }
                    td data-label="Used" {
                        @match token.used_ms { Some(at) => (format::time(at)), None => "never" } }
                    td data-label="Change" { form method="post" action="/tokens" {
                        (shell::token(visit))
                        input type="hidden" name="name" value=(token.name);
                        button.quiet type="submit" name="do" value="revoke"
                            aria-label={ "Revoke " (token.name) } { "Revoke" }
                    } }
                } }
                @if tokens.is_empty() { tr { td.empty colspan="6" { "There are none." } } }
            }
        } }
    };
    Ok(page(visit, &body))
}

fn page(visit: &Visit, body: &Markup) -> Response {
    visit::page(StatusCode::OK, &shell::page(visit, "/health", "Tokens", body))
}

fn form(visit: &Visit) -> Markup {
    html! {
        details.card {
            summary { h2 { "Make a token" } }
            form method="post" action="/tokens" {
                (shell::token(visit))
                (shell::input("name", "Name: letters, digits, - _ .", "", "text", "dashboard"))
                label { span { "Days" }
                    input type="number" name="days" min="1" max=(TOKEN_DAYS_MAX) value=(DAYS_DEFAULT); }
                fieldset {
                    legend { "What it may do" }
                    @for scope in Scope::ALL {
                        label.check { input type="checkbox" name="scope" value=(scope.name());
                            span { code { (scope.name()) } } }
                    }
                }
                button.main type="submit" name="do" value="make" { "Make" }
            }
        }
    }
}

/// `POST /tokens`: `do`: make or revoke.
pub(crate) fn change(app: &App, visit: &Visit) -> Result<Response, Fault> {
    let (users, name) = (&app.state.users, visit.field("name"));
    match visit.field("do") {
        "make" => {
            let mut scopes = Vec::new();
            for scope in visit.all("scope") {
                scopes.push(scope.parse::<Scope>().map_err(Fault::Bad)?);
            }
            let days = number(visit, "days")?.unwrap_or(DAYS_DEFAULT);
            let secret = users.add_token(name, &scopes, days, visit.who(), visit.now_ms)?;
            Ok(page(
                visit,
                &html! {
                    h1 { "Token " (name) }
                    section.card.narrow {
                        p { "It is not shown again." }
                        p { code { (secret) } }
                        p { a.button href="/tokens" { "Done" } }
                    }
                },
            ))
        }
        "revoke" => {
            if !users.revoke_token(name, visit.who(), visit.now_ms)? {
                return Err(Fault::NotFound("There is no token of this name."));
            }
            Ok(visit::redirect("/tokens?notice=tokens-1"))
        }
        _ => Err(Fault::Bad("do: make or revoke".to_owned())),
    }
}
