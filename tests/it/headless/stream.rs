//! The events of stream-json and the record of json, field by field as their readers know them.

use serde_json::{Value, json};

use crate::support::{ModelServer, Pointed as _, Project, Reply, finish};

/// Replaces what differs from run to run.
fn settled(mut value: Value) -> Value {
    if let Some(map) = value.as_object_mut() {
        for name in ["uuid", "session_id", "duration_ms", "duration_api_ms", "cwd", "reagent_version"] {
            if let Some(slot) = map.get_mut(name) {
                *slot = json!("*");
            }
        }
    }
    value
}

#[tokio::test]
async fn the_events_of_a_run() {
    let project = Project::new();
    let replies = vec![
        Reply::text("Looking.").call_with_id("c1", "Nothing", json!({"a": 1})).usage(100, 10, 5, 3),
        Reply::text("It is there.").usage(200, 20, 0, 0),
    ];
    let server = ModelServer::start(replies).await;
    let run = finish(
        project
            .reagent(["-p", "x", "--output-format", "stream-json", "--verbose", "--input-format", "text"])
            .messages(&server),
    )
    .await;
    let lines: Vec<Value> = run.lines().into_iter().map(settled).collect();
    let kinds: Vec<String> =
        lines.iter().map(|l| format!("{} {}", l["type"], l["subtype"]).replace('"', "")).collect();
    assert_eq!(kinds, ["system init", "assistant null", "user null", "assistant null", "result success"]);
    for line in &lines {
        assert_eq!((&line["uuid"], &line["session_id"]), (&json!("*"), &json!("*")), "{line}");
    }
    let init = &lines[0];
    assert!(init["tools"].is_array() && init["model"].as_str().unwrap().starts_with("claude-"), "{init}");
    assert_eq!((&init["permissionMode"], &init["apiKeySource"]), (&json!("default"), &json!("user")));
    let message = &lines[1]["message"];
    assert_eq!(lines[1]["parent_tool_use_id"], Value::Null);
    assert_eq!(
        message["content"],
        json!([{"type": "text", "text": "Looking."}, {"type": "tool_use", "id": "c1", "name": "Nothing", "input": {"a": 1}}])
    );
    assert_eq!((&message["role"], &message["type"]), (&json!("assistant"), &json!("message")));
    assert_eq!(message["stop_reason"], "tool_use");
    assert_eq!(
        message["usage"],
        json!({"input_tokens": 100, "cache_creation_input_tokens": 3, "cache_read_input_tokens": 5, "output_tokens": 10})
    );
    let result = &lines[2]["message"]["content"][0];
    assert_eq!(
        (&result["type"], &result["tool_use_id"], &result["is_error"]),
        (&json!("tool_result"), &json!("c1"), &json!(true))
    );
    assert_eq!(lines[3]["message"]["stop_reason"], "end_turn");
    let last = &lines[4];
    assert_eq!(
        (
            &last["result"],
            &last["num_turns"],
            &last["is_error"],
            &last["permission_denials"],
            &last["stop_reason"]
        ),
        (&json!("It is there."), &json!(2), &json!(false), &json!([]), &json!("end_turn"))
    );
    assert_eq!(
        last["usage"],
        json!({"input_tokens": 300, "cache_creation_input_tokens": 3, "cache_read_input_tokens": 5, "output_tokens": 30})
    );
    assert!(last["total_cost_usd"].as_f64().unwrap() > 0.0, "{last}");
    assert!(last["modelUsage"][init["model"].as_str().unwrap()]["inputTokens"] == 300, "{last}");
}

#[tokio::test]
async fn pieces_are_sent_on_wish_alone() {
    for pieces in [false, true] {
        let (project, server) = (
            Project::new(),
            ModelServer::start(vec![Reply::thinking("Hm.").say("One two three.").chunk_size(4)]).await,
        );
        let mut args = vec!["-p", "x", "--output-format", "stream-json"];
        args.extend(pieces.then_some("--include-partial-messages"));
        let run = finish(project.reagent(args).messages(&server)).await;
        let text: String = run
            .lines()
            .iter()
            .filter(|line| line["type"] == "stream_event" && line["event"]["type"] == "content_block_delta")
            .filter_map(|line| line["event"]["delta"]["text"].as_str().map(str::to_owned))
            .collect();
        assert_eq!(text, if pieces { "One two three." } else { "" });
        assert_eq!(run.result()["result"], "One two three.");
    }
}

#[tokio::test]
async fn repetitions_are_told() {
    let (project, server) = (
        Project::new(),
        ModelServer::start(vec![Reply::provider_error(529, "busy"), Reply::text("Hello.")]).await,
    );
    let run = finish(project.reagent(["-p", "x", "--output-format", "stream-json"]).messages(&server)).await;
    let lines = run.lines();
    let retry = lines.iter().find(|line| line["subtype"] == "api_retry").unwrap();
    assert_eq!((&retry["attempt"], &retry["max_retries"]), (&json!(1), &json!(10)), "{retry}");
    assert!(retry["error"].as_str().unwrap().contains("busy"), "{retry}");
    assert!(run.stderr.contains("busy"), "{}", run.stderr);
}

#[tokio::test]
async fn a_continued_run_counts_its_own_tokens() {
    let project = Project::new();
    let server = ModelServer::start(vec![
        Reply::text("Hello Ann.").usage(100, 10, 0, 0),
        Reply::text("You are Ann.").usage(200, 20, 0, 0),
    ])
    .await;
    finish(project.reagent(["-p", "I am Ann."]).messages(&server)).await;
    let run =
        finish(project.reagent(["-c", "-p", "Who am I?", "--output-format", "json"]).messages(&server)).await;
    let result = run.result();
    assert_eq!(result["usage"]["input_tokens"], 200, "{result}");
    assert_eq!(result["num_turns"], 1);
    assert_eq!(server.requests()[1].messages().len(), 3);
    assert_eq!(server.illegal(), Vec::<String>::new());
}
