//! A child's input, carried in frames over the supervisor's channel, so that its end is not the channel's end.

use std::collections::VecDeque;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use tokio::io::AsyncWrite;
use tokio::net::UnixStream;

/// Largest frame, in bytes. A frame is a little-endian `u32` length and that many bytes; length 0 ends the input.
const FRAME: usize = 64 * 1024;

/// The writing end of a child's standard input. Shut it down (or drop it) to give the child its end of file.
#[derive(Debug)]
pub struct ChildInput {
    channel: Arc<UnixStream>,
    unsent: VecDeque<u8>,
    ended: bool,
}

impl ChildInput {
    pub(super) fn new(channel: Arc<UnixStream>) -> Self {
        Self { channel, unsent: VecDeque::new(), ended: false }
    }

    fn frame(&mut self, bytes: &[u8]) {
        let length = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        self.unsent.extend(length.to_le_bytes());
        self.unsent.extend(bytes);
    }

    fn end(&mut self) {
        if !self.ended {
            self.ended = true;
            self.frame(&[]);
        }
    }

    fn send(&mut self) -> io::Result<()> {
        while !self.unsent.is_empty() {
            let count = self.channel.try_write(self.unsent.as_slices().0)?;
            self.unsent.drain(..count);
        }
        Ok(())
    }

    fn poll_send(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        loop {
            match self.send() {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    ready!(self.channel.poll_write_ready(cx))?;
                }
                result => return Poll::Ready(result),
            }
        }
    }
}

impl AsyncWrite for ChildInput {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        if self.ended {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        ready!(self.poll_send(cx))?;
        let (first, _) = bytes.split_at(bytes.len().min(FRAME));
        if !first.is_empty() {
            self.frame(first);
        }
        // What does not go out now goes with the next write or flush.
        match self.send() {
            Err(error) if error.kind() != io::ErrorKind::WouldBlock => Poll::Ready(Err(error)),
            _ => Poll::Ready(Ok(first.len())),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_send(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.end();
        self.poll_send(cx)
    }
}

impl Drop for ChildInput {
    fn drop(&mut self) {
        self.end();
        // As much as fits; a child that never read so much will not miss its end of file.
        self.send().ok();
    }
}

/// The supervisor's side: frames taken apart as they come.
#[derive(Debug, Default)]
pub(super) struct Frames {
    raw: Vec<u8>,
    input: VecDeque<u8>,
    ended: bool,
}

impl Frames {
    /// Takes bytes from the channel, cut anywhere.
    pub(super) fn take(&mut self, bytes: &[u8]) {
        self.raw.extend_from_slice(bytes);
        while let Some((length, rest)) = self.raw.split_first_chunk::<4>() {
            let length = u32::from_le_bytes(*length) as usize;
            let Some(body) = rest.get(..length) else { return };
            self.ended |= length == 0;
            self.input.extend(body);
            self.raw.drain(..4 + length);
        }
    }

    /// Whether no input waits.
    pub(super) fn is_empty(&self) -> bool {
        self.input.is_empty()
    }

    /// The command takes no more.
    pub(super) fn discard(&mut self) {
        self.input.clear();
    }

    /// Writes what fits; `false` when the input is over, by our end or the command's.
    pub(super) fn pass_on(&mut self, to: &mut impl io::Write) -> bool {
        while !self.input.is_empty() {
            match to.write(self.input.as_slices().0) {
                Ok(count) => drop(self.input.drain(..count)),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return error.kind() == io::ErrorKind::WouldBlock,
            }
        }
        !self.ended
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_joined_wherever_they_are_cut() {
        let wire =
            [&3u32.to_le_bytes()[..], b"abc", &2u32.to_le_bytes(), b"de", &0u32.to_le_bytes()].concat();
        for size in 1..=wire.len() {
            let mut frames = Frames::default();
            wire.chunks(size).for_each(|piece| frames.take(piece));
            let mut out = Vec::new();
            assert!(!frames.pass_on(&mut out), "pieces of {size}");
            assert_eq!(out, b"abcde", "pieces of {size}");
        }
    }

    #[tokio::test]
    async fn both_sides_speak_the_same_frames() {
        use tokio::io::{AsyncReadExt, AsyncWriteExt};

        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let text = vec![b'x'; 200_000];
        let mut input = ChildInput::new(Arc::new(ours));
        let writing = async {
            input.write_all(&text).await.unwrap();
            input.shutdown().await.unwrap();
            drop(input);
        };
        let mut wire = Vec::new();
        let ((), read) = tokio::join!(writing, theirs.read_to_end(&mut wire));
        read.unwrap();
        let mut frames = Frames::default();
        frames.take(&wire);
        let mut out = Vec::new();
        assert!(!frames.pass_on(&mut out));
        assert_eq!(out, text);
    }
}
