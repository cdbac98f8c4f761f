//! DCE/RPC over TCP and UDP. SMB carries it, too, and answers the same buffers.

mod call;
mod table;
pub mod wire;

pub(crate) use call::append_stub;
pub(crate) use table::{MODULE, shared};
