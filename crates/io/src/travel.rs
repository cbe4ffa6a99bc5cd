//! Values as bytes, to travel to other processes: a version, then the fields one after the other.
//!
//! All types that travel share the version. A reader takes only its own version, because fields have no names: of two
//! programs with different versions, one would take a field for another.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::error::{IoError, Result};

/// The version goes up whenever a type that travels gets other fields.
const VERSION: u8 = 3;
/// Most values fit into this many bytes.
const USUAL_BYTES: usize = 256;

/// Returns the bytes of a value; `what` is its name in errors.
pub(crate) fn to_bytes<T: Serialize>(what: &'static str, value: &T) -> Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(USUAL_BYTES);
    bytes.push(VERSION);
    postcard::to_extend(value, bytes).map_err(|error| IoError::Travel {
        what,
        reason: error.to_string(),
    })
}

/// Returns the value that [`to_bytes`] made these bytes of.
///
/// # Errors
/// The bytes have another version, or are cut off or damaged.
pub(crate) fn from_bytes<'a, T: Deserialize<'a>>(what: &'static str, bytes: &'a [u8]) -> Result<T> {
    let damaged = |reason: &str| IoError::Travel {
        what,
        reason: reason.to_owned(),
    };
    let Some((&version, fields)) = bytes.split_first() else {
        return Err(damaged("it has no bytes"));
    };
    if version != VERSION {
        return Err(IoError::TravelVersion {
            what,
            version,
            known: VERSION,
        });
    }
    match postcard::take_from_bytes(fields) {
        Ok((value, [])) => Ok(value),
        Ok(_) => Err(damaged("it has bytes behind its end")),
        Err(error) => Err(damaged(&error.to_string())),
    }
}

/// Paths by their bytes, which need not be characters.
pub(crate) mod path {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;
    use std::path::Path;

    use serde::{Deserializer, Serializer};

    use super::{Deserialize, PathBuf};

    pub(crate) fn serialize<S: Serializer>(path: &Path, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_bytes(path.as_os_str().as_bytes())
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<PathBuf, D::Error> {
        let bytes = <&'de [u8]>::deserialize(from)?;
        Ok(PathBuf::from(OsStr::from_bytes(bytes)))
    }
}

/// Schemas as Arrow IPC streams without batches.
pub(crate) mod schema {
    use arrow_ipc::reader::StreamReader;
    use arrow_ipc::writer::StreamWriter;
    use arrow_schema::{ArrowError, Schema, SchemaRef};
    use serde::{de, ser, Deserialize, Deserializer, Serializer};

    pub(crate) fn serialize<S: Serializer>(schema: &Schema, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_bytes(&encoded(schema).map_err(ser::Error::custom)?)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<SchemaRef, D::Error> {
        decoded(<&'de [u8]>::deserialize(from)?).map_err(de::Error::custom)
    }

    fn encoded(schema: &Schema) -> Result<Vec<u8>, ArrowError> {
        StreamWriter::try_new(Vec::new(), schema)?.into_inner()
    }

    fn decoded(bytes: &[u8]) -> Result<SchemaRef, ArrowError> {
        Ok(StreamReader::try_new(bytes, None)?.schema())
    }
}

/// Schemas that may be absent.
pub(crate) mod optional_schema {
    use arrow_schema::SchemaRef;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    #[derive(Serialize, Deserialize)]
    struct Present(#[serde(with = "super::schema")] SchemaRef);

    pub(crate) fn serialize<S: Serializer>(
        schema: &Option<SchemaRef>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        schema.clone().map(Present).serialize(to)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Option<SchemaRef>, D::Error> {
        let present = Option::<Present>::deserialize(from)?;
        Ok(present.map(|Present(schema)| schema))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_come_back_and_nothing_else_does() {
        let bytes = to_bytes("a pair", &(7_u64, "seven")).unwrap();
        let back: (u64, &str) = from_bytes("a pair", &bytes).unwrap();
        assert_eq!(back, (7, "seven"));
        for end in 0..bytes.len() {
            let error = from_bytes::<(u64, &str)>("a pair", &bytes[..end]).unwrap_err();
            assert!(matches!(error, IoError::Travel { .. }), "{error}");
        }
        let longer = [&bytes[..], &[0]].concat();
        assert!(from_bytes::<(u64, &str)>("a pair", &longer).is_err());
    }

    #[test]
    fn another_version_is_named() {
        let mut bytes = to_bytes("a pair", &(7_u64, "seven")).unwrap();
        bytes[0] += 1;
        let error = from_bytes::<(u64, &str)>("a pair", &bytes)
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("version 4") && error.contains("version 3"),
            "{error}"
        );
    }
}
