//! Stopping and leaving: Ctrl+C once and twice, Ctrl+D, signals; the terminal is as it was.

use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use serde_json::json;

use crate::support::{ModelServer, Project, Reply, Terminal};

/// The promise is 200 ms; a loaded test machine gets some more.
const SOON: Duration = Duration::from_secs(1);

#[tokio::test]
async fn ctrl_c_stops_a_stream_and_the_session_goes_on() {
    let project = Project::new();
    let endless = Reply::empty().chunks(2_000, "and on ").delay_each(Duration::from_millis(5));
    let server = ModelServer::start(vec![endless, Reply::text("Here I am.")]).await;
    let mut terminal = Terminal::start(&project, &server, &[]).await;
    terminal.line("talk");
    terminal.sees("and on and on and on").await;
    let began = Instant::now();
    terminal.send("\x03");
    terminal.sees("Interrupted.").await;
    terminal.sees("\n> ").await;
    assert!(began.elapsed() < SOON, "{:?}", began.elapsed());
    server.wait_closed_early(1).await;
    tokio::time::sleep(Duration::from_millis(1_100)).await;
    terminal.answered("are you there?", "Here I am.").await;
    assert_eq!(server.illegal(), Vec::<String>::new());
    assert!(server.requests()[1].body["messages"].to_string().contains("and on"), "what arrived is kept");
    terminal.send("\x04");
    assert_eq!(terminal.ended().await, 0);
}

#[tokio::test]
async fn ctrl_c_stops_a_command_with_its_tree() {
    let project = Project::new();
    let command = json!({"command": "sh -c 'echo $$ > pid; sleep 300' & wait"});
    let server = ModelServer::start(vec![Reply::tool("Bash", command), Reply::text("Here I am.")]).await;
    let mut terminal = Terminal::start(&project, &server, &["--allow-write"]).await;
    terminal.line("run it");
    terminal.sees("● Bash").await;
    let pid = loop {
        if let Ok(pid) = project.read("pid").trim().parse::<i32>() {
            break pid;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    };
    let began = Instant::now();
    terminal.send("\x03");
    terminal.sees("Interrupted.").await;
    terminal.sees("\n> ").await;
    assert!(began.elapsed() < SOON, "{:?}", began.elapsed());
    let gone = async {
        while nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), None).is_ok() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(5), gone).await.expect("the tree is gone");
    tokio::time::sleep(Duration::from_millis(1_100)).await;
    terminal.answered("are you there?", "Here I am.").await;
    assert_eq!(server.illegal(), Vec::<String>::new());
}

#[tokio::test]
async fn ctrl_c_twice_leaves_with_130() {
    let (project, server) = (Project::new(), ModelServer::start(vec![]).await);
    let mut terminal = Terminal::start(&project, &server, &[]).await;
    terminal.send("\x03");
    terminal.sees("Ctrl+C again to leave.").await;
    terminal.sees("> ").await;
    terminal.send("\x03");
    assert_eq!(terminal.ended().await, 130);
}

#[tokio::test]
async fn ctrl_c_twice_in_a_turn_leaves_with_130() {
    let project = Project::new();
    let server = ModelServer::start(vec![Reply::text("Begun and stuck").hang_after(1)]).await;
    let mut terminal = Terminal::start(&project, &server, &[]).await;
    terminal.line("go");
    terminal.sees("Begun").await;
    terminal.send("\x03");
    tokio::time::sleep(Duration::from_millis(100)).await;
    terminal.send("\x03");
    assert_eq!(terminal.ended().await, 130);
}

#[tokio::test]
async fn every_way_out_leaves_the_terminal_as_it_was() {
    let ways: [(&str, Option<Signal>, u32); 4] = [
        ("\x04", None, 0),
        ("/exit\r", None, 0),
        ("", Some(Signal::SIGTERM), 143),
        ("", Some(Signal::SIGHUP), 143),
    ];
    for in_turn in [false, true] {
        for (keys, signal, code) in ways {
            if in_turn && signal.is_none() {
                continue;
            }
            let project = Project::new();
            let server = ModelServer::start(vec![Reply::text("Begun and stuck").hang_after(1)]).await;
            let mut terminal = Terminal::bare(&project, &server, &[]);
            let before = terminal.settings();
            terminal.sees("> ").await;
            if in_turn {
                terminal.line("go");
                terminal.sees("Begun").await;
            }
            terminal.send(keys);
            if let Some(signal) = signal {
                terminal.signal(signal);
            }
            assert_eq!(terminal.ended().await, code, "{keys:?} {signal:?}");
            assert_eq!(terminal.settings(), before, "{keys:?} {signal:?} {in_turn}");
            let raw = String::from_utf8_lossy(&terminal.raw()).into_owned();
            let (on, off) = (raw.rfind("\x1b[?2004h"), raw.rfind("\x1b[?2004l"));
            assert!(off >= on, "{raw:?}");
        }
    }
}

#[tokio::test]
async fn a_session_can_be_continued() {
    let project = Project::new();
    let server = ModelServer::start(vec![Reply::text("One."), Reply::text("Two.")]).await;
    let mut terminal = Terminal::start(&project, &server, &[]).await;
    terminal.answered("first words", "One.").await;
    terminal.send("\x04");
    assert_eq!(terminal.ended().await, 0);
    let mut terminal = Terminal::start(&project, &server, &["--continue"]).await;
    assert!(terminal.text().contains("Going on with session"), "{}", terminal.text());
    terminal.answered("second words", "Two.").await;
    assert_eq!(server.requests()[1].messages().len(), 3);
}
