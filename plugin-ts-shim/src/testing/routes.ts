/** What the tests of the routes share: a real Backstage, a sidecar that records, and calls. */
import { afterEach, beforeEach } from 'node:test';
import { aSession, FakeSidecar } from './fakeSidecar';
import { startBackend, type TestBackend, type TestBackendOptions } from './harness';

export const ID = 'session00001';
export const BODY = {
  app: 'shop',
  env: 'staging',
  cluster: 'dev',
  namespace: 'shop-staging',
  pod: 'shop-7d9f',
  container: 'app',
  mode: 'live',
  durationMinutes: 15,
  reason: 'a queue is stuck',
};

export let sidecar: FakeSidecar;
export let backend: TestBackend | undefined;

beforeEach(async () => {
  sidecar = await FakeSidecar.start();
  sidecar.sessions.set(ID, aSession());
});

afterEach(async () => {
  await stop();
  await sidecar.stop();
});

export async function stop(): Promise<void> {
  await backend?.stop();
  backend = undefined;
}

export async function start(options: Partial<TestBackendOptions> = {}): Promise<TestBackend> {
  backend = await startBackend({ socketPath: sidecar.socketPath, ...options });
  return backend;
}

export interface Answer {
  readonly status: number;
  // A test reads what it expects; anything else fails it.
  // eslint-disable-next-line @typescript-eslint/no-explicit-any
  readonly body: any;
  readonly headers: Headers;
}

export async function call(
  path: string,
  token: string | undefined,
  init: RequestInit = {},
): Promise<Answer> {
  const authorization = token === undefined ? {} : { authorization: `Bearer ${token}` };
  const headers = { ...authorization, ...init.headers };
  const response = await fetch(`${backend?.url}${path}`, { ...init, headers });
  const text = await response.text();
  const isJson = response.headers.get('content-type')?.includes('json');
  return {
    status: response.status,
    body: isJson ? JSON.parse(text) : text,
    headers: response.headers,
  };
}

export const post = (path: string, token: string | undefined, body?: unknown) =>
  call(path, token, {
    method: 'POST',
    ...(body !== undefined && {
      body: typeof body === 'string' ? body : JSON.stringify(body),
      headers: { 'content-type': 'application/json' },
    }),
  });
