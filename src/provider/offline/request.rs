//! Reads a request into steps: a pure function over the text, in English and Chinese.

use std::fmt;

use super::courtesy::polished;
use super::quote::Masked;
use super::rules;

/// One thing to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Step {
    List { pattern: String, place: Place },
    Find { text: String, form: Form, place: Place },
    Show { path: String, lines: Option<Lines> },
    Count { what: Counted, place: Place },
    Replace { path: String, from: String, to: String },
    Create { path: String, content: String },
    Run { command: String },
    Delegate { prompt: String, tools: Vec<String> },
}

/// Where to look.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Place {
    Workspace,
    /// A folder, a file, or a glob pattern.
    At(String),
}

/// How the text of a search is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// Letter by letter.
    Exact,
    /// A few words of a question: any case, joined by blanks, `_`, `-`, `.` or nothing.
    Words,
    Regex,
    /// The place where this name is defined.
    Definition,
}

/// A range of lines, from 1, both ends included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Lines {
    pub(super) first: u64,
    pub(super) last: u64,
}

/// What is counted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Counted {
    Lines,
    /// Files that match this glob pattern.
    Files(String),
    /// Lines that hold this text.
    Matches(String),
}

/// The part of a request that no rule understands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct NotUnderstood {
    pub(super) part: String,
}

impl fmt::Display for NotUnderstood {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.part)
    }
}

/// The language of a request, and so of its answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Language {
    English,
    Chinese,
}

impl Language {
    /// By the words outside quotations.
    pub(super) fn of(request: &str) -> Self {
        if Masked::new(request).text.chars().any(is_han) { Self::Chinese } else { Self::English }
    }
}

/// Whether this is a Chinese character (CJK unified ideographs, their extension A included).
pub(super) fn is_han(c: char) -> bool {
    matches!(c, '\u{3400}'..='\u{9fff}')
}

/// The steps of a request, in order. All of it must be understood: half a job would look done.
pub(super) fn parse(request: &str) -> Result<Vec<Step>, NotUnderstood> {
    let masked = Masked::new(request);
    if let Some(step) = file_below(&masked) {
        return Ok(vec![step]);
    }
    let mut steps = Vec::new();
    for line in masked.text.lines() {
        if is_introduction(line) {
            continue;
        }
        for item in numbered(line) {
            for sentence in sentences(item) {
                steps.extend(clauses(&masked, sentence)?);
            }
        }
    }
    if steps.is_empty() { Err(NotUnderstood { part: request.trim().to_owned() }) } else { Ok(steps) }
}

/// "create FILE with:" and the content on the lines below, which are taken as they are.
fn file_below(masked: &Masked) -> Option<Step> {
    let (head, content) = masked.text.split_once('\n')?;
    let head = head.trim_end().strip_suffix([':', '：'])?;
    match rules::single(masked, &format!("{}: {EMPTY}", polished(head)))? {
        Step::Create { path, .. } if !content.trim().is_empty() => {
            Some(Step::Create { path, content: format!("{}\n", masked.fragment(content).text) })
        }
        _ => None,
    }
}

/// Stands for the content in [`file_below`] while its first line is tried.
const EMPTY: &str = "_";

/// "Do the following:" says nothing of its own.
fn is_introduction(line: &str) -> bool {
    let line = line.trim().to_lowercase();
    let hints = ["following", "steps", "tasks", "todo", "以下", "步骤", "如下", "依次", "任务"];
    line.strip_suffix([':', '：']).is_some_and(|head| hints.iter().any(|hint| head.contains(hint)))
}

/// The items of "1. … 2. …" on one line; a bullet or number at the start of a line is dropped.
fn numbered(line: &str) -> Vec<&str> {
    let mut rest = line.trim();
    if let Some(item) = rest.strip_prefix(['-', '*', '•', '·']) {
        return vec![item];
    }
    let mut items = Vec::new();
    let mut number = leading_number(rest).unwrap_or(1);
    if let Some(item) = item_after(rest, number) {
        rest = item;
        while let Some((item, next)) = next_item(rest, number + 1) {
            items.push(item);
            rest = next;
            number += 1;
        }
    }
    items.push(rest);
    items
}

fn leading_number(text: &str) -> Option<u32> {
    let digits = text.find(|c: char| !c.is_ascii_digit())?;
    text.get(..digits)?.parse().ok().filter(|n| *n < 1000)
}

/// What follows "3." at the start of the text.
fn item_after(text: &str, number: u32) -> Option<&str> {
    let rest = text.strip_prefix(number.to_string().as_str())?;
    let item = rest.strip_prefix(['.', ')', '、', '）', '．'])?;
    (rest.starts_with(['、', '）', '．']) || item.starts_with(char::is_whitespace)).then_some(item)
}

fn next_item(text: &str, number: u32) -> Option<(&str, &str)> {
    text.match_indices(number.to_string().as_str()).find_map(|(at, _)| {
        let (before, after) = text.split_at_checked(at)?;
        let apart = before.ends_with(|c: char| c.is_whitespace() || matches!(c, '；' | '，' | '。'));
        Some((before, item_after(after, number)?)).filter(|_| apart)
    })
}

/// Splits at what always separates steps: "then", "；", the end of a sentence.
fn sentences(text: &str) -> Vec<&str> {
    let lower = text.to_ascii_lowercase();
    let mut cuts: Vec<(usize, usize)> = Vec::new();
    for (at, c) in text.char_indices() {
        let end = at + c.len_utf8();
        let open =
            lower.get(end..).is_none_or(|rest| rest.is_empty() || rest.starts_with(char::is_whitespace));
        let closes_word = !lower
            .get(..at)
            .unwrap_or_default()
            .ends_with(|c: char| c.is_whitespace() || c == '.' || c == '/');
        if matches!(c, ';' | '；' | '。' | '！' | '？')
            || (matches!(c, '.' | '!' | '?') && open && closes_word)
        {
            cuts.push((at, end));
        }
    }
    for word in ["然后", "接下来", "随后"] {
        cuts.extend(text.match_indices(word).map(|(at, _)| (at, at + word.len())));
    }
    let joined = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | '/' | '\'');
    for (at, word) in lower.match_indices("then") {
        let end = at + word.len();
        let before = lower.get(..at).is_some_and(|t| t.ends_with(joined));
        let after = lower.get(end..).is_some_and(|t| t.starts_with(joined));
        if !before && !after {
            cuts.push((at, end));
        }
    }
    cuts.sort_unstable();
    pieces(text, &cuts)
}

fn pieces<'a>(text: &'a str, cuts: &[(usize, usize)]) -> Vec<&'a str> {
    let mut from = 0;
    let mut out = Vec::new();
    for (at, end) in cuts {
        out.extend(text.get(from..*at));
        from = *end;
    }
    out.extend(text.get(from..));
    out
}

/// More parts than this in one sentence are not worth the search.
const MOST_PARTS: usize = 32;

/// Splits at commas and "and", which may also belong to a step: only where every part is a step.
fn clauses(masked: &Masked, sentence: &str) -> Result<Vec<Step>, NotUnderstood> {
    let failed = || NotUnderstood { part: masked.fragment(polished(sentence)).text };
    let sentence = sentence.trim();
    if polished(sentence).is_empty() {
        return Ok(Vec::new());
    }
    if sentence.len() > 8 * 1024 {
        return Err(failed());
    }
    let starts: Vec<usize> = std::iter::once(0).chain(joints(sentence)).take(MOST_PARTS).collect();
    // From the end: the steps from each start on, if all of that rest is understood.
    let mut known: Vec<(usize, Vec<Step>)> = vec![(sentence.len(), Vec::new())];
    for from in starts.into_iter().rev() {
        let found = known.iter().rev().find_map(|(to, later)| {
            let piece = polished(sentence.get(from..*to)?);
            let step = rules::single(masked, piece)?;
            // "use Agent to A and B" hands over both.
            let whole = later.is_empty() || !matches!(step, Step::Delegate { .. });
            whole.then(|| std::iter::once(step).chain(later.iter().cloned()).collect())
        });
        if let Some(steps) = found {
            known.push((from, steps));
        }
    }
    known.into_iter().find(|(from, steps)| *from == 0 && !steps.is_empty()).map(|(_, s)| s).ok_or_else(failed)
}

/// Where a further step may begin.
fn joints(text: &str) -> Vec<usize> {
    let mut at: Vec<usize> = text
        .char_indices()
        .filter(|(_, c)| matches!(c, ',' | '，' | '、'))
        .map(|(at, c)| at + c.len_utf8())
        .collect();
    for word in [" and ", " 并", "并", "再", "接着", "最后"] {
        at.extend(text.to_ascii_lowercase().match_indices(word).map(|(at, _)| at));
    }
    at.sort_unstable();
    at.dedup();
    at
}

#[cfg(test)]
mod tests;
