//! Senders of what is dropped, on their way into a set of the kernel's firewall.
//!
//! ```text
//! thread: a chosen rule drops -> queue -> worker's main thread -> supervisor -> nftables set
//! ```
//!
//! The supervisor, which has the right, adds them: bounded in a second and in all, for a while
//! each, and takes nothing out.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::{IpAddr, Ipv6Addr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::bail;
use gauntlet_mail::Network;
use gauntlet_netio::{BlockSet, Error, SetVersion};

/// Addresses that wait for the worker's main thread at most; more are lost, and counted.
const WAITING_MAX: usize = 1_024;
/// The same of one message to the supervisor.
pub(super) const MESSAGE_MAX: usize = 64;
/// Length of an entry in a message: both addresses, of IPv4 as they are mapped into IPv6.
pub(super) const ENTRY_LEN: usize = 32;

/// Sender and receiver.
pub(super) type Ends = (IpAddr, IpAddr);

/// Options of sets.
#[derive(Debug, Clone, clap::Args)]
pub(super) struct BlockArgs {
    /// Add senders of drops to this set of nftables, as nft names it: `inet filter blocked`
    #[arg(long, value_name = "SET")]
    nft_set: Option<String>,
    /// The same for IPv6
    #[arg(long, value_name = "SET")]
    nft_set_v6: Option<String>,
    /// Of drops by this rule (SID or GID:SID; `*`: by any); may be repeated. Those of rules for
    /// packets with `block_source` are added whatever this says
    #[arg(long, value_name = "RULE", value_parser = chosen)]
    nft_on: Vec<Chosen>,
    /// How long they stay, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 600,
        value_parser = clap::value_parser!(u32).range(1..=2_592_000))]
    nft_timeout: u32,
    /// Addresses that are added in a second at most
    #[arg(long, value_name = "N", default_value_t = 100,
        value_parser = clap::value_parser!(u32).range(1..=10_000))]
    nft_rate: u32,
    /// Addresses of ours that are in both sets at a time, at most
    #[arg(long, value_name = "N", default_value_t = 10_000,
        value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    nft_max: u32,
    /// Never add an address of this network; may be repeated
    #[arg(long, value_name = "NETWORK")]
    nft_never: Vec<Network>,
}

/// Rules whose drops count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Chosen {
    All,
    /// Number of the group and of the rule.
    One(u32, u32),
}

fn chosen(text: &str) -> Result<Chosen, String> {
    if text == "*" {
        return Ok(Chosen::All);
    }
    let (gid, sid) = text.split_once(':').unwrap_or(("1", text));
    match (gid.parse(), sid.parse()) {
        (Ok(gid), Ok(sid)) => Ok(Chosen::One(gid, sid)),
        _ => Err(format!("{text:?} is no rule; write SID, GID:SID or *")),
    }
}

impl BlockArgs {
    /// Whether there is a set.
    pub(super) fn is_given(&self) -> bool {
        self.nft_set.is_some() || self.nft_set_v6.is_some()
    }

    /// Opens the sets.
    ///
    /// # Errors
    /// If they cannot take addresses, or nothing is dropped.
    pub(super) fn open(&self, is_inline: bool) -> anyhow::Result<Option<Blocker>> {
        if !self.is_given() {
            if !self.nft_on.is_empty() {
                bail!("--nft-on has no effect without --nft-set or --nft-set-v6");
            }
            return Ok(None);
        }
        if !is_inline {
            bail!("--nft-set needs --copy-interface or --queue: nothing is dropped without");
        }
        let open = |set: &Option<String>, version| -> Result<Option<BlockSet>, Error> {
            set.as_deref().map(|set| BlockSet::open(set, version)).transpose()
        };
        let (v4, v6) =
            (open(&self.nft_set, SetVersion::V4)?, open(&self.nft_set_v6, SetVersion::V6)?);
        Ok(Some(Blocker {
            sets: v4.into_iter().chain(v6).collect(),
            time: Duration::from_secs(self.nft_timeout.into()),
            rate: self.nft_rate,
            most: self.nft_max as usize,
            added: BTreeMap::new(),
            second: (Instant::now(), 0),
            has_told: false,
        }))
    }

    /// What threads hand over.
    pub(super) fn blocks(&self) -> Blocks {
        Blocks {
            is_on: self.is_given(),
            takes_all: self.nft_on.contains(&Chosen::All),
            rules: self
                .nft_on
                .iter()
                .filter_map(|it| match it {
                    Chosen::One(gid, sid) => Some((*gid, *sid)),
                    Chosen::All => None,
                })
                .collect(),
            never: self.nft_never.clone(),
            waiting: Mutex::default(),
            handed: AtomicU64::new(0),
            lost: AtomicU64::new(0),
        }
    }
}

/// Senders of drops that wait to be handed over.
#[derive(Debug)]
pub(super) struct Blocks {
    is_on: bool,
    takes_all: bool,
    rules: BTreeSet<(u32, u32)>,
    never: Vec<Network>,
    waiting: Mutex<VecDeque<Ends>>,
    handed: AtomicU64,
    lost: AtomicU64,
}

impl Blocks {
    /// A rule of Suricata's language has dropped a packet.
    pub(super) fn dropped_by_rule(&self, (gid, sid): (u32, u32), ends: Option<Ends>) {
        if self.is_on && (self.takes_all || self.rules.contains(&(gid, sid))) {
            self.add(ends);
        }
    }

    /// A rule for packets with `block_source` has refused one.
    pub(super) fn add(&self, ends: Option<Ends>) {
        let Some((source, destination)) = ends.filter(|_| self.is_on) else { return };
        if self.never.iter().any(|network| network.contains(source)) {
            return;
        }
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let ends = (source, destination);
        if waiting.contains(&ends) {
            return;
        }
        let has_room = waiting.len() < WAITING_MAX;
        if has_room {
            waiting.push_back(ends);
        }
        drop(waiting);
        let counter = if has_room { &self.handed } else { &self.lost };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    /// Those that wait, as messages to the supervisor have them; none of them waits then.
    pub(super) fn take(&self) -> Vec<u8> {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let count = waiting.len().min(MESSAGE_MAX);
        waiting.drain(..count).flat_map(entry).collect()
    }

    /// Handed over, and lost for want of room.
    pub(super) fn counted(&self) -> (u64, u64) {
        (self.handed.load(Ordering::Relaxed), self.lost.load(Ordering::Relaxed))
    }
}

fn entry((source, destination): Ends) -> Vec<u8> {
    let octets = |address| match address {
        IpAddr::V4(address) => address.to_ipv6_mapped().octets(),
        IpAddr::V6(address) => address.octets(),
    };
    [octets(source), octets(destination)].concat()
}

/// Reads an entry of a message.
pub(super) fn ends(entry: &[u8; ENTRY_LEN]) -> Ends {
    let (source, destination) = entry.split_at(ENTRY_LEN / 2);
    let address = |bytes: &[u8]| {
        let octets: [u8; 16] = bytes.try_into().unwrap_or_default();
        Ipv6Addr::from(octets).to_canonical()
    };
    (address(source), address(destination))
}

/// Adds addresses to sets, in the supervisor.
#[derive(Debug)]
pub(super) struct Blocker {
    sets: Vec<BlockSet>,
    time: Duration,
    rate: u32,
    most: usize,
    /// When what was added is gone again.
    added: BTreeMap<Ends, Instant>,
    /// Since when this second lasts, and what was added in it.
    second: (Instant, u32),
    has_told: bool,
}

impl Blocker {
    /// Adds what may be added now.
    pub(super) fn add(&mut self, all: &[Ends]) {
        let now = Instant::now();
        if now.duration_since(self.second.0) >= Duration::from_secs(1) {
            self.second = (now, 0);
        }
        if self.added.len() >= self.most {
            self.added.retain(|_, gone| *gone > now);
        }
        let mut taken = Vec::new();
        for ends in all {
            let is_there = self.added.get(ends).is_some_and(|gone| *gone > now);
            let has_room = self.second.1 < self.rate && self.added.len() < self.most;
            if !is_there && has_room {
                self.second.1 += 1;
                self.added.insert(*ends, now + self.time);
                taken.push(*ends);
            }
        }
        if taken.is_empty() {
            return;
        }
        for set in &self.sets {
            if let Err(error) = set.add(&taken, self.time)
                && !std::mem::replace(&mut self.has_told, true)
            {
                eprintln!("gauntlet: an nftables set does not take addresses: {error}");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_read_back() {
        for ends_of in [("192.0.2.1", "192.0.2.2"), ("2001:db8::1", "2001:db8::2")] {
            let both: Ends = (ends_of.0.parse().unwrap(), ends_of.1.parse().unwrap());
            assert_eq!(ends(&entry(both).try_into().unwrap()), both);
        }
        assert_eq!(chosen("7"), Ok(Chosen::One(1, 7)));
        assert_eq!(chosen("2:7"), Ok(Chosen::One(2, 7)));
        assert_eq!(chosen("*"), Ok(Chosen::All));
        assert!(chosen("x").is_err());
    }

    #[test]
    fn what_is_added_is_bounded() {
        let mut blocker = Blocker {
            sets: Vec::new(),
            time: Duration::from_secs(600),
            rate: 3,
            most: 4,
            added: BTreeMap::new(),
            second: (Instant::now(), 0),
            has_told: false,
        };
        let all: Vec<Ends> = (0..9)
            .map(|last| (IpAddr::from([192, 0, 2, last]), IpAddr::from([192, 0, 2, 200])))
            .collect();
        blocker.add(&all[..2]);
        blocker.add(&all);
        assert_eq!(blocker.added.len(), 3, "in a second");
        blocker.second.1 = 0;
        blocker.add(&all);
        assert_eq!(blocker.added.len(), 4, "in all");
        // What is gone by its time makes room.
        for gone in blocker.added.values_mut() {
            *gone = Instant::now();
        }
        blocker.second.1 = 0;
        blocker.add(&all[5..]);
        assert_eq!(blocker.added.len(), 3);
    }
}
