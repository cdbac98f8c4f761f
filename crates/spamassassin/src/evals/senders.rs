//! Domains of a message's senders in the form of DNS questions.

use super::context::EvalContext;
use super::host_names::{host_name, host_of, unique};
use super::lists::all_from;

/// The domains of all claimed senders of the message.
pub(super) fn sender_domains(cx: &EvalContext<'_>) -> Vec<String> {
    let domains = all_from(cx).iter().filter_map(|a| host_of(a)).filter_map(|d| host_name(&d));
    unique(domains)
}

/// Domain of the envelope sender: by the header, else by the connection.
pub(super) fn envelope_domain(cx: &EvalContext<'_>) -> Option<String> {
    let from_header = cx.text("EnvelopeFrom:addr");
    let from_connection = cx.views.envelope().mail_from.as_bytes();
    let address = if from_header.is_empty() { from_connection } else { &from_header };
    host_of(address).and_then(|d| host_name(&d))
}
