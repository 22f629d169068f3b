/**
 * A request's body: JSON, or nothing.
 *
 * Invariants: what is not `application/json` is refused whatever it holds (415); a refusal has
 * Backstage's body and never quotes the request.
 */
import { InputError } from '@backstage/errors';
import express, { type ErrorRequestHandler, type RequestHandler } from 'express';
import { PayloadTooLargeError, UnsupportedMediaTypeError } from './sidecar/errors';

/** The sidecar takes no larger body; larger ones are refused here, with 413. */
const BODY_LIMIT_BYTES = 64 * 1024;

/** The parser's own errors; what is not here is a body that broke off or lied about its length. */
const REFUSALS: Readonly<Record<string, () => Error>> = {
  'entity.too.large': () =>
    new PayloadTooLargeError('the body is larger than 64 KiB, so nothing was done'),
  'encoding.unsupported': () =>
    new UnsupportedMediaTypeError('the body has an unknown `content-encoding`; nothing was done'),
};

const parse: RequestHandler = (req, _res, next) => {
  // Read to its end first: a chunked body may turn out to be empty, which needs no type (S-14b).
  const bytes = Buffer.isBuffer(req.body) ? req.body : Buffer.alloc(0);
  req.body = {};
  if (bytes.length === 0) return next();
  const [type = '', ...parameters] = (req.headers['content-type'] ?? '').split(';');
  const charset = parameters.map(text => text.trim()).find(text => /^charset=/i.test(text));
  const isUtf8 = charset === undefined || /^charset="?utf-?8"?$/i.test(charset);
  if (type.trim().toLowerCase() !== 'application/json' || !isUtf8) {
    const wanted = 'the body must be `application/json` in UTF-8, so nothing was done';
    return next(new UnsupportedMediaTypeError(wanted));
  }
  try {
    req.body = JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(bytes));
  } catch {
    return next(new InputError('the body is not JSON, so nothing was done'));
  }
  return next();
};

const unreadable: ErrorRequestHandler = (error, _req, _res, next) => {
  if (typeof error?.type !== 'string') return next(error);
  const refusal = Object.hasOwn(REFUSALS, error.type) ? REFUSALS[error.type]?.() : undefined;
  return next(refusal ?? new InputError('the body cannot be read, so nothing was done'));
};

/** Reads the body into `req.body`; an empty one becomes `{}`. */
export const jsonBody: readonly [RequestHandler, RequestHandler, ErrorRequestHandler] = [
  express.raw({ limit: BODY_LIMIT_BYTES, type: () => true }),
  parse,
  unreadable,
];
