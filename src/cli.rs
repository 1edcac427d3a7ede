//! The command line: flags to a `Config`, the front end that fits, and how errors become exit codes.

use std::io::IsTerminal as _;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{CommandFactory as _, Parser, Subcommand, ValueEnum};

use crate::app::{self, StartError, say};
use crate::config::{self, Config, ConfigError, Env, Flags};
use crate::headless::stdin::{self, Need};
use crate::headless::{self, Exit, Format};
use crate::process::Supervisor;
use crate::protocol::Block;
use crate::trace;
use crate::{demo, repl};

/// Rounds of a headless turn, unless a flag says otherwise.
const HEADLESS_ROUNDS: u32 = 100;

/// A coding agent for the terminal.
#[derive(Debug, Parser)]
#[command(
    name = "reagent",
    version,
    about,
    args_conflicts_with_subcommands = true,
    disable_help_subcommand = true
)]
#[expect(clippy::struct_excessive_bools, reason = "one field a flag")]
struct Args {
    #[command(subcommand)]
    command: Option<Command>,

    /// The prompt: opens the interactive session with it, or runs alone when stdin or stdout is no terminal.
    text: Vec<String>,

    /// Run one prompt and print the answer; text from stdin is added.
    #[arg(short, long, alias = "print", value_name = "TEXT", num_args = 0..=1, default_missing_value = "")]
    prompt: Option<String>,

    /// What stdout carries with --prompt.
    #[arg(long, value_enum, default_value_t = OutputFormat::Text, value_name = "FORMAT")]
    output_format: OutputFormat,

    /// What stdin carries; only text so far.
    #[arg(long, value_enum, default_value_t = InputFormat::Text, value_name = "FORMAT", hide = true)]
    input_format: InputFormat,

    /// With stream-json: also the pieces of the answer as they arrive.
    #[arg(long)]
    include_partial_messages: bool,

    /// Model or alias: sonnet, opus, gpt, …, offline, auto (a local server), script:FILE.
    #[arg(short, long, value_name = "NAME")]
    model: Option<String>,

    /// Base URL of the model's service; a server of your own needs no key.
    #[arg(long, value_name = "URL")]
    base_url: Option<String>,

    /// A file of CA certificates (PEM) to trust beside the system's.
    #[arg(long, value_name = "FILE")]
    ca_file: Vec<PathBuf>,

    /// How hard the model thinks: none, low, medium, high, max.
    #[arg(long, value_name = "LEVEL")]
    effort: Option<String>,

    /// The built-in offline model; the same as --model offline.
    #[arg(long)]
    mock: bool,

    /// Go on with the newest session of this folder.
    #[arg(short, long = "continue")]
    continue_session: bool,

    /// Work in this folder instead of the current one.
    #[arg(long, value_name = "DIR")]
    cwd: Option<PathBuf>,

    /// A further folder that belongs to the workspace.
    #[arg(long, value_name = "DIR", num_args = 1..)]
    add_dir: Vec<PathBuf>,

    /// Let edits in the workspace and commands run without asking.
    #[arg(long)]
    allow_write: bool,

    /// default, acceptEdits, plan, dontAsk or bypassPermissions.
    #[arg(long, value_name = "MODE")]
    permission_mode: Option<String>,

    /// The same as --permission-mode bypassPermissions.
    #[arg(long)]
    dangerously_skip_permissions: bool,

    /// Rules for what runs without asking, for example 'Bash(cargo test:*) Edit'.
    #[arg(long = "allowedTools", alias = "allowed-tools", value_name = "RULES", num_args = 1..)]
    allowed_tools: Vec<String>,

    /// Rules for what never runs.
    #[arg(long = "disallowedTools", alias = "disallowed-tools", value_name = "RULES", num_args = 1..)]
    disallowed_tools: Vec<String>,

    /// Stop a turn after this many rounds (100 with --prompt, no limit in a session).
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    max_turns: Option<u32>,

    /// Stop when the session has cost this many US dollars.
    #[arg(long, value_name = "USD")]
    max_budget_usd: Option<f64>,

    /// Stop when the session has used this many tokens.
    #[arg(long, value_name = "N")]
    max_tokens: Option<u64>,

    /// Stop a turn after this many seconds, between two rounds.
    #[arg(long, value_name = "SECONDS")]
    max_time: Option<u64>,

    /// Repeat a failed model call at most this often (10).
    #[arg(long, value_name = "N")]
    max_retries: Option<u32>,

    /// Instead of the built-in system prompt; environment and project files are still added.
    #[arg(long, value_name = "TEXT")]
    system_prompt: Option<String>,

    /// Added to the system prompt.
    #[arg(long, value_name = "TEXT")]
    append_system_prompt: Option<String>,

    /// Accepted for scripts; stream-json is always complete.
    #[arg(long, hide = true)]
    verbose: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Subcommand)]
enum Command {
    /// Fix a small sample project with the offline model, to see the loop at work.
    Demo,
    /// Show what is set up and where each value comes from.
    Doctor,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum OutputFormat {
    /// The final answer and nothing else.
    Text,
    /// One result object.
    Json,
    /// One JSON object for each event, the result last.
    StreamJson,
}

/// Accepted as scripts give it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum InputFormat {
    /// Plain text.
    Text,
}

impl Args {
    fn format(&self) -> Format {
        match (self.output_format, self.include_partial_messages) {
            (OutputFormat::Text, _) => Format::Text,
            (OutputFormat::Json, _) => Format::Json,
            (OutputFormat::StreamJson, false) => Format::StreamJson,
            (OutputFormat::StreamJson, true) => Format::StreamJsonPieces,
        }
    }
}

/// Runs the program. The only place that reads the process's own state: arguments, environment, folder.
#[must_use]
pub fn main() -> ExitCode {
    let args = match Args::try_parse() {
        Ok(args) => args,
        Err(error) => {
            // Help and version go to stdout and are no error.
            drop(error.print());
            return ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2));
        }
    };
    let format = if args.command.is_some() { Format::Text } else { args.format() };
    let exit = match run(args) {
        Ok(exit) => exit,
        Err((exit, message)) => {
            headless::failed(format, exit, &message);
            exit
        }
    };
    ExitCode::from(exit.code())
}

type Failure = (Exit, String);

fn run(args: Args) -> Result<Exit, Failure> {
    let env = Env::new(
        std::env::vars_os().filter_map(|(k, v)| Some((k.into_string().ok()?, v.into_string().ok()?))),
    );
    let command = args.command;
    let format = args.format();
    let (prompt_flag, text) = (args.prompt.clone(), args.text.join(" "));
    let config = config::resolve(flags(args)?, &env).map_err(|error| config_failure(&error))?;
    if let Some(shape) = env.get("TRACE").and_then(trace::Format::from_env) {
        trace::install(shape, config.mask.clone());
    }
    let front = match command {
        Some(Command::Demo) => Front::Demo,
        Some(Command::Doctor) => Front::Doctor,
        None => front(prompt_flag, text)?,
    };
    let mask = config.mask.clone();
    crate::trace::stage!("cli.start", mode = front.name(), model = %config.model.value.name());
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .map_err(|error| (Exit::Failed, format!("cannot start: {error}")))?;
    let result = runtime.block_on(dispatch(front, config, format));
    // A thread that still reads stdin must not hold the exit.
    runtime.shutdown_background();
    result.map_err(|(exit, mut message)| {
        mask.apply(&mut message);
        (exit, message)
    })
}

fn flags(args: Args) -> Result<Flags, Failure> {
    #[expect(clippy::disallowed_methods, reason = "the one place where the current folder is asked for")]
    let here = std::env::current_dir().map_err(|error| {
        (Exit::Usage, format!("the current folder cannot be used: {error}; name one with --cwd"))
    })?;
    let cwd = args.cwd.map_or_else(|| here.clone(), |dir| here.join(dir));
    Ok(Flags {
        cwd,
        add_dirs: args.add_dir,
        model: args.model,
        mock: args.mock,
        base_url: args.base_url,
        ca_files: args.ca_file,
        effort: args.effort,
        mode: args.permission_mode,
        skip_permissions: args.dangerously_skip_permissions,
        allow_write: args.allow_write,
        allow: args.allowed_tools,
        deny: args.disallowed_tools,
        max_turns: args.max_turns,
        max_cost: args.max_budget_usd,
        max_tokens: args.max_tokens,
        max_time: args.max_time,
        max_retries: args.max_retries,
        system_prompt: args.system_prompt,
        append_system_prompt: args.append_system_prompt,
        continue_session: args.continue_session,
    })
}

/// Who talks to the user.
enum Front {
    Headless(String),
    Lines(Option<String>),
    Demo,
    Doctor,
}

impl Front {
    fn name(&self) -> &'static str {
        match self {
            Self::Headless(_) => "headless",
            Self::Lines(_) => "repl",
            Self::Demo => "demo",
            Self::Doctor => "doctor",
        }
    }
}

/// Chooses the front end and completes the prompt from stdin.
fn front(flag: Option<String>, text: String) -> Result<Front, Failure> {
    let (stdin_is_terminal, stdout_is_terminal) =
        (std::io::stdin().is_terminal(), std::io::stdout().is_terminal());
    if flag.is_none() && stdin_is_terminal && stdout_is_terminal {
        return Ok(Front::Lines(Some(text).filter(|text| !text.trim().is_empty())));
    }
    let mut parts: Vec<String> =
        flag.into_iter().chain([text]).filter(|part| !part.trim().is_empty()).collect();
    if !stdin_is_terminal {
        let need = if parts.is_empty() { Need::Prompt } else { Need::Extra };
        let piped = stdin::read(std::io::stdin(), need, say).map_err(|message| (Exit::Usage, message))?;
        if !piped.trim().is_empty() {
            parts.push(piped);
        }
    }
    if parts.is_empty() {
        let usage = Args::command().render_usage();
        return Err((Exit::Usage, format!("there is no prompt: give one with -p TEXT or on stdin\n{usage}")));
    }
    Ok(Front::Headless(parts.join("\n\n")))
}

async fn dispatch(front: Front, mut config: Config, format: Format) -> Result<Exit, Failure> {
    let supervisor = Supervisor::own()
        .map_err(|error| (Exit::Failed, format!("this program cannot find itself: {error}")))?;
    match front {
        Front::Doctor => {
            let report = app::doctor::report(&config).await;
            print(&report)
        }
        Front::Demo => {
            let (config, project) = demo::prepare(config).map_err(|e| (Exit::Failed, e.to_string()))?;
            let handle = app::start(config, supervisor).await;
            match demo::run(handle, &project).await {
                Ok(()) => Ok(Exit::Done),
                Err(message) => Err((Exit::Failed, message)),
            }
        }
        Front::Headless(prompt) => {
            config.max_turns = Some(config.max_turns.unwrap_or(HEADLESS_ROUNDS));
            let handle = app::start(config, supervisor).await.map_err(|error| start_failure(&error))?;
            Ok(headless::run(handle, vec![Block::text(prompt)], format).await)
        }
        Front::Lines(first) => {
            let handle = app::start(config, supervisor).await.map_err(|error| start_failure(&error))?;
            match repl::run(handle, first).await {
                Ok(repl::Left::Orderly) => Ok(Exit::Done),
                Ok(repl::Left::Interrupted) => Ok(Exit::Interrupted),
                Ok(repl::Left::Terminated) => Ok(Exit::Terminated),
                Err(error) => Err((Exit::Failed, error.to_string())),
            }
        }
    }
}

fn print(text: &str) -> Result<Exit, Failure> {
    use std::io::Write as _;
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes())
        .and_then(|()| out.flush())
        .map(|()| Exit::Done)
        .map_err(|error| (Exit::Failed, format!("cannot write to stdout: {error}")))
}

fn config_failure(error: &ConfigError) -> Failure {
    let exit = match error {
        ConfigError::NoModel(_) => Exit::NoModel,
        ConfigError::Syntax { .. }
        | ConfigError::Value { .. }
        | ConfigError::Io { .. }
        | ConfigError::Usage(_) => Exit::Usage,
    };
    (exit, error.to_string())
}

fn start_failure(error: &StartError) -> Failure {
    let exit = match error {
        StartError::Usage(_) => Exit::Usage,
        StartError::NoModel(_) => Exit::NoModel,
        StartError::Session(_) => Exit::Failed,
    };
    (exit, error.to_string())
}
