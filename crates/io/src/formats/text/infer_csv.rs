//! Column names and types of CSV files, from their first rows.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_schema::{Field, Schema, SchemaRef};

use super::csv_values::Values;
use super::diagnose::{bad_record, fault_error, header_error, not_utf8};
use super::encoding::Encoding;
use super::fields::Fields;
use super::line_starts::text_start;
use super::lines::LineEnd;
use super::nearest::nearest_names;
use super::other_delimiter::OneColumn;
use super::records::{Piece, RecordReader, Rule};
use super::{compressed, encoding, lines, width_differs, INFER_ROWS, INFER_ROW_BYTES};
use crate::direct::RangeReader;
use crate::error::{IoError, Result};
use crate::source::{BadRows, CsvOptions, Header, ReadOptions};

/// Returns the schema of each file. The names are those of its own header, in its order. Types are given by name, or
/// else inferred from the first rows of all files together. An empty file has no columns.
pub(super) fn infer(paths: &[PathBuf], options: &ReadOptions) -> Result<Vec<SchemaRef>> {
    let mut left = INFER_ROWS;
    let mut headers: Vec<Vec<String>> = Vec::with_capacity(paths.len());
    let mut columns = Columns::default();
    for path in paths {
        headers.push(infer_file(path, options, &mut columns, &mut left)?);
    }
    check_given(paths, &headers, options.schema.as_ref())?;
    let typed = |names: &Vec<String>| {
        let places = columns.places(names);
        let fields = names.iter().enumerate().map(|(at, name)| {
            let given = options.schema.as_ref();
            match given.and_then(|given| given.field_with_name(name).ok()) {
                Some(field) => field.clone(),
                None => {
                    let place = places.as_ref().map_or(at, |places| places[at]);
                    Field::new(name, columns.values[place].data_type(), true)
                }
            }
        });
        Arc::new(Schema::new(fields.collect::<Vec<_>>()))
    };
    Ok(headers.iter().map(typed).collect())
}

/// The facts about the columns of all files.
#[derive(Default)]
struct Columns {
    /// The names in the first file that has any.
    names: Vec<String>,
    values: Vec<Values>,
}

impl Columns {
    /// Returns where the columns of a file are in the first file, if both have the same names in another order.
    /// Otherwise columns are matched by place.
    fn places(&self, names: &[String]) -> Option<Vec<usize>> {
        if names == self.names || names.len() != self.names.len() {
            return None;
        }
        let first = self.names.iter().enumerate();
        let first: HashMap<&String, usize> = first.map(|(place, name)| (name, place)).collect();
        names.iter().map(|name| first.get(name).copied()).collect()
    }
}

/// Refuses given names that no file with columns has.
fn check_given(
    paths: &[PathBuf],
    headers: &[Vec<String>],
    given: Option<&SchemaRef>,
) -> Result<()> {
    for (path, names) in paths
        .iter()
        .zip(headers)
        .filter(|(_, names)| !names.is_empty())
    {
        let mut given = given.iter().flat_map(|given| given.fields());
        if let Some(unknown) = given.find(|field| !names.contains(field.name())) {
            return Err(IoError::UnknownColumn {
                path: path.clone(),
                column: unknown.name().clone(),
                names: nearest_names(unknown.name(), names).join("', '"),
            });
        }
    }
    Ok(())
}

/// Adds the first rows of a file to the facts about the columns, and returns the names of its columns.
fn infer_file(
    path: &Path,
    options: &ReadOptions,
    columns: &mut Columns,
    left: &mut usize,
) -> Result<Vec<String>> {
    let file = Arc::new(RangeReader::open(path)?);
    compressed::refuse(&file)?;
    encoding::refuse(&file)?;
    let csv = &options.csv;
    let syntax = csv.syntax_of(path);
    let start = text_start(&file, csv.skip_rows)?;
    let rule = Rule::Csv(syntax);
    let mut reader = RecordReader::new(file.clone(), start..file.len(), rule, INFER_ROW_BYTES);
    let mut fields = Fields::new(syntax, csv.encoding);
    let mut names: Option<Vec<String>> = None;
    let mut places = None;
    let mut one_column: Option<OneColumn> = None;
    while *left > 0 || names.is_none() {
        let position = reader.position();
        let bad = |reason| bad_record(&file, position, LineEnd::Any, reason);
        match reader.next()? {
            None => break,
            Some(Piece::Long) if names.is_none() => {
                return Err(IoError::LongHeader {
                    path: path.to_path_buf(),
                    line: lines::at(&file, position, LineEnd::Any)?.line,
                    limit_bytes: INFER_ROW_BYTES,
                });
            }
            Some(Piece::Long) => {
                *left -= 1;
                continue;
            }
            Some(Piece::Nothing(_)) => continue,
            Some(Piece::Fault(_, fault)) if names.is_none() && csv.header == Header::Line => {
                return Err(header_error(&file, fault)?);
            }
            Some(Piece::Fault(_, fault)) if options.bad_rows == BadRows::Raise => {
                return Err(fault_error(&file, fault)?);
            }
            Some(Piece::Fault(..)) => continue,
            Some(Piece::Record(record)) => {
                fields.split(record);
                match &mut one_column {
                    Some(header) => header.add(record),
                    None if names.is_none() => {
                        one_column = OneColumn::of(path, record, &fields, options);
                    }
                    None => {}
                }
            }
        }
        let Some(names) = &names else {
            if csv.encoding == Encoding::Utf8 && !fields.are_utf8() {
                return Err(not_utf8(&file, position, LineEnd::Any)?);
            }
            let width = columns.values.len().max(fields.len());
            columns.values.resize(width, Values::default());
            let own = self::names(path, &fields, &csv.header)?;
            if columns.names.is_empty() {
                columns.names.clone_from(&own);
            }
            places = columns.places(&own);
            names = Some(own);
            if csv.header != Header::Line && *left > 0 {
                add(&mut columns.values, None, &fields, csv);
                *left -= 1;
            }
            continue;
        };
        if fields.len() == names.len() {
            add(&mut columns.values, places.as_deref(), &fields, csv);
            *left -= 1;
        } else if options.bad_rows == BadRows::Raise {
            return Err(bad(width_differs(
                fields.len(),
                names.iter().map(String::as_str),
                &csv.header,
            ))?);
        }
    }
    if let Some(header) = one_column {
        header.check(path)?;
    }
    Ok(names.unwrap_or_default())
}

fn add(columns: &mut [Values], places: Option<&[usize]>, fields: &Fields, csv: &CsvOptions) {
    for (at, value) in fields.iter().enumerate() {
        if !csv.null_values.iter().any(|null| null.as_bytes() == value) {
            columns[places.map_or(at, |places| places[at])].add(value);
        }
    }
}

/// Returns the names of the columns; the first record is the header or a row.
fn names(path: &Path, first: &Fields, header: &Header) -> Result<Vec<String>> {
    match header {
        Header::Line => {
            let name = |name| String::from_utf8_lossy(name).into_owned();
            Ok(first.iter().map(name).collect())
        }
        Header::Missing(names) if names.is_empty() => {
            Ok((0..first.len()).map(|i| format!("column_{i}")).collect())
        }
        Header::Missing(names) if names.len() == first.len() => Ok(names.clone()),
        Header::Missing(names) => Err(IoError::NamesGiven {
            path: path.to_path_buf(),
            names: names.len(),
            columns: first.len(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use arrow_schema::DataType;

    use super::*;

    fn schemas_of(files: &[&str], options: &ReadOptions) -> Result<Vec<SchemaRef>> {
        let dir = tempfile::tempdir().unwrap();
        let write = |(i, text): (usize, &&str)| {
            let path = dir.path().join(format!("{i}.csv"));
            std::fs::write(&path, text).unwrap();
            path
        };
        let paths: Vec<_> = files.iter().enumerate().map(write).collect();
        infer(&paths, options)
    }

    fn types_of(files: &[&str]) -> Vec<Vec<DataType>> {
        let schemas = schemas_of(files, &ReadOptions::default()).unwrap();
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

    #[test]
    fn types_are_given_by_name() {
        let given = |name| ReadOptions {
            schema: Some(Arc::new(Schema::new(vec![Field::new(
                name,
                DataType::Utf8,
                true,
            )]))),
            ..ReadOptions::default()
        };
        let schemas = schemas_of(&["a,b\n1,2\n", ""], &given("b")).unwrap();
        assert_eq!(schemas[0].field(0).data_type(), &DataType::Int64);
        assert_eq!(schemas[0].field(1).data_type(), &DataType::Utf8);
        let error = schemas_of(&["a,b\n1,2\n"], &given("c"))
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("'c'") && error.contains("'a', 'b'"),
            "{error}"
        );
    }

    #[test]
    fn without_a_header_columns_are_numbered_or_named() {
        let missing = |names: &[&str]| ReadOptions {
            csv: CsvOptions {
                header: Header::Missing(names.iter().map(|&name| name.to_owned()).collect()),
                ..CsvOptions::default()
            },
            ..ReadOptions::default()
        };
        for (given, expected) in [
            (&[][..], ["column_0", "column_1"]),
            (&["x", "y"], ["x", "y"]),
        ] {
            let schema = schemas_of(&["1,2.5\n3,4\n"], &missing(given))
                .unwrap()
                .remove(0);
            let names: Vec<_> = schema.fields().iter().map(|field| field.name()).collect();
            assert_eq!(names, expected);
            assert_eq!(schema.field(0).data_type(), &DataType::Int64);
        }
        let error = schemas_of(&["1,2\n"], &missing(&["x"]))
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("0.csv") && error.contains("names 1"),
            "{error}"
        );
    }
}
