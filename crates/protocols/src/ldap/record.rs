//! The EVE record `ldap`.

use super::wire::{Message, operation};
use crate::record::{Fields, Value};
use crate::text::text_of;

/// Names of what comes of a request (RFC 4511 appendix A.1, and those of clients).
const CODES: &[(u32, &str)] = &[
    (0, "success"),
    (1, "operations_error"),
    (2, "protocol_error"),
    (3, "time_limit_exceeded"),
    (4, "size_limit_exceeded"),
    (5, "compare_false"),
    (6, "compare_true"),
    (7, "auth_method_not_supported"),
    (8, "stronger_auth_required"),
    (10, "referral"),
    (11, "admin_limit_exceeded"),
    (12, "unavailable_critical_extension"),
    (13, "confidentiality_required"),
    (14, "sasl_bind_in_progress"),
    (16, "no_such_attribute"),
    (17, "undefined_attribute_type"),
    (18, "inappropriate_matching"),
    (19, "constraint_violation"),
    (20, "attribute_or_value_exists"),
    (21, "invalid_attribute_syntax"),
    (32, "no_such_object"),
    (33, "alias_problem"),
    (34, "invalid_dns_syntax"),
    (35, "is_leaf"),
    (36, "alias_dereferencing_problem"),
    (48, "inappropriate_authentication"),
    (49, "invalid_credentials"),
    (50, "insufficient_access_rights"),
    (51, "busy"),
    (52, "unavailable"),
    (53, "unwilling_to_perform"),
    (54, "loop_detect"),
    (60, "sort_control_missing"),
    (61, "offset_range_error"),
    (64, "naming_violation"),
    (65, "object_class_violation"),
    (66, "not_allowed_on_non_leaf"),
    (67, "not_allowed_on_rdn"),
    (68, "entry_already_exists"),
    (69, "object_class_mods_prohibited"),
    (70, "results_too_large"),
    (71, "affects_multiple_dsas"),
    (76, "control_error"),
    (80, "other"),
    (112, "tls_not_supported"),
    (118, "canceled"),
    (119, "no_such_operation"),
    (120, "too_late"),
    (121, "cannot_cancel"),
    (122, "assertion_failed"),
    (123, "authorization_denied"),
    (4096, "e_sync_refresh_required"),
    (16654, "no_operation"),
];

/// Writes the object.
pub(super) fn write(request: Option<&Message>, responses: &[Message], fields: &mut Fields) {
    let mut ldap = Fields::default();
    if let Some(request) = request {
        ldap.object("request", describe(request, true));
    }
    if !responses.is_empty() {
        let is_alone = request.is_none();
        let list = responses.iter().map(|response| Value::Object(describe(response, is_alone)));
        ldap.list("responses", list.collect());
    }
    fields.object("ldap", ldap);
}

fn name(number: u32) -> &'static str {
    match number {
        operation::BIND_REQUEST => "bind_request",
        operation::BIND_RESPONSE => "bind_response",
        operation::UNBIND_REQUEST => "unbind_request",
        operation::SEARCH_REQUEST => "search_request",
        operation::SEARCH_ENTRY => "search_result_entry",
        operation::SEARCH_DONE => "search_result_done",
        operation::MODIFY_REQUEST => "modify_request",
        operation::MODIFY_RESPONSE => "modify_response",
        operation::ADD_REQUEST => "add_request",
        operation::ADD_RESPONSE => "add_response",
        operation::DELETE_REQUEST => "del_request",
        operation::DELETE_RESPONSE => "del_response",
        operation::RENAME_REQUEST => "mod_dn_request",
        operation::RENAME_RESPONSE => "mod_dn_response",
        operation::COMPARE_REQUEST => "compare_request",
        operation::COMPARE_RESPONSE => "compare_response",
        operation::ABANDON_REQUEST => "abandon_request",
        operation::SEARCH_REFERENCE => "search_result_reference",
        operation::EXTENDED_REQUEST => "extended_request",
        operation::EXTENDED_RESPONSE => "extended_response",
        _ => "intermediate_response",
    }
}

fn describe(message: &Message, with_number: bool) -> Fields {
    let mut fields = Fields::default();
    let name = name(message.operation);
    fields.text("operation", name.as_bytes());
    if with_number {
        fields.number("message_id", i64::from(message.number));
    }
    if let Some(inner) = inner(message) {
        fields.object(name, inner);
    }
    fields
}

/// What the message says; nothing is known of those that say nothing.
fn inner(message: &Message) -> Option<Fields> {
    let mut inner = Fields::default();
    if let Some(outcome) = &message.outcome {
        let known = CODES.iter().find(|(code, _)| *code == outcome.code);
        let code = known.map_or_else(|| format!("unknown-{}", outcome.code), |it| it.1.to_owned());
        inner.text("result_code", code.as_bytes());
        inner.text("matched_dn", &outcome.matched);
        inner.text("message", &outcome.message);
        return Some(inner);
    }
    let entry = match message.operation {
        operation::BIND_REQUEST => "name",
        operation::SEARCH_REQUEST | operation::SEARCH_ENTRY => "base_object",
        operation::MODIFY_REQUEST => "object",
        operation::DELETE_REQUEST => "dn",
        operation::ADD_REQUEST | operation::RENAME_REQUEST | operation::COMPARE_REQUEST => "entry",
        operation::EXTENDED_REQUEST => {
            inner.text("name", &message.extension);
            return Some(inner);
        }
        _ => return None,
    };
    inner.text(entry, &message.entry);
    let list = |key: &'static str, make: fn(&[u8]) -> Value, inner: &mut Fields| {
        if !message.attributes.is_empty() {
            inner.list(key, message.attributes.iter().map(|name| make(name)).collect());
        }
    };
    match message.operation {
        operation::SEARCH_REQUEST => {
            list("attributes", |name| Value::Text(text_of(name)), &mut inner);
        }
        operation::SEARCH_ENTRY => list("attributes", |name| named("type", name), &mut inner),
        operation::ADD_REQUEST => list("attributes", |name| named("name", name), &mut inner),
        operation::MODIFY_REQUEST => {
            let change = |name: &[u8]| {
                let mut fields = Fields::default();
                fields.0.push(("modification", named("attribute_type", name)));
                Value::Object(fields)
            };
            list("changes", change, &mut inner);
        }
        operation::COMPARE_REQUEST => {
            if let Some(attribute) = message.attributes.first() {
                inner.0.push(("attribute_value_assertion", named("description", attribute)));
            }
        }
        _ => {}
    }
    Some(inner)
}

fn named(key: &'static str, name: &[u8]) -> Value {
    let mut fields = Fields::default();
    fields.text(key, name);
    Value::Object(fields)
}
