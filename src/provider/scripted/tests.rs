//! Scripts played call by call, faults included, and what is said of a wrong one.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use serde_json::json;

use super::*;
use crate::protocol::{Block, Message, MessageId, Role, Source, StopReason, Usage};
use crate::provider::{Failure, ModelEvent};

fn said(text: &str) -> Vec<Arc<Message>> {
    vec![Arc::new(Message {
        id: MessageId("m1".to_owned()),
        role: Role::User,
        source: Source::User,
        origin: None,
        blocks: vec![Block::text(text)],
    })]
}

fn request(messages: &[Arc<Message>]) -> Request<'_> {
    Request { system: "", tools: &[], messages, max_output: 1_000, effort: None }
}

/// The events of a call in short, an error as its message.
async fn call(model: &Scripted, text: &str) -> Vec<String> {
    let messages = said(text);
    let events = match model.stream(request(&messages)).await {
        Ok(events) => events,
        Err(error) => return vec![format!("! {:?} {}", error.kind, error.message)],
    };
    let short = |event: Result<ModelEvent, ProviderError>| match event {
        Ok(ModelEvent::Text(text)) => Some(text),
        Ok(ModelEvent::Thinking(text)) => Some(format!("({text})")),
        Ok(ModelEvent::ToolStart { id, name, .. }) => Some(format!("{name} {id}")),
        Ok(ModelEvent::ToolArgs { json, .. }) => Some(json),
        Ok(ModelEvent::Usage(_) | ModelEvent::ToolEnd { .. }) => None,
        Ok(other) => Some(format!("{other:?}")),
        Err(error) => Some(format!("! {:?} {}", error.kind, error.message)),
    };
    events.filter_map(|event| std::future::ready(short(event))).collect().await
}

async fn check(script: Value, calls: &[(&str, &[&str])]) {
    let model = Scripted::from_value(&script).unwrap();
    for (text, wanted) in calls {
        assert_eq!(call(&model, text).await, *wanted);
    }
}

const END: &str = "Stop(EndTurn)";

#[tokio::test]
async fn turns_come_in_order_and_then_done() {
    check(
        json!([{"text": "one"}, {"text": "two", "stop": "max_tokens"}]),
        &[
            ("a", &["one", END]),
            ("b", &["two", "Stop(MaxTokens)"]),
            ("c", &["Done.", END]),
            ("d", &["Done.", END]),
        ],
    )
    .await;
}

#[tokio::test]
async fn a_turn_holds_reasoning_text_pieces_and_calls() {
    check(
        json!({"turns": [{
            "thinking": "hm", "signature": "s", "text": "héllo", "chunk_size": 4, "chunks": 2, "chunk_text": "x",
            "tools": [{"name": "Read", "input": {"a": 1}}, {"name": "Bash", "id": "b7", "raw": "{bad"}]
        }]}),
        &[(
            "a",
            &[
                "(hm)", "Signature(\"s\")", "héll", "o", "x", "x", "Read call_1_1_1", "{\"a\"", ":1}", "Bash b7", "{bad",
                "Stop(ToolUse)",
            ],
        )],
    )
    .await;
}

#[tokio::test]
async fn turns_with_a_match_have_a_list_of_their_own() {
    check(
        json!([{"text": "one"}, {"match": "sun", "text": "hot"}, {"text": "two"}, {"match": "sun", "text": "hotter"}]),
        &[
            ("a", &["one", END]),
            ("the sun", &["hot", END]),
            ("b", &["two", END]),
            ("sun!", &["hotter", END]),
            ("sun", &["Done.", END]),
        ],
    )
    .await;
}

#[tokio::test]
async fn a_fault_before_content_strikes_and_then_the_turn_comes_whole() {
    check(
        json!([
            {"text": "one", "fault": {"type": "transient", "times": 2, "retry_after_ms": 5, "message": "busy"}},
            {"fault": {"type": "overflow"}},
            {"text": "two", "fault": {"type": "cut"}},
            {"text": "never", "fault": {"type": "auth", "times": -1, "message": "no"}}
        ]),
        &[
            ("a", &["! Transient { retry_after: Some(5ms) } busy"]),
            ("a", &["! Transient { retry_after: Some(5ms) } busy"]),
            ("a", &["one", END]),
            ("a", &["! ContextOverflow the script says: the conversation is too long"]),
            ("a", &["! Cut the script says: the stream broke"]),
            ("a", &["two", END]),
            ("a", &["! Auth no"]),
            ("a", &["! Auth no"]),
        ],
    )
    .await;
}

#[tokio::test]
async fn a_fault_after_content_ends_the_turn() {
    check(
        json!([
            {"text": "abcdef", "chunk_size": 2, "fault": {"type": "cut", "after_chunks": 2}},
            {"text": "gh", "fault": {"type": "quota", "after_chunks": 99, "message": "spent"}},
            {"text": "end"}
        ]),
        &[
            ("a", &["ab", "cd", "! Cut the script says: the stream broke"]),
            ("a", &["gh", "! Quota spent"]),
            ("a", &["end", END]),
        ],
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn pieces_wait_and_a_stall_never_ends() {
    let script = json!([{"text": "abcd", "chunk_size": 1, "delay_ms": 100}, {"text": "ab", "chunk_size": 1,
        "fault": {"type": "stall", "after_chunks": 1}}]);
    let model = Scripted::from_value(&script).unwrap();
    let begun = tokio::time::Instant::now();
    call(&model, "a").await;
    assert_eq!(begun.elapsed(), Duration::from_millis(400));
    let messages = said("a");
    let mut events = model.stream(request(&messages)).await.unwrap();
    assert_eq!(events.next().await, Some(Ok(ModelEvent::Text("a".to_owned()))));
    assert!(tokio::time::timeout(Duration::from_secs(1_000), events.next()).await.is_err());
}

#[tokio::test]
async fn usage_is_as_written_or_estimated() {
    let script = json!({"turns": [{"text": "a", "usage": {"input": 5, "cache_read": 7}}, {"text": "abcd"}],
        "window": 900, "price": {"input": 3}});
    let model = Scripted::from_value(&script).unwrap();
    let messages = said("question");
    let mut usages = Vec::new();
    for _ in 0..2 {
        let events: Vec<_> = model.stream(request(&messages)).await.unwrap().collect().await;
        usages.extend(events.into_iter().filter_map(|event| match event {
            Ok(ModelEvent::Usage(usage)) => Some(usage),
            _ => None,
        }));
    }
    let written = Usage { input: 5, cache_read: 7, ..Usage::default() };
    let estimated = Usage { input: 6, output: 1, ..Usage::default() };
    assert_eq!(usages, [written, estimated]);
    assert_eq!((model.info().window, model.info().price.unwrap().input), (900, 3.0));
}

#[test]
fn an_error_names_the_field_and_what_is_allowed() {
    let check = |script: Value, wanted: &str| {
        let found = Scripted::from_value(&script).unwrap_err().to_string();
        assert!(found.starts_with(wanted), "{found}");
    };
    check(json!(3), "the script: must be an object with the key `turns`, or a list of turns");
    check(json!({}), "the script: the key `turns` is missing");
    check(json!({"turn": []}), "turn: unknown key, did you mean `turns`?; allowed: turns, window");
    check(json!([3]), "turns[0]: must be an object; allowed: match");
    check(json!([{}, {"txt": ""}]), "turns[1].txt: unknown key, did you mean `text`?; allowed: match");
    check(json!([{"text": 1}]), "turns[0].text: must be a text");
    check(json!([{"chunks": 1}]), "turns[0]: `chunks` and `chunk_text` go together");
    check(json!([{"chunk_size": 0}]), "turns[0].chunk_size: must be a whole number, 1 or more");
    check(json!([{"delay_ms": -1}]), "turns[0].delay_ms: must be a whole number, 0 or more");
    check(json!([{"tools": [{"input": {}}]}]), "turns[0].tools[0]: the key `name` is missing");
    check(json!([{"tools": [{"name": "A", "input": []}]}]), "turns[0].tools[0].input: must be an object");
    check(json!([{"tools": [{"name": "A", "input": {}, "raw": ""}]}]), "turns[0].tools[0]: has both");
    check(
        json!([{"stop": "endturn"}]),
        "turns[0].stop: \"endturn\" is not known here, did you mean `end_turn`?",
    );
    check(json!([{"usage": {"inputs": 1}}]), "turns[0].usage.inputs: unknown key, did you mean `input`?");
    check(json!([{"fault": {}}]), "turns[0].fault: the key `type` is missing");
    check(
        json!([{"fault": {"type": "panic"}}]),
        "turns[0].fault.type: \"panic\" is not known here; allowed: tr",
    );
    check(json!([{"fault": {"type": "cut", "times": 0}}]), "turns[0].fault.times: must be a whole number, 1");
}

#[test]
fn a_file_has_comments_and_its_errors_have_lines() {
    let folder = tempfile::tempdir().unwrap();
    let load = |text: &str| {
        let path = folder.path().join("deploy.json");
        std::fs::write(&path, text).unwrap();
        Scripted::load(&path)
            .map_err(|error| error.to_string().replace(&format!("{}", path.display()), "FILE"))
    };
    let model = load("// a comment\n[{\"text\": \"a\"},]").unwrap();
    assert_eq!(model.info().id, ModelId::new("script", "deploy"));
    assert_eq!(
        load("{\n  \"turns\": [\n    {},\n    {\n      \"tools\": 1\n    }\n  ]\n}").unwrap_err(),
        "FILE:5: turns[1].tools: must be a list"
    );
    assert!(load("[\n{},\n{\"txt\": 1}]").unwrap_err().starts_with("FILE:3: turns[1].txt: unknown key"));
    assert!(load("[\n{'text': 1}]").unwrap_err().starts_with("FILE:2:2: the script is no JSON: "));
    let missing = Scripted::load(&folder.path().join("none.json")).unwrap_err().to_string();
    assert!(missing.starts_with("cannot read the script"), "{missing}");
}

#[tokio::test]
async fn the_example_plays() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/script.json");
    let model = Scripted::load(&path).unwrap();
    assert_eq!(call(&model, "What is in Cargo.toml?").await.last().unwrap(), "Stop(ToolUse)");
    let failure = Failure::Transient { retry_after: Some(Duration::from_millis(10)) };
    assert_eq!(call(&model, "…").await, [format!("! {failure:?} Overloaded, please wait.")]);
    assert_eq!(call(&model, "…").await, ["It describes a package.", END]);
    assert_eq!(call(&model, "the weather?").await.concat(), format!("I cannot see the sky from here.{END}"));
    let messages = said("…");
    let events: Vec<_> = model.stream(request(&messages)).await.unwrap().collect().await;
    assert_eq!(events.last(), Some(&Ok(ModelEvent::Stop(StopReason::EndTurn))));
}
