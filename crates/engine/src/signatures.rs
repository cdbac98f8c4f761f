//! Near-duplicate signatures: mail that is nearly the same as mail that was reported as spam or
//! ham.
//!
//! * [`fingerprint`] turns a message into a few fingerprints: of its text, of the structure of its
//!   HTML (both fuzzy), and of each attached file or image (exact);
//! * [`table`] is a file of known fingerprints, looked up in place in a memory-mapped file;
//! * [`known`] puts what was learned lately on top, and says what a message resembles.
//!
//! Nothing here does I/O: a table is bytes that the caller has mapped.

pub mod fingerprint;
pub mod known;
pub mod table;

pub use fingerprint::{Fingerprint, Kind};
pub use known::{KnownSignatures, Report, Resemblance};
pub use table::{Table, TableError};
