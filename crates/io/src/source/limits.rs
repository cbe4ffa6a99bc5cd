//! The longest rows and the largest pages that memory has room for while files are read.
//!
//! Rows and pages that all tasks have no room for at once are read by one task at a time (`turns`).

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

/// The most bytes of what is read in one piece; `None` is no limit.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Limits {
    /// The longest row.
    pub(crate) row_bytes: Option<u64>,
    /// The largest page.
    pub(crate) page_bytes: Option<u64>,
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
            row_bytes: Some((memory.budget_bytes / copies).max(MIN_ROW_BYTES)),
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
        budget_bytes: 2_800_000_000,
        num_tasks: 4,
        row_copies: None,
    };

    #[test]
    fn formats_limit_what_their_files_do_not_tell() {
        for (name, limits) in [
            ("parquet", [None, Some(175), Some(100)]),
            ("arrow", [Some(560), None, Some(140)]),
            ("csv", [Some(400), None, Some(25)]),
            ("jsonl", [Some(400), None, Some(25)]),
            ("records", [None, None, Some(100)]),
            ("text", [Some(400), None, Some(25)]),
            ("binary", [None, None, Some(100)]),
        ] {
            let format: Format = name.parse().unwrap();
            let found = format.driver().limits(MEMORY, 0);
            let found = [found.row_bytes, found.page_bytes, found.shared_bytes];
            let millions = |bytes: Option<u64>| bytes.map(|bytes| bytes / 1_000_000);
            assert_eq!(found.map(millions), limits, "{name}");
        }
    }

    #[test]
    fn small_rows_and_planned_pages_are_read_within_any_limit() {
        let tiny = ReadMemory {
            budget_bytes: 1000,
            num_tasks: 64,
            row_copies: None,
        };
        for format in Format::all() {
            let Limits {
                row_bytes,
                page_bytes,
                shared_bytes,
            } = format.driver().limits(tiny, 30_000_000);
            assert!(row_bytes.is_none_or(|bytes| bytes == MIN_ROW_BYTES));
            assert!(page_bytes.is_none_or(|bytes| bytes == 30_000_000));
            assert_eq!(shared_bytes, Some(MIN_ROW_BYTES), "{format}");
        }
    }
}
