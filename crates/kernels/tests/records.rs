//! Fixed-length records against naive oracles: stable sort of all, counting of boundaries, one pass of valsort.

#![allow(
    clippy::unwrap_used,
    reason = "a failed unwrap fails the test, also outside of #[test] functions"
)]

use exoshuffle_kernels::records::{
    choose_boundaries, sample, sort_into, Boundaries, RecordError, RecordShape, Scatter,
    SortedRecords,
};
use exoshuffle_kernels::valsort::Summary;
use exoshuffle_kernels::{Position, Sections, Tally};
use proptest::prelude::*;

/// Bytes of the header of every slice.
const HEADER_BYTES: usize = 40;

/// How the bytes of the records are distributed.
#[derive(Clone, Copy, Debug)]
enum Bytes {
    Any,
    /// Few distinct keys.
    OfTwo,
    /// Keys that differ late, with long equal prefixes.
    MostlyZero,
    AllEqual,
}

#[derive(Clone, Debug)]
struct Input {
    shape: RecordShape,
    records: Vec<u8>,
}

impl Input {
    fn rows(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        self.records.chunks(self.shape.record_bytes())
    }

    fn key<'a>(&self, record: &'a [u8]) -> &'a [u8] {
        &record[..self.shape.key_bytes()]
    }

    /// Returns the records cut into up to `pieces` slices of different lengths, some of them empty.
    fn slices(&self, pieces: usize) -> Vec<&[u8]> {
        let mut rest = &self.records[..];
        let mut slices = Vec::new();
        for piece in 1..pieces {
            let count = rest.len() / self.shape.record_bytes() * (piece % 3) / 4;
            let (slice, after) = rest.split_at(count * self.shape.record_bytes());
            slices.push(slice);
            rest = after;
        }
        slices.push(rest);
        slices
    }

    fn sorted(&self) -> Vec<u8> {
        let mut rows: Vec<_> = self.rows().collect();
        rows.sort_by_key(|row| self.key(row));
        rows.concat()
    }
}

fn inputs() -> impl Strategy<Value = Input> {
    let shapes = prop_oneof![
        Just((100, 10)),
        (1usize..40).prop_flat_map(|width| (Just(width), 1..=width)),
    ];
    let bytes = prop_oneof![
        Just(Bytes::Any),
        Just(Bytes::OfTwo),
        Just(Bytes::MostlyZero),
        Just(Bytes::AllEqual)
    ];
    (shapes, bytes, 0usize..400).prop_flat_map(|((record_bytes, key_bytes), bytes, count)| {
        let shape = RecordShape::try_new(record_bytes, key_bytes).unwrap();
        prop::collection::vec(any::<u8>(), record_bytes * count).prop_map(move |mut records| {
            for (i, record) in records.chunks_mut(record_bytes).enumerate() {
                for byte in &mut record[..key_bytes] {
                    *byte = match bytes {
                        Bytes::Any => *byte,
                        Bytes::OfTwo => [3, 200][usize::from(*byte < 20)],
                        Bytes::MostlyZero => byte.saturating_sub(250),
                        Bytes::AllEqual => 7,
                    };
                }
                // The payload tells equal keys apart, so that the order of ties can be checked.
                let payload = &mut record[key_bytes..];
                let number = (i as u32).to_be_bytes();
                let tail = payload.len().min(4);
                payload[..tail].copy_from_slice(&number[4 - tail..]);
            }
            Input { shape, records }
        })
    })
}

fn at(split: u32, row: u64) -> Position {
    Position { split, row }
}

proptest! {
    #[test]
    fn sorts_like_a_stable_sort(input in inputs(), pieces in 1usize..9, buffer_records in 1usize..50) {
        let mut buffer = vec![0; buffer_records * input.shape.record_bytes()];
        let mut sorted = Vec::new();
        sort_into(input.shape, &input.slices(pieces), &mut buffer, |records| {
            sorted.extend_from_slice(records);
            Ok::<_, RecordError>(())
        }).unwrap();
        prop_assert_eq!(sorted, input.sorted());
    }

    #[test]
    fn scatters_each_record_to_the_count_of_boundaries_before_it(
        input in inputs(),
        num_partitions in 1usize..30,
        pieces in 1usize..5,
        every in 1usize..20,
        split in 4u32..7,
    ) {
        let rows: Vec<u64> = (0..input.rows().len() as u64).step_by(every).collect();
        let samples = sample(input.shape, &input.records, at(5, 0), &rows);
        let boundaries = choose_boundaries(input.shape, &[&samples], num_partitions).unwrap();
        let bytes = boundaries.to_bytes();
        let boundaries = Boundaries::from_bytes(input.shape, &bytes).unwrap();
        prop_assert_eq!(boundaries.num_partitions(), num_partitions);

        let mut expected = vec![Vec::new(); num_partitions];
        for (row, record) in (0u64..).zip(input.rows()) {
            let mut key = input.key(record).to_vec();
            key.extend(split.to_be_bytes());
            key.extend(row.to_be_bytes());
            let before = bytes.chunks(key.len()).filter(|&b| b <= &key[..]).count();
            expected[before].extend_from_slice(record);
        }
        let slices = input.slices(pieces);
        let scatter = Scatter::plan(&slices, &boundaries, at(split, 0)).unwrap();
        let mut out = vec![0; input.records.len() + HEADER_BYTES * num_partitions];
        scatter.write(&slices, &mut out).unwrap();
        prop_assert_eq!(scatter.records(), input.rows().len());
        for (r, slice) in expected.iter().enumerate() {
            let offsets = &scatter.slice_offsets()[r..r + 2];
            let found = &out[offsets[0] as usize..offsets[1] as usize];
            prop_assert_eq!(&found[HEADER_BYTES..], &slice[..]);
            let mut tally = Tally::default();
            tally.add_records(slice, input.shape.record_bytes());
            let sections = Sections::open(vec![found.into()], r as u32, Some(split), Some(split + 1)).unwrap();
            prop_assert_eq!(sections.sent(0), tally);
        }
    }

    #[test]
    fn validates_parts_like_the_whole(input in inputs(), pieces in 1usize..6, sort in any::<bool>()) {
        let input = Input { records: if sort { input.sorted() } else { input.records.clone() }, ..input };
        let mut whole = Summary::new(input.shape);
        whole.update(&input.records).unwrap();
        let mut streamed = Summary::new(input.shape);
        let mut appended = Summary::new(input.shape);
        for slice in input.slices(pieces) {
            streamed.update(slice).unwrap();
            let mut part = Summary::new(input.shape);
            part.update(slice).unwrap();
            appended.append(&part);
        }
        prop_assert_eq!(&streamed, &whole);
        prop_assert_eq!(&appended, &whole);

        let keys: Vec<_> = input.rows().map(|row| input.key(row)).collect();
        let unordered: Vec<_> = (1..keys.len()).filter(|&i| keys[i - 1] > keys[i]).collect();
        let duplicates = keys.windows(2).filter(|pair| pair[0] == pair[1]).count();
        prop_assert_eq!(whole.unordered, unordered.len() as u64);
        prop_assert_eq!(whole.first_unordered, unordered.first().map(|&i| i as u64));
        prop_assert_eq!(whole.duplicates, duplicates as u64);
        prop_assert_eq!(whole.is_sorted(), keys.is_sorted());
    }
}

#[test]
fn equal_keys_are_split_evenly() {
    let shape = RecordShape::try_new(12, 8).unwrap();
    let records = vec![9; 12 * 10_000];
    let rows: Vec<u64> = (0..10_000).step_by(25).collect();
    let samples: Vec<Vec<u8>> = (0..4)
        .map(|split| sample(shape, &records, at(split, 0), &rows))
        .collect();
    let samples: Vec<&[u8]> = samples.iter().map(Vec::as_slice).collect();
    let boundaries = choose_boundaries(shape, &samples, 16).unwrap();
    let mut totals = [0; 16];
    for split in 0..4 {
        let scatter = Scatter::plan(&[&records], &boundaries, at(split, 0)).unwrap();
        for (total, ends) in totals.iter_mut().zip(scatter.slice_offsets().windows(2)) {
            *total += (ends[1] - ends[0] - HEADER_BYTES as u64) / 12;
        }
    }
    assert!(
        totals.iter().all(|t| (2400..=2600).contains(t)),
        "{totals:?}"
    );
}

#[test]
fn large_skewed_inputs_are_sorted() {
    let shape = RecordShape::try_new(20, 18).unwrap();
    let mut records = vec![0; 20 * 60_000];
    let mut random = 1u64;
    for record in records.chunks_mut(20) {
        random = random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        let place = (random >> 60) as usize;
        record[place] = (random >> 40) as u8 % 3;
        record[17] = (random >> 50) as u8;
    }
    let input = Input { shape, records };
    let sorted = SortedRecords::try_new(shape, &input.slices(5)).unwrap();
    let mut out = vec![0; input.records.len()];
    sorted.gather(0, &mut out).unwrap();
    assert!(out == input.sorted());
    assert!(sorted.gather(1, &mut out).is_err());
    sorted.gather(59_999, &mut out[..20]).unwrap();
    assert_eq!(out[..20], out[out.len() - 20..]);
    let order = sorted.into_order();
    let resumed = SortedRecords::resume(shape, &input.slices(5), order).unwrap();
    let mut again = vec![0; input.records.len()];
    resumed.gather(0, &mut again).unwrap();
    assert!(again == input.sorted());
    let order = resumed.into_order();
    assert!(SortedRecords::resume(shape, &input.slices(5)[1..], order).is_err());
}

#[test]
fn buffers_of_the_wrong_size_are_refused() {
    let shape = RecordShape::try_new(10, 2).unwrap();
    let boundaries = choose_boundaries(shape, &[], 3).unwrap();
    let scatter = Scatter::plan(&[&[0; 30]], &boundaries, at(0, 0)).unwrap();
    const BLOCK_BYTES: usize = 30 + 3 * HEADER_BYTES;
    assert!(scatter.write(&[&[0; 30]], &mut [0; 30]).is_err());
    assert!(scatter.write(&[&[0; 20]], &mut [0; BLOCK_BYTES]).is_err());
    assert!(scatter.write(&[&[0; 30]], &mut [0; BLOCK_BYTES]).is_ok());
    assert!(Scatter::plan(&[&[0; 31]], &boundaries, at(0, 0)).is_err());
    let sink = |_: &[u8]| Ok::<_, RecordError>(());
    assert!(sort_into(shape, &[&[0; 30]], &mut [0; 9], sink).is_err());
    assert!(sort_into(shape, &[&[0; 31]], &mut [0; 10], sink).is_err());
}

#[test]
fn an_error_of_the_sink_stops_the_sort() {
    let shape = RecordShape::try_new(2, 1).unwrap();
    let mut calls = 0;
    let stopped = sort_into(shape, &[&[0; 20]], &mut [0; 4], |_| {
        calls += 1;
        Err(RecordError::OutputSize {
            expected: 1,
            actual: 0,
        })
    });
    assert!(stopped.is_err());
    assert_eq!(calls, 1);
}
