//! O-HEAD-03: stdout carries the contract only, write errors are handled, and signals are heard at any time.

use std::process::Stdio;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, BufReader};
use tokio::process::Child;

use crate::support::{ModelServer, Pointed as _, Project, Reply, code, finish, finished};

const CHUNK: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcde\n";
/// Three megabytes.
const CHUNKS: usize = 48 * 1024;

fn large() -> Reply {
    Reply::empty().chunks(CHUNKS, CHUNK)
}

fn signal(child: &Child, signal: Signal) {
    let pid = i32::try_from(child.id().expect("it runs")).unwrap();
    kill(Pid::from_raw(pid), signal).unwrap();
}

#[tokio::test]
async fn o_head_03_a_slow_reader_gets_every_byte() {
    for (format, bytes) in [("text", CHUNKS * CHUNK.len()), ("stream-json", CHUNKS * (CHUNK.len() + 1) * 2)] {
        let (project, server) = (Project::new(), ModelServer::start(vec![large()]).await);
        let script = format!(
            r#"{{ "$REAGENT" -p x --output-format {format}; echo "code $?" >&2; }} | sh -c 'sleep 5; wc -c'"#
        );
        let run = finish(project.shell(&script).messages(&server)).await;
        let count: usize = run.stdout.trim().parse().unwrap();
        assert!(count >= bytes && count < bytes + 5_000, "{format}: {count} of {bytes}");
        assert!(run.stderr.contains("code 0"), "{run:?}");
    }
}

#[tokio::test]
async fn o_head_03_a_reader_that_stops_early_ends_the_run_quietly() {
    let project = Project::new();
    let server = ModelServer::start(vec![
        Reply::text("first").call("NoSuchTool", serde_json::json!({})),
        large(),
        large(),
    ])
    .await;
    let script = r#"{ "$REAGENT" -p x --output-format stream-json; echo "code $?" >&2; } | head -n1"#;
    let run = finish(project.shell(script).messages(&server)).await;
    assert_eq!(run.lines()[0]["subtype"], "init");
    assert_eq!(run.lines().len(), 1);
    let lines: Vec<&str> = run.stderr.lines().collect();
    assert!(lines.len() <= 2 && lines.last() == Some(&"code 1"), "{run:?}");
    assert!(!run.stderr.contains("panic"), "{run:?}");
}

#[tokio::test]
async fn o_head_03_a_full_disk_is_an_error() {
    for format in ["text", "json", "stream-json"] {
        let (project, server) = (Project::new(), ModelServer::start(vec![Reply::text("Hello.")]).await);
        let script = format!(r#"exec "$REAGENT" -p x --output-format {format} >/dev/full"#);
        let run = finish(project.shell(&script).messages(&server)).await;
        assert_eq!(run.code, 1, "{format}: {run:?}");
        assert!(run.stderr.contains("cannot write to stdout"), "{format}: {run:?}");
    }
}

#[tokio::test]
async fn o_head_03_no_foreign_line_on_stdout() {
    let project = Project::new();
    project.settings(r#"{"futureKey": {"a": 1}, "permisions": {}}"#);
    let server = ModelServer::start(vec![Reply::provider_error(529, "busy"), large()]).await;
    for trace in ["1", "json"] {
        let command = project
            .reagent(["-p", "x", "--output-format", "stream-json", "--model", "unheard-of"])
            .messages(&server)
            .with("TRACE", trace);
        let run = finish(command).await;
        assert_eq!(run.code, 0, "{run:?}");
        assert_eq!(run.result()["subtype"], "success");
        assert!(run.stderr.contains("futureKey") && run.stderr.contains("unheard-of"), "{}", run.stderr);
    }
}

/// Starts a run whose answer stands still after its beginning.
async fn standing(format: &str) -> (Project, ModelServer, Child) {
    let project = Project::new();
    let server =
        ModelServer::start(vec![Reply::text("a beginning and then nothing more").hang_after(1)]).await;
    let child = project.reagent(["-p", "x", "--output-format", format]).messages(&server).spawn().unwrap();
    server.wait_requests(1).await;
    (project, server, child)
}

#[tokio::test]
async fn o_head_03_sigint_ends_with_130_and_sigterm_with_143() {
    for (sent, expected) in [(Signal::SIGINT, 130), (Signal::SIGTERM, 143), (Signal::SIGHUP, 143)] {
        for format in ["text", "json", "stream-json"] {
            let (project, server, child) = standing(format).await;
            let began = Instant::now();
            signal(&child, sent);
            let run = finished(child).await;
            assert!(began.elapsed() < Duration::from_secs(2), "{:?}", began.elapsed());
            assert_eq!(run.code, expected, "{format}: {run:?}");
            if format == "text" {
                assert_eq!(run.stdout, "");
            } else {
                let result = run.result();
                assert_eq!(
                    (&result["is_error"], &result["terminal_reason"]),
                    (&true.into(), &"aborted".into())
                );
            }
            server.wait_closed_early(1).await;
            let log = project.log();
            assert_eq!(log.last().unwrap()["event"]["outcome"]["type"], "aborted");
        }
    }
}

#[tokio::test]
async fn a_reader_that_never_reads_holds_no_signal_up() {
    let (project, server) = (Project::new(), ModelServer::start(vec![large()]).await);
    let mut child = project.reagent(["-p", "x"]).messages(&server).spawn().unwrap();
    let mut stdout = child.stdout.take().unwrap();
    // The first byte comes when the answer is whole; what follows fills the pipe.
    stdout.read_exact(&mut [0]).await.unwrap();
    signal(&child, Signal::SIGTERM);
    let status = tokio::time::timeout(Duration::from_secs(5), child.wait()).await.expect("it ends").unwrap();
    assert_eq!(code(status), 143);
}

#[tokio::test]
async fn a_second_sigint_ends_at_once() {
    let (project, server) = (Project::new(), ModelServer::start(vec![large()]).await);
    let mut child = project
        .reagent(["-p", "x", "--output-format", "stream-json", "--include-partial-messages"])
        .messages(&server)
        .stdin(Stdio::null())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(lines.next_line().await.unwrap().unwrap().contains("init"));
    signal(&child, Signal::SIGINT);
    // Two that arrive together are one to the kernel.
    tokio::time::sleep(Duration::from_millis(50)).await;
    if child.try_wait().unwrap().is_none() {
        signal(&child, Signal::SIGINT);
    }
    let status = tokio::time::timeout(Duration::from_secs(3), child.wait()).await.expect("it ends").unwrap();
    assert_eq!(code(status), 130);
}
