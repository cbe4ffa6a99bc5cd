//! Turns the paths that a user gives (files, directories, patterns) into the sorted list of files.

use std::path::{Path, PathBuf};

use super::glob;
use crate::direct::place;
use crate::error::{IoError, Result};
use crate::storage::{self, Kind};
use crate::Format;

/// Lists the files of all arguments: arguments in the given order, the files of each sorted by path.
pub(crate) fn list_files(arguments: &[String]) -> Result<Vec<PathBuf>> {
    if arguments.is_empty() {
        return Err(IoError::NoInput);
    }
    let mut files = Vec::new();
    for argument in arguments {
        let path = Path::new(argument);
        // A file whose name has pattern characters is meant literally.
        let place = place(path);
        if storage::of(place).exists(place) || !glob::is_pattern(argument) {
            files.extend(files_at(path)?);
        } else {
            files.extend(files_matching(argument)?);
        }
    }
    Ok(files)
}

fn files_matching(pattern: &str) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for path in glob::expand(pattern)? {
        if storage::of(&path).is(Kind::Directory, &path) {
            walk(&path, &mut Vec::new(), &mut files)?;
        } else {
            files.push(path);
        }
    }
    if files.is_empty() {
        return Err(IoError::NothingMatched {
            pattern: pattern.to_string(),
        });
    }
    // A pattern may reach a file both by itself and through its directory.
    files.sort();
    files.dedup();
    Ok(files)
}

fn files_at(path: &Path) -> Result<Vec<PathBuf>> {
    let place = place(path);
    let found = storage::of(place).metadata(place);
    if found.map_err(|e| IoError::read(path, e))?.kind != Kind::Directory {
        return Ok(vec![path.to_path_buf()]);
    }
    let mut files = Vec::new();
    walk(path, &mut Vec::new(), &mut files)?;
    if files.is_empty() {
        return Err(IoError::EmptyDirectory {
            path: path.to_path_buf(),
        });
    }
    files.sort();
    Ok(files)
}

/// Adds the files of a directory; `above` has the directories around it, because a link may lead back to one.
fn walk(directory: &Path, above: &mut Vec<(u64, u64)>, files: &mut Vec<PathBuf>) -> Result<()> {
    let unread = |e| IoError::read(directory, e);
    let storage = storage::of(directory);
    let identity = storage.metadata(directory).map_err(unread)?.identity;
    if identity.is_some_and(|identity| above.contains(&identity)) {
        return Err(IoError::DirectoryCircle {
            path: directory.to_path_buf(),
        });
    }
    let depth = above.len();
    above.extend(identity);
    for entry in storage.list(directory).map_err(unread)? {
        let name = entry.name.as_encoded_bytes();
        // Skips markers and unfinished output, as every dataset writer names them; `_key=value` is a partition's folder.
        let is_partition = name.starts_with(b"_") && name.contains(&b'=') && entry.is_directory;
        if (name.starts_with(b"_") && !is_partition) || name.starts_with(b".") {
            continue;
        }
        let path = directory.join(&entry.name);
        if entry.is_directory {
            walk(&path, above, files)?;
        } else {
            files.push(path);
        }
    }
    above.truncate(depth);
    Ok(())
}

/// The one format of all files.
pub(super) fn common_format(files: &[PathBuf], given: Option<Format>) -> Result<Format> {
    if let Some(format) = given {
        return Ok(format);
    }
    let mut common: Option<(&PathBuf, Format)> = None;
    for file in files {
        let unknown = || match compression_of(file) {
            Some(compression) => IoError::CompressedText {
                path: file.clone(),
                compression,
            },
            None => IoError::UnknownExtension { path: file.clone() },
        };
        let format = Format::from_extension(file).ok_or_else(unknown)?;
        match common {
            Some((first, first_format)) if first_format != format => {
                let (first, second) = (first.clone(), file.clone());
                return Err(IoError::MixedFormats {
                    first,
                    first_format,
                    second,
                    second_format: format,
                });
            }
            _ => common = common.or(Some((file, format))),
        }
    }
    common.map(|(_, format)| format).ok_or(IoError::NoInput)
}

/// The compression that the name of a text file tells: `x.csv.gz`.
fn compression_of(file: &Path) -> Option<&'static str> {
    let compression = match file.extension()?.to_str()?.to_ascii_lowercase().as_str() {
        "gz" => "gzip",
        "zst" => "zstd",
        "lz4" => "lz4",
        "xz" => "xz",
        "zip" => "zip",
        "bz2" => "bzip2",
        _ => return None,
    };
    let inner = Format::from_extension(Path::new(file.file_stem()?));
    inner.filter(|format| format.is_text()).map(|_| compression)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::formats::text;

    fn tree(names: &[&str]) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        for name in names {
            let path = dir.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "").unwrap();
        }
        dir
    }

    #[test]
    fn directories_are_recursive_sorted_and_skip_markers() {
        let dir = tree(&[
            "b.csv",
            "a/c.csv",
            "_SUCCESS",
            ".part.csv",
            "_tmp/x.csv",
            "a/.x/y.csv",
        ]);
        let files = list_files(&[dir.path().display().to_string()]).unwrap();
        let names: Vec<_> = files
            .iter()
            .map(|f| f.strip_prefix(dir.path()).unwrap().to_str().unwrap())
            .collect();
        assert_eq!(names, ["a/c.csv", "b.csv"]);
    }

    #[test]
    fn arguments_keep_their_order() {
        let dir = tree(&["a.csv", "b.csv"]);
        let path = |name: &str| dir.path().join(name).display().to_string();
        let files = list_files(&[path("b.csv"), path("a.csv")]).unwrap();
        assert_eq!(files, [dir.path().join("b.csv"), dir.path().join("a.csv")]);
    }

    #[test]
    fn what_is_missing_is_named() {
        let dir = tree(&[]);
        let path = |name: &str| dir.path().join(name).display().to_string();
        assert!(matches!(
            list_files(&[path("no.csv")]),
            Err(IoError::PathMissing { .. })
        ));
        assert!(matches!(
            list_files(&[path("*.csv")]),
            Err(IoError::NothingMatched { .. })
        ));
        assert!(matches!(
            list_files(&[path("")]),
            Err(IoError::EmptyDirectory { .. })
        ));
        assert!(matches!(list_files(&[]), Err(IoError::NoInput)));
    }

    #[test]
    fn a_directory_in_itself_is_refused_and_one_that_is_linked_twice_is_not() {
        let dir = tree(&["a/b/c.csv", "d/e.csv"]);
        std::os::unix::fs::symlink(dir.path().join("d"), dir.path().join("a/twice")).unwrap();
        let argument = [dir.path().display().to_string()];
        assert_eq!(list_files(&argument).unwrap().len(), 3);
        for (target, link) in [("a", "a/b/loop"), ("a", "a/loop"), (".", "d/loop")] {
            let link = dir.path().join(link);
            std::os::unix::fs::symlink(dir.path().join(target), &link).unwrap();
            let error = list_files(&argument).unwrap_err().to_string();
            assert!(
                error.contains("loop") && !error.contains("loop/"),
                "{error}"
            );
            std::fs::remove_file(link).unwrap();
        }
    }

    #[test]
    fn compressed_text_is_told_by_its_name() {
        let error = common_format(&[PathBuf::from("a.csv.gz")], None)
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("gzip") && error.contains("decompress"),
            "{error}"
        );
        let error = common_format(&[PathBuf::from("a.tar.gz")], None).unwrap_err();
        assert!(matches!(error, IoError::UnknownExtension { .. }));
    }

    #[test]
    fn mixed_formats_need_a_word() {
        let files = [PathBuf::from("a.csv"), PathBuf::from("b.parquet")];
        let error = common_format(&files, None).unwrap_err().to_string();
        assert!(
            error.contains("a.csv") && error.contains("b.parquet"),
            "{error}"
        );
        assert_eq!(common_format(&files, Some(text::CSV)).unwrap(), text::CSV);
        assert!(matches!(
            common_format(&[PathBuf::from("x")], None),
            Err(IoError::UnknownExtension { .. })
        ));
    }
}
