//! `reagent doctor`: what is set up, where each value comes from, and which local servers answer.

use super::connect::local_models;
use crate::config::{Config, ModelChoice};

/// The report, one fact a line. Keys are never in it.
pub async fn report(config: &Config) -> String {
    let mut out = format!("reagent {}\n", env!("CARGO_PKG_VERSION"));
    let mut line = |name: &str, value: &str| out.push_str(&format!("{name:<12} {value}\n"));
    line("model", &format!("{} ({})", config.model.value.name(), config.model.origin));
    for fact in &config.facts {
        line(&fact.name, &format!("{} ({})", fact.value, fact.origin));
    }
    line("mode", &format!("{} ({})", config.mode.value, config.mode.origin));
    line("allow-write", &format!("{} ({})", config.allow_write.value, config.allow_write.origin));
    if let Some(effort) = &config.effort {
        line("effort", &format!("{} ({})", effort.value.name(), effort.origin));
    }
    for rule in &config.allow {
        line("allow", &format!("{} ({})", rule.value, rule.origin));
    }
    for rule in &config.deny {
        line("deny", &format!("{} ({})", rule.value, rule.origin));
    }
    line("folder", &config.cwd.display().to_string());
    line("settings", &config.folders.settings().display().to_string());
    line("sessions", &config.folders.data.join("projects").display().to_string());
    for warning in &config.warnings {
        line("warning", warning);
    }
    let servers = local_models().await;
    if servers.is_empty() {
        line("local", "no server answers as Ollama (11434), LM Studio (1234) or llama.cpp (8080)");
    }
    for server in &servers {
        let models = if server.models.is_empty() { "no models".to_owned() } else { server.models.join(", ") };
        line(
            "local",
            &format!("{} at {}: {models}; use it with --model auto", server.server, server.base_url),
        );
    }
    if let ModelChoice::Offline { chosen: false } = config.model.value {
        out.push_str("\nNo model is set up. Set ANTHROPIC_API_KEY, or OPENAI_API_KEY (and OPENAI_BASE_URL for another service).\n");
    }
    out
}
