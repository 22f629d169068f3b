/**
 * Development only (B-9): starts the sidecar, starts it again when it exits, and stops it with
 * the plugin. In production the sidecar is a container of its own.
 *
 * Invariant: after `stop` no process is left and none is started.
 */
import { spawn, type ChildProcess } from 'node:child_process';
import type { Readable } from 'node:stream';
import type { LoggerService } from '@backstage/backend-plugin-api';
import type { SidecarProcessConfig } from './config';

/** How patient the supervisor is, in milliseconds. */
export interface Patience {
  readonly firstDelay: number;
  readonly longestDelay: number;
  /** A process that lived this long starts the delays over. */
  readonly steady: number;
  /** From SIGTERM to SIGKILL. The sidecar needs up to 10 s to flush (O-6). */
  readonly grace: number;
}

const DEFAULT_PATIENCE: Patience = {
  firstDelay: 500,
  longestDelay: 30_000,
  steady: 60_000,
  grace: 12_000,
};

/** A line of the sidecar's output is cut here. */
const LINE_LIMIT = 8 * 1024;

export class Supervisor {
  readonly #command: SidecarProcessConfig;
  readonly #logger: LoggerService;
  readonly #patience: Patience;
  #child: ChildProcess | undefined;
  #retry: NodeJS.Timeout | undefined;
  #delay: number;
  #stopped = false;

  constructor(options: {
    command: SidecarProcessConfig;
    logger: LoggerService;
    patience?: Partial<Patience>;
  }) {
    this.#command = options.command;
    this.#logger = options.logger.child({ component: 'sidecar' });
    this.#patience = { ...DEFAULT_PATIENCE, ...options.patience };
    this.#delay = this.#patience.firstDelay;
  }

  /** The running process' id, if there is one. */
  get pid(): number | undefined {
    return this.#child?.pid;
  }

  start(): void {
    if (this.#stopped) return;
    const { command, args } = this.#command;
    const startedAt = Date.now();
    const child = spawn(command, args, { stdio: ['ignore', 'pipe', 'pipe'] });
    this.#child = child;
    this.#passOn(child.stdout, line => this.#logger.info(line));
    this.#passOn(child.stderr, line => this.#logger.warn(line));
    child.once('error', error => this.#ended(child, startedAt, error.message));
    child.once('exit', (code, signal) => {
      this.#ended(child, startedAt, signal ? `killed by ${signal}` : `exit status ${code}`);
    });
  }

  /** Asks the sidecar to stop, makes it stop after the grace period, and waits for it. */
  async stop(): Promise<void> {
    this.#stopped = true;
    clearTimeout(this.#retry);
    const child = this.#child;
    if (!child) return;
    const gone = new Promise<void>(resolve => {
      child.once('exit', () => resolve());
      child.once('error', () => resolve());
    });
    child.kill('SIGTERM');
    const killer = setTimeout(() => child.kill('SIGKILL'), this.#patience.grace);
    await gone;
    clearTimeout(killer);
  }

  #ended(child: ChildProcess, startedAt: number, how: string): void {
    if (this.#child !== child) return;
    this.#child = undefined;
    if (this.#stopped) return;
    const { firstDelay, longestDelay, steady } = this.#patience;
    if (Date.now() - startedAt >= steady) this.#delay = firstDelay;
    this.#logger.error(`the sidecar ended (${how}); it is started again in ${this.#delay} ms`);
    this.#retry = setTimeout(() => this.start(), this.#delay);
    this.#delay = Math.min(this.#delay * 2, longestDelay);
  }

  #passOn(stream: Readable | null, log: (line: string) => void): void {
    let rest = '';
    stream?.setEncoding('utf8');
    stream?.on('data', (text: string) => {
      const lines = (rest + text).split('\n');
      rest = (lines.pop() ?? '').slice(0, LINE_LIMIT);
      for (const line of lines) if (line.trim() !== '') log(line.slice(0, LINE_LIMIT));
    });
    stream?.on('end', () => {
      if (rest.trim() !== '') log(rest);
    });
  }
}
