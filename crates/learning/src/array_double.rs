//! A double of an array's table, for tests of what nodes share.

use gauntlet_store::sharing::{Cursors, Incoming, SharedPart};

#[path = "../../store/src/sharing/relay.rs"]
pub(crate) mod relay;
