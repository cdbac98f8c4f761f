//! UDP (RFC 768), SCTP (RFC 9260) and ESP (RFC 4303).

use super::draft::Draft;
use super::step::{Next, Step};
use super::view::View;
use crate::checksum::Sum;
use crate::counters::{Counter, Counters};
use crate::event;
use crate::packet::{Esp, IpVersion, Sctp, Transport, Udp};

const UDP_LEN: usize = 8;
const SCTP_LEN: usize = 12;
const ESP_LEN: usize = 8;

/// UDP; its payload may be a tunnel.
pub(super) fn udp<'a>(draft: &mut Draft, counters: &mut Counters, data: View<'a>) -> Step<'a> {
    counters.add(Counter::Udp);
    let length = usize::from(data.u16(4));
    let wrong = if data.len() < UDP_LEN {
        Some(event::UDP_HLEN_TOO_SMALL)
    } else if data.len() < length {
        Some(event::UDP_PKT_TOO_SMALL)
    } else if length < UDP_LEN {
        Some(event::UDP_LEN_INVALID)
    } else {
        None
    };
    if let Some(wrong) = wrong {
        draft.invalid(wrong);
        return Step::FAILED;
    }
    let data = data.first(length);
    let payload = data.after(UDP_LEN);
    let checksum_absent = data.u16(6) == 0;
    draft.packet.transport = Transport::Udp(Udp {
        source: data.u16(0),
        destination: data.u16(2),
        header: data.first(UDP_LEN).range(),
        checksum_ok: checksum_is_right(draft, data, checksum_absent),
        checksum_absent,
    });
    draft.packet.payload = payload.range();
    draft.packet.wants_flow = true;
    Step::next(Next::Datagram(payload))
}

fn checksum_is_right(draft: &Draft, data: View<'_>, absent: bool) -> bool {
    let Some(ip) = draft.packet.ip.as_ref().filter(|_| draft.checked) else { return true };
    if absent {
        // IPv6 does not allow that.
        return ip.version == IpVersion::V4;
    }
    Sum::default().pseudo(ip.source, ip.destination, 17, data.len()).bytes(data.bytes()).is_right()
}

/// SCTP: the common header.
pub(super) fn sctp(draft: &mut Draft, counters: &mut Counters, data: View<'_>) -> Step<'static> {
    counters.add(Counter::Sctp);
    if data.len() < SCTP_LEN {
        draft.invalid(event::SCTP_PKT_TOO_SMALL);
        return Step::FAILED;
    }
    draft.packet.transport = Transport::Sctp(Sctp {
        source: data.u16(0),
        destination: data.u16(2),
        header: data.first(SCTP_LEN).range(),
    });
    draft.packet.payload = data.after(SCTP_LEN).range();
    draft.packet.wants_flow = true;
    Step::DONE
}

/// ESP: what is known of it without keys.
pub(super) fn esp(draft: &mut Draft, counters: &mut Counters, data: View<'_>) -> Step<'static> {
    counters.add(Counter::Esp);
    if !draft.layer() {
        return Step::FAILED;
    }
    if data.len() < ESP_LEN {
        draft.invalid(event::ESP_PKT_TOO_SMALL);
        return Step::FAILED;
    }
    draft.packet.transport = Transport::Esp(Esp {
        spi: data.u32(0),
        sequence: data.u32(4),
        header: data.first(ESP_LEN).range(),
    });
    draft.packet.payload = data.after(ESP_LEN).range();
    draft.packet.wants_flow = true;
    Step::DONE
}
