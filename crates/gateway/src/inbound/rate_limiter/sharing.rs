//! Rates as the nodes of an array share them: sums of what each counted.
//!
//! Counts are in memory here as they are on a node that is alone; what other nodes sent in the last
//! hours is read again at a start. A key is told from its third count in a window on
//! (`SHARED_FROM`). So with N nodes and the database there, a limit may be passed by what comes
//! within the time of an exchange, and by two for each other node; while they are cut off from each
//! other, each node lets through what the limit says: N times that together.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use gauntlet_store::sharing::{
    BatchReader, Cursors, Incoming, Outgoing, SharedKind, SharedPart, SharingError, put_number,
};

use super::RateLimiter;
use crate::inbound::rates::{SharedCount, Window};

/// Version of the batches' format.
const VERSION: u8 = 1;
/// Counts of each window in a batch.
const COUNTS_MAX: usize = 2_000;
/// Bytes of a name.
const NAME_BYTES: usize = 8;
/// Windows that are shared: connections, messages, and what policies ask for. What traps take is a
/// limit for the node's own sake.
const WINDOWS: usize = 3;

/// The counts of a batch, by window.
type Counts = [Vec<SharedCount>; WINDOWS];

#[derive(Debug, Default)]
struct Shared {
    epoch: String,
    cursors: Cursors,
    pending: Counts,
}

/// The rates of a node, to be shared.
#[derive(Debug)]
pub struct SharedRates {
    limiter: Arc<RateLimiter>,
    shared: Mutex<Shared>,
}

impl SharedRates {
    /// Those of this limiter.
    pub fn new(limiter: Arc<RateLimiter>) -> Self {
        SharedRates { limiter, shared: Mutex::default() }
    }

    fn windows(&self) -> [&Window; WINDOWS] {
        [&self.limiter.connections, &self.limiter.messages, &self.limiter.policy]
    }

    fn shared(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SharedPart for SharedRates {
    fn kind(&self) -> SharedKind {
        SharedKind::Rates
    }

    fn begin(&self, epoch: &str) -> Result<Cursors, SharingError> {
        let mut shared = self.shared();
        if shared.epoch != epoch {
            self.windows().iter().for_each(|window| window.forget_elsewhere());
            *shared = Shared { epoch: epoch.to_owned(), ..Shared::default() };
        }
        self.windows().iter().for_each(|window| window.share());
        Ok(shared.cursors.clone())
    }

    fn collect(&self) -> Result<Option<Outgoing>, SharingError> {
        let counts = self.windows().map(|window| window.untold(COUNTS_MAX));
        if counts.iter().all(Vec::is_empty) {
            return Ok(None);
        }
        let is_full = counts.iter().any(|counts| counts.len() >= COUNTS_MAX);
        let body = encode(&counts);
        self.shared().pending = counts;
        Ok(Some(Outgoing { body, mark: 0, is_full }))
    }

    fn sent(&self, _mark: u64) -> Result<(), SharingError> {
        let pending = std::mem::take(&mut self.shared().pending);
        self.windows().iter().zip(&pending).for_each(|(window, counts)| window.told(counts));
        Ok(())
    }

    fn take(&self, batches: &[Incoming]) -> Result<(), SharingError> {
        for batch in batches {
            match decode(&batch.body) {
                Some(counts) => self
                    .windows()
                    .iter()
                    .zip(&counts)
                    .for_each(|(window, counts)| window.merge(batch.node, counts)),
                None => {
                    let (node, number) = (batch.node, batch.number);
                    tracing::warn!(node, number, "rates of another node are not understood");
                }
            }
            self.shared().cursors.insert(batch.node, batch.number);
        }
        Ok(())
    }
}

fn encode(counts: &Counts) -> Vec<u8> {
    let mut out = vec![VERSION];
    for counts in counts {
        let newest = counts.iter().map(|count| count.window).max().unwrap_or(0);
        put_number(&mut out, newest.max(0).cast_unsigned());
        put_number(&mut out, counts.len() as u64);
        for SharedCount { name, window, count } in counts {
            out.extend_from_slice(&name.to_le_bytes());
            put_number(&mut out, (newest - window).max(0).cast_unsigned());
            put_number(&mut out, u64::from(*count));
        }
    }
    out
}

/// The counts of a batch, by window; none if it is damaged, or of another version.
pub fn decode(bytes: &[u8]) -> Option<Counts> {
    let mut reader = BatchReader::of_version(bytes, VERSION)?;
    let mut all = Counts::default();
    for counts in &mut all {
        let newest = i64::try_from(reader.number()?).ok()?;
        for _ in 0..reader.count(NAME_BYTES + 2)? {
            let name = u64::from_le_bytes(reader.bytes(NAME_BYTES)?.try_into().ok()?);
            let window = newest.checked_sub(i64::try_from(reader.number()?).ok()?)?;
            let count = u32::try_from(reader.number()?).ok()?;
            counts.push(SharedCount { name, window, count });
        }
    }
    reader.rest().is_empty().then_some(all)
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use gauntlet_store::History;

    use super::*;
    use crate::config::{Config, RateSettings};
    use crate::inbound::rate_limiter::RateRules;

    fn node() -> (SharedRates, tempfile::TempDir) {
        let folder = tempfile::tempdir().unwrap();
        let history = Arc::new(History::open(folder.path()).unwrap());
        let part = SharedRates::new(Arc::new(RateLimiter::new(history)));
        assert!(part.begin("array/1").unwrap().is_empty());
        (part, folder)
    }

    fn exchange(from: &SharedRates, to: &SharedRates, number: i64) {
        if let Some(out) = from.collect().unwrap() {
            to.take(&[Incoming { node: 1, number, body: out.body }]).unwrap();
            from.sent(out.mark).unwrap();
        }
    }

    #[test]
    fn a_sender_has_one_limit_on_two_nodes_and_two_while_they_are_cut_off() {
        let rates = RateSettings { sender_messages_per_hour: 10, ..RateSettings::default() };
        let rules = RateRules::of(&Config { rates, ..Config::default() }).unwrap();
        let client = IpAddr::from([192, 0, 2, 1]);
        let let_in = |part: &SharedRates, times: usize, now_s: i64| {
            let one = |_: &usize| {
                part.limiter.admit_message(&rules, client, "a@x.example", now_s).is_ok()
            };
            (0..times).filter(one).count()
        };
        let ((one, _a), (two, _b)) = (node(), node());
        let now_s = 7_200;
        assert_eq!(let_in(&one, 6, now_s), 6);
        exchange(&one, &two, 1);
        assert_eq!(let_in(&two, 20, now_s), 4, "ten together");
        // The next hours: partitioned, each has the whole limit.
        let later = now_s + 2 * 3_600;
        assert_eq!((let_in(&one, 20, later), let_in(&two, 20, later)), (10, 10));
        exchange(&two, &one, 1);
        assert_eq!(let_in(&one, 1, later + 3_600), 0, "what was sent in the hour before counts");
    }

    #[test]
    fn damaged_batches_are_passed_over() {
        let count = |name, count| SharedCount { name, window: 500, count };
        let counts = [vec![count(7, 3)], Vec::new(), vec![count(8, 300), count(9, 4)]];
        let body = encode(&counts);
        assert_eq!(decode(&body), Some(counts));
        for at in 0..body.len() {
            assert_eq!(decode(&body[..at]), None);
            let mut wrong = body.clone();
            wrong[at] ^= 0xff;
            let _never_panics = decode(&wrong);
        }
        let (part, _folder) = node();
        part.take(&[Incoming { node: 3, number: 8, body: vec![1] }]).unwrap();
        assert_eq!(part.begin("array/1").unwrap().get(&3), Some(&8));
        assert!(part.begin("other/1").unwrap().is_empty());
    }
}
