//! Loads a script and prints the events of its first calls: `cargo run --example scripted [FILE]`.

use std::error::Error;
use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;

use futures_util::StreamExt;
use reagent::protocol::{Block, Message, MessageId, Role, Source};
use reagent::provider::scripted::Scripted;
use reagent::provider::{ModelProvider, Request};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let bundled = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/script.json");
    let file = std::env::args_os().nth(1).map_or_else(|| PathBuf::from(bundled), PathBuf::from);
    let model = Scripted::load(&file)?;
    let prompt = Message {
        id: MessageId("m1".to_owned()),
        role: Role::User,
        source: Source::User,
        origin: None,
        blocks: vec![Block::text("What is in Cargo.toml?")],
    };
    let messages = [Arc::new(prompt)];
    let mut out = std::io::stdout().lock();
    for call in 1..=3 {
        writeln!(out, "call {call}")?;
        let request =
            Request { system: "", tools: &[], messages: &messages, max_output: 1_000, effort: None };
        match model.stream(request).await {
            Err(error) => writeln!(out, "  failed: {error} ({:?})", error.kind)?,
            Ok(mut events) => {
                while let Some(event) = events.next().await {
                    match event {
                        Ok(event) => writeln!(out, "  {event:?}")?,
                        Err(error) => writeln!(out, "  broke: {error}")?,
                    }
                }
            }
        }
    }
    Ok(())
}
