//! From stored data to the application layer: when, in which pieces, with which gaps.

use crate::address::Direction;
use crate::packet::TcpFlags;

use super::event::Event;
use super::insert;
use super::job::Job;
use super::kept::Found;
use super::outcome::DropReason;
use super::sequence::gt;
use super::session::{FirstData, Session};
use super::sink::{Chunk, Orders, SessionView, Update};
use super::state::State;

/// The application layer stops this call.
struct Stop;

/// Stores a packet's data, sent by the side of `direction`, and hands over what may be handed
/// over now: of the other side what the packet acknowledges; inline, and at the end, of its own.
pub(crate) fn handle_segment(session: &mut Session, job: &mut Job<'_>, direction: Direction) {
    let mut direction = direction;
    let mut update = update_of(session, job);
    if matches!(update, Update::Opposing | Update::Both) {
        let swapped = job.outcome.swapped;
        hand_over(session, job, direction.reverse(), Update::Opposing);
        if swapped != job.outcome.swapped {
            direction = direction.reverse();
        }
    }
    let stops = session.side(direction).no_reassembly;
    if !job.payload.is_empty() && !stops && !job.has(TcpFlags::RST) {
        if insert::data(session, job, direction).is_err() {
            let policy = job.engine.settings.reassembly_memory_policy;
            job.apply_policy(policy, DropReason::Reassembly);
            return;
        }
        job.outcome.added = true;
    }
    let side = session.side(direction);
    if side.depth_reached && !side.no_reassembly {
        update = Update::Packet;
    }
    if matches!(update, Update::Packet | Update::Both) {
        hand_over(session, job, direction, update);
    }
}

fn update_of(session: &Session, job: &Job<'_>) -> Update {
    if job.engine.settings.inline || job.pseudo || job.has(TcpFlags::RST) {
        Update::Packet
    } else if job.has(TcpFlags::FIN) && session.state > State::TimeWait {
        if job.has(TcpFlags::ACK) { Update::Both } else { Update::Packet }
    } else if session.state == State::Closed {
        Update::Both
    } else if session.one_sided {
        Update::Packet
    } else {
        Update::Opposing
    }
}

/// Hands data of one side to the application layer, as far as it may see it.
fn hand_over(session: &mut Session, job: &mut Job<'_>, direction: Direction, update: Update) {
    let side = session.side(direction);
    if session.app_disabled || side.no_reassembly {
        return;
    }
    let has_more =
        side.buffer.has_seen_data() && side.offset_of(side.right_edge) > side.app_progress;
    if !has_more && (session.state >= State::Closing || job.pseudo) {
        let mut direction = direction;
        let _ = give(session, job, &mut direction, Piece::Empty, update);
        return;
    }
    pieces(session, job, direction, update);
}

/// What is given to the application layer.
#[derive(Debug, Clone, Copy)]
enum Piece {
    /// No bytes: to say that the end is reached.
    Empty,
    /// So many bytes from the application layer's place on.
    Bytes(u32),
    /// So many are missing.
    Gap(u32),
}

/// What lies at the application layer's place.
struct Next {
    len: u32,
    /// The bytes are missing.
    missing: bool,
    /// There are bytes.
    present: bool,
    /// Behind the bytes some are missing, and acknowledged.
    gap_behind: bool,
}

fn next_piece(session: &Session, job: &Job<'_>, direction: Direction) -> Next {
    let side = session.side(direction);
    let place = side.app_progress;
    let (len, present) = match side.buffer.read(place) {
        Found::Nothing => (0, None),
        Found::Missing(len) => (len, Some(false)),
        Found::Bytes(bytes) => (bytes.len() as u64, Some(true)),
    };
    let acknowledged = side.acknowledged_offset();
    let gap_behind =
        side.needed > 0 && present == Some(true) && side.buffer.gap_behind(place, acknowledged);
    let open = session.state < State::Closed || session.closed_by_reset;
    let all = job.engine.settings.inline || (open && job.pseudo);
    let len = if !all && place <= acknowledged { len.min(acknowledged - place) } else { len };
    Next {
        len: u32::try_from(len).unwrap_or(u32::MAX),
        missing: present == Some(false),
        present: present == Some(true),
        gap_behind,
    }
}

fn pieces(session: &mut Session, job: &mut Job<'_>, mut direction: Direction, update: Update) {
    let mut after_gap = false;
    loop {
        let place = session.side(direction).app_progress;
        let at_end = job.pseudo || session.state == State::Closed;
        let deep = session.side(direction).depth_reached;
        let next = next_piece(session, job, direction);
        if after_gap && next.len == 0 {
            return;
        }
        after_gap = false;
        if next.missing && session.side(direction).waiting {
            return;
        }
        if next.missing && next.len > 0 && is_gap(session, direction) {
            let given = gap(session, job, &mut direction, next.len, update);
            if given.is_err() || session.side(direction).app_progress == place {
                return;
            }
            after_gap = true;
            continue;
        }
        if !deep && (!next.present || (next.len == 0 && !at_end)) {
            return;
        }
        let len = if next.present { next.len } else { 0 };
        let must_wait = !job.pseudo || session.state < State::Closed;
        let side = session.side_mut(direction);
        if must_wait && len < side.needed {
            if !next.gap_behind || len == 0 {
                return;
            }
            side.app_progress += u64::from(len);
            side.needed -= len;
            continue;
        }
        side.needed = 0;
        let _ = give(session, job, &mut direction, Piece::Bytes(len), update);
        let progressed = session.side(direction).app_progress != place;
        let stays = !progressed || session.side(direction).waiting;
        if stays || job.outcome.protocol_changes || deep {
            return;
        }
    }
}

/// Whether missing bytes are taken as lost: the receiver acknowledged them.
fn is_gap(session: &Session, direction: Direction) -> bool {
    let side = session.side(direction);
    let fin = u64::from(session.state >= State::FinWait1);
    side.acknowledged_offset().saturating_sub(fin) > side.app_progress
        && (side.buffer.has_blocks() || !gt(side.acknowledged, side.next))
}

fn gap(
    session: &mut Session,
    job: &mut Job<'_>,
    direction: &mut Direction,
    len: u32,
    update: Update,
) -> Result<(), Stop> {
    let given = give(session, job, direction, Piece::Gap(len), update);
    job.event(Event::ReassemblySeqGap);
    job.engine.counters.reassembly_gap += 1;
    session.lossy = true;
    let side = session.side_mut(*direction);
    side.gap = true;
    side.needed = side.needed.saturating_sub(len);
    given
}

/// Gives one piece and does what the application layer orders. `direction` follows a swap.
fn give(
    session: &mut Session,
    job: &mut Job<'_>,
    direction: &mut Direction,
    piece: Piece,
    update: Update,
) -> Result<(), Stop> {
    if session.app_disabled {
        return Ok(());
    }
    let orders = call(session, job, *direction, piece, update, None);
    obey(session, job, direction, &orders);
    let orders = if orders.opposing_first {
        let other = direction.reverse();
        // Neither side can wait for the other twice.
        let refused = session.side(other).no_reassembly || job.nested;
        let inline = job.engine.settings.inline;
        let opposing = if inline { Update::Opposing } else { Update::Packet };
        if !refused {
            job.nested = true;
            hand_over(session, job, other, opposing);
            job.nested = false;
        }
        let orders = call(session, job, *direction, piece, update, Some(refused));
        let again = Orders { opposing_first: false, ..orders };
        obey(session, job, direction, &again);
        again
    } else {
        orders
    };
    if orders.updated {
        job.outcome.update = update;
    }
    if orders.parser_failed {
        let policy = job.engine.settings.parser_error_policy;
        job.apply_policy(policy, DropReason::Application);
    }
    if orders.failed { Err(Stop) } else { Ok(()) }
}

fn call(
    session: &Session,
    job: &mut Job<'_>,
    direction: Direction,
    piece: Piece,
    update: Update,
    resumed: Option<bool>,
) -> Orders {
    let side = session.side(direction);
    let place = side.app_progress;
    let (bytes, gap) = match piece {
        Piece::Empty => (&[][..], None),
        Piece::Gap(len) => (&[][..], Some(len)),
        Piece::Bytes(len) => (side.buffer.slice(place, place + u64::from(len)), None),
    };
    let chunk = Chunk {
        direction,
        bytes,
        offset: place,
        gap,
        start: !side.detected,
        end: job.pseudo || session.state == State::Closed,
        depth: side.depth_reached,
        update,
        resumed,
        session: view(session, job.pseudo),
    };
    let len = gap.unwrap_or_else(|| u32::try_from(bytes.len()).unwrap_or(u32::MAX));
    let orders = job.sink.data(&chunk);
    Orders { consumed: orders.consumed.min(len), ..orders }
}

fn view(session: &Session, pseudo: bool) -> SessionView {
    let [client, server] = &session.sides;
    SessionView {
        state: session.state,
        midstream: session.midstream,
        midstream_synack: session.midstream_synack,
        detected: [client.detected, server.detected],
        first_data: match session.first_data {
            FirstData::Seen(direction) => Some(direction),
            _ => None,
        },
        first_data_handled: session.first_data == FirstData::Handled,
        available: [client.available(), server.available()],
        windows: [client.window, server.window],
        stopped: [client.no_reassembly, server.no_reassembly],
        pseudo,
    }
}

fn obey(session: &mut Session, job: &mut Job<'_>, direction: &mut Direction, orders: &Orders) {
    if orders.detection_reset {
        for side in &mut session.sides {
            side.detected = false;
        }
    }
    if let Some(completed) = orders.detection_completed {
        session.side_mut(*direction).detected = completed;
    }
    if let Some(depth) = orders.depth {
        session.set_depth(depth);
    }
    if orders.swap {
        session.swap();
        *direction = direction.reverse();
        job.direction = job.direction.reverse();
        job.outcome.swapped = !job.outcome.swapped;
    }
    if orders.disable {
        session.disable_app();
    }
    if orders.first_data_handled || orders.disable {
        session.first_data = FirstData::Handled;
    }
    session.app_disabled |= orders.stop.contains(&true);
    for (index, side) in session.sides.iter_mut().enumerate() {
        let ordered = |orders: &[bool; 2]| orders.get(index).copied().unwrap_or(false);
        side.raw_ends |= ordered(&orders.stop) || ordered(&orders.no_raw);
        side.trigger_raw |= ordered(&orders.trigger_raw);
        if let Some(Some(bytes)) = orders.inspect_depth.get(index) {
            side.inspect_depth = *bytes;
        }
    }
    session.bypass |= orders.bypass;
    job.outcome.protocol_changes |= orders.protocol_changes;
    let side = session.side_mut(*direction);
    side.waiting = orders.waiting;
    side.app_progress += u64::from(orders.consumed);
    if orders.needed > 0 {
        side.needed = orders.needed;
    }
}
