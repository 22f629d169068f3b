// Browsers without a bundler: the module is fetched from beside the glue, or from `source`.
import init, * as door from './dist/web/decisions.js';
import { bind, DecisionInputError } from './dist/facade.mjs';

let loading;

const beside = new URL('./dist/web/decisions_bg.wasm', import.meta.url);

export function load(source = beside) {
  loading ??= init({ module_or_path: source }).then(
    () => bind(door),
    error => {
      loading = undefined; // a page that was offline may try again
      throw error;
    },
  );
  return loading;
}

export { DecisionInputError };
