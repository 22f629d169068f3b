/**
 * HTTP/1.1 over the sidecar's Unix socket.
 *
 * Invariants: every call is bounded in time and in size; an error that leaves this file is a
 * Backstage error; what changes something is sent once and never repeated.
 */
import { Agent, request as httpRequest } from 'node:http';
import type { ClientRequest, IncomingMessage, OutgoingHttpHeaders } from 'node:http';
import type { Duplex } from 'node:stream';
import { BadSidecarAnswerError, ClientGoneError, errorFromAnswer, sidecarAway } from './errors';
import {
  CALLER_HEADER,
  encodeCaller,
  readSessionFacts,
  sessionPath,
  type Caller,
  type SessionFacts,
} from './protocol';

/** Time and size limits; the defaults are what the plugin runs with. */
export interface SidecarLimits {
  /** Milliseconds for the sidecar to begin an answer. */
  readonly answerMs: number;
  /** Milliseconds for a session to open: the debug container has 120 s to run (S-14a). */
  readonly openMs: number;
  /** Milliseconds that a stream may stand still. */
  readonly stallMs: number;
  /** Bytes of a JSON answer. */
  readonly answerBytes: number;
}

const DEFAULT_LIMITS: SidecarLimits = {
  answerMs: 15_000,
  openMs: 180_000,
  stallMs: 60_000,
  answerBytes: 4 * 1024 * 1024,
};

/** One call. `caller` is left out only where the protocol says so. */
export interface SidecarCall {
  readonly method: 'GET' | 'POST';
  readonly path: string;
  readonly caller?: Caller;
  readonly body?: unknown;
  readonly headers?: OutgoingHttpHeaders;
  /** The call opens a session and may take minutes. */
  readonly opens?: boolean;
}

/** A JSON answer, 2xx. */
export interface SidecarAnswer {
  readonly status: number;
  readonly body: unknown;
}

/** The sidecar's half of a terminal, after its 101. */
export interface SidecarUpgrade {
  readonly accept: string;
  readonly socket: Duplex;
  readonly head: Buffer;
}

/** Whether the sidecar takes sessions, and what it says is missing. */
export interface SidecarReadiness {
  readonly ready: boolean;
  readonly missing: readonly string[];
}

export class SidecarClient {
  readonly #socketPath: string;
  readonly #limits: SidecarLimits;
  readonly #agent = new Agent({ keepAlive: true, maxSockets: 64, maxFreeSockets: 8 });

  constructor(options: { socketPath: string; limits?: Partial<SidecarLimits> }) {
    this.#socketPath = options.socketPath;
    this.#limits = { ...DEFAULT_LIMITS, ...options.limits };
  }

  /** Closes idle connections; calls under way end on their own. */
  close(): void {
    this.#agent.destroy();
  }

  /** The facts about a session that a permission call needs; `NotFoundError` if there is none. */
  async sessionFacts(id: string): Promise<SessionFacts> {
    const { body } = await this.json({ method: 'GET', path: sessionPath(id, 'app') });
    const facts = readSessionFacts(body);
    if (!facts) throw new BadSidecarAnswerError('a session without an app');
    return facts;
  }

  /** Asks for a JSON answer; any status but 2xx is thrown as the error it means. */
  async json(call: SidecarCall): Promise<SidecarAnswer> {
    const response = await this.#send(call);
    const body = await this.#readJson(response);
    const status = response.statusCode ?? 0;
    if (status < 200 || status > 299) throw errorFromAnswer(status, body);
    return { status, body };
  }

  /** Asks for a stream; the caller must read or destroy it. */
  async stream(call: SidecarCall): Promise<IncomingMessage> {
    const response = await this.#send(call);
    const status = response.statusCode ?? 0;
    if (status !== 200) throw errorFromAnswer(status, await this.#readJson(response));
    response.setTimeout(this.#limits.stallMs, () => response.destroy(sidecarAway()));
    return response;
  }

  /** Whether the sidecar is ready. Throws `ServiceUnavailableError` if it does not answer. */
  async readiness(): Promise<SidecarReadiness> {
    const response = await this.#send({ method: 'GET', path: '/readyz' });
    const body = await this.#readJson(response);
    const told = typeof body === 'object' && body !== null ? body : {};
    const missing = 'missing' in told && Array.isArray(told.missing) ? told.missing : [];
    return { ready: response.statusCode === 200, missing: missing.map(String) };
  }

  /** Sends a browser's WebSocket handshake; any answer but 101 is thrown as the error it means. */
  async upgrade(call: SidecarCall, signal: AbortSignal): Promise<SidecarUpgrade> {
    const request = this.#request(call, { agent: false, signal });
    return new Promise((resolve, reject) => {
      request.once('error', cause => {
        reject(signal.aborted ? new ClientGoneError() : sidecarAway(cause));
      });
      request.once('timeout', () => request.destroy(new Error('no answer in time')));
      request.once('response', response => {
        this.#readJson(response).then(
          body => reject(errorFromAnswer(response.statusCode ?? 0, body)),
          reject,
        );
      });
      request.once('upgrade', (response, socket, head) => {
        // It may fail before anybody listens, and must not end the process.
        socket.on('error', () => socket.destroy());
        const accept = response.headers['sec-websocket-accept'];
        if (typeof accept !== 'string') {
          socket.destroy();
          reject(new BadSidecarAnswerError('an upgrade without a handshake'));
          return;
        }
        socket.setTimeout(0);
        resolve({ accept, socket, head });
      });
      request.end();
    });
  }

  async #send(call: SidecarCall): Promise<IncomingMessage> {
    try {
      return await this.#attempt(call);
    } catch (error) {
      // A pooled connection that the sidecar closed meanwhile says nothing about the sidecar.
      if (error instanceof StaleConnection) return await this.#attempt(call);
      throw error;
    }
  }

  async #attempt(call: SidecarCall): Promise<IncomingMessage> {
    // What changes something gets a connection of its own, so it is never sent twice.
    const agent = call.method === 'GET' ? this.#agent : false;
    const request = this.#request(call, { agent });
    return new Promise((resolve, reject) => {
      request.once('response', response => {
        request.setTimeout(0);
        resolve(response);
      });
      request.once('timeout', () => request.destroy(new Error('no answer in time')));
      request.once('error', (cause: NodeJS.ErrnoException) => {
        const stale =
          request.reusedSocket && (cause.code === 'ECONNRESET' || cause.code === 'EPIPE');
        reject(stale ? new StaleConnection() : sidecarAway(cause));
      });
      if (call.body === undefined) request.end();
      else request.end(JSON.stringify(call.body));
    });
  }

  #request(call: SidecarCall, how: { agent: Agent | false; signal?: AbortSignal }): ClientRequest {
    const headers: OutgoingHttpHeaders = { host: 'sidecar', ...call.headers };
    if (call.caller) headers[CALLER_HEADER] = encodeCaller(call.caller);
    if (call.body !== undefined) headers['content-type'] = 'application/json';
    return httpRequest({
      ...how,
      socketPath: this.#socketPath,
      method: call.method,
      path: call.path,
      headers,
      timeout: call.opens ? this.#limits.openMs : this.#limits.answerMs,
    });
  }

  async #readJson(response: IncomingMessage): Promise<unknown> {
    response.setTimeout(this.#limits.stallMs, () => response.destroy(new Error('stalled')));
    const chunks: Buffer[] = [];
    let size = 0;
    try {
      for await (const chunk of response as AsyncIterable<Buffer>) {
        size += chunk.length;
        if (size > this.#limits.answerBytes) {
          response.destroy();
          throw new BadSidecarAnswerError('it is too large');
        }
        chunks.push(chunk);
      }
    } catch (error) {
      if (error instanceof BadSidecarAnswerError) throw error;
      throw sidecarAway(error as Error);
    }
    try {
      return JSON.parse(Buffer.concat(chunks).toString('utf8'));
    } catch {
      throw new BadSidecarAnswerError(`status ${response.statusCode ?? 0} without JSON`);
    }
  }
}

/** A pooled connection was closed by the sidecar before it read the request. */
class StaleConnection extends Error {}
