//! Which CPUs threads run on: the processor set of a packet path.

use anyhow::{Context, bail};
use gauntlet_bench::topology::run_on;
use gauntlet_ids::config::Settings;

/// Highest number of a CPU.
const CPU_MAX: usize = 4_095;
/// The set of threads that inspect, in suricata.yaml.
const WORKERS: &str = "worker-cpu-set";

/// CPUs of the threads that inspect.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Cpus {
    numbers: Vec<usize>,
    /// Each thread has one of them; else all share all.
    is_exclusive: bool,
}

impl Cpus {
    /// Those of `--cpus`, else those of the settings; none: threads run anywhere.
    ///
    /// # Errors
    /// If they cannot be read.
    pub(super) fn read(given: Option<&str>, settings: &Settings) -> anyhow::Result<Self> {
        if let Some(list) = given {
            let numbers = parse(list).with_context(|| format!("--cpus {list:?}"))?;
            return Ok(Self { numbers, is_exclusive: true });
        }
        if !settings.get("threading.set-cpu-affinity").is_some_and(is_yes) {
            return Ok(Self::default());
        }
        // A list of sets, or sets by name, as Suricata 8 writes them.
        let lists = (0..).map(|n| format!("threading.cpu-affinity.{n}"));
        let lists = lists.take_while(|key| !settings.below(key).is_empty());
        let mut places = lists.chain(["threading.cpu-affinity".to_owned()]);
        let key = places.find_map(|place| {
            let key = format!("{place}.{WORKERS}");
            (!settings.below(&key).is_empty()).then_some(key)
        });
        let Some(key) = key else { return Ok(Self::default()) };
        let list = settings.list(&format!("{key}.cpu")).join(",");
        if list.is_empty() || list == "all" {
            return Ok(Self::default());
        }
        let numbers = parse(&list).with_context(|| format!("{key}.cpu: {list:?}"))?;
        let is_exclusive = settings.get(&format!("{key}.mode")) == Some("exclusive");
        Ok(Self { numbers, is_exclusive })
    }

    /// Keeps the calling thread, the one of this number, to its CPUs.
    ///
    /// # Errors
    /// If a CPU does not exist or may not be used.
    pub(super) fn pin(&self, thread: usize) -> std::io::Result<()> {
        let own = self.numbers.get(thread % self.numbers.len().max(1)).copied();
        let (pinned, name) = match (own, self.is_exclusive) {
            (None, _) => return Ok(()),
            (Some(own), true) => (run_on(&[own]), format!("CPU {own}")),
            (Some(_), false) => (run_on(&self.numbers), format!("CPUs {:?}", self.numbers)),
        };
        let told = |error| {
            let why = format!("{name} cannot be used (nproc and lscpu say which can): {error}");
            std::io::Error::other(why)
        };
        pinned.map_err(told)
    }

    /// Whether so many threads can be kept to their CPUs.
    ///
    /// # Errors
    /// If one cannot.
    pub(super) fn check(&self, threads: usize) -> std::io::Result<()> {
        let try_all = || (0..threads).try_for_each(|thread| self.pin(thread));
        // In a thread of its own: this one stays where it is.
        std::thread::scope(|scope| scope.spawn(try_all).join())
            .unwrap_or_else(|_| Err(std::io::Error::other("a thread failed")))
    }
}

fn is_yes(value: &str) -> bool {
    matches!(value.trim(), "yes" | "true" | "on" | "1")
}

/// `0-3,8`: numbers and ranges.
fn parse(list: &str) -> anyhow::Result<Vec<usize>> {
    let mut numbers = Vec::new();
    for part in list.split(',').map(str::trim) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let number = |text: &str| {
            let number = text.trim().parse::<usize>();
            number.map_err(|_| anyhow::anyhow!("{text:?} is no number of a CPU"))
        };
        let (first, last) = (number(first)?, number(last)?);
        if first > last || last > CPU_MAX {
            bail!("{part:?} is no range of CPUs from 0 to {CPU_MAX}");
        }
        numbers.extend(first..=last);
    }
    Ok(numbers)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(pairs: &[&str]) -> Settings {
        let mut settings = Settings::stock();
        pairs.iter().for_each(|pair| settings.assign(pair).unwrap());
        settings
    }

    #[test]
    fn cpus_come_from_the_option_or_the_settings() {
        let read = |pairs: &[&str]| Cpus::read(None, &settings(pairs)).unwrap();
        let cpus = |numbers: &[usize], is_exclusive| Cpus { numbers: numbers.into(), is_exclusive };
        assert_eq!(Cpus::read(Some("0-2,5"), &settings(&[])).unwrap(), cpus(&[0, 1, 2, 5], true));
        let on = "threading.set-cpu-affinity=yes";
        let set = "threading.cpu-affinity.2.worker-cpu-set";
        let others = [
            "threading.cpu-affinity.0.management-cpu-set.cpu.0=0",
            "threading.cpu-affinity.1.receive-cpu-set.cpu.0=0",
        ];
        let pair = |key: &str, value: &str| format!("{set}.{key}={value}");
        let (cpu, mode) = (pair("cpu.0", "1-2"), pair("mode", "exclusive"));
        assert_eq!(read(&[on, others[0], others[1], &cpu, &mode]), cpus(&[1, 2], true));
        assert_eq!(read(&[on, others[0], others[1], &cpu]), cpus(&[1, 2], false));
        assert_eq!(read(&[on, others[0], others[1], &pair("cpu.0", "all")]), Cpus::default());
        assert_eq!(read(&[others[0], others[1], &cpu, &mode]), Cpus::default());
        let named = "threading.cpu-affinity.worker-cpu-set.cpu=[ 0, 3 ]";
        assert_eq!(read(&[on, named]), cpus(&[0, 3], false));
    }

    #[test]
    fn what_is_no_cpu_is_told() {
        for bad in ["", "x", "3-1", "0,,1", "-1", "99999"] {
            let error = Cpus::read(Some(bad), &settings(&[])).unwrap_err();
            assert!(format!("{error:#}").contains("CPU"), "{bad}: {error:#}");
        }
        let missing = Cpus { numbers: vec![CPU_MAX], is_exclusive: true };
        let said = missing.check(2).unwrap_err().to_string();
        assert!(said.starts_with("CPU 4095 cannot be used"), "{said}");
        assert!(Cpus::default().pin(3).is_ok());
    }
}
