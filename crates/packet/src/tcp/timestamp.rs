//! Timestamps (RFC 7323): protection against wrapped sequence numbers (PAWS).

use super::event::Event;
use super::job::Job;
use super::session::Session;
use crate::host::Os;

/// After so many seconds a timestamp may have wrapped: 24 days.
const WRAP_SECONDS: u32 = 2_073_600;

/// What the receiver's system makes of a sender that began with a timestamp of 0.
enum ZeroStart {
    /// Timestamps are not compared any more.
    Ignore,
    /// The next in order counts as the first.
    TakeNext,
    /// Nothing special.
    Compare,
}

fn zero_start(os: Option<Os>) -> ZeroStart {
    match os {
        Some(Os::Linux | Os::Windows2003) => ZeroStart::Ignore,
        Some(Os::OldLinux | Os::Windows | Os::Vista) => ZeroStart::TakeNext,
        _ => ZeroStart::Compare,
    }
}

/// Systems that take a timestamp of 0.
fn takes_zero(os: Option<Os>) -> bool {
    matches!(os, Some(Os::OldLinux | Os::Windows | Os::Windows2003 | Os::Vista | Os::Solaris))
}

/// Sets the receiver's system, by the packet's destination, if it is not known yet.
pub(crate) fn set_receiver_os(session: &mut Session, job: &Job<'_>) -> Option<Os> {
    let (_, receiver) = session.pair_mut(job.direction);
    if receiver.os.is_none() {
        let destination = job.packet.ip.as_ref().map(|ip| ip.destination);
        receiver.os = destination.map(|address| job.engine.settings.os_of(address));
    }
    receiver.os
}

/// How far a timestamp is behind the last: negative is too old.
fn difference(job: &Job<'_>, os: Option<Os>, value: u32, last: u32) -> i32 {
    let liberal = os == Some(Os::Linux) || job.engine.settings.liberal_timestamps;
    value.wrapping_sub(last).wrapping_add(u32::from(liberal)).cast_signed()
}

/// Whether the packet's timestamp is one that may come now; if not, the event is set.
pub(crate) fn validate(session: &mut Session, job: &mut Job<'_>) -> bool {
    let Some((value, _)) = job.tcp.timestamp else {
        set_receiver_os(session, job);
        return true;
    };
    let os = set_receiver_os(session, job);
    let midstream = session.midstream;
    let (sender, _) = session.pair_mut(job.direction);
    let in_order = sender.next == job.seq();
    let mut last = sender.timestamp;
    let mut compare = true;
    if sender.zero_timestamp {
        match zero_start(os) {
            ZeroStart::Ignore => compare = false,
            ZeroStart::TakeNext if in_order => {
                last = value;
                compare = false;
            }
            _ => {}
        }
    }
    if os == Some(Os::HpUx11) && !in_order {
        compare = false;
    }
    if value == 0 && !takes_zero(os) {
        job.event(Event::PktInvalidTimestamp);
        return false;
    }
    if !compare {
        return true;
    }
    let mut last_seconds = sender.timestamp_seconds;
    if last_seconds == 0 && midstream {
        last_seconds = job.seconds();
    }
    let wrapped = job.seconds() > last_seconds.wrapping_add(WRAP_SECONDS);
    let too_old = difference(job, os, value, last) < 0;
    if (too_old || (sender.timestamp != 0 && wrapped)) && !(in_order && wrapped) {
        job.event(Event::PktInvalidTimestamp);
        return false;
    }
    true
}

/// Takes the packet's timestamp as the sender's last.
pub(crate) fn update(session: &mut Session, job: &mut Job<'_>) {
    let os = set_receiver_os(session, job);
    let Some((value, _)) = job.tcp.timestamp else {
        if os == Some(Os::Solaris) {
            session.timestamps = false;
        }
        return;
    };
    let midstream = session.midstream;
    let mut compare = true;
    let mut ends = false;
    let (sender, _) = session.pair_mut(job.direction);
    let in_order = sender.next == job.seq();
    if sender.zero_timestamp {
        match zero_start(os) {
            ZeroStart::Ignore => {
                ends = true;
                compare = false;
            }
            ZeroStart::TakeNext => {
                sender.zero_timestamp = false;
                if in_order {
                    sender.timestamp = value;
                    compare = false;
                }
            }
            ZeroStart::Compare => {}
        }
    }
    if os == Some(Os::HpUx11) && !in_order {
        compare = false;
    }
    if value == 0 && !takes_zero(os) {
        job.event(Event::PktInvalidTimestamp);
    } else if compare {
        if sender.timestamp_seconds == 0 && midstream {
            sender.timestamp_seconds = job.seconds();
        }
        let wrapped = job.seconds() > sender.timestamp_seconds.wrapping_add(WRAP_SECONDS);
        let too_old = difference(job, os, value, sender.timestamp) < 0;
        let doubtful = too_old || (sender.timestamp != 0 && wrapped);
        if doubtful && !(in_order && wrapped) {
            job.event(Event::PktInvalidTimestamp);
        } else {
            if in_order {
                sender.timestamp = value;
            }
            sender.timestamp_seconds = job.seconds();
        }
    }
    if ends {
        session.timestamps = false;
    }
}

/// Whether the timestamp that a SYN/ACK or a packet to the client echoes is the client's.
pub(crate) fn echo_is_right(session: &Session, job: &Job<'_>) -> bool {
    let Some((_, echo)) = job.tcp.timestamp else {
        return true;
    };
    if job.to_server() || echo == 0 {
        return true;
    }
    let client = session.side(crate::address::Direction::ToServer);
    if client.timestamps {
        client.timestamp == 0 || echo == client.timestamp
    } else {
        client.timestamp != 0
    }
}
