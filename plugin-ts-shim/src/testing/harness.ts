/**
 * A real Backstage backend on port 0 with this plugin: the HTTP server, its routers and the
 * auditor are Backstage's own; who a token belongs to and what is allowed are tables.
 */
import { createBackend } from '@backstage/backend-defaults';
import { rootHttpRouterServiceFactory } from '@backstage/backend-defaults/rootHttpRouter';
import {
  coreServices,
  createServiceFactory,
  type AuthService,
  type BackendFeature,
  type BackstageCredentials,
  type LoggerService,
  type PermissionsService,
  type UserInfoService,
} from '@backstage/backend-plugin-api';
import { ConfigReader } from '@backstage/config';
import { AuthenticationError } from '@backstage/errors';
import { AuthorizeResult } from '@backstage/plugin-permission-common';
import type { JsonObject } from '@backstage/types';
import type { Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { glidepathPlugin } from '../plugin';

/** What stands for a person, or for something that is not one. */
export type Principal = JsonObject & { readonly type: 'user' | 'service' };

export const person = (ref: string): Principal => ({ type: 'user', userEntityRef: ref });

/** Tokens of the backends under test. Each is a legal subprotocol. */
export const TOKENS = {
  alice: 'token-of-alice-0123456789',
  bob: 'token-of-bob-0123456789',
  expired: 'token-expired-0123456789',
  service: 'token-of-a-service-0123456789',
  delegated: 'token-delegated-0123456789',
  cookie: 'token-limited-0123456789',
} as const;

const PRINCIPALS: Record<string, Principal> = {
  [TOKENS.alice]: person('user:default/Alice'),
  [TOKENS.bob]: person('user:default/bob'),
  [TOKENS.service]: { type: 'service', subject: 'external:ci' },
  [TOKENS.delegated]: {
    ...person('user:default/alice'),
    actor: { type: 'service', subject: 'plugin:x' },
  },
};

/** One line of the log. */
export interface Line {
  readonly level: string;
  readonly message: string;
  readonly meta: JsonObject;
}

/** What was asked of the permission backend, call by call. */
export type Question = { permission: string; resourceRef: string | undefined };

export interface TestBackend {
  readonly port: number;
  readonly url: string;
  readonly server: Server;
  readonly lines: Line[];
  readonly asked: Question[][];
  /** Every log line as one text. */
  logText(): string;
  /** Audit events that are finished, as the runbook's query sees them. */
  audited(): JsonObject[];
  stop(): Promise<void>;
}

export interface TestBackendOptions {
  readonly socketPath: string;
  readonly config?: JsonObject;
  readonly breakglass?: JsonObject;
  /** `user permission` pairs that are answered with something else than DENY. */
  readonly answers?: Record<string, AuthorizeResult>;
  readonly authorize?: PermissionsService['authorize'];
  readonly features?: readonly BackendFeature[];
  readonly groups?: Record<string, string[]>;
  readonly configure?: (server: Server) => void;
}

export const PERMITTED: Record<string, AuthorizeResult> = {
  'user:default/Alice tower.breakglass.request': AuthorizeResult.ALLOW,
};

export async function startBackend(options: TestBackendOptions): Promise<TestBackend> {
  const lines: Line[] = [];
  const asked: Question[][] = [];
  let server: Server | undefined;
  const backend = createBackend();
  for (const factory of factories(options, lines, asked)) backend.add(factory);
  backend.add(
    rootHttpRouterServiceFactory({
      configure(context) {
        server = context.server;
        options.configure?.(context.server);
        context.applyDefaults();
      },
    }),
  );
  for (const feature of options.features ?? []) backend.add(feature);
  backend.add(glidepathPlugin);
  try {
    await backend.start();
  } catch (error) {
    // The server listens before plugins start, and would keep the process alive.
    await backend.stop().catch(() => undefined);
    server?.close();
    throw error;
  }
  const { port } = server?.address() as AddressInfo;
  return {
    port,
    url: `http://127.0.0.1:${port}/api/glidepath/breakglass`,
    server: server as Server,
    lines,
    asked,
    logText: () => lines.map(line => JSON.stringify(line)).join('\n'),
    audited: () =>
      lines
        .map(line => line.meta)
        .filter(meta => meta.isAuditEvent === true && meta.status !== 'initiated'),
    stop: () => backend.stop(),
  };
}

function factories(options: TestBackendOptions, lines: Line[], asked: Question[][]) {
  return [
    createServiceFactory({
      service: coreServices.rootConfig,
      deps: {},
      factory: () => new ConfigReader(configOf(options)) as never,
    }),
    createServiceFactory({
      service: coreServices.rootLogger,
      deps: {},
      factory: () => recorder(lines, {}) as never,
    }),
    createServiceFactory({ service: coreServices.auth, deps: {}, factory: () => authService() }),
    createServiceFactory({
      service: coreServices.userInfo,
      deps: {},
      factory: (): UserInfoService => ({
        async getUserInfo(credentials) {
          const { userEntityRef } = (credentials as BackstageCredentials<never>).principal as {
            userEntityRef: string;
          };
          return { userEntityRef, ownershipEntityRefs: options.groups?.[userEntityRef] ?? [] };
        },
      }),
    }),
    createServiceFactory({
      service: coreServices.permissions,
      deps: {},
      factory: () => permissionsService(options, asked),
    }),
  ];
}

function configOf({ socketPath, config = {}, breakglass = {} }: TestBackendOptions): JsonObject {
  return {
    app: { baseUrl: 'http://tower.test' },
    backend: { baseUrl: 'http://backstage.test', listen: { host: '127.0.0.1', port: 0 } },
    permission: { enabled: true },
    glidepath: { breakglass: { socketPath, ...breakglass } },
    ...config,
  };
}

function recorder(lines: Line[], fields: JsonObject): LoggerService {
  const at = (level: string) => (message: string, meta?: Error | JsonObject) => {
    const extra = meta instanceof Error ? { error: String(meta.stack) } : meta;
    lines.push({ level, message, meta: { ...fields, ...extra } });
  };
  return {
    error: at('error'),
    warn: at('warn'),
    info: at('info'),
    debug: at('debug'),
    child: more => recorder(lines, { ...fields, ...(more instanceof Error ? {} : more) }),
  };
}

function authService(): AuthService {
  const none = { $$type: '@backstage/BackstageCredentials', principal: { type: 'none' } };
  const service = { type: 'service', subject: 'plugin:glidepath' };
  const auth = {
    async authenticate(token: string, how?: { allowLimitedAccess?: boolean }) {
      if (token === TOKENS.cookie && how?.allowLimitedAccess) {
        return { ...none, principal: PRINCIPALS[TOKENS.alice] };
      }
      const principal = PRINCIPALS[token];
      if (!principal) throw new AuthenticationError('Illegal token');
      return { ...none, principal };
    },
    isPrincipal(credentials: { principal: { type: string } }, type: string) {
      return type === 'unknown' || credentials.principal.type === type;
    },
    getNoneCredentials: async () => none,
    getOwnServiceCredentials: async () => ({ ...none, principal: service }),
    getPluginRequestToken: async () => ({ token: 'plugin-token' }),
    listPublicServiceKeys: async () => ({ keys: [] }),
  };
  return auth as unknown as AuthService;
}

function permissionsService(options: TestBackendOptions, asked: Question[][]): PermissionsService {
  const answers = options.answers ?? PERMITTED;
  return {
    async authorize(questions, how) {
      asked.push(
        questions.map(question => ({
          permission: question.permission.name,
          resourceRef: 'resourceRef' in question ? question.resourceRef : undefined,
        })),
      );
      if (options.authorize) return options.authorize(questions, how);
      const { principal } = how?.credentials as unknown as { principal: { userEntityRef: string } };
      return questions.map(question => {
        const key = `${principal.userEntityRef} ${question.permission.name}`;
        return { result: answers[key] ?? AuthorizeResult.DENY } as never;
      });
    },
    authorizeConditional: () => Promise.reject(new Error('not asked by this plugin')),
  };
}
