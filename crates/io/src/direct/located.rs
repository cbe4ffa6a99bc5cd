//! Paths of files whose bytes are in another place: a file that was decompressed, or standard input that was kept.
//!
//! A path of this kind holds both: the path that people know and, between two marks that no path can have, the place.
//! So it travels wherever paths do, and messages show only the known path.

use std::borrow::Cow;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// No path has a character 0.
const MARK: char = '\0';

/// Returns the path that people know, with the place of its bytes.
pub fn located(shown: &str, place: &str) -> String {
    format!("{shown}{MARK}{place}{MARK}")
}

/// Returns where the bytes of a path are.
pub fn place(path: &Path) -> &Path {
    let mut parts = path.as_os_str().as_bytes().split(|byte| *byte == 0);
    let shown = parts.next().unwrap_or_default();
    Path::new(OsStr::from_bytes(parts.next().unwrap_or(shown)))
}

/// Returns the path that people know.
pub fn known(path: &Path) -> &Path {
    let mut parts = path.as_os_str().as_bytes().split(|byte| *byte == 0);
    Path::new(OsStr::from_bytes(parts.next().unwrap_or_default()))
}

/// Returns a message, or a path, without the places of bytes. Names and values of the data may have marks, too, but
/// with no place behind them.
pub fn shown(text: &str) -> Cow<'_, str> {
    if !text.contains(MARK) {
        return Cow::Borrowed(text);
    }
    let (mut kept, mut rest) = (String::new(), text);
    while let Some((before, behind)) = rest.split_once("\0/") {
        let Some((_, after)) = behind.split_once(MARK) else {
            break;
        };
        kept.push_str(before);
        rest = after;
    }
    (kept + rest).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_can_be_told() {
        let path = located("a/b.csv.gz", "/proc/7/fd/3");
        assert_eq!(place(Path::new(&path)), Path::new("/proc/7/fd/3"));
        assert_eq!(place(Path::new("a/b")), Path::new("a/b"));
        assert_eq!(known(Path::new(&path)), Path::new("a/b.csv.gz"));
        let message = format!("'{path}' differs from '{path}'");
        assert_eq!(shown(&message), "'a/b.csv.gz' differs from 'a/b.csv.gz'");
        assert_eq!(shown("plain"), "plain");
        assert_eq!(
            shown(&format!("{path}: column 'a\0b\0'")),
            "a/b.csv.gz: column 'a\0b\0'"
        );
    }
}
