import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect, createServer, type AddressInfo, type Socket } from 'node:net';
import { test } from 'node:test';
import { closeFrame } from './frames';
import { splice } from './tunnel';

/** The two ends of a loopback connection. */
async function pair(): Promise<readonly [outer: Socket, inner: Socket]> {
  const server = createServer({ allowHalfOpen: true }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  const outer = connect(port, '127.0.0.1');
  const [inner] = (await once(server, 'connection')) as [Socket];
  server.close();
  for (const socket of [outer, inner]) socket.on('error', () => socket.destroy());
  return [outer, inner];
}

async function tunnel() {
  const [[browser, near], [sidecar, far]] = await Promise.all([pair(), pair()]);
  const none = Buffer.alloc(0);
  const detach = splice({ socket: near, head: none }, { socket: far, head: none });
  const chunks: Buffer[] = [];
  browser.on('data', chunk => chunks.push(chunk));
  const seen = () => Buffer.concat(chunks);
  const sees = async (length: number) => {
    while (seen().length < length) await once(browser, 'data');
  };
  return { browser, sidecar, detach, seen, sees };
}

const FRAME = Buffer.from([0x82, 3, 1, 2, 3]);

test('T-12 who is detached is told why, between two frames', async () => {
  const { browser, sidecar, detach, seen, sees } = await tunnel();
  sidecar.write(FRAME);
  await sees(FRAME.length);
  const left = once(sidecar, 'close');
  const closed = once(browser, 'close');
  detach(4403, 'lost');
  // Whatever the sidecar sends from here on is not seen.
  sidecar.write(FRAME);
  await Promise.all([left, closed]);
  assert.deepEqual(seen(), Buffer.concat([FRAME, closeFrame(4403, 'lost')]));
});

test('T-12 within a frame only the end is seen, never a byte of ours', async () => {
  const { browser, sidecar, detach, seen, sees } = await tunnel();
  const torn = FRAME.subarray(0, -1);
  sidecar.write(torn);
  await sees(torn.length);
  const closed = once(browser, 'close');
  detach(4403, 'lost');
  await closed;
  assert.deepEqual(seen(), torn);
});

test('a browser that does not close is not waited for', async () => {
  const { browser, sidecar, detach } = await tunnel();
  browser.pause();
  const left = once(sidecar, 'close');
  detach(1008, 'away');
  await left;
  browser.resume();
  await once(browser, 'close');
});
