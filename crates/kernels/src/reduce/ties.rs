//! Ordering rows whose prefixes are equal but do not decide.
//!
//! Few rows are compared field by field. Many are ordered by the next 128 bits of their keys, and so on. Bytes that all
//! of them share are skipped first, so a long common beginning (URLs, paths) costs one pass however long it is.

use crate::keys::key::KeyField;
use crate::keys::prefix::{PrefixPlan, State};
use crate::layout::{RowLayout, CHUNK_ROWS};
use crate::order::{slice_and_offset, sort_entries, Entry, Prefix};

/// Up to here comparing rows is cheaper than packing and sorting the next bits.
const FEW: usize = 24;

/// Orders runs of rows that lie in `slices`.
pub(crate) struct TieBreaker<'a> {
    layout: &'a RowLayout,
    slices: &'a [&'a [u8]],
}

impl<'a> TieBreaker<'a> {
    pub(crate) fn new(layout: &'a RowLayout, slices: &'a [&'a [u8]]) -> Self {
        Self { layout, slices }
    }

    /// Sorts by (key, location) a run of rows that share their first prefix. Prefixes are overwritten.
    pub(crate) fn resolve<P: Prefix>(&self, run: &mut [Entry<P>]) {
        let plan = self.layout.prefix();
        let Some(state) = plan.after(run[0].prefix.bits()) else {
            return;
        };
        if plan.is_narrow() {
            // These are nulls, hardly ever with the one value that shares their prefix: they are in order already.
            self.compare(run, state);
            return;
        }
        // A stack of our own: keys can be equal for more bytes than recursion could follow.
        let mut open = vec![(0, run.len(), state)];
        while let Some((start, end, state)) = open.pop() {
            self.step(&mut run[start..end], start, state, &mut open);
        }
    }

    /// Orders one run by its next bits and notes the runs that these leave undecided.
    fn step<P: Prefix>(
        &self,
        run: &mut [Entry<P>],
        start: usize,
        state: State,
        open: &mut Vec<(usize, usize, State)>,
    ) {
        if run.len() <= FEW {
            self.compare(run, state);
            return;
        }
        let fields = self.layout.keys();
        let shared = self.shared_bytes(run, &fields[state.key], state.depth);
        let plan = PrefixPlan::next(
            fields,
            State {
                depth: state.depth + shared,
                ..state
            },
        );
        for chunk in run.chunks_mut(CHUNK_ROWS) {
            let mut prefixes = [P::default(); CHUNK_ROWS];
            let prefixes = &mut prefixes[..chunk.len()];
            plan.fill(|i| self.row(chunk[i].loc), prefixes);
            for (entry, prefix) in chunk.iter_mut().zip(prefixes) {
                entry.prefix = *prefix;
            }
        }
        sort_entries(run, |_| {});
        let mut at = start;
        for tied in run.chunk_by(|a, b| a.prefix == b.prefix) {
            if let (true, Some(next)) = (tied.len() > 1, plan.after(tied[0].prefix.bits())) {
                open.push((at, at + tied.len(), next));
            }
            at += tied.len();
        }
    }

    /// Returns how many bytes from `depth` on all rows have in common; 0 unless the rows are known to be within a
    /// string.
    fn shared_bytes<P: Prefix>(&self, run: &[Entry<P>], field: &KeyField, depth: usize) -> usize {
        if depth == 0 {
            return 0;
        }
        let rest = |entry: &Entry<P>| field.bytes(self.row(entry.loc)).get(depth..).unwrap_or(&[]);
        let first = rest(&run[0]);
        run[1..].iter().fold(first.len(), |shared, entry| {
            let other = rest(entry);
            let most = shared.min(other.len());
            if first[..most] == other[..most] {
                most
            } else {
                first.iter().zip(other).take_while(|(a, b)| a == b).count()
            }
        })
    }

    fn compare<P: Prefix>(&self, run: &mut [Entry<P>], state: State) {
        run.sort_unstable_by(|a, b| {
            self.layout
                .compare(self.row(a.loc), self.row(b.loc), state)
                .then(a.loc.cmp(&b.loc))
        });
    }

    fn row(&self, loc: u64) -> &'a [u8] {
        let (slice, offset) = slice_and_offset(loc);
        &self.slices[slice][offset..]
    }
}
