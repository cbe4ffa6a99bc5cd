//! Whether a line is a JSON object, and if not, why: exactly and in words, but too slow for every line.

use serde::de::IgnoredAny;

/// The reason for a line of JSON that is something else, several objects, or a part of one.
pub(super) const NOT_ONE_OBJECT: &str = "it is not one JSON object";

/// Returns why a line is not one object; `None` if it is. Whether its strings are valid text is another matter.
pub(super) fn fault(line: &[u8]) -> Option<String> {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    match serde_json::from_slice::<IgnoredAny>(line) {
        Ok(_) if line.trim_ascii_start().starts_with(b"{") => None,
        Ok(_) => Some(NOT_ONE_OBJECT.to_owned()),
        Err(error) => Some(format!(
            "{NOT_ONE_OBJECT}: {} in column {}",
            without_place(&error),
            error.column()
        )),
    }
}

/// Returns the message of an error without the line, which is always the first, and the column.
pub(super) fn without_place(error: &serde_json::Error) -> String {
    let place = format!(" at line {} column {}", error.line(), error.column());
    let message = error.to_string();
    message.strip_suffix(&place).unwrap_or(&message).to_owned()
}
