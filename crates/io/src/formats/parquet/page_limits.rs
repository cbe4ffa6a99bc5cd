//! The largest pages that a reader takes, and those that one task at a time decodes.

use crate::source::{ReadOptions, RowLimit};

/// Limits of the size of pages.
#[derive(Debug, Clone, Copy)]
pub(super) struct PageLimits {
    /// Memory has no room for a larger page.
    pub(super) most_bytes: u64,
    /// Larger pages are decoded by one task at a time.
    pub(super) shared_bytes: u64,
    /// It tells the memory limit that a larger page needs.
    computed: Option<RowLimit>,
}

impl PageLimits {
    pub(super) fn of(options: &ReadOptions) -> Self {
        Self {
            most_bytes: options.page_limit(),
            shared_bytes: options.shared_limit(),
            computed: options.max_page,
        }
    }

    /// Limits for a reader that inspects pages and hands no rows on.
    pub(super) fn at_most(most_bytes: u64) -> Self {
        Self {
            most_bytes,
            shared_bytes: u64::MAX,
            computed: None,
        }
    }

    /// The memory limit with room for a page of so many bytes.
    pub(super) fn enough_bytes(&self, page_bytes: u64) -> u64 {
        let computed = self.computed.map(|limit| limit.enough_bytes(page_bytes));
        computed.unwrap_or(page_bytes)
    }
}
