//! Names near a misspelt one.

use alloc::vec::Vec;

/// Most names that are offered.
const OFFERED: usize = 3;

/// Returns the names nearest to `word`, the nearest first: those with the fewest letters to insert, remove or replace,
/// a part of a name counting as one change.
#[must_use]
pub fn nearest<'n>(word: &str, names: impl Iterator<Item = &'n str>) -> Vec<&'n str> {
    let mut near: Vec<_> = names.map(|name| (distance(word, name), name)).collect();
    near.sort();
    let best = near.first().map_or(0, |(changes, _)| *changes);
    // What is twice as far is another word.
    near.into_iter()
        .take_while(|(changes, _)| *changes <= 2 * best.max(1))
        .take(OFFERED)
        .map(|(_, n)| n)
        .collect()
}

fn distance(word: &str, name: &str) -> usize {
    if word.len() > 2 && (name.contains(word) || word.contains(name)) {
        return 1;
    }
    let name: Vec<u8> = name.bytes().collect();
    let mut row: Vec<usize> = (0..=name.len()).collect();
    for (i, letter) in word.bytes().enumerate() {
        let mut corner = row[0];
        row[0] = i + 1;
        for (j, other) in name.iter().enumerate() {
            let replaced = corner + usize::from(letter != *other);
            corner = row[j + 1];
            row[j + 1] = replaced.min(corner + 1).min(row[j] + 1);
        }
    }
    row[name.len()]
}

#[cfg(test)]
mod tests;
