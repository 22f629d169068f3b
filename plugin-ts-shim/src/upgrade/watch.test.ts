import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { LoggerService } from '@backstage/backend-plugin-api';
import { NotAllowedError, ServiceUnavailableError } from '@backstage/errors';
import type { Access, User } from '../access';
import type { Audit, AuditedAction } from '../audit';
import { aSession } from '../testing/fakeSidecar';
import { TerminalWatch } from './watch';

const EVERY_MS = 10;

/** A watched terminal; `answer` decides what each person's question is answered with. */
function world(answer: (user: User) => Promise<readonly string[]>) {
  const refused: AuditedAction[] = [];
  const asked: User[] = [];
  const access = {
    async callerFor(user: User, app: string) {
      asked.push(user);
      return { user: user.ref, app, allowed: await answer(user) };
    },
    auditedAs: () => ({
      app: 'shop',
      entityRef: 'component:default/shop',
      env: 'x',
      severity: 'medium',
    }),
  } as unknown as Access;
  const audit = {
    refused: (action: AuditedAction, error: Error) => (refused.push(action), Promise.reject(error)),
  } as unknown as Audit;
  const logger = { warn: () => undefined } as unknown as LoggerService;
  const watch = new TerminalWatch({ access, audit, logger, everyMs: EVERY_MS });
  let detached = 0;
  const user = { ref: 'user:default/alice' } as User;
  const end = watch.begin({
    session: 'session00001',
    facts: aSession(),
    detach: () => void (detached += 1),
    user,
  });
  return { watch, refused, asked, end, user, detached: () => detached };
}

async function until(condition: () => boolean): Promise<void> {
  const deadline = performance.now() + 10_000;
  while (!condition()) {
    assert.ok(performance.now() < deadline, 'it did not come to that in time');
    await new Promise(resolve => setTimeout(resolve, 2));
  }
}

test('T-12 who keeps the permission keeps the terminal', async () => {
  const { asked, detached, end } = world(async () => ['request']);
  await until(() => asked.length >= 3);
  end();
  assert.equal(detached(), 0);
  const before = asked.length;
  await new Promise(resolve => setTimeout(resolve, 5 * EVERY_MS));
  assert.equal(asked.length, before);
});

test('T-12 who lost the permission is detached once, and it is audited', async () => {
  const { detached, end, refused } = world(async () => []);
  await until(() => refused.length > 0);
  await new Promise(resolve => setTimeout(resolve, 5 * EVERY_MS));
  end();
  assert.equal(detached(), 1);
  assert.deepEqual(
    refused.map(action => [action.action, action.session]),
    [['detach', 'session00001']],
  );
});

test('T-12 credentials that lapsed, or no answer, only detach', async () => {
  const { detached, end, refused } = world(() =>
    Promise.reject(new ServiceUnavailableError('away')),
  );
  await until(() => detached() === 1);
  end();
  assert.deepEqual(refused, []);
});

test("T-12 a later request for the session renews the credentials, another person's does not", async () => {
  const fresh = { ref: 'user:default/alice' } as User;
  const { asked, end, watch } = world(user =>
    user === fresh ? Promise.resolve(['request']) : Promise.reject(new NotAllowedError('old')),
  );
  watch.renew('session00001', { ref: 'user:default/bob' } as User);
  watch.renew('session00002', { ref: 'user:default/alice' } as User);
  watch.renew('session00001', fresh);
  await until(() => asked.length >= 3);
  end();
  assert.ok(asked.every(user => user === fresh));
});
