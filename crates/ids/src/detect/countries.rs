//! Countries of addresses, from a database in MaxMind's format (MMDB 2.0): `geoip`.

use std::net::IpAddr;
use std::path::Path;

use maxminddb::{PathElement, Reader};

use crate::rule::matches::{GeoIp, ReputationSide};

/// A database, held in memory.
#[derive(Debug)]
pub struct Countries {
    reader: Reader<Vec<u8>>,
}

impl Countries {
    /// Reads a database and checks that it is whole.
    ///
    /// # Errors
    ///
    /// If the file cannot be read, or is no such database.
    pub fn open(path: &Path) -> Result<Self, std::io::Error> {
        let other = |error: maxminddb::MaxMindDbError| std::io::Error::other(error.to_string());
        let reader = Reader::from_source(std::fs::read(path)?).map_err(other)?;
        reader.verify().map_err(other)?;
        Ok(Self { reader })
    }

    /// The country in which an address is (ISO 3166-1, two letters).
    pub fn of(&self, address: IpAddr) -> Option<String> {
        let found = self.reader.lookup(address).ok()?;
        let path = [PathElement::Key("country"), PathElement::Key("iso_code")];
        found.decode_path::<String>(&path).ok().flatten()
    }

    /// Whether a check holds. Of addresses of IPv6 none does, as in Suricata.
    pub(crate) fn holds(
        &self,
        check: &GeoIp,
        (source, destination): (Option<IpAddr>, Option<IpAddr>),
    ) -> bool {
        let of = |address: Option<IpAddr>| {
            let country = address.filter(IpAddr::is_ipv4).and_then(|address| self.of(address));
            country.is_some_and(|country| check.countries.contains(&country) != check.negated)
        };
        match check.side {
            ReputationSide::Source => of(source),
            ReputationSide::Destination => of(destination),
            ReputationSide::Any => of(source) || of(destination),
            ReputationSide::Both => of(source) && of(destination),
        }
    }
}
