//! Compressed text, and the kept copy of standard input.

use std::os::fd::{BorrowedFd, RawFd};
use std::path::{Path, PathBuf};

use exoshuffle_io::{Bounds, Codec, Format};
use pyo3::prelude::*;

use crate::errors::{io_error, options_error};
use crate::records::Stop;

/// A path, how the file is compressed if it is text, and the format that its name tells.
type Listed = (String, Option<&'static str>, Option<&'static str>);

/// Lists the files behind paths; see `exoshuffle_io::list_compressed`.
#[pyfunction]
pub fn list_compressed(
    py: Python<'_>,
    paths: Vec<String>,
    format: Option<&str>,
) -> PyResult<Vec<Listed>> {
    let format = format.map(str::parse::<Format>).transpose();
    let format = format.map_err(io_error)?;
    let files = py.detach(|| exoshuffle_io::list_compressed(&paths, format));
    let described = files.map_err(io_error)?.into_iter().map(|file| {
        let path = file.path.to_string_lossy().into_owned();
        (path, file.codec.map(name), file.format.map(Format::name))
    });
    Ok(described.collect())
}

/// Returns how data is compressed that begins with these bytes.
#[pyfunction]
pub fn codec_of(start: &[u8]) -> Option<&'static str> {
    exoshuffle_io::codec_of(start).map(name)
}

/// Returns the path of a file with the place of its bytes.
#[pyfunction]
pub fn located(shown: &str, place: &str) -> String {
    exoshuffle_io::located(shown, place)
}

/// Returns a path without the place of its bytes.
#[pyfunction]
pub fn shown_path(path: &str) -> String {
    exoshuffle_io::shown(path).into_owned()
}

/// Decompresses a file into an open one, and returns the size. The name in `to` is for errors; `bounds` are bytes of
/// memory for the decoder, and of a line.
#[pyfunction]
pub fn decompress(
    py: Python<'_>,
    path: PathBuf,
    codec: &str,
    to: (RawFd, PathBuf),
    bounds: (u64, u64),
    stop: &Stop,
) -> PyResult<u64> {
    let codec = match codec {
        "gzip" => Codec::Gzip,
        "zstd" => Codec::Zstd,
        _ => return Err(options_error(format!("unknown compression {codec:?}"))),
    };
    py.detach(|| {
        // SAFETY: the caller keeps the descriptor open; it is borrowed only to be duplicated.
        let borrowed = unsafe { BorrowedFd::borrow_raw(to.0) };
        let file = borrowed.try_clone_to_owned()?.into();
        let place = (&file, Path::new(&to.1));
        let bounds = Bounds {
            decoder: bounds.0,
            line: bounds.1,
        };
        exoshuffle_io::decompress(&path, codec, place, bounds, &|| stop.is_set()).map_err(io_error)
    })
}

fn name(codec: Codec) -> &'static str {
    match codec {
        Codec::Gzip => "gzip",
        Codec::Zstd => "zstd",
    }
}
