//! CRC-64/NVME, with the names by which `object_store` asks for it: it stands for the crate
//! `crc-fast` (`[patch.crates-io]` in the workspace's `Cargo.toml`).
//!
//! Why: that crate brings 660 kB of tables of all CRCs, which no compression makes smaller and
//! which the linker keeps because C functions of it are exported: 4 % of the package, for a check
//! sum that is made only where it is asked for, which we do not (decision 350).

/// The one algorithm that `object_store` names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CrcAlgorithm {
    /// CRC-64/NVME (NVM Express NVM Command Set Specification 1.0, section 5.2.1.3.4).
    Crc64Nvme,
}

/// The polynomial 0xAD93D23594C93659, its lowest bit first.
const POLYNOMIAL: u64 = 0x9A6C_9329_AC4B_C9B5;

const TABLE: [u64; 256] = table();

const fn table() -> [u64; 256] {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let (mut crc, mut bit) = (byte as u64, 0);
        while bit < 8 {
            crc = if crc & 1 == 1 { (crc >> 1) ^ POLYNOMIAL } else { crc >> 1 };
            bit += 1;
        }
        table[byte] = crc;
        byte += 1;
    }
    table
}

/// A check sum of bytes that come one piece after the other.
#[derive(Debug, Clone)]
pub struct Digest(u64);

impl Digest {
    /// Of no bytes yet.
    #[must_use]
    pub const fn new(algorithm: CrcAlgorithm) -> Self {
        match algorithm {
            CrcAlgorithm::Crc64Nvme => Self(u64::MAX),
        }
    }

    /// The next bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        self.0 = bytes.iter().fold(self.0, |crc, byte| {
            let [low, ..] = crc.to_le_bytes();
            TABLE[usize::from(low ^ byte)] ^ (crc >> 8)
        });
    }

    /// The check sum of what came until now.
    #[must_use]
    pub const fn finalize(&self) -> u64 {
        !self.0
    }
}

#[cfg(test)]
mod tests {
    use super::{CrcAlgorithm, Digest};

    fn of(pieces: &[&[u8]]) -> u64 {
        let mut digest = Digest::new(CrcAlgorithm::Crc64Nvme);
        pieces.iter().for_each(|piece| digest.update(piece));
        digest.finalize()
    }

    #[test]
    fn the_check_values_of_the_specification() {
        // Its examples: 4 KiB of one byte, and of bytes that count up and down.
        assert_eq!(of(&[&[0; 4096]]), 0x6482_D367_EB22_B64E);
        assert_eq!(of(&[&[0xFF; 4096]]), 0xC0DD_BA73_02EC_A3AC);
        let up: Vec<u8> = (0..4096_usize).map(|n| n.to_le_bytes()[0]).collect();
        assert_eq!(of(&[&up]), 0x3E72_9F5F_6750_449C);
        let down: Vec<u8> = up.iter().rev().copied().collect();
        assert_eq!(of(&[&down]), 0x9A2D_F64B_8E9E_517E);
        // The usual one of catalogues of CRCs.
        assert_eq!(of(&[b"123456789"]), 0xAE8B_1486_0A79_9888);
    }

    #[test]
    fn pieces_count_as_the_whole() {
        assert_eq!(of(&[b"1234", b"", b"56789"]), of(&[b"123456789"]));
        assert_eq!(of(&[]), 0);
    }
}
