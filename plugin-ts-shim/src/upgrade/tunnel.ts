/**
 * Two sockets become one: bytes pass untouched in both directions (T-2).
 *
 * Invariants: a slow reader slows its writer, and nothing is kept but what is under way; when
 * one side fails or closes, the other does not outlive it for long; a frame of our own stands
 * between two of the sidecar's, never within one.
 */
import type { Duplex } from 'node:stream';
import { Socket } from 'node:net';
import { closeFrame, FrameEdges } from './frames';

/** Milliseconds to deliver what is under way after the other side has closed. */
const DRAIN_MS = 5_000;
/** Milliseconds that a browser has to take the reason why it is detached. */
const LINGER_MS = 1_000;

/** Ends the terminal: the browser is told why, where that can be said. */
export type Detach = (code: number, reason: string) => void;

/** Joins the two sockets, with what was already read from each. */
export function splice(
  near: { socket: Duplex; head: Buffer },
  far: { socket: Duplex; head: Buffer },
): Detach {
  const pair = [near.socket, far.socket] as const;
  for (const socket of pair) {
    if (socket instanceof Socket) {
      socket.setTimeout(0);
      socket.setNoDelay(true);
      socket.setKeepAlive(true, 30_000);
    }
  }
  if (near.head.length > 0) near.socket.unshift(near.head);
  if (far.head.length > 0) far.socket.unshift(far.head);
  follow(near.socket, far.socket);
  follow(far.socket, near.socket);
  near.socket.pipe(far.socket);
  const edges = new FrameEdges();
  // It sees what the pipe passes on, chunk by chunk, and waits when the pipe does.
  far.socket.on('data', (bytes: Buffer) => edges.pass(bytes));
  far.socket.pipe(near.socket);
  return (code, reason) => detach(near.socket, far.socket, edges, closeFrame(code, reason));
}

function detach(near: Duplex, far: Duplex, edges: FrameEdges, frame: Buffer): void {
  far.unpipe(near);
  near.unpipe(far);
  far.destroy();
  // Within a frame, our bytes would be taken for its payload: then only the close is seen.
  if (!edges.between || near.writableEnded) {
    near.destroy();
    return;
  }
  near.end(frame);
  // What the browser still sends goes nowhere; closing with it unread would reset the connection.
  near.resume();
  near.once('end', () => near.destroy());
  const linger = setTimeout(() => near.destroy(), LINGER_MS);
  near.once('close', () => clearTimeout(linger));
}

/** Makes `other` share the end of `socket`. */
function follow(socket: Duplex, other: Duplex): void {
  socket.once('error', () => {
    socket.destroy();
    other.destroy();
  });
  socket.once('close', () => {
    if (other.destroyed) return;
    other.end();
    const drain = setTimeout(() => other.destroy(), DRAIN_MS);
    other.once('close', () => clearTimeout(drain));
  });
}
