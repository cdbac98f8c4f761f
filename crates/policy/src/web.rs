//! Trying the rules about web requests.
//!
//! They are tried in their order when the request is here, and those that ask for the response
//! once more when its header is. The first that allows, blocks, warns or redirects decides; changes
//! of all that match add up.

mod decide;
mod evaluation;
pub mod replay;
#[cfg(test)]
mod tests;

pub use self::decide::{WebExplanation, WebInput};
