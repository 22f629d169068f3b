/** Who may call the routes, on a real Backstage. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { AuthorizeResult } from '@backstage/plugin-permission-common';
import { TOKENS } from './testing/harness';
import { ID, call, sidecar, start, stop } from './testing/routes';

test('qX10 qB290 an expired or unknown token is 401, HTTP', async () => {
  await start();
  for (const token of [undefined, TOKENS.expired, 'garbage', TOKENS.cookie]) {
    assert.equal((await call(`/sessions/${ID}`, token)).status, 401, token);
  }
  assert.equal(sidecar.calls.length, 0);
});

test('qB293 service and delegated credentials are 403 on every route', async () => {
  await start();
  const routes = [
    ['GET', '/sessions?app=shop&env=staging'],
    ['POST', '/sessions'],
    ['GET', `/sessions/${ID}`],
    ['POST', `/sessions/${ID}/end`],
    ['GET', `/sessions/${ID}/recording`],
    ['GET', '/queue'],
  ];
  for (const token of [TOKENS.service, TOKENS.delegated]) {
    for (const [method = '', path = ''] of routes) {
      assert.equal((await call(path, token, { method })).status, 403, `${method} ${path}`);
    }
  }
  assert.equal(sidecar.calls.length, 0);
});

test("qB296 every permission is asked at once, with the app's entity", async () => {
  const { asked } = await start({ breakglass: { appEntityRef: 'resource:apps/<app>' } });
  await call(`/sessions/${ID}`, TOKENS.alice);
  assert.equal(asked.length, 1);
  assert.deepEqual(
    asked[0],
    ['request', 'self', 'approve', 'terminate'].map(name => ({
      permission: `tower.breakglass.${name}`,
      resourceRef: 'resource:apps/shop',
    })),
  );
});

test('qB296 a conditional answer is a refusal, and so are too few answers', async () => {
  const conditional = {
    'user:default/Alice tower.breakglass.request': AuthorizeResult.CONDITIONAL,
  };
  await start({ answers: conditional });
  assert.equal((await call(`/sessions/${ID}`, TOKENS.alice)).status, 403);
  await stop();
  await start({ authorize: async () => [{ result: AuthorizeResult.ALLOW }] });
  assert.equal((await call(`/sessions/${ID}`, TOKENS.alice)).status, 503);
});

test('a permission backend that fails refuses with 503, one that says expired with 401', async () => {
  let failure: Error = new TypeError('fetch failed');
  await start({ authorize: () => Promise.reject(failure) });
  const answer = await call(`/sessions/${ID}`, TOKENS.alice);
  assert.equal(answer.status, 503);
  assert.match(answer.body.error.message, /permission backend/);
  failure = Object.assign(new Error('Request failed with 401'), { statusCode: 401 });
  assert.equal((await call(`/sessions/${ID}`, TOKENS.alice)).status, 401);
});

test('membership of the reviewers is told to the sidecar', async () => {
  await start({
    breakglass: { reviewers: ['sre'] },
    groups: { 'user:default/Alice': ['group:default/sre'] },
  });
  await call(`/sessions/${ID}`, TOKENS.alice);
  assert.equal(sidecar.calls.at(-1)?.caller?.reviewer, true);
});
