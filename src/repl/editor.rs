//! The line editor on a thread of its own: it blocks, the session must not.

use std::cell::RefCell;
use std::path::{Path, PathBuf};

use rustyline::error::ReadlineError;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::history::FileHistory;
use rustyline::validate::{ValidationContext, ValidationResult, Validator};
use rustyline::{Completer, Helper};
use tokio::sync::{mpsc, oneshot};

/// What came of asking for a line.
#[derive(Debug)]
pub(super) enum Asked {
    /// A line, or several.
    Line(String),
    /// Ctrl+C.
    Interrupt,
    /// Ctrl+D, or the terminal is gone.
    End,
}

/// One wish of the session.
struct Wish {
    prompt: String,
    /// What stands in the line already.
    draft: String,
    purpose: Purpose,
    answer: oneshot::Sender<Asked>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Purpose {
    /// Kept in the history.
    Conversation,
    /// Kept nowhere, and answered by an editor of its own: input that waits in the other's buffer is no answer.
    Question,
}

/// Talks to the editor's thread.
#[derive(Debug)]
pub(super) struct Editor {
    wishes: mpsc::UnboundedSender<Wish>,
}

impl std::fmt::Debug for Wish {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Wish").field("prompt", &self.prompt).finish_non_exhaustive()
    }
}

impl Editor {
    /// Starts the thread. The history file is private to the user.
    pub(super) fn start(history: PathBuf) -> std::io::Result<Self> {
        let (wishes, receiver) = mpsc::unbounded_channel();
        std::thread::Builder::new().name("line-editor".to_owned()).spawn(move || edit(receiver, &history))?;
        Ok(Self { wishes })
    }

    /// A line of the user's for the conversation; `draft` stands in it already.
    pub(super) async fn ask(&mut self, prompt: &str, draft: String) -> Asked {
        self.wish(prompt, draft, Purpose::Conversation).await
    }

    /// An answer to a question.
    pub(super) async fn question(&mut self, prompt: &str) -> Asked {
        self.wish(prompt, String::new(), Purpose::Question).await
    }

    async fn wish(&mut self, prompt: &str, draft: String, purpose: Purpose) -> Asked {
        let (answer, asked) = oneshot::channel();
        let wish = Wish { prompt: prompt.to_owned(), draft, purpose, answer };
        if self.wishes.send(wish).is_err() {
            return Asked::End;
        }
        asked.await.unwrap_or(Asked::End)
    }
}

/// A line that ends with a backslash goes on in the next.
#[derive(Completer, Helper, Default)]
struct Continued {
    /// The text before each line break that a backslash made; a pasted backslash is not among them.
    breaks: RefCell<Vec<String>>,
}

impl Hinter for Continued {
    type Hint = String;
}

impl Highlighter for Continued {}

impl Validator for Continued {
    fn validate(&self, cx: &mut ValidationContext<'_>) -> rustyline::Result<ValidationResult> {
        let Some(before) = cx.input().strip_suffix('\\') else { return Ok(ValidationResult::Valid(None)) };
        self.breaks.borrow_mut().push(before.to_owned());
        Ok(ValidationResult::Incomplete)
    }
}

impl Continued {
    /// The text as it was meant: without the backslashes that only said "go on".
    fn joined(&self, mut line: String) -> String {
        // From the last to the first, so that what stands before stays as it was noted.
        for before in self.breaks.take().iter().rev() {
            let goes_on = line.strip_prefix(before.as_str()).is_some_and(|rest| rest.starts_with("\\\n"));
            if goes_on {
                line.remove(before.len());
            }
        }
        line
    }
}

fn edit(mut wishes: mpsc::UnboundedReceiver<Wish>, history: &Path) {
    let Some(mut editor) = new_editor() else { return };
    make_private(history);
    // A history that cannot be read is an empty one.
    drop(editor.load_history(history));
    while let Some(wish) = wishes.blocking_recv() {
        let asked = match wish.purpose {
            Purpose::Conversation => ask(&mut editor, &wish),
            Purpose::Question => new_editor().map_or(Asked::End, |mut editor| ask(&mut editor, &wish)),
        };
        if let (Purpose::Conversation, Asked::Line(line)) = (wish.purpose, &asked)
            && !line.trim().is_empty()
        {
            drop(editor.add_history_entry(line.as_str()));
            drop(editor.append_history(history));
        }
        // The one who asked may have been interrupted meanwhile.
        drop(wish.answer.send(asked));
    }
}

fn new_editor() -> Option<rustyline::Editor<Continued, FileHistory>> {
    let config = rustyline::Config::builder().auto_add_history(false).bracketed_paste(true).build();
    let mut editor = rustyline::Editor::with_config(config).ok()?;
    editor.set_helper(Some(Continued::default()));
    Some(editor)
}

fn ask(editor: &mut rustyline::Editor<Continued, FileHistory>, wish: &Wish) -> Asked {
    match editor.readline_with_initial(&wish.prompt, (&wish.draft, "")) {
        Ok(line) => Asked::Line(match editor.helper() {
            Some(helper) => helper.joined(line),
            None => line,
        }),
        Err(ReadlineError::Interrupted) => {
            // What was noted belongs to a line that is gone.
            editor.set_helper(Some(Continued::default()));
            Asked::Interrupt
        }
        Err(_) => Asked::End,
    }
}

/// The file exists with the right mode before the editor writes to it.
fn make_private(path: &Path) {
    let mut options = std::fs::OpenOptions::new();
    options.create(true).append(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    drop(options.open(path));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_backslashes_that_made_a_line_break_go() {
        let continued = Continued::default();
        // Typed: `a\\`, then a pasted `b\\` with its line break, then `c\\`, then `d`.
        continued.breaks.replace(vec!["a".to_owned(), "a\\\nb\\\nc".to_owned()]);
        assert_eq!(continued.joined("a\\\nb\\\nc\\\nd".to_owned()), "a\nb\\\nc\nd");
        assert_eq!(continued.joined("x\\\ny".to_owned()), "x\\\ny");
    }
}
