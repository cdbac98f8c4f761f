//! The web console: where people see what passed, why it was judged as it was, and decide what was
//! held. Server-rendered; works without script; can never stall mail.
//!
//! [`routes::routes`] lists every address with who may use it; a request goes through
//! [`visit`] (session, role, cross-site check), then the page's function runs on a blocking thread
//! with a limit on how many run at once. What the console may do to the running node is
//! [`NodeHandle`]; everything else it reads from the stores.

mod access;
pub mod api;
mod connection;
mod csv;
pub mod digest;
mod evidence;
mod fault;
mod format;
mod headers;
mod latency;
mod node;
pub mod oidc;
mod pages;
mod plot;
mod preview;
mod proxies;
mod replays;
pub mod report;
mod routes;
mod server;
mod shell;
mod text;
mod tls;
mod visit;

pub use connection::{Place, Places, Waiting};
pub use node::{
    Disk, HealthLine, MailRoute, NodeHandle, NodeStatus, PolicyOrder, QueueOrder, QueuedMail,
    Released, RuleCost, RuleLine, SettingLine, WebQuestion,
};
pub use oidc::OidcOptions;
pub use proxies::Proxies;
pub use routes::{Access, Method, Route, routes};
pub use server::{ConsoleOptions, ConsoleState, serve};
pub use text::Texts;
pub use tls::Tls;
