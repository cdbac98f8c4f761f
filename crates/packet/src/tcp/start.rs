//! The first packet of a session: a SYN, or what is picked up in the middle.

use crate::address::Direction;
use crate::packet::TcpFlags;

use super::app;
use super::event::Event;
use super::job::{Invalid, Job, Judged};
use super::outcome::DropReason;
use super::session::{SESSION_BYTES, Session};
use super::settings::ExceptionPolicy;
use super::side::Side;
use super::state::State;

/// The shift that is assumed where the handshake was not seen (RFC 7323: the largest).
pub(crate) const SCALE_MAX: u8 = 14;

/// A packet without a session; `slot` gets one, if the packet begins it.
pub(crate) fn handle(slot: &mut Option<Box<Session>>, job: &mut Job<'_>) -> Judged {
    if job.has(TcpFlags::RST) {
        job.invalid(Event::RstButNoSession)
    } else if job.has(TcpFlags::FIN) {
        if !may_pick_up(job) || job.payload.is_empty() {
            return job.invalid(Event::FinButNoSession);
        }
        pick_up(slot, job, State::FinWait1)
    } else if job.is_syn_ack() {
        if may_pick_up_syn_ack(job) { pick_up_syn_ack(slot, job) } else { Ok(()) }
    } else if job.has(TcpFlags::SYN) {
        syn(slot, job)
    } else if job.has(TcpFlags::ACK) && may_pick_up(job) {
        pick_up(slot, job, State::Established)
    } else {
        Ok(())
    }
}

fn may_pick_up(job: &mut Job<'_>) -> bool {
    let policy = job.engine.settings.midstream_policy;
    job.apply_policy(policy, DropReason::Midstream);
    job.engine.settings.midstream
        && matches!(policy, ExceptionPolicy::Ignore | ExceptionPolicy::PassFlow)
}

fn may_pick_up_syn_ack(job: &mut Job<'_>) -> bool {
    let policy = job.engine.settings.midstream_policy;
    job.apply_policy(policy, DropReason::Midstream);
    (job.engine.settings.midstream || job.engine.settings.async_oneside)
        && matches!(policy, ExceptionPolicy::Ignore | ExceptionPolicy::PassFlow)
}

/// A new session in `slot`, unless there is one without a state; none if memory is short.
fn session<'s>(
    slot: &'s mut Option<Box<Session>>,
    job: &mut Job<'_>,
    midstream: bool,
) -> Result<&'s mut Session, Invalid> {
    if slot.is_none() {
        if !job.engine.has_session_room(SESSION_BYTES) {
            let policy = job.engine.settings.session_memory_policy;
            job.apply_policy(policy, DropReason::Memory);
            job.engine.counters.session_memory_drops += 1;
            return Err(Invalid);
        }
        let settings = &job.engine.settings;
        let memory = job.engine.memory.clone();
        let mut session = Box::new(Session::new(memory, settings.depth, settings.raw));
        session.flags = job.tcp.flags.0;
        session.side_mut(job.direction).flags = job.tcp.flags.0;
        *slot = Some(session);
        job.engine.counters.sessions += 1;
        job.engine.counters.midstream_pickups += u64::from(midstream);
    }
    slot.as_deref_mut().ok_or(Invalid)
}

fn syn(slot: &mut Option<Box<Session>>, job: &mut Job<'_>) -> Judged {
    let session = session(slot, job, false)?;
    job.set_state(session, State::SynSent);
    session.one_sided |= job.engine.settings.async_oneside;
    let [client, server] = &mut session.sides;
    client.begin(job.seq());
    client.next = job.seq().wrapping_add(1);
    if let Some((value, _)) = job.tcp.timestamp {
        client.timestamp = value;
        client.zero_timestamp |= value == 0;
        client.timestamp_seconds = job.seconds();
        client.timestamps = true;
    }
    server.window = u32::from(job.tcp.window);
    if let Some(scale) = job.tcp.window_scale {
        session.scale_offered = true;
        server.window_scale = scale.min(SCALE_MAX);
    }
    session.sack_offered |= job.tcp.sack_permitted;
    if job.tcp.fast_open.is_some() {
        session.fast_open = true;
        if !job.payload.is_empty() {
            let next = session.side(Direction::ToServer).next.wrapping_add(job.len());
            update_next(session, Direction::ToServer, next);
            app::handle_segment(session, job, Direction::ToServer);
            job.outcome.established = true;
        }
    }
    Ok(())
}

/// Data is expected from here on; who sees one side alone takes it for acknowledged.
pub(crate) fn update_next(session: &mut Session, direction: Direction, next: u32) {
    let one_sided = session.one_sided;
    let side = session.side_mut(direction);
    side.next = next;
    if one_sided && super::sequence::gt(side.next, side.acknowledged) {
        side.acknowledged = side.next;
    }
}

fn pick_up(slot: &mut Option<Box<Session>>, job: &mut Job<'_>, state: State) -> Judged {
    let session = session(slot, job, true)?;
    job.set_state(session, state);
    session.midstream = true;
    session.midstream_established = true;
    session.one_sided = job.engine.settings.async_oneside;
    let fin = u32::from(state == State::FinWait1);
    let [client, server] = &mut session.sides;
    client.window_scale = SCALE_MAX;
    server.window_scale = SCALE_MAX;
    client.begin(job.seq().wrapping_sub(1));
    client.next = job.end().wrapping_add(fin);
    client.window = job.window(SCALE_MAX);
    client.acknowledged = job.seq();
    client.window_end = client.acknowledged.wrapping_add(client.window);
    server.begin(job.ack().wrapping_sub(1));
    server.next = job.ack();
    server.acknowledged = job.ack();
    server.window_end = server.acknowledged;
    session.timestamps |= take_timestamps(client, server, job);
    app::handle_segment(session, job, Direction::ToServer);
    session.sack = true;
    Ok(())
}

/// Takes the timestamps of a packet from `sender` for both sides; whether it has any.
fn take_timestamps(sender: &mut Side, receiver: &mut Side, job: &Job<'_>) -> bool {
    let Some((value, echo)) = job.tcp.timestamp else {
        sender.timestamp = 0;
        receiver.timestamp = 0;
        return false;
    };
    sender.timestamp = value;
    receiver.timestamp = echo;
    sender.timestamp_seconds = job.seconds();
    sender.zero_timestamp |= value == 0;
    receiver.zero_timestamp |= echo == 0;
    true
}

fn pick_up_syn_ack(slot: &mut Option<Box<Session>>, job: &mut Job<'_>) -> Judged {
    let session = session(slot, job, true)?;
    // The server speaks: the flow's first packet was not the client's.
    session.swap();
    job.direction = job.direction.reverse();
    job.outcome.swapped = !job.outcome.swapped;
    job.set_state(session, State::SynRecv);
    session.midstream = true;
    session.midstream_synack = true;
    session.one_sided |= job.engine.settings.async_oneside;
    let [client, server] = &mut session.sides;
    server.begin(job.seq());
    server.next = job.seq().wrapping_add(1);
    server.window = u32::from(job.tcp.window);
    client.begin(job.ack().wrapping_sub(1));
    client.next = job.ack();
    client.acknowledged = job.ack();
    server.acknowledged = job.seq();
    server.window_end = server.acknowledged.wrapping_add(server.window);
    if let Some(scale) = job.tcp.window_scale {
        client.window_scale = scale.min(SCALE_MAX);
        server.window_scale = SCALE_MAX;
    }
    session.timestamps |= take_timestamps(server, client, job);
    session.sack |= job.tcp.sack_permitted;
    Ok(())
}
