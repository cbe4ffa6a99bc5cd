//! Buffers that direct I/O takes: whole pages, at the start of a page.

use crate::layout::PAGE_BYTES;

#[derive(Clone)]
#[repr(C, align(4096))]
struct Page([u8; PAGE_BYTES as usize]);

/// Zeros at first.
pub(crate) struct Pages(Vec<Page>);

impl Pages {
    /// Makes a buffer of so many bytes, rounded up to whole pages.
    pub(crate) fn new(bytes: usize) -> Self {
        let zeros = Page([0; PAGE_BYTES as usize]);
        Self(vec![zeros; bytes.div_ceil(PAGE_BYTES as usize)])
    }

    pub(crate) fn bytes(&mut self) -> &mut [u8] {
        let len = self.0.len() * PAGE_BYTES as usize;
        // SAFETY: a page is an array of bytes without padding, and the pages of a vector lie side by side.
        unsafe { std::slice::from_raw_parts_mut(self.0.as_mut_ptr().cast(), len) }
    }
}
