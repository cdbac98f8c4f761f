//! One test binary.

#[allow(dead_code, reason = "packets are composed as for the decoder")]
#[path = "../../packet/tests/it/build.rs"]
mod build;
#[path = "it/bytes.rs"]
mod bytes;
#[path = "it/nasty.rs"]
mod nasty;
#[path = "it/replies.rs"]
mod replies;
