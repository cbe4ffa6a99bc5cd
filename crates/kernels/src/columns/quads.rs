//! Chunks of rows for all columns: four neighbouring columns of four bytes are read together, 16 bytes a row.

use crate::columns::decode::{Chunk, Decoder};
use crate::error::KernelError;
use crate::keys::key::read;
use crate::layout::RowLayout;
use crate::slot::Slot;

/// Appends a chunk to all decoders; see [`Decoder::append`].
///
/// # Errors
/// As `Decoder::append`.
pub(crate) fn append_all(
    decoders: &mut [Decoder<'_>],
    layout: &RowLayout,
    chunk: &Chunk<'_, '_>,
    tails: &mut [usize],
) -> Result<(), KernelError> {
    let mut rest = decoders;
    while !rest.is_empty() {
        let count = if rest.first_chunk().is_some_and(are_quad) {
            4
        } else {
            1
        };
        let (now, others) = rest.split_at_mut(count);
        match now {
            [a, b, c, d] => append_quad([a, b, c, d], chunk),
            others => {
                for decoder in others {
                    decoder.append(layout, chunk, tails)?;
                }
            }
        }
        rest = others;
    }
    Ok(())
}

/// Returns whether these columns have four bytes each, one behind the other.
fn are_quad(decoders: &[Decoder<'_>; 4]) -> bool {
    let Slot::Fixed { at, .. } = decoders[0].column.slot else {
        return false;
    };
    (0..).zip(decoders).all(|(number, decoder)| {
        let place = Slot::Fixed {
            at: at + 4 * number,
            width: 4,
        };
        decoder.column.slot == place
    })
}

fn append_quad(decoders: [&mut Decoder<'_>; 4], chunk: &Chunk<'_, '_>) {
    let Slot::Fixed { at, .. } = decoders[0].column.slot else {
        return;
    };
    let [a, b, c, d] = decoders.map(|decoder| decoder.places::<4>(chunk));
    let places = a.iter_mut().zip(b).zip(c.iter_mut().zip(d));
    for (((a, b), (c, d)), row) in places.zip(chunk.rows) {
        let quad = u128::from_le_bytes(read(row, at));
        *a = (quad as u32).to_le_bytes();
        *b = ((quad >> 32) as u32).to_le_bytes();
        *c = ((quad >> 64) as u32).to_le_bytes();
        *d = ((quad >> 96) as u32).to_le_bytes();
    }
}

impl Decoder<'_> {
    /// Appends a chunk of values of `N` bytes that are still to be written.
    fn places<const N: usize>(&mut self, chunk: &Chunk<'_, '_>) -> &mut [[u8; N]] {
        self.append_validity(chunk);
        self.rows += chunk.rows.len();
        let start = self.values.len();
        self.values.resize(start + N * chunk.rows.len(), 0);
        self.values.as_slice_mut()[start..].as_chunks_mut().0
    }
}
