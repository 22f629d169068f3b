/**
 * A sidecar for tests: it speaks the caller protocol over a real Unix socket, keeps what it was
 * sent, and fails on command. It decides nothing but what the protocol says it compares.
 */
import { mkdtemp, rm } from 'node:fs/promises';
import {
  createServer,
  type IncomingHttpHeaders,
  type IncomingMessage,
  type Server,
} from 'node:http';
import type { ServerResponse } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Duplex } from 'node:stream';
import { WebSocketServer, type WebSocket } from 'ws';
import { CALLER_HEADER, type Caller, type SessionFacts } from '../sidecar/protocol';

/** One request, as the sidecar saw it. */
export interface SeenCall {
  readonly method: string;
  readonly path: string;
  readonly headers: IncomingHttpHeaders;
  readonly caller: Caller | undefined;
  readonly body: unknown;
}

/** What the sidecar does instead of answering. */
export type Fault =
  | { readonly kind: 'answer'; readonly status: number; readonly body: string }
  | { readonly kind: 'hang' }
  | { readonly kind: 'reset' };

export interface FakeSession extends SessionFacts {
  readonly state: 'requested' | 'approved' | 'active' | 'ended';
  readonly pod: string;
  readonly container: string;
  readonly podImage: string | null;
}

/** A session of `user:default/alice` on app `shop`, active unless said otherwise. */
export function aSession(fields: Partial<FakeSession> = {}): FakeSession {
  return {
    app: 'shop',
    env: 'staging',
    requester: 'user:default/alice',
    approver: null,
    sensitive: false,
    tier: 'Ground',
    glassBroken: false,
    state: 'active',
    pod: 'web-1',
    container: 'app',
    podImage: 'registry.example.org/shop:1.2',
    ...fields,
  };
}

const RECORDING = '{"version":2,"width":80,"height":24}\n[0.1,"o","hello"]\n';

export class FakeSidecar {
  readonly sessions = new Map<string, FakeSession>();
  readonly calls: SeenCall[] = [];
  readonly terminals = new Set<WebSocket>();
  missing: string[] = [];
  readonly #faults: Array<{ path: RegExp; fault: Fault }> = [];
  readonly #websockets = new WebSocketServer({ noServer: true });
  readonly #sockets = new Set<Duplex>();
  #server: Server | undefined;

  private constructor(
    readonly socketPath: string,
    readonly directory: string | undefined,
  ) {}

  /** Starts on the given path, or in a directory of its own. */
  static async start(path?: string): Promise<FakeSidecar> {
    const directory = path === undefined ? await mkdtemp(join(tmpdir(), 'breakglass-')) : undefined;
    const fake = new FakeSidecar(path ?? join(directory as string, 'api.sock'), directory);
    await fake.listen();
    return fake;
  }

  /** Answers from the next connection on. */
  async listen(): Promise<void> {
    const server = createServer((req, res) => void this.#onRequest(req, res));
    server.on('upgrade', (req, socket, head) => this.#onUpgrade(req, socket, head));
    server.on('connection', socket => {
      this.#sockets.add(socket);
      socket.once('close', () => this.#sockets.delete(socket));
    });
    await rm(this.socketPath, { force: true });
    await new Promise<void>(resolve => server.listen(this.socketPath, resolve));
    this.#server = server;
  }

  /** Is away: every connection is cut and none is taken. */
  async leave(): Promise<void> {
    const server = this.#server;
    if (!server) return;
    this.#server = undefined;
    const closed = new Promise(resolve => server.close(resolve));
    for (const socket of this.#sockets) socket.destroy();
    await closed;
  }

  /** Leaves for good and removes what it made. */
  async stop(): Promise<void> {
    await this.leave();
    if (this.directory) await rm(this.directory, { recursive: true, force: true });
  }

  /** The next request on such a path fails so. */
  failNext(path: RegExp, fault: Fault): void {
    this.#faults.push({ path, fault });
  }

  /** Calls whose path begins so. */
  callsTo(path: string): SeenCall[] {
    return this.calls.filter(call => call.path.startsWith(path));
  }

  async #onRequest(req: IncomingMessage, res: ServerResponse): Promise<void> {
    const call = this.#see(req, await readBody(req));
    const fault = this.#faultOf(call.path);
    if (fault?.kind === 'hang') return;
    if (fault?.kind === 'reset') return void req.socket.destroy();
    if (fault) return void res.writeHead(fault.status).end(fault.body);
    if (call.path === '/readyz') {
      const ready = this.missing.length === 0;
      return sendJson(res, ready ? 200 : 503, { ready, missing: this.missing });
    }
    if (call.path === '/v1/sessions' && call.method === 'POST') return this.#open(call, res);
    if (call.path.startsWith('/v1/sessions?')) return this.#list(call, res);
    const [, id = '', part = ''] = /^\/v1\/sessions\/([^/]+)(?:\/(.*))?$/.exec(call.path) ?? [];
    const session = this.sessions.get(id);
    if (!session) return sendError(res, 404, 'NotFoundError', 'there is no such session');
    if (part === 'app') {
      const { state: _, ...facts } = session;
      return sendJson(res, 200, facts);
    }
    if (call.caller?.app !== session.app) {
      return sendError(res, 404, 'NotFoundError', 'the session is not one of that app');
    }
    if (part === 'end') return this.#end(id, session, call, res);
    if (part === 'recording') return this.#recording(session, call, res);
    return sendJson(res, 200, { session: { id, ...session }, user: call.caller.user });
  }

  #open(call: SeenCall, res: ServerResponse): void {
    const { app, env, glassBroken = false } = call.body as Partial<FakeSession>;
    const requester = call.caller?.user as string;
    const fields = { app, env, glassBroken, requester } as Partial<FakeSession>;
    const id = `new${String(this.sessions.size).padStart(9, '0')}`;
    this.sessions.set(id, aSession(fields));
    sendJson(res, 201, { id, ...aSession(fields) });
  }

  #list(call: SeenCall, res: ServerResponse): void {
    const query = new URLSearchParams(call.path.split('?')[1]);
    const sessions = [...this.sessions]
      .filter(([, s]) => s.app === query.get('app') && s.env === query.get('env'))
      .map(([id, session]) => ({ id, ...session }));
    sendJson(res, 200, { sessions, user: call.caller?.user });
  }

  #end(id: string, session: FakeSession, call: SeenCall, res: ServerResponse): void {
    if (session.state === 'ended') {
      return sendError(res, 409, 'ConflictError', 'this session has already ended');
    }
    const ended = { ...session, state: 'ended' as const };
    this.sessions.set(id, ended);
    sendJson(res, 200, { id, ...ended, endedBy: call.caller?.user });
  }

  #recording(session: FakeSession, call: SeenCall, res: ServerResponse): void {
    if (session.sensitive && session.requester !== call.caller?.user) {
      return sendError(res, 403, 'NotAllowedError', 'this recording is sensitive');
    }
    res.writeHead(200, {
      'content-type': 'application/x-asciicast',
      'content-length': Buffer.byteLength(RECORDING),
      'x-recording-sha256': 'a'.repeat(64),
    });
    res.end(RECORDING);
  }

  #onUpgrade(req: IncomingMessage, socket: Duplex, head: Buffer): void {
    const call = this.#see(req, undefined);
    const fault = this.#faultOf(call.path);
    if (fault?.kind === 'hang') return;
    if (fault?.kind === 'reset') return void socket.destroy();
    const refusal = fault ?? this.#refusalOfAttach(call);
    if (refusal) {
      const { status, body } = refusal;
      const length = Buffer.byteLength(body);
      socket.end(`HTTP/1.1 ${status} Refused\r\ncontent-length: ${length}\r\n\r\n${body}`);
      return;
    }
    this.#websockets.handleUpgrade(req, socket, head, terminal => {
      this.terminals.add(terminal);
      terminal.once('close', () => this.terminals.delete(terminal));
      terminal.on('error', () => terminal.terminate());
      terminal.on('message', (data, isBinary) => terminal.send(data, { binary: isBinary }));
    });
  }

  #refusalOfAttach(call: SeenCall): { status: number; body: string } | undefined {
    const session = this.sessions.get(
      /^\/v1\/sessions\/([^/]+)\/attach$/.exec(call.path)?.[1] ?? '',
    );
    if (session?.state === 'active') return undefined;
    const status = session ? 410 : 404;
    const name = session ? 'GoneError' : 'NotFoundError';
    return { status, body: errorBody(status, name, 'the session is not active') };
  }

  #see(req: IncomingMessage, body: unknown): SeenCall {
    const header = req.headers[CALLER_HEADER];
    const caller =
      typeof header === 'string'
        ? (JSON.parse(Buffer.from(header, 'base64url').toString('utf8')) as Caller)
        : undefined;
    const { method = '', url: path = '', headers } = req;
    const call = { method, path, headers, caller, body };
    this.calls.push(call);
    return call;
  }

  #faultOf(path: string): Fault | undefined {
    const index = this.#faults.findIndex(({ path: pattern }) => pattern.test(path));
    return index < 0 ? undefined : this.#faults.splice(index, 1)[0]?.fault;
  }
}

async function readBody(req: IncomingMessage): Promise<unknown> {
  const chunks: Buffer[] = [];
  for await (const chunk of req as AsyncIterable<Buffer>) chunks.push(chunk);
  const text = Buffer.concat(chunks).toString('utf8');
  return text === '' ? undefined : JSON.parse(text);
}

function sendJson(res: ServerResponse, status: number, body: unknown): void {
  res.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body));
}

function sendError(res: ServerResponse, status: number, name: string, message: string): void {
  res.writeHead(status, { 'content-type': 'application/json' });
  res.end(errorBody(status, name, message));
}

/** An error as the protocol has it. */
export function errorBody(
  status: number,
  name: string,
  message: string,
  more: object = {},
): string {
  return JSON.stringify({ error: { name, message, ...more }, response: { statusCode: status } });
}
