//! Connections that flows have agreed on (FTP's data), which the gate lets in with them.

use std::collections::VecDeque;
use std::net::IpAddr;

use gauntlet_packet::flow::{Admission, FlowCore};
use gauntlet_packet::{Direction, Time};

use super::gate::Question;

/// Connections that have not come yet; the oldest is forgotten for a new one.
const AGREEMENTS_MAX: usize = 4_096;
/// How long one may take to come, in seconds.
const WAIT_SECONDS: i64 = 120;
/// Protocol number of IP.
const TCP: u8 = 6;

/// A connection that a flow has agreed on.
#[derive(Debug)]
struct Agreement {
    /// Port of whom is connected to, and who connects (`ToServer`: the client).
    port: u16,
    by: Direction,
    /// Client and server of the flow.
    ends: [IpAddr; 2],
    /// What was decided about that.
    admission: Admission,
    at: Time,
}

/// All of them; none without a gate.
#[derive(Debug, Default)]
pub(super) struct Agreements(VecDeque<Agreement>);

impl Agreements {
    /// Keeps what a flow has agreed on.
    pub(super) fn add(&mut self, core: &FlowCore, agreed: &[(u16, Direction)]) {
        let Some(admission) = core.admission.filter(|it| it.passage.is_open()) else { return };
        let ends = [core.client().address, core.server().address];
        for &(port, by) in agreed {
            if self.0.len() >= AGREEMENTS_MAX {
                self.0.pop_front();
            }
            self.0.push_back(Agreement { port, by, ends, admission, at: core.last });
        }
    }

    /// What was decided about the flow that has agreed on one which begins as asked; the place is
    /// for [`Agreements::used`].
    pub(super) fn by(&self, question: &Question) -> Option<(usize, Admission)> {
        let (from, to) = (question.source.address, question.destination);
        let place = self.0.iter().rposition(|agreement| {
            let [client, server] = agreement.ends;
            let ends = match agreement.by {
                Direction::ToServer => (client, server),
                Direction::ToClient => (server, client),
            };
            question.protocol == TCP
                && ends == (from, to.address)
                && agreement.port == to.port
                && question.time.seconds.saturating_sub(agreement.at.seconds) < WAIT_SECONDS
        })?;
        self.0.get(place).map(|agreement| (place, agreement.admission))
    }

    /// A connection that was agreed on has come.
    pub(super) fn used(&mut self, place: usize) {
        self.0.remove(place);
    }
}
