// The plugin in a real Backstage 1.57, with real tokens, permissions and catalog, against a
// sidecar that records what it is sent.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { setTimeout } from 'node:timers/promises';
import { stripVTControlCharacters } from 'node:util';
import { WebSocket } from 'ws';
import fake from '@hangar/plugin-breakglass-backend/dist/testing/fakeSidecar.js';
import { launchBackstage } from './src/launch.mjs';

const { aSession, FakeSidecar } = fake;
const ID = 'session00001';
const REASON = 'a queue is stuck';

let sidecar;
let backstage;
let tokens;

before(async () => {
  sidecar = await FakeSidecar.start();
  sidecar.sessions.set(ID, aSession());
  backstage = await launchBackstage({
    args: ['--config', join(import.meta.dirname, 'overlay.test.yaml')],
    env: { BREAKGLASS_SOCKET: sidecar.socketPath },
  });
  tokens = Object.fromEntries(
    await Promise.all(
      Object.keys(backstage.info.users).map(async name => [name, await backstage.tokenOf(name)]),
    ),
  );
});

after(async () => {
  await backstage?.stop();
  await sidecar?.stop();
});

async function call(path, token, init = {}) {
  const url = `${backstage.info.url}/api/glidepath/breakglass${path}`;
  const headers = { ...init.headers, authorization: `Bearer ${token}` };
  const response = await fetch(url, { ...init, headers });
  return { status: response.status, body: await response.json() };
}

const requestOn = (app, token, more = {}) => {
  const body = {
    app,
    env: 'staging',
    cluster: 'dev',
    namespace: `${app}-staging`,
    pod: `${app}-7d9f`,
    container: 'app',
    mode: 'live',
    durationMinutes: 15,
    reason: REASON,
    ...more,
  };
  const headers = { 'content-type': 'application/json' };
  return call('/sessions', token, { method: 'POST', headers, body: JSON.stringify(body) });
};

function attach(token, { path = `/sessions/${ID}/attach`, protocols = [token], headers } = {}) {
  const { url } = backstage.info;
  const address = `${url.replace('http', 'ws')}/api/glidepath/breakglass${path}`;
  const socket = new WebSocket(address, protocols, { headers: { origin: url, ...headers } });
  return new Promise((resolve, reject) => {
    socket.once('open', () => resolve({ status: 101, socket }));
    socket.once('unexpected-response', (_, { statusCode }) => {
      resolve({ status: statusCode });
      socket.terminate();
    });
    socket.on('error', error => error.message.includes('before the connection') || reject(error));
  });
}

// The first request of a person is a terminal: nothing has warmed the listener up.
test('qB271 alice attaches with her real token', async () => {
  const { status, socket } = await attach(tokens.alice);
  assert.equal(status, 101);
  assert.equal(socket.protocol, tokens.alice);
  const answer = once(socket, 'message');
  socket.send('ls\n');
  assert.equal(String((await answer)[0]), 'ls\n');
  socket.terminate();
});

test('the example policy: owners request and approve, admins all, others nothing', async () => {
  const callers = {};
  for (const name of ['alice', 'bob', 'carol']) {
    assert.equal((await requestOn('shop', tokens[name])).status, 201, name);
    callers[name] = sidecar.calls.at(-1).caller;
  }
  assert.deepEqual(callers.alice.allowed, ['request', 'approve']);
  assert.deepEqual(callers.bob.allowed, ['request', 'approve']);
  assert.deepEqual(callers.carol.allowed, ['request', 'self', 'approve', 'terminate']);
  assert.equal(callers.bob.user, 'user:default/bob');
  for (const name of ['dave', 'erin']) {
    const { status, body } = await requestOn('shop', tokens[name]);
    assert.deepEqual([status, body.error.name], [403, 'NotAllowedError'], name);
  }
  assert.equal((await requestOn('bank', tokens.dave)).status, 201);
});

test("an app that is not in the catalog is nobody's but the admins'", async () => {
  assert.equal((await requestOn('nothing', tokens.alice)).status, 403);
  assert.equal((await requestOn('nothing', tokens.carol)).status, 201);
});

test("broken glass is for admins; an owner's is left to the tier, which the sidecar knows", async () => {
  assert.equal((await requestOn('shop', tokens.dave, { glassBroken: true })).status, 403);
  assert.equal((await requestOn('shop', tokens.carol, { glassBroken: true })).status, 201);
  await requestOn('shop', tokens.alice, { glassBroken: true });
  assert.ok(!sidecar.calls.at(-1).caller.allowed.includes('self'));
});

test("another user's terminal is 403, his own end is his, an admin may end it", async () => {
  sidecar.sessions.set('session00002', aSession());
  const path = '/sessions/session00002/attach';
  assert.equal((await attach(tokens.bob, { path })).status, 403);
  const end = name => call('/sessions/session00002/end', tokens[name], { method: 'POST' });
  assert.equal((await end('bob')).status, 403);
  assert.equal((await end('carol')).status, 200);
  assert.equal((await attach(tokens.alice, { path })).status, 410);
});

test("qB293 static tokens, restricted or not, are 403 for people's routes and terminals", async () => {
  for (const token of ['static-unrestricted-0123456789', 'static-restricted-0123456789']) {
    assert.equal((await requestOn('shop', token)).status, 403, token);
    assert.equal((await call('/queue', token)).status, 403, token);
    assert.equal((await attach(token)).status, 403, token);
  }
});

test('qX10 a token with another signature, algorithm or owner is 401, HTTP and WebSocket', async () => {
  const [header, payload, signature] = tokens.alice.split('.');
  const encode = value => Buffer.from(JSON.stringify(value)).toString('base64url');
  const decode = text => JSON.parse(Buffer.from(text, 'base64url'));
  const forged = [
    [header, encode({ ...decode(payload), sub: 'user:default/carol' }), signature],
    [header, encode({ ...decode(payload), exp: 4_000_000_000 }), signature],
    [header, payload, tokens.bob.split('.')[2]],
    [encode({ ...decode(header), alg: 'none' }), payload, 'x'],
    [encode({ ...decode(header), alg: 'HS256' }), payload, signature],
  ].map(parts => parts.join('.'));
  for (const token of forged) {
    assert.equal((await call(`/sessions/${ID}`, token)).status, 401);
    assert.equal((await attach(token)).status, 401);
  }
});

test('qB268 Signals and terminals live side by side, in any order', async () => {
  const signals = async () => {
    const url = backstage.info.url.replace('http', 'ws');
    const socket = new WebSocket(`${url}/api/signals`, [tokens.bob]);
    await once(socket, 'open');
    return socket;
  };
  const sockets = [await signals(), (await attach(tokens.alice)).socket, await signals()];
  assert.deepEqual(
    sockets.map(socket => socket.readyState),
    [1, 1, 1],
  );
  for (const socket of sockets) socket.terminate();
});

test('the exact alias answers as the path with the id does', async () => {
  const path = `/attach?session=${ID}`;
  const { status, socket } = await attach(tokens.alice, { path });
  assert.equal(status, 101);
  socket.terminate();
  assert.equal((await attach(tokens.bob, { path })).status, 403);
  assert.equal((await attach(tokens.alice, { path: '/attach' })).status, 404);
});

test('a reviewer by group is told to the sidecar', async () => {
  sidecar.sessions.set('session00003', aSession({ requester: 'user:default/erin' }));
  await call('/sessions/session00003/end', tokens.erin, { method: 'POST' });
  assert.equal(sidecar.calls.at(-1).caller.reviewer, true);
});

test('a recording is given to the people of its app', async () => {
  const path = `/sessions/${ID}/recording`;
  const { url } = backstage.info;
  const get = name =>
    fetch(`${url}/api/glidepath/breakglass${path}`, {
      headers: { authorization: `Bearer ${tokens[name]}` },
    }).then(response => response.text().then(() => response.status));
  assert.equal(await get('bob'), 200);
  assert.equal(await get('dave'), 403);
});

/** The audit events of a log, as `outcome action permission person app/env session`. */
function auditEvents(log) {
  const lines = stripVTControlCharacters(log).split('\n');
  return lines
    .filter(line => line.includes('glidepath.tower-') && line.includes('isAuditEvent=true'))
    .map(line => {
      const [, meta, status] = /meta=(\{.*\}) status="(\w+)"/.exec(line);
      const facts = JSON.parse(meta);
      const { action, permission, initiator, app = '-', env = '-', session = '-' } = facts;
      const person = initiator.replace('user:default/', '');
      const asked = permission.replace('tower.breakglass.', '');
      return `${status} ${action} ${asked} ${person} ${app}/${env} ${session}`;
    });
}

const EVERY_ACTION = [
  // Static and forged tokens are nobody's.
  ...new Array(2 + 5).fill('failed attach request unknown -/- session00001'),
  'succeeded attach request alice shop/staging session00001',
  'succeeded request request alice shop/staging new000000001',
  'succeeded request request bob shop/staging new000000002',
  'succeeded request request carol shop/staging new000000003',
  'failed request request dave shop/staging -',
  'failed request request erin shop/staging -',
  'succeeded request request dave bank/staging new000000004',
  'failed request request alice nothing/staging -',
  'succeeded request request carol nothing/staging new000000005',
  'failed request self dave shop/staging -',
  'succeeded request self carol shop/staging new000000006',
  'succeeded request self alice shop/staging new000000007',
  'failed attach request bob shop/staging session00002',
  'failed end terminate bob shop/staging session00002',
  'succeeded end terminate carol shop/staging session00002',
  'failed attach request alice shop/staging session00002',
  'succeeded attach request alice shop/staging session00001',
  'succeeded attach request alice shop/staging session00001',
  'failed attach request bob shop/staging session00001',
  'failed attach request alice -/- -',
  'succeeded end terminate erin shop/staging session00003',
  'succeeded download request bob shop/staging session00001',
  'failed download request dave shop/staging session00001',
];

test('B-5 every action left one finished audit event, and no token or reason a trace', async () => {
  const isFinished = event => !event.startsWith('initiated ');
  // The log comes through a pipe.
  const deadline = Date.now() + 10_000;
  const arrived = () => auditEvents(backstage.log()).filter(isFinished).length;
  while (arrived() < EVERY_ACTION.length && Date.now() < deadline) await setTimeout(20);
  const log = backstage.log();
  const events = auditEvents(log);
  assert.deepEqual(events.filter(isFinished).toSorted(), EVERY_ACTION.toSorted());
  assert.equal(events.length, 2 * EVERY_ACTION.length, 'each was begun once');
  assert.ok(!log.includes(REASON));
  for (const token of Object.values(tokens)) {
    assert.ok(!log.includes(token));
    assert.ok(!log.includes(token.split('.')[2]));
  }
  assert.ok(!JSON.stringify(sidecar.calls).includes(tokens.alice));
});

test('qB283 Backstage is killed: the sidecar sees the terminal close, and goes on', async () => {
  const { socket } = await attach(tokens.alice);
  assert.equal(sidecar.terminals.size, 1);
  const [terminal] = sidecar.terminals;
  const seen = once(terminal, 'close');
  socket.on('error', () => undefined);
  await backstage.stop('SIGKILL');
  await seen;
  backstage = undefined;
});
