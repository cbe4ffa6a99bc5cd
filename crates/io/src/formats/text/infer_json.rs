//! Field names and types of JSON lines, from the first rows of all files together, in order of appearance.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_schema::{DataType, Field, Fields, Schema, SchemaRef};
use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::diagnose::not_an_object;
use super::json_syntax::{fault, without_place, NOT_ONE_OBJECT};
use super::line_starts::text_start;
use super::number::Numbers;
use super::records::{Piece, RecordReader, Rule};
use super::{compressed, encoding, INFER_ROWS, INFER_ROW_BYTES};
use crate::direct::RangeReader;
use crate::error::{one_line, IoError, Result};
use crate::source::{BadRows, ReadOptions};

/// The facts about a value so far.
#[derive(Debug, Clone, Default)]
enum Shape {
    /// Only nulls were seen.
    #[default]
    Unknown,
    Bool,
    Number(Numbers),
    Text,
    List(Box<Shape>),
    Object(Vec<(String, Shape)>),
}

/// Returns the schema of the first rows of all files; a given field has the given type, whether it was seen or not.
pub(super) fn infer(paths: &[PathBuf], options: &ReadOptions) -> Result<SchemaRef> {
    let shape = match shape_of(paths, grow) {
        Err(IoError::BadRecord { .. } | IoError::NotLines { .. })
            if options.bad_rows == BadRows::Skip =>
        {
            shape_of(paths, grow_by_good)?
        }
        shape => shape?,
    };
    let fields = match shape {
        Shape::Object(fields) => fields_of(fields),
        _ => Fields::empty(),
    };
    Ok(Arc::new(Schema::new(match &options.schema {
        Some(given) => with_given(&fields, given),
        None => fields,
    })))
}

/// Widens a shape by a line, and returns false if the line is left out.
type Growth = fn(&mut Shape, &[u8]) -> std::result::Result<bool, String>;

fn shape_of(paths: &[PathBuf], growth: Growth) -> Result<Shape> {
    let mut shape = Shape::default();
    let mut left = INFER_ROWS;
    for path in paths {
        infer_file(path, growth, &mut shape, &mut left)?;
    }
    Ok(shape)
}

/// Returns the fields with the given types, and behind them the fields that were only given.
fn with_given(fields: &Fields, given: &Schema) -> Fields {
    let typed = fields.iter().map(|field| {
        let at = given.index_of(field.name()).ok();
        at.map_or(field, |at| &given.fields()[at]).clone()
    });
    let unseen = given.fields().iter();
    let unseen = unseen.filter(|field| fields.find(field.name()).is_none());
    typed.chain(unseen.cloned()).collect()
}

fn infer_file(path: &Path, growth: Growth, shape: &mut Shape, left: &mut usize) -> Result<()> {
    let file = Arc::new(RangeReader::open(path)?);
    compressed::refuse(&file)?;
    encoding::refuse(&file)?;
    let start = text_start(&file, 0)?;
    let range = start..file.len();
    let mut reader = RecordReader::new(file.clone(), range, Rule::Lines, INFER_ROW_BYTES);
    while *left > 0 {
        let position = reader.position();
        let Some(piece) = reader.next()? else {
            return Ok(());
        };
        let text = match piece {
            Piece::Record(text) => text,
            Piece::Long => {
                *left -= 1;
                continue;
            }
            _ => continue,
        };
        match growth(shape, text) {
            Ok(kept) => *left -= usize::from(kept),
            Err(reason) => return Err(not_an_object(&file, position, text, reason)?),
        }
    }
    Ok(())
}

/// Widens a shape by a line; after an error, by a part of it.
fn grow(shape: &mut Shape, text: &[u8]) -> std::result::Result<bool, String> {
    let mut parser = serde_json::Deserializer::from_slice(text);
    let row = Grow {
        shape,
        depth: 0,
        column: "",
    };
    let seen = row.deserialize(&mut parser).and_then(|()| parser.end());
    match (seen, shape) {
        (Ok(()), Shape::Object(_)) => Ok(true),
        (Ok(()), _) => Err(NOT_ONE_OBJECT.to_owned()),
        // The place in the message may be one within a value.
        (Err(error), _) => Err(fault(text).unwrap_or_else(|| one_line(&without_place(&error)))),
    }
}

/// Widens a shape by a line that is right. A line that is left out says nothing about columns.
fn grow_by_good(shape: &mut Shape, text: &[u8]) -> std::result::Result<bool, String> {
    let mut alone = Shape::default();
    if grow(&mut alone, text).is_err() || !shape.fits(&alone) {
        return Ok(false);
    }
    grow(shape, text)
}

impl Shape {
    /// Returns whether it can be widened by another shape.
    fn fits(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Unknown, _) | (_, Self::Unknown) => true,
            (Self::List(item), Self::List(other)) => item.fits(other),
            (Self::Object(fields), Self::Object(others)) => {
                let mut expected = 0;
                others
                    .iter()
                    .all(|(name, other)| match place_of(fields, expected, name) {
                        Some(at) => {
                            expected = at + 1;
                            fields[at].1.fits(other)
                        }
                        None => true,
                    })
            }
            (Self::List(_) | Self::Object(_), _) | (_, Self::List(_) | Self::Object(_)) => false,
            _ => true,
        }
    }
}

/// Returns where a name is among the known ones; rows mostly have the same keys in the same order.
fn place_of(fields: &[(String, Shape)], expected: usize, name: &str) -> Option<usize> {
    match fields.get(expected) {
        Some((known, _)) if known == name => Some(expected),
        _ => fields.iter().position(|(known, _)| known == name),
    }
}

fn fields_of(fields: Vec<(String, Shape)>) -> Fields {
    fields
        .into_iter()
        .map(|(name, shape)| Field::new(name, type_of(shape), true))
        .collect()
}

fn type_of(shape: Shape) -> DataType {
    match shape {
        Shape::Bool => DataType::Boolean,
        Shape::Number(numbers) => numbers.data_type().unwrap_or(DataType::Utf8),
        Shape::Text => DataType::Utf8,
        // Only nulls were seen. As text, a later number would become another value.
        Shape::Unknown => DataType::Null,
        Shape::List(item) => DataType::List(Arc::new(Field::new("item", type_of(*item), true))),
        Shape::Object(fields) => DataType::Struct(fields_of(fields)),
    }
}

/// How deep lists and objects may be nested, the row included. Arrow IPC, in which rows travel, is read up to this depth.
const MAX_DEPTH: usize = 61;

/// Widens a shape by the value being parsed.
struct Grow<'a> {
    shape: &'a mut Shape,
    /// How deep it is nested in others.
    depth: usize,
    /// The column that it is in; empty for the row itself.
    column: &'a str,
}

impl Grow<'_> {
    /// The error of values that no type has all of.
    fn refused<E: serde::de::Error>(&self, reason: &str) -> E {
        match self.column {
            "" => E::custom(reason),
            column => E::custom(format!("column '{column}': {reason}")),
        }
    }

    /// Takes a number as it is written: a parsed number could have lost digits already.
    fn number<E: serde::de::Error>(self, text: &str) -> std::result::Result<(), E> {
        let mut numbers = match self.shape {
            Shape::Number(numbers) => *numbers,
            _ => Numbers::default(),
        };
        if !numbers.add(text) {
            return Err(E::custom(format!("{text} is no number")));
        }
        match self.shape {
            Shape::Number(known) => *known = numbers,
            _ => return self.scalar(Shape::Number(numbers)),
        }
        Ok(())
    }

    fn scalar<E: serde::de::Error>(self, seen: Shape) -> std::result::Result<(), E> {
        *self.shape = match (std::mem::take(self.shape), seen) {
            (Shape::Unknown, seen) => seen,
            (Shape::Bool, Shape::Bool) => Shape::Bool,
            (Shape::List(_), _) => {
                return Err(self.refused("a list in one row is a scalar in another"))
            }
            (Shape::Object(_), _) => {
                return Err(self.refused("an object in one row is a scalar in another"))
            }
            _ => Shape::Text,
        };
        Ok(())
    }
}

impl<'de> DeserializeSeed<'de> for Grow<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, value: D) -> std::result::Result<(), D::Error> {
        let text = <&RawValue>::deserialize(value)?.get();
        if self.depth >= MAX_DEPTH && text.starts_with(['[', '{']) {
            let reason = format!("values are nested deeper than {MAX_DEPTH} levels");
            return Err(self.refused(&reason));
        }
        if text.starts_with(|c: char| c == '-' || c.is_ascii_digit()) {
            return self.number(text);
        }
        let mut parser = serde_json::Deserializer::from_str(text);
        parser
            .deserialize_any(self)
            .map_err(serde::de::Error::custom)
    }
}

impl<'de> Visitor<'de> for Grow<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> std::result::Result<(), E> {
        Ok(())
    }

    fn visit_bool<E: serde::de::Error>(self, _: bool) -> std::result::Result<(), E> {
        self.scalar(Shape::Bool)
    }

    fn visit_str<E: serde::de::Error>(self, _: &str) -> std::result::Result<(), E> {
        self.scalar(Shape::Text)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> std::result::Result<(), A::Error> {
        if matches!(self.shape, Shape::Unknown) {
            *self.shape = Shape::List(Box::default());
        }
        let Shape::List(item) = self.shape else {
            return Err(self.refused("a list in one row is something else in another"));
        };
        let (depth, column) = (self.depth + 1, self.column);
        while items
            .next_element_seed(Grow {
                shape: item,
                depth,
                column,
            })?
            .is_some()
        {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> std::result::Result<(), A::Error> {
        if matches!(self.shape, Shape::Unknown) {
            *self.shape = Shape::Object(Vec::new());
        }
        let Shape::Object(fields) = self.shape else {
            return Err(self.refused("an object in one row is something else in another"));
        };
        let mut expected = 0;
        while let Some(name) = entries.next_key::<std::borrow::Cow<'de, str>>()? {
            let at = place_of(fields, expected, &name).unwrap_or_else(|| {
                fields.push((name.into_owned(), Shape::default()));
                fields.len() - 1
            });
            let (name, shape) = &mut fields[at];
            entries.next_value_seed(Grow {
                shape,
                depth: self.depth + 1,
                column: if self.depth == 0 { name } else { self.column },
            })?;
            expected = at + 1;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn schema_of(text: &str) -> Result<SchemaRef> {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        infer(&[file.path().to_path_buf()], &ReadOptions::default())
    }

    #[test]
    fn fields_keep_their_order_and_widen() {
        let schema = schema_of("{\"z\":1,\"a\":null,\"m\":[1,2.5]}\n\n{\"a\":true,\"z\":2.0,\"s\":{\"x\":\"t\"},\"q\":null}\n").unwrap();
        let list = DataType::List(Arc::new(Field::new("item", DataType::Float64, true)));
        let object = DataType::Struct(vec![Field::new("x", DataType::Utf8, true)].into());
        let expected = [
            ("z", DataType::Float64),
            ("a", DataType::Boolean),
            ("m", list),
            ("s", object),
            ("q", DataType::Null),
        ];
        let fields: Vec<_> = schema
            .fields()
            .iter()
            .map(|f| (f.name().as_str(), f.data_type().clone()))
            .collect();
        assert_eq!(fields, expected);
    }

    #[test]
    fn mixed_scalars_are_text_and_bad_lines_are_named() {
        assert_eq!(
            schema_of("{\"a\":1}\n{\"a\":\"x\"}\n")
                .unwrap()
                .field(0)
                .data_type(),
            &DataType::Utf8
        );
        for (text, line) in [
            ("{\"a\":1}\n{\"a\":\n", "line 2"),
            ("[1]\n", "line 1"),
            ("{\"a\":[1]}\n{\"a\":1}", "line 2"),
        ] {
            let error = schema_of(text).unwrap_err().to_string();
            assert!(error.contains(line), "{error}");
        }
    }

    #[test]
    fn the_column_is_named_that_has_no_type() {
        for (text, reason) in [
            (
                "{\"a\":1,\"b\":[1]}\n{\"b\":1}",
                "column 'b': a list in one row is a scalar",
            ),
            (
                "{\"b\":{\"c\":1}}\n{\"b\":{\"c\":[]}}",
                "column 'b': a list in one row is something else",
            ),
            (
                "{\"b\":[]}\n{\"b\":{}}",
                "column 'b': an object in one row is something else",
            ),
        ] {
            let error = schema_of(text).unwrap_err().to_string();
            assert!(
                error.contains(reason) && error.contains("line 2"),
                "{error}"
            );
        }
    }

    #[test]
    fn lines_that_are_left_out_say_nothing_of_columns() {
        let text = "{\"a\":1,\"b\":{\"c\":null}}\n{\"x\":1,\"a\":[1]}\n{\"y\":1\n{\"b\":{\"d\":1,\"c\":[{}]}}\n\
            {\"z\":1,\"b\":{\"c\":[2]}}\n{\"z\":1,\"z\":[]}\n{\"a\":1.5}\n[]\n";
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        let options = ReadOptions {
            bad_rows: BadRows::Skip,
            ..ReadOptions::default()
        };
        let found = infer(&[file.path().to_path_buf()], &options).unwrap();
        let good = "{\"a\":1,\"b\":{\"c\":null}}\n{\"b\":{\"d\":1,\"c\":[{}]}}\n{\"a\":1.5}\n";
        assert_eq!(found, schema_of(good).unwrap());
    }

    #[test]
    fn nesting_has_a_limit() {
        let nested = |depth| format!("{{\"a\":{}{}}}\n", "[".repeat(depth), "]".repeat(depth));
        assert!(schema_of(&nested(MAX_DEPTH - 1)).is_ok());
        for depth in [MAX_DEPTH, 126, 200, 100_000] {
            let error = schema_of(&nested(depth)).unwrap_err().to_string();
            assert!(
                error.contains("line 1") && error.contains("deeper"),
                "{error}"
            );
        }
    }

    #[test]
    fn numbers_are_what_is_written() {
        for (values, expected) in [
            (["18446744073709551615", "1"], DataType::UInt64),
            (["99999999999999999999", "1"], DataType::Utf8),
            (["9007199254740993", "1.5"], DataType::Utf8),
            (["9007199254740992", "1.5"], DataType::Float64),
            (["true", "1"], DataType::Utf8),
        ] {
            let lines = values.map(|value| format!("{{\"a\":[{value}], \"b\": {value}}}\n"));
            let schema = schema_of(&lines.concat()).unwrap();
            let list = DataType::List(Arc::new(Field::new("item", expected.clone(), true)));
            assert_eq!(
                (schema.field(0).data_type(), schema.field(1).data_type()),
                (&list, &expected)
            );
        }
    }
}
