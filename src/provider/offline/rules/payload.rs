//! Ranges, replacements, contents and commands: unquoted words are taken only where they cannot be a description.

use super::super::quote::Fragment;
use super::super::request::{Lines, is_han};
use super::super::template::Slots;
use super::wording::VAGUE;

/// "10-20", "10 to 20", "10 到 20", or one line.
pub(super) fn range(said: &Fragment) -> Option<Lines> {
    let mut numbers = said.text.split(|c: char| !c.is_ascii_digit()).filter(|n| !n.is_empty());
    let first: u64 = numbers.next()?.parse().ok()?;
    let last = numbers.next().map_or(Some(first), |n| n.parse().ok())?;
    let words = said.text.split(|c: char| c.is_ascii_digit() || c.is_whitespace());
    let known = |w: &str| ["", "-", "–", "—", "~", "to", "through", "and", "到", "至"].contains(&w);
    let legal = numbers.next().is_none() && 0 < first && first <= last && words.into_iter().all(known);
    legal.then_some(Lines { first, last })
}

/// Both sides of a replacement. Unquoted sides must not describe ("the old parser") nor be ambiguous.
pub(super) fn replaceable(from: &Fragment, to: &Fragment) -> Option<(String, String)> {
    const JOINTS: &[&str] = &["with", "by", "to", "into", "in", "and"];
    let clear = |said: &Fragment| {
        let words: Vec<String> = said.text.split_whitespace().map(str::to_ascii_lowercase).collect();
        let describes = words.first().is_some_and(|first| VAGUE.contains(&first.as_str()) && words.len() > 1);
        let ambiguous = words.iter().any(|w| JOINTS.contains(&w.as_str())) && words.len() > 1;
        let joints_han = ["替换", "改为", "改成", "换成"];
        said.quoted || !(describes || ambiguous || joints_han.iter().any(|j| said.text.contains(j)))
    };
    let legal = !from.text.is_empty() && from.text != to.text && clear(from) && clear(to);
    legal.then(|| (from.text.clone(), to.text.clone()))
}

/// What the request names as content: quoted text, or the words as they stand.
pub(super) fn literal(said: &Fragment) -> String {
    said.text.clone()
}

/// Content after a bare "with": "a function that adds" describes a text, it is none.
pub(super) fn content(said: &Fragment) -> Option<String> {
    const DESCRIBING: &[&str] = &[
        "a",
        "an",
        "the",
        "some",
        "all",
        "any",
        "one",
        "two",
        "three",
        "my",
        "your",
        "its",
        "that",
        "which",
        "for",
        "of",
        "function",
        "functions",
        "code",
        "test",
        "tests",
        "about",
        "explaining",
        "describing",
        "documentation",
        "list",
        "example",
        "examples",
        "appropriate",
        "good",
    ];
    let mut words = said.text.split(|c: char| !c.is_alphanumeric());
    let describes = words.any(|w| DESCRIBING.contains(&w.to_ascii_lowercase().as_str()));
    let describes_han =
        ["一个", "一些", "函数", "代码", "测试", "关于", "介绍"].iter().any(|w| said.text.contains(w));
    (said.quoted || !(describes || describes_han)).then(|| said.text.clone())
}

/// A command: quoted, or words that begin like a program.
pub(super) fn shell(said: &Fragment) -> Option<String> {
    const NO_PROGRAM: &[&str] = &[
        "a",
        "an",
        "the",
        "all",
        "my",
        "our",
        "your",
        "it",
        "them",
        "this",
        "that",
        "these",
        "tests",
        "everything",
        "again",
        "some",
        "and",
        "in",
        "on",
        "through",
        "for",
        "until",
        "unit",
        "with",
    ];
    let first = said.text.split_whitespace().next()?;
    let program = |c: char| c.is_ascii_alphanumeric() || "_-./~$".contains(c);
    let plain = first.chars().all(program) && !NO_PROGRAM.contains(&first.to_ascii_lowercase().as_str());
    let describes = [" and ", " until ", " if ", " unless ", " when "].iter().any(|w| said.text.contains(w));
    let legal = said.quoted || (plain && !describes && !said.text.chars().any(is_han));
    legal.then(|| said.text.trim().to_owned())
}

/// A command in a place where words would not be one.
pub(super) fn quoted_shell(said: &Fragment) -> Option<String> {
    shell(said).filter(|_| said.quoted)
}

/// The tools named for a child.
pub(super) fn tools(slots: &Slots<'_>) -> Vec<String> {
    let Some(said) = slots.get("tools") else { return Vec::new() };
    let parts = said.text.split(|c: char| c.is_whitespace() || ",，、和".contains(c));
    parts.filter(|part| !part.is_empty() && !part.eq_ignore_ascii_case("and")).map(str::to_owned).collect()
}
