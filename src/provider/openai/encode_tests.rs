//! Requests of Chat Completions, compared as JSON.

use std::sync::Arc;

use serde_json::{Value, json};

use super::{Dialect, encode};
use crate::config::Effort;
use crate::protocol::{Block, Message, ModelId, ToolSpec};
use crate::provider::testing::{assistant, info, user};
use crate::provider::{ModelInfo, Request};

fn encoded(info: &ModelInfo, messages: &[Arc<Message>], dialect: u8) -> Value {
    let request =
        Request { system: "sys", tools: &[], messages, max_output: 100, effort: Some(Effort::High) };
    serde_json::from_slice(&encode::body(info, request, Dialect(dialect)).unwrap()).unwrap()
}

fn call(id: &str) -> Block {
    Block::ToolUse { id: id.to_owned(), name: "Read".to_owned(), input: json!({"a": "é"}) }
}

fn result(id: &str, content: Vec<Block>, is_error: bool) -> Block {
    Block::ToolResult { tool_use_id: id.to_owned(), content, is_error }
}

fn thinking(text: &str) -> Block {
    Block::Thinking { thinking: text.to_owned(), signature: None }
}

fn picture() -> Block {
    Block::Image { media_type: "image/png".to_owned(), data: "AAAA".to_owned() }
}

#[test]
fn a_whole_request() {
    let info = info("openai(h)", "gpt-4o");
    let messages = [
        user(vec![Block::text("first"), Block::text("second")]),
        assistant(
            &info.id,
            vec![thinking("think A "), thinking("think B"), Block::text("Looking."), call("t1"), call("t2")],
        ),
        user(vec![
            result("t1", vec![Block::text("out"), picture()], false),
            result("t2", vec![Block::text("bad")], true),
            Block::text("and this"),
        ]),
    ];
    let schema = json!({"type": "object", "properties": {}});
    let tools =
        [ToolSpec { name: "Read".to_owned(), description: "d".to_owned(), input_schema: schema.clone() }];
    let request =
        Request { system: "sys", tools: &tools, messages: &messages, max_output: 100, effort: None };
    let function = |id: &str| json!({"id": id, "type": "function", "function": {"name": "Read", "arguments": "{\"a\":\"é\"}"}});
    assert_eq!(
        serde_json::from_slice::<Value>(&encode::body(&info, request, Dialect(0)).unwrap()).unwrap(),
        json!({
            "model": "gpt-4o",
            "messages": [
                {"role": "system", "content": "sys"},
                {"role": "user", "content": "first\n\nsecond"},
                {"role": "assistant", "content": "Looking.", "reasoning_content": "think A think B",
                    "tool_calls": [function("t1"), function("t2")]},
                {"role": "tool", "tool_call_id": "t1", "content": "out\n(a picture, shown in the next user message)"},
                {"role": "tool", "tool_call_id": "t2", "content": "Error: bad"},
                {"role": "user", "content": [
                    {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}},
                    {"type": "text", "text": "and this"},
                ]},
            ],
            "tools": [{"type": "function", "function": {"name": "Read", "description": "d", "parameters": schema}}],
            "stream": true,
            "stream_options": {"include_usage": true},
            "max_tokens": 100,
        })
    );
}

#[test]
fn o_prov_03_reasoning_goes_back_only_to_its_maker_and_under_its_own_name() {
    let info = info("openai(h)", "mock");
    let messages = |origin: &ModelId, extra: Vec<Block>| {
        let mut blocks = vec![thinking("think A think B"), call("t")];
        blocks.extend(extra);
        [
            user(vec![Block::text("go")]),
            assistant(origin, blocks),
            user(vec![result("t", vec![Block::text("x")], false)]),
        ]
    };
    let message = |origin: &ModelId, extra: Vec<Block>| {
        let body = encoded(&info, &messages(origin, extra), 0);
        let message = body["messages"][2].clone();
        assert_eq!(message["content"], Value::Null);
        message
    };
    let own = message(&info.id, Vec::new());
    assert_eq!((&own["reasoning_content"], own.get("reasoning")), (&json!("think A think B"), None));
    let foreign = message(&ModelId::new("openai(other)", "mock"), Vec::new());
    assert_eq!((foreign.get("reasoning_content"), foreign.get("reasoning")), (None, None));
    let details = json!([{"type": "reasoning.encrypted", "data": "x"}]);
    let extra = json!({"google": {"thought_signature": "s"}});
    let kept = message(
        &info.id,
        vec![
            Block::Other(
                json!({"type": "chat_reasoning", "field": "reasoning", "reasoning_details": details}),
            ),
            Block::Other(json!({"type": "chat_call", "id": "t", "extra_content": extra})),
        ],
    );
    assert_eq!((kept.get("reasoning_content"), &kept["reasoning"]), (None, &json!("think A think B")));
    assert_eq!((&kept["reasoning_details"], &kept["tool_calls"][0]["extra_content"]), (&details, &extra));
}

#[test]
fn o_loop_05_an_answer_of_reasoning_alone_is_left_out() {
    let info = info("openai(h)", "mock");
    let field = Block::Other(json!({"type": "chat_reasoning", "field": "reasoning"}));
    let messages = [
        user(vec![Block::text("go")]),
        assistant(&info.id, vec![thinking("hm"), Block::text(" "), field]),
        user(vec![Block::text("again")]),
        assistant(&info.id, vec![call("t")]),
        user(vec![result("t", vec![], false)]),
    ];
    let body = encoded(&info, &messages, 0);
    let roles: Vec<&str> =
        body["messages"].as_array().unwrap().iter().map(|m| m["role"].as_str().unwrap()).collect();
    assert_eq!(roles, ["system", "user", "assistant", "tool"]);
    assert_eq!(body["messages"][1]["content"], "go\n\nagain");
    assert_eq!(body["messages"][3]["content"], "(no output)");
}

#[test]
fn fields_by_dialect_and_effort() {
    let messages = [user(vec![Block::text("go")])];
    let fields = |name: &str, dialect| {
        let body = encoded(&info("openai(h)", name), &messages, dialect);
        ["max_tokens", "max_completion_tokens", "stream_options", "reasoning_effort"]
            .map(|field| body.get(field).is_some())
    };
    assert_eq!(fields("gpt-5", 0), [true, false, true, true]);
    assert_eq!(fields("gpt-5", Dialect::COMPLETION_TOKENS), [false, true, true, true]);
    assert_eq!(fields("gpt-5", Dialect::NO_STREAM_OPTIONS | Dialect::NO_EFFORT), [true, false, false, false]);
    assert_eq!(fields("gpt-4o", 0), [true, false, true, false]);
    for (name, effort, word) in [
        ("gpt-5", Effort::None, "minimal"),
        ("openai/gpt-5-mini", Effort::None, "minimal"),
        ("gpt-5.1", Effort::None, "none"),
        ("gpt-5.1", Effort::Max, "high"),
        ("gpt-5.4", Effort::Max, "xhigh"),
        ("o3", Effort::None, "low"),
        ("o3", Effort::Medium, "medium"),
        ("deepseek-v4-pro", Effort::Max, "max"),
        ("qwen", Effort::Low, "low"),
    ] {
        assert_eq!(encode::effort_word(name, effort), word, "{name} {effort:?}");
    }
}
