//! One test binary.
#![expect(clippy::print_stdout, reason = "what differs is printed on demand")]

#[path = "it/ask.rs"]
mod ask;
#[path = "it/checks.rs"]
mod checks;
#[path = "it/contents.rs"]
mod contents;
#[path = "it/eve.rs"]
mod eve;
#[path = "it/gate.rs"]
mod gate;
#[path = "it/inspect.rs"]
mod inspect;
#[path = "it/large.rs"]
mod large;
#[path = "it/late.rs"]
mod late;
#[path = "it/live.rs"]
mod live;
#[path = "it/nasty.rs"]
mod nasty;
#[path = "it/parity.rs"]
mod parity;
#[path = "it/records.rs"]
mod records;
#[path = "it/replay.rs"]
mod replay;
#[path = "it/rules.rs"]
mod rules;
#[path = "it/talk.rs"]
mod talk;
#[path = "it/threads.rs"]
mod threads;
#[path = "it/wire.rs"]
mod wire;
