//! HTTP/1.1 on one accepted socket: reads requests, writes responses, notices when the client leaves.

use std::io;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// The client closed the socket while an answer was due.
#[derive(Debug)]
pub(super) struct Gone;

impl From<io::Error> for Gone {
    fn from(_: io::Error) -> Self {
        Self
    }
}

/// A request as it came over the wire; header names are in lower case.
#[derive(Debug)]
pub(super) struct RawRequest {
    pub(super) method: String,
    pub(super) target: String,
    pub(super) headers: Vec<(String, String)>,
    pub(super) body: Vec<u8>,
}

impl RawRequest {
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        find(&self.headers, name)
    }

    pub(super) fn wants_close(&self) -> bool {
        self.header("connection").is_some_and(|value| value.eq_ignore_ascii_case("close"))
    }
}

/// The first header of that (lower-case) name.
pub(super) fn find<'a>(headers: &'a [(String, String)], name: &str) -> Option<&'a str> {
    headers.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
}

/// One accepted socket and what was read from it but not used yet.
#[derive(Debug)]
pub(super) struct Connection {
    stream: TcpStream,
    buffer: Vec<u8>,
}

impl Connection {
    pub(super) fn new(stream: TcpStream) -> io::Result<Self> {
        stream.set_nodelay(true)?;
        let buffer = Vec::new();
        Ok(Self { stream, buffer })
    }

    /// The next request; an error also for the normal end of the connection.
    pub(super) async fn read_request(&mut self) -> Result<RawRequest, Gone> {
        let head = String::from_utf8_lossy(&self.read_until(b"\r\n\r\n").await?).into_owned();
        let mut lines = head.split("\r\n");
        let mut first = lines.next().unwrap_or_default().split(' ').map(str::to_owned);
        let (method, target) = (first.next().ok_or(Gone)?, first.next().ok_or(Gone)?);
        let headers = lines
            .filter_map(|line| line.split_once(':'))
            .map(|(name, value)| (name.trim().to_ascii_lowercase(), value.trim().to_owned()))
            .collect::<Vec<_>>();
        if find(&headers, "expect").is_some_and(|value| value.eq_ignore_ascii_case("100-continue")) {
            self.write(b"HTTP/1.1 100 Continue\r\n\r\n").await?;
        }
        let chunked = find(&headers, "transfer-encoding")
            .is_some_and(|value| value.to_ascii_lowercase().contains("chunked"));
        let body = if chunked {
            self.read_chunked().await?
        } else {
            let length = find(&headers, "content-length").unwrap_or("0");
            self.read_exactly(length.parse().map_err(|_| Gone)?).await?
        };
        Ok(RawRequest { method, target, headers, body })
    }

    async fn read_chunked(&mut self) -> Result<Vec<u8>, Gone> {
        let mut body = Vec::new();
        loop {
            let line = String::from_utf8_lossy(&self.read_until(b"\r\n").await?).into_owned();
            let size = line.split(';').next().unwrap_or_default().trim();
            let size = usize::from_str_radix(size, 16).map_err(|_| Gone)?;
            if size == 0 {
                // Trailers, up to an empty line.
                while !self.read_until(b"\r\n").await?.is_empty() {}
                return Ok(body);
            }
            body.extend(self.read_exactly(size).await?);
            self.read_until(b"\r\n").await?;
        }
    }

    /// The bytes before `mark`; both are taken off the buffer.
    async fn read_until(&mut self, mark: &[u8]) -> Result<Vec<u8>, Gone> {
        loop {
            let found = self.buffer.windows(mark.len()).position(|window| window == mark);
            if let Some(at) = found {
                let before = self.buffer.drain(..at).collect();
                self.buffer.drain(..mark.len());
                return Ok(before);
            }
            self.fill().await?;
        }
    }

    async fn read_exactly(&mut self, length: usize) -> Result<Vec<u8>, Gone> {
        while self.buffer.len() < length {
            self.fill().await?;
        }
        Ok(self.buffer.drain(..length).collect())
    }

    async fn fill(&mut self) -> Result<(), Gone> {
        match self.stream.read_buf(&mut self.buffer).await? {
            0 => Err(Gone),
            _ => Ok(()),
        }
    }
}

impl Connection {
    /// Sends a status line and headers.
    pub(super) async fn write_head(&mut self, status: u16, headers: &[(String, String)]) -> Result<(), Gone> {
        self.write(head(status, headers).as_bytes()).await
    }

    /// Sends a whole response in one write.
    pub(super) async fn write_whole(
        &mut self,
        status: u16,
        headers: &[(String, String)],
        body: &[u8],
    ) -> Result<(), Gone> {
        let mut bytes = head(status, headers).into_bytes();
        bytes.extend_from_slice(body);
        self.write(&bytes).await
    }

    /// Sends one HTTP chunk in one write; the last one together with the end of the body,
    /// so that a client that has all events has the end as well.
    pub(super) async fn write_chunk(&mut self, data: &[u8], last: bool) -> Result<(), Gone> {
        let mut bytes = Vec::new();
        if !data.is_empty() {
            bytes.extend(format!("{:x}\r\n", data.len()).bytes());
            bytes.extend_from_slice(data);
            bytes.extend_from_slice(b"\r\n");
        }
        if last {
            bytes.extend_from_slice(b"0\r\n\r\n");
        }
        self.check_open()?;
        self.write(&bytes).await?;
        // Lets a client on the same thread see the write by itself.
        tokio::task::yield_now().await;
        Ok(())
    }

    /// Waits; ends at once if the client leaves.
    pub(super) async fn pause(&mut self, delay: Duration) -> Result<(), Gone> {
        if delay.is_zero() {
            return Ok(());
        }
        tokio::select! {
            () = tokio::time::sleep(delay) => Ok(()),
            gone = self.hang() => Err(gone),
        }
    }

    /// Stays silent until the client leaves.
    pub(super) async fn hang(&mut self) -> Gone {
        loop {
            if let Err(gone) = self.fill().await {
                return gone;
            }
        }
    }

    /// Closes the socket.
    pub(super) async fn cut(&mut self) -> Result<(), Gone> {
        Ok(self.stream.shutdown().await?)
    }

    fn check_open(&mut self) -> Result<(), Gone> {
        match self.stream.try_read_buf(&mut self.buffer) {
            Ok(0) => Err(Gone),
            Err(error) if error.kind() != io::ErrorKind::WouldBlock => Err(Gone),
            _ => Ok(()),
        }
    }

    async fn write(&mut self, bytes: &[u8]) -> Result<(), Gone> {
        Ok(self.stream.write_all(bytes).await?)
    }
}

fn head(status: u16, headers: &[(String, String)]) -> String {
    let reason = http::StatusCode::from_u16(status).ok();
    let reason = reason.and_then(|status| status.canonical_reason()).unwrap_or("Error");
    let mut head = format!("HTTP/1.1 {status} {reason}\r\n");
    for (name, value) in headers {
        for text in [name, ": ", value, "\r\n"] {
            head.push_str(text);
        }
    }
    head.push_str("\r\n");
    head
}
