import assert from 'node:assert/strict';
import { afterEach, beforeEach, test } from 'node:test';
import { aSession, errorBody, FakeSidecar } from '../testing/fakeSidecar';
import { statusOf } from './errors';
import { encodeCaller, type Caller } from './protocol';
import { SidecarClient } from './SidecarClient';

let sidecar: FakeSidecar;
let client: SidecarClient;

beforeEach(async () => {
  sidecar = await FakeSidecar.start();
  sidecar.sessions.set('session00001', aSession());
  const long = { openMs: 300, endMs: 300, recordingMs: 300 };
  const limits = { answerMs: 150, ...long, stallMs: 150, answerBytes: 1024 };
  client = new SidecarClient({ socketPath: sidecar.socketPath, limits });
});

afterEach(async () => {
  client.close();
  await sidecar.stop();
});

const GET = { method: 'GET', path: '/v1/sessions/session00001/app' } as const;

async function failure(act: Promise<unknown>): Promise<Error> {
  return act.then(
    () => assert.fail('it should have been refused'),
    error => error,
  );
}

test('every status keeps its name, message and further fields', async () => {
  const cases = [
    [400, 'InputError'],
    [403, 'NotAllowedError'],
    [404, 'NotFoundError'],
    [409, 'ConflictError'],
    [410, 'GoneError'],
    [413, 'PayloadTooLargeError'],
    [501, 'NotImplementedError'],
    [503, 'ServiceUnavailableError'],
  ] as const;
  for (const [status, name] of cases) {
    const body = errorBody(status, name, 'because', { problems: [1], limit: 'open sessions' });
    sidecar.failNext(/./, { kind: 'answer', status, body });
    const error = await failure(client.json(GET));
    assert.deepEqual(
      [statusOf(error), error.name, error.message, (error as never as { limit: string }).limit],
      [status, name, 'because', 'open sessions'],
    );
  }
});

test('an error cannot bring a status, a cause or a stack of its own', async () => {
  const more = { statusCode: 200, cause: 'x', stack: 'at secret.rs:1' };
  const body = errorBody(403, 'NotAllowedError', 'no', more);
  sidecar.failNext(/./, { kind: 'answer', status: 403, body });
  const error = await failure(client.json(GET));
  assert.equal(statusOf(error), 403);
  assert.doesNotMatch(String(error.stack), /secret/);
});

test('a sidecar that hangs, resets, or is not there is unavailable', async () => {
  sidecar.failNext(/./, { kind: 'hang' });
  assert.equal(statusOf(await failure(client.json(GET))), 503);
  sidecar.failNext(/./, { kind: 'reset' });
  sidecar.failNext(/./, { kind: 'reset' });
  assert.equal(statusOf(await failure(client.json(GET))), 503);
  await sidecar.leave();
  assert.equal(statusOf(await failure(client.json(GET))), 503);
});

test('two stale connections in a row are a sidecar that is away, never an error of ours', async () => {
  await Promise.all([client.json(GET), client.json(GET)]);
  sidecar.failNext(/./, { kind: 'reset' });
  sidecar.failNext(/./, { kind: 'reset' });
  const error = await failure(client.json(GET));
  assert.deepEqual([statusOf(error), error.name], [503, 'ServiceUnavailableError']);
  assert.match(error.message, /Nothing was done/);
});

test('a change that was sent and not answered has an unknown outcome, not a failed one', async () => {
  const END = { method: 'POST', path: '/v1/sessions/session00001/end', takes: 'end' } as const;
  for (const kind of ['hang', 'reset'] as const) {
    sidecar.failNext(/./, { kind });
    const error = await failure(client.json(END));
    const { outcome } = error as never as { outcome: string };
    assert.deepEqual([statusOf(error), error.name], [503, 'ServiceUnavailableError']);
    assert.equal(outcome, 'unknown');
    assert.match(error.message, /outcome is unknown.*look at the session/);
    assert.doesNotMatch(error.message, /nothing was done/i);
  }
  await sidecar.leave();
  const refused = await failure(client.json(END));
  assert.match(refused.message, /Nothing was done/);
  assert.ok(!('outcome' in refused));
});

test('an end, an opening and a recording have time of their own', async () => {
  const spent = async (takes?: 'open' | 'end' | 'recording') => {
    sidecar.failNext(/./, { kind: 'hang' });
    const began = performance.now();
    await failure(client.json({ ...GET, ...(takes && { takes }) }));
    return performance.now() - began;
  };
  assert.ok((await spent()) >= 140);
  for (const takes of ['open', 'end', 'recording'] as const) {
    assert.ok((await spent(takes)) >= 290, takes);
  }
});

test('an idle connection that the sidecar closed does not fail the next read', async () => {
  await client.sessionFacts('session00001');
  await sidecar.leave();
  await sidecar.listen();
  assert.equal((await client.sessionFacts('session00001')).app, 'shop');
});

test('an answer that is too large, not JSON, or not facts is a bad answer', async () => {
  for (const body of [`"${'x'.repeat(4096)}"`, '<html>', '{"app":"shop"}', 'null']) {
    sidecar.failNext(/./, { kind: 'answer', status: 200, body });
    assert.equal(
      statusOf(await failure(client.sessionFacts('session00001'))),
      502,
      body.slice(0, 9),
    );
  }
});

test('a caller that does not fit the header is refused, not cut', () => {
  const caller: Caller = {
    version: 1,
    user: `user:default/${'x'.repeat(9000)}`,
    app: 'shop',
    allowed: [],
    reviewer: false,
    declaredTier: null,
  };
  assert.throws(() => encodeCaller(caller), /too long/);
});
