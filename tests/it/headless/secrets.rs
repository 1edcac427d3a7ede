//! The key goes into the header of a request and nowhere else.

use serde_json::json;

use crate::support::{Finished, KEY, ModelServer, Pointed as _, Project, Reply, finish};

#[track_caller]
fn clean(run: &Finished, project: &Project, what: &str) {
    assert!(!run.stdout.contains(KEY), "{what}: {}", run.stdout);
    assert!(!run.stderr.contains(KEY), "{what}: {}", run.stderr);
    let files = project.left_behind();
    assert!(files.iter().any(|(path, _)| path.extension().is_some_and(|e| e == "jsonl")), "{what}");
    for (path, text) in files {
        assert!(!text.contains(KEY), "{what}: {}: {text}", path.display());
    }
}

fn echoing(status: u16) -> Reply {
    let body = json!({"type": "error", "error": {"type": "authentication_error",
        "message": format!("invalid x-api-key {KEY}; headers: Authorization: Bearer {KEY}")}});
    Reply::http(status).body(body.to_string())
}

#[tokio::test]
async fn a_server_that_echoes_the_key_is_not_repeated() {
    let replies: [(&str, fn() -> Vec<Reply>); 5] = [
        ("401", || vec![echoing(401); 3]),
        ("500, again and again", || vec![echoing(500); 9]),
        ("no JSON", || vec![Reply::http(403).body(format!("<p>bad key {KEY}</p>")); 3]),
        ("an error in the stream", || {
            vec![Reply::text("Half of it").error_event_after(1, &format!("bad key {KEY}")); 9]
        }),
        ("the answer", || {
            vec![
                Reply::thinking(format!("It is {KEY}."))
                    .call("NoSuchTool", json!({"key": KEY, "deep": [{"x": KEY}]})),
                Reply::text(format!("Your key is {KEY}.")).chunk_size(1000),
            ]
        }),
    ];
    for (what, replies) in replies {
        for trace in ["", "1", "json"] {
            for chat in [false, true] {
                let (project, server) = (Project::new(), ModelServer::start(replies()).await);
                let command = project
                    .reagent([
                        "-p",
                        "x",
                        "--output-format",
                        "stream-json",
                        "--include-partial-messages",
                        "--max-retries",
                        "1",
                    ])
                    .with("TRACE", trace);
                let run = finish(if chat { command.chat(&server) } else { command.messages(&server) }).await;
                clean(&run, &project, what);
                let request = &server.requests()[0];
                let sent = request.header(if chat { "authorization" } else { "x-api-key" }).unwrap();
                assert!(sent.contains(KEY), "the request itself needs it");
            }
        }
    }
}

#[tokio::test]
async fn a_key_in_the_prompt_does_not_travel() {
    let (project, server) = (Project::new(), ModelServer::start(vec![Reply::text("Fine.")]).await);
    let prompt = format!("why does {KEY} not work?");
    let run = finish(project.reagent(["-p", &prompt]).messages(&server)).await;
    clean(&run, &project, "the prompt");
    assert!(!server.requests()[0].body.to_string().contains(KEY));
}

#[tokio::test]
async fn a_key_in_the_settings_is_masked_too() {
    let (project, server) = (Project::new(), ModelServer::start(vec![echoing(401)]).await);
    let settings = project.settings(
        &json!({"anthropic": {"apiKey": KEY, "baseUrl": server.url()}, "model": "sonnet"}).to_string(),
    );
    let run = finish(project.reagent(["-p", "x"]).with("TRACE", "1")).await;
    assert_eq!(run.code, 1, "{run:?}");
    assert!(run.stderr.contains("***"), "{run:?}");
    std::fs::remove_file(settings).unwrap();
    clean(&run, &project, "the settings");
}

#[tokio::test]
async fn a_tool_that_meets_the_key_does_not_pass_it_on() {
    let calls: [(&str, serde_json::Value); 6] = [
        ("Read", json!({"file_path": "keys.txt"})),
        ("Grep", json!({"pattern": "planted", "output_mode": "content"})),
        ("Bash", json!({"command": "cat keys.txt; cat keys.txt >&2; echo $ANTHROPIC_API_KEY"})),
        ("Bash", json!({"command": "for i in $(seq 9000); do cat keys.txt; done"})),
        ("Edit", json!({"file_path": "keys.txt", "old_string": "first", "new_string": "second"})),
        ("Write", json!({"file_path": "keys.txt", "content": "gone\n"})),
    ];
    for (name, input) in calls {
        let project = Project::new();
        project.write("keys.txt", &format!("first\nkey = {KEY}\nlast\n"));
        // A file must have been read before it is changed.
        let server = ModelServer::start(vec![
            Reply::tool("Read", json!({"file_path": "keys.txt"})),
            Reply::tool(name, input.clone()),
            Reply::text("Done."),
        ])
        .await;
        let command = project
            .reagent(["-p", "x", "--output-format", "stream-json", "--dangerously-skip-permissions"])
            .messages(&server)
            .with("TRACE", "1");
        let run = finish(command).await;
        assert_eq!(run.code, 0, "{name} {input}: {run:?}");
        for request in server.requests() {
            assert!(!request.body.to_string().contains(KEY), "{name} {input}");
        }
        clean(&run, &project, &format!("{name} {input}"));
    }
}
