//! The end of a session: resets, FINs, and the states after them.

use crate::address::Direction::ToServer;
use crate::packet::TcpFlags;

use super::app;
use super::event::Event;
use super::job::{Invalid, Job, Judged};
use super::selective::take_sack;
use super::sequence::{gt, leq, lt};
use super::session::Session;
use super::start::update_next;
use super::state::State;
use super::{timestamp, validate};

/// The session ends by a reset.
pub(crate) fn by_reset(session: &mut Session, job: &mut Job<'_>) {
    session.closed_by_reset = true;
    job.set_state(session, State::Closed);
}

/// What a reset acknowledges, and its data's end.
pub(crate) fn acknowledge_reset(session: &mut Session, job: &mut Job<'_>) {
    let acknowledges = job.has(TcpFlags::ACK) && validate::acknowledgement(session, job);
    let (sender, receiver) = session.pair_mut(job.direction);
    if acknowledges {
        receiver.acknowledge(job.ack());
    }
    sender.acknowledge(job.seq());
    if session.timestamps {
        timestamp::update(session, job);
    }
    app::handle_segment(session, job, job.direction);
}

fn reset(session: &mut Session, job: &mut Job<'_>) -> Judged {
    if !validate::reset(session, job) {
        return Err(Invalid);
    }
    by_reset(session, job);
    acknowledge_reset(session, job);
    Ok(())
}

fn check_timestamp(session: &mut Session, job: &mut Job<'_>) -> Judged {
    if session.timestamps && !timestamp::validate(session, job) {
        return Err(Invalid);
    }
    Ok(())
}

fn check_acknowledgement(session: &Session, job: &mut Job<'_>, event: Event) -> Judged {
    if validate::acknowledgement(session, job) { Ok(()) } else { job.invalid(event) }
}

/// The first FIN.
pub(crate) fn fin(session: &mut Session, job: &mut Job<'_>) -> Judged {
    check_acknowledgement(session, job, Event::FinInvalidAck)?;
    let sender = session.side(job.direction);
    if lt(job.seq(), sender.acknowledged) || gt(job.end(), sender.window_end) {
        return job.invalid(Event::FinOutOfWindow);
    }
    if job.to_server() {
        if job.has(TcpFlags::SYN) {
            return job.invalid(Event::FinSyn);
        }
        job.set_state(session, State::CloseWait);
    } else {
        job.set_state(session, State::FinWait1);
    }
    let beyond = u32::from(!job.to_server());
    let (sender, receiver) = session.pair_mut(job.direction);
    sender.next = job.end().wrapping_add(beyond);
    receiver.window = job.window(receiver.window_scale);
    if session.timestamps {
        timestamp::update(session, job);
    }
    expect_at_least(session, job, 0);
    acknowledge(session, job);
    app::handle_segment(session, job, job.direction);
    Ok(())
}

/// Whoever acknowledges beyond what was seen knows more: data is expected behind it. `slack`:
/// the sequence number of a FIN was counted.
fn expect_at_least(session: &mut Session, job: &Job<'_>, slack: u32) {
    let (_, receiver) = session.pair_mut(job.direction);
    if lt(receiver.next.wrapping_sub(slack), job.ack()) {
        receiver.next = job.ack();
    }
}

fn acknowledge(session: &mut Session, job: &Job<'_>) {
    if job.has(TcpFlags::ACK) {
        session.side_mut(job.direction.reverse()).acknowledge(job.ack());
    }
}

fn set_window(session: &mut Session, job: &Job<'_>) {
    let (_, receiver) = session.pair_mut(job.direction);
    receiver.window = job.window(receiver.window_scale);
}

fn update_timestamp(session: &mut Session, job: &mut Job<'_>) {
    if session.timestamps {
        timestamp::update(session, job);
    }
}

/// Data in order (behind a FIN: `slack` before what is expected) moves what is expected.
fn advance(session: &mut Session, job: &Job<'_>, slack: u32) {
    if session.side(job.direction).next.wrapping_sub(slack) == job.seq() {
        update_next(session, job.direction, job.end());
    }
}

/// Data beyond the sender's window.
fn beyond_window(session: &Session, job: &Job<'_>) -> bool {
    let sender = session.side(job.direction);
    gt(job.seq(), sender.acknowledged.wrapping_add(sender.window))
}

fn in_window(session: &Session, job: &Job<'_>) -> bool {
    let sender = session.side(job.direction);
    leq(job.end(), sender.window_end) || session.midstream || session.one_sided
}

fn marked(job: &mut Job<'_>) -> bool {
    job.outcome.retransmission = true;
    true
}

/// One side sent FIN.
pub(crate) fn fin_wait1(session: &mut Session, job: &mut Job<'_>) -> Judged {
    if job.has(TcpFlags::RST) {
        return reset(session, job);
    }
    if job.has(TcpFlags::FIN) {
        check_timestamp(session, job)?;
        return fin_wait1_fin(session, job);
    }
    if job.has(TcpFlags::SYN) {
        return job.invalid(Event::ShutdownSynResend);
    }
    if !job.has(TcpFlags::ACK) {
        return Ok(());
    }
    check_timestamp(session, job)?;
    let again = validate::is_retransmission(session, job);
    check_acknowledgement(session, job, Event::Fin1InvalidAck)?;
    let slack = u32::from(!job.to_server());
    let (sender, receiver) = session.pair_mut(job.direction);
    let fin_acknowledged = job.ack() == receiver.next;
    let next = sender.next.wrapping_sub(slack);
    if !again && (fin_acknowledged || !job.to_server()) {
        if !in_window(session, job) {
            return job.invalid(Event::Fin1AckWrongSeq);
        }
        if job.seq() == next {
            job.set_state(session, State::FinWait2);
        }
        set_window(session, job);
    }
    update_timestamp(session, job);
    expect_at_least(session, job, 1);
    advance(session, job, slack);
    acknowledge(session, job);
    take_sack(session, job);
    session.side_mut(job.direction.reverse()).open_window();
    app::handle_segment(session, job, job.direction);
    Ok(())
}

fn fin_wait1_fin(session: &mut Session, job: &mut Job<'_>) -> Judged {
    let with_ack = job.has(TcpFlags::ACK);
    let (sender, receiver) = session.pair_mut(job.direction);
    let before = sender.next.wrapping_sub(1);
    let same_fin =
        with_ack && !job.to_server() && before == job.seq() && receiver.acknowledged == job.ack();
    let again = validate::is_retransmission(session, job) || (same_fin && marked(job));
    if !again && (lt(job.seq(), before) || beyond_window(session, job)) {
        return job.invalid(Event::Fin1FinWrongSeq);
    }
    check_acknowledgement(session, job, Event::Fin1InvalidAck)?;
    let state = if with_ack { State::TimeWait } else { State::Closing };
    if with_ack && !job.to_server() {
        update_timestamp(session, job);
        if !again {
            job.set_state(session, state);
            set_window(session, job);
            expect_at_least(session, job, 1);
            advance(session, job, 1);
            acknowledge(session, job);
        }
    } else {
        if !again {
            job.set_state(session, state);
            set_window(session, job);
        }
        update_timestamp(session, job);
        expect_at_least(session, job, 1);
        advance(session, job, u32::from(!with_ack));
        acknowledge(session, job);
    }
    app::handle_segment(session, job, job.direction);
    Ok(())
}

/// The first FIN was acknowledged.
pub(crate) fn fin_wait2(session: &mut Session, job: &mut Job<'_>) -> Judged {
    if job.has(TcpFlags::RST) {
        return reset(session, job);
    }
    if job.has(TcpFlags::FIN) {
        check_timestamp(session, job)?;
        return fin_wait2_fin(session, job);
    }
    if job.has(TcpFlags::SYN) {
        return job.invalid(Event::ShutdownSynResend);
    }
    if !job.has(TcpFlags::ACK) {
        return Ok(());
    }
    check_timestamp(session, job)?;
    let again = validate::is_retransmission(session, job);
    check_acknowledgement(session, job, Event::Fin2InvalidAck)?;
    if !again {
        if !in_window(session, job) {
            return job.invalid(Event::Fin2AckWrongSeq);
        }
        set_window(session, job);
    }
    update_timestamp(session, job);
    advance(session, job, 0);
    acknowledge(session, job);
    take_sack(session, job);
    session.side_mut(job.direction.reverse()).open_window();
    app::handle_segment(session, job, job.direction);
    Ok(())
}

fn fin_wait2_fin(session: &mut Session, job: &mut Job<'_>) -> Judged {
    let (sender, receiver) = session.pair_mut(job.direction);
    let next = sender.next;
    let same_fin = job.seq() == next.wrapping_sub(1) && job.ack() == receiver.acknowledged;
    let again = (same_fin && marked(job)) || validate::is_retransmission(session, job);
    if !again && (lt(job.seq(), next) || beyond_window(session, job)) {
        return job.invalid(Event::Fin2FinWrongSeq);
    }
    check_acknowledgement(session, job, Event::Fin2InvalidAck)?;
    if !again {
        job.set_state(session, State::TimeWait);
        if job.to_server() {
            advance(session, job, 0);
        }
        set_window(session, job);
    }
    update_timestamp(session, job);
    expect_at_least(session, job, 0);
    acknowledge(session, job);
    app::handle_segment(session, job, job.direction);
    Ok(())
}

/// Both sides closed at once.
pub(crate) fn closing(session: &mut Session, job: &mut Job<'_>) -> Judged {
    if job.has(TcpFlags::RST) {
        return reset(session, job);
    }
    if job.has(TcpFlags::SYN) {
        return job.invalid(Event::ShutdownSynResend);
    }
    if !job.has(TcpFlags::ACK) {
        return Ok(());
    }
    check_timestamp(session, job)?;
    let again = validate::is_retransmission(session, job);
    if job.seq() != session.side(job.direction).next {
        return job.invalid(Event::ClosingAckWrongSeq);
    }
    check_acknowledgement(session, job, Event::ClosingInvalidAck)?;
    if !again {
        job.set_state(session, State::TimeWait);
        let client = session.side_mut(ToServer);
        client.window = job.window(client.window_scale);
    }
    finish(session, job);
    Ok(())
}

/// What the last states do with an acknowledgement.
fn finish(session: &mut Session, job: &mut Job<'_>) {
    update_timestamp(session, job);
    expect_at_least(session, job, 0);
    acknowledge(session, job);
    app::handle_segment(session, job, job.direction);
}

/// The client sent FIN; the server has not.
pub(crate) fn close_wait(session: &mut Session, job: &mut Job<'_>) -> Judged {
    if job.has(TcpFlags::RST) {
        return reset(session, job);
    }
    if !job.has(TcpFlags::FIN) && job.has(TcpFlags::SYN) {
        return job.invalid(Event::ShutdownSynResend);
    }
    if !job.has_any(TcpFlags::FIN | TcpFlags::ACK) {
        return Ok(());
    }
    check_timestamp(session, job)?;
    let again = validate::is_retransmission(session, job);
    let sender = session.side(job.direction);
    if job.has(TcpFlags::FIN) {
        if !again && (lt(job.seq(), sender.next) || beyond_window(session, job)) {
            return job.invalid(Event::ClosewaitFinOutOfWindow);
        }
        check_acknowledgement(session, job, Event::ClosewaitInvalidAck)?;
        if !again {
            if !job.to_server() {
                job.set_state(session, State::LastAck);
            }
            set_window(session, job);
        }
        finish(session, job);
        return Ok(());
    }
    if !job.payload.is_empty() && leq(job.end(), sender.acknowledged) {
        return job.invalid(Event::ClosewaitPktBeforeLastAck);
    }
    if beyond_window(session, job) {
        return job.invalid(Event::ClosewaitAckOutOfWindow);
    }
    check_acknowledgement(session, job, Event::ClosewaitInvalidAck)?;
    if !again {
        set_window(session, job);
    }
    update_timestamp(session, job);
    expect_at_least(session, job, 0);
    advance(session, job, 0);
    acknowledge(session, job);
    app::handle_segment(session, job, job.direction);
    Ok(())
}

/// Both sent FIN; the last acknowledgement is to come.
pub(crate) fn last_ack(session: &mut Session, job: &mut Job<'_>) -> Judged {
    if job.has(TcpFlags::RST) {
        return reset(session, job);
    }
    if job.has(TcpFlags::FIN) {
        return Ok(());
    }
    if job.has(TcpFlags::SYN) {
        return job.invalid(Event::ShutdownSynResend);
    }
    if !job.has(TcpFlags::ACK) {
        return Ok(());
    }
    check_timestamp(session, job)?;
    if !job.to_server() {
        return Ok(());
    }
    let again = validate::is_retransmission(session, job);
    check_acknowledgement(session, job, Event::LastackInvalidAck)?;
    if !again {
        let next = session.side(job.direction).next;
        if !lt(job.seq(), next) {
            if job.seq() != next && job.seq() != next.wrapping_add(1) {
                return job.invalid(Event::LastackAckWrongSeq);
            }
            job.set_state(session, State::Closed);
        }
        set_window(session, job);
    }
    finish(session, job);
    Ok(())
}

/// Both FINs were acknowledged.
pub(crate) fn time_wait(session: &mut Session, job: &mut Job<'_>) -> Judged {
    if job.has(TcpFlags::RST) {
        return reset(session, job);
    }
    if job.has(TcpFlags::FIN) {
        return Ok(());
    }
    if job.has(TcpFlags::SYN) {
        return job.invalid(Event::ShutdownSynResend);
    }
    if !job.has(TcpFlags::ACK) {
        return Ok(());
    }
    check_timestamp(session, job)?;
    let again = validate::is_retransmission(session, job);
    let sender = session.side(job.direction);
    let first = if job.to_server() { sender.next } else { sender.next.wrapping_sub(1) };
    if !again && job.seq() != first && job.seq() != first.wrapping_add(1) {
        let late = !job.payload.is_empty() && job.seq() == sender.acknowledged;
        if late && !job.to_server() {
            return Ok(());
        }
        return job.invalid(Event::TimewaitAckWrongSeq);
    }
    check_acknowledgement(session, job, Event::TimewaitInvalidAck)?;
    if !again {
        job.set_state(session, State::Closed);
        set_window(session, job);
    }
    finish(session, job);
    Ok(())
}
