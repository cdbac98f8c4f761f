//! Times from the node's histograms, in Prometheus' text format.

/// A distribution of durations.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Distribution {
    /// How many were measured.
    pub(crate) count: f64,
    /// Upper bounds in seconds and how many are at most so long, ascending.
    buckets: Vec<(f64, f64)>,
}

impl Distribution {
    /// The histogram of this name (`gauntlet_scan_seconds`); none if there is none.
    pub(crate) fn read(metrics: &str, name: &str) -> Option<Self> {
        let (head, total) = (format!("{name}_bucket{{le=\""), format!("{name}_count "));
        let mut buckets = Vec::new();
        for line in metrics.lines().filter_map(|l| l.strip_prefix(&head)) {
            let (bound, rest) = line.split_once("\"}")?;
            if let (Ok(bound), Ok(count)) = (bound.parse::<f64>(), rest.trim().parse()) {
                buckets.push((bound, count));
            }
        }
        buckets.retain(|(bound, _)| bound.is_finite());
        let count = metrics.lines().find_map(|l| l.strip_prefix(&total)?.trim().parse().ok())?;
        Some(Distribution { count, buckets })
    }

    /// The duration in microseconds that this share (0 to 1) does not exceed, as far as the buckets
    /// allow: within a bucket evenly spread. None without measurements.
    pub(crate) fn quantile_us(&self, share: f64) -> Option<u64> {
        if self.count <= 0.0 {
            return None;
        }
        let wanted = share * self.count;
        let (mut low, mut below) = (0.0, 0.0);
        for &(bound, upto) in &self.buckets {
            if upto >= wanted && upto > below {
                let at = low + (bound - low) * (wanted - below) / (upto - below);
                return Some((at * 1e6) as u64);
            }
            (low, below) = (bound, upto);
        }
        // Longer than the last bound: at least that.
        Some((low * 1e6) as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_come_from_buckets() {
        let text = "gauntlet_a_seconds_bucket{le=\"0.001\"} 50\n\
                    gauntlet_a_seconds_bucket{le=\"0.01\"} 90\n\
                    gauntlet_a_seconds_bucket{le=\"+Inf\"} 100\ngauntlet_a_seconds_count 100\n";
        let found = Distribution::read(text, "gauntlet_a_seconds").unwrap();
        assert_eq!(found.quantile_us(0.5), Some(1_000));
        assert_eq!(found.quantile_us(0.9), Some(10_000));
        assert_eq!(found.quantile_us(0.99), Some(10_000));
        assert_eq!(Distribution::read(text, "gauntlet_b_seconds"), None);
        let none = "gauntlet_c_seconds_count 0\n";
        assert_eq!(Distribution::read(none, "gauntlet_c_seconds").unwrap().quantile_us(0.5), None);
    }
}
