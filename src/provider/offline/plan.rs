//! Where a request stands, told by the conversation alone: the next call, or the answer.

use std::collections::HashMap;

use serde_json::{Map, Value, json};

use super::request::{Counted, Form, Language, Lines, Place, Step};
use super::summary::{self, Report};
use crate::protocol::{Block, Message, ToolSpec, text_of};
use crate::provider::asked::Asked;

/// What happens next.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Next {
    Call {
        id: String,
        name: &'static str,
        input: Value,
    },
    Answer(String),
    /// A child was asked for something that no rule understands; its message.
    NotUnderstood(String),
}

/// The result of one call of ours.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Answer {
    pub(super) text: String,
    pub(super) is_error: bool,
}

/// How far one step is.
enum Progress {
    Needs(&'static str, Value),
    Done(Report),
}

/// Walks the steps past those whose calls are answered.
pub(super) fn next(steps: &[Step], asked: &Asked<'_>, tools: &[ToolSpec], language: Language) -> Next {
    let answers = answers(asked);
    let tag = tag(asked.message);
    let offer = Offer { tools };
    let mut reports = Vec::new();
    for (n, step) in steps.iter().enumerate() {
        let id = |call: usize| format!("{tag}_{}_{}", n + 1, call + 1);
        let got: Vec<&Answer> = (0..).map_while(|call| answers.get(&id(call))).collect();
        match progress(step, &got, &offer, language) {
            Progress::Needs(name, input) if offer.spec(name).is_some() => {
                return Next::Call { id: id(got.len()), name, input };
            }
            Progress::Needs(name, _) => reports.push(summary::not_offered(step, name, language)),
            Progress::Done(Report::NotUnderstood(message)) => return Next::NotUnderstood(message),
            Progress::Done(report) => reports.push(report),
        }
        if reports.last().is_some_and(Report::stops) {
            break;
        }
    }
    Next::Answer(summary::answer(&reports, steps, language))
}

/// Names the calls of one request: the same each time the conversation is read, another for each message.
fn tag(message: &Message) -> String {
    // FNV-1a, 64 bit; a name needs no more than to be stable and short.
    let hash = message.id.0.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    format!("rule_{hash:016x}")
}

fn answers(asked: &Asked<'_>) -> HashMap<String, Answer> {
    let blocks = asked.since.iter().flat_map(|message| &message.blocks);
    let results = blocks.filter_map(|block| match block {
        Block::ToolResult { tool_use_id, content, is_error } => {
            Some((tool_use_id.clone(), Answer { text: text_of(content), is_error: *is_error }))
        }
        _ => None,
    });
    results.collect()
}

fn progress(step: &Step, got: &[&Answer], offer: &Offer<'_>, language: Language) -> Progress {
    let report = |answer: &Answer| Progress::Done(summary::report(step, answer, language));
    match (step, got) {
        (Step::Replace { path, .. }, []) => Progress::Needs("Read", json!({ "file_path": path })),
        (Step::Replace { path, from, to }, [read]) if !read.is_error => {
            let mut input = json!({ "file_path": path, "old_string": from, "new_string": to });
            if summary::occurrences(read, from) != 1 || !summary::is_whole(read) {
                set(&mut input, "replace_all", json!(true));
            }
            Progress::Needs("Edit", input)
        }
        (Step::Replace { .. }, [read, edit, ..]) => {
            Progress::Done(summary::replaced(step, read, edit, language))
        }
        (Step::Find { form: Form::Definition, text, place }, [first])
            if !first.is_error && !summary::has_matches(first) =>
        {
            Progress::Needs("Grep", grep(&escaped(text), place, "content", offer))
        }
        (Step::Find { form: Form::Definition, .. }, [_, mentions, ..]) => {
            Progress::Done(summary::mentions(step, mentions, language))
        }
        (Step::Find { text, form, place }, []) => {
            Progress::Needs("Grep", grep(&pattern(text, *form), place, "content", offer))
        }
        (Step::List { pattern, place } | Step::Count { what: Counted::Files(pattern), place }, []) => {
            Progress::Needs("Glob", glob(pattern, place))
        }
        (Step::Show { path, lines }, []) => Progress::Needs("Read", read(path, *lines)),
        (Step::Count { what: Counted::Lines, place: Place::At(path) }, [])
            if offer.spec("Grep").is_none() && !path.contains('*') =>
        {
            Progress::Needs("Read", read(path, None))
        }
        (Step::Count { what: Counted::Lines, place }, []) => {
            Progress::Needs("Grep", grep("^", place, "count", offer))
        }
        (Step::Count { what: Counted::Matches(text), place }, []) => {
            Progress::Needs("Grep", grep(&escaped(text), place, "count", offer))
        }
        (Step::Create { path, content }, []) => {
            Progress::Needs("Write", json!({ "file_path": path, "content": content }))
        }
        (Step::Run { command }, []) => Progress::Needs("Bash", json!({ "command": command })),
        (Step::Delegate { prompt, tools }, []) => {
            let mut input = json!({ "description": summary::description(prompt), "prompt": prompt });
            if !tools.is_empty() {
                set(&mut input, "tool_names", json!(tools));
            }
            Progress::Needs("Agent", input)
        }
        (
            Step::List { .. }
            | Step::Find { .. }
            | Step::Show { .. }
            | Step::Count { .. }
            | Step::Replace { .. }
            | Step::Create { .. }
            | Step::Run { .. }
            | Step::Delegate { .. },
            [answer, ..],
        ) => report(answer),
    }
}

fn read(path: &str, lines: Option<Lines>) -> Value {
    let mut input = json!({ "file_path": path });
    if let Some(Lines { first, last }) = lines {
        set(&mut input, "offset", json!(first));
        set(&mut input, "limit", json!(last.saturating_sub(first) + 1));
    }
    input
}

fn glob(pattern: &str, place: &Place) -> Value {
    let mut input = json!({ "pattern": pattern });
    if let Place::At(path) = place {
        set(&mut input, "path", json!(path));
    }
    input
}

fn grep(pattern: &str, place: &Place, mode: &str, offer: &Offer<'_>) -> Value {
    let mut input = json!({ "pattern": pattern, "output_mode": mode });
    match place {
        Place::Workspace => {}
        Place::At(at) if at.contains('*') => set(&mut input, "glob", json!(at)),
        Place::At(at) => set(&mut input, "path", json!(at)),
    }
    if mode == "content" && offer.takes("Grep", "-n") {
        set(&mut input, "-n", json!(true));
    }
    if mode == "count" && offer.takes("Grep", "head_limit") {
        set(&mut input, "head_limit", json!(0));
    }
    input
}

fn set(input: &mut Value, key: &str, value: Value) {
    if let Some(map) = input.as_object_mut() {
        map.insert(key.to_owned(), value);
    }
}

/// Words that come before a name where it is defined, in the languages that people use most.
const DEFINING: &str = "fn|struct|enum|trait|union|type|const|static|mod|macro_rules!|def|class|interface|function|func|\
                        var|let(?: mut)?|val|package|namespace|object|module";

fn pattern(text: &str, form: Form) -> String {
    match form {
        Form::Exact => escaped(text),
        Form::Regex => text.to_owned(),
        Form::Words => {
            let words: Vec<String> = text.split_whitespace().map(escaped).collect();
            format!("(?i){}", words.join("[-_. ]*"))
        }
        Form::Definition => format!(r"\b(?:{DEFINING})\s+{}\b", escaped(text)),
    }
}

/// The text as a regular expression that matches only itself.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        if r"\.+*?()|[]{}^$".contains(c) {
            out.push('\\');
        }
        out.push(c);
    }
    out
}

/// The tools of this request.
struct Offer<'a> {
    tools: &'a [ToolSpec],
}

impl Offer<'_> {
    fn spec(&self, name: &str) -> Option<&ToolSpec> {
        self.tools.iter().find(|tool| tool.name == name)
    }

    /// Whether the tool's schema knows this argument.
    fn takes(&self, name: &str, argument: &str) -> bool {
        let properties =
            |spec: &ToolSpec| spec.input_schema.get("properties").and_then(Value::as_object).cloned();
        self.spec(name).and_then(properties).is_some_and(|map: Map<String, Value>| map.contains_key(argument))
    }
}
