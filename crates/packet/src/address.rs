//! Small types that packets, flows and streams share.

/// Which way bytes go in a flow. The client is who sent the first packet (or, of a connection
/// whose beginning was not seen, who seems to have).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Direction {
    /// From the client.
    ToServer,
    /// From the server.
    ToClient,
}

impl Direction {
    /// The other way.
    pub fn reverse(self) -> Self {
        match self {
            Direction::ToServer => Direction::ToClient,
            Direction::ToClient => Direction::ToServer,
        }
    }

    /// 0 to the server, 1 to the client: a place in a pair.
    pub fn index(self) -> usize {
        match self {
            Direction::ToServer => 0,
            Direction::ToClient => 1,
        }
    }
}

/// When a packet was captured.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Time {
    /// Seconds since 1970.
    pub seconds: i64,
    /// Microseconds, below 1,000,000.
    pub micros: u32,
}
