//! The country of a client, from a database in MaxMind's format (MMDB 2.0), as several publishers
//! give them away.

use std::net::IpAddr;
use std::path::Path;

use maxminddb::{PathElement, Reader};

/// A database, held in memory: those of countries have some 10 MB.
#[derive(Debug)]
pub struct Countries {
    reader: Reader<Vec<u8>>,
}

impl Countries {
    /// Reads a database and checks that it is whole.
    ///
    /// # Errors
    /// If the file cannot be read, or is no such database; the message names setting and file.
    pub fn open(path: &Path) -> anyhow::Result<Self> {
        let refused = |error: &dyn std::fmt::Display| {
            let path = path.display();
            anyhow::anyhow!(
                "facts.countries {path}: {error}; expected a database of countries (.mmdb)"
            )
        };
        let bytes = std::fs::read(path).map_err(|e| refused(&e))?;
        let reader = Reader::from_source(bytes).map_err(|e| refused(&e))?;
        reader.verify().map_err(|e| refused(&e))?;
        Ok(Countries { reader })
    }

    /// The country of an address (ISO 3166-1, two letters): where it is, else where its network is
    /// registered. None if the database does not know it.
    pub fn of(&self, address: IpAddr) -> Option<String> {
        let found = self.reader.lookup(address.to_canonical()).ok()?;
        let code = |key| {
            let path = [PathElement::Key(key), PathElement::Key("iso_code")];
            found.decode_path::<String>(&path).ok().flatten()
        };
        code("country").or_else(|| code("registered_country")).filter(|code| !code.is_empty())
    }
}

#[cfg(test)]
#[path = "../../tests/countries/mmdb.rs"]
mod mmdb;

#[cfg(test)]
mod tests {
    use super::mmdb::{database, map, string};
    use super::*;

    fn opened(bytes: &[u8]) -> anyhow::Result<Countries> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("countries.mmdb");
        std::fs::write(&path, bytes).unwrap();
        Countries::open(&path)
    }

    #[test]
    fn addresses_have_countries() {
        let iso = |code: &str| map(&[("iso_code", string(code))]);
        let countries =
            opened(&database([192, 0, 2, 0], 24, &map(&[("country", iso("SE"))]))).unwrap();
        let of = |address: &str| countries.of(address.parse().unwrap());
        assert_eq!(of("192.0.2.7").as_deref(), Some("SE"));
        assert_eq!(of("::ffff:192.0.2.7").as_deref(), Some("SE"));
        assert_eq!([of("192.0.3.7"), of("198.51.100.1"), of("2001:db8::1")], [None, None, None]);
        let registered = map(&[("registered_country", iso("NO"))]);
        let countries = opened(&database([192, 0, 2, 0], 24, &registered)).unwrap();
        assert_eq!(countries.of("192.0.2.7".parse().unwrap()).as_deref(), Some("NO"));
    }

    #[test]
    fn other_files_are_refused_by_name() {
        let whole = database([192, 0, 2, 0], 24, &map(&[("country", string("odd"))]));
        let anomaly = opened(&whole).unwrap();
        assert_eq!(anomaly.of("192.0.2.7".parse().unwrap()), None);
        for bytes in [&b"no database"[..], &[], &whole[..whole.len() / 2]] {
            let error = opened(bytes).unwrap_err().to_string();
            assert!(error.starts_with("facts.countries /"), "{error}");
        }
        // Whatever is damaged: refused, or answered without harm.
        for at in 0..whole.len() {
            for byte in [0, 0x7f, 0xff] {
                let mut bytes = whole.clone();
                bytes[at] = byte;
                if let Ok(countries) = opened(&bytes) {
                    countries.of("192.0.2.7".parse().unwrap());
                }
            }
        }
    }
}
