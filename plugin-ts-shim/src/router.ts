/**
 * The routes under `/api/glidepath/breakglass` (spec 01): each one parses, asks who may, and
 * calls the sidecar, whose answer is the answer.
 *
 * Invariant: a call on a session asks for the permissions of the app that the session has; the
 * sidecar compares, so nothing can come between (docs/caller-protocol.md).
 */
import { randomUUID } from 'node:crypto';
import { pipeline } from 'node:stream/promises';
import { InputError, NotAllowedError, NotFoundError, NotImplementedError } from '@backstage/errors';
import express, { type Request, type RequestHandler, type Response } from 'express';
import PromiseRouter from 'express-promise-router';
import { requireAny, type Access, type User } from './access';
import type { Audit, AuditedAction } from './audit';
import { jsonBody } from './body';
import { judgeSessionRequest, requireName } from './decisions';
import type { Health } from './health';
import { isSessionId, sessionPath, type Caller, type SessionFacts } from './sidecar/protocol';
import type { SidecarClient } from './sidecar/SidecarClient';
import type { TerminalWatch } from './upgrade/watch';

export interface RouterOptions {
  readonly access: Access;
  readonly audit: Audit;
  readonly health: Health;
  readonly sidecar: SidecarClient;
  readonly watch: TerminalWatch;
  /** Runs before everything else, see `UpgradeDispatcher.middleware`. */
  readonly first: RequestHandler;
}

/** Routes that spec 01 has and the sidecar does not answer; they refuse in its stead. */
const NOT_YET = [
  ['get', '/queue'],
  ['post', '/sessions/:id/approve'],
  ['post', '/sessions/:id/deny'],
  ['post', '/sessions/:id/start'],
  ['post', '/sessions/:id/extend'],
  ['post', '/sessions/:id/review'],
] as const;

/** Makes the router; it is mounted at the plugin's base, `/api/glidepath`. */
export function createRouter(options: RouterOptions): express.Router {
  const routes = new Routes(options);
  const router = PromiseRouter();
  router.use(options.first);
  router.get('/breakglass/health', (_, res) => routes.health(res));
  router.post('/breakglass/sessions', ...jsonBody, (req: Request, res: Response) =>
    routes.open(req, res),
  );
  router.get('/breakglass/sessions', (req, res) => routes.list(req, res));
  router.get('/breakglass/sessions/:id', (req, res) => routes.show(req, res));
  router.post('/breakglass/sessions/:id/end', ...jsonBody, (req: Request, res: Response) =>
    routes.end(req, res),
  );
  router.get('/breakglass/sessions/:id/recording', (req, res) => routes.recording(req, res));
  router.get('/breakglass/sessions/:id/attach', req => routes.attachWithoutUpgrade(req));
  for (const [method, path] of NOT_YET) {
    router[method](`/breakglass${path}`, req => routes.notYet(req));
  }
  return router;
}

class Routes {
  readonly #options: RouterOptions;

  constructor(options: RouterOptions) {
    this.#options = options;
  }

  async health(res: Response): Promise<void> {
    const { status, body } = await this.#options.health.check();
    res.status(status).set('cache-control', 'no-store').json(body);
  }

  async open(req: Request, res: Response): Promise<void> {
    const { access, audit, sidecar } = this.#options;
    const user = await access.userOfRequest(req);
    const action: AuditedAction = {
      eventId: 'tower-write',
      action: 'request',
      permission: 'tower.breakglass.request',
      initiator: user.ref,
      severity: 'medium',
      request: req,
    };
    const judged = await attempt(() => judgeSessionRequest(req.body)).catch(refusal =>
      audit.refused(action, refusal),
    );
    const { app, env, glassBroken } = judged;
    const broken =
      glassBroken && ({ permission: 'tower.breakglass.self', severity: 'critical' } as const);
    const about = { app, env, entityRef: access.entityRefOf(app), ...broken };
    const answer = await audit.run({ ...action, ...about }, async learn => {
      const caller = await access.callerFor(user, app);
      // On Ground broken glass counts as an ordinary request; only the sidecar knows the tier.
      requireAny(caller, glassBroken ? ['self', 'request'] : ['request']);
      const headers = { ...requestId(req), ...prefer(req) };
      const path = '/v1/sessions';
      const call = { method: 'POST', path, caller, headers, body: judged, takes: 'open' } as const;
      const opened = await sidecar.json(call);
      learn(factsOfOpened(opened.body));
      return opened;
    });
    res.status(answer.status).json(answer.body);
  }

  async list(req: Request, res: Response): Promise<void> {
    const { access, sidecar } = this.#options;
    const user = await access.userOfRequest(req);
    const app = requireName('app', req.query.app);
    const env = requireName('env', req.query.env);
    const caller = await access.callerFor(user, app);
    requireAny(caller, ['request']);
    const path = `/v1/sessions?${new URLSearchParams({ app, env })}`;
    const { status, body } = await sidecar.json({
      method: 'GET',
      path,
      caller,
      headers: requestId(req),
    });
    res.status(status).json(body);
  }

  async show(req: Request, res: Response): Promise<void> {
    const { access, sidecar } = this.#options;
    const user = await access.userOfRequest(req);
    const { id, facts } = await this.#session(req, user);
    const caller = await access.callerFor(user, facts.app);
    requireAny(caller, ['request']);
    const path = sessionPath(id);
    const { status, body } = await sidecar.json({
      method: 'GET',
      path,
      caller,
      headers: requestId(req),
    });
    res.status(status).json(body);
  }

  async end(req: Request, res: Response): Promise<void> {
    const { access, sidecar } = this.#options;
    const user = await access.userOfRequest(req);
    const kind = {
      eventId: 'tower-write',
      action: 'end',
      permission: 'tower.breakglass.terminate',
    };
    const answer = await this.#onSession(req, user, kind as Kind, async (id, facts) => {
      const caller = await access.callerFor(user, facts.app);
      requireMayEnd(caller, facts);
      const path = sessionPath(id, 'end');
      const headers = requestId(req);
      return sidecar.json({ method: 'POST', path, caller, headers, takes: 'end' });
    });
    res.status(answer.status).json(answer.body);
  }

  async recording(req: Request, res: Response): Promise<void> {
    const { access, sidecar } = this.#options;
    const user = await access.userOfRequest(req);
    const action = req.query.purpose === 'play' ? 'play' : 'download';
    const permission = 'tower.breakglass.request';
    const kind = { eventId: 'tower-breakglass-recording', action, permission } as const;
    await this.#onSession(req, user, kind, async (id, facts) => {
      const caller = await access.callerFor(user, facts.app);
      requireAny(caller, ['request']);
      const path = sessionPath(id, 'recording');
      const headers = requestId(req);
      const call = { method: 'GET', path, caller, headers, takes: 'recording' } as const;
      const cast = await sidecar.stream(call);
      res.status(200).set({
        'content-type': cast.headers['content-type'] ?? 'application/x-asciicast',
        'cache-control': 'private, no-store, no-transform',
        'x-content-type-options': 'nosniff',
        ...pick(cast.headers, ['content-length', 'x-recording-sha256']),
        ...(action === 'download' && {
          'content-disposition': `attachment; filename="${id}.cast"`,
        }),
      });
      await pipeline(cast, res);
    });
  }

  async attachWithoutUpgrade(req: Request): Promise<never> {
    await this.#options.access.userOfRequest(req);
    throw new InputError('a terminal is a WebSocket: connect with an upgrade request');
  }

  async notYet(req: Request): Promise<never> {
    await this.#options.access.userOfRequest(req);
    throw new NotImplementedError('this sidecar does not do that: nothing was changed');
  }

  /** Runs an action on the session of the path as one audit event. */
  async #onSession<T>(
    req: Request,
    user: User,
    kind: Kind,
    act: (id: string, facts: SessionFacts) => Promise<T>,
  ): Promise<T> {
    const { access, audit } = this.#options;
    const severity = 'medium';
    const action: AuditedAction = { ...kind, initiator: user.ref, severity, request: req };
    const { id, facts } = await this.#session(req, user).catch(refusal => {
      const named = isSessionId(req.params.id ?? '') && { session: req.params.id as string };
      return audit.refused({ ...action, ...named }, refusal);
    });
    const about = { ...access.auditedAs(facts), session: id };
    const grave = kind.eventId === 'tower-breakglass-recording' && facts.sensitive;
    if (grave && about.severity === 'medium') {
      return audit.run({ ...action, ...about, severity: 'high' }, () => act(id, facts));
    }
    return audit.run({ ...action, ...about }, () => act(id, facts));
  }

  /** The session of the path, if there is one and it is of the app that the caller says. */
  async #session(req: Request, user: User): Promise<{ id: string; facts: SessionFacts }> {
    const id = req.params.id ?? '';
    if (!isSessionId(id)) throw new NotFoundError('there is no such session');
    const facts = await this.#options.sidecar.sessionFacts(id);
    const { app = facts.app, env = facts.env } = req.query;
    if (app !== facts.app || env !== facts.env) throw new NotFoundError('there is no such session');
    this.#options.watch.renew(id, user);
    return { id, facts };
  }
}

type Kind = Pick<AuditedAction, 'eventId' | 'action' | 'permission'>;

/** Own session, its approver, or an admin (spec 01); the sidecar decides it again. */
function requireMayEnd(caller: Caller, facts: SessionFacts): void {
  const { user } = caller;
  if (user === facts.requester || user === facts.approver) return;
  if (caller.allowed.includes('terminate')) return;
  throw new NotAllowedError(
    `\`${user}\` may not end this session: it is \`${facts.requester}\`'s, and only its ` +
      'requester, its approver or an admin may',
  );
}

const FACTS_OF_OPENED = [
  'tier',
  'mode',
  'state',
  'cluster',
  'namespace',
  'pod',
  'container',
  'podImage',
] as const;

/** What the audit event says about a session that was opened. */
function factsOfOpened(body: unknown) {
  const opened = (body ?? {}) as Record<string, unknown>;
  const { id, glassBroken } = opened;
  const texts = FACTS_OF_OPENED.flatMap(fact => {
    const text = opened[fact];
    return typeof text === 'string' ? [[fact, text] as const] : [];
  });
  return {
    ...Object.fromEntries(texts),
    ...(typeof id === 'string' && { session: id }),
    ...(typeof glassBroken === 'boolean' && { glassBroken }),
  };
}

/** The client's request id if it is a plain one, else one of our own. */
function requestId(req: Request) {
  const given = req.get('x-request-id') ?? '';
  return { 'x-request-id': /^[A-Za-z0-9._-]{1,64}$/.test(given) ? given : randomUUID() };
}

function prefer(req: Request) {
  return /(^|,)\s*respond-async\s*(,|;|$)/i.test(req.get('prefer') ?? '')
    ? { prefer: 'respond-async' }
    : {};
}

function pick(headers: NodeJS.Dict<string | string[]>, names: readonly string[]) {
  return Object.fromEntries(
    names.flatMap(name => (headers[name] === undefined ? [] : [[name, headers[name]]])),
  );
}

async function attempt<T>(judge: () => T): Promise<T> {
  return judge();
}
