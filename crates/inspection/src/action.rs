//! What was found about one item.

use gauntlet_ids::eve::Found;
use gauntlet_protocols::Protocol;
use serde_json::{Map, Value};

/// What was found about one item.
#[derive(Debug)]
pub(crate) struct Item {
    pub(crate) protocol: Protocol,
    pub(crate) fields: Map<String, Value>,
    /// Its flow is to be dropped.
    pub(crate) drops: bool,
}

impl Item {
    /// `fields`: a JSON object.
    pub(crate) fn new(protocol: Protocol, fields: Value, drops: bool) -> Self {
        let fields = match fields {
            Value::Object(fields) => fields,
            _ => Map::new(),
        };
        Self { protocol, fields, drops }
    }

    /// Its record. `inline`: what is to be dropped is.
    pub(crate) fn found(mut self, inline: bool) -> Found {
        let action = if self.drops && inline { "blocked" } else { "allowed" };
        self.fields.insert("action".to_owned(), action.into());
        Found { protocol: self.protocol, value: Value::Object(self.fields) }
    }
}
