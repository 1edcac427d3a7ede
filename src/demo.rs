//! `reagent demo`: the embedded sample project, a real prompt, the real loop; its test before and after.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use crate::app::visible::{clipped, visible};
use crate::app::{self, Handle, StartError};
use crate::config::{Config, ModelChoice, Origin, Sourced};
use crate::protocol::{Event, TurnOutcome, text_of};

/// Path and content of each file of the sample.
const FILES: &[(&str, &str)] = &[
    ("Cargo.toml", include_str!("../examples/sample-repo/Cargo.toml")),
    ("Cargo.lock", include_str!("../examples/sample-repo/Cargo.lock")),
    ("README.md", include_str!("../examples/sample-repo/README.md")),
    ("receipts/corner-shop.txt", include_str!("../examples/sample-repo/receipts/corner-shop.txt")),
    ("src/lib.rs", include_str!("../examples/sample-repo/src/lib.rs")),
    ("src/main.rs", include_str!("../examples/sample-repo/src/main.rs")),
    ("src/money.rs", include_str!("../examples/sample-repo/src/money.rs")),
    ("src/parse.rs", include_str!("../examples/sample-repo/src/parse.rs")),
    ("src/receipt.rs", include_str!("../examples/sample-repo/src/receipt.rs")),
    ("tests/receipts.rs", include_str!("../examples/sample-repo/tests/receipts.rs")),
];

/// What the agent is asked to do.
const PROMPT: &str = "run `RUST_BACKTRACE=0 cargo test -q --offline --test receipts`, then find `subtotal - tax`, \
                      then replace `subtotal - tax` with `subtotal + tax` in src/receipt.rs, \
                      then run `RUST_BACKTRACE=0 cargo test -q --offline --test receipts`";

/// Copies the sample to a fresh folder and gives the configuration to work there with the offline model.
pub fn prepare(mut config: Config) -> std::io::Result<(Config, PathBuf)> {
    let folder = tempfile::Builder::new().prefix("reagent-demo-").tempdir()?.keep();
    let project = folder.join("tally");
    for (path, text) in FILES {
        let path = project.join(path);
        std::fs::create_dir_all(path.parent().unwrap_or(&project))?;
        std::fs::write(path, text)?;
    }
    let here = || Origin::Flag("demo");
    config.cwd = project.canonicalize()?;
    config.add_dirs.clear();
    config.folders.data = folder.join("data");
    config.model = Sourced::new(ModelChoice::Offline { chosen: true }, here());
    config.allow_write = Sourced::new(true, here());
    config.allow.clear();
    config.deny.clear();
    config.continue_session = false;
    Ok((config, project))
}

/// Runs the demo and tells how it went.
pub async fn run(handle: Result<Handle, StartError>, project: &Path) -> Result<(), String> {
    let mut handle = handle.map_err(|error| error.to_string())?;
    let mut out = Out(std::io::stdout());
    out.line(&format!("A copy of the sample project lies in {}.\n\n> {PROMPT}\n", project.display()));
    handle.send(app::commands::prompt(PROMPT));
    let mut tests: Vec<bool> = Vec::new();
    let mut running = String::new();
    let outcome = loop {
        let Some(envelope) = handle.events.next().await else { break TurnOutcome::Aborted };
        match envelope.event {
            Event::ToolStarted { call } => {
                out.line(&format!("● {}", app::summary(&call)));
                running = call.name;
            }
            Event::ToolFinished { result } => {
                let text = text_of(&result.content);
                match result.details.get("diff").and_then(|diff| diff.as_str()) {
                    Some(diff) => out.line(&indented(diff)),
                    None if running == "Read" => out.line(&format!("  {} lines", text.lines().count())),
                    None => out.line(&indented(&last_lines(&text, 8))),
                }
                if running == "Bash" {
                    tests.push(!result.is_error);
                }
            }
            Event::Notice { text } => out.line(&visible(&text)),
            Event::MessageAdded { message }
                if message.role == crate::protocol::Role::Assistant && message.calls().next().is_none() =>
            {
                out.line(&format!("\n{}", visible(&message.text())));
            }
            Event::TurnFinished { outcome } if envelope.agent.is_root() => break outcome,
            _ => {}
        }
    };
    handle.close().await;
    let word = |passed: Option<&bool>| match passed {
        Some(true) => "passes",
        Some(false) => "fails",
        None => "did not run",
    };
    out.line(&format!("\nThe test before: {}. After: {}.", word(tests.first()), word(tests.get(1))));
    match (outcome, tests.as_slice()) {
        (TurnOutcome::Completed, [false, true]) => {
            out.line("That was the built-in offline model: fixed rules, no intelligence. For a real one set ANTHROPIC_API_KEY or OPENAI_API_KEY.");
            Ok(())
        }
        (TurnOutcome::Completed, _) => Err("the sample's test did not turn from red to green".to_owned()),
        (outcome, _) => Err(outcome.sentence()),
    }
}

struct Out(std::io::Stdout);

impl Out {
    /// A closed stdout is the reader's choice.
    fn line(&mut self, text: &str) {
        drop(writeln!(self.0, "{text}"));
    }
}

fn indented(text: &str) -> String {
    let lines: Vec<String> =
        visible(&clipped(text.trim_end(), 4_000)).lines().map(|line| format!("  {line}")).collect();
    lines.join("\n")
}

fn last_lines(text: &str, n: usize) -> String {
    let lines: Vec<&str> = text.trim_end().lines().collect();
    lines.get(lines.len().saturating_sub(n)..).unwrap_or_default().join("\n")
}
