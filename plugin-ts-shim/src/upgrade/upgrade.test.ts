/** Terminals and other upgrades, on a real Backstage. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { networkInterfaces } from 'node:os';
import { afterEach, beforeEach, test } from 'node:test';
import {
  coreServices,
  createBackendPlugin,
  type BackendFeature,
  type HttpRouterService,
} from '@backstage/backend-plugin-api';
import { AuthorizeResult } from '@backstage/plugin-permission-common';
import type { JsonObject } from '@backstage/types';
import { WebSocket, WebSocketServer } from 'ws';
import { aSession, FakeSidecar } from '../testing/fakeSidecar';
import {
  startBackend,
  TOKENS,
  type TestBackend,
  type TestBackendOptions,
} from '../testing/harness';

const ID = 'session00001';
const ATTACH = `/api/glidepath/breakglass/sessions/${ID}/attach`;
const ALIAS = `/api/glidepath/breakglass/attach?session=${ID}`;
const ORIGIN = 'http://tower.test';

let sidecar: FakeSidecar;
let backend: TestBackend | undefined;
const sockets = new Set<Socket | WebSocket>();

beforeEach(async () => {
  sidecar = await FakeSidecar.start();
  sidecar.sessions.set(ID, aSession());
});

afterEach(async () => {
  for (const socket of sockets) socket instanceof WebSocket ? socket.terminate() : socket.destroy();
  sockets.clear();
  await backend?.stop();
  backend = undefined;
  await sidecar.stop();
});

async function start(options: Partial<TestBackendOptions> = {}): Promise<TestBackend> {
  backend = await startBackend({ socketPath: sidecar.socketPath, ...options });
  return backend;
}

interface Opened {
  readonly status: number;
  readonly socket: WebSocket;
}

/** Opens a WebSocket; the status is 101 or that of the refusal. */
function open(
  path: string,
  protocols: readonly string[],
  headers: Record<string, string> = { origin: ORIGIN },
  host = '127.0.0.1',
): Promise<Opened> {
  const socket = new WebSocket(`ws://${host}:${backend?.port}${path}`, [...protocols], {
    headers,
  });
  sockets.add(socket);
  return new Promise((resolve, reject) => {
    socket.once('open', () => resolve({ status: 101, socket }));
    socket.once('unexpected-response', (_, response) => {
      resolve({ status: response.statusCode ?? 0, socket });
      response.resume();
    });
    socket.once('error', reject);
  });
}

const statusOf = async (...args: Parameters<typeof open>) => (await open(...args)).status;

/** Sends bytes and reads to the end; says how the other side closed. */
async function exchange(text: string): Promise<{ bytes: string; reset: boolean }> {
  const socket = connect({ port: backend?.port as number, host: '127.0.0.1', allowHalfOpen: true });
  sockets.add(socket);
  let reset = false;
  socket.on('error', () => (reset = true));
  const chunks: Buffer[] = [];
  socket.on('data', chunk => chunks.push(chunk));
  socket.write(text);
  await Promise.race([once(socket, 'end'), once(socket, 'close')]);
  socket.end();
  return { bytes: Buffer.concat(chunks).toString('latin1'), reset };
}

function rawUpgrade(path: string, headers: Record<string, string> = {}): string {
  const all = {
    Host: 'backstage.test',
    Connection: 'Upgrade',
    Upgrade: 'websocket',
    'Sec-WebSocket-Version': '13',
    'Sec-WebSocket-Key': 'AAAAAAAAAAAAAAAAAAAAAA==',
    ...headers,
  };
  const lines = Object.entries(all).map(([name, value]) => `${name}: ${value}\r\n`);
  return `GET ${path} HTTP/1.1\r\n${lines.join('')}\r\n`;
}

/** An attach that was refused, as the audit log has it. */
const REFUSED = {
  status: 'failed',
  meta: { action: 'attach', permission: 'tower.breakglass.request', session: ID },
};

const seen = ({ status, meta }: JsonObject) => ({ status, meta });

for (const path of [ATTACH, ALIAS]) {
  const name = path.includes('?') ? 'the alias' : 'the path with the id';

  test(`qB271 ${name} takes a terminal as the first request of the process`, async () => {
    await start();
    const { status, socket } = await open(path, [TOKENS.alice]);
    assert.equal(status, 101);
    assert.equal(socket.protocol, TOKENS.alice);
    const answer = once(socket, 'message');
    socket.send(Buffer.from([0, 255, 10]));
    assert.deepEqual((await answer)[0], Buffer.from([0, 255, 10]));
  });

  test(`qB268 ${name} lets nobody without a person's valid token reach the sidecar`, async () => {
    const { audited, logText } = await start();
    const offers: ReadonlyArray<[readonly string[], number]> = [
      [[], 401],
      [['garbage'], 401],
      [[TOKENS.expired], 401],
      [[TOKENS.cookie], 401],
      [[TOKENS.service], 403],
      [[TOKENS.delegated], 403],
      [['a', 'b', 'c', 'd', 'e', TOKENS.alice], 401],
    ];
    for (const [offer, expected] of offers) {
      assert.equal(await statusOf(path, offer), expected, offer.join());
    }
    const cookie = { origin: ORIGIN, cookie: `backstage-auth=${TOKENS.alice}` };
    assert.equal(await statusOf(path, [], cookie), 401);
    assert.equal(sidecar.calls.length, 0);
    // S-15: each left an event, in the name of nobody, and no token in it.
    const nobody = { ...REFUSED, meta: { ...REFUSED.meta, initiator: 'unknown' } };
    assert.deepEqual(audited().map(seen), new Array(offers.length + 1).fill(nobody));
    for (const token of Object.values(TOKENS)) assert.ok(!logText().includes(token), token);
  });

  test(`qX5 ${name} refuses a foreign origin, and a missing one of a browser`, async () => {
    const { audited } = await start({ breakglass: { allowedOrigins: ['https://ops.test'] } });
    const withOrigin = (origin: string) => statusOf(path, [TOKENS.alice], { origin });
    assert.equal(await withOrigin('http://evil.test'), 403);
    assert.equal(await withOrigin('null'), 403);
    assert.equal(await withOrigin('http://tower.test.evil.test'), 403);
    assert.equal(await statusOf(path, [TOKENS.alice], {}), 403);
    assert.equal(sidecar.calls.length, 0);
    // S-15: whose token the foreign page had, and nobody's where it had none.
    assert.equal(await statusOf(path, ['garbage'], { origin: 'http://evil.test' }), 403);
    const by = (initiator: string) => ({ ...REFUSED, meta: { ...REFUSED.meta, initiator } });
    const alices = new Array(4).fill(by('user:default/alice'));
    assert.deepEqual(audited().map(seen), [...alices, by('unknown')]);
    assert.equal(await withOrigin('http://backstage.test'), 101);
    assert.equal(await withOrigin('https://ops.test'), 101);
    const header = { authorization: `Bearer ${TOKENS.alice}` };
    assert.equal(await statusOf(path, [], header), 101);
  });
}

test('qB274 the token may be any of the offered protocols, and is the one that is answered', async () => {
  await start();
  const { status, socket } = await open(ATTACH, ['tower.v1', TOKENS.alice]);
  assert.deepEqual([status, socket.protocol], [101, TOKENS.alice]);
});

test('qB272 the sidecar gets the caller, and nothing that the browser authenticates with', async () => {
  await start();
  await open(ATTACH, [TOKENS.alice], {
    origin: ORIGIN,
    cookie: 'a=b',
    'x-breakglass-caller': 'eA',
  });
  const [call] = sidecar.callsTo(`/v1/sessions/${ID}/attach`);
  assert.equal(call?.caller?.user, 'user:default/alice');
  assert.deepEqual(call?.caller?.allowed, ['request']);
  for (const name of ['authorization', 'cookie', 'sec-websocket-protocol', 'origin']) {
    assert.equal(call?.headers[name], undefined, name);
  }
  assert.equal(call?.headers['sec-websocket-extensions'], undefined);
  assert.doesNotMatch(JSON.stringify(sidecar.calls), new RegExp(TOKENS.alice));
});

test('qB274 no log line has a token, whatever happens to it', async () => {
  const { logText } = await start();
  for (const token of Object.values(TOKENS)) await open(ATTACH, [token]).catch(() => undefined);
  await open(ATTACH, [TOKENS.alice], { origin: 'http://evil.test' });
  sidecar.failNext(/attach$/, { kind: 'reset' });
  assert.equal(await statusOf(ATTACH, [TOKENS.alice]), 503);
  for (const token of Object.values(TOKENS)) assert.ok(!logText().includes(token), token);
});

test('a stop while the sidecar is asked waits for nothing and is no error of anybody', async () => {
  const { port, lines } = await start();
  sidecar.failNext(/attach$/, { kind: 'hang' });
  const socket = connect({ port, host: '127.0.0.1' });
  sockets.add(socket);
  socket.on('error', () => undefined);
  socket.write(rawUpgrade(ATTACH, { Origin: ORIGIN, 'Sec-WebSocket-Protocol': TOKENS.alice }));
  await until(() => sidecar.callsTo(`/v1/sessions/${ID}/attach`).length > 0);
  await backend?.stop();
  backend = undefined;
  await until(() => lines.some(line => line.message.includes('ClientGoneError')));
  const errors = lines.filter(line => line.level === 'error' && line.meta.isAuditEvent !== true);
  assert.deepEqual(errors, []);
});

test('T-1 another user is 403, an unknown session 404, an ended one 410; each is audited', async () => {
  sidecar.sessions.set('session00002', aSession({ state: 'ended' }));
  const { audited } = await start({
    answers: {
      'user:default/Alice tower.breakglass.request': AuthorizeResult.ALLOW,
      'user:default/bob tower.breakglass.request': AuthorizeResult.ALLOW,
    },
  });
  const other = ATTACH.replace(ID, 'session00002');
  assert.equal(await statusOf(ATTACH, [TOKENS.bob]), 403);
  assert.equal(await statusOf(ATTACH.replace(ID, 'session00009'), [TOKENS.alice]), 404);
  assert.equal(await statusOf(ATTACH.replace(ID, 'not-an-id'), [TOKENS.alice]), 404);
  assert.equal(await statusOf(other, [TOKENS.alice]), 410);
  assert.equal(await statusOf(ATTACH, [TOKENS.alice]), 101);
  assert.deepEqual(
    audited().map(e => [(e.meta as { session: string }).session, e.status]),
    [
      [ID, 'failed'],
      ['session00009', 'failed'],
      [undefined, 'failed'],
      ['session00002', 'failed'],
      [ID, 'succeeded'],
    ],
  );
});

test('a requester who lost the permission does not attach', async () => {
  await start({ answers: {} });
  assert.equal(await statusOf(ATTACH, [TOKENS.alice]), 403);
  assert.equal(sidecar.callsTo(`/v1/sessions/${ID}/attach`).length, 0);
});

test('qB269 a rejection is one complete answer, closed by FIN, even to a client that talks on', async () => {
  await start();
  const cases: ReadonlyArray<[string, string]> = [
    ['401 Unauthorized', rawUpgrade(ATTACH, { Origin: ORIGIN })],
    ['403 Forbidden', rawUpgrade(ATTACH, { Origin: 'http://evil.test' })],
    ['401 Unauthorized', `${rawUpgrade(ATTACH, { Origin: ORIGIN })}${'x'.repeat(4096)}`],
  ];
  for (const [status, request] of cases) {
    const { bytes, reset } = await exchange(request);
    assert.equal(bytes, `HTTP/1.1 ${status}\r\nConnection: close\r\nContent-Length: 0\r\n\r\n`);
    assert.equal(reset, false);
  }
});

test('the sidecar being away is 503 before the upgrade', async () => {
  await start();
  await sidecar.leave();
  assert.equal(await statusOf(ATTACH, [TOKENS.alice]), 503);
});

test('T-2 megabytes pass in both directions, in order', async () => {
  await start();
  const { socket } = await open(ATTACH, [TOKENS.alice]);
  const sent = Buffer.alloc(5 * 1024 * 1024, 0).map((_, index) => index % 251);
  const answer = once(socket, 'message');
  socket.send(sent);
  assert.ok((await answer)[0].equals(sent));
});

test('T-2 a browser that does not read stops the sidecar, and loses nothing', async () => {
  await start();
  const { socket } = await open(ATTACH, [TOKENS.alice]);
  socket.pause();
  const [terminal] = sidecar.terminals;
  const chunk = Buffer.alloc(1024 * 1024, 'y');
  for (let index = 0; index < 64; index += 1) terminal?.send(chunk);
  let held = -1;
  await until(() => held === (held = terminal?.bufferedAmount ?? 0) && held > 0, 250);
  // What lies between them is sockets' buffers: most of it still waits at the sidecar.
  assert.ok(held > 32 * 1024 * 1024, `${held} bytes wait at the sidecar`);
  let received = 0;
  socket.on('message', data => (received += (data as Buffer).length));
  socket.resume();
  await until(() => received === 64 * chunk.length);
});

test("each side's end is the other's", async () => {
  await start();
  const first = await open(ATTACH, [TOKENS.alice]);
  const closed = once(first.socket, 'close');
  for (const terminal of sidecar.terminals) terminal.close(4000, 'done');
  assert.equal((await closed)[0], 4000);
  const second = await open(ATTACH, [TOKENS.alice]);
  await until(() => sidecar.terminals.size === 1);
  second.socket.terminate();
  await until(() => sidecar.terminals.size === 0);
});

test('qB316 qB319 a reset while the token is judged ends neither the process nor anything else', async () => {
  const { port } = await start({
    authorize: () => new Promise((_, reject) => setTimeout(reject, 200, new Error('late'))),
  });
  for (let index = 0; index < 20; index += 1) {
    const socket = connect({ port, host: '127.0.0.1' });
    await once(socket, 'connect');
    socket.write(rawUpgrade(ATTACH, { Origin: ORIGIN, 'Sec-WebSocket-Protocol': TOKENS.alice }));
    await new Promise(resolve => setTimeout(resolve, index * 5));
    socket.resetAndDestroy();
  }
  await until(() => sidecar.callsTo(`/v1/sessions/${ID}/app`).length > 0);
  assert.equal(await statusOf(ATTACH, [TOKENS.alice]), 503);
});

test('qB311 a prefix is taken stripped or not, a query is ignored, other spellings are not ours', async () => {
  const backendAt = {
    baseUrl: 'http://backstage.test/portal',
    listen: { host: '127.0.0.1', port: 0 },
  };
  await start({ config: { backend: backendAt, app: { baseUrl: ORIGIN } } });
  assert.equal(await statusOf(ATTACH, [TOKENS.alice]), 101);
  assert.equal(await statusOf(`/portal${ATTACH}`, [TOKENS.alice]), 101);
  assert.equal(await statusOf(`${ATTACH}?cols=80`, [TOKENS.alice]), 101);
  for (const path of [`/${ATTACH}`, `${ATTACH}/`, `/other${ATTACH}`, ATTACH.toUpperCase()]) {
    assert.notEqual(await statusOf(path, [TOKENS.alice]), 101, path);
  }
});

/** A plugin that answers upgrades and requests, in one of the ways that plugins do. */
function neighbour(register: (router: HttpRouterService) => void): BackendFeature {
  return createBackendPlugin({
    pluginId: 'neighbour',
    register(env) {
      env.registerInit({
        deps: { router: coreServices.httpRouter },
        async init({ router }) {
          router.addAuthPolicy({ path: '/', allow: 'unauthenticated' });
          register(router);
        },
      });
    },
  });
}

test("a plugin on Backstage's own WebSocket routes keeps them", async () => {
  const server = new WebSocketServer({ noServer: true });
  const signals = neighbour(router =>
    router.addWebSocketHandler({
      path: '/ws',
      authPolicy: 'unauthenticated',
      handler: ({ request, socket, head }) =>
        server.handleUpgrade(request, socket, head, ws => ws.send('from the neighbour')),
    }),
  );
  await start({ features: [signals] });
  for (let again = 0; again < 2; again += 1) {
    assert.equal(await statusOf('/api/neighbour/ws', []), 101);
    assert.equal(await statusOf(ATTACH, [TOKENS.alice]), 101);
  }
});

test('qB271 a plugin that upgrades through Express still can, after ours has attached', async () => {
  const server = new WebSocketServer({ noServer: true });
  const proxy = neighbour(router =>
    router.use((req, res) => {
      if (req.headers.upgrade !== 'websocket') return void res.send('plain');
      server.handleUpgrade(req, req.socket, Buffer.alloc(0), ws =>
        ws.on('message', m => ws.send(m)),
      );
    }),
  );
  await start({ features: [proxy] });
  assert.equal(await statusOf(ATTACH, [TOKENS.alice]), 101);
  const { status, socket } = await open('/api/neighbour/exec', []);
  assert.equal(status, 101);
  const answer = once(socket, 'message');
  socket.send('echo');
  assert.equal(String((await answer)[0]), 'echo');
});

test('qB317 a plugin with a listener of its own, attached late and slow to answer, keeps its upgrades', async () => {
  const server = new WebSocketServer({ noServer: true });
  const { server: http } = await start();
  assert.equal(await statusOf(ATTACH, [TOKENS.alice]), 101);
  http.on('upgrade', (request, socket, head) => {
    if (request.url !== '/legacy') return;
    setTimeout(() => server.handleUpgrade(request, socket, head, () => undefined), 300);
  });
  assert.equal(await statusOf('/legacy', []), 101);
  assert.equal(await statusOf(ATTACH, [TOKENS.alice]), 101);
});

const loopbacks = Object.values(networkInterfaces()).flatMap(all => all ?? []);
const skip = loopbacks.some(each => each.address === '::1') ? false : 'this machine has no IPv6';

for (const listen of [':0', { host: '::', port: 0 }, { host: '::1', port: 0 }]) {
  const name = `qB314 a terminal over IPv6 where Backstage listens on ${JSON.stringify(listen)}`;
  test(name, { skip }, async () => {
    const baseUrl = 'http://backstage.test';
    await start({ config: { backend: { baseUrl, listen } } });
    const headers = { origin: ORIGIN };
    assert.equal(await statusOf(ATTACH, [TOKENS.alice], headers, '[::1]'), 101);
    assert.equal(await statusOf(ATTACH, [TOKENS.expired], headers, '[::1]'), 401);
  });
}

test('an upgrade that nobody takes is answered by Express, with or without its token', async () => {
  await start();
  assert.equal(await statusOf(ATTACH, [TOKENS.alice]), 101);
  assert.equal(await statusOf('/nowhere', []), 404);
  assert.equal(await statusOf('/api/glidepath/breakglass/elsewhere', []), 401);
});

test('an `Upgrade: h2c` request is served as if it had not offered, body and all', async () => {
  await start();
  assert.equal(await statusOf(ATTACH, [TOKENS.alice]), 101);
  const offer =
    'Connection: close, Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AA\r\n';
  const ready = await exchange(
    `GET /.backstage/health/v1/readiness HTTP/1.1\r\nHost: x\r\n${offer}\r\n`,
  );
  assert.match(ready.bytes, /^HTTP\/1\.1 200 /);
  const body = JSON.stringify({ app: 'shop', env: 'staging', padding: 'x'.repeat(20_000) });
  const posted = await exchange(
    `POST /api/glidepath/breakglass/sessions HTTP/1.1\r\nHost: x\r\n${offer}` +
      `Authorization: Bearer ${TOKENS.alice}\r\nContent-Type: application/json\r\n` +
      `Content-Length: ${body.length}\r\n\r\n${body}`,
  );
  assert.match(posted.bytes, /^HTTP\/1\.1 (201|400) /);
});

test('qB316 open terminals and unclaimed upgrades do not keep the backend from stopping', async () => {
  const { port, server } = await start();
  const { socket } = await open(ATTACH, [TOKENS.alice]);
  server.on('upgrade', () => undefined);
  const unclaimed = connect({ port, host: '127.0.0.1' });
  sockets.add(unclaimed);
  unclaimed.on('error', () => undefined);
  unclaimed.write(rawUpgrade('/nobody'));
  await new Promise(resolve => setTimeout(resolve, 100));
  const closed = once(socket, 'close');
  const before = performance.now();
  await backend?.stop();
  backend = undefined;
  await closed;
  assert.ok(performance.now() - before < 3_000);
  assert.equal(server.listening, false);
});

async function until(condition: () => boolean, every = 10, within = 15_000): Promise<void> {
  const deadline = performance.now() + within;
  while (!condition()) {
    assert.ok(performance.now() < deadline, 'it did not come to that in time');
    await new Promise(resolve => setTimeout(resolve, every));
  }
}
