//! Where a text that was not found may have been meant: the lines of the file that have most in common with it.

use std::collections::HashMap;

use super::super::output;

/// Lines shown.
const SHOWN: usize = 20;
/// Longest line shown or compared, in characters.
const WIDTH: usize = 200;
/// Lines compared by their letters when no line is the same.
const COMPARED: usize = 20_000;

/// The nearest region with its line numbers, and what seems to be wrong; empty when nothing is near.
pub(super) fn nearest(content: &[u8], old: &str) -> String {
    let text = String::from_utf8_lossy(content);
    let lines: Vec<&str> = text.lines().collect();
    let wanted: Vec<&str> = old.lines().collect();
    let numbered = wanted.iter().all(|line| is_numbered(line));
    if numbered && !wanted.is_empty() {
        return " old_string holds line numbers as Read shows them; leave them out.".to_owned();
    }
    let Some(start) = by_same_lines(&lines, &wanted).or_else(|| by_letters(&lines, &wanted)) else {
        return String::new();
    };
    let region = lines.get(start..).unwrap_or_default();
    let region = region.get(..wanted.len().min(region.len())).unwrap_or_default();
    let same = |strip: fn(&str) -> String| {
        region.len() == wanted.len() && region.iter().zip(&wanted).all(|(a, b)| strip(a) == strip(b))
    };
    let hint = if same(|line| line.trim_start().trim_end().to_owned()) {
        " It differs in indentation only."
    } else if same(|line| line.split_whitespace().collect()) {
        " It differs in blanks only."
    } else {
        ""
    };
    let mut out = format!(" The nearest text is this.{hint}\n");
    for (index, line) in region.iter().enumerate().take(SHOWN) {
        output::numbered(start + index + 1, output::head(line, WIDTH).0, &mut out);
    }
    out
}

fn is_numbered(line: &str) -> bool {
    let digits = line.trim_start().trim_start_matches(|char: char| char.is_ascii_digit());
    line.trim_start().len() > digits.len() && digits.starts_with('\t')
}

/// Each line of the file that is in the wanted text, blanks at its sides apart, votes for where the text would start.
fn by_same_lines(lines: &[&str], wanted: &[&str]) -> Option<usize> {
    let mut places: HashMap<&str, Vec<usize>> = HashMap::new();
    for (index, line) in wanted.iter().enumerate() {
        if !line.trim().is_empty() {
            places.entry(line.trim()).or_default().push(index);
        }
    }
    let mut votes: HashMap<usize, usize> = HashMap::new();
    for (index, line) in lines.iter().enumerate() {
        for place in places.get(line.trim()).into_iter().flatten() {
            // A longer line says more about the place.
            *votes.entry(index.saturating_sub(*place)).or_default() += line.trim().len();
        }
    }
    votes.into_iter().max_by_key(|(start, weight)| (*weight, usize::MAX - start)).map(|(start, _)| start)
}

/// The line most like the first wanted line that says anything.
fn by_letters(lines: &[&str], wanted: &[&str]) -> Option<usize> {
    let (place, line) = wanted.iter().enumerate().find(|(_, line)| !line.trim().is_empty())?;
    let pairs = pairs(line);
    let scored = lines.iter().enumerate().take(COMPARED).map(|(index, line)| (likeness(&pairs, line), index));
    let (score, index) = scored.max_by_key(|(score, index)| (*score, usize::MAX - index))?;
    (score >= 50).then(|| index.saturating_sub(place))
}

/// Pairs of neighbouring characters and how often they come.
fn pairs(line: &str) -> HashMap<(char, char), i32> {
    let line = output::head(line.trim(), WIDTH).0;
    let mut pairs = HashMap::new();
    for pair in line.chars().zip(line.chars().skip(1)) {
        *pairs.entry(pair).or_default() += 1;
    }
    pairs
}

/// Dice's coefficient in percent.
fn likeness(wanted: &HashMap<(char, char), i32>, line: &str) -> i32 {
    let found = pairs(line);
    let total: i32 = wanted.values().chain(found.values()).sum();
    let common: i32 =
        found.iter().map(|(pair, count)| wanted.get(pair).map_or(0, |other| *count.min(other))).sum();
    (common * 200).checked_div(total).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_region_is_shown() {
        let check = |content: &str, old: &str, want: &str| {
            assert_eq!(nearest(content.as_bytes(), old), want, "{old:?}");
        };
        let code = "fn a() {\n    one();\n    two();\n}\n\nfn b() {\n    three();\n}\n";
        check(
            code,
            "  one();\n  two();",
            " The nearest text is this. It differs in indentation only.\n     2\t    one();\n     3\t    two();\n",
        );
        check(
            code,
            "    one();\n    2();",
            " The nearest text is this.\n     2\t    one();\n     3\t    two();\n",
        );
        check(code, "thre();", " The nearest text is this.\n     7\t    three();\n");
        check(code, "one( );", " The nearest text is this. It differs in blanks only.\n     2\t    one();\n");
        check(code, "nothing like it", "");
        check(code, "", "");
        check("", "x", "");
        let hint = " old_string holds line numbers as Read shows them; leave them out.";
        check(code, "     2\t    one();\n     3\t    two();", hint);
    }
}
