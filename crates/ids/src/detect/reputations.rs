//! What is known of addresses: reputations by category (`iprep`), countries (`geoip`).

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;

use gauntlet_packet::Network;

use super::countries::Countries;
use crate::rule::matches::{ReputationSide, ReputationTest};

/// Scores of addresses and networks by category, and their countries.
#[derive(Debug, Default)]
pub struct Reputations {
    /// Countries, if there is a database.
    pub countries: Option<Countries>,
    categories: BTreeMap<String, u8>,
    hosts: HashMap<(IpAddr, u8), u64>,
    networks: Vec<(Network, u8, u64)>,
}

impl Reputations {
    /// Names a category.
    pub fn category(&mut self, name: &str, number: u8) {
        self.categories.insert(name.to_owned(), number);
    }

    /// Gives an address or network a score; what is neither is left out.
    pub fn address(&mut self, text: &str, category: u8, score: u64) {
        if let Ok(address) = text.parse() {
            self.hosts.insert((address, category), score);
        } else if let Some(network) = Network::parse(text) {
            self.networks.push((network, category, score));
        }
    }

    fn score(&self, address: IpAddr, category: u8) -> Option<u64> {
        let of_host = self.hosts.get(&(address, category)).copied();
        of_host.or_else(|| {
            let networks = self.networks.iter();
            let fits = networks.filter(|(n, c, _)| *c == category && n.contains(address));
            fits.max_by_key(|(n, _, _)| n.prefix()).map(|(_, _, score)| *score)
        })
    }

    pub(crate) fn holds(
        &self,
        side: ReputationSide,
        category: &str,
        test: &ReputationTest,
        (source, destination): (Option<IpAddr>, Option<IpAddr>),
    ) -> bool {
        let Some(category) = self.categories.get(category).copied() else { return false };
        let of = |address: Option<IpAddr>| {
            let score = address.and_then(|address| self.score(address, category));
            match test {
                ReputationTest::IsSet => score.is_some(),
                ReputationTest::IsNotSet => score.is_none(),
                ReputationTest::Value(compare) => score.is_some_and(|s| compare.holds(s)),
            }
        };
        match side {
            ReputationSide::Source => of(source),
            ReputationSide::Destination => of(destination),
            ReputationSide::Any => of(source) || of(destination),
            ReputationSide::Both => of(source) && of(destination),
        }
    }
}
