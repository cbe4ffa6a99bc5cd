//! The message of an error for people: one line, whatever names and values of the data are in it.

use crate::direct::shown;
use crate::error::IoError;

/// The message without the places of decompressed files' bytes, and with control characters written out.
pub fn told(error: &IoError) -> String {
    let message = error.to_string();
    let mut line = String::with_capacity(message.len());
    for character in shown(&message).chars() {
        if character.is_control() {
            line.extend(character.escape_default());
        } else {
            line.push(character);
        }
    }
    line
}
