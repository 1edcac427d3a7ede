//! Slash commands as one table, the same in every interactive front end.

use super::{SessionInfo, Status};
use crate::prompt::INIT;
use crate::protocol::{Block, Op};

/// One slash command.
#[derive(Debug, Clone, Copy)]
pub struct Command {
    /// Name without the slash.
    pub name: &'static str,
    /// Other names.
    pub aliases: &'static [&'static str],
    /// Arguments, for hints.
    pub args: &'static str,
    /// What it does.
    pub help: &'static str,
    /// Does it.
    pub run: fn(Context<'_>, &str) -> Reaction,
}

/// What a command may look at.
#[derive(Debug, Clone, Copy)]
pub struct Context<'a> {
    /// The session.
    pub info: &'a SessionInfo,
    /// How it stands.
    pub status: &'a Status,
}

/// What a front end does with a command.
#[derive(Debug, Clone, PartialEq)]
pub enum Reaction {
    /// Show a text.
    Say(String),
    /// Send an order, then show a text.
    Send(Op, String),
    /// Start a turn with this prompt.
    Prompt(String),
    /// End the session.
    Exit,
}

/// All commands, in the order in which help lists them.
pub const COMMANDS: &[Command] = &[
    Command { name: "help", aliases: &["?"], args: "", help: "show the commands", run: help },
    Command {
        name: "status",
        aliases: &[],
        args: "",
        help: "show model, mode, tokens and the session's file",
        run: status,
    },
    Command { name: "model", aliases: &[], args: "[NAME]", help: "show or change the model", run: model },
    Command {
        name: "init",
        aliases: &[],
        args: "[NOTES]",
        help: "look at the repository and write an AGENTS.md",
        run: init,
    },
    Command {
        name: "clear",
        aliases: &[],
        args: "",
        help: "forget the conversation; its log stays on disk",
        run: clear,
    },
    Command { name: "exit", aliases: &["quit"], args: "", help: "leave", run: exit },
];

/// What a line that begins with a slash asks for; `None` if it does not.
#[must_use]
pub fn react(line: &str, cx: Context<'_>) -> Option<Reaction> {
    let rest = line.trim().strip_prefix('/')?;
    let (name, args) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
    // A path such as /usr/bin is no command but text.
    if name.contains('/') {
        return None;
    }
    let found = COMMANDS.iter().find(|c| c.name == name || c.aliases.contains(&name));
    Some(match found {
        Some(command) => (command.run)(cx, args.trim()),
        None => Reaction::Say(format!("There is no command /{name}. /help lists them all.")),
    })
}

fn help(_: Context<'_>, _: &str) -> Reaction {
    let mut out = String::new();
    for command in COMMANDS {
        let usage = format!("/{} {}", command.name, command.args);
        out.push_str(&format!("{:<16} {}\n", usage.trim_end(), command.help));
    }
    out.push_str("A line that ends with \\ goes on in the next. Ctrl+C stops the turn, twice leaves.");
    Reaction::Say(out)
}

fn status(cx: Context<'_>, _: &str) -> Reaction {
    let Context { info, status } = cx;
    let cost = status.cost.map_or_else(|| "unknown".to_owned(), |cost| format!("${cost:.4}"));
    let mut out = format!(
        "model    {}\nmode     {}\nfolder   {}\nsession  {}\ntokens   {} in, {} out, {} from the cache\nwindow   {} of {} ({}%)\ncost     {cost}",
        status.model.0,
        status.mode,
        info.cwd.display(),
        info.log.display(),
        status.usage.input + status.usage.cache_write,
        status.usage.output,
        status.usage.cache_read,
        status.context,
        status.window,
        percent(status),
    );
    for path in &info.instructions {
        out.push_str(&format!("\nrules    {}", path.display()));
    }
    Reaction::Say(out)
}

/// How full the window is.
#[must_use]
pub fn percent(status: &Status) -> u64 {
    (status.context * 100).checked_div(status.window).unwrap_or(0).min(100)
}

fn model(cx: Context<'_>, args: &str) -> Reaction {
    if args.is_empty() {
        return Reaction::Say(format!("model {}; change it with /model NAME", cx.status.model.0));
    }
    Reaction::Send(Op::SetModel { model: args.to_owned() }, String::new())
}

fn init(_: Context<'_>, args: &str) -> Reaction {
    let mut prompt = INIT.trim().to_owned();
    if !args.is_empty() {
        prompt.push_str(&format!("\n\nThe user adds: {args}"));
    }
    Reaction::Prompt(prompt)
}

fn clear(_: Context<'_>, _: &str) -> Reaction {
    Reaction::Send(Op::Clear, "The conversation is forgotten.".to_owned())
}

fn exit(_: Context<'_>, _: &str) -> Reaction {
    Reaction::Exit
}

/// A prompt of plain text.
#[must_use]
pub fn prompt(text: &str) -> Op {
    Op::Prompt { blocks: vec![Block::text(text)] }
}
