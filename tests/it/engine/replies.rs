//! Replies of every kind: cut, empty, refused, too long; retries with their waits; a prefix that never changes.

use std::time::Duration;

use reagent::protocol::{Access, Block, ErrorKind, Event, Source, StopReason, TurnOutcome};
use reagent::provider::{Failure, ModelEvent, ProviderError};
use serde_json::json;
use tokio::time::Instant;

use crate::support::rig::{Rig, Step, call, echo, hold, read, tool};

fn error(kind: Failure, message: &str) -> ProviderError {
    ProviderError::new(kind, message)
}

fn text(text: &str) -> ModelEvent {
    ModelEvent::Text(text.to_owned())
}

const BUSY: Failure = Failure::Transient { retry_after: None };

#[tokio::test(start_paused = true)]
async fn o_loop_06_attempts_are_bounded_announced_and_wait_longer_each_time() {
    let steps = (0..50).map(|_| Step::Fail(error(BUSY, "busy"))).collect();
    let began = Instant::now();
    let (outcome, ready) = Rig::new(steps).run().await;
    assert!(
        matches!(&outcome, TurnOutcome::Error { kind: ErrorKind::Unavailable, message }
        if message.contains("busy") && message.contains("11 attempts")),
        "{outcome:?}"
    );
    let retries = ready.host.retries();
    assert_eq!(ready.asked().len(), retries.len() + 1);
    assert_eq!(retries.iter().map(|r| r.0).collect::<Vec<_>>(), (2..=11).collect::<Vec<_>>());
    assert!(retries.windows(2).all(|pair| pair[0].1 <= pair[1].1), "{retries:?}");
    let waited: u64 = retries.iter().map(|r| r.1).sum();
    assert!(began.elapsed() >= Duration::from_millis(waited), "{waited}");
}

#[tokio::test(start_paused = true)]
async fn what_will_not_get_better_is_not_tried_again() {
    for kind in [Failure::Auth, Failure::Quota, Failure::NotFound, Failure::Invalid, Failure::NoModel] {
        let (outcome, ready) = Rig::new(vec![Step::Fail(error(kind, "no way"))]).run().await;
        assert!(matches!(&outcome, TurnOutcome::Error { message, .. } if message == "no way"), "{outcome:?}");
        assert_eq!((ready.asked().len(), ready.host.retries().len()), (1, 0), "{kind:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_breaks_before_its_content_is_repeated_and_after_it_goes_on() {
    let cut = || Err(error(Failure::Cut, "reset by peer"));
    let thought = ModelEvent::Thinking("hm".to_owned());
    let steps = vec![
        Step::Events(vec![cut()]),
        Step::Events(vec![Ok(thought.clone()), cut()]),
        Step::Events(vec![Ok(thought)]), // ends without a stop
        Step::Events(vec![Ok(text("The answer is ")), cut()]),
        Step::text("42."),
    ];
    let (outcome, ready) = Rig::new(steps).run().await;
    assert_eq!(outcome, TurnOutcome::Completed);
    assert_eq!(ready.host.retries().len(), 3);
    let asked = ready.asked();
    assert_eq!(asked[0], asked[3], "a repeat is the same request");
    let last: Vec<(Source, String)> = asked[4].messages.iter().map(|m| (m.source, m.text())).collect();
    assert_eq!(last[1], (Source::Model, "The answer is ".to_owned()));
    assert_eq!(last[2].0, Source::Host);
    let notice = hold(&ready.host.emitted)
        .iter()
        .any(|(_, event)| matches!(event, Event::Notice { text } if text.contains("reset by peer")));
    assert!(notice);
}

#[tokio::test]
async fn after_a_cut_whole_calls_run_and_unfinished_ones_are_closed() {
    let mut events: Vec<_> = call(0, "a", "Read", "{\"n\":1}").into_iter().map(Ok).collect();
    events.extend(call(1, "b", "Read", "{\"n\":2").into_iter().take(2).map(Ok));
    events.push(Err(error(BUSY, "Overloaded")));
    let (outcome, ready) = Rig::new(vec![Step::Events(events)]).tools(vec![echo("Read", read())]).run().await;
    assert_eq!(outcome, TurnOutcome::Completed);
    let results = ready.results();
    assert_eq!(results[0], ("a".to_owned(), "{\"n\":1}".to_owned(), false));
    assert!(results[1].2 && results[1].1.contains("connection broke"), "{results:?}");
    assert_eq!(ready.host.retries(), []);
}

#[tokio::test]
async fn a_connection_that_breaks_off_every_reply_ends_the_turn_with_the_cause() {
    let cut = || Step::Events(vec![Ok(text("x")), Err(error(Failure::Cut, "MARK-1"))]);
    let (outcome, ready) = Rig::new((0..9).map(|_| cut()).collect()).run().await;
    assert!(
        matches!(&outcome, TurnOutcome::Error { message, .. } if message.contains("MARK-1")),
        "{outcome:?}"
    );
    assert_eq!(ready.asked().len(), 4);
}

#[tokio::test]
async fn an_error_in_mid_reply_that_will_not_get_better_ends_the_turn_and_what_arrived_is_kept() {
    let mut events = vec![Ok(text("Half."))];
    events.extend(call(0, "a", "Read", "{}").into_iter().map(Ok));
    events.push(Err(error(Failure::Invalid, "MARK-2")));
    let (outcome, mut ready) =
        Rig::new(vec![Step::Events(events)]).tools(vec![echo("Read", read())]).run().await;
    assert!(matches!(&outcome, TurnOutcome::Error { message, .. } if message == "MARK-2"), "{outcome:?}");
    assert_eq!(ready.engine.messages()[1].text(), "Half.");
    let results = ready.results();
    assert!(results[0].2 && !results[0].1.contains("user"), "{results:?}");
    assert_eq!(ready.turn("again").await, TurnOutcome::Completed);
    assert!(ready.paired());
}

#[tokio::test]
async fn the_output_limit_is_raised_then_continued_three_times_and_reset_by_a_whole_reply() {
    let cut = |piece: &str| Step::reply(vec![text(piece)], StopReason::MaxTokens);
    let steps =
        vec![cut("lost"), cut("one "), cut("two "), cut("three "), Step::text("four."), Step::text("next")];
    let (outcome, mut ready) = Rig::new(steps).run().await;
    assert_eq!(outcome, TurnOutcome::Completed);
    ready.turn("more").await;
    let asked = ready.asked();
    let limits: Vec<u32> = asked.iter().map(|a| a.max_output).collect();
    assert_eq!(limits, [8_192, 64_000, 64_000, 64_000, 64_000, 8_192]);
    assert_eq!(asked[0].messages, asked[1].messages);
    let said: Vec<String> =
        ready.engine.messages().iter().filter(|m| m.source == Source::Model).map(|m| m.text()).collect();
    assert_eq!(said, ["one ", "two ", "three ", "four.", "next"]);

    let (outcome, ready) = Rig::new((0..9).map(|_| cut("x")).collect()).run().await;
    assert!(
        matches!(&outcome, TurnOutcome::Error { message, .. } if message.contains("64000")),
        "{outcome:?}"
    );
    assert_eq!(ready.asked().len(), 5);
}

#[tokio::test]
async fn too_long_a_conversation_is_cut_once_and_then_named() {
    let rounds = || -> Vec<Step> {
        (0..6)
            .map(|n| Step::calls(&[(&*format!("c{n}"), "Read", json!({"pad": "x".repeat(500), "n": n}))]))
            .collect()
    };
    let long = || Step::Fail(error(Failure::ContextOverflow, "prompt is too long"));
    let tools = || vec![echo("Read", read())];

    let mut steps = rounds();
    steps.extend([long(), Step::text("Made it.")]);
    let (outcome, ready) = Rig::new(steps).tools(tools()).run().await;
    assert_eq!(outcome, TurnOutcome::Completed);
    let asked = ready.asked();
    assert!(asked[7].messages.len() < asked[6].messages.len());
    assert_eq!(asked[7].messages[0].text(), "go");
    assert!(asked[7].messages[1].text().contains("left out"));
    assert!(ready.paired());
    assert_eq!(ready.host.retries().len(), 1);
    // A resume sees the same.
    let mut again = Rig::new(vec![]).ready();
    again.engine.resume(&ready.log()).await.unwrap();
    assert_eq!(again.engine.messages(), ready.engine.messages());

    let mut steps = rounds();
    steps.extend([long(), long(), Step::text("unreachable")]);
    let (outcome, ready) = Rig::new(steps).tools(tools()).run().await;
    assert!(
        matches!(&outcome, TurnOutcome::Error { kind: ErrorKind::ContextOverflow, message }
        if message.contains("prompt is too long") && message.contains("/clear")),
        "{outcome:?}"
    );
    assert_eq!(ready.asked().len(), 8);

    // Nothing to leave out: said at once.
    let (outcome, ready) = Rig::new(vec![long()]).run().await;
    assert!(matches!(outcome, TurnOutcome::Error { kind: ErrorKind::ContextOverflow, .. }));
    assert_eq!(ready.asked().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn empty_replies_are_asked_for_again_then_nudged_then_named() {
    let empty = || Step::reply(vec![], StopReason::EndTurn);
    let (outcome, ready) = Rig::new(vec![empty(), Step::text("There.")]).run().await;
    assert_eq!((outcome, ready.asked().len()), (TurnOutcome::Completed, 2));
    assert_eq!(ready.host.retries().len(), 1);

    let (outcome, ready) = Rig::new((0..20).map(|_| empty()).collect()).run().await;
    assert!(matches!(&outcome, TurnOutcome::Error { message, .. } if message.contains("without an answer")));
    assert_eq!(ready.asked().len(), 6);
    assert!(ready.engine.messages().iter().all(|m| !m.blocks.is_empty()));

    // Thinking alone is an answer to nobody: asked once for words.
    let thought = || Step::reply(vec![ModelEvent::Thinking("hm".to_owned())], StopReason::EndTurn);
    let (outcome, ready) = Rig::new(vec![thought(), Step::text("Words.")]).run().await;
    assert_eq!((outcome, ready.asked().len()), (TurnOutcome::Completed, 2));
}

#[tokio::test]
async fn a_refusal_ends_the_turn_and_runs_nothing() {
    let ran = tool("Read", read(), |_, _| async { panic!("a call of a refused reply ran") });
    let mut events = vec![text("I will not.")];
    events.extend(call(0, "a", "Read", "{}"));
    let step = Step::reply(events, StopReason::Refusal);
    let (outcome, ready) = Rig::new(vec![step]).tools(vec![ran]).run().await;
    assert_eq!(outcome, TurnOutcome::Refusal { reason: "I will not.".to_owned() });
    assert!(ready.results()[0].2 && ready.paired());
    assert_eq!(ready.asked().len(), 1);
}

#[tokio::test]
async fn arguments_are_mended_in_form_and_refused_in_content() {
    let raw = |id: &str, json: &str| Step::reply(call(0, id, "Read", json), StopReason::ToolUse);
    let steps =
        vec![raw("a", "```json\n{\"n\":1,}\n```"), raw("b", "{\"n\":"), raw("c", "[1]"), raw("d", "")];
    let (outcome, ready) = Rig::new(steps).tools(vec![echo("Read", read())]).run().await;
    assert_eq!(outcome, TurnOutcome::Completed);
    let results = ready.results();
    assert_eq!((&*results[0].1, results[0].2), ("{\"n\":1}", false));
    assert!(results[1].2 && results[1].1.contains("no JSON object"), "{results:?}");
    assert!(results[2].2 && results[2].1.contains("a list"), "{results:?}");
    assert_eq!((&*results[3].1, results[3].2), ("{}", false));
}

#[tokio::test]
async fn the_prefix_of_a_request_never_changes_from_round_to_round() {
    let steps = (0..20)
        .map(|n| {
            Step::calls(&[
                (&*format!("a{n}"), "Read", json!({"n": n, "z": 1, "b": {"y": 1, "x": 2}})),
                (&*format!("b{n}"), "Bash", json!({"n": n})),
            ])
        })
        .collect();
    let tools = vec![echo("Read", read()), echo("Bash", Access::Execute("x".to_owned()))];
    let (_, mut ready) = Rig::new(steps).tools(tools).run().await;
    ready.turn("and again").await;
    let asked = ready.asked();
    for pair in asked.windows(2) {
        assert_eq!((&pair[0].system, &pair[0].tools), (&pair[1].system, &pair[1].tools));
        assert!(pair[1].messages.starts_with(&pair[0].messages));
    }
    assert_eq!(asked.len(), 22);
}

#[tokio::test]
async fn a_call_open_at_a_crash_comes_back_as_an_error_that_says_so() {
    let steps = vec![Step::calls(&[("a", "Bash", json!({})), ("b", "Bash", json!({}))])];
    let (_, ready) = Rig::new(steps).tools(vec![echo("Bash", Access::Execute("x".to_owned()))]).run().await;
    let mut log = ready.log();
    let started = log.iter().position(|e| matches!(e.event, Event::ToolStarted { .. })).unwrap();
    log.truncate(started + 1);
    let mut again = Rig::new(vec![]).tools(vec![]).ready();
    again.engine.resume(&log).await.unwrap();
    let results = again.results();
    assert!(results[0].2 && results[0].1.contains("outcome is unknown"), "{results:?}");
    assert!(results[1].2 && results[1].1.contains("did not run"), "{results:?}");
    assert_eq!(again.turn("go on").await, TurnOutcome::Completed);
    assert!(again.paired());
    assert_eq!(again.asked()[0].messages.last().unwrap().blocks, [Block::text("go on")]);
}
