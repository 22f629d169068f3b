import type { Duplex } from 'node:stream';
import { STATUS_CODES } from 'node:http';

/** Milliseconds that the other side has to take the answer and close. */
const LINGER_MS = 1_000;

/**
 * Answers an upgrade request with a complete HTTP response and closes.
 *
 * The socket is read to its end meanwhile: closing it with unread bytes would send a reset, and
 * a proxy would turn the answer into a 502.
 */
export function reject(socket: Duplex, status: number): void {
  if (socket.destroyed || socket.writableEnded) return;
  const reason = STATUS_CODES[status] ?? 'Error';
  socket.on('error', () => socket.destroy());
  socket.end(`HTTP/1.1 ${status} ${reason}\r\nConnection: close\r\nContent-Length: 0\r\n\r\n`);
  socket.once('end', () => socket.destroy());
  const linger = setTimeout(() => socket.destroy(), LINGER_MS);
  socket.once('close', () => clearTimeout(linger));
  socket.resume();
}
