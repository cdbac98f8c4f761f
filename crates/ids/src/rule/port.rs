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

    /// All ports of several sets.
    pub fn union<'a>(sets: impl Iterator<Item = &'a PortSet>) -> Self {
        let mut all: Vec<(u16, u16)> = sets.flat_map(|set| &set.intervals).copied().collect();
        all.sort_unstable();
        let mut intervals: Vec<(u16, u16)> = Vec::new();
        for (low, high) in all {
            match intervals.last_mut() {
                Some((_, end)) if low <= end.saturating_add(1) => *end = high.max(*end),
                _ => intervals.push((low, high)),
            }
        }
        Self { intervals }
    }

    /// Whether the port is in it.
    pub fn contains(&self, port: u16) -> bool {
        let after = self.intervals.partition_point(|&(low, _)| low <= port);
        let found = after.checked_sub(1).and_then(|at| self.intervals.get(at));
        found.is_some_and(|&(_, high)| port <= high)
    }
}

#[cfg(test)]
mod tests {
    use super::PortSet;

    #[test]
    fn sets_are_put_together() {
        let set = |intervals: &[(u16, u16)]| PortSet { intervals: intervals.to_vec() };
        let sets = [set(&[(80, 90), (443, 443)]), set(&[(91, 91), (85, 89)]), set(&[])];
        assert_eq!(PortSet::union(sets.iter()), set(&[(80, 91), (443, 443)]));
        let any = [PortSet::any(), set(&[(1, 1)])];
        assert_eq!(PortSet::union(any.iter()), PortSet::any());
        assert!(!PortSet::union([].iter()).contains(80));
    }
}
