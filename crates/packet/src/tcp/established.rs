//! An established session.

use crate::packet::TcpFlags;

use super::event::Event;
use super::job::{Invalid, Job, Judged};
use super::selective::take_sack;
use super::sequence::{geq, gt, leq};
use super::session::Session;
use super::start::update_next;
use super::{app, close, timestamp, validate};

/// A packet of an established session.
pub(crate) fn handle(session: &mut Session, job: &mut Job<'_>) -> Judged {
    if job.has(TcpFlags::RST) {
        reset(session, job)
    } else if job.has(TcpFlags::FIN) {
        if session.timestamps && !timestamp::validate(session, job) {
            return Err(Invalid);
        }
        close::fin(session, job)
    } else if job.is_syn_ack() {
        syn_ack_again(session, job)
    } else if job.has(TcpFlags::SYN) {
        let event = if !job.to_server() {
            Event::EstSynToclient
        } else if job.ack() != session.side(job.direction).isn {
            Event::EstSynResendDiffSeq
        } else {
            Event::EstSynResend
        };
        job.invalid(event)
    } else if job.has(TcpFlags::ACK) {
        if session.timestamps && !timestamp::validate(session, job) {
            return Err(Invalid);
        }
        session.confirmed |= !job.to_server();
        // An acknowledgement or data that is out of place has its event, but the packet itself is
        // not invalid.
        let _ = data(session, job);
        Ok(())
    } else {
        Ok(())
    }
}

fn reset(session: &mut Session, job: &mut Job<'_>) -> Judged {
    if !validate::reset(session, job) {
        return Err(Invalid);
    }
    close::by_reset(session, job);
    let beyond = u32::from(!job.to_server());
    let (sender, receiver) = session.pair_mut(job.direction);
    receiver.next = job.ack();
    sender.next = job.end().wrapping_add(beyond);
    sender.window = job.window(sender.window_scale);
    close::acknowledge_reset(session, job);
    Ok(())
}

fn syn_ack_again(session: &mut Session, job: &mut Job<'_>) -> Judged {
    let (server, client) = session.pair_mut(job.direction);
    if job.to_server() {
        job.invalid(Event::EstSynackToserver)
    } else if job.ack() != client.acknowledged {
        job.invalid(Event::EstSynackResendWithDiffAck)
    } else if job.seq() != server.isn {
        job.invalid(Event::EstSynackResendWithDiffSeq)
    } else if session.confirmed {
        job.invalid(Event::EstSynackResend)
    } else {
        Ok(())
    }
}

fn data(session: &mut Session, job: &mut Job<'_>) -> Judged {
    check_acknowledgement(session, job)?;
    let (seq, end) = (job.seq(), job.end());
    if !job.to_server() && session.midstream && session.midstream_established {
        let (server, _) = session.pair_mut(job.direction);
        server.window = job.window(server.window_scale);
        server.window_end = server.acknowledged.wrapping_add(server.window);
        session.midstream_established = false;
    }
    check_place(session, job)?;
    let liberal = session.midstream || session.one_sided;
    let (sender, _) = session.pair_mut(job.direction);
    if job.len() == 1 && seq == sender.next && sender.window == 0 {
        if let Some(probe) = session.window_probe.get_mut(job.direction.index()) {
            *probe = true;
        }
        app::handle_segment(session, job, job.direction);
        return Ok(());
    }
    if geq(end, sender.next) {
        update_next(session, job.direction, end);
    }
    let (sender, receiver) = session.pair_mut(job.direction);
    if !leq(end, sender.window_end) && !liberal {
        return job.invalid(Event::EstPacketOutOfWindow);
    }
    receiver.window = job.window(receiver.window_scale);
    if job.has(TcpFlags::ACK) {
        receiver.acknowledge(job.ack());
        let unseen = gt(receiver.acknowledged, receiver.next);
        if unseen && !session.one_sided {
            job.outcome.acknowledges_unseen = true;
            job.engine.counters.ack_unseen_data += 1;
        }
    }
    if session.timestamps {
        timestamp::update(session, job);
    }
    take_sack(session, job);
    session.side_mut(job.direction.reverse()).open_window();
    app::handle_segment(session, job, job.direction);
    Ok(())
}

fn check_acknowledgement(session: &mut Session, job: &mut Job<'_>) -> Judged {
    if !job.has(TcpFlags::ACK) {
        return Ok(());
    }
    let receiver = session.side(job.direction.reverse());
    let probed = session.window_probe.get(job.direction.reverse().index()) == Some(&true);
    if probed && job.ack() == receiver.next.wrapping_add(1) {
        job.event(Event::EstAckZwpData);
    } else if !validate::acknowledgement(session, job) {
        return job.invalid(Event::EstInvalidAck);
    }
    Ok(())
}

/// Data must not end before what was acknowledged; where only one side is seen, nothing was.
fn check_place(session: &mut Session, job: &mut Job<'_>) -> Judged {
    let (seq, end) = (job.seq(), job.end());
    let one_sided = session.one_sided;
    let may_turn = job.to_server() && job.engine.settings.async_oneside && session.midstream;
    let (sender, _) = session.pair_mut(job.direction);
    let keep_alive = job.len() <= 1 && seq == sender.next.wrapping_sub(1);
    if keep_alive || geq(end, sender.acknowledged) {
        return Ok(());
    }
    if one_sided && !job.to_server() {
        sender.acknowledged = seq;
    } else if one_sided {
        sender.acknowledge(seq);
    } else if may_turn && (sender.next == seq || sender.acknowledged == sender.isn.wrapping_add(1))
    {
        sender.acknowledge(seq);
        session.one_sided = true;
    } else if !(gt(sender.acknowledged, sender.next) && gt(end, sender.next)) {
        return job.invalid(Event::EstPktBeforeLastAck);
    }
    Ok(())
}
