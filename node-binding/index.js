'use strict';
// Finds the addon for this machine: a local build first, then the platform's package, as napi
// names them. Where none loads (no such package, another C library, another version), the wasm
// build answers, and answers the same: one set of vectors runs through both.

const facade = require('./dist/facade.cjs');
const { name: packageName, version } = require('./package.json');

/** What stands after the package's name; `undefined` where no addon is built. */
function platformName() {
  const { platform, arch } = process;
  switch (platform) {
    case 'linux':
      return `linux-${arch}-${isMusl() ? 'musl' : 'gnu'}`;
    case 'darwin':
      return `darwin-${arch}`;
    case 'win32':
      return `win32-${arch}-msvc`;
    default:
      return undefined;
  }
}

/** Node's own report names the version of glibc that it runs on; on musl there is none. */
function isMusl() {
  const { excludeNetwork } = process.report;
  process.report.excludeNetwork = true; // the report would look up the names of open connections
  try {
    return process.report.getReport().header.glibcVersionRuntime === undefined;
  } finally {
    process.report.excludeNetwork = excludeNetwork;
  }
}

function loadAddon(request) {
  const addon = require(request);
  if (addon.version() !== version) {
    throw new Error(`${request} is version ${addon.version()}, not ${version}; it is not used`);
  }
  return addon;
}

const loadErrors = [];

function load() {
  const platform = platformName();
  const requests =
    platform === undefined
      ? []
      : [`./decisions.${platform}.node`, `${packageName}-${platform}`];
  for (const request of requests) {
    try {
      const decisions = facade.bind(loadAddon(request));
      return { decisions, host: 'native', DecisionInputError: facade.DecisionInputError };
    } catch (error) {
      loadErrors.push(error);
    }
  }
  // Its functions throw its own class of error.
  const { decisions, DecisionInputError } = require('@hangar/breakglass-decisions/node');
  return { decisions, host: 'wasm', DecisionInputError };
}

const { decisions, host, DecisionInputError } = load();

module.exports = {
  decisions,
  load: async () => decisions,
  host,
  loadErrors: Object.freeze(loadErrors),
  DecisionInputError,
};
