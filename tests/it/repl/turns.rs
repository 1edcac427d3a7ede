//! Turns and commands: what streams by, what is sent, what is forgotten.

use serde_json::{Value, json};

use crate::support::{ModelServer, Project, Reply, Terminal};

#[tokio::test]
async fn an_answer_streams_and_a_status_line_follows() {
    let project = Project::new();
    let server = ModelServer::start(vec![
        Reply::text("First piece, second piece.").usage(1200, 30, 0, 0),
        Reply::text("You said hello.").usage(1300, 20, 0, 0),
    ])
    .await;
    let mut terminal = Terminal::start(&project, &server, &[]).await;
    terminal.answered("hello", "First piece, second piece.\n").await;
    let text = terminal.text();
    let status = text.lines().find(|line| line.contains("ctx ~")).unwrap();
    assert!(status.contains("claude-") && status.contains("1230 tokens"), "{status}");
    assert!(!status.contains("127.0.0.1"), "{status}");
    terminal.answered("what did I say?", "You said hello.\n").await;
    assert_eq!(server.requests()[1].messages().len(), 3);
    terminal.line("/exit");
    assert_eq!(terminal.ended().await, 0);
    assert_eq!(server.illegal(), Vec::<String>::new());
}

#[tokio::test]
async fn pieces_show_before_the_answer_is_whole() {
    let project = Project::new();
    let server =
        ModelServer::start(vec![Reply::text("Begun but never ended").chunk_size(5).hang_after(2)]).await;
    let mut terminal = Terminal::start(&project, &server, &[]).await;
    terminal.line("go");
    terminal.sees("Begun").await;
    terminal.send("\x03");
    terminal.sees("Interrupted.").await;
}

#[tokio::test]
async fn a_text_on_the_command_line_is_sent_at_once() {
    let project = Project::new();
    let server = ModelServer::start(vec![Reply::text("Hello.")]).await;
    let mut terminal = Terminal::bare(&project, &server, &["say", "hello"]);
    terminal.sees("Hello.\n").await;
    terminal.sees("\n> ").await;
    assert!(server.requests()[0].messages()[0].to_string().contains("say hello"));
}

#[tokio::test]
async fn commands_are_never_sent() {
    let project = Project::new();
    let server = ModelServer::start(vec![]).await;
    let mut terminal = Terminal::start(&project, &server, &[]).await;
    let help = terminal.answered("/help", "twice leaves").await;
    for command in ["/help", "/status", "/model", "/init", "/clear", "/exit"] {
        assert!(help.contains(command), "{help}");
    }
    let status = terminal.answered("/status", "cost ").await;
    assert!(status.contains(project.work().to_str().unwrap()) && status.contains(".jsonl"), "{status}");
    terminal.answered("/nonsense now", "There is no command /nonsense").await;
    terminal.answered("/model", "change it with /model NAME").await;
    assert_eq!(server.requests().len(), 0);
    // A path is no command.
    terminal.answered("/usr/bin/env is what?", "Done.\n").await;
    assert_eq!(server.requests().len(), 1);
}

#[tokio::test]
async fn the_model_changes_for_the_next_request() {
    let project = Project::new();
    let server = ModelServer::start(vec![Reply::text("One."), Reply::text("Two.")]).await;
    let mut terminal = Terminal::start(&project, &server, &[]).await;
    terminal.answered("hello", "One.\n").await;
    terminal.answered("/model haiku", "Model: claude-haiku").await;
    terminal.answered("hello again", "Two.\n").await;
    let models: Vec<Value> = server.requests().iter().map(|request| request.body["model"].clone()).collect();
    assert!(
        models[0].as_str().unwrap().contains("sonnet") && models[1].as_str().unwrap().contains("haiku"),
        "{models:?}"
    );
    terminal.answered("/model", "model claude-haiku").await;
    assert_eq!(server.illegal(), Vec::<String>::new());
}

#[tokio::test]
async fn clear_forgets_every_message() {
    let project = Project::new();
    let replies = vec![
        Reply::text("Looking.").call("Glob", json!({"pattern": "*"})),
        Reply::text("Nothing is here."),
        Reply::text("I know of nothing."),
    ];
    let server = ModelServer::start(replies).await;
    let mut terminal = Terminal::start(&project, &server, &[]).await;
    terminal.answered("remember MARK-OLD", "Nothing is here.\n").await;
    terminal.answered("/clear", "forgotten").await;
    terminal.answered("what is MARK-NEW?", "I know of nothing.\n").await;
    let request = &server.requests()[2];
    assert_eq!(request.messages().len(), 1, "{:?}", request.messages());
    let text = request.body["messages"].to_string();
    assert!(text.contains("MARK-NEW") && !text.contains("MARK-OLD") && !text.contains("Looking"), "{text}");
    assert_eq!(server.illegal(), Vec::<String>::new());
}

#[tokio::test]
async fn o_tui_01_foreign_text_never_steers_the_terminal() {
    let foreign = "A\x1b]52;c;ZXZpbA==\x07B\x1b]0;owned\x07C\x1b[2J\x1b[10AD\x1b[6nE\x1bcF\x1bPq\x1b\\G\u{9b}5mH\u{202e}I\x1b]unterminated";
    let project = Project::new();
    project.write("evil.txt", foreign);
    project.write(&format!("name\x1b[2J{}", ".txt"), "x");
    let edit = json!({"file_path": "evil.txt", "old_string": "A", "new_string": format!("Z{foreign}")});
    let server = ModelServer::start(vec![
        Reply::thinking(foreign).say(foreign).call("Read", json!({"file_path": "evil.txt"})),
        Reply::tool("Bash", json!({"command": format!("cat evil.txt; exit 3 # {foreign}")})),
        Reply::tool("Edit", edit),
        Reply::tool(&format!("No{foreign}"), json!({"file_path": foreign})),
        Reply::tool("Glob", json!({"pattern": foreign, "path": foreign})),
        Reply::provider_error(400, foreign),
    ])
    .await;
    let mut terminal = Terminal::start(&project, &server, &["--allow-write"]).await;
    terminal.line("go");
    // Every request is answered; the last one with an error that ends the turn.
    server.wait_requests(6).await;
    terminal.sees("ctx ~").await;
    terminal.sees("> ").await;
    let raw = terminal.raw();
    let text = String::from_utf8_lossy(&raw);
    for sequence in [
        "\x1b]52", "\x1b]0", "\x1b]u", "\x07", "\x1b[2J", "\x1b[10A", "\x1b[6n", "\x1bc", "\x1bP", "\x1b\\",
        "\u{9b}", "\u{202e}",
    ] {
        assert!(!text.contains(sequence), "{sequence:?} in {text:?}");
    }
    let shown = terminal.text();
    for letter in
        ["A\\u{1b}]52;", "\\u{7}B\\u{1b}]0;owned", "\\u{7}C\\u{1b}[2J", "[10AD", "E\\u{1b}cF", "G\\u{9b}"]
    {
        assert!(shown.contains(letter), "{letter} in {shown}");
    }
    // Nothing was typed into the prompt by an answer of the terminal.
    terminal.answered("/model", "change it with").await;
}
