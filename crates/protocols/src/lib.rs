//! Application protocols on the wire: bytes of streams and datagrams in, transactions with named
//! buffers, events and files out. A pure core.
//!
//! ```text
//! bytes -> Conversation -> detection (patterns, probes) -> Parser of the protocol -> transactions
//!                                                            buffers, numbers, events, files
//! ```
//!
//! Behaviour that rules can see is that of Suricata 8. To add a protocol: a module with a
//! `pub(crate) static MODULE: Module` (see `parser.rs`) and a line in `registry.rs`.

mod buffer;
mod conversation;
pub mod dcerpc;
mod der;
mod detect;
mod dhcp;
pub mod dns;
pub mod enip;
mod event;
mod file_buffers;
mod file_magic;
mod files;
mod frames;
pub mod ftp;
mod http;
mod http2;
mod ike;
mod imap;
mod krb5;
pub mod ldap;
pub mod mail;
pub mod modbus;
pub mod mqtt;
mod nfs;
mod ntp;
mod parser;
mod pop3;
mod protocol;
mod quic;
mod rdp;
mod reader;
mod recent;
mod record;
mod registry;
mod rfb;
mod rooms;
mod settings;
pub mod sip;
mod smb;
pub mod smtp;
mod snmp;
pub mod ssh;
mod tables;
mod telnet;
#[cfg(test)]
mod testing;
mod text;
mod tftp;
pub mod tls;
mod tracker;
mod transaction;
mod websocket;
mod window;

pub use buffer::{Buffer, Bytes, Engine, Kind, Number, NumberSpec, Spec};
pub use conversation::{Conversation, Orders};
pub use event::{Event, PacketEvent};
pub use files::{File, FileState, HashSettings};
pub use frames::{Frame, FrameNote};
pub use http::{InvalidEncoding, Settings as HttpSettings};
pub use http2::Settings as Http2Settings;
pub use parser::{Change, Expectation, Flow, Wishes};
pub use protocol::{Carrier, Protocol, ProtocolSet};
pub use record::{Fields, Value};
pub use settings::Settings;
pub use text::text_of;
pub use transaction::State;
