//! Each phase of a request has a bound of its own.

use std::time::Duration;

use tokio::net::{TcpSocket, TcpStream};

use super::BOTH;
use crate::support::cli::{Project, say};
use crate::support::{ModelServer, Protocol, Reply};

#[tokio::test]
async fn a_server_without_headers_is_left_and_asked_again() {
    for protocol in BOTH {
        let server = ModelServer::start(vec![Reply::hang_before_headers(), Reply::text("Here.")]).await;
        let run = Project::new().run(&server, protocol).env("REAGENT_TIMEOUT_HEADERS", "0.4");
        let done = run.prompt("hi").await;
        assert_eq!(done.ended(), (0, "Here."));
        assert!(done.stderr.contains("no response headers within 0.4 s"), "{}", done.stderr);
        assert_eq!((server.requests().len(), server.connections(), done.retries()), (2, 2, 1));
        server.wait_closed_early(1).await;
    }
}

#[tokio::test]
async fn a_stream_without_a_first_event_is_left_and_asked_again() {
    for protocol in BOTH {
        let server = ModelServer::start(vec![Reply::raw_sse([""]).hang_after(0), Reply::text("Here.")]).await;
        let run = Project::new().run(&server, protocol).env("REAGENT_TIMEOUT_FIRST_EVENT", "0.4");
        let done = run.prompt("hi").await;
        assert_eq!(done.ended(), (0, "Here."));
        assert!(done.stderr.contains("no event within 0.4 s"), "{}", done.stderr);
        assert_eq!((server.requests().len(), done.retries()), (2, 1));
        server.wait_closed_early(1).await;
    }
}

#[tokio::test]
async fn a_stream_that_falls_silent_is_repeated_before_its_content_and_continued_after_it() {
    for protocol in BOTH {
        let server = ModelServer::start(vec![
            Reply::thinking("Hm.").hang_after(1),
            Reply::text("The answer is ").hang_after(1),
            Reply::text("42."),
        ])
        .await;
        let run = Project::new().run(&server, protocol).env("REAGENT_TIMEOUT_SILENCE", "0.4");
        let done = run.prompt("hi").await;
        assert_eq!(done.ended(), (0, "The answer is 42."));
        assert!(done.stderr.contains("sent nothing for 0.4 s"), "{}", done.stderr);
        assert_eq!((server.requests().len(), done.retries()), (3, 1));
        server.wait_closed_early(2).await;
        assert_eq!(server.illegal(), Vec::<String>::new());
    }
}

#[tokio::test]
async fn nothing_bounds_the_whole() {
    let slow = Reply::text("a long and slow answer").chunk_size(2).delay_each(Duration::from_millis(150));
    let server = ModelServer::start(vec![slow]).await;
    let mut run = Project::new().run(&server, Protocol::Messages);
    for name in ["HEADERS", "FIRST_EVENT", "SILENCE"] {
        run = run.env(&format!("REAGENT_TIMEOUT_{name}"), "0.8");
    }
    let done = run.prompt("hi").await;
    assert_eq!(done.ended(), (0, "a long and slow answer"));
    assert!(done.took > Duration::from_millis(1500));
}

#[tokio::test]
async fn a_connection_that_is_never_taken_is_given_up() {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind(([127, 0, 0, 1], 0).into()).unwrap();
    let listener = socket.listen(1).unwrap();
    let address = listener.local_addr().unwrap();
    // Fills the queue of connections that nobody accepts; the kernel then answers no further one.
    let mut waiting = Vec::new();
    while let Ok(stream) = tokio::time::timeout(Duration::from_millis(200), TcpStream::connect(address)).await
    {
        waiting.push(stream.unwrap());
        if waiting.len() > 64 {
            say("SKIPPED: this system takes connections without end");
            return;
        }
    }
    let run = Project::new().bare().env("OPENAI_BASE_URL", format!("http://{address}/v1"));
    let run = run.env("REAGENT_TIMEOUT_CONNECT", "0.3").args(&["--max-retries", "1"]);
    let done = run.prompt("hi").await;
    assert_eq!(done.code, 1, "{}", done.stderr);
    assert!(done.stderr.contains("did not take the connection in time"), "{}", done.stderr);
    assert_eq!(done.retries(), 1);
}

#[tokio::test]
async fn nobody_at_the_address_is_said_after_a_few_tries() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let run = Project::new().bare().env("ANTHROPIC_BASE_URL", format!("http://{address}"));
    let done = run.args(&["--max-retries", "1"]).prompt("hi").await;
    assert_eq!(done.code, 1, "{}", done.stderr);
    assert!(done.stderr.contains("Is the server running"), "{}", done.stderr);
    assert_eq!(done.retries(), 1);
}

#[tokio::test]
async fn a_timer_that_makes_no_sense_is_refused() {
    for value in ["0", "-1", "x", "1e9"] {
        let run = Project::new().bare().env("OPENAI_BASE_URL", "http://127.0.0.1:9/v1");
        let done = run.env("REAGENT_TIMEOUT_SILENCE", value).prompt("hi").await;
        assert_eq!(done.code, 2, "{value}: {}", done.stderr);
        assert!(done.stderr.contains("REAGENT_TIMEOUT_SILENCE"), "{}", done.stderr);
    }
}
