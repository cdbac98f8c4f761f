//! One test binary.

#[path = "it/build.rs"]
mod build;
#[path = "it/bytes.rs"]
mod bytes;
#[path = "it/checksums.rs"]
mod checksums;
#[path = "it/files.rs"]
mod files;
#[path = "it/flows.rs"]
mod flows;
#[path = "it/fragments.rs"]
mod fragments;
#[path = "it/layers.rs"]
mod layers;
#[path = "it/nasty.rs"]
mod nasty;
#[path = "it/overlaps.rs"]
mod overlaps;
#[path = "it/raw.rs"]
mod raw;
#[path = "it/replay.rs"]
mod replay;
#[path = "it/stream_bytes.rs"]
mod stream_bytes;
#[path = "it/stream_events.rs"]
mod stream_events;
#[path = "it/stream_model.rs"]
mod stream_model;
#[path = "it/talk.rs"]
mod talk;
#[path = "it/tunnels.rs"]
mod tunnels;
#[path = "it/wire.rs"]
mod wire;
#[path = "it/wire_events.rs"]
mod wire_events;
#[path = "it/wire_raw.rs"]
mod wire_raw;
#[path = "it/wire_streams.rs"]
mod wire_streams;
