//! What commands read: messages in files, folders, mailboxes and archives, and the rules that judge
//! them. Here is what the command line and the `lab` share, with the same limits and the same words
//! for what is wrong.

pub mod bodies;
pub mod file;
pub mod messages;
pub mod rules;
pub mod source;
