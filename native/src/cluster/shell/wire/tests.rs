use super::super::{KubeShell, client};
use super::*;
use crate::ports::cluster::{Shell, ShellEvent};
use proptest::prelude::*;
use std::future::poll_fn;
use tokio::io::AsyncWriteExt;

/// A frame as a server sends it: first byte, payload.
type Frame = (u8, Vec<u8>);

fn encoded(frames: &[Frame]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (first, payload) in frames {
        bytes.push(*first);
        match payload.len() {
            len @ 0..126 => bytes.push(len as u8),
            len @ 126..0x1_0000 => {
                bytes.push(126);
                bytes.extend((len as u16).to_be_bytes());
            }
            len => {
                bytes.push(127);
                bytes.extend((len as u64).to_be_bytes());
            }
        }
        bytes.extend(payload);
    }
    bytes
}

/// What comes of bytes that arrive in these pieces: all output, pongs as `|`, and how it ended.
async fn heard(bytes: Vec<u8>, pieces: &[usize]) -> (Vec<u8>, bool) {
    let (ours, mut theirs) = tokio::io::duplex(1 << 21);
    let mut shell = KubeShell::new(client(ours).await);
    let (mut output, mut rest) = (Vec::new(), &bytes[..]);
    let mut pieces = pieces.iter().cycle();
    loop {
        let len = pieces.next().copied().unwrap_or(usize::MAX).min(rest.len());
        theirs.write_all(&rest[..len]).await.expect("room");
        rest = &rest[len..];
        if rest.is_empty() {
            theirs.shutdown().await.expect("ended");
        }
        loop {
            let event = poll_fn(|cx| Poll::Ready(shell.poll_event(cx))).await;
            match event {
                Poll::Pending if !rest.is_empty() => break,
                Poll::Pending => tokio::task::yield_now().await,
                Poll::Ready(Some(Ok(ShellEvent::Output(bytes)))) => output.extend(bytes),
                Poll::Ready(Some(Ok(ShellEvent::Pong))) => output.push(b'|'),
                Poll::Ready(Some(Ok(ShellEvent::Status(_))) | None) => return (output, true),
                Poll::Ready(Some(Err(_))) => return (output, false),
            }
        }
    }
}

fn payload() -> impl Strategy<Value = Vec<u8>> {
    let content = proptest::collection::vec(b'a'..=b'z', 0..300);
    let large = (60_000usize..70_000).prop_map(|len| vec![b'L'; len]);
    let content = prop_oneof![20 => content, 1 => large];
    (0u8..=5, content).prop_map(|(channel, content)| {
        // A status would end the stream.
        let channel = if channel == 3 { STDOUT } else { channel };
        [vec![channel], content].concat()
    })
}

/// A whole message, or several pieces of one with a ping in between; and what is heard of it.
fn message() -> impl Strategy<Value = (Vec<Frame>, Vec<u8>)> {
    let shown = |payload: &[u8]| match payload {
        [STDOUT | STDERR, content @ ..] => content.to_vec(),
        _ => Vec::new(),
    };
    prop_oneof![
        6 => payload().prop_map(move |it| (vec![(0x82, it.clone())], shown(&it))),
        1 => payload().prop_map(move |it| (vec![(0x81, it.clone())], shown(&it))),
        1 => Just((vec![(0x82, Vec::new())], Vec::new())),
        1 => Just((vec![(0x89, b"ping".to_vec())], Vec::new())),
        1 => Just((vec![(0x8a, Vec::new())], b"|".to_vec())),
        2 => (payload(), 0usize..200, any::<bool>()).prop_map(move |(it, at, pings)| {
            let (head, tail) = it.split_at(at.min(it.len()));
            let mut frames = vec![(0x02, head.to_vec())];
            if pings {
                frames.push((0x89, Vec::new()));
            }
            frames.push((0x80, tail.to_vec()));
            (frames, shown(&it))
        }),
    ]
}

proptest! {
    #[test]
    fn the_same_is_heard_however_frames_are_made_and_bytes_arrive(
        messages in proptest::collection::vec(message(), 0..20),
        pieces in proptest::collection::vec(1usize..3000, 1..10),
    ) {
        let frames: Vec<Frame> = messages.iter().flat_map(|(frames, _)| frames.clone()).collect();
        let expected: Vec<u8> = messages.iter().flat_map(|(_, shown)| shown.clone()).collect();
        let bytes = encoded(&[frames, vec![(0x88, Vec::new())]].concat());
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        let (output, closed) = runtime.block_on(heard(bytes, &pieces));
        prop_assert!(closed);
        prop_assert!(output == expected, "{} bytes of {}", output.len(), expected.len());
    }

    #[test]
    fn no_bytes_are_more_than_a_broken_stream(
        bytes in proptest::collection::vec(any::<u8>(), 0..400),
        pieces in proptest::collection::vec(1usize..50, 1..10),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        runtime.block_on(heard(bytes, &pieces));
    }
}

#[tokio::test]
async fn what_the_library_refuses_is_refused() {
    let output = || (0x82, b"\x01before".to_vec());
    for frame in [
        (0xc2, b"\x01reserved bit".to_vec()),
        (0x80, b"\x01goes on with nothing".to_vec()),
        (0x83, b"\x01reserved opcode".to_vec()),
    ] {
        let bytes = encoded(&[output(), frame, output()]);
        assert_eq!(heard(bytes, &[7]).await, (b"before".to_vec(), false));
    }
    let between = encoded(&[output(), (0x02, b"\x01x".to_vec()), output()]);
    assert_eq!(heard(between, &[500]).await, (b"before".to_vec(), false));
    let mut masked = encoded(&[output()]);
    masked.extend([0x82, 0x82, 0, 0, 0, 0, STDOUT, b'x']);
    assert_eq!(heard(masked, &[500]).await, (b"before".to_vec(), false));
}

#[tokio::test]
async fn frames_that_arrived_together_are_one_output() {
    let frame = (0x82, [vec![STDOUT], vec![b'x'; 127]].concat());
    let (ours, mut theirs) = tokio::io::duplex(1 << 16);
    let bytes = encoded(&vec![frame; 100]);
    theirs.write_all(&bytes).await.expect("room");
    let mut shell = KubeShell::new(client(ours).await);
    let event = poll_fn(|cx| shell.poll_event(cx)).await;
    let Some(Ok(ShellEvent::Output(output))) = event else {
        panic!("no output")
    };
    assert_eq!(output.len(), 100 * 127);
}

#[tokio::test]
async fn an_idle_connection_keeps_no_buffer() {
    let (ours, mut theirs) = tokio::io::duplex(1 << 16);
    let mut wire = Wire::new(ours);
    theirs
        .write_all(&encoded(&[(0x82, b"\x01$ ".to_vec())]))
        .await
        .expect("room");
    poll_fn(|cx| wire.poll_more(cx)).await;
    assert_eq!(wire.take_output(), Some(Bytes::from_static(b"$ ")));
    assert!(
        poll_fn(|cx| Poll::Ready(wire.poll_more(cx)))
            .await
            .is_pending()
    );
    assert_eq!(wire.ahead.capacity(), 0);
}
