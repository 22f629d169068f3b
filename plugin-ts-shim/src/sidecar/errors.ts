/**
 * The sidecar's errors as Backstage errors, so that Backstage's own middleware answers with the
 * same name, message, fields and status (S-11).
 */
import {
  AuthenticationError,
  ConflictError,
  InputError,
  NotAllowedError,
  NotFoundError,
  NotImplementedError,
  ServiceUnavailableError,
} from '@backstage/errors';

/** What is over for good: 410, for which Backstage has no class of its own. */
export class GoneError extends Error {
  override readonly name = 'GoneError';
  readonly statusCode = 410;
}

/** The connection went before it had an answer: nobody is to blame, and nobody hears of it. */
export class ClientGoneError extends Error {
  override readonly name = 'ClientGoneError';
  readonly statusCode = 499;
  constructor() {
    super('the connection closed before it was answered');
  }
}

/** The sidecar answered with something that the protocol does not have. */
export class BadSidecarAnswerError extends Error {
  override readonly name = 'BadSidecarAnswerError';
  readonly statusCode = 502;
  constructor(what: string) {
    super(`the break-glass sidecar gave an answer that cannot be understood: ${what}`);
  }
}

/** Whom to call when the sidecar is away: the same words on every route and in `/health`. */
export const SIDECAR_AWAY =
  'break-glass is unavailable: its sidecar does not answer. Nothing was done; try again shortly';

/** The sidecar could not be reached, or did not answer in time. */
export function sidecarAway(cause?: Error): ServiceUnavailableError {
  const error = new ServiceUnavailableError(SIDECAR_AWAY);
  // Kept for the log's sake only: Backstage's answer serializes enumerable fields.
  Object.defineProperty(error, 'cause', { value: cause, enumerable: false });
  return error;
}

type MakeError = new (message: string) => Error;

const BY_STATUS: ReadonlyMap<number, MakeError> = new Map<number, MakeError>([
  [400, InputError],
  [401, AuthenticationError],
  [403, NotAllowedError],
  [404, NotFoundError],
  [409, ConflictError],
  [410, GoneError],
  [501, NotImplementedError],
  [503, ServiceUnavailableError],
]);

/** Fields of an error that are not passed on: they describe this process, not the refusal. */
const OWN_FIELDS = new Set(['name', 'message', 'stack', 'cause', 'statusCode', 'status', 'code']);

/**
 * Turns an error answer into an error to throw: name, message and further fields (`problems`)
 * are the sidecar's; so is the status, which a name alone would not always give (413, 410).
 */
export function errorFromAnswer(status: number, body: unknown): Error {
  const told =
    typeof body === 'object' && body !== null && 'error' in body ? body.error : undefined;
  if (typeof told !== 'object' || told === null) {
    return new BadSidecarAnswerError(`status ${status} without an error`);
  }
  const fields = told as Record<string, unknown>;
  const message = typeof fields.message === 'string' ? fields.message : `status ${status}`;
  const Known = BY_STATUS.get(status);
  const error = Known ? new Known(message) : new Error(message);
  if (typeof fields.name === 'string' && fields.name !== '') {
    Object.defineProperty(error, 'name', { value: fields.name, configurable: true });
  }
  for (const [key, value] of Object.entries(fields)) {
    if (!OWN_FIELDS.has(key)) Object.assign(error, { [key]: value });
  }
  return Object.assign(error, { statusCode: status });
}

/** The HTTP status that an error means, by the names and fields that Backstage reads. */
export function statusOf(error: unknown): number {
  if (typeof error !== 'object' || error === null) return 500;
  const { statusCode, name } = error as { statusCode?: unknown; name?: unknown };
  if (typeof statusCode === 'number' && statusCode >= 400 && statusCode <= 599) return statusCode;
  for (const [status, Known] of BY_STATUS) {
    if (Known.name === name) return status;
  }
  return 500;
}
