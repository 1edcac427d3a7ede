//! A small pattern language for requests: `(show|read) [the] {path}`.

use std::ops::Range;

use super::quote::{Fragment, Masked, is_mark};

/// A pattern: words, `(a|b)`, `[optional]` and `{slots}` that take as little as they can.
#[derive(Debug)]
pub(super) struct Template(Vec<Node>);

#[derive(Debug)]
enum Node {
    Word(&'static str),
    Slot(&'static str),
    Choice(Vec<Vec<Node>>),
}

/// Bytes of unquoted text in a slot that something follows; nobody writes a longer name or path, and the search
/// for the end of a slot must stay short.
const LONGEST: usize = 240;

/// What the slots took.
#[derive(Debug)]
pub(super) struct Slots<'a> {
    masked: &'a Masked,
    text: &'a str,
    found: Vec<(&'static str, Range<usize>)>,
}

impl Slots<'_> {
    /// The piece in this slot.
    pub(super) fn get(&self, name: &str) -> Option<Fragment> {
        let (_, range) = self.found.iter().find(|(found, _)| *found == name)?;
        Some(self.masked.fragment(self.text.get(range.clone())?))
    }
}

impl Template {
    pub(super) fn new(source: &'static str) -> Self {
        Self(sequence(&mut { source }))
    }

    /// Fits the pattern to the whole of `text`, a piece of `masked`.
    pub(super) fn fit<'a>(&self, masked: &'a Masked, text: &'a str) -> Option<Slots<'a>> {
        let lower = text.to_ascii_lowercase();
        let todo: Vec<&Node> = self.0.iter().collect();
        let mut found = Vec::new();
        fits(&lower, &todo, 0, &mut found).then_some(Slots { masked, text, found })
    }
}

fn fits(lower: &str, todo: &[&Node], at: usize, found: &mut Vec<(&'static str, Range<usize>)>) -> bool {
    let at = after_gap(lower, at);
    let rest = lower.get(at..).unwrap_or_default();
    let Some((node, later)) = todo.split_first() else { return rest.is_empty() };
    match node {
        Node::Word(word) => {
            rest.starts_with(word)
                && stands_alone(lower, at, word)
                && fits(lower, later, at + word.len(), found)
        }
        Node::Choice(choices) => choices.iter().any(|choice| {
            let todo: Vec<&Node> = choice.iter().chain(later.iter().copied()).collect();
            fits(lower, &todo, at, found)
        }),
        Node::Slot(name) => {
            let last = later.is_empty();
            rest.char_indices().take_while(|(start, _)| last || *start < LONGEST).any(|(start, c)| {
                let end = if last { lower.len() } else { at + start + c.len_utf8() };
                let range = at..trimmed(lower, at, end);
                if range.is_empty() || is_within_word(lower, end) {
                    return false;
                }
                found.push((*name, range));
                let fit = fits(lower, later, end, found);
                if !fit {
                    found.pop();
                }
                fit
            })
        }
    }
}

/// Past blanks and the commas and colons that separate parts of a request.
fn after_gap(text: &str, mut at: usize) -> usize {
    while let Some(rest) = text.get(at..) {
        let mut chars = rest.chars();
        let Some(c) = chars.next() else { break };
        let open = chars.next().is_none_or(|next| next.is_whitespace() || is_mark(next));
        if c.is_whitespace() || matches!(c, '，' | '：' | '、') || (matches!(c, ',' | ':') && open) {
            at += c.len_utf8();
        } else {
            break;
        }
    }
    at
}

fn trimmed(text: &str, from: usize, to: usize) -> usize {
    let piece = text.get(from..to).unwrap_or_default();
    from + piece.trim_end_matches(|c: char| c.is_whitespace() || matches!(c, ',' | '，' | '、' | '：')).len()
}

/// A Latin word ends where no letter, digit or joiner follows; Chinese has no such edges.
fn stands_alone(text: &str, at: usize, word: &str) -> bool {
    let latin = |c: char| c.is_ascii_alphanumeric();
    let before = text.get(..at).and_then(|t| t.chars().next_back());
    let after = text.get(at + word.len()..).and_then(|t| t.chars().next());
    !(word.starts_with(latin) && before.is_some_and(joined)
        || word.ends_with(latin) && after.is_some_and(joined))
}

/// A slot never ends in the middle of a Latin word or path.
fn is_within_word(text: &str, at: usize) -> bool {
    text.get(..at).is_some_and(|t| t.ends_with(joined))
        && text.get(at..).is_some_and(|t| t.starts_with(joined))
}

fn joined(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '/' | '.')
}

/// Reads nodes up to the end or to what closes the group.
fn sequence(source: &mut &'static str) -> Vec<Node> {
    let mut nodes = Vec::new();
    loop {
        *source = source.trim_start();
        let Some(c) = source.chars().next() else { return nodes };
        match c {
            ')' | ']' | '|' => return nodes,
            '(' | '[' => {
                let mut choices = Vec::new();
                while let Some(rest) = source.strip_prefix(['(', '[', '|']) {
                    *source = rest;
                    choices.push(sequence(source));
                }
                *source = source.strip_prefix([')', ']']).unwrap_or(source);
                if c == '[' {
                    choices.push(Vec::new());
                }
                nodes.push(Node::Choice(choices));
            }
            '{' => {
                let (name, rest) = source.trim_start_matches('{').split_once('}').unwrap_or((source, ""));
                nodes.push(Node::Slot(name));
                *source = rest;
            }
            _ => {
                let end = source.find(|c: char| c.is_whitespace() || "()[]{}|".contains(c));
                let (word, rest) =
                    source.split_at_checked(end.unwrap_or(source.len())).unwrap_or((source, ""));
                nodes.push(Node::Word(word));
                *source = rest;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(template: &'static str, text: &str, wanted: Option<&[(&str, &str)]>) {
        let masked = Masked::new(text);
        let slots = Template::new(template).fit(&masked, &masked.text);
        let found = slots.map(|slots| {
            let pieces = slots.found.iter();
            pieces.map(|(name, _)| (*name, slots.get(name).unwrap().text)).collect::<Vec<_>>()
        });
        let wanted = wanted.map(|w| w.iter().map(|(n, t)| (*n, (*t).to_owned())).collect::<Vec<_>>());
        assert_eq!(found, wanted, "{template} on {text}");
    }

    #[test]
    fn patterns_fit_the_whole_text_or_not_at_all() {
        check("(show|read) [the] {path}", "Read the a.rs", Some(&[("path", "a.rs")]));
        check("(show|read) [the] {path}", "shower a.rs", None);
        check("find {a} [in {b}]", "find x in y", Some(&[("a", "x"), ("b", "y")]));
        check("find {a} [in {b}]", "find `x in y`", Some(&[("a", "x in y")]));
        check("find {a} [in {b}]", "find x-in-y", Some(&[("a", "x-in-y")]));
        check(
            "把 {a} (中的|中) {b} 改成 {c}",
            "把a.rs中的甲改成 乙",
            Some(&[("a", "a.rs"), ("b", "甲"), ("c", "乙")]),
        );
        check("list files [(in|under) [the] {d}]", "LIST FILES", Some(&[]));
        check("run [command] {c}", "run command: `ls -l`", Some(&[("c", "ls -l")]));
        check("run {c}", "run", None);
    }
}
