//! Typing: several lines, pastes, and what is typed while a turn runs.

use std::time::Duration;

use serde_json::json;

use crate::support::{ModelServer, Project, Recorded, Reply, Terminal};

/// The texts of the user's messages in a request.
fn said(request: &Recorded) -> Vec<String> {
    let users = request.messages().iter().filter(|message| message["role"] == "user");
    let texts = users.flat_map(|message| match message["content"].as_array() {
        None => vec![message["content"].as_str().unwrap().to_owned()],
        Some(blocks) => blocks.iter().filter_map(|block| block["text"].as_str()).map(str::to_owned).collect(),
    });
    texts.collect()
}

async fn check(keys: &[&str], prompt: &str) {
    let project = Project::new();
    let server = ModelServer::start(vec![]).await;
    let mut terminal = Terminal::start(&project, &server, &[]).await;
    for piece in keys {
        terminal.send(piece);
        // A terminal sends in bursts; so does a person.
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    terminal.sees("Done.\n").await;
    terminal.sees("\n> ").await;
    let requests = server.requests();
    assert_eq!(requests.len(), 1, "{keys:?}");
    assert_eq!(said(&requests[0]), [prompt], "{keys:?}");
}

#[tokio::test]
async fn a_backslash_goes_on_in_the_next_line() {
    check(&["one\\\r", "two\\\r", "three\r"], "one\ntwo\nthree").await;
}

#[tokio::test]
async fn o_tui_03_a_paste_of_several_lines_is_one_prompt() {
    check(&["\x1b[200~line1\nline2\r\nline3\x1b[201~", "\r"], "line1\nline2\nline3").await;
    let split = ["\x1b[200~", "line1\nl", "ine2\r\nl", "ine3\x1b[", "201~", "\r"];
    check(&split, "line1\nline2\nline3").await;
    check(&["Explain: ", "\x1b[200~a\nb\x1b[201~", " thanks\r"], "Explain: a\nb thanks").await;
    check(&["\x1b[200~cc -o x \\\n  x.c\x1b[201~\r"], "cc -o x \\\n  x.c").await;
}

#[tokio::test]
async fn wide_characters_and_editing() {
    check(&["你好a，\x7f\x7fb é\r"], "你好b é").await;
}

#[tokio::test]
async fn lines_typed_ahead_are_not_lost() {
    let project = Project::new();
    let server =
        ModelServer::start(vec![Reply::text("One."), Reply::text("Two."), Reply::text("Three.")]).await;
    let mut terminal = Terminal::start(&project, &server, &[]).await;
    // In one burst, so that the editor has read more than the first line.
    terminal.send("first\rsecond\rthird\r");
    terminal.sees("One.").await;
    terminal.sees("Two.").await;
    terminal.sees("Three.").await;
    let last = &server.requests()[2];
    assert_eq!(said(last), ["first", "second", "third"]);
}

#[tokio::test]
async fn what_is_typed_while_a_turn_runs_is_queued_or_kept() {
    let project = Project::new();
    let server = ModelServer::start(vec![
        Reply::text("Working.").call("Bash", json!({"command": "while [ ! -e go ]; do sleep 0.05; done"})),
        Reply::text("I have read your note."),
        Reply::text("And the draft."),
    ])
    .await;
    let mut terminal = Terminal::start(&project, &server, &["--allow-write"]).await;
    terminal.line("work");
    terminal.sees("● Bash").await;
    terminal.send("a note\r");
    terminal.sees("[queued: a note]").await;
    terminal.send("/model\r");
    terminal.sees("[after this turn: /model]").await;
    terminal.send("a dra");
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert!(!terminal.unseen().contains("a dra"), "typing is not echoed into the answer");
    project.write("go", "");
    terminal.sees("I have read your note.").await;
    terminal.sees("change it with /model NAME").await;
    terminal.sees("> a dra").await;
    terminal.line("ft");
    terminal.sees("And the draft.").await;
    let requests = server.requests();
    assert!(said(&requests[1]).contains(&"a note".to_owned()), "{:?}", said(&requests[1]));
    assert_eq!(said(&requests[2]).last().unwrap(), "a draft");
    assert_eq!(requests.len(), 3);
    assert_eq!(server.illegal(), Vec::<String>::new());
}

#[tokio::test]
async fn a_line_that_comes_too_late_for_the_turn_opens_the_next() {
    let project = Project::new();
    let slow =
        Reply::text("A slow answer to the first.").chunk_size(9).delay_each(Duration::from_millis(150));
    let server = ModelServer::start(vec![slow, Reply::text("Second answer.")]).await;
    let mut terminal = Terminal::start(&project, &server, &[]).await;
    terminal.line("first");
    terminal.sees("A slow").await;
    terminal.line("second");
    terminal.sees("Second answer.").await;
    terminal.sees("\n> ").await;
    terminal.answered("/model", "change it with").await;
    assert_eq!(server.requests().len(), 2);
}
