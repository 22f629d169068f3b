/**
 * The one place where input is judged (B-2). The sidecar repeats every decision.
 */
import { InputError } from '@backstage/errors';

/** What the shim itself needs to know of a request; the body goes on as it came. */
export interface JudgedRequest {
  readonly app: string;
  readonly env: string;
  readonly glassBroken: boolean;
  readonly body: unknown;
}

/** Judges the body of `POST /sessions` (S-5). Throws `InputError` with every problem. */
export function judgeSessionRequest(body: unknown): JudgedRequest {
  const { app, env, glassBroken } = (body ?? {}) as Record<string, unknown>;
  return {
    app: requireName('app', app),
    env: requireName('env', env),
    glassBroken: glassBroken === true,
    body,
  };
}

/** A name as S-5 has it, from a query. Throws `InputError` that names the field. */
export function requireName(field: string, value: unknown): string {
  const plain =
    typeof value === 'string' &&
    /^[A-Za-z0-9._-]{1,253}$/.test(value) &&
    value !== '.' &&
    value !== '..';
  if (plain) return value;
  throw new InputError(`\`${field}\` must be a name of letters, digits, \`.\`, \`_\` and \`-\``);
}
