//! Packets that say little: keep-alives, probes of a closed window, updates of the window,
//! outdated acknowledgements. They are recognised before the state machine sees them.

use crate::packet::TcpFlags;

use super::event::Event;
use super::job::Job;
use super::sequence::{gt, leq, lt};
use super::session::Session;
use super::state::State;

const NOT_PLAIN: u8 = TcpFlags::SYN | TcpFlags::FIN | TcpFlags::RST;

/// What a packet is recognised as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sign {
    /// The state machine need not see it.
    Done,
    /// It goes on to the state machine.
    Usual,
}

/// Recognises the packet, and keeps what is needed to recognise its answer.
pub(crate) fn recognise(session: &mut Session, job: &mut Job<'_>) -> Sign {
    if is_keep_alive(session, job) {
        return Sign::Done;
    }
    let answer = is_keep_alive_answer(session, job);
    session.side_mut(job.direction).keep_alive = false;
    if answer {
        session.side_mut(job.direction.reverse()).keep_alive = false;
        return Sign::Done;
    }
    let probe_answer = is_probe_answer(session, job);
    if let Some(probe) = session.window_probe.get_mut(job.direction.reverse().index()) {
        *probe = false;
    }
    if probe_answer {
        return Sign::Done;
    }
    let ends = is_shutdown_ack(session, job) || is_window_update(session, job);
    if !ends && (is_bad_window_update(session, job) || is_outdated_ack(session, job)) {
        return Sign::Done;
    }
    spurious_retransmission(session, job)
}

fn is_keep_alive(session: &mut Session, job: &Job<'_>) -> bool {
    if job.payload.len() > 1 || job.has_any(NOT_PLAIN) {
        return false;
    }
    let (sender, receiver) = session.pair_mut(job.direction);
    let is = job.ack() == receiver.acknowledged && job.seq() == sender.next.wrapping_sub(1);
    sender.keep_alive |= is;
    is
}

/// An empty packet that is neither SYN, FIN nor RST, and whose window is open.
fn is_plain(job: &Job<'_>) -> bool {
    job.payload.is_empty() && !job.has_any(NOT_PLAIN) && job.tcp.window != 0
}

fn is_keep_alive_answer(session: &Session, job: &Job<'_>) -> bool {
    let sender = session.side(job.direction);
    let receiver = session.side(job.direction.reverse());
    is_plain(job)
        && job.window(receiver.window_scale) == receiver.window
        && receiver.keep_alive
        && job.ack() == receiver.acknowledged
        && job.seq() == sender.next
}

fn is_probe_answer(session: &Session, job: &Job<'_>) -> bool {
    let sender = session.side(job.direction);
    let receiver = session.side(job.direction.reverse());
    session.state >= State::Established
        && job.payload.is_empty()
        && !job.has_any(NOT_PLAIN)
        && job.has(TcpFlags::ACK)
        && session.window_probe.get(job.direction.reverse().index()) == Some(&true)
        && job.tcp.window == 0
        && receiver.window == 0
        && job.seq() == sender.next
        && job.ack() == receiver.acknowledged
}

/// The acknowledgement of a FIN.
fn is_shutdown_ack(session: &Session, job: &Job<'_>) -> bool {
    let sender = session.side(job.direction);
    let receiver = session.side(job.direction.reverse());
    matches!(session.state, State::TimeWait | State::CloseWait | State::LastAck)
        && job.tcp.flags.0 == TcpFlags::ACK
        && job.payload.is_empty()
        && job.seq() == sender.next.wrapping_add(1)
        && job.ack() == receiver.next.wrapping_add(1)
}

fn is_window_update(session: &Session, job: &Job<'_>) -> bool {
    let sender = session.side(job.direction);
    let receiver = session.side(job.direction.reverse());
    session.state >= State::Established
        && is_plain(job)
        && job.window(receiver.window_scale) != receiver.window
        && job.ack() == receiver.acknowledged
        && job.seq() == sender.next
}

/// A window that shrinks by more than the packet explains (the event is set).
fn is_bad_window_update(session: &Session, job: &mut Job<'_>) -> bool {
    if session.state < State::Established
        || session.state == State::Closed
        || job.has_any(NOT_PLAIN)
    {
        return false;
    }
    let sender = session.side(job.direction);
    let receiver = session.side(job.direction.reverse());
    let window = job.window(receiver.window_scale);
    let Some(shrinks) = receiver.window.checked_sub(window).filter(|&by| by > job.len()) else {
        return false;
    };
    if !gt(job.ack(), receiver.next) || !gt(job.seq(), sender.next) {
        return false;
    }
    let acknowledged = job.ack().wrapping_sub(receiver.acknowledged);
    let slack = if window > 1024 { 32 } else { 0 };
    let bad = shrinks > acknowledged.wrapping_add(slack);
    if bad {
        job.event(Event::PktBadWindowUpdate);
    }
    bad
}

/// An acknowledgement of less than was acknowledged before, without news in its SACK.
fn is_outdated_ack(session: &Session, job: &Job<'_>) -> bool {
    let sender = session.side(job.direction);
    let receiver = session.side(job.direction.reverse());
    let old = session.state >= State::Established
        && job.payload.is_empty()
        && !job.has_any(NOT_PLAIN)
        && job.has(TcpFlags::ACK)
        && job.seq() == sender.next
        && lt(job.ack(), receiver.acknowledged);
    old && job.tcp.sack.iter().all(|&(left, right)| receiver.sacked.covers(left, right))
}

/// Data that was acknowledged before. What lies before all that is kept needs no state machine.
fn spurious_retransmission(session: &Session, job: &mut Job<'_>) -> Sign {
    if job.payload.is_empty() {
        return Sign::Usual;
    }
    let sender = session.side(job.direction);
    let before_all = !sender.no_reassembly && leq(job.end(), sender.base);
    if before_all || leq(job.end(), sender.acknowledged) {
        job.event(Event::PktSpuriousRetransmission);
        job.outcome.retransmission = true;
    }
    if before_all { Sign::Done } else { Sign::Usual }
}
