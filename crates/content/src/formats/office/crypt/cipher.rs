//! AES in the modes of Office, and hashes that are computed again and again.

use aes::cipher::generic_array::GenericArray;
use aes::cipher::{BlockDecrypt, KeyInit};
use aes::{Aes128, Aes192, Aes256};
use ring::digest::{Algorithm, Context};

const BLOCK_BYTES: usize = 16;

/// Decrypts whole blocks one by one; none if the key has no length of AES.
fn blocks(key: &[u8], data: &mut [u8]) {
    fn each(cipher: &impl BlockDecrypt<BlockSize = aes::cipher::consts::U16>, data: &mut [u8]) {
        for block in data.chunks_exact_mut(BLOCK_BYTES) {
            cipher.decrypt_block(GenericArray::from_mut_slice(block));
        }
    }
    match key.len() {
        16 => each(&Aes128::new(GenericArray::from_slice(key)), data),
        24 => each(&Aes192::new(GenericArray::from_slice(key)), data),
        32 => each(&Aes256::new(GenericArray::from_slice(key)), data),
        _ => {}
    }
}

/// Electronic code book; a last block that is not whole is left out.
pub(super) fn ecb(key: &[u8], data: &[u8]) -> Vec<u8> {
    let mut plain = data[..data.len() / BLOCK_BYTES * BLOCK_BYTES].to_vec();
    blocks(key, &mut plain);
    plain
}

/// Cipher block chaining with this start value.
pub(super) fn cbc(key: &[u8], start: &[u8], data: &[u8]) -> Vec<u8> {
    let mut plain = ecb(key, data);
    let before = start.iter().take(BLOCK_BYTES).chain(data);
    for (byte, before) in plain.iter_mut().zip(before) {
        *byte ^= before;
    }
    plain
}

/// The hash of these pieces, one behind the other.
pub(super) fn hash(algorithm: &'static Algorithm, pieces: &[&[u8]]) -> Vec<u8> {
    let mut context = Context::new(algorithm);
    for piece in pieces {
        context.update(piece);
    }
    context.finish().as_ref().to_vec()
}

/// The hash of salt and password, hashed `count` times with the number of the round before it.
pub(super) fn spun(
    algorithm: &'static Algorithm,
    salt: &[u8],
    password: &[u8],
    count: u32,
) -> Vec<u8> {
    let mut last = {
        let mut context = Context::new(algorithm);
        context.update(salt);
        context.update(password);
        context.finish()
    };
    for round in 0..count {
        let mut context = Context::new(algorithm);
        context.update(&round.to_le_bytes());
        context.update(last.as_ref());
        last = context.finish();
    }
    last.as_ref().to_vec()
}
