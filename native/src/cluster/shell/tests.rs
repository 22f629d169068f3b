use super::*;
use futures_util::{SinkExt, StreamExt};
use proptest::prelude::*;
use std::future::poll_fn;
use tokio::io::DuplexStream;

type Server = WebSocketStream<DuplexStream>;

async fn pair(capacity: usize) -> (KubeShell<DuplexStream>, Server) {
    let (ours, theirs) = tokio::io::duplex(capacity);
    let server = WebSocketStream::from_raw_socket(theirs, Role::Server, None).await;
    (KubeShell::new(client(ours).await), server)
}

async fn event<S: Shell>(shell: &mut S) -> Option<Result<ShellEvent, ShellError>> {
    poll_fn(|cx| shell.poll_event(cx)).await
}

async fn send<S: Shell>(shell: &mut S, input: ShellInput) {
    poll_fn(|cx| shell.poll_ready(cx)).await.expect("ready");
    shell.start_send(input).expect("taken");
    poll_fn(|cx| shell.poll_flush(cx)).await.expect("flushed");
}

fn status(json: &str) -> Option<String> {
    status_of(json.as_bytes())
}

#[test]
fn a_frame_of_one_byte_says_nothing() {
    for channel in 0..=255 {
        assert_eq!(event_of(Bytes::from(vec![channel])), None);
    }
    assert_eq!(event_of(Bytes::new()), None);
    assert_eq!(event_of(Bytes::from_static(&[255, 1])), None);
}

#[test]
fn output_is_the_frame_itself_less_its_channel() {
    let frame = Bytes::from_static(b"\x01abc");
    let Some(ShellEvent::Output(output)) = event_of(frame.clone()) else {
        panic!("no output")
    };
    assert_eq!(output, "abc");
    assert_eq!(output.as_ptr(), frame[1..].as_ptr(), "copied");
}

#[test]
fn the_status_says_how_the_shell_ended() {
    assert_eq!(status(r#"{"metadata":{},"status":"Success"}"#), None);
    let failed = r#"{"status":"Failure","reason":"NonZeroExitCode","message":"command terminated",
                     "details":{"causes":[{"reason":"ExitCode","message":"130"}]}}"#;
    assert_eq!(status(failed).as_deref(), Some("the shell exited with 130"));
    let other = r#"{"status":"Failure","reason":"InternalError","message":"no such container"}"#;
    assert_eq!(status(other).as_deref(), Some("no such container"));
    assert!(status("{}").is_some(), "an unknown end is not a success");
    assert_eq!(status("error\u{1b}[2J").as_deref(), Some("error [2J"));
}

proptest! {
    #[test]
    fn no_frame_is_more_than_ignored(frame in proptest::collection::vec(any::<u8>(), 0..200)) {
        let bytes = Bytes::from(frame.clone());
        match event_of(bytes) {
            Some(ShellEvent::Output(output)) => {
                prop_assert!(frame[0] == STDOUT || frame[0] == STDERR);
                prop_assert_eq!(&output[..], &frame[1..]);
            }
            Some(ShellEvent::Status(_)) => prop_assert_eq!(frame[0], STATUS),
            Some(ShellEvent::Pong) => prop_assert!(false, "a pong in a frame"),
            None => prop_assert!(frame.len() < 2 || frame[0] == STDIN || frame[0] > STATUS),
        }
    }

    #[test]
    fn input_is_framed_as_it_is(input in proptest::collection::vec(any::<u8>(), 0..200)) {
        let message = message_of(ShellInput::Stdin(Bytes::from(input.clone())));
        let frame = message.into_data();
        prop_assert_eq!(frame[0], STDIN);
        prop_assert_eq!(&frame[1..], &input[..]);
    }
}

#[tokio::test]
async fn qk52_keys_and_sizes_arrive_on_their_channels() {
    let (mut shell, mut server) = pair(4096).await;
    send(&mut shell, ShellInput::Stdin(Bytes::from_static(b"ls\r"))).await;
    send(
        &mut shell,
        ShellInput::Resize {
            cols: 132,
            rows: 43,
        },
    )
    .await;
    send(&mut shell, ShellInput::Ping).await;
    let frame = server.next().await.expect("a frame").expect("no error");
    assert_eq!(frame, Message::Binary(Bytes::from_static(b"\x00ls\r")));
    let frame = server.next().await.expect("a frame").expect("no error");
    assert_eq!(
        frame,
        Message::Binary(Bytes::from_static(b"\x04{\"Width\":132,\"Height\":43}"))
    );
    let frame = server.next().await.expect("a frame").expect("no error");
    assert!(matches!(frame, Message::Ping(_)), "{frame:?}");
    server.flush().await.expect("the pong is sent");
    assert_eq!(
        event(&mut shell)
            .await
            .expect("an event")
            .expect("no error"),
        ShellEvent::Pong
    );
}

#[tokio::test]
async fn the_status_is_the_last_event() {
    let (mut shell, mut server) = pair(4096).await;
    for frame in [
        &b"\x01"[..],
        b"\x01bye",
        b"\x03{\"status\":\"Success\"}",
        b"\x01late",
    ] {
        server
            .send(Message::Binary(Bytes::from_static(frame)))
            .await
            .expect("sent");
    }
    let output = event(&mut shell)
        .await
        .expect("an event")
        .expect("no error");
    assert_eq!(output, ShellEvent::Output(Bytes::from_static(b"bye")));
    let end = event(&mut shell)
        .await
        .expect("an event")
        .expect("no error");
    assert_eq!(end, ShellEvent::Status(None));
    assert!(event(&mut shell).await.is_none());
}

#[tokio::test]
async fn a_close_ends_the_stream_and_a_cut_breaks_it() {
    let (mut shell, mut server) = pair(4096).await;
    server.close(None).await.expect("closed");
    assert!(event(&mut shell).await.is_none());
    let (mut shell, server) = pair(4096).await;
    drop(server);
    let error = event(&mut shell)
        .await
        .expect("an event")
        .expect_err("broken");
    assert_eq!(
        error.to_string(),
        "the stream to the shell broke: the connection was cut"
    );
    assert!(event(&mut shell).await.is_none());
}

#[tokio::test]
async fn a_frame_that_is_too_large_is_not_buffered() {
    let (mut shell, mut server) = pair(1 << 21).await;
    let huge = Bytes::from(vec![STDOUT; FRAME_MAX + 1]);
    server.send(Message::Binary(huge)).await.expect("sent");
    assert!(event(&mut shell).await.expect("an event").is_err());
}

#[tokio::test]
async fn keys_get_through_while_output_is_not_read() {
    let (mut shell, server) = pair(16 << 10).await;
    let (mut out, mut keys) = server.split();
    let flood = tokio::spawn(async move {
        let output = Bytes::from(vec![STDOUT; 4096]);
        while out.send(Message::Binary(output.clone())).await.is_ok() {}
    });
    assert!(matches!(
        event(&mut shell).await,
        Some(Ok(ShellEvent::Output(_)))
    ));
    send(&mut shell, ShellInput::Stdin(Bytes::from_static(b"\x03"))).await;
    let key = keys.next().await.expect("a frame").expect("no error");
    assert_eq!(key, Message::Binary(Bytes::from_static(b"\x00\x03")));
    drop(shell);
    flood.await.expect("the flood ends with the stream");
}
