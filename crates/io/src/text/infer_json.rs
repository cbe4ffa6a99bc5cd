//! Field names and types of JSON lines, from the first rows of all files together, in order of appearance.

use std::fmt;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_schema::{DataType, Field, Fields, Schema, SchemaRef};
use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};

use super::infer_csv::Sequential;
use super::INFER_ROWS;
use crate::direct::RangeReader;
use crate::error::{one_line, IoError, Result};

/// What is known about a value so far.
#[derive(Debug, Default)]
enum Shape {
    /// Nothing but nulls were seen.
    #[default]
    Unknown,
    Bool,
    Int,
    Float,
    Text,
    List(Box<Shape>),
    Object(Vec<(String, Shape)>),
}

/// The schema of the first rows of all files.
pub(super) fn infer(paths: &[PathBuf]) -> Result<SchemaRef> {
    let mut shape = Shape::default();
    let mut left = INFER_ROWS;
    for path in paths {
        infer_file(path, &mut shape, &mut left)?;
    }
    let fields = match shape {
        Shape::Object(fields) => fields_of(fields),
        _ => Fields::empty(),
    };
    Ok(Arc::new(Schema::new(fields)))
}

fn infer_file(path: &Path, shape: &mut Shape, left: &mut usize) -> Result<()> {
    let mut reader = BufReader::new(Sequential::new(Arc::new(RangeReader::open(path)?)));
    let mut line = Vec::new();
    for number in 1.. {
        line.clear();
        let bytes = if *left == 0 {
            0
        } else {
            reader
                .read_until(b'\n', &mut line)
                .map_err(|e| IoError::read(path, e))?
        };
        if bytes == 0 {
            return Ok(());
        }
        let text = line
            .strip_prefix(b"\xEF\xBB\xBF".as_slice())
            .filter(|_| number == 1)
            .unwrap_or(&line);
        if text.trim_ascii().is_empty() {
            continue;
        }
        *left -= 1;
        let mut parser = serde_json::Deserializer::from_slice(text);
        let seen = Grow(shape)
            .deserialize(&mut parser)
            .and_then(|()| parser.end());
        let bad = |reason| IoError::BadRecord {
            path: path.to_path_buf(),
            line: number,
            reason,
        };
        seen.map_err(|e| bad(one_line(&e.to_string())))?;
        if !matches!(shape, Shape::Object(_)) {
            return Err(bad("it is no JSON object".to_string()));
        }
    }
    Ok(())
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
        Shape::Int => DataType::Int64,
        Shape::Float => DataType::Float64,
        // Only nulls were seen: text can hold whatever comes.
        Shape::Text | Shape::Unknown => DataType::Utf8,
        Shape::List(item) => DataType::List(Arc::new(Field::new("item", type_of(*item), true))),
        Shape::Object(fields) => DataType::Struct(fields_of(fields)),
    }
}

/// Widens a shape by the value being parsed.
struct Grow<'a>(&'a mut Shape);

impl Grow<'_> {
    fn scalar<E: serde::de::Error>(self, seen: Shape) -> std::result::Result<(), E> {
        *self.0 = match (std::mem::take(self.0), seen) {
            (Shape::Unknown, seen) => seen,
            (Shape::Bool, Shape::Bool) => Shape::Bool,
            (Shape::Int, Shape::Int) => Shape::Int,
            (Shape::Int | Shape::Float, Shape::Int | Shape::Float) => Shape::Float,
            (Shape::List(_), _) => {
                return Err(E::custom("a list in one row is a scalar in another"))
            }
            (Shape::Object(_), _) => {
                return Err(E::custom("an object in one row is a scalar in another"))
            }
            _ => Shape::Text,
        };
        Ok(())
    }
}

impl<'de> DeserializeSeed<'de> for Grow<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, value: D) -> std::result::Result<(), D::Error> {
        value.deserialize_any(self)
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

    fn visit_i64<E: serde::de::Error>(self, _: i64) -> std::result::Result<(), E> {
        self.scalar(Shape::Int)
    }

    fn visit_u64<E: serde::de::Error>(self, value: u64) -> std::result::Result<(), E> {
        self.scalar(if i64::try_from(value).is_ok() {
            Shape::Int
        } else {
            Shape::Float
        })
    }

    fn visit_f64<E: serde::de::Error>(self, _: f64) -> std::result::Result<(), E> {
        self.scalar(Shape::Float)
    }

    fn visit_str<E: serde::de::Error>(self, _: &str) -> std::result::Result<(), E> {
        self.scalar(Shape::Text)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> std::result::Result<(), A::Error> {
        if matches!(self.0, Shape::Unknown) {
            *self.0 = Shape::List(Box::default());
        }
        let Shape::List(item) = self.0 else {
            return Err(serde::de::Error::custom(
                "a list in one row is something else in another",
            ));
        };
        while items.next_element_seed(Grow(item))?.is_some() {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> std::result::Result<(), A::Error> {
        if matches!(self.0, Shape::Unknown) {
            *self.0 = Shape::Object(Vec::new());
        }
        let Shape::Object(fields) = self.0 else {
            return Err(serde::de::Error::custom(
                "an object in one row is something else in another",
            ));
        };
        let mut expected = 0;
        while let Some(name) = entries.next_key::<std::borrow::Cow<'de, str>>()? {
            // Rows mostly have the same keys in the same order.
            let at = match fields.get(expected) {
                Some((known, _)) if *known == name => expected,
                _ => fields
                    .iter()
                    .position(|(known, _)| *known == name)
                    .unwrap_or_else(|| {
                        fields.push((name.into_owned(), Shape::default()));
                        fields.len() - 1
                    }),
            };
            entries.next_value_seed(Grow(&mut fields[at].1))?;
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
        infer(&[file.path().to_path_buf()])
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
            ("q", DataType::Utf8),
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
}
