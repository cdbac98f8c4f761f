//! Until when certificates are good: the one field of X.509 (RFC 5280, section 4.1.2.5) that an
//! administrator must know in time.

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use gauntlet_mail::date;
use tokio_rustls::rustls::pki_types::CertificateDer;
use tokio_rustls::rustls::pki_types::pem::PemObject;

use crate::config::Config;
use crate::net::acme_folder;

/// The certificates that the listeners of a configuration show, each with the time from which on
/// clients refuse it, in Unix seconds, or why that cannot be read. Each file once.
pub fn ends(config: &Config) -> Vec<(PathBuf, anyhow::Result<i64>)> {
    lives(config).into_iter().map(|(path, life)| (path, life.map(|(_, end)| end))).collect()
}

/// The same with the time from which on they are good, before its end.
pub fn lives(config: &Config) -> Vec<(PathBuf, anyhow::Result<(i64, i64)>)> {
    let named = config.listener.iter().flat_map(|l| l.certificate.iter().cloned());
    let own = config.node.data.join(super::OWN_FOLDER).join("self-signed.pem");
    let given = acme_folder::certificate(&config.node.data);
    // With an authority, the node's own only stands in.
    let own = if config.acme.is_on() && given.is_file() { given } else { own };
    let mut paths: Vec<PathBuf> = named.chain(own.is_file().then_some(own)).collect();
    paths.sort();
    paths.dedup();
    paths.into_iter().map(|path| (path.clone(), life(&path))).collect()
}

/// From when to when the first certificate of a PEM file is good, in Unix seconds.
///
/// # Errors
/// If it cannot be read.
pub fn life(path: &Path) -> anyhow::Result<(i64, i64)> {
    let mut chain = CertificateDer::pem_file_iter(path)?;
    let first = chain.next().context("there is no certificate in it")??;
    validity(&first).context("its certificate cannot be read")
}

/// From when on a certificate in DER is refused, in Unix seconds.
///
/// # Errors
/// If it cannot be read.
pub(super) fn end(der: &[u8]) -> anyhow::Result<i64> {
    validity(der).map(|(_, end)| end)
}

const SEQUENCE: u8 = 0x30;
const VERSION: u8 = 0xa0;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;

/// `notBefore` and `notAfter` of a certificate, in Unix seconds.
fn validity(der: &[u8]) -> anyhow::Result<(i64, i64)> {
    let (_, certificate, _) = element(der, Some(SEQUENCE))?;
    let (_, mut rest, _) = element(certificate, Some(SEQUENCE))?;
    if rest.first() == Some(&VERSION) {
        rest = element(rest, None)?.2;
    }
    // Serial number, signature algorithm, issuer.
    for _ in 0..3 {
        rest = element(rest, None)?.2;
    }
    let (_, validity, _) = element(rest, Some(SEQUENCE))?;
    let (tag, text, second) = element(validity, None)?;
    let start = moment(tag, std::str::from_utf8(text)?)?;
    let (tag, text, _) = element(second, None)?;
    Ok((start, moment(tag, std::str::from_utf8(text)?)?))
}

/// Tag and content of the first element, and what follows it.
fn element(der: &[u8], wanted: Option<u8>) -> anyhow::Result<(u8, &[u8], &[u8])> {
    let (&[tag, length], rest) = der.split_first_chunk::<2>().context("cut short")?;
    if wanted.is_some_and(|w| w != tag) {
        bail!("tag {tag:#x} where {:#x} belongs", wanted.unwrap_or(0));
    }
    let (length, rest) = match length {
        0..=0x7f => (usize::from(length), rest),
        0x81..=0x84 => {
            let (bytes, rest) =
                rest.split_at_checked(usize::from(length & 0x7f)).context("cut short")?;
            (bytes.iter().fold(0usize, |n, b| n << 8 | usize::from(*b)), rest)
        }
        _ => bail!("a length of no definite form"),
    };
    let (content, after) = rest.split_at_checked(length).context("cut short")?;
    Ok((tag, content, after))
}

/// `YYMMDDHHMMSSZ` or `YYYYMMDDHHMMSSZ` in Unix seconds.
fn moment(tag: u8, text: &str) -> anyhow::Result<i64> {
    let digits = text.strip_suffix('Z').context("a time that is not in UTC")?;
    let full = match (tag, digits.len()) {
        // RFC 5280: two digits from 50 on are of the last century.
        (UTC_TIME, 12) if digits >= "50" => format!("19{digits}"),
        (UTC_TIME, 12) => format!("20{digits}"),
        (GENERALIZED_TIME, 14) => digits.to_owned(),
        _ => bail!("a time of tag {tag:#x}: {text:?}"),
    };
    let number = |at: std::ops::Range<usize>| -> anyhow::Result<i64> {
        Ok(full.get(at).context("a short time")?.parse()?)
    };
    let name = format!("{:04}-{:02}-{:02}", number(0..4)?, number(4..6)?, number(6..8)?);
    let day = date::day_number(&name).context("a day that does not exist")?;
    Ok(day * date::DAY_SECONDS + number(8..10)? * 3_600 + number(10..12)? * 60 + number(12..14)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_made_certificate_is_read() {
        let key = rcgen::KeyPair::generate().unwrap();
        for (year, expected) in [(2031, 1_924_992_000), (2061, 2_871_763_200)] {
            let mut parameters = rcgen::CertificateParams::new(vec!["a.example".into()]).unwrap();
            parameters.not_after = rcgen::date_time_ymd(year, 1, 1);
            let certificate = parameters.self_signed(&key).unwrap();
            assert_eq!(validity(certificate.der()).unwrap().1, expected, "{year}");
        }
        for wrong in [&b""[..], b"\x30", b"\x30\x80\x01", b"\x30\x82\xff\xff\x00", b"\x02\x01\x00"]
        {
            assert!(validity(wrong).is_err(), "{wrong:?}");
        }
        assert!(moment(UTC_TIME, "990231000000Z").is_err(), "no such day");
        assert_eq!(moment(UTC_TIME, "700101000010Z").unwrap(), 10);
    }
}
