/**
 * Takes our upgrades from Backstage's HTTP server and leaves everything else as it would be
 * without us (B-4).
 *
 * Node stops giving upgrade requests to Express once any `upgrade` listener exists, and answers
 * none that no listener takes. Hence the invariants: an upgrade that is not ours reaches whoever
 * would have had it; none is left without an answer; none of ours outlives the plugin.
 */
import diagnostics from 'node:diagnostics_channel';
import { Server, ServerResponse, type IncomingMessage } from 'node:http';
import { Server as SecureServer } from 'node:https';
import type { Duplex } from 'node:stream';
import type { LoggerService } from '@backstage/backend-plugin-api';
import type { RequestHandler } from 'express';
import { reject } from './reject';

/** An upgrade request on one of our paths. */
export interface OurUpgrade {
  readonly request: IncomingMessage;
  readonly socket: Duplex;
  readonly head: Buffer;
  /** As the client wrote it; not checked. */
  readonly sessionId: string;
}

export interface DispatcherOptions {
  readonly logger: LoggerService;
  /** Judges and takes over one of our upgrades; it answers every refusal itself. */
  readonly handle: (upgrade: OurUpgrade) => Promise<void>;
  /** Where the server may see us, see `BreakglassConfig.basePaths`. */
  readonly basePaths: readonly string[];
  readonly listenPort: number | undefined;
  /** Backstage routes exact WebSocket paths itself, so one other listener is Backstage's own. */
  readonly hasFrameworkListener: boolean;
  /** Milliseconds that another plugin has to take an upgrade. */
  readonly unclaimedMs?: number;
}

const PLUGIN_PATH = '/api/glidepath/breakglass';
const CONNECTION = 'net.server.socket';
const REQUEST = 'http.server.request.start';

type HttpServer = Server | SecureServer;
type OnUpgrade = (request: IncomingMessage, socket: Duplex, head: Buffer) => void;

export class UpgradeDispatcher {
  readonly #options: DispatcherOptions;
  readonly #listeners = new Map<HttpServer, OnUpgrade>();
  /** Sockets that are ours, or that nobody else closes when the backend stops. */
  readonly #held = new Set<Duplex>();
  #stopped = false;

  constructor(options: DispatcherOptions) {
    this.#options = options;
    diagnostics.subscribe(CONNECTION, this.#onConnection);
    diagnostics.subscribe(REQUEST, this.#onRequest);
  }

  /** Sees to it that the server that brought a request to us also brings its upgrades. */
  readonly middleware: RequestHandler = (request, _response, next) => {
    this.#adopt(serverOf(request.socket));
    next();
  };

  /** Whether the plugin is stopping. */
  get stopped(): boolean {
    return this.#stopped;
  }

  /** Takes responsibility for a socket: it is destroyed when the plugin stops. */
  hold(socket: Duplex): void {
    if (this.#stopped) socket.destroy();
    this.#held.add(socket);
    socket.once('close', () => this.#held.delete(socket));
  }

  /** Lets go of the server and closes every socket that is ours. */
  stop(): void {
    this.#stopped = true;
    diagnostics.unsubscribe(CONNECTION, this.#onConnection);
    diagnostics.unsubscribe(REQUEST, this.#onRequest);
    for (const [server, onUpgrade] of this.#listeners) server.off('upgrade', onUpgrade);
    for (const socket of this.#held) socket.destroy();
  }

  // A connection is announced before its first byte is read, so even an upgrade that is the very
  // first request of the process finds the listener in place. The second channel finds the
  // server on connections that are older than this plugin.
  readonly #onConnection = (message: unknown) => {
    this.#adoptIfBackstage(serverOf((message as { socket?: unknown }).socket));
  };

  readonly #onRequest = (message: unknown) => {
    this.#adoptIfBackstage((message as { server?: unknown }).server);
  };

  /** Leaves other servers of the process alone, such as one for metrics. */
  #adoptIfBackstage(server: unknown): void {
    if (!isHttpServer(server) || this.#listeners.has(server)) return;
    const address = server.address();
    if (address === null || typeof address === 'string') return;
    const { listenPort } = this.#options;
    if (!listenPort || address.port === listenPort) this.#adopt(server);
  }

  #adopt(server: unknown): void {
    if (this.#stopped || !isHttpServer(server) || this.#listeners.has(server)) return;
    const onUpgrade: OnUpgrade = (request, socket, head) => {
      this.#dispatch(server, { request, socket, head });
    };
    this.#listeners.set(server, onUpgrade);
    // First of all, so that what others do to a socket can be told from what they found.
    server.prependListener('upgrade', onUpgrade);
    this.#options.logger.debug('taking terminal connections from the HTTP server');
  }

  #dispatch(server: HttpServer, upgrade: Omit<OurUpgrade, 'sessionId'>): void {
    const { request, socket } = upgrade;
    const path = (request.url ?? '').split('?', 1)[0] ?? '';
    if (!isWebSocket(request)) return handAsPlainRequest(server, upgrade);
    const sessionId = this.#sessionOf(path);
    if (sessionId === undefined) return this.#passOn(server, upgrade);
    // Before anything is awaited: a reset by the client must not end the process.
    socket.on('error', () => socket.destroy());
    this.hold(socket);
    if (this.#stopped) return;
    this.#options.handle({ ...upgrade, sessionId }).catch((error: Error) => {
      this.#options.logger.error('a terminal connection could not be judged', error);
      reject(socket, 500);
    });
  }

  #sessionOf(path: string): string | undefined {
    for (const base of this.#options.basePaths) {
      const prefix = `${base}${PLUGIN_PATH}/sessions/`;
      const id =
        path.startsWith(prefix) && /^([^/]{1,64})\/attach$/.exec(path.slice(prefix.length));
      if (id) return id[1];
    }
    return undefined;
  }

  /** An upgrade of somebody else: to the other listeners, or to Express where there is none. */
  #passOn(server: HttpServer, upgrade: Omit<OurUpgrade, 'sessionId'>): void {
    const { socket } = upgrade;
    const others = server.listenerCount('upgrade') - 1;
    if (others === 0) return this.#handToExpress(server, upgrade);
    const before = claimMarks(socket);
    // Every listener has been called when this runs. Backstage's own takes an upgrade at once or
    // not at all; any other may take it later.
    process.nextTick(() => {
      if (socket.destroyed || claimMarks(socket) !== before) return;
      if (others === 1 && this.#options.hasFrameworkListener) this.#handToExpress(server, upgrade);
      else this.#answerUnlessClaimed(socket);
    });
  }

  /** What Node does where no `upgrade` listener exists; plugins that rely on Express still work. */
  #handToExpress(
    server: HttpServer,
    { request, socket, head }: Omit<OurUpgrade, 'sessionId'>,
  ): void {
    if (head.length > 0) socket.unshift(head);
    const response = new ServerResponse(request);
    response.shouldKeepAlive = false;
    response.assignSocket(socket as never);
    response.once('finish', () => {
      response.detachSocket(socket as never);
      socket.end();
    });
    this.hold(socket);
    server.emit('request', request, response);
  }

  #answerUnlessClaimed(socket: Duplex): void {
    const written = bytesWritten(socket);
    const timer = setTimeout(() => {
      if (bytesWritten(socket) === written) reject(socket, 404);
    }, this.#options.unclaimedMs ?? 15_000);
    const forget = () => {
      clearTimeout(timer);
      this.#held.delete(socket);
    };
    // Until somebody writes to it, nobody else closes it when the backend stops.
    this.#held.add(socket);
    socket.once('close', forget);
  }
}

/**
 * An upgrade that we do not speak (`h2c`): an HTTP/1.1 server may ignore the offer, so the
 * request is read again without it, body and all, by a parser of its own.
 */
function handAsPlainRequest(server: HttpServer, upgrade: Omit<OurUpgrade, 'sessionId'>): void {
  const { request, socket, head } = upgrade;
  const lines = [`${request.method} ${request.url} HTTP/${request.httpVersion}`];
  for (let index = 0; index + 1 < request.rawHeaders.length; index += 2) {
    const name = request.rawHeaders[index] ?? '';
    const value = withoutOffer(name, request.rawHeaders[index + 1] ?? '');
    if (value !== undefined) lines.push(`${name}: ${value}`);
  }
  const bytes = Buffer.from(`${lines.join('\r\n')}\r\n\r\n`, 'latin1');
  socket.unshift(Buffer.concat([bytes, head]));
  server.emit(server instanceof SecureServer ? 'secureConnection' : 'connection', socket);
}

/** A header's value without what offers an upgrade; `undefined` if nothing is left of it. */
function withoutOffer(name: string, value: string): string | undefined {
  const key = name.toLowerCase();
  if (key === 'upgrade' || key === 'http2-settings') return undefined;
  if (key !== 'connection') return value;
  const offers = new Set(['upgrade', 'http2-settings']);
  const kept = value.split(',').filter(token => !offers.has(token.trim().toLowerCase()));
  return kept.length > 0 ? kept.join(',').trim() : undefined;
}

function isWebSocket(request: IncomingMessage): boolean {
  return request.headers.upgrade?.toLowerCase() === 'websocket';
}

function isHttpServer(value: unknown): value is HttpServer {
  return value instanceof Server || value instanceof SecureServer;
}

/** The server of an accepted connection; Node sets it, its types do not say so. */
function serverOf(socket: unknown): unknown {
  return typeof socket === 'object' && socket !== null && 'server' in socket
    ? socket.server
    : undefined;
}

/** Changes when somebody begins to use the socket. */
function claimMarks(socket: Duplex): string {
  const counts = ['error', 'close', 'end', 'data', 'readable'].map(e => socket.listenerCount(e));
  return [...counts, bytesWritten(socket)].join();
}

function bytesWritten(socket: Duplex): number {
  return 'bytesWritten' in socket ? Number(socket.bytesWritten) : 0;
}
