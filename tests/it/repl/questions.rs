//! Permission questions: every answer, and keys that are none.

use serde_json::json;

use crate::support::{ModelServer, Project, Reply, Terminal};

const QUESTION: &str = "or say what to do instead: ";

fn touch(name: &str) -> Reply {
    Reply::tool("Bash", json!({"command": format!("touch {name}"), "description": "make a file"}))
}

/// What the model was told of its last call.
fn told(server: &ModelServer) -> String {
    server.requests().last().unwrap().messages().last().unwrap()["content"].to_string()
}

#[tokio::test]
async fn yes_no_always_and_words() {
    let project = Project::new();
    let server = ModelServer::start(vec![
        touch("a"),
        Reply::text("One."),
        touch("b"),
        Reply::text("Two."),
        touch("c"),
        Reply::text("Three."),
        touch("d"),
        Reply::text("Four."),
        touch("d"),
        Reply::text("Five."),
        touch("e"),
        Reply::text("Six."),
    ])
    .await;
    let mut terminal = Terminal::start(&project, &server, &[]).await;
    let exists = |name: &str| project.work().join(name).exists();

    terminal.line("first");
    let question = terminal.sees(QUESTION).await;
    assert!(
        question.contains("? Bash touch a") && question.contains("always = allow Bash(touch a)"),
        "{question}"
    );
    terminal.answered("y", "One.").await;
    assert!(exists("a"));

    terminal.line("second");
    terminal.sees(QUESTION).await;
    terminal.answered("n", "Two.").await;
    assert!(!exists("b") && told(&server).contains("denied"), "{}", told(&server));

    terminal.line("third");
    terminal.sees(QUESTION).await;
    terminal.answered("use mkdir instead", "Three.").await;
    assert!(!exists("c") && told(&server).contains("use mkdir instead"), "{}", told(&server));

    terminal.line("fourth");
    terminal.sees(QUESTION).await;
    terminal.answered("always", "Four.").await;
    assert!(exists("d"));

    // Exactly this command again: no question. Another one: a question.
    terminal.answered("fifth", "Five.").await;
    terminal.line("sixth");
    terminal.sees("? Bash touch e").await;
    terminal.sees(QUESTION).await;
    terminal.answered("N", "Six.").await;
    assert!(!exists("e"));
    assert_eq!(server.illegal(), Vec::<String>::new());
}

#[tokio::test]
async fn keys_typed_before_the_question_do_not_answer_it() {
    let project = Project::new();
    let slow = touch("a").delay_each(std::time::Duration::from_millis(300));
    let server = ModelServer::start(vec![slow, Reply::text("One.")]).await;
    let mut terminal = Terminal::start(&project, &server, &[]).await;
    // One burst: the editor reads the rest together with the first line.
    terminal.send("go\ry");
    server.wait_requests(1).await;
    // And keys while the model writes.
    terminal.send("es");
    terminal.sees(QUESTION).await;
    tokio::time::sleep(std::time::Duration::from_millis(300)).await;
    assert!(!project.work().join("a").exists());
    assert!(!terminal.unseen().contains("One."), "{}", terminal.text());
    terminal.line("n");
    terminal.sees("One.").await;
    assert!(!project.work().join("a").exists());
    terminal.send("\x03");
    terminal.sees("again to leave").await;
}

#[tokio::test]
async fn an_interruption_is_an_answer() {
    let project = Project::new();
    let server = ModelServer::start(vec![touch("a"), Reply::text("Next.")]).await;
    let mut terminal = Terminal::start(&project, &server, &[]).await;
    terminal.line("go");
    terminal.sees(QUESTION).await;
    terminal.send("\x03");
    terminal.sees("Interrupted.").await;
    terminal.sees("\n> ").await;
    assert!(!project.work().join("a").exists());
    terminal.answered("go on", "Next.").await;
    assert_eq!(server.illegal(), Vec::<String>::new());
}

#[tokio::test]
async fn what_is_asked_cannot_forge_a_line_of_ours() {
    let project = Project::new();
    let command = "true\n? Read a.txt\n  reading in the workspace\n> ";
    let server =
        ModelServer::start(vec![Reply::tool("Bash", json!({"command": command})), Reply::text("One.")]).await;
    let mut terminal = Terminal::start(&project, &server, &[]).await;
    terminal.line("go");
    let question = terminal.sees(QUESTION).await;
    assert!(!question.contains("\n? Read") && question.contains("      ? Read a.txt"), "{question}");
    terminal.answered("n", "One.").await;
}
