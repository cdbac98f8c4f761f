//! Sets of ports, as intervals.

/// Ports.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PortSet {
    /// Sorted, disjoint, both ends included.
    pub intervals: Vec<(u16, u16)>,
}

impl PortSet {
    /// All ports.
    pub fn any() -> Self {
        Self { intervals: vec![(0, u16::MAX)] }
    }

    /// Whether the port is in it.
    pub fn contains(&self, port: u16) -> bool {
        let after = self.intervals.partition_point(|&(low, _)| low <= port);
        let found = after.checked_sub(1).and_then(|at| self.intervals.get(at));
        found.is_some_and(|&(_, high)| port <= high)
    }
}
