//! Read: ranges, caps, and things that are no text files.

use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::time::{Duration, Instant};

use nix::sys::stat::Mode;
use nix::unistd::mkfifo;
use serde_json::{Value, json};

use super::Bench;

#[tokio::test]
async fn lines_are_numbered_and_ranges_are_kept() {
    let bench = Bench::new();
    bench.write("a.txt", "one\r\ntwo\n\nfour");
    bench.write("mark.txt", "\u{feff}x\n");
    bench.write("latin.txt", b"na\xEFve\n");
    bench.write("newline.txt", "\n");
    bench.write("empty.txt", "");
    let check =
        async |input: Value, want: &str| assert_eq!(bench.ok("Read", input.clone()).await, want, "{input}");
    check(json!({"file_path": "a.txt"}), "     1\tone\n     2\ttwo\n     3\t\n     4\tfour\n").await;
    check(
        json!({"file_path": "a.txt", "offset": "2", "limit": 2.0}),
        "     2\ttwo\n     3\t\n[Lines 2 to 3 of 4 are shown. Go on with offset 4.]\n",
    )
    .await;
    check(
        json!({"file_path": "a.txt", "offset": 0, "limit": null, "extra": 1}),
        &bench.ok("Read", json!({"path": "a.txt"})).await,
    )
    .await;
    check(json!({"file_path": "a.txt", "offset": 4}), "     4\tfour\n").await;
    check(json!({"file_path": "mark.txt"}), "     1\tx\n").await;
    check(
        json!({"file_path": "latin.txt"}),
        "     1\tna\u{fffd}ve\n[The file is not all UTF-8; other bytes are shown as \u{fffd}.]\n",
    )
    .await;
    check(json!({"file_path": "newline.txt"}), "     1\t\n").await;
    let empty = format!("[{}/empty.txt is empty.]", bench.root.display());
    check(json!({"file_path": "empty.txt"}), &empty).await;
    let fails = async |input: Value, want: &str| {
        let text = bench.fails("Read", input.clone()).await;
        assert!(text.contains(want), "{input}: {text}");
    };
    fails(json!({"file_path": "a.txt", "offset": 5}), "has 4 lines; offset 5 is beyond its end").await;
    fails(json!({"file_path": "a.txt", "offset": -1}), "expected a whole number from 0").await;
    fails(json!({"file_path": "a.txt", "limit": 0}), "limit must be 1 or more").await;
    fails(json!({"file_path": "A.TXT"}), "Did you mean").await;
    fails(json!({"file_path": "a.text"}), &format!("Did you mean {}/a.txt?", bench.root.display())).await;
    fails(
        json!({"file_path": "no/such/file"}),
        &format!("the nearest that does is {}", bench.root.display()),
    )
    .await;
    fails(json!({}), "missing field `file_path`").await;
    fails(json!({"file_path": "."}), "is a folder, not a file").await;
}

#[tokio::test]
async fn binary_files_are_named() {
    let bench = Bench::new();
    let check = async |content: &[u8], want: &str| {
        bench.write("b.bin", content);
        let text = bench.fails("Read", json!({"file_path": "b.bin"})).await;
        assert!(text.contains(want), "{text}");
    };
    check(b"\x89PNG\r\n\x1a\n\0\0", "a PNG image, 10 bytes").await;
    check(b"%PDF-1.4\n", "a PDF document").await;
    check(b"a\0b", "binary data, not text").await;
    check(b"\xFF\xFEa\0", "UTF-16 text").await;
    bench.write("text.txt", "GIF8 is a text here\n");
    bench.ok("Read", json!({"file_path": "text.txt"})).await;
}

#[tokio::test]
async fn o_read_01_pipes_sockets_and_devices_are_never_opened() {
    let bench = Bench::new();
    bench.write("plain.txt", "x\n");
    std::fs::create_dir(bench.root.join("run")).unwrap();
    mkfifo(&bench.root.join("run/feed.pipe"), Mode::S_IRWXU).unwrap();
    let _socket = UnixListener::bind(bench.root.join("s.sock")).unwrap();
    symlink("/dev/zero", bench.root.join("zero.txt")).unwrap();
    symlink("/dev/tty", bench.root.join("tty.txt")).unwrap();
    let start = Instant::now();
    for (name, what) in [
        ("run/feed.pipe", "a named pipe"),
        ("s.sock", "a socket"),
        ("zero.txt", "a device"),
        ("tty.txt", "a device"),
    ] {
        for (tool, input) in [
            ("Read", json!({"file_path": name})),
            ("Edit", json!({"file_path": name, "old_string": "x", "new_string": "y"})),
            ("Write", json!({"file_path": name, "content": "y"})),
            ("Grep", json!({"pattern": "x", "path": name})),
        ] {
            let text = bench.fails(tool, input).await;
            assert!(text.contains(what), "{tool} {name}: {text}");
        }
    }
    assert_eq!(bench.ok("Grep", json!({"pattern": "x"})).await, "plain.txt\n");
    let status = bench.ok("Read", json!({"file_path": "/proc/self/status"})).await;
    assert!(status.contains("Name:"), "{status}");
    assert!(start.elapsed() < Duration::from_secs(2), "{:?}", start.elapsed());
}

#[tokio::test]
async fn o_read_02_long_lines_are_cut_and_what_follows_stays_in_reach() {
    let bench = Bench::new();
    bench.write("one.json", "j".repeat(3_000_000));
    let short = "short\n".repeat(10);
    bench.write("mixed.log", format!("{short}{}\n{short}", "\u{e9}".repeat(1_000_000)));
    bench.write("few.min.js", format!("{}\n", "m".repeat(100_000)).repeat(40));
    bench.write("long.txt", "0123456789012345678901234567890123456789\n".repeat(20_000));

    let one = bench.ok("Read", json!({"file_path": "one.json"})).await;
    assert!(one.len() < 4_000 && one.contains("[2,998,000 more characters]"), "{}", one.len());
    assert!(one.contains("sed -n '1p'"), "{one}");
    let line = bench.ok("Read", json!({"file_path": "mixed.log", "offset": 11, "limit": 1})).await;
    assert!(line.contains("[998,000 more characters]") && line.contains("Go on with offset 12"), "{line}");
    let rest = bench.ok("Read", json!({"file_path": "mixed.log", "offset": 12})).await;
    assert_eq!(rest.lines().count(), 10, "{rest}");
    let few = bench.ok("Read", json!({"file_path": "few.min.js"})).await;
    assert!(few.contains("40 lines, the first of them 1, were cut"), "{few}");

    // Every step shows new lines, and the last one ends.
    let mut offset = 1;
    let mut seen = 0;
    loop {
        let page =
            bench.ok("Read", json!({"file_path": "long.txt", "offset": offset, "limit": 1_000_000})).await;
        assert!(page.len() <= 256 * 1024, "{}", page.len());
        seen += page.lines().filter(|line| !line.starts_with('[')).count();
        let Some((_, next)) = page.rsplit_once("Go on with offset ") else { break };
        let next: usize = next.trim_end().trim_end_matches(".]").parse().unwrap();
        assert!(next > offset);
        offset = next;
    }
    assert_eq!(seen, 20_000);
}

#[tokio::test]
async fn a_cancelled_turn_reads_nothing() {
    let bench = Bench::new();
    bench.write("a.txt", "a\n");
    bench.cancel.cancel();
    assert_eq!(bench.fails("Read", json!({"file_path": "a.txt"})).await, "interrupted by the user");
}
