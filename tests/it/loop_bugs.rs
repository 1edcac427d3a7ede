//! Faults of other agents' loops, each by its number: none of their kind may happen here.

use std::time::{Duration, SystemTime};

use serde_json::{Value, json};

use crate::recovery::results;
use crate::support::cli::{Project, finish};
use crate::support::{ModelServer, Protocol, Recorded, Reply};

const BOTH: [Protocol; 2] = [Protocol::Messages, Protocol::Chat];

/// Waits until something is true; it must become so within 20 s.
async fn until(what: &str, mut is: impl FnMut() -> bool) {
    for _ in 0..2_000 {
        if is() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("waited for {what}");
}

fn interrupt(child: &tokio::process::Child, signal: nix::sys::signal::Signal) {
    let pid = nix::unistd::Pid::from_raw(i32::try_from(child.id().unwrap()).unwrap());
    nix::sys::signal::kill(pid, signal).unwrap();
}

#[tokio::test]
async fn o_loop_01_an_interrupted_tool_leaves_a_history_that_goes_on() {
    for protocol in BOTH {
        let calls = Reply::empty()
            .call_with_id("tu_a", "Bash", json!({"command": "printf ok"}))
            .call_with_id("tu_b", "Bash", json!({"command": "touch started; sleep 60"}));
        let server = ModelServer::start(vec![calls, Reply::text("Going on.")]).await;
        let project = Project::new();
        let child = project.run(&server, protocol).args(&["--allow-write", "-p", "run both"]).spawn();
        until("the second call", || project.path("started").exists()).await;
        interrupt(&child, nix::sys::signal::Signal::SIGINT);
        let done = finish(child).await;
        assert_eq!(done.code, 130, "{}", done.stderr);
        assert!(done.took < Duration::from_secs(5), "{:?}", done.took);

        let done = project.run(&server, protocol).args(&["--continue"]).prompt("go on").await;
        assert_eq!(done.ended(), (0, "Going on."));
        assert_eq!(server.illegal(), Vec::<String>::new());
        let request = &server.requests()[1];
        let results = results(protocol, request);
        assert_eq!((results[0].0.as_str(), results[1].0.as_str()), ("tu_a", "tu_b"));
        assert!(results[0].1.contains("ok") && !results[0].2, "{results:?}");
        assert!(results[1].1.contains("nterrupted") && results[1].2, "{results:?}");
        let said = request.body["messages"].to_string();
        assert!(said.rfind("go on") > said.rfind("tu_b"), "{said}");
    }
}

#[tokio::test]
async fn o_loop_02_an_error_event_ends_the_stream_at_once() {
    for protocol in BOTH {
        let server =
            ModelServer::start(vec![Reply::empty().error_event_after(0, "MARK-7781"), Reply::text("Here.")])
                .await;
        let done = Project::new().run(&server, protocol).prompt("hi").await;
        assert_eq!(done.ended(), (0, "Here."));
        assert!(done.stderr.contains("MARK-7781"), "{}", done.stderr);
        assert!(done.took < Duration::from_secs(3), "{:?}", done.took);
        let requests = server.requests();
        assert!(requests[1].at - requests[0].at < Duration::from_millis(1_700));
        server.wait_closed_early(1).await;
    }
}

#[tokio::test]
async fn o_loop_03_headers_that_never_come_are_not_waited_for() {
    let server = ModelServer::start(vec![Reply::hang_before_headers(), Reply::text("Here.")]).await;
    let run = Project::new().run(&server, Protocol::Messages).env("REAGENT_TIMEOUT_HEADERS", "0.5");
    let done = run.prompt("hi").await;
    assert_eq!(done.ended(), (0, "Here."));
    assert_eq!((server.connections(), done.retries()), (2, 1));
}

#[tokio::test]
async fn o_loop_04_a_call_cut_by_the_output_limit_never_runs() {
    let server = ModelServer::with(|_, _| {
        Reply::raw_sse([
            format!(
                "data: {}\n\n",
                json!({"choices": [{"index": 0, "delta": {"tool_calls": [{"index": 0, "id": "c1", "type": "function",
                    "function": {"name": "Write", "arguments": "{\"file_path\":\"out.txt\",\"content\":\"line 1\\nline 2"}}]}}]})
            ),
            "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"length\"}]}\n\ndata: [DONE]\n\n".to_owned(),
        ])
    })
    .await;
    let project = Project::new();
    project.write("out.txt", "keep me\n");
    let done =
        project.run(&server, Protocol::Chat).args(&["--dangerously-skip-permissions"]).prompt("write").await;
    assert_eq!(done.ended(), (1, ""));
    assert!(done.stderr.contains("stuck") && done.stderr.contains("3 times"), "{}", done.stderr);
    assert_eq!(project.read("out.txt"), "keep me\n");
    let requests = server.requests();
    assert_eq!(requests.len(), 4);
    assert!(requests[3].body["messages"].to_string().contains("output limit"));
    assert_eq!(server.illegal(), Vec::<String>::new());
}

#[tokio::test]
async fn o_loop_05_nothing_empty_is_ever_sent() {
    for protocol in BOTH {
        let server = ModelServer::start(vec![
            Reply::thinking("Only thoughts."),
            Reply::thinking("And again."),
            Reply::tool("Bash", json!({"command": "true"})),
            Reply::text("Quiet."),
            Reply::text("Still accepted."),
        ])
        .await;
        let project = Project::new();
        let run = || project.run(&server, protocol).args(&["--allow-write"]);
        assert_eq!(run().prompt("hi").await.code, 1);
        assert_eq!(run().args(&["-c"]).prompt("again").await.ended(), (0, "Quiet."));
        assert_eq!(run().args(&["-c"]).prompt("and again").await.ended(), (0, "Still accepted."));
        assert_eq!(server.illegal(), Vec::<String>::new());
        let last = server.requests()[4].body["messages"].to_string();
        assert!(last.contains("(no output)") || last.contains("exit code 0"), "{last}");
        assert!(!last.contains("\"text\":\"\"") && !last.contains("\"content\":[]"), "{last}");
        assert_eq!(last.contains("Only thoughts."), protocol == Protocol::Messages);
    }
}

#[tokio::test]
async fn o_loop_06_a_quota_of_days_is_said_at_once() {
    for protocol in BOTH {
        let words = "Plan quota used up; the next period begins in 12 days";
        let server =
            ModelServer::start(vec![Reply::provider_error(429, words).header("retry-after", "1036800")])
                .await;
        let done = Project::new().run(&server, protocol).prompt("hi").await;
        assert_eq!(done.ended(), (1, ""));
        assert!(done.stderr.contains(words) && done.stderr.contains("12 days"), "{}", done.stderr);
        assert!(done.took < Duration::from_secs(5));
        assert_eq!((server.requests().len(), done.retries()), (1, 0));
    }
}

#[tokio::test]
async fn o_loop_06_a_stated_wait_is_kept_in_every_form() {
    let in_three = || httpdate::fmt_http_date(SystemTime::now() + Duration::from_secs(3));
    let cases = [
        ("retry-after", "2".to_owned(), 2_000..4_100),
        ("retry-after-ms", "1500".to_owned(), 1_500..3_600),
        // A date has no fractions, so it may lie up to a second nearer.
        ("retry-after", in_three(), 1_900..5_100),
        ("retry-after", "abc".to_owned(), 400..1_500),
        ("retry-after", "-5".to_owned(), 400..1_500),
    ];
    let runs = cases.map(|(name, value, bounds)| async move {
        let busy = Reply::provider_error(429, "slow down").header(name, value.clone());
        let server = ModelServer::start(vec![busy, Reply::text("Here.")]).await;
        let done = Project::new().run(&server, Protocol::Messages).prompt("hi").await;
        assert_eq!(done.ended(), (0, "Here."), "{value}");
        let requests = server.requests();
        let gap = (requests[1].at - requests[0].at).as_millis();
        assert!(bounds.contains(&gap), "{name}: {value} gave {gap} ms");
        assert_eq!((requests.len(), done.retries()), (2, 1));
    });
    futures_util::future::join_all(runs).await;
}

#[tokio::test]
async fn o_loop_06_gaps_grow_and_a_page_is_shortened() {
    let page =
        format!("<html><head><title>503</title></head><body>{}</body></html>", "<p>busy</p>".repeat(20_000));
    let server = ModelServer::with(move |_, n| match n {
        0 => Reply::http(503).content_type("text/html").body(page.clone()),
        1 | 2 => Reply::provider_error(529, "Overloaded"),
        _ => Reply::text("Here."),
    })
    .await;
    let done = Project::new().run(&server, Protocol::Messages).prompt("hi").await;
    assert_eq!(done.ended(), (0, "Here."));
    assert!(done.stderr.len() < 4_000, "{}", done.stderr.len());
    let at: Vec<_> = server.requests().iter().map(|request| request.at).collect();
    let gaps: Vec<Duration> = at.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(gaps.is_sorted() && gaps.len() == 3 && done.retries() == 3, "{gaps:?}");
}

#[tokio::test]
async fn o_loop_06_an_interruption_ends_the_wait() {
    let server =
        ModelServer::start(vec![Reply::provider_error(529, "busy").header("retry-after", "60")]).await;
    let project = Project::new();
    let child = project.run(&server, Protocol::Messages).args(&["-p", "hi"]).spawn();
    server.wait_requests(1).await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    interrupt(&child, nix::sys::signal::Signal::SIGINT);
    let done = finish(child).await;
    assert_eq!(done.code, 130, "{}", done.stderr);
    assert!(done.took < Duration::from_millis(700), "{:?}", done.took);
}

/// Runs a server that calls for ever; how many requests it saw and how the run ended.
async fn circle(call: impl Fn(usize) -> (&'static str, Value) + Send + 'static) -> (usize, i32, String) {
    let server = ModelServer::with(move |_: &Recorded, n| {
        let (name, input) = call(n);
        Reply::tool(name, input)
    })
    .await;
    let project = Project::new();
    project.write("a.txt", "alpha\n");
    project.write("b.txt", "beta\n");
    let run = project.run(&server, Protocol::Messages).args(&[
        "--dangerously-skip-permissions",
        "--max-turns",
        "60",
    ]);
    let done = run.prompt("loop").await;
    assert_eq!(server.illegal(), Vec::<String>::new());
    (server.requests().len(), done.code, done.stderr)
}

#[tokio::test]
async fn o_loop_07_circles_end_by_themselves() {
    let read = |path: &str| ("Read", json!({"file_path": path}));
    let same = circle(move |_| read("a.txt")).await;
    let two = circle(move |n| read(if n % 2 == 0 { "a.txt" } else { "b.txt" })).await;
    let order = circle(|n| {
        let command = if n % 2 == 0 { "cat a.txt" } else { " cat a.txt " };
        if n % 3 == 0 {
            ("Bash", json!({"timeout": 5_000, "command": command}))
        } else {
            ("Bash", json!({"command": command, "timeout": 5_000}))
        }
    })
    .await;
    let edit =
        circle(|_| ("Edit", json!({"file_path": "a.txt", "old_string": "nowhere", "new_string": "x"}))).await;
    for (name, (requests, code, stderr)) in [("same", same), ("two", two), ("order", order), ("edit", edit)] {
        assert!(requests <= 50 && code == 1, "{name}: {requests} requests, code {code}: {stderr}");
        assert!(stderr.contains("stuck"), "{name}: {stderr}");
    }
}

#[tokio::test]
async fn o_loop_07_polling_that_sees_something_new_goes_on() {
    let (requests, code, stderr) =
        circle(|_| ("Bash", json!({"command": "echo x >> status; wc -l < status"}))).await;
    assert_eq!((requests, code), (60, 4), "{stderr}");
}
