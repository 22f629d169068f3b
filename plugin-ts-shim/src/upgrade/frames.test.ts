import assert from 'node:assert/strict';
import { test } from 'node:test';
import { closeFrame, FrameEdges } from './frames';

const frame = (length: number, ...header: number[]) =>
  Buffer.concat([Buffer.from([0x82, ...header]), Buffer.alloc(length, 0xff)]);

for (const [name, bytes] of [
  ['an empty one', frame(0, 0)],
  ['a short one', frame(125, 125)],
  ['one of 16 bits', frame(300, 126, 1, 44)],
  ['one of 64 bits', frame(70_000, 127, 0, 0, 0, 0, 0, 1, 0x11, 0x70)],
  ['a masked one', frame(7, 0x83, 0, 0, 0, 0).subarray(0, 9)],
  ['a close', closeFrame(1008, 'x'.repeat(200))],
] as const) {
  test(`a frame ends where its last byte is: ${name}`, () => {
    const edges = new FrameEdges();
    assert.ok(edges.between);
    for (let at = 0; at < bytes.length; at += 1) {
      edges.pass(bytes.subarray(at, at + 1));
      assert.equal(edges.between, at === bytes.length - 1, `after byte ${at}`);
    }
    // In one piece with another one it is the same.
    edges.pass(Buffer.concat([bytes, bytes]));
    assert.ok(edges.between);
    edges.pass(Buffer.concat([bytes, bytes.subarray(0, -1)]));
    assert.ok(!edges.between);
  });
}
