import assert from 'node:assert/strict';
import { afterEach, beforeEach, test } from 'node:test';
import { aSession, FakeSidecar } from './testing/fakeSidecar';
import { startBackend, TOKENS, type TestBackend } from './testing/harness';

let sidecar: FakeSidecar;
let backend: TestBackend;

beforeEach(async () => {
  sidecar = await FakeSidecar.start();
  sidecar.sessions.set('session00001', aSession());
});

afterEach(async () => {
  await backend?.stop();
  await sidecar.stop();
});

const as = (token: string, more: RequestInit = {}): RequestInit => ({
  ...more,
  headers: { authorization: `Bearer ${token}`, ...more.headers },
});

test('a session is shown to whoever may request on its app', async () => {
  backend = await startBackend({ socketPath: sidecar.socketPath });
  const response = await fetch(`${backend.url}/sessions/session00001`, as(TOKENS.alice));
  assert.equal(response.status, 200);
  assert.deepEqual(sidecar.calls.at(-1)?.caller, {
    version: 1,
    user: 'user:default/alice',
    app: 'shop',
    allowed: ['request'],
    reviewer: false,
    declaredTier: null,
  });
});
