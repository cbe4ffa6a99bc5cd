//! Shell patterns: `*`, `?`, `[a-z]`, `[!a-z]` within one path component, `**` for any number of components.

use std::path::{Path, PathBuf};

use crate::error::{IoError, Result};
use crate::storage::{self, Kind, Listed};

/// Whether the text has pattern characters.
pub(super) fn is_pattern(text: &str) -> bool {
    text.contains(['*', '?', '['])
}

/// Finds all files that match, unsorted. Hidden components match only where the pattern names the dot.
pub(super) fn expand(pattern: &str) -> Result<Vec<PathBuf>> {
    let (root, rest) = split_root(pattern);
    let components: Vec<&str> = rest.split('/').filter(|c| !c.is_empty()).collect();
    for component in &components {
        check(component).map_err(|reason| IoError::BadPattern {
            pattern: pattern.to_string(),
            reason,
        })?;
    }
    let mut found = Vec::new();
    descend(Path::new(root), &components, &mut found)?;
    Ok(found)
}

/// Splits a pattern behind the root of its storage.
fn split_root(pattern: &str) -> (&str, &str) {
    let path = Path::new(pattern);
    let root = storage::of(path).root_bytes(path);
    pattern.split_at(root.unwrap_or_default())
}

fn descend(at: &Path, components: &[&str], found: &mut Vec<PathBuf>) -> Result<()> {
    let Some((first, rest)) = components.split_first() else {
        found.push(at.to_path_buf());
        return Ok(());
    };
    if *first == "**" {
        descend(at, rest, found)?;
        for (name, entry) in entries(at)? {
            // A link to a directory may lead in a circle, so `**` does not follow it.
            if !name.starts_with('.') && entry.is_directory && !entry.is_link {
                descend(&at.join(name), components, found)?;
            }
        }
        return Ok(());
    }
    if !is_pattern(first) {
        let path = at.join(first);
        return if storage::of(&path).exists(&path) {
            descend(&path, rest, found)
        } else {
            Ok(())
        };
    }
    for (name, entry) in entries(at)? {
        if is_found(first, &name) && (rest.is_empty() || entry.is_directory) {
            descend(&at.join(name), rest, found)?;
        }
    }
    Ok(())
}

/// Whether the pattern would match a path, which need not exist.
///
/// `path` is absolute, and no part of it is a link. The pattern's links before its first pattern characters are followed. A
/// malformed pattern matches nothing, nor does one in a directory that does not exist.
pub fn pattern_finds(pattern: &str, path: &Path) -> bool {
    let (root, rest) = split_root(pattern);
    let components = rest.split('/').filter(|c| !matches!(*c, "" | "."));
    let components: Vec<&str> = components.collect();
    if components.iter().any(|component| check(component).is_err()) {
        return false;
    }
    let plain = components.iter().take_while(|c| !is_pattern(c)).count();
    let (plain, rest) = components.split_at(plain);
    let start = if root.is_empty() { "." } else { root };
    let folder = Path::new(start).join(plain.join("/"));
    let folder = storage::of(&folder).real_path(&folder);
    let Some(below) = folder
        .ok()
        .and_then(|folder| path.strip_prefix(folder).ok())
    else {
        return false;
    };
    let names = below.components().map(|name| name.as_os_str().to_str());
    let names: Option<Vec<&str>> = names.collect();
    names.is_some_and(|names| all_match(rest, &names))
}

/// Whether components of a pattern match those of a path, as `descend` finds them.
fn all_match(components: &[&str], names: &[&str]) -> bool {
    let Some((first, rest)) = components.split_first() else {
        return names.is_empty();
    };
    let below = names.split_first();
    if *first == "**" {
        let deeper = below
            .is_some_and(|(name, below)| !name.starts_with('.') && all_match(components, below));
        return deeper || all_match(rest, names);
    }
    below.is_some_and(|(name, below)| is_found(first, name) && all_match(rest, below))
}

/// Whether a component with pattern characters matches a name; a hidden one only if the pattern names the dot.
fn is_found(component: &str, name: &str) -> bool {
    let is_hidden = name.starts_with('.') && !component.starts_with('.');
    !is_hidden && matches(component.as_bytes(), name.as_bytes())
}

/// Returns the entries of a directory whose names are characters; nothing for anything but a directory.
fn entries(directory: &Path) -> Result<Vec<(String, Listed)>> {
    let readable = if directory.as_os_str().is_empty() {
        Path::new(".")
    } else {
        directory
    };
    let storage = storage::of(readable);
    if !storage.is(Kind::Directory, readable) {
        return Ok(Vec::new());
    }
    let listed = storage.list(readable);
    let listed = listed.map_err(|e| IoError::read(readable, e))?.into_iter();
    let named = |entry: Listed| Some((entry.name.to_str()?.to_owned(), entry));
    Ok(listed.filter_map(named).collect())
}

fn check(component: &str) -> std::result::Result<(), &'static str> {
    if component != "**" && component.contains("**") {
        return Err("'**' must be a whole path component");
    }
    let mut rest = component.as_bytes();
    while let Some(open) = rest.iter().position(|&b| b == b'[') {
        let (_, after) = class(&rest[open..], b'\0').ok_or("'[' has no matching ']'")?;
        rest = after;
    }
    Ok(())
}

/// Matches one component; on a mismatch after a star, the star takes one more byte.
fn matches(mut pattern: &[u8], mut text: &[u8]) -> bool {
    let mut retry: Option<(&[u8], &[u8])> = None;
    loop {
        let step = match pattern.first() {
            Some(b'*') => {
                pattern = &pattern[1..];
                retry = Some((pattern, text));
                continue;
            }
            Some(b'?') => text.first().map(|_| (&pattern[1..], char_len(text))),
            Some(b'[') => text
                .first()
                .and_then(|&b| class(pattern, b))
                .filter(|c| c.0)
                .map(|c| (c.1, 1)),
            Some(literal) => text
                .first()
                .filter(|b| *b == literal)
                .map(|_| (&pattern[1..], 1)),
            None if text.is_empty() => return true,
            None => None,
        };
        match (step, retry) {
            (Some((rest, taken)), _) => (pattern, text) = (rest, &text[taken..]),
            (None, Some((after_star, from))) if !from.is_empty() => {
                (pattern, text) = (after_star, &from[1..]);
                retry = Some((pattern, text));
            }
            _ => return false,
        }
    }
}

/// Bytes of the first UTF-8 character.
fn char_len(text: &[u8]) -> usize {
    1 + text[1..].iter().take_while(|&&b| b & 0xC0 == 0x80).count()
}

/// Whether `byte` is in the bracket expression that begins `pattern`; and the rest of the pattern behind it.
fn class(pattern: &[u8], byte: u8) -> Option<(bool, &[u8])> {
    let mut rest = &pattern[1..];
    let negated = matches!(rest.first(), Some(b'!' | b'^'));
    if negated {
        rest = &rest[1..];
    }
    let (mut found, mut first) = (false, true);
    loop {
        match *rest {
            [b']', ref after @ ..] if !first => return Some((found != negated, after)),
            [low, b'-', high, ref after @ ..] if high != b']' => {
                found |= (low..=high).contains(&byte);
                rest = after;
            }
            [one, ref after @ ..] => {
                found |= one == byte;
                rest = after;
            }
            [] => return None,
        }
        first = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn components_match_like_a_shell() {
        let yes = [
            ("*.csv", "a.csv"),
            ("part-?", "part-é"),
            ("[a-c]x", "bx"),
            ("[!a-c]x", "dx"),
            ("a*b*c", "aXbYbc"),
        ];
        let no = [
            ("*.csv", "a.csv2"),
            ("part-?", "part-"),
            ("[a-c]x", "dx"),
            ("[!a-c]x", "ax"),
            ("a*b*c", "aXbY"),
        ];
        let brackets = [("[]]", "]"), ("[[]", "["), ("[a-]", "-")];
        for (pattern, text) in yes.into_iter().chain(brackets) {
            assert!(
                matches(pattern.as_bytes(), text.as_bytes()),
                "{pattern} {text}"
            );
        }
        for (pattern, text) in no {
            assert!(
                !matches(pattern.as_bytes(), text.as_bytes()),
                "{pattern} {text}"
            );
        }
    }

    #[test]
    fn directories_are_walked() {
        let dir = tempfile::tempdir().unwrap();
        for name in [
            "a/x.csv",
            "a/b/y.csv",
            "c/z.csv",
            "c/.hidden.csv",
            "c/.d/w.csv",
        ] {
            let path = dir.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "").unwrap();
        }
        let count = |pattern: &str| {
            expand(&format!("{}/{pattern}", dir.path().display()))
                .unwrap()
                .len()
        };
        assert_eq!(count("*/*.csv"), 2);
        assert_eq!(count("**/*.csv"), 3);
        assert_eq!(count("a/**/y.csv"), 1);
        assert_eq!(count("?/[x-z].csv"), 2);
        assert_eq!(count("**/.hidden.csv"), 1);
        assert_eq!(count("nothing*"), 0);
    }

    #[test]
    fn a_path_is_found_as_if_it_existed() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        std::fs::create_dir(root.join("real")).unwrap();
        std::os::unix::fs::symlink("real", root.join("link")).unwrap();
        let finds = |pattern: &str, path: &str| {
            pattern_finds(&format!("{}/{pattern}", root.display()), &root.join(path))
        };
        for (pattern, path) in [
            ("real/*.csv", "real/x.csv"),
            ("link/*.csv", "real/x.csv"),
            ("**/x.csv", "x.csv"),
            ("**/x.csv", "a/b/x.csv"),
            ("./*/./x.csv", "a/x.csv"),
            (".*/x", ".a/x"),
        ] {
            assert!(finds(pattern, path), "{pattern} {path}");
        }
        for (pattern, path) in [
            ("*.csv", "real/x.csv"),
            ("real/*", "real/.x"),
            ("**/x.csv", ".a/x.csv"),
            ("elsewhere/*", "x.csv"),
            ("[x", "[x"),
            ("x**", "xy"),
        ] {
            assert!(!finds(pattern, path), "{pattern} {path}");
        }
    }

    #[test]
    fn malformed_patterns_are_named() {
        assert!(expand("a/[b").unwrap_err().to_string().contains("'a/[b'"));
        assert!(expand("a**/b").is_err());
    }
}
