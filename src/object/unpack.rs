//! Payloads of fatbin entries in their plain form. What a header says of their size is a limit, never a promise.

use std::cell::RefCell;

use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};

/// No image of a real build comes near it; a header that says more is not believed.
const MAX_IMAGE: u64 = 1 << 30;
/// What is unpacked before it is asked for.
const AT_ONCE: usize = 1 << 20;

/// One LZ4 block that gives exactly `size` bytes.
pub fn lz4(packed: &[u8], size: u64) -> Option<Vec<u8>> {
    let size = believed(size)?;
    // LZ4 can't expand a byte to more than 255: a header that says so would only cost memory.
    if size / 255 > packed.len() {
        return None;
    }
    let mut out = vec![0; size];
    let written = lz4_flex::block::decompress_into(packed, &mut out).ok()?;
    (written == size).then_some(out)
}

/// One zstd frame that gives exactly `size` bytes.
pub fn zstd(packed: &[u8], size: u64) -> Option<Vec<u8>> {
    // Its tables are worth more than most images.
    thread_local!(static DECODER: RefCell<FrameDecoder> = RefCell::new(FrameDecoder::new()));
    let size = believed(size)?;
    DECODER.with_borrow_mut(|decoder| {
        let out = frame(decoder, packed, size);
        if out.is_none() {
            // What a broken frame leaves behind is nobody's.
            *decoder = FrameDecoder::new();
        }
        out
    })
}

fn frame(decoder: &mut FrameDecoder, mut packed: &[u8], size: usize) -> Option<Vec<u8>> {
    decoder.reset(&mut packed).ok()?;
    let mut out = Vec::with_capacity(size.min(AT_ONCE));
    while !decoder.is_finished() {
        decoder.decode_blocks(&mut packed, BlockDecodingStrategy::UptoBytes(AT_ONCE)).ok()?;
        if decoder.can_collect() > size - out.len() {
            return None;
        }
        decoder.collect_to_writer(&mut out).ok()?;
    }
    (out.len() == size).then_some(out)
}

fn believed(size: u64) -> Option<usize> {
    usize::try_from(size).ok().filter(|_| size <= MAX_IMAGE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ruzstd::encoding::{CompressionLevel, compress_to_vec};

    #[test]
    fn frames_one_after_the_other_give_what_was_packed_whatever_came_between() {
        let texts: Vec<Vec<u8>> = [0, 1, 700, 3 << 20].map(|n| (0..n).map(|i: u32| (i.wrapping_mul(i) >> 7) as u8).collect()).into();
        for text in texts.iter().chain(&texts) {
            let packed = compress_to_vec(&text[..], CompressionLevel::Fastest);
            let size = text.len() as u64;
            assert_eq!(zstd(&packed, size).as_ref(), Some(text));
            assert_eq!(zstd(&packed, size + 1), None);
            assert_eq!(size.checked_sub(1).and_then(|less| zstd(&packed, less)), None);
            assert_eq!(zstd(&packed[..packed.len() - 1], size), None);
            assert_eq!(zstd(b"no frame", size), None);
            assert_eq!(zstd(&packed, MAX_IMAGE + 1), None);
        }
    }

    #[test]
    fn blocks_give_what_was_packed_and_no_more_is_believed_than_they_can_hold() {
        let text = b"some text, some text, some text".repeat(9);
        let packed = lz4_flex::block::compress(&text);
        assert_eq!(lz4(&packed, text.len() as u64).as_ref(), Some(&text));
        for size in [0, text.len() as u64 - 1, text.len() as u64 + 1, MAX_IMAGE] {
            assert_eq!(lz4(&packed, size), None, "{size}");
        }
    }
}
