//! DNS, TLS and certificates: what every stage reaches other machines by.

pub mod acme;
mod acme_folder;
pub mod download;
pub mod resolver;
pub mod tls;
pub mod web;
