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

/// Bits with the second in which they end.
#[derive(Debug, Default)]
struct Bits(HashMap<Key, i64>);

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
        let is_set = bits.is_set(&key, now);
        match check.command {
            BitCommand::IsSet => return is_set,
            BitCommand::IsNotSet => return !is_set,
            BitCommand::Set => bits.set(key, now, check.expire_seconds),
            BitCommand::Unset => {
                bits.0.remove(&key);
            }
            BitCommand::Toggle if is_set => {
                bits.0.remove(&key);
            }
            BitCommand::Toggle => bits.set(key, now, check.expire_seconds),
        }
        true
    }
}

impl Bits {
    fn is_set(&mut self, key: &Key, now: Time) -> bool {
        match self.0.get(key) {
            Some(end) if *end < now.seconds => {
                self.0.remove(key);
                false
            }
            Some(_) => true,
            None => false,
        }
    }

    fn set(&mut self, key: Key, now: Time, seconds: u32) {
        if self.0.len() >= BITS_MAX {
            self.0.retain(|_, end| *end >= now.seconds);
        }
        if self.0.len() < BITS_MAX || self.0.contains_key(&key) {
            self.0.insert(key, now.seconds + i64::from(seconds));
        }
    }
}
