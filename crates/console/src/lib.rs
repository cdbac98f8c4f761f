//! The web console: where users see what passed, why it was judged as it was, and decide what was
//! held. Server-rendered; works without script; can never stall mail.
//!
//! [`routes::routes`] lists every address with who may use it; a request goes through [`dispatch`]
//! (session, role, cross-site check), then the page's function runs on a blocking thread with a
//! limit on how many run at once. What the console may do to the running node is [`NodeHandle`];
//! everything else it reads from the stores.

mod access;
mod addresses;
pub mod api;
mod app;
mod authorization;
mod connection;
mod csv;
pub mod digest;
mod dispatch;
mod error;
pub mod evidence;
mod format;
mod headers;
mod latency;
mod layout;
mod node;
pub mod oidc;
mod packet_evidence;
mod packet_trial;
mod pages;
mod plot;
pub mod preview;
mod proxies;
pub mod release_answer;
mod replays;
pub mod report;
mod request;
mod response;
mod route;
mod routes;
mod server;
mod state;
mod text;
mod tls;

pub use connection::{BoxedWait, ConnectionLimiter, ConnectionSlot};
pub use node::{
    ArrayNode, ArrayView, ChangedVerdict, ChannelOrder, ChannelState, ChannelTrial, HeldDecision,
    HeldOrder, RejectedVersion,
};
pub use node::{
    Disk, EffectiveSetting, HealthCheck, MailRoute, NodeError, NodeHandle, NodeStatus, PacketRule,
    PolicyOrder, QueueOrder, QueueOrdered, QueuedMail, Released, RuleCost, RuleInfo, WebRequest,
};
pub use oidc::OidcOptions;
pub use proxies::{Proxies, ProxyError};
pub use route::{Access, Method, Route};
pub use routes::routes;
pub use server::serve;
pub use state::{ConsoleOptions, ConsoleState};
pub use text::{CatalogueError, Texts};
pub use tls::Tls;
