//! The way of a packet through the stream engine.

use crate::address::Direction;
use crate::packet::{Packet, TcpFlags, Transport};

use super::engine::Engine;
use super::event::Event;
use super::job::{Invalid, Job, Judged};
use super::outcome::{DropReason, Outcome};
use super::session::Session;
use super::signs::{Sign, recognise};
use super::sink::StreamSink;
use super::state::State;
use super::{app, close, established, handshake, start};

/// Takes a packet of a TCP flow. `slot` has the flow's session and gets one if the packet begins
/// one. Data goes to `sink`. `flow_drops`: the flow's packets are dropped, so nothing is kept.
///
/// A packet whose transport is not TCP changes nothing.
pub fn handle(
    slot: &mut Option<Box<Session>>,
    packet: &Packet,
    direction: Direction,
    flow_drops: bool,
    engine: &mut Engine,
    sink: &mut dyn StreamSink,
) -> Outcome {
    let Transport::Tcp(tcp) = &packet.transport else {
        return Outcome::default();
    };
    let mut job = Job::new(packet, tcp, direction, engine, sink);
    if !job.pseudo && job.engine.settings.validate_checksums && !tcp.checksum_ok {
        job.engine.counters.invalid_checksum += 1;
        job.outcome.bad_checksum = true;
        return job.outcome;
    }
    if let Some(session) = slot.as_deref_mut() {
        note_flags(session, &job);
    }
    if !job.has(TcpFlags::ACK) && job.ack() != 0 {
        job.event(Event::PktBrokenAck);
    }
    let settings = &job.engine.settings;
    let drops_urgent = settings.inline && settings.urgent == super::settings::UrgentPolicy::Drop;
    if job.has(TcpFlags::URG) && drops_urgent {
        job.drop(DropReason::Urgent);
        return job.outcome;
    }
    if flow_drops && job.engine.settings.ips {
        if let Some(session) = slot.as_deref_mut() {
            session.disable_app();
            session.release();
        }
        return job.outcome;
    }
    let judged = judge(slot, &mut job);
    if let Some(session) = slot.as_deref_mut() {
        session.count_memory();
    }
    match judged {
        Ok(()) => finish(slot.as_deref(), job),
        Err(Invalid) => {
            if job.engine.settings.inline && job.engine.settings.drop_invalid {
                job.outcome.no_payload_inspection = true;
                job.drop(DropReason::Stream);
            }
            job.outcome
        }
    }
}

fn note_flags(session: &mut Session, job: &Job<'_>) {
    session.flags |= job.tcp.flags.0;
    session.side_mut(job.direction).flags |= job.tcp.flags.0;
    if session.sides.iter().all(|side| side.flags != 0) {
        session.one_sided = false;
    }
}

fn judge(slot: &mut Option<Box<Session>>, job: &mut Job<'_>) -> Judged {
    match slot.as_deref_mut() {
        Some(session) if session.state != State::None => {
            if job.pseudo {
                app::handle_segment(session, job, job.direction);
            } else if recognise(session, job) == Sign::Usual {
                dispatch(session, job, session.state)?;
            }
            check_after_reset(session, job);
            Ok(())
        }
        _ => start::handle(slot, job),
    }
}

fn dispatch(session: &mut Session, job: &mut Job<'_>, state: State) -> Judged {
    match state {
        State::None => Ok(()),
        State::SynSent => handshake::syn_sent(session, job),
        State::SynRecv => handshake::syn_recv(session, job),
        State::Established => established::handle(session, job),
        State::FinWait1 => close::fin_wait1(session, job),
        State::FinWait2 => close::fin_wait2(session, job),
        State::TimeWait => close::time_wait(session, job),
        State::LastAck => close::last_ack(session, job),
        State::CloseWait => close::close_wait(session, job),
        State::Closing => close::closing(session, job),
        State::Closed => closed(session, job),
    }
}

/// A packet after the end. If a reset ended the session that its receiver may not have believed,
/// the session goes on where it was.
fn closed(session: &mut Session, job: &mut Job<'_>) -> Judged {
    if job.has(TcpFlags::RST) {
        return Ok(());
    }
    let (sender, receiver) = session.pair_mut(job.direction);
    if !sender.reset_received && receiver.reset_received && session.previous != State::Closed {
        dispatch(session, job, session.previous)?;
        if session.state == State::Closed {
            session.state = session.previous;
        }
    }
    Ok(())
}

/// The receiver of a reset goes on to send: the reset was not its peer's.
fn check_after_reset(session: &mut Session, job: &mut Job<'_>) {
    if job.pseudo || job.has(TcpFlags::RST) {
        return;
    }
    let (_, receiver) = session.pair_mut(job.direction);
    if receiver.reset_received {
        receiver.reset_received = false;
        session.closed_by_reset = false;
        job.event(Event::SuspectedRstInject);
    }
}

fn finish(session: Option<&Session>, mut job: Job<'_>) -> Outcome {
    if let Some(session) = session {
        job.outcome.established |= session.state >= State::Established;
        let deep = session.sides.iter().any(|side| side.depth_reached);
        job.outcome.bypass |= session.bypass || (deep && job.engine.settings.bypass);
    }
    job.outcome
}
