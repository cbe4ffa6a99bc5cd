//! Compressed text: finds the files that have it, and decompresses them into text that can be cut and read at any place.
//!
//! Guarantee: a file that is cut off or damaged is an error that names the file, never fewer bytes. A stream is read piece
//! by piece, so that memory holds the window of a decoder and no more, however large the text is.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};

use flate2::bufread::GzDecoder;
use memchr::memrchr2;

use crate::direct::place;
use crate::error::{IoError, Result};
use crate::source::list_files;
use crate::storage::{self, Kind};
use crate::Format;

/// Bytes that are read, and written, at a time.
const PIECE_BYTES: usize = 1 << 20;
/// The window of zstd's own levels but the highest; a decoder has to hold one window.
const LEAST_WINDOW_LOG: u32 = 23;
/// The window of its highest level.
const MOST_WINDOW_LOG: u32 = 27;

/// The compression of a whole file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Codec {
    /// gzip, one member or several.
    Gzip,
    /// Zstandard, one frame or several.
    Zstd,
}

/// The most bytes of a decoder and of a line.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// Memory for a decoder; it may have 8 MB in any case.
    pub decoder: u64,
    /// Bytes of a line.
    pub line: u64,
}

/// A file of an input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedFile {
    /// Its path.
    pub path: PathBuf,
    /// Its compression, if it is compressed text.
    pub codec: Option<Codec>,
    /// The format that its name tells, without the ending of the compression.
    pub format: Option<Format>,
}

/// Lists the files behind paths, and says which are compressed text: by their names, or by their first bytes.
pub fn list_compressed(paths: &[String], format: Option<Format>) -> Result<Vec<ListedFile>> {
    let listed = list_files(paths)?.into_iter().map(|path| {
        let by_name = codec_of_name(&path);
        let said = format.or_else(|| Format::from_extension(text_name(&path)));
        let is_text = said.is_none_or(|format| format.is_text());
        let codec = match by_name {
            None if said.is_some() => codec_of_start(&path),
            _ => by_name,
        };
        ListedFile {
            codec: codec.filter(|_| is_text),
            format: said,
            path,
        }
    });
    Ok(listed.collect())
}

/// The path that people know, without the ending of a compression.
pub(crate) fn text_name(path: &Path) -> &Path {
    let known = crate::direct::known(path);
    let stem = known.file_stem().map(Path::new);
    codec_of_name(known).and(stem).unwrap_or(known)
}

fn codec_of_name(path: &Path) -> Option<Codec> {
    match path.extension()?.to_str()?.to_ascii_lowercase().as_str() {
        "gz" | "gzip" => Some(Codec::Gzip),
        "zst" | "zstd" => Some(Codec::Zstd),
        _ => None,
    }
}

/// Reads the first bytes. A file that cannot be read here is refused later, by its reader.
fn codec_of_start(path: &Path) -> Option<Codec> {
    let mut start = [0; 4];
    let storage = storage::of(path);
    if !storage.is(Kind::File, path) {
        return None;
    }
    storage.stream(path).ok()?.read_exact(&mut start).ok()?;
    codec_of(&start)
}

/// Returns the compression of data with these first bytes.
pub fn codec_of(start: &[u8]) -> Option<Codec> {
    if start.starts_with(b"\x1F\x8B") {
        Some(Codec::Gzip)
    } else if start.starts_with(b"\x28\xB5\x2F\xFD") {
        Some(Codec::Zstd)
    } else {
        None
    }
}

/// Decompresses a file into another one, from its beginning to its end.
///
/// A line that is longer than `bounds` allows is refused at once, because no reader could take it. `stop` is asked after
/// every piece. `to_name` is for errors.
pub fn decompress(
    from: &Path,
    codec: Codec,
    (to, to_name): (&File, &Path),
    bounds: Bounds,
    stop: &dyn Fn() -> bool,
) -> Result<u64> {
    let place = place(from);
    let file = storage::of(place).stream(place);
    let file = file.map_err(|e| IoError::read(from, e))?;
    let mut input = BufReader::with_capacity(PIECE_BYTES, file);
    if input
        .fill_buf()
        .map_err(|e| IoError::read(from, e))?
        .is_empty()
    {
        return Err(unreadable(from, codec, "it is empty"));
    }
    let mut decoder = decoder(input, codec, bounds).map_err(|e| failed(from, codec, &e))?;
    let (mut piece, mut bytes, mut line, mut to) = (vec![0; PIECE_BYTES], 0, 0, to);
    loop {
        let n = match decoder.read(&mut piece) {
            Ok(0) => return Ok(bytes),
            Ok(n) => n,
            Err(e) if e.kind() == std::io::ErrorKind::Interrupted => continue,
            Err(e) => return Err(failed(from, codec, &e)),
        };
        // Lines within a piece are short.
        line = match memrchr2(b'\n', b'\r', &piece[..n]) {
            Some(end) => (n - end - 1) as u64,
            None => line + n as u64,
        };
        if line > bounds.line {
            return Err(IoError::LongLine {
                path: from.to_path_buf(),
                most: bounds.line,
            });
        }
        let written = to.write_all(&piece[..n]);
        written.map_err(|e| IoError::write(to_name, e))?;
        bytes += n as u64;
        if stop() {
            return Err(IoError::read(from, std::io::ErrorKind::Interrupted.into()));
        }
    }
}

fn decoder(
    input: BufReader<Box<dyn Read>>,
    codec: Codec,
    bounds: Bounds,
) -> std::io::Result<Box<dyn Read>> {
    Ok(match codec {
        Codec::Gzip => Box::new(Members {
            decoder: Some(GzDecoder::new(input)),
        }),
        Codec::Zstd => {
            let mut decoder = zstd::stream::read::Decoder::with_buffer(input)?;
            let fits = bounds
                .decoder
                .max(1)
                .ilog2()
                .clamp(LEAST_WINDOW_LOG, MOST_WINDOW_LOG);
            decoder.window_log_max(fits)?;
            Box::new(decoder)
        }
    })
}

/// Decompresses members of gzip that follow each other. Zeros behind one are padding, as gzip itself takes them: tapes and
/// some writers fill blocks up with them.
struct Members<R> {
    /// `None` at the end.
    decoder: Option<GzDecoder<R>>,
}

impl<R: BufRead> Read for Members<R> {
    fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
        while let Some(decoder) = &mut self.decoder {
            let n = decoder.read(out)?;
            if n > 0 || out.is_empty() {
                return Ok(n);
            }
            let input = self.decoder.take().map(GzDecoder::into_inner);
            self.decoder = input.map(next_member).transpose()?.flatten();
        }
        Ok(0)
    }
}

/// Returns the decoder of the next member behind zeros; `None` at the end of the file.
fn next_member<R: BufRead>(mut input: R) -> std::io::Result<Option<GzDecoder<R>>> {
    loop {
        let bytes = match input.fill_buf() {
            Err(e) if e.kind() == std::io::ErrorKind::Interrupted => continue,
            bytes => bytes?,
        };
        let zeros = bytes.iter().take_while(|&&byte| byte == 0).count();
        match (bytes.is_empty(), zeros) {
            (true, _) => return Ok(None),
            (_, 0) => return Ok(Some(GzDecoder::new(input))),
            _ => input.consume(zeros),
        }
    }
}

fn failed(path: &Path, codec: Codec, error: &std::io::Error) -> IoError {
    if error.raw_os_error().is_some() {
        return IoError::read(path, std::io::Error::from(error.kind()));
    }
    let text = error.to_string();
    if text.contains("requires too much memory") {
        return IoError::Window {
            path: path.to_path_buf(),
        };
    }
    match error.kind() {
        std::io::ErrorKind::UnexpectedEof => unreadable(path, codec, "it ends too early"),
        _ => unreadable(path, codec, &text),
    }
}

fn unreadable(path: &Path, codec: Codec, reason: &str) -> IoError {
    let codec = match codec {
        Codec::Gzip => "gzip",
        Codec::Zstd => "zstd",
    };
    IoError::CorruptCompressed {
        path: path.to_path_buf(),
        codec,
        reason: crate::error::one_line(reason),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOUNDS: Bounds = Bounds {
        decoder: 0,
        line: 3_000_000,
    };

    fn decompressed(name: &str, content: &[u8]) -> Result<Vec<u8>> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(name);
        std::fs::write(&path, content).unwrap();
        let out = dir.path().join("out");
        let file = File::create(&out).unwrap();
        let codec = codec_of_name(&path).unwrap();
        let bytes = decompress(&path, codec, (&file, &out), BOUNDS, &|| false)?;
        let made = std::fs::read(out).unwrap();
        assert_eq!(bytes, made.len() as u64);
        Ok(made)
    }

    fn gzip(text: &[u8]) -> Vec<u8> {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(text).unwrap();
        encoder.finish().unwrap()
    }

    fn zstd(text: &[u8]) -> Vec<u8> {
        zstd::encode_all(text, 1).unwrap()
    }

    #[test]
    fn members_and_frames_follow_each_other() {
        let text = b"some text, and more\n".repeat(200_000);
        for (name, encode) in [("x.gz", gzip as fn(&[u8]) -> Vec<u8>), ("x.zst", zstd)] {
            let mut content = encode(&text);
            content.extend(encode(b""));
            content.extend(encode(b"end"));
            let mut wanted = text.clone();
            wanted.extend(b"end");
            assert!(decompressed(name, &content).unwrap() == wanted, "{name}");
        }
    }

    #[test]
    fn zeros_behind_a_member_of_gzip_are_padding() {
        let member = gzip(b"text\n");
        for zeros in [1, 511, 3_000_000] {
            let padded = [&member[..], &vec![0; zeros]].concat();
            assert_eq!(decompressed("x.gz", &padded).unwrap(), b"text\n");
            let second = [&padded[..], &member].concat();
            assert_eq!(decompressed("x.gz", &second).unwrap(), b"text\ntext\n");
            let garbage = [&padded[..], b"garbage"].concat();
            assert!(decompressed("x.gz", &garbage).is_err());
        }
        let before = [&[0][..], &member].concat();
        assert!(decompressed("x.gz", &before).is_err());
    }

    #[test]
    fn a_window_larger_than_memory_is_refused() {
        let mut encoder = zstd::Encoder::new(Vec::new(), 1).unwrap();
        encoder.window_log(MOST_WINDOW_LOG).unwrap();
        encoder.write_all(b"some text").unwrap();
        let content = encoder.finish().unwrap();
        let error = decompressed("x.zst", &content).unwrap_err();
        assert!(matches!(error, IoError::Window { .. }), "{error}");
        let dir = tempfile::tempdir().unwrap();
        let (path, out) = (dir.path().join("x.zst"), dir.path().join("out"));
        std::fs::write(&path, content).unwrap();
        let file = File::create(&out).unwrap();
        let bounds = Bounds {
            decoder: 1 << MOST_WINDOW_LOG,
            ..BOUNDS
        };
        decompress(&path, Codec::Zstd, (&file, &out), bounds, &|| false).unwrap();
        assert_eq!(std::fs::read(out).unwrap(), b"some text");
    }

    #[test]
    fn a_line_longer_than_anybody_could_read_is_refused() {
        let text = [vec![b'0'; 2_900_000], vec![b'\r'], vec![b'0'; 2_900_000]].concat();
        assert_eq!(
            decompressed("x.gz", &gzip(&text)).unwrap().len(),
            text.len()
        );
        let error = decompressed("x.gz", &gzip(&[b'0'; 5_000_000])).unwrap_err();
        assert!(matches!(error, IoError::LongLine { .. }), "{error}");
    }

    #[test]
    fn what_is_cut_off_or_damaged_is_an_error() {
        let text: Vec<u8> = (0..300_000_u32)
            .flat_map(|i| format!("{i}\n").into_bytes())
            .collect();
        for (name, encode) in [("x.gz", gzip as fn(&[u8]) -> Vec<u8>), ("x.zst", zstd)] {
            let whole = encode(&text);
            for len in [0, 1, 3, 20, whole.len() / 2, whole.len() - 1] {
                let error = decompressed(name, &whole[..len]).unwrap_err().to_string();
                assert!(error.contains(name), "{name} of {len} bytes: {error}");
            }
            let mut second = [whole.clone(), whole.clone()].concat();
            second.truncate(whole.len() + 9);
            assert!(
                decompressed(name, &second).is_err(),
                "{name}: half a second one"
            );
            let garbage = [whole.clone(), b"garbage".to_vec()].concat();
            assert!(
                decompressed(name, &garbage).is_err(),
                "{name}: garbage behind"
            );
        }
        let mut damaged = gzip(&text);
        let last = damaged.len() - 6;
        damaged[last] ^= 1;
        assert!(decompressed("x.gz", &damaged).is_err(), "checksum of gzip");
    }
}
