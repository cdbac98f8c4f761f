//! The envelope of a message that is read from a file.

pub(crate) use gauntlet_mail::trace::of_trace as of_file;
