//! A terminal with a fake shell, a browser and a recording that can be read back.

use super::*;

pub(super) struct World {
    pub(super) clock: FakeClock,
    pub(super) recording: LiveRecording,
    pub(super) terminal: TerminalHandle,
    pub(super) dir: TempDir,
}

impl World {
    pub(super) async fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let clock = FakeClock::new();
        let recordings: Arc<dyn Recordings> = Arc::new(FakeRecordings::new());
        let clocks: Arc<dyn Clock> = Arc::new(clock.clone());
        let recorder = Recorder::new(recordings, Arc::clone(&clocks), dir.path().join("spool"));
        let recording = recorder
            .start(KEY, &Header::new(clock.wall(), "a test"))
            .await
            .unwrap();
        let deadline = clock.elapsed() + MINUTE * 30;
        let parts = TerminalParts {
            clock: clocks,
            recording: recording.clone(),
            deadline,
        };
        Self {
            terminal: TerminalHandle::spawn(parts),
            clock,
            recording,
            dir,
        }
    }

    pub(super) fn shell(&self) -> FakePod {
        let (shell, pod) = shell();
        self.terminal.set_shell(Box::new(shell));
        pod
    }

    pub(super) async fn browser(&self) -> Browser {
        let (ours, theirs) = tokio::io::duplex(SOCKET);
        self.terminal.attach_browser(theirs);
        Browser(WebSocketStream::from_raw_socket(ours, Role::Client, None).await)
    }

    /// A session under way, its launcher released.
    pub(super) async fn open(&self) -> (Browser, FakePod) {
        let pod = self.shell();
        let mut browser = self.browser().await;
        browser
            .send(json!({ "type": "resize", "cols": 100, "rows": 30 }))
            .await;
        until(|| pod.typed() == b"\n").await;
        (browser, pod)
    }

    pub(super) fn events(&self) -> Vec<Event> {
        let mut files = std::fs::read_dir(self.dir.path().join("spool")).unwrap();
        let path = files.next().unwrap().unwrap().path();
        let text = std::fs::read(path).unwrap();
        let lines = text
            .split(|byte| *byte == b'\n')
            .skip(1)
            .filter(|line| !line.is_empty());
        lines
            .map(|line| read_event(line).expect("an event"))
            .collect()
    }

    /// What was recorded with this code: its bytes.
    pub(super) fn recorded(&self, code: &str) -> Vec<u8> {
        let events = self.events();
        let mut bytes = Vec::new();
        for (index, event) in events
            .iter()
            .enumerate()
            .filter(|(_, event)| event.code == code)
        {
            let before = index.checked_sub(1).map(|before| &events[before]);
            bytes.extend(event.bytes(before).unwrap());
        }
        bytes
    }

    pub(super) fn markers(&self) -> Vec<String> {
        self.events()
            .into_iter()
            .filter(|it| it.code == "m")
            .map(|it| it.data)
            .collect()
    }
}

pub(super) struct Browser(pub(super) WebSocketStream<DuplexStream>);

impl Browser {
    pub(super) async fn send(&mut self, frame: Value) {
        self.0
            .send(Message::Text(frame.to_string().into()))
            .await
            .unwrap();
    }

    pub(super) async fn types(&mut self, data: &str) {
        self.send(json!({ "type": "input", "data": data })).await;
    }

    /// The next frame that is not a ping; `None` when the connection is closed.
    pub(super) async fn next(&mut self) -> Option<Message> {
        let next = async {
            loop {
                let message = self.0.next().await?.ok()?;
                if message.is_close() {
                    return None;
                }
                if !message.is_ping() && !message.is_pong() {
                    return Some(message);
                }
            }
        };
        tokio::time::timeout(Duration::from_secs(10), next)
            .await
            .expect("a frame, or the end")
    }

    /// The next notice; output before it is skipped.
    pub(super) async fn notice(&mut self) -> Value {
        loop {
            if let Message::Text(text) = self.next().await.expect("a notice") {
                return serde_json::from_str(&text).unwrap();
            }
        }
    }

    /// Output until so many bytes of it came; notices are skipped.
    pub(super) async fn output(&mut self, len: usize) -> Vec<u8> {
        let mut output = Vec::new();
        while output.len() < len {
            if let Message::Binary(bytes) = self.next().await.expect("output") {
                output.extend(bytes);
            }
        }
        output
    }
}

/// Waits, with a bound, until something holds.
pub(super) async fn until(mut holds: impl FnMut() -> bool) {
    for _ in 0..10_000 {
        if holds() {
            return;
        }
        tokio::time::sleep(Duration::from_micros(500)).await;
    }
    panic!("it never came to hold");
}
