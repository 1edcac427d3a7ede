//! Which answers are worth asking again, and which are not.

use super::BOTH;
use crate::support::cli::Project;
use crate::support::{ModelServer, Reply};

#[tokio::test]
async fn passing_troubles_are_asked_again() {
    let runs = BOTH.into_iter().flat_map(|protocol| {
        [408, 409, 429, 500, 502, 503, 504, 529].map(|status| async move {
            let trouble = Reply::provider_error(status, format!("MARK-{status}"));
            let server = ModelServer::start(vec![trouble, Reply::text("Here.")]).await;
            let done = Project::new().run(&server, protocol).prompt("hi").await;
            assert_eq!(done.ended(), (0, "Here."), "{status}");
            assert!(done.stderr.contains(&format!("MARK-{status}")), "{}", done.stderr);
            assert_eq!((server.requests().len(), done.retries()), (2, 1), "{status}");
        })
    });
    futures_util::future::join_all(runs).await;
}

#[tokio::test]
async fn what_will_not_get_better_is_said_at_once() {
    let cases = [
        (400, "MARK-400"),
        (401, "MARK-401"),
        (402, "MARK-402"),
        (403, "MARK-403"),
        (404, "MARK-404"),
        (422, "MARK-422"),
        (429, "You exceeded your current quota, please check your plan"),
        (400, "Your credit balance is too low to access the API"),
    ];
    let runs = BOTH.into_iter().flat_map(|protocol| {
        cases.map(|(status, words)| async move {
            let server = ModelServer::start(vec![Reply::provider_error(status, words)]).await;
            let done = Project::new().run(&server, protocol).prompt("hi").await;
            assert_eq!(done.ended(), (1, ""), "{status}");
            assert!(done.stderr.contains(words), "{status}: {}", done.stderr);
            assert_eq!((server.requests().len(), done.retries()), (1, 0), "{status} {words}");
        })
    });
    futures_util::future::join_all(runs).await;
}

#[tokio::test]
async fn the_number_of_requests_is_the_number_announced() {
    for protocol in BOTH {
        let server = ModelServer::with(|_, _| Reply::provider_error(503, "busy")).await;
        let run = Project::new().run(&server, protocol).args(&[
            "--max-retries",
            "2",
            "--output-format",
            "stream-json",
        ]);
        let done = run.prompt("hi").await;
        assert_eq!(done.code, 1, "{}", done.stderr);
        let lines = done.lines();
        let announced = lines.iter().filter(|line| line["subtype"] == "api_retry").count();
        assert_eq!((server.requests().len(), announced), (3, 2));
        let result = lines.last().unwrap();
        assert_eq!(result["subtype"], "error_during_execution");
        assert!(result["result"].as_str().unwrap().contains("after 3 attempts"), "{result}");
    }
}
