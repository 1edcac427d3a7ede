//! The requests that the offline model understands: patterns and what each one makes of its slots.

mod chinese;
mod english;
mod payload;
mod wording;

use std::sync::LazyLock;

use super::quote::Masked;
use super::request::{Counted, Form, Lines, Step};
use super::template::{Slots, Template};
use payload::{content, literal, quoted_shell, range, replaceable, shell, tools};
use wording::{countable, exact, file, glob, name, path, place, question, word};

/// How the slots of a pattern become a step; `None` when they make no sense.
type Build = fn(&Slots<'_>) -> Option<Step>;

/// A way to say something.
type Rule = (&'static str, Build);

static RULES: LazyLock<Vec<(Template, Build)>> = LazyLock::new(|| {
    let all = english::RULES.iter().chain(chinese::RULES);
    all.map(|(source, build)| (Template::new(source), *build)).collect()
});

/// The one step that this piece of a request asks for; the first rule that fits decides.
pub(super) fn single(masked: &Masked, piece: &str) -> Option<Step> {
    RULES.iter().find_map(|(template, build)| build(&template.fit(masked, piece)?))
}

fn list(slots: &Slots<'_>) -> Option<Step> {
    // A file has no files.
    let is_file = slots.get("where").is_some_and(|said| file(&said).is_some());
    Some(Step::List { pattern: glob(slots)?, place: place(slots)? }).filter(|_| !is_file)
}

/// "List X" alone means a folder only where X looks like a path.
fn list_path(slots: &Slots<'_>) -> Option<Step> {
    let said = slots.get("where")?;
    list(slots).filter(|_| said.quoted || said.text.contains(['/', '.']))
}

fn list_named(slots: &Slots<'_>) -> Option<Step> {
    Some(Step::List { pattern: name(&slots.get("text")?)?, place: place(slots)? })
}

fn find(slots: &Slots<'_>) -> Option<Step> {
    Some(Step::Find { text: word(&slots.get("text")?)?, form: Form::Exact, place: place(slots)? })
}

/// "All TODO comments": the word as it stands in the code.
fn find_marks(slots: &Slots<'_>) -> Option<Step> {
    Some(Step::Find { text: countable(&slots.get("text")?)?, form: Form::Exact, place: place(slots)? })
}

/// The request says that what follows is text.
fn find_exact(slots: &Slots<'_>) -> Option<Step> {
    Some(Step::Find { text: exact(&slots.get("text")?)?, form: Form::Exact, place: place(slots)? })
}

fn find_regex(slots: &Slots<'_>) -> Option<Step> {
    Some(Step::Find { text: exact(&slots.get("text")?)?, form: Form::Regex, place: place(slots)? })
}

/// "Where is …": a file by its name, or a few words.
fn locate(slots: &Slots<'_>) -> Option<Step> {
    let text = slots.get("text")?;
    if let Some(pattern) = file(&text) {
        return Some(Step::List { pattern, place: place(slots)? });
    }
    let (text, form) = question(&text)?;
    Some(Step::Find { text, form, place: place(slots)? })
}

fn definition(slots: &Slots<'_>) -> Option<Step> {
    let (text, form) = question(&slots.get("text")?)?;
    let form = if form == Form::Exact { Form::Definition } else { form };
    Some(Step::Find { text, form, place: place(slots)? })
}

fn show(slots: &Slots<'_>) -> Option<Step> {
    Some(Step::Show { path: path(&slots.get("path")?)?, lines: None })
}

fn show_lines(slots: &Slots<'_>) -> Option<Step> {
    Some(Step::Show { path: path(&slots.get("path")?)?, lines: Some(range(&slots.get("range")?)?) })
}

fn show_head(slots: &Slots<'_>) -> Option<Step> {
    let Lines { first: last, .. } = range(&slots.get("range")?)?;
    Some(Step::Show { path: path(&slots.get("path")?)?, lines: Some(Lines { first: 1, last }) })
}

fn count_lines(slots: &Slots<'_>) -> Option<Step> {
    Some(Step::Count { what: Counted::Lines, place: place(slots)? })
}

fn count_files(slots: &Slots<'_>) -> Option<Step> {
    Some(Step::Count { what: Counted::Files(glob(slots)?), place: place(slots)? })
}

fn count_matches(slots: &Slots<'_>) -> Option<Step> {
    Some(Step::Count { what: Counted::Matches(word(&slots.get("text")?)?), place: place(slots)? })
}

/// "Count X" alone means text only where X looks like it.
fn count_text(slots: &Slots<'_>) -> Option<Step> {
    Some(Step::Count { what: Counted::Matches(countable(&slots.get("text")?)?), place: place(slots)? })
}

fn replace(slots: &Slots<'_>) -> Option<Step> {
    let (from, to) = replaceable(&slots.get("from")?, &slots.get("to")?)?;
    Some(Step::Replace { path: path(&slots.get("path")?)?, from, to })
}

fn remove(slots: &Slots<'_>) -> Option<Step> {
    let from = slots.get("from").filter(|from| from.quoted && !from.text.is_empty())?.text;
    Some(Step::Replace { path: path(&slots.get("path")?)?, from, to: String::new() })
}

fn create(slots: &Slots<'_>) -> Option<Step> {
    Some(Step::Create { path: path(&slots.get("path")?)?, content: content(&slots.get("text")?)? })
}

/// The request says that what follows is the content.
fn create_exact(slots: &Slots<'_>) -> Option<Step> {
    Some(Step::Create { path: path(&slots.get("path")?)?, content: literal(&slots.get("text")?) })
}

fn create_empty(slots: &Slots<'_>) -> Option<Step> {
    Some(Step::Create { path: path(&slots.get("path")?)?, content: String::new() })
}

fn run(slots: &Slots<'_>) -> Option<Step> {
    Some(Step::Run { command: shell(&slots.get("command")?)? })
}

/// "Run the tests with `CMD`".
fn run_quoted(slots: &Slots<'_>) -> Option<Step> {
    Some(Step::Run { command: quoted_shell(&slots.get("command")?)? })
}

fn delegate(slots: &Slots<'_>) -> Option<Step> {
    let prompt = exact(&slots.get("prompt")?)?;
    Some(Step::Delegate { prompt, tools: tools(slots) })
}
