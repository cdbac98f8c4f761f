//! FTP (RFC 959, RFC 2428): commands and replies; connections for data are announced.

mod command;
mod data;
mod port;
mod session;
mod table;

pub use crate::settings::ftp::Settings;
pub(crate) use data::MODULE as DATA_MODULE;
pub(crate) use table::MODULE;
