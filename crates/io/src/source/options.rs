//! The options of reading an input: as users give them, and as readers take them.

use std::path::Path;

use arrow_schema::SchemaRef;
use serde::{Deserialize, Serialize};

use super::{Limits, ReadMemory, RowLimit};
use crate::compressed::text_name;
use crate::error::{IoError, Result};
use crate::{travel, Encoding, Format};

/// The name of these options in errors.
const NAME: &str = "the options of a reader";
/// Memory of a footer of Parquet, in its sizes. It is decoded, and plans leave a fifth of the budget free. A footer of 52
/// MB with 450,000 column chunks took 300 MB.
const FOOTER_COPIES: u64 = 9;
/// Size of the records of gensort.
const GENSORT_RECORD_BYTES: usize = 100;
const GENSORT_KEY_BYTES: usize = 10;

/// How the columns of CSV get their names.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Header {
    /// The first line of each file names them.
    #[default]
    Line,
    /// Files have no such line: columns get these names; if there are none, `column_0`, `column_1` …
    Missing(Vec<String>),
}

/// The characters that give CSV its shape.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Syntax {
    /// The character between values.
    pub delimiter: u8,
    /// The character around values that hold delimiters or line ends; `None` if no character has that meaning.
    pub quote: Option<u8>,
    /// The character that, within quotes, stands before a character that means itself, beside doubled quotes.
    pub escape: Option<u8>,
    /// The character at the beginning of lines that are no rows.
    pub comment: Option<u8>,
}

impl Default for Syntax {
    fn default() -> Self {
        Self {
            delimiter: b',',
            quote: Some(b'"'),
            escape: None,
            comment: None,
        }
    }
}

/// The treatment of rows of CSV and JSON lines that cannot be read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum BadRows {
    /// The first one is an error.
    #[default]
    Raise,
    /// They are left out; [`bad_rows`](crate::bad_rows) says which.
    Skip,
}

/// How to read CSV.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct CsvOptions {
    /// The characters that give it its shape.
    pub syntax: Syntax,
    /// Whether the delimiter was not given: then it is a tab in files whose names end in `.tsv`.
    pub delimiter_by_name: bool,
    /// How the columns get their names.
    pub header: Header,
    /// Number of lines to leave out at the start of each file.
    pub skip_rows: u64,
    /// Texts that are null, in quotes or not, beside an empty field.
    pub null_values: Vec<String>,
    /// The encoding of characters.
    pub encoding: Encoding,
}

impl CsvOptions {
    /// The syntax of a file.
    pub(crate) fn syntax_of(&self, path: &Path) -> Syntax {
        let is_tsv = |extension: &std::ffi::OsStr| extension.eq_ignore_ascii_case("tsv");
        let mut syntax = self.syntax;
        if self.delimiter_by_name && text_name(path).extension().is_some_and(is_tsv) {
            syntax.delimiter = b'\t';
        }
        syntax
    }
}

/// How to read the input; the same options go to `open_source`, `open_split` and `sample_split`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ReadOptions {
    /// The format of all files; by default told from their names.
    pub format: Option<Format>,
    /// How to read CSV.
    pub csv: CsvOptions,
    /// The treatment of rows of CSV and JSON lines that cannot be read.
    pub bad_rows: BadRows,
    /// Types of columns of CSV and JSON lines by name; other types are inferred from the first 10,000 rows. Fields of JSON
    /// lines that are not among these rows are added. In every format, it gives types to partition columns.
    #[serde(with = "travel::optional_schema")]
    pub schema: Option<SchemaRef>,
    /// Whether folders `key=value` are columns.
    pub hive: bool,
    /// Bytes per record of fixed-length records.
    pub record_bytes: Option<usize>,
    /// Bytes of the key that a fixed-length record begins with.
    pub key_bytes: usize,
    /// The longest row that memory has room for. Text does not tell the length of a row before its end. Neither does a page
    /// or batch of other rows.
    pub max_row: Option<RowLimit>,
    /// The largest page of Parquet that memory has room for, whatever the footer tells about its chunk.
    pub max_page: Option<RowLimit>,
    /// The longest row of text and the largest page that several tasks may have at once.
    pub shared_bytes: Option<usize>,
    /// The largest footer of Parquet that is decoded while files are listed. Plans count the footers of listed files.
    #[serde(skip)]
    pub max_footer: Option<RowLimit>,
}

impl ReadOptions {
    /// The same options, with which files are listed within the memory of a program.
    pub fn listing_within(&self, memory: ReadMemory) -> Self {
        Self {
            max_footer: Some(RowLimit::of(memory, FOOTER_COPIES)),
            ..self.clone()
        }
    }

    /// The same options, with the limits of what is read in one piece.
    pub(crate) fn with_limits(&self, limits: Limits) -> Self {
        // Where numbers of bytes are smaller than the budget, there is no limit.
        let bytes = |limit: Option<u64>| limit.and_then(|limit| usize::try_from(limit).ok());
        Self {
            max_row: limits.row,
            max_page: limits.page,
            shared_bytes: bytes(limits.shared_bytes),
            ..self.clone()
        }
    }

    /// The options as bytes, for other processes.
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        travel::to_bytes(NAME, self)
    }

    /// Returns the options that [`to_bytes`](Self::to_bytes) made these bytes of.
    ///
    /// # Errors
    /// The bytes were made by another version, or are damaged.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        travel::from_bytes(NAME, bytes)
    }

    /// The most bytes of a page that is decoded.
    pub(crate) fn page_limit(&self) -> u64 {
        self.max_page.map_or(u64::MAX, |page| page.row_bytes)
    }

    /// Rows of more bytes are read by one task at a time.
    pub(crate) fn shared_limit(&self) -> u64 {
        self.shared_bytes.map_or(u64::MAX, |bytes| bytes as u64)
    }
}

/// Options as users give them: names, texts and numbers that may be wrong.
#[derive(Debug, Clone, Default)]
pub struct GivenOptions {
    /// The name of the format of all files.
    pub format: Option<String>,
    /// A character between values; by default a comma, and a tab in files whose names end in `.tsv`.
    pub csv_delimiter: Option<String>,
    /// A character around values; if it is empty, no character has that meaning.
    pub csv_quote: Option<String>,
    /// A character that, within quotes, stands before a character that means itself.
    pub csv_escape: Option<String>,
    /// A character at the beginning of lines that are no rows.
    pub csv_comment: Option<String>,
    /// How columns get their names.
    pub csv_header: Header,
    /// Number of lines to leave out at the start of each file.
    pub csv_skip_rows: u64,
    /// Texts that are null.
    pub csv_null_values: Vec<String>,
    /// The name of an encoding.
    pub csv_encoding: Option<String>,
    /// The treatment of rows that cannot be read.
    pub bad_rows: BadRows,
    /// Whether folders `key=value` are columns.
    pub hive: bool,
    /// Types of columns.
    pub schema: Option<SchemaRef>,
    /// Bytes of a record; by default those of gensort.
    pub record_bytes: Option<i128>,
    /// Bytes of its key; by default those of gensort.
    pub key_bytes: Option<i128>,
}

impl GivenOptions {
    /// Returns the options, if they are valid.
    ///
    /// # Errors
    /// A name is unknown, a text is no character, two characters are the same, or a size is none.
    pub fn checked(self) -> Result<ReadOptions> {
        let record_bytes = size("record_bytes", self.record_bytes)?.unwrap_or(GENSORT_RECORD_BYTES);
        let format = self.format.as_deref().map(str::parse).transpose()?;
        let key_bytes = size("key_bytes", self.key_bytes)?;
        let key_bytes = key_bytes.unwrap_or(GENSORT_KEY_BYTES.min(record_bytes));
        let csv = self.csv()?;
        if key_bytes > record_bytes {
            return Err(IoError::LongKey {
                key_bytes,
                record_bytes,
            });
        }
        Ok(ReadOptions {
            format,
            csv,
            bad_rows: self.bad_rows,
            schema: self.schema,
            hive: self.hive,
            record_bytes: Some(record_bytes),
            key_bytes,
            ..ReadOptions::default()
        })
    }

    fn csv(&self) -> Result<CsvOptions> {
        let encoding = self.csv_encoding.as_deref().map(str::parse::<Encoding>);
        Ok(CsvOptions {
            syntax: self.syntax()?,
            delimiter_by_name: self.csv_delimiter.is_none(),
            header: self.csv_header.clone(),
            skip_rows: self.csv_skip_rows,
            null_values: self.csv_null_values.clone(),
            encoding: encoding.transpose()?.unwrap_or_default(),
        })
    }

    fn syntax(&self) -> Result<Syntax> {
        let usual = Syntax::default();
        let delimiter = character("delimiter", self.csv_delimiter.as_deref())?;
        let quote = match self.csv_quote.as_deref() {
            Some("") => None,
            text => character("quote", text)?.or(usual.quote),
        };
        let escape = character("escape", self.csv_escape.as_deref())?;
        let syntax = Syntax {
            delimiter: delimiter.unwrap_or(usual.delimiter),
            quote,
            escape: escape.filter(|&byte| Some(byte) != quote),
            comment: character("comment", self.csv_comment.as_deref())?,
        };
        let given = [
            Some(syntax.delimiter),
            syntax.quote,
            syntax.escape,
            syntax.comment,
        ];
        let mut given: Vec<u8> = given.into_iter().flatten().collect();
        given.sort_unstable();
        match given.windows(2).find(|pair| pair[0] == pair[1]) {
            Some(pair) => Err(IoError::SharedCharacter {
                character: char::from(pair[0]),
            }),
            None => Ok(syntax),
        }
    }
}

/// Checks an option of CSV that is a character.
fn character(name: &'static str, text: Option<&str>) -> Result<Option<u8>> {
    let Some(text) = text else {
        return Ok(None);
    };
    match text.as_bytes() {
        [byte] if byte.is_ascii() && !matches!(byte, b'\n' | b'\r' | 0) => Ok(Some(*byte)),
        _ => Err(IoError::NoCharacter {
            name,
            text: text.to_owned(),
        }),
    }
}

/// Checks an option that is a number of bytes.
fn size(name: &'static str, given: Option<i128>) -> Result<Option<usize>> {
    let Some(value) = given else {
        return Ok(None);
    };
    match usize::try_from(value) {
        Ok(bytes) if bytes > 0 => Ok(Some(bytes)),
        _ => Err(IoError::NoSize {
            name,
            value: value.to_string(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_schema::{DataType, Field, Schema};

    use super::*;

    fn refused(given: GivenOptions) -> String {
        given.checked().unwrap_err().to_string()
    }

    #[test]
    fn options_that_cannot_be_are_named_with_what_can() {
        let message = refused(GivenOptions {
            csv_quote: Some("''".to_owned()),
            ..GivenOptions::default()
        });
        assert!(
            message.contains("quote is \"''\"; give one ASCII character"),
            "{message}"
        );
        let message = refused(GivenOptions {
            csv_comment: Some(",".to_owned()),
            ..GivenOptions::default()
        });
        assert!(message.contains("',' is given for two of"), "{message}");
        let message = refused(GivenOptions {
            record_bytes: Some(0),
            ..GivenOptions::default()
        });
        assert_eq!(message, "record_bytes is 0; it must be at least 1");
        let message = refused(GivenOptions {
            record_bytes: Some(8),
            key_bytes: Some(9),
            ..GivenOptions::default()
        });
        assert!(message.contains("a key of 9 bytes") && message.contains("give 1 to 8"));
    }

    #[test]
    fn an_escape_that_is_the_quote_is_none() {
        let given = GivenOptions {
            csv_quote: Some("'".to_owned()),
            csv_escape: Some("'".to_owned()),
            record_bytes: Some(4),
            ..GivenOptions::default()
        };
        let options = given.checked().unwrap();
        let Syntax { quote, escape, .. } = options.csv.syntax;
        assert_eq!((quote, escape), (Some(b'\''), None));
        assert_eq!((options.record_bytes, options.key_bytes), (Some(4), 4));
    }

    #[test]
    fn options_travel_with_their_schema() {
        let schema = Schema::new(vec![Field::new("a", DataType::Decimal128(9, 2), true)]);
        let options = GivenOptions {
            format: Some("csv".to_owned()),
            csv_header: Header::Missing(vec!["a".to_owned()]),
            schema: Some(Arc::new(schema)),
            hive: true,
            ..GivenOptions::default()
        };
        let memory = ReadMemory {
            limit_bytes: 9_000_000,
            budget_bytes: 7_000_000,
            num_tasks: 1,
            row_copies: None,
        };
        let page = Some(RowLimit::of(memory, 1));
        let options = options.checked().unwrap().with_limits(Limits {
            page,
            ..Limits::default()
        });
        let back = ReadOptions::from_bytes(&options.to_bytes().unwrap()).unwrap();
        assert_eq!(back, options);
        assert_eq!(back.max_page, page);
    }
}
