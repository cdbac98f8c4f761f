//! A route: method, path, who may use it, and its handler.

use axum::response::Response;
use gauntlet_store::users::Role;

use crate::app::App;
use crate::error::RequestError;
use crate::request::RequestContext;

/// Who may use an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Everybody, signed in or not.
    Public,
    /// Everybody who is signed in, even with a one-time password.
    SignedIn,
    /// Everybody who is signed in with a password of their own; users see what is theirs.
    Own,
    /// The same, except who came by a digest's link: about their account.
    Account,
    /// Users who may see and release mail of others, and administrators.
    Reviewer,
    /// Administrators, who may use everything.
    Administrator,
}

impl Access {
    /// Who has this role may use it.
    pub fn allows(self, role: Role) -> bool {
        match self {
            Access::Public | Access::SignedIn | Access::Own | Access::Account => true,
            Access::Reviewer => role != Role::User,
            Access::Administrator => role == Role::Administrator,
        }
    }
}

/// How an address is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    /// `GET`: reads, and changes nothing.
    Get,
    /// `POST`: does something, at each request anew.
    Post,
    /// Puts something in a place.
    Put,
    /// `DELETE`: removes what the address names.
    Delete,
}

impl Method {
    /// As HTTP names it.
    pub const fn name(self) -> &'static str {
        match self {
            Method::Get => "GET",
            Method::Post => "POST",
            Method::Put => "PUT",
            Method::Delete => "DELETE",
        }
    }

    /// It may change something, and needs the session's form token if a browser sends it.
    pub const fn changes(self) -> bool {
        !matches!(self, Method::Get)
    }

    /// Its fields are in the body; else they are in the query.
    pub const fn writes_body(self) -> bool {
        matches!(self, Method::Post | Method::Put)
    }
}

/// An address of the console.
#[derive(Debug)]
pub struct Route {
    /// How it is asked.
    pub method: Method,
    /// Path, with names in braces.
    pub path: &'static str,
    /// Who may use it.
    pub access: Access,
    pub(crate) page: Page,
}

impl Route {
    /// Programs that watch the node ask it.
    pub(crate) fn is_monitoring(&self) -> bool {
        ["/healthz", "/health/ready", "/health/live", "/metrics"].contains(&self.path)
    }
}

pub(crate) type Page = fn(&App, &RequestContext) -> Result<Response, RequestError>;
