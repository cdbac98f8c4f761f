//! The cipher RC4, which older PDF files and documents of Office have.

/// Encrypts or decrypts, which are the same operation.
pub(super) fn rc4(key: &[u8], data: &[u8]) -> Vec<u8> {
    let mut state: [u8; 256] = std::array::from_fn(|n| n as u8);
    let mut j = 0_u8;
    for i in 0..256 {
        let add = key.get(i % key.len().max(1)).copied().unwrap_or(0);
        j = j.wrapping_add(state[i]).wrapping_add(add);
        state.swap(i, usize::from(j));
    }
    let (mut i, mut j) = (0_u8, 0_u8);
    let byte = |b: &u8| {
        i = i.wrapping_add(1);
        j = j.wrapping_add(state[usize::from(i)]);
        state.swap(usize::from(i), usize::from(j));
        let at = state[usize::from(i)].wrapping_add(state[usize::from(j)]);
        b ^ state[usize::from(at)]
    };
    data.iter().map(byte).collect()
}

#[cfg(test)]
mod tests {
    use super::rc4;

    #[test]
    fn rc4_as_published() {
        // RFC 6229's kin: the key "Key" and the text "Plaintext".
        let coded = [0xbb, 0xf3, 0x16, 0xe8, 0xd9, 0x40, 0xaf, 0x0a, 0xd3];
        assert_eq!(rc4(b"Key", b"Plaintext"), coded);
        assert_eq!(rc4(b"", b"a").len(), 1);
    }
}
