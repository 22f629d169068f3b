/**
 * Judges one terminal's upgrade request and joins it to the sidecar (T-1, T-2, T-13).
 *
 * Invariants: the token stays here, it reaches neither the sidecar nor a log; every refusal
 * comes before the upgrade, as a complete HTTP answer, and is one audit event (S-15), but for a
 * server that is too busy to judge; what is told apart by status is told apart the same way on
 * both paths.
 */
import type { IncomingMessage } from 'node:http';
import type { Duplex } from 'node:stream';
import type { LoggerService } from '@backstage/backend-plugin-api';
import {
  AuthenticationError,
  NotAllowedError,
  NotFoundError,
  ServiceUnavailableError,
  toError,
} from '@backstage/errors';
import { requireAny, type Access, type User } from '../access';
import type { Audit, AuditedAction } from '../audit';
import { ClientGoneError, statusOf } from '../sidecar/errors';
import { isSessionId, sessionPath } from '../sidecar/protocol';
import type { SidecarClient, SidecarUpgrade } from '../sidecar/SidecarClient';
import type { OurUpgrade } from './dispatcher';
import { reject } from './reject';
import { splice, type Detach } from './tunnel';
import { neededToAttach, type TerminalWatch } from './watch';

export interface AttachOptions {
  readonly access: Access;
  readonly audit: Audit;
  readonly sidecar: SidecarClient;
  readonly allowedOrigins: ReadonlySet<string>;
  readonly logger: LoggerService;
  readonly watch: TerminalWatch;
  /** Makes the plugin close the socket when it stops. */
  readonly hold: (socket: Duplex) => void;
}

/** A browser offers one protocol or two; more candidates than this only cost time. */
const MOST_CANDIDATES = 5;
/** Who an event names where nobody was verified: no reference of a person is like that. */
const NOBODY = 'unknown';
/** Upgrades that are judged at the same time; each costs a few calls. */
const MOST_JUDGED = 256;

/** A token that a client offered, and where. */
interface Candidate {
  readonly token: string;
  readonly from: 'protocol' | 'authorization';
}

/** Whose token it is. */
interface Verified {
  readonly user: User;
  readonly candidate: Candidate;
}

interface Admitted {
  readonly user: User;
  /** The offered protocol that has to be answered, if the token came as one. */
  readonly protocol: string | undefined;
}

export class Attach {
  readonly #options: AttachOptions;
  #judged = 0;

  constructor(options: AttachOptions) {
    this.#options = options;
  }

  /** Refuses the upgrade with a complete answer, or takes the socket over. Never throws. */
  async handle(upgrade: OurUpgrade): Promise<void> {
    const { request, socket, sessionId } = upgrade;
    const gone = new AbortController();
    socket.once('close', () => gone.abort());
    this.#judged += 1;
    try {
      if (this.#judged > MOST_JUDGED) throw new ServiceUnavailableError('too many at once');
      const { user, protocol } = await this.#admit(request, sessionId);
      await this.#connect(upgrade, user, protocol, gone.signal);
    } catch (error) {
      const status = statusOf(error);
      const { name, message } = toError(error);
      const log = status >= 500 ? 'error' : 'info';
      this.#options.logger[log](`a terminal was refused with ${status}: ${name}: ${message}`, {
        session: isSessionId(sessionId) ? sessionId : 'not an id',
      });
      reject(socket, status);
    } finally {
      this.#judged -= 1;
    }
  }

  /** The person behind the upgrade request. */
  async #admit(request: IncomingMessage, sessionId: string): Promise<Admitted> {
    // Also where the origin decides: whose token a foreign page has is worth knowing.
    let who: Verified | undefined;
    try {
      who = await this.#authenticate(request).catch((error: unknown) => {
        this.#requireOrigin(request);
        throw error;
      });
      this.#requireOrigin(request, who.candidate);
    } catch (refusal) {
      const initiator = who?.user.ref ?? NOBODY;
      return this.#options.audit.refused(attachBy(initiator, sessionId), refusal);
    }
    const { user, candidate } = who;
    return { user, protocol: candidate.from === 'protocol' ? candidate.token : undefined };
  }

  /** A foreign origin is refused as that, whatever its token. */
  #requireOrigin({ headers: { origin } }: IncomingMessage, candidate?: Candidate): void {
    if (origin !== undefined && !this.#options.allowedOrigins.has(origin)) {
      throw new NotAllowedError('this origin may not open a terminal');
    }
    // A browser always says its origin. A command line need not, but it can send a header.
    if (origin === undefined && candidate?.from === 'protocol') {
      throw new NotAllowedError('a token as a WebSocket protocol needs an origin');
    }
  }

  async #authenticate(request: IncomingMessage): Promise<Verified> {
    let refusal: Error = new AuthenticationError('no token that is valid');
    for (const candidate of candidatesOf(request)) {
      try {
        return { user: await this.#options.access.userOfToken(candidate.token), candidate };
      } catch (error) {
        refusal = this.#moreTelling(refusal, toError(error));
      }
    }
    throw refusal;
  }

  /** A protocol need not be a token, so one candidate's refusal is not yet the answer. */
  #moreTelling(refusal: Error, latest: Error): Error {
    const status = statusOf(latest);
    if (status === 401 || statusOf(refusal) === 403) return refusal;
    if (status === 403) return latest;
    // The message stays out of the log: what a token library says may quote the token.
    this.#options.logger.warn(`a token could not be checked: ${latest.name}`);
    return new ServiceUnavailableError('tokens cannot be checked');
  }

  async #connect(
    { request, socket, head, sessionId }: OurUpgrade,
    user: User,
    protocol: string | undefined,
    signal: AbortSignal,
  ): Promise<void> {
    const { access, audit, sidecar } = this.#options;
    const action = attachBy(user.ref, sessionId);
    if (!isSessionId(sessionId)) {
      return audit.refused(action, new NotFoundError('no such session'));
    }
    const facts = await sidecar.sessionFacts(sessionId).catch(e => audit.refused(action, e));
    const far = await audit.run({ ...action, ...access.auditedAs(facts) }, async () => {
      if (facts.requester !== user.ref) {
        throw new NotAllowedError(`the session is \`${facts.requester}\`'s, not \`${user.ref}\`'s`);
      }
      const caller = await access.callerFor(user, facts.app);
      requireAny(caller, neededToAttach(facts));
      if (signal.aborted) throw new ClientGoneError();
      const headers = handshakeOf(request);
      const path = sessionPath(sessionId, 'attach');
      return sidecar.upgrade({ method: 'GET', path, caller, headers }, signal);
    });
    const detach = this.#join({ socket, head }, far, protocol);
    const end = this.#options.watch.begin({ session: sessionId, facts, detach, user });
    if (socket.destroyed) end();
    else socket.once('close', end);
  }

  #join(
    near: { socket: Duplex; head: Buffer },
    far: SidecarUpgrade,
    protocol: string | undefined,
  ): Detach {
    if (near.socket.destroyed) {
      far.socket.destroy();
      return () => undefined;
    }
    this.#options.hold(far.socket);
    const lines = [
      'HTTP/1.1 101 Switching Protocols',
      'Upgrade: websocket',
      'Connection: Upgrade',
      `Sec-WebSocket-Accept: ${far.accept}`,
      ...(protocol === undefined ? [] : [`Sec-WebSocket-Protocol: ${protocol}`]),
    ];
    near.socket.write(`${lines.join('\r\n')}\r\n\r\n`);
    return splice(near, far);
  }
}

function attachBy(initiator: string, sessionId: string): AuditedAction {
  return {
    eventId: 'tower-write',
    action: 'attach',
    permission: 'tower.breakglass.request',
    initiator,
    severity: 'medium',
    ...(isSessionId(sessionId) && { session: sessionId }),
  };
}

/** Every token that the client may mean, in the order in which they are tried. */
function candidatesOf(request: IncomingMessage): readonly Candidate[] {
  const protocols = (request.headers['sec-websocket-protocol'] ?? '')
    .split(',')
    .map(text => text.trim())
    .filter(text => text !== '');
  const bearer = /^Bearer[ ]+(\S+)$/i.exec(request.headers.authorization ?? '')?.[1];
  const candidates: Candidate[] = protocols.map(token => ({ token, from: 'protocol' }));
  if (bearer !== undefined) candidates.push({ token: bearer, from: 'authorization' });
  if (candidates.length > MOST_CANDIDATES) {
    throw new AuthenticationError(`at most ${MOST_CANDIDATES} tokens and protocols are tried`);
  }
  return candidates;
}

/** What the sidecar needs for its handshake, and nothing else of the browser's request. */
function handshakeOf(request: IncomingMessage) {
  return {
    connection: 'Upgrade',
    upgrade: 'websocket',
    'sec-websocket-version': request.headers['sec-websocket-version'] ?? '',
    'sec-websocket-key': request.headers['sec-websocket-key'] ?? '',
  };
}
