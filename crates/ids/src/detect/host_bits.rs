//! Bits that belong to addresses or to pairs of them: `xbits`, `hostbits`.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex};

use gauntlet_packet::Time;

use super::lock;
use super::threshold::pair;
use crate::rule::matches::{BitCommand, HostBits, Track};

/// The most bits that are set at a time; a further one is not set.
const BITS_MAX: usize = 1_000_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Key {
    bit: u32,
    addresses: [Option<IpAddr>; 2],
}

/// Bits that are set; clones share them.
#[derive(Debug, Clone, Default)]
pub(crate) struct HostBitTable {
    bits: Arc<Mutex<Bits>>,
}

/// Bits with the time at which they end. One that has ended is there until somebody asks for it.
#[derive(Debug, Default)]
struct Bits(HashMap<Key, Time>);

impl HostBitTable {
    /// Tests or changes a bit; whether the rule's condition holds (changes always do).
    pub(crate) fn apply(
        &mut self,
        check: &HostBits,
        now: Time,
        source: Option<IpAddr>,
        destination: Option<IpAddr>,
    ) -> bool {
        let addresses = match check.track {
            Track::Source => [source, None],
            Track::Destination => [destination, None],
            Track::Pair => pair(source, destination),
            // `hostbits` with `both` is read and never holds, as in Suricata.
            _ => return false,
        };
        let key = Key { bit: check.bit, addresses };
        let mut bits = lock(&self.bits);
        match check.command {
            BitCommand::IsSet => return bits.is_set(&key, now),
            BitCommand::IsNotSet => return !bits.is_set(&key, now),
            BitCommand::Set => bits.set(key, now, check.expire_seconds),
            BitCommand::Unset => {
                bits.0.remove(&key);
            }
            BitCommand::Toggle => {
                if bits.0.remove(&key).is_none() {
                    bits.set(key, now, check.expire_seconds);
                }
            }
        }
        true
    }
}

impl Bits {
    fn is_set(&mut self, key: &Key, now: Time) -> bool {
        match self.0.get(key) {
            Some(end) if *end < now => {
                self.0.remove(key);
                false
            }
            Some(_) => true,
            None => false,
        }
    }

    /// Sets a bit that is not there. One that is keeps its end, as in Suricata, also if that has
    /// passed: only who asks for it removes it.
    fn set(&mut self, key: Key, now: Time, seconds: u32) {
        if self.0.len() >= BITS_MAX {
            self.0.retain(|_, end| *end >= now);
        }
        if self.0.len() < BITS_MAX {
            let end = Time { seconds: now.seconds.saturating_add(i64::from(seconds)), ..now };
            self.0.entry(key).or_insert(end);
        }
    }
}
