//! What names a message or held mail wherever it is in an array: its id, `@`, its node.
//!
//! Ids are made from the time, so two nodes give the same one now and then; and a message that
//! moved is in the logs of both.

/// The reference to an id; the id itself where no node is named.
pub fn join(id: &str, node: &str) -> String {
    match node {
        "" => id.to_owned(),
        node => format!("{id}@{node}"),
    }
}

/// Id and node of a reference; no node where it names none.
pub fn split(reference: &str) -> (&str, Option<&str>) {
    match reference.split_once('@') {
        Some((id, node)) => (id, Some(node)),
        None => (reference, None),
    }
}
