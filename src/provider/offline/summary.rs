//! Tells what calls really gave, in a few lines of the request's language.

mod results;

use super::plan::Answer;
use super::request::{Counted, Form, Language, Place, Step};
use results::{Listing, Matches, content, listing, matches, outcome, total};

/// What became of one step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Report {
    Done(String),
    /// It did not work; what follows it is left.
    Failed(String),
    /// A child agent found no rule for its task; its message.
    NotUnderstood(String),
}

impl Report {
    pub(super) fn stops(&self) -> bool {
        match self {
            Self::Done(_) => false,
            Self::Failed(_) | Self::NotUnderstood(_) => true,
        }
    }

    fn text(&self) -> &str {
        match self {
            Self::Done(text) | Self::Failed(text) | Self::NotUnderstood(text) => text,
        }
    }
}

/// Most entries of a list in an answer.
const MOST_FILES: usize = 20;
const MOST_MATCHES: usize = 12;
const MOST_LINES: usize = 40;
const MOST_NOTES: usize = 4;
const MOST_OUTPUT: usize = 8;
const MOST_ERROR: usize = 8;

/// The whole answer.
pub(super) fn answer(reports: &[Report], steps: &[Step], language: Language) -> String {
    let numbered = steps.len() > 1;
    let mut lines: Vec<String> = (1..)
        .zip(reports)
        .map(
            |(n, report)| if numbered { format!("{n}. {}", report.text()) } else { report.text().to_owned() },
        )
        .collect();
    let left: Vec<String> = steps.iter().skip(reports.len()).map(|step| described(step, language)).collect();
    if !left.is_empty() {
        let names = left.join("; ");
        lines.push(match language {
            Language::English => format!("Stopped there. Not done: {names}."),
            Language::Chinese => format!("到此停止。未执行：{names}。"),
        });
    }
    lines.join("\n")
}

/// The step's tool is not in this conversation's pool.
pub(super) fn not_offered(step: &Step, tool: &str, language: Language) -> Report {
    let step = described(step, language);
    Report::Failed(match language {
        Language::English => {
            format!("Not done: {step}. It needs the tool {tool}, which is not offered here.")
        }
        Language::Chinese => format!("未完成：{step}。需要工具 {tool}，但这里没有提供。"),
    })
}

/// A step that one call answers.
pub(super) fn report(step: &Step, answer: &Answer, language: Language) -> Report {
    if let Step::Run { command } = step {
        return ran(step, command, answer, language);
    }
    if answer.is_error {
        return failed(step, answer, language);
    }
    let english = language == Language::English;
    Report::Done(match step {
        Step::List { place, .. } => files(place, &listing(&answer.text), language),
        Step::Find { text, form: Form::Definition, .. } => {
            let found = matches(&answer.text);
            let title =
                if english { format!("Definition of `{text}`:") } else { format!("`{text}` 的定义：") };
            listed(&title, &found.lines, MOST_MATCHES, language)
        }
        Step::Find { text, place, .. } => search(text, place, &matches(&answer.text), language),
        Step::Show { path, .. } => shown(path, &answer.text, language),
        Step::Count { what, place } => counted(what, place, answer, language),
        Step::Create { path, content } => {
            let (lines, bytes) = (content.lines().count(), content.len());
            if english {
                format!("Created {path} ({}, {bytes} bytes).", plural(lines, "line", "lines"))
            } else {
                format!("已创建 {path}（{lines} 行，{bytes} 字节）。")
            }
        }
        Step::Delegate { prompt, .. } => {
            let text = answer.text.trim();
            let text =
                if text.starts_with("[Agent") { text.split_once(']').map_or(text, |(_, t)| t) } else { text };
            let name = description(prompt);
            let title = if english {
                format!("Agent ({name}) reports:")
            } else {
                format!("Agent（{name}）报告：")
            };
            format!("{title}\n{}", indented(text.trim()))
        }
        Step::Replace { .. } | Step::Run { .. } => described(step, language),
    })
}

/// An edit, with what was read before it.
pub(super) fn replaced(step: &Step, read: &Answer, edit: &Answer, language: Language) -> Report {
    let Step::Replace { path, from, to } = step else { return report(step, edit, language) };
    if edit.is_error {
        return failed(step, edit, language);
    }
    let places = occurrences(read, from);
    let (from, to) = (short(from), short(to));
    Report::Done(match (language, places) {
        (Language::English, 0) => format!("Changed {path}: `{from}` → `{to}`."),
        (Language::English, _) => {
            format!("Changed {path}: `{from}` → `{to}` ({}).", plural(places, "place", "places"))
        }
        (Language::Chinese, 0) => format!("已修改 {path}：`{from}` → `{to}`。"),
        (Language::Chinese, _) => format!("已修改 {path}：`{from}` → `{to}`（{places} 处）。"),
    })
}

/// Where a name is mentioned whose definition was not found.
pub(super) fn mentions(step: &Step, answer: &Answer, language: Language) -> Report {
    let Step::Find { text, place, .. } = step else { return report(step, answer, language) };
    if answer.is_error {
        return failed(step, answer, language);
    }
    let found = search(text, place, &matches(&answer.text), language);
    Report::Done(match language {
        Language::English => format!("No definition of `{text}` found. {found}"),
        Language::Chinese => format!("没有找到 `{text}` 的定义。{found}"),
    })
}

/// How often the text stands in what was read of a file.
pub(super) fn occurrences(read: &Answer, text: &str) -> usize {
    content(&read.text).lines.join("\n").matches(text).count()
}

/// Whether all of a file was read.
pub(super) fn is_whole(read: &Answer) -> bool {
    content(&read.text).notes.is_empty()
}

/// Whether a search found anything.
pub(super) fn has_matches(answer: &Answer) -> bool {
    !matches(&answer.text).lines.is_empty()
}

/// A few words for a child agent.
pub(super) fn description(prompt: &str) -> String {
    let words: Vec<&str> = prompt.split_whitespace().take(6).collect();
    let line = words.join(" ");
    let mut out: String = line.chars().take(40).collect();
    if let Some(first) = out.get_mut(..1) {
        first.make_ascii_uppercase();
    }
    out
}

fn files(place: &Place, found: &Listing, language: Language) -> String {
    let (count, at) = (found.total, whereabouts(place, language));
    let title = match (language, found.partial) {
        (Language::English, false) => format!("{}{at}:", plural(count, "file", "files")),
        (Language::English, true) => format!("At least {}{at}:", plural(count, "file", "files")),
        (Language::Chinese, false) => format!("{at}共 {count} 个文件："),
        (Language::Chinese, true) => format!("{at}至少有 {count} 个文件："),
    };
    if count == 0 {
        return match language {
            Language::English => format!("No files{at}."),
            Language::Chinese => format!("{at}没有文件。"),
        };
    }
    listed_of(&title, &found.paths, found.total, MOST_FILES, language)
}

fn search(text: &str, place: &Place, found: &Matches, language: Language) -> String {
    let (count, at, text) = (found.total, whereabouts(place, language), short(text));
    if count == 0 {
        return match language {
            Language::English => format!("No match for `{text}`{at}."),
            Language::Chinese => format!("{at}没有找到 `{text}`。"),
        };
    }
    let title = match (language, found.files) {
        (Language::English, 0 | 1) => format!("{} of `{text}`{at}:", plural(count, "match", "matches")),
        (Language::English, files) => {
            format!("{} of `{text}`{at} in {files} files:", plural(count, "match", "matches"))
        }
        (Language::Chinese, 0 | 1) => format!("{at}找到 `{text}` {count} 处："),
        (Language::Chinese, files) => format!("{at}在 {files} 个文件中找到 `{text}` {count} 处："),
    };
    listed_of(&title, &found.lines, found.total, MOST_MATCHES, language)
}

fn shown(path: &str, text: &str, language: Language) -> String {
    let content = content(text);
    let count = content.lines.len();
    let title = match language {
        Language::English => format!("{path} ({}):", plural(count, "line", "lines")),
        Language::Chinese => format!("{path}（{count} 行）："),
    };
    let body = listed(&title, &content.lines, MOST_LINES, language);
    if content.notes.is_empty() { body } else { listed(&body, &content.notes, MOST_NOTES, language) }
}

fn counted(what: &Counted, place: &Place, answer: &Answer, language: Language) -> String {
    let at = whereabouts(place, language);
    let english = language == Language::English;
    match what {
        Counted::Files(_) => {
            let found = listing(&answer.text);
            let count = found.total;
            match (english, found.partial) {
                (true, false) => format!("{}{at}.", plural(count, "file", "files")),
                (true, true) => format!("At least {}{at}.", plural(count, "file", "files")),
                (false, false) => format!("{at}共有 {count} 个文件。"),
                (false, true) => format!("{at}至少有 {count} 个文件。"),
            }
        }
        Counted::Lines => {
            let numbers = total(&answer.text);
            let (lines, files) = numbers.unwrap_or_else(|| (content(&answer.text).lines.len(), 1));
            match (english, files) {
                (true, 0 | 1) => format!("{}{at}.", plural(lines, "line", "lines")),
                (true, _) => format!("{}{at}, in {files} files.", plural(lines, "line", "lines")),
                (false, 0 | 1) => format!("{at}共有 {lines} 行。"),
                (false, _) => format!("{at}共有 {lines} 行，分布在 {files} 个文件中。"),
            }
        }
        Counted::Matches(text) => {
            let (lines, files) = total(&answer.text).unwrap_or_default();
            let text = short(text);
            match (english, files) {
                (true, 0 | 1) => {
                    format!("`{text}`: {}{at}.", plural(lines, "matching line", "matching lines"))
                }
                (true, _) => {
                    format!(
                        "`{text}`: {}{at}, in {files} files.",
                        plural(lines, "matching line", "matching lines")
                    )
                }
                (false, 0 | 1) => format!("{at}有 {lines} 行包含 `{text}`。"),
                (false, _) => format!("{at}有 {lines} 行包含 `{text}`，分布在 {files} 个文件中。"),
            }
        }
    }
}

/// A command that ended tells its exit code and goes on, whatever the code; one that never ran has failed.
fn ran(step: &Step, command: &str, answer: &Answer, language: Language) -> Report {
    let ended = outcome(answer);
    let Some(code) = ended.code else { return failed(step, answer, language) };
    let command = short(command);
    let title = match (language, ended.lines.is_empty()) {
        (Language::English, true) => format!("`{command}`: exit code {code}, no output."),
        (Language::English, false) => format!("`{command}`: exit code {code}. Last lines of its output:"),
        (Language::Chinese, true) => format!("`{command}`：退出码 {code}，没有输出。"),
        (Language::Chinese, false) => format!("`{command}`：退出码 {code}。输出的最后几行："),
    };
    let skip = ended.lines.len().saturating_sub(MOST_OUTPUT);
    let last: Vec<String> = ended.lines.into_iter().skip(skip).collect();
    Report::Done(listed(&title, &last, MOST_OUTPUT, language))
}

/// A call that gave an error; a refusal is told as one, with the hint in its text.
fn failed(step: &Step, answer: &Answer, language: Language) -> Report {
    if let Step::Delegate { .. } = step
        && let Some(at) = super::SIGNS.iter().find_map(|sign| answer.text.find(sign))
    {
        return Report::NotUnderstood(answer.text.get(at..).unwrap_or_default().trim_end().to_owned());
    }
    let lower = answer.text.to_lowercase();
    let signs = ["permission", "not allowed", "denied", "refused", "--allow-write", "not permitted"];
    let refused = signs.iter().any(|sign| lower.contains(sign)) && !lower.contains("os error");
    let step = described(step, language);
    let title = match (language, refused) {
        (Language::English, true) => format!("Refused: {step}. The reason:"),
        (Language::English, false) => format!("Failed: {step}. The reason:"),
        (Language::Chinese, true) => format!("被拒绝：{step}。原因："),
        (Language::Chinese, false) => format!("失败：{step}。原因："),
    };
    let lines: Vec<String> = answer.text.trim().lines().map(str::to_owned).collect();
    Report::Failed(listed(&title, &lines, MOST_ERROR, language))
}

/// The step in a few words.
fn described(step: &Step, language: Language) -> String {
    let english = language == Language::English;
    let say = |en: String, zh: String| if english { en } else { zh };
    match step {
        Step::List { place, .. } => {
            let at = whereabouts(place, language);
            say(format!("list files{at}"), format!("列出{at}文件"))
        }
        Step::Find { text, .. } => say(format!("find `{}`", short(text)), format!("查找 `{}`", short(text))),
        Step::Show { path, .. } => say(format!("read {path}"), format!("读取 {path}")),
        Step::Count { what: Counted::Files(_), .. } => say("count files".to_owned(), "统计文件数".to_owned()),
        Step::Count { what: Counted::Lines, .. } => say("count lines".to_owned(), "统计行数".to_owned()),
        Step::Count { what: Counted::Matches(text), .. } => {
            say(format!("count `{}`", short(text)), format!("统计 `{}`", short(text)))
        }
        Step::Replace { path, from, to } => {
            let (from, to) = (short(from), short(to));
            say(
                format!("replace `{from}` with `{to}` in {path}"),
                format!("把 {path} 中的 `{from}` 替换为 `{to}`"),
            )
        }
        Step::Create { path, .. } => say(format!("create {path}"), format!("创建 {path}")),
        Step::Run { command } => {
            say(format!("run `{}`", short(command)), format!("运行 `{}`", short(command)))
        }
        Step::Delegate { prompt, .. } => {
            say(format!("use Agent to {}", short(prompt)), format!("用 Agent {}", short(prompt)))
        }
    }
}

fn whereabouts(place: &Place, language: Language) -> String {
    match (place, language) {
        (Place::Workspace, _) => String::new(),
        (Place::At(at), Language::English) => format!(" in {at}"),
        (Place::At(at), Language::Chinese) => format!("{at} 中"),
    }
}

/// A title and some of the lines under it.
fn listed(title: &str, lines: &[String], most: usize, language: Language) -> String {
    listed_of(title, lines, lines.len(), most, language)
}

/// As [`listed`], where there are more lines than the tool gave.
fn listed_of(title: &str, lines: &[String], total: usize, most: usize, language: Language) -> String {
    let mut out = title.to_owned();
    for line in lines.iter().take(most) {
        out.push_str("\n   ");
        out.push_str(&cut(line, 200));
    }
    let left = total.saturating_sub(most.min(lines.len()));
    if left > 0 {
        let more = match language {
            Language::English => format!("… and {left} more"),
            Language::Chinese => format!("… 还有 {left} 行"),
        };
        out.push_str("\n   ");
        out.push_str(&more);
    }
    out
}

fn indented(text: &str) -> String {
    let lines: Vec<String> = text.lines().map(|line| format!("   {line}")).collect();
    lines.join("\n")
}

fn plural(count: usize, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}

/// One line of at most 60 characters.
fn short(text: &str) -> String {
    cut(&text.trim_end().replace('\n', "⏎"), 60)
}

fn cut(text: &str, most: usize) -> String {
    let mut out: String = text.chars().take(most).collect();
    if text.chars().nth(most).is_some() {
        out.push('…');
    }
    out
}
