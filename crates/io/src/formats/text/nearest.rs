//! Names that may have been meant by an unknown name, for messages.

/// So many names are all shown; of more, only the nearest three.
const LISTED: usize = 12;

/// Returns the names to show: all if they are few, else those of the fewest changes, whatever their case.
pub(super) fn nearest_names(name: &str, names: &[String]) -> Vec<String> {
    if names.len() <= LISTED {
        return names.to_vec();
    }
    let name = name.to_lowercase();
    let mut nearest: Vec<(usize, &String)> = names
        .iter()
        .map(|other| (changes(&name, &other.to_lowercase()), other))
        .collect();
    nearest.sort_by_key(|(changes, _)| *changes);
    nearest
        .into_iter()
        .take(3)
        .map(|(_, name)| name.clone())
        .collect()
}

/// Returns how many characters have to be put in, left out or replaced (Levenshtein's distance).
fn changes(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut diagonal = i;
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(x != *y);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_of_many() {
        let names: Vec<String> = (0..3000).map(|n| format!("column_{n}")).collect();
        let nearest = nearest_names("Colum_1234", &names);
        assert_eq!(nearest[0], "column_1234");
        assert_eq!(nearest.len(), 3);
        assert_eq!(nearest_names("x", &names[..3]), names[..3]);
    }
}
