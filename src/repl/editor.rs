//! The line editor on a thread of its own: it blocks, the session must not.

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
    keep: Keep,
    answer: oneshot::Sender<Asked>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Keep {
    InHistory,
    Nowhere,
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

    /// A line of the user's for the conversation.
    pub(super) async fn ask(&mut self, prompt: &str) -> Asked {
        self.wish(prompt, Keep::InHistory).await
    }

    /// An answer to a question; keys typed before it appeared do not count.
    pub(super) async fn question(&mut self, prompt: &str) -> Asked {
        forget_typed();
        self.wish(prompt, Keep::Nowhere).await
    }

    async fn wish(&mut self, prompt: &str, keep: Keep) -> Asked {
        let (answer, asked) = oneshot::channel();
        let wish = Wish { prompt: prompt.to_owned(), keep, answer };
        if self.wishes.send(wish).is_err() {
            return Asked::End;
        }
        asked.await.unwrap_or(Asked::End)
    }
}

#[cfg(unix)]
fn forget_typed() {
    use nix::sys::termios::{FlushArg, tcflush};
    // Without a terminal there is nothing to forget.
    drop(tcflush(std::io::stdin(), FlushArg::TCIFLUSH));
}

#[cfg(not(unix))]
fn forget_typed() {}

/// A line that ends with a backslash goes on in the next.
#[derive(Completer, Helper)]
struct Continued;

impl Hinter for Continued {
    type Hint = String;
}

impl Highlighter for Continued {}

impl Validator for Continued {
    fn validate(&self, cx: &mut ValidationContext<'_>) -> rustyline::Result<ValidationResult> {
        Ok(if cx.input().ends_with('\\') {
            ValidationResult::Incomplete
        } else {
            ValidationResult::Valid(None)
        })
    }
}

fn edit(mut wishes: mpsc::UnboundedReceiver<Wish>, history: &Path) {
    let config = rustyline::Config::builder().auto_add_history(false).bracketed_paste(true).build();
    let Ok(mut editor) = rustyline::Editor::<Continued, FileHistory>::with_config(config) else { return };
    editor.set_helper(Some(Continued));
    make_private(history);
    // A history that cannot be read is an empty one.
    drop(editor.load_history(history));
    while let Some(wish) = wishes.blocking_recv() {
        let asked = match editor.readline(&wish.prompt) {
            Ok(line) => {
                if wish.keep == Keep::InHistory && !line.trim().is_empty() {
                    drop(editor.add_history_entry(line.as_str()));
                    drop(editor.append_history(history));
                }
                Asked::Line(line.replace("\\\n", "\n"))
            }
            Err(ReadlineError::Interrupted) => Asked::Interrupt,
            Err(_) => Asked::End,
        };
        // The one who asked may have been interrupted meanwhile.
        drop(wish.answer.send(asked));
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
