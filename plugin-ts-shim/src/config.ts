/**
 * What the plugin reads from Backstage's configuration, parsed once (B-10a).
 *
 * Invariant: a value of this type is possible; a wrong one throws at start and names its key.
 */
import { isAbsolute } from 'node:path';
import type { RootConfigService } from '@backstage/backend-plugin-api';
import { parseEntityRef, stringifyEntityRef } from '@backstage/catalog-model';
import { InputError, toError } from '@backstage/errors';

type Config = ReturnType<RootConfigService['getConfig']>;

/** How to start the sidecar in development (B-9). */
export interface SidecarProcessConfig {
  readonly command: string;
  readonly args: readonly string[];
}

export interface BreakglassConfig {
  /** The sidecar's API socket. */
  readonly socketPath: string;
  /** Origins that may open a terminal: the app's, the backend's, and the configured ones. */
  readonly allowedOrigins: ReadonlySet<string>;
  /** Where the server may see this plugin: `''`, and the base URL's path if a proxy keeps it. */
  readonly basePaths: readonly string[];
  /** The port that the backend listens on; 0 or `undefined` where the system chooses. */
  readonly listenPort: number | undefined;
  /** The catalog entity of an app (S-10a). */
  entityRefOf(app: string): string;
  /** Who may review broken glass besides approvers: full entity refs, lower case. */
  readonly reviewers: ReadonlySet<string>;
  readonly sidecar: SidecarProcessConfig | undefined;
}

const ROOT = 'glidepath.breakglass';
const APP = '<app>';
/** What fits into `sockaddr_un` on Linux and, with room to spare, on macOS. */
const SOCKET_PATH_BYTES = 103;

/** Reads and checks the configuration. */
export function readConfig(root: RootConfigService): BreakglassConfig {
  if (root.getOptionalBoolean('permission.enabled') !== true) {
    throw new InputError(
      '`permission.enabled` must be true: without it Backstage allows everything to everyone, ' +
        'so the break-glass plugin does not start',
    );
  }
  const config = root.getOptionalConfig(ROOT);
  if (!config) throw new InputError(`\`${ROOT}\` is missing: at least \`socketPath\` is needed`);
  // Read here for their types' sake: the sidecar is configured from the same lines.
  config.getOptionalStringArray('groundClusters');
  config.getOptionalString('legacyBucket');
  return {
    socketPath: readSocketPath(config),
    allowedOrigins: readOrigins(root, config),
    basePaths: readBasePaths(root),
    listenPort: readListenPort(root),
    entityRefOf: readEntityRefPattern(config),
    reviewers: readReviewers(config),
    sidecar: readSidecar(config),
  };
}

function readSocketPath(config: Config): string {
  const path = config.getString('socketPath');
  if (!isAbsolute(path)) throw wrong('socketPath', `\`${path}\` is not an absolute path`);
  if (Buffer.byteLength(path) > SOCKET_PATH_BYTES) {
    throw wrong('socketPath', `is longer than ${SOCKET_PATH_BYTES} bytes`);
  }
  return path;
}

function readOrigins(root: RootConfigService, config: Config): ReadonlySet<string> {
  const origins = new Set<string>();
  for (const key of ['app.baseUrl', 'backend.baseUrl']) {
    const url = root.getOptionalString(key);
    if (url !== undefined) origins.add(new URL(url).origin);
  }
  for (const text of config.getOptionalStringArray('allowedOrigins') ?? []) {
    if (!URL.canParse(text) || new URL(text).origin !== text) {
      throw wrong(
        'allowedOrigins',
        `\`${text}\` is not an origin such as \`https://tower.example\``,
      );
    }
    origins.add(text);
  }
  return origins;
}

function readBasePaths(root: RootConfigService): readonly string[] {
  const url = root.getOptionalString('backend.baseUrl');
  const path = url === undefined ? '' : new URL(url).pathname.replace(/\/+$/, '');
  return path === '' ? [''] : ['', path];
}

function readListenPort(root: RootConfigService): number | undefined {
  const listen = root.getOptional('backend.listen');
  if (typeof listen === 'string') {
    const port = Number(listen.slice(listen.lastIndexOf(':') + 1));
    return Number.isInteger(port) ? port : undefined;
  }
  return root.getOptionalNumber('backend.listen.port');
}

function readEntityRefPattern(config: Config): (app: string) => string {
  const pattern = config.getOptionalString('appEntityRef') ?? `component:default/${APP}`;
  const refOf = (app: string) => stringifyEntityRef(parseEntityRef(pattern.replaceAll(APP, app)));
  if (!pattern.includes(APP))
    throw wrong('appEntityRef', `\`${pattern}\` does not contain \`${APP}\``);
  try {
    refOf('x');
  } catch (error) {
    throw wrong('appEntityRef', `\`${pattern}\` is not an entity ref: ${toError(error).message}`);
  }
  return refOf;
}

function readReviewers(config: Config): ReadonlySet<string> {
  const refs = config.getOptionalStringArray('reviewers') ?? [];
  return new Set(
    refs.map(text => {
      try {
        const ref = parseEntityRef(text, { defaultKind: 'group', defaultNamespace: 'default' });
        return stringifyEntityRef(ref);
      } catch (error) {
        throw wrong('reviewers', `\`${text}\` is not an entity ref: ${toError(error).message}`);
      }
    }),
  );
}

function readSidecar(config: Config): SidecarProcessConfig | undefined {
  const sidecar = config.getOptionalConfig('sidecar');
  if (!sidecar) return undefined;
  const command = sidecar.getString('command');
  const args = sidecar.getOptionalStringArray('args');
  const configPath = sidecar.getOptionalString('configPath');
  if (args && configPath !== undefined) {
    throw wrong('sidecar', 'has both `args` and `configPath`; `args` already says everything');
  }
  if (args) return { command, args };
  return {
    command,
    args: ['serve', ...(configPath === undefined ? [] : ['--config', configPath])],
  };
}

function wrong(key: string, what: string): InputError {
  return new InputError(`\`${ROOT}.${key}\`: ${what}`);
}
