/**
 * Whether break-glass can be used: `GET /breakglass/health` (B-1).
 *
 * Anybody may ask, probes have no token, so the sidecar is asked at most once a second and the
 * answer says nothing about sessions.
 */
import type { SidecarClient } from './sidecar/SidecarClient';
import { SIDECAR_AWAY } from './sidecar/errors';

export interface HealthAnswer {
  readonly status: 200 | 503;
  readonly body: {
    readonly status: string;
    readonly reason?: string;
    readonly missing?: readonly string[];
  };
}

const REMEMBERED_MS = 1_000;

export class Health {
  readonly #sidecar: Pick<SidecarClient, 'readiness'>;
  #last: { at: number; answer: Promise<HealthAnswer> } | undefined;

  constructor(sidecar: Pick<SidecarClient, 'readiness'>) {
    this.#sidecar = sidecar;
  }

  /** The state of the sidecar, at most a second old. */
  check(): Promise<HealthAnswer> {
    const now = performance.now();
    if (!this.#last || now - this.#last.at > REMEMBERED_MS) {
      this.#last = { at: now, answer: this.#ask() };
    }
    return this.#last.answer;
  }

  async #ask(): Promise<HealthAnswer> {
    try {
      const { ready, missing } = await this.#sidecar.readiness();
      if (ready) return { status: 200, body: { status: 'ok' } };
      const reason = 'the break-glass sidecar is not ready to take sessions';
      return { status: 503, body: { status: 'unavailable', reason, missing } };
    } catch {
      return { status: 503, body: { status: 'unavailable', reason: SIDECAR_AWAY } };
    }
  }
}
