//! Targets of the events that the text logs of Receiver and Engine are made of: one line a message
//! each. The Sender's lines are those of the queue's own events.

/// A message was answered, a session ended.
pub const RECEIVER: &str = "receiver";
/// A message was judged.
pub const ENGINE: &str = "engine";
