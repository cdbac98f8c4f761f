//! A packet's data is stored: urgent bytes, the stream's depth, memory.

use crate::address::Direction;
use crate::packet::TcpFlags;

use super::event::Event;
use super::job::Job;
use super::kept::Refusal;
use super::outcome::DropReason;
use super::overlap;
use super::segments::{SEGMENT_BYTES, Segment, Stored};
use super::sequence::{geq, gt, leq, lt};
use super::session::{FirstData, Session};
use super::settings::UrgentPolicy;
use super::side::Side;
use super::sink::Update;

/// The data could not be stored.
#[derive(Debug)]
pub(crate) struct NotStored;

/// Stores a packet's data as sent by the side of `direction`.
pub(crate) fn data(
    session: &mut Session,
    job: &mut Job<'_>,
    direction: Direction,
) -> Result<(), NotStored> {
    if session.first_data == FirstData::None {
        session.first_data = FirstData::Seen(job.direction);
    }
    let destination = job.packet.ip.as_ref().map(|ip| ip.destination);
    let app_disabled = session.app_disabled;
    let side = session.side_mut(direction);
    if side.os.is_none() {
        side.os = destination.map(|address| job.engine.settings.os_of(address));
    }
    if app_disabled && side.raw_ends {
        return Ok(());
    }
    let sequence = job.seq().wrapping_sub(u32::from(session.side(job.direction).urgent));
    let Some(urgent_bytes) = take_urgent(session, job) else {
        return Ok(());
    };
    let len = job.len().saturating_sub(urgent_bytes);
    let depth = session.depth;
    let side = session.side_mut(direction);
    let size = within_depth(side, depth, sequence, len);
    if side.depth_reached {
        job.event(Event::ReassemblyDepthReached);
        job.engine.counters.stream_depth_reached += 1;
        job.outcome.update = Update::Packet;
    }
    if size == 0 {
        return Ok(());
    }
    if !job.engine.has_reassembly_room(SEGMENT_BYTES) {
        job.engine.counters.segment_memory_drops += 1;
        job.event(Event::ReassemblyNoSegment);
        session.lossy = true;
        return Err(NotStored);
    }
    let syn_data = job.tcp.fast_open.is_some() && job.has(TcpFlags::SYN);
    let start = sequence.wrapping_add(u32::from(syn_data));
    let segment = side.segment(start, u16::try_from(size).unwrap_or(u16::MAX));
    insert(side, job, start, segment, len)
}

/// How many of the packet's bytes are urgent and not in the stream; `None`: there is nothing to
/// store.
fn take_urgent(session: &mut Session, job: &mut Job<'_>) -> Option<u32> {
    let policy = job.engine.settings.urgent;
    let limit_policy = job.engine.settings.urgent_limit;
    let pointer = u32::from(job.tcp.urgent);
    let marked = job.has(TcpFlags::URG) && pointer > 0 && pointer <= job.len();
    if !marked || !matches!(policy, UrgentPolicy::OutOfBand | UrgentPolicy::Gap) {
        return Some(0);
    }
    let out_of_band = policy == UrgentPolicy::OutOfBand;
    let taken = &mut session.side_mut(job.direction).urgent;
    if *taken < u16::MAX {
        *taken += u16::from(out_of_band);
        if *taken == u16::MAX {
            job.event(Event::ReassemblyUrgentOobLimitReached);
        }
    } else if limit_policy == UrgentPolicy::Drop {
        job.drop(DropReason::Urgent);
        return None;
    }
    let full = session.side(job.direction).urgent == u16::MAX;
    job.engine.counters.urgent += u64::from(out_of_band);
    if out_of_band && full && limit_policy == UrgentPolicy::Inline {
        return Some(0);
    }
    if pointer == 1 && job.len() == 1 {
        return None;
    }
    Some(1)
}

/// How much of a segment lies within the depth; marks the side when it is reached.
fn within_depth(side: &mut Side, depth: u32, sequence: u32, size: u32) -> u32 {
    if depth == 0 {
        return size;
    }
    let end = sequence.wrapping_add(size);
    if side.depth_reached || (gt(side.base, sequence) && leq(end, side.base)) {
        return 0;
    }
    let reach = side.base_offset() + u64::from(end.wrapping_sub(side.base));
    if reach > u64::from(depth) {
        side.depth_reached = true;
        return 0;
    }
    if geq(sequence, side.isn) && lt(sequence, side.isn.wrapping_add(depth)) {
        let limit = side.isn.wrapping_add(1).wrapping_add(depth);
        if leq(end, limit) {
            return size;
        }
        side.depth_reached = true;
        return limit.wrapping_sub(sequence).min(size);
    }
    0
}

fn insert(
    side: &mut Side,
    job: &mut Job<'_>,
    sequence: u32,
    segment: Segment,
    len: u32,
) -> Result<(), NotStored> {
    let end = sequence.wrapping_add(u32::from(segment.len));
    if leq(end, side.base) {
        return Ok(());
    }
    let known = side.segments.contains(segment);
    if side.segments.is_empty() || gt(end, side.right_edge) {
        side.right_edge = end;
    }
    if known || overlap::touches(&side.segments, segment) {
        job.engine.counters.overlap += 1;
        let bytes = overlap::resolve(side, job, segment, known);
        if !known {
            side.segments.store(segment, Stored::default());
        }
        return match store(side, job, segment, &bytes) {
            Ok(()) => Ok(()),
            Err(refusal) => {
                job.event(match refusal {
                    Refusal::Memory | Refusal::Regions => Event::ReassemblyInsertLimit,
                    Refusal::Before => Event::ReassemblyInsertInvalid,
                });
                job.engine.counters.insert_overlap_fail += 1;
                if !known {
                    side.segments.remove(segment);
                }
                Err(NotStored)
            }
        };
    }
    let payload = job.payload;
    let bytes = payload.get(..len as usize).unwrap_or(payload);
    side.segments.store(segment, Stored::default());
    if store(side, job, segment, bytes).is_err() {
        job.engine.counters.insert_fail += 1;
        side.segments.remove(segment);
        return Err(NotStored);
    }
    Ok(())
}

/// Writes a segment's bytes; those before the base are not wanted any more.
fn store(side: &mut Side, job: &Job<'_>, segment: Segment, bytes: &[u8]) -> Result<(), Refusal> {
    let base = i64::try_from(side.base_offset()).unwrap_or(i64::MAX);
    let skip = usize::try_from(base.saturating_sub(segment.start)).unwrap_or(0);
    let Some(wanted) = bytes.get(skip..).filter(|wanted| !wanted.is_empty()) else {
        return Ok(());
    };
    let offset = u64::try_from(segment.start.max(base)).unwrap_or(0);
    let growth = side.buffer.growth(offset, wanted.len());
    if !job.engine.has_reassembly_room(growth) {
        return Err(Refusal::Memory);
    }
    side.buffer.insert(offset, wanted, job.engine.settings.regions_max)?;
    let len = u32::try_from(wanted.len()).unwrap_or(u32::MAX);
    side.segments.store(segment, Stored { offset, len });
    Ok(())
}
