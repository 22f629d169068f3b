/** The routes, on a real Backstage with a sidecar that records what it is sent. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { AuthorizeResult } from '@backstage/plugin-permission-common';
import { aSession, errorBody } from './testing/fakeSidecar';
import { TOKENS } from './testing/harness';
import { BODY, ID, call, post, sidecar, start, stop } from './testing/routes';

test('a session is shown with the caller that Backstage vouches for', async () => {
  await start();
  const answer = await call(`/sessions/${ID}`, TOKENS.alice);
  assert.equal(answer.status, 200);
  assert.equal(answer.body.session.id, ID);
  assert.deepEqual(sidecar.calls.at(-1)?.caller, {
    version: 1,
    user: 'user:default/alice',
    app: 'shop',
    allowed: ['request'],
    reviewer: false,
    declaredTier: null,
  });
});

test('the list asks for the app of the query and passes the names on', async () => {
  await start();
  const answer = await call('/sessions?app=shop&env=staging', TOKENS.alice);
  assert.equal(answer.status, 200);
  assert.equal(answer.body.sessions.length, 1);
  assert.equal(sidecar.calls.at(-1)?.path, '/v1/sessions?app=shop&env=staging');
});

for (const query of [
  '',
  '?app=shop',
  '?app=shop&env=',
  '?app=..&env=x',
  '?app[]=a&env=x',
  '?app=a%2Fb&env=x',
]) {
  test(`the list refuses the query \`${query}\` and names the field`, async () => {
    await start();
    const answer = await call(`/sessions${query}`, TOKENS.alice);
    assert.equal(answer.status, 400);
    assert.match(answer.body.error.message, /`(app|env)`/);
    assert.equal(sidecar.calls.length, 0);
  });
}

test('a session is requested, answered with 201, and audited with its id', async () => {
  const { audited, lines } = await start();
  const answer = await post('/sessions', TOKENS.alice, BODY);
  assert.equal(answer.status, 201);
  const [event, ...others] = audited();
  assert.deepEqual(others, []);
  assert.equal(event?.eventId, 'tower-write');
  assert.equal(event?.status, 'succeeded');
  assert.equal(event?.severityLevel, 'medium');
  const { app, env, action, initiator, permission, session } = event?.meta as Record<
    string,
    unknown
  >;
  assert.deepEqual(
    { app, env, action, initiator, permission, session },
    {
      app: 'shop',
      env: 'staging',
      action: 'request',
      initiator: 'user:default/alice',
      permission: 'tower.breakglass.request',
      session: answer.body.id,
    },
  );
  assert.equal(lines.filter(line => line.level === 'error').length, 0);
});

test('qR20 qR26 the event of a request says which container of which pod, and its image', async () => {
  const { audited } = await start();
  assert.equal((await post('/sessions', TOKENS.alice, BODY)).status, 201);
  const { pod, container, podImage, state } = audited()[0]?.meta as Record<string, unknown>;
  assert.deepEqual(
    { pod, container, podImage, state },
    { pod: 'web-1', container: 'app', podImage: 'registry.example.org/shop:1.2', state: 'active' },
  );
});

test('nothing in a body changes who is recorded', async () => {
  await start();
  const body = { ...BODY, requester: 'user:default/bob', user: 'user:default/bob', initiator: 'x' };
  const answer = await call('/sessions', TOKENS.alice, {
    method: 'POST',
    body: JSON.stringify(body),
    headers: { 'content-type': 'application/json', 'x-breakglass-caller': 'Zm9yZ2Vk' },
  });
  assert.equal(answer.body.requester, 'user:default/alice');
  assert.equal(sidecar.calls.at(-1)?.caller?.user, 'user:default/alice');
});

test('broken glass is audited as critical, and needs its own permission or the ordinary one', async () => {
  const self = { 'user:default/bob tower.breakglass.self': AuthorizeResult.ALLOW };
  const { audited } = await start({ answers: self });
  const body = { ...BODY, glassBroken: true };
  assert.equal((await post('/sessions', TOKENS.bob, body)).status, 201);
  assert.equal((await post('/sessions', TOKENS.alice, body)).status, 403);
  assert.deepEqual(
    audited().map(event => [event.severityLevel, event.status]),
    [
      ['critical', 'succeeded'],
      ['critical', 'failed'],
    ],
  );
});

test('`Prefer: respond-async` reaches the sidecar', async () => {
  await start();
  const headers = { 'content-type': 'application/json', prefer: 'respond-async' };
  await call('/sessions', TOKENS.alice, { method: 'POST', body: JSON.stringify(BODY), headers });
  assert.equal(sidecar.calls.at(-1)?.headers.prefer, 'respond-async');
});

test('an end takes an empty body without a content type', async () => {
  const { audited } = await start();
  const answer = await post(`/sessions/${ID}/end`, TOKENS.alice);
  assert.equal(answer.status, 200);
  assert.equal(answer.body.state, 'ended');
  assert.deepEqual((audited()[0]?.meta as Record<string, unknown>).action, 'end');
});

test('an end by somebody else is refused and the refusal audited', async () => {
  const { audited } = await start();
  const answer = await post(`/sessions/${ID}/end`, TOKENS.bob);
  assert.equal(answer.status, 403);
  assert.equal(answer.body.error.name, 'NotAllowedError');
  assert.equal(sidecar.callsTo(`/v1/sessions/${ID}/end`).length, 0);
  assert.deepEqual(
    audited().map(event => event.status),
    ['failed'],
  );
});

test('an admin and the approver may end it', async () => {
  sidecar.sessions.set('session00002', aSession({ approver: 'user:default/bob' }));
  await start({
    answers: { 'user:default/bob tower.breakglass.terminate': AuthorizeResult.ALLOW },
  });
  assert.equal((await post(`/sessions/${ID}/end`, TOKENS.bob)).status, 200);
  assert.equal((await post('/sessions/session00002/end', TOKENS.bob)).status, 200);
});

test('a second end is the conflict that the sidecar says it is', async () => {
  await start();
  await post(`/sessions/${ID}/end`, TOKENS.alice);
  const answer = await post(`/sessions/${ID}/end`, TOKENS.alice);
  assert.equal(answer.status, 409);
  assert.equal(answer.body.error.name, 'ConflictError');
  assert.equal(answer.body.error.message, 'this session has already ended');
});

test('a recording streams with its length and hash', async () => {
  const { audited } = await start();
  const answer = await call(`/sessions/${ID}/recording?purpose=play`, TOKENS.alice);
  assert.equal(answer.status, 200);
  assert.match(answer.body, /"hello"/);
  assert.equal(answer.headers.get('x-recording-sha256'), 'a'.repeat(64));
  assert.equal(answer.headers.get('content-disposition'), null);
  const [event] = audited();
  assert.equal(event?.eventId, 'tower-breakglass-recording');
  assert.equal((event?.meta as Record<string, unknown>).action, 'play');
});

test('a sensitive recording is audited as high, a refusal of it too', async () => {
  sidecar.sessions.set(ID, aSession({ sensitive: true, requester: 'user:default/bob' }));
  const { audited } = await start();
  const answer = await call(`/sessions/${ID}/recording`, TOKENS.alice);
  assert.equal(answer.status, 403);
  assert.deepEqual(
    audited().map(e => [e.severityLevel, e.status]),
    [['high', 'failed']],
  );
});

test("a recording past its retention is 410 in the sidecar's words", async () => {
  await start();
  const body = errorBody(410, 'GoneError', 'the recording is past its retention');
  sidecar.failNext(/recording/, { kind: 'answer', status: 410, body });
  const answer = await call(`/sessions/${ID}/recording`, TOKENS.alice);
  assert.equal(answer.status, 410);
  assert.equal(answer.body.error.message, 'the recording is past its retention');
});

test('field problems of the sidecar reach the form', async () => {
  await start();
  const problems = [{ field: 'pod', code: 'missing', message: 'pod is needed' }];
  const body = errorBody(400, 'InputError', 'the request has problems', { problems });
  sidecar.failNext(/^\/v1\/sessions$/, { kind: 'answer', status: 400, body });
  const answer = await post('/sessions', TOKENS.alice, BODY);
  assert.equal(answer.status, 400);
  assert.deepEqual(answer.body.error.problems, problems);
});

test('B-2 a wrong request is refused field by field before the sidecar sees it, and audited', async () => {
  const { audited } = await start();
  const wrong = { ...BODY, pod: '..', durationMinutes: 20, processAccess: true, mode: 'copy' };
  const { status, body } = await post('/sessions', TOKENS.alice, wrong);
  assert.equal(status, 400);
  const problems = body.error.problems as Array<{ field: string; code: string; message: string }>;
  assert.deepEqual(problems.map(problem => problem.field).sort(), [
    'durationMinutes',
    'pod',
    'processAccess',
  ]);
  const told = problems.map(problem => `${problem.field}: ${problem.message}`);
  assert.equal(body.error.message, told.join('; '));
  assert.equal(sidecar.calls.length, 0);
  assert.deepEqual(
    audited().map(event => event.status),
    ['failed'],
  );
});

test("B-2 hostile bodies are the client's error: depth, lists, unpaired surrogates", async () => {
  await start();
  const deep = `{"app":${'['.repeat(30_000)}${']'.repeat(30_000)}}`;
  const bodies = [deep, '[]', '{}', JSON.stringify({ ...BODY, app: '\ud800' })];
  for (const body of bodies) {
    assert.equal((await post('/sessions', TOKENS.alice, body)).status, 400, body.slice(0, 20));
  }
  assert.equal(sidecar.calls.length, 0);
});

test('what is not a protocol answer becomes 502 and says so', async () => {
  await start();
  sidecar.failNext(/^\/v1\/sessions\//, { kind: 'answer', status: 200, body: '<html>' });
  const answer = await call(`/sessions/${ID}`, TOKENS.alice);
  assert.equal(answer.status, 502);
  assert.equal(answer.body.error.name, 'BadSidecarAnswerError');
});

test('a body that is not JSON, and one that is too large, are refused without an echo', async () => {
  await start();
  const broken = await post('/sessions', TOKENS.alice, '{"reason": "s3cret');
  assert.equal(broken.status, 400);
  assert.doesNotMatch(JSON.stringify(broken.body), /s3cret/);
  const large = await post('/sessions', TOKENS.alice, { ...BODY, reason: 'x'.repeat(70_000) });
  assert.equal(large.status, 413);
  for (const { status, body } of [broken, large]) {
    assert.equal(body.error.name, status === 413 ? 'PayloadTooLargeError' : 'InputError');
    assert.equal(body.response.statusCode, status);
    assert.match(body.error.message, /nothing was done/);
  }
  assert.equal(sidecar.calls.length, 0);
});

test('S-11 a body that is not said to be JSON is 415 on every route that takes one', async () => {
  await start();
  for (const path of ['/sessions', `/sessions/${ID}/end`]) {
    for (const [type, status] of [
      ['text/plain', 415],
      ['application/x-www-form-urlencoded', 415],
      ['application/json; charset=latin1', 415],
      [undefined, 415],
    ] as const) {
      const headers = type === undefined ? {} : { 'content-type': type };
      const body = Buffer.from(JSON.stringify(BODY));
      const answer = await call(path, TOKENS.alice, { method: 'POST', headers, body });
      assert.equal(answer.status, status, `${path} ${type}`);
      assert.equal(answer.body.error.name, 'UnsupportedMediaTypeError');
      assert.equal(answer.body.response.statusCode, status);
    }
  }
  assert.equal(sidecar.calls.length, 0);
  const headers = { 'content-type': 'Application/JSON; charset=UTF-8' };
  const body = JSON.stringify(BODY);
  const taken = await call('/sessions', TOKENS.alice, { method: 'POST', headers, body });
  assert.equal(taken.status, 201);
});

test('S-14b an end needs no body and no content type, however its emptiness is framed', async () => {
  sidecar.sessions.set('session00002', aSession());
  await start();
  assert.equal((await post(`/sessions/${ID}/end`, TOKENS.alice)).status, 200);
  const body = new ReadableStream({ start: controller => controller.close() });
  const chunked = { method: 'POST', body, duplex: 'half' } as RequestInit;
  assert.equal((await call('/sessions/session00002/end', TOKENS.alice, chunked)).status, 200);
});

test('an end whose answer does not come is audited with an unknown outcome', async () => {
  const { audited } = await start();
  sidecar.failNext(/end$/, { kind: 'reset' });
  const answer = await post(`/sessions/${ID}/end`, TOKENS.alice);
  assert.equal(answer.status, 503);
  assert.equal(answer.body.error.outcome, 'unknown');
  assert.match(answer.body.error.message, /outcome is unknown/);
  const [event] = audited();
  assert.equal((event?.meta as Record<string, unknown>).outcome, 'unknown');
});

for (const [method, path] of [
  ['GET', '/queue'],
  ['POST', `/sessions/${ID}/approve`],
  ['POST', `/sessions/${ID}/deny`],
  ['POST', `/sessions/${ID}/start`],
  ['POST', `/sessions/${ID}/extend`],
  ['POST', `/sessions/${ID}/review`],
] as const) {
  test(`${method} ${path} is 501 with a reason, and only to a person`, async () => {
    await start();
    const answer = await call(path, TOKENS.alice, { method });
    assert.equal(answer.status, 501);
    assert.equal(answer.body.error.name, 'NotImplementedError');
    assert.equal((await call(path, undefined, { method })).status, 401);
  });
}

test('an id that is none, or unknown, is 404 and never a path of the sidecar', async () => {
  await start();
  for (const id of ['x', 'SESSION00001', '..%2f..%2freadyz', 'session00099']) {
    const answer = await call(`/sessions/${id}`, TOKENS.alice);
    assert.equal(answer.status, 404, id);
  }
  const paths = new Set(sidecar.calls.map(seen => seen.path));
  assert.deepEqual([...paths], ['/v1/sessions/session00099/app']);
});

test("qX11 a session under another app's name is 404", async () => {
  await start();
  assert.equal((await call(`/sessions/${ID}?app=bank`, TOKENS.alice)).status, 404);
  assert.equal((await call(`/sessions/${ID}?app=shop`, TOKENS.alice)).status, 200);
  // The app changed between the two steps: the sidecar compares and refuses.
  const body = JSON.stringify({ ...aSession({ app: 'bank' }), state: undefined });
  sidecar.failNext(/\/app$/, { kind: 'answer', status: 200, body });
  assert.equal((await call(`/sessions/${ID}`, TOKENS.alice)).status, 404);
});

test('qB287 qB310 a sidecar that is away: Backstage is ready, our routes are 503 with a reason', async () => {
  await sidecar.leave();
  const { port } = await start();
  const ready = await fetch(`http://127.0.0.1:${port}/.backstage/health/v1/readiness`);
  assert.equal(ready.status, 200);
  const health = await call('/health', undefined);
  assert.equal(health.status, 503);
  assert.match(health.body.reason, /sidecar/);
  const answer = await post('/sessions', TOKENS.alice, BODY);
  assert.equal(answer.status, 503);
  assert.equal(answer.body.error.name, 'ServiceUnavailableError');
  assert.match(answer.body.error.message, /sidecar/);
  assert.doesNotMatch(JSON.stringify(answer.body), /api\.sock/);
  await sidecar.listen();
  assert.equal((await post('/sessions', TOKENS.alice, BODY)).status, 201);
});

test('health says what the sidecar misses, and is ok when nothing is', async () => {
  sidecar.missing = ['the database does not answer'];
  await start();
  const unready = await call('/health', undefined);
  assert.deepEqual([unready.status, unready.body.missing], [503, sidecar.missing]);
  sidecar.missing = [];
  await stop();
  await start();
  assert.deepEqual((await call('/health', undefined)).body, { status: 'ok' });
});

test('a sidecar that resets a connection in the middle is away, and nothing is sent twice', async () => {
  await start();
  sidecar.failNext(/^\/v1\/sessions$/, { kind: 'reset' });
  assert.equal((await post('/sessions', TOKENS.alice, BODY)).status, 503);
  assert.equal(sidecar.callsTo('/v1/sessions').filter(seen => seen.method === 'POST').length, 1);
});

for (const [what, config] of [
  ['permissions are off', { permission: { enabled: false } }],
  ['nothing is configured', { glidepath: {} }],
  ["the socket's path is relative", { glidepath: { breakglass: { socketPath: 'x.sock' } } }],
] as const) {
  test(`qB310 the plugin does not start where ${what}`, async () => {
    await assert.rejects(start({ config }), /glidepath.*startup|breakglass|permission/s);
  });
}

test("qB289 a token of 8 KiB is judged, one beyond the server's limit is 431", async () => {
  await start();
  assert.equal((await call(`/sessions/${ID}`, 'x'.repeat(8 * 1024))).status, 401);
  assert.equal((await call(`/sessions/${ID}`, 'x'.repeat(17 * 1024))).status, 431);
});

test('B-9 in development the sidecar is started with the plugin, heard, and stopped with it', async () => {
  const args = ['-c', 'echo "I am $$"; exec sleep 60'];
  const { lines } = await start({ breakglass: { sidecar: { command: '/bin/sh', args } } });
  const said = () => lines.map(line => /^I am (\d+)$/.exec(line.message)?.[1]).find(Boolean);
  for (let waited = 0; said() === undefined && waited < 500; waited += 1) {
    await new Promise(resolve => setTimeout(resolve, 10));
  }
  const pid = Number(said());
  process.kill(pid, 0);
  await stop();
  assert.throws(() => process.kill(pid, 0), /ESRCH/);
});
