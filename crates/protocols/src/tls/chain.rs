//! Certificates in handshakes (RFC 5246 section 7.4.2).

use super::certificate::Certificate;
use super::event::Event;
use super::side::Side;
use crate::reader::Reader;

/// Certificates that are kept of one chain.
const CHAIN_MAX: usize = 64;

/// Reads the message `certificate` into a side. A second one of the same side changes nothing.
pub(super) fn read(message: &[u8], side: &mut Side, events: &mut Vec<Event>) {
    let Some(list) = Reader::new(message).prefixed24() else { return };
    if side.has_sent_certificates {
        return;
    }
    side.has_sent_certificates = true;
    let mut list = Reader::new(list);
    while !list.is_empty() {
        let Some(der) = list.prefixed24() else {
            events.push(Event::InvalidCertificate);
            return;
        };
        if side.certificate.is_none() && side.chain.is_empty() {
            match Certificate::read(der) {
                Ok(certificate) => side.certificate = Some(certificate),
                // The next one takes its place.
                Err(event) => {
                    events.push(event);
                    continue;
                }
            }
        }
        if side.chain.len() < CHAIN_MAX {
            side.chain.push(der.to_vec());
        }
    }
}
