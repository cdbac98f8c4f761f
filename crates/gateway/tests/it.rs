//! The integration tests in one binary: linking dozens of them took a fresh checkout minutes.

mod answers_walk;
mod arc_bytes;
mod arc_sealing;
mod authentication;
mod authors;
mod everything;
mod facts_bytes;
mod field_costs;
mod front_server;
mod ingress_bytes;
mod ingress_walk;
mod list_from_url;
#[path = "../../mail/tests/mutate.rs"]
mod mutate;
mod next_hop_tls;
mod postgres;
mod postgres_bytes;
mod reports_bytes;
mod reports_walk;
mod resolver;
mod services_bytes;
mod services_walk;
mod spf;
mod zone;
