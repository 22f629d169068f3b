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
  const limits = { answerMs: 150, openMs: 300, stallMs: 150, answerBytes: 1024 };
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
