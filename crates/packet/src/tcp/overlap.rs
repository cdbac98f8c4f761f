//! Segments that overlap: whose bytes count, by the receiver's system, and whether they differ.

use super::event::Event;
use super::job::Job;
use super::segments::{Segment, Segments, Stored};
use super::side::Side;
use crate::host::Os;

/// Whether a segment that is not stored yet overlaps its neighbours.
pub(crate) fn touches(segments: &Segments, segment: Segment) -> bool {
    let next = segments.after(segment).next();
    let before = segments.before(segment).next();
    next.is_some_and(|(next, _)| next.start == segment.start || segment.end() > next.start)
        || before.is_some_and(|(before, _)| {
            before.start == segment.start || before.end() > segment.start
        })
}

/// The bytes of a segment that overlaps others, with theirs where they count. `known`: a segment
/// of the same place and length is stored. Sets the event if data differ and that is asked for.
pub(crate) fn resolve(side: &Side, job: &mut Job<'_>, segment: Segment, known: bool) -> Vec<u8> {
    let mut bytes = job.payload.to_vec();
    if known && let Some(stored) = side.segments.get(segment) {
        one(side, job, (segment, stored), segment, &mut bytes);
    }
    let base = i64::try_from(side.base_offset()).unwrap_or(i64::MAX);
    let mut differs = false;
    for (other, stored) in side.segments.before(segment) {
        if other.end() <= base {
            continue;
        }
        if other.end() <= segment.start {
            break;
        }
        differs |= one(side, job, (other, stored), segment, &mut bytes);
    }
    for (other, stored) in side.segments.after(segment) {
        if segment.end() <= other.start {
            break;
        }
        differs |= one(side, job, (other, stored), segment, &mut bytes);
    }
    if differs {
        job.event(Event::ReassemblyOverlapDifferentData);
        job.engine.counters.overlap_different += 1;
    }
    bytes
}

/// One stored segment and the new one. Whether their data differ, if that is asked for.
fn one(
    side: &Side,
    job: &mut Job<'_>,
    (other, stored): (Segment, Stored),
    segment: Segment,
    bytes: &mut [u8],
) -> bool {
    let inline = job.engine.settings.inline;
    let check = inline || job.engine.settings.check_overlaps;
    let differs = if check { differs(side, job, other, stored) } else { true };
    let takes_new = if inline {
        if differs {
            replace(side, job, other, stored);
            job.event(Event::ReassemblyOverlapDifferentData);
        }
        false
    } else {
        differs && takes_new(side.os, segment, other)
    };
    if differs && !takes_new {
        copy_old(side, other, stored, segment, bytes);
    }
    check && differs
}

/// Whether a system takes the new segment's bytes over the old one's.
fn takes_new(os: Option<Os>, new: Segment, old: Segment) -> bool {
    use Os as O;
    let Some(os) = os else {
        return false;
    };
    if os == O::Last {
        return true;
    }
    let old_ends_later = new.end() < old.end();
    match new.start.cmp(&old.start) {
        std::cmp::Ordering::Equal if old_ends_later => false,
        std::cmp::Ordering::Equal => {
            (os == O::Linux && new.end() > old.end())
                || matches!(os, O::OldLinux | O::Solaris | O::HpUx11)
        }
        std::cmp::Ordering::Less => match os {
            O::Solaris | O::HpUx11 => !old_ends_later,
            O::Vista | O::First | O::Last => false,
            _ => true,
        },
        std::cmp::Ordering::Greater => {
            new.end() > old.end() && matches!(os, O::Solaris | O::HpUx11)
        }
    }
}

/// Where a stored segment's data lies that is still kept.
fn kept(side: &Side, other: Segment, stored: Stored) -> Option<(i64, i64)> {
    let base = i64::try_from(side.base_offset()).ok()?;
    let end = stored.offset.checked_add(u64::from(stored.len))?;
    let start = other.start.max(base);
    let end = i64::try_from(end).ok()?;
    (start < end && stored.len > 0).then_some((start, end))
}

/// The part that a packet (place by its header, without urgent bytes) and a stored segment share.
fn shared(
    side: &Side,
    job: &Job<'_>,
    other: Segment,
    stored: Stored,
) -> Option<(i64, usize, usize)> {
    let (kept_start, kept_end) = kept(side, other, stored)?;
    let packet_start = side.place_of(job.seq());
    let packet_end = packet_start.saturating_add(i64::from(job.len()));
    let start = kept_start.max(packet_start);
    let len = usize::try_from(kept_end.min(packet_end) - start).ok().filter(|&len| len > 0)?;
    let at = usize::try_from(start - packet_start).ok()?;
    Some((start, at, len))
}

fn differs(side: &Side, job: &Job<'_>, other: Segment, stored: Stored) -> bool {
    let Some((start, at, len)) = shared(side, job, other, stored) else {
        return false;
    };
    let payload = job.outcome.replaced.as_deref().unwrap_or(job.payload);
    let start = u64::try_from(start).unwrap_or(0);
    let old = side.buffer.slice(start, start + len as u64);
    payload.get(at..at + len).is_some_and(|new| new != old)
}

/// Inline: the receiver gets the bytes that came first, whatever its system.
fn replace(side: &Side, job: &mut Job<'_>, other: Segment, stored: Stored) {
    let Some((start, at, len)) = shared(side, job, other, stored) else {
        return;
    };
    let start = u64::try_from(start).unwrap_or(0);
    let old = side.buffer.slice(start, start + len as u64);
    let payload = job.payload;
    let replaced = job.outcome.replaced.get_or_insert_with(|| payload.to_vec());
    if let Some(room) = replaced.get_mut(at..at + len)
        && room.len() == old.len()
    {
        room.copy_from_slice(old);
    }
}

/// Puts the old segment's bytes into the new one's.
fn copy_old(side: &Side, other: Segment, stored: Stored, segment: Segment, bytes: &mut [u8]) {
    let Some((kept_start, kept_end)) = kept(side, other, stored) else {
        return;
    };
    let new_len = i64::try_from(bytes.len()).unwrap_or(0);
    let start = kept_start.max(segment.start);
    let end = kept_end.min(segment.start.saturating_add(new_len));
    if start >= end {
        return;
    }
    let old = side.buffer.slice(u64::try_from(start).unwrap_or(0), u64::try_from(end).unwrap_or(0));
    let at = usize::try_from(start - segment.start).unwrap_or(usize::MAX);
    if let Some(room) = bytes.get_mut(at..at.saturating_add(old.len())) {
        room.copy_from_slice(old);
    }
}
