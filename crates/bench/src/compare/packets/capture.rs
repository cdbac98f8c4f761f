//! The capture that all programs read: unpacked, as often as asked for, and its first packet by
//! itself.
//!
//! Copies come one after the other. In each but the first, the networks (/24) of private IPv4
//! addresses (RFC 1918) are others of the same block that the capture does not have, so that all
//! flows with such an end are new and rules for the home network see them as before; checksums of
//! IPv4, TCP and UDP are adjusted (RFC 1624), so that wrong ones stay wrong. Packets without such
//! an address are the same in each copy.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use gauntlet_packet::capture::FRAME_BYTES_MAX;
use gauntlet_packet::{Capture, Frame, Link};
use serde::Serialize;

/// Seconds between the last packet of a copy and the first of the next.
const PAUSE_SECONDS: i64 = 40;
/// VLAN tags of a frame that are passed over.
const TAGS_MAX: usize = 4;

/// The first three octets of an address.
type Network = [u8; 3];

/// What a capture is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Facts {
    /// Its file.
    pub name: String,
    /// Copies of it, one after the other.
    pub copies: u32,
    /// Packets of all copies.
    pub packets: u64,
    /// Bytes that were captured of them.
    pub bytes: u64,
    /// Packets of a copy that are the same in all, for want of an address to change.
    pub unchanged: u64,
    /// Why the file was not read to its end, if it was not.
    pub damage: Option<String>,
}

/// A capture as files.
#[derive(Debug)]
pub(super) struct Prepared {
    /// All packets.
    pub(super) all: PathBuf,
    /// The first packet.
    pub(super) first: PathBuf,
    pub(super) facts: Facts,
}

/// Opens a capture.
///
/// # Errors
/// If it cannot be read, or is none.
pub(super) fn open(path: &Path) -> anyhow::Result<Capture> {
    let file = File::open(path).with_context(|| format!("cannot read {}", path.display()))?;
    Capture::open(BufReader::new(file)).with_context(|| path.display().to_string())
}

/// Hands on each packet; why the capture ends early, if it does.
fn each(
    path: &Path,
    act: &mut dyn FnMut(Frame) -> anyhow::Result<()>,
) -> anyhow::Result<Option<String>> {
    let mut capture = open(path)?;
    while let Some(frame) = capture.next().with_context(|| path.display().to_string())? {
        act(frame)?;
    }
    Ok(capture.damage().map(|d| format!("damaged behind packet {}: {}", d.frames, d.reason)))
}

/// What has to be known before copies are made.
#[derive(Default)]
struct Survey {
    link: Option<Link>,
    packets: u64,
    bytes: u64,
    first_second: i64,
    last_second: i64,
    networks: BTreeSet<Network>,
    unchanged: u64,
}

impl Survey {
    fn add(&mut self, frame: &Frame, path: &Path) -> anyhow::Result<()> {
        let link = *self.link.get_or_insert(frame.link);
        if link != frame.link {
            bail!("{}: {link:?} and {:?} are in one file", path.display(), frame.link);
        }
        if self.packets == 0 {
            (self.first_second, self.last_second) = (frame.time.seconds, frame.time.seconds);
        }
        self.packets += 1;
        self.bytes += frame.bytes.len() as u64;
        self.first_second = self.first_second.min(frame.time.seconds);
        self.last_second = self.last_second.max(frame.time.seconds);
        let before = private_networks(&frame.bytes, frame.link);
        self.unchanged += u64::from(before.is_empty());
        self.networks.extend(before);
        Ok(())
    }
}

impl Prepared {
    /// Writes the files of a capture into a folder.
    ///
    /// # Errors
    /// A file that cannot be read, is no capture or has no packets; copies without an address that
    /// could be changed, or with more addresses than there are.
    pub(super) fn write(path: &Path, copies: u32, folder: &Path) -> anyhow::Result<Self> {
        let mut survey = Survey::default();
        let damage = each(path, &mut |frame| survey.add(&frame, path))?;
        let Some(link) = survey.link else { bail!("{} has no packets", path.display()) };
        if copies > 1 && survey.networks.is_empty() {
            bail!(
                "--copies: {} has no IPv4 addresses of private networks (RFC 1918), so all copies \
                 would be the same flows",
                path.display()
            );
        }
        let (all, first) = (folder.join("all.pcap"), folder.join("first.pcap"));
        let mut out = Writer::create(&all, link)?;
        let mut free = FreeNetworks::beside(&survey.networks);
        let span = survey.last_second - survey.first_second + PAUSE_SECONDS;
        for copy in 0..copies {
            let new = if copy > 0 { free.copy(&survey.networks)? } else { BTreeMap::new() };
            each(path, &mut |frame| {
                if copy == 0 && frame.number == 1 {
                    let mut alone = Writer::create(&first, link)?;
                    alone.packet(&frame, &frame.bytes, 0)?;
                    alone.finish()?;
                }
                let mut bytes = frame.bytes.to_vec();
                readdress(&mut bytes, link, &new);
                out.packet(&frame, &bytes, i64::from(copy) * span)
            })?;
        }
        out.finish()?;
        let facts = Facts {
            name: path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned(),
            copies,
            packets: survey.packets * u64::from(copies),
            bytes: survey.bytes * u64::from(copies),
            unchanged: if copies > 1 { survey.unchanged } else { 0 },
            damage,
        };
        Ok(Prepared { all, first, facts })
    }
}

/// A pcap file that is being written (draft-ietf-opsawg-pcap, microseconds).
struct Writer {
    out: BufWriter<File>,
    path: PathBuf,
}

impl Writer {
    fn create(path: &Path, link: Link) -> anyhow::Result<Self> {
        let made =
            File::create(path).with_context(|| format!("cannot write {}", path.display()))?;
        let mut writer = Writer { out: BufWriter::new(made), path: path.to_owned() };
        writer.words(&[0xa1b2_c3d4, 0x0004_0002, 0, 0, FRAME_BYTES_MAX, number(link)])?;
        Ok(writer)
    }

    fn words(&mut self, words: &[u32]) -> anyhow::Result<()> {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        self.bytes(&bytes)
    }

    fn bytes(&mut self, bytes: &[u8]) -> anyhow::Result<()> {
        self.out.write_all(bytes).with_context(|| format!("cannot write {}", self.path.display()))
    }

    /// Writes these bytes with a frame's time, so many seconds later.
    fn packet(&mut self, frame: &Frame, bytes: &[u8], later: i64) -> anyhow::Result<()> {
        let seconds = u32::try_from(frame.time.seconds + later)
            .context("the time of a packet is not between 1970 and 2106: fewer --copies")?;
        // The longest frame is far below 4 GB.
        let len = u32::try_from(bytes.len()).unwrap_or(FRAME_BYTES_MAX);
        self.words(&[seconds, frame.time.micros, len, frame.original_len])?;
        self.bytes(bytes)
    }

    fn finish(mut self) -> anyhow::Result<()> {
        self.out.flush().with_context(|| format!("cannot write {}", self.path.display()))
    }
}

/// LINKTYPE_ of tcpdump.org.
fn number(link: Link) -> u32 {
    match link {
        Link::Null => 0,
        Link::Ethernet => 1,
        Link::Ppp => 9,
        Link::Raw => 101,
        Link::Hdlc => 104,
        Link::Loop => 108,
        Link::LinuxCooked => 113,
        Link::Ipv4 => 228,
        Link::Ipv6 => 229,
        Link::LinuxCooked2 => 276,
        Link::Other(number) => number,
    }
}

/// Private networks that no copy has yet.
struct FreeNetworks {
    taken: BTreeSet<Network>,
    /// What took the place of each in the copy before.
    last: BTreeMap<Network, Network>,
}

impl FreeNetworks {
    fn beside(own: &BTreeSet<Network>) -> Self {
        FreeNetworks { taken: own.clone(), last: own.iter().map(|n| (*n, *n)).collect() }
    }

    /// Another network for each of these.
    fn copy(&mut self, own: &BTreeSet<Network>) -> anyhow::Result<BTreeMap<Network, Network>> {
        for &network in own {
            let last = self.last.get(&network).copied().unwrap_or(network);
            let free = block(last).into_iter().flatten().find(|n| !self.taken.contains(n));
            let free = free.with_context(|| {
                let [a, b, c] = network;
                format!(
                    "--copies: no private network is left beside {a}.{b}.{c}.0/24: fewer copies"
                )
            })?;
            self.taken.insert(free);
            self.last.insert(network, free);
        }
        Ok(self.last.clone())
    }
}

/// All networks of the block that one is in (RFC 1918), those behind it first; none if it is
/// public.
fn block(network: Network) -> Option<impl Iterator<Item = Network>> {
    let [a, b, c] = network;
    let (begin, count): (u32, u32) = match (a, b) {
        (10, _) => (10 << 16, 1 << 16),
        (172, 16..=31) => (172 << 16 | 16 << 8, 1 << 12),
        (192, 168) => (192 << 16 | 168 << 8, 1 << 8),
        _ => return None,
    };
    let own = u32::from_be_bytes([0, a, b, c]) - begin;
    Some((1..count).map(move |step| {
        let [_, a, b, c] = (begin + (own + step) % count).to_be_bytes();
        [a, b, c]
    }))
}

/// Where IPv4 begins in a frame whose header is whole.
fn ipv4(bytes: &[u8], link: Link) -> Option<usize> {
    let at = match link {
        Link::Raw | Link::Ipv4 => 0,
        Link::Ethernet => {
            let mut at = 12;
            for _ in 0..TAGS_MAX {
                if !matches!(word(bytes, at)?, 0x8100 | 0x88a8 | 0x9100) {
                    break;
                }
                at += 4;
            }
            if word(bytes, at)? != 0x0800 {
                return None;
            }
            at + 2
        }
        _ => return None,
    };
    let is_whole = *bytes.get(at)? >> 4 == 4 && bytes.len() >= at + 20;
    is_whole.then_some(at)
}

fn word(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn put(bytes: &mut [u8], at: usize, word: u16) {
    if let Some(place) = bytes.get_mut(at..at + 2) {
        place.copy_from_slice(&word.to_be_bytes());
    }
}

/// The private networks of a frame's ends.
fn private_networks(bytes: &[u8], link: Link) -> Vec<Network> {
    let Some(at) = ipv4(bytes, link) else { return Vec::new() };
    let network = |at: usize| bytes.get(at..)?.first_chunk::<3>().copied();
    let ends = [network(at + 12), network(at + 16)];
    ends.into_iter().flatten().filter(|network| block(*network).is_some()).collect()
}

/// Puts other networks in place of those of a frame's ends.
fn readdress(bytes: &mut [u8], link: Link, new: &BTreeMap<Network, Network>) {
    let Some(at) = ipv4(bytes, link) else { return };
    let (Some(&first), Some(&protocol)) = (bytes.get(at), bytes.get(at + 9)) else { return };
    let payload = at + usize::from(first & 15) * 4;
    // Only the first fragment has the header of TCP or UDP.
    let is_first = word(bytes, at + 6).is_some_and(|word| word & 0x1fff == 0);
    let checksum = match protocol {
        6 if is_first => Some(payload + 16),
        // A datagram's sum of 0 is none.
        17 if is_first => {
            Some(payload + 6).filter(|at| word(bytes, *at).is_some_and(|sum| sum != 0))
        }
        _ => None,
    };
    for end in [at + 12, at + 16] {
        let Some(place) = bytes.get_mut(end..).and_then(|rest| rest.first_chunk_mut::<4>()) else {
            continue;
        };
        let [a, b, c, host] = *place;
        let Some(&[x, y, z]) = new.get(&[a, b, c]) else { continue };
        *place = [x, y, z, host];
        for (old, new) in [([a, b], [x, y]), ([c, host], [z, host])] {
            let change = (u16::from_be_bytes(old), u16::from_be_bytes(new));
            for sum in [Some(at + 10), checksum].into_iter().flatten() {
                let Some(before) = word(bytes, sum) else { continue };
                put(bytes, sum, adjusted(before, change));
            }
        }
    }
    if let Some(sum) = checksum.filter(|at| protocol == 17 && word(bytes, *at) == Some(0)) {
        put(bytes, sum, 0xffff);
    }
}

/// A checksum after a word has changed (RFC 1624, equation 3).
fn adjusted(sum: u16, (old, new): (u16, u16)) -> u16 {
    let mut sum = u32::from(!sum) + u32::from(!old) + u32::from(new);
    sum = (sum & 0xffff) + (sum >> 16);
    sum = (sum & 0xffff) + (sum >> 16);
    // Two folds of three words leave 16 bits.
    !u16::try_from(sum).unwrap_or(u16::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A datagram from a private to a public address, in an Ethernet frame with a VLAN tag.
    fn frame(client: [u8; 4]) -> Vec<u8> {
        let mut ip = vec![0x45, 0, 0, 32, 0, 1, 0, 0, 64, 17, 0, 0];
        ip.extend(client);
        ip.extend([203, 0, 113, 9]);
        put_sum(&mut ip, 10, &[]);
        let mut udp = vec![0x9c, 0x40, 0, 53, 0, 12, 0, 0, b'a', b'b', b'c', b'd'];
        let mut pseudo = ip[12..20].to_vec();
        pseudo.extend([0, 17, 0, 12]);
        put_sum(&mut udp, 6, &pseudo);
        let mut bytes = vec![2; 12];
        bytes.extend([0x81, 0, 0, 7, 8, 0]);
        bytes.extend(ip);
        bytes.extend(udp);
        bytes
    }

    fn put_sum(bytes: &mut [u8], at: usize, pseudo: &[u8]) {
        let all = [pseudo, bytes].concat();
        let sum: u32 = all.chunks(2).map(|p| u32::from(u16::from_be_bytes([p[0], p[1]]))).sum();
        let sum = (sum & 0xffff) + (sum >> 16);
        put(bytes, at, !u16::try_from((sum & 0xffff) + (sum >> 16)).unwrap());
    }

    fn file(folder: &Path, frames: &[Vec<u8>]) -> PathBuf {
        let path = folder.join("in.pcap");
        let mut words = vec![0xa1b2_c3d4_u32, 0x0004_0002, 0, 0, 65_535, 1];
        let mut out: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
        for (second, frame) in (0_u32..).zip(frames) {
            let len = u32::try_from(frame.len()).unwrap();
            words = vec![1_700_000_000 + second, 5, len, len];
            out.extend(words.iter().flat_map(|w| w.to_le_bytes()));
            out.extend(frame);
        }
        std::fs::write(&path, out).unwrap();
        path
    }

    #[test]
    fn copies_have_other_clients_right_checksums_and_a_later_clock() {
        let folder = tempfile::tempdir().unwrap();
        let arp = [vec![2; 12], vec![8, 6], vec![0; 28]].concat();
        let clients = [[192, 168, 10, 2], [10, 0, 255, 3]];
        let path = file(folder.path(), &[frame(clients[0]), arp.clone(), frame(clients[1])]);
        let prepared = Prepared::write(&path, 3, folder.path()).unwrap();
        assert_eq!(prepared.facts.packets, 9);
        assert_eq!(prepared.facts.unchanged, 1);
        let mut found = Vec::new();
        each(&prepared.all, &mut |frame| {
            found.push((frame.time.seconds - 1_700_000_000, frame.bytes.to_vec()));
            Ok(())
        })
        .unwrap();
        // What is composed with the new address has the checksums that were adjusted.
        let expected = [
            (0, frame(clients[0])),
            (1, arp.clone()),
            (2, frame(clients[1])),
            (42, frame([192, 168, 11, 2])),
            (43, arp.clone()),
            (44, frame([10, 1, 0, 3])),
            (84, frame([192, 168, 12, 2])),
            (85, arp),
            (86, frame([10, 1, 1, 3])),
        ];
        assert_eq!(found, expected);
        let mut alone = 0;
        each(&prepared.first, &mut |_| {
            alone += 1;
            Ok(())
        })
        .unwrap();
        assert_eq!(alone, 1);
    }

    #[test]
    fn what_cannot_be_copied_is_said() {
        let folder = tempfile::tempdir().unwrap();
        let error = |path: &Path, copies| {
            format!("{:#}", Prepared::write(path, copies, folder.path()).unwrap_err())
        };
        let empty = file(folder.path(), &[]);
        assert!(error(&empty, 1).contains("has no packets"));
        let public = file(folder.path(), &[frame([203, 0, 113, 8])]);
        assert!(error(&public, 2).contains("no IPv4 addresses of private networks"));
        assert!(Prepared::write(&public, 1, folder.path()).is_ok());
        let home = file(folder.path(), &[frame([192, 168, 1, 1])]);
        assert!(error(&home, 300).contains("no private network is left beside 192.168.1.0/24"));
        std::fs::write(&home, "this is text").unwrap();
        assert!(error(&home, 1).contains("neither a pcap nor a pcapng"));
    }
}
