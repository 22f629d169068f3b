/**
 * Two sockets become one: bytes pass untouched in both directions (T-2).
 *
 * Invariants: a slow reader slows its writer, and nothing is kept but what is under way; when
 * one side fails or closes, the other does not outlive it for long.
 */
import type { Duplex } from 'node:stream';
import { Socket } from 'node:net';

/** Milliseconds to deliver what is under way after the other side has closed. */
const DRAIN_MS = 5_000;

/** Joins the two sockets, with what was already read from each. */
export function splice(
  near: { socket: Duplex; head: Buffer },
  far: { socket: Duplex; head: Buffer },
) {
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
  far.socket.pipe(near.socket);
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
