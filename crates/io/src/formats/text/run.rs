//! Records of text that are decoded together. Where some of them are bad, they are decoded in halves until these are
//! found.

use std::ops::Range;

use arrow_array::RecordBatch;
use arrow_schema::ArrowError;

use super::json_scan::JsonScan;
use super::Notation;
use super::{decode_one, Decode, Dialect};

/// If one of at most so many records is bad, they are decoded one by one.
const FEW_RECORDS: usize = 16;

#[derive(Default)]
pub(super) struct Run {
    text: Vec<u8>,
    records: Vec<Record>,
}

pub(super) struct Record {
    /// Where the record is in the text, as UTF-8, and in the file.
    text: Range<usize>,
    pub(super) position: u64,
    /// Line of the range, from 0.
    pub(super) line: u64,
}

/// A run whose bad records were found.
#[derive(Default)]
pub(super) struct Divided {
    /// The records that decode, in their order.
    pub(super) good: Vec<RecordBatch>,
    /// Numbers of the bad records, and their errors.
    pub(super) bad: Vec<(usize, ArrowError)>,
}

impl Run {
    pub(super) fn clear(&mut self) {
        self.text.clear();
        self.records.clear();
    }

    pub(super) fn add(&mut self, text: &[u8], position: u64, line: u64) {
        let start = self.text.len();
        self.text.extend_from_slice(text);
        self.records.push(Record {
            text: start..self.text.len(),
            position,
            line,
        });
    }

    pub(super) fn len(&self) -> usize {
        self.records.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    pub(super) fn num_bytes(&self) -> usize {
        self.text.len()
    }

    pub(super) fn records(&self) -> impl Iterator<Item = (&Record, &[u8])> {
        let text = |record: &Record| &self.text[record.text.clone()];
        self.records
            .iter()
            .map(move |record| (record, text(record)))
    }

    pub(super) fn record(&self, number: usize) -> (&Record, &[u8]) {
        let record = &self.records[number];
        (record, &self.text[record.text.clone()])
    }

    /// Decodes all records, each of which has to be a row.
    pub(super) fn decode(
        &self,
        dialect: &Dialect,
        decoder: &mut dyn Decode,
    ) -> Result<RecordBatch, ArrowError> {
        self.decode_some(0..self.len(), dialect, decoder)
    }

    fn decode_some(
        &self,
        records: Range<usize>,
        dialect: &Dialect,
        decoder: &mut dyn Decode,
    ) -> Result<RecordBatch, ArrowError> {
        let other_rows = || dialect.notation.other_rows();
        let chosen = &self.records[records];
        let (Some(first), Some(last)) = (chosen.first(), chosen.last()) else {
            return Err(other_rows());
        };
        let text = &self.text[first.text.start..last.text.end];
        match dialect.notation {
            Notation::Csv => {
                let taken = decoder.decode(text)?;
                // A full batch leaves the second half of CRLF.
                if !text[taken..].trim_ascii().is_empty() {
                    return Err(other_rows());
                }
            }
            // A line may hold several objects, and several may hold one.
            _ => {
                let mut scan = JsonScan::new();
                scan.add(text);
                if scan.is_bad() {
                    return Err(other_rows());
                }
                for (rows, record) in (1..).zip(chosen) {
                    let text = &self.text[record.text.clone()];
                    let taken = decoder.decode(text)?;
                    if decoder.num_rows() != rows || !text[taken..].trim_ascii().is_empty() {
                        return Err(other_rows());
                    }
                }
            }
        }
        decoder.decode(&[])?;
        let batch = decoder
            .flush()?
            .filter(|batch| batch.num_rows() == chosen.len());
        batch.ok_or_else(other_rows)
    }

    /// Finds the records that do not decode; there is at least one.
    pub(super) fn divide(&self, dialect: &Dialect) -> Result<Divided, ArrowError> {
        let mut found = Divided::default();
        self.divide_some(0..self.len(), dialect, &mut found)?;
        Ok(found)
    }

    fn divide_some(
        &self,
        records: Range<usize>,
        dialect: &Dialect,
        found: &mut Divided,
    ) -> Result<(), ArrowError> {
        if records.len() <= FEW_RECORDS {
            return self.one_by_one(records, dialect, found);
        }
        let middle = records.start + records.len() / 2;
        let (first, second) = (records.start..middle, middle..records.end);
        let decode = |half: &Range<usize>| {
            let mut decoder = dialect.decoder(half.len())?;
            self.decode_some(half.clone(), dialect, decoder.as_mut())
        };
        if let Ok(batch) = decode(&first) {
            found.good.push(batch);
            return self.divide_some(second, dialect, found);
        }
        self.divide_some(first, dialect, found)?;
        match decode(&second) {
            Ok(batch) => found.good.push(batch),
            Err(_) => self.divide_some(second, dialect, found)?,
        }
        Ok(())
    }

    fn one_by_one(
        &self,
        records: Range<usize>,
        dialect: &Dialect,
        found: &mut Divided,
    ) -> Result<(), ArrowError> {
        let mut decoder = dialect.decoder(1)?;
        for number in records {
            match decode_one(dialect.notation, decoder.as_mut(), self.record(number).1) {
                Ok(batch) => found.good.push(batch),
                Err(error) => {
                    found.bad.push((number, error));
                    decoder = dialect.decoder(1)?;
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::cast::AsArray;
    use arrow_array::types::Int64Type;
    use arrow_schema::{DataType, Field, Schema};

    use super::*;
    use crate::source::{BadRows, Header, Syntax};
    use crate::Encoding;

    #[test]
    fn good_records_stay_together() {
        let dialect = Dialect {
            notation: Notation::Csv,
            syntax: Syntax::default(),
            encoding: Encoding::Utf8,
            nulls: None,
            bad_rows: BadRows::Skip,
            max_row: None,
            shared_bytes: u64::MAX,
            header: Header::Line,
            schema: Arc::new(Schema::new(vec![
                Field::new("i", DataType::Int64, true),
                Field::new("s", DataType::Utf8, true),
            ])),
            inferred: vec![true; 2],
            projection: None,
        };
        for bad in [vec![0], vec![4095], vec![7, 8, 2048], (0..4096).collect()] {
            let mut run = Run::default();
            for number in 0..4096 {
                let sign = if bad.contains(&number) { "x" } else { "" };
                run.add(format!("{sign}{number},a\r\n").as_bytes(), 0, 0);
            }
            let found = run.divide(&dialect).unwrap();
            let numbers: Vec<_> = found.bad.iter().map(|(number, _)| *number).collect();
            assert_eq!(numbers, bad);
            let good = found.good.iter().flat_map(|batch| {
                let numbers = batch.column(0).as_primitive::<Int64Type>();
                numbers.values().to_vec()
            });
            let expected = (0..4096_usize).filter(|number| !bad.contains(number));
            assert!(good.eq(expected.map(|number| number as i64)));
            // A half of each size, and the records that were decoded alone.
            assert!(found.good.len() <= bad.len() * (8 + FEW_RECORDS));
        }
    }
}
