//! Sorts the records of several slices by key, stably, without a second copy of them in memory.
//!
//! A record is represented by one `u64`: 32 bits of its key above its 32-bit number in input order. The 32 bits are the
//! key's next eight bytes less the smallest, scaled to the range that occurs. So one radix sort tells even a narrow
//! partition apart almost completely. Runs in which those bits agree are sorted again, by the bytes that follow. Equal
//! keys stay in the order of their numbers. Memory: 16 bytes per record while sorting, 8 afterwards.

use std::ops::Range;

use super::slices::Slices;
use super::{radix, KeyWord, RecordError, RecordShape, BENCHMARK_RECORD_BYTES};
use crate::prefetch::{prefetch, prefetch_line};

/// The part of an entry that numbers the record.
const INDEX: u64 = u32::MAX as u64;
/// Runs up to this length are sorted by comparing whole keys.
const SHORT_RUN: usize = 24;
/// The memory of a record is asked for this many records before it is copied.
const PREFETCH_RECORDS: usize = 24;

/// The records of some slices in sorted order, not yet copied.
pub struct SortedRecords<'a> {
    slices: Slices<'a>,
    entries: Vec<u64>,
}

/// The sorted order of the records of some slices, apart from these.
pub struct RecordOrder(Vec<u64>);

impl<'a> SortedRecords<'a> {
    /// Sorts the records of `slices` by key; equal keys stay in input order.
    ///
    /// # Errors
    /// [`RecordError::PartialRecord`], [`RecordError::TooManyRecords`].
    ///
    /// # Cost
    /// 16 bytes per record; about 40 ns per record for random keys.
    pub fn try_new(shape: RecordShape, slices: &[&'a [u8]]) -> Result<Self, RecordError> {
        let slices = Slices::try_new(shape, slices)?;
        let (mut entries, mut scratch, span) = read_first_words(&slices);
        let mut runs = Vec::new();
        let all = Run {
            range: 0..entries.len(),
            depth: 0,
        };
        split_run(&slices, all, span, &mut entries, &mut scratch, &mut runs);
        while let Some(run) = runs.pop() {
            sort_run(&slices, run, &mut entries, &mut scratch, &mut runs);
        }
        Ok(Self { slices, entries })
    }

    /// Returns the order alone, to be resumed with the same slices, for an owner of the slices, which cannot borrow
    /// from itself.
    pub fn into_order(self) -> RecordOrder {
        RecordOrder(self.entries)
    }

    /// Returns the records of `slices` in an order found before.
    ///
    /// # Errors
    /// [`RecordError::OutputSize`] if it is the order of another number of records.
    pub fn resume(
        shape: RecordShape,
        slices: &[&'a [u8]],
        order: RecordOrder,
    ) -> Result<Self, RecordError> {
        let slices = Slices::try_new(shape, slices)?;
        let RecordOrder(entries) = order;
        if slices.len() != entries.len() {
            return Err(RecordError::OutputSize {
                expected: entries.len() * shape.record_bytes(),
                actual: slices.len() * shape.record_bytes(),
            });
        }
        Ok(Self { slices, entries })
    }

    /// Returns the number of records.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Returns whether there is no record.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Fills `out` with the records from number `start` of the sorted order on.
    ///
    /// # Errors
    /// [`RecordError::PartialRecord`] if `out` is no whole number of records, [`RecordError::OutputSize`] if there
    /// are fewer records than it takes.
    pub fn gather(&self, start: usize, out: &mut [u8]) -> Result<(), RecordError> {
        let shape = self.slices.shape();
        let count = shape.count(out)?;
        let Some(entries) = self.entries.get(start..).filter(|rest| rest.len() >= count) else {
            return Err(RecordError::OutputSize {
                expected: self.len().saturating_sub(start) * shape.record_bytes(),
                actual: out.len(),
            });
        };
        if shape.record_bytes() == BENCHMARK_RECORD_BYTES {
            copy_records(&self.slices, entries, out, BENCHMARK_RECORD_BYTES);
        } else {
            copy_records(&self.slices, entries, out, shape.record_bytes());
        }
        Ok(())
    }
}

/// Sorts the records of `slices` and hands them, in order, to `sink`, one full `buffer` after the other.
///
/// # Errors
/// Those of [`SortedRecords::try_new`]; [`RecordError::OutputSize`] if `buffer` holds no record; those of `sink`.
///
/// # Cost
/// 16 bytes per record beside the caller's buffer.
pub fn sort_into<E: From<RecordError>>(
    shape: RecordShape,
    slices: &[&[u8]],
    buffer: &mut [u8],
    mut sink: impl FnMut(&[u8]) -> Result<(), E>,
) -> Result<(), E> {
    let record_bytes = shape.record_bytes();
    let per_buffer = buffer.len() / record_bytes;
    if per_buffer == 0 {
        return Err(E::from(RecordError::OutputSize {
            expected: record_bytes,
            actual: buffer.len(),
        }));
    }
    let sorted = SortedRecords::try_new(shape, slices)?;
    for start in (0..sorted.len()).step_by(per_buffer) {
        let count = per_buffer.min(sorted.len() - start);
        let out = &mut buffer[..count * record_bytes];
        sorted.gather(start, out)?;
        sink(out)?;
    }
    Ok(())
}

/// Entries that agree on the key before byte `depth`, in input order.
struct Run {
    range: Range<usize>,
    depth: usize,
}

/// The least and the greatest of some key words.
#[derive(Clone, Copy)]
struct Span {
    least: u64,
    most: u64,
}

impl Span {
    const EMPTY: Self = Self {
        least: u64::MAX,
        most: 0,
    };

    #[inline(always)]
    fn add(&mut self, word: u64) {
        self.least = self.least.min(word);
        self.most = self.most.max(word);
    }
}

/// Makes one entry for each record, in input order; returns the entries, the first key words, and their span.
fn read_first_words(slices: &Slices<'_>) -> (Vec<u64>, Vec<u64>, Span) {
    let word = KeyWord::new(slices.shape(), 0);
    let mut entries = Vec::with_capacity(slices.len());
    let mut words = Vec::with_capacity(slices.len());
    let mut span = Span::EMPTY;
    for chunk in slices.chunks() {
        words.extend(chunk.records.map(|record| {
            let value = word.of(record);
            span.add(value);
            value
        }));
        entries.extend((u64::from(chunk.first)..).take(words.len() - entries.len()));
    }
    (entries, words, span)
}

/// Fills `words` with the key word of each entry, and returns their span.
fn read_words(slices: &Slices<'_>, word: KeyWord, entries: &[u64], words: &mut [u64]) -> Span {
    let record_bytes = slices.shape().record_bytes();
    let mut span = Span::EMPTY;
    let record = |entry: u64| slices.record(index_of(entry), record_bytes);
    let mut ahead = entries.iter().skip(PREFETCH_RECORDS);
    for (out, &entry) in words.iter_mut().zip(entries) {
        if let Some(&later) = ahead.next() {
            prefetch_line(word.first_byte(record(later)));
        }
        *out = word.of(record(entry));
        span.add(*out);
    }
    span
}

/// Sorts one run by up to 32 bits of the key, and adds to `runs` the records that these bits do not tell apart.
fn sort_run(
    slices: &Slices<'_>,
    run: Run,
    entries: &mut [u64],
    scratch: &mut [u64],
    runs: &mut Vec<Run>,
) {
    let run_entries = &mut entries[run.range.clone()];
    if run_entries.len() <= SHORT_RUN {
        return sort_short_run(slices, run_entries, run.depth);
    }
    let word = KeyWord::new(slices.shape(), run.depth);
    let span = read_words(slices, word, run_entries, &mut scratch[run.range.clone()]);
    split_run(slices, run, span, entries, scratch, runs);
}

/// Does the rest of [`sort_run`], once `scratch` holds the key words of the run and `span` their span.
fn split_run(
    slices: &Slices<'_>,
    run: Run,
    span: Span,
    entries: &mut [u64],
    scratch: &mut [u64],
    runs: &mut Vec<Run>,
) {
    let Run { range, depth } = run;
    let base = range.start;
    let entries = &mut entries[range.clone()];
    let words = &mut scratch[range];
    let mut push = |range: Range<usize>, depth| {
        if range.len() > 1 && depth < slices.shape().key_bytes() {
            runs.push(Run { range, depth });
        }
    };
    if span.least >= span.most {
        return push(base..base + entries.len(), depth + 8);
    }
    let scale = (span.most - span.least).leading_zeros();
    for (entry, word) in entries.iter_mut().zip(words.iter()) {
        *entry = ((word - span.least) << scale) & !INDEX | *entry & INDEX;
    }
    radix::sort_entries(entries, words);
    let next_depth = if scale >= 32 { depth + 8 } else { depth };
    let mut start = base;
    for equal in entries.chunk_by(|a, b| a >> 32 == b >> 32) {
        push(start..start + equal.len(), next_depth);
        start += equal.len();
    }
}

/// Sorts a few entries by the rest of their keys, then by number.
fn sort_short_run(slices: &Slices<'_>, entries: &mut [u64], depth: usize) {
    let shape = slices.shape();
    let rest = |entry: u64| {
        let record = slices.record(index_of(entry), shape.record_bytes());
        &shape.key(record)[depth..]
    };
    entries.sort_unstable_by(|&a, &b| {
        rest(a)
            .cmp(rest(b))
            .then_with(|| index_of(a).cmp(&index_of(b)))
    });
}

#[inline(always)]
fn index_of(entry: u64) -> u32 {
    (entry & INDEX) as u32
}

/// Copies as many records as `out` takes, in the order of `entries`.
#[inline(always)]
fn copy_records(slices: &Slices<'_>, entries: &[u64], out: &mut [u8], record_bytes: usize) {
    for (i, out) in out.chunks_exact_mut(record_bytes).enumerate() {
        if let Some(&ahead) = entries.get(i + PREFETCH_RECORDS) {
            prefetch(slices.record(index_of(ahead), record_bytes));
        }
        out.copy_from_slice(slices.record(index_of(entries[i]), record_bytes));
    }
}
