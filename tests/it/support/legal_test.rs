//! Each illegal kind of history is refused, and legal ones are not.

use serde_json::{Value, json};

use super::{ModelServer, Protocol, Reply, legal};
use crate::support_test::{CHAT, MESSAGES, ask, client, joined, request, send};

/// Sends each body; the reason of the refusal must contain the words. A legal request ends it.
async fn refusals(path: &str, cases: Vec<(&str, Value)>) {
    let server = ModelServer::start(Vec::new()).await;
    let client = client();
    let count = cases.len();
    for (words, body) in cases {
        let (status, answer) = send(&server, &client, path, &body).await;
        assert_eq!(status, 400, "should be refused, {words}: {body}");
        let reason = server.illegal().pop().unwrap();
        assert!(reason.contains(words), "{reason:?} does not contain {words:?}");
        let answer: Value = serde_json::from_str(&answer).unwrap();
        assert_eq!(answer["error"]["message"], reason);
        assert_eq!(answer["error"]["type"], "invalid_request_error");
    }
    assert_eq!(server.illegal().len(), count);
    assert_eq!(ask(&server, &client, path).await.0, 200);
    assert_eq!(server.requests().len(), count + 1);
}

/// The smallest legal request with these fields in place of its own.
fn with(path: &str, fields: Value) -> Value {
    let mut body = request(path);
    let Value::Object(fields) = fields else { panic!("not an object") };
    body.as_object_mut().unwrap().extend(fields);
    body
}

fn hi() -> Value {
    json!({"role": "user", "content": "hi"})
}

fn text(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

/// The Messages API's shapes.
mod messages_api {
    use super::*;

    fn fields(fields: Value) -> Value {
        with(MESSAGES, fields)
    }

    fn history(messages: &[Value]) -> Value {
        fields(json!({"messages": messages}))
    }

    fn user(blocks: &[Value]) -> Value {
        json!({"role": "user", "content": blocks})
    }

    fn assistant(blocks: &[Value]) -> Value {
        json!({"role": "assistant", "content": blocks})
    }

    fn call(id: &str) -> Value {
        json!({"type": "tool_use", "id": id, "name": "Read", "input": {}})
    }

    fn result(id: &str) -> Value {
        json!({"type": "tool_result", "tool_use_id": id, "content": "x"})
    }

    /// A history with this block from the assistant in the middle.
    fn block(block: Value) -> Value {
        history(&[hi(), assistant(&[block]), hi()])
    }

    /// A history in which these blocks follow the call "a".
    fn after_call(blocks: &[Value]) -> Value {
        history(&[hi(), assistant(&[call("a")]), user(blocks)])
    }

    fn tool(name: &str, schema: &Value) -> Value {
        json!({"name": name, "input_schema": schema})
    }

    fn marked() -> Value {
        json!({"type": "text", "text": "x", "cache_control": {"type": "ephemeral"}})
    }

    #[tokio::test]
    async fn refuses_illegal_pairing() {
        let empty = json!({"type": "tool_result", "tool_use_id": "a", "content": [text("")]});
        let again = assistant(&[text("x")]);
        let cases = vec![
            ("assistant role only", history(&[user(&[call("a")])])),
            ("not unique", history(&[hi(), assistant(&[call("a"), call("a")]), user(&[result("a")])])),
            (
                "not unique",
                history(&[
                    hi(),
                    assistant(&[call("a")]),
                    user(&[result("a")]),
                    assistant(&[call("a")]),
                    user(&[result("a")]),
                ]),
            ),
            ("without a tool_result", block(call("a"))),
            (
                "without a tool_result",
                history(&[hi(), assistant(&[call("a"), call("b")]), user(&[result("a")])]),
            ),
            ("without a tool_result", history(&[hi(), assistant(&[call("a")]), again, user(&[result("a")])])),
            ("no tool_use", after_call(&[result("a"), result("b")])),
            ("no tool_use", after_call(&[result("a"), result("a")])),
            ("no tool_use", history(&[user(&[result("a")])])),
            ("must come before", after_call(&[text("x"), result("a")])),
            ("non-empty", after_call(&[empty])),
        ];
        refusals(MESSAGES, cases).await;
    }

    #[tokio::test]
    async fn refuses_illegal_blocks_and_messages() {
        let system = json!({"role": "system", "content": "x"});
        let cases = vec![
            ("first message", history(&[assistant(&[text("x")]), hi()])),
            ("last message", history(&[hi(), assistant(&[text("x")])])),
            ("neither user nor assistant", history(&[hi(), system, hi()])),
            ("at least one item", history(&[user(&[])])),
            ("non-empty", history(&[json!({"role": "user", "content": "\n"})])),
            ("non-empty", block(text(""))),
            ("type: field required", block(json!({"text": "x"}))),
            ("signature", block(json!({"type": "thinking", "thinking": "x"}))),
            (
                "cache_control: extra",
                block(json!({"type": "redacted_thinking", "data": "x", "cache_control": {}})),
            ),
            ("must match", block(call("not legal"))),
            ("must match", block(json!({"type": "tool_use", "id": "a", "name": "", "input": {}}))),
            (
                "must be an object",
                block(json!({"type": "tool_use", "id": "a", "name": "Read", "input": "{}"})),
            ),
        ];
        refusals(MESSAGES, cases).await;
    }

    #[tokio::test]
    async fn refuses_illegal_fields() {
        let object = || json!({"type": "object"});
        let cases = vec![
            ("only streams", fields(json!({"stream": false}))),
            ("model", fields(json!({"model": null}))),
            ("no JSON object", json!([])),
            ("max_tokens", fields(json!({"max_tokens": 0}))),
            ("system", fields(json!({"system": [text(" ")]}))),
            ("messages: a list", history(&[])),
            (
                "at most 4",
                fields(
                    json!({"system": [marked()], "messages": [user(&[marked(), marked(), marked(), marked()])]}),
                ),
            ),
            ("must match", fields(json!({"tools": [tool("my tool", &object())]}))),
            ("must be object", fields(json!({"tools": [tool("a", &json!({"type": "array"}))]}))),
            ("anyOf", fields(json!({"tools": [tool("a", &json!({"type": "object", "anyOf": []}))]}))),
            ("not unique", fields(json!({"tools": [tool("a", &object()), tool("a", &object())]}))),
        ];
        refusals(MESSAGES, cases).await;
    }

    #[test]
    fn accepts_a_legal_history() {
        let thinking = json!({"type": "thinking", "thinking": "", "signature": "s"});
        let bare = json!({"type": "tool_result", "tool_use_id": "a"});
        let body = fields(json!({
            "system": [marked()],
            "tools": [tool("a", &json!({"type": "object"})), {"type": "web_search_20250305", "name": "web_search"}],
            "messages": [
                hi(),
                assistant(&[thinking, text("x"), call("a"), call("b")]),
                user(&[result("b"), bare, marked()]),
                {"role": "assistant", "content": "so"},
                hi(),
                hi(),
            ],
        }));
        assert_eq!(legal::check(Protocol::Messages, &body), Ok(()));
    }
}

/// Chat Completions' shapes.
mod chat {
    use super::*;

    fn fields(fields: Value) -> Value {
        with(CHAT, fields)
    }

    fn history(messages: &[Value]) -> Value {
        fields(json!({"messages": messages}))
    }

    fn call(id: &str, name: &str, arguments: &Value) -> Value {
        json!({"id": id, "type": "function", "function": {"name": name, "arguments": arguments}})
    }

    fn read(id: &str) -> Value {
        call(id, "Read", &json!("{}"))
    }

    fn calls(calls: &[Value]) -> Value {
        json!({"role": "assistant", "content": null, "tool_calls": calls})
    }

    fn answer(id: &str) -> Value {
        json!({"role": "tool", "tool_call_id": id, "content": ""})
    }

    /// A history with this call and its answer.
    fn one(call: Value) -> Value {
        history(&[hi(), calls(&[call]), answer("a")])
    }

    fn tools(tools: &[(&str, Value)]) -> Value {
        let tools = tools.iter().map(
            |(name, schema)| json!({"type": "function", "function": {"name": name, "parameters": schema}}),
        );
        fields(json!({"tools": tools.collect::<Value>()}))
    }

    #[tokio::test]
    async fn refuses_illegal_pairing() {
        let null = json!({"role": "tool", "tool_call_id": "a"});
        let cases = vec![
            ("no tool call", history(&[hi(), answer("a")])),
            ("no tool call", history(&[hi(), calls(&[read("a")]), answer("a"), answer("a")])),
            ("a string or a list", history(&[hi(), calls(&[read("a")]), null])),
            ("without an answer: b", history(&[hi(), calls(&[read("a"), read("b")]), answer("a"), hi()])),
            ("without an answer: a", history(&[hi(), calls(&[read("a")])])),
            ("at least one", history(&[hi(), calls(&[])])),
            ("needs an id", one(read(""))),
            ("needs an id", one(call("a", "not legal", &json!("{}")))),
            ("needs an id", one(json!({"id": "a", "function": {"name": "Read", "arguments": "{}"}}))),
            ("a JSON object", one(call("a", "Read", &json!({})))),
            ("a JSON object", one(call("a", "Read", &json!("{\"cut")))),
            ("a JSON object", one(call("a", "Read", &json!("[]")))),
            ("not unique", history(&[hi(), calls(&[read("a"), read("a")]), answer("a"), answer("a")])),
        ];
        refusals(CHAT, cases).await;
    }

    #[tokio::test]
    async fn refuses_illegal_messages_and_tools() {
        let message = |role: &str, content: Value| json!({"role": role, "content": content});
        let object = || json!({"type": "object"});
        let cases = vec![
            ("only streams", fields(json!({"stream": null}))),
            ("messages: a list", history(&[])),
            ("unknown", history(&[hi(), message("function", json!("x"))])),
            ("must not be empty", history(&[message("user", json!(""))])),
            ("must not be empty", history(&[message("user", json!([]))])),
            ("must not be empty", history(&[hi(), message("assistant", Value::Null), hi()])),
            ("no user message", history(&[message("system", json!("x"))])),
            ("must match", tools(&[("a.b", object())])),
            ("must be object", tools(&[("a", json!({}))])),
            ("oneOf", tools(&[("a", json!({"type": "object", "oneOf": []}))])),
            ("not unique", tools(&[("a", object()), ("a", object())])),
        ];
        refusals(CHAT, cases).await;
    }

    #[test]
    fn accepts_a_legal_history() {
        let body = history(&[
            json!({"role": "system", "content": "x"}),
            hi(),
            json!({"role": "assistant", "content": "", "tool_calls": [read("a"), read("b")]}),
            answer("b"),
            answer("a"),
            hi(),
        ]);
        assert_eq!(legal::check(Protocol::Chat, &body), Ok(()));
    }
}

#[tokio::test]
async fn a_lenient_server_answers_anything() {
    let server = ModelServer::lenient(vec![Reply::text("fine")]).await;
    let body = json!({"messages": [{"role": "tool"}]});
    let (status, answer) = send(&server, &client(), MESSAGES, &body).await;
    assert_eq!((status, joined(&answer, "/delta/text").as_str()), (200, "fine"));
    assert_eq!(server.illegal(), Vec::<String>::new());
    assert_eq!(Protocol::of("/v1/messages/count_tokens"), None);
}
