//! Choices of records of mail.

use gauntlet_packet::Direction;
use gauntlet_protocols::{Buffer, Conversation, Fields, Value};

use super::super::settings::Options;
use super::for_object;

/// Header fields that can be asked for (`custom`), their names in records and what has them;
/// whether there may be several.
const FIELDS: &[(&str, &str, &str, bool)] = &[
    ("message-id", "message_id", "email.message_id", false),
    ("subject", "subject", "email.subject", false),
    ("x-mailer", "x_mailer", "email.x_mailer", false),
    ("received", "received", "email.received", true),
    ("date", "date", "email.date", false),
];

pub(super) fn choose(
    conversation: &Conversation,
    place: usize,
    options: &Options,
    fields: &mut Fields,
) {
    let custom = options.list("custom").unwrap_or_default();
    if custom.is_empty() {
        return;
    }
    for_object(fields, "email", |email| {
        for (name, key, keyword, is_list) in FIELDS {
            let is_wanted = |wanted: &String| wanted == key || wanted.eq_ignore_ascii_case(name);
            if !custom.iter().any(is_wanted) {
                continue;
            }
            let Some(buffer) = Buffer::of_keyword(keyword) else { continue };
            let of = |i| conversation.buffer(place, buffer, Direction::ToServer, i);
            if *is_list {
                let all = (0..).map_while(of);
                let all = all.map(|it| Value::Text(gauntlet_protocols::text_of(&it.data)));
                let all: Vec<Value> = all.collect();
                if !all.is_empty() {
                    email.list(key, all);
                }
            } else if let Some(value) = of(0) {
                email.text(key, &value.data);
            }
        }
    });
}
