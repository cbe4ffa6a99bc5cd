//! Guards parsers of foreign files, which may panic on malformed bytes: a panic becomes an error that names the file.

use std::any::Any;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::path::Path;

use crate::error::{IoError, Result};
use crate::Format;

/// Runs a parser. This is unwind safe, because its half-done state is dropped with it.
pub(crate) fn guarded<T>(
    path: &Path,
    format: Format,
    parse: impl FnOnce() -> Result<T>,
) -> Result<T> {
    match catch_unwind(AssertUnwindSafe(parse)) {
        Ok(result) => result,
        Err(panic) => Err(IoError::corrupt(path, format, describe(panic.as_ref()))),
    }
}

fn describe(panic: &(dyn Any + Send)) -> String {
    let text = panic
        .downcast_ref::<String>()
        .map(String::as_str)
        .or_else(|| panic.downcast_ref::<&str>().copied());
    format!("the parser gave up ({})", text.unwrap_or("no reason given"))
}

/// An iterator that ends after its first error or panic.
pub(crate) struct Guarded<I> {
    inner: Option<I>,
    path: std::path::PathBuf,
    format: Format,
}

impl<I> Guarded<I> {
    pub(crate) fn new(inner: I, path: &Path, format: Format) -> Self {
        Self {
            inner: Some(inner),
            path: path.to_path_buf(),
            format,
        }
    }
}

impl<T, I: Iterator<Item = Result<T>>> Iterator for Guarded<I> {
    type Item = Result<T>;

    fn next(&mut self) -> Option<Result<T>> {
        let inner = self.inner.as_mut()?;
        let item = guarded(&self.path, self.format, || inner.next().transpose()).transpose();
        if !matches!(item, Some(Ok(_))) {
            self.inner = None;
        }
        item
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_becomes_an_error_and_ends_the_stream() {
        let mut n = 0;
        let inner = std::iter::from_fn(|| {
            n += 1;
            assert!(n < 2, "bad page");
            Some(Ok(n))
        });
        let mut stream = Guarded::new(
            inner,
            Path::new("x.parquet"),
            crate::formats::parquet::FORMAT,
        );
        assert!(matches!(stream.next(), Some(Ok(1))));
        let error = stream.next().unwrap().unwrap_err().to_string();
        assert!(
            error.contains("x.parquet") && error.contains("bad page"),
            "{error}"
        );
        assert!(stream.next().is_none());
    }
}
