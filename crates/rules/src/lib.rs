//! The SpamAssassin rule language: read, check, compile, match, explain.
