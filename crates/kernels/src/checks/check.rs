//! The findings of a shuffle's checks: rows that left the maps and did not arrive as they were.

/// A shuffle did not conserve its rows. Messages go on after "the reduce of ...".
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CheckError {
    /// Maps whose output is not there at all, not even an empty one.
    #[error("did not get the output of {}", maps(*.map, *.count))]
    Missing {
        /// The first of them.
        map: u32,
        /// How many.
        count: u64,
    },
    /// The output of a map came more than once.
    #[error("got the output of map {map} twice")]
    Repeated {
        /// The map.
        map: u32,
    },
    /// The outputs are all there, but not in the order of the maps.
    #[error("got the output of map {map} behind that of map {before}, though maps go in order")]
    Misplaced {
        /// The map that should have come earlier.
        map: u32,
        /// The map that came before it.
        before: u32,
    },
    /// The output of a map that does not belong to this shuffle.
    #[error("got the output of map {map}, and there are only the maps {first} to {last}")]
    Unknown {
        /// The map.
        map: u32,
        /// The first one that there is.
        first: u32,
        /// The last one that there is.
        last: u32,
    },
    /// The output of a map for another partition.
    #[error("got the output of map {map} for partition {partition}")]
    Elsewhere {
        /// The map.
        map: u32,
        /// The partition that it is for.
        partition: u32,
    },
    /// A slice that does not consist of outputs of maps.
    #[error("cannot tell its slice {slice} apart at byte {offset}: {reason}")]
    Unreadable {
        /// Number of the slice, from 0.
        slice: usize,
        /// Where in it.
        offset: usize,
        /// The fault there.
        reason: &'static str,
    },
    /// The bytes that arrived are not those that a map sent.
    #[error("got rows of map {map} that are not those which the map sent: their bytes were changed on the way")]
    Changed {
        /// The map.
        map: u32,
    },
    /// The slices are in order, but some of their rows did not go on, or went on twice.
    #[error("got {} from the maps and handed on {}", grouped(*.expected), grouped(*.actual))]
    Rows {
        /// Rows in the slices.
        expected: u64,
        /// Rows handed on.
        actual: u64,
    },
    /// The slices are in order, but other rows went on.
    #[error("got {} from the maps and handed on as many, but not the same ones", grouped(*.rows))]
    Content {
        /// Rows in the slices.
        rows: u64,
    },
    /// The slices are in order, but nobody asked for all of their rows.
    #[error("got {} from the maps and did not hand on all of them", grouped(*.rows))]
    Unread {
        /// Rows in the slices.
        rows: u64,
    },
    /// A map did not fill a slice with the rows that it read.
    #[error("did not fill slice {partition} with the rows that it read for it")]
    Scattered {
        /// The partition whose slice it is.
        partition: usize,
    },
    /// A map got other rows than those that it numbered.
    #[error("did not get the {expected} rows that its files have for it")]
    Numbered {
        /// The number of rows that it numbered.
        expected: u64,
    },
}

fn maps(first: u32, count: u64) -> String {
    match count {
        1 => format!("map {first}"),
        _ => format!("{count} maps, the first of them map {first}"),
    }
}

/// Formats a number of rows with its unit, digits in groups of three.
fn grouped(rows: u64) -> String {
    let digits = rows.to_string();
    let mut text = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text + if rows == 1 { " row" } else { " rows" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_name_what_differed() {
        let text = |error: CheckError| error.to_string();
        assert_eq!(
            text(CheckError::Missing { map: 7, count: 1 }),
            "did not get the output of map 7"
        );
        assert_eq!(
            text(CheckError::Missing { map: 7, count: 20 }),
            "did not get the output of 20 maps, the first of them map 7"
        );
        let rows = |expected, actual| text(CheckError::Rows { expected, actual });
        assert_eq!(
            rows(1_000, 999),
            "got 1,000 rows from the maps and handed on 999 rows"
        );
        assert_eq!(
            rows(12_345_678, 1),
            "got 12,345,678 rows from the maps and handed on 1 row"
        );
    }
}
