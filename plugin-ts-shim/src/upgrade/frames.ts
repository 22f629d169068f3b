/**
 * As much of WebSocket as a tunnel needs to end it politely: where frames end, and a close frame
 * (RFC 6455). Payloads are passed over, never read.
 */

/** Follows a server's byte stream from frame to frame. */
export class FrameEdges {
  /** Bytes of the frame's header, until its length is known. */
  #header: number[] = [];
  #payload = 0n;

  /** Whether the stream stands between two frames. */
  get between(): boolean {
    return this.#header.length === 0 && this.#payload === 0n;
  }

  /** Goes over the stream's next bytes. */
  pass(bytes: Buffer): void {
    let at = 0;
    while (at < bytes.length) {
      if (this.#payload > 0n) {
        const rest = BigInt(bytes.length - at);
        const step = rest < this.#payload ? rest : this.#payload;
        this.#payload -= step;
        at += Number(step);
      } else {
        this.#header.push(bytes[at] as number);
        at += 1;
        this.#measure();
      }
    }
  }

  #measure(): void {
    const second = this.#header[1];
    if (second === undefined) return;
    const short = second & 0x7f;
    const extended = short === 126 ? 2 : short === 127 ? 8 : 0;
    const mask = second & 0x80 ? 4 : 0;
    if (this.#header.length < 2 + extended + mask) return;
    const length = this.#header.slice(2, 2 + extended).reduce((n, b) => (n << 8n) | BigInt(b), 0n);
    this.#payload = extended > 0 ? length : BigInt(short);
    this.#header = [];
  }
}

/** A server's close frame; the reason has at most 123 bytes. */
export function closeFrame(code: number, reason: string): Buffer {
  const text = Buffer.from(reason, 'utf8').subarray(0, 123);
  const frame = Buffer.alloc(4 + text.length);
  frame[0] = 0x88;
  frame[1] = 2 + text.length;
  frame.writeUInt16BE(code, 2);
  text.copy(frame, 4);
  return frame;
}
