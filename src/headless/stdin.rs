//! Reads piped text without ever waiting in silence.

use std::io::Read;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

/// How long a run that has a prompt waits for the first byte.
const FIRST_BYTE: Duration = Duration::from_millis(2_500);
/// How long it waits for more once something came.
const MORE: Duration = Duration::from_mins(1);
/// A run without a prompt waits for ever, but says so after this long.
const SAY_SO: Duration = Duration::from_millis(2_500);
/// Bytes that are taken.
const CAP: usize = 10 * 1024 * 1024;

/// Whether a prompt is there already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Need {
    /// The text is an addition.
    Extra,
    /// The text is the prompt.
    Prompt,
}

/// Reads all of a stream that is no terminal; `say` shows a sentence to the user.
///
/// The reading thread is left behind when the wait is over: nothing can wake it, and the process ends without it.
pub fn read(stream: impl Read + Send + 'static, need: Need, say: impl Fn(&str)) -> Result<String, String> {
    let (sender, receiver) = mpsc::sync_channel::<std::io::Result<Vec<u8>>>(4);
    std::thread::spawn(move || pump(stream, &sender));
    let mut bytes = Vec::new();
    let mut told = false;
    let mut last = Instant::now();
    loop {
        let wait = match (need, bytes.is_empty()) {
            (Need::Extra, true) => FIRST_BYTE,
            (Need::Extra, false) if told => MORE.saturating_sub(last.elapsed()),
            (Need::Prompt, _) if told => Duration::from_hours(24),
            (Need::Extra, false) | (Need::Prompt, _) => SAY_SO,
        };
        match receiver.recv_timeout(wait) {
            Ok(Ok(piece)) => {
                bytes.extend_from_slice(&piece);
                last = Instant::now();
                if bytes.len() > CAP {
                    return Err(
                        "stdin holds more than 10 MB; put it into a file and name the file in the prompt"
                            .to_owned(),
                    );
                }
            }
            Ok(Err(error)) => return Err(format!("stdin cannot be read: {error}")),
            Err(RecvTimeoutError::Disconnected) => break,
            Err(RecvTimeoutError::Timeout) => match (need, bytes.is_empty(), told) {
                (Need::Extra, true, _) => {
                    say(
                        "Nothing came on stdin within 2.5 s; going on without it (use < /dev/null to skip the wait).",
                    );
                    break;
                }
                (Need::Extra, false, true) => {
                    say("stdin is open but silent for 60 s; going on with what came.");
                    break;
                }
                (_, _, false) => {
                    say("Waiting for the end of stdin … (close it, or give the prompt with -p)");
                    told = true;
                }
                (Need::Prompt, _, true) => {}
            },
        }
    }
    String::from_utf8(bytes)
        .map_err(|_| "stdin is not UTF-8 text; name a file in the prompt instead".to_owned())
}

fn pump(mut stream: impl Read, sender: &mpsc::SyncSender<std::io::Result<Vec<u8>>>) {
    let mut buffer = vec![0; 64 * 1024];
    loop {
        let piece = match stream.read(&mut buffer) {
            Ok(0) => return,
            Ok(n) => Ok(buffer.get(..n).unwrap_or_default().to_vec()),
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
            Err(error) => Err(error),
        };
        let failed = piece.is_err();
        if sender.send(piece).is_err() || failed {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_that_is_piped_is_read() {
        let text = "x".repeat(200_000);
        assert_eq!(read(std::io::Cursor::new(text.clone()), Need::Extra, |_| ()), Ok(text));
        assert_eq!(read(std::io::empty(), Need::Prompt, |_| ()), Ok(String::new()));
        assert!(read(&b"\xff"[..], Need::Extra, |_| ()).is_err());
    }
}
