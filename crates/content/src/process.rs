//! Unpacking in processes that can do nothing else.
//!
//! ```text
//! node ──control──▶ supervisor ──fork──▶ worker      no files, no sockets, no programs:
//!   │                   │                  │         computes on what comes over its socket
//!   │                   └────fork──exec──▶ tool      reads system libraries, opens no socket
//!   └───── request, objects, tree ─────────┘
//! ```
//!
//! The supervisor is the program itself, started before the node gives up the right to start
//! programs. It forks a worker on request, hands its socket to the node, and kills it on request. A
//! worker that crashes, hangs or asks for too much memory takes its one request with it: the
//! objects of that request are unscannable, the others do not notice.

mod answer;
pub mod client;
pub mod protocol;
pub mod supervisor;
pub mod tool;
pub mod worker;
