import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ConfigReader } from '@backstage/config';
import type { JsonObject } from '@backstage/types';
import { readConfig } from './config';

const read = (breakglass: JsonObject, more: JsonObject = {}) =>
  readConfig(
    new ConfigReader({
      app: { baseUrl: 'https://tower.test/portal' },
      backend: { baseUrl: 'https://backstage.test:8443/portal/', listen: ':7007' },
      permission: { enabled: true },
      glidepath: { breakglass: { socketPath: '/run/b/api.sock', ...breakglass } },
      ...more,
    }) as never,
  );

test('what is not said has the documented default', () => {
  const config = read({});
  assert.equal(config.entityRefOf('Shop'), 'component:default/shop');
  assert.deepEqual(
    [...config.allowedOrigins],
    ['https://tower.test', 'https://backstage.test:8443'],
  );
  assert.deepEqual(config.basePaths, ['', '/portal']);
  assert.equal(config.listenPort, 7007);
  assert.equal(config.sidecar, undefined);
});

test('reviewers are groups unless they say otherwise, in lower case', () => {
  const { reviewers } = read({ reviewers: ['SRE', 'user:default/Erin'] });
  assert.deepEqual([...reviewers], ['group:default/sre', 'user:default/erin']);
});

test('the sidecar is started with its configuration, or with the arguments as they are', () => {
  const withPath = read({ sidecar: { command: 'breakglass', configPath: 'x.yaml' } });
  assert.deepEqual(withPath.sidecar?.args, ['serve', '--config', 'x.yaml']);
  const withArgs = read({ sidecar: { command: 'cargo', args: ['run'] } });
  assert.deepEqual(withArgs.sidecar?.args, ['run']);
});

const WRONG: ReadonlyArray<[string, JsonObject, RegExp]> = [
  ['a relative socket', { socketPath: 'api.sock' }, /socketPath.*not an absolute path/],
  ['a socket that no system can bind', { socketPath: `/${'x'.repeat(120)}` }, /socketPath.*longer/],
  ['an origin with a path', { allowedOrigins: ['https://a.test/x'] }, /allowedOrigins.*a\.test\/x/],
  ['an origin that is none', { allowedOrigins: ['*'] }, /allowedOrigins/],
  ['an entity without the app', { appEntityRef: 'component:default/x' }, /appEntityRef.*<app>/],
  ['an entity that is none', { appEntityRef: '<app>' }, /appEntityRef.*not an entity ref/],
  ['a reviewer that is none', { reviewers: ['group:'] }, /reviewers/],
  ['two ways to start', { sidecar: { command: 'x', args: [], configPath: 'y' } }, /sidecar.*both/],
  ['clusters that are no list', { groundClusters: 'dev' }, /groundClusters/],
];
for (const [what, breakglass, message] of WRONG) {
  test(`${what} is refused, and the key is named`, () => {
    assert.throws(() => read(breakglass), message);
  });
}

test('permissions that are off, or not mentioned, are refused', () => {
  for (const permission of [{ enabled: false }, {}]) {
    assert.throws(() => read({}, { permission }), /permission\.enabled/);
  }
});
