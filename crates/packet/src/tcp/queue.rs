//! The handshake's queue: SYNs, then SYN/ACKs, that may yet be the one that counts.

use crate::address::Direction;

use super::event::Event;
use super::job::{Invalid, Job, Judged};
use super::session::{HANDSHAKE_BYTES, Handshake, Session};
use super::start::SCALE_MAX;
use super::state::State;

/// A SYN of the client, or a SYN/ACK.
pub(crate) fn of_packet(job: &Job<'_>) -> Handshake {
    Handshake {
        timestamp: job.tcp.timestamp.map(|(value, _)| value),
        window_scale: job.tcp.window_scale,
        sack: job.tcp.sack_permitted,
        window: job.tcp.window,
        sequence: job.seq(),
        acknowledgement: job.ack(),
        seconds: job.seconds(),
    }
}

/// The SYN that the session goes by.
fn of_session(session: &Session) -> Handshake {
    let [client, server] = &session.sides;
    Handshake {
        timestamp: client.timestamps.then_some(client.timestamp),
        window_scale: session.scale_offered.then_some(server.window_scale),
        sack: session.sack_offered,
        window: u16::try_from(server.window).unwrap_or(u16::MAX),
        sequence: client.isn,
        acknowledgement: 0,
        seconds: client.timestamp_seconds,
    }
}

/// Takes another SYN of the client: the one before is kept, should the server answer that.
pub(crate) fn syn_again(session: &mut Session, job: &mut Job<'_>) {
    let syn = Handshake { acknowledgement: 0, ..of_packet(job) };
    let before = of_session(session);
    if syn != before {
        store_syn(session, job, before);
    }
    apply_syn(session, syn);
}

fn store_syn(session: &mut Session, job: &mut Job<'_>, syn: Handshake) {
    let known = session.queue.iter().any(|queued| {
        syn.timestamp.is_some()
            && queued.timestamp == syn.timestamp
            && queued.sequence == syn.sequence
    });
    if known {
        return;
    }
    let max = usize::from(job.engine.settings.syn_queued_max);
    if !session.queue.is_empty() && session.queue.len() == max {
        job.event(Event::ThreeWaySynFlood);
        session.queue.remove_first();
        session.queue.push(syn);
    } else {
        let _ = push(session, job, syn);
    }
}

fn push(session: &mut Session, job: &Job<'_>, entry: Handshake) -> Judged {
    if !job.engine.has_session_room(HANDSHAKE_BYTES) {
        return Err(Invalid);
    }
    session.queue.push(entry);
    session.counted_queue += HANDSHAKE_BYTES;
    session.memory.add_session_bytes(HANDSHAKE_BYTES);
    Ok(())
}

/// The session goes by this SYN.
fn apply_syn(session: &mut Session, syn: Handshake) {
    let scaled = session.scale_offered || syn.window_scale.is_some();
    if syn.window_scale.is_none() {
        // As Suricata 8 does: of all flags of the session only this one stays.
        session.reset_flags_but_scale();
    }
    session.scale_offered = scaled;
    session.sack_offered = syn.sack;
    let [client, server] = &mut session.sides;
    if let Some(timestamp) = syn.timestamp {
        client.timestamp_seconds = syn.seconds;
        client.timestamp = timestamp;
        client.timestamps = true;
    }
    server.window_scale = syn.window_scale.unwrap_or(0).min(SCALE_MAX);
    server.window = u32::from(syn.window);
    client.begin(syn.sequence);
    client.next = client.base;
}

/// A SYN in the queue that a SYN/ACK answers; the session goes by it then.
pub(crate) fn answered_syn(session: &mut Session, job: &Job<'_>) -> bool {
    let sequence = job.ack().wrapping_sub(1);
    let liberal = job.engine.settings.liberal_timestamps;
    let found = session.queue.iter().copied().find(|queued| {
        queued.sequence == sequence
            && match job.tcp.timestamp {
                Some((_, echo)) => queued.timestamp == Some(echo),
                None => liberal,
            }
    });
    if let Some(syn) = found {
        apply_syn(session, syn);
    }
    found.is_some()
}

/// Keeps another SYN/ACK of the server.
pub(crate) fn store_syn_ack(session: &mut Session, job: &mut Job<'_>) -> Judged {
    let entry = of_packet(job);
    let alike = |queued: &Handshake| Handshake { seconds: entry.seconds, ..*queued } == entry;
    if session.queue.iter().any(alike) {
        return Ok(());
    }
    if session.queue.len() == usize::from(job.engine.settings.synack_queued_max) {
        return job.invalid(Event::ThreeWaySynackFlood);
    }
    push(session, job, entry)
}

/// The SYN/ACK in the queue that the client's ACK answers, the latest first.
pub(crate) fn answered_syn_ack(session: &Session, job: &Job<'_>) -> Option<Handshake> {
    let sequence = job.ack().wrapping_sub(1);
    session
        .queue
        .iter()
        .rev()
        .copied()
        .find(|queued| queued.sequence == sequence && queued.acknowledgement == job.seq())
}

/// The session goes by this SYN/ACK.
pub(crate) fn apply_syn_ack(session: &mut Session, job: &mut Job<'_>, entry: Handshake) {
    job.set_state(session, State::SynRecv);
    let [client, server] = &mut session.sides;
    server.begin(entry.sequence);
    server.next = server.base;
    client.window = u32::from(entry.window);
    match entry.timestamp {
        Some(timestamp) if client.timestamps => {
            server.timestamp = timestamp;
            session.timestamps = true;
            server.timestamp_seconds = entry.seconds;
            server.zero_timestamp |= timestamp == 0;
        }
        _ => {
            client.timestamp = 0;
            server.timestamp = 0;
            client.zero_timestamp = false;
        }
    }
    client.acknowledged = entry.acknowledgement;
    server.acknowledged = server.base;
    client.window_scale = match entry.window_scale {
        Some(scale) if session.scale_offered => scale.min(SCALE_MAX),
        _ => 0,
    };
    session.sack = session.sack_offered && entry.sack;
    server.window_end = server.acknowledged.wrapping_add(server.window);
    client.window_end = client.acknowledged.wrapping_add(client.window);
    session.four_way = false;
}

/// Whether a SYN/ACK answers the SYN; of TCP fast open, its data may count or not.
pub(crate) fn check_syn_ack(session: &mut Session, job: &mut Job<'_>, echo_is_right: bool) -> bool {
    let fast_open = job.tcp.fast_open.is_some() || session.fast_open;
    let client = session.side(Direction::ToServer);
    let answers_syn = job.ack() == client.isn.wrapping_add(1);
    let answers_data = fast_open && job.ack() == client.next;
    if answers_data && echo_is_right {
        session.fast_open = true;
        return true;
    }
    if answers_syn && echo_is_right {
        if fast_open {
            let client = session.side_mut(Direction::ToServer);
            client.next = client.isn;
            session.fast_open_ignored = true;
            session.fast_open = true;
            job.event(Event::ThreeWaySynackTfoDataIgnored);
        }
        return true;
    }
    if !session.queue.is_empty() && answered_syn(session, job) {
        session.fast_open |= fast_open;
        return true;
    }
    if !answers_syn && !answers_data {
        job.event(Event::ThreeWaySynackWithWrongAck);
    } else if !echo_is_right {
        job.event(Event::PktInvalidTimestamp);
    }
    false
}
