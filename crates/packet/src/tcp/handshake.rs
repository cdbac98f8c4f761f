//! The handshake, until the session is established.

use crate::address::Direction::{ToClient, ToServer};
use crate::packet::TcpFlags;

use super::app;
use super::event::Event;
use super::job::{Job, Judged};
use super::sequence::{gt, leq};
use super::session::Session;
use super::start::{SCALE_MAX, update_next};
use super::state::State;
use super::{close, queue, timestamp, validate};
use crate::host::Os;

/// A packet after a SYN.
pub(crate) fn syn_sent(session: &mut Session, job: &mut Job<'_>) -> Judged {
    if job.is_syn_ack() {
        return if job.to_server() { four_way(session, job) } else { syn_ack(session, job) };
    }
    if !timestamp::echo_is_right(session, job) {
        return job.invalid(Event::PktInvalidTimestamp);
    }
    if job.has(TcpFlags::RST) {
        refused(session, job)
    } else if job.has(TcpFlags::FIN) {
        Ok(())
    } else if job.has(TcpFlags::SYN) {
        if job.to_server() {
            queue::syn_again(session, job);
        } else {
            syn_of_server(session, job);
        }
        Ok(())
    } else if job.has(TcpFlags::ACK) && job.engine.settings.async_oneside {
        one_sided_ack(session, job)
    } else {
        Ok(())
    }
}

fn syn_ack(session: &mut Session, job: &mut Job<'_>) -> Judged {
    let right = job.engine.settings.liberal_timestamps || timestamp::echo_is_right(session, job);
    if !queue::check_syn_ack(session, job, right) {
        return Err(super::job::Invalid);
    }
    session.clear_queue();
    let entry = queue::of_packet(job);
    queue::apply_syn_ack(session, job, entry);
    Ok(())
}

/// A SYN/ACK of the client, after both sides sent a SYN.
fn four_way(session: &mut Session, job: &mut Job<'_>) -> Judged {
    let [client, server] = &session.sides;
    if !session.four_way {
        return job.invalid(Event::ThreeWaySynackInWrongDirection);
    }
    if job.ack() != server.isn.wrapping_add(1) {
        return job.invalid(Event::FourWaySynackWithWrongAck);
    }
    if job.seq() != client.isn {
        return job.invalid(Event::FourWaySynackWithWrongSyn);
    }
    job.set_state(session, State::SynRecv);
    let [client, server] = &mut session.sides;
    client.begin(job.seq());
    client.next = client.base;
    server.window = u32::from(job.tcp.window);
    match job.tcp.timestamp {
        Some((value, _)) if server.timestamps => {
            client.timestamp = value;
            session.timestamps = true;
            client.timestamp_seconds = job.seconds();
            client.zero_timestamp |= value == 0;
        }
        _ => {
            server.timestamp = 0;
            client.timestamp = 0;
            server.zero_timestamp = false;
        }
    }
    server.acknowledged = job.ack();
    client.acknowledged = client.base;
    server.window_scale = match job.tcp.window_scale {
        Some(scale) if session.scale_offered => scale.min(SCALE_MAX),
        _ => 0,
    };
    session.sack |= session.sack_offered && job.tcp.sack_permitted;
    client.window_end = client.acknowledged.wrapping_add(client.window);
    server.window_end = server.acknowledged.wrapping_add(server.window);
    Ok(())
}

fn refused(session: &mut Session, job: &mut Job<'_>) -> Judged {
    if !validate::reset(session, job) {
        return Err(super::job::Invalid);
    }
    let isn = session.side(ToServer).isn;
    if job.to_server() {
        let genuine = job.seq() == isn && job.tcp.window == 0 && job.ack() == isn.wrapping_add(1);
        if !genuine {
            return Ok(());
        }
    }
    session.side_mut(job.direction.reverse()).reset_received = true;
    close::by_reset(session, job);
    session.clear_queue();
    Ok(())
}

fn syn_of_server(session: &mut Session, job: &mut Job<'_>) {
    session.four_way = true;
    let server = session.side_mut(ToClient);
    server.begin(job.seq());
    server.next = server.base;
    if let Some((value, _)) = job.tcp.timestamp {
        server.timestamp = value;
        server.zero_timestamp |= value == 0;
        server.timestamp_seconds = job.seconds();
        server.timestamps = true;
    }
    server.window = u32::from(job.tcp.window);
    server.window_scale = job.tcp.window_scale.unwrap_or(0).min(SCALE_MAX);
    session.scale_offered = job.tcp.window_scale.is_some();
    session.sack_offered = job.tcp.sack_permitted;
}

fn one_sided_ack(session: &mut Session, job: &mut Job<'_>) -> Judged {
    if job.seq() != session.side(ToServer).next {
        return job.invalid(Event::ThreeWayAsyncWrongSeq);
    }
    session.one_sided = true;
    job.set_state(session, State::Established);
    session.clear_queue();
    let [client, server] = &mut session.sides;
    client.window = u32::from(job.tcp.window);
    client.acknowledged = job.seq();
    client.window_end = client.acknowledged.wrapping_add(client.window);
    server.begin(job.ack().wrapping_sub(1));
    server.next = server.base;
    server.acknowledged = server.next;
    server.window_end = server.acknowledged;
    if session.scale_offered {
        client.window_scale = SCALE_MAX;
    }
    if job.tcp.timestamp.is_some() && client.timestamps {
        session.timestamps = true;
        client.timestamps = false;
        client.timestamp_seconds = job.seconds();
    } else {
        client.timestamp = 0;
        client.zero_timestamp = false;
    }
    session.sack |= session.sack_offered;
    app::handle_segment(session, job, ToServer);
    Ok(())
}

/// A packet after a SYN/ACK.
pub(crate) fn syn_recv(session: &mut Session, job: &mut Job<'_>) -> Judged {
    if job.has(TcpFlags::RST) {
        reset_in_handshake(session, job)
    } else if job.has(TcpFlags::FIN) {
        if session.timestamps && !timestamp::validate(session, job) {
            return Err(super::job::Invalid);
        }
        close::fin(session, job)
    } else if job.is_syn_ack() {
        if job.to_server() {
            return job.invalid(Event::ThreeWaySynackToserverOnSynRecv);
        }
        if job.ack() != session.side(ToServer).acknowledged {
            return job.invalid(Event::ThreeWaySynackResendWithDiffAck);
        }
        if job.seq() != session.side(ToClient).isn {
            return queue::store_syn_ack(session, job);
        }
        Ok(())
    } else if job.has(TcpFlags::SYN) {
        if !job.to_server() {
            return job.invalid(Event::ThreeWaySynToclientOnSynRecv);
        }
        if job.seq() != session.side(ToServer).isn {
            return job.invalid(Event::ThreeWaySynResendDiffSeqOnSynRecv);
        }
        Ok(())
    } else if job.has(TcpFlags::ACK) {
        ack_of_handshake(session, job)
    } else {
        Ok(())
    }
}

fn reset_in_handshake(session: &mut Session, job: &mut Job<'_>) -> Judged {
    if !validate::reset(session, job) {
        return Err(super::job::Invalid);
    }
    let receiver = session.side(job.direction.reverse()).os;
    let keeps = matches!(receiver, Some(Os::Linux | Os::OldLinux | Os::Solaris));
    if !(session.evasion && keeps) {
        close::by_reset(session, job);
        if session.timestamps {
            timestamp::update(session, job);
        }
    }
    Ok(())
}

fn ack_of_handshake(session: &mut Session, job: &mut Job<'_>) -> Judged {
    if let Some(entry) = queue::answered_syn_ack(session, job) {
        queue::apply_syn_ack(session, job, entry);
    }
    if session.timestamps && !timestamp::validate(session, job) {
        return Err(super::job::Invalid);
    }
    if session.four_way && !job.to_server() {
        return four_way_ack(session, job);
    }
    let mut missed_ack = false;
    if !job.to_server() && !session.midstream_synack && !session.fast_open {
        if job.engine.settings.inline {
            let [client, server] = &session.sides;
            let injected = !job.payload.is_empty()
                && job.ack() == client.acknowledged
                && job.seq() == server.next;
            return job.invalid(if injected {
                Event::ThreeWayAckDataInject
            } else {
                Event::ThreeWayAckInWrongDir
            });
        }
        missed_ack = true;
    }
    establish(session, job, missed_ack)
}

fn four_way_ack(session: &mut Session, job: &mut Job<'_>) -> Judged {
    if job.seq() != session.side(ToClient).next {
        return job.invalid(Event::FourWayWrongSeq);
    }
    if !validate::acknowledgement(session, job) {
        return job.invalid(Event::FourWayInvalidAck);
    }
    if session.timestamps {
        timestamp::update(session, job);
    }
    session.side_mut(ToServer).acknowledge(job.ack());
    let next = session.side(ToClient).next.wrapping_add(job.len());
    update_next(session, ToClient, next);
    let client = session.side_mut(ToServer);
    client.window = job.window(client.window_scale);
    client.window_end = client.acknowledged.wrapping_add(client.window);
    job.set_state(session, State::Established);
    app::handle_segment(session, job, ToClient);
    Ok(())
}

/// The packet that ends the handshake: the client's ACK, or what shows that it was missed.
fn establish(session: &mut Session, job: &mut Job<'_>, missed_ack: bool) -> Judged {
    let [client, server] = &session.sides;
    let (seq, ack) = (job.seq(), job.ack());
    let answers_client = ack == client.acknowledged && seq == server.next;
    if seq == client.next && ack == server.next {
        regular(session, job);
    } else if job.engine.settings.async_oneside && seq == server.next {
        one_sided_server(session, job);
    } else if seq == client.next {
        session.evasion = true;
        return job.invalid(Event::ThreeWayRightSeqWrongAckEvasion);
    } else if !job.to_server()
        && !job.engine.settings.inline
        && gt(seq, client.next)
        && gt(ack, client.acknowledged)
    {
        missed_much(session, job);
    } else if gt(seq, client.next) && leq(seq, client.window_end) && ack == server.next {
        missed_data(session, job);
    } else if (missed_ack || session.fast_open) && answers_client {
        update_next(session, ToClient, job.end());
        let server = session.side_mut(ToClient);
        server.window = job.window(server.window_scale);
        server.window_end = server.acknowledged.wrapping_add(server.window);
        job.set_state(session, State::Established);
        app::handle_segment(session, job, ToClient);
    } else {
        return job.invalid(Event::ThreeWayWrongSeqWrongAck);
    }
    Ok(())
}

fn regular(session: &mut Session, job: &mut Job<'_>) {
    if session.timestamps {
        timestamp::update(session, job);
    }
    session.side_mut(ToClient).acknowledge(job.ack());
    let next = session.side(ToServer).next.wrapping_add(job.len());
    update_next(session, ToServer, next);
    let [client, server] = &mut session.sides;
    server.window = job.window(server.window_scale);
    server.window_end = server.acknowledged.wrapping_add(server.window);
    if session.midstream {
        client.window = job.window(client.window_scale);
        client.window_end = client.acknowledged.wrapping_add(client.window);
        if !session.midstream_synack {
            server.window_scale = SCALE_MAX;
            client.window_scale = SCALE_MAX;
            session.sack = true;
        }
    }
    job.set_state(session, State::Established);
    job.outcome.flow_established |= !job.payload.is_empty();
    app::handle_segment(session, job, ToServer);
}

fn one_sided_server(session: &mut Session, job: &mut Job<'_>) {
    session.one_sided = true;
    let [client, server] = &mut session.sides;
    server.next = server.next.wrapping_add(job.len());
    server.acknowledged = job.seq();
    client.window = job.window(client.window_scale);
    client.acknowledged = job.ack();
    if session.timestamps {
        timestamp::update(session, job);
    }
    if session.midstream {
        let [client, server] = &mut session.sides;
        server.window = u32::from(job.tcp.window);
        server.window_end = server.acknowledged.wrapping_add(server.window);
        server.window_scale = SCALE_MAX;
        client.window_scale = SCALE_MAX;
        session.sack = true;
    }
    job.set_state(session, State::Established);
    app::handle_segment(session, job, ToClient);
}

/// The server acknowledges data of the client; neither that nor the handshake's ACK was seen.
fn missed_much(session: &mut Session, job: &mut Job<'_>) {
    if session.timestamps {
        timestamp::update(session, job);
    }
    let [client, server] = &mut session.sides;
    client.acknowledge(job.ack());
    server.next = job.end();
    client.window = job.window(client.window_scale);
    client.window_end = client.acknowledged.wrapping_add(client.window);
    client.window = u32::from(job.tcp.window);
    server.window_end = server.acknowledged.wrapping_add(server.window);
    job.set_state(session, State::Established);
    app::handle_segment(session, job, ToClient);
}

/// The client's data; the handshake's ACK and data before were not seen.
fn missed_data(session: &mut Session, job: &mut Job<'_>) {
    if session.timestamps {
        timestamp::update(session, job);
    }
    let [client, server] = &mut session.sides;
    client.next = job.end();
    server.acknowledge(job.ack());
    server.window = job.window(server.window_scale);
    server.window_end = server.acknowledged.wrapping_add(server.window);
    if session.midstream {
        client.window = u32::from(job.tcp.window);
        server.window_end = server.acknowledged.wrapping_add(server.window);
        server.window_scale = SCALE_MAX;
        client.window_scale = SCALE_MAX;
        session.sack = true;
    }
    job.set_state(session, State::Established);
    app::handle_segment(session, job, ToServer);
}
