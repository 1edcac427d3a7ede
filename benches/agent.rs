//! What a user waits for and pays: start-up, one prompt, the harness's own time per round, a long stream.
//!
//! Run with `cargo bench --bench agent`. Figures are medians of one run on this machine; the floor is a plain
//! HTTP client against the same server in the same run.
#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::string_slice,
    clippy::print_stdout,
    reason = "a measuring program, not a product"
)]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use nix::sys::resource::{UsageWho, getrusage};

const ROUNDS: usize = 200;
const CHUNKS: usize = 20_000;

fn main() {
    if std::env::args().any(|arg| arg == "--test") {
        return;
    }
    let exe = env!("CARGO_BIN_EXE_reagent");
    println!("binary      {} MB", std::fs::metadata(exe).unwrap().len() / 1_000_000);
    version(exe);
    one_prompt(exe);
    rounds(exe);
    chunks(exe);
}

/// `reagent --version`, and `true` as the floor of starting anything.
fn version(exe: &str) {
    let time = |mut command: Command| {
        let mut runs: Vec<Duration> = (0..100)
            .map(|_| {
                let began = Instant::now();
                command.stdout(Stdio::null()).stdin(Stdio::null()).status().unwrap();
                began.elapsed()
            })
            .collect();
        median(&mut runs)
    };
    let mut ours = Command::new(exe);
    ours.arg("--version");
    let (ours, floor) = (time(ours), time(Command::new("true")));
    println!("--version   {} (floor: true {})", shown(ours), shown(floor));
}

fn one_prompt(exe: &str) {
    let server = Server::start(|_, _| text(&["Hello."]));
    let mut runs: Vec<Duration> = (0..50)
        .map(|_| {
            let began = Instant::now();
            run(exe, &server);
            began.elapsed()
        })
        .collect();
    let peak = getrusage(UsageWho::RUSAGE_CHILDREN).unwrap().max_rss() / 1_024;
    let mut floor: Vec<Duration> = (0..50)
        .map(|_| {
            let began = Instant::now();
            let mut client = Client::connect(&server.address);
            client.post("{\"messages\":[],\"stream\":true}");
            began.elapsed()
        })
        .collect();
    println!(
        "one prompt  {} wall, at most {peak} MB (floor: one request of a plain client {})",
        shown(median(&mut runs)),
        shown(median(&mut floor))
    );
}

/// From the last byte of one reply to the first byte of the next request: our time, journal and tool included.
fn rounds(exe: &str) {
    let server = Server::start(|n, _| if n < ROUNDS { call(n) } else { text(&["Done."]) });
    run_with(exe, &server, &["--max-turns", "1000"]);
    let gaps = server.gaps();
    let mut all = gaps.clone();
    let (mid, p99) = (median(&mut all), all[all.len() * 99 / 100]);
    let (mut first, mut last) = (gaps[..50].to_vec(), gaps[gaps.len() - 50..].to_vec());
    server.forget();
    let mut client = Client::connect(&server.address);
    let filler = "x".repeat(600);
    for n in 0..ROUNDS {
        client.post(&format!("{{\"messages\":[\"{}\"],\"stream\":true}}", filler.repeat(n + 1)));
    }
    let mut floor = server.gaps();
    println!(
        "round       {} median, {} p99; first 50 {}, last 50 {} (floor: a plain client with a growing body {})",
        shown(mid),
        shown(p99),
        shown(median(&mut first)),
        shown(median(&mut last)),
        shown(median(&mut floor)),
    );
}

fn chunks(exe: &str) {
    let cpu = || {
        let usage = getrusage(UsageWho::RUSAGE_CHILDREN).unwrap();
        let micros =
            |t: nix::sys::time::TimeVal| u64::try_from(t.tv_sec() * 1_000_000 + t.tv_usec()).unwrap();
        Duration::from_micros(micros(usage.user_time()) + micros(usage.system_time()))
    };
    let few = Server::start(|_, _| text(&["Hello."]));
    let many = Server::start(|_, _| text(&vec!["tok "; CHUNKS]));
    let measure = |server: &Server| {
        let mut runs: Vec<Duration> = (0..9)
            .map(|_| {
                let before = cpu();
                run(exe, server);
                cpu().saturating_sub(before)
            })
            .collect();
        median(&mut runs)
    };
    let (base, all) = (measure(&few), measure(&many));
    println!("{CHUNKS} chunks {} CPU (one chunk: {})", shown(all), shown(base));
}

fn run(exe: &str, server: &Server) {
    run_with(exe, server, &[]);
}

fn run_with(exe: &str, server: &Server, args: &[&str]) {
    let status = Command::new(exe)
        .args(["-p", "go", "--model", "openai/bench"])
        .args(args)
        .env_clear()
        .env("HOME", server.home.path())
        .env("OPENAI_BASE_URL", format!("http://{}/v1", server.address))
        .current_dir(server.home.path())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .unwrap();
    assert!(status.success(), "{status}");
}

fn median(runs: &mut [Duration]) -> Duration {
    runs.sort();
    runs[runs.len() / 2]
}

fn shown(duration: Duration) -> String {
    format!("{:.2} ms", duration.as_secs_f64() * 1_000.0)
}

fn event(data: &str) -> String {
    format!("data: {data}\n\n")
}

fn text(pieces: &[&str]) -> Vec<String> {
    let mut events: Vec<String> = pieces
        .iter()
        .map(|piece| event(&format!("{{\"choices\":[{{\"index\":0,\"delta\":{{\"content\":\"{piece}\"}},\"finish_reason\":null}}]}}")))
        .collect();
    events.push(event("{\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}"));
    events.push(event("[DONE]"));
    events
}

/// A read of a small file, another line each time so that no two calls are alike.
fn call(n: usize) -> Vec<String> {
    let arguments = format!("{{\\\"file_path\\\":\\\"a.txt\\\",\\\"offset\\\":{},\\\"limit\\\":1}}", n + 1);
    vec![
        event(&format!(
            "{{\"choices\":[{{\"index\":0,\"delta\":{{\"tool_calls\":[{{\"index\":0,\"id\":\"c{n}\",\"type\":\"function\",\
             \"function\":{{\"name\":\"Read\",\"arguments\":\"{arguments}\"}}}}]}},\"finish_reason\":null}}]}}"
        )),
        event("{\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"tool_calls\"}]}"),
        event("[DONE]"),
    ]
}

/// A scripted server on loopback that notes when each reply left and when the next request came.
struct Server {
    address: String,
    home: tempfile::TempDir,
    times: Arc<Mutex<Times>>,
}

#[derive(Default)]
struct Times {
    sent: Option<Instant>,
    gaps: Vec<Duration>,
    served: usize,
}

impl Server {
    fn start(reply: impl Fn(usize, &str) -> Vec<String> + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let home = tempfile::tempdir().unwrap();
        let lines: Vec<String> = (0..ROUNDS).map(|n| format!("line {n}")).collect();
        std::fs::write(home.path().join("a.txt"), lines.join("\n")).unwrap();
        let times = Arc::new(Mutex::new(Times::default()));
        let (reply, shared) = (Arc::new(reply), Arc::clone(&times));
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (reply, times) = (Arc::clone(&reply), Arc::clone(&shared));
                std::thread::spawn(move || serve(stream, &*reply, &times));
            }
        });
        Self { address, home, times }
    }

    fn gaps(&self) -> Vec<Duration> {
        self.times.lock().unwrap().gaps.clone()
    }

    fn forget(&self) {
        *self.times.lock().unwrap() = Times::default();
    }
}

fn serve(stream: TcpStream, reply: &dyn Fn(usize, &str) -> Vec<String>, times: &Mutex<Times>) {
    stream.set_nodelay(true).unwrap();
    let mut writer = stream.try_clone().unwrap();
    let mut reader = BufReader::new(stream);
    loop {
        if reader.fill_buf().is_ok_and(<[u8]>::is_empty) {
            return;
        }
        let n = {
            let mut times = times.lock().unwrap();
            if let Some(sent) = times.sent.take() {
                times.gaps.push(sent.elapsed());
            }
            times.served += 1;
            times.served - 1
        };
        let mut length = 0;
        let mut line = String::new();
        loop {
            line.clear();
            if reader.read_line(&mut line).unwrap_or(0) == 0 {
                return;
            }
            if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                length = value.trim().parse().unwrap();
            }
            if line == "\r\n" {
                break;
            }
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body).unwrap();
        let events = reply(n, &String::from_utf8_lossy(&body));
        let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
        let mut out = head.to_owned();
        let last = events.len() - 1;
        for (at, event) in events.iter().enumerate() {
            out.push_str(&format!("{:x}\r\n{event}\r\n", event.len()));
            if at == last {
                out.push_str("0\r\n\r\n");
            }
            // Ten events a packet, as services do when they are fast.
            if at % 10 == 9 || at == last {
                if writer.write_all(out.as_bytes()).is_err() {
                    return;
                }
                out.clear();
            }
        }
        times.lock().unwrap().sent = Some(Instant::now());
    }
}

/// The plainest client there is: it sends a body and reads to the end of the reply.
struct Client(BufReader<TcpStream>);

impl Client {
    fn connect(address: &str) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_nodelay(true).unwrap();
        Self(BufReader::new(stream))
    }

    fn post(&mut self, body: &str) {
        let head = format!(
            "POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-length: {}\r\n\r\n",
            body.len()
        );
        self.0.get_mut().write_all((head + body).as_bytes()).unwrap();
        let mut line = String::new();
        while line != "0\r\n" {
            line.clear();
            assert!(self.0.read_line(&mut line).unwrap() > 0);
        }
        self.0.read_line(&mut line).unwrap();
    }
}
