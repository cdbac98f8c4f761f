//! When a handshake begins a new session in place of one that is over.

use crate::address::Direction;
use crate::packet::{Tcp, TcpFlags};

use super::session::Session;
use super::settings::Settings;
use super::state::State;

/// Whether a packet begins a new session on the addresses and ports of an old one.
pub(crate) fn may_replace(
    session: Option<&Session>,
    tcp: &Tcp,
    direction: Direction,
    settings: &Settings,
) -> bool {
    if tcp.flags.0 & (TcpFlags::RST | TcpFlags::FIN) != 0 || !tcp.flags.has(TcpFlags::SYN) {
        return false;
    }
    let is_over =
        |session: &Session| session.state >= State::LastAck || session.state == State::None;
    if !tcp.flags.has(TcpFlags::ACK) {
        return match session {
            None => true,
            Some(session) if direction == Direction::ToServer => {
                session.fast_open_ignored
                    || (session.side(Direction::ToServer).isn != tcp.sequence && is_over(session))
            }
            Some(session) => is_over(session),
        };
    }
    if !settings.midstream && !settings.async_oneside {
        return false;
    }
    match session {
        None => direction == Direction::ToServer,
        Some(session) if direction == Direction::ToClient => {
            session.side(Direction::ToClient).isn != tcp.sequence && is_over(session)
        }
        Some(session) => is_over(session),
    }
}
