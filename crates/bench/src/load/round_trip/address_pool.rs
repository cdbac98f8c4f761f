//! Who writes to whom: users of three domains a side, most messages to one, some to many.

use gauntlet_engine::random::Random;

/// Recipients of a message at most.
const RECIPIENTS_MAX: u64 = 32;
/// Messages of a thousand that have one recipient.
const SINGLE: u64 = 940;

/// Names and domains that senders and recipients are made of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AddressPool {
    /// Senders' domains are `1.` to `3.` of this.
    pub from_domain: String,
    /// Recipients' domains are `1.` to `3.` of this.
    pub to_domain: String,
    /// Names in each domain: `user1` and on.
    pub names: u64,
    /// Domains of senders, and as many of recipients.
    pub domains: u64,
    /// Where the pseudo-random choice begins.
    pub seed: u64,
}

impl Default for AddressPool {
    /// 60,000 users a side in three domains.
    fn default() -> Self {
        AddressPool {
            from_domain: "sender.example".to_owned(),
            to_domain: "recipient.example".to_owned(),
            names: 20_000,
            domains: 3,
            seed: 1,
        }
    }
}

/// A number below `limit`, evenly enough: limits are far below 2^64.
fn below(random: &mut Random, limit: u64) -> u64 {
    random.next_u64() % limit.max(1)
}

impl AddressPool {
    /// Sender and recipients of a message: always the same for the same seed, instance and number.
    pub(super) fn envelope(&self, instance: usize, sequence: u64) -> (String, Vec<String>) {
        let mut random = Random::new(self.seed ^ ((instance as u64) << 48) ^ sequence);
        let mut user = |domain: &str| {
            let (name, number) =
                (below(&mut random, self.names) + 1, below(&mut random, self.domains) + 1);
            format!("user{name}@{number}.{domain}")
        };
        let from = user(&self.from_domain);
        let mut to = vec![user(&self.to_domain)];
        let count = recipients(&mut random);
        while (to.len() as u64) < count {
            let (name, number) =
                (below(&mut random, self.names) + 1, below(&mut random, self.domains) + 1);
            let next = format!("user{name}@{number}.{}", self.to_domain);
            // With few users the same one may be drawn for ever.
            if to.contains(&next) && self.names * self.domains > RECIPIENTS_MAX * 2 {
                continue;
            }
            if to.contains(&next) {
                break;
            }
            to.push(next);
        }
        (from, to)
    }
}

/// 94 % one; of the rest half two, a quarter three, and so on, the tail evenly up to 32.
fn recipients(random: &mut Random) -> u64 {
    if below(random, 1_000) < SINGLE {
        return 1;
    }
    let mut count = 2;
    while count < 6 && below(random, 2) == 0 {
        count += 1;
    }
    if count < 6 { count } else { 6 + below(random, RECIPIENTS_MAX - 5) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn most_have_one_recipient_some_have_32() {
        let people = AddressPool::default();
        let mut counts = [0_u32; 33];
        let mut senders = std::collections::BTreeSet::new();
        for sequence in 0..100_000 {
            let (from, to) = people.envelope(sequence as usize % 6, sequence);
            counts[to.len()] += 1;
            senders.insert(from);
            let mut once = to.clone();
            once.sort();
            once.dedup();
            assert_eq!(once.len(), to.len(), "each once: {to:?}");
        }
        assert!((93_500..94_500).contains(&counts[1]), "{counts:?}");
        assert!(counts[32] > 0 && counts[2] > counts[3] && counts[3] > counts[4], "{counts:?}");
        assert!(senders.len() > 45_000, "{} of 60,000 senders", senders.len());
        assert_eq!(people.envelope(1, 2), people.envelope(1, 2));
    }

    #[test]
    fn a_handful_of_people_will_do() {
        let few = AddressPool { names: 1, domains: 1, ..AddressPool::default() };
        for sequence in 0..1_000 {
            assert_eq!(few.envelope(0, sequence).1.len(), 1);
        }
    }
}
