//! SpamAssassin's channels as `sa-update` finds them: the DNS says which version is the newest and
//! where the list of mirrors is, a mirror has the archive, its hashes and its signature.
//!
//! ```text
//! TXT 1.0.4.CHANNEL        "1928000"                     the version for SpamAssassin 4.0.1
//! TXT mirrors.CHANNEL      "http://.../MIRRORED.BY"      lines: URL [weight=N]
//! URL/1928000.tar.gz .sha512 .sha256 .asc
//! ```
//!
//! Only the signature is trusted, which `gpgv` checks: DNS and mirrors may lie. Hashes tell a
//! broken download from a forged one. Limits: [`MIRRORS_MAX`], [`MIRROR_LIST_BYTES_MAX`],
//! [`SMALL_BYTES_MAX`] for hashes and signatures, and the archive's own. A version before the one
//! that was taken last is refused, and one that is here already is not fetched
//! ([`super::sa_state`]).

use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use gauntlet_gateway::config::Config;
use gauntlet_gateway::net::download::{self, Patience, Validators};
use gauntlet_gateway::net::resolver::{Answer, Kind, Resolver};
use gauntlet_gateway::net::tls::HopTls;
use gauntlet_gateway::net::web::hop_tls;
use ring::digest::{SHA256, SHA512, digest};

use super::advance::random;
use super::sa_state::Taken;

/// The SpamAssassin whose rules are asked for, unless the command says another.
pub(super) const VERSION: &str = "4.0.1";
/// Bytes of a list of mirrors, and mirrors of it that are tried.
const MIRROR_LIST_BYTES_MAX: u64 = 64 << 10;
const MIRRORS_MAX: usize = 32;
/// Bytes of a hash file and of a signature.
const SMALL_BYTES_MAX: u64 = 16 << 10;
/// Bytes of an archive, packed.
const ARCHIVE_BYTES_MAX: u64 = 64 << 20;
/// Digits of a version.
const VERSION_DIGITS_MAX: usize = 12;
const PATIENCE: Patience = Patience { step: Duration::from_secs(20), bytes_per_second_min: 1_000 };

/// What is asked for.
pub(super) struct Asked<'a> {
    /// The channel's domain.
    pub(super) channel: &'a str,
    /// The SpamAssassin whose rules are wanted.
    pub(super) version: &'a str,
    /// What was taken of it before.
    pub(super) taken: &'a Taken,
    /// Its rule files are still what was taken.
    pub(super) is_whole: bool,
    /// A version before the one that was taken may be taken, too.
    pub(super) allow_older: bool,
    pub(super) now_s: i64,
}

/// What came of it.
pub(super) enum Fetched {
    /// This version was taken before.
    Same(u64),
    /// An archive, and what there is to be noted of it but for its rules.
    Archive(PathBuf, Taken),
}

/// Fetches the newest archive of a channel, with its signature beside it if there is one, into a
/// folder, unless it was taken before.
///
/// # Errors
/// Whatever the DNS or every mirror did wrong; the version is before the one that was taken.
pub(super) fn fetch(config: &Config, asked: &Asked<'_>, folder: &Path) -> anyhow::Result<Fetched> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let source =
        Source { tls: hop_tls(&config.sender.roots)?, resolver: Resolver::new(&config.dns)? };
    runtime.block_on(source.fetch(asked, folder))
}

struct Source {
    tls: HopTls,
    resolver: Resolver,
}

impl Source {
    async fn fetch(&self, asked: &Asked<'_>, folder: &Path) -> anyhow::Result<Fetched> {
        let Asked { channel, version, taken, is_whole, allow_older, now_s } = *asked;
        let number = self.newest(channel, version).await?;
        // Of at most twelve digits.
        let version = number.parse().unwrap_or(u64::MAX);
        if !allow_older {
            taken.check(channel, version)?;
        }
        if is_whole && version == taken.version {
            return Ok(Fetched::Same(version));
        }
        let known = taken.mirrors_at(now_s).map(<[_]>::to_vec);
        let was_known = known.is_some();
        let (mut mirrors, mut mirrors_s) = match known {
            Some(known) => (known, taken.mirrors_s),
            None => (self.mirrors(channel).await?, now_s),
        };
        let mut failed = self.of_mirrors(&mirrors, &number, folder).await;
        if failed.is_err() && was_known {
            // The list may be another since.
            (mirrors, mirrors_s) = (self.mirrors(channel).await?, now_s);
            failed = self.of_mirrors(&mirrors, &number, folder).await;
        }
        let path = failed.with_context(|| format!("{channel}: no mirror has version {number}"))?;
        let rules = String::new();
        Ok(Fetched::Archive(path, Taken { version, rules, mirrors, mirrors_s }))
    }

    /// The archive of the first mirror that has it.
    async fn of_mirrors(
        &self,
        mirrors: &[(String, u32)],
        number: &str,
        folder: &Path,
    ) -> anyhow::Result<PathBuf> {
        let mut failed = Vec::new();
        for mirror in shuffled(mirrors.to_vec(), random()) {
            match self.of_mirror(&mirror, number, folder).await {
                Ok(path) => return Ok(path),
                Err(error) => failed.push(format!("{mirror}: {error:#}")),
            }
        }
        bail!("{}", failed.join("; "))
    }

    /// The newest version for this SpamAssassin.
    async fn newest(&self, channel: &str, version: &str) -> anyhow::Result<String> {
        let name = format!("{}.{channel}", reversed(version)?);
        let text = self.text(&name).await?;
        let is_number = (1..=VERSION_DIGITS_MAX).contains(&text.len())
            && text.bytes().all(|b| b.is_ascii_digit());
        ensure!(is_number, "{name}: the DNS says {text:?}, which is no version of a channel");
        Ok(text)
    }

    async fn text(&self, name: &str) -> anyhow::Result<String> {
        let asked = self.resolver.ask(name, Kind::Txt).await;
        let answer: &Answer = &asked.answer;
        let text = answer.texts().next().with_context(|| {
            format!("{name}: the DNS has no TXT record ({})", answer.outcome.name())
        })?;
        Ok(String::from_utf8_lossy(text).trim().to_owned())
    }

    /// The mirrors of a channel.
    async fn mirrors(&self, channel: &str) -> anyhow::Result<Vec<(String, u32)>> {
        let name = format!("mirrors.{channel}");
        let mut lists = Vec::new();
        for url in self.text(&name).await?.split_ascii_whitespace().take(4) {
            let mut list = Vec::new();
            self.get(url, MIRROR_LIST_BYTES_MAX, &mut list)
                .await
                .with_context(|| format!("{name}: {url}"))?;
            lists.extend(list);
        }
        let mirrors = parse_mirrors(&String::from_utf8_lossy(&lists));
        ensure!(!mirrors.is_empty(), "{name}: its list names no mirror with http:// or https://");
        Ok(mirrors)
    }

    /// The archive of one mirror, its hash checked, its signature beside it.
    async fn of_mirror(
        &self,
        mirror: &str,
        number: &str,
        folder: &Path,
    ) -> anyhow::Result<PathBuf> {
        let base = format!("{}/{number}.tar.gz", mirror.trim_end_matches('/'));
        let (mut archive, mut hash) = (Vec::new(), Vec::new());
        self.get(&base, ARCHIVE_BYTES_MAX, &mut archive).await?;
        let algorithm = match self.get(&format!("{base}.sha512"), SMALL_BYTES_MAX, &mut hash).await
        {
            Ok(()) => &SHA512,
            Err(_) => {
                hash.clear();
                self.get(&format!("{base}.sha256"), SMALL_BYTES_MAX, &mut hash)
                    .await
                    .context("neither .sha512 nor .sha256")?;
                &SHA256
            }
        };
        let said = String::from_utf8_lossy(&hash);
        let said = said.split_ascii_whitespace().next().unwrap_or_default().to_ascii_lowercase();
        let found = hex(digest(algorithm, &archive).as_ref());
        ensure!(said == found, "the archive is not what its hash file says");
        let path = folder.join(format!("{number}.tar.gz"));
        std::fs::write(&path, &archive).with_context(|| path.display().to_string())?;
        let mut signature = Vec::new();
        if self.get(&format!("{base}.asc"), SMALL_BYTES_MAX, &mut signature).await.is_ok() {
            let beside = folder.join(format!("{number}.tar.gz.asc"));
            std::fs::write(&beside, &signature).with_context(|| beside.display().to_string())?;
        }
        Ok(path)
    }

    async fn get(&self, url: &str, bytes_max: u64, out: &mut Vec<u8>) -> anyhow::Result<()> {
        let address = download::address(url)?;
        let out: &mut (dyn Write + Send) = out;
        match download::get(&address, &self.tls, &Validators::default(), PATIENCE).await? {
            download::Answer::Body(body) => body.copy(bytes_max, out).await.map(drop),
            download::Answer::Same | download::Answer::Missing => bail!("there is no {url}"),
        }
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// `1.0.4` of `4.0.1`.
fn reversed(version: &str) -> anyhow::Result<String> {
    let parts: Vec<&str> = version.split('.').collect();
    let is_number =
        |part: &&str| (1..=4).contains(&part.len()) && part.bytes().all(|b| b.is_ascii_digit());
    ensure!(
        parts.len() == 3 && parts.iter().all(is_number),
        "--sa-version {version:?}: a version of SpamAssassin, such as {VERSION}"
    );
    Ok(parts.into_iter().rev().collect::<Vec<_>>().join("."))
}

/// URL and weight of each mirror; what is none is left out.
fn parse_mirrors(text: &str) -> Vec<(String, u32)> {
    let lines = text.lines().filter_map(|line| {
        let mut words = line.split('#').next()?.split_ascii_whitespace();
        let url = words.next()?;
        download::address(url).ok()?;
        let weight = words.find_map(|word| word.strip_prefix("weight=")?.parse().ok());
        Some((url.to_owned(), weight.unwrap_or(1u32).clamp(1, 1_000)))
    });
    lines.take(MIRRORS_MAX).collect()
}

/// A random order in which heavier ones tend to come first.
fn shuffled(mut mirrors: Vec<(String, u32)>, seed: u64) -> Vec<String> {
    let (mut order, mut state) = (Vec::new(), seed | 1);
    while !mirrors.is_empty() {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        let sum: u64 = mirrors.iter().map(|(_, weight)| u64::from(*weight)).sum();
        let mut at = state % sum.max(1);
        let place = mirrors.iter().position(|(_, weight)| {
            let is_here = at < u64::from(*weight);
            at = at.saturating_sub(u64::from(*weight));
            is_here
        });
        order.push(mirrors.swap_remove(place.unwrap_or(0)).0);
    }
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_asked_for_in_reverse() {
        assert_eq!(reversed("4.0.1").unwrap(), "1.0.4");
        for bad in ["", "4", "4.0", "4.0.x", "4.0.1.2", "4..1", "4.0.1.evil.example"] {
            assert!(reversed(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn mirrors_are_read_and_each_is_tried_once() {
        let text = "# of ours\nhttp://a.example/sa/ weight=5\nhttps://b.example/ # slow\n\
                    file:///etc/ weight=9\nftp://c.example/\nnonsense weight=x\n\
                    http://d.example weight=99999999999\n";
        let mirrors = parse_mirrors(text);
        let names = ["http://a.example/sa/", "https://b.example/", "http://d.example"];
        assert_eq!(mirrors.iter().map(|m| m.0.as_str()).collect::<Vec<_>>(), names);
        assert_eq!(mirrors.iter().map(|m| m.1).collect::<Vec<_>>(), [5, 1, 1]);
        let mut firsts = std::collections::BTreeSet::new();
        for seed in 0..200u64 {
            let mut order = shuffled(mirrors.clone(), seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
            firsts.insert(order[0].clone());
            order.sort();
            assert_eq!(order, ["http://a.example/sa/", "http://d.example", "https://b.example/"]);
        }
        assert_eq!(firsts.len(), 3, "none is always last");
        let many = "http://a.example/\n".repeat(1_000);
        assert_eq!(parse_mirrors(&many).len(), MIRRORS_MAX);
        assert!(shuffled(Vec::new(), 1).is_empty());
    }
}
