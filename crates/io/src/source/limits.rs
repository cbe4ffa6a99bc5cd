//! The longest rows and the largest pages that memory has room for while files are read.
//!
//! Rows and pages that all tasks have no room for at once are read by one task at a time (`turns`).

use serde::{Deserialize, Serialize};

use super::{ReadOptions, Source};

/// Memory of a row of text while it is read and handed on, in its sizes. It has a decoder's buffer, which doubles, its
/// column, and the result of a map, an encoder or a function. A large row took 3.6 to 5.7 sizes (sort, scan,
/// `map_batches`). Where it is known what takes the rows, that may be less.
pub(crate) const ROW_COPIES: u64 = 7;
/// Several tasks at once may read rows up to this size, whatever the limit.
pub(crate) const MIN_ROW_BYTES: u64 = 4_000_000;
/// Tasks that wait for their turn with a longer row keep what they have read of it. The task that has the turn may take
/// all the budget. So they may keep a fourth of what they share without turns. With all of it, a join of texts of 20 MB
/// took up to 343 MB within 300.
const WAITING_PART: u64 = 4;

/// The memory of a program that reads.
#[derive(Debug, Clone, Copy)]
pub struct ReadMemory {
    /// The memory limit of the program.
    pub limit_bytes: u64,
    /// The budget for blocks and the working memory of tasks.
    pub budget_bytes: u64,
    /// The tasks that run at once, at least one.
    pub num_tasks: u64,
    /// The most copies of a large row at once in what takes it, with the row itself; `None` if that is unknown.
    pub row_copies: Option<u64>,
}

/// Memory of a large row of text, in its sizes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TextRow {
    /// Until it has been read.
    pub(crate) read_copies: u64,
    /// Copies that reading leaves behind for a moment, beside the row that is handed on.
    pub(crate) kept_copies: u64,
}

/// The longest row, or the largest page or footer, that memory has room for, and what that was computed from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct RowLimit {
    /// The longest row.
    pub row_bytes: u64,
    /// Memory of a large row, in its sizes.
    copies: u64,
    budget_bytes: u64,
    limit_bytes: u64,
}

impl RowLimit {
    /// For rows that take so many copies, the row itself among them.
    pub fn of(memory: ReadMemory, copies: u64) -> Self {
        let no_copies = Self {
            row_bytes: 0,
            copies: 0,
            budget_bytes: memory.budget_bytes,
            limit_bytes: memory.limit_bytes,
        };
        no_copies.beside(copies)
    }

    /// The limit where rows take so many copies more.
    pub(crate) fn beside(self, more_copies: u64) -> Self {
        self.with_copies(self.copies + more_copies)
    }

    /// The limit where rows take so many copies fewer.
    pub(crate) fn without(self, fewer_copies: u64) -> Self {
        self.with_copies(self.copies.saturating_sub(fewer_copies).max(1))
    }

    fn with_copies(self, copies: u64) -> Self {
        Self {
            row_bytes: (self.budget_bytes / copies).max(MIN_ROW_BYTES),
            copies,
            ..self
        }
    }

    /// The limit with room for so many bytes at least, which a plan knows of.
    pub(crate) fn at_least(self, bytes: u64) -> Self {
        Self {
            row_bytes: self.row_bytes.max(bytes),
            ..self
        }
    }

    /// The most bytes of a row that is kept.
    pub(crate) fn most_bytes(limit: Option<Self>) -> usize {
        let bytes = limit.map(|limit| usize::try_from(limit.row_bytes));
        bytes
            .and_then(std::result::Result::ok)
            .unwrap_or(usize::MAX)
    }

    /// Returns the memory limit with which there is room for a row of so many bytes.
    ///
    /// The engine keeps a little more of a larger limit for itself; and the next run may take a little more.
    pub fn enough_bytes(&self, row_bytes: u64) -> u64 {
        let needed = row_bytes.saturating_mul(self.copies);
        let missing = needed.saturating_sub(self.budget_bytes);
        let enough = 100 * u128::from(self.limit_bytes) + 103 * u128::from(missing);
        u64::try_from(enough * 102 / 10_000).unwrap_or(u64::MAX)
    }
}

/// The most bytes of what is read in one piece; `None` is no limit.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Limits {
    /// The longest row.
    pub(crate) row: Option<RowLimit>,
    /// The largest page.
    pub(crate) page: Option<RowLimit>,
    /// The longest row and the largest page that several tasks may have at once.
    pub(crate) shared_bytes: Option<u64>,
}

impl Limits {
    /// For formats whose rows and pages are as large as files tell.
    pub(crate) fn shared(memory: ReadMemory) -> Self {
        let share = memory.budget_bytes / (ROW_COPIES * memory.num_tasks);
        Self {
            shared_bytes: Some(share.max(MIN_ROW_BYTES)),
            ..Self::default()
        }
    }

    /// For text, which does not tell the length of a row before its end.
    pub(crate) fn of_text(memory: ReadMemory, row: TextRow) -> Self {
        let handed = memory.row_copies.unwrap_or(ROW_COPIES) + row.kept_copies;
        let copies = handed.max(row.read_copies).min(ROW_COPIES);
        let share = memory.budget_bytes / (ROW_COPIES * memory.num_tasks);
        Self {
            row: Some(RowLimit::of(memory, copies)),
            shared_bytes: Some((share / WAITING_PART).max(MIN_ROW_BYTES)),
            ..Self::default()
        }
    }
}

impl Source {
    /// The options for reading these files within the memory of a program.
    pub fn options_within(&self, options: &ReadOptions, memory: ReadMemory) -> ReadOptions {
        let columns = self.schema.fields().iter();
        let columns = columns.map(|field| field.name().clone()).collect();
        let (working_bytes, _) = self.working_bytes(&columns);
        let limits = self.format.driver().limits(memory, working_bytes);
        options.with_limits(limits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Format;

    const MEMORY: ReadMemory = ReadMemory {
        limit_bytes: 3_000_000_000,
        budget_bytes: 2_800_000_000,
        num_tasks: 4,
        row_copies: None,
    };

    #[test]
    fn formats_limit_what_their_files_do_not_tell() {
        for (name, limits) in [
            ("parquet", [Some(560), Some(175), Some(100)]),
            ("arrow", [Some(560), None, Some(140)]),
            ("csv", [Some(400), None, Some(25)]),
            ("jsonl", [Some(400), None, Some(25)]),
            ("records", [None, None, Some(100)]),
            ("text", [Some(400), None, Some(25)]),
            ("binary", [None, None, Some(100)]),
        ] {
            let format: Format = name.parse().unwrap();
            let found = format.driver().limits(MEMORY, 0);
            let found = [
                found.row.map(|row| row.row_bytes),
                found.page.map(|page| page.row_bytes),
                found.shared_bytes,
            ];
            let millions = |bytes: Option<u64>| bytes.map(|bytes| bytes / 1_000_000);
            assert_eq!(found.map(millions), limits, "{name}");
        }
    }

    #[test]
    fn small_rows_and_planned_pages_are_read_within_any_limit() {
        let tiny = ReadMemory {
            limit_bytes: 2000,
            budget_bytes: 1000,
            num_tasks: 64,
            row_copies: None,
        };
        for format in Format::all() {
            let Limits {
                row,
                page,
                shared_bytes,
            } = format.driver().limits(tiny, 30_000_000);
            assert!(row.is_none_or(|row| row.row_bytes == MIN_ROW_BYTES));
            assert!(page.is_none_or(|page| page.row_bytes == 30_000_000));
            assert_eq!(shared_bytes, Some(MIN_ROW_BYTES), "{format}");
        }
    }

    #[test]
    fn the_limit_for_a_longer_row_has_room_for_it() {
        let row = RowLimit::of(MEMORY, 7);
        assert_eq!(row.row_bytes, 400_000_000);
        // 200 MB are missing for a copy of 100 MB more, twice; 3 and 2 hundredths are added.
        assert_eq!(row.enough_bytes(500_000_000), 3_795_420_000);
        assert_eq!(row.beside(1).row_bytes, 350_000_000);
        assert_eq!(row.without(3).row_bytes, 700_000_000);
        assert_eq!(row.enough_bytes(1), 3_060_000_000);
        assert_eq!(row.enough_bytes(u64::MAX), u64::MAX);
        // More room for what a plan knows of says nothing about anything longer.
        let planned = row.at_least(450_000_000);
        assert_eq!(planned.row_bytes, 450_000_000);
        assert_eq!(planned.enough_bytes(500_000_000), 3_795_420_000);
    }
}
