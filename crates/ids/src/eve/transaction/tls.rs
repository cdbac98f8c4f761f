//! Choices of records of TLS.

use gauntlet_packet::Direction;
use gauntlet_protocols::{Buffer, Fields, Value};

use super::super::settings::Options;
use super::{flag, for_object, object};
use crate::bytes::base64;
use crate::pipeline::observer::TransactionEvent;

/// Fields of records that are not extended.
const BASIC: [&str; 3] = ["subject", "issuerdn", "subjectaltname"];

/// What is not in the setting `custom` under its own name.
const NAMES: [(&str, &str); 3] =
    [("issuer", "issuerdn"), ("not_before", "notbefore"), ("not_after", "notafter")];

/// The mark of a session whose certificates are hidden, as in TLS 1.3.
const HIDDEN: &str = "certificates_hidden";
const RESUMED: &str = "session_resumed";

/// Takes out what only the choice of records needs.
pub(super) fn plain(fields: &mut Fields) {
    for_object(fields, "tls", |tls| {
        tls.0.retain(|(key, _)| *key != HIDDEN && *key != RESUMED);
    });
}

/// Applies the settings; whether there is a record: a certificate was seen, or could not be.
pub(super) fn choose(event: &TransactionEvent<'_>, options: &Options, fields: &mut Fields) -> bool {
    let Some(tls) = object(fields, "tls") else { return false };
    let has = |name| tls.0.iter().any(|(key, _)| *key == name);
    let has_certificate = has("subject") && has("issuerdn");
    let tells_resumed = options.flag("session-resumption", true);
    let is_resumed = flag(tls, RESUMED);
    if !(has_certificate || flag(tls, HIDDEN) || (is_resumed && tells_resumed)) {
        return false;
    }
    let custom = options.list("custom");
    let is_extended = options.flag("extended", false);
    let is_wanted = |key: &str| match &custom {
        Some(custom) => custom.iter().any(|wanted| {
            let own = NAMES.iter().find(|(setting, _)| wanted.eq_ignore_ascii_case(setting));
            own.map_or(wanted.as_str(), |(_, name)| name).eq_ignore_ascii_case(key)
        }),
        None => is_extended || BASIC.contains(&key),
    };
    let original = event.moment.flow.and_then(|flow| flow.original);
    for_object(fields, "tls", |tls| {
        tls.0.retain(|(key, _)| match *key {
            HIDDEN => false,
            RESUMED => tells_resumed && !has_certificate,
            key => is_wanted(key),
        });
        if custom.is_some() {
            certificates(event, &is_wanted, tls);
        }
        if let Some(protocol) = original {
            tls.text("from_proto", protocol.name().as_bytes());
        }
    });
    true
}

fn certificates(
    event: &TransactionEvent<'_>,
    is_wanted: &dyn Fn(&str) -> bool,
    fields: &mut Fields,
) {
    if !is_wanted("certificate") && !is_wanted("chain") {
        return;
    }
    let Some(buffer) = Buffer::of_keyword("tls.certs") else { return };
    let of = |i| event.conversation.buffer(event.place, buffer, Direction::ToClient, i);
    let chain: Vec<String> = (0..).map_while(of).map(|it| base64::encode(&it.data)).collect();
    if let Some(first) = chain.first().filter(|_| is_wanted("certificate")) {
        fields.text("certificate", first.as_bytes());
    }
    if is_wanted("chain") && !chain.is_empty() {
        fields.list("chain", chain.into_iter().map(Value::Text).collect());
    }
}
