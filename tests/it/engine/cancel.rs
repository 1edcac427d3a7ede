//! An interruption, wherever it strikes: the turn ends at once, what arrived is kept, every call has its result.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use reagent::hook::{HookOutcome, HookPoint};
use reagent::protocol::{Access, Block, Event, TurnOutcome};
use reagent::provider::{Failure, ModelEvent, ProviderError};
use reagent::tool::ToolOutput;
use serde_json::json;
use tokio::time::Instant;

use crate::support::rig::{Answer, Ready, Rig, Step, call, echo, hold, read, tool};

/// Runs a turn that is interrupted after a second; the outcome must come within `bound`.
async fn interrupted(rig: Rig, bound: Duration) -> Ready {
    let mut ready = rig.ready();
    let cancel = ready.cancel.clone();
    tokio::spawn(async move {
        tokio::time::sleep(Duration::from_secs(1)).await;
        cancel.cancel();
    });
    let began = Instant::now();
    assert_eq!(ready.turn("go").await, TurnOutcome::Aborted);
    let took = began.elapsed().saturating_sub(Duration::from_secs(1));
    assert!(took <= bound, "{took:?}");
    assert!(ready.paired());
    let last = ready.events().pop();
    assert_eq!(last, Some(Event::TurnFinished { outcome: TurnOutcome::Aborted }));
    ready
}

/// The session must go on afterwards.
async fn goes_on(mut ready: Ready) {
    ready.cancel = tokio_util::sync::CancellationToken::new();
    assert_eq!(ready.turn("go on").await, TurnOutcome::Completed);
    assert!(ready.paired());
}

const AT_ONCE: Duration = Duration::from_millis(1);
const GRACE: Duration = Duration::from_millis(101);

#[tokio::test(start_paused = true)]
async fn in_the_stream_what_arrived_is_kept() {
    let mut events = vec![ModelEvent::Text("half an ans".to_owned())];
    events.extend(call(0, "a", "Read", "{}"));
    events.extend(call(1, "b", "Read", "{\"x\":").into_iter().take(2));
    let rig = Rig::new(vec![Step::Hang(events)]).tools(vec![echo("Read", read())]);
    let ready = interrupted(rig, AT_ONCE).await;
    assert_eq!(ready.engine.messages()[1].text(), "half an ans");
    let results = ready.results();
    assert!(results.len() == 2 && results.iter().all(|r| r.2), "{results:?}");
    assert!(results[0].1.contains("interrupted"), "{results:?}");
    goes_on(ready).await;
}

#[tokio::test(start_paused = true)]
async fn before_the_first_event_nothing_is_left_behind() {
    let ready = interrupted(Rig::new(vec![Step::Hang(vec![])]), AT_ONCE).await;
    assert_eq!(ready.engine.messages().len(), 1);
    goes_on(ready).await;
}

#[tokio::test(start_paused = true)]
async fn o_loop_01_in_a_tool_each_call_has_its_result() {
    let stubborn = tool("Sleep", Access::Execute("x".to_owned()), |_, _| async {
        std::future::pending::<()>().await;
        Ok(ToolOutput::text("unreachable"))
    });
    let step = Step::calls(&[("a", "Read", json!({})), ("b", "Sleep", json!({})), ("c", "Read", json!({}))]);
    let rig = Rig::new(vec![step]).tools(vec![echo("Read", read()), stubborn]);
    let ready = interrupted(rig, GRACE).await;
    let results = ready.results();
    assert_eq!(results.iter().map(|r| r.2).collect::<Vec<_>>(), [false, true, true]);
    assert!(results[1].1.contains("nterrupted") && results[2].1.contains("interrupted"), "{results:?}");
    let asked = ready.asked().len();
    goes_on(ready).await;
    assert_eq!(asked, 1);
}

#[tokio::test(start_paused = true)]
async fn a_tool_that_stops_by_itself_within_the_grace_is_heard() {
    let polite = tool("Sleep", read(), |_, cancel| async move {
        cancel.cancelled().await;
        tokio::time::sleep(Duration::from_millis(50)).await;
        Ok(ToolOutput::text("stopped after 3 of 5"))
    });
    let rig = Rig::new(vec![Step::calls(&[("a", "Sleep", json!({}))])]).tools(vec![polite]);
    let ready = interrupted(rig, Duration::from_millis(60)).await;
    assert_eq!(ready.results(), [("a".to_owned(), "stopped after 3 of 5".to_owned(), false)]);
}

#[tokio::test(start_paused = true)]
async fn a_tool_that_does_not_stop_is_dropped() {
    struct Told(Arc<AtomicBool>);
    impl Drop for Told {
        fn drop(&mut self) {
            self.0.store(true, Ordering::SeqCst);
        }
    }
    let dropped = Arc::new(AtomicBool::new(false));
    let seen = Arc::clone(&dropped);
    let stubborn = tool("Sleep", read(), move |_, _| {
        let guard = Told(Arc::clone(&seen));
        async move {
            let _guard = guard;
            std::future::pending::<()>().await;
            Ok(ToolOutput::text("unreachable"))
        }
    });
    let rig = Rig::new(vec![Step::calls(&[("a", "Sleep", json!({})), ("b", "Sleep", json!({}))])]);
    let ready = interrupted(rig.tools(vec![stubborn]), GRACE).await;
    assert!(dropped.load(Ordering::SeqCst));
    assert!(ready.results().iter().all(|r| r.2));
}

#[tokio::test(start_paused = true)]
async fn in_a_question() {
    let step = Step::calls(&[("a", "Bash", json!({})), ("b", "Bash", json!({}))]);
    let rig = Rig::new(vec![step]).tools(vec![echo("Bash", Access::Execute("x".to_owned()))]);
    let ready = interrupted(rig.asking(vec![Answer::Never]), AT_ONCE).await;
    assert_eq!(hold(&ready.host.questions).len(), 1);
    assert!(ready.results().iter().all(|r| r.1.contains("interrupted") && r.2));
    goes_on(ready).await;
}

#[tokio::test(start_paused = true)]
async fn in_the_wait_before_a_retry() {
    let wait = Some(Duration::from_mins(1));
    let busy = ProviderError::new(Failure::Transient { retry_after: wait }, "busy");
    let ready = interrupted(Rig::new(vec![Step::Fail(busy)]), AT_ONCE).await;
    assert_eq!(ready.asked().len(), 1);
    goes_on(ready).await;
}

#[tokio::test(start_paused = true)]
async fn in_a_hook_at_every_point() {
    type At = fn(HookPoint<'_>) -> bool;
    let points: [(At, Duration); 4] = [
        (|point| matches!(point, HookPoint::UserPromptSubmit { .. }), AT_ONCE),
        (|point| matches!(point, HookPoint::PreToolUse { .. }), AT_ONCE),
        (|point| matches!(point, HookPoint::PostToolUse { .. }), AT_ONCE),
        (|point| matches!(point, HookPoint::Stop { .. }), AT_ONCE),
    ];
    for (at, bound) in points {
        let rig = Rig::new(vec![Step::calls(&[("a", "Read", json!({}))])]).tools(vec![echo("Read", read())]);
        let rig = rig.hooks(move |point| if at(point) { None } else { Some(HookOutcome::default()) });
        interrupted(rig, bound).await;
    }
}

#[tokio::test(start_paused = true)]
async fn in_a_child_the_parent_ends_too() {
    let steps = vec![
        Step::calls(&[("a", "Agent", json!({"prompt": "look"}))]),
        Step::Hang(vec![ModelEvent::Text("so far".to_owned())]),
    ];
    let rig = Rig::new(steps).tools(vec![crate::support::rig::ChildTool::named("Agent")]);
    let ready = interrupted(rig, GRACE).await;
    let results = ready.results();
    assert!(results[0].2 && results[0].1.contains("so far"), "{results:?}");
    let kept = ready.log().iter().any(|e| {
        !e.agent.is_root()
            && matches!(&e.event, Event::MessageAdded { message } if message.blocks == [Block::text("so far")])
    });
    assert!(kept);
}
