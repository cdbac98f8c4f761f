//! Options of IPv4 (RFC 791, 1108, 2113, 4782, and CIPSO).

use super::draft::Draft;
use super::view::View;
use crate::event;
use crate::packet::Ip;

const END: u8 = 0;
const NOP: u8 = 1;
const RECORD_ROUTE: u8 = 7;
const QUICK_START: u8 = 25;
const TIMESTAMP: u8 = 68;
const SECURITY: u8 = 130;
const LOOSE_ROUTE: u8 = 131;
const EXTENDED_SECURITY: u8 = 133;
const CIPSO: u8 = 134;
const STREAM_ID: u8 = 136;
const STRICT_ROUTE: u8 = 137;
const ROUTER_ALERT: u8 = 148;

/// Reads all options; whether the packet goes on (a length that lies ends it).
pub(super) fn read(draft: &mut Draft, ip: &mut Ip, options: View<'_>) -> bool {
    if !options.len().is_multiple_of(8) {
        draft.event(event::IPV4_OPT_PAD_REQUIRED);
    }
    let mut rest = options;
    while rest.len() > 0 {
        let kind = rest.u8(0);
        if matches!(kind, END | NOP) {
            add(ip, kind);
            if kind == END {
                break;
            }
            rest = rest.after(1);
            continue;
        }
        if rest.len() < 2 {
            draft.event(event::IPV4_OPT_EOL_REQUIRED);
            break;
        }
        let len = usize::from(rest.u8(1));
        if len > rest.len() || len < 2 {
            draft.invalid(event::IPV4_OPT_INVALID_LEN);
            return false;
        }
        option(draft, ip, kind, rest.first(len));
        rest = rest.after(len);
    }
    true
}

fn add(ip: &mut Ip, kind: u8) {
    if !ip.options.contains(&kind) {
        ip.options.push(kind);
    }
}

fn option(draft: &mut Draft, ip: &mut Ip, kind: u8, data: View<'_>) {
    let known = matches!(
        kind,
        RECORD_ROUTE
            | QUICK_START
            | TIMESTAMP
            | SECURITY
            | LOOSE_ROUTE
            | EXTENDED_SECURITY
            | CIPSO
            | STREAM_ID
            | STRICT_ROUTE
            | ROUTER_ALERT
    );
    if !known {
        draft.event(event::IPV4_OPT_INVALID);
    } else if ip.options.contains(&kind) {
        draft.event(event::IPV4_OPT_DUPLICATE);
    } else if let Some(wrong) = wrong(kind, data) {
        draft.invalid(wrong);
    } else {
        add(ip, kind);
    }
}

/// What is wrong with a known option.
fn wrong(kind: u8, data: View<'_>) -> Option<u16> {
    let len = data.len();
    let length_is_right = match kind {
        RECORD_ROUTE | LOOSE_ROUTE | STRICT_ROUTE | SECURITY | EXTENDED_SECURITY => len >= 3,
        QUICK_START => len >= 8,
        TIMESTAMP => len >= 5,
        CIPSO => len >= 10,
        _ => len == 4,
    };
    if !length_is_right {
        return Some(event::IPV4_OPT_INVALID_LEN);
    }
    let pointer = usize::from(data.u8(2));
    let well_formed = match kind {
        RECORD_ROUTE | LOOSE_ROUTE | STRICT_ROUTE => {
            pointer >= 4 && pointer.is_multiple_of(4) && pointer <= len + 1
        }
        TIMESTAMP => {
            // With flag 1 or 3 there are addresses beside the times.
            let record = if matches!(data.u8(3) & 0x0f, 1 | 3) { 8 } else { 4 };
            pointer >= 5 && (pointer - 5).is_multiple_of(record) && pointer <= len + 1
        }
        CIPSO => cipso_tags_are_right(data.after(6)),
        _ => true,
    };
    (!well_formed).then_some(event::IPV4_OPT_MALFORMED)
}

/// Whether the tags fill the option and are of known kinds.
fn cipso_tags_are_right(mut tags: View<'_>) -> bool {
    while tags.len() > 0 {
        let (kind, len) = (tags.u8(0), usize::from(tags.u8(1)));
        if len < 4 || len > tags.len() || !matches!(kind, 1 | 2 | 5 | 6 | 7) {
            return false;
        }
        // The alignment byte is 0 but of tag 7.
        if kind != 7 && tags.u8(2) != 0 {
            return false;
        }
        tags = tags.after(len);
    }
    true
}
