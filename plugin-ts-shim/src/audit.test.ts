import assert from 'node:assert/strict';
import { test } from 'node:test';
import type {
  AuditorService,
  AuditorServiceEvent,
  LoggerService,
} from '@backstage/backend-plugin-api';
import { Audit, type AuditedAction } from './audit';

const ACTION: AuditedAction = {
  eventId: 'tower-write',
  action: 'end',
  permission: 'tower.breakglass.terminate',
  initiator: 'user:default/alice',
  severity: 'medium',
  session: 'session00001',
};

function world(faults: { create?: Error; finish?: Error } = {}) {
  const seen: unknown[] = [];
  const errors: string[] = [];
  const event: AuditorServiceEvent = {
    async success(more) {
      seen.push(['success', more?.meta]);
      if (faults.finish) throw faults.finish;
    },
    async fail(more) {
      seen.push(['fail', more.error.message, more.meta]);
      if (faults.finish) throw faults.finish;
    },
  };
  const auditor: AuditorService = {
    async createEvent(options) {
      if (faults.create) throw faults.create;
      seen.push(['create', options.eventId, options.severityLevel, options.meta]);
      return event;
    },
  };
  const logger = { error: (message: string) => errors.push(message) } as unknown as LoggerService;
  return { audit: new Audit({ auditor, logger }), seen, errors };
}

test('an action is one event, finished once, with what was learned on the way', async () => {
  const { audit, seen } = world();
  const value = await audit.run(ACTION, async learn => {
    learn({ app: 'shop' });
    learn({ env: 'staging' });
    return 7;
  });
  assert.equal(value, 7);
  const { eventId: _, severity: __, ...meta } = ACTION;
  assert.deepEqual(seen, [
    ['create', 'tower-write', 'medium', meta],
    ['success', { app: 'shop', env: 'staging' }],
  ]);
});

test('a refusal is thrown on and recorded', async () => {
  const { audit, seen } = world();
  await assert.rejects(audit.refused(ACTION, new Error('not yours')), /not yours/);
  assert.deepEqual(seen.slice(1), [['fail', 'not yours', {}]]);
});

test('an auditor that fails is an error in the log, and changes nothing else', async () => {
  for (const faults of [{ create: new Error('no sink') }, { finish: new Error('no sink') }]) {
    const { audit, errors } = world(faults);
    assert.equal(await audit.run(ACTION, async () => 7), 7);
    await assert.rejects(audit.refused(ACTION, new Error('not yours')), /not yours/);
    assert.equal(errors.length, 2);
    assert.match(errors[0] ?? '', /`end` by `user:default\/alice`, session `session00001`/);
  }
});

test('an action that ran is not run again because its event could not be finished', async () => {
  const { audit } = world({ finish: new Error('no sink') });
  let ran = 0;
  await audit.run(ACTION, async () => (ran += 1));
  assert.equal(ran, 1);
});
