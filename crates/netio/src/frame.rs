//! Frames as the kernel hands them over: VLAN tags beside the bytes, checksums that the network
//! card is to fill in, segments that it is to cut (virtio's header, `linux/virtio_net.h`).

use std::sync::Arc;

use gauntlet_packet::Time;

use crate::answer::Change;
use crate::checksum;

/// Addresses of Ethernet, before which a VLAN tag goes back.
pub(crate) const ADDRESSES: usize = 12;
/// `TP_STATUS_CSUMNOTREADY`.
pub(crate) const CHECKSUM_NOT_READY: u32 = 1 << 3;
/// `TP_STATUS_VLAN_VALID`.
const VLAN_VALID: u32 = 1 << 4;
/// `TP_STATUS_VLAN_TPID_VALID`.
const TPID_VALID: u32 = 1 << 6;
/// `TP_STATUS_CSUM_VALID`.
pub(crate) const CHECKSUM_VALID: u32 = 1 << 7;
/// IEEE 802.1Q.
const TPID: u16 = 0x8100;

/// A VLAN tag as it stands in a frame.
pub(crate) type Tag = [u8; 4];

/// The tag that the kernel took out of a frame.
pub(crate) fn tag(status: u32, tci: u16, tpid: u16) -> Option<Tag> {
    if status & VLAN_VALID == 0 {
        return None;
    }
    let tpid = if status & TPID_VALID == 0 { TPID } else { tpid };
    let ([a, b], [c, d]) = (tpid.to_be_bytes(), tci.to_be_bytes());
    Some([a, b, c, d])
}

/// The frame with its tag.
pub(crate) fn whole(bytes: &[u8], tag: Option<Tag>) -> Arc<[u8]> {
    match (tag, bytes.split_at_checked(ADDRESSES)) {
        (Some(tag), Some((addresses, rest))) => {
            let mut whole = Vec::with_capacity(bytes.len() + tag.len());
            whole.extend_from_slice(addresses);
            whole.extend_from_slice(&tag);
            whole.extend_from_slice(rest);
            whole.into()
        }
        _ => bytes.into(),
    }
}

/// A time of the kernel.
pub(crate) fn time(seconds: u64, nanoseconds: u64) -> Time {
    Time {
        seconds: i64::try_from(seconds).unwrap_or_default(),
        micros: u32::try_from(nanoseconds / 1_000).unwrap_or_default().min(999_999),
    }
}

/// Length of virtio's header on packet sockets.
pub(crate) const OFFLOAD_LEN: usize = 10;

/// What is left to the network card (`struct virtio_net_hdr`): as it came, it goes out again.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Offload(pub(crate) [u8; OFFLOAD_LEN]);

/// `VIRTIO_NET_HDR_F_NEEDS_CSUM`.
const NEEDS_CHECKSUM: u8 = 1;
/// `VIRTIO_NET_HDR_F_DATA_VALID`.
const DATA_VALID: u8 = 2;

impl Offload {
    /// The checksum is not filled in yet.
    pub(crate) fn is_partial(self) -> bool {
        self.0[0] & NEEDS_CHECKSUM != 0
    }

    /// Checksums need not be looked at.
    pub(crate) fn is_trusted(self) -> bool {
        self.0[0] & (NEEDS_CHECKSUM | DATA_VALID) != 0
    }

    /// The same of a frame that has so many more bytes before its network header.
    pub(crate) fn moved(self, by: u16) -> Self {
        let mut moved = self;
        let is_segmented = self.0[1] != 0;
        for (at, applies) in [(2, is_segmented), (6, self.is_partial())] {
            if let (true, Some(field)) = (applies, moved.0.get_mut(at..at + 2)) {
                let value = u16::from_ne_bytes([field[0], field[1]]).wrapping_add(by);
                field.copy_from_slice(&value.to_ne_bytes());
            }
        }
        // Only whether the data is valid is told on receipt; it is no order to the sender.
        moved.0[0] &= NEEDS_CHECKSUM;
        moved
    }
}

/// Carries a change out. `is_partial`: the checksum is filled in later.
pub(crate) fn change(frame: &mut [u8], change: &Change, is_partial: bool) {
    let Some(old) = frame.get(change.place.clone()).map(<[u8]>::to_vec) else { return };
    if old.len() != change.bytes.len() {
        return;
    }
    if let Some(place) = frame.get_mut(change.place.clone()) {
        place.copy_from_slice(&change.bytes);
    }
    let at = change.checksum_at;
    if !is_partial && let Some(field) = frame.get_mut(at..at.saturating_add(2)) {
        let before = u16::from_be_bytes([field[0], field[1]]);
        field.copy_from_slice(&checksum::update(before, &old, &change.bytes).to_be_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_goes_back_behind_the_addresses() {
        let bytes: Vec<u8> = (0..20).collect();
        let tag = tag(VLAN_VALID, 0x2064, 0).unwrap();
        let whole = whole(&bytes, Some(tag));
        assert_eq!(whole[..12], bytes[..12]);
        assert_eq!(whole[12..16], [0x81, 0, 0x20, 0x64]);
        assert_eq!(whole[16..], bytes[12..]);
        assert_eq!(super::tag(VLAN_VALID | TPID_VALID, 1, 0x88a8), Some([0x88, 0xa8, 0, 1]));
        assert_eq!(super::tag(0, 1, 0x8100), None);
    }

    #[test]
    fn what_is_left_to_the_card_moves_with_the_tag() {
        let mut header = [0u8; OFFLOAD_LEN];
        header[0] = NEEDS_CHECKSUM | DATA_VALID;
        header[1] = 1;
        header[2..4].copy_from_slice(&66u16.to_ne_bytes());
        header[6..8].copy_from_slice(&34u16.to_ne_bytes());
        let moved = Offload(header).moved(4).0;
        assert_eq!(moved[0], NEEDS_CHECKSUM);
        assert_eq!(moved[2..4], 70u16.to_ne_bytes());
        assert_eq!(moved[6..8], 38u16.to_ne_bytes());
    }
}
