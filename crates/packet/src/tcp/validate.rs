//! Checks of acknowledgements and resets.

use crate::packet::TcpFlags;

use super::event::Event;
use super::job::Job;
use super::sequence::{geq, gt, leq, lt};
use super::session::Session;
use super::state::State;
use super::timestamp;
use crate::host::Os;

/// Whether the packet acknowledges what it may: data within the other side's window, or what was
/// acknowledged not too long ago. If not, the event is set.
pub(crate) fn acknowledgement(session: &Session, job: &mut Job<'_>) -> bool {
    if !job.has(TcpFlags::ACK) {
        return true;
    }
    let ack = job.ack();
    let side = session.side(job.direction.reverse());
    let good = if gt(ack, side.acknowledged) {
        leq(ack, side.window_end)
            || session.one_sided
            || (session.state == State::SynSent
                && !job.to_server()
                && job.has(TcpFlags::RST)
                && ack == side.isn.wrapping_add(1))
    } else {
        ack == side.acknowledged
            || side.window == 0
            || !lt(ack, side.acknowledged.wrapping_sub(side.window))
    };
    if !good {
        job.event(Event::PktInvalidAck);
    }
    good
}

/// Whether a reset is one that the receiver's system would take.
pub(crate) fn reset(session: &mut Session, job: &mut Job<'_>) -> bool {
    if session.lossy {
        return true;
    }
    if session.timestamps && !timestamp::validate(session, job) {
        return false;
    }
    if !job.payload.is_empty() {
        job.event(Event::RstWithData);
    }
    let os = timestamp::set_receiver_os(session, job);
    if job.has(TcpFlags::ACK) && job.ack() != 0 && !acknowledgement(session, job) {
        job.event(Event::RstInvalidAck);
        return false;
    }
    // The receiver checks a signature (RFC 2385, RFC 5925) and may refuse what we cannot check.
    if job.tcp.md5 || job.tcp.ao {
        session.side_mut(job.direction.reverse()).reset_received = true;
    }
    let seq = job.seq();
    let sender = session.side(job.direction);
    if session.one_sided {
        return geq(seq, sender.next);
    }
    match os {
        Some(Os::HpUx11) => geq(seq, sender.next),
        Some(Os::OldLinux | Os::Linux | Os::Solaris) => {
            geq(job.end(), sender.acknowledged) && lt(seq, sender.next.wrapping_add(sender.window))
        }
        _ => seq == sender.next,
    }
}

/// Whether the packet's data was sent before; then the event is set.
pub(crate) fn is_retransmission(session: &Session, job: &mut Job<'_>) -> bool {
    if job.payload.is_empty() {
        return false;
    }
    let sender = session.side(job.direction);
    let (seq, end) = (job.seq(), job.end());
    let again = (lt(seq, sender.acknowledged) && gt(end, sender.acknowledged))
        || leq(end, sender.acknowledged)
        || leq(end, sender.next);
    if again {
        job.event(Event::PktRetransmission);
        job.outcome.retransmission = true;
    }
    again
}
