//! What the processors took from the mains, as they count it themselves (RAPL, by Linux' powercap).
//! Machines without counters, virtual ones above all, have an unknown figure, not an estimated one.

use std::path::{Path, PathBuf};

use serde::Serialize;

/// Where Linux shows the counters.
pub const POWERCAP: &str = "/sys/class/powercap";
/// Hours of a year.
const HOURS_PER_YEAR: f64 = 8_766.0;

/// Counters of all packages.
#[derive(Debug, Clone)]
pub struct Counters {
    packages: Vec<(PathBuf, f64, Option<f64>)>,
}

/// Energy of a run.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Energy {
    /// Joules of all processor packages; not of disks, fans, power supplies.
    pub joules: f64,
    /// Watts, the mean over the run.
    pub watts: f64,
    /// Kilowatt hours of a year at that load.
    pub kwh_per_year: f64,
}

impl Energy {
    /// Cost of a year at this price of a kilowatt hour.
    pub fn yearly_cost(&self, price_per_kwh: f64) -> f64 {
        self.kwh_per_year * price_per_kwh
    }
}

fn number(path: &Path) -> Option<f64> {
    std::fs::read_to_string(path).ok()?.trim().parse().ok()
}

/// Why energy cannot be measured.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoCounters {
    /// The kernel has no such folder.
    #[error("this machine shows no counters ({} is missing)", .0.display())]
    Missing(PathBuf),
    /// No package in the folder has a counter.
    #[error("this machine shows no counters in {}", .0.display())]
    Empty(PathBuf),
    /// They are readable by root only.
    #[error("the counters may be read by root only")]
    Denied,
}

impl Counters {
    /// Reads the counters below a folder.
    ///
    /// # Errors
    /// The machine has no counters, or this user must not read them.
    pub fn read(folder: &Path) -> Result<Self, NoCounters> {
        let entries =
            std::fs::read_dir(folder).map_err(|_| NoCounters::Missing(folder.to_owned()))?;
        let mut packages = Vec::new();
        let mut kept_from_us = false;
        for entry in entries.flatten() {
            let path = entry.path();
            let name = std::fs::read_to_string(path.join("name")).unwrap_or_default();
            if !name.starts_with("package") {
                continue;
            }
            match number(&path.join("energy_uj")) {
                Some(value) => {
                    let range = number(&path.join("max_energy_range_uj"));
                    packages.push((path, value, range));
                }
                None => kept_from_us = true,
            }
        }
        if packages.is_empty() {
            return Err(match kept_from_us {
                true => NoCounters::Denied,
                false => NoCounters::Empty(folder.to_owned()),
            });
        }
        Ok(Counters { packages })
    }

    /// What was used since; none if a counter is gone.
    pub fn since(&self, seconds: f64) -> Option<Energy> {
        let mut joules = 0.0;
        for (path, before, range) in &self.packages {
            let mut used = number(&path.join("energy_uj"))? - before;
            if used < 0.0 {
                // It has begun again from 0.
                used += (*range)?;
            }
            joules += used / 1e6;
        }
        let watts = joules / seconds;
        Some(Energy { joules, watts, kwh_per_year: watts * HOURS_PER_YEAR / 1e3 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_read_and_run_over() {
        let folder = tempfile::tempdir().unwrap();
        assert!(Counters::read(folder.path()).unwrap_err().to_string().contains("no counters"));
        for (number, value) in [(0, "4000000"), (1, "9500000")] {
            let package = folder.path().join(format!("intel-rapl:{number}"));
            std::fs::create_dir(&package).unwrap();
            std::fs::write(package.join("name"), format!("package-{number}\n")).unwrap();
            std::fs::write(package.join("energy_uj"), value).unwrap();
            std::fs::write(package.join("max_energy_range_uj"), "10000000").unwrap();
        }
        let core = folder.path().join("intel-rapl:0:0");
        std::fs::create_dir(&core).unwrap();
        std::fs::write(core.join("name"), "core").unwrap();
        let counters = Counters::read(folder.path()).unwrap();
        std::fs::write(folder.path().join("intel-rapl:0/energy_uj"), "104000000").unwrap();
        std::fs::write(folder.path().join("intel-rapl:1/energy_uj"), "9500000").unwrap();
        let energy = counters.since(2.0).unwrap();
        assert_eq!((energy.joules, energy.watts), (100.0, 50.0));
        // 50 W are 438.3 kWh a year; at 0.30 that costs 131.49.
        assert!((energy.kwh_per_year - 438.3).abs() < 1e-9);
        assert!((energy.yearly_cost(0.3) - 131.49).abs() < 1e-9);
        std::fs::write(folder.path().join("intel-rapl:0/energy_uj"), "4000000").unwrap();
        std::fs::write(folder.path().join("intel-rapl:1/energy_uj"), "500000").unwrap();
        assert!((counters.since(1.0).unwrap().joules - 1.0).abs() < 1e-9, "it ran over");
        assert!(Counters::read(Path::new("/nowhere")).unwrap_err().to_string().contains("missing"));
    }
}
