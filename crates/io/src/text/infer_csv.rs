//! Column names and types of CSV files, from their first rows.

use std::io::Read;
use std::path::PathBuf;
use std::sync::Arc;

use arrow_schema::{DataType, Field, Schema, SchemaRef, TimeUnit};

use super::INFER_ROWS;
use crate::direct::RangeReader;
use crate::error::{IoError, Result};
use crate::Format;

/// The schema of each file: the names from its own header, the types as given or else from the first rows of all files
/// together. An empty file has no columns.
pub(super) fn infer(
    paths: &[PathBuf],
    delimiter: u8,
    given: Option<&SchemaRef>,
) -> Result<Vec<SchemaRef>> {
    let format = arrow_csv::reader::Format::default()
        .with_header(true)
        .with_delimiter(delimiter);
    let mut left = if given.is_some() { 0 } else { INFER_ROWS };
    let mut headers: Vec<Schema> = Vec::with_capacity(paths.len());
    let mut types: Vec<DataType> = Vec::new();
    for path in paths {
        let file = Arc::new(RangeReader::open(path)?);
        let (schema, rows) = format
            .infer_schema(Sequential::new(file), Some(left))
            .map_err(|e| IoError::corrupt(path, Format::Csv, e))?;
        left -= rows;
        types.resize(types.len().max(schema.fields().len()), DataType::Null);
        for (known, field) in types.iter_mut().zip(schema.fields()) {
            *known = wider(known, field.data_type());
        }
        headers.push(schema);
    }
    let typed = |header: &Schema| {
        let field = |(i, field): (usize, &Arc<Field>)| match given
            .and_then(|given| given.fields().get(i))
        {
            Some(given) => given.as_ref().clone().with_name(field.name()),
            None => Field::new(field.name(), settled(&types[i]), true),
        };
        Arc::new(Schema::new(
            header
                .fields()
                .iter()
                .enumerate()
                .map(field)
                .collect::<Vec<_>>(),
        ))
    };
    Ok(headers.iter().map(typed).collect())
}

/// A type that holds the values of both.
fn wider(a: &DataType, b: &DataType) -> DataType {
    use DataType::{Date32, Float64, Int64, Null, Timestamp, Utf8};
    match (a, b) {
        _ if a == b => a.clone(),
        (Null, other) | (other, Null) => other.clone(),
        (Int64, Float64) | (Float64, Int64) => Float64,
        (Date32, time @ Timestamp(..)) | (time @ Timestamp(..), Date32) => time.clone(),
        (Timestamp(a, None), Timestamp(b, None)) => Timestamp(finer(*a, *b), None),
        _ => Utf8,
    }
}

fn finer(a: TimeUnit, b: TimeUnit) -> TimeUnit {
    let rank = |unit: TimeUnit| match unit {
        TimeUnit::Second => 0,
        TimeUnit::Millisecond => 1,
        TimeUnit::Microsecond => 2,
        TimeUnit::Nanosecond => 3,
    };
    if rank(a) >= rank(b) {
        a
    } else {
        b
    }
}

/// A column without any value could hold anything, which text can.
fn settled(data_type: &DataType) -> DataType {
    if *data_type == DataType::Null {
        DataType::Utf8
    } else {
        data_type.clone()
    }
}

/// A file from its start, in small reads: inference mostly needs little of it.
pub(super) struct Sequential {
    file: Arc<RangeReader>,
    position: u64,
    block: bytes::Bytes,
}

impl Sequential {
    const BLOCK_BYTES: u64 = 64 << 10;

    pub(super) fn new(file: Arc<RangeReader>) -> Self {
        Self {
            file,
            position: 0,
            block: bytes::Bytes::new(),
        }
    }
}

impl Read for Sequential {
    fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
        if self.block.is_empty() {
            let bytes = (self.file.len() - self.position).min(Self::BLOCK_BYTES);
            self.block = self
                .file
                .read(self.position, bytes as usize)
                .map_err(std::io::Error::other)?;
            self.position += bytes;
        }
        let n = out.len().min(self.block.len());
        out[..n].copy_from_slice(&self.block.split_to(n));
        Ok(n)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn types_of(files: &[&str]) -> Vec<Vec<DataType>> {
        let dir = tempfile::tempdir().unwrap();
        let write = |(i, text): (usize, &&str)| {
            let path = dir.path().join(format!("{i}.csv"));
            std::fs::write(&path, text).unwrap();
            path
        };
        let paths: Vec<_> = files.iter().enumerate().map(write).collect();
        let schemas = infer(&paths, b',', None).unwrap();
        schemas
            .iter()
            .map(|s| s.fields().iter().map(|f| f.data_type().clone()).collect())
            .collect()
    }

    #[test]
    fn types_come_from_all_files() {
        use DataType::{Boolean, Date32, Float64, Int64, Utf8};
        let types = types_of(&[
            "a,b,c,d,e\n1,2,true,,2020-01-01\n",
            "a,b,c,d,e\n1.5,x,false,,2021-01-01\n",
        ]);
        assert_eq!(types, vec![vec![Float64, Utf8, Boolean, Utf8, Date32]; 2]);
        assert_eq!(types_of(&["a\n1\n", ""]), [vec![Int64], vec![]]);
    }
}
