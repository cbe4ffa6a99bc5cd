//! Merging blocks: slice r of the result is the slices r of the inputs, one after the other, not decoded.

use crate::error::{KernelError, Result};

/// Returns the slice offsets of the merge of `blocks`, each of them given by the bytes of its slices.
///
/// # Errors
/// The blocks do not all have as many slices.
pub fn merged_offsets(blocks: &[Vec<u64>]) -> Result<Vec<u64>> {
    let num_slices = check_slices(blocks)?;
    let mut offsets = vec![0u64; num_slices + 1];
    for block in blocks {
        for (bytes, total) in block.iter().zip(&mut offsets[1..]) {
            *total += bytes;
        }
    }
    for index in 1..offsets.len() {
        offsets[index] += offsets[index - 1];
    }
    Ok(offsets)
}

/// Fills `out` with the merge of `blocks`, each a list of its slices.
///
/// # Errors
/// The blocks do not all have as many slices, or `out` does not have as many bytes as all of them.
///
/// # Cost
/// One copy of the bytes.
pub fn merge_into<S: AsRef<[u8]>>(blocks: &[Vec<S>], out: &mut [u8]) -> Result<()> {
    let num_slices = check_slices(blocks)?;
    let slices = blocks.iter().flatten();
    let expected: usize = slices.map(|slice| slice.as_ref().len()).sum();
    if out.len() != expected {
        return Err(KernelError::OutputSize {
            expected: expected as u64,
            actual: out.len() as u64,
        });
    }
    let mut rest = out;
    for index in 0..num_slices {
        for block in blocks {
            let slice = block[index].as_ref();
            let (target, behind) = rest.split_at_mut(slice.len());
            target.copy_from_slice(slice);
            rest = behind;
        }
    }
    Ok(())
}

/// Returns how many slices each of the blocks has.
fn check_slices<S>(blocks: &[Vec<S>]) -> Result<usize> {
    let expected = blocks.first().map_or(0, Vec::len);
    match blocks.iter().find(|block| block.len() != expected) {
        None => Ok(expected),
        Some(block) => Err(KernelError::SliceCount {
            expected,
            actual: block.len(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    /// Makes blocks of the same number of slices.
    fn blocks() -> impl Strategy<Value = Vec<Vec<Vec<u8>>>> {
        (0..5usize, 0..5usize).prop_flat_map(|(num_blocks, num_slices)| {
            vec(
                vec(vec(any::<u8>(), 0..20), num_slices..=num_slices),
                num_blocks..=num_blocks,
            )
        })
    }

    fn sizes(blocks: &[Vec<Vec<u8>>]) -> Vec<Vec<u64>> {
        let of_block = |block: &Vec<Vec<u8>>| block.iter().map(|s| s.len() as u64).collect();
        blocks.iter().map(of_block).collect()
    }

    proptest! {
        #[test]
        fn each_slice_is_those_of_all_blocks_in_order(blocks in blocks()) {
            let offsets = merged_offsets(&sizes(&blocks)).unwrap();
            let mut out = vec![0; offsets[offsets.len() - 1] as usize];
            merge_into(&blocks, &mut out).unwrap();
            prop_assert_eq!(offsets.len(), blocks.first().map_or(0, Vec::len) + 1);
            for (index, bounds) in offsets.windows(2).enumerate() {
                let slices: Vec<Vec<u8>> = blocks.iter().map(|block| block[index].clone()).collect();
                prop_assert_eq!(&out[bounds[0] as usize..bounds[1] as usize], &slices.concat()[..]);
            }
        }
    }

    #[test]
    fn blocks_that_do_not_match_are_refused() {
        let uneven = [vec![vec![1u8]], vec![vec![2], vec![3]]];
        let refused = |error: KernelError| error.to_string();
        let message = "blocks of 1 and 2 slices cannot be merged; merge blocks of one shuffle";
        assert_eq!(
            refused(merged_offsets(&sizes(&uneven)).unwrap_err()),
            message
        );
        assert_eq!(
            refused(merge_into(&uneven, &mut [0; 3]).unwrap_err()),
            message
        );
    }

    #[test]
    fn an_output_of_another_size_is_refused() {
        for size in [1, 3] {
            let merged = merge_into(&[vec![b"ab"]], &mut vec![0; size]);
            assert!(
                matches!(merged, Err(KernelError::OutputSize { expected: 2, actual }) if actual == size as u64)
            );
        }
    }
}
