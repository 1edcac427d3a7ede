//! Whole conversations with the offline model, results as tools give them.

use std::sync::Arc;

use serde_json::{Value, json};

use super::*;
use crate::protocol::{Block, Message, MessageId, Role, Source, ToolSpec};

const ALL: &[&str] = &["Read", "Write", "Edit", "Glob", "Grep", "Bash", "Agent"];

struct Talk {
    messages: Vec<Arc<Message>>,
    tools: Vec<ToolSpec>,
}

#[derive(Debug, PartialEq)]
enum Reply {
    Call(String, Value),
    Text(String),
    Error(Failure, String),
}

impl Talk {
    fn new(request: &str) -> Self {
        let mut talk = Self { messages: Vec::new(), tools: Vec::new() };
        talk.offer(ALL);
        talk.say(Role::User, Source::User, vec![Block::text(request)]);
        talk
    }

    fn offer(&mut self, names: &[&str]) {
        let schema = json!({"type": "object", "properties": {"-n": {}, "head_limit": {}}});
        let spec = |name: &&str| ToolSpec {
            name: (*name).to_owned(),
            description: String::new(),
            input_schema: schema.clone(),
        };
        self.tools = names.iter().map(spec).collect();
    }

    fn say(&mut self, role: Role, source: Source, blocks: Vec<Block>) {
        let id = MessageId(format!("m{}", self.messages.len()));
        self.messages.push(Arc::new(Message { id, role, source, origin: None, blocks }));
    }

    async fn reply(&mut self) -> Reply {
        let model = OfflineModel::default();
        let request = Request {
            system: "You are a test.",
            tools: &self.tools,
            messages: &self.messages,
            max_output: 8_192,
            effort: None,
        };
        let events: Vec<_> = model.stream(request).await.unwrap().collect().await;
        let mut text = String::new();
        let mut call = None;
        let mut ends = Vec::new();
        for event in events {
            match event {
                Ok(ModelEvent::Text(piece)) => text.push_str(&piece),
                Ok(ModelEvent::ToolStart { id, name, .. }) => call = Some((id, name, String::new())),
                Ok(ModelEvent::ToolArgs { json, .. }) => call.as_mut().unwrap().2.push_str(&json),
                Ok(ModelEvent::ToolEnd { .. }) => {}
                Ok(ModelEvent::Usage(usage)) => assert!(usage.input > 0 && usage.output > 0),
                Ok(ModelEvent::Stop(reason)) => ends.push(reason),
                Ok(other) => panic!("{other:?}"),
                Err(error) => return Reply::Error(error.kind, error.message),
            }
        }
        let Some((id, name, arguments)) = call else {
            assert_eq!(ends, [StopReason::EndTurn]);
            return Reply::Text(text);
        };
        assert_eq!((text.as_str(), ends.as_slice()), ("", [StopReason::ToolUse].as_slice()));
        let input: Value = serde_json::from_str(&arguments).unwrap();
        let block = Block::ToolUse { id, name: name.clone(), input: input.clone() };
        self.say(Role::Assistant, Source::Model, vec![block]);
        Reply::Call(name, input)
    }

    fn result(&mut self, text: &str, is_error: bool) {
        let Some(Block::ToolUse { id, .. }) = self.messages.last().and_then(|m| m.blocks.first()) else {
            panic!("no call")
        };
        let block = Block::ToolResult { tool_use_id: id.clone(), content: vec![Block::text(text)], is_error };
        self.say(Role::User, Source::Tool, vec![block]);
    }

    async fn calls(&mut self, name: &str, input: Value, result: &str) {
        assert_eq!(self.reply().await, Reply::Call(name.to_owned(), input));
        self.result(result, false);
    }

    async fn fails(&mut self, name: &str, result: &str) {
        let reply = self.reply().await;
        assert!(matches!(&reply, Reply::Call(called, _) if called == name), "{reply:?}");
        self.result(result, true);
    }

    async fn answers(&mut self, wanted: &str) {
        assert_eq!(self.reply().await, Reply::Text(wanted.to_owned()));
        assert_eq!(self.reply().await, Reply::Text(wanted.to_owned()), "asked again");
    }
}

#[tokio::test]
async fn the_demo_runs_edits_and_runs_again() {
    let mut talk =
        Talk::new("run `cargo test`, then replace `a - b` with `a + b` in src/lib.rs, then run `cargo test`");
    let test = || json!({"command": "cargo test"});
    talk.fails(
        "Bash",
        "running 1 test\n\ntest result: FAILED. 0 passed; 1 failed\n[exit code 101 after 0.3 s]",
    )
    .await;
    let read = "     1\tfn add(a: i32, b: i32) -> i32 {\n     2\t    a - b\n     3\t}\n";
    talk.calls("Read", json!({"file_path": "src/lib.rs"}), read).await;
    let edit = json!({"file_path": "src/lib.rs", "old_string": "a - b", "new_string": "a + b"});
    talk.calls("Edit", edit, "Edited src/lib.rs.").await;
    talk.calls("Bash", test(), "test result: ok. 1 passed; 0 failed").await;
    talk.answers(
        "1. `cargo test`: exit code 101. Last lines of its output:\n   \
         running 1 test\n   test result: FAILED. 0 passed; 1 failed\n\
         2. Changed src/lib.rs: `a - b` → `a + b` (1 place).\n\
         3. `cargo test`: exit code 0. Last lines of its output:\n   test result: ok. 1 passed; 0 failed",
    )
    .await;
}

#[tokio::test]
async fn files_are_listed_and_counted() {
    let mut talk = Talk::new("list files in src");
    talk.calls("Glob", json!({"pattern": "**/*", "path": "src"}), "src/a.rs\nsrc/b.rs").await;
    talk.answers("2 files in src:\n   src/a.rs\n   src/b.rs").await;

    let mut talk = Talk::new("统计文件数量");
    talk.calls("Glob", json!({"pattern": "**/*"}), "a\nb\nc").await;
    talk.answers("共有 3 个文件。").await;

    let mut talk = Talk::new("count files");
    talk.calls("Glob", json!({"pattern": "**/*"}), "a\nb\n[2 of 9 files are listed, newest first.]").await;
    talk.answers("9 files.").await;

    let mut talk = Talk::new("replace 1 with 2 in a.txt");
    talk.calls("Read", json!({"file_path": "a.txt"}), "     1\tx = 1\n").await;
    let edit = json!({"file_path": "a.txt", "old_string": "1", "new_string": "2"});
    talk.calls("Edit", edit, "Edited a.txt.").await;
    talk.answers("Changed a.txt: `1` → `2` (1 place).").await;
}

#[tokio::test]
async fn text_is_found_and_counted() {
    let mut talk = Talk::new("find `a.b()`");
    let input = json!({"pattern": "a\\.b\\(\\)", "output_mode": "content", "-n": true});
    talk.calls("Grep", input, "src/x.rs:3:  a.b();\ny.rs:9:a.b()").await;
    talk.answers("2 matches of `a.b()` in 2 files:\n   src/x.rs:3: a.b();\n   y.rs:9: a.b()").await;

    let mut talk = Talk::new("查找 TODO");
    let input = json!({"pattern": "TODO", "output_mode": "content", "-n": true});
    talk.calls("Grep", input, "No matches found").await;
    talk.answers("没有找到 `TODO`。").await;

    let mut talk = Talk::new("count occurrences of foo in src");
    let input = json!({"pattern": "foo", "output_mode": "count", "path": "src", "head_limit": 0});
    talk.calls("Grep", input, "src/a.rs:2\nsrc/b.rs:3").await;
    talk.answers("`foo`: 5 matching lines in src, in 2 files.").await;

    let mut talk = Talk::new("how many lines does src/a.rs have?");
    let input = json!({"pattern": "^", "output_mode": "count", "path": "src/a.rs", "head_limit": 0});
    talk.calls("Grep", input, "src/a.rs:120").await;
    talk.answers("120 lines in src/a.rs.").await;

    let mut talk = Talk::new("统计 a.rs 的行数");
    talk.offer(&["Read"]);
    talk.calls("Read", json!({"file_path": "a.rs"}), "     1\tx\n     2\ty").await;
    talk.answers("a.rs 中共有 2 行。").await;
}

#[tokio::test]
async fn a_definition_is_looked_for_before_mentions() {
    let mut talk = Talk::new("where is add defined?");
    talk.fails_not("Grep", "src/lib.rs:1:pub fn add() {}").await;
    talk.answers("Definition of `add`:\n   src/lib.rs:1: pub fn add() {}").await;

    let mut talk = Talk::new("add 在哪里定义");
    talk.fails_not("Grep", "No matches found").await;
    let input = json!({"pattern": "add", "output_mode": "content", "-n": true});
    talk.calls("Grep", input, "a.txt:1:add").await;
    talk.answers("没有找到 `add` 的定义。找到 `add` 1 处：\n   a.txt:1: add").await;
}

impl Talk {
    /// A call whose input does not matter here.
    async fn fails_not(&mut self, name: &str, result: &str) {
        let reply = self.reply().await;
        assert!(matches!(&reply, Reply::Call(called, _) if called == name), "{reply:?}");
        self.result(result, false);
    }
}

#[tokio::test]
async fn files_are_shown_and_created() {
    let mut talk = Talk::new("show lines 2-3 of \"my notes.txt\"");
    let input = json!({"file_path": "my notes.txt", "offset": 2, "limit": 2});
    talk.calls("Read", input, "     2\tb\n     3\tc\n").await;
    talk.answers("my notes.txt (2 lines):\n   b\n   c").await;

    let mut talk = Talk::new("创建 a.txt 内容为 你好");
    talk.calls("Write", json!({"file_path": "a.txt", "content": "你好"}), "created").await;
    talk.answers("已创建 a.txt（1 行，6 字节）。").await;
}

#[tokio::test]
async fn a_failed_step_stops_the_rest() {
    let mut talk = Talk::new("replace foo with bar in a.txt, then run `ls`");
    talk.fails("Read", "a.txt: no such file (os error 2)").await;
    talk.answers(
        "1. Failed: replace `foo` with `bar` in a.txt. The reason:\n   a.txt: no such file (os error 2)\n\
         Stopped there. Not done: run `ls`.",
    )
    .await;

    let mut talk = Talk::new("把 a.txt 中的 foo 替换为 bar，然后运行 `ls`");
    talk.calls("Read", json!({"file_path": "a.txt"}), "     1\tnothing").await;
    let edit = json!({"file_path": "a.txt", "old_string": "foo", "new_string": "bar", "replace_all": true});
    assert_eq!(talk.reply().await, Reply::Call("Edit".to_owned(), edit));
    talk.result("old_string was not found", true);
    talk.answers(
        "1. 失败：把 a.txt 中的 `foo` 替换为 `bar`。原因：\n   old_string was not found\n到此停止。未执行：运行 `ls`。",
    )
    .await;
}

#[tokio::test]
async fn a_refusal_is_told_with_its_hint() {
    let mut talk = Talk::new("run `rm x`; list files");
    talk.fails("Bash", "Permission denied for Bash: run with --allow-write to allow it.").await;
    talk.answers(
        "1. Refused: run `rm x`. The reason:\n   Permission denied for Bash: run with --allow-write to allow it.\n\
         Stopped there. Not done: list files.",
    )
    .await;
}

#[tokio::test]
async fn a_tool_that_is_not_offered_is_named() {
    let mut talk = Talk::new("use Agent to find TODO");
    talk.offer(&["Read"]);
    talk.answers("Not done: use Agent to find TODO. It needs the tool Agent, which is not offered here.")
        .await;
}

#[tokio::test]
async fn a_child_reports_or_says_that_it_did_not_understand() {
    let mut talk = Talk::new("用 Agent 查找 TODO");
    let input = json!({"description": "查找 TODO", "prompt": "查找 TODO"});
    talk.calls("Agent", input, "[Agent: 查找 TODO]\n没有找到 `TODO`。").await;
    talk.answers("Agent（查找 TODO）报告：\n   没有找到 `TODO`。").await;

    let mut talk = Talk::new("use Agent to think hard");
    let child = Talk::new("think hard").reply().await;
    let Reply::Error(Failure::NoModel, message) = child else { panic!("{child:?}") };
    talk.fails("Agent", &format!("[Agent: Think hard] failed (no model)\n{message}")).await;
    assert_eq!(talk.reply().await, Reply::Error(Failure::NoModel, message));
}

#[tokio::test]
async fn what_no_rule_understands_ends_without_a_call() {
    for (request, signs) in [
        ("make it faster", ["\"make it faster\"", "ANTHROPIC_API_KEY", "--model auto"]),
        ("把它变快", ["“把它变快”", "OPENAI_BASE_URL", "--model auto"]),
    ] {
        let reply = Talk::new(request).reply().await;
        let Reply::Error(Failure::NoModel, message) = reply else { panic!("{reply:?}") };
        assert!(message.lines().count() <= 8, "{message}");
        assert!(signs.iter().all(|sign| message.contains(sign)), "{message}");
    }
}

#[tokio::test]
async fn only_what_came_after_the_newest_request_counts() {
    let mut talk = Talk::new("list files");
    talk.calls("Glob", json!({"pattern": "**/*"}), "a").await;
    talk.answers("1 file:\n   a").await;
    talk.say(Role::Assistant, Source::Model, vec![Block::text("1 file:\n   a")]);
    talk.say(Role::User, Source::User, vec![Block::text("list files")]);
    talk.calls("Glob", json!({"pattern": "**/*"}), "a\nb").await;
    talk.say(Role::User, Source::Host, vec![Block::text("reminder: think")]);
    talk.answers("2 files:\n   a\n   b").await;
    let ids: Vec<_> = talk.messages.iter().flat_map(|m| m.calls()).map(|call| call.id).collect();
    assert_eq!(ids.len(), 2);
    assert_ne!(ids[0], ids[1]);
}

#[tokio::test]
async fn text_is_streamed_in_pieces() {
    let text = "word ".repeat(40);
    let pieces: Vec<String> = words(&text).collect();
    assert!(pieces.len() > 3);
    assert_eq!(pieces.concat(), text);
}
