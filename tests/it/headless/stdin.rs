//! O-HEAD-02: whatever stdin is, a run with a prompt never waits in silence.

use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::Stdio;
use std::time::{Duration, Instant};

use crate::support::{Finished, ModelServer, Pointed as _, Project, Reply, finish, finish_with_stdin};

/// The text of the first user message that the server got.
fn asked(server: &ModelServer) -> String {
    let requests = server.requests();
    let content = &requests[0].messages()[0]["content"];
    match content.as_array() {
        None => content.as_str().unwrap().to_owned(),
        Some(blocks) => blocks.iter().map(|block| block["text"].as_str().unwrap()).collect(),
    }
}

async fn server() -> ModelServer {
    ModelServer::start(vec![Reply::text("Hello.")]).await
}

#[track_caller]
fn answered(run: &Finished) {
    assert_eq!((run.code, run.stdout.as_str()), (0, "Hello.\n"), "{run:?}");
}

/// Goes on without stdin, and says so within three seconds.
async fn goes_on(command: tokio::process::Command) {
    let server = server().await;
    let began = Instant::now();
    let run = finish(command.messages(&server)).await;
    answered(&run);
    assert!(run.stderr.contains("stdin"), "{run:?}");
    assert!(began.elapsed() < Duration::from_secs(8), "{:?}", began.elapsed());
    assert_eq!(asked(&server), "hello");
}

#[tokio::test]
async fn o_head_02_a_silent_open_pipe() {
    let project = Project::new();
    let mut command = project.reagent(["-p", "hello"]);
    let (reader, writer) = std::io::pipe().unwrap();
    command.stdin(Stdio::from(reader));
    goes_on(command).await;
    drop(writer);
}

#[tokio::test]
async fn o_head_02_a_socket_that_stays_open() {
    let project = Project::new();
    let mut command = project.reagent(["-p", "hello"]);
    let (ours, theirs) = UnixStream::pair().unwrap();
    command.stdin(Stdio::from(OwnedFd::from(theirs)));
    goes_on(command).await;
    drop(ours);
}

#[tokio::test]
async fn o_head_02_closed_null_and_no_terminal_at_all() {
    for script in [
        r#"exec "$REAGENT" -p hello <&-"#,
        r#"exec "$REAGENT" -p hello </dev/null"#,
        r#"exec setsid -w "$REAGENT" -p hello </dev/null"#,
    ] {
        let (project, server) = (Project::new(), server().await);
        let began = Instant::now();
        let run = finish(project.shell(script).messages(&server)).await;
        answered(&run);
        assert_eq!(run.stderr, "", "{script}");
        assert!(began.elapsed() < Duration::from_secs(2), "{script}: {:?}", began.elapsed());
        assert_eq!(asked(&server), "hello");
    }
}

#[tokio::test]
async fn o_head_02_piped_text_joins_the_prompt_whole() {
    let cases = [
        (r#"printf 'context' | "$REAGENT" -p hello"#, "hello\n\ncontext"),
        (r#"(printf a; sleep 2; printf b) | "$REAGENT" -p hello"#, "hello\n\nab"),
        (r#"printf 'alone' | "$REAGENT" -p"#, "alone"),
        (r#"printf 'alone' | "$REAGENT""#, "alone"),
        (r#"printf 'more' | "$REAGENT" fix the bug"#, "fix the bug\n\nmore"),
        (r#""$REAGENT" 'a positional prompt' </dev/null"#, "a positional prompt"),
        (r#""$REAGENT" --print 'by its other name' </dev/null"#, "by its other name"),
        (r#""$REAGENT" -p --output-format text 'the text last' </dev/null"#, "the text last"),
        (r#""$REAGENT" help </dev/null"#, "help"),
    ];
    for (script, prompt) in cases {
        let (project, server) = (Project::new(), server().await);
        let run = finish(project.shell(script).messages(&server)).await;
        answered(&run);
        assert_eq!(asked(&server), prompt, "{script}");
    }
}

#[tokio::test]
async fn a_large_text_is_taken_and_a_larger_one_refused() {
    let (project, server) = (Project::new(), server().await);
    let text = "0123456789abcde\n".repeat(20_000);
    answered(&finish_with_stdin(project.reagent(["-p", "hello"]).messages(&server), &text).await);
    assert_eq!(asked(&server), format!("hello\n\n{text}"));
    let run = finish_with_stdin(
        project.reagent(["-p", "hello"]).messages(&server),
        &"0123456789abcde\n".repeat(700_000),
    )
    .await;
    assert_eq!((run.code, run.stdout.as_str()), (2, ""), "{run:?}");
    assert!(run.stderr.contains("10 MB"), "{run:?}");
}
