//! Batches as they are stored: a byte that says how, then the batch.

use gauntlet_store::sharing::BATCH_BYTES_MAX;

use crate::error::ArrayError;

/// As it is.
const PLAIN: u8 = 0;
/// Compressed (Zstandard).
const ZSTD: u8 = 1;
/// Batches are small and rare.
const LEVEL: i32 = 9;

/// A batch as it is stored.
///
/// # Errors
/// If it cannot be compressed.
pub fn pack(body: &[u8]) -> Result<Vec<u8>, ArrayError> {
    let mut frame = Vec::with_capacity(zstd_safe::compress_bound(body.len()));
    zstd_safe::compress(&mut frame, body, LEVEL).map_err(damaged)?;
    let (how, body) = if frame.len() < body.len() { (ZSTD, &*frame) } else { (PLAIN, body) };
    Ok([&[how], body].concat())
}

/// The batch of what is stored; none if it is damaged, larger than a batch may be, or stored in a
/// way that this program does not know.
pub fn unpack(stored: &[u8]) -> Option<Vec<u8>> {
    let (how, body) = stored.split_first()?;
    match *how {
        PLAIN => (body.len() <= BATCH_BYTES_MAX).then(|| body.to_vec()),
        ZSTD => {
            let size = zstd_safe::get_frame_content_size(body).ok().flatten()?;
            let size = usize::try_from(size).ok().filter(|size| *size <= BATCH_BYTES_MAX)?;
            let mut plain = Vec::with_capacity(size);
            zstd_safe::decompress(&mut plain, body).ok()?;
            Some(plain)
        }
        _ => None,
    }
}

fn damaged(code: usize) -> ArrayError {
    ArrayError::Damaged {
        what: "a batch of shared state".to_owned(),
        cause: zstd_safe::get_error_name(code).to_owned(),
    }
}
