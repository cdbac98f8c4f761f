//! Which CPUs this process may use, and which of them share a core or a socket (Linux: `/sys`).

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use serde::Serialize;

/// Where Linux describes its CPUs.
pub const SYSTEM: &str = "/sys/devices/system/cpu";
/// CPUs with their cores and sockets.
const CPUS_MAX: usize = 1_024;

/// A CPU: a hardware thread of a core of a socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Cpu {
    /// Number of the CPU in Linux.
    pub number: usize,
    /// Its core, within the socket.
    pub core: i64,
    /// Physical package; 0 if it is not known.
    pub socket: i64,
}

/// CPUs by socket and core.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Topology {
    /// All CPUs in the order of their numbers.
    pub cpus: Vec<Cpu>,
}

/// Some CPUs, and how they lie to each other.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CpuSet {
    /// `one CPU`, `2 threads of one core`, `2 cores of one socket`, `2 sockets`.
    pub name: String,
    /// Numbers of the CPUs, as the system counts them.
    pub cpus: Vec<usize>,
}

/// Why a machine cannot place so many threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TooFew {
    /// Threads of one core.
    #[error("no core here has {count} threads (the most is {most})")]
    Threads {
        /// Threads that were wanted.
        count: usize,
        /// Those of the core that has most.
        most: usize,
    },
    /// Cores of one socket.
    #[error("no socket here has {count} cores (the most is {most})")]
    Cores {
        /// Cores that were wanted.
        count: usize,
        /// Those of the socket that has most.
        most: usize,
    },
    /// Sockets of the machine.
    #[error("there are not {count} sockets here but {found}")]
    Sockets {
        /// Sockets that were wanted.
        count: usize,
        /// Those of the machine.
        found: usize,
    },
}

impl Topology {
    /// Of this machine: CPUs that this process may use.
    ///
    /// # Errors
    /// If the system does not report them.
    pub fn here() -> anyhow::Result<Self> {
        Ok(Self::read(Path::new(SYSTEM), &allowed()?))
    }

    /// Of these CPUs, as a folder describes them. A CPU that it does not place is a core of its own
    /// on the first socket.
    pub fn read(system: &Path, numbers: &[usize]) -> Self {
        let sysfs_number = |cpu: usize, file: &str| -> Option<i64> {
            let path = system.join(format!("cpu{cpu}/topology/{file}"));
            std::fs::read_to_string(path).ok()?.trim().parse().ok().filter(|n| *n >= 0)
        };
        let cpu = |&number: &usize| Cpu {
            number,
            core: sysfs_number(number, "core_id").unwrap_or(number as i64),
            socket: sysfs_number(number, "physical_package_id").unwrap_or(0),
        };
        Topology { cpus: numbers.iter().map(cpu).collect() }
    }

    /// Numbers of all CPUs.
    pub fn numbers(&self) -> Vec<usize> {
        self.cpus.iter().map(|cpu| cpu.number).collect()
    }

    /// CPUs of each core of each socket.
    fn cores(&self) -> BTreeMap<(i64, i64), Vec<usize>> {
        let mut cores: BTreeMap<_, Vec<usize>> = BTreeMap::new();
        for cpu in &self.cpus {
            cores.entry((cpu.socket, cpu.core)).or_default().push(cpu.number);
        }
        cores
    }

    /// So many CPUs of one core.
    ///
    /// # Errors
    /// No core has so many.
    pub fn same_core(&self, count: usize) -> Result<CpuSet, TooFew> {
        let cores = self.cores();
        let found = cores.values().find(|cpus| cpus.len() >= count);
        match found {
            Some(cpus) => Ok(place(format!("{count} threads of one core"), cpus, count)),
            None => {
                let most = cores.values().map(Vec::len).max().unwrap_or(0);
                Err(TooFew::Threads { count, most })
            }
        }
    }

    /// So many cores of one socket, one CPU each.
    ///
    /// # Errors
    /// No socket has so many.
    pub fn other_cores(&self, count: usize) -> Result<CpuSet, TooFew> {
        let mut sockets: BTreeMap<i64, Vec<usize>> = BTreeMap::new();
        for ((socket, _), cpus) in self.cores() {
            sockets.entry(socket).or_default().extend(cpus.first());
        }
        match sockets.values().find(|cpus| cpus.len() >= count) {
            Some(cpus) => Ok(place(format!("{count} cores of one socket"), cpus, count)),
            None => {
                let most = sockets.values().map(Vec::len).max().unwrap_or(0);
                Err(TooFew::Cores { count, most })
            }
        }
    }

    /// So many CPUs, each of another socket.
    ///
    /// # Errors
    /// The machine has fewer sockets.
    pub fn other_sockets(&self, count: usize) -> Result<CpuSet, TooFew> {
        let mut sockets: BTreeMap<i64, usize> = BTreeMap::new();
        for cpu in &self.cpus {
            sockets.entry(cpu.socket).or_insert(cpu.number);
        }
        if sockets.len() < count {
            return Err(TooFew::Sockets { count, found: sockets.len() });
        }
        let cpus: Vec<usize> = sockets.into_values().collect();
        Ok(place(format!("{count} sockets"), &cpus, count))
    }

    /// `2 CPUs: 2 cores of 1 thread on 1 socket`.
    pub fn describe(&self) -> String {
        let cores = self.cores();
        let threads = cores.values().map(Vec::len).max().unwrap_or(0);
        let sockets: std::collections::BTreeSet<i64> = cores.keys().map(|k| k.0).collect();
        format!(
            "{} CPUs: {} cores with up to {threads} threads, sockets: {}",
            self.cpus.len(),
            cores.len(),
            sockets.len()
        )
    }
}

fn place(name: String, cpus: &[usize], count: usize) -> CpuSet {
    CpuSet { name, cpus: cpus.iter().copied().take(count).collect() }
}

/// CPUs that this process may use.
fn allowed() -> anyhow::Result<Vec<usize>> {
    // SAFETY: all bit patterns are valid for this plain C struct.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    let size = std::mem::size_of::<libc::cpu_set_t>();
    // SAFETY: the call writes `size` bytes to `set` at most, which is that large.
    if unsafe { libc::sched_getaffinity(0, size, &raw mut set) } != 0 {
        return Err(io::Error::last_os_error().into());
    }
    // SAFETY: the macro reads a bit of `set`; the numbers are below its size in bits.
    Ok((0..CPUS_MAX).filter(|cpu| unsafe { libc::CPU_ISSET(*cpu, &set) }).collect())
}

/// Lets the calling thread (and what it starts) run on these CPUs alone. Allocates nothing.
///
/// # Errors
/// If none of them exists or may be used.
pub fn run_on(cpus: &[usize]) -> io::Result<()> {
    // SAFETY: all bit patterns are valid for this plain C struct.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    for cpu in cpus.iter().filter(|cpu| **cpu < CPUS_MAX) {
        // SAFETY: the macro sets a bit of `set`; the number is below its size in bits.
        unsafe { libc::CPU_SET(*cpu, &mut set) };
    }
    // SAFETY: the call reads `size` bytes of `set`, which is that large.
    let done = unsafe { libc::sched_setaffinity(0, std::mem::size_of_val(&set), &raw const set) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two sockets of two cores of two threads; threads of a core are 4 apart.
    fn eight() -> (tempfile::TempDir, Topology) {
        let folder = tempfile::tempdir().unwrap();
        for cpu in 0..8 {
            let topology = folder.path().join(format!("cpu{cpu}/topology"));
            std::fs::create_dir_all(&topology).unwrap();
            std::fs::write(topology.join("core_id"), format!("{}\n", cpu % 2)).unwrap();
            let socket = format!("{}\n", cpu % 4 / 2);
            std::fs::write(topology.join("physical_package_id"), socket).unwrap();
        }
        let topology = Topology::read(folder.path(), &[0, 1, 2, 3, 4, 5, 6, 7]);
        (folder, topology)
    }

    #[test]
    fn places_are_found_where_they_are() {
        let (_folder, topology) = eight();
        assert_eq!(topology.same_core(2).unwrap().cpus, [0, 4]);
        assert_eq!(topology.other_cores(2).unwrap().cpus, [0, 1]);
        assert_eq!(topology.other_sockets(2).unwrap().cpus, [0, 2]);
        assert!(topology.same_core(3).unwrap_err().to_string().contains("the most is 2"));
        assert!(topology.other_cores(3).unwrap_err().to_string().contains("the most is 2"));
        assert!(topology.other_sockets(3).unwrap_err().to_string().contains("but 2"));
        assert_eq!(topology.describe(), "8 CPUs: 4 cores with up to 2 threads, sockets: 2");
    }

    #[test]
    fn a_machine_without_topology_has_one_thread_a_core() {
        let topology = Topology::read(Path::new("/nowhere"), &[0, 1]);
        assert!(topology.same_core(2).is_err() && topology.other_sockets(2).is_err());
        assert_eq!(topology.other_cores(2).unwrap().cpus, [0, 1]);
    }

    #[test]
    fn threads_run_where_they_are_pinned() {
        let topology = Topology::here().unwrap();
        let one = topology.numbers()[0];
        let sysfs_number = std::thread::spawn(move || {
            run_on(&[one]).unwrap();
            allowed().unwrap()
        });
        assert_eq!(sysfs_number.join().unwrap(), [one]);
        assert!(run_on(&[]).is_err());
    }
}
