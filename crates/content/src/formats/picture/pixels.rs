//! From the bytes of a picture to shades of grey, within limits that are checked on the header
//! before a decoder sees it.

use std::io::Cursor;

use zune_jpeg::zune_core::colorspace::ColorSpace;
use zune_jpeg::zune_core::options::DecoderOptions;

use super::bitmap;
use super::gray::{Gray, PIXELS_MAX, lightness, over_white};
use super::header::{Format, Header};
use crate::object::DefectKind;

/// Pixels of the frames of an animation in all.
const FRAMES_PIXELS_MAX: u64 = 16_000_000;
/// Frames of an animation.
const FRAMES_MAX: usize = 16;
/// Memory that a decoder may take beside the grey pixels.
const DECODER_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// Why a picture was not decoded.
pub(crate) type Failure = (DefectKind, String);

fn corrupt(error: impl std::fmt::Display) -> Failure {
    (DefectKind::Corrupt, error.to_string())
}

/// The frames of a picture, the first of most formats only.
///
/// # Errors
/// Why it cannot be decoded. Pixels that came before an error are kept, without one.
pub(crate) fn decode(header: &Header, bytes: &[u8]) -> Result<Vec<Gray>, Failure> {
    if header.pixels() > PIXELS_MAX {
        let detail = format!("a picture of {} megapixels", header.pixels() / 1_000_000);
        return Err((DefectKind::TooMuchMemory, detail));
    }
    match header.format {
        Format::Png => png(bytes).map(|gray| vec![gray]),
        Format::Jpeg => jpeg(bytes).map(|gray| vec![gray]),
        Format::Gif => gif(bytes),
        Format::Bitmap => bitmap::decode(bytes).map(|gray| vec![gray]).ok_or_else(unreadable),
        Format::WebP => webp(bytes).map(|gray| vec![gray]),
        Format::Tiff | Format::Icon => Ok(Vec::new()),
    }
}

fn unreadable() -> Failure {
    (DefectKind::Corrupt, "a bitmap that cannot be read".to_owned())
}

fn png(bytes: &[u8]) -> Result<Gray, Failure> {
    let limits = png::Limits { bytes: usize::try_from(DECODER_BYTES_MAX).unwrap_or(usize::MAX) };
    let mut decoder = png::Decoder::new_with_limits(Cursor::new(bytes), limits);
    decoder.set_transformations(png::Transformations::normalize_to_color8());
    decoder.ignore_checksums(true);
    decoder.set_ignore_text_chunk(true);
    decoder.set_ignore_iccp_chunk(true);
    let mut reader = decoder.read_info().map_err(corrupt)?;
    let (width, height) = (reader.info().width as usize, reader.info().height as usize);
    let samples = reader.output_color_type().0.samples();
    let mut gray = Gray { width, height, pixels: Vec::with_capacity(width * height) };
    if reader.info().interlaced {
        let size = reader.output_buffer_size().unwrap_or(usize::MAX);
        if size as u64 > 2 * DECODER_BYTES_MAX {
            return Err((DefectKind::TooMuchMemory, "an interlaced picture".to_owned()));
        }
        let mut buffer = vec![0xff; size];
        // What was read before an error stays in the buffer.
        let _ = reader.next_frame(&mut buffer);
        grays(&buffer, samples, &mut gray.pixels);
    } else {
        while let Ok(Some(row)) = reader.next_row() {
            grays(row.data(), samples, &mut gray.pixels);
        }
    }
    if gray.pixels.is_empty() {
        return Err(corrupt("no rows of a PNG can be read"));
    }
    gray.pixels.resize(width * height, 255);
    Ok(gray)
}

/// Appends the shades of samples: grey, grey with alpha, colours, or colours with alpha.
pub(crate) fn grays(samples: &[u8], count: usize, pixels: &mut Vec<u8>) {
    let rest = samples.chunks_exact(count.max(1));
    match count {
        1 => pixels.extend_from_slice(samples),
        2 => pixels.extend(rest.map(|p| over_white(p[0], p[1]))),
        3 => pixels.extend(rest.map(|p| lightness(p[0], p[1], p[2]))),
        _ => pixels.extend(rest.map(|p| over_white(lightness(p[0], p[1], p[2]), p[3]))),
    }
}

fn shades(samples: &[u8], count: usize) -> Vec<u8> {
    let mut pixels = Vec::new();
    grays(samples, count, &mut pixels);
    pixels
}

/// Decodes a JPEG; also for the pictures in a PDF.
pub(crate) fn jpeg(bytes: &[u8]) -> Result<Gray, Failure> {
    let side = usize::try_from(PIXELS_MAX).unwrap_or(usize::MAX);
    let options = DecoderOptions::default()
        .jpeg_set_out_colorspace(ColorSpace::Luma)
        .set_max_width(side)
        .set_max_height(side);
    let mut decoder = zune_jpeg::JpegDecoder::new_with_options(Cursor::new(bytes), options);
    decoder.decode_headers().map_err(corrupt)?;
    let (width, height) = decoder.dimensions().unwrap_or_default();
    if (width as u64).saturating_mul(height as u64) > PIXELS_MAX {
        return Err((DefectKind::TooMuchMemory, "a picture in a document".to_owned()));
    }
    // Four inks have no grey: the decoder gives what it has.
    if decoder.input_colorspace().is_some_and(|c| c.num_components() == 4) {
        let options = options.jpeg_set_out_colorspace(ColorSpace::RGB);
        decoder.set_options(options);
    }
    let samples = decoder.decode().map_err(corrupt)?;
    let count = samples.len() / (width * height).max(1);
    let mut pixels = if count == 1 { samples } else { shades(&samples, count) };
    pixels.resize(width * height, 255);
    Ok(Gray { width, height, pixels })
}

fn gif(bytes: &[u8]) -> Result<Vec<Gray>, Failure> {
    let mut options = gif::DecodeOptions::new();
    options.set_color_output(gif::ColorOutput::RGBA);
    if let Some(limit) = std::num::NonZeroU64::new(2 * DECODER_BYTES_MAX) {
        options.set_memory_limit(gif::MemoryLimit::Bytes(limit));
    }
    let mut decoder = options.read_info(Cursor::new(bytes)).map_err(corrupt)?;
    let mut frames: Vec<Gray> = Vec::new();
    let mut sum = 0;
    while frames.len() < FRAMES_MAX && sum < FRAMES_PIXELS_MAX {
        let Ok(Some(info)) = decoder.next_frame_info() else { break };
        let (width, height) = (usize::from(info.width), usize::from(info.height));
        let size = decoder.buffer_size();
        sum += (width * height) as u64;
        if sum > PIXELS_MAX {
            break;
        }
        let mut buffer = vec![0xff; size];
        let whole = decoder.read_into_buffer(&mut buffer).is_ok();
        let mut pixels = shades(&buffer, 4);
        pixels.resize(width * height, 255);
        frames.push(Gray { width, height, pixels });
        if !whole {
            break;
        }
    }
    match frames.is_empty() {
        true => Err(corrupt("no frame of a GIF can be read")),
        false => Ok(frames),
    }
}

fn webp(bytes: &[u8]) -> Result<Gray, Failure> {
    let mut decoder = image_webp::WebPDecoder::new(Cursor::new(bytes)).map_err(corrupt)?;
    decoder.set_memory_limit(usize::try_from(2 * DECODER_BYTES_MAX).unwrap_or(usize::MAX));
    let (width, height) = decoder.dimensions();
    let (width, height) = (width as usize, height as usize);
    let size = decoder.output_buffer_size().unwrap_or(usize::MAX);
    // The size within the file may differ from that of its header.
    if size as u64 > 4 * PIXELS_MAX || (width as u64) * (height as u64) > PIXELS_MAX {
        return Err((DefectKind::TooMuchMemory, "a WebP picture".to_owned()));
    }
    let mut buffer = vec![0xff; size];
    decoder.read_image(&mut buffer).map_err(corrupt)?;
    let mut pixels = shades(&buffer, size / (width * height).max(1));
    pixels.resize(width * height, 255);
    Ok(Gray { width, height, pixels })
}
