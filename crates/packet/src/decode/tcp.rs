//! TCP (RFC 9293) with its options (RFC 2018, 2385, 5925, 7323, 7413).

use super::draft::Draft;
use super::step::Step;
use super::view::View;
use crate::checksum::Sum;
use crate::counters::{Counter, Counters};
use crate::event;
use crate::packet::{Tcp, TcpFlags, Transport};

const HEADER_LEN_MIN: usize = 20;
const OPTIONS_LEN_MAX: usize = 40;
/// A larger window scale counts as 0, as for Suricata.
const SCALE_MAX: u8 = 14;
/// Fast open as an experimental option begins so (RFC 7413 section 4.1.1, RFC 6994).
const FAST_OPEN_MAGIC: u16 = 0xf989;

/// The header and its options; the rest is payload.
pub(super) fn tcp(draft: &mut Draft, counters: &mut Counters, data: View<'_>) -> Step<'static> {
    counters.add(Counter::Tcp);
    if data.len() < HEADER_LEN_MIN {
        draft.invalid(event::TCP_PKT_TOO_SMALL);
        return Step::FAILED;
    }
    let header_len = usize::from(data.u8(12) >> 4) * 4;
    if data.len() < header_len {
        draft.invalid(event::TCP_HLEN_TOO_SMALL);
        return Step::FAILED;
    }
    // A header of fewer than 20 bytes is a length of options that wraps.
    let Some(options_len) =
        header_len.checked_sub(HEADER_LEN_MIN).filter(|len| *len <= OPTIONS_LEN_MAX)
    else {
        draft.invalid(event::TCP_INVALID_OPTLEN);
        return Step::FAILED;
    };
    let header = data.first(header_len);
    let mut tcp = Tcp {
        source: data.u16(0),
        destination: data.u16(2),
        sequence: data.u32(4),
        acknowledgement: data.u32(8),
        flags: TcpFlags(data.u8(13)),
        window: data.u16(14),
        urgent: data.u16(18),
        header: header.range(),
        checksum_ok: checksum_is_right(draft, data),
        ..Tcp::default()
    };
    if options_len > 0 {
        options(draft, &mut tcp, header.after(HEADER_LEN_MIN));
    }
    count(counters, tcp.flags);
    draft.packet.transport = Transport::Tcp(tcp);
    draft.packet.payload = data.after(header_len).range();
    draft.packet.wants_flow = true;
    Step::DONE
}

fn checksum_is_right(draft: &Draft, data: View<'_>) -> bool {
    let Some(ip) = draft.packet.ip.as_ref().filter(|_| draft.checked) else { return true };
    Sum::default().pseudo(ip.source, ip.destination, 6, data.len()).bytes(data.bytes()).is_right()
}

fn count(counters: &mut Counters, flags: TcpFlags) {
    if flags.has(TcpFlags::SYN | TcpFlags::ACK) {
        counters.add(Counter::TcpSynack);
    } else if flags.has(TcpFlags::SYN) {
        counters.add(Counter::TcpSyn);
    }
    if flags.has(TcpFlags::RST) {
        counters.add(Counter::TcpRst);
    }
    if flags.has(TcpFlags::URG) {
        counters.add(Counter::TcpUrg);
    }
}

fn options(draft: &mut Draft, tcp: &mut Tcp, mut rest: View<'_>) {
    while rest.len() > 0 {
        match rest.u8(0) {
            0 => break,
            1 => rest = rest.after(1),
            kind => {
                if rest.len() < 2 {
                    break;
                }
                let len = usize::from(rest.u8(1));
                if len > rest.len() || len < 2 {
                    draft.invalid(event::TCP_OPT_INVALID_LEN);
                    return;
                }
                option(draft, tcp, kind, rest.first(len));
                rest = rest.after(len);
            }
        }
    }
}

fn option(draft: &mut Draft, tcp: &mut Tcp, kind: u8, data: View<'_>) {
    let len = data.len();
    let (right, duplicate) = match kind {
        2 => (len == 4, tcp.mss.is_some()),
        3 => (len == 3, tcp.window_scale.is_some()),
        4 => (len == 2, tcp.sack_permitted),
        // An empty one is useless but common.
        5 if len == 2 => return,
        5 => ((10..=34).contains(&len) && (len - 2).is_multiple_of(8), !tcp.sack.is_empty()),
        8 => (len == 10, tcp.timestamp.is_some()),
        // MD5 and authentication with a wrong length make the packet invalid.
        19 | 29 => {
            match kind {
                19 if len == 18 => tcp.md5 = true,
                29 if len >= 4 => tcp.ao = true,
                _ => draft.invalid(event::TCP_OPT_INVALID_LEN),
            }
            return;
        }
        34 => {
            let right = len == 2 || ((4..=18).contains(&len) && len.is_multiple_of(2));
            (right, tcp.fast_open.is_some())
        }
        253 | 254 => {
            let ours = data.u16(2) == FAST_OPEN_MAGIC;
            if matches!(len, 4 | 12) && !ours {
                return;
            }
            (matches!(len, 4 | 12), tcp.fast_open.is_some())
        }
        _ => return,
    };
    if !right {
        draft.event(event::TCP_OPT_INVALID_LEN);
    } else if duplicate {
        draft.event(event::TCP_OPT_DUPLICATE);
    } else {
        keep(tcp, kind, data);
    }
}

fn keep(tcp: &mut Tcp, kind: u8, data: View<'_>) {
    let cookie = |header: usize| u8::try_from(data.len().saturating_sub(header)).ok();
    match kind {
        2 => tcp.mss = Some(data.u16(2)),
        3 => tcp.window_scale = Some(data.u8(2)).map(|n| if n <= SCALE_MAX { n } else { 0 }),
        4 => tcp.sack_permitted = true,
        5 => {
            let records = (2..data.len()).step_by(8);
            tcp.sack = records.map(|at| (data.u32(at), data.u32(at + 4))).collect();
        }
        8 => tcp.timestamp = Some((data.u32(2), data.u32(6))),
        34 => tcp.fast_open = cookie(2),
        _ => tcp.fast_open = cookie(4),
    }
}
