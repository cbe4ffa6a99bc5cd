//! CSV files that seem to have another delimiter than the one they are read with.
//!
//! Guarantee: nothing is guessed. A header of one column whose name has another delimiter says what to write, in two
//! cases. A row has more values, or each of the first rows has that delimiter as often. Why not read them by it: the next
//! file of the same kind may have no row, and would have other columns.

use std::path::Path;

use super::fields::Fields;
use crate::error::{IoError, Result};
use crate::source::{Header, ReadOptions};

/// Rows that are compared with the header.
const ROWS: usize = 100;

/// Returns the delimiter that a header of one column seems to have.
fn likely(header: &str) -> Option<char> {
    let times = |delimiter: &char| header.matches(*delimiter).count();
    let delimiter = [',', '|', '\t', ';'].into_iter().max_by_key(times)?;
    (times(&delimiter) > 0).then_some(delimiter)
}

/// Returns what to write where the name of the only column seems to be several, with another delimiter between them.
pub(super) fn remedy(header: &str) -> Option<String> {
    likely(header).map(|delimiter| {
        let shown = delimiter.escape_default();
        format!(
            "; it looks as if the delimiter were '{shown}': write delimiter=\"{shown}\" (--delimiter '{shown}'); if not"
        )
    })
}

/// A header of one column, and how the rows below would be cut by the delimiter that it seems to have.
pub(super) struct OneColumn {
    name: String,
    used: u8,
    delimiter: char,
    fields: Fields,
    width: usize,
    rows: usize,
    is_alike: bool,
}

impl OneColumn {
    /// Returns the header, if it has one column with a delimiter in its name, and the user has named neither a delimiter
    /// nor the column.
    pub(super) fn of(
        path: &Path,
        header: &[u8],
        fields: &Fields,
        options: &ReadOptions,
    ) -> Option<Self> {
        let [Some(name), None] = [fields.iter().next(), fields.iter().nth(1)] else {
            return None;
        };
        let csv = &options.csv;
        let name = String::from_utf8_lossy(name).into_owned();
        let given = options.schema.as_ref();
        let is_known = given.is_some_and(|given| given.field_with_name(&name).is_ok());
        if csv.header != Header::Line || !csv.delimiter_by_name || is_known {
            return None;
        }
        let delimiter = likely(&name)?;
        let mut syntax = csv.syntax_of(path);
        let used = std::mem::replace(&mut syntax.delimiter, u8::try_from(delimiter).ok()?);
        let mut fields = Fields::new(syntax, csv.encoding);
        fields.split(header);
        let width = fields.len();
        (width > 1).then_some(Self {
            name,
            used,
            delimiter,
            fields,
            width,
            rows: 0,
            is_alike: true,
        })
    }

    /// Compares a row with the header.
    pub(super) fn add(&mut self, row: &[u8]) {
        if self.is_alike && self.rows < ROWS {
            self.fields.split(row);
            self.rows += 1;
            self.is_alike = self.fields.len() == self.width;
        }
    }

    /// Refuses the file if there are rows, and each would have as many values as the header.
    pub(super) fn check(self, path: &Path) -> Result<()> {
        if self.rows == 0 || !self.is_alike {
            return Ok(());
        }
        Err(IoError::OtherDelimiter {
            path: path.to_path_buf(),
            name: self.name,
            delimiter: self.delimiter,
            used: char::from(self.used),
        })
    }
}
