//! The head of every request: small, few tools, and the same bytes from round to round and session to session.

use serde_json::Value;

use crate::support::{ModelServer, Reply};

/// Bytes of system prompt and tool schemas together, without the user's and the project's own instructions.
const PREFIX_CAP: usize = 12 * 1024;
/// Tools that are advertised at most.
const TOOLS_CAP: usize = 16;

async fn run(server: &ModelServer, home: &std::path::Path, args: &[&str]) {
    let status = tokio::process::Command::new(env!("CARGO_BIN_EXE_reagent"))
        .args(["-p", "go", "--model", "sonnet"])
        .args(args)
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .env("HOME", home)
        .env("ANTHROPIC_API_KEY", "sk-test-key-of-this-test")
        .env("ANTHROPIC_BASE_URL", server.url())
        .current_dir(home)
        .stdin(std::process::Stdio::null())
        .output();
    let output = tokio::time::timeout(std::time::Duration::from_mins(1), status).await.unwrap().unwrap();
    assert!(output.status.success(), "{output:?}");
}

fn prefix(body: &Value) -> String {
    // Cache marks of the messages move; those of the prefix are part of it.
    format!("{}{}", body["system"], body["tools"])
}

#[tokio::test(flavor = "multi_thread")]
async fn the_prefix_is_small_and_never_changes() {
    let home = tempfile::tempdir().unwrap();
    std::fs::write(home.path().join("a.txt"), "one\ntwo\n").unwrap();
    let read = |line: u32| {
        Reply::text("Looking.").call("Read", serde_json::json!({"file_path": "a.txt", "offset": line}))
    };
    let server = ModelServer::start(vec![read(1), read(2), Reply::text("Done."), Reply::text("Done.")]).await;
    run(&server, home.path(), &[]).await;
    run(&server, home.path(), &["--continue"]).await;
    let requests = server.requests();
    assert_eq!(requests.len(), 4);
    let first = prefix(&requests[0].body);
    for request in &requests {
        assert_eq!(prefix(&request.body), first);
        let tools = request.body["tools"].as_array().unwrap();
        assert!(tools.len() <= TOOLS_CAP, "{} tools", tools.len());
    }
    assert!(first.len() <= PREFIX_CAP, "{} bytes", first.len());
    // What was said before is said again to the letter: the cache holds it.
    let said = |n: usize| -> Vec<String> {
        let messages = requests[n].body["messages"].as_array().unwrap();
        messages.iter().map(|m| without_marks(m).to_string()).collect()
    };
    for n in 1..requests.len() {
        let (before, now) = (said(n - 1), said(n));
        assert_eq!(before[..], now[..before.len()], "request {n}");
    }
    assert_eq!(server.illegal(), Vec::<String>::new());
}

fn without_marks(value: &Value) -> Value {
    match value {
        Value::Object(map) => map
            .iter()
            .filter(|(key, _)| *key != "cache_control")
            .map(|(k, v)| (k.clone(), without_marks(v)))
            .collect(),
        Value::Array(items) => items.iter().map(without_marks).collect(),
        other => other.clone(),
    }
}
