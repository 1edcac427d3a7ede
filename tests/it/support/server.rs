//! `ModelServer`: accepts connections, records requests, refuses illegal ones and plays the script.

use std::fmt;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;

use super::connection::{Connection, Gone, RawRequest, find};
use super::play::{Then, play};
use super::{Protocol, Reply, errors, legal};

/// How long the `wait_…` functions have patience before they fail the test.
const PATIENCE: Duration = Duration::from_secs(20);

/// One request that the server received.
#[derive(Debug, Clone)]
pub(crate) struct Recorded {
    pub(crate) method: String,
    /// The request target, with its query.
    pub(crate) path: String,
    /// Names in lower case.
    pub(crate) headers: Vec<(String, String)>,
    /// `Null` for an empty body, a string for one that is no JSON.
    pub(crate) body: Value,
    /// When the whole request had arrived.
    pub(crate) at: Instant,
    /// Which of the server's connections it came by, from 0.
    pub(crate) connection: usize,
}

impl Recorded {
    /// The first header of that name (in lower case).
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        find(&self.headers, name)
    }

    /// The request's `messages`, or nothing.
    pub(crate) fn messages(&self) -> &[Value] {
        self.body["messages"].as_array().map_or(&[], Vec::as_slice)
    }

    /// The names of the tools on offer.
    pub(crate) fn tool_names(&self) -> Vec<&str> {
        let tools = self.body["tools"].as_array().map_or(&[][..], Vec::as_slice);
        let names =
            tools.iter().map(|tool| tool["name"].as_str().or_else(|| tool["function"]["name"].as_str()));
        names.flatten().collect()
    }
}

type Script = Box<dyn FnMut(&Recorded, usize) -> Reply + Send>;

/// A scripted model server on a port of its own. Dropping it ends everything that it does.
pub(crate) struct ModelServer {
    url: String,
    shared: Arc<Shared>,
    _accepting: AbortOnDropHandle<()>,
}

struct Shared {
    strict: bool,
    script: Mutex<Script>,
    state: Mutex<State>,
    changed: watch::Sender<()>,
}

#[derive(Debug, Default)]
struct State {
    requests: Vec<Recorded>,
    others: Vec<Recorded>,
    illegal: Vec<String>,
    routes: Vec<(String, u16, Value)>,
    served: usize,
    connections: usize,
    closed_early: usize,
}

impl ModelServer {
    /// Gives the n-th model request the n-th reply, and each one after these the text "Done.".
    pub(crate) async fn start(replies: Vec<Reply>) -> Self {
        Self::launch(true, in_order(replies)).await
    }

    /// Asks a function for the reply to each model request; it also gets the number of the reply, from 0.
    pub(crate) async fn with(script: impl FnMut(&Recorded, usize) -> Reply + Send + 'static) -> Self {
        Self::launch(true, Box::new(script)).await
    }

    /// As [`ModelServer::start`], but answers illegal requests too.
    pub(crate) async fn lenient(replies: Vec<Reply>) -> Self {
        Self::launch(false, in_order(replies)).await
    }

    /// As [`ModelServer::with`], but answers illegal requests too.
    pub(crate) async fn lenient_with(script: impl FnMut(&Recorded, usize) -> Reply + Send + 'static) -> Self {
        Self::launch(false, Box::new(script)).await
    }

    async fn launch(strict: bool, script: Script) -> Self {
        let address = SocketAddr::from(([127, 0, 0, 1], 0));
        let listener = TcpListener::bind(address).await.expect("a free port");
        let address = listener.local_addr().expect("a bound address");
        let shared = Arc::new(Shared {
            strict,
            script: Mutex::new(script),
            state: Mutex::default(),
            changed: watch::Sender::default(),
        });
        let accepting = tokio::spawn(accept(listener, Arc::clone(&shared)));
        Self { url: format!("http://{address}"), shared, _accepting: AbortOnDropHandle::new(accepting) }
    }

    /// `http://127.0.0.1:PORT`.
    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// All model requests so far, refused ones too.
    pub(crate) fn requests(&self) -> Vec<Recorded> {
        self.shared.state().requests.clone()
    }

    /// All requests that were not to a model: lists, probes, wrong paths.
    pub(crate) fn other_requests(&self) -> Vec<Recorded> {
        self.shared.state().others.clone()
    }

    /// How many TCP connections were accepted.
    pub(crate) fn connections(&self) -> usize {
        self.shared.state().connections
    }

    /// Why requests were refused; a refused request uses up no reply.
    pub(crate) fn illegal(&self) -> Vec<String> {
        self.shared.state().illegal.clone()
    }

    /// How many answers lost their client before they were finished. (One that hangs never is.)
    pub(crate) fn closed_early(&self) -> usize {
        self.shared.state().closed_early
    }

    /// Answers a GET whose path ends so by this document, in place of 404 or the model list.
    pub(crate) fn on_get(&self, path_end: &str, status: u16, document: Value) {
        let route = (path_end.to_owned(), status, document);
        self.shared.state().routes.push(route);
    }

    /// Waits until there were so many model requests.
    pub(crate) async fn wait_requests(&self, count: usize) {
        self.wait("model requests", count, |state| state.requests.len()).await;
    }

    /// Waits until so many answers lost their client.
    pub(crate) async fn wait_closed_early(&self, count: usize) {
        self.wait("answers that lost their client", count, |state| state.closed_early).await;
    }

    async fn wait(&self, what: &str, count: usize, of: impl Fn(&State) -> usize) {
        let mut changes = self.shared.changed.subscribe();
        let enough = async {
            while of(&self.shared.state()) < count {
                changes.changed().await.expect("the sender lives as long as self");
            }
        };
        let in_time = tokio::time::timeout(PATIENCE, enough).await.is_ok();
        let seen = of(&self.shared.state());
        assert!(in_time, "waited for {count} {what}, but there were {seen}");
    }
}

impl fmt::Debug for ModelServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ModelServer")
            .field("url", &self.url)
            .field("state", &*self.shared.state())
            .finish_non_exhaustive()
    }
}

fn in_order(replies: Vec<Reply>) -> Script {
    let mut replies = replies.into_iter();
    Box::new(move |_, _| replies.next().unwrap_or_else(|| Reply::text("Done.")))
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn update<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let result = change(&mut self.state());
        self.changed.send_replace(());
        result
    }

    /// Records a model request; the reply to it and its number, or the reason to refuse it.
    fn next_reply(&self, protocol: Protocol, request: &Recorded) -> Result<(usize, Reply), String> {
        // Held all the time, so that replies are handed out in the order of the records.
        let mut script = self.script.lock().unwrap_or_else(PoisonError::into_inner);
        let legal = if self.strict { legal::check(protocol, &request.body) } else { Ok(()) };
        let number = self.update(|state| {
            state.requests.push(request.clone());
            match &legal {
                Ok(()) => state.served += 1,
                Err(reason) => state.illegal.push(reason.clone()),
            }
            state.served.saturating_sub(1)
        });
        legal?;
        Ok((number, script(request, number)))
    }
}

async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    // Dropped with this task, and the connections with it.
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        let number = shared.update(|state| {
            state.connections += 1;
            state.connections - 1
        });
        connections.spawn(serve(stream, number, Arc::clone(&shared)));
    }
}

async fn serve(stream: TcpStream, number: usize, shared: Arc<Shared>) {
    let Ok(mut connection) = Connection::new(stream) else {
        return;
    };
    while let Ok(request) = connection.read_request().await {
        let close = request.wants_close();
        match answer(&mut connection, &shared, number, request).await {
            Ok(Then::KeepAlive) if !close => {}
            Ok(_) => return,
            Err(Gone) => {
                shared.update(|state| state.closed_early += 1);
                return;
            }
        }
    }
}

async fn answer(
    connection: &mut Connection,
    shared: &Shared,
    number: usize,
    request: RawRequest,
) -> Result<Then, Gone> {
    let body = match serde_json::from_slice(&request.body) {
        Ok(body) => body,
        Err(_) if request.body.is_empty() => Value::Null,
        Err(_) => Value::String(String::from_utf8_lossy(&request.body).into_owned()),
    };
    let recorded = Recorded {
        method: request.method,
        path: request.target,
        headers: request.headers,
        body,
        at: Instant::now(),
        connection: number,
    };
    let protocol = Protocol::of(&recorded.path).filter(|_| recorded.method == "POST");
    let Some(protocol) = protocol else {
        let (status, document) = other(shared, &recorded);
        shared.update(|state| state.others.push(recorded));
        return write_json(connection, status, &document).await;
    };
    match shared.next_reply(protocol, &recorded) {
        Ok((number, reply)) => play(connection, protocol, &recorded.body, number, &reply).await,
        Err(reason) => {
            let document = errors::document(protocol, 400, &reason);
            write_json(connection, 400, &document).await
        }
    }
}

/// The answer to a request that is not to a model.
fn other(shared: &Shared, request: &Recorded) -> (u16, Value) {
    let path = request.path.split('?').next().unwrap_or_default();
    let get = request.method == "GET";
    let state = shared.state();
    let route = state.routes.iter().rev().find(|(end, ..)| get && path.ends_with(end.as_str()));
    if let Some((_, status, document)) = route {
        (*status, document.clone())
    } else if get && path.ends_with("/models") {
        let model = |id: &str| {
            json!({
                "id": id, "object": "model", "type": "model", "display_name": id,
                "created": 1_700_000_000, "created_at": "2025-01-01T00:00:00Z", "owned_by": "mock",
            })
        };
        let data = [model("mock-1"), model("mock-2")];
        (
            200,
            json!({"object": "list", "data": data, "has_more": false, "first_id": "mock-1", "last_id": "mock-2"}),
        )
    } else {
        let message = format!("no such route: {} {path}", request.method);
        (404, errors::document(Protocol::Chat, 404, &message))
    }
}

async fn write_json(connection: &mut Connection, status: u16, document: &Value) -> Result<Then, Gone> {
    let body = document.to_string();
    let headers = [
        ("content-type".to_owned(), "application/json".to_owned()),
        ("content-length".to_owned(), body.len().to_string()),
    ];
    connection.write_whole(status, &headers, body.as_bytes()).await?;
    Ok(Then::KeepAlive)
}
