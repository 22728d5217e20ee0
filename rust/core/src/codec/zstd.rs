//! Zstandard: frames one after the other, as zstd-jni's input stream reads them for Kafka.
//!
//! Sound data takes the fast way: all frames at once, straight into the buffer. Whatever fails there (too little
//! room, or a defect) is read again block by block, which grows the buffer as bytes come and keeps what came out
//! before a defect.

use zstd_safe::{CCtx, DCtx, InBuffer, OutBuffer};

use super::{Buffer, over_limit};
use crate::error::Flaw;

/// A first guess at how much larger the output is.
const USUAL_EXPANSION: usize = 4;
/// The least that the buffer grows by.
const STEP: usize = 4 * 1024;
/// A block's header: type, size and whether it is the last.
const BLOCK_HEADER_SIZE: usize = 3;
/// How much zstd-jni reads at a time (`ZSTD_DStreamInSize`).
const JNI_PIECE: usize = 128 * 1024 + BLOCK_HEADER_SIZE;
/// A context larger than this is not kept: a frame of few bytes may ask for a window of 128 MiB.
const KEPT_CONTEXT: usize = 16 * 1024 * 1024;

/// A kept decompression context.
pub(super) struct Reader {
    context: DCtx<'static>,
}

impl Reader {
    pub(super) fn new() -> Self {
        Self { context: DCtx::create() }
    }

    /// Appends what the frames in `input` hold to the empty `out`.
    pub(super) fn decompress(&mut self, input: &[u8], limit: usize, out: &mut Buffer) -> Result<(), Flaw> {
        if input.is_empty() {
            return Ok(());
        }
        let room = out.room(input.len().saturating_mul(USUAL_EXPANSION).max(STEP), limit);
        if let Ok(made) = self.context.decompress(room, input) {
            out.advance(made);
            return Ok(());
        }
        let result = self.stream(input, limit, out);
        if self.context.sizeof() > KEPT_CONTEXT {
            self.context = DCtx::create();
        }
        result
    }

    fn stream(&mut self, input: &[u8], limit: usize, out: &mut Buffer) -> Result<(), Flaw> {
        const BAD: Flaw = Flaw::Decompress("zstd: corrupt frame");
        let mut rest = input;
        // What zstd wants next: 0 after a whole frame.
        let mut wanted = self.context.init().map_err(|_| BAD)?;
        let mut full = false;
        let mut frame_end = 0;
        loop {
            if rest.is_empty() && !full {
                // zstd-jni misses a cut frame where a whole one ended in the same piece of input.
                let last_piece = (input.len() - 1) / JNI_PIECE * JNI_PIECE;
                return if wanted == 0 || frame_end > last_piece {
                    Ok(())
                } else {
                    Err(Flaw::Decompress("zstd: frame ends early"))
                };
            }
            // A call that fails does not say what it made, so none may span two blocks: what is wanted is a
            // block and the header of the next, which is left to the next call.
            let piece = match wanted {
                _ if full => 0,
                0 => 1,
                1..=BLOCK_HEADER_SIZE => wanted,
                more => more - BLOCK_HEADER_SIZE,
            };
            let mut source = InBuffer::around(&rest[..piece.min(rest.len())]);
            let mut spill = [0; 1];
            let room = out.room(STEP, limit);
            let at_limit = room.is_empty();
            let target = if at_limit { &mut spill[..] } else { room };
            let size = target.len();
            let mut sink = OutBuffer::around(target);
            wanted = self.context.decompress_stream(&mut sink, &mut source).map_err(|_| BAD)?;
            let (used, made) = (source.pos(), sink.pos());
            if at_limit && made > 0 {
                return Err(over_limit(limit));
            }
            if used == 0 && made == 0 && !full {
                return Err(BAD);
            }
            full = made == size && wanted != 0;
            out.advance(made);
            rest = &rest[used..];
            if wanted == 0 {
                frame_end = input.len() - rest.len();
            }
        }
    }
}

/// Appends one frame with `input` to `out`.
pub(super) fn compress(
    context: &mut CCtx<'static>,
    level: i32,
    input: &[u8],
    scratch: &mut Buffer,
    out: &mut Vec<u8>,
) -> Result<(), Flaw> {
    scratch.clear();
    let room = scratch.room(zstd_safe::compress_bound(input.len()), usize::MAX);
    let length =
        context.compress(room, input, level).map_err(|_| Flaw::Decompress("zstd: cannot compress"))?;
    out.extend_from_slice(&room[..length]);
    Ok(())
}
