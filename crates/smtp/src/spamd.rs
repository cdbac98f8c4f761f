//! The protocol between spamc and spamd (SPAMC/1.2 to 1.5), both sides, without sockets.
//!
//! A request is a line `METHOD SPAMC/1.5`, header lines, an empty line and the message; a response
//! is a line `SPAMD/1.1 0 EX_OK`, header lines, an empty line and a body. One connection carries
//! one request. Without `Content-length` the client ends its message by closing its side for
//! writing.
//!
//! The body stays as it was sent: the caller inflates it where [`Request::compressed`] is set,
//! within the limits of a message.

mod head;
mod request;
mod response;
mod status;

pub use head::{Destinations, Limits, ProtocolError};
pub use request::{Method, Request, RequestReader, Tell, request_bytes};
pub use response::{Response, Score};
pub use status::Status;

#[cfg(test)]
mod tests;
