/**
 * The caller protocol, version 1, as far as the shim speaks it (docs/caller-protocol.md).
 *
 * Invariant: a caller is made of what Backstage said about a verified token; nothing that a
 * client sends in a body, a query or a header becomes part of it.
 */
import { InputError } from '@backstage/errors';

/** A permission as the sidecar names it: `tower.breakglass.<name>`. */
export type PermissionName = 'request' | 'self' | 'approve' | 'terminate';

/** How much is at stake in an environment. */
export type Tier = 'Ground' | 'Flight';

/** Who is calling and what Backstage allows them on the app. */
export interface Caller {
  readonly version: 1;
  /** The full entity ref, lower case; what is recorded. */
  readonly user: string;
  /** The app that the answers were given for. */
  readonly app: string;
  /** The permissions that were answered ALLOW; what is missing is denied. */
  readonly allowed: readonly PermissionName[];
  /** Member of `glidepath.breakglass.reviewers`. */
  readonly reviewer: boolean;
  /** What the app's release plan declares for the environment. */
  readonly declaredTier: Tier | null;
}

/** What the shim learns about a session to ask for permissions and to audit; never shown. */
export interface SessionFacts {
  readonly app: string;
  readonly env: string;
  readonly requester: string;
  readonly approver: string | null;
  readonly sensitive: boolean;
  readonly tier: Tier;
  readonly glassBroken: boolean;
}

/** The header that carries the caller. */
export const CALLER_HEADER = 'x-breakglass-caller';

const CALLER_LIMIT_BYTES = 8 * 1024;

/** The header's value; a caller too large for it is refused rather than cut. */
export function encodeCaller(caller: Caller): string {
  const value = Buffer.from(JSON.stringify(caller), 'utf8').toString('base64url');
  if (value.length > CALLER_LIMIT_BYTES) {
    throw new InputError('the names of the user and the app are too long for a session');
  }
  return value;
}

/** A session's id: 12 characters of `[0-9a-z]` (S-3). */
export function isSessionId(text: string): boolean {
  return /^[0-9a-z]{12}$/.test(text);
}

/** The path of a session, or of a part of it, on the sidecar. The id must be well formed. */
export function sessionPath(id: string, part = ''): string {
  return `/v1/sessions/${id}${part && `/${part}`}`;
}

/** Reads the sidecar's facts; `undefined` where it did not answer with facts. */
export function readSessionFacts(body: unknown): SessionFacts | undefined {
  if (typeof body !== 'object' || body === null) return undefined;
  const { app, env, requester, approver, sensitive, tier, glassBroken } = body as Partial<
    Record<keyof SessionFacts, unknown>
  >;
  const wellFormed =
    typeof app === 'string' &&
    typeof env === 'string' &&
    typeof requester === 'string' &&
    (approver === null || typeof approver === 'string') &&
    typeof sensitive === 'boolean' &&
    (tier === 'Ground' || tier === 'Flight') &&
    typeof glassBroken === 'boolean';
  return wellFormed ? { app, env, requester, approver, sensitive, tier, glassBroken } : undefined;
}
